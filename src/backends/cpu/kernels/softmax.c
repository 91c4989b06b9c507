/* softmax over f32: rows of neighbours, and columns a vector wide. */
#define VEC_FUSED
#include "backends/cpu/kernels/softmax.h"

#include "backends/cpu/kernels/rows.h"

static float log_of(float x) { return vf_log(vf_set(x))[0]; }

static void row(const float *x, float *y, int64_t n, bool is_log) {
  const float m = v16_largest(row_fold(x, n, v16_set(0), -INFINITY, -INFINITY, row_same, row_max_fast));
  if (is_log) {
    const float sum = v16_sum(row_fold(x, n, v16_set(m), 0.0f, -INFINITY, row_exp_from, v16_add));
    const vf largest = vf_set(m), log_sum = vf_set(log_of(sum));
    int64_t i = 0;
    for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(y + i, (vf_load(x + i) - largest) - log_sum);
    if (i < n) vf_store_n(y + i, (vf_load_n(x + i, n - i) - largest) - log_sum, n - i);
    return;
  }
  const vf scale = vf_set(1.0f / row_exponentials(x, y, n, m));
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(y + i, vf_load(y + i) * scale);
  if (i < n) vf_store_n(y + i, vf_load_n(y + i, n - i) * scale, n - i);
}

/* One vector of columns; `count` of them are real. */
VEC_INLINE void col_vector(const float *x, float *y, int64_t n, int64_t stride, int64_t count, bool is_log) {
  vf m = vf_set(-INFINITY), sum = vf_zero();
  for (int64_t k = 0; k < n; k++) m = vf_max_fast(vf_load_n(x + k * stride, count), m);
  for (int64_t k = 0; k < n; k++) {
    const vf e = vf_exp(vf_load_n(x + k * stride, count) - m);
    if (!is_log) vf_store_n(y + k * stride, e, count);
    sum += e;
  }
  const vf scale = 1.0f / sum, log_sum = is_log ? vf_log(sum) : sum;
  for (int64_t k = 0; k < n; k++) {
    const vf r = is_log ? (vf_load_n(x + k * stride, count) - m) - log_sum : vf_load_n(y + k * stride, count) * scale;
    vf_store_n(y + k * stride, r, count);
  }
}

static void cols(const float *x, float *y, int64_t n, int64_t stride, int64_t count, bool is_log) {
  for (int64_t c = 0; c < count; c += TERCEL_VEC) {
    const int64_t left = tercel_min_i64(count - c, TERCEL_VEC);
    if (is_log)
      col_vector(x + c, y + c, n, stride, left, true);
    else
      col_vector(x + c, y + c, n, stride, left, false);
  }
}

const tercel_softmax_kernels TERCEL_LEVEL_NAME(tercel_softmax_kernels) = {.row = row, .cols = cols};
