/* Random small graphs: optimized and not, they give the same results by the reference kernels, and verify after each pass.
 * The seed is printed; TERCEL_TEST_GRAPHS says how many graphs (500). */
#include "support/support.h"

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

/* ---- random graphs, as text ---- */

enum { MAX_VALUES = 64 };

typedef struct generator {
  tercel_test_random random;
  tercel_text text;
  int rank[MAX_VALUES]; /* 4, or 2 for matrices */
  int64_t dims[MAX_VALUES][4];
  int count;
} generator;

static int64_t pick(generator *g, int64_t low, int64_t high) { return tercel_test_random_int(&g->random, low, high); }

static void print_dims(generator *g, int rank, const int64_t *dims) {
  tercel_text_add(&g->text, "f32[");
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

static int add_value(generator *g, int rank, const int64_t *dims) {
  const int id = g->count++;
  g->rank[id] = rank;
  memcpy(g->dims[id], dims, (size_t)rank * sizeof *dims);
  return id;
}

static int add_constant(generator *g, int rank, const int64_t *dims, bool positive) {
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

static void add_step(generator *g) {
  const int rank = pick(g, 0, 4) ? 4 : 2, x = any_value(g, rank);
  if (x < 0) return;
  const int kind = (int)pick(g, 0, 16);
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
  else if (rank == 4 && kind == 15)
    add_batch_norm(g, x);
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
    if (is_read && pick(g, 0, 9)) continue;
    tercel_text_add(&g->text, "%s%%v%d", any ? ", " : "", i);
    any = true;
  }
  if (!any) tercel_text_add(&g->text, "%%v0");
  tercel_text_add(&g->text, "\n}\n");
}

static void generate(generator *g, uint64_t number) {
  *g = (generator){.random = tercel_test_random_start(number)};
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
  for (int64_t i = 0; i < steps && g->count < MAX_VALUES - 16; i++) add_step(g);
  add_outputs(g);
}

/* ---- comparison ---- */

/* How far a result may move: what rounding may do to it, and some times what a change of its inputs by 1e-6 did, where the graph
 * amplifies small differences. */
static double tolerance_of(const tercel_tensor *a, const tercel_tensor *moved) {
  const int64_t count = tercel_tensor_num_elements(a);
  double largest = 0.1, largest_move = 0; /* below that, cancellation inside GELU and the like shows */
  for (int64_t k = 0; k < count; k++) {
    const double x = tercel_tensor_get_f64(a, k), move = fabs(x - tercel_tensor_get_f64(moved, k));
    if (isfinite(x)) largest = fmax(largest, fabs(x));
    if (isfinite(move)) largest_move = fmax(largest_move, move);
  }
  return 1e-5 * largest + 20 * largest_move;
}

/* cmocka cuts long messages: the graph goes out by itself. */
static void print_graph_text(const char *text) { fprintf(stderr, "%s", text); }

static void compare(const tercel_graph *plain, const tercel_graph *optimized, const slot *want, const slot *moved,
                    const slot *have, const char *text) {
  for (uint32_t i = 0; i < plain->num_outputs; i++) {
    const tercel_tensor *const a = result_of(plain, i, want), *const b = result_of(optimized, i, have);
    if (a->dtype != b->dtype || !tercel_tensor_same_shape(a, b)) {
      print_graph_text(text);
      fail_msg("output %u has another type", i);
    }
    const double tolerance = tolerance_of(a, result_of(plain, i, moved));
    const int64_t count = tercel_tensor_num_elements(a);
    for (int64_t k = 0; k < count; k++) {
      const double x = tercel_tensor_get_f64(a, k), y = tercel_tensor_get_f64(b, k);
      if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance) continue;
      print_graph_text(text);
      fail_msg("output %u, element %lld: %g, not optimized %g, may differ by %g", i, (long long)k, y, x, tolerance);
    }
  }
}

static void check_graph(uint64_t number, int *changed) {
  generator g;
  tercel_error err = {0};
  tercel_graph *plain = NULL, *optimized = NULL;
  float data[2][128];
  tercel_tensor inputs[2];
  generate(&g, number);
  assert_ok(tercel_graph_parse(g.text.data, g.text.length, tercel_ops(), &plain, &err), &err);
  assert_ok(tercel_infer_graph(plain, &err), &err);
  assert_ok(tercel_graph_clone(plain, NULL, NULL, &optimized, &err), &err);
  const tercel_status status = tercel_optimize(optimized, &(tercel_optimize_options){.verify = true}, NULL, &err);
  if (status != TERCEL_OK) print_graph_text(g.text.data);
  assert_ok(status, &err);
  for (int i = 0; i < 2; i++) {
    tercel_test_random_fill_f32(&g.random, data[i], 128, -2, 2);
    inputs[i] = (tercel_tensor){.dtype = TERCEL_DTYPE_F32, .rank = g.rank[i], .data = data[i]};
    assert_true(tercel_tensor_set_shape(&inputs[i], TERCEL_DTYPE_F32, g.rank[i], g.dims[i]) &&
                inputs[i].bytes <= sizeof data[i]);
  }
  slot *const want = run_graph(plain, inputs), *const have = run_graph(optimized, inputs);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 128; k++) data[i][k] *= 1.000001f;
  slot *const moved = run_graph(plain, inputs);
  compare(plain, optimized, want, moved, have, g.text.data);
  free_slots(plain, moved);
  *changed += tercel_graph_count_nodes(plain) != tercel_graph_count_nodes(optimized);
  free_slots(plain, want);
  free_slots(optimized, have);
  tercel_graph_destroy(plain);
  tercel_graph_destroy(optimized);
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
