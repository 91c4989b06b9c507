/* Removes operators that do nothing and writes others in one form, so that later rules need to know only that form.
 * Shapes that inference knows become constants.  Pointwise operators: canonicalize_pointwise.c. */
#include <string.h>

#include "optimize/canonicalize.h"
#include "optimize/shapes.h"

/* ---- known contents ---- */

/* A small integer value that inference knows in numbers is a constant. */
static tercel_status apply_known_contents(tercel_pass_context *context, const char *name, tercel_node *node,
                                          tercel_error *err) {
  tercel_value *const value = tercel_node_output(node, 0);
  if (!value || !value->contents || tercel_value_num_uses(value) == 0 || !tercel_shape_is_known(&value->type.shape) ||
      node->op->flags & TERCEL_OP_CONTROL)
    return TERCEL_OK;
  int64_t numbers[TERCEL_MAX_CONTENTS];
  for (int64_t i = 0; i < value->num_contents; i++)
    if (!tercel_dim_get_number(node->graph->dims, value->contents[i], &numbers[i])) return TERCEL_OK;
  tercel_value *constant;
  TERCEL_TRY(tercel_graph_add_new_constant(node->graph, value->name, value->type.dtype, value->type.shape.rank,
                                           value->type.shape.dims, &constant, err));
  for (int64_t i = 0; i < value->num_contents; i++)
    tercel_element_set_i64(constant->constant->data, value->type.dtype, i, numbers[i]);
  TERCEL_TRY(tercel_made(context, name, node, NULL, err));
  return tercel_rewrite_replace(value, constant, err);
}

/* ---- operators that give back what they got ---- */

static bool gives_input(const tercel_node *node) {
  return node->outputs[0] && node->inputs[0] && tercel_same_type(node->inputs[0], node->outputs[0]);
}

static tercel_status apply_same_shape(tercel_pass_context *context, const char *name, tercel_node *node,
                                      tercel_error *err) {
  return gives_input(node) ? tercel_rewrite_node(context, name, node, node->inputs[0], err) : TERCEL_OK;
}

static bool are_all(const tercel_value *value, int64_t wanted) {
  int64_t numbers[2 * TERCEL_MAX_RANK];
  size_t count;
  if (!tercel_constant_ints(value, numbers, 2 * TERCEL_MAX_RANK, &count)) return false;
  for (size_t i = 0; i < count; i++)
    if (numbers[i] != wanted) return false;
  return true;
}

/* Steps of 1 and a result as long as the input: everything, in order. */
static tercel_status apply_slice(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  const tercel_value *const steps = tercel_node_input(node, 4);
  return !steps || are_all(steps, 1) ? apply_same_shape(context, name, node, err) : TERCEL_OK;
}

static tercel_status apply_pad(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  return are_all(node->inputs[1], 0) ? apply_same_shape(context, name, node, err) : TERCEL_OK;
}

static tercel_status apply_split(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  return node->num_outputs == 1 ? apply_same_shape(context, name, node, err) : TERCEL_OK;
}

/* Over dims of 1. */
static tercel_status apply_reduce(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  static const char *const kinds[] = {"sum", "mean", "max", "min", "prod"};
  const char *const kind = tercel_node_string(node, "kind");
  for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kind, kinds[i]) == 0) return apply_same_shape(context, name, node, err);
  return TERCEL_OK;
}

/* Leaves out what is empty along the axis; what remains alone is the result. */
static tercel_status apply_concat(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  const int rank = node->outputs[0] ? node->outputs[0]->type.shape.rank : -1;
  const int64_t axis = tercel_node_int(node, "axis");
  if (rank < 1) return TERCEL_OK;
  const int dim = (int)(axis < 0 ? axis + rank : axis);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_shape *const shape = &node->inputs[i]->type.shape;
    const bool is_empty = shape->rank == rank && shape->dims[dim] == 0;
    if (is_empty && kept + node->num_inputs - i > 1) continue;
    if (kept != i) TERCEL_TRY(tercel_node_set_input(node, kept, node->inputs[i], err));
    kept++;
  }
  if (kept < node->num_inputs) {
    tercel_node_truncate_inputs(node, kept);
    TERCEL_TRY(tercel_made(context, name, node, NULL, err));
  }
  return kept == 1 && gives_input(node) ? tercel_rewrite_node(context, name, node, node->inputs[0], err) : TERCEL_OK;
}

/* ---- views ---- */

static bool is_view(const tercel_node *node) { return node && node->op->flags & TERCEL_OP_VIEW; }

/* A view of a view is a reshape of what lies below both; a reshape to a shape known well enough has a constant
 * target. */
static tercel_status apply_view(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  int64_t target[TERCEL_MAX_RANK];
  tercel_value *x = node->inputs[0];
  if (!is_view(node) || !x || !node->outputs[0]) return TERCEL_OK;
  const tercel_shape *const to = &node->outputs[0]->type.shape;
  const bool is_chain = is_view(x->producer) && x->producer->inputs[0];
  if (is_chain) x = x->producer->inputs[0];
  const bool is_open = tercel_is(node, TERCEL_OP_RESHAPE) && !node->inputs[1]->constant;
  if ((!is_chain && !is_open) || !tercel_reshape_target(&x->type.shape, to, target)) return TERCEL_OK;
  tercel_node *reshape;
  TERCEL_TRY(tercel_add_reshape(x, target, to->rank, node, node, &reshape, err));
  if (is_chain) TERCEL_TRY(tercel_node_add_sources(reshape, node->inputs[0]->producer, err));
  return tercel_rewrite_node(context, name, node, reshape->outputs[0], err);
}

static bool has_one_element(const tercel_value *value) {
  for (int i = 0; i < value->type.shape.rank; i++)
    if (value->type.shape.dims[i] != 1) return false;
  return value->type.shape.rank >= 0;
}

/* A view of what follows from constants and single numbers only: the constants get the view's shape instead. */
static tercel_status apply_view_of_constants(tercel_pass_context *context, const char *name, tercel_node *node,
                                             tercel_error *err) {
  const tercel_node *const inner = is_view(node) ? tercel_producer(node->inputs[0], TERCEL_OP_POINTWISE) : NULL;
  if (!inner || !tercel_has_one_use(node->inputs[0])) return TERCEL_OK;
  const tercel_shape *const from = &inner->outputs[0]->type.shape, *const to = &node->outputs[0]->type.shape;
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS];
  bool has_constant = false;
  if (!tercel_shape_is_known(to) || inner->num_inputs > TERCEL_PROGRAM_MAX_INPUTS) return TERCEL_OK;
  for (uint32_t i = 0; i < inner->num_inputs; i++) {
    inputs[i] = inner->inputs[i];
    if (has_one_element(inputs[i]) && inputs[i]->type.shape.rank <= to->rank) continue;
    if (!inputs[i]->constant || !tercel_shape_equal(&inputs[i]->type.shape, from)) return TERCEL_OK;
    has_constant = true;
  }
  if (!has_constant) return TERCEL_OK;
  for (uint32_t i = 0; i < inner->num_inputs; i++)
    if (inputs[i]->constant && tercel_shape_equal(&inputs[i]->type.shape, from))
      TERCEL_TRY(tercel_rewrite_reshaped(inputs[i], to->rank, to->dims, &inputs[i], err));
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_POINTWISE, node, inputs, inner->num_inputs, node, &made, err));
  TERCEL_TRY(tercel_node_set_program(made, "program", tercel_node_program(inner, "program"), err));
  TERCEL_TRY(tercel_infer_node(made, err));
  TERCEL_TRY(tercel_node_add_sources(made, inner, err));
  return tercel_rewrite_node(context, name, node, made->outputs[0], err);
}

/* Is `kept` the shape of a reduction of `x` over those axes with 1 in their places? */
static bool keeps_reduced(const tercel_shape *kept, const tercel_shape *x, const int64_t *axes, size_t count) {
  tercel_shape want = *x;
  if (x->rank < 0 || count == 0) return false;
  for (size_t i = 0; i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
    if (axis < 0 || axis >= x->rank) return false;
    want.dims[axis] = 1;
  }
  return tercel_shape_equal(kept, &want);
}

/* A view that gives a reduction its dims of 1 back: the reduction keeps them, as the patterns of norms have it. */
static tercel_status apply_keep_dims(tercel_pass_context *context, const char *name, tercel_node *node,
                                     tercel_error *err) {
  const tercel_node *const reduce = is_view(node) ? tercel_producer(node->inputs[0], TERCEL_OP_REDUCE) : NULL;
  int64_t numbers[TERCEL_MAX_RANK];
  size_t count = 0;
  if (!reduce || tercel_node_int(reduce, "keepdims") || !tercel_has_one_use(node->inputs[0])) return TERCEL_OK;
  const int64_t *axes = tercel_node_ints(reduce, "axes", &count);
  if (!axes && tercel_constant_ints(tercel_node_input(reduce, 1), numbers, TERCEL_MAX_RANK, &count)) axes = numbers;
  if (!axes || !keeps_reduced(&node->outputs[0]->type.shape, &reduce->inputs[0]->type.shape, axes, count))
    return TERCEL_OK;
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_REDUCE, node, reduce->inputs, 1, node, &made, err));
  TERCEL_TRY(tercel_node_set_string(made, "kind", tercel_node_string(reduce, "kind"), err));
  TERCEL_TRY(tercel_node_set_ints(made, "axes", axes, count, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  TERCEL_TRY(tercel_node_add_sources(made, reduce, err));
  return tercel_rewrite_node(context, name, node, made->outputs[0], err);
}

/* sum(x x) = sum_square(x), sum |x| = l1(x): the kernel does both in one go. */
static tercel_status apply_reduce_of(tercel_pass_context *context, const char *name, tercel_node *node,
                                     tercel_error *err) {
  const char *const kind = tercel_node_string(node, "kind");
  const tercel_node *const mul = tercel_fn_node(node->inputs[0], TERCEL_FN_MUL);
  const tercel_node *const abs_node = tercel_fn_node(node->inputs[0], TERCEL_FN_ABS);
  const bool is_square = mul && mul->inputs[0] == mul->inputs[1];
  if (!kind || strcmp(kind, "sum") != 0 || (!is_square && !abs_node) || !tercel_is_f32(node->outputs[0]))
    return TERCEL_OK;
  const tercel_node *const inner = is_square ? mul : abs_node;
  char uses[TERCEL_REASON_MAX];
  if (!tercel_has_one_use(node->inputs[0]))
    return tercel_refused(context, name, node, err, "%s", tercel_describe_uses(node->inputs[0], node, uses));
  TERCEL_TRY(tercel_made(context, name, node, inner, err));
  TERCEL_TRY(tercel_node_set_string(node, "kind", is_square ? "sum_square" : "l1", err));
  TERCEL_TRY(tercel_node_add_sources(node, inner, err));
  return tercel_node_set_input(node, 0, inner->inputs[0], err);
}

/* Pointwise operators broadcast by themselves: what only prepares for that is left out. */
static tercel_status apply_expand(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  tercel_dims *const dims = node->graph->dims;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_node *const expand = tercel_producer(node->inputs[i], TERCEL_OP_EXPAND);
    if (!expand) continue;
    tercel_shape result = expand->inputs[0]->type.shape;
    for (uint32_t j = 0; j < node->num_inputs && result.rank >= 0; j++) {
      if (j == i) continue;
      const tercel_shape *const other = &node->inputs[j]->type.shape;
      const tercel_shape sofar = result;
      result.rank = other->rank < 0 ? -1 : sofar.rank > other->rank ? sofar.rank : other->rank;
      for (int d = 0; d < result.rank; d++) {
        const int a = d - (result.rank - sofar.rank), b = d - (result.rank - other->rank);
        if (!tercel_dim_broadcast(dims, a < 0 ? 1 : sofar.dims[a], b < 0 ? 1 : other->dims[b], &result.dims[d]))
          return TERCEL_OK;
      }
    }
    if (result.rank < 0 || !tercel_shape_equal(&result, &node->outputs[0]->type.shape)) continue;
    TERCEL_TRY(tercel_made(context, name, node, expand, err));
    TERCEL_TRY(tercel_node_add_sources(node, expand, err));
    return tercel_node_set_input(node, i, expand->inputs[0], err);
  }
  return TERCEL_OK;
}

static const tercel_rule rules[] = {
    {"known-contents", TERCEL_ANY_OP, apply_known_contents},
    {"same-shape", TERCEL_OP_RESHAPE, apply_same_shape},
    {"same-shape", TERCEL_OP_FLATTEN, apply_same_shape},
    {"same-shape", TERCEL_OP_SQUEEZE, apply_same_shape},
    {"same-shape", TERCEL_OP_UNSQUEEZE, apply_same_shape},
    {"same-shape", TERCEL_OP_EXPAND, apply_same_shape},
    {"same-shape", TERCEL_OP_TILE, apply_same_shape},
    {"slice-of-all", TERCEL_OP_SLICE, apply_slice},
    {"pad-of-nothing", TERCEL_OP_PAD, apply_pad},
    {"split-in-one", TERCEL_OP_SPLIT, apply_split},
    {"reduce-of-one", TERCEL_OP_REDUCE, apply_reduce},
    {"reduce-of", TERCEL_OP_REDUCE, apply_reduce_of},
    {"concat", TERCEL_OP_CONCAT, apply_concat},
    {"keep-dims", TERCEL_ANY_OP, apply_keep_dims},
    {"view", TERCEL_ANY_OP, apply_view},
    {"view-of-constants", TERCEL_ANY_OP, apply_view_of_constants},
    {"batch-norm", TERCEL_OP_BATCH_NORM, tercel_apply_batch_norm},
    {"pointwise", TERCEL_OP_POINTWISE, tercel_apply_pointwise},
    {"gather-first", TERCEL_OP_GATHER, tercel_apply_gather},
    {"expand", TERCEL_OP_POINTWISE, apply_expand},
    {0},
};

tercel_status tercel_pass_canonicalize(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
