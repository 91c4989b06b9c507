/* Quantizing by the range of the data, as the operator dynamic_quantize says. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_QUANTIZE_H
#define TERCEL_BACKENDS_CPU_KERNELS_QUANTIZE_H

#include <stdint.h>

typedef struct tercel_quantize_kernels {
  /* The least and the greatest of 0 and x[0 .. n), NaN left out. */
  void (*range)(const float *x, int64_t n, float *low_out, float *high_out);
  /* y[i] = round(x[i] / scale) + zero, halves to even, no less than 0 and no more than 255; NaN gives 0. */
  void (*to_u8)(const float *x, int64_t n, float scale, float zero, uint8_t *y);
  /* All of it: y, scale and zero point of x[0 .. n). */
  void (*row)(const float *x, int64_t n, uint8_t *y, float *scale_out, uint8_t *zero_out);
} tercel_quantize_kernels;

/* The scale for numbers from low to high. */
static inline float tercel_quantize_scale(float low, float high) {
  const float scale = (high - low) / 255.0f;
  return scale == 0.0f ? 1.0f : scale;
}

extern const tercel_quantize_kernels tercel_quantize_kernels_baseline, tercel_quantize_kernels_avx2,
    tercel_quantize_kernels_avx512;

#endif
