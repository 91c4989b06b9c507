/* Steps of an LSTM or GRU in their parts, as exporters write them: gates in any order, split or sliced, one product or two. */
#include <string.h>

#include "support/random_graph_steps.h"

static int64_t pick(tercel_test_graph *g, int64_t low, int64_t high) { return tercel_test_graph_pick(g, low, high); }

static int add_rows(tercel_test_graph *g, int x, int64_t columns) {
  return tercel_test_graph_add_value(g, 2, (const int64_t[]){g->dims[x][0], columns});
}

static int add_matmul(tercel_test_graph *g, int x, int64_t columns) {
  const int w = tercel_test_graph_add_constant(g, 2, (const int64_t[]){g->dims[x][1], columns}, false);
  const int y = add_rows(g, x, columns);
  tercel_text_add(&g->text, "  %%v%d = matmul(%%v%d, %%v%d)\n", y, x, w);
  return y;
}

static int add_fn2(tercel_test_graph *g, const char *fn, int a, int b) {
  const bool swap = strcmp(fn, "sub") != 0 && pick(g, 0, 1);
  const int y = tercel_test_graph_add_value(g, 2, g->dims[a]);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: %s(%%0, %%1)}}\n", y, swap ? b : a,
                  swap ? a : b, fn);
  return y;
}

static int add_fn1(tercel_test_graph *g, const char *fn, int a) {
  const int y = tercel_test_graph_add_value(g, 2, g->dims[a]);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: %s(%%0)}}\n", y, a, fn);
  return y;
}

static int add_bias(tercel_test_graph *g, int x) {
  return add_fn2(g, "add", x, tercel_test_graph_add_constant(g, 1, &g->dims[x][1], false));
}

/* gates[i]: a part of x, in an order of chance. */
static void add_parts(tercel_test_graph *g, int x, int count, const int *order, int *parts) {
  const int64_t size = g->dims[x][1] / count;
  const int sizes = tercel_test_graph_add_value(g, 0, NULL);
  tercel_text_add(&g->text, "  %%v%d: i64[%d] = constant data(", sizes, count);
  for (int i = 0; i < count; i++) tercel_text_add(&g->text, "%s%lld", i ? ", " : "", (long long)size);
  tercel_text_add(&g->text, ")\n  ");
  for (int i = 0; i < count; i++) parts[order[i]] = add_rows(g, x, size);
  for (int i = 0; i < count; i++) tercel_text_add(&g->text, "%s%%v%d", i ? ", " : "", parts[order[i]]);
  tercel_text_add(&g->text, " = split(%%v%d, %%v%d) {axis = %d}\n", x, sizes, pick(g, 0, 1) ? 1 : -1);
}

static void pick_order(tercel_test_graph *g, int count, int *order) {
  for (int i = 0; i < count; i++) order[i] = i;
  for (int i = count - 1; i > 0; i--) {
    const int other = (int)pick(g, 0, i), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

enum { MOST_COLUMNS = 8 };

/* Half of them keep what lies inside to themselves, so that the rule fits. */
static void close_some(tercel_test_graph *g, int first) {
  const bool is_closed = pick(g, 0, 1);
  for (int i = first; i < g->count - 1 && is_closed; i++) {
    g->rank[i] = 0;
    g->is_inner[i] = true;
  }
}

static void add_lstm(tercel_test_graph *g, int x) {
  if (g->dims[x][1] < 1 || g->dims[x][1] > MOST_COLUMNS) return;
  const int64_t hidden = pick(g, 1, 3);
  const int first = g->count;
  const int h = add_matmul(g, x, hidden), c = add_matmul(g, x, hidden);
  const int of_x = add_matmul(g, x, 4 * hidden), of_h = add_matmul(g, h, 4 * hidden);
  const int gates = add_bias(g, add_fn2(g, "add", of_x, of_h));
  int order[4], parts[4];
  pick_order(g, 4, order);
  add_parts(g, gates, 4, order, parts);
  const int kept = add_fn2(g, "mul", add_fn1(g, "sigmoid", parts[0]), c);
  const int fresh = add_fn2(g, "mul", add_fn1(g, "sigmoid", parts[1]), add_fn1(g, "tanh", parts[2]));
  const int state = add_fn2(g, "add", kept, fresh);
  add_fn2(g, "mul", add_fn1(g, "sigmoid", parts[3]), add_fn1(g, "tanh", state));
  close_some(g, first);
}

static void add_gru(tercel_test_graph *g, int x) {
  if (g->dims[x][1] < 1 || g->dims[x][1] > MOST_COLUMNS) return;
  const int64_t hidden = pick(g, 1, 3);
  const int first = g->count;
  const int h = add_matmul(g, x, hidden);
  const int of_x = add_bias(g, add_matmul(g, x, 3 * hidden)), of_h = add_bias(g, add_matmul(g, h, 3 * hidden));
  int order[3], a[3], e[3];
  pick_order(g, 3, order);
  add_parts(g, of_x, 3, order, a);
  add_parts(g, of_h, 3, order, e);
  const int reset = add_fn1(g, "sigmoid", add_fn2(g, "add", a[0], e[0]));
  const int update = add_fn1(g, "sigmoid", add_fn2(g, "add", a[1], e[1]));
  const int fresh = add_fn1(g, "tanh", add_fn2(g, "add", a[2], add_fn2(g, "mul", reset, e[2])));
  add_fn2(g, "add", fresh, add_fn2(g, "mul", update, add_fn2(g, "sub", h, fresh)));
  close_some(g, first);
}

const tercel_test_graph_step tercel_test_graph_cells[] = {{2, add_lstm}, {2, add_gru}, {0, NULL}};
