/* Vectors for kernels, with the width as a parameter.
 *
 * TERCEL_VEC lanes of f32: 4, 8 or 16; by default what one register of the level holds.  A wider one than the register is made of
 * several (slowly: that is for tests, which build the 16-lane source with AVX2 and with SSE2 instructions).
 *
 *   vf, vi, vu   f32, int32, uint32: + - * / & | ^ ~ << >> on them are C's own (GNU vector types); (vi)x reads the bits
 *   vm           one truth value a lane: made by vf_lt and friends, used by vf_select, combined by vm_and, vm_or, vm_not
 *   v16          16 virtual lanes of f32, whatever TERCEL_VEC is: what reductions accumulate in
 *
 * Loads and stores need no alignment.  `_n` forms touch only the first n lanes (0 <= n <= TERCEL_VEC; more counts as all): nothing
 * beyond is read or written.
 *
 * Numeric promise: +, -, *, / and sqrt round once to nearest even; vf_fma is a multiply and an add, or one rounding in files that ask for it
 * (VEC_FUSED, vec_isa.h) at levels with FMA; no approximations; denormals are kept; NaN as said at each function.  Reductions over v16 run in one fixed tree. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_VEC_H
#define TERCEL_BACKENDS_CPU_KERNELS_VEC_H

#include <math.h> /* INFINITY, NAN: no calls */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/kernels/vec_isa.h"

#ifndef TERCEL_VEC
#define TERCEL_VEC VEC_NATIVE
#endif
_Static_assert(TERCEL_VEC % VEC_NATIVE == 0 && TERCEL_VEC <= 16, "a vector is made of whole registers");

/* The name of a symbol at the level being compiled: TERCEL_LEVEL_NAME(tercel_softmax_kernels) is tercel_softmax_kernels_avx2. */
#define VEC_JOIN2(a, b) a##_##b
#define VEC_JOIN(a, b) VEC_JOIN2(a, b)
#define TERCEL_LEVEL_NAME(name) VEC_JOIN(name, TERCEL_LEVEL)

/* Before a loop: its iterations may run in any order, though the compiler can't see it (a result may lie on an operand). */
#if defined(__clang__)
#define VEC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define VEC_INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef float vf __attribute__((vector_size(4 * TERCEL_VEC)));
typedef int32_t vi __attribute__((vector_size(4 * TERCEL_VEC)));
typedef uint32_t vu __attribute__((vector_size(4 * TERCEL_VEC)));

enum { VEC_PARTS = TERCEL_VEC / VEC_NATIVE };

/* A vector as the registers it is made of. */
typedef union vec_parts {
  vf f;
  vi i;
  nf part[VEC_PARTS];
  ni ipart[VEC_PARTS];
} vec_parts;

/* ---- make, load, store --------------------------------------------------------------------------------------------- */

VEC_INLINE vf vf_set(float x) {
#if TERCEL_VEC == 16
  return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif TERCEL_VEC == 8
  return (vf){x, x, x, x, x, x, x, x};
#else
  return (vf){x, x, x, x};
#endif
}
VEC_INLINE vi vi_set(int32_t x) { return (vi){0} + x; }
VEC_INLINE vf vf_zero(void) { return (vf){0}; }
/* 0, 1, 2, ... */
VEC_INLINE vi vi_iota(void) {
#if TERCEL_VEC == 16
  return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif TERCEL_VEC == 8
  return (vi){0, 1, 2, 3, 4, 5, 6, 7};
#else
  return (vi){0, 1, 2, 3};
#endif
}

VEC_INLINE vf vf_load(const float *p) {
  vf r;
  memcpy(&r, p, sizeof r);
  return r;
}
VEC_INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
VEC_INLINE vi vi_load(const int32_t *p) {
  vi r;
  memcpy(&r, p, sizeof r);
  return r;
}
VEC_INLINE void vi_store(int32_t *p, vi a) { memcpy(p, &a, sizeof a); }

/* The lanes beyond the first n come from `rest`. */
VEC_INLINE vf vf_load_n_or(const float *p, int64_t n, vf rest) {
#if defined(__AVX512F__)
  const __mmask16 first = (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1);
  return (vf)_mm512_mask_loadu_ps((__m512)rest, first, p);
#elif TERCEL_VEC == 8 && defined(__AVX2__)
  const vi first = vi_iota() < (int32_t)(n > 8 ? 8 : n);
  return nf_select(first, (vf)_mm256_maskload_ps(p, (__m256i)first), rest);
#else
  for (int i = 0; i < TERCEL_VEC; i++)
    if (i < n) rest[i] = p[i];
  return rest;
#endif
}
VEC_INLINE vf vf_load_n(const float *p, int64_t n) { return vf_load_n_or(p, n, vf_zero()); }

VEC_INLINE void vf_store_n(float *p, vf a, int64_t n) {
  if (n >= TERCEL_VEC) {
    vf_store(p, a);
    return;
  }
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)a);
#elif TERCEL_VEC == 8 && defined(__AVX2__)
  /* In pieces of 4, 2 and 1: a masked store takes tens of cycles on AMD's processors. */
  __m128 rest = _mm256_castps256_ps128((__m256)a);
  if (n & 4) {
    _mm_storeu_ps(p, rest);
    rest = _mm256_extractf128_ps((__m256)a, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64 *)(void *)p, rest);
    rest = _mm_movehl_ps(rest, rest);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, rest);
#else
  for (int i = 0; i < TERCEL_VEC; i++)
    if (i < n) p[i] = a[i];
#endif
}

/* ---- masks --------------------------------------------------------------------------------------------------------- */

/* Comparisons with NaN are false, but for vf_ne, which is true. */
#if defined(__AVX512F__)

typedef __mmask16 vm;
VEC_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
VEC_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LE_OQ); }
VEC_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
VEC_INLINE vm vf_ne(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NEQ_UQ); }
VEC_INLINE vm vi_lt(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
VEC_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
VEC_INLINE vm vm_and(vm a, vm b) { return (vm)(a & b); }
VEC_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
VEC_INLINE vm vm_not(vm a) { return (vm)~a; }
VEC_INLINE bool vm_any(vm a) { return a != 0; }
/* Bit i: lane i. */
VEC_INLINE uint32_t vm_bits(vm a) { return a; }
VEC_INLINE vf vf_select(vm m, vf a, vf b) { return (vf)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a); }
VEC_INLINE vi vi_select(vm m, vi a, vi b) { return (vi)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a); }

#else

typedef vi vm;
VEC_INLINE vm vf_lt(vf a, vf b) { return a < b; }
VEC_INLINE vm vf_le(vf a, vf b) { return a <= b; }
VEC_INLINE vm vf_eq(vf a, vf b) { return a == b; }
VEC_INLINE vm vf_ne(vf a, vf b) { return a != b; }
VEC_INLINE vm vi_lt(vi a, vi b) { return a < b; }
VEC_INLINE vm vi_eq(vi a, vi b) { return a == b; }
VEC_INLINE vm vm_and(vm a, vm b) { return a & b; }
VEC_INLINE vm vm_or(vm a, vm b) { return a | b; }
VEC_INLINE vm vm_not(vm a) { return ~a; }
VEC_INLINE uint32_t vm_bits(vm a) {
  uint32_t bits = 0;
#if defined(__AVX2__)
  for (int i = 0; i < VEC_PARTS; i++)
    bits |= (uint32_t)_mm256_movemask_ps((__m256)((vec_parts){.i = a}).part[i]) << VEC_NATIVE * i;
#elif defined(__SSE2__)
  for (int i = 0; i < VEC_PARTS; i++)
    bits |= (uint32_t)_mm_movemask_ps((__m128)((vec_parts){.i = a}).part[i]) << VEC_NATIVE * i;
#else
  for (int i = 0; i < TERCEL_VEC; i++) bits |= (uint32_t)(a[i] & 1) << i;
#endif
  return bits;
}
VEC_INLINE bool vm_any(vm a) { return vm_bits(a) != 0; }
VEC_INLINE vf vf_select(vm m, vf a, vf b) {
  const vec_parts mask = {.i = m}, x = {.f = a};
  vec_parts y = {.f = b};
  for (int i = 0; i < VEC_PARTS; i++) y.part[i] = nf_select(mask.ipart[i], x.part[i], y.part[i]);
  return y.f;
}
VEC_INLINE vi vi_select(vm m, vi a, vi b) { return (vi)vf_select(m, (vf)a, (vf)b); }

#endif

VEC_INLINE vm vf_gt(vf a, vf b) { return vf_lt(b, a); }
VEC_INLINE vm vf_ge(vf a, vf b) { return vf_le(b, a); }
VEC_INLINE vm vf_isnan(vf a) { return vf_ne(a, a); }

/* ---- arithmetic ---------------------------------------------------------------------------------------------------- */

/* a * b + c */
VEC_INLINE vf vf_fma(vf a, vf b, vf c) {
  const vec_parts x = {.f = a}, y = {.f = b};
  vec_parts z = {.f = c};
  for (int i = 0; i < VEC_PARTS; i++) z.part[i] = nf_fma(x.part[i], y.part[i], z.part[i]);
  return z.f;
}
/* c - a * b */
VEC_INLINE vf vf_fnma(vf a, vf b, vf c) {
  const vec_parts x = {.f = a}, y = {.f = b};
  vec_parts z = {.f = c};
  for (int i = 0; i < VEC_PARTS; i++) z.part[i] = nf_fnma(x.part[i], y.part[i], z.part[i]);
  return z.f;
}
/* a < b ? a : b, and a > b ? a : b: b when either is NaN, so vf_max_fast(zero, x) and vf_min_fast(limit, x) keep a NaN x. */
VEC_INLINE vf vf_min_fast(vf a, vf b) {
  const vec_parts x = {.f = a};
  vec_parts y = {.f = b};
  for (int i = 0; i < VEC_PARTS; i++) y.part[i] = nf_min(x.part[i], y.part[i]);
  return y.f;
}
VEC_INLINE vf vf_max_fast(vf a, vf b) {
  const vec_parts x = {.f = a};
  vec_parts y = {.f = b};
  for (int i = 0; i < VEC_PARTS; i++) y.part[i] = nf_max(x.part[i], y.part[i]);
  return y.f;
}
/* NaN if either is. */
VEC_INLINE vf vf_min(vf a, vf b) { return vf_select(vf_isnan(a), a, vf_min_fast(a, b)); }
VEC_INLINE vf vf_max(vf a, vf b) { return vf_select(vf_isnan(a), a, vf_max_fast(a, b)); }
VEC_INLINE vf vf_sqrt(vf a) {
  vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) x.part[i] = nf_sqrt(x.part[i]);
  return x.f;
}
/* To nearest, halves to even. */
VEC_INLINE vf vf_round(vf a) {
  vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) x.part[i] = nf_round(x.part[i]);
  return x.f;
}
VEC_INLINE vf vf_floor(vf a) {
  vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) x.part[i] = nf_floor(x.part[i]);
  return x.f;
}
VEC_INLINE vf vf_ceil(vf a) {
  vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) x.part[i] = nf_ceil(x.part[i]);
  return x.f;
}
VEC_INLINE vf vf_trunc(vf a) {
  vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) x.part[i] = nf_trunc(x.part[i]);
  return x.f;
}
VEC_INLINE vf vf_abs(vf a) { return (vf)((vi)a & INT32_MAX); }
VEC_INLINE vf vf_neg(vf a) { return (vf)((vi)a ^ INT32_MIN); }
/* The sign bit of a in an otherwise empty lane; `vf_xor_sign` puts it on a value. */
VEC_INLINE vi vf_sign_bit(vf a) { return (vi)a & INT32_MIN; }
VEC_INLINE vf vf_xor_sign(vf a, vi sign) { return (vf)((vi)a ^ sign); }

/* ---- reorder ------------------------------------------------------------------------------------------------------- */

/* Of the lanes of a, then b: the even ones, and the odd ones. */
#if TERCEL_VEC == 16
VEC_INLINE vf vf_even(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
VEC_INLINE vf vf_odd(vf a, vf b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#elif TERCEL_VEC == 8
VEC_INLINE vf vf_even(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
VEC_INLINE vf vf_odd(vf a, vf b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
#else
VEC_INLINE vf vf_even(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
VEC_INLINE vf vf_odd(vf a, vf b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }
#endif

/* a0 b0 a1 b1 ...: the first vector of it, and the second. */
#if TERCEL_VEC == 16
VEC_INLINE vf vf_zip_low(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
VEC_INLINE vf vf_zip_high(vf a, vf b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#elif TERCEL_VEC == 8
VEC_INLINE vf vf_zip_low(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
VEC_INLINE vf vf_zip_high(vf a, vf b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#else
VEC_INLINE vf vf_zip_low(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
VEC_INLINE vf vf_zip_high(vf a, vf b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#endif

/* ---- convert ------------------------------------------------------------------------------------------------------- */

/* To nearest even; INT32_MIN where out of range or NaN on x86. */
VEC_INLINE vi vf_to_i(vf a) {
  vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) x.ipart[i] = nf_to_i(x.part[i]);
  return x.i;
}
VEC_INLINE vf vf_from_i(vi a) { return __builtin_convertvector(a, vf); }
/* 2^n for -126 <= n <= 127 */
VEC_INLINE vf vf_pow2(vi n) { return (vf)((n + 127) << 23); }

/* TERCEL_VEC narrow floats at p, widened; and f32 narrowed to nearest even. */
VEC_INLINE vf vf_load_f16(const uint16_t *p) {
  vec_parts x;
  for (int i = 0; i < VEC_PARTS; i++) x.part[i] = nf_from_f16(p + VEC_NATIVE * i);
  return x.f;
}
VEC_INLINE void vf_store_f16(uint16_t *p, vf a) {
  const vec_parts x = {.f = a};
  for (int i = 0; i < VEC_PARTS; i++) nf_to_f16(p + VEC_NATIVE * i, x.part[i]);
}

typedef uint16_t vec_u16 __attribute__((vector_size(2 * TERCEL_VEC)));

VEC_INLINE vf vf_load_bf16(const uint16_t *p) {
  vec_u16 h;
  memcpy(&h, p, sizeof h);
  return (vf)(__builtin_convertvector(h, vu) << 16);
}
VEC_INLINE void vf_store_bf16(uint16_t *p, vf a) {
  const vu bits = (vu)a, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const vu quiet = (bits >> 16) | 0x40;
  const vec_u16 h = __builtin_convertvector((vu)vi_select(vf_isnan(a), (vi)quiet, (vi)rounded), vec_u16);
  memcpy(p, &h, sizeof h);
}

/* The first n of them; the other lanes are 0. */
VEC_INLINE vf vf_load_f16_n(const uint16_t *p, int64_t n) {
  uint16_t h[TERCEL_VEC] = {0};
  memcpy(h, p, 2 * (size_t)(n < TERCEL_VEC ? n : TERCEL_VEC));
  return vf_load_f16(h);
}
VEC_INLINE void vf_store_f16_n(uint16_t *p, vf a, int64_t n) {
  uint16_t h[TERCEL_VEC];
  vf_store_f16(h, a);
  memcpy(p, h, 2 * (size_t)(n < TERCEL_VEC ? n : TERCEL_VEC));
}
VEC_INLINE vf vf_load_bf16_n(const uint16_t *p, int64_t n) {
  uint16_t h[TERCEL_VEC] = {0};
  memcpy(h, p, 2 * (size_t)(n < TERCEL_VEC ? n : TERCEL_VEC));
  return vf_load_bf16(h);
}
VEC_INLINE void vf_store_bf16_n(uint16_t *p, vf a, int64_t n) {
  uint16_t h[TERCEL_VEC];
  vf_store_bf16(h, a);
  memcpy(p, h, 2 * (size_t)(n < TERCEL_VEC ? n : TERCEL_VEC));
}

/* ---- 16 virtual lanes ---------------------------------------------------------------------------------------------- */

enum { V16_PARTS = 16 / TERCEL_VEC };

/* Lane l lies in part[l / TERCEL_VEC]. */
typedef struct v16 {
  vf part[V16_PARTS];
} v16;

VEC_INLINE v16 v16_set(float x) {
  v16 r;
  for (int i = 0; i < V16_PARTS; i++) r.part[i] = vf_set(x);
  return r;
}
VEC_INLINE v16 v16_load(const float *p) {
  v16 r;
  for (int i = 0; i < V16_PARTS; i++) r.part[i] = vf_load(p + TERCEL_VEC * i);
  return r;
}
VEC_INLINE void v16_store(float *p, v16 a) {
  for (int i = 0; i < V16_PARTS; i++) vf_store(p + TERCEL_VEC * i, a.part[i]);
}
VEC_INLINE void v16_store_n(float *p, v16 a, int64_t n) {
  for (int i = 0; i < V16_PARTS; i++)
    if (n > TERCEL_VEC * i) vf_store_n(p + TERCEL_VEC * i, a.part[i], n - TERCEL_VEC * i);
}
/* The first n (0 .. 16) lanes from p, the others `rest`. */
VEC_INLINE v16 v16_load_n_or(const float *p, int64_t n, float rest) {
  v16 r;
  for (int i = 0; i < V16_PARTS; i++) {
    const int64_t left = n - TERCEL_VEC * i;
    r.part[i] = vf_load_n_or(p + (left > 0 ? TERCEL_VEC * i : 0), left > 0 ? left : 0, vf_set(rest));
  }
  return r;
}
VEC_INLINE v16 v16_add(v16 a, v16 b) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] += b.part[i];
  return a;
}
VEC_INLINE v16 v16_sub(v16 a, v16 b) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] -= b.part[i];
  return a;
}
VEC_INLINE v16 v16_mul(v16 a, v16 b) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] *= b.part[i];
  return a;
}
VEC_INLINE v16 v16_fma(v16 a, v16 b, v16 c) {
  for (int i = 0; i < V16_PARTS; i++) c.part[i] = vf_fma(a.part[i], b.part[i], c.part[i]);
  return c;
}
VEC_INLINE v16 v16_min(v16 a, v16 b) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] = vf_min(a.part[i], b.part[i]);
  return a;
}
VEC_INLINE v16 v16_max(v16 a, v16 b) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] = vf_max(a.part[i], b.part[i]);
  return a;
}
VEC_INLINE v16 v16_abs(v16 a) {
  for (int i = 0; i < V16_PARTS; i++) a.part[i] = vf_abs(a.part[i]);
  return a;
}

/* The fixed tree: lanes l and l + 8, then l and l + 4, + 2, + 1.  The same numbers whatever TERCEL_VEC is. */

typedef float vec_f4 __attribute__((vector_size(16)));
typedef int32_t vec_i4 __attribute__((vector_size(16)));

typedef struct v16_quarters {
  vec_f4 q[4];
} v16_quarters;

VEC_INLINE v16_quarters v16_split(v16 a) {
  float x[16];
  v16_quarters r;
  v16_store(x, a);
  memcpy(&r, x, sizeof r);
  return r;
}
VEC_INLINE float v16_sum(v16 a) {
  const v16_quarters x = v16_split(a);
  const vec_f4 s = (x.q[0] + x.q[2]) + (x.q[1] + x.q[3]);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
VEC_INLINE float v16_product(v16 a) {
  const v16_quarters x = v16_split(a);
  const vec_f4 s = (x.q[0] * x.q[2]) * (x.q[1] * x.q[3]);
  return (s[0] * s[2]) * (s[1] * s[3]);
}
/* The larger (smaller) of two, NaN if either is. */
VEC_INLINE vec_f4 vec_larger4(vec_f4 a, vec_f4 b) {
  const vec_i4 take = (a > b) | (a != a);
  return (vec_f4)((take & (vec_i4)a) | (~take & (vec_i4)b));
}
VEC_INLINE float vec_larger(float a, float b) { return a > b || a != a ? a : b; }
VEC_INLINE float vec_smaller(float a, float b) { return a < b || a != a ? a : b; }
/* NaN if any lane is. */
VEC_INLINE float v16_largest(v16 a) {
  const v16_quarters x = v16_split(a);
  const vec_f4 m = vec_larger4(vec_larger4(x.q[0], x.q[2]), vec_larger4(x.q[1], x.q[3]));
  return vec_larger(vec_larger(m[0], m[2]), vec_larger(m[1], m[3]));
}
VEC_INLINE float v16_smallest(v16 a) {
  const v16_quarters x = v16_split(a);
  const vec_f4 m = -vec_larger4(vec_larger4(-x.q[0], -x.q[2]), vec_larger4(-x.q[1], -x.q[3]));
  return vec_smaller(vec_smaller(m[0], m[2]), vec_smaller(m[1], m[3]));
}

#endif
