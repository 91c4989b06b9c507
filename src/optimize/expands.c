/* Expands, made later and so rarer: what is done to each element, and reductions over other dims, come before the expand.  Where a
 * pointwise operator reads it, the expand goes altogether (canonicalize).
 *
 *     f(expand(x)) = expand(f(x))          reduce(expand(x)) = expand(reduce(x)), where what is reduced was not expanded */
#include <string.h>

#include "optimize/rules.h"

static bool has_one_element(const tercel_value *value) {
  for (int i = 0; i < value->type.shape.rank; i++)
    if (value->type.shape.dims[i] != 1) return false;
  return value->type.shape.rank >= 0;
}

/* The only input that has more than one element, which is an expand; NULL when it isn't so. */
static tercel_node *only_expand(const tercel_node *node, uint32_t *index) {
  tercel_node *found = NULL;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    tercel_node *const expand = tercel_producer(node->inputs[i], TERCEL_OP_EXPAND);
    if (!expand && has_one_element(node->inputs[i])) continue;
    if (!expand || (found && found != expand)) return NULL;
    found = expand;
    *index = i;
  }
  return found;
}

/* Other inputs that are read as they are must not raise x's rank. */
static bool fit_under(const tercel_node *node, const tercel_value *x, const tercel_value *expanded) {
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] != expanded && node->inputs[i]->type.shape.rank > x->type.shape.rank) return false;
  return true;
}

/* x is not of one element already, or the expand would never be done with (a filled tensor). */
static tercel_status apply_pointwise(tercel_pass_context *context, const char *name, tercel_node *node,
                                     tercel_error *err) {
  uint32_t index = 0;
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS];
  tercel_node *first, *then;
  const tercel_node *const expand = only_expand(node, &index);
  const tercel_program *const program = tercel_node_program(node, "program");
  if (!expand || node->num_inputs > TERCEL_PROGRAM_MAX_INPUTS) return TERCEL_OK;
  tercel_value *const x = expand->inputs[0], *const expanded = expand->outputs[0];
  if (x->type.shape.rank < 0 || !tercel_shape_equal(&expanded->type.shape, &node->outputs[0]->type.shape) ||
      !fit_under(node, x, expanded))
    return TERCEL_OK;
  for (uint32_t i = 0; i < node->num_inputs; i++) inputs[i] = node->inputs[i] == expanded ? x : node->inputs[i];
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_POINTWISE, node, inputs, node->num_inputs, node, &first, err));
  TERCEL_TRY(tercel_node_set_program(first, "program", program, err));
  TERCEL_TRY(tercel_infer_node(first, err));
  tercel_value *const operands[2] = {first->outputs[0], expand->inputs[1]};
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_EXPAND, expand, operands, 2, node, &then, err));
  TERCEL_TRY(tercel_infer_node(then, err));
  return tercel_rewrite_node(context, name, node, then->outputs[0], err);
}

/* ---- reductions ---------------------------------------------------------------------------------------------------- */

static bool read_axes(const tercel_node *reduce, int rank, uint32_t *mask) {
  int64_t numbers[TERCEL_MAX_RANK];
  size_t count = 0;
  const int64_t *axes = tercel_node_ints(reduce, "axes", &count);
  if (!axes && tercel_constant_ints(tercel_node_input(reduce, 1), numbers, TERCEL_MAX_RANK, &count)) axes = numbers;
  *mask = 0;
  for (size_t i = 0; axes && i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return false;
    *mask |= 1u << axis;
  }
  return *mask != 0;
}

/* What expands a result of x's rank, without the reduced dims, again: 1 where the dim is as it was.  False with a reason when that can't
 * be told. */
static bool expand_target(const tercel_node *expand, uint32_t mask, bool keepdims, int64_t *target, size_t *count,
                          const char **why) {
  const tercel_shape *const x = &expand->inputs[0]->type.shape, *const y = &expand->outputs[0]->type.shape;
  *count = 0;
  *why = NULL;
  if (x->rank != y->rank || x->rank < 1) return false;
  for (int d = 0; d < y->rank; d++) {
    const bool same = x->dims[d] == y->dims[d], reduced = mask >> d & 1;
    if (reduced && !same) *why = "it reduces a dim that was expanded";
    if (!reduced && !same && !tercel_dim_is_known(y->dims[d])) *why = "an expanded dim is not known";
    if (reduced && !keepdims) continue;
    target[(*count)++] = reduced || same ? 1 : y->dims[d];
  }
  return !*why && *count > 0;
}

static tercel_status apply_reduce(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  const tercel_node *const expand = tercel_producer(node->inputs[0], TERCEL_OP_EXPAND);
  const bool keepdims = tercel_node_int(node, "keepdims") != 0;
  int64_t target[TERCEL_MAX_RANK], axes[TERCEL_MAX_RANK];
  size_t count, num_axes = 0;
  uint32_t mask;
  const char *why;
  tercel_node *first, *then;
  if (!expand || !read_axes(node, node->inputs[0]->type.shape.rank, &mask)) return TERCEL_OK;
  if (!expand_target(expand, mask, keepdims, target, &count, &why))
    return why ? tercel_refused(context, name, node, err, "%s", why) : TERCEL_OK;
  for (int d = 0; d < TERCEL_MAX_RANK; d++)
    if (mask >> d & 1) axes[num_axes++] = d;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_REDUCE, node, expand->inputs, 1, node, &first, err));
  TERCEL_TRY(tercel_node_set_string(first, "kind", tercel_node_string(node, "kind"), err));
  TERCEL_TRY(tercel_node_set_ints(first, "axes", axes, num_axes, err));
  TERCEL_TRY(tercel_node_set_int(first, "keepdims", keepdims, err));
  TERCEL_TRY(tercel_infer_node(first, err));
  tercel_value *operands[2] = {first->outputs[0]};
  TERCEL_TRY(tercel_graph_add_i64s(node->graph, "shape", target, count, false, &operands[1], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_EXPAND, expand, operands, 2, node, &then, err));
  TERCEL_TRY(tercel_infer_node(then, err));
  return tercel_rewrite_node(context, name, node, then->outputs[0], err);
}

static const tercel_rule rules[] = {
    {"pointwise-first", TERCEL_OP_POINTWISE, apply_pointwise}, {"reduce-first", TERCEL_OP_REDUCE, apply_reduce}, {0}};

tercel_status tercel_pass_expands(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
