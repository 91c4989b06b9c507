/* One hardware register of f32: what vec.h needs and GNU vector types can't say.  nf holds VEC_NATIVE floats, ni as many int32.
 *
 *   AVX-512 (F, BW, DQ, VL)   16 lanes
 *   AVX2 + FMA + F16C          8 lanes
 *   SSE2                       4 lanes; no FMA, rounding or f16 instructions: done by arithmetic and bits
 *   portable C                 4 lanes; what AArch64 compiles to NEON
 *
 * min and max are those of x86: a < b ? a : b (a > b ? a : b), so b is returned when either is NaN.
 *
 * A file that gains by fused multiply-adds defines VEC_FUSED before it includes this: nf_fma then rounds once where the level can.  Such a file
 * is compiled once more per level, with TERCEL_EXACT, for deterministic mode, where all levels give the same bits (cpu.h). */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_VEC_ISA_H
#define TERCEL_BACKENDS_CPU_KERNELS_VEC_ISA_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VEC_NATIVE 16
#elif defined(__AVX2__)
#define VEC_NATIVE 8
#else
#define VEC_NATIVE 4
#endif

#define VEC_INLINE static inline __attribute__((always_inline, unused))

#if defined(VEC_FUSED) && !defined(TERCEL_EXACT) &&                                                                    \
    (defined(__AVX512F__) || defined(__FMA__) || defined(__ARM_FEATURE_FMA))
#define VEC_FMA 1
#else
#define VEC_FMA 0
#endif

typedef float nf __attribute__((vector_size(4 * VEC_NATIVE)));
typedef int32_t ni __attribute__((vector_size(4 * VEC_NATIVE)));
typedef uint32_t nu __attribute__((vector_size(4 * VEC_NATIVE)));

#if defined(__AVX512F__)

enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

VEC_INLINE nf nf_sqrt(nf a) { return (nf)_mm512_sqrt_ps((__m512)a); }
VEC_INLINE nf nf_min(nf a, nf b) { return (nf)_mm512_min_ps((__m512)a, (__m512)b); }
VEC_INLINE nf nf_max(nf a, nf b) { return (nf)_mm512_max_ps((__m512)a, (__m512)b); }
VEC_INLINE nf nf_round(nf a) { return (nf)_mm512_roundscale_ps((__m512)a, NEAREST); }
VEC_INLINE nf nf_floor(nf a) { return (nf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
VEC_INLINE nf nf_ceil(nf a) { return (nf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
VEC_INLINE nf nf_trunc(nf a) { return (nf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
VEC_INLINE ni nf_to_i(nf a) { return (ni)_mm512_cvtps_epi32((__m512)a); }
VEC_INLINE nf nf_from_f16(const uint16_t *p) { return (nf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
VEC_INLINE void nf_to_f16(uint16_t *p, nf a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)a, NEAREST)); }

#elif defined(__AVX2__)

enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

VEC_INLINE nf nf_sqrt(nf a) { return (nf)_mm256_sqrt_ps((__m256)a); }
VEC_INLINE nf nf_min(nf a, nf b) { return (nf)_mm256_min_ps((__m256)a, (__m256)b); }
VEC_INLINE nf nf_max(nf a, nf b) { return (nf)_mm256_max_ps((__m256)a, (__m256)b); }
VEC_INLINE nf nf_round(nf a) { return (nf)_mm256_round_ps((__m256)a, NEAREST); }
VEC_INLINE nf nf_floor(nf a) { return (nf)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
VEC_INLINE nf nf_ceil(nf a) { return (nf)_mm256_round_ps((__m256)a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
VEC_INLINE nf nf_trunc(nf a) { return (nf)_mm256_round_ps((__m256)a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
VEC_INLINE ni nf_to_i(nf a) { return (ni)_mm256_cvtps_epi32((__m256)a); }
VEC_INLINE nf nf_select(ni m, nf a, nf b) { return (nf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m); }
VEC_INLINE nf nf_from_f16(const uint16_t *p) { return (nf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
VEC_INLINE void nf_to_f16(uint16_t *p, nf a) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)a, NEAREST)); }

#else

VEC_INLINE nf nf_select(ni m, nf a, nf b) { return (nf)((m & (ni)a) | (~m & (ni)b)); }

#if defined(__SSE2__)
VEC_INLINE nf nf_sqrt(nf a) { return (nf)_mm_sqrt_ps((__m128)a); }
VEC_INLINE nf nf_min(nf a, nf b) { return (nf)_mm_min_ps((__m128)a, (__m128)b); }
VEC_INLINE nf nf_max(nf a, nf b) { return (nf)_mm_max_ps((__m128)a, (__m128)b); }
VEC_INLINE ni nf_to_i(nf a) { return (ni)_mm_cvtps_epi32((__m128)a); }
#else
VEC_INLINE nf nf_sqrt(nf a) {
  for (int i = 0; i < VEC_NATIVE; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
VEC_INLINE nf nf_min(nf a, nf b) { return nf_select(a < b, a, b); }
VEC_INLINE nf nf_max(nf a, nf b) { return nf_select(a > b, a, b); }
VEC_INLINE ni nf_to_i(nf a) {
  ni r;
  for (int i = 0; i < VEC_NATIVE; i++) r[i] = (int32_t)__builtin_rintf(a[i]);
  return r;
}
#endif

/* 2^23 and more has no fraction; below it, adding and taking away 2^23 rounds to nearest even.  The sign is put back, for -0. */
VEC_INLINE nf nf_round(nf a) {
  const ni sign = (ni)a & INT32_MIN;
  const nf magnitude = (nf)((ni)a ^ sign), big = magnitude * 0.0f + 8388608.0f;
  const nf rounded = (nf)((ni)((magnitude + big) - big) | sign);
  return nf_select(magnitude < 8388608.0f, rounded, a);
}
VEC_INLINE nf nf_floor(nf a) {
  const nf r = nf_round(a);
  return nf_select(r > a, r - 1.0f, r);
}
VEC_INLINE nf nf_ceil(nf a) {
  const nf r = nf_round(a);
  return nf_select(r < a, (nf)((ni)(r + 1.0f) | ((ni)a & INT32_MIN)), r);
}
VEC_INLINE nf nf_trunc(nf a) {
  const ni sign = (ni)a & INT32_MIN;
  return (nf)((ni)nf_floor((nf)((ni)a ^ sign)) | sign);
}

/* binary16 is 1 sign, 5 exponent (bias 15), 10 mantissa bits.  Widening moves the exponent's bias by 112; infinity and NaN need
 * another 112, subnormals are made normal by a subtraction that is exact. */
VEC_INLINE nf nf_from_f16(const uint16_t *p) {
  typedef uint16_t half_bits __attribute__((vector_size(2 * VEC_NATIVE)));
  half_bits h;
  memcpy(&h, p, sizeof h);
  const int32_t field = 0x7c00 << 13;
  const ni bits = __builtin_convertvector(h, ni);
  ni x = (bits & 0x7fff) << 13;
  const ni exponent = x & field;
  x += 112 << 23;
  const nf subnormal = (nf)(x + (1 << 23)) - (nf)((x & 0) + (113 << 23));
  const ni special = exponent == field, quiet = ((x & 0x7fe000) != 0) & special & 0x400000;
  x = (x + (special & (112 << 23))) | quiet;
  x = (ni)nf_select(exponent == 0, subnormal, (nf)x);
  return (nf)(x | ((bits & 0x8000) << 16));
}

VEC_INLINE void nf_to_f16(uint16_t *p, nf a) {
  typedef uint16_t half_bits __attribute__((vector_size(2 * VEC_NATIVE)));
  const ni bits = (ni)a, magnitude = bits & INT32_MAX;
  /* normal: add just less than half of the last place kept, and one more where that place is odd */
  const ni normal = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  /* below 2^-14: 0.5 has its last place at 2^-24, so adding it rounds there */
  const ni subnormal = (ni)((nf)magnitude + 0.5f) - (126 << 23);
  const ni special = 0x7c00 | ((magnitude > 0x7f800000) & (0x200 | ((magnitude >> 13) & 0x1ff)));
  ni r = (ni)nf_select(magnitude < 0x38800000, (nf)subnormal, (nf)normal);
  r = (ni)nf_select(magnitude >= 0x47800000, (nf)special, (nf)r);
  r |= (bits >> 16) & 0x8000;
  const half_bits h = __builtin_convertvector((nu)r, half_bits);
  memcpy(p, &h, sizeof h);
}

#endif

/* a * b + c and c - a * b */
#if !VEC_FMA
VEC_INLINE nf nf_fma(nf a, nf b, nf c) { return a * b + c; }
VEC_INLINE nf nf_fnma(nf a, nf b, nf c) { return c - a * b; }
#elif defined(__AVX512F__)
VEC_INLINE nf nf_fma(nf a, nf b, nf c) { return (nf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
VEC_INLINE nf nf_fnma(nf a, nf b, nf c) { return (nf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(__AVX2__)
VEC_INLINE nf nf_fma(nf a, nf b, nf c) { return (nf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
VEC_INLINE nf nf_fnma(nf a, nf b, nf c) { return (nf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#else
VEC_INLINE nf nf_fma(nf a, nf b, nf c) {
  for (int i = 0; i < VEC_NATIVE; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
VEC_INLINE nf nf_fnma(nf a, nf b, nf c) { return nf_fma(-a, b, c); }
#endif

#endif
