/* Reductions over f32. */
#include "backends/cpu/kernels/reduce.h"

#include "backends/cpu/kernels/rows.h"

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static float row_fold_sum(const float *x, int64_t n, float shift) {
  (void)shift;
  return row_sum(x, n);
}
static float row_fold_sum_abs(const float *x, int64_t n, float shift) {
  (void)shift;
  return v16_sum(row_fold(x, n, v16_set(0), 0.0f, 0.0f, row_abs, v16_add));
}
static float row_fold_sum_square(const float *x, int64_t n, float shift) {
  (void)shift;
  return row_sum_squares(x, n);
}
static float row_fold_sum_exp(const float *x, int64_t n, float shift) {
  return v16_sum(row_fold(x, n, v16_set(shift), 0.0f, -INFINITY, row_exp_from, v16_add));
}
static float row_fold_max(const float *x, int64_t n, float shift) {
  (void)shift;
  return v16_largest(row_fold(x, n, v16_set(0), -INFINITY, -INFINITY, row_same, v16_max));
}
static float row_fold_min(const float *x, int64_t n, float shift) {
  (void)shift;
  return v16_smallest(row_fold(x, n, v16_set(0), INFINITY, INFINITY, row_same, v16_min));
}
static float row_fold_prod(const float *x, int64_t n, float shift) {
  (void)shift;
  return v16_product(row_fold(x, n, v16_set(0), 1.0f, 1.0f, row_same, v16_mul));
}

/* ---- short rows ---------------------------------------------------------------------------------------------------- */

/* A vector of rows at a time: lane k of each row's tree is a vector. */
VEC_INLINE void fold_short_rows(const float *x, int64_t rows, int64_t n, float *y, float start, vf (*map)(vf),
                                vf (*op)(vf, vf)) {
  for (int64_t r = 0; r < rows; r += TERCEL_VEC) {
    const int64_t left = tercel_min_i64(rows - r, TERCEL_VEC);
    const float *first = x + r * n;
    vf lanes[TERCEL_FOLD_SHORT];
    for (int64_t k = 0; k < n; k++) {
      vf v = vf_zero();
      for (int j = 0; j < TERCEL_VEC; j++) v[j] = first[(j < left ? j : 0) * n + k];
      lanes[k] = op(vf_set(start), map(v));
    }
    for (int64_t half = TERCEL_FOLD_SHORT / 2; half > 0; half /= 2)
      for (int64_t l = 0; l < half && l + half < n; l++) lanes[l] = op(lanes[l], lanes[l + half]);
    vf_store_n(y + r, lanes[0], left);
  }
}

VEC_INLINE vf map_same(vf x) { return x; }
VEC_INLINE vf map_square(vf x) { return x * x; }
VEC_INLINE vf op_add(vf a, vf b) { return a + b; }
VEC_INLINE vf op_mul(vf a, vf b) { return a * b; }

static void short_sum(const float *x, int64_t rows, int64_t n, float *y) {
  fold_short_rows(x, rows, n, y, 0.0f, map_same, op_add);
}
static void short_sum_abs(const float *x, int64_t rows, int64_t n, float *y) {
  fold_short_rows(x, rows, n, y, 0.0f, vf_abs, op_add);
}
static void short_sum_square(const float *x, int64_t rows, int64_t n, float *y) {
  fold_short_rows(x, rows, n, y, 0.0f, map_square, op_add);
}
static void short_max(const float *x, int64_t rows, int64_t n, float *y) {
  fold_short_rows(x, rows, n, y, -INFINITY, map_same, vf_max);
}
static void short_min(const float *x, int64_t rows, int64_t n, float *y) {
  fold_short_rows(x, rows, n, y, INFINITY, map_same, vf_min);
}
static void short_prod(const float *x, int64_t rows, int64_t n, float *y) {
  fold_short_rows(x, rows, n, y, 1.0f, map_same, op_mul);
}

/* ---- columns ------------------------------------------------------------------------------------------------------- */

typedef vf (*col_fold)(vf gathered, vf x, vf shift);

VEC_INLINE vf fold_sum(vf g, vf x, vf shift) {
  (void)shift;
  return g + x;
}
VEC_INLINE vf fold_sum_abs(vf g, vf x, vf shift) {
  (void)shift;
  return g + vf_abs(x);
}
VEC_INLINE vf fold_sum_square(vf g, vf x, vf shift) {
  (void)shift;
  return vf_fma(x, x, g);
}
VEC_INLINE vf fold_sum_exp(vf g, vf x, vf shift) { return g + vf_exp(x - shift); }
VEC_INLINE vf fold_max(vf g, vf x, vf shift) {
  (void)shift;
  return vf_max(g, x);
}
VEC_INLINE vf fold_min(vf g, vf x, vf shift) {
  (void)shift;
  return vf_min(g, x);
}
VEC_INLINE vf fold_prod(vf g, vf x, vf shift) {
  (void)shift;
  return g * x;
}

/* Four vectors of columns at a time stay in registers over all rows. */
VEC_INLINE void fold_columns(const float *x, int64_t rows, int64_t stride, int64_t cols, const float *shift,
                             float *gathered, col_fold fold) {
  int64_t c = 0;
  for (; c + 4 * TERCEL_VEC <= cols; c += 4 * TERCEL_VEC) {
    vf g[4], s[4];
    for (int v = 0; v < 4; v++) {
      g[v] = vf_load(gathered + c + v * TERCEL_VEC);
      s[v] = shift ? vf_load(shift + c + v * TERCEL_VEC) : vf_zero();
    }
    for (int64_t r = 0; r < rows; r++)
      for (int v = 0; v < 4; v++) g[v] = fold(g[v], vf_load(x + r * stride + c + v * TERCEL_VEC), s[v]);
    for (int v = 0; v < 4; v++) vf_store(gathered + c + v * TERCEL_VEC, g[v]);
  }
  for (; c < cols; c += TERCEL_VEC) {
    const int64_t left = tercel_min_i64(cols - c, TERCEL_VEC);
    vf g = vf_load_n(gathered + c, left);
    const vf s = shift ? vf_load_n(shift + c, left) : vf_zero();
    for (int64_t r = 0; r < rows; r++) g = fold(g, vf_load_n(x + r * stride + c, left), s);
    vf_store_n(gathered + c, g, left);
  }
}

#define FOLDS(X)                                                                                                       \
  X(SUM, sum)                                                                                                          \
  X(SUM_ABS, sum_abs)                                                                                                  \
  X(SUM_SQUARE, sum_square)                                                                                            \
  X(SUM_EXP, sum_exp)                                                                                                  \
  X(MAX, max)                                                                                                          \
  X(MIN, min)                                                                                                          \
  X(PROD, prod)
#define DEFINE_COLS(id, f)                                                                                             \
  static void cols_##f(const float *x, int64_t rows, int64_t stride, int64_t cols, const float *shift,                 \
                       float *gathered) {                                                                              \
    fold_columns(x, rows, stride, cols, shift, gathered, fold_##f);                                                    \
  }
FOLDS(DEFINE_COLS)

/* ---- results ------------------------------------------------------------------------------------------------------- */

static void divide(float *x, int64_t n, float by) {
  const vf d = vf_set(by);
  for (int64_t i = 0; i < n; i += TERCEL_VEC) vf_store_n(x + i, vf_load_n(x + i, n - i) / d, n - i);
}
static void root(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += TERCEL_VEC) vf_store_n(x + i, vf_sqrt(vf_load_n(x + i, n - i)), n - i);
}
static void logarithm(float *x, int64_t n, const float *shift) {
  for (int64_t i = 0; i < n; i += TERCEL_VEC) {
    const vf s = shift ? vf_load_n(shift + i, n - i) : vf_zero();
    vf_store_n(x + i, vf_log(vf_load_n(x + i, n - i)) + s, n - i);
  }
}

/* ---- arguments ----------------------------------------------------------------------------------------------------- */

static int64_t arg_row(const float *x, int64_t n, bool is_max, bool last) {
  const float best = is_max ? row_fold_max(x, n, 0) : row_fold_min(x, n, 0);
  const vf wanted = vf_set(best);
  const bool nan = best != best;
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += TERCEL_VEC) {
    const int64_t left = n - i;
    const vf v = vf_load_n_or(x + i, left, wanted);
    uint32_t hits = vm_bits(nan ? vf_isnan(v) : vf_eq(v, wanted));
    if (left < TERCEL_VEC) hits &= (1u << left) - 1;
    if (!hits) continue;
    if (!last) return i + __builtin_ctz(hits);
    found = i + 31 - __builtin_clz(hits);
  }
  return found;
}

/* b takes the place of a: larger (smaller), or NaN where a isn't; or_equal: or as good. */
VEC_INLINE vm is_better(vf b, vf a, bool is_max, bool or_equal) {
  const vm nan_a = vf_isnan(a), nan_b = vf_isnan(b);
  const vm more = is_max ? vf_gt(b, a) : vf_lt(b, a);
  const vm better = vm_or(more, vm_and(nan_b, vm_not(nan_a)));
  return or_equal ? vm_or(better, vm_or(vf_eq(a, b), vm_and(nan_a, nan_b))) : better;
}

static void arg_cols(const float *x, int64_t n, int64_t stride, int64_t cols, bool is_max, bool last, int64_t *out) {
  for (int64_t c = 0; c < cols; c += TERCEL_VEC) {
    const int64_t left = tercel_min_i64(cols - c, TERCEL_VEC);
    vf best = vf_load_n(x + c, left);
    vi place = vi_set(0);
    for (int64_t k = 1; k < n; k++) {
      const vf v = vf_load_n(x + k * stride + c, left);
      const vm better = is_better(v, best, is_max, last);
      best = vf_select(better, v, best);
      place = vi_select(better, vi_set((int32_t)k), place);
    }
    for (int64_t i = 0; i < left; i++) out[c + i] = place[i];
  }
}

static void add_rows(const float *x, const float *before, float *y, int64_t cols) {
  for (int64_t i = 0; i < cols; i += TERCEL_VEC)
    vf_store_n(y + i, vf_load_n(x + i, cols - i) + vf_load_n(before + i, cols - i), cols - i);
}

#define ROW_ENTRY(id, f) [TERCEL_FOLD_##id] = row_fold_##f,
#define COLS_ENTRY(id, f) [TERCEL_FOLD_##id] = cols_##f,
const tercel_reduce_kernels TERCEL_LEVEL_NAME(tercel_reduce_kernels) = {
    .row = {FOLDS(ROW_ENTRY)},
    .short_rows = {[TERCEL_FOLD_SUM] = short_sum,
                   [TERCEL_FOLD_SUM_ABS] = short_sum_abs,
                   [TERCEL_FOLD_SUM_SQUARE] = short_sum_square,
                   [TERCEL_FOLD_MAX] = short_max,
                   [TERCEL_FOLD_MIN] = short_min,
                   [TERCEL_FOLD_PROD] = short_prod},
    .cols = {FOLDS(COLS_ENTRY)},
    .divide = divide,
    .root = root,
    .log = logarithm,
    .arg_row = arg_row,
    .arg_cols = arg_cols,
    .add_rows = add_rows,
};
