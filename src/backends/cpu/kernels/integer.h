/* Sums of products of 32-bit integers, modulo 2^32: the same for signed and unsigned ones. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_INTEGER_H
#define TERCEL_BACKENDS_CPU_KERNELS_INTEGER_H

#include <stdint.h>

enum { TERCEL_INTEGER_ROWS = 4 };

typedef struct tercel_integer_kernels {
  /* y[j] += factors[0] rows[0][j step] + ... + factors[3] rows[3][j step] for j < n.  y overlaps no row. */
  void (*add_rows)(uint32_t *y, const uint32_t *const rows[TERCEL_INTEGER_ROWS], int64_t step,
                   const uint32_t factors[TERCEL_INTEGER_ROWS], int64_t n);
  /* The same with one row. */
  void (*add_row)(uint32_t *y, const uint32_t *row, int64_t step, uint32_t factor, int64_t n);
} tercel_integer_kernels;

extern const tercel_integer_kernels tercel_integer_kernels_baseline, tercel_integer_kernels_avx2,
    tercel_integer_kernels_avx512;

#endif
