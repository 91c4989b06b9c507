/* Pooling by rows; see window.h.  Sums run in the same order at every level and width, so that all levels agree bit for bit.  Whole
 * vectors go first, what is left of a row last. */
#include "backends/cpu/kernels/window.h"

#include "backends/cpu/kernels/vec.h"

VEC_INLINE vf combine(vf a, vf b, bool sum) { return sum ? a + b : vf_max(a, b); }

/* ---- rows ---- */

/* y[i] = all of x[offsets[r] + i] combined, for i < n. */
VEC_INLINE void join(float *y, const float *x, const int64_t *offsets, int64_t num_rows, int64_t n, bool sum) {
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) {
    vf acc = vf_load(x + offsets[0] + i);
    for (int64_t r = 1; r < num_rows; ++r) acc = combine(acc, vf_load(x + offsets[r] + i), sum);
    vf_store(y + i, acc);
  }
  if (i >= n) return;
  vf acc = vf_load_n(x + offsets[0] + i, n - i);
  for (int64_t r = 1; r < num_rows; ++r) acc = combine(acc, vf_load_n(x + offsets[r] + i, n - i), sum);
  vf_store_n(y + i, acc, n - i);
}

/* The common numbers of rows get loops of their own. */
VEC_INLINE void join_any(float *y, const float *x, const int64_t *offsets, int64_t num_rows, int64_t n, bool sum) {
  if (num_rows == 3)
    join(y, x, offsets, 3, n, sum);
  else if (num_rows == 2)
    join(y, x, offsets, 2, n, sum);
  else
    join(y, x, offsets, num_rows, n, sum);
}

/* ---- windows ---- */

/* n lanes of row[0], row[stride], ...: exactly those are read. */
VEC_INLINE vf load_strided(const float *row, int64_t stride, int64_t n) {
  if (stride == 1) return vf_load_n(row, n);
  if (stride == 2 && n > TERCEL_VEC / 2) {
    const int64_t rest = 2 * n - 1 - TERCEL_VEC; /* of the second vector */
    return vf_even(vf_load(row), vf_load_n(row + TERCEL_VEC, rest));
  }
  vf r = vf_zero();
  for (int i = 0; i < TERCEL_VEC && i < n; ++i) r[i] = row[i * stride];
  return r;
}

/* The same for a whole vector of which more than n * stride elements may be read. */
VEC_INLINE vf load_inside(const float *row, int64_t stride) {
  if (stride == 1) return vf_load(row);
  if (stride == 2) return vf_even(vf_load(row), vf_load(row + TERCEL_VEC));
  return load_strided(row, stride, TERCEL_VEC);
}

VEC_INLINE void slide(float *y, const float *row, int64_t n, int64_t kernel, int64_t stride, int64_t dilation,
                      bool sum) {
  int64_t i = 0;
  /* The last vector is not read beyond its last lane, so it goes with the rest where the stride is 2. */
  for (; i + TERCEL_VEC + (stride == 2) <= n; i += TERCEL_VEC) {
    vf acc = load_inside(row + i * stride, stride);
    for (int64_t k = 1; k < kernel; ++k) acc = combine(acc, load_inside(row + i * stride + k * dilation, stride), sum);
    vf_store(y + i, acc);
  }
  for (; i < n; i += TERCEL_VEC) {
    const int64_t lanes = n - i < TERCEL_VEC ? n - i : TERCEL_VEC;
    vf acc = load_strided(row + i * stride, stride, lanes);
    for (int64_t k = 1; k < kernel; ++k)
      acc = combine(acc, load_strided(row + i * stride + k * dilation, stride, lanes), sum);
    vf_store_n(y + i, acc, lanes);
  }
}

/* The windows of real networks get loops of their own. */
VEC_INLINE void slide_any(float *y, const float *row, int64_t n, int64_t kernel, int64_t stride, int64_t dilation,
                          bool sum) {
  if (kernel == 3 && stride == 2 && dilation == 1)
    slide(y, row, n, 3, 2, 1, sum);
  else if (kernel == 2 && stride == 2)
    slide(y, row, n, 2, 2, dilation, sum);
  else if (kernel == 5 && stride == 1 && dilation == 1)
    slide(y, row, n, 5, 1, 1, sum);
  else if (stride == 1)
    slide(y, row, n, kernel, 1, dilation, sum);
  else if (stride == 2)
    slide(y, row, n, kernel, 2, dilation, sum);
  else
    slide(y, row, n, kernel, stride, dilation, sum);
}

/* ---- planes ---- */

static void fill(float *row, float value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] = value;
}

VEC_INLINE void divide(float *y, const float *counts, float rows, int64_t n) {
  for (int64_t i = 0; i < n; i += TERCEL_VEC) {
    const vf count = vf_load_n_or(counts + i, n - i, vf_set(1)) * vf_set(rows);
    vf_store_n(y + i, vf_load_n(y + i, n - i) / count, n - i);
  }
}

VEC_INLINE void pool(const tercel_window_plane *p, float *y, const float *x, float *row, int64_t begin, int64_t end,
                     bool sum) {
  const float nothing = sum ? 0.0f : -INFINITY;
  fill(row, nothing, p->length); /* pads stay so */
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = p->first[r], num_rows = p->first[r + 1] - first;
    if (num_rows > 0 && p->width > 0)
      join_any(row + p->pad_begin, x, p->offsets + first, num_rows, p->width, sum);
    else
      fill(row, nothing, p->length);
    float *to = y + (r - begin) * p->output;
    slide_any(to, row, p->output, p->kernel, p->stride, p->dilation, sum);
    if (sum) divide(to, p->column_counts, p->row_counts[r], p->output);
  }
}

static void max_pool(const tercel_window_plane *p, float *y, const float *x, float *row, int64_t begin, int64_t end) {
  pool(p, y, x, row, begin, end, false);
}

static void average_pool(const tercel_window_plane *p, float *y, const float *x, float *row, int64_t begin,
                         int64_t end) {
  pool(p, y, x, row, begin, end, true);
}

const tercel_window_kernels TERCEL_LEVEL_NAME(tercel_window_kernels) = {.max = max_pool, .average = average_pool};
