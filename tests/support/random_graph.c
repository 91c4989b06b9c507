/* Random graphs as text, and smaller ones that fail alike.  Steps of single themes: random_graph_*.c, random_transformer.c. */
#include "support/random_graph.h"

#include "support/random_graph_steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VALUES = TERCEL_TEST_GRAPH_VALUES };

typedef tercel_test_graph generator;

int64_t tercel_test_graph_pick(generator *g, int64_t low, int64_t high) {
  return tercel_test_random_int(&g->random, low, high);
}
static int64_t pick(generator *g, int64_t low, int64_t high) { return tercel_test_graph_pick(g, low, high); }

static void print_dims(generator *g, int rank, const int64_t *dims) {
  tercel_text_add(&g->text, "%s[", g->dtype);
  for (int i = 0; i < rank; i++) tercel_text_add(&g->text, "%s%lld", i ? ", " : "", (long long)dims[i]);
  tercel_text_add(&g->text, "]");
}

/* An input, in half of the graphs with a symbol for its first dim. */
static void print_input(generator *g, int id, const char *symbol) {
  tercel_text_add(&g->text, "%%v%d: ", id);
  if (pick(g, 0, 1)) {
    print_dims(g, g->rank[id], g->dims[id]);
    return;
  }
  tercel_text_add(&g->text, "f32[%s", symbol);
  for (int i = 1; i < g->rank[id]; i++) tercel_text_add(&g->text, ", %lld", (long long)g->dims[id][i]);
  tercel_text_add(&g->text, "]");
}

int tercel_test_graph_add_value(generator *g, int rank, const int64_t *dims) {
  const int id = g->count++;
  g->rank[id] = rank;
  if (rank) memcpy(g->dims[id], dims, (size_t)rank * sizeof *dims);
  return id;
}
static int add_value(generator *g, int rank, const int64_t *dims) { return tercel_test_graph_add_value(g, rank, dims); }

int tercel_test_graph_add_constant(generator *g, int rank, const int64_t *dims, bool positive) {
  int64_t elements = 1;
  for (int i = 0; i < rank; i++) elements *= dims[i];
  const int id = add_value(g, rank, dims);
  tercel_text_add(&g->text, "  %%v%d: ", id);
  print_dims(g, rank, dims);
  tercel_text_add(&g->text, " = constant data(");
  for (int64_t i = 0; i < elements; i++) {
    if (i) tercel_text_add(&g->text, ", ");
    const float value = tercel_test_random_f32(&g->random, -1, 1);
    tercel_text_add_f32(&g->text, positive ? fabsf(value) + 0.1f : value);
  }
  tercel_text_add(&g->text, ")\n");
  return id;
}
static int add_constant(generator *g, int rank, const int64_t *dims, bool positive) {
  return tercel_test_graph_add_constant(g, rank, dims, positive);
}

static int any_value(generator *g, int rank) {
  for (int tries = 0; tries < 50; tries++) {
    const int id = (int)pick(g, g->count > 6 ? g->count - 6 : 0, g->count - 1);
    if (g->rank[id] == rank) return id;
  }
  return -1;
}

static void add_unary(generator *g, int x) {
  static const char *const functions[] = {
      "relu", "sigmoid", "tanh",           "clip<0, 6>", "neg", "hard_sigmoid<0.2, 0.5>", "clip<-0.5, 0.5>",
      "erf",  "copy",    "leaky_relu<0.1>"};
  const int y = add_value(g, g->rank[x], g->dims[x]);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: %s(%%0)}}\n", y, x, functions[pick(g, 0, 9)]);
}

static void add_binary(generator *g, int x, int other, const char *fn) {
  const int y = add_value(g, g->rank[x], g->dims[x]);
  const bool swap = pick(g, 0, 2) == 0 && strcmp(fn, "div") != 0; /* only a constant well above 0 divides */
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: %s(%%0, %%1)}}\n", y, swap ? other : x,
                  swap ? x : other, fn);
}

/* With a constant: of one element, one a channel, or whole. */
static void add_with_constant(generator *g, int x) {
  static const char *const functions[] = {"add", "mul", "sub", "div", "max", "min"};
  int64_t dims[4] = {1, 1, 1, 1};
  const int rank = g->rank[x], kind = (int)pick(g, 0, 3), axis = (int)pick(g, 0, rank - 1);
  if (kind == 1) dims[axis] = g->dims[x][axis];
  if (kind == 2) memcpy(dims, g->dims[x], sizeof dims);
  if (kind == 3) dims[1] = g->dims[x][1];
  const int c = add_constant(g, rank, dims, true);
  add_binary(g, x, c, functions[pick(g, 0, 5)]);
}

static void add_pair(generator *g, int x) {
  static const char *const functions[] = {"add", "mul", "sub"};
  for (int tries = 0; tries < 10; tries++) {
    const int other = any_value(g, g->rank[x]);
    if (other < 0 || memcmp(g->dims[x], g->dims[other], (size_t)g->rank[x] * sizeof(int64_t)) != 0) continue;
    add_binary(g, x, other, functions[pick(g, 0, 2)]);
    return;
  }
}

static void add_transpose(generator *g, int x) {
  static const int perms[][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}, {1, 0, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}};
  static const int flips[][4] = {{1, 0}, {0, 1}};
  const int *const perm = g->rank[x] == 4 ? perms[pick(g, 0, 5)] : flips[pick(g, 0, 1)];
  int64_t dims[4];
  for (int i = 0; i < g->rank[x]; i++) dims[i] = g->dims[x][perm[i]];
  const int y = add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = transpose(%%v%d) {perm = [", y, x);
  for (int i = 0; i < g->rank[x]; i++) tercel_text_add(&g->text, "%s%d", i ? ", " : "", perm[i]);
  tercel_text_add(&g->text, "]}\n");
}

static void add_conv(generator *g, int x) {
  const int64_t *const in = g->dims[x];
  const bool depthwise = pick(g, 0, 3) == 0, transposed = !depthwise && pick(g, 0, 4) == 0;
  const int64_t kernel = pick(g, 0, 1) ? 1 : 3, pad = kernel / 2, m = depthwise ? in[1] : pick(g, 1, 4);
  if (in[1] < 1 || in[2] < 1 || in[3] < 1) return;
  const int64_t w_dims[4] = {transposed ? in[1] : m, depthwise ? 1 : transposed ? m : in[1], kernel, kernel};
  const int w = add_constant(g, 4, w_dims, false);
  const int bias = pick(g, 0, 1) ? add_constant(g, 1, &m, false) : -1;
  const int y = add_value(g, 4, (const int64_t[]){in[0], m, in[2], in[3]});
  tercel_text_add(&g->text, "  %%v%d = %s(%%v%d, %%v%d", y, transposed ? "conv_transpose" : "conv", x, w);
  if (bias >= 0) tercel_text_add(&g->text, ", %%v%d", bias);
  tercel_text_add(&g->text, ") {pads = [%lld, %lld, %lld, %lld], group = %lld}\n", (long long)pad, (long long)pad,
                  (long long)pad, (long long)pad, (long long)(depthwise ? m : 1));
}

static void add_matmul(generator *g, int x) {
  const int rank = g->rank[x];
  const int64_t k = g->dims[x][rank - 1], n = pick(g, 1, 5);
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  dims[rank - 1] = n;
  int w;
  if (pick(g, 0, 2)) {
    w = add_constant(g, 2, (const int64_t[]){k, n}, false);
  } else { /* with itself, transposed */
    w = x;
    dims[rank - 1] = g->dims[x][rank - 2];
  }
  const bool trans = w == x;
  const int y = add_value(g, rank, dims);
  tercel_text_add(&g->text, "  %%v%d = matmul(%%v%d, %%v%d) {trans_b = %d}\n", y, x, w, trans);
}

static void add_batch_norm(generator *g, int x) {
  int inputs[4];
  for (int i = 0; i < 4; i++) inputs[i] = add_constant(g, 1, &g->dims[x][1], i == 3);
  const int y = add_value(g, 4, g->dims[x]);
  tercel_text_add(&g->text, "  %%v%d = batch_norm(%%v%d, %%v%d, %%v%d, %%v%d, %%v%d)\n", y, x, inputs[0], inputs[1],
                  inputs[2], inputs[3]);
}

static void add_reduce(generator *g, int x) {
  const int axis = (int)pick(g, 0, g->rank[x] - 1);
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  dims[axis] = 1;
  const int y = add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = reduce(%%v%d) {kind = \"%s\", axes = [%d], keepdims = 1}\n", y, x,
                  pick(g, 0, 1) ? "mean" : "max", axis);
}

static void add_softmax(generator *g, int x) {
  const int y = add_value(g, g->rank[x], g->dims[x]);
  tercel_text_add(&g->text, "  %%v%d = softmax(%%v%d) {axis = %lld}\n", y, x, (long long)pick(g, 0, g->rank[x] - 1));
}

static void add_concat(generator *g, int x) {
  const int axis = (int)pick(g, 0, g->rank[x] - 1);
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  dims[axis] *= 2;
  if (dims[axis] > 12) return;
  const int y = add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = concat(%%v%d, %%v%d) {axis = %d}\n", y, x, x, axis);
}

/* silu, gelu or layer norm in their parts */
static void add_composite(generator *g, int x) {
  const int first = g->count;
  const int64_t *const d = g->dims[x];
  const int rank = g->rank[x], kind = (int)pick(g, 0, 2), s = g->count;
  if (kind == 0) {
    for (int i = 0; i < 2; i++) add_value(g, rank, d);
    tercel_text_add(&g->text,
                    "  %%v%d = pointwise(%%v%d) {program = {1: sigmoid(%%0)}}\n"
                    "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: mul(%%0, %%1)}}\n",
                    s, x, s + 1, s, x);
    return;
  }
  if (kind == 1) {
    static const float constants[] = {1.41421356f, 1, 0.5f};
    for (int i = 0; i < 3; i++) {
      const int id = add_value(g, 1, (const int64_t[]){1});
      tercel_text_add(&g->text, "  %%v%d: f32[] = constant data(%.9g)\n", id, (double)constants[i]);
      g->rank[id] = 0;
    }
    for (int i = 0; i < 5; i++) add_value(g, rank, d);
    tercel_text_add(&g->text,
                    "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: div(%%0, %%1)}}\n"
                    "  %%v%d = pointwise(%%v%d) {program = {1: erf(%%0)}}\n"
                    "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: add(%%0, %%1)}}\n"
                    "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: mul(%%0, %%1)}}\n"
                    "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: mul(%%0, %%1)}}\n",
                    s + 3, x, s, s + 4, s + 3, s + 5, s + 4, s + 1, s + 6, x, s + 5, s + 7, s + 6, s + 2);
    return;
  }
  const int epsilon = add_value(g, 1, (const int64_t[]){1});
  g->rank[epsilon] = 0;
  tercel_text_add(&g->text, "  %%v%d: f32[] = constant data(0.01)\n", epsilon);
  int64_t small[4];
  memcpy(small, d, sizeof small);
  small[rank - 1] = 1;
  const int mean = add_value(g, rank, small), dev = add_value(g, rank, d), square = add_value(g, rank, d),
            variance = add_value(g, rank, small), sum = add_value(g, rank, small), root = add_value(g, rank, small),
            y = add_value(g, rank, d);
  tercel_text_add(&g->text,
                  "  %%v%d = reduce(%%v%d) {kind = \"mean\", axes = [-1]}\n"
                  "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: sub(%%0, %%1)}}\n"
                  "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: mul(%%0, %%1)}}\n"
                  "  %%v%d = reduce(%%v%d) {kind = \"mean\", axes = [-1]}\n"
                  "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: add(%%0, %%1)}}\n"
                  "  %%v%d = pointwise(%%v%d) {program = {1: sqrt(%%0)}}\n"
                  "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: div(%%0, %%1)}}\n",
                  mean, x, dev, x, mean, square, dev, dev, variance, square, sum, variance, epsilon, root, sum, y, dev,
                  root);
  (void)first;
}

/* A part of one axis, or every second element of it. */
static void add_slice(generator *g, int x) {
  const int axis = (int)pick(g, 0, g->rank[x] - 1);
  int64_t dims[4];
  memcpy(dims, g->dims[x], sizeof dims);
  if (dims[axis] < 1 || axis == 0) return; /* the first may be a symbol */
  const int64_t step = pick(g, 0, 3) ? 1 : 2, begin = pick(g, 0, dims[axis] - 1), end = pick(g, begin + 1, dims[axis]);
  dims[axis] = (end - begin + step - 1) / step;
  const int64_t numbers[4] = {begin, end, axis, step};
  const int first = g->count;
  for (int i = 0; i < 4; i++) {
    const int id = add_value(g, 1, (const int64_t[]){1});
    g->rank[id] = 0; /* no operand of other steps */
    tercel_text_add(&g->text, "  %%v%d: i64[1] = constant data(%lld)\n", id, (long long)numbers[i]);
  }
  const int y = add_value(g, g->rank[x], dims);
  tercel_text_add(&g->text, "  %%v%d = slice(%%v%d, %%v%d, %%v%d, %%v%d, %%v%d)\n", y, x, first, first + 1, first + 2,
                  first + 3);
}

/* All dims but the first become one, so that pictures are matrices. */
static void add_flatten(generator *g, int x) {
  if (g->rank[x] != 4 || g->dims[x][0] < 1) return;
  const int64_t columns = g->dims[x][1] * g->dims[x][2] * g->dims[x][3];
  if (columns < 1 || columns > 24) return;
  const int shape = add_value(g, 1, (const int64_t[]){2});
  g->rank[shape] = 0;
  tercel_text_add(&g->text, "  %%v%d: i64[2] = constant data(0, -1)\n", shape);
  const int y = add_value(g, 2, (const int64_t[]){g->dims[x][0], columns});
  tercel_text_add(&g->text, "  %%v%d = reshape(%%v%d, %%v%d)\n", y, x, shape);
}

/* One of two branches, each of which has something to fuse, or a loop that does it twice. */
static void add_control(generator *g, int x) {
  static const char *const bodies[] = {
      "%v = pointwise(%i) {program = {1: relu(%0)}} %w = pointwise(%v, %i) {program = {2: add(%0, %1)}}",
      "%v = pointwise(%i) {program = {1: sigmoid(%0)}} %w = pointwise(%v, %i) {program = {2: mul(%0, %1)}}",
      "%v = pointwise(%i) {program = {1: neg(%0)}} %w = softmax(%v) {axis = 1}"};
  const int condition = add_value(g, 1, (const int64_t[]){1}), y = add_value(g, g->rank[x], g->dims[x]);
  g->rank[condition] = 0;
  const bool is_loop = pick(g, 0, 2) == 0;
  const char *const one = bodies[pick(g, 0, 2)], *const other = bodies[pick(g, 0, 2)];
  char inner[64] = "f32["; /* of dims that only the run knows: a symbol may have come to any place */
  for (int i = 0; i < g->rank[x]; i++)
    snprintf(inner + strlen(inner), sizeof inner - strlen(inner), "%s?%d", i ? ", " : "", 1000 + 4 * y + i);
  strncat(inner, "]", sizeof inner - strlen(inner) - 1);
  if (is_loop)
    tercel_text_add(
        &g->text,
        "  %%v%d: i64[] = constant data(2)\n  %%v%d = loop(%%v%d, _, %%v%d) do { graph \"body\" (%%n: i64[], "
        "%%c: bool[], %%i: %s) { %s return %%c, %%w } }\n",
        condition, y, condition, x, inner, one);
  else
    tercel_text_add(
        &g->text,
        "  %%v%d: bool[] = constant data(%d)\n  %%v%d = if(%%v%d, %%v%d) captures 1 do { graph \"then\" (%%i: "
        "%s) { %s return %%w } graph \"else\" (%%i: %s) { %s return %%w } }\n",
        condition, (int)pick(g, 0, 1), y, condition, x, inner, one, inner, other);
}

/* Steps of themes, one in three. */
static const tercel_test_graph_step *const themes[] = {tercel_test_graph_moves, tercel_test_graph_types,
                                                       tercel_test_graph_cells};

static void add_theme_step(generator *g, int x) {
  const tercel_test_graph_step *const steps = themes[pick(g, 0, sizeof themes / sizeof *themes - 1)];
  int64_t count = 0;
  while (steps[count].add) count++;
  const tercel_test_graph_step *const step = &steps[pick(g, 0, count - 1)];
  if (step->rank == 0 || step->rank == g->rank[x]) step->add(g, x);
}

static void add_step(generator *g) {
  const int rank = pick(g, 0, 4) ? 4 : 2, x = any_value(g, rank);
  if (x < 0) return;
  if (pick(g, 0, 2) == 0) {
    add_theme_step(g, x);
    return;
  }
  const int kind = (int)pick(g, 0, 23);
  if (kind < 3)
    add_unary(g, x);
  else if (kind < 6)
    add_with_constant(g, x);
  else if (kind < 8)
    add_pair(g, x);
  else if (kind < 10)
    add_transpose(g, x);
  else if (kind == 10)
    add_matmul(g, x);
  else if (kind == 11)
    add_reduce(g, x);
  else if (kind == 12)
    add_softmax(g, x);
  else if (kind == 13)
    add_concat(g, x);
  else if (kind == 14)
    add_composite(g, x);
  else if (kind == 15)
    add_slice(g, x);
  else if (kind == 16)
    add_flatten(g, x);
  else if (kind == 17 && g->with_control)
    add_control(g, x);
  else if (kind > 19)
    tercel_test_graph_add_transformer(g, x);
  else if (rank == 4 && kind == 18)
    add_batch_norm(g, x);
  else if (rank == 4 && kind == 19 && pick(g, 0, 2))
    tercel_test_graph_add_picture(g, x);
  else if (rank == 4)
    add_conv(g, x);
}

/* Everything that nobody reads is an output, and now and then something that is read. */
static void add_outputs(generator *g) {
  tercel_text_add(&g->text, "  return ");
  bool any = false;
  for (int i = 2; i < g->count; i++) {
    char use[16];
    snprintf(use, sizeof use, "(%%v%d", i);
    char use_later[16];
    snprintf(use_later, sizeof use_later, ", %%v%d", i);
    char target[16];
    snprintf(target, sizeof target, "  %%v%d", i);
    const bool is_read = strstr(g->text.data, use) || strstr(g->text.data, use_later);
    if (is_read && (g->is_inner[i] || pick(g, 0, 9))) continue;
    tercel_text_add(&g->text, "%s%%v%d", any ? ", " : "", i);
    any = true;
  }
  if (!any) tercel_text_add(&g->text, "%%v0");
  tercel_text_add(&g->text, "\n}\n");
}

void tercel_test_graph_generate(uint64_t number, bool with_control, tercel_test_graph *g) {
  *g = (generator){.random = tercel_test_random_start(number), .with_control = with_control, .dtype = "f32"};
  const int64_t image[4] = {pick(g, 0, 3) ? pick(g, 1, 2) : 0, pick(g, 1, 4), pick(g, 1, 4), pick(g, 1, 4)};
  const int64_t matrix[2] = {pick(g, 0, 9) ? pick(g, 1, 4) : 0, pick(g, 1, 4)};
  add_value(g, 4, image);
  add_value(g, 2, matrix);
  tercel_text_add(&g->text, "graph \"random\" (");
  print_input(g, 0, "n");
  tercel_text_add(&g->text, ", ");
  print_input(g, 1, "m");
  tercel_text_add(&g->text, ") {\n");
  const int64_t steps = pick(g, 1, 14);
  for (int64_t i = 0; i < steps && g->count < MAX_VALUES - 64; i++) add_step(g);
  add_outputs(g);
}

/* ---- smaller graphs that fail alike ---------------------------------------------------------------------------------------- */

/* The text without the bytes [begin, end) fails, too: it is that now. */
static bool cut(tercel_text *text, size_t begin, size_t end, tercel_test_graph_fails fails, void *user) {
  tercel_text shorter = {0};
  tercel_text_add_bytes(&shorter, text->data, begin);
  tercel_text_add_bytes(&shorter, text->data + end, text->length - end);
  const bool failed = shorter.data && fails(shorter.data, user);
  if (failed) {
    tercel_text_deinit(text);
    *text = shorter;
  } else {
    tercel_text_deinit(&shorter);
  }
  return failed;
}

/* Results one by one, while one remains. */
static bool cut_results(tercel_text *text, tercel_test_graph_fails fails, void *user) {
  static const char mark[] = "\n  return ";
  bool shorter = false;
  const char *const found = strstr(text->data, mark);
  size_t at = found ? (size_t)(found - text->data) + sizeof mark - 1 : text->length;
  while (at < text->length && text->data[at] == '%') {
    const size_t name = strcspn(text->data + at, ",\n");
    const bool is_last = text->data[at + name] != ',';
    const bool is_only = is_last && text->data[at - 1] == ' ' && text->data[at - 2] == 'n';
    const size_t begin = is_last ? at - 2 : at, end = at + name + (is_last ? 0 : 2);
    if (!is_only && cut(text, begin, end, fails, user)) {
      shorter = true;
      if (is_last) break;
    } else {
      at = end;
    }
  }
  return shorter;
}

/* Nodes from the last one up; one that others read can't go, since the text doesn't parse then. */
static bool cut_nodes(tercel_text *text, tercel_test_graph_fails fails, void *user) {
  bool shorter = false;
  for (size_t end = text->length; end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && text->data[begin - 1] != '\n') begin--;
    if (strncmp(text->data + begin, "  %", 3) == 0) shorter |= cut(text, begin, end, fails, user);
    end = begin;
  }
  return shorter;
}

void tercel_test_graph_shrink(tercel_text *text, tercel_test_graph_fails fails, void *user) {
  bool shorter = true;
  while (shorter) {
    shorter = cut_results(text, fails, user);
    shorter |= cut_nodes(text, fails, user);
  }
}
