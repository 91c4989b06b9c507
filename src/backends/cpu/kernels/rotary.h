/* rotary embeddings over f32. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_ROTARY_H
#define TERCEL_BACKENDS_CPU_KERNELS_ROTARY_H

#include <stdint.h>

typedef struct tercel_rotary_kernels {
  /* Pairs (a, b) of one head's row become (c a - s b, s a + c b), with `half` cosines c and sines s.  y may be x. */
  void (*halves)(const float *x, const float *c, const float *s, int64_t half,
                 float *y); /* a = x[i], b = x[half + i] */
  void (*neighbours)(const float *x, const float *c, const float *s, int64_t half,
                     float *y); /* a = x[2 i], b = x[2 i + 1] */
} tercel_rotary_kernels;

extern const tercel_rotary_kernels tercel_rotary_kernels_baseline, tercel_rotary_kernels_avx2,
    tercel_rotary_kernels_avx512;

#endif
