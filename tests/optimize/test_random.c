/* Random small graphs: optimized and not, they give the same results by the reference kernels, and verify after each pass.
 * The seed is printed; TERCEL_TEST_GRAPHS says how many graphs (500). */
#include "support/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimize/optimize.h"

/* ---- evaluation ---- */

/* What a value holds in a run, by id. */
typedef struct slot {
  tercel_tensor tensor;
  tercel_storage *storage;
} slot;

static tercel_status run_node(const tercel_node *node, slot *slots, tercel_error *err) {
  const tercel_tensor *in[64] = {0};
  tercel_tensor out[8];
  tercel_storage *storages[8] = {0};
  assert_true(node->num_inputs <= 64 && node->num_outputs <= 8);
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i])
      in[i] = node->inputs[i]->constant ? node->inputs[i]->constant : &slots[node->inputs[i]->id].tensor;
  TERCEL_TRY(tercel_eval_node(node, in, out, storages, err));
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) slots[node->outputs[i]->id] = (slot){out[i], storages[i]};
  return TERCEL_OK;
}

static slot *run_graph(const tercel_graph *graph, const tercel_tensor *inputs) {
  tercel_error err = {0};
  slot *const slots = calloc(graph->num_values + 1, sizeof *slots);
  for (uint32_t i = 0; i < graph->num_inputs; i++) slots[graph->inputs[i]->id].tensor = inputs[i];
  for (const tercel_node *node = graph->first; node; node = node->next) assert_ok(run_node(node, slots, &err), &err);
  return slots;
}

static const tercel_tensor *result_of(const tercel_graph *graph, uint32_t i, const slot *slots) {
  const tercel_value *const value = graph->outputs[i];
  return value->constant ? value->constant : &slots[value->id].tensor;
}

static void free_slots(const tercel_graph *graph, slot *slots) {
  for (uint32_t i = 0; i < graph->num_values; i++) tercel_storage_release(slots[i].storage);
  free(slots);
}

/* ---- comparison ---- */

/* How far a result may move: what rounding may do to it, and some times what a change of its inputs by 1e-6 did, where the graph
 * amplifies small differences. */
static double tolerance_of(const tercel_tensor *a, const tercel_tensor *moved) {
  const int64_t count = tercel_tensor_num_elements(a);
  double largest = 1, largest_move = 0; /* below that, cancellation inside norms and GELU shows */
  for (int64_t k = 0; k < count; k++) {
    const double x = tercel_tensor_get_f64(a, k), move = fabs(x - tercel_tensor_get_f64(moved, k));
    if (isfinite(x)) largest = fmax(largest, fabs(x));
    if (isfinite(move)) largest_move = fmax(largest_move, move);
  }
  return 1e-5 * largest + 20 * largest_move;
}

/* The first result that moved further than it may, as a message; "" where none did. */
static void compare(const tercel_graph *plain, const tercel_graph *optimized, const slot *want, const slot *moved,
                    const slot *have, char *message, size_t size) {
  message[0] = 0;
  for (uint32_t i = 0; i < plain->num_outputs; i++) {
    const tercel_tensor *const a = result_of(plain, i, want), *const b = result_of(optimized, i, have);
    if (a->dtype != b->dtype || !tercel_tensor_same_shape(a, b)) {
      snprintf(message, size, "output %u has another type", i);
      return;
    }
    const double tolerance = tolerance_of(a, result_of(plain, i, moved));
    const int64_t count = tercel_tensor_num_elements(a);
    for (int64_t k = 0; k < count; k++) {
      const double x = tercel_tensor_get_f64(a, k), y = tercel_tensor_get_f64(b, k);
      if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance) continue;
      snprintf(message, size, "output %u, element %lld: %g, not optimized %g, may differ by %g", i, (long long)k, y, x,
               tolerance);
      return;
    }
  }
}

/* Convolutions and pools are dear in a layout that depends on their names and the graph: any mixture of layouts comes up.  Graphs of even
 * numbers have all in NHWC that can be. */
static double node_cost(void *user, const tercel_node *node) {
  const uint64_t number = *(const uint64_t *)user;
  uint64_t hash = number * 0x9e3779b97f4a7c15u;
  for (const char *c = node->name; *c; c++) hash = (hash ^ (uint64_t)*c) * 0x100000001b3u;
  if (node->op->id != TERCEL_OP_CONV && node->op->id != TERCEL_OP_POOL) return (double)(hash % 7);
  const bool wants_nhwc = number % 2 == 0 || hash >> 40 & 1;
  return (tercel_node_layout(node) == TERCEL_LAYOUT_NHWC) == wants_nhwc ? 1 : 20;
}

/* What one graph is run on, and what came of it. */
typedef struct trial {
  uint64_t number;
  float data[TERCEL_TEST_GRAPH_INPUTS][TERCEL_TEST_GRAPH_INPUT_ELEMENTS];
  tercel_tensor inputs[TERCEL_TEST_GRAPH_INPUTS];
  bool changed; /* by the optimizer */
  char message[TERCEL_ERROR_MESSAGE_MAX + 64];
} trial;

static void run_both(const tercel_graph *plain, const tercel_graph *optimized, trial *t) {
  slot *const want = run_graph(plain, t->inputs), *const have = run_graph(optimized, t->inputs);
  tercel_tensor moved_inputs[TERCEL_TEST_GRAPH_INPUTS];
  float moved_data[TERCEL_TEST_GRAPH_INPUTS][TERCEL_TEST_GRAPH_INPUT_ELEMENTS];
  for (int i = 0; i < TERCEL_TEST_GRAPH_INPUTS; i++) {
    for (int k = 0; k < TERCEL_TEST_GRAPH_INPUT_ELEMENTS; k++) moved_data[i][k] = t->data[i][k] * 1.000001f;
    moved_inputs[i] = t->inputs[i];
    moved_inputs[i].data = moved_data[i];
  }
  slot *const moved = run_graph(plain, moved_inputs);
  compare(plain, optimized, want, moved, have, t->message, sizeof t->message);
  free_slots(plain, moved);
  free_slots(plain, want);
  free_slots(optimized, have);
}

/* A text that doesn't parse or is no sound graph before it is optimized does not fail: shrinking makes such, too. */
static bool fails(const char *text, void *user) {
  trial *const t = user;
  tercel_error err = {0};
  tercel_graph *plain = NULL, *optimized = NULL;
  t->message[0] = 0;
  if (tercel_graph_parse(text, strlen(text), tercel_ops(), &plain, &err) == TERCEL_OK &&
      tercel_infer_graph(plain, &err) == TERCEL_OK) {
    assert_ok(tercel_graph_clone(plain, NULL, NULL, &optimized, &err), &err);
    const tercel_optimize_options options = {.verify = true, .node_cost = node_cost, .cost_user = &t->number};
    if (tercel_optimize(optimized, &options, NULL, &err) != TERCEL_OK)
      snprintf(t->message, sizeof t->message, "%s", err.message);
    else
      run_both(plain, optimized, t);
    t->changed = tercel_graph_count_nodes(plain) != tercel_graph_count_nodes(optimized);
  }
  tercel_graph_destroy(plain);
  tercel_graph_destroy(optimized);
  return t->message[0] != 0;
}

static void check_graph(uint64_t number, int *changed) {
  tercel_test_graph g;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  trial t = {.number = number};
  tercel_test_graph_generate(number, false, &g);
  assert_ok(tercel_graph_parse(g.text.data, g.text.length, tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  tercel_graph_destroy(graph);
  for (int i = 0; i < TERCEL_TEST_GRAPH_INPUTS; i++) {
    tercel_test_random_fill_f32(&g.random, t.data[i], TERCEL_TEST_GRAPH_INPUT_ELEMENTS, -2, 2);
    assert_true(tercel_tensor_set_shape(&t.inputs[i], TERCEL_DTYPE_F32, g.rank[i], g.dims[i]) &&
                t.inputs[i].bytes <= sizeof t.data[i]);
    t.inputs[i].data = t.data[i];
  }
  if (fails(g.text.data, &t)) {
    tercel_test_graph_shrink(&g.text, fails, &t);
    fails(g.text.data, &t);
    fprintf(stderr, "%s", g.text.data); /* cmocka cuts long messages */
    fail_msg("graph %llu: %s", (unsigned long long)number, t.message);
  }
  *changed += t.changed;
  tercel_text_deinit(&g.text);
}

static void test_random_graphs(void **state) {
  (void)state;
  const char *const wanted = getenv("TERCEL_TEST_GRAPHS");
  const uint64_t count = wanted ? strtoull(wanted, NULL, 10) : 500;
  int changed = 0;
  for (uint64_t i = 0; i < count; i++) check_graph(i, &changed);
  assert_true(changed > (int)count / 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
