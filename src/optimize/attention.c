/* Attention written out in its parts, as one operator, whose kernel never stores the scores of all queries.
 *
 *     softmax(scale Q K' [masked ...]) V          Q: N, H, S, D    K: N, H, T, D    V: N, H, T, E
 *
 * Operands by heads that were only just transposed from rows (N, S, H, D) are read from those, and the result is given so too,
 * so that the transposes around it go.  Factors next to the product were folded into it before (fold-scale).  What softmax gives where a query
 * sees no key, the operator gives too. */
#include "optimize/attention.h"

#include <math.h>
#include <string.h>

#include "optimize/shapes.h"

/* ---- match ---- */

/* value = max(*x) over the last axis */
static bool match_row_maximum(const tercel_value *value, const tercel_value **x) {
  const tercel_node *const reduce = tercel_producer(value, TERCEL_OP_REDUCE);
  const char *const kind = reduce ? tercel_node_string(reduce, "kind") : NULL;
  int64_t number;
  size_t count = 0;
  if (!kind || strcmp(kind, "max") != 0 || !tercel_node_int(reduce, "keepdims")) return false;
  const int64_t *axes = tercel_node_ints(reduce, "axes", &count);
  if (!axes && tercel_constant_ints(tercel_node_input(reduce, 1), &number, 1, &count)) axes = &number;
  *x = reduce->inputs[0];
  return axes && count == 1 && (*axes == -1 || *axes == (*x)->type.shape.rank - 1);
}

/* The rows to clear, as a condition: those with a NaN, or those whose mask is -infinity throughout, as ONNX defines its operator. */
static bool match_cleared(tercel_pattern *p, const tercel_node *select, tercel_attention_match *out) {
  double number;
  const tercel_node *const is_nan = tercel_fn_node(select->inputs[0], TERCEL_FN_IS_NAN);
  const tercel_node *const equal = tercel_fn_node(select->inputs[0], TERCEL_FN_EQUAL);
  if (!tercel_scalar(select->inputs[1], &number) || number != 0) return false;
  if (is_nan && is_nan->inputs[0] == select->inputs[2]) {
    out->unseen = "clear";
    tercel_pattern_add(p, is_nan);
    return true;
  }
  out->unseen = "zero";
  return equal && tercel_scalar(equal->inputs[1], &number) && number == -INFINITY &&
         match_row_maximum(equal->inputs[0], &out->row_mask);
}

/* The weights: a softmax, or one with some rows cleared. */
static const tercel_node *match_softmax(tercel_pattern *p, tercel_value *weights, tercel_attention_match *out) {
  const tercel_node *const select = tercel_fn_node(weights, TERCEL_FN_SELECT);
  out->unseen = "nan";
  if (!select) return tercel_producer(weights, TERCEL_OP_SOFTMAX);
  if (!match_cleared(p, select, out)) return NULL;
  tercel_pattern_add(p, select);
  return tercel_producer(select->inputs[2], TERCEL_OP_SOFTMAX);
}

/* Factors between the masks and the product, a soft cap among them: c tanh(x / c). */
static bool match_scale(tercel_pattern *p, tercel_value **scores, tercel_attention_match *out) {
  double factor;
  tercel_pattern_scaled(p, *scores, scores, &out->scale);
  const tercel_node *const tanh_node = tercel_pattern_fn(p, *scores, TERCEL_FN_TANH);
  if (!tanh_node) return true;
  if (!(out->scale > 0)) return tercel_pattern_miss(p, "scores are capped at %.9g", out->scale);
  out->softcap = out->scale;
  tercel_pattern_scaled(p, tanh_node->inputs[0], scores, &factor);
  out->scale *= factor;
  return true;
}

/* Of the whole operands, and not fused with anything yet. */
static bool is_plain_product(const tercel_pattern *p, const tercel_node *matmul) {
  const int rank = matmul->outputs[0]->type.shape.rank;
  for (uint32_t i = 0; i < 2; i++) {
    const tercel_value *const operand = matmul->inputs[i];
    if (operand->type.shape.rank != rank || (rank != 3 && rank != 4))
      return tercel_pattern_miss(p, "'%.80s' has rank %d, not 4: batch, heads, rows, size (or 3: both, rows, size)",
                                 operand->name, operand->type.shape.rank);
  }
  if (matmul->num_inputs > 2 || tercel_node_program(matmul, "epilogue"))
    return tercel_pattern_miss(p, "'%.100s' has a bias or was fused with what follows it", matmul->name);
  return true;
}

/* Batch and heads are the same of all three, or divide those of the queries, and each key has a value. */
static bool agree(const tercel_pattern *p, const tercel_attention_match *m) {
  const tercel_heads *const others[] = {&m->k, &m->v};
  for (int i = 0; i < 2; i++) {
    const tercel_value *const q = m->q.value, *const other = others[i]->value;
    if (tercel_dim_at(q, 0) != tercel_dim_at(other, 0))
      return tercel_pattern_miss(p, "'%.80s' and '%.80s' are not known to have the same batch", q->name, other->name);
    if (m->is_merged) continue;
    const tercel_dim heads = tercel_dim_at(q, 1), own = tercel_dim_at(other, 1);
    const bool shared = tercel_dim_is_known(heads) && own > 0 && heads % own == 0;
    if (tercel_dim_at(m->k.value, 1) != tercel_dim_at(m->v.value, 1) || (heads != own && !shared))
      return tercel_pattern_miss(p, "'%.80s' and '%.80s' are not known to have the same heads", q->name, other->name);
  }
  if (tercel_heads_size(&m->q) != tercel_heads_size(&m->k))
    return tercel_pattern_miss(p, "'%.80s' and '%.80s' are not known to have the same size of heads", m->q.value->name,
                               m->k.value->name);
  if (tercel_heads_rows(&m->k) != tercel_heads_rows(&m->v))
    return tercel_pattern_miss(p, "'%.80s' and '%.80s' are not known to have as many rows", m->k.value->name,
                               m->v.value->name);
  return true;
}

/* softmax(...) V, or V' softmax(...)', which gives the result with its last two dims swapped. */
static const tercel_node *match_weights(tercel_pattern *p, const tercel_node *node, tercel_attention_match *out) {
  for (uint32_t side = 0; side < 2; side++) {
    const bool is_turned = tercel_node_int(node, side ? "trans_b" : "trans_a");
    if (is_turned != (side == 1)) continue;
    tercel_pattern at = *p;
    const tercel_node *const softmax = match_softmax(&at, tercel_behind_views(&at, node->inputs[side], NULL), out);
    if (!softmax) continue;
    *p = at;
    out->gives_turned = side;
    out->v.value = node->inputs[1 - side];
    out->v.is_turned = side ? !tercel_node_int(node, "trans_a") : tercel_node_int(node, "trans_b");
    return softmax;
  }
  return NULL;
}

static bool match_product(const tercel_pattern *p, const tercel_node *product, const tercel_node *node,
                          tercel_attention_match *out) {
  if (!is_plain_product(p, product) || !is_plain_product(p, node)) return false;
  const double factor = tercel_node_float(node, "alpha");
  out->scale *= tercel_node_float(product, "alpha");
  if (!(out->scale > 0) || factor != 1)
    return tercel_pattern_miss(p, "a factor of %.9g", out->scale > 0 ? factor : out->scale);
  out->q = (tercel_heads){product->inputs[0], tercel_node_int(product, "trans_a") != 0};
  out->k = (tercel_heads){product->inputs[1], tercel_node_int(product, "trans_b") == 0};
  out->is_merged = product->outputs[0]->type.shape.rank == 3;
  if (node->outputs[0]->type.shape.rank != product->outputs[0]->type.shape.rank)
    return tercel_pattern_miss(p, "'%.80s' and '%.80s' have different ranks", product->name, node->name);
  return true;
}

/* The view that gives merged rows (N H, S, E) their heads back, when nothing else reads them. */
static tercel_node *find_unmerge(const tercel_node *node, const tercel_shape *split) {
  const tercel_value *const result = node->outputs[0];
  tercel_node *const view = tercel_has_one_use(result) ? result->uses[0].node : NULL;
  if (!view || !(view->op->flags & TERCEL_OP_VIEW)) return NULL;
  const tercel_shape *const to = &view->outputs[0]->type.shape;
  for (int i = 0; i < 2; i++)
    if (to->rank != 4 || to->dims[i] != split->dims[i] || to->dims[i + 2] != tercel_dim_at(result, i - 2)) return NULL;
  return view;
}

/* Merged operands that come from heads are read by heads, and the view that splits the result is the root. */
static void split_heads(tercel_pattern *p, const tercel_shape *split, tercel_attention_match *out) {
  const tercel_value *const q = out->q.value;
  const tercel_node *const view = q->producer;
  if (!split && view && view->op->flags & TERCEL_OP_VIEW && view->inputs[0]->type.shape.rank == 4)
    split = &view->inputs[0]->type.shape;
  tercel_node *const unmerge = split ? find_unmerge(p->nodes[0], split) : NULL;
  if (!unmerge || !tercel_split_heads(out, split)) return;
  const tercel_node *const product = p->nodes[0];
  p->nodes[0] = unmerge;
  tercel_pattern_add(p, product);
}

/* node: the product of weights and values.  False with a miss when there is a softmax of products that does not fit. */
static bool match(tercel_pattern *p, const tercel_node *node, tercel_attention_match *out) {
  const tercel_shape *split = NULL;
  const tercel_node *const softmax = match_weights(p, node, out);
  if (!softmax || !tercel_is_f32(node->outputs[0]) || tercel_node_int(softmax, "log")) return false;
  tercel_pattern_add(p, softmax);
  tercel_value *scores = tercel_behind_views(p, softmax->inputs[0], &split);
  if (!tercel_match_masks(p, &scores, out) || !match_scale(p, &scores, out)) return false;
  scores = tercel_behind_views(p, scores, &split);
  const tercel_node *const product = tercel_producer(scores, TERCEL_OP_MATMUL);
  if (!product) return tercel_pattern_miss(p, "'%.100s', of which the softmax is, is no product", scores->name);
  const int64_t axis = tercel_node_int(softmax, "axis");
  if (axis != -1 && axis != softmax->inputs[0]->type.shape.rank - 1)
    return tercel_pattern_miss(p, "'%.100s' is not over the keys, but over axis %lld", softmax->name, (long long)axis);
  if (!match_product(p, product, node, out)) return false;
  tercel_pattern_add(p, product);
  for (int i = 0; i < out->num_masks; i++)
    if (out->masks[i].scores->type.shape.rank == 4) split = &out->masks[i].scores->type.shape;
  if (out->row_mask && (out->num_masks != 1 || out->masks[0].is_select || out->masks[0].mask != out->row_mask))
    return tercel_pattern_miss(p, "rows are cleared by '%.100s', which is not the mask", out->row_mask->name);
  if (out->is_merged) split_heads(p, split, out);
  tercel_strip_repeats(out);
  return agree(p, out) && tercel_masks_fit(p, out);
}

/* ---- rewrite ---- */

/* Rows as the result by heads that the graph goes on with. */
static tercel_status unpack(const tercel_attention_match *m, tercel_value *rows, const tercel_node *made,
                            tercel_node *before, tercel_value **out, tercel_error *err) {
  static const int64_t swap_rows_and_heads[] = {0, 2, 1, 3};
  int64_t target[TERCEL_MAX_RANK];
  const tercel_shape shape = {
      4, {tercel_dim_at(rows, 0), tercel_dim_at(rows, 1), tercel_dim_at(m->q.value, 1), tercel_heads_size(&m->v)}};
  if (!tercel_reshape_target(&rows->type.shape, &shape, target))
    return tercel_fail(err, TERCEL_INTERNAL, "attention '%s': its rows have no shape by heads", made->name);
  tercel_node *reshape, *transpose;
  TERCEL_TRY(tercel_add_reshape(rows, target, 4, made, before, &reshape, err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, made, reshape->outputs, 1, before, &transpose, err));
  TERCEL_TRY(tercel_node_set_ints(transpose, "perm", swap_rows_and_heads, 4, err));
  *out = transpose->outputs[0];
  return tercel_infer_node(transpose, err);
}

static tercel_status set_attributes(const tercel_attention_match *m, const tercel_attention_masks *masks,
                                    tercel_value *const *inputs, tercel_node *made, tercel_error *err) {
  const bool k_is_packed = inputs[1]->type.shape.rank == 3, v_is_packed = inputs[2]->type.shape.rank == 3;
  if (inputs[0]->type.shape.rank == 3)
    TERCEL_TRY(tercel_node_set_int(made, "heads", m->is_merged ? 1 : tercel_dim_at(m->q.value, 1), err));
  if (k_is_packed || v_is_packed)
    TERCEL_TRY(tercel_node_set_int(made, "kv_heads", m->is_merged ? 1 : tercel_dim_at(m->k.value, 1), err));
  TERCEL_TRY(tercel_node_set_float(made, "scale", m->scale, err));
  if (m->softcap > 0) TERCEL_TRY(tercel_node_set_float(made, "softcap", m->softcap, err));
  if (masks->is_causal) TERCEL_TRY(tercel_node_set_int(made, "causal", 1, err));
  if (masks->mask && masks->mask->type.dtype == TERCEL_DTYPE_BOOL && isfinite(masks->fill))
    TERCEL_TRY(tercel_node_set_float(made, "fill", masks->fill, err));
  return tercel_node_set_string(made, "unseen", m->unseen, err);
}

static tercel_status replace(tercel_pass_context *context, const char *name, const tercel_pattern *p,
                             const tercel_attention_match *m, tercel_node *root, tercel_error *err) {
  tercel_value *inputs[5] = {0}, *result;
  tercel_attention_masks masks;
  tercel_node *made;
  TERCEL_TRY(tercel_pack_heads(&m->q, root, &inputs[0], err));
  TERCEL_TRY(tercel_pack_heads(&m->k, root, &inputs[1], err));
  TERCEL_TRY(tercel_pack_heads(&m->v, root, &inputs[2], err));
  TERCEL_TRY(tercel_build_masks(m, root, root, &masks, err));
  inputs[3] = masks.mask;
  inputs[4] = masks.offset;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_ATTENTION, root, inputs,
                                masks.offset ? 5
                                : masks.mask ? 4
                                             : 3,
                                root, &made, err));
  TERCEL_TRY(set_attributes(m, &masks, inputs, made, err));
  for (int i = 1; i < p->num_nodes; i++) TERCEL_TRY(tercel_node_add_sources(made, p->nodes[i], err));
  TERCEL_TRY(tercel_infer_node(made, err));
  result = made->outputs[0];
  if (result->type.shape.rank == 3 && !m->is_merged) TERCEL_TRY(unpack(m, result, made, root, &result, err));
  if (m->gives_turned) TERCEL_TRY(tercel_turn(result, made, root, &result, err));
  TERCEL_TRY(tercel_made(context, name, made, NULL, err));
  return tercel_rewrite_replace(root->outputs[0], result, err);
}

static tercel_status apply(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1, .miss = miss};
  tercel_attention_match m = {0};
  if (!match(&p, node, &m)) return *miss ? tercel_refused(context, name, node, err, "%s", miss) : TERCEL_OK;
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  return replace(context, name, &p, &m, (tercel_node *)(uintptr_t)p.nodes[0], err);
}

static const tercel_rule rules[] = {{"attention", TERCEL_OP_MATMUL, apply}, {0}};

tercel_status tercel_pass_attention(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
