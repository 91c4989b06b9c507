/* The order of nodes: branches one after the other where they were written side by side; what must keep its place does; a good order stays. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "plan/order.h"

static tercel_graph *parse(const char *text) {
  tercel_graph *graph = NULL;
  tercel_error err = {0};
  assert_ok(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), &err);
  return graph;
}

static tercel_order_stats order(tercel_graph *graph) {
  tercel_order_stats stats;
  tercel_error err = {0};
  assert_ok(tercel_infer_graph(graph, &err), &err);
  assert_ok(tercel_order_nodes(graph, NULL, NULL, &stats, &err), &err);
  assert_ok(tercel_graph_verify(graph, &err), &err);
  return stats;
}

/* "a b c": names of the nodes' first outputs. */
static void expect_names(const tercel_graph *graph, const char *want) {
  tercel_text is = {0};
  for (const tercel_node *node = graph->first; node != NULL; node = node->next)
    tercel_text_add(&is, "%s%s", is.length > 0 ? " " : "", node->outputs[0]->name);
  assert_string_equal(is.data, want);
  tercel_text_deinit(&is);
}

static void test_branches_side_by_side(void **state) {
  (void)state;
  tercel_graph *const graph = parse("graph \"net\" (%x: f32[64]) {\n"
                                    "  %s: i64[2] = constant data(64, 64)\n"
                                    "  %a1 = expand(%x, %s)\n"
                                    "  %b1 = expand(%x, %s)\n"
                                    "  %c1 = expand(%x, %s)\n"
                                    "  %a2 = softmax(%a1) {axis = 1}\n"
                                    "  %b2 = softmax(%b1) {axis = 1}\n"
                                    "  %c2 = softmax(%c1) {axis = 1}\n"
                                    "  %a3 = reduce(%a2) {kind = \"sum\", keepdims = 1}\n"
                                    "  %b3 = reduce(%b2) {kind = \"sum\", keepdims = 1}\n"
                                    "  %c3 = reduce(%c2) {kind = \"sum\", keepdims = 1}\n"
                                    "  %y = concat(%a3, %b3, %c3) {axis = 0}\n"
                                    "  return %y\n}\n");
  const tercel_order_stats stats = order(graph);
  assert_true(stats.changed);
  assert_true(stats.before_bytes > 4 * 64 * 64 * 4 - 1);
  assert_true(stats.after_bytes < 2 * 64 * 64 * 4 + 64);
  const tercel_order_stats again = order(graph);
  assert_false(again.changed);
  assert_true(again.before_bytes <= stats.after_bytes);
  tercel_graph_destroy(graph);
}

static void test_a_good_order_stays(void **state) {
  (void)state;
  tercel_graph *const graph = parse("graph \"net\" (%x: f32[n, 8]) {\n"
                                    "  %a = pointwise(%x) {program = {1: relu(%0)}}\n"
                                    "  %b = softmax(%a) {axis = 1}\n"
                                    "  %c = pointwise(%a, %b) {program = {2: add(%0, %1)}}\n"
                                    "  return %c\n}\n");
  assert_false(order(graph).changed);
  expect_names(graph, "a b c");
  tercel_graph_destroy(graph);
}

/* Random numbers come in the order of the file, whatever else moves. */
static void test_impure_nodes_keep_theirs(void **state) {
  (void)state;
  tercel_graph *const graph = parse("graph \"net\" (%x: f32[4]) {\n"
                                    "  %s: i64[1] = constant data(4096)\n"
                                    "  %t: i64[1] = constant data(8192)\n"
                                    "  %a = random(%t) {kind = \"normal\", dtype = f32}\n"
                                    "  %b = random(%s) {kind = \"normal\", dtype = f32}\n"
                                    "  %c = reduce(%b) {kind = \"sum\"}\n"
                                    "  %d = random(%s) {kind = \"normal\", dtype = f32}\n"
                                    "  %e = reduce(%d) {kind = \"sum\"}\n"
                                    "  %f = reduce(%a) {kind = \"sum\"}\n"
                                    "  return %c, %e, %f\n}\n");
  assert_true(order(graph).changed);
  expect_names(graph, "a f b c d e");
  tercel_graph_destroy(graph);
}

static void test_empty(void **state) {
  (void)state;
  tercel_graph *const graph = parse("graph \"net\" (%x: f32[4]) {\n  return %x\n}\n");
  assert_false(order(graph).changed);
  tercel_graph_destroy(graph);
}

static tercel_status parse_and_order(void *arg, tercel_error *err) {
  const char *const text = arg;
  tercel_graph *graph = NULL;
  tercel_order_stats stats;
  TERCEL_TRY(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, err));
  tercel_status status = tercel_infer_graph(graph, err);
  if (status == TERCEL_OK) status = tercel_order_nodes(graph, NULL, NULL, &stats, err);
  tercel_graph_destroy(graph);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  char text[] = "graph \"net\" (%x: f32[n, 8]) {\n"
                "  %a = pointwise(%x) {program = {1: relu(%0)}}\n"
                "  %b = softmax(%a) {axis = 1}\n"
                "  return %b\n}\n";
  assert_true(tercel_test_oom(parse_and_order, text, 1000) > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_branches_side_by_side), cmocka_unit_test(test_a_good_order_stays),
      cmocka_unit_test(test_impure_nodes_keep_theirs), cmocka_unit_test(test_empty), cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
