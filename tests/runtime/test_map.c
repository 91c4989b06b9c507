/* Maps as inputs and outputs of a context. */
#include "runtime/net.h"

static const char *const text = "graph \"net\" (%m: map(i64: f32[k]), %x: f32[n, k]) {\n"
                                "  %keys, %values = map_parts(%m)\n"
                                "  %y = map_construct(%keys, %x)\n"
                                "  %z = map_construct(%keys, %values)\n"
                                "  return %keys, %values, %y, %z\n}\n";

static void expect_element(const tercel_context *context, size_t output, size_t element, const double *numbers,
                           size_t count, int rank, const int64_t *dims) {
  tercel_error err = {0};
  tercel_view view;
  assert_ok(tercel_context_get_output_element(context, output, element, &view, &err), &err);
  net_expect_view(&view, numbers, count, rank, dims);
}

static void test_in_and_out(void **state) {
  (void)state;
  tercel_context *context = net_open(text);
  tercel_error err = {0};
  int64_t keys[3] = {7, 9, -1};
  float values[3] = {1, 2, 3}, x[6] = {1, 2, 3, 4, 5, 6};
  for (int64_t k = 3; k > 0; --k) { /* other shapes of the same context */
    const tercel_view views[] = {net_view(TERCEL_DTYPE_I64, keys, DIMS(k)),
                                 net_view(TERCEL_DTYPE_F32, values, DIMS(k))};
    assert_ok(tercel_context_set_input_elements(context, 0, views, 2, &err), &err);
    net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(2, k));
    net_run(context);
  }
  net_expect(context, 0, NUMBERS(7), DIMS(1));
  net_expect(context, 1, NUMBERS(1), DIMS(1));
  size_t length = 0;
  assert_ok(tercel_context_get_output_length(context, 2, &length, &err), &err);
  assert_int_equal(length, 2);
  expect_element(context, 2, 0, NUMBERS(7), DIMS(1));
  expect_element(context, 2, 1, NUMBERS(1, 2), DIMS(2, 1));
  expect_element(context, 3, 1, NUMBERS(1), DIMS(1));
  tercel_context_destroy(context);
}

static void test_what_is_no_map(void **state) {
  (void)state;
  tercel_context *context = net_open(text);
  tercel_error err = {0};
  int64_t keys[2] = {7, 9};
  float values[6] = {1, 2, 3, 4, 5, 6};
  tercel_view views[] = {net_view(TERCEL_DTYPE_I64, keys, DIMS(2)), net_view(TERCEL_DTYPE_F32, values, DIMS(3))};
  assert_fails(tercel_context_set_input_elements(context, 0, views, 1, &err), TERCEL_INVALID_ARGUMENT, &err,
               "1 elements, want keys and values");
  assert_fails(tercel_context_set_input_elements(context, 0, views, 2, &err), TERCEL_INVALID_ARGUMENT, &err,
               "a value for each");
  views[1] = net_view(TERCEL_DTYPE_F32, values, DIMS(2));
  views[0].dtype = TERCEL_DTYPE_U64;
  assert_fails(tercel_context_set_input_elements(context, 0, views, 2, &err), TERCEL_INVALID_ARGUMENT, &err,
               "want map(i64: f32[k])");
  views[0].dtype = TERCEL_DTYPE_I64;
  assert_ok(tercel_context_set_input_elements(context, 0, views, 2, &err), &err);
  net_set(context, 1, TERCEL_DTYPE_F32, values, DIMS(2, 3));
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "keys i64[2] for values f32[2, 3]");
  net_set(context, 1, TERCEL_DTYPE_F32, values, DIMS(3, 2));
  net_run(context);
  expect_element(context, 2, 1, NUMBERS(1, 2, 3, 4, 5, 6), DIMS(3, 2));
  tercel_context_destroy(context);
}

static void test_types(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } wrong[] = {{"graph \"g\" (%k: f32[2], %v: f32[2]) { %m = map_construct(%k, %v) return %m }", "keys are f32"},
               {"graph \"g\" (%k: i64[2], %v: f32[3]) { %m = map_construct(%k, %v) return %m }", "2 keys for 3 values"},
               {"graph \"g\" (%k: i64[2, 2], %v: f32[2]) { %m = map_construct(%k, %v) return %m }", "keys of rank 2"},
               {"graph \"g\" (%k: i64[2], %v: f32[]) { %m = map_construct(%k, %v) return %m }", "values of rank 0"},
               {"graph \"g\" (%k: i64[2]) { %m = map_parts(%k) return %m }", "no map"},
               {"graph \"g\" (%m: map(i64: f32[])) { return %m }", "rank 0, want 1 or 2"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    tercel_error err = {0};
    tercel_engine *engine = NULL;
    const tercel_engine_options options = net_options();
    assert_fails(net_try_build(wrong[i].text, &options, &engine, &err), TERCEL_INVALID_MODEL, &err, wrong[i].message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_and_out), cmocka_unit_test(test_what_is_no_map),
                                     cmocka_unit_test(test_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
