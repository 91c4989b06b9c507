/* What the machine can do at most: multiply-adds that wait for nothing. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_PEAK_H
#define TERCEL_BACKENDS_CPU_KERNELS_PEAK_H

#include <stdint.h>

typedef struct tercel_peak_kernels {
  /* Runs `rounds` rounds of independent f32 multiply-adds in registers; returns how many flops that were (a multiply-add
   * counts 2).  *sink gets a value that depends on them all. */
  double (*fma)(int64_t rounds, float *sink);
} tercel_peak_kernels;

extern const tercel_peak_kernels tercel_peak_kernels_baseline, tercel_peak_kernels_avx2, tercel_peak_kernels_avx512;

#endif
