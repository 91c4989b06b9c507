/* Arithmetic of narrow floats, step by step, as ONNX's reference evaluator does it (numpy, with ml_dtypes for bf16): for operators whose
 * definition is a chain of operations on tensors of their own type.  f32 and f64 are left alone: their references compute in f64. */
#ifndef TERCEL_OPS_NARROW_H
#define TERCEL_OPS_NARROW_H

#include "ir/ir.h"

/* The nearest number of the dtype. */
static inline double tercel_round_to(tercel_dtype dtype, double x) {
  if (dtype == TERCEL_DTYPE_F16) return tercel_f16_to_f32(tercel_f16_from_f64(x));
  if (dtype == TERCEL_DTYPE_BF16) return tercel_bf16_to_f32(tercel_bf16_from_f64(x));
  return x;
}

/* Elements whose sum in bf16 is rounded after every addition, as that evaluator does over whole rows.  Beyond, such sums lose elements
 * altogether (ones add up to 256 and no further), so the sums of runs of this length are added in full. */
enum { TERCEL_BF16_SUM_RUN = 32 };

static inline double tercel_sum_in(tercel_dtype dtype, const double *x, int64_t n) {
  const int64_t run = dtype == TERCEL_DTYPE_BF16 ? TERCEL_BF16_SUM_RUN : n;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += run) {
    double part = 0;
    for (int64_t i = begin; i < n && i < begin + run; ++i) {
      part += x[i];
      if (dtype == TERCEL_DTYPE_BF16) part = tercel_round_to(dtype, part);
    }
    sum += part;
  }
  return tercel_round_to(dtype, sum);
}

/* x[i] = e^(x[i] - m) / sum, m the largest; the quotient is not rounded.  Where all are -infinity: 0 if zero_hidden, else NaN. */
void tercel_softmax_in(tercel_dtype dtype, double *x, int64_t n, bool zero_hidden);

#endif
