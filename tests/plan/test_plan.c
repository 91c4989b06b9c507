/* Lowering: which kernel a node gets, how long values live, rows of nested plans, and what is said of nodes without a kernel. */
#include "support/support.h"

#include <string.h>

#include "plan/plan.h"

static tercel_graph *parse(const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  assert_ok(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  return graph;
}

/* ---- a backend of the test's own ---- */

static int num_prepared;

static bool always(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  (void)node;
  return true;
}

static bool never(const tercel_kernel *kernel, const tercel_node *node) { return !always(kernel, node); }

static const tercel_plan_options one = {.target = {.num_threads = 1}}, three = {.target = {.num_threads = 3}};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  (void)err;
  assert_int_equal(target->num_threads, 3);
  if (strcmp(node->name, "bad") == 0) return tercel_fail(err, TERCEL_UNSUPPORTED, "no luck");
  ++num_prepared;
  out->data = &num_prepared;
  out->packed_bytes = 100;
  return TERCEL_OK;
}

static void release(void *data) {
  assert_ptr_equal(data, &num_prepared);
  --num_prepared;
}

static const tercel_kernel first = {.name = "first", .op = TERCEL_OP_POINTWISE, .supports = never};
static const tercel_kernel second = {
    .name = "second", .op = TERCEL_OP_POINTWISE, .supports = always, .prepare = prepare, .release = release};
static const tercel_kernel third = {.name = "third", .op = TERCEL_OP_POINTWISE, .supports = always};

static const tercel_kernel *offer(const tercel_node *node, size_t i) {
  static const tercel_kernel *const kernels[] = {&first, &second, &third, NULL};
  return node->op->id == TERCEL_OP_POINTWISE && i < 3 ? kernels[i] : NULL;
}

static const tercel_backend backend = {.name = "test", .kernel = offer};

static void test_first_that_supports(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse("graph \"g\" (%x: f32[2]) {\n"
                              "  %a = pointwise(%x) {program = {1: neg(%0)}}\n"
                              "  %b = pointwise(%a, %x) {program = {2: add(%0, %1)}}\n"
                              "  %c = pointwise(%a) {program = {1: neg(%0)}}\n  return %b\n}\n");
  assert_ok(tercel_plan_create(graph, &backend, &three, &plan, &err), &err);
  assert_int_equal(plan->num_steps, 3);
  assert_ptr_equal(plan->steps[0].kernel, &second);
  assert_int_equal(plan->packed_bytes, 300);
  assert_int_equal(num_prepared, 3);
  const uint32_t x = graph->inputs[0]->id, a = graph->first->outputs[0]->id, b = graph->outputs[0]->id,
                 c = graph->last->outputs[0]->id;
  assert_int_equal(plan->lives[x].last, 1);
  assert_int_equal(plan->lives[a].first, 0);
  assert_int_equal(plan->lives[a].last, 2);
  assert_int_equal(plan->lives[b].first, 1);
  assert_int_equal(plan->lives[b].last, TERCEL_NO_STEP);
  assert_int_equal(plan->lives[c].last, 2);
  tercel_plan_destroy(plan);
  assert_int_equal(num_prepared, 0);
  tercel_graph_destroy(graph);
}

static void test_all_unsupported_at_once(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse("graph \"g\" (%x: f32[2, n]) {\n"
                              "  %a = pointwise(%x) {program = {1: neg(%0)}}\n"
                              "  %b = softmax(%a)\n  %c = transpose(%b)\n  return %c\n}\n");
  assert_fails(tercel_plan_create(graph, &backend, &three, &plan, &err), TERCEL_UNSUPPORTED, &err,
               "no kernel for 2 nodes: softmax 'b' (f32[2, n]), transpose 'c' (f32[2, n])");
  assert_int_equal(num_prepared, 0);
  tercel_graph_destroy(graph);
}

static void test_prepare_fails(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse("graph \"g\" (%x: f32[2]) {\n"
                              "  %a = pointwise(%x) {program = {1: neg(%0)}}\n"
                              "  %bad = pointwise(%a) {program = {1: neg(%0)}}\n  return %bad\n}\n");
  assert_fails(tercel_plan_create(graph, &backend, &three, &plan, &err), TERCEL_UNSUPPORTED, &err,
               "pointwise 'bad': no luck");
  assert_int_equal(num_prepared, 0);
  tercel_graph_destroy(graph);
}

/* ---- the CPU's backend ---- */

static void count_row(const tercel_step *step, int depth, void *user) {
  uint32_t *const next = user;
  assert_int_equal(step->row, *next);
  assert_int_equal(depth, step->row == 1 || step->row == 2);
  ++*next;
}

static void test_rows_of_nested_plans(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse("graph \"g\" (%c: bool[], %x: f32[2]) {\n"
                              "  %y = if(%c, %x) captures 1 do {\n"
                              "    graph \"t\" (%a: f32[2]) { %r = pointwise(%a) {program = {1: neg(%0)}} return %r }\n"
                              "    graph \"e\" (%a: f32[2]) { %r = pointwise(%a) {program = {1: abs(%0)}} return %r }\n"
                              "  }\n"
                              "  %z = pointwise(%y) {program = {1: neg(%0)}}\n  return %z\n}\n");
  assert_ok(tercel_plan_create(graph, tercel_cpu_backend(), &one, &plan, &err), &err);
  assert_int_equal(plan->num_rows, 4);
  assert_null(plan->steps[0].kernel);
  assert_int_equal(plan->steps[0].num_plans, 2);
  uint32_t rows = 0;
  tercel_plan_visit(plan, count_row, &rows);
  assert_int_equal(rows, 4);
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
}

/* What a kernel packed leaves memory, unless somebody else reads it. */
static void test_packed_constants(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse("graph \"g\" (%x: f32[2, 40]) {\n"
                              "  %a: f32[40, 40] = constant ramp()\n"
                              "  %b: f32[40, 40] = constant ramp()\n"
                              "  %c: f32[40, 2] = constant ramp()\n"
                              "  %y = matmul(%x, %a)\n"
                              "  %z = matmul(%y, %b)\n"
                              "  %u = matmul(%z, %b)\n  %v = matmul(%u, %c)\n  return %v\n}\n");
  assert_ok(tercel_plan_create(graph, tercel_cpu_backend(), &one, &plan, &err), &err);
  assert_int_equal(plan->num_steps, 4);
  assert_null(plan->steps[0].node->inputs[1]->constant->data);
  assert_int_equal(plan->steps[0].node->inputs[1]->constant->dims[1], 40);
  assert_non_null(plan->steps[1].node->inputs[1]->constant->data); /* two readers */
  assert_non_null(plan->steps[3].node->inputs[1]->constant->data); /* small */
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
}

static void test_nothing_to_do(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse("graph \"g\" (%x: f32[2]) { return %x }\n");
  assert_ok(tercel_plan_create(graph, tercel_cpu_backend(), &one, &plan, &err), &err);
  assert_int_equal(plan->num_steps, 0);
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_that_supports), cmocka_unit_test(test_all_unsupported_at_once),
      cmocka_unit_test(test_prepare_fails),       cmocka_unit_test(test_rows_of_nested_plans),
      cmocka_unit_test(test_packed_constants),    cmocka_unit_test(test_nothing_to_do)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
