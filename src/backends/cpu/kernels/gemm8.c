/* 8-bit register tiles and packing.  See gemm8.h for layouts and promises. */
#include "backends/cpu/kernels/gemm8.h"

#include "backends/cpu/kernels/vec.h"

_Static_assert(VEC_PARTS == 1, "a vector is one register");

/* Accumulators, a row of B and a broadcast word of A fit the registers (32 with AVX-512 and NEON, 16 else); without VNNI a product needs
 * one more. */
#if defined(__AVX512F__)
enum { MR = 8, VECTORS = 3 };
#elif defined(__ARM_NEON)
enum { MR = 8, VECTORS = 2 };
#else
enum { MR = 4, VECTORS = 2 };
#endif
#if defined(__AVX512VNNI__)
enum { GROUP = 4 };
#else
enum { GROUP = 2 };
#endif
enum { NR = VECTORS * TERCEL_VEC };
_Static_assert((int)NR <= (int)TERCEL_GEMM8_MAX_NR, "what callers make room for");

/* ---- a group of a vector of columns ---- */

/* b: TERCEL_VEC columns of GROUP bytes, as `dot` wants them. */
VEC_INLINE vi load_b(const int8_t *b) {
#if defined(__AVX512VNNI__)
  return vi_load((const int32_t *)(const void *)b);
#elif defined(__AVX512F__)
  return (vi)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)b));
#elif defined(__AVX2__)
  return (vi)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
#elif defined(__SSE2__)
  const __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)b);
  return (vi)_mm_srai_epi16(_mm_unpacklo_epi8(x, x), 8);
#else
  int16_t wide[2 * TERCEL_VEC];
  for (int i = 0; i < 2 * TERCEL_VEC; ++i) wide[i] = b[i];
  vi r;
  memcpy(&r, wide, sizeof r);
  return r;
#endif
}

/* acc + the products of a's group with b's. */
VEC_INLINE vi dot(vi acc, vi a, vi b) {
#if defined(__AVX512VNNI__)
  return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#elif defined(__AVX512F__)
  return acc + (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return acc + (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return acc + (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  const vi low = ((vi)((vu)a << 16) >> 16) * ((vi)((vu)b << 16) >> 16), high = (a >> 16) * (b >> 16);
  return acc + (low + high);
#endif
}

/* ---- tiles ---- */

/* One copy for all tiles: the sums come through memory, which costs little beside the many products that made them. */
static __attribute__((noinline)) void store_tile(const tercel_gemm8_tile *t, int rows, const int32_t *sums) {
  for (int r = 0; r < rows; ++r, sums += NR) {
    uint32_t *const c = t->c + r * t->c_row;
    for (int64_t col = 0; col < t->cols; col += TERCEL_VEC) {
      vu x = (vu)vi_load(sums + col);
      if (t->row_factor != NULL)
        x += (vu)vi_load((const int32_t *)t->col_sum + col) * (vu)vi_set((int32_t)t->row_factor[r]);
      if (t->col_zero != NULL)
        x += (vu)vi_load((const int32_t *)t->col_zero + col) * (vu)vi_set((int32_t)t->row_rest[r]);
      const int64_t left = t->cols - col;
      memcpy(c + col, &x, left < TERCEL_VEC ? (size_t)left * sizeof *c : sizeof x);
    }
  }
}

/* The one tile: rows and vectors are constants where it is called, so that acc lives in registers. */
static inline __attribute__((always_inline)) void multiply(const tercel_gemm8_tile *t, const int rows,
                                                           const int vectors) {
  vi acc[MR][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) acc[r][v] = vi_set(0);
  }
  const uint32_t *a = t->a;
  const int8_t *b = t->b;
  for (int64_t g = t->groups; g > 0; --g, a += t->a_step, b += NR * GROUP) {
    vi row[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) row[v] = load_b(b + v * TERCEL_VEC * GROUP);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const vi x = vi_set((int32_t)a[r]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) acc[r][v] = dot(acc[r][v], x, row[v]);
    }
  }
  int32_t sums[MR * NR];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) vi_store(sums + r * NR + v * TERCEL_VEC, acc[r][v]);
  }
  store_tile(t, rows, sums);
}

/* clang-format off */
#if defined(__AVX512F__)
#define TILES(T) T(1, 1) T(1, 2) T(1, 3) T(2, 1) T(2, 2) T(2, 3) T(3, 1) T(3, 2) T(3, 3) T(4, 1) T(4, 2) T(4, 3) \
                 T(5, 1) T(5, 2) T(5, 3) T(6, 1) T(6, 2) T(6, 3) T(7, 1) T(7, 2) T(7, 3) T(8, 1) T(8, 2) T(8, 3)
#elif defined(__ARM_NEON)
#define TILES(T) T(1, 1) T(1, 2) T(2, 1) T(2, 2) T(3, 1) T(3, 2) T(4, 1) T(4, 2) \
                 T(5, 1) T(5, 2) T(6, 1) T(6, 2) T(7, 1) T(7, 2) T(8, 1) T(8, 2)
#else
#define TILES(T) T(1, 1) T(1, 2) T(2, 1) T(2, 2) T(3, 1) T(3, 2) T(4, 1) T(4, 2)
#endif
/* clang-format on */

#define DEFINE_TILE(rows, vectors)                                                                                     \
  static void tile_##rows##_##vectors(const tercel_gemm8_tile *t) { multiply(t, rows, vectors); }
TILES(DEFINE_TILE)

/* ---- packing ---- */

static uint32_t word_of(const uint8_t *a, int64_t a_col, int64_t count, uint8_t flip) {
  uint32_t word = 0;
  for (int64_t i = 0; i < count; ++i) word |= (uint32_t)(a[i * a_col] ^ flip) << (32 / GROUP * i);
  return word;
}

/* Whole groups of a row whose elements follow each other. */
static void pack_row(int64_t groups, const uint8_t *a, uint8_t flip, uint32_t *out) {
#if defined(__AVX512VNNI__)
  for (int64_t g = 0; g < groups; ++g) {
    uint32_t word;
    memcpy(&word, a + g * GROUP, sizeof word);
    out[g * MR] = word ^ flip * 0x01010101u;
  }
#else
  for (int64_t g = 0; g < groups; ++g)
    out[g * MR] = (uint32_t)(a[2 * g] ^ flip) | (uint32_t)(a[2 * g + 1] ^ flip) << 16;
#endif
}

static uint32_t sum_of(int64_t k, const uint8_t *a, int64_t a_col, uint8_t flip) {
  uint32_t sum = 0;
  if (a_col == 1) {
    for (int64_t i = 0; i < k; ++i) sum += (uint8_t)(a[i] ^ flip);
    return sum;
  }
  for (int64_t i = 0; i < k; ++i) sum += (uint8_t)(a[i * a_col] ^ flip);
  return sum;
}

static void pack_a(int64_t rows, int64_t k, const uint8_t *a, int64_t a_row, int64_t a_col, uint8_t flip, uint32_t *out,
                   uint32_t *sums) {
  const int64_t groups = (k + GROUP - 1) / GROUP, whole = k / GROUP;
  for (int64_t r = 0; r < rows; ++r, a += a_row) {
    int64_t g = 0;
    sums[r] = sum_of(k, a, a_col, flip);
    if (a_col == 1) {
      pack_row(whole, a, flip, out + r);
      g = whole;
    }
    for (; g < groups; ++g) {
      const int64_t left = k - g * GROUP;
      out[g * MR + r] = word_of(a + g * GROUP * a_col, a_col, left < GROUP ? left : GROUP, flip);
    }
  }
  for (int64_t r = rows; r < MR; ++r)
    for (int64_t g = 0; g < groups; ++g) out[g * MR + r] = 0;
}

/* A whole panel wide; the compiler makes vectors of it. */
static void interleave_whole(const uint8_t *const rows[TERCEL_GEMM8_MAX_GROUP], uint8_t flip, int8_t *out) {
#if defined(__AVX512VNNI__)
  const uint8_t *restrict const a = rows[0], *restrict const b = rows[1];
  const uint8_t *restrict const c = rows[2], *restrict const d = rows[3];
  uint32_t words[NR];
  for (int j = 0; j < NR; ++j)
    words[j] = (a[j] | (uint32_t)b[j] << 8 | (uint32_t)c[j] << 16 | (uint32_t)d[j] << 24) ^ flip * 0x01010101u;
#else
  const uint8_t *restrict const a = rows[0], *restrict const b = rows[1];
  uint16_t words[NR];
  for (int j = 0; j < NR; ++j) words[j] = (uint16_t)((a[j] | b[j] << 8) ^ flip * 0x0101);
#endif
  memcpy(out, words, sizeof words);
}

static void interleave(const uint8_t *const rows[TERCEL_GEMM8_MAX_GROUP], int64_t cols, uint8_t flip, int8_t *out) {
  bool all = cols == NR;
  for (int i = 0; i < GROUP; ++i) all = all && rows[i] != NULL;
  if (all) {
    interleave_whole(rows, flip, out);
    return;
  }
  memset(out, 0, NR * GROUP);
  for (int i = 0; i < GROUP; ++i)
    for (int64_t j = 0; rows[i] != NULL && j < cols; ++j) out[j * GROUP + i] = (int8_t)(rows[i][j] ^ flip);
}

static void pack_b(int64_t k, int64_t cols, const uint8_t *b, int64_t b_row, int64_t b_col, uint8_t flip, int8_t *out) {
  for (int64_t i = 0; i < k; i += GROUP, out += NR * GROUP) {
    const int64_t count = k - i < GROUP ? k - i : GROUP;
    if (b_col == 1) {
      const uint8_t *rows[TERCEL_GEMM8_MAX_GROUP] = {NULL};
      for (int64_t g = 0; g < count; ++g) rows[g] = b + (i + g) * b_row;
      interleave(rows, cols, flip, out);
      continue;
    }
    memset(out, 0, NR * GROUP);
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t g = 0; g < count; ++g) out[j * GROUP + g] = (int8_t)(b[(i + g) * b_row + j * b_col] ^ flip);
  }
}

/* ---- table ---- */

#define ENTRY(rows, vectors) [(rows)-1][(vectors)-1] = tile_##rows##_##vectors,

const tercel_gemm8_kernels TERCEL_LEVEL_NAME(tercel_gemm8_kernels) = {.mr = MR,
                                                                      .nr = NR,
                                                                      .lanes = TERCEL_VEC,
                                                                      .group = GROUP,
                                                                      .one = GROUP == 4 ? 0x01010101u : 0x00010001u,
                                                                      .tiles = {TILES(ENTRY)},
                                                                      .pack_a = pack_a,
                                                                      .pack_b = pack_b,
                                                                      .interleave = interleave};
