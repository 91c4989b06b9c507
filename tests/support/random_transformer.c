/* Parts of transformers in random spellings: attention with masks, rotary embeddings, norms, GELU and gates. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/random_graph.h"

typedef tercel_test_graph generator;

static int64_t pick(generator *g, int64_t low, int64_t high) { return tercel_test_graph_pick(g, low, high); }

/* One node of one result: its text after the name.  Returns the value. */
static int emit(generator *g, int rank, const int64_t *dims, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int emit(generator *g, int rank, const int64_t *dims, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const int id = tercel_test_graph_add_value(g, rank, dims);
  tercel_text_add(&g->text, "  %%v%d = %s\n", id, text);
  return id;
}

/* A constant that is an operand of one node only. */
static int constant(generator *g, const char *type_and_data) {
  const int id = tercel_test_graph_add_value(g, 0, NULL);
  tercel_text_add(&g->text, "  %%v%d: %s\n", id, type_and_data);
  return id;
}

static int number(generator *g, double value) {
  char text[64];
  snprintf(text, sizeof text, "%s[] = constant data(%.9g)", g->dtype, value);
  return constant(g, text);
}

static int ints(generator *g, int count, const int64_t *values) {
  char text[160];
  int at = snprintf(text, sizeof text, "i64[%d] = constant data(", count);
  for (int i = 0; i < count; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? ", " : "", (long long)values[i]);
  snprintf(text + at, sizeof text - (size_t)at, ")");
  return constant(g, text);
}

/* Of an instruction, after the function's name. */
static const char *dtype_suffix(const generator *g) {
  static const struct { const char *dtype, *suffix; } all[] = {{"f16", ":f16"}, {"bf16", ":bf16"}, {"f64", ":f64"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strcmp(all[i].dtype, g->dtype) == 0) return all[i].suffix;
  return "";
}

static int fn1(generator *g, int x, const char *fn) {
  return emit(g, g->rank[x], g->dims[x], "pointwise(%%v%d) {program = {1: %s%s(%%0)}}", x, fn, dtype_suffix(g));
}

/* Of the shape of `like`. */
static int binary(generator *g, int like, int a, int b, const char *fn) {
  return emit(g, g->rank[like], g->dims[like], "pointwise(%%v%d, %%v%d) {program = {2: %s%s(%%0, %%1)}}", a, b, fn,
              dtype_suffix(g));
}
static int fn2(generator *g, int x, int y, const char *fn) { return binary(g, x, x, y, fn); }
static int commuted(generator *g, int x, int y, const char *fn) {
  return pick(g, 0, 1) ? binary(g, x, y, x, fn) : binary(g, x, x, y, fn);
}
static int scaled(generator *g, int x, double factor) {
  return pick(g, 0, 2) ? commuted(g, x, number(g, factor), "mul") : fn2(g, x, number(g, 1 / factor), "div");
}

static int reduce(generator *g, int x, const char *kind) {
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  dims[g->rank[x] - 1] = 1;
  return emit(g, g->rank[x], dims, "reduce(%%v%d) {kind = \"%s\", axes = [-1]}", x, kind);
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

static int turned(generator *g, int x) {
  const int64_t *const d = g->dims[x];
  return emit(g, 4, (const int64_t[]){d[0], d[1], d[3], d[2]}, "transpose(%%v%d) {perm = [0, 1, 3, 2]}", x);
}

/* Rows of all that x has once more, as past keys are. */
static int doubled(generator *g, int x, int first) {
  const int64_t *const d = g->dims[x];
  return emit(g, 4, (const int64_t[]){d[0], d[1], 2 * d[2], d[3]}, "concat(%%v%d, %%v%d) {axis = 2}", first, x);
}

static const char *hidden_number(generator *g) {
  static const char *const numbers[] = {"-inf", "-3.4028234663852886e+38", "-1e9", "-10000"};
  return numbers[pick(g, 0, 3)];
}

/* A constant of rows x columns: elements of one of two texts, by a triangle or at random. */
static int two_valued(generator *g, const char *type, int64_t rows, int64_t columns, const char *seen,
                      const char *hidden) {
  tercel_text text = {0};
  const int64_t shift = pick(g, 0, 3) ? columns - rows : 0;
  const bool is_triangle = pick(g, 0, 1);
  tercel_text_add(&text, "%s[%lld, %lld] = constant data(", type, (long long)rows, (long long)columns);
  for (int64_t k = 0; k < rows * columns; k++) {
    const bool sees = is_triangle ? k % columns <= k / columns + shift : pick(g, 0, 2) > 0;
    tercel_text_add(&text, "%s%s", k ? ", " : "", sees ? seen : hidden);
  }
  tercel_text_add(&text, ")");
  const int id = constant(g, text.data);
  tercel_text_deinit(&text);
  return id;
}

static int masked(generator *g, int scores) {
  const int64_t rows = g->dims[scores][2], columns = g->dims[scores][3];
  const char *const hidden = hidden_number(g);
  char fill[64];
  switch (pick(g, 0, 4)) {
  case 0: return commuted(g, scores, two_valued(g, "f32", rows, columns, "0", hidden), "add");
  case 1: {
    const int mask = two_valued(g, "bool", rows, columns, "1", "0");
    snprintf(fill, sizeof fill, "f32[] = constant data(%s)", hidden);
    return emit(g, 4, g->dims[scores], "pointwise(%%v%d, %%v%d, %%v%d) {program = {3: select(%%0, %%1, %%2)}}", mask,
                scores, constant(g, fill));
  }
  case 2: {
    const int mask = two_valued(g, "bool", rows, columns, "0", "1");
    snprintf(fill, sizeof fill, "f32[] = constant data(%s)", hidden);
    return emit(g, 4, g->dims[scores], "pointwise(%%v%d, %%v%d, %%v%d) {program = {3: select(%%0, %%1, %%2)}}", mask,
                constant(g, fill), scores);
  }
  case 3: return commuted(g, scores, tercel_test_graph_add_constant(g, 1, &columns, false), "add");
  default: return scores;
  }
}

static int softmax(generator *g, int x) {
  if (pick(g, 0, 2)) return emit(g, g->rank[x], g->dims[x], "softmax(%%v%d) {axis = -1}", x);
  const int e = fn1(g, fn2(g, x, reduce(g, x, "max"), "sub"), "exp");
  return fn2(g, e, reduce(g, e, "sum"), "div");
}

/* Batch and heads merged, for products of rank 3; of a batch that isn't known before the run. */
static int merged(generator *g, int x) {
  const int64_t *const d = g->dims[x];
  const int shape = ints(g, 3, (const int64_t[]){-1, d[2], d[3]});
  return emit(g, 3, (const int64_t[]){d[0] * d[1], d[2], d[3]}, "reshape(%%v%d, %%v%d)", x, shape);
}

static int split(generator *g, int x, int64_t batch, int64_t heads) {
  const int64_t *const d = g->dims[x];
  const int shape = ints(g, 4, (const int64_t[]){-1, heads, d[1], d[2]});
  return emit(g, 4, (const int64_t[]){batch, heads, d[1], d[2]}, "reshape(%%v%d, %%v%d)", x, shape);
}

static int product(generator *g, int a, int b, bool trans_b) {
  int64_t dims[4];
  const int rank = g->rank[a];
  memcpy(dims, g->dims[a], sizeof dims);
  dims[rank - 1] = g->dims[b][trans_b ? rank - 2 : rank - 1];
  return emit(g, rank, dims, "matmul(%%v%d, %%v%d) {trans_b = %d}", a, b, trans_b);
}

static void add_attention(generator *g, int x) {
  const int64_t batch = g->dims[x][0], heads = g->dims[x][1];
  if (heads < 1 || g->dims[x][2] < 1 || g->dims[x][3] < 1) return;
  const bool is_merged = pick(g, 0, 3) == 0, with_past = pick(g, 0, 2) == 0;
  int q = x, k = pick(g, 0, 1) ? fn1(g, x, "tanh") : x, v = pick(g, 0, 1) ? fn1(g, x, "sigmoid") : x;
  if (with_past) {
    k = doubled(g, k, x);
    v = doubled(g, v, x);
  }
  if (pick(g, 0, 2) == 0) q = scaled(g, q, 0.5);
  if (pick(g, 0, 3) == 0) k = scaled(g, k, 0.7);
  const bool trans_b = pick(g, 0, 1) || is_merged;
  if (!trans_b) k = turned(g, k);
  int scores =
      is_merged ? split(g, product(g, merged(g, q), merged(g, k), true), batch, heads) : product(g, q, k, trans_b);
  if (pick(g, 0, 2) == 0) scores = scaled(g, scores, 0.6);
  if (pick(g, 0, 5) == 0) scores = scaled(g, fn1(g, scaled(g, scores, 0.25), "tanh"), 4);
  const int first_masked = g->count;
  for (int i = (int)pick(g, 0, 2); i > 0; i--) scores = masked(g, scores);
  int weights = softmax(g, is_merged ? merged(g, scores) : scores);
  for (int i = first_masked; i < weights; i++) g->rank[i] = 0; /* numbers so large are no operands of other steps */
  if (pick(g, 0, 3) == 0) {
    const int is_nan =
        emit(g, g->rank[weights], g->dims[weights], "pointwise(%%v%d) {program = {1: is_nan:bool(%%0)}}", weights);
    weights =
        emit(g, g->rank[weights], g->dims[weights],
             "pointwise(%%v%d, %%v%d, %%v%d) {program = {3: select(%%0, %%1, %%2)}}", is_nan, number(g, 0), weights);
    g->rank[is_nan] = 0; /* bools are no operands of other steps */
  }
  const int y = product(g, weights, is_merged ? merged(g, v) : v, false);
  if (is_merged) split(g, y, batch, heads);
}

/* ---- rotary embeddings ----------------------------------------------------------------------------------------------- */

static int part(generator *g, int x, int64_t begin, int64_t end, int64_t step) {
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  dims[3] = (tercel_min_i64(end, dims[3]) - begin + step - 1) / step;
  const int operands[] = {ints(g, 1, &begin), ints(g, 1, &end), ints(g, 1, (const int64_t[]){-1}), ints(g, 1, &step)};
  return emit(g, 4, dims, "slice(%%v%d, %%v%d, %%v%d, %%v%d, %%v%d)", x, operands[0], operands[1], operands[2],
              operands[3]);
}

/* A table of as many rows as x has places, whose halves (neighbours) are equal, except where it is spoiled. */
static int table(generator *g, int x, bool neighbours, bool spoiled) {
  const int64_t rows = g->dims[x][2], size = g->dims[x][3];
  tercel_text text = {0};
  tercel_text_add(&text, "f32[1, 1, %lld, %lld] = constant data(", (long long)rows, (long long)size);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < size; i++) {
      const int64_t angle = neighbours ? i / 2 : i % (size / 2);
      tercel_text_add(&text, "%s%.9g", r + i ? ", " : "",
                      (double)sinf((float)(r + 1) * (float)(angle + 1)) + (spoiled && i == 0));
    }
  tercel_text_add(&text, ")");
  const int id = constant(g, text.data);
  tercel_text_deinit(&text);
  return id;
}

static void add_rotary(generator *g, int x) {
  const int64_t size = g->dims[x][3];
  if (size % 2 != 0 || size == 0) return;
  const bool neighbours = pick(g, 0, 1), spoiled = pick(g, 0, 5) == 0;
  int turned_x;
  if (neighbours) {
    const int64_t *const d = g->dims[x];
    const int even = part(g, x, 0, INT64_MAX, 2), odd = fn1(g, part(g, x, 1, INT64_MAX, 2), "neg");
    const int axis = ints(g, 1, (const int64_t[]){4});
    const int a = emit(g, 0, NULL, "unsqueeze(%%v%d, %%v%d)", odd, axis),
              b = emit(g, 0, NULL, "unsqueeze(%%v%d, %%v%d)", even, axis);
    const int stack = emit(g, 0, NULL, "concat(%%v%d, %%v%d) {axis = -1}", a, b);
    const int shape = ints(g, 4, (const int64_t[]){0, 0, 0, size});
    turned_x = emit(g, 4, d, "reshape(%%v%d, %%v%d)", stack, shape);
  } else {
    const int first = part(g, x, 0, size / 2, 1),
              second = fn1(g, part(g, x, size / 2, pick(g, 0, 1) ? size : INT64_MAX, 1), "neg");
    turned_x = emit(g, 4, g->dims[x], "concat(%%v%d, %%v%d) {axis = 3}", second, first);
  }
  const int cos = table(g, x, neighbours, spoiled), sin = table(g, x, neighbours, false);
  commuted(g, commuted(g, x, cos, "mul"), commuted(g, turned_x, sin, "mul"), "add");
}

/* ---- norms, activations --------------------------------------------------------------------------------------------- */

static int mean(generator *g, int x) {
  return pick(g, 0, 1) ? reduce(g, x, "mean") : scaled(g, reduce(g, x, "sum"), 1 / (double)g->dims[x][g->rank[x] - 1]);
}

static int inverse_root(generator *g, int x) {
  const int64_t kind = pick(g, 0, 2);
  if (kind == 0) return fn1(g, x, "rsqrt");
  const int root = fn1(g, x, "sqrt");
  return kind == 1 ? fn1(g, root, "reciprocal") : binary(g, x, number(g, 1), root, "div");
}

static void add_norm(generator *g, int x) {
  const bool is_rms = pick(g, 0, 2) == 0, of_squares = !is_rms && pick(g, 0, 2) == 0;
  const int rank = g->rank[x];
  const int64_t size = g->dims[x][rank - 1];
  if (size == 0) return;
  int d = x, variance;
  if (of_squares) {
    const int m = mean(g, x);
    variance = fn1(g, fn2(g, mean(g, fn2(g, x, x, "mul")), fn2(g, m, m, "mul"), "sub"), "relu");
    d = fn2(g, x, m, "sub");
  } else {
    if (!is_rms) d = fn2(g, x, mean(g, x), "sub");
    variance = mean(g, fn2(g, d, d, "mul"));
  }
  const int inside = commuted(g, variance, number(g, 0.05), "add");
  int y;
  if (pick(g, 0, 2) == 0) {
    y = fn2(g, d, fn1(g, inside, "sqrt"), "div");
  } else {
    y = commuted(g, d, inverse_root(g, inside), "mul");
  }
  if (pick(g, 0, 1)) y = commuted(g, y, tercel_test_graph_add_constant(g, 1, &size, true), "mul");
  if (pick(g, 0, 1)) commuted(g, y, tercel_test_graph_add_constant(g, 1, &size, false), "add");
}

/* x (1 + erf(x / sqrt 2)) / 2 and the others, factors in any place. */
static void add_gelu(generator *g, int x) {
  const int64_t kind = pick(g, 0, 3);
  if (kind == 0) {
    const int e = fn1(g, scaled(g, x, 0.70710678118), "erf");
    scaled(g, commuted(g, x, commuted(g, e, number(g, 1), "add"), "mul"), 0.5);
  } else if (kind == 1) {
    const int e = fn1(g, scaled(g, fn1(g, x, "neg"), 0.70710678118), "erf");
    const int c = binary(g, x, number(g, 1), e, "sub");
    commuted(g, scaled(g, x, 0.5), c, "mul");
  } else {
    const int cube = commuted(g, fn2(g, x, x, "mul"), x, "mul");
    const int u = commuted(g, x, scaled(g, cube, 0.044715), "add");
    if (kind == 2)
      scaled(g, commuted(g, x, commuted(g, fn1(g, scaled(g, u, 0.79788456080), "tanh"), number(g, 1), "add"), "mul"),
             0.5);
    else
      commuted(g, x, fn1(g, scaled(g, u, 1.5957691216), "sigmoid"), "mul");
  }
}

/* A gate over another value of its shape: GLU, SwiGLU, GeGLU. */
static void add_gate(generator *g, int x) {
  static const char *const gates[] = {"sigmoid", "silu<1>", "gelu", "tanh"};
  const int64_t size = g->dims[x][g->rank[x] - 1];
  if (size == 0) return;
  const int64_t dims[2] = {size, 3};
  int64_t out[4];
  memcpy(out, g->dims[x], sizeof out);
  out[g->rank[x] - 1] = 3;
  int sides[2];
  for (int i = 0; i < 2; i++) {
    const int w = tercel_test_graph_add_constant(g, 2, dims, false);
    sides[i] = emit(g, g->rank[x], out, "matmul(%%v%d, %%v%d)", x, w);
    if (pick(g, 0, 1))
      sides[i] = commuted(g, sides[i], tercel_test_graph_add_constant(g, 1, &out[g->rank[x] - 1], false), "add");
  }
  commuted(g, fn1(g, sides[0], gates[pick(g, 0, 3)]), sides[1], "mul");
}

/* The same in another dtype, between casts; rules for f32 have no business there. */
static void add_in_other_dtype(generator *g, int x) {
  static const char *const dtypes[] = {"f16", "bf16", "f64"};
  static void (*const parts[])(generator *, int) = {add_norm, add_gelu};
  const char *const dtype = dtypes[pick(g, 0, 2)];
  const int narrow =
      emit(g, g->rank[x], g->dims[x], "pointwise(%%v%d) {program = {1: cast:%s<1, 117>(%%0)}}", x, dtype);
  const int first = g->count, rank = g->rank[x];
  g->dtype = dtype;
  parts[pick(g, 0, 1)](g, narrow);
  g->dtype = "f32";
  const int last = g->count - 1;
  const bool has_shape = g->rank[last] == rank && last >= first;
  for (int i = narrow; i <= last; i++) g->rank[i] = 0;
  if (has_shape) emit(g, rank, g->dims[x], "pointwise(%%v%d) {program = {1: cast:f32<1, 117>(%%0)}}", last);
}

static void add_part(generator *g, int x) {
  const int64_t kind = pick(g, 0, 9);
  if (kind < 3 && g->rank[x] == 4)
    add_attention(g, x);
  else if (kind == 3 && g->rank[x] == 4)
    add_rotary(g, x);
  else if (kind < 6)
    add_norm(g, x);
  else if (kind < 8)
    add_gelu(g, x);
  else if (kind == 8)
    add_gate(g, x);
  else
    add_in_other_dtype(g, x);
}

/* Half of them keep to themselves, so that rules fit; in the others anything may be read from outside. */
void tercel_test_graph_add_transformer(tercel_test_graph *g, int x) {
  const int first = g->count;
  const bool is_closed = pick(g, 0, 1);
  add_part(g, x);
  for (int i = first; i < g->count - 1 && is_closed; i++) {
    g->rank[i] = 0;
    g->is_inner[i] = true;
  }
}
