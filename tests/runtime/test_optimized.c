/* Random small graphs, run by engines: optimized and not, they give the same results, at every level.  run-tests: levels
 * The seed is printed; TERCEL_TEST_GRAPHS says how many graphs (500).  A graph that fails is printed as small as it still fails. */
#include "support/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MAX_OUTPUTS = 64 };

/* What one graph is run on, and what came of it. */
typedef struct trial {
  float data[TERCEL_TEST_GRAPH_INPUTS][TERCEL_TEST_GRAPH_INPUT_ELEMENTS];
  tercel_view inputs[TERCEL_TEST_GRAPH_INPUTS];
  bool ran; /* as it stands */
  char why_not[TERCEL_ERROR_MESSAGE_MAX];
  char message[TERCEL_ERROR_MESSAGE_MAX + 64];
} trial;

/* ---- running ---- */

typedef struct answer {
  tercel_engine *engine;
  tercel_context *context;
  size_t count;
  tercel_view outputs[MAX_OUTPUTS];
} answer;

static void answer_deinit(answer *a) {
  tercel_context_destroy(a->context);
  tercel_engine_destroy(a->engine);
}

static tercel_status run(const tercel_model *model, bool optimized, const trial *t, float factor, answer *out,
                         tercel_error *err) {
  float data[TERCEL_TEST_GRAPH_INPUTS][TERCEL_TEST_GRAPH_INPUT_ELEMENTS];
  const tercel_engine_options options = {
      .size = sizeof options, .num_threads = 1, .no_optimize = !optimized, .check = 1};
  *out = (answer){0};
  TERCEL_TRY(tercel_engine_build(model, &options, &out->engine, err));
  TERCEL_TRY(tercel_context_create(out->engine, NULL, &out->context, err));
  for (size_t i = 0; i < TERCEL_TEST_GRAPH_INPUTS; i++) {
    tercel_view view = t->inputs[i];
    for (int k = 0; k < TERCEL_TEST_GRAPH_INPUT_ELEMENTS; k++) data[i][k] = t->data[i][k] * factor;
    view.data = data[i];
    TERCEL_TRY(tercel_context_set_input(out->context, i, &view, err));
  }
  TERCEL_TRY(tercel_context_run(out->context, err));
  out->count = tercel_engine_num_outputs(out->engine);
  assert_true(out->count <= MAX_OUTPUTS);
  for (size_t i = 0; i < out->count; i++) TERCEL_TRY(tercel_context_get_output(out->context, i, &out->outputs[i], err));
  return TERCEL_OK;
}

/* ---- comparing ---- */

/* How far a result may move: what rounding may do to it, and some times what a change of the inputs by 1e-6 did, where the graph
 * amplifies small differences. */
static double tolerance_of(const tercel_view *a, const tercel_view *moved) {
  double largest = 1, largest_move = 0; /* below that, cancellation inside norms and GELU shows */
  for (int64_t k = 0; k < tercel_tensor_num_elements(a); k++) {
    const double x = tercel_tensor_get_f64(a, k), move = fabs(x - tercel_tensor_get_f64(moved, k));
    if (isfinite(x)) largest = fmax(largest, fabs(x));
    if (isfinite(move)) largest_move = fmax(largest_move, move);
  }
  return 1e-5 * largest + 20 * largest_move;
}

static void compare(const answer *plain, const answer *moved, const answer *optimized, trial *t) {
  for (size_t i = 0; i < plain->count && !t->message[0]; i++) {
    const tercel_view *const a = &plain->outputs[i], *const b = &optimized->outputs[i];
    if (a->dtype != b->dtype || !tercel_tensor_same_shape(a, b)) {
      snprintf(t->message, sizeof t->message, "output %zu has another type", i);
      return;
    }
    const double tolerance = tolerance_of(a, &moved->outputs[i]);
    for (int64_t k = 0; k < tercel_tensor_num_elements(a); k++) {
      const double x = tercel_tensor_get_f64(a, k), y = tercel_tensor_get_f64(b, k);
      if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance) continue;
      snprintf(t->message, sizeof t->message, "output %zu, element %lld: %g, not optimized %g, may differ by %g", i,
               (long long)k, y, x, tolerance);
      return;
    }
  }
}

/* What doesn't run as it stands does not fail: shrinking makes such texts, too. */
static bool fails(const char *text, void *user) {
  trial *const t = user;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  answer plain = {0}, moved = {0}, optimized = {0};
  t->message[0] = 0;
  t->ran = false;
  if (tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err) == TERCEL_OK &&
      tercel_model_from_graph(graph, &model, &err) == TERCEL_OK)
    graph = NULL;
  t->ran = model && run(model, false, t, 1, &plain, &err) == TERCEL_OK &&
           run(model, false, t, 1.000001f, &moved, &err) == TERCEL_OK;
  if (!t->ran)
    snprintf(t->why_not, sizeof t->why_not, "%s", err.message);
  else if (run(model, true, t, 1, &optimized, &err) != TERCEL_OK)
    snprintf(t->message, sizeof t->message, "optimized: %s", err.message);
  else
    compare(&plain, &moved, &optimized, t);
  answer_deinit(&plain);
  answer_deinit(&moved);
  answer_deinit(&optimized);
  tercel_model_destroy(model);
  tercel_graph_destroy(graph);
  return t->message[0] != 0;
}

static void check_graph(uint64_t number) {
  tercel_test_graph g;
  trial t = {.message = ""};
  tercel_test_graph_generate(number, true, &g);
  for (int i = 0; i < TERCEL_TEST_GRAPH_INPUTS; i++) {
    tercel_test_random_fill_f32(&g.random, t.data[i], TERCEL_TEST_GRAPH_INPUT_ELEMENTS, -2, 2);
    assert_true(tercel_tensor_set_shape(&t.inputs[i], TERCEL_DTYPE_F32, g.rank[i], g.dims[i]) &&
                t.inputs[i].bytes <= sizeof t.data[i]);
  }
  if (fails(g.text.data, &t)) {
    tercel_test_graph_shrink(&g.text, fails, &t);
    fails(g.text.data, &t);
    fprintf(stderr, "%s", g.text.data); /* cmocka cuts long messages */
    fail_msg("graph %llu: %s", (unsigned long long)number, t.message);
  }
  if (!t.ran) {
    fprintf(stderr, "%s", g.text.data);
    fail_msg("graph %llu does not run: %s", (unsigned long long)number, t.why_not);
  }
  tercel_text_deinit(&g.text);
}

/* A wrong softmax, say: what is left is it and what it needs. */
static bool has_softmax(const char *text, void *user) {
  (void)user;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  const bool is_graph = tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err) == TERCEL_OK;
  tercel_graph_destroy(graph);
  return is_graph && strstr(text, "= softmax(%v") != NULL;
}

static void test_failing_graphs_are_shrunk(void **state) {
  (void)state;
  int count = 0;
  for (uint64_t number = 0; number < 200; number++) {
    tercel_test_graph g;
    tercel_test_graph_generate(number, true, &g);
    if (has_softmax(g.text.data, NULL)) {
      tercel_test_graph_shrink(&g.text, has_softmax, NULL);
      assert_true(has_softmax(g.text.data, NULL));
      const char *const results = strstr(g.text.data, "\n  return ");
      assert_non_null(results);
      assert_null(strchr(results, ','));
      count++;
    }
    tercel_text_deinit(&g.text);
  }
  assert_true(count > 0);
}

static void test_random_graphs(void **state) {
  (void)state;
  const char *const wanted = getenv("TERCEL_TEST_GRAPHS");
  const uint64_t count = wanted ? strtoull(wanted, NULL, 10) : 500;
  for (uint64_t i = 0; i < count; i++) check_graph(i);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs),
                                     cmocka_unit_test(test_failing_graphs_are_shrunk)};
  tercel_log_set(TERCEL_LOG_OFF, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
