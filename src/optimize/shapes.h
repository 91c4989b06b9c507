/* Shapes as rules see them. */
#ifndef TERCEL_OPTIMIZE_SHAPES_H
#define TERCEL_OPTIMIZE_SHAPES_H

#include "optimize/rewrite.h"

/* The constant that makes reshape turn `from` into `to`: numbers, 0 (copy) for a symbolic dim that stays in its
 * place, -1 for at most one other. False when that can't say it. */
bool tercel_reshape_target(const tercel_shape *from, const tercel_shape *to, int64_t target[TERCEL_MAX_RANK]);
/* A reshape of `x` to that target before `before`, standing for `like`; inferred. */
tercel_status tercel_add_reshape(tercel_value *x, const int64_t *target, int rank, const tercel_node *like,
                                 tercel_node *before, tercel_node **out, tercel_error *err);
/* Does the operand's shape broadcast to just this result, whatever the symbols are? */
bool tercel_broadcasts_to(const tercel_shape *operand, const tercel_shape *result);
/* The only dim of a constant that isn't 1, counted in a result of that rank; -1 when all are 1, -2 when there are
 * several. */
int tercel_only_dim(const tercel_tensor *constant, int rank);

#endif
