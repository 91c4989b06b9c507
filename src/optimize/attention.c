/* Attention written out in its parts, as one operator, whose kernel never stores the scores of all queries.
 *
 *     softmax(scale Q K' [+ mask ...]) V          Q: N, H, S, D    K: N, H, T, D    V: N, H, T, E
 *
 * Operands by heads that were only just transposed from rows (N, S, H, D) are read from those, and the result is given so too,
 * so that the transposes around it go.  Scales were folded into the product before (fold-scale).  Several addends of the scores
 * (a position's bias, a mask of padding) become one mask. */
#include "optimize/pattern.h"
#include "optimize/shapes.h"

enum { RANK = 4, MAX_MASKS = 3 };

typedef struct attention {
  tercel_value *q, *k, *v;
  tercel_value *masks[MAX_MASKS];
  int num_masks;
  double scale;
} attention;

static tercel_dim dim_of(const tercel_value *value, int i) { return value->type.shape.dims[i]; }

/* ---- match ---- */

/* How many additions lie between the value and a product; -1 when it is no sum with one. */
static int depth_of_product(const tercel_value *value, int most) {
  const tercel_node *const node = value->producer;
  if (tercel_is(node, TERCEL_OP_MATMUL)) return 0;
  if (most == 0 || tercel_single_fn(node) != TERCEL_FN_ADD) return -1;
  const int left = depth_of_product(node->inputs[0], most - 1), right = depth_of_product(node->inputs[1], most - 1);
  if (left < 0 && right < 0) return -1;
  return 1 + (left < 0 || (right >= 0 && right < left) ? right : left);
}

/* The scores' part of a sum, where the product is nearer, and its addend. */
static bool split_sum(const tercel_node *add, tercel_value **scores, tercel_value **addend) {
  const int left = depth_of_product(add->inputs[0], MAX_MASKS), right = depth_of_product(add->inputs[1], MAX_MASKS);
  if (left < 0 && right < 0) return false;
  const int side = left < 0 || (right >= 0 && right < left);
  *scores = add->inputs[side];
  *addend = add->inputs[1 - side];
  return true;
}

/* A mask's dims broadcast to the scores', but its last dim must be the number of keys. */
static bool is_mask(const tercel_pattern *p, const tercel_value *mask, const tercel_value *scores) {
  const int rank = mask->type.shape.rank;
  if (rank < 1 || !tercel_broadcasts_to(&mask->type.shape, &scores->type.shape)) {
    char shapes[TERCEL_REASON_MAX];
    return tercel_pattern_miss(p, "a mask not known to fit the scores: %s",
                               tercel_describe_broadcast(mask, scores, shapes));
  }
  if (dim_of(mask, rank - 1) != dim_of(scores, RANK - 1))
    return tercel_pattern_miss(p, "'%.100s', which is added to the scores, is broadcast over the keys", mask->name);
  return true;
}

/* What is added to the scores, the outermost first; *scores becomes the bare product's. */
static bool match_masks(tercel_pattern *p, tercel_value **scores, attention *out) {
  for (const tercel_node *add; (add = tercel_fn_node(*scores, TERCEL_FN_ADD));) {
    tercel_value *addend;
    if (!split_sum(add, scores, &addend)) return false;
    if (out->num_masks == MAX_MASKS) return tercel_pattern_miss(p, "more than %d masks are added", MAX_MASKS);
    if (!is_mask(p, addend, *scores)) return false;
    tercel_pattern_add(p, add);
    out->masks[out->num_masks++] = addend;
  }
  return true;
}

/* By heads, of the whole operands, and not fused with anything yet. */
static bool is_plain_product(const tercel_pattern *p, const tercel_node *matmul) {
  for (uint32_t i = 0; i < 2; i++)
    if (matmul->inputs[i]->type.shape.rank != RANK)
      return tercel_pattern_miss(p, "'%.80s' has rank %d, not %d: batch, heads, rows, size", matmul->inputs[i]->name,
                                 matmul->inputs[i]->type.shape.rank, RANK);
  if (tercel_node_int(matmul, "trans_a"))
    return tercel_pattern_miss(p, "'%.100s' is read transposed", matmul->inputs[0]->name);
  if (matmul->num_inputs > 2 || tercel_node_program(matmul, "epilogue"))
    return tercel_pattern_miss(p, "'%.100s' has a bias or was fused with what follows it", matmul->name);
  return true;
}

/* Batch and heads are the same of all three, and each key has a value. */
static bool agree(const tercel_pattern *p, const attention *a) {
  const tercel_value *const others[] = {a->k, a->v};
  for (int i = 0; i < 2; i++)
    for (int d = 0; d < 2; d++)
      if (dim_of(a->q, d) != dim_of(others[i], d))
        return tercel_pattern_miss(p, "'%.80s' and '%.80s' are not known to have the same %s", a->q->name,
                                   others[i]->name, d ? "heads" : "batch");
  if (dim_of(a->k, 2) != dim_of(a->v, 2))
    return tercel_pattern_miss(p, "'%.80s' and '%.80s' are not known to have as many rows", a->k->name, a->v->name);
  return true;
}

/* The softmax that makes the weights, or of which they are what is no NaN: attention gives 0 where a query sees no key. */
static const tercel_node *match_softmax(tercel_pattern *p, const tercel_value *weights) {
  double zero;
  const tercel_node *const select = tercel_fn_node(weights, TERCEL_FN_SELECT);
  const tercel_node *const is_nan = select ? tercel_fn_node(select->inputs[0], TERCEL_FN_IS_NAN) : NULL;
  if (!is_nan) return tercel_producer(weights, TERCEL_OP_SOFTMAX);
  if (!tercel_scalar(select->inputs[1], &zero) || zero != 0 || is_nan->inputs[0] != select->inputs[2]) return NULL;
  tercel_pattern_add(p, select);
  tercel_pattern_add(p, is_nan);
  return tercel_producer(select->inputs[2], TERCEL_OP_SOFTMAX);
}

/* node: the product of weights and values.  False with a miss when there is a softmax of products that does not fit. */
static bool match(tercel_pattern *p, const tercel_node *node, attention *out) {
  const tercel_node *const softmax = match_softmax(p, node->inputs[0]);
  if (!softmax || !tercel_is_f32(node->outputs[0]) || tercel_node_int(softmax, "log")) return false;
  tercel_value *scores = softmax->inputs[0];
  tercel_pattern_add(p, softmax);
  if (!match_masks(p, &scores, out)) return false;
  const tercel_node *const product = tercel_producer(scores, TERCEL_OP_MATMUL);
  if (!product) return tercel_pattern_miss(p, "'%.100s', of which the softmax is, is no product", scores->name);
  const int64_t axis = tercel_node_int(softmax, "axis");
  if (axis != -1 && axis != scores->type.shape.rank - 1)
    return tercel_pattern_miss(p, "'%.100s' is not over the keys, but over axis %lld", softmax->name, (long long)axis);
  if (!tercel_node_int(product, "trans_b"))
    return tercel_pattern_miss(p, "'%.100s' holds a column a key", product->inputs[1]->name);
  if (tercel_node_int(node, "trans_b"))
    return tercel_pattern_miss(p, "'%.100s' holds a column a value", node->inputs[1]->name);
  if (!is_plain_product(p, product) || !is_plain_product(p, node)) return false;
  tercel_pattern_add(p, product);
  out->scale = tercel_node_float(product, "alpha");
  if (!(out->scale > 0) || tercel_node_float(node, "alpha") != 1)
    return tercel_pattern_miss(p, "a factor of %.9g", out->scale > 0 ? tercel_node_float(node, "alpha") : out->scale);
  out->q = product->inputs[0];
  out->k = product->inputs[1];
  out->v = node->inputs[1];
  return agree(p, out);
}

/* ---- rewrite ---- */

/* The value as rows of all heads' parts (N, S, H * D), when it was transposed from those; else as it is. */
static tercel_status pack(tercel_value *by_heads, tercel_node *before, tercel_value **out, tercel_error *err) {
  size_t count;
  int64_t target[TERCEL_MAX_RANK];
  const tercel_node *const transpose = tercel_producer(by_heads, TERCEL_OP_TRANSPOSE);
  const int64_t *const perm = transpose ? tercel_node_ints(transpose, "perm", &count) : NULL;
  const tercel_dim heads = dim_of(by_heads, 1), size = dim_of(by_heads, 3);
  *out = by_heads;
  if (!perm || perm[0] != 0 || perm[1] != 2 || perm[2] != 1 || perm[3] != 3 || !tercel_dim_is_known(heads) ||
      !tercel_dim_is_known(size))
    return TERCEL_OK;
  const tercel_shape *const from = &transpose->inputs[0]->type.shape;
  const tercel_shape rows = {3, {from->dims[0], from->dims[1], heads * size}};
  if (!tercel_reshape_target(from, &rows, target)) return TERCEL_OK;
  tercel_node *reshape;
  TERCEL_TRY(tercel_add_reshape(transpose->inputs[0], target, rows.rank, transpose, before, &reshape, err));
  *out = reshape->outputs[0];
  return TERCEL_OK;
}

/* Rows as the result by heads that the graph goes on with. */
static tercel_status unpack(const attention *a, tercel_node *made, tercel_node *before, tercel_node **out,
                            tercel_error *err) {
  static const int64_t swap_rows_and_heads[RANK] = {0, 2, 1, 3};
  int64_t target[TERCEL_MAX_RANK];
  const tercel_value *const rows = made->outputs[0];
  const tercel_shape shape = {RANK, {dim_of(rows, 0), dim_of(rows, 1), dim_of(a->q, 1), dim_of(a->v, 3)}};
  if (!tercel_reshape_target(&rows->type.shape, &shape, target))
    return tercel_fail(err, TERCEL_INTERNAL, "attention '%s': its rows have no shape by heads", made->name);
  tercel_node *reshape;
  TERCEL_TRY(tercel_add_reshape(made->outputs[0], target, RANK, made, before, &reshape, err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, made, reshape->outputs, 1, before, out, err));
  TERCEL_TRY(tercel_node_set_ints(*out, "perm", swap_rows_and_heads, RANK, err));
  return tercel_infer_node(*out, err);
}

static tercel_status add_masks(const attention *a, tercel_node *before, tercel_value **out, tercel_error *err) {
  *out = a->num_masks ? a->masks[0] : NULL;
  for (int i = 1; i < a->num_masks; i++) {
    tercel_node *sum;
    TERCEL_TRY(tercel_rewrite_add_fn(TERCEL_FN_ADD, before, (tercel_value *[]){*out, a->masks[i]}, 2, NULL, before,
                                     &sum, err));
    *out = sum->outputs[0];
  }
  return TERCEL_OK;
}

static tercel_status replace(tercel_pass_context *context, const char *name, const tercel_pattern *p,
                             const attention *a, tercel_node *root, tercel_error *err) {
  tercel_value *inputs[4] = {0};
  tercel_node *made, *last;
  TERCEL_TRY(pack(a->q, root, &inputs[0], err));
  TERCEL_TRY(pack(a->k, root, &inputs[1], err));
  TERCEL_TRY(pack(a->v, root, &inputs[2], err));
  TERCEL_TRY(add_masks(a, root, &inputs[3], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_ATTENTION, root, inputs, inputs[3] ? 4 : 3, root, &made, err));
  if (inputs[0] != a->q) TERCEL_TRY(tercel_node_set_int(made, "heads", dim_of(a->q, 1), err));
  if (inputs[1] != a->k || inputs[2] != a->v) TERCEL_TRY(tercel_node_set_int(made, "kv_heads", dim_of(a->k, 1), err));
  TERCEL_TRY(tercel_node_set_float(made, "scale", a->scale, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  last = made;
  if (inputs[0] != a->q) TERCEL_TRY(unpack(a, made, root, &last, err));
  for (int i = 1; i < p->num_nodes; i++) TERCEL_TRY(tercel_node_add_sources(made, p->nodes[i], err));
  TERCEL_TRY(tercel_made(context, name, made, NULL, err));
  return tercel_rewrite_replace(root->outputs[0], last->outputs[0], err);
}

static tercel_status apply(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1, .miss = miss};
  attention a = {0};
  if (!match(&p, node, &a)) return *miss ? tercel_refused(context, name, node, err, "%s", miss) : TERCEL_OK;
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  return replace(context, name, &p, &a, node, err);
}

static const tercel_rule rules[] = {{"attention", TERCEL_OP_MATMUL, apply}, {0}};

tercel_status tercel_pass_attention(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
