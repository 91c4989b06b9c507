/* The runner: options, the log of decisions, subgraphs, memory running out. */
#include "support/support.h"

#include "as_text.h"

static const char *const net = "graph \"g\" (%x: f32[n, h, w, 2], %c: bool[]) {\n"
                               "  %t = transpose(%x) {perm = [0, 3, 1, 2]}\n"
                               "  %k: f32[3, 2, 3, 3] = constant ramp()\n"
                               "  %a = conv(%t, %k) {pads = [1, 1, 1, 1]} named \"Conv\"\n"
                               "  %u = transpose(%a) {perm = [0, 2, 3, 1]}\n"
                               "  %f: f32[3] = constant data(1, 2, 3)\n"
                               "  %b = pointwise(%u, %f) {program = {2: mul(%0, %1)}} named \"Mul\"\n"
                               "  %d = pointwise(%b) {program = {1: relu(%0)}} named \"Relu\"\n"
                               "  %y: f32[n, h, w, 3] = if(%c, %d, %f) captures 2 do {\n"
                               "    graph \"then\" (%p: f32[n, h, w, 3], %q: f32[3]) {\n"
                               "      %r = pointwise(%p, %q) {program = {2: add(%0, %1)}}\n"
                               "      %s = pointwise(%r) {program = {1: exp(%0)}}\n"
                               "      return %s\n"
                               "    }\n"
                               "    graph \"else\" (%p: f32[n, h, w, 3], %q: f32[3]) { return %p }\n"
                               "  }\n"
                               "  return %y as \"result\", %d as \"features\"\n"
                               "}\n";

static tercel_graph *parse(const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  assert_ok(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  return graph;
}

static void test_everything_together(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *const graph = parse(net);
  tercel_text text = {0}, log = {0};
  tercel_decisions decisions = {0};
  assert_ok(tercel_optimize(graph, &(tercel_optimize_options){.verify = true}, &decisions, &err), &err);
  assert_ok(tercel_graph_print(graph, NULL, &text, &err), &err);
  assert_string_equal(
      text.data,
      "graph \"g\" (%x: f32[n, h, w, 2], %c: bool[]) {\n"
      "  %t: f32[n, 2, h, w] = transpose(%x) {perm = [0, 3, 1, 2]}\n"
      "  %k: f32[3, 2, 3, 3] = constant hidden()\n"
      "  %Relu: f32[n, 3, h, w] = conv(%t, %k) {pads = [1, 1, 1, 1], epilogue = {1: relu(%0)}} named \"Conv\" from "
      "\"Conv\", \"Mul\", \"Relu\"\n"
      "  %d: f32[n, h, w, 3] = transpose(%Relu) {perm = [0, 2, 3, 1]} named \"Relu\"\n"
      "  %y: f32[n, h, w, 3] = if(%c, %d) captures 1 do {\n"
      "    graph \"then\" (%p: f32[n, h, w, 3]) {\n"
      "      %f: f32[3] = constant data(1, 2, 3)\n"
      "      %s: f32[n, h, w, 3] = pointwise(%p, %f) {program = {2: add(%0, %1); exp(%2)}} from \"s\", \"r\"\n"
      "      return %s\n"
      "    }\n"
      "    graph \"else\" (%p: f32[n, h, w, 3]) {\n"
      "      return %p\n"
      "    }\n"
      "  }\n"
      "  return %y as \"result\", %d as \"features\"\n"
      "}\n");
  tercel_decisions_print(&decisions, &log);
  assert_non_null(strstr(log.data, "transposes: sink: Mul\n"));
  assert_non_null(strstr(log.data, "fold-scale: factor: Conv + Mul\n"));
  assert_non_null(strstr(log.data, "fuse-epilogue: epilogue: Conv + Mul + Relu\n"));
  assert_non_null(strstr(log.data, "inline: captured-constant: y\n"));
  assert_non_null(strstr(log.data, "chains: join: s + r\n"));
  /* a second time nothing is left to do */
  const size_t nodes = tercel_graph_count_nodes(graph), made = decisions.count;
  assert_ok(tercel_optimize(graph, NULL, &decisions, &err), &err);
  assert_int_equal(tercel_graph_count_nodes(graph), nodes);
  assert_int_equal(decisions.count, made);
  tercel_decisions_deinit(&decisions);
  tercel_text_deinit(&text);
  tercel_text_deinit(&log);
  tercel_graph_destroy(graph);
}

static void test_options(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *const graph = parse(net);
  tercel_text before = {0}, after = {0};
  char all[512];
  assert_fails(tercel_optimize(graph, &(tercel_optimize_options){.disabled = "fold, fuze"}, NULL, &err),
               TERCEL_INVALID_ARGUMENT, &err, "no optimizer pass 'fuze'");
  test_disable_others("", all, sizeof all);
  strncat(all, "dead-code,shapes", sizeof all - strlen(all) - 1);
  assert_ok(tercel_graph_print(graph, NULL, &before, &err), &err);
  assert_ok(tercel_optimize(graph, &(tercel_optimize_options){.disabled = all}, NULL, &err), &err);
  assert_ok(tercel_graph_print(graph, NULL, &after, &err), &err);
  assert_string_equal(after.data, before.data);
  /* the first stage moves no transposes */
  assert_ok(tercel_optimize(graph, &(tercel_optimize_options){.level = 1}, NULL, &err), &err);
  after.length = 0;
  assert_ok(tercel_graph_print(graph, NULL, &after, &err), &err);
  assert_non_null(strstr(after.data, "%u: f32[n, h, w, 3] = transpose(%a)"));
  tercel_text_deinit(&before);
  tercel_text_deinit(&after);
  tercel_graph_destroy(graph);
}

/* Any one pass left out: the graph stays whole. */
static void test_each_pass_can_be_left_out(void **state) {
  (void)state;
  const tercel_pass *pass;
  for (size_t i = 0; (pass = tercel_pass_at(i)); i++) {
    tercel_error err = {0};
    tercel_graph *const graph = parse(net);
    assert_true(pass->about[0] && pass->stage > 0);
    assert_ok(tercel_optimize(graph, &(tercel_optimize_options){.disabled = pass->name, .verify = true}, NULL, &err),
              &err);
    tercel_graph_destroy(graph);
  }
}

static tercel_status optimize(void *arg, tercel_error *err) {
  tercel_graph *graph = NULL;
  tercel_decisions decisions = {0};
  tercel_status status;
  const char *const text = arg;
  TERCEL_CHECK(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, err));
  TERCEL_CHECK(tercel_infer_graph(graph, err));
  TERCEL_CHECK(tercel_optimize(graph, NULL, &decisions, err));
done:
  tercel_decisions_deinit(&decisions);
  tercel_graph_destroy(graph);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  tercel_test_oom(optimize, (void *)(uintptr_t)net, 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_everything_together),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_each_pass_can_be_left_out),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
