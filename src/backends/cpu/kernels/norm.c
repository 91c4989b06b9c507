/* Normalization over f32: statistics of rows, and what is done with them. */
#include "backends/cpu/kernels/norm.h"

#include "backends/cpu/kernels/rows.h"

static tercel_moments moments(const float *x, int64_t n) {
  const float mean = row_sum(x, n) / (float)n;
  return (tercel_moments){mean, row_sum_squares_from(x, n, mean) / (float)n};
}

static float mean_square(const float *x, int64_t n) { return row_sum_squares(x, n) / (float)n; }

static float rsqrt(float x) { return (1.0f / vf_sqrt(vf_set(x)))[0]; }

static void affine_row(const float *x, float *y, int64_t n, float mean, float inverse, const float *scale,
                       const float *bias) {
  const vf m = vf_set(mean), s = vf_set(inverse);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) {
    const vf r = (vf_load(x + i) - m) * s;
    vf_store(y + i, bias ? vf_fma(r, vf_load(scale + i), vf_load(bias + i)) : r * vf_load(scale + i));
  }
  if (i == n) return;
  const vf r = (vf_load_n(x + i, n - i) - m) * s, k = vf_load_n(scale + i, n - i);
  vf_store_n(y + i, bias ? vf_fma(r, k, vf_load_n(bias + i, n - i)) : r * k, n - i);
}

static void affine_plane(const float *x, float *y, int64_t n, float mean, float scale, float bias) {
  const vf m = vf_set(mean), s = vf_set(scale), b = vf_set(bias);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(y + i, vf_fma(vf_load(x + i) - m, s, b));
  if (i < n) vf_store_n(y + i, vf_fma(vf_load_n(x + i, n - i) - m, s, b), n - i);
}

static void lrn(const float *x, float *y, int64_t n, const float *window, int64_t rows, int64_t stride, float alpha,
                float beta, float bias) {
  for (int64_t i = 0; i < n; i += TERCEL_VEC) {
    const int64_t left = tercel_min_i64(n - i, TERCEL_VEC);
    vf squares = vf_zero();
    for (int64_t r = 0; r < rows; r++) {
      const vf v = vf_load_n(window + r * stride + i, left);
      squares = vf_fma(v, v, squares);
    }
    const vf power = vf_pow(vf_fma(squares, vf_set(alpha), vf_set(bias)), vf_set(beta));
    vf_store_n(y + i, vf_load_n(x + i, left) / power, left);
  }
}

const tercel_norm_kernels TERCEL_LEVEL_NAME(tercel_norm_kernels) = {
    .moments = moments,
    .mean_square = mean_square,
    .rsqrt = rsqrt,
    .affine_row = affine_row,
    .affine_plane = affine_plane,
    .lrn = lrn,
};
