/* See quantize.h. */
#include "backends/cpu/kernels/quantize.h"

#include "backends/cpu/kernels/vec.h"

static void range(const float *x, int64_t n, float *low_out, float *high_out) {
  vf low[2] = {vf_zero(), vf_zero()}, high[2] = {vf_zero(), vf_zero()};
  int64_t i = 0;
  for (; i + 2 * TERCEL_VEC <= n; i += 2 * TERCEL_VEC)
    for (int j = 0; j < 2; ++j) {
      const vf v = vf_load(x + i + j * TERCEL_VEC);
      low[j] = vf_min_fast(v, low[j]);
      high[j] = vf_max_fast(v, high[j]);
    }
  for (; i < n; i += TERCEL_VEC) {
    const vf v = vf_load_n(x + i, n - i);
    low[0] = vf_min_fast(v, low[0]);
    high[0] = vf_max_fast(v, high[0]);
  }
  low[0] = vf_min_fast(low[1], low[0]);
  high[0] = vf_max_fast(high[1], high[0]);
  *low_out = *high_out = 0;
  for (int l = 0; l < TERCEL_VEC; ++l) {
    if (low[0][l] < *low_out) *low_out = low[0][l];
    if (high[0][l] > *high_out) *high_out = high[0][l];
  }
}

typedef uint8_t bytes __attribute__((vector_size(TERCEL_VEC)));

/* x: 0 .. 255 */
VEC_INLINE bytes narrow(vi x) {
#if defined(__AVX512F__) || !defined(__SSE2__)
  return __builtin_convertvector(x, bytes);
#else
#if defined(__AVX2__)
  const __m128i low = _mm256_castsi256_si128((__m256i)x), high = _mm256_extracti128_si256((__m256i)x, 1);
#else
  const __m128i low = (__m128i)x, high = low;
#endif
  const __m128i words = _mm_packs_epi32(low, high), all = _mm_packus_epi16(words, words);
  bytes r;
  memcpy(&r, &all, sizeof r);
  return r;
#endif
}

VEC_INLINE bytes quantize(vf x, vf scale, vf zero) {
  const vf whole = vf_round(x / scale) + zero;
  return narrow(vf_to_i(vf_min_fast(vf_max_fast(whole, vf_zero()), vf_set(255))));
}

static void to_u8(const float *x, int64_t n, float scale, float zero, uint8_t *y) {
  const vf s = vf_set(scale), z = vf_set(zero);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) {
    const bytes b = quantize(vf_load(x + i), s, z);
    memcpy(y + i, &b, sizeof b);
  }
  if (i == n) return;
  const bytes b = quantize(vf_load_n(x + i, n - i), s, z);
  memcpy(y + i, &b, (size_t)(n - i));
}

static void row(const float *x, int64_t n, uint8_t *y, float *scale_out, uint8_t *zero_out) {
  float low, high;
  range(x, n, &low, &high);
  const float scale = tercel_quantize_scale(low, high), least = -low;
  to_u8(&least, 1, scale, 0, zero_out);
  to_u8(x, n, scale, *zero_out, y);
  *scale_out = scale;
}

const tercel_quantize_kernels TERCEL_LEVEL_NAME(tercel_quantize_kernels) = {.range = range, .to_u8 = to_u8, .row = row};
