/* What fast kernels of reductions need of the operator: its kinds and its axes. */
#ifndef TERCEL_OPS_REDUCE_H
#define TERCEL_OPS_REDUCE_H

#include "ops/ops.h"

/* In the order of tercel_reduce_kinds, the attribute's values (NULL-terminated). */
typedef enum tercel_reduce_kind {
  TERCEL_REDUCE_SUM,
  TERCEL_REDUCE_MEAN,
  TERCEL_REDUCE_MAX,
  TERCEL_REDUCE_MIN,
  TERCEL_REDUCE_PROD,
  TERCEL_REDUCE_L1,
  TERCEL_REDUCE_L2,
  TERCEL_REDUCE_LOG_SUM,
  TERCEL_REDUCE_LOG_SUM_EXP,
  TERCEL_REDUCE_SUM_SQUARE,
  TERCEL_REDUCE_COUNT
} tercel_reduce_kind;

extern const char *const tercel_reduce_kinds[];

/* The axes of a reduce node as a mask, from its attribute or from the contents of in[1]. */
tercel_status tercel_reduce_axes(const tercel_node *node, const tercel_tensor *const *in, uint32_t *mask,
                                 tercel_error *err);

#endif
