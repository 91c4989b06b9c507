/* Batch norm with constant statistics as x * factor + offset, which then folds into a convolution or joins a
 * pointwise chain. */
#include <math.h>

#include "optimize/canonicalize.h"

enum { X, SCALE, BIAS, MEAN, VARIANCE, NUM_INPUTS };

static bool is_constant_f32(const tercel_value *value) { return value && value->constant && tercel_is_f32(value); }

/* [1 x channels x 1 ...] of that rank. */
static tercel_status add_constant(tercel_node *node, const char *name, int rank, int64_t channels, tercel_value **out,
                                  tercel_error *err) {
  int64_t dims[TERCEL_MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = i == 1 ? channels : 1;
  return tercel_graph_add_new_constant(node->graph, name, TERCEL_DTYPE_F32, rank, dims, out, err);
}

tercel_status tercel_apply_batch_norm(tercel_pass_context *context, const char *name, tercel_node *node,
                                      tercel_error *err) {
  tercel_value *const x = node->inputs[X];
  const int rank = x->type.shape.rank;
  if (tercel_node_int(node, "training") || !node->outputs[0] || !tercel_is_f32(x) || rank < 2) return TERCEL_OK;
  for (int i = SCALE; i < NUM_INPUTS; i++)
    if (!is_constant_f32(node->inputs[i]))
      return tercel_refused(context, name, node, err, "'%.100s' is not an f32 constant", node->inputs[i]->name);
  const tercel_tensor *t[NUM_INPUTS];
  const int64_t channels = tercel_tensor_num_elements(node->inputs[SCALE]->constant);
  for (int i = SCALE; i < NUM_INPUTS; i++) {
    t[i] = node->inputs[i]->constant;
    if (tercel_tensor_num_elements(t[i]) != channels) return TERCEL_OK;
  }
  tercel_value *factor, *offset;
  TERCEL_TRY(add_constant(node, node->inputs[SCALE]->name, rank, channels, &factor, err));
  TERCEL_TRY(add_constant(node, node->inputs[BIAS]->name, rank, channels, &offset, err));
  const double epsilon = tercel_node_float(node, "epsilon");
  for (int64_t c = 0; c < channels; c++) {
    const double f = tercel_tensor_get_f64(t[SCALE], c) / sqrt(tercel_tensor_get_f64(t[VARIANCE], c) + epsilon);
    tercel_element_set_f64(factor->constant->data, TERCEL_DTYPE_F32, c, f);
    tercel_element_set_f64(offset->constant->data, TERCEL_DTYPE_F32, c,
                           tercel_tensor_get_f64(t[BIAS], c) - tercel_tensor_get_f64(t[MEAN], c) * f);
  }
  tercel_node *mul, *add;
  TERCEL_TRY(tercel_rewrite_add_fn(TERCEL_FN_MUL, node, (tercel_value *[]){x, factor}, 2, NULL, node, &mul, err));
  TERCEL_TRY(tercel_rewrite_add_fn(TERCEL_FN_ADD, node, (tercel_value *[]){mul->outputs[0], offset}, 2, NULL, node,
                                   &add, err));
  return tercel_rewrite_node(context, name, node, add->outputs[0], err);
}
