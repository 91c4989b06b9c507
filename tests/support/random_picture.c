/* Parts of networks of pictures that are not convolutions: pools, pads, splits, resizes, sums over the pixels. */
#include <stdio.h>
#include <string.h>

#include "support/random_graph.h"

typedef tercel_test_graph generator;

static int64_t pick(generator *g, int64_t low, int64_t high) { return tercel_test_graph_pick(g, low, high); }

/* A list of four i64, an operand of one node; numbers of a resize's scales where f32. */
static int list(generator *g, const char *dtype, int count, const int64_t *values) {
  const int id = tercel_test_graph_add_value(g, 0, NULL);
  tercel_text_add(&g->text, "  %%v%d: %s[%d] = constant data(", id, dtype, count);
  for (int i = 0; i < count; i++) tercel_text_add(&g->text, "%s%lld", i ? ", " : "", (long long)values[i]);
  tercel_text_add(&g->text, ")\n");
  return id;
}

static void add_pool(generator *g, int x) {
  const int64_t *const in = g->dims[x];
  const int64_t kernel = pick(g, 1, 3), stride = pick(g, 1, 2), pad = kernel / 2;
  if (in[2] < 1 || in[3] < 1 || in[2] + 2 * pad < kernel || in[3] + 2 * pad < kernel) return;
  const int64_t out[4] = {in[0], in[1], (in[2] + 2 * pad - kernel) / stride + 1,
                          (in[3] + 2 * pad - kernel) / stride + 1};
  const int y = tercel_test_graph_add_value(g, 4, out);
  tercel_text_add(&g->text,
                  "  %%v%d = pool(%%v%d) {kind = \"%s\", kernel = [%lld, %lld], strides = [%lld, %lld], pads = [%lld, "
                  "%lld, %lld, %lld]}\n",
                  y, x, pick(g, 0, 1) ? "max" : "average", (long long)kernel, (long long)kernel, (long long)stride,
                  (long long)stride, (long long)pad, (long long)pad, (long long)pad, (long long)pad);
}

static void add_pad(generator *g, int x) {
  int64_t pads[8], out[4];
  for (int i = 0; i < 4; i++) {
    pads[i] = i > 0 ? pick(g, 0, 1) : 0;
    pads[i + 4] = i > 0 ? pick(g, 0, 1) : 0;
    out[i] = g->dims[x][i] + pads[i] + pads[i + 4];
  }
  const int p = list(g, "i64", 8, pads), y = tercel_test_graph_add_value(g, 4, out);
  tercel_text_add(&g->text, "  %%v%d = pad(%%v%d, %%v%d)\n", y, x, p);
}

static void add_split(generator *g, int x) {
  const int axis = (int)pick(g, 1, 3);
  const int64_t size = g->dims[x][axis], first = size > 0 ? pick(g, 0, size) : 0;
  int64_t dims[4];
  const int sizes = list(g, "i64", 2, (const int64_t[]){first, size - first});
  memcpy(dims, g->dims[x], sizeof dims);
  dims[axis] = first;
  const int a = tercel_test_graph_add_value(g, 4, dims);
  dims[axis] = size - first;
  const int b = tercel_test_graph_add_value(g, 4, dims);
  tercel_text_add(&g->text, "  %%v%d, %%v%d = split(%%v%d, %%v%d) {axis = %d}\n", a, b, x, sizes, axis);
}

static void add_resize(generator *g, int x) {
  const int64_t scales[4] = {1, 1, pick(g, 1, 2), pick(g, 1, 2)};
  int64_t out[4];
  for (int i = 0; i < 4; i++) out[i] = g->dims[x][i] * scales[i];
  if (out[2] > 16 || out[3] > 16 || out[2] < 1 || out[3] < 1) return;
  const int s = list(g, "f32", 4, scales), y = tercel_test_graph_add_value(g, 4, out);
  tercel_text_add(&g->text, "  %%v%d = resize(%%v%d, _, %%v%d) {mode = \"%s\", coordinate = \"asymmetric\"}\n", y, x, s,
                  pick(g, 0, 1) ? "linear" : "nearest");
}

/* Squeeze and excitation without its convolutions: a factor for each channel. */
static void add_gate(generator *g, int x) {
  const int64_t *const in = g->dims[x];
  if (in[2] < 1 || in[3] < 1) return;
  const int mean = tercel_test_graph_add_value(g, 4, (const int64_t[]){in[0], in[1], 1, 1});
  tercel_text_add(&g->text, "  %%v%d = reduce(%%v%d) {kind = \"mean\", axes = [2, 3]}\n", mean, x);
  const int y = tercel_test_graph_add_value(g, 4, in);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: mul(%%0, %%1)}}\n", y, x, mean);
}

void tercel_test_graph_add_picture(generator *g, int x) {
  static void (*const parts[])(generator *, int) = {add_pool, add_pad, add_split, add_resize, add_gate};
  parts[pick(g, 0, 4)](g, x);
}
