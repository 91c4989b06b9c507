/* Pooling in f32: rows of a plane.  The input rows under a window become one row, along which the window slides. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_WINDOW_H
#define TERCEL_BACKENDS_CPU_KERNELS_WINDOW_H

#include <stdint.h>

/* A plane is one channel: all its spatial dims but the last are rows. */
typedef struct tercel_window_plane {
  /* Output row r has the input rows at elements offsets[first[r]] .. offsets[first[r + 1] - 1] of the plane in its windows. */
  const int64_t *first, *offsets;
  int64_t pad_begin, width; /* of the padded row: elements before an input row, and of it that windows see */
  int64_t length;           /* elements of the padded row */
  int64_t output;           /* elements of an output row */
  int64_t kernel, stride, dilation;
  /* averages: windows of output row r and column c have row_counts[r] * column_counts[c] elements */
  const float *row_counts, *column_counts;
} tercel_window_plane;

/* Rows [begin, end) of y.  row: scratch of plane->length elements. */
typedef void (*tercel_window_fn)(const tercel_window_plane *plane, float *y, const float *x, float *row, int64_t begin,
                                 int64_t end);

typedef struct tercel_window_kernels {
  tercel_window_fn max;     /* NaN if any is; -infinity where a window has nothing */
  tercel_window_fn average; /* sums run over rows, then along them, in order; one division */
} tercel_window_kernels;

extern const tercel_window_kernels tercel_window_kernels_baseline, tercel_window_kernels_avx2,
    tercel_window_kernels_avx512;

#endif
