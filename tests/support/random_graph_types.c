/* Steps over other element types.  They begin with an input of the graph, whose numbers are the same with and without the optimizer: what
 * f32's last bits are would change integers and 16-bit floats much. */
#include "support/random_graph_steps.h"

static int64_t pick(tercel_test_graph *g, int64_t low, int64_t high) { return tercel_test_graph_pick(g, low, high); }

static const char *pick_type(tercel_test_graph *g) {
  static const char *const types[] = {"f16", "bf16", "f64", "i64", "i32", "i8", "u8", "bool"};
  return types[pick(g, 0, sizeof types / sizeof *types - 1)];
}

/* The input as it is, so that shapes fit x's steps after it. */
static int pick_input(tercel_test_graph *g) { return (int)pick(g, 0, 1); }

static int add_like(tercel_test_graph *g, int x) { return tercel_test_graph_add_value(g, g->rank[x], g->dims[x]); }

/* Values that are not f32 are operands of their own step only. */
static int add_hidden(tercel_test_graph *g) { return tercel_test_graph_add_value(g, 0, NULL); }

static int add_cast(tercel_test_graph *g, int x, const char *type) {
  const int y = add_hidden(g);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: cast:%s<1, 0>(%%0)}}\n", y, x, type);
  return y;
}

/* Back to f32, and near 0: a negative number made a byte is as large as 255, whose products differ by more than the graph's inputs tell. */
static void add_last_cast(tercel_test_graph *g, int x, int like) {
  const int wide = add_hidden(g), y = add_like(g, like);
  tercel_text_add(&g->text,
                  "  %%v%d = pointwise(%%v%d) {program = {1: cast<1, 0>(%%0)}}\n"
                  "  %%v%d = pointwise(%%v%d) {program = {1: clip<-4, 4>(%%0)}}\n",
                  wide, x, y, wide);
}

/* Casts in a row. */
static void add_casts(tercel_test_graph *g, int x) {
  const int from = pick_input(g);
  int sofar = from;
  (void)x;
  for (int64_t i = pick(g, 1, 3); i > 0; i--) sofar = add_cast(g, sofar, pick_type(g));
  add_last_cast(g, sofar, from);
}

/* Arithmetic with a number that is often neutral. */
static void add_arithmetic(tercel_test_graph *g, int x) {
  static const char *const types[] = {"f16", "bf16", "f64", "i64", "i32", "u8"};
  static const char *const functions[] = {"add", "sub", "mul", "max", "min"};
  const char *const type = types[pick(g, 0, 5)];
  const int from = pick_input(g);
  int sofar = add_cast(g, from, type);
  (void)x;
  for (int64_t i = pick(g, 1, 2); i > 0; i--) {
    const int c = add_hidden(g), y = add_hidden(g);
    const bool swap = pick(g, 0, 2) == 0;
    tercel_text_add(&g->text, "  %%v%d: %s[] = constant data(%lld)\n", c, type, (long long)pick(g, 0, 2));
    tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: %s:%s(%%0, %%1)}}\n", y,
                    swap ? c : sofar, swap ? sofar : c, functions[pick(g, 0, 4)], type);
    sofar = y;
  }
  add_last_cast(g, sofar, from);
}

/* A choice by a comparison, which may be negated. */
static void add_where(tercel_test_graph *g, int x) {
  static const char *const tests[] = {"greater", "less", "equal", "greater_equal"};
  const int from = pick_input(g), zero = add_hidden(g), scaled = add_like(g, from);
  int condition = add_hidden(g);
  (void)x;
  tercel_text_add(&g->text, "  %%v%d: f32[] = constant data(%s)\n", zero, pick(g, 0, 1) ? "0" : "0.5");
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: mul(%%0, %%1)}}\n", scaled, from, zero);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: %s(%%0, %%1)}}\n", condition, from, zero,
                  tests[pick(g, 0, 3)]);
  for (int64_t i = pick(g, 0, 2); i > 0; i--) {
    const int inverse = add_hidden(g);
    tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: not(%%0)}}\n", inverse, condition);
    condition = inverse;
  }
  const int y = add_like(g, from);
  const bool swap = pick(g, 0, 1);
  tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d, %%v%d) {program = {3: select(%%0, %%1, %%2)}}\n", y,
                  condition, swap ? scaled : from, swap ? from : scaled);
}

/* Clips and quotients that become fewer. */
static void add_pairs(tercel_test_graph *g, int x) {
  static const char *const firsts[] = {"relu", "clip<-1, 0.5>", "clip<0, 6>", "neg", "abs"};
  static const char *const seconds[] = {"relu", "clip<-0.5, 1>", "clip<-2, -1>"};
  const int a = add_like(g, x), b = add_like(g, x);
  tercel_text_add(&g->text,
                  "  %%v%d = pointwise(%%v%d) {program = {1: %s(%%0)}}\n  %%v%d = pointwise(%%v%d) {program = {1: "
                  "%s(%%0)}}\n",
                  a, x, firsts[pick(g, 0, 4)], b, a, seconds[pick(g, 0, 2)]);
}

/* x / (1 + exp(-y)), and the larger of x and a part of it */
static void add_spelled(tercel_test_graph *g, int x) {
  const int one = add_hidden(g), n = add_like(g, x), e = add_like(g, x), s = add_like(g, x), y = add_like(g, x);
  tercel_text_add(&g->text, "  %%v%d: f32[] = constant data(1)\n", one);
  tercel_text_add(&g->text,
                  "  %%v%d = pointwise(%%v%d) {program = {1: neg(%%0)}}\n"
                  "  %%v%d = pointwise(%%v%d) {program = {1: exp(%%0)}}\n"
                  "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: add(%%0, %%1)}}\n",
                  n, x, e, n, s, e, one);
  if (pick(g, 0, 1))
    tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d, %%v%d) {program = {2: div(%%0, %%1)}}\n", y, x, s);
  else
    tercel_text_add(&g->text, "  %%v%d = pointwise(%%v%d) {program = {1: reciprocal(%%0)}}\n", y, s);
}

const tercel_test_graph_step tercel_test_graph_types[] = {
    {0, add_casts}, {0, add_arithmetic}, {0, add_where}, {0, add_pairs}, {0, add_spelled}, {0, NULL},
};
