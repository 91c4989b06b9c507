/* Normalization over f32 rows and planes. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_NORM_H
#define TERCEL_BACKENDS_CPU_KERNELS_NORM_H

#include <stdint.h>

typedef struct tercel_moments {
  float mean, variance;
} tercel_moments;

typedef struct tercel_norm_kernels {
  /* Mean of n numbers and of their squared distances from it: two passes. */
  tercel_moments (*moments)(const float *x, int64_t n);
  float (*mean_square)(const float *x, int64_t n);
  /* 1 / sqrt(x), both rounded */
  float (*rsqrt)(float x);
  /* y[i] = (x[i] - mean) * inverse * scale[i] + bias[i]; bias NULL: 0.  y may be x. */
  void (*affine_row)(const float *x, float *y, int64_t n, float mean, float inverse, const float *scale,
                     const float *bias);
  /* y[i] = (x[i] - mean) * scale + bias.  y may be x. */
  void (*affine_plane)(const float *x, float *y, int64_t n, float mean, float scale, float bias);
  /* y[i] = x[i] / (bias + alpha * sum over rows of square(window[r * stride + i]))^beta for one channel's pixels: window's `rows` rows are the
   * channels around it */
  void (*lrn)(const float *x, float *y, int64_t n, const float *window, int64_t rows, int64_t stride, float alpha,
              float beta, float bias);
} tercel_norm_kernels;

extern const tercel_norm_kernels tercel_norm_kernels_baseline, tercel_norm_kernels_avx2, tercel_norm_kernels_avx512;

#endif
