/* Nodes over permuted dims: an operator that does the same along other axes. */
#ifndef TERCEL_OPTIMIZE_PERMUTE_H
#define TERCEL_OPTIMIZE_PERMUTE_H

#include "optimize/rewrite.h"

/* A permuted value's dim i is the value's dim at[i]. */
typedef struct tercel_perm {
  int rank;
  int64_t at[TERCEL_MAX_RANK];
} tercel_perm;

tercel_perm tercel_perm_inverse(const tercel_perm *perm);
/* [n, c, spatial...] to [n, spatial..., c]. */
tercel_perm tercel_perm_to_nhwc(int rank);

/* What stands in the way of making the node over permuted dims: a phrase, in the buffer; NULL: nothing.  Convs and pools are made in NHWC,
 * whatever the perm, which must be the one to it. */
const char *tercel_permute_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]);
/* Does input (output) i have the node's dims, so that it comes (leaves) permuted?  Constants are arranged by tercel_permute itself. */
bool tercel_permutes_input(const tercel_node *node, uint32_t i);
bool tercel_permutes_output(const tercel_node *node, uint32_t i);
/* The rank of the dims that are permuted. */
int tercel_permuted_rank(const tercel_node *node);

/* The node again, before `before`, inferred.  inputs: num_inputs of them, those that come permuted replaced.  There must be no obstacle. */
tercel_status tercel_permute(tercel_node *node, const tercel_perm *perm, tercel_value *const *inputs,
                             tercel_node *before, tercel_node **out, tercel_error *err);

tercel_status tercel_add_transpose(tercel_value *x, const tercel_perm *perm, const tercel_node *like,
                                   tercel_node *before, tercel_node **out, tercel_error *err);

#endif
