/* The two sums that interpolation in f32 is made of. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_RESIZE_H
#define TERCEL_BACKENDS_CPU_KERNELS_RESIZE_H

#include <stdint.h>

typedef struct tercel_resize_kernels {
  /* y[i] = sum over t of weights[t] * rows[positions[t] * stride + i], in order of t; i < n. */
  void (*blend_rows)(float *y, const float *rows, int64_t stride, const int32_t *positions, const float *weights,
                     int64_t taps, int64_t n);
  /* y[i] = sum over t of weights[t * n + i] * row[positions[t * n + i]], in order of t; i < n. */
  void (*pick_columns)(float *y, const float *row, const int32_t *positions, const float *weights, int64_t taps,
                       int64_t n);
} tercel_resize_kernels;

extern const tercel_resize_kernels tercel_resize_kernels_baseline, tercel_resize_kernels_avx2,
    tercel_resize_kernels_avx512;

#endif
