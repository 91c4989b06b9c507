/* Tuning engines: at build, with a file of times, and beside contexts that run; what is computed stays the same within rounding.
 * run-tests: threads */
#include "runtime/net.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHANNELS = 16, SIDE = 12, COUNT = CHANNELS * SIDE * SIDE, CONTEXTS = 3 };

/* Convolutions with several tactics each, two of them alike. */
static const char net[] = "graph \"net\" (%x: f32[1, 16, 12, 12]) {\n"
                          "  %v: f32[16, 16, 3, 3] = constant ramp()\n"
                          "  %w: f32[16, 16, 3, 3] = constant ramp()\n"
                          "  %u: f32[16, 16, 5, 1] = constant ramp()\n"
                          "  %a = conv(%x, %v) {pads = [1, 1, 1, 1]}\n"
                          "  %b = conv(%a, %w) {pads = [1, 1, 1, 1]}\n"
                          "  %y = conv(%b, %u) {pads = [2, 0, 2, 0]}\n"
                          "  return %y\n}\n";

static tercel_engine *build(const tercel_engine_options *options) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  assert_ok(net_try_build(net, options, &engine, &err), &err);
  return engine;
}

static void fill(float *x) {
  for (int i = 0; i < COUNT; ++i) x[i] = (float)(i * 7 % 19 - 9) / 16;
}

static tercel_status run_once(tercel_context *context, float *x, const float *want, bool *wrong, tercel_error *err) {
  const tercel_view view = {TERCEL_DTYPE_F32, 4, {1, CHANNELS, SIDE, SIDE}, x, COUNT * sizeof *x};
  tercel_view out;
  TERCEL_TRY(tercel_context_set_input(context, 0, &view, err));
  TERCEL_TRY(tercel_context_run(context, err));
  TERCEL_TRY(tercel_context_get_output(context, 0, &out, err));
  double largest = 0, error = 0;
  for (int i = 0; i < COUNT; ++i) {
    largest = fmax(largest, fabs((double)want[i]));
    error = fmax(error, fabs((double)(((const float *)out.data)[i] - want[i])));
  }
  *wrong = !(error <= 1e-4 * largest);
  return TERCEL_OK;
}

static void get_results(tercel_engine *engine, float *x, float *out) {
  tercel_error err = {0};
  tercel_context *context = NULL;
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(1, CHANNELS, SIDE, SIDE));
  net_run(context);
  memcpy(out, net_output(context, 0).data, COUNT * sizeof *out);
  tercel_context_destroy(context);
}

static char *times_of(const tercel_engine *engine) {
  tercel_error err = {0};
  char *text = NULL;
  assert_ok(tercel_engine_print(engine, TERCEL_PRINT_TIMING_CACHE, &text, &err), &err);
  return text;
}

static int count_progress(const tercel_tune_progress *progress, void *user) {
  ++*(int *)user;
  assert_true(progress->done <= progress->total && progress->step != NULL);
  return 0;
}

static int stop_at_once(const tercel_tune_progress *progress, void *user) {
  (void)progress;
  ++*(int *)user;
  return 1;
}

static void test_build(void **state) {
  (void)state;
  float x[COUNT], want[COUNT], is[COUNT];
  int calls = 0;
  char path[] = "/tmp/tercel-tuning-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  fill(x);
  tercel_engine_options options = net_options();
  tercel_engine *engine = build(&options);
  get_results(engine, x, want);
  tercel_engine_destroy(engine);

  options.tune_seconds = 60;
  options.timing_cache_path = path;
  options.tune_progress = count_progress;
  options.tune_user = &calls;
  engine = build(&options);
  assert_int_equal(calls, 2); /* the steps alike are measured once */
  get_results(engine, x, is);
  for (int i = 0; i < COUNT; ++i) assert_true(fabsf(is[i] - want[i]) <= 1e-2f);
  char *const times = times_of(engine);
  tercel_engine_destroy(engine);

  engine = build(&options); /* the file has all times */
  assert_int_equal(calls, 2);
  char *const again = times_of(engine);
  assert_string_equal(times, again);
  tercel_text_free(times);
  tercel_text_free(again);
  tercel_engine_destroy(engine);
  unlink(path);
}

static void test_interrupted(void **state) {
  (void)state;
  int calls = 0;
  tercel_engine_options options = net_options();
  options.tune_seconds = 60;
  options.tune_progress = stop_at_once;
  options.tune_user = &calls;
  tercel_engine *const engine = build(&options);
  assert_int_equal(calls, 1);
  char *const times = times_of(engine);
  assert_non_null(strstr(times, "conv")); /* what was measured is kept */
  tercel_text_free(times);
  tercel_engine_destroy(engine);
}

/* Whatever a cache says, tactics that it names compute the same. */
static void test_every_tactic(void **state) {
  (void)state;
  static const char *const tactics[] = {"conv.winograd", "conv.gemm", "conv.direct", "conv.vector", "conv.nowhere"};
  float x[COUNT], want[COUNT], is[COUNT];
  fill(x);
  tercel_engine_options options = net_options();
  tercel_engine *engine = build(&options);
  get_results(engine, x, want);
  const char *const machine = engine->plan->shared->rules.machine;
  for (size_t i = 0; i < sizeof tactics / sizeof *tactics; ++i) {
    char cache[1024];
    snprintf(cache, sizeof cache,
             "%s\tconv f32[1,16,12,12] f32[16,16,3,3]* -> f32[1,16,12,12]  pads = [1, 1, 1, 1]\t%s\t1\n"
             "%s\tconv f32[1,16,12,12] f32[16,16,5,1]* -> f32[1,16,12,12]  pads = [2, 0, 2, 0]\t%s\t1\n",
             machine, tactics[i], machine, tactics[i]);
    options.timing_cache = cache;
    tercel_engine *const other = build(&options);
    if (i < 3) assert_string_equal(tercel_step_tactic(&other->plan->steps[0]), tactics[i]);
    get_results(other, x, is);
    for (int k = 0; k < COUNT; ++k) assert_true(fabsf(is[k] - want[k]) <= 1e-2f);
    tercel_engine_destroy(other);
  }
  tercel_engine_destroy(engine);
}

/* ---- in the background ---- */

typedef struct worker {
  tercel_engine *engine;
  pthread_t thread;
  const float *want;
  tercel_status status;
  tercel_error err;
  bool wrong;
} worker;

static tercel_status serve(worker *w, tercel_context *context) {
  float x[COUNT];
  tercel_tuning_info info = {.size = sizeof info};
  bool wrong = false;
  fill(x);
  for (int after = 0; after < 3;) { /* until tuning has ended, and a little longer */
    TERCEL_TRY(run_once(context, x, w->want, &wrong, &w->err));
    w->wrong |= wrong;
    TERCEL_TRY(tercel_engine_get_tuning(w->engine, &info, &w->err));
    after += !info.running;
  }
  return TERCEL_OK;
}

static void *work(void *arg) {
  worker *const w = arg;
  tercel_context *context = NULL;
  w->status = tercel_context_create(w->engine, NULL, &context, &w->err);
  if (w->status == TERCEL_OK) w->status = serve(w, context);
  tercel_context_destroy(context);
  return NULL;
}

static void test_background(void **state) {
  (void)state;
  tercel_error err = {0};
  float x[COUNT], want[COUNT];
  fill(x);
  tercel_engine_options options = net_options();
  options.num_threads = 2;
  options.keep_weights = 1;
  tercel_engine *const engine = build(&options);
  get_results(engine, x, want);
  assert_ok(tercel_engine_tune_in_background(engine, NULL, &err), &err);
  worker workers[CONTEXTS];
  for (int i = 0; i < CONTEXTS; ++i) {
    workers[i] = (worker){.engine = engine, .want = want};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < CONTEXTS; ++i) {
    pthread_join(workers[i].thread, NULL);
    assert_ok(workers[i].status, &workers[i].err);
    assert_false(workers[i].wrong);
  }
  assert_ok(tercel_engine_stop_tuning(engine, &err), &err);
  tercel_tuning_info info = {.size = sizeof info};
  assert_ok(tercel_engine_get_tuning(engine, &info, &err), &err);
  assert_int_equal(info.running, 0);
  assert_int_equal(info.done, 2);
  assert_int_equal(info.total, 2);
  char *const times = times_of(engine);
  assert_non_null(strstr(times, "conv.gemm"));
  tercel_text_free(times);

  assert_ok(tercel_engine_tune_in_background(engine, NULL, &err), &err); /* nothing is left to measure */
  assert_ok(tercel_engine_stop_tuning(engine, &err), &err);
  assert_ok(tercel_engine_get_tuning(engine, &info, &err), &err);
  assert_int_equal(info.total, 0);
  tercel_engine_destroy(engine);
}

/* An engine may go while it is being tuned. */
static void test_destroyed_early(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine_options options = net_options();
  options.keep_weights = 1;
  tercel_engine *const engine = build(&options);
  assert_ok(tercel_engine_tune_in_background(engine, NULL, &err), &err);
  tercel_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_build),      cmocka_unit_test(test_interrupted),     cmocka_unit_test(test_every_tactic),
      cmocka_unit_test(test_background), cmocka_unit_test(test_destroyed_early),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
