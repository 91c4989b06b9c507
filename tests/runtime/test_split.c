/* Batches in pieces: the same bits as whole ones, whoever's memory outputs are in; nothing allocated once shapes are known; memory as planned. */
#include "runtime/net.h"

static const char net[] = "graph \"net\" (%x: f32[n, 3, 8, 8], %z: f32[1, 4, 1, 1]) {\n"
                          "  %w: f32[4, 3, 3, 3] = constant ramp()\n"
                          "  %c = conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
                          "  %d = pointwise(%c, %z) {program = {2: add(%0, %1)}}\n"
                          "  %s: i64[2] = constant data(0, -1)\n"
                          "  %y = reshape(%d, %s)\n"
                          "  %m = reduce(%d) {kind = \"max\", axes = [1, 2, 3], keepdims = 0}\n"
                          "  return %y, %m\n}\n";

enum { MOST = 9, ITEM = 3 * 8 * 8, OUT = 4 * 8 * 8 };

static float x[MOST * ITEM], z[4] = {1, -2, 3, 0.5f};

static tercel_context *open_with(tercel_engine *engine, int64_t piece) {
  tercel_error err = {0};
  tercel_context *context = NULL;
  const tercel_context_options options = {.size = sizeof options, .batch_piece = piece};
  assert_ok(tercel_context_create(engine, &options, &context, &err), &err);
  net_set(context, 1, TERCEL_DTYPE_F32, z, DIMS(1, 4, 1, 1));
  return context;
}

static int64_t piece_of(const tercel_context *context) {
  tercel_bind_info info = {.size = sizeof info};
  tercel_error err = {0};
  assert_ok(tercel_context_get_bind_info(context, &info, &err), &err);
  return info.batch_piece;
}

static void run_batch(tercel_context *context, int64_t n) {
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(n, 3, 8, 8));
  net_run(context);
}

static void expect_same(const tercel_context *a, const tercel_context *b, int64_t n) {
  for (size_t k = 0; k < 2; ++k) {
    const tercel_view one = net_output(a, k), other = net_output(b, k);
    assert_int_equal(one.rank, 2 - (int)k);
    assert_int_equal(one.dims[0], n);
    assert_int_equal(one.bytes, other.bytes);
    assert_memory_equal(one.data, other.data, one.bytes);
  }
}

static void test_same_bits(void **state) {
  (void)state;
  tercel_engine *engine = net_build(net);
  tercel_context *whole = open_with(engine, -1);
  for (int i = 0; i < MOST * ITEM; ++i) x[i] = (float)(i % 23) - 11;
  for (int64_t piece = 1; piece <= 4; ++piece) {
    tercel_context *pieces = open_with(engine, piece);
    for (int64_t n = 1; n <= MOST; n += 2) {
      run_batch(whole, n);
      run_batch(pieces, n);
      expect_same(pieces, whole, n);
      assert_int_equal(piece_of(whole), 0);
      assert_true(n <= piece ? piece_of(pieces) == 0 : piece_of(pieces) > 0 && piece_of(pieces) <= piece);
    }
    tercel_context_destroy(pieces);
  }
  tercel_context_destroy(whole);
  tercel_engine_destroy(engine);
}

static void test_memory_of_the_callers(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = net_build(net);
  tercel_context *whole = open_with(engine, -1), *pieces = open_with(engine, 2);
  static float y[MOST * OUT];
  tercel_view memory = net_view(TERCEL_DTYPE_F32, y, DIMS(MOST, OUT));
  assert_ok(tercel_context_bind_output(pieces, 0, &memory, &err), &err);
  run_batch(whole, MOST);
  run_batch(pieces, MOST);
  assert_ptr_equal(net_output(pieces, 0).data, y);
  expect_same(pieces, whole, MOST);
  memory.bytes -= 1;
  assert_ok(tercel_context_bind_output(pieces, 0, &memory, &err), &err);
  assert_fails(tercel_context_run(pieces, &err), TERCEL_INVALID_ARGUMENT, &err, "output 'y': needs");
  assert_ok(tercel_context_bind_output(pieces, 0, NULL, &err), &err);
  run_batch(pieces, MOST);
  expect_same(pieces, whole, MOST);
  tercel_context_destroy(whole);
  tercel_context_destroy(pieces);
  tercel_engine_destroy(engine);
}

static tercel_status run_again(void *context, tercel_error *err) { return tercel_context_run(context, err); }

static void test_steady_and_planned(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = net_build(net);
  tercel_context *pieces = open_with(engine, 2);
  tercel_memory_plan *plan = NULL;
  tercel_memory_plan_info planned = {.size = sizeof planned};
  tercel_memory_info used = {.size = sizeof used};
  run_batch(pieces, MOST);
  assert_int_equal(tercel_test_count_allocations(run_again, pieces), 0);
  assert_ok(tercel_memory_plan_of_run(pieces, &plan, &err), &err);
  assert_ok(tercel_memory_plan_get_info(plan, &planned, &err), &err);
  assert_ok(tercel_context_get_memory(pieces, &used, &err), &err);
  assert_int_equal(planned.batch_piece, 2);
  assert_int_equal(planned.planned_bytes, used.activation_bytes);
  tercel_memory_plan_destroy(plan);
  tercel_context_destroy(pieces);
  tercel_engine_destroy(engine);
}

static tercel_status run_in_pieces(void *arg, tercel_error *err) {
  tercel_engine *const engine = arg;
  tercel_context *context = NULL;
  const tercel_context_options options = {.size = sizeof options, .batch_piece = 2};
  const tercel_view views[] = {net_view(TERCEL_DTYPE_F32, x, DIMS(5, 3, 8, 8)),
                               net_view(TERCEL_DTYPE_F32, z, DIMS(1, 4, 1, 1))};
  tercel_status status = tercel_context_create(engine, &options, &context, err);
  for (size_t i = 0; status == TERCEL_OK && i < 2; ++i) status = tercel_context_set_input(context, i, &views[i], err);
  if (status == TERCEL_OK) status = tercel_context_run(context, err);
  tercel_context_destroy(context);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  tercel_engine *engine = net_build(net);
  assert_true(tercel_test_oom(run_in_pieces, engine, 1000) > 20);
  tercel_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_memory_of_the_callers),
                                     cmocka_unit_test(test_steady_and_planned), cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
