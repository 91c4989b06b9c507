/* Which graphs compute each item of a batch by itself. */
#include "support/support.h"

#include <string.h>

#include "ops/ops.h"
#include "plan/batch.h"

static bool find(const char *inputs, const char *body) {
  tercel_graph *graph = NULL;
  tercel_error err = {0};
  tercel_text text = {0};
  tercel_dim batch;
  tercel_text_add(&text, "graph \"net\" (%s) {\n%s\n}\n", inputs, body);
  assert_ok(tercel_graph_parse(text.data, text.length, tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  bool found = false;
  assert_ok(tercel_batch_find(graph, &found, &batch, NULL, &err), &err);
  if (found) assert_int_equal(batch, graph->inputs[0]->type.shape.dims[0]);
  tercel_graph_destroy(graph);
  tercel_text_deinit(&text);
  return found;
}

static const char picture[] = "%x: f32[n, 3, 8, 8]", rows[] = "%x: f32[n, 6]", words[] = "%x: f32[n, s, 6]";

static void test_items_by_themselves(void **state) {
  (void)state;
  assert_true(find(rows, "%y = pointwise(%x) {program = {1: relu(%0)}} return %y"));
  assert_true(find(rows, "%k: f32[6, 4] = constant ramp() %y = matmul(%x, %k) return %y"));
  assert_true(find(rows, "%y = softmax(%x) {axis = 1} return %y"));
  assert_true(find(words, "%y = reduce(%x) {kind = \"mean\", axes = [1]} return %y"));
  assert_true(find(words, "%t = transpose(%x) {perm = [0, 2, 1]} %y = matmul(%x, %t) return %y"));
  assert_true(find(words, "%y = concat(%x, %x) {axis = -1} return %y"));
  assert_true(find(picture, "%w: f32[4, 3, 3, 3] = constant ramp() %c = conv(%x, %w)\n"
                            "%s: i64[2] = constant data(0, -1) %y = reshape(%c, %s) return %y"));
  assert_true(find("%x: i64[n, s]", "%t: f32[10, 6] = constant ramp() %y = gather(%t, %x) return %y"));
  assert_true(find("%x: f32[n, 6], %z: f32[6]", "%y = pointwise(%x, %z) {program = {2: add(%0, %1)}} return %y"));
}

static void test_items_that_mix(void **state) {
  (void)state;
  assert_false(find(rows, "%y = softmax(%x) {axis = 0} return %y"));
  assert_false(find(rows, "%m = reduce(%x) {kind = \"mean\", axes = [0]}\n"
                          "%y = pointwise(%x, %m) {program = {2: sub(%0, %1)}} return %y"));
  assert_false(find(words, "%t = transpose(%x) {perm = [1, 0, 2]} return %t"));
  assert_false(find(rows, "%y = concat(%x, %x) {axis = 0} return %y"));
  assert_false(find(rows, "%i: i64[1] = constant data(0) %f = gather(%x, %i) {axis = 0}\n"
                          "%y = pointwise(%x, %f) {program = {2: add(%0, %1)}} return %y"));
  assert_false(find(rows, "%t = transpose(%x) {perm = [1, 0]} %y = matmul(%x, %t) return %y"));
  assert_false(find("%x: f32[n, 6], %z: f32[n]", "%y = pointwise(%x, %z) {program = {2: add(%0, %1)}} return %y, %z"));
  assert_false(find("%x: f32[n, n]", "%y = pointwise(%x) {program = {1: relu(%0)}} return %y"));
  assert_false(find("%x: f32[2, 6]", "%y = pointwise(%x) {program = {1: relu(%0)}} return %y"));
  assert_false(find(rows, "%k: f32[2] = constant ramp() return %x, %k"));
  /* The number of items is data, too. */
  assert_false(find(rows, "%s = shape(%x) %f = pointwise(%s) {program = {1: cast:f32<1, 0>(%0)}}\n"
                          "%r = reduce(%f) {kind = \"sum\", keepdims = 0}\n"
                          "%y = pointwise(%x, %r) {program = {2: mul(%0, %1)}} return %y"));
  assert_false(find(picture, "%y, %i = pool(%x) {kind = \"max\", kernel = [2, 2]} return %y, %i"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_items_by_themselves), cmocka_unit_test(test_items_that_mix)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
