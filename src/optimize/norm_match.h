/* Norms in their parts, as they are found. */
#ifndef TERCEL_OPTIMIZE_NORM_MATCH_H
#define TERCEL_OPTIMIZE_NORM_MATCH_H

#include "optimize/pattern.h"

typedef struct tercel_norm_match {
  tercel_value *x;
  bool is_rms;
  uint32_t axes; /* a bit for each that is averaged over */
  double epsilon;
  tercel_value *scale, *bias; /* constants, or NULL */
  bool is_instance;           /* scale and bias have a number a channel; for the rule to tell */
} tercel_norm_match;

/* value = kind(*x) over some axes of it. */
bool tercel_match_reduce(tercel_pattern *pattern, const tercel_value *value, const char *kind, tercel_value **x,
                         uint32_t *axes);
/* The value before views; they are added to the pattern.  Numbers one a row stay in their order. */
tercel_value *tercel_behind_row_views(tercel_pattern *pattern, tercel_value *value);
/* The value has x's shape with 1 for each of the axes. */
bool tercel_keeps_axes(const tercel_value *value, const tercel_value *x, uint32_t axes);

/* node: the one that multiplies x (or x less its mean) by the inverse root, in one of its spellings.  Scale and bias that stand inside of these
 * are filled in.  False with a miss where a square is not what it should be. */
bool tercel_match_norm(tercel_pattern *pattern, const tercel_node *node, tercel_norm_match *out);

/* Rules of the norms pass in other files: softmax.c, group_norm.c. */
extern const tercel_rule tercel_softmax_rules[], tercel_group_norm_rules[];

#endif
