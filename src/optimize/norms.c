/* Layer norm, RMS norm, instance norm and group norm written out in their parts, as one operator each.
 *
 *     d = x - mean(x);  layer norm = d / sqrt(mean(d d) + epsilon) [* scale] [+ bias]
 *     RMS norm = x / sqrt(mean(x x) + epsilon) * scale
 *     instance norm: as layer norm, over all dims but batch and channels, with a scale and a bias a channel
 *     group norm: an instance norm of a view in which the groups are channels
 *
 * The root is the last node of such a chain; a part of one waits for it.  A norm over one axis that is not the last one is that of the
 * transposed. */
#include "optimize/norm_match.h"
#include "optimize/shapes.h"

/* ---- scale and bias ---- */

/* Over all dims but batch and channels: scale and bias tell whether it is an instance norm or a layer norm of rows of all the rest. */
static bool may_be_instance(const tercel_norm_match *n) {
  const int rank = n->x->type.shape.rank;
  return !n->is_rms && rank >= 3 && n->axes == (1u << rank) - 4u && tercel_dim_is_known(n->x->type.shape.dims[1]);
}

/* The constant has just the dims of those axes of x, and 1 in place of all others. */
static bool fits_axes(const tercel_value *constant, const tercel_norm_match *n, uint32_t axes) {
  const tercel_tensor *const t = constant->constant;
  const tercel_shape *const shape = &n->x->type.shape;
  if (!t || !tercel_is_f32(constant) || t->rank > shape->rank) return false;
  for (int d = 0; d < shape->rank; d++) {
    const int i = d - (shape->rank - t->rank);
    const int64_t have = i < 0 ? 1 : t->dims[i];
    if (axes & 1u << d ? have != shape->dims[d] : have != 1) return false;
  }
  return true;
}

/* The axes that scale and bias run along: those of the norm, or the channels'. */
static uint32_t operand_axes(const tercel_norm_match *n) { return n->is_instance ? 2u : n->axes; }

/* The constant operand of a node of that function whose other operand is `x`. */
static tercel_value *constant_operand(const tercel_node *node, tercel_fn fn, const tercel_value *x) {
  if (tercel_single_fn(node) != fn) return NULL;
  for (int side = 0; side < 2; side++)
    if (node->inputs[side] == x && node->inputs[1 - side]->constant) return node->inputs[1 - side];
  return NULL;
}

/* The one reader of the value, when it multiplies by (adds) a constant that fits. */
static tercel_node *next_in_chain(const tercel_value *value, tercel_fn fn, const tercel_norm_match *n) {
  if (!tercel_has_one_use(value)) return NULL;
  tercel_node *const node = value->uses[0].node;
  const tercel_value *const constant = constant_operand(node, fn, value);
  return constant && fits_axes(constant, n, operand_axes(n)) ? node : NULL;
}

/* A scale or bias as the operator wants it; without one, a constant of `number`s. */
static tercel_status make_operand(tercel_value *constant, const tercel_norm_match *n, double number,
                                  const tercel_node *like, tercel_value **out, tercel_error *err) {
  const tercel_shape *const shape = &n->x->type.shape;
  int64_t dims[TERCEL_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < shape->rank; d++)
    if (operand_axes(n) & 1u << d) dims[rank++] = shape->dims[d];
  if (constant) return tercel_rewrite_reshaped(constant, rank, dims, out, err);
  TERCEL_TRY(tercel_graph_add_new_constant(like->graph, number == 0 ? "zeros" : "ones", TERCEL_DTYPE_F32, rank, dims,
                                           out, err));
  const int64_t count = tercel_tensor_num_elements((*out)->constant);
  for (int64_t i = 0; i < count; i++) tercel_element_set_f64((*out)->constant->data, TERCEL_DTYPE_F32, i, number);
  return TERCEL_OK;
}

/* ---- the operator ---- */

/* The one axis that is averaged over, when it is not the last one; -1 otherwise. */
static int inner_axis(const tercel_norm_match *n) {
  const int axis = __builtin_ctz(n->axes);
  return n->axes == 1u << axis && axis < n->x->type.shape.rank - 1 ? axis : -1;
}

static bool is_over_last(const tercel_norm_match *n) {
  return n->axes == (1u << n->x->type.shape.rank) - (1u << __builtin_ctz(n->axes));
}

static tercel_status add_transpose(tercel_value *x, int from, int to, const tercel_node *like, tercel_node *before,
                                   tercel_value **out, tercel_error *err) {
  int64_t perm[TERCEL_MAX_RANK];
  const int rank = x->type.shape.rank;
  tercel_node *node;
  for (int d = 0, next = 0; d < rank; d++)
    if (d != to) {
      next += next == from;
      perm[d] = next++;
    }
  perm[to] = from;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, like, &x, 1, before, &node, err));
  TERCEL_TRY(tercel_node_set_ints(node, "perm", perm, (size_t)rank, err));
  *out = node->outputs[0];
  return tercel_infer_node(node, err);
}

static tercel_status make_norm(const tercel_norm_match *n, const tercel_pattern *p, tercel_node *root,
                               tercel_node **out, tercel_error *err) {
  tercel_value *inputs[3] = {n->x};
  const int last = n->x->type.shape.rank - 1, inner = n->is_instance ? -1 : inner_axis(n);
  if (inner >= 0) TERCEL_TRY(add_transpose(n->x, inner, last, root, root, &inputs[0], err));
  TERCEL_TRY(make_operand(n->scale, n, 1, root, &inputs[1], err));
  if (n->bias || n->is_instance) TERCEL_TRY(make_operand(n->bias, n, 0, root, &inputs[2], err));
  const tercel_op_id op = n->is_rms ? TERCEL_OP_RMS_NORM : n->is_instance ? TERCEL_OP_GROUP_NORM : TERCEL_OP_LAYER_NORM;
  TERCEL_TRY(tercel_rewrite_add(op, root, inputs, inputs[2] ? 3 : 2, root, out, err));
  if (!n->is_instance) TERCEL_TRY(tercel_node_set_int(*out, "axis", inner >= 0 ? last : __builtin_ctz(n->axes), err));
  TERCEL_TRY(tercel_node_set_float(*out, "epsilon", n->epsilon, err));
  for (int i = 1; i < p->num_nodes; i++) TERCEL_TRY(tercel_node_add_sources(*out, p->nodes[i], err));
  return tercel_infer_node(*out, err);
}

static tercel_status replace_norm(tercel_pass_context *context, const tercel_pattern *p, const tercel_norm_match *n,
                                  tercel_error *err) {
  const char *const rule = n->is_rms ? "rms-norm" : n->is_instance ? "instance-norm" : "layer-norm";
  tercel_node *const root = (tercel_node *)(uintptr_t)p->nodes[0];
  const tercel_node *const leak = tercel_pattern_leak(p);
  if (leak) return tercel_pattern_refuse_leak(context, rule, p, leak, err);
  if (!is_over_last(n) && inner_axis(n) < 0)
    return tercel_refused(context, rule, root, err, "its mean is over several axes that are not the last ones");
  for (int d = 0; d < n->x->type.shape.rank; d++)
    if (operand_axes(n) & 1u << d && !tercel_dim_is_known(n->x->type.shape.dims[d]))
      return tercel_refused(context, rule, root, err, "dim %d of its input is not known", d);
  tercel_node *made;
  tercel_value *result;
  const int inner = n->is_instance ? -1 : inner_axis(n);
  TERCEL_TRY(make_norm(n, p, root, &made, err));
  result = made->outputs[0];
  if (inner >= 0) TERCEL_TRY(add_transpose(result, result->type.shape.rank - 1, inner, made, root, &result, err));
  TERCEL_TRY(tercel_made(context, rule, made, NULL, err));
  return tercel_rewrite_replace(root->outputs[0], result, err);
}

/* What follows the quotient: [* scale] [+ bias], into the chain; returns its length. */
static int follow(tercel_norm_match *n, const tercel_node *chain[3]) {
  int length = 1;
  const tercel_value *result = chain[0]->outputs[0];
  const tercel_node *const mul = n->scale || n->bias ? NULL : next_in_chain(result, TERCEL_FN_MUL, n);
  if (mul) {
    n->scale = constant_operand(mul, TERCEL_FN_MUL, result);
    chain[length++] = mul;
    result = mul->outputs[0];
  }
  const tercel_node *const add = n->is_rms || n->bias ? NULL : next_in_chain(result, TERCEL_FN_ADD, n);
  if (add) {
    n->bias = constant_operand(add, TERCEL_FN_ADD, result);
    chain[length++] = add;
  }
  return length;
}

/* Found at the quotient; scale and bias follow it, and the last of them is the root. */
static tercel_status apply_norm(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern found = {.nodes = {node}, .num_nodes = 1, .miss = miss}, p = {0};
  tercel_norm_match n = {0};
  if (!tercel_match_norm(&found, node, &n))
    return *miss ? tercel_refused(context, name, node, err, "%s", miss) : TERCEL_OK;
  const tercel_value *const inner = n.scale ? n.scale : n.bias;
  n.is_instance = may_be_instance(&n) && inner && !fits_axes(inner, &n, n.axes);
  const tercel_value *const odd = n.scale && !fits_axes(n.scale, &n, operand_axes(&n)) ? n.scale
                                  : n.bias && !fits_axes(n.bias, &n, operand_axes(&n)) ? n.bias
                                                                                       : NULL;
  if (odd)
    return tercel_refused(context, name, node, err, "'%.100s' is not one number for each place that is averaged over",
                          odd->name);
  const tercel_node *chain[3] = {node};
  int length = follow(&n, chain);
  if (length == 1 && !inner && may_be_instance(&n)) {
    n.is_instance = true;
    length = follow(&n, chain);
    n.is_instance = length > 1 || n.x->type.shape.rank > 3 || !tercel_dim_is_known(n.x->type.shape.dims[2]);
  }
  if (tercel_value_num_uses(chain[length - 1]->outputs[0]) == 0) return TERCEL_OK; /* was replaced before */
  while (length > 0) tercel_pattern_add(&p, chain[--length]);
  for (int i = 1; i < found.num_nodes; i++) tercel_pattern_add(&p, found.nodes[i]);
  return replace_norm(context, &p, &n, err);
}

static const tercel_rule rules[] = {{"norm", TERCEL_OP_POINTWISE, apply_norm}, {0}};

tercel_status tercel_pass_norms(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  TERCEL_TRY(tercel_run_rules(graph, rules, context, err));
  TERCEL_TRY(tercel_run_rules(graph, tercel_group_norm_rules, context, err));
  return tercel_run_rules(graph, tercel_softmax_rules, context, err);
}
