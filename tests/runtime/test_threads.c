/* Several contexts over one engine, from several threads at once, each with shapes of its own.
 * run-tests: threads */
#include "runtime/net.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 30, WIDTH = 32 };

static const char net[] =
    "graph \"net\" (%x: f32[n, 32], %c: bool[]) {\n"
    "  %k: f32[32, 32] = constant ramp()\n"
    "  %a = matmul(%x, %k)\n"
    "  %y = if(%c, %a) captures 1 do {\n"
    "    graph \"then\" (%p: f32[n, 32]) { %q = reduce(%p) {kind = \"sum\"} return %q }\n"
    "    graph \"else\" (%p: f32[n, 32]) { %q = pointwise(%p) {program = {1: relu(%0)}} return %q }\n"
    "  }\n"
    "  return %y, %a\n}\n";

typedef struct worker {
  tercel_engine *engine;
  int number;
  tercel_error err;
  tercel_status status;
  bool wrong;
} worker;

/* matmul with the ramp, in whole numbers, so that the order of summing does not matter. */
static float want(const float *row, int column) {
  float sum = 0;
  for (int i = 0; i < WIDTH; ++i) sum += row[i] * (float)((i * WIDTH + column) % 13 - 6) / 8;
  return sum;
}

static tercel_status run_rounds(worker *w, tercel_context *context) {
  float x[8 * WIDTH];
  for (int round = 0; round < ROUNDS; ++round) {
    const int64_t n = 1 + (w->number + round) % 8;
    uint8_t condition = (uint8_t)(round % 2);
    for (int i = 0; i < n * WIDTH; ++i) x[i] = (float)((i * 7 + round + w->number) % 9 - 4);
    const tercel_view view = {TERCEL_DTYPE_F32, 2, {n, WIDTH}, x, (size_t)n * WIDTH * 4};
    const tercel_view c = {TERCEL_DTYPE_BOOL, 0, {0}, &condition, 1};
    TERCEL_TRY(tercel_context_set_input(context, 0, &view, &w->err));
    TERCEL_TRY(tercel_context_set_input(context, 1, &c, &w->err));
    TERCEL_TRY(tercel_context_run(context, &w->err));
    tercel_view out;
    TERCEL_TRY(tercel_context_get_output(context, 1, &out, &w->err));
    for (int i = 0; i < n * WIDTH; ++i) {
      const float is = ((const float *)out.data)[i], should = want(x + i / WIDTH * WIDTH, i % WIDTH);
      w->wrong |= is < should || is > should;
    }
  }
  return TERCEL_OK;
}

static void *work(void *arg) {
  worker *const w = arg;
  tercel_context *context = NULL;
  w->status = tercel_context_create(w->engine, NULL, &context, &w->err);
  if (w->status == TERCEL_OK) w->status = run_rounds(w, context);
  tercel_context_destroy(context);
  return NULL;
}

static void test_contexts_in_threads(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_engine_options options = net_options();
  options.num_threads = 2;
  assert_ok(net_try_build(net, &options, &engine, &err), &err);
  assert_int_equal(tercel_engine_num_threads(engine), 2);
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    workers[i] = (worker){.engine = engine, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    assert_ok(workers[i].status, &workers[i].err);
    assert_false(workers[i].wrong);
  }
  tercel_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_contexts_in_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
