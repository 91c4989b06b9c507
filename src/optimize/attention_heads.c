/* How the operands of attention lie: heads that were repeated for several query heads each, last two dims swapped, batch and heads merged
 * into one dim, heads that were only just transposed from rows. */
#include "optimize/attention.h"
#include "optimize/shapes.h"

static bool is_view(const tercel_node *node) { return node && node->op->flags & TERCEL_OP_VIEW; }

/* A view of ranks 3 or 4 that leaves the last two dims alone. */
static bool keeps_rows(const tercel_node *node) {
  if (!is_view(node) || !node->inputs[0]) return false;
  const tercel_shape *const from = &node->inputs[0]->type.shape, *const to = &node->outputs[0]->type.shape;
  return from->rank >= 2 && to->rank >= 2 && from->dims[from->rank - 1] == to->dims[to->rank - 1] &&
         from->dims[from->rank - 2] == to->dims[to->rank - 2];
}

tercel_value *tercel_behind_views(tercel_pattern *p, tercel_value *value, const tercel_shape **split) {
  for (;;) {
    if (split && value->type.shape.rank == 4) *split = &value->type.shape;
    if (!keeps_rows(value->producer)) return value;
    tercel_pattern_add(p, value->producer);
    value = value->producer->inputs[0];
  }
}

/* ---- merged batch and heads ---- */

/* The value of rank 4 with that batch and those heads, of which this is a view; NULL without one. */
static tercel_value *find_split(tercel_value *value, const tercel_shape *split) {
  const int rank = value->type.shape.rank;
  tercel_value *const inner = is_view(value->producer) ? value->producer->inputs[0] : NULL;
  if (!inner || rank != 3 || inner->type.shape.rank != 4) return NULL;
  for (int i = 0; i < 2; i++)
    if (inner->type.shape.dims[i] != split->dims[i] || tercel_dim_at(inner, i - 2) != tercel_dim_at(value, i - 2))
      return NULL;
  return inner;
}

bool tercel_split_heads(tercel_attention_match *m, const tercel_shape *split) {
  tercel_heads *const all[] = {&m->q, &m->k, &m->v};
  tercel_value *inner[3];
  for (int i = 0; i < 3; i++)
    if (!(inner[i] = find_split(all[i]->value, split))) return false;
  for (int i = 0; i < 3; i++) all[i]->value = inner[i];
  m->is_merged = false;
  return true;
}

/* ---- repeated heads ---- */

/* Each of the heads in x (N, H, ...) several times in a row: unsqueezed, repeated along the new dim, which is merged with the heads'. */
static tercel_value *find_repeated(tercel_value *value) {
  const tercel_node *const merge = is_view(value->producer) ? value->producer : NULL;
  const tercel_node *const repeat = merge && merge->inputs[0] ? merge->inputs[0]->producer : NULL;
  if (!repeat || value->type.shape.rank != 4) return NULL;
  tercel_value *const one = repeat->inputs[0];
  if (tercel_is(repeat, TERCEL_OP_CONCAT)) {
    if (tercel_node_int(repeat, "axis") != 2 && tercel_node_int(repeat, "axis") != -3) return NULL;
    for (uint32_t i = 1; i < repeat->num_inputs; i++)
      if (repeat->inputs[i] != one) return NULL;
  } else if (!tercel_is(repeat, TERCEL_OP_EXPAND) && !tercel_is(repeat, TERCEL_OP_TILE)) {
    return NULL;
  }
  const tercel_node *const unsqueeze = is_view(one->producer) ? one->producer : NULL;
  tercel_value *const x = unsqueeze ? unsqueeze->inputs[0] : NULL;
  if (!x || x->type.shape.rank != 4 || one->type.shape.rank != 5 || repeat->outputs[0]->type.shape.rank != 5)
    return NULL;
  for (int d = 0; d < 5; d++) {
    const tercel_dim from = d == 2 ? 1 : tercel_dim_at(x, d < 2 ? d : d - 1), to = tercel_dim_at(repeat->outputs[0], d);
    if (tercel_dim_at(one, d) != from || (d != 2 && to != from)) return NULL;
  }
  for (int d = 0; d < 4; d++)
    if (d != 1 && tercel_dim_at(x, d) != tercel_dim_at(value, d)) return NULL;
  return tercel_dim_is_known(tercel_dim_at(x, 1)) && tercel_dim_is_known(tercel_dim_at(value, 1)) ? x : NULL;
}

void tercel_strip_repeats(tercel_attention_match *m) {
  tercel_value *const k = m->is_merged ? NULL : find_repeated(m->k.value), *const v =
                                                                               k ? find_repeated(m->v.value) : NULL;
  if (!v || tercel_dim_at(k, 1) != tercel_dim_at(v, 1) ||
      tercel_dim_at(m->k.value, 1) != tercel_dim_at(m->q.value, 1) ||
      tercel_dim_at(m->v.value, 1) != tercel_dim_at(m->q.value, 1))
    return;
  m->k.value = k;
  m->v.value = v;
}

/* ---- rows ---- */

tercel_status tercel_turn(tercel_value *value, const tercel_node *like, tercel_node *before, tercel_value **out,
                          tercel_error *err) {
  int64_t perm[TERCEL_MAX_RANK];
  tercel_node *node;
  const int rank = value->type.shape.rank;
  for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, like, &value, 1, before, &node, err));
  TERCEL_TRY(tercel_node_set_ints(node, "perm", perm, (size_t)rank, err));
  *out = node->outputs[0];
  return tercel_infer_node(node, err);
}

tercel_status tercel_pack_heads(const tercel_heads *h, tercel_node *before, tercel_value **out, tercel_error *err) {
  size_t count;
  int64_t target[TERCEL_MAX_RANK];
  *out = h->value;
  if (h->is_turned) return tercel_turn(h->value, before, before, out, err);
  if (h->value->type.shape.rank != 4) return TERCEL_OK;
  const tercel_node *const transpose = tercel_producer(h->value, TERCEL_OP_TRANSPOSE);
  const int64_t *const perm = transpose ? tercel_node_ints(transpose, "perm", &count) : NULL;
  const tercel_dim heads = tercel_dim_at(h->value, 1), size = tercel_dim_at(h->value, 3);
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
