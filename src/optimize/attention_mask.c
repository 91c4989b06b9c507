/* What hides keys in attention found from its parts: masks that are added, selections by a mask of bools, causal order.
 *
 * One selection alone becomes a mask of bools with its number, sums alone become one sum; where both occur, the mask is worked out
 * apart from the scores, step by step as it was done to them.  That gives the same only where the number of hidden keys swallows any score. */
#include <math.h>

#include "optimize/attention.h"
#include "optimize/shapes.h"

/* ---- match ---- */

/* How many steps lie between the value and a product; -1 when it doesn't follow from one. */
static int depth_of_product(const tercel_value *value, int most) {
  const tercel_node *const node = value->producer;
  if (tercel_is(node, TERCEL_OP_MATMUL)) return 0;
  if (most == 0 || !node) return -1;
  const tercel_fn fn = tercel_single_fn(node);
  if (node->op->flags & TERCEL_OP_VIEW || fn == TERCEL_FN_TANH) return depth_of_product(node->inputs[0], most - 1);
  if (fn == TERCEL_FN_SELECT) {
    const int yes = depth_of_product(node->inputs[1], most - 1), no = depth_of_product(node->inputs[2], most - 1);
    return yes < 0 && no < 0 ? -1 : 1 + (yes < 0 || (no >= 0 && no < yes) ? no : yes);
  }
  if (fn != TERCEL_FN_ADD && fn != TERCEL_FN_MUL) return -1;
  const int left = depth_of_product(node->inputs[0], most - 1), right = depth_of_product(node->inputs[1], most - 1);
  if (left < 0 && right < 0) return -1;
  return 1 + (left < 0 || (right >= 0 && right < left) ? right : left);
}

/* Which of two values is the scores: the one whose product is nearer.  -1: neither. */
static int side_of_scores(const tercel_value *a, const tercel_value *b) {
  enum { MOST = 8 };
  const int left = depth_of_product(a, MOST), right = depth_of_product(b, MOST);
  if (left < 0 && right < 0) return -1;
  return left < 0 || (right >= 0 && right < left);
}

static bool match_sum(const tercel_node *add, tercel_value **scores, tercel_mask_step *step) {
  const int side = side_of_scores(add->inputs[0], add->inputs[1]);
  if (side < 0) return false;
  *step = (tercel_mask_step){.mask = add->inputs[1 - side]};
  *scores = add->inputs[side];
  return true;
}

static bool match_selection(const tercel_pattern *p, const tercel_node *select, tercel_value **scores,
                            tercel_mask_step *step) {
  const int side = side_of_scores(select->inputs[1], select->inputs[2]);
  if (side < 0) return false;
  const tercel_value *const number = select->inputs[2 - side];
  *step = (tercel_mask_step){.mask = select->inputs[0], .is_select = true, .is_negated = side == 1};
  if (!tercel_scalar(number, &step->fill))
    return tercel_pattern_miss(p, "'%.100s', which takes the place of hidden scores, is not one number", number->name);
  *scores = select->inputs[1 + side];
  return true;
}

/* A selection by `a and b`, of which one is a triangle, is two: causal order, and what else hides keys. */
static bool split_selection(const tercel_mask_step *both, tercel_mask_step *first, tercel_mask_step *second) {
  const tercel_node *const node = both->is_select ? tercel_fn_node(both->mask, TERCEL_FN_AND) : NULL;
  tercel_triangle t;
  if (!node || both->is_negated) return false;
  for (uint32_t side = 0; side < 2; side++) {
    const tercel_value *const other = node->inputs[1 - side];
    if (!tercel_match_triangle(node->inputs[side], &t) || other->type.shape.rank < 1 ||
        tercel_dim_at(other, -1) != tercel_dim_at(both->scores, -1))
      continue;
    *first = *second = *both;
    first->mask = node->inputs[side];
    second->mask = node->inputs[1 - side];
    return true;
  }
  return false;
}

static void add_step(tercel_attention_match *match, const tercel_mask_step *step) {
  tercel_mask_step parts[2];
  if (match->num_masks + 2 <= TERCEL_ATTENTION_MAX_MASKS && split_selection(step, &parts[0], &parts[1])) {
    match->masks[match->num_masks++] = parts[0];
    match->masks[match->num_masks++] = parts[1];
  } else {
    match->masks[match->num_masks++] = *step;
  }
}

static bool misfit(const tercel_pattern *p, const tercel_value *mask, const tercel_value *scores) {
  char shapes[TERCEL_REASON_MAX];
  return tercel_pattern_miss(p, "a mask not known to fit the scores: %s",
                             tercel_describe_broadcast(mask, scores, shapes));
}

bool tercel_match_masks(tercel_pattern *p, tercel_value **scores, tercel_attention_match *match) {
  for (;;) {
    const tercel_node *const node = (*scores)->producer;
    const tercel_fn fn = tercel_single_fn(node);
    if (fn != TERCEL_FN_ADD && fn != TERCEL_FN_SELECT) return true;
    const tercel_value *const result = *scores;
    tercel_mask_step step;
    if (fn == TERCEL_FN_ADD ? !match_sum(node, scores, &step) : !match_selection(p, node, scores, &step)) return false;
    if (match->num_masks == TERCEL_ATTENTION_MAX_MASKS)
      return tercel_pattern_miss(p, "more than %d masks are added", TERCEL_ATTENTION_MAX_MASKS);
    if (!tercel_same_type(*scores, result)) return misfit(p, step.mask, *scores);
    step.scores = *scores;
    tercel_pattern_add(p, node);
    add_step(match, &step);
    *scores = tercel_behind_views(p, *scores, NULL);
  }
}

/* ---- fit ---- */

/* A mask's dims broadcast to the scores', but its last dim must be the number of keys.  Masks of scores by heads and masks of merged ones
 * (N H, S, T) are the same only where they tell neither heads nor batch entries apart. */
static bool fits(const tercel_pattern *p, const tercel_attention_match *m, const tercel_mask_step *step) {
  const tercel_value *const mask = step->mask, *const scores = step->scores;
  const tercel_shape *const shape = &mask->type.shape;
  if (!step->is_select && !tercel_is_f32(mask))
    return tercel_pattern_miss(p, "'%.100s', which is added to the scores, is %s, not f32", mask->name,
                               tercel_dtype_name(mask->type.dtype));
  if (shape->rank < 1 || !tercel_broadcasts_to(shape, &scores->type.shape)) return misfit(p, mask, scores);
  if (shape->dims[shape->rank - 1] != tercel_heads_rows(&m->k))
    return tercel_pattern_miss(p, "'%.100s', which hides keys, is broadcast over them", mask->name);
  const bool is_by_heads = scores->type.shape.rank == 4;
  for (int i = 0; i < shape->rank - 2 && is_by_heads == m->is_merged; i++)
    if (shape->dims[i] != 1)
      return tercel_pattern_miss(p, "'%.100s' differs between %s, which the products don't tell apart", mask->name,
                                 is_by_heads ? "heads or batch entries" : "merged heads");
  return true;
}

/* All steps but one (-1: none) select with the same number. */
static bool are_alike_selections(const tercel_attention_match *m, int but) {
  const tercel_mask_step *first = NULL;
  for (int i = 0; i < m->num_masks; i++) {
    const tercel_mask_step *const step = &m->masks[i];
    if (i == but) continue;
    if (!step->is_select || (first && step->fill != first->fill)) return false;
    first = step;
  }
  return true;
}

/* Whether the steps can be worked out apart from the scores. */
static bool can_combine(const tercel_pattern *p, const tercel_attention_match *m) {
  const bool as_bools = are_alike_selections(m, -1);
  for (int i = 0; i < m->num_masks && !as_bools; i++)
    if (m->masks[i].is_select && !(m->masks[i].fill <= TERCEL_FAR_BELOW))
      return tercel_pattern_miss(p, "hidden scores become %.9g, which does not swallow the other masks",
                                 m->masks[i].fill);
  return true;
}

bool tercel_masks_fit(const tercel_pattern *p, const tercel_attention_match *m) {
  for (int i = 0; i < m->num_masks; i++)
    if (!fits(p, m, &m->masks[i])) return false;
  return can_combine(p, m);
}

/* ---- causal order ---- */

/* The step only hides keys behind a query's own place, which the operator does by itself.  A number that is not -infinity has its effect where
 * a query sees no key at all: there may be no such query then. */
static bool is_causal(const tercel_mask_step *step, bool is_alone, tercel_triangle *t) {
  if (!tercel_match_triangle(step->mask, t)) return false;
  double fill = step->fill;
  if (!step->is_select) {
    fill = t->outside;
    if (t->inside != 0) return false;
  } else if ((t->inside != 0) == step->is_negated || (t->outside != 0) != step->is_negated) {
    return false;
  }
  return fill == -INFINITY || (is_alone && fill <= TERCEL_FAR_BELOW && t->offset >= 0 && !t->offset_value);
}

static tercel_status build_offset(const tercel_triangle *t, const tercel_node *like, tercel_node *before,
                                  tercel_value **out, tercel_error *err) {
  *out = t->offset_value;
  if (t->offset == 0) return TERCEL_OK;
  tercel_value *number;
  TERCEL_TRY(tercel_graph_add_scalar(like->graph, "offset", *out ? (*out)->type.dtype : TERCEL_DTYPE_I64,
                                     (double)t->offset, &number, err));
  if (*out) {
    tercel_node *sum;
    TERCEL_TRY(
        tercel_rewrite_add_fn(TERCEL_FN_ADD, like, (tercel_value *[]){*out, number}, 2, NULL, before, &sum, err));
    number = sum->outputs[0];
  }
  *out = number;
  return TERCEL_OK;
}

/* ---- build ---- */

static tercel_status add_fn(tercel_fn fn, const tercel_node *like, tercel_value *const *inputs, size_t count,
                            tercel_node *before, tercel_value **out, tercel_error *err) {
  tercel_node *node;
  TERCEL_TRY(tercel_rewrite_add_fn(fn, like, inputs, count, NULL, before, &node, err));
  *out = node->outputs[0];
  return TERCEL_OK;
}

/* As the operator reads it: of merged scores (N H, S, T), one head lies before the rows. */
static tercel_status align(const tercel_attention_match *m, const tercel_mask_step *step, const tercel_node *like,
                           tercel_node *before, tercel_value **out, tercel_error *err) {
  tercel_value *inputs[2] = {step->mask};
  tercel_node *made;
  *out = step->mask;
  if (!m->is_merged || step->mask->type.shape.rank != 3 || step->scores->type.shape.rank != 3) return TERCEL_OK;
  TERCEL_TRY(tercel_graph_add_i64s(like->graph, "axes", (const int64_t[]){1}, 1, false, &inputs[1], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_UNSQUEEZE, like, inputs, 2, before, &made, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  *out = made->outputs[0];
  return TERCEL_OK;
}

/* A step after those that gave *sofar (NULL: none). */
static tercel_status combine(const tercel_mask_step *step, tercel_value *mask, bool as_bools, const tercel_node *like,
                             tercel_node *before, tercel_value **sofar, tercel_error *err) {
  if (as_bools) {
    if (step->is_negated) TERCEL_TRY(add_fn(TERCEL_FN_NOT, like, &mask, 1, before, &mask, err));
    if (*sofar) TERCEL_TRY(add_fn(TERCEL_FN_AND, like, (tercel_value *[]){*sofar, mask}, 2, before, &mask, err));
    *sofar = mask;
    return TERCEL_OK;
  }
  if (!step->is_select) {
    if (*sofar) return add_fn(TERCEL_FN_ADD, like, (tercel_value *[]){*sofar, mask}, 2, before, sofar, err);
    *sofar = mask;
    return TERCEL_OK;
  }
  tercel_value *fill, *seen = *sofar;
  TERCEL_TRY(tercel_graph_add_scalar(like->graph, "hidden", TERCEL_DTYPE_F32, step->fill, &fill, err));
  if (!seen) TERCEL_TRY(tercel_graph_add_scalar(like->graph, "seen", TERCEL_DTYPE_F32, 0, &seen, err));
  tercel_value *const operands[3] = {mask, step->is_negated ? fill : seen, step->is_negated ? seen : fill};
  return add_fn(TERCEL_FN_SELECT, like, operands, 3, before, sofar, err);
}

/* The step that is causal order, when nothing outside of it makes a score of a hidden key finite again; -1 without one. */
static int find_causal(const tercel_attention_match *m, tercel_triangle *t) {
  for (int i = 0; i < m->num_masks; i++) {
    if (is_causal(&m->masks[i], m->num_masks == 1, t)) return i;
    if (m->masks[i].is_select && m->masks[i].fill != -INFINITY) return -1;
  }
  return -1;
}

tercel_status tercel_build_masks(const tercel_attention_match *m, const tercel_node *like, tercel_node *before,
                                 tercel_attention_masks *out, tercel_error *err) {
  tercel_triangle t;
  const int causal = find_causal(m, &t);
  const bool as_bools = are_alike_selections(m, causal);
  *out = (tercel_attention_masks){.is_causal = causal >= 0, .fill = -INFINITY};
  if (out->is_causal) TERCEL_TRY(build_offset(&t, like, before, &out->offset, err));
  for (int i = m->num_masks; i-- > 0;) {
    tercel_value *mask;
    if (i == causal) continue;
    if (as_bools) out->fill = m->masks[i].fill;
    TERCEL_TRY(align(m, &m->masks[i], like, before, &mask, err));
    TERCEL_TRY(combine(&m->masks[i], mask, as_bools, like, before, &out->mask, err));
  }
  return TERCEL_OK;
}
