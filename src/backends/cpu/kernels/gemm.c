/* f32 register tiles, packing and dot products.  See gemm.h for layouts and promises. */
#define VEC_FUSED
#include "backends/cpu/kernels/gemm.h"

#include "backends/cpu/kernels/gemm_size.h"

/* ---- tiles ---- */

/* Adds the start to alpha times the products, clamps, stores.  One copy for all tiles: the products come through memory, which costs
 * little beside the many multiply-adds that made them. */
static __attribute__((noinline)) void store_tile(const tercel_gemm_tile *t, int rows, const float *products) {
  const vf alpha = vf_set(t->alpha), low = vf_set(t->low), high = vf_set(t->high);
  for (int r = 0; r < rows; ++r, products += GEMM_NR) {
    float *c = t->c + r * t->c_row;
    const float *starts = t->add ? c : t->col_bias;
    const vf start = vf_set(t->row_bias != NULL && !t->add ? t->row_bias[r] : 0.0f);
    int64_t col = 0;
    for (; col + TERCEL_VEC <= t->cols; col += TERCEL_VEC) {
      vf x = vf_fma(alpha, vf_load(products + col), starts != NULL ? vf_load(starts + col) : start);
      if (t->clamp) x = vf_min_fast(high, vf_max_fast(low, x));
      vf_store(c + col, x);
    }
    const int64_t left = t->cols - col;
    if (left > 0) {
      vf x = vf_fma(alpha, vf_load(products + col), starts != NULL ? vf_load_n(starts + col, left) : start);
      if (t->clamp) x = vf_min_fast(high, vf_max_fast(low, x));
      vf_store_n(c + col, x, left);
    }
  }
}

typedef enum operands { PACKED_A, DIRECT_A, VIEWED_B } operands;

/* The one tile: rows, vectors and operands are constants where it is called, so that acc lives in registers. */
static inline __attribute__((always_inline)) void multiply(const tercel_gemm_tile *t, const int rows, const int vectors,
                                                           const operands from) {
  vf acc[GEMM_MR][GEMM_VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) acc[r][v] = vf_zero();
  }
  const float *a = t->a, *b = t->b;
  const int64_t a_row = from == DIRECT_A ? t->a_row : 1, a_step = from == DIRECT_A ? 1 : GEMM_MR, b_step = t->b_step;
  const int64_t *offset = t->b_offsets;
  for (int64_t k = t->k; k > 0; --k) {
    if (from == VIEWED_B) b = t->b + *offset++;
    vf row[GEMM_VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) row[v] = vf_load(b + v * TERCEL_VEC);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const vf x = vf_set(a[r * a_row]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) acc[r][v] = vf_fma(x, row[v], acc[r][v]);
    }
    a += a_step;
    if (from != VIEWED_B) b += b_step;
  }
  float products[GEMM_MR * GEMM_NR];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) vf_store(products + r * GEMM_NR + v * TERCEL_VEC, acc[r][v]);
  }
  store_tile(t, rows, products);
}

/* Rows of A at addresses of their own (pixels of a convolution), one list a run of k.  Sums begin with what C or the bias holds, and leave
 * the registers but once: k is often short here.  last: columns of the last vector. */
static inline __attribute__((always_inline)) void multiply_listed(const tercel_gemm_tile *t, const int rows,
                                                                  const int vectors) {
  vf acc[GEMM_MR][GEMM_VECTORS];
  const float *start = t->add ? t->c : t->col_bias;
  const int64_t start_row = t->add ? t->c_row : 0, last = t->cols - (vectors - 1) * TERCEL_VEC;
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
      const float *p = start + r * start_row + v * TERCEL_VEC;
      acc[r][v] = start == NULL ? vf_zero() : v + 1 < vectors ? vf_load(p) : vf_load_n(p, last);
    }
  }
  const float *b = t->b;
  const float *const *list = t->a_rows;
  for (int64_t s = t->segments; s > 0; --s, list += GEMM_MR) {
    const float *a[GEMM_MR];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) a[r] = list[r];
    for (int64_t k = 0; k < t->k; ++k, b += GEMM_NR) {
      vf row[GEMM_VECTORS];
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) row[v] = vf_load(b + v * TERCEL_VEC);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const vf x = vf_set(a[r][k]);
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) acc[r][v] = vf_fma(x, row[v], acc[r][v]);
      }
    }
  }
  const vf low = vf_set(t->low), high = vf_set(t->high);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
      float *p = t->c + r * t->c_row + v * TERCEL_VEC;
      const vf x = t->clamp ? vf_min_fast(high, vf_max_fast(low, acc[r][v])) : acc[r][v];
      if (v + 1 < vectors)
        vf_store(p, x);
      else
        vf_store_n(p, x, last);
    }
  }
}

/* clang-format off */
#if defined(__AVX512F__) || defined(__ARM_NEON)
#define GEMM_TILES(T) T(1, 1) T(1, 2) T(1, 3) T(2, 1) T(2, 2) T(2, 3) T(3, 1) T(3, 2) T(3, 3) T(4, 1) T(4, 2) T(4, 3) \
                      T(5, 1) T(5, 2) T(5, 3) T(6, 1) T(6, 2) T(6, 3) T(7, 1) T(7, 2) T(7, 3) T(8, 1) T(8, 2) T(8, 3)
#elif defined(__AVX2__) && VEC_FMA
#define GEMM_TILES(T) T(1, 1) T(1, 2) T(1, 3) T(2, 1) T(2, 2) T(2, 3) T(3, 1) T(3, 2) T(3, 3) T(4, 1) T(4, 2) T(4, 3)
#else
#define GEMM_TILES(T) T(1, 1) T(1, 2) T(2, 1) T(2, 2) T(3, 1) T(3, 2) T(4, 1) T(4, 2)
#endif
/* clang-format on */

#define DEFINE_TILES(rows, vectors)                                                                                    \
  static void packed_##rows##_##vectors(const tercel_gemm_tile *t) { multiply(t, rows, vectors, PACKED_A); }           \
  static void direct_##rows##_##vectors(const tercel_gemm_tile *t) { multiply(t, rows, vectors, DIRECT_A); }           \
  static void viewed_##rows##_##vectors(const tercel_gemm_tile *t) { multiply(t, rows, vectors, VIEWED_B); }           \
  static void listed_##rows##_##vectors(const tercel_gemm_tile *t) { multiply_listed(t, rows, vectors); }
GEMM_TILES(DEFINE_TILES)

/* ---- few columns ---- */

/* A panel of A's rows as lanes. */
typedef float vr __attribute__((vector_size(4 * GEMM_MR)));

static inline vr load_rows(const float *p) {
  vr r;
  memcpy(&r, p, sizeof r);
  return r;
}

static inline vr fma_rows(vr a, float b, vr c) {
#if !VEC_FMA
  return a * b + c;
#elif defined(__AVX512F__)
  return (vr)_mm256_fmadd_ps((__m256)a, _mm256_set1_ps(b), (__m256)c);
#elif defined(__AVX2__)
  return (vr)_mm_fmadd_ps((__m128)a, _mm_set1_ps(b), (__m128)c);
#else
  for (int i = 0; i < GEMM_MR; ++i) c[i] = __builtin_fmaf(a[i], b, c[i]);
  return c;
#endif
}

/* chains: a power of two up to 4; term k goes to chain k % chains, and those are added up at the end.  Without FMA it is one, as in the
 * tiles: how many columns are left hangs on the level, and the exact tables of all levels agree. */
static inline __attribute__((always_inline)) void multiply_columns(const tercel_gemm_tile *t, int rows, const int cols,
                                                                   const int chains) {
  vr acc[TERCEL_GEMM_MAX_COLUMNS][4];
#pragma GCC unroll 4
  for (int c = 0; c < cols; ++c) {
#pragma GCC unroll 4
    for (int u = 0; u < chains; ++u) acc[c][u] = (vr){0};
  }
  const float *a = t->a, *b = t->b;
  int64_t k = 0;
  for (; k + chains <= t->k; k += chains) {
#pragma GCC unroll 4
    for (int u = 0; u < chains; ++u, a += GEMM_MR, b += t->b_step) {
      const vr x = load_rows(a);
#pragma GCC unroll 4
      for (int c = 0; c < cols; ++c) acc[c][u] = fma_rows(x, b[c], acc[c][u]);
    }
  }
  for (; k < t->k; ++k, a += GEMM_MR, b += t->b_step) {
#pragma GCC unroll 4
    for (int c = 0; c < cols; ++c) acc[c][0] = fma_rows(load_rows(a), b[c], acc[c][0]);
  }
  float products[GEMM_MR * GEMM_NR];
#pragma GCC unroll 4
  for (int c = 0; c < cols; ++c) {
    vr sum = acc[c][0];
    if (chains > 1) sum += acc[c][1];
    if (chains == 4) sum += acc[c][2] + acc[c][3];
    for (int r = 0; r < GEMM_MR; ++r) products[r * GEMM_NR + c] = sum[r];
  }
  store_tile(t, rows, products);
}

enum { FEW_CHAINS = VEC_FMA ? 2 : 1, MANY_CHAINS = VEC_FMA ? 4 : 1 };
static void columns_1(const tercel_gemm_tile *t, int rows) { multiply_columns(t, rows, 1, MANY_CHAINS); }
static void columns_2(const tercel_gemm_tile *t, int rows) { multiply_columns(t, rows, 2, MANY_CHAINS); }
static void columns_3(const tercel_gemm_tile *t, int rows) { multiply_columns(t, rows, 3, FEW_CHAINS); }
static void columns_4(const tercel_gemm_tile *t, int rows) { multiply_columns(t, rows, 4, FEW_CHAINS); }

/* ---- packing ---- */

static void pack_a(int64_t m, int64_t k, const float *a, int64_t a_row, int64_t a_col, float *out) {
  for (; m > 0; m -= GEMM_MR, a += GEMM_MR * a_row, out += GEMM_MR * k) {
    const int64_t rows = m < GEMM_MR ? m : GEMM_MR;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i) out[i * GEMM_MR + r] = a[r * a_row + i * a_col];
    for (int64_t r = rows; r < GEMM_MR; ++r)
      for (int64_t i = 0; i < k; ++i) out[i * GEMM_MR + r] = 0;
  }
}

/* One panel whose columns are contiguous in each row. */
static void pack_rows(int64_t k, int64_t cols, const float *b, int64_t b_row, float *out) {
  if (cols == GEMM_NR) {
    for (int64_t i = 0; i < k; ++i, b += b_row, out += GEMM_NR)
      for (int v = 0; v < GEMM_VECTORS; ++v) vf_store(out + v * TERCEL_VEC, vf_load(b + v * TERCEL_VEC));
    return;
  }
  for (int64_t i = 0; i < k; ++i, b += b_row, out += GEMM_NR)
    for (int v = 0; v < GEMM_VECTORS; ++v) {
      const int64_t left = cols - v * TERCEL_VEC;
      vf_store(out + v * TERCEL_VEC, left > 0 ? vf_load_n(b + v * TERCEL_VEC, left) : vf_zero());
    }
}

typedef float f4 __attribute__((vector_size(16)));

static inline f4 load4(const float *p) {
  f4 r;
  memcpy(&r, p, sizeof r);
  return r;
}
static inline void store4(float *p, f4 x) { memcpy(p, &x, sizeof x); }

#if defined(__clang__)
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t i4 __attribute__((vector_size(16)));
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (i4){i, j, k, l})
#endif

/* out[j * step + i] = in[i][j] for 4 rows and 4 columns. */
static inline void transpose4(const float *in, int64_t row, float *out, int64_t step) {
  const f4 a = load4(in), b = load4(in + row), c = load4(in + 2 * row), d = load4(in + 3 * row);
  const f4 ab_low = SHUFFLE4(a, b, 0, 4, 1, 5), ab_high = SHUFFLE4(a, b, 2, 6, 3, 7);
  const f4 cd_low = SHUFFLE4(c, d, 0, 4, 1, 5), cd_high = SHUFFLE4(c, d, 2, 6, 3, 7);
  store4(out, SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5));
  store4(out + step, SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7));
  store4(out + 2 * step, SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5));
  store4(out + 3 * step, SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7));
}

/* One panel whose columns are contiguous in k (b transposed), or with any strides. */
static void pack_columns(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col, float *out) {
  int64_t done = 0;
  if (b_row == 1) {
    for (; done + 4 <= cols; done += 4) {
      int64_t i = 0;
      for (; i + 4 <= k; i += 4) transpose4(b + done * b_col + i, b_col, out + i * GEMM_NR + done, GEMM_NR);
      for (; i < k; ++i)
        for (int64_t j = done; j < done + 4; ++j) out[i * GEMM_NR + j] = b[i + j * b_col];
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = done; j < cols; ++j) out[i * GEMM_NR + j] = b[i * b_row + j * b_col];
    for (int64_t j = cols; j < GEMM_NR; ++j) out[i * GEMM_NR + j] = 0;
  }
}

static void pack_b(int64_t k, int64_t n, const float *b, int64_t b_row, int64_t b_col, float *out) {
  for (; n > 0; n -= GEMM_NR, b += GEMM_NR * b_col, out += GEMM_NR * k) {
    const int64_t cols = n < GEMM_NR ? n : GEMM_NR;
    if (b_col == 1)
      pack_rows(k, cols, b, b_row, out);
    else
      pack_columns(k, cols, b, b_row, b_col, out);
  }
}

/* ---- dot products ---- */

/* `count` rows of b at once, so that each load of a serves several. */
static inline __attribute__((always_inline)) void dot_rows(const int count, int64_t k, const float *a, const float *b,
                                                           int64_t b_row, float *out) {
  v16 sum[4];
#pragma GCC unroll 4
  for (int j = 0; j < count; ++j) sum[j] = v16_set(0);
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) {
    const v16 x = v16_load(a + i);
#pragma GCC unroll 4
    for (int j = 0; j < count; ++j) sum[j] = v16_fma(x, v16_load(b + j * b_row + i), sum[j]);
  }
  if (i < k) {
    const v16 x = v16_load_n_or(a + i, k - i, 0);
#pragma GCC unroll 4
    for (int j = 0; j < count; ++j) sum[j] = v16_fma(x, v16_load_n_or(b + j * b_row + i, k - i, 0), sum[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < count; ++j) out[j] = v16_sum(sum[j]);
}

static void dots(int64_t n, int64_t k, const float *a, const float *b, int64_t b_row, float *out) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) dot_rows(4, k, a, b + j * b_row, b_row, out + j);
  for (; j < n; ++j) dot_rows(1, k, a, b + j * b_row, b_row, out + j);
}

/* ---- table ---- */

#define PACKED_ENTRY(rows, vectors) [(rows)-1][(vectors)-1] = packed_##rows##_##vectors,
#define VIEWED_ENTRY(rows, vectors) [(rows)-1][(vectors)-1] = viewed_##rows##_##vectors,
#define LISTED_ENTRY(rows, vectors) [(rows)-1][(vectors)-1] = listed_##rows##_##vectors,
#define DIRECT_ENTRY(rows, vectors) [(rows)-1][(vectors)-1] = direct_##rows##_##vectors,

const tercel_gemm_kernels TERCEL_LEVEL_NAME(tercel_gemm_kernels) = {
    .mr = GEMM_MR,
    .nr = GEMM_NR,
    .lanes = TERCEL_VEC,
    .packed = {GEMM_TILES(PACKED_ENTRY)},
    .direct = {GEMM_TILES(DIRECT_ENTRY)},
    .viewed = {GEMM_TILES(VIEWED_ENTRY)},
    .listed = {GEMM_TILES(LISTED_ENTRY)},
    .columns = {columns_1, columns_2, columns_3, columns_4},
    .pack_a = pack_a,
    .pack_b = pack_b,
    .dots = dots};
