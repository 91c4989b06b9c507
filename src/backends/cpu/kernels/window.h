/* Rows of pooling windows in f32: many input rows become one row, which a window slides along. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_WINDOW_H
#define TERCEL_BACKENDS_CPU_KERNELS_WINDOW_H

#include <stdint.h>

typedef struct tercel_window_kernels {
  /* y[i] = the largest of rows[r][i] over r < num_rows (1 or more), NaN if any is, for i < n.  y may be one of the rows. */
  void (*max_rows)(float *y, const float *const *rows, int64_t num_rows, int64_t n);
  /* y[i] = their sum, in order. */
  void (*sum_rows)(float *y, const float *const *rows, int64_t num_rows, int64_t n);
  /* y[i] = the largest (or the sum) of row[i * stride + k * dilation] over k < kernel, for i < n.  Reads nothing else. */
  void (*max_window)(float *y, const float *row, int64_t n, int64_t kernel, int64_t stride, int64_t dilation);
  void (*sum_window)(float *y, const float *row, int64_t n, int64_t kernel, int64_t stride, int64_t dilation);
  /* y[i] = y[i] / (counts[i] * rows): one division, of exact numbers where the counts are small. */
  void (*divide)(float *y, const float *counts, float rows, int64_t n);
} tercel_window_kernels;

extern const tercel_window_kernels tercel_window_kernels_baseline, tercel_window_kernels_avx2,
    tercel_window_kernels_avx512;

#endif
