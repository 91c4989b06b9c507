/* Attention being found in its parts: what the files of the rule share.
 *
 *     attention.c         the two products and the softmax between them; the operator that they become
 *     attention_mask.c    what hides keys: sums, selections, causal order
 *     attention_heads.c   how operands lie: heads repeated, dims swapped, batch and heads merged */
#ifndef TERCEL_OPTIMIZE_ATTENTION_H
#define TERCEL_OPTIMIZE_ATTENTION_H

#include "optimize/pattern.h"

enum { TERCEL_ATTENTION_MAX_MASKS = 4 };

/* Scores of hidden keys that are at most this are the same as -infinity beside any score of a key that is seen, and swallow
 * what is added to them. */
#define TERCEL_FAR_BELOW (-1e30)

/* One step from the bare scores to those of which the softmax is. */
typedef struct tercel_mask_step {
  tercel_value *mask; /* added, or a bool: where it is false, the score becomes `fill` */
  bool is_select, is_negated;
  double fill;
  const tercel_value *scores; /* that it is applied to */
} tercel_mask_step;

/* Rows by heads (N, H, S, D), or (N H, S, D) when the operator is told of one head. */
typedef struct tercel_heads {
  tercel_value *value;
  bool is_turned; /* (..., D, S) */
} tercel_heads;

typedef struct tercel_attention_match {
  tercel_heads q, k, v;
  tercel_mask_step masks[TERCEL_ATTENTION_MAX_MASKS]; /* the outermost first */
  int num_masks;
  double scale, softcap;
  const char *unseen;           /* as the operator's attribute */
  const tercel_value *row_mask; /* rows of which nothing but -infinity is left are 0; or NULL */
  bool gives_turned;            /* the result is wanted as (..., E, S) */
  bool is_merged;               /* operands have rank 3 */
} tercel_attention_match;

static inline tercel_dim tercel_dim_at(const tercel_value *value, int i) {
  return value->type.shape.dims[i < 0 ? value->type.shape.rank + i : i];
}
static inline tercel_dim tercel_heads_rows(const tercel_heads *h) {
  return tercel_dim_at(h->value, h->is_turned ? -1 : -2);
}
static inline tercel_dim tercel_heads_size(const tercel_heads *h) {
  return tercel_dim_at(h->value, h->is_turned ? -2 : -1);
}

/* ---- attention_mask.c ---- */

/* What is done to the scores between *scores and the product or the scale below it; *scores becomes what is left. */
bool tercel_match_masks(tercel_pattern *pattern, tercel_value **scores, tercel_attention_match *match);
/* The masks of a match whose operands are settled broadcast to its scores. */
bool tercel_masks_fit(const tercel_pattern *pattern, const tercel_attention_match *match);
/* Of the operator: mask and offset (NULL: none), whether it is causal and what a mask of bools fills in. */
typedef struct tercel_attention_masks {
  tercel_value *mask, *offset;
  bool is_causal;
  double fill;
} tercel_attention_masks;
tercel_status tercel_build_masks(const tercel_attention_match *match, const tercel_node *like, tercel_node *before,
                                 tercel_attention_masks *out, tercel_error *err);

/* ---- triangle.c ---- */

/* Element (..., i, j) is `inside` where j <= i + offset (+ the number in offset_value), else `outside`. */
typedef struct tercel_triangle {
  double inside, outside;
  int64_t offset;
  tercel_value *offset_value; /* one integer, or NULL */
} tercel_triangle;
bool tercel_match_triangle(const tercel_value *value, tercel_triangle *out);

/* ---- attention_heads.c ---- */

/* The value behind views that leave its last two dims alone; views are added to the pattern.  *split becomes the shape of rank 4 that was
 * seen on the way, when there was one. */
tercel_value *tercel_behind_views(tercel_pattern *pattern, tercel_value *value, const tercel_shape **split);
/* Merged operands as they were by heads; false when they don't come from such.  Rank of the match: 4 then. */
bool tercel_split_heads(tercel_attention_match *match, const tercel_shape *split);
/* k and v without the repetition of their heads, where each serves several query heads. */
void tercel_strip_repeats(tercel_attention_match *match);
/* (N, S, H D) when it was transposed from those, else by heads with rows where they belong. */
tercel_status tercel_pack_heads(const tercel_heads *heads, tercel_node *before, tercel_value **out, tercel_error *err);
tercel_status tercel_turn(tercel_value *value, const tercel_node *like, tercel_node *before, tercel_value **out,
                          tercel_error *err); /* last two dims swapped */

#endif
