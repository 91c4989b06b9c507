/* What products of 8-bit integers (integer.c) share with those of other numbers: shapes, sums of operands that were widened, cost. */
#ifndef TERCEL_OPS_LINEAR_H
#define TERCEL_OPS_LINEAR_H

#include "ops/epilogue.h"

/* The result's shape from inputs 0 and 1 and the attributes; rank -1 where it isn't known. */
tercel_status tercel_infer_matmul_shape(tercel_infer *infer, tercel_shape *out, tercel_error *err);
tercel_status tercel_infer_conv_shape(tercel_infer *infer, tercel_shape *out, tercel_error *err);

/* alpha * a b + bias (NULL: 0), element by element into the epilogue.  Sums are formed modulo 2^64, so that integers wrap. */
void tercel_matmul_sum_i64(const tercel_matmul_geometry *geometry, const int64_t *a, const int64_t *b,
                           const int64_t *bias, int64_t alpha, tercel_eval_epilogue *epilogue);
/* The same for a convolution: padding counts as 0. */
tercel_status tercel_conv_sum_i64(tercel_eval *eval, const int64_t *x, const int64_t *w, tercel_eval_epilogue *epilogue,
                                  tercel_error *err);

double tercel_matmul_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out);
double tercel_conv_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out);

#endif
