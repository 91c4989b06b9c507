/* Tactics: which one a step gets, by estimates and by measured times, and what the cache calls a step. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
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

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)node, (void)target;
  out->data = tercel_strdup(kernel->name);
  if (out->data == NULL) return tercel_fail_memory(err, 8, "a state");
  ++num_prepared;
  return TERCEL_OK;
}

static void release(void *data) {
  --num_prepared;
  tercel_free(data);
}

/* "small" is for few rows, "large" for many; "twin" is like large, with its packing, a little slower. */
static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)node, (void)out, (void)target;
  const double rows = (double)in[0]->dims[0];
  return kernel->name[0] == 's' ? 10 * rows : kernel->name[0] == 'l' ? 200 + rows : 200 + 1.01 * rows;
}

#define KERNEL(name_, packing_)                                                                                        \
  { .name = name_, .supports = always, .prepare = prepare, .release = release, .cost = cost, .packing = packing_ }
static const tercel_kernel small = KERNEL("small", NULL), large = KERNEL("large", "shared"),
                           twin = KERNEL("twin", "shared");

static const tercel_kernel *offer(const tercel_node *node, size_t i) {
  static const tercel_kernel *const kernels[] = {&small, &large, &twin, NULL};
  return node->op->id == TERCEL_OP_POINTWISE && i < 3 ? kernels[i] : NULL;
}

static const tercel_backend backend = {.name = "test", .kernel = offer};

static tercel_plan *plan_of(tercel_graph *graph, const tercel_timing_cache *cache) {
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  const tercel_plan_options options = {.target = {.num_threads = 3}, .cache = cache};
  assert_ok(tercel_plan_create(graph, &backend, &options, &plan, &err), &err);
  return plan;
}

static const char fixed[] = "graph \"g\" (%x: f32[100, 2]) {\n"
                            "  %y = pointwise(%x) {program = {1: neg(%0)}}\n  return %y\n}\n";
static const char free_dims[] = "graph \"g\" (%x: f32[n, 2]) {\n"
                                "  %y = pointwise(%x) {program = {1: neg(%0)}}\n  return %y\n}\n";

/* The name of what a step runs with for n rows. */
static const char *tactic_for(const tercel_plan *plan, int64_t n) {
  tercel_error err = {0};
  tercel_tensor x = {0};
  tercel_choice choice = {0};
  const int64_t dims[] = {n, 2};
  assert_true(tercel_tensor_set_shape(&x, TERCEL_DTYPE_F32, 2, dims));
  const tercel_tensor *const operand = &x;
  assert_ok(tercel_plan_choose_tactic(plan, &plan->steps[0], &operand, &operand, &choice, &err), &err);
  assert_non_null(choice.state);
  assert_ptr_equal(choice.state, choice.packing->state.data);
  tercel_packing_release(choice.packing);
  return choice.kernel->name;
}

static void test_estimates(void **state) {
  (void)state;
  tercel_graph *graph = parse(fixed);
  tercel_plan *plan = plan_of(graph, NULL);
  assert_int_equal(plan->steps[0].tactics->count, 3);
  assert_ptr_equal(plan->steps[0].kernel, &large); /* twin is dearer */
  assert_string_equal(tercel_step_tactic(&plan->steps[0]), "large");
  assert_int_equal(num_prepared, 1);
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
  assert_int_equal(num_prepared, 0);
}

/* Chosen for a batch of 1; other shapes stay with what is prepared for that. */
static void test_free_dims(void **state) {
  (void)state;
  tercel_graph *graph = parse(free_dims);
  tercel_plan *plan = plan_of(graph, NULL);
  assert_ptr_equal(plan->steps[0].kernel, &small);
  assert_string_equal(tactic_for(plan, 1000), "small");
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
}

/* Times of buckets: 1000 rows are asked for as 1024. */
static void test_times(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_timing_cache *cache = NULL;
  tercel_text text = {0};
  assert_ok(tercel_timing_cache_create(&cache, &err), &err);
  const char *const machines[] = {"another machine", NULL};
  tercel_graph *graph = parse(free_dims);
  tercel_plan *plan = plan_of(graph, cache);
  const char *const machine = plan->shared->rules.machine,
                    *const step = "pointwise f32[1024,2] -> f32[1024,2]  program = {1: neg(%0)}";
  assert_ok(tercel_timing_cache_set(cache, machines[0], step, "large", 1, &err), &err);
  assert_string_equal(tactic_for(plan, 1000), "small"); /* that is no time of this machine */
  assert_ok(tercel_timing_cache_set(cache, machine, step, "small", 1000, &err), &err);
  assert_ok(tercel_timing_cache_set(cache, machine, step, "twin", 990, &err), &err);
  assert_string_equal(tactic_for(plan, 1000), "small"); /* by a hair only */
  assert_ok(tercel_timing_cache_set(cache, machine, step, "twin", 900, &err), &err);
  assert_string_equal(tactic_for(plan, 1000), "twin");
  assert_string_equal(tactic_for(plan, 769), "twin");
  assert_string_equal(tactic_for(plan, 768), "small"); /* another bucket */
  assert_ok(tercel_timing_cache_set(cache, machine, step, "nobody", 1, &err), &err);
  assert_string_equal(tactic_for(plan, 1024), "twin"); /* a name that isn't offered says nothing */
  tercel_text_deinit(&text);
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
  tercel_timing_cache_destroy(cache);
  assert_int_equal(num_prepared, 0);
}

static void test_deterministic(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_plan *plan = NULL;
  tercel_graph *graph = parse(fixed);
  const tercel_plan_options options = {.target = {.num_threads = 3, .deterministic = true}};
  assert_ok(tercel_plan_create(graph, &backend, &options, &plan, &err), &err);
  assert_int_equal(plan->steps[0].tactics->count, 1); /* nobody says that its bits are small's */
  assert_ptr_equal(plan->steps[0].kernel, &small);
  tercel_plan_destroy(plan);
  tercel_graph_destroy(graph);
}

static void test_buckets(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{0, 0},   {1, 1},   {3, 3},   {4, 4},       {5, 6},      {6, 6},
                                     {7, 8},   {8, 8},   {9, 12},  {12, 12},     {13, 16},    {16, 16},
                                     {17, 24}, {24, 24}, {25, 32}, {1000, 1024}, {1025, 1536}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    assert_int_equal(tercel_bucket_of(sizes[i][0]), sizes[i][1]);
  for (int64_t n = 1; n < 5000; ++n) {
    assert_true(tercel_bucket_of(n) >= n && tercel_bucket_of(n) <= 3 * n / 2 + 1);
    assert_int_equal(tercel_bucket_of(tercel_bucket_of(n)), tercel_bucket_of(n));
  }
}

/* ---- the CPU's own ---- */

/* Estimates are numbers for every kernel that supports a node, whatever its shapes are. */
static void test_estimates_are_finite(void **state) {
  (void)state;
  static const char *const nets[] = {
      "graph \"g\" (%x: f32[1, 16, 20, 20]) {\n  %w: f32[16, 16, 3, 3] = constant ramp()\n"
      "  %y = conv(%x, %w) {pads = [1, 1, 1, 1]}\n  return %y\n}\n",
      "graph \"g\" (%x: f32[0, 3, 5, 5]) {\n  %w: f32[8, 3, 5, 5] = constant ramp()\n"
      "  %y = conv(%x, %w)\n  return %y\n}\n",
      "graph \"g\" (%x: f32[n, c, h, w]) {\n  %w: f32[8, 3, 1, 1] = constant ramp()\n"
      "  %y = conv(%x, %w)\n  return %y\n}\n",
      "graph \"g\" (%x: f32[n, 64]) {\n  %w: f32[64, 64] = constant ramp()\n  %y = matmul(%x, %w)\n  return %y\n}\n",
  };
  static const tercel_target target = {.num_threads = 2};
  for (size_t i = 0; i < sizeof nets / sizeof *nets; ++i) {
    tercel_graph *graph = parse(nets[i]);
    tercel_nominal nominal;
    tercel_nominal_init(&nominal, graph, NULL, NULL);
    const double ns = tercel_node_cost(tercel_cpu_backend(), graph->first, &nominal, &target);
    assert_true(isfinite(ns) && ns >= 0);
    tercel_nominal_deinit(&nominal);
    tercel_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_estimates), cmocka_unit_test(test_free_dims),
      cmocka_unit_test(test_times),     cmocka_unit_test(test_deterministic),
      cmocka_unit_test(test_buckets),   cmocka_unit_test(test_estimates_are_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
