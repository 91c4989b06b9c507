/* Products of one value with several constant matrices, as one product whose columns are those of all: one step in place of several, whose
 * result is split.
 *
 * It pays only where matrices are narrow.  A product works on whole vectors of columns, so that 8 columns cost as much as 16; and each step
 * has a price of its own.  Three products of 384 rows, 1 thread, AVX-512 (AMD EPYC): 8 columns each, 44 us for 128 rows become 29; 24
 * columns, 86 become 69; 40 columns, 126 become 111; but 64 columns stay at 166 and 384 columns (queries, keys and values of a
 * transformer) at 2.07 ms, where the split comes on top.  So what is padded must be a good part of the whole, and results that an epilogue would
 * be fused with stay apart. */
#include "optimize/rules.h"

enum { LANES = 16, MAX_PRODUCTS = 8, BIAS = 2 };

/* A product that may be one of several: x times a matrix (rows x columns) [+ a bias]. */
typedef struct linear {
  tercel_node *node;
  int64_t rows, columns;
} linear;

static bool has_pointwise_reader(const tercel_value *value) {
  for (uint32_t i = 0; i < value->num_uses; i++)
    if (tercel_is(value->uses[i].node, TERCEL_OP_POINTWISE)) return true;
  return false;
}

static bool read_linear(tercel_node *node, linear *out) {
  if (!tercel_is(node, TERCEL_OP_MATMUL) || !tercel_is_f32(node->outputs[0]) || node->num_inputs > 3) return false;
  const tercel_tensor *const w = node->inputs[1]->constant;
  const tercel_value *const bias = tercel_node_input(node, BIAS);
  if (!w || w->rank != 2 || node->inputs[0]->type.shape.rank < 2 || tercel_node_int(node, "trans_a") ||
      tercel_node_int(node, "trans_b") || tercel_node_program(node, "epilogue"))
    return false;
  if (bias && (!bias->constant || bias->constant->rank != 1 || bias->constant->dims[0] != w->dims[1])) return false;
  *out = (linear){node, w->dims[0], w->dims[1]};
  return w->dims[0] > 0 && w->dims[1] > 0;
}

static bool belong_together(const linear *a, const linear *b) {
  return a->node->inputs[0] == b->node->inputs[0] && a->rows == b->rows &&
         tercel_node_float(a->node, "alpha") == tercel_node_float(b->node, "alpha");
}

/* The first in the graph, which is the one looked at first, and the others that are still read. */
static int find_all(const linear *first, linear out[MAX_PRODUCTS]) {
  const tercel_value *const x = first->node->inputs[0];
  int count = 1;
  out[0] = *first;
  for (uint32_t i = 0; i < x->num_uses && count < MAX_PRODUCTS; i++) {
    linear next;
    if (x->uses[i].index == 0 && x->uses[i].node != first->node && read_linear(x->uses[i].node, &next) &&
        belong_together(first, &next) && tercel_value_num_uses(next.node->outputs[0]) > 0)
      out[count++] = next;
  }
  return count;
}

static int64_t padded(int64_t columns) { return (columns + LANES - 1) / LANES * LANES; }

/* Columns that are worked out for nothing are at least a tenth of all, beyond those that remain. */
static bool pays(const linear *all, int count) {
  int64_t apart = 0, columns = 0;
  for (int i = 0; i < count; i++) {
    apart += padded(all[i].columns);
    columns += all[i].columns;
  }
  return (apart - padded(columns)) * 10 >= apart && all[0].rows >= LANES;
}

/* The matrices side by side. */
static tercel_status join_weights(const linear *all, int count, int64_t columns, tercel_value **out,
                                  tercel_error *err) {
  const int64_t rows = all[0].rows, dims[2] = {rows, columns};
  TERCEL_TRY(tercel_graph_add_new_constant(all[0].node->graph, all[0].node->inputs[1]->name, TERCEL_DTYPE_F32, 2, dims,
                                           out, err));
  float *const to = (*out)->constant->data;
  for (int64_t r = 0, at = 0; r < rows; r++)
    for (int i = 0; i < count; i++) {
      const float *const from = all[i].node->inputs[1]->constant->data;
      for (int64_t c = 0; c < all[i].columns; c++) to[at++] = from[r * all[i].columns + c];
    }
  return TERCEL_OK;
}

/* The biases one after the other, 0 where there is none; NULL where no product has one. */
static tercel_status join_biases(const linear *all, int count, int64_t columns, tercel_value **out, tercel_error *err) {
  bool any = false;
  *out = NULL;
  for (int i = 0; i < count; i++) any |= tercel_node_input(all[i].node, BIAS) != NULL;
  if (!any) return TERCEL_OK;
  TERCEL_TRY(tercel_graph_add_new_constant(all[0].node->graph, "bias", TERCEL_DTYPE_F32, 1, &columns, out, err));
  float *to = (*out)->constant->data;
  for (int i = 0; i < count; i++) {
    const tercel_value *const bias = tercel_node_input(all[i].node, BIAS);
    const float *const from = bias ? bias->constant->data : NULL;
    for (int64_t c = 0; c < all[i].columns; c++) *to++ = from ? from[c] : 0;
  }
  return TERCEL_OK;
}

static tercel_status replace(tercel_pass_context *context, const char *name, const linear *all, int count,
                             tercel_error *err) {
  tercel_node *const first = all[0].node, *made, *split;
  tercel_value *inputs[3] = {first->inputs[0]}, *parts[2];
  int64_t widths[MAX_PRODUCTS], columns = 0;
  for (int i = 0; i < count; i++) columns += widths[i] = all[i].columns;
  TERCEL_TRY(join_weights(all, count, columns, &inputs[1], err));
  TERCEL_TRY(join_biases(all, count, columns, &inputs[BIAS], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_MATMUL, first, inputs, inputs[BIAS] ? 3 : 2, first, &made, err));
  TERCEL_TRY(tercel_node_set_float(made, "alpha", tercel_node_float(first, "alpha"), err));
  for (int i = 1; i < count; i++) TERCEL_TRY(tercel_node_add_sources(made, all[i].node, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  parts[0] = made->outputs[0];
  TERCEL_TRY(tercel_graph_add_i64s(first->graph, "columns", widths, (size_t)count, false, &parts[1], err));
  TERCEL_TRY(tercel_graph_add_node(first->graph, tercel_ops()[TERCEL_OP_SPLIT], first->name, parts, 2, (size_t)count,
                                   first, &split, err));
  TERCEL_TRY(tercel_node_add_sources(split, made, err));
  TERCEL_TRY(tercel_node_set_int(split, "axis", made->outputs[0]->type.shape.rank - 1, err));
  TERCEL_TRY(tercel_infer_node(split, err));
  TERCEL_TRY(tercel_made(context, name, made, NULL, err));
  for (int i = 0; i < count; i++) TERCEL_TRY(tercel_rewrite_replace(all[i].node->outputs[0], split->outputs[i], err));
  return TERCEL_OK;
}

static tercel_status apply(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  linear first, all[MAX_PRODUCTS];
  if (!read_linear(node, &first)) return TERCEL_OK;
  const int count = find_all(&first, all);
  if (count < 2 || !pays(all, count)) return TERCEL_OK;
  for (int i = 0; i < count; i++) {
    const tercel_value *const result = all[i].node->outputs[0];
    if (has_pointwise_reader(result))
      return tercel_refused(context, name, node, err,
                            "'%.100s' is read by pointwise operators, which its product can do by itself",
                            result->name);
  }
  return replace(context, name, all, count, err);
}

static const tercel_rule rules[] = {{"parallel-matmuls", TERCEL_OP_MATMUL, apply}, {0}};

tercel_status tercel_pass_parallel_matmuls(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return context->shapes_only ? TERCEL_OK : tercel_run_rules(graph, rules, context, err);
}
