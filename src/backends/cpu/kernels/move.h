/* Moving elements whatever they mean: 2-D transposes by element size, and repeats. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_MOVE_H
#define TERCEL_BACKENDS_CPU_KERNELS_MOVE_H

#include <stdint.h>

/* dst[r * dst_stride + c] = src[c * src_stride + r] for r < rows, c < columns.  Strides in elements; dst and src don't overlap. */
typedef void (*tercel_transpose_fn)(void *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows,
                                    int64_t columns);
/* dst[i * times + k] = src[i] for i < n, k < times. */
typedef void (*tercel_repeat_fn)(void *dst, const void *src, int64_t n, int64_t times);

typedef struct tercel_move_kernels {
  tercel_transpose_fn transpose[4]; /* elements of 1, 2, 4, 8 bytes */
  tercel_repeat_fn repeat[4];
} tercel_move_kernels;

extern const tercel_move_kernels tercel_move_kernels_baseline, tercel_move_kernels_avx2, tercel_move_kernels_avx512;

#endif
