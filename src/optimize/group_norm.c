/* Group norm as exporters write it: an instance norm of a view in which each group is a channel, then a scale and a bias of each channel.
 *
 *     x (N, C, ...) -> view (N, G, ...) -> instance norm -> view (N, C, ...) [* scale] [+ bias] */
#include "optimize/norm_match.h"

static const tercel_node *view_of(const tercel_value *value) {
  const tercel_node *const node = value->producer;
  return node && node->op->flags & TERCEL_OP_VIEW && node->inputs[0] ? node : NULL;
}

static bool is_all(const tercel_value *value, double number) {
  const tercel_tensor *const t = value->constant;
  const int64_t count = t ? tercel_tensor_num_elements(t) : 0;
  for (int64_t i = 0; i < count; i++)
    if (tercel_tensor_get_f64(t, i) != number) return false;
  return count > 0;
}

/* A norm of (N, G, ...) over all but the first two dims that neither scales nor shifts. */
static bool is_bare_norm(const tercel_node *norm) {
  int64_t axis;
  const tercel_value *const bias = tercel_node_input(norm, 2);
  if (norm->num_outputs > 1 || !is_all(norm->inputs[1], 1) || (bias && !is_all(bias, 0))) return false;
  if (tercel_is(norm, TERCEL_OP_GROUP_NORM)) return tercel_node_int(norm, "groups") == 0;
  axis = tercel_node_int(norm, "axis");
  return (axis < 0 ? axis + norm->inputs[0]->type.shape.rank : axis) == 2;
}

/* One number a channel of (N, C, ...). */
static bool is_by_channel(const tercel_value *constant, const tercel_shape *x) {
  const tercel_tensor *const t = constant->constant;
  if (!t || !tercel_is_f32(constant) || t->rank > x->rank || t->rank < x->rank - 1) return false;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] != (d + x->rank - t->rank == 1 ? x->dims[1] : 1)) return false;
  return true;
}

/* node = fn(*x, a number a channel) */
static bool match_by_channel(const tercel_node *node, tercel_fn fn, tercel_value **x, tercel_value **number) {
  if (tercel_single_fn(node) != fn || !is_by_channel(node->inputs[1], &node->outputs[0]->type.shape)) return false;
  *x = node->inputs[0];
  *number = node->inputs[1];
  return true;
}

static tercel_status make_operand(tercel_value *constant, int64_t channels, double number, const tercel_node *like,
                                  tercel_value **out, tercel_error *err) {
  if (constant) return tercel_rewrite_reshaped(constant, 1, &channels, out, err);
  TERCEL_TRY(tercel_graph_add_new_constant(like->graph, number == 0 ? "zeros" : "ones", TERCEL_DTYPE_F32, 1, &channels,
                                           out, err));
  for (int64_t i = 0; i < channels; i++) tercel_element_set_f64((*out)->constant->data, TERCEL_DTYPE_F32, i, number);
  return TERCEL_OK;
}

static tercel_status apply(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  tercel_value *inputs[3] = {0}, *scale = NULL, *bias = NULL, *value = node->outputs[0];
  if (match_by_channel(node, TERCEL_FN_ADD, &value, &bias)) {
    tercel_value *scaled;
    if (value->producer && match_by_channel(value->producer, TERCEL_FN_MUL, &scaled, &scale)) {
      tercel_pattern_add(&p, value->producer);
      value = scaled;
    }
  } else if (!match_by_channel(node, TERCEL_FN_MUL, &value, &scale)) {
    return TERCEL_OK;
  }
  const tercel_node *const back = view_of(value), *const norm = back ? back->inputs[0]->producer : NULL;
  if (!norm || !(tercel_is(norm, TERCEL_OP_GROUP_NORM) || tercel_is(norm, TERCEL_OP_LAYER_NORM)) || !is_bare_norm(norm))
    return TERCEL_OK;
  const tercel_node *const split = view_of(norm->inputs[0]);
  if (!split) return TERCEL_OK;
  tercel_value *const x = split->inputs[0];
  const tercel_shape *const whole = &x->type.shape, *const groups = &split->outputs[0]->type.shape;
  if (!tercel_same_type(x, node->outputs[0]) || whole->rank < 2 || groups->rank < 2 ||
      groups->dims[0] != whole->dims[0] || !tercel_dim_is_known(whole->dims[1]) || groups->dims[1] < 1 ||
      whole->dims[1] % groups->dims[1] != 0)
    return TERCEL_OK;
  const tercel_node *const readers[] = {back, norm, split};
  for (int i = 0; i < 3; i++) tercel_pattern_add(&p, readers[i]);
  if (tercel_has_one_use(node->outputs[0]) && scale && !bias &&
      match_by_channel(node->outputs[0]->uses[0].node, TERCEL_FN_ADD, &value, &bias))
    return TERCEL_OK; /* the bias that follows is the root */
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  tercel_node *made;
  inputs[0] = x;
  TERCEL_TRY(make_operand(scale, whole->dims[1], 1, node, &inputs[1], err));
  TERCEL_TRY(make_operand(bias, whole->dims[1], 0, node, &inputs[2], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_GROUP_NORM, node, inputs, 3, node, &made, err));
  TERCEL_TRY(tercel_node_set_int(made, "groups", groups->dims[1], err));
  TERCEL_TRY(tercel_node_set_float(made, "epsilon", tercel_node_float(norm, "epsilon"), err));
  TERCEL_TRY(tercel_infer_node(made, err));
  return tercel_pattern_replace(context, name, &p, made, err);
}

const tercel_rule tercel_group_norm_rules[] = {{"group-norm", TERCEL_OP_POINTWISE, apply}, {0}};
