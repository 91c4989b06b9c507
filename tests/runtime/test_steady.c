/* A run of a shape that was seen before does not touch the heap; every failed allocation is an error and leaves nothing behind. */
#include "runtime/net.h"

static const char mixed[] = "graph \"net\" (%x: f32[n, 4], %m: i64[], %c: bool[]) {\n"
                            "  %k: f32[4, 4] = constant ramp()\n"
                            "  %a = matmul(%x, %k)\n"
                            "  %b = pointwise(%a) {program = {1: relu(%0)}}\n"
                            "  %s = shape(%b)\n"
                            "  %f: i64[1] = constant data(-1)\n"
                            "  %r = reshape(%b, %f)\n"
                            "  %z = nonzero(%r)\n"
                            "  %t = transpose(%b)\n"
                            "  %u = concat(%t, %t) {axis = 0}\n"
                            "  %y = if(%c, %b) captures 1 do {\n"
                            "    graph \"then\" (%p: f32[n, 4]) { %q = softmax(%p) {axis = 1} return %q }\n"
                            "    graph \"else\" (%p: f32[n, 4]) { %q = reduce(%p) {kind = \"sum\"} return %q }\n"
                            "  }\n"
                            "  %l, %ls = loop(%m, _, %b, %r) captures 1 do {\n"
                            "    graph \"body\" (%i: i64[], %d: bool[], %v: f32[*], %w: f32[*]) {\n"
                            "      %h = concat(%v, %v) {axis = 1}\n"
                            "      %o = reduce(%h) {kind = \"max\", keepdims = 0}\n"
                            "      return %d, %h, %o\n"
                            "    }\n"
                            "  }\n"
                            "  return %u, %z, %s, %y, %l, %ls\n}\n";

typedef struct inputs {
  tercel_context *context;
  float x[20];
  int64_t m;
  uint8_t c;
} inputs;

static tercel_status set_inputs(inputs *in, int64_t n, tercel_error *err) {
  const tercel_view x = {TERCEL_DTYPE_F32, 2, {n, 4}, in->x, (size_t)n * 16};
  const tercel_view m = {TERCEL_DTYPE_I64, 0, {0}, &in->m, 8}, c = {TERCEL_DTYPE_BOOL, 0, {0}, &in->c, 1};
  TERCEL_TRY(tercel_context_set_input(in->context, 0, &x, err));
  TERCEL_TRY(tercel_context_set_input(in->context, 1, &m, err));
  return tercel_context_set_input(in->context, 2, &c, err);
}

static inputs make_inputs(void) {
  inputs in = {.m = 2, .c = 1};
  for (int i = 0; i < 20; ++i) in.x[i] = (float)(i % 7) - 3;
  return in;
}

static tercel_status run_both_shapes(void *arg, tercel_error *err) {
  inputs *const in = arg;
  for (int64_t n = 3; n <= 5; n += 2) {
    for (in->c = 0; in->c < 2; ++in->c) {
      TERCEL_TRY(set_inputs(in, n, err));
      TERCEL_TRY(tercel_context_run(in->context, err));
    }
  }
  return TERCEL_OK;
}

static void test_steady_runs_allocate_nothing(void **state) {
  (void)state;
  tercel_error err = {0};
  inputs in = make_inputs();
  in.context = net_open(mixed);
  for (int i = 0; i < 4; ++i) assert_ok(run_both_shapes(&in, &err), &err);
  assert_int_equal(tercel_test_count_allocations(run_both_shapes, &in), 0);
  tercel_context_destroy(in.context);
}

static tercel_status build_and_run(void *arg, tercel_error *err) {
  const char *const text = arg;
  tercel_engine *engine = NULL;
  tercel_status status = TERCEL_OK;
  inputs in = make_inputs();
  const tercel_engine_options options = net_options();
  const tercel_context_options profiled = {.size = sizeof profiled, .profile = 1};
  char *plan = NULL;
  TERCEL_CHECK(net_try_build(text, &options, &engine, err));
  TERCEL_CHECK(tercel_engine_print(engine, TERCEL_PRINT_PLAN, &plan, err));
  TERCEL_CHECK(tercel_context_create(engine, &profiled, &in.context, err));
  TERCEL_CHECK(run_both_shapes(&in, err));
done:
  tercel_text_free(plan);
  tercel_context_destroy(in.context);
  tercel_engine_destroy(engine);
  return status;
}

static void test_every_allocation_may_fail(void **state) {
  (void)state;
  char text[sizeof mixed];
  memcpy(text, mixed, sizeof mixed);
  assert_true(tercel_test_oom(build_and_run, text, 3000) > 100);
}

/* A context that ran out of memory in a run works again when there is some. */
static void test_a_context_survives(void **state) {
  (void)state;
  static const char text[] = "graph \"net\" (%s: seq(f32[n]), %x: f32[n]) {\n"
                             "  %t = sequence_insert(%s, %x)\n"
                             "  %y = sequence_concat(%t) {axis = 0}\n"
                             "  %z = nonzero(%y)\n"
                             "  return %y, %t, %z\n}\n";
  tercel_context *context = net_open(text);
  float x[3] = {1, 0, 3};
  for (size_t n = 1; n < 200; ++n) {
    tercel_error err = {0};
    const tercel_view view = net_view(TERCEL_DTYPE_F32, x, DIMS(3));
    assert_ok(tercel_context_set_input_elements(context, 0, &view, 1, &err), &err);
    net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(3));
    net_run(context);
    net_expect(context, 0, NUMBERS(1, 0, 3, 1, 0, 3), DIMS(6));
    net_expect(context, 2, NUMBERS(0, 2, 3, 5), DIMS(1, 4));
  }
  tercel_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steady_runs_allocate_nothing),
                                     cmocka_unit_test(test_every_allocation_may_fail),
                                     cmocka_unit_test(test_a_context_survives)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
