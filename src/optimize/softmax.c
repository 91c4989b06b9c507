/* Softmax written out in its parts: exp(x - max(x)) / sum(exp(x - max(x))), maxima and sums with their dims kept or given back by views. */
#include "optimize/norm_match.h"

static tercel_status apply(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  tercel_value *e, *x;
  uint32_t sum_axes, max_axes;
  if (tercel_single_fn(node) != TERCEL_FN_DIV || !tercel_is_f32(node->outputs[0]) ||
      !tercel_match_reduce(&p, tercel_behind_row_views(&p, node->inputs[1]), "sum", &e, &sum_axes) ||
      e != node->inputs[0])
    return TERCEL_OK;
  const tercel_node *const exp_node = tercel_pattern_fn(&p, e, TERCEL_FN_EXP);
  const tercel_node *const sub = exp_node ? tercel_pattern_fn(&p, exp_node->inputs[0], TERCEL_FN_SUB) : NULL;
  if (!sub || !tercel_match_reduce(&p, tercel_behind_row_views(&p, sub->inputs[1]), "max", &x, &max_axes) ||
      x != sub->inputs[0] || max_axes != sum_axes || !tercel_keeps_axes(node->inputs[1], x, sum_axes) ||
      !tercel_keeps_axes(sub->inputs[1], x, sum_axes))
    return TERCEL_OK;
  if (sum_axes & (sum_axes - 1)) return tercel_refused(context, name, node, err, "it sums over several axes");
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_SOFTMAX, node, &x, 1, node, &made, err));
  TERCEL_TRY(tercel_node_set_int(made, "axis", __builtin_ctz(sum_axes), err));
  TERCEL_TRY(tercel_infer_node(made, err));
  return tercel_pattern_replace(context, name, &p, made, err);
}

const tercel_rule tercel_softmax_rules[] = {{"softmax", TERCEL_OP_POINTWISE, apply}, {0}};
