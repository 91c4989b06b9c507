/* Contexts as their users see them: inputs, shapes, outputs, errors, limits. */
#include "runtime/net.h"

static const char two_branches[] = "graph \"net\" (%x: f32[n, 2], %y: f32[2]) {\n"
                                   "  %a = pointwise(%x, %y) {program = {2: add(%0, %1)}}\n"
                                   "  %b = pointwise(%a) {program = {1: relu(%0)}}\n"
                                   "  %c = pointwise(%a) {program = {1: neg(%0)}}\n"
                                   "  %d = concat(%b, %c) {axis = 0}\n"
                                   "  return %d as \"d\", %b as \"b\"\n"
                                   "}\n";

static void test_shapes_come_and_go(void **state) {
  (void)state;
  tercel_context *context = net_open(two_branches);
  float x[6] = {1, -2, 3, -4, 5, -6}, y[2] = {1, 1};
  net_set(context, 1, TERCEL_DTYPE_F32, y, DIMS(2));
  for (int round = 0; round < 3; ++round) {
    net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(1, 2));
    net_run(context);
    net_expect(context, 0, NUMBERS(2, 0, -2, 1), DIMS(2, 2));
    net_expect(context, 1, NUMBERS(2, 0), DIMS(1, 2));
    net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(3, 2));
    net_run(context);
    net_expect(context, 0, NUMBERS(2, 0, 4, 0, 6, 0, -2, 1, -4, 3, -6, 5), DIMS(6, 2));
    net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(0, 2));
    net_run(context);
    net_expect(context, 0, NOTHING, DIMS(0, 2));
  }
  tercel_context_destroy(context);
}

static void test_wrong_inputs(void **state) {
  (void)state;
  tercel_context *context = net_open(two_branches);
  tercel_error err = {0};
  float x[8] = {0};
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "'x' has not been set");
  tercel_view view = net_view(TERCEL_DTYPE_F32, x, DIMS(2, 2));
  assert_fails(tercel_context_set_input(context, 2, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "no input 2");
  view.dtype = TERCEL_DTYPE_I32;
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err,
               "input 0 'x' is i32[2, 2], want f32[n, 2]");
  view = net_view(TERCEL_DTYPE_F32, x, DIMS(2, 3));
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "f32[2, 3]");
  view = net_view(TERCEL_DTYPE_F32, x, DIMS(2, 2, 1));
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "f32[2, 2, 1]");
  view = net_view(TERCEL_DTYPE_F32, x, DIMS(2, 2));
  view.bytes = 15;
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "15 bytes");
  view = net_view(TERCEL_DTYPE_F32, NULL, DIMS(2, 2));
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "NULL");
  view.dims[0] = -1;
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "-1");
  view.rank = 9;
  assert_fails(tercel_context_set_input(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "f32[*]");
  assert_fails(tercel_context_get_output(context, 0, &view, &err), TERCEL_INVALID_ARGUMENT, &err, "no run");
  tercel_context_destroy(context);
}

static void test_a_symbol_is_one_number(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%x: f32[n], %y: f32[n]) {\n"
                                     "  %z = pointwise(%x, %y) {program = {2: add(%0, %1)}}\n"
                                     "  return %z\n}\n");
  tercel_error err = {0};
  float x[3] = {1, 2, 3};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(3));
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(1));
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "dim 'n' is 3 in input 'x' but 1");
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(3));
  net_run(context);
  net_expect(context, 0, NUMBERS(2, 4, 6), DIMS(3));
  tercel_context_destroy(context);
}

static void test_bound_outputs(void **state) {
  (void)state;
  tercel_context *context = net_open(two_branches);
  tercel_error err = {0};
  float x[4] = {1, -2, 3, -4}, y[2] = {1, 1};
  tercel_test_buffer mine = tercel_test_buffer_create(8 * sizeof(float), 4);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2, 2));
  net_set(context, 1, TERCEL_DTYPE_F32, y, DIMS(2));
  tercel_view room = {.dtype = TERCEL_DTYPE_F32, .data = mine.data, .bytes = mine.bytes};
  assert_ok(tercel_context_bind_output(context, 0, &room, &err), &err);
  net_run(context);
  assert_ptr_equal(net_output(context, 0).data, mine.data);
  net_expect(context, 0, NUMBERS(2, 0, 4, 0, -2, 1, -4, 3), DIMS(4, 2));
  net_expect(context, 1, NUMBERS(2, 0, 4, 0), DIMS(2, 2));
  tercel_test_buffer_check(&mine);
  room.bytes = 31;
  assert_ok(tercel_context_bind_output(context, 0, &room, &err), &err);
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "output 'd': needs 32 bytes");
  tercel_test_buffer_check(&mine);
  room.dtype = TERCEL_DTYPE_F64;
  assert_fails(tercel_context_bind_output(context, 0, &room, &err), TERCEL_INVALID_ARGUMENT, &err, "f64");
  assert_ok(tercel_context_bind_output(context, 0, NULL, &err), &err);
  net_run(context);
  net_expect(context, 0, NUMBERS(2, 0, 4, 0, -2, 1, -4, 3), DIMS(4, 2));
  assert_ptr_not_equal(net_output(context, 0).data, mine.data);
  tercel_test_buffer_destroy(&mine);
  tercel_context_destroy(context);
}

/* Inputs, constants, views of them, and one value twice, as outputs: each has memory of its own. */
static void test_outputs_that_are_something_else(void **state) {
  (void)state;
  tercel_context *context =
      net_open("graph \"net\" (%x: f32[2]) {\n"
               "  %k: f32[2] = constant data(5, 6)\n"
               "  %s: i64[2] = constant data(2, 1)\n"
               "  %r = reshape(%x, %s)\n"
               "  %y = pointwise(%x) {program = {1: neg(%0)}}\n"
               "  %v = reshape(%y, %s)\n"
               "  return %x as \"a\", %k as \"b\", %y as \"c\", %y as \"d\", %r as \"e\", %v as \"f\"\n}\n");
  float x[2] = {1, 2};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2));
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2), DIMS(2));
  net_expect(context, 1, NUMBERS(5, 6), DIMS(2));
  net_expect(context, 2, NUMBERS(-1, -2), DIMS(2));
  net_expect(context, 3, NUMBERS(-1, -2), DIMS(2));
  net_expect(context, 4, NUMBERS(1, 2), DIMS(2, 1));
  net_expect(context, 5, NUMBERS(-1, -2), DIMS(2, 1));
  for (size_t i = 0; i < 6; ++i) assert_ptr_not_equal(net_output(context, i).data, x);
  tercel_context_destroy(context);
}

static void test_errors_leave_the_context_usable(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%x: f32[4], %i: i64[n]) {\n"
                                     "  %y = gather(%x, %i) {axis = 0}\n  return %y\n}\n");
  tercel_error err = {0};
  float x[4] = {10, 11, 12, 13};
  int64_t good[1] = {1}, bad[2] = {1, 7};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(4));
  for (int round = 0; round < 2; ++round) {
    net_set(context, 1, TERCEL_DTYPE_I64, bad, DIMS(2));
    assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "gather 'y': index 7");
    assert_null(strstr(strstr(err.message, "'y'") + 1, "'y'"));
    net_set(context, 1, TERCEL_DTYPE_I64, good, DIMS(1));
    net_run(context);
    net_expect(context, 0, NUMBERS(11), DIMS(1));
  }
  tercel_context_destroy(context);
}

static void test_hostile_sizes(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%x: f32[], %s: i64[2]) {\n"
                                     "  %y = expand(%x, %s)\n  return %y\n}\n");
  tercel_error err = {0};
  float x = 1;
  int64_t shapes[3][2] = {{1 << 22, 1 << 22}, {INT64_MAX, 2}, {INT64_MAX / 4, 1}}, small[2] = {2, 1};
  net_set(context, 0, TERCEL_DTYPE_F32, &x, SCALAR);
  for (int i = 0; i < 3; ++i) {
    net_set(context, 1, TERCEL_DTYPE_I64, shapes[i], DIMS(2));
    assert_fails(tercel_context_run(context, &err), TERCEL_OUT_OF_MEMORY, &err, "'y'");
  }
  net_set(context, 1, TERCEL_DTYPE_I64, shapes[0], DIMS(2));
  assert_fails(tercel_context_run(context, &err), TERCEL_OUT_OF_MEMORY, &err, "f32[4194304, 4194304] needs 64 TiB");
  net_set(context, 1, TERCEL_DTYPE_I64, small, DIMS(2));
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 1), DIMS(2, 1));
  tercel_context_destroy(context);
}

static void test_max_memory(void **state) {
  (void)state;
  const char text[] = "graph \"net\" (%x: f32[n]) {\n"
                      "  %a = pointwise(%x) {program = {1: exp(%0)}}\n"
                      "  %b = pointwise(%a) {program = {1: neg(%0)}}\n"
                      "  %c = pointwise(%a, %b) {program = {2: add(%0, %1)}}\n  return %c\n}\n";
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  tercel_engine_options options = net_options();
  options.max_memory = 100000;
  assert_ok(net_try_build(text, &options, &engine, &err), &err);
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  float *x = tercel_zalloc(400000);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(6000));
  net_run(context);
  tercel_memory_info info = {.size = sizeof info};
  assert_ok(tercel_context_get_memory(context, &info, &err), &err);
  assert_true(info.activation_bytes <= 100000);
  assert_true(info.peak_live_bytes <= info.activation_bytes);
  assert_true(info.peak_live_bytes >= 48000);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(100000));
  assert_fails(tercel_context_run(context, &err), TERCEL_OUT_OF_MEMORY, &err, "max_memory allows");
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(20000));
  assert_fails(tercel_context_run(context, &err), TERCEL_OUT_OF_MEMORY, &err, "max_memory allows 97.7 KiB");
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(6000));
  net_run(context);
  tercel_free(x);
  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
}

static void test_fixed_dims(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_engine_options options = net_options();
  const tercel_dim_value dims[] = {{"n", 3}, {"m", 4}};
  options.dims = dims;
  options.num_dims = 1;
  assert_ok(net_try_build(two_branches, &options, &engine, &err), &err);
  tercel_io io;
  assert_ok(tercel_engine_get_input(engine, 0, &io, &err), &err);
  assert_int_equal(io.dims[0], 3);
  assert_ok(tercel_engine_get_output(engine, 0, &io, &err), &err);
  assert_int_equal(io.dims[0], 6);
  char *text = NULL;
  assert_ok(tercel_engine_print(engine, TERCEL_PRINT_PLAN, &text, &err), &err);
  assert_non_null(strstr(text, "largest live set"));
  tercel_text_free(text);
  tercel_engine_destroy(engine);
  options.num_dims = 2;
  assert_fails(net_try_build(two_branches, &options, &engine, &err), TERCEL_INVALID_ARGUMENT, &err, "'m'");
}

static void test_what_is_said_of_inputs(void **state) {
  (void)state;
  tercel_engine *engine = net_build(two_branches);
  tercel_error err = {0};
  tercel_io io;
  assert_int_equal(tercel_engine_num_inputs(engine), 2);
  assert_ok(tercel_engine_get_input(engine, 0, &io, &err), &err);
  assert_string_equal(io.name, "x");
  assert_string_equal(io.kind, "tensor");
  assert_int_equal(io.dims[0], -1);
  assert_string_equal(io.symbols[0], "n");
  assert_int_equal(io.dims[1], 2);
  assert_null(io.symbols[1]);
  assert_ok(tercel_engine_get_output(engine, 0, &io, &err), &err);
  assert_string_equal(io.name, "d");
  assert_string_equal(io.symbols[0], "2*n");
  assert_fails(tercel_engine_get_output(engine, 2, &io, &err), TERCEL_INVALID_ARGUMENT, &err, "no output 2");
  tercel_engine_destroy(engine);
}

static void test_profile(void **state) {
  (void)state;
  tercel_engine *engine = net_build(two_branches);
  tercel_error err = {0};
  tercel_context *context = NULL;
  const tercel_context_options options = {.size = sizeof options, .profile = 1};
  assert_ok(tercel_context_create(engine, &options, &context, &err), &err);
  tercel_engine_destroy(engine);
  float x[4] = {1, -2, 3, -4}, y[2] = {1, 1};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2, 2));
  net_set(context, 1, TERCEL_DTYPE_F32, y, DIMS(2));
  net_run(context);
  net_run(context);
  tercel_profile_row row;
  assert_true(tercel_context_get_profile(context, 0, &row));
  assert_string_equal(row.name, "a");
  assert_string_equal(row.op, "pointwise");
  assert_string_equal(row.shape, "2x2");
  assert_int_equal(row.num_runs, 2);
  assert_true(row.flops >= 4);
  assert_true(row.bytes >= 40);
  assert_true(tercel_context_get_profile(context, 3, &row));
  assert_false(tercel_context_get_profile(context, 4, &row));
  tercel_context_reset_profile(context);
  assert_true(tercel_context_get_profile(context, 0, &row));
  assert_int_equal(row.num_runs, 0);
  tercel_context_destroy(context);
}

static void test_unset_sizes(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  const tercel_engine_options options = {.num_threads = 1};
  assert_fails(net_try_build(two_branches, &options, &engine, &err), TERCEL_INVALID_ARGUMENT, &err, "size");
  engine = net_build(two_branches);
  assert_fails(tercel_context_create(engine, &(tercel_context_options){0}, &context, &err), TERCEL_INVALID_ARGUMENT,
               &err, "size");
  tercel_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes_come_and_go),
                                     cmocka_unit_test(test_wrong_inputs),
                                     cmocka_unit_test(test_a_symbol_is_one_number),
                                     cmocka_unit_test(test_bound_outputs),
                                     cmocka_unit_test(test_outputs_that_are_something_else),
                                     cmocka_unit_test(test_errors_leave_the_context_usable),
                                     cmocka_unit_test(test_hostile_sizes),
                                     cmocka_unit_test(test_max_memory),
                                     cmocka_unit_test(test_fixed_dims),
                                     cmocka_unit_test(test_what_is_said_of_inputs),
                                     cmocka_unit_test(test_profile),
                                     cmocka_unit_test(test_unset_sizes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
