/* Optimization profiles: what is refused when they are read, which of them takes a shape, symbols as numbers. */
#include "support/support.h"

#include <string.h>

#include "ops/ops.h"
#include "plan/profiles.h"

static const char net[] = "graph \"net\" (%x: f32[n, 3, h], %y: f32[n], %s: seq(f32[n])) {\n"
                          "  %z = pointwise(%x) {program = {1: relu(%0)}}\n"
                          "  return %z\n}\n";

static tercel_graph *parse(void) {
  tercel_graph *graph = NULL;
  tercel_error err = {0};
  assert_ok(tercel_graph_parse(net, strlen(net), tercel_ops(), &graph, &err), &err);
  return graph;
}

static const tercel_profile_shape x_shape = {"x", 3, {1, 3, 8}, {2, 3, 32}, {8, 3, 64}};

static void expect_refused(const tercel_profile_shape *shapes, size_t count, const char *message) {
  tercel_graph *const graph = parse();
  const tercel_shape_profile profile = {shapes, count};
  tercel_profiles profiles;
  tercel_error err = {0};
  assert_int_equal(tercel_profiles_init(graph, &profile, 1, &profiles, &err), TERCEL_INVALID_ARGUMENT);
  if (strstr(err.message, message) == NULL) fail_msg("'%s' does not say '%s'", err.message, message);
  tercel_graph_destroy(graph);
}

static void test_what_is_refused(void **state) {
  (void)state;
  tercel_profile_shape shape = x_shape;
  shape.input = "w";
  expect_refused(&shape, 1, "no input of the model is named 'w'");
  shape.input = NULL;
  expect_refused(&shape, 1, "no input of the model is named ''");
  shape.input = "s";
  expect_refused(&shape, 1, "input 's' is no tensor");
  shape = x_shape;
  shape.rank = 2;
  expect_refused(&shape, 1, "input 'x' has 2 dims, want 3");
  shape.rank = 9;
  expect_refused(&shape, 1, "input 'x' has 9 dims, want 3");
  shape = x_shape;
  shape.min[0] = 3;
  expect_refused(&shape, 1, "dim 0 of input 'x' goes from 3 over 2 to 8, want min <= opt <= max");
  shape.min[0] = -1;
  expect_refused(&shape, 1, "goes from -1");
  shape = x_shape;
  shape.max[1] = 4;
  expect_refused(&shape, 1, "dim 1 of input 'x' goes from 3 to 4, but is always 3");
  const tercel_profile_shape twice[] = {x_shape, x_shape};
  expect_refused(twice, 2, "input 'x' is given twice");
  const tercel_profile_shape apart[] = {x_shape, {"y", 1, {1}, {3}, {8}}};
  expect_refused(apart, 2, "dim 'n' is 2 in input 'x' but 3 in input 'y'");
}

static tercel_tensor tensor_of(int rank, const int64_t *dims) {
  tercel_tensor tensor = {0};
  assert_true(tercel_tensor_set_shape(&tensor, TERCEL_DTYPE_F32, rank, dims));
  return tensor;
}

static void test_the_first_that_fits(void **state) {
  (void)state;
  const tercel_profile_shape small[] = {{"x", 3, {1, 3, 8}, {1, 3, 8}, {2, 3, 16}}};
  const tercel_profile_shape large[] = {{"x", 3, {1, 3, 8}, {4, 3, 32}, {8, 3, 64}}, {"y", 1, {1}, {4}, {8}}};
  const tercel_shape_profile given[] = {{small, 1}, {large, 2}};
  tercel_graph *const graph = parse();
  tercel_profiles profiles;
  tercel_error err = {0};
  size_t found = 9;
  assert_ok(tercel_profiles_init(graph, given, 2, &profiles, &err), &err);
  tercel_tensor inputs[3] = {tensor_of(3, (int64_t[]){2, 3, 16}), tensor_of(1, (int64_t[]){2}), {.rank = -1}};
  assert_ok(tercel_profiles_find(&profiles, graph, inputs, &found, &err), &err);
  assert_int_equal(found, 0);
  inputs[0] = tensor_of(3, (int64_t[]){2, 3, 17});
  assert_ok(tercel_profiles_find(&profiles, graph, inputs, &found, &err), &err);
  assert_int_equal(found, 1);
  inputs[1] = tensor_of(1, (int64_t[]){9}); /* which x would not have, were the symbols checked here */
  assert_int_equal(tercel_profiles_find(&profiles, graph, inputs, &found, &err), TERCEL_INVALID_ARGUMENT);
  assert_string_equal(err.message, "input 'y' is [9], but profile 1 of 2 takes [1..8], and no other takes the inputs");
  inputs[0] = tensor_of(3, (int64_t[]){9, 3, 8});
  assert_int_equal(tercel_profiles_find(&profiles, graph, inputs, &found, &err), TERCEL_INVALID_ARGUMENT);
  assert_non_null(strstr(err.message, "input 'x' is [9, 3, 8], but profile 0 of 2 takes [1..2, 3, 8..16]"));
  tercel_profiles_deinit(&profiles);
  tercel_graph_destroy(graph);
}

static void test_symbols(void **state) {
  (void)state;
  const tercel_shape_profile given = {&x_shape, 1};
  tercel_graph *const graph = parse();
  tercel_profiles profiles;
  tercel_error err = {0};
  assert_ok(tercel_profiles_init(graph, &given, 1, &profiles, &err), &err);
  tercel_profile_at at = {&profiles, graph, 0, TERCEL_PROFILE_OPT};
  int64_t number = 0;
  assert_true(tercel_profile_value_of(&at, "h", &number));
  assert_int_equal(number, 32);
  at.point = TERCEL_PROFILE_MAX;
  assert_true(tercel_profile_value_of(&at, "n", &number));
  assert_int_equal(number, 8);
  assert_false(tercel_profile_value_of(&at, "w", &number));
  tercel_profiles_deinit(&profiles);
  tercel_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_the_first_that_fits),
                                     cmocka_unit_test(test_symbols)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
