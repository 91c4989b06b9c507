/* softmax over f32. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_SOFTMAX_H
#define TERCEL_BACKENDS_CPU_KERNELS_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/kernels/tables.h"

enum { TERCEL_SOFTMAX_COLS = 64 };

typedef struct tercel_softmax_kernels {
  /* y[i] = e^(x[i] - m) / sum, m the largest of the row's n elements; is_log: x[i] - m - log sum.  y may be x.  A NaN, or no element above
   * -infinity, makes the whole row NaN. */
  void (*row)(const float *x, float *y, int64_t n, bool is_log);
  /* The same down each of `cols` columns (at most TERCEL_SOFTMAX_COLS) of n rows, `stride` elements apart.  y may be x. */
  void (*cols)(const float *x, float *y, int64_t n, int64_t stride, int64_t cols, bool is_log);
} tercel_softmax_kernels;

TERCEL_FUSED_TABLES(tercel_softmax_kernels)

#endif
