/* Steps that move data: pads (alone, before conv and pools), pools, slices of slices, splits and concats that undo each other or don't, gathers
 * of neighbours and others, expands with something to do before them. */
#include <string.h>

#include "support/random_graph_steps.h"

static int64_t pick(tercel_test_graph *g, int64_t low, int64_t high) { return tercel_test_graph_pick(g, low, high); }

static int add_like(tercel_test_graph *g, int x) { return tercel_test_graph_add_value(g, g->rank[x], g->dims[x]); }

/* A list of integers: an operand of one node. */
static int add_ints(tercel_test_graph *g, int count, const int64_t *values) {
  const int id = tercel_test_graph_add_value(g, 0, NULL);
  tercel_text_add(&g->text, "  %%v%d: i64[%d] = constant data(", id, count);
  for (int i = 0; i < count; i++) tercel_text_add(&g->text, "%s%lld", i ? ", " : "", (long long)values[i]);
  tercel_text_add(&g->text, ")\n");
  return id;
}

/* Behind the first dim, which may be a symbol; -1 where all others are empty. */
static int pick_axis(tercel_test_graph *g, int x) {
  const int axis = (int)pick(g, 1, g->rank[x] - 1);
  return g->dims[x][axis] > 0 ? axis : -1;
}

/* ---- pads and pools ---- */

/* Of at most `most` on each side; value: NULL for a mode of chance. */
static int add_pad(tercel_test_graph *g, int x, int64_t most, const char *number) {
  static const char *const modes[] = {"constant", "constant", "constant", "edge"};
  int64_t pads[8] = {0}, dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  for (int d = 2; d < 4; d++) {
    pads[d] = pick(g, 0, most);
    pads[4 + d] = pick(g, 0, most);
    dims[d] += pads[d] + pads[4 + d];
  }
  const int amounts = add_ints(g, 8, pads), value = tercel_test_graph_add_value(g, 0, NULL);
  tercel_text_add(&g->text, "  %%v%d: f32[] = constant data(%s)\n", value, number ? number : "0");
  const bool has_value = number || pick(g, 0, 1);
  const int y = tercel_test_graph_add_value(g, 4, dims);
  tercel_text_add(&g->text, "  %%v%d = pad(%%v%d, %%v%d", y, x, amounts);
  if (has_value) tercel_text_add(&g->text, ", %%v%d", value);
  tercel_text_add(&g->text, ") {mode = \"%s\"}\n", has_value ? "constant" : modes[pick(g, 0, 3)]);
  return y;
}

static void add_window_dims(const tercel_test_graph *g, int x, int64_t kernel, int64_t pad, int64_t stride,
                            int64_t dims[4]) {
  memcpy(dims, g->dims[x], 4 * sizeof *dims);
  for (int d = 2; d < 4; d++) dims[d] = (dims[d] + 2 * pad - kernel) / stride + 1;
}

static bool has_room(const tercel_test_graph *g, int x, int64_t kernel, int64_t pad) {
  for (int d = 1; d < 4; d++)
    if (g->dims[x][d] < 1 || g->dims[x][d] > 12) return false;
  return g->dims[x][2] + 2 * pad >= kernel && g->dims[x][3] + 2 * pad >= kernel;
}

static void add_window(tercel_test_graph *g, int x, const char *kind, int64_t kernel, int64_t pad) {
  const int64_t stride = pick(g, 1, 2);
  int64_t dims[4];
  if (!has_room(g, x, kernel, pad)) return;
  add_window_dims(g, x, kernel, pad, stride, dims);
  const int y = tercel_test_graph_add_value(g, 4, dims);
  tercel_text_add(&g->text,
                  "  %%v%d = pool(%%v%d) {kind = \"%s\", kernel = [%lld, %lld], strides = [%lld, %lld], pads = [%lld, "
                  "%lld, %lld, %lld], count_include_pad = %d}\n",
                  y, x, kind, (long long)kernel, (long long)kernel, (long long)stride, (long long)stride,
                  (long long)pad, (long long)pad, (long long)pad, (long long)pad, (int)pick(g, 0, 1));
}

static void add_pool(tercel_test_graph *g, int x) {
  const int64_t kernel = pick(g, 1, 3);
  add_window(g, x, pick(g, 0, 1) ? "max" : "average", kernel, pick(g, 0, kernel - 1));
}

static void add_relu(tercel_test_graph *g, int x) {
  const int y = add_like(g, x);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: relu(%%0)}}\n", y, x);
}

/* What is infinite is seen by that pool only, each of whose windows holds something else. */
static void add_pad_and_pool(tercel_test_graph *g, int x) {
  if (!has_room(g, x, 1, 0)) return;
  if (pick(g, 0, 1)) {
    add_relu(g, x);
    x = g->count - 1;
  }
  if (pick(g, 0, 2)) {
    add_pool(g, add_pad(g, x, 2, NULL));
    return;
  }
  const int padded = add_pad(g, x, 1, "-inf");
  const int64_t kernel = has_room(g, padded, 3, 0) ? 3 : 2;
  if (has_room(g, padded, kernel, 0))
    add_window(g, padded, "max", kernel, 0);
  else
    tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: clip<0, 1>(%%0)}}\n", add_like(g, padded),
                    padded);
  g->is_inner[padded] = true;
  g->rank[padded] = 0;
}

static void add_pad_and_conv(tercel_test_graph *g, int x) {
  if (!has_room(g, x, 1, 0)) return;
  const int padded = add_pad(g, x, 2, NULL);
  const int64_t kernel = pick(g, 1, 2), m = pick(g, 1, 3);
  if (!has_room(g, padded, kernel, 0)) return;
  const int64_t w_dims[4] = {m, g->dims[x][1], kernel, kernel};
  const int w = tercel_test_graph_add_constant(g, 4, w_dims, false);
  int64_t dims[4];
  add_window_dims(g, padded, kernel, 0, 1, dims);
  dims[1] = m;
  const int y = tercel_test_graph_add_value(g, 4, dims);
  tercel_text_add(&g->text, "  %%v%d = conv(%%v%d, %%v%d)\n", y, padded, w);
}

/* ---- parts ---- */

static int add_slice(tercel_test_graph *g, int x, int axis, int64_t begin, int64_t end) {
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  dims[axis] = end - begin;
  const int b = add_ints(g, 1, &begin), e = add_ints(g, 1, &end), a = add_ints(g, 1, &(int64_t){axis});
  const int y = tercel_test_graph_add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = slice(%%v%d, %%v%d, %%v%d, %%v%d)\n", y, x, b, e, a);
  return y;
}

static void add_slices(tercel_test_graph *g, int x) {
  for (int i = 0; i < 2; i++) {
    const int axis = pick_axis(g, x);
    if (axis < 0) return;
    const int64_t begin = pick(g, 0, g->dims[x][axis] - 1);
    x = add_slice(g, x, axis, begin, pick(g, begin + 1, g->dims[x][axis]));
  }
}

/* Slices that share x out, or almost. */
static void add_shared_out(tercel_test_graph *g, int x) {
  const int axis = pick_axis(g, x);
  if (axis < 0 || g->dims[x][axis] < 2) return;
  const int64_t size = g->dims[x][axis], at = pick(g, 1, size - 1);
  const bool swap = pick(g, 0, 1);
  add_slice(g, x, axis, swap ? at : 0, swap ? size : at);
  add_slice(g, x, axis, swap ? 0 : at - pick(g, 0, 3) / 3, swap ? at : size);
}

static int add_joined(tercel_test_graph *g, int axis, int count, const int *parts) {
  int64_t dims[4];
  memcpy(dims, g->dims[parts[0]], sizeof dims);
  for (int i = 1; i < count; i++) dims[axis] += g->dims[parts[i]][axis];
  const int y = tercel_test_graph_add_value(g, g->rank[parts[0]], dims);
  tercel_text_add(&g->text, "  %%v%d = concat(", y);
  for (int i = 0; i < count; i++) tercel_text_add(&g->text, "%s%%v%d", i ? ", " : "", parts[i]);
  tercel_text_add(&g->text, ") {axis = %d}\n", axis);
  return y;
}

static void add_split(tercel_test_graph *g, int x, int axis, const int64_t sizes[2], int parts[2]) {
  const int list = add_ints(g, 2, sizes);
  for (int i = 0; i < 2; i++) {
    int64_t dims[4];
    memcpy(dims, g->dims[x], sizeof dims);
    dims[axis] = sizes[i];
    parts[i] = tercel_test_graph_add_value(g, g->rank[x], dims);
  }
  tercel_text_add(&g->text, "  %%v%d, %%v%d = split(%%v%d, %%v%d) {axis = %d}\n", parts[0], parts[1], x, list, axis);
}

/* Split and joined, in either order. */
static void add_split_and_concat(tercel_test_graph *g, int x) {
  const int axis = pick_axis(g, x);
  int parts[2];
  if (axis < 0 || g->dims[x][axis] < 2) return;
  const int64_t at = pick(g, 1, g->dims[x][axis] - 1);
  add_split(g, x, axis, (const int64_t[]){at, g->dims[x][axis] - at}, parts);
  const bool swap = pick(g, 0, 2) == 0;
  const int order[2] = {parts[swap], parts[!swap]};
  add_joined(g, axis, 2, order);
}

/* Joined and joined again, then a slice of it or a split. */
static void add_concats(tercel_test_graph *g, int x) {
  const int axis = pick_axis(g, x);
  if (axis < 0 || g->dims[x][axis] > 4) return;
  const int first[2] = {x, x};
  const int inner = add_joined(g, axis, 2, first);
  const int second[2] = {pick(g, 0, 1) ? x : inner, inner};
  const int whole = add_joined(g, axis, 2, second);
  const int64_t size = g->dims[whole][axis];
  int parts[2];
  if (pick(g, 0, 1)) {
    const int64_t begin = pick(g, 0, size - 1);
    add_slice(g, whole, axis, begin, pick(g, begin + 1, size));
  } else {
    const int64_t at = pick(g, 0, 1) ? g->dims[second[0]][axis] : pick(g, 1, size - 1);
    add_split(g, whole, axis, (const int64_t[]){at, size - at}, parts);
  }
}

/* Of neighbours in half of the cases. */
static void add_gather(tercel_test_graph *g, int x) {
  const int axis = pick_axis(g, x);
  int64_t indices[3], dims[4];
  if (axis < 0) return;
  const int64_t size = g->dims[x][axis], count = pick(g, 1, size < 3 ? size : 3), first = pick(g, 0, size - count);
  const bool neighbours = pick(g, 0, 1);
  for (int64_t i = 0; i < count; i++) indices[i] = neighbours ? first + i : pick(g, -size, size - 1);
  memcpy(dims, g->dims[x], sizeof dims);
  dims[axis] = count;
  const int list = add_ints(g, (int)count, indices), y = tercel_test_graph_add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = gather(%%v%d, %%v%d) {axis = %d}\n", y, x, list, axis);
}

/* A column of x expanded, with something after it. */
static void add_expand(tercel_test_graph *g, int x) {
  const int axis = pick_axis(g, x);
  if (axis < 0) return;
  const int column = add_slice(g, x, axis, 0, 1);
  int64_t target[4] = {1, 1, 1, 1}, dims[4];
  target[axis] = pick(g, 1, 4);
  memcpy(dims, g->dims[column], sizeof dims);
  dims[axis] = target[axis];
  const int list = add_ints(g, g->rank[x], target), wide = tercel_test_graph_add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = expand(%%v%d, %%v%d)\n", wide, column, list);
  const int after = add_like(g, wide);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: tanh(%%0)}}\n", after, wide);
  const int over = (int)pick(g, 1, g->rank[x] - 1);
  memcpy(dims, g->dims[after], sizeof dims);
  if (dims[over] < 1) return;
  dims[over] = 1;
  const int y = tercel_test_graph_add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = reduce(%%v%d) {kind = \"sum\", axes = [%d]}\n", y, after, over);
}

const tercel_test_graph_step tercel_test_graph_moves[] = {
    {4, add_pool},    {4, add_pad_and_pool}, {4, add_pad_and_conv},
    {0, add_slices},  {0, add_shared_out},   {0, add_split_and_concat},
    {0, add_concats}, {0, add_gather},       {0, add_expand},
    {0, NULL},
};
