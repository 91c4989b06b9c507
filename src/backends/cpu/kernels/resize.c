/* Interpolation sums in f32; see resize.h.  Products and sums round singly, so that all levels agree bit for bit. */
#include "backends/cpu/kernels/resize.h"

#include "backends/cpu/kernels/vec.h"

static void blend_rows(float *y, const float *rows, int64_t stride, const int32_t *positions, const float *weights,
                       int64_t taps, int64_t n) {
  for (int64_t i = 0; i < n; i += TERCEL_VEC) {
    vf acc = vf_load_n(rows + positions[0] * stride + i, n - i) * vf_set(weights[0]);
    for (int64_t t = 1; t < taps; ++t) acc += vf_load_n(rows + positions[t] * stride + i, n - i) * vf_set(weights[t]);
    vf_store_n(y + i, acc, n - i);
  }
}

static void pick_columns(float *restrict y, const float *restrict row, const int32_t *restrict positions,
                         const float *restrict weights, int64_t taps, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = weights[i] * row[positions[i]];
  for (int64_t t = 1; t < taps; ++t)
    for (int64_t i = 0; i < n; ++i) y[i] += weights[t * n + i] * row[positions[t * n + i]];
}

const tercel_resize_kernels TERCEL_LEVEL_NAME(tercel_resize_kernels) = {
    .blend_rows = blend_rows,
    .pick_columns = pick_columns,
};
