/* Folding a row of numbers into one, in one order whatever the vector width is.
 *
 * Element i goes to lane i mod 16 of accumulator (i / 16) mod 4; the four accumulators are combined as (0, 1), (2, 3), then the 16 lanes by
 * the tree of vec.h.  Four of them, so that additions don't wait for each other. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_ROWS_H
#define TERCEL_BACKENDS_CPU_KERNELS_ROWS_H

#include "backends/cpu/kernels/mathf.h"
#include "base/checked.h"

typedef v16 (*row_map)(v16 x, v16 shift);
typedef v16 (*row_op)(v16 a, v16 b);

/* start: the accumulators' first value; fill: what stands behind the row's end (map must make it neutral). */
VEC_INLINE v16 row_fold(const float *x, int64_t n, v16 shift, float start, float fill, row_map map, row_op op) {
  v16 a[4];
  for (int g = 0; g < 4; g++) a[g] = v16_set(start);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int g = 0; g < 4; g++) a[g] = op(a[g], map(v16_load(x + i + 16 * g), shift));
  for (int g = 0; g < 4; g++)
    if (i + 16 * g < n)
      a[g] = op(a[g], map(v16_load_n_or(x + i + 16 * g, tercel_min_i64(n - i - 16 * g, 16), fill), shift));
  return op(op(a[0], a[1]), op(a[2], a[3]));
}

VEC_INLINE v16 row_same(v16 x, v16 shift) {
  (void)shift;
  return x;
}
VEC_INLINE v16 row_abs(v16 x, v16 shift) {
  (void)shift;
  return v16_abs(x);
}
VEC_INLINE v16 row_square(v16 x, v16 shift) {
  (void)shift;
  return v16_mul(x, x);
}
VEC_INLINE v16 row_square_from(v16 x, v16 shift) {
  const v16 d = v16_sub(x, shift);
  return v16_mul(d, d);
}
VEC_INLINE v16 row_exp_from(v16 x, v16 shift) {
  for (int i = 0; i < V16_PARTS; i++) x.part[i] = vf_exp(x.part[i] - shift.part[i]);
  return x;
}
/* Where a NaN may be dropped, since it is noticed later anyway. */
VEC_INLINE v16 row_max_fast(v16 a, v16 b) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] = vf_max_fast(b.part[i], a.part[i]);
  return a;
}

VEC_INLINE float row_sum(const float *x, int64_t n) {
  return v16_sum(row_fold(x, n, v16_set(0), 0.0f, 0.0f, row_same, v16_add));
}
VEC_INLINE float row_sum_squares(const float *x, int64_t n) {
  return v16_sum(row_fold(x, n, v16_set(0), 0.0f, 0.0f, row_square, v16_add));
}
/* of the distances from `mean` */
VEC_INLINE float row_sum_squares_from(const float *x, int64_t n, float mean) {
  return v16_sum(row_fold(x, n, v16_set(mean), 0.0f, mean, row_square_from, v16_add));
}

/* y = e^(x - m); returns the sum, in the order of row_fold.  y may be x. */
VEC_INLINE float row_exponentials(const float *x, float *y, int64_t n, float m) {
  const v16 shift = v16_set(m);
  v16 a[4];
  for (int g = 0; g < 4; g++) a[g] = v16_set(0);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int g = 0; g < 4; g++) {
      const v16 e = row_exp_from(v16_load(x + i + 16 * g), shift);
      v16_store(y + i + 16 * g, e);
      a[g] = v16_add(a[g], e);
    }
  for (int g = 0; g < 4; g++) {
    const int64_t at = i + 16 * g, left = tercel_min_i64(n - at, 16);
    if (left <= 0) break;
    const v16 e = row_exp_from(v16_load_n_or(x + at, left, -INFINITY), shift);
    v16_store_n(y + at, e, left);
    a[g] = v16_add(a[g], e);
  }
  return v16_sum(v16_add(v16_add(a[0], a[1]), v16_add(a[2], a[3])));
}

#endif
