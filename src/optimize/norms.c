/* Layer norm, instance norm, RMS norm and softmax written out in their parts, as one operator each.
 *
 *     d = x - mean(x);  layer norm = d / sqrt(mean(d d) + epsilon) [* scale] [+ bias]
 *     instance norm: the same of N, C, ... over all dims behind C
 *     RMS norm = x / sqrt(mean(x x) + epsilon) * scale
 *     softmax = exp(x - max(x)) / sum(exp(x - max(x)))
 *
 * The root is the last node of such a chain; a part of one waits for it. */
#include <string.h>

#include "optimize/pattern.h"
#include "optimize/shapes.h"

typedef struct norm {
  tercel_value *x;
  bool is_rms;
  bool is_instance;
  int axis; /* the first of those that are averaged over, which go on to the last */
  double epsilon;
  tercel_value *scale, *bias; /* constants, or NULL */
} norm;

/* ---- reductions ---- */

static bool read_axes(const tercel_node *reduce, uint32_t *mask) {
  int64_t numbers[TERCEL_MAX_RANK];
  size_t count = 0;
  const int rank = reduce->inputs[0]->type.shape.rank;
  const int64_t *axes = tercel_node_ints(reduce, "axes", &count);
  if (!axes && tercel_constant_ints(tercel_node_input(reduce, 1), numbers, TERCEL_MAX_RANK, &count)) axes = numbers;
  *mask = 0;
  if (!axes || rank < 0) return false;
  for (size_t i = 0; i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return false;
    *mask |= 1u << axis;
  }
  return *mask != 0;
}

/* value = kind(*x) over the axes of *mask, kept as 1. */
static bool match_reduce(tercel_pattern *p, const tercel_value *value, const char *kind, tercel_value **x,
                         uint32_t *mask) {
  const tercel_node *const reduce = tercel_producer(value, TERCEL_OP_REDUCE);
  const char *const has = reduce ? tercel_node_string(reduce, "kind") : NULL;
  if (!has || strcmp(has, kind) != 0 || !tercel_node_int(reduce, "keepdims") || !read_axes(reduce, mask)) return false;
  tercel_pattern_add(p, reduce);
  *x = reduce->inputs[0];
  return true;
}

/* The first axis, when the mask holds it and all after it; -1 otherwise. */
static int first_of_last(uint32_t mask, int rank) {
  for (int axis = 0; axis < rank; axis++)
    if (mask == (1u << rank) - (1u << axis)) return axis;
  return -1;
}

/* ---- norms ---- */

/* value = 1 / sqrt(*inside) */
static bool match_rsqrt(tercel_pattern *p, const tercel_value *value, tercel_value **inside) {
  double power;
  const tercel_node *node = tercel_pattern_fn(p, value, TERCEL_FN_RSQRT);
  if (!node && tercel_pattern_scalar(p, value, TERCEL_FN_POW, inside, &power)) return power == -0.5;
  if (!node) {
    node = tercel_pattern_fn(p, value, TERCEL_FN_RECIPROCAL);
    if (node) node = tercel_pattern_fn(p, node->inputs[0], TERCEL_FN_SQRT);
  }
  if (!node) {
    const tercel_node *const div = tercel_pattern_fn(p, value, TERCEL_FN_DIV);
    if (div && tercel_scalar(div->inputs[0], &power) && power == 1)
      node = tercel_pattern_fn(p, div->inputs[1], TERCEL_FN_SQRT);
  }
  if (node) *inside = node->inputs[0];
  return node;
}

/* node = *d / sqrt(*inside) */
static bool match_quotient(tercel_pattern *p, const tercel_node *node, tercel_value **d, tercel_value **inside) {
  const tercel_fn fn = tercel_single_fn(node);
  if (fn == TERCEL_FN_DIV) {
    const tercel_node *root = tercel_pattern_fn(p, node->inputs[1], TERCEL_FN_SQRT);
    *d = node->inputs[0];
    if (root) *inside = root->inputs[0];
    return root;
  }
  for (int side = 0; fn == TERCEL_FN_MUL && side < 2; side++) {
    *d = node->inputs[1 - side];
    if (match_rsqrt(p, node->inputs[side], inside)) return true;
  }
  return false;
}

/* Over all pixels of a channel, and layer norm would want a scale for each of them or does not know how many there are. */
static bool is_instance(const norm *n) {
  const tercel_shape *const shape = &n->x->type.shape;
  return n->axis == 2 && tercel_dim_is_known(shape->dims[1]) &&
         (shape->rank > 3 || (shape->rank == 3 && !tercel_dim_is_known(shape->dims[2])));
}

static bool match_norm(tercel_pattern *p, const tercel_node *node, norm *out) {
  tercel_value *d, *inside, *variance, *square, *mean_of;
  uint32_t mask, mean_mask;
  if (!tercel_is_f32(node->outputs[0]) || !match_quotient(p, node, &d, &inside)) return false;
  if (!tercel_pattern_scalar(p, inside, TERCEL_FN_ADD, &variance, &out->epsilon)) return false;
  if (!match_reduce(p, variance, "mean", &square, &mask)) return false;
  const tercel_node *const mul = tercel_pattern_fn(p, square, TERCEL_FN_MUL);
  if (!mul || mul->inputs[0] != d || mul->inputs[1] != d)
    return tercel_pattern_miss(p, "'%.80s' is the mean of '%.80s', which is not the square of '%.80s'", variance->name,
                               square->name, d->name);
  out->axis = first_of_last(mask, d->type.shape.rank);
  out->is_rms = true;
  out->x = d;
  const tercel_node *const sub = tercel_fn_node(d, TERCEL_FN_SUB);
  if (!sub) return true;
  tercel_pattern with_mean = *p;
  tercel_pattern_add(&with_mean, sub);
  if (!match_reduce(&with_mean, sub->inputs[1], "mean", &mean_of, &mean_mask) || mean_of != sub->inputs[0] ||
      mean_mask != mask)
    return true;
  *p = with_mean;
  out->is_rms = false;
  out->x = sub->inputs[0];
  out->is_instance = is_instance(out);
  return true;
}

/* The constant has just the dims from `axis` on of x, with any number of 1s before them; of instance norm, just the channels. */
static bool fits_axes(const tercel_value *constant, const norm *n) {
  const tercel_tensor *const t = constant->constant;
  const tercel_shape *const shape = &n->x->type.shape;
  if (!t || !tercel_is_f32(constant) || t->rank > shape->rank) return false;
  if (n->is_instance) return tercel_only_dim(t, shape->rank) == 1 && tercel_tensor_num_elements(t) == shape->dims[1];
  for (int d = 0; d < shape->rank; d++) {
    const int i = d - (shape->rank - t->rank);
    const int64_t have = i < 0 ? 1 : t->dims[i];
    if (d < n->axis ? have != 1 : have != shape->dims[d]) return false;
  }
  return true;
}

/* The constant operand of a node of that function whose other operand is `x`. */
static tercel_value *constant_operand(const tercel_node *node, tercel_fn fn, const tercel_value *x) {
  if (tercel_single_fn(node) != fn) return NULL;
  for (int side = 0; side < 2; side++)
    if (node->inputs[side] == x && node->inputs[1 - side]->constant) return node->inputs[1 - side];
  return NULL;
}

/* The one reader of the value, when it multiplies by (adds) a constant that fits. */
static tercel_node *next_in_chain(const tercel_value *value, tercel_fn fn, const norm *n) {
  if (!tercel_has_one_use(value)) return NULL;
  tercel_node *const node = value->uses[0].node;
  const tercel_value *const constant = constant_operand(node, fn, value);
  return constant && fits_axes(constant, n) ? node : NULL;
}

/* A scale or bias as the operator wants it; without one, a constant full of that number. */
static tercel_status make_operand(tercel_value *constant, const norm *n, double number, const tercel_node *like,
                                  tercel_value **out, tercel_error *err) {
  const tercel_shape *const shape = &n->x->type.shape;
  const int rank = n->is_instance ? 1 : shape->rank - n->axis;
  const int64_t *const dims = shape->dims + (n->is_instance ? 1 : n->axis);
  if (constant) return tercel_rewrite_reshaped(constant, rank, dims, out, err);
  TERCEL_TRY(tercel_graph_add_new_constant(like->graph, number == 0 ? "zeros" : "ones", TERCEL_DTYPE_F32, rank, dims,
                                           out, err));
  const int64_t count = tercel_tensor_num_elements((*out)->constant);
  for (int64_t i = 0; i < count; i++) tercel_element_set_f64((*out)->constant->data, TERCEL_DTYPE_F32, i, number);
  return TERCEL_OK;
}

/* The operator, not inferred yet. */
static tercel_status add_norm(const norm *n, tercel_node *root, tercel_node **out, tercel_error *err) {
  const tercel_op_id op = n->is_instance ? TERCEL_OP_GROUP_NORM : n->is_rms ? TERCEL_OP_RMS_NORM : TERCEL_OP_LAYER_NORM;
  const bool has_bias = n->bias || n->is_instance;
  tercel_value *inputs[3] = {n->x};
  TERCEL_TRY(make_operand(n->scale, n, 1, root, &inputs[1], err));
  if (has_bias) TERCEL_TRY(make_operand(n->bias, n, 0, root, &inputs[2], err));
  TERCEL_TRY(tercel_rewrite_add(op, root, inputs, has_bias ? 3 : 2, root, out, err));
  if (!n->is_instance) TERCEL_TRY(tercel_node_set_int(*out, "axis", n->axis, err));
  return tercel_node_set_float(*out, "epsilon", n->epsilon, err);
}

static tercel_status replace_norm(tercel_pass_context *context, const tercel_pattern *p, const norm *n,
                                  tercel_error *err) {
  const char *const rule = n->is_instance ? "instance-norm" : n->is_rms ? "rms-norm" : "layer-norm";
  tercel_node *const root = (tercel_node *)(uintptr_t)p->nodes[0];
  const tercel_node *const leak = tercel_pattern_leak(p);
  if (leak) return tercel_pattern_refuse_leak(context, rule, p, leak, err);
  if (n->axis < 0) return tercel_refused(context, rule, root, err, "its mean is not over the last axes");
  for (int d = n->axis; d < n->x->type.shape.rank && !n->is_instance; d++)
    if (!tercel_dim_is_known(n->x->type.shape.dims[d]))
      return tercel_refused(context, rule, root, err, "dim %d of its input is not known", d);
  tercel_node *made;
  TERCEL_TRY(add_norm(n, root, &made, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  return tercel_pattern_replace(context, rule, p, made, err);
}

/* Found at the quotient; scale and bias follow it, and the last of them is the root. */
static tercel_status apply_norm(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  (void)name;
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern found = {.nodes = {node}, .num_nodes = 1, .miss = miss};
  norm n = {0};
  if (!match_norm(&found, node, &n)) return *miss ? tercel_refused(context, "norm", node, err, "%s", miss) : TERCEL_OK;
  const tercel_node *chain[3] = {node};
  int length = 1;
  const tercel_node *const mul = n.axis < 0 ? NULL : next_in_chain(node->outputs[0], TERCEL_FN_MUL, &n);
  if (mul) {
    n.scale = constant_operand(mul, TERCEL_FN_MUL, node->outputs[0]);
    chain[length++] = mul;
  }
  const tercel_value *const result = chain[length - 1]->outputs[0];
  const tercel_node *const add = n.is_rms || n.axis < 0 ? NULL : next_in_chain(result, TERCEL_FN_ADD, &n);
  if (add) {
    n.bias = constant_operand(add, TERCEL_FN_ADD, result);
    chain[length++] = add;
  }
  if (tercel_value_num_uses(chain[length - 1]->outputs[0]) == 0) return TERCEL_OK; /* was replaced before */
  tercel_pattern p = {0};
  while (length > 0) tercel_pattern_add(&p, chain[--length]);
  for (int i = 1; i < found.num_nodes; i++) tercel_pattern_add(&p, found.nodes[i]);
  return replace_norm(context, &p, &n, err);
}

/* ---- softmax ---- */

static tercel_status apply_softmax(tercel_pass_context *context, const char *name, tercel_node *node,
                                   tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  tercel_value *e, *x;
  uint32_t sum_mask, max_mask;
  if (tercel_single_fn(node) != TERCEL_FN_DIV || !tercel_is_f32(node->outputs[0]) ||
      !match_reduce(&p, node->inputs[1], "sum", &e, &sum_mask) || e != node->inputs[0])
    return TERCEL_OK;
  const tercel_node *const exp_node = tercel_pattern_fn(&p, e, TERCEL_FN_EXP);
  const tercel_node *const sub = exp_node ? tercel_pattern_fn(&p, exp_node->inputs[0], TERCEL_FN_SUB) : NULL;
  if (!sub || !match_reduce(&p, sub->inputs[1], "max", &x, &max_mask) || x != sub->inputs[0] || max_mask != sum_mask)
    return TERCEL_OK;
  if (sum_mask & (sum_mask - 1)) return tercel_refused(context, name, node, err, "it sums over several axes");
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_SOFTMAX, node, &x, 1, node, &made, err));
  TERCEL_TRY(tercel_node_set_int(made, "axis", __builtin_ctz(sum_mask), err));
  TERCEL_TRY(tercel_infer_node(made, err));
  return tercel_pattern_replace(context, name, &p, made, err);
}

static const tercel_rule rules[] = {
    {"norm", TERCEL_OP_POINTWISE, apply_norm},
    {"softmax", TERCEL_OP_POINTWISE, apply_softmax},
    {0},
};

tercel_status tercel_pass_norms(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
