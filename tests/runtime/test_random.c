/* Random networks of operators that move and combine data, run by the executor at several sizes, against each node evaluated by
 * itself with memory of its own: views, in-place, concats built in place, segments and the arena must not show. */
#include "runtime/net.h"

#include <stdio.h>

enum { MAX_VALUES = 64, MAX_NODES = 40 };

/* A dim of a value: a * n + b, or number `open` of those that only a run tells. */
typedef struct extent {
  int64_t a, b, open;
} extent;

typedef struct matrix {
  tercel_value *value;
  extent rows, cols;
} matrix;

typedef struct maker {
  tercel_test_random random;
  tercel_graph *graph;
  matrix values[MAX_VALUES];
  size_t count;
  int64_t num_open;
  int number; /* for names */
} maker;

static int64_t pick(maker *m, int64_t low, int64_t high) { return tercel_test_random_int(&m->random, low, high); }
static bool same(extent x, extent y) { return x.a == y.a && x.b == y.b && x.open == y.open; }
static bool is_number(extent x) { return x.a == 0 && x.open == 0; }
static int64_t least(extent x) { return x.open ? 0 : x.a + x.b; } /* n is at least 1 */

static const matrix *any(maker *m) {
  return &m->values[pick(m, m->count > 8 ? (int64_t)m->count - 8 : 0, (int64_t)m->count - 1)];
}

static tercel_node *add(maker *m, const tercel_op *op, tercel_value *const *inputs, size_t num_inputs,
                        size_t num_outputs) {
  tercel_error err = {0};
  tercel_node *node = NULL;
  char name[16];
  snprintf(name, sizeof name, "v%d", m->number++);
  assert_ok(tercel_graph_add_node(m->graph, op, name, inputs, num_inputs, num_outputs, NULL, &node, &err), &err);
  return node;
}

static void finish(maker *m, tercel_node *node, size_t output, extent rows, extent cols) {
  assert_true(m->count < MAX_VALUES);
  m->values[m->count++] = (matrix){node->outputs[output], rows, cols};
}

static void infer(tercel_node *node) {
  tercel_error err = {0};
  assert_ok(tercel_infer_node(node, &err), &err);
}

static tercel_value *numbers(maker *m, const int64_t *values, size_t count) {
  tercel_error err = {0};
  tercel_value *value = NULL;
  assert_ok(tercel_graph_add_i64s(m->graph, "k", values, count, false, &value, &err), &err);
  return value;
}

static void set_program(tercel_node *node, int num_inputs, tercel_fn fn, tercel_dtype dtype) {
  tercel_error err = {0};
  tercel_instr instr = {.fn = (uint8_t)fn, .dtype = (uint8_t)dtype, .operands = {0, 1}};
  const tercel_program program = {num_inputs, 1, &instr};
  assert_ok(tercel_node_set_program(node, "program", &program, &err), &err);
}

static void add_unary(maker *m) {
  static const tercel_fn fns[] = {TERCEL_FN_RELU, TERCEL_FN_NEG, TERCEL_FN_ABS};
  const matrix x = *any(m);
  tercel_node *const node = add(m, &tercel_op_pointwise, &x.value, 1, 1);
  set_program(node, 1, fns[pick(m, 0, 2)], TERCEL_DTYPE_F32);
  infer(node);
  finish(m, node, 0, x.rows, x.cols);
}

static void add_binary(maker *m) {
  const matrix x = *any(m);
  matrix y = *any(m);
  if (!same(x.rows, y.rows) || !same(x.cols, y.cols)) y = x;
  tercel_node *const node = add(m, &tercel_op_pointwise, (tercel_value *[]){x.value, y.value}, 2, 1);
  set_program(node, 2, TERCEL_FN_SUB, TERCEL_DTYPE_F32);
  infer(node);
  finish(m, node, 0, x.rows, x.cols);
}

static extent sum(extent x, extent y) { return (extent){x.a + y.a, x.b + y.b, 0}; }

static void add_concat(maker *m) {
  tercel_error err = {0};
  matrix parts[3] = {*any(m), *any(m), *any(m)};
  const bool rows = pick(m, 0, 2) > 0;
  const size_t count = (size_t)pick(m, 2, 3);
  tercel_value *inputs[3];
  extent total = {0};
  for (size_t i = 0; i < count; ++i) {
    if (!same(rows ? parts[0].cols : parts[0].rows, rows ? parts[i].cols : parts[i].rows)) parts[i] = parts[0];
    inputs[i] = parts[i].value;
    if (parts[i].rows.open || parts[i].cols.open) return;
    total = sum(total, rows ? parts[i].rows : parts[i].cols);
  }
  if (total.a > 40 || total.b > 40) return;
  tercel_node *const node = add(m, &tercel_op_concat, inputs, count, 1);
  assert_ok(tercel_node_set_int(node, "axis", rows ? 0 : 1, &err), &err);
  infer(node);
  finish(m, node, 0, rows ? total : parts[0].rows, rows ? parts[0].cols : total);
}

static void add_slice(maker *m) {
  const matrix x = *any(m);
  const int64_t axis = pick(m, 0, 1), size = least(axis ? x.cols : x.rows);
  if (size == 0) return;
  const int64_t begin = pick(m, 0, size - 1), end = pick(m, begin + 1, size);
  tercel_value *const inputs[] = {x.value, numbers(m, &begin, 1), numbers(m, &end, 1), numbers(m, &axis, 1)};
  tercel_node *const node = add(m, &tercel_op_slice, inputs, 4, 1);
  infer(node);
  const extent part = {0, end - begin, 0};
  finish(m, node, 0, axis ? x.rows : part, axis ? part : x.cols);
}

static void add_split(maker *m) {
  tercel_error err = {0};
  const matrix x = *any(m);
  const int64_t axis = pick(m, 0, 1);
  const extent whole = axis ? x.cols : x.rows;
  if (!is_number(whole) || whole.b < 2) return;
  const int64_t first = pick(m, 1, whole.b - 1), sizes[2] = {first, whole.b - first};
  tercel_node *const node = add(m, &tercel_op_split, (tercel_value *[]){x.value, numbers(m, sizes, 2)}, 2, 2);
  assert_ok(tercel_node_set_int(node, "axis", axis, &err), &err);
  infer(node);
  for (size_t i = 0; i < 2; ++i) {
    const extent part = {0, sizes[i], 0};
    finish(m, node, i, axis ? x.rows : part, axis ? part : x.cols);
  }
}

static void add_transpose(maker *m) {
  const matrix x = *any(m);
  tercel_node *const node = add(m, &tercel_op_transpose, &x.value, 1, 1);
  infer(node);
  finish(m, node, 0, x.cols, x.rows);
}

static void add_flat(maker *m) {
  const matrix x = *any(m);
  if (!is_number(x.cols) || x.rows.open || x.rows.a * x.cols.b > 200) return;
  const int64_t shape[2] = {1, -1};
  tercel_node *const node = add(m, &tercel_op_reshape, (tercel_value *[]){x.value, numbers(m, shape, 2)}, 2, 1);
  infer(node);
  finish(m, node, 0, (extent){0, 1, 0}, (extent){x.rows.a * x.cols.b, x.rows.b * x.cols.b, 0});
}

/* Where a matrix is not 0, as floats: [2, as many]. */
static void add_nonzero(maker *m) {
  const matrix x = *any(m);
  tercel_node *const found = add(m, &tercel_op_nonzero, &x.value, 1, 1);
  infer(found);
  tercel_node *const node = add(m, &tercel_op_pointwise, &found->outputs[0], 1, 1);
  tercel_error err = {0};
  tercel_instr instr = {.fn = TERCEL_FN_CAST, .dtype = TERCEL_DTYPE_F32};
  const tercel_program program = {1, 1, &instr};
  assert_ok(tercel_node_set_program(node, "program", &program, &err), &err);
  infer(node);
  finish(m, node, 0, (extent){0, 2, 0}, (extent){0, 0, ++m->num_open});
}

/* A matrix of zeros in the shape of another, by way of its shape: what a segment computes on shapes only. */
static void add_like(maker *m) {
  tercel_error err = {0};
  const matrix x = *any(m);
  tercel_node *const shape = add(m, &tercel_op_shape, &x.value, 1, 1);
  infer(shape);
  tercel_value *zero = NULL;
  assert_ok(tercel_graph_add_scalar(m->graph, "zero", TERCEL_DTYPE_F32, 1.5, &zero, &err), &err);
  tercel_node *const node = add(m, &tercel_op_expand, (tercel_value *[]){zero, shape->outputs[0]}, 2, 1);
  infer(node);
  finish(m, node, 0, x.rows, x.cols);
}

static tercel_graph *make(uint64_t stream) {
  static void (*const adds[])(maker *) = {add_unary,   add_unary, add_binary, add_binary,    add_concat,
                                          add_concat,  add_slice, add_split,  add_transpose, add_flat,
                                          add_nonzero, add_like,  add_slice};
  maker m = {.random = tercel_test_random_start(stream)};
  tercel_error err = {0};
  assert_ok(tercel_graph_create("random", &m.graph, &err), &err);
  for (int i = 0; i < 2; ++i) {
    tercel_type type = {.dtype = TERCEL_DTYPE_F32, .shape = {.rank = 2}};
    type.shape.dims[0] = i ? 4 : tercel_dim_symbol(m.graph->dims, "n");
    type.shape.dims[1] = i ? tercel_dim_symbol(m.graph->dims, "n") : 4;
    const extent n = {1, 0, 0}, four = {0, 4, 0};
    m.values[i] = (matrix){NULL, i ? four : n, i ? n : four};
    assert_ok(tercel_graph_add_input(m.graph, i ? "y" : "x", &type, &m.values[i].value, &err), &err);
    ++m.count;
  }
  const int64_t nodes = pick(&m, 1, MAX_NODES);
  for (int64_t i = 0; i < nodes && m.count + 2 < MAX_VALUES; ++i) adds[pick(&m, 0, sizeof adds / sizeof *adds - 1)](&m);
  const int64_t outputs = pick(&m, 1, 5);
  for (int64_t i = 0; i < outputs; ++i) assert_ok(tercel_graph_add_output(m.graph, any(&m)->value, "out", &err), &err);
  assert_ok(tercel_graph_verify(m.graph, &err), &err);
  return m.graph;
}

/* ---- the answer ---- */

typedef struct answer {
  tercel_tensor tensors[1024]; /* by value id */
  tercel_storage *storages[1024];
} answer;

static void evaluate(const tercel_graph *graph, const tercel_tensor *inputs, answer *out) {
  tercel_error err = {0};
  memset(out, 0, sizeof *out);
  assert_true(graph->num_values < 1024);
  for (uint32_t i = 0; i < graph->num_inputs; ++i) out->tensors[graph->inputs[i]->id] = inputs[i];
  for (uint32_t i = 0; i < graph->num_values; ++i)
    if (graph->values[i] && graph->values[i]->constant) out->tensors[i] = *graph->values[i]->constant;
  for (const tercel_node *node = graph->first; node != NULL; node = node->next) {
    const tercel_tensor *in[4];
    tercel_tensor made[2];
    tercel_storage *storages[2];
    for (uint32_t i = 0; i < node->num_inputs; ++i) in[i] = &out->tensors[node->inputs[i]->id];
    assert_ok(tercel_eval_node(node, in, made, storages, &err), &err);
    for (uint32_t i = 0; i < node->num_outputs; ++i) {
      out->tensors[node->outputs[i]->id] = made[i];
      out->storages[node->outputs[i]->id] = storages[i];
    }
  }
}

static void forget(answer *a) {
  for (size_t i = 0; i < 1024; ++i) tercel_storage_release(a->storages[i]);
}

static void compare(const tercel_context *context, const tercel_graph *graph, const answer *want, uint64_t stream,
                    int64_t n) {
  for (uint32_t k = 0; k < graph->num_outputs; ++k) {
    const tercel_tensor *const w = &want->tensors[graph->outputs[k]->id];
    const tercel_view is = net_output(context, k);
    if (!tercel_tensor_same_shape(&is, w))
      fail_msg("stream %zu, n %d, output %u: another shape", (size_t)stream, (int)n, k);
    for (int64_t i = 0; i < tercel_tensor_num_elements(w); ++i) {
      const float a = ((const float *)is.data)[i], b = ((const float *)w->data)[i];
      if (a < b || a > b)
        fail_msg("stream %zu, n %d, output %u ('%s'): element %d is %g, want %g", (size_t)stream, (int)n, k,
                 graph->outputs[k]->name, (int)i, (double)a, (double)b);
    }
  }
}

static void run_one(uint64_t stream, bool optimized) {
  tercel_error err = {0};
  tercel_graph *const graph = make(stream);
  tercel_graph *clone = NULL;
  tercel_model *model = NULL;
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  tercel_engine_options options = net_options();
  options.no_optimize = !optimized;
  options.check = 1;
  assert_ok(tercel_graph_clone(graph, NULL, NULL, &clone, &err), &err);
  assert_ok(tercel_model_from_graph(clone, &model, &err), &err);
  assert_ok(tercel_engine_build(model, &options, &engine, &err), &err);
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  tercel_test_random random = tercel_test_random_start(stream + 1000000);
  static const int64_t sizes[] = {3, 1, 3, 6, 1, 3};
  float x[24], y[24];
  for (size_t round = 0; round < sizeof sizes / sizeof *sizes; ++round) {
    const int64_t n = sizes[round];
    for (int i = 0; i < 24; ++i) { /* whole numbers: sums are exact; zeros for nonzero */
      x[i] = (float)tercel_test_random_int(&random, -2, 2);
      y[i] = (float)tercel_test_random_int(&random, -2, 2);
    }
    const tercel_tensor inputs[2] = {net_view(TERCEL_DTYPE_F32, x, DIMS(n, 4)),
                                     net_view(TERCEL_DTYPE_F32, y, DIMS(4, n))};
    static answer want;
    evaluate(graph, inputs, &want);
    for (size_t i = 0; i < 2; ++i) assert_ok(tercel_context_set_input(context, i, &inputs[i], &err), &err);
    net_run(context);
    compare(context, graph, &want, stream, n);
    forget(&want);
  }
  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
  tercel_model_destroy(model);
  tercel_graph_destroy(graph);
}

static void test_as_they_are(void **state) {
  (void)state;
  for (uint64_t stream = 0; stream < 400; ++stream) run_one(stream, false);
}

static void test_optimized(void **state) {
  (void)state;
  for (uint64_t stream = 0; stream < 400; ++stream) run_one(stream, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_they_are), cmocka_unit_test(test_optimized)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
