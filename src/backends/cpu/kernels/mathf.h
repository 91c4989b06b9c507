/* Elementary functions of f32 vectors, without libm: a few units in the last place (ULP) everywhere, infinities, NaN, zeros and
 * denormals as C99 Annex F says.  The bounds that tests/kernels/test_math.c holds stand in docs/numerics.md.
 *
 * Form: reduce the argument exactly, evaluate a polynomial on the rest, put the result together.  The polynomials are minimax fits
 * (Lawson's iteration on Chebyshev bases in f64), rounded to f32.  Argument reduction by constants split into parts with trailing
 * zeros, so that the products are exact without FMA too: W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_MATHF_H
#define TERCEL_BACKENDS_CPU_KERNELS_MATHF_H

#include "backends/cpu/kernels/vec.h"

#define MATHF_LOG2E 0x1.715476p+0f
#define MATHF_LN2_HI 0x1.62e4p-1f /* 15 bits: exact times 8-bit integers */
#define MATHF_LN2_LO 0x1.7f7d1cp-20f
#define MATHF_PI_HI 0x1.921fb6p+1f
#define MATHF_PI_LO -0x1.777a5cp-24f
#define MATHF_HALF_PI_HI 0x1.921fb6p+0f
#define MATHF_HALF_PI_LO -0x1.777a5cp-25f
/* Adding and taking away 1.5 * 2^23 rounds |x| < 2^22 to the nearest integer. */
#define MATHF_ROUNDER 0x1.8p+23f

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1) */
VEC_INLINE vf mathf_poly(vf x, const float *c, int n) {
  vf r = vf_set(c[n - 1]);
  for (int i = n - 2; i >= 0; i--) r = vf_fma(r, x, vf_set(c[i]));
  return r;
}
#define MATHF_POLY(x, ...)                                                                                             \
  mathf_poly(x, (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

/* x * 2^n, rounded once, for integers -252 <= n <= 252 */
VEC_INLINE vf mathf_scale(vf x, vf n) {
#if defined(__AVX512F__)
  return (vf)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  const vi whole = vf_to_i(n), half = whole >> 1;
  return x * vf_pow2(half) * vf_pow2(whole - half);
#endif
}

/* x = n ln 2 + r with |r| <= ln 2 / 2, for |x| < 200 */
typedef struct mathf_exp_parts {
  vf n, r;
} mathf_exp_parts;

VEC_INLINE mathf_exp_parts mathf_exp_reduce(vf x) {
  const vf n = vf_fma(x, vf_set(MATHF_LOG2E), vf_set(MATHF_ROUNDER)) - MATHF_ROUNDER;
  return (mathf_exp_parts){n, vf_fnma(n, vf_set(MATHF_LN2_LO), vf_fnma(n, vf_set(MATHF_LN2_HI), x))};
}

/* e^r - 1 on the reduced range */
VEC_INLINE vf mathf_expm1_reduced(vf r) {
  const vf p = MATHF_POLY(r, 0.5f, 0.1666666567325592f, 0.04166635870933533f, 0.008333389647305012f,
                          0.001394074410200119f, 0.00019845887436531484f);
  return vf_fma(r * r, p, r);
}

/* e^89 is above the largest number, e^-104 below half of the smallest: there the result is infinity or 0 anyway.  NaN stays. */
VEC_INLINE vf mathf_exp_range(vf x) { return vf_min_fast(vf_set(89.0f), vf_max_fast(vf_set(-104.0f), x)); }

VEC_INLINE vf vf_exp(vf x) {
  const mathf_exp_parts a = mathf_exp_reduce(mathf_exp_range(x));
  return mathf_scale(1.0f + mathf_expm1_reduced(a.r), a.n);
}

/* e^x - 1.  Half of the scale is kept back, since 2^128 is no number. */
VEC_INLINE vf vf_expm1(vf x) {
  const mathf_exp_parts a = mathf_exp_reduce(mathf_exp_range(x));
  const vf q = mathf_expm1_reduced(a.r), half_scale = mathf_scale(vf_set(0.5f), a.n);
  const vf r = 2.0f * vf_fma(half_scale, q, half_scale - 0.5f);
  return vf_select(vf_eq(a.n, vf_zero()), q, r);
}

/* u = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for positive normal numbers */
typedef struct mathf_log_parts {
  vf e, f;
} mathf_log_parts;

VEC_INLINE mathf_log_parts mathf_log_reduce(vf u) {
  const vu bits = (vu)u;                       /* unsigned, since lanes that are no positive number wrap here */
  const vi k = (vi)(bits - 0x3f3504f3u) >> 23; /* 0x3f3504f3: sqrt(1/2) */
  return (mathf_log_parts){vf_from_i(k), (vf)(bits - ((vu)k << 23)) - 1.0f};
}

/* log(2^e (1 + f)) + c for a small correction c */
VEC_INLINE vf mathf_log_assemble(vf e, vf f, vf c) {
  const vf p = MATHF_POLY(f, 0.3333331346511841f, -0.25000008940696716f, 0.20002123713493347f, -0.16668005287647247f,
                          0.14219452440738678f, -0.12405340373516083f, 0.11888697743415833f, -0.11677515506744385f,
                          0.067477285861969f);
  const vf z = f * f;
  const vf low = vf_fma(e, vf_set(MATHF_LN2_LO), c);
  const vf tail = vf_fma(f * z, p, low) - 0.5f * z;
  return vf_fma(e, vf_set(MATHF_LN2_HI), f + tail);
}

/* r where 0 < u < infinity; else what log gives there */
VEC_INLINE vf mathf_log_special(vf u, vf r) {
  r = vf_select(vf_lt(u, vf_set(INFINITY)), r, u);
  r = vf_select(vf_lt(u, vf_zero()), vf_set(NAN), r);
  return vf_select(vf_eq(u, vf_zero()), vf_set(-INFINITY), r);
}

VEC_INLINE vf vf_log(vf x) {
  const vm tiny = vf_lt(x, vf_set(0x1p-126f));
  const mathf_log_parts a = mathf_log_reduce(vf_select(tiny, x * 0x1p+23f, x));
  const vf e = a.e - vf_select(tiny, vf_set(23.0f), vf_zero());
  return mathf_log_special(x, mathf_log_assemble(e, a.f, vf_zero()));
}

/* log(1 + x).  u = 1 + x is rounded; what it lost, divided by u, is added to the logarithm. */
VEC_INLINE vf vf_log1p(vf x) {
  const vf u = 1.0f + x;
  const vf lost = vf_select(vf_gt(x, vf_set(1.0f)), 1.0f - (u - x), x - (u - 1.0f));
  const mathf_log_parts a = mathf_log_reduce(u);
  const vf r = mathf_log_special(u, mathf_log_assemble(a.e, a.f, lost / u));
  return vf_select(vf_eq(x, vf_zero()), x, r);
}

/* e^-|x| and 1 + it: what the sigmoid family divides. */
VEC_INLINE vf vf_sigmoid(vf x) {
  const vf e = vf_exp((vf)((vi)x | INT32_MIN));
  return vf_select(vf_lt(x, vf_zero()), e, vf_set(1.0f)) / (1.0f + e);
}

/* max(x, 0) + log1p(e^-|x|) */
VEC_INLINE vf vf_softplus(vf x) {
  const vf e = vf_exp((vf)((vi)x | INT32_MIN)), u = 1.0f + e, lost = e - (u - 1.0f);
  const mathf_log_parts a = mathf_log_reduce(u);
  const vf log1p = mathf_log_assemble(a.e, a.f, lost / u);
  return vf_max_fast(vf_zero(), x) + vf_select(vf_lt(u, vf_set(2.5f)), log1p, vf_zero());
}

/* With E = e^(2|x|) - 1: E / (E + 2).  From 10 on that is 1. */
VEC_INLINE vf vf_tanh(vf x) {
  const vf a = vf_min_fast(vf_set(10.0f), vf_abs(x));
  const mathf_exp_parts t = mathf_exp_reduce(a + a);
  const vf s = vf_pow2(vf_to_i(t.n)), e = vf_fma(s, mathf_expm1_reduced(t.r), s - 1.0f);
  return vf_xor_sign(e / (e + 2.0f), vf_sign_bit(x));
}

/* erf(t) for 0 <= t < 0.93, and erfc(t) above (it goes to 0 beyond 10, as it should in f32; relative accuracy there is poor, absolute
 * accuracy is not) */
VEC_INLINE vf mathf_erf_small(vf t) {
  const vf z = t * t;
  const vf p = MATHF_POLY(z, 0.12837916612625122f, -0.37612631916999817f, 0.11283687502145767f, -0.026858940720558167f,
                          0.005199906881898642f, -0.0008130012429319322f, 8.31677534733899e-05f);
  return vf_fma(t, p, t);
}
VEC_INLINE vf mathf_erfc_large(vf t) {
  const vf q = MATHF_POLY(t, -0.000169203951372765f, 1.1294883489608765f, 0.6334008574485779f, 0.10822036862373352f,
                          -0.025080606341362f, 0.004156250506639481f, -0.0004313926037866622f, 2.0828529159189202e-05f);
  return vf_exp(-q);
}

VEC_INLINE vf vf_erf(vf x) {
  const vf t = vf_abs(x);
  const vf r = vf_select(vf_lt(t, vf_set(0.92f)), mathf_erf_small(t), 1.0f - mathf_erfc_large(t));
  return vf_xor_sign(r, vf_sign_bit(x));
}

/* x / 2 * (1 + erf(x / sqrt 2)); for negative x 1 + erf is erfc(|x| / sqrt 2), without cancellation. */
VEC_INLINE vf vf_gelu(vf x) {
  const vf t = vf_abs(x) * 0x1.6a09e6p-1f;
  const vf erf = mathf_erf_small(t), erfc = mathf_erfc_large(t);
  const vm small = vf_lt(t, vf_set(0.92f));
  const vf below = vf_select(small, 1.0f - erf, erfc);
  const vf above = 1.0f + vf_select(small, erf, 1.0f - erfc);
  return 0.5f * x * vf_select(vf_lt(x, vf_zero()), below, above);
}

VEC_INLINE vf vf_silu(vf x, vf alpha) { return x * vf_sigmoid(alpha * x); }

/* 1 + tanh(u) is 2 sigmoid(2u). */
VEC_INLINE vf vf_gelu_tanh(vf x) {
  const vf u = x * vf_fma(x * x, vf_set(0.07135481282989f), vf_set(1.5957691216057308f));
  return x * vf_sigmoid(u);
}

/* With w = e^x: tanh(log(1 + w)) = (w^2 + 2w) / (w^2 + 2w + 2).  From 20 on that is 1. */
VEC_INLINE vf vf_mish(vf x) {
  const vf w = vf_exp(vf_min_fast(vf_set(20.0f), x)), s = w * (w + 2.0f);
  return x * (s / (s + 2.0f));
}

/* ---- circular functions -------------------------------------------------------------------------------------------- */

/* x = q pi/2 + r with |r| <= pi/4 (a little more at ties); q modulo 4 counts */
typedef struct mathf_angle {
  vf r;
  vi q;
} mathf_angle;

/* Beyond this, n has more bits than the split constants leave room for. */
#define MATHF_ANGLE_LIMIT 12800.0f

/* One large angle: x = m 2^k is multiplied by those bits of 2/pi that matter, in integers, and the fraction kept.
 * M. Payne and R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983. */
static inline float mathf_reduce_large(float x, int32_t *quadrant) {
  static const uint64_t two_over_pi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                         0xfe5163abdebbc561};
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (bits >= 0x7f800000) return NAN;
  const uint64_t m = (bits & 0x7fffff) | 0x800000;
  const int k = (int)(bits >> 23) - 150; /* -10 .. 104 */
  const int skip = k > 2 ? k - 2 : 0;    /* these bits of 2/pi give multiples of 4 */
  const uint64_t *word = two_over_pi + skip / 64;
  const int shift = skip % 64;
  const uint64_t high = shift ? word[0] << shift | word[1] >> (64 - shift) : word[0];
  const uint64_t low = shift ? word[1] << shift | word[2] >> (64 - shift) : word[1];
  /* m * (96 bits), scaled so that the point stands after bit `fraction` */
  __extension__ typedef unsigned __int128 u128;
  const u128 product = (u128)m * high * ((u128)1 << 32) + (u128)m * (low >> 32);
  const int fraction = 96 - (k - skip);
  const u128 left = product << (126 - fraction); /* 2 bits of quadrant, then the fraction; what is above falls out */
  uint64_t top = (uint64_t)(left >> 64);
  int32_t q = (int32_t)(top >> 62);
  const uint64_t rest = (uint64_t)(left >> 62); /* the fraction's first 64 bits */
  const bool up = rest >> 63;
  *quadrant = q + up;
  return (float)((double)(int64_t)rest * 0x1p-64 * 1.57079632679489661923);
}

/* x >= 0 or NaN */
VEC_INLINE mathf_angle mathf_reduce_angle(vf x) {
  const vf n = vf_fma(x, vf_set(0x1.45f306p-1f), vf_set(MATHF_ROUNDER)) - MATHF_ROUNDER;
  vf r = vf_fnma(n, vf_set(0x1.92p+0f), x);
  r = vf_fnma(n, vf_set(0x1.fb4p-12f), r);
  r = vf_fnma(n, vf_set(0x1.444p-24f), r);
  r = vf_fnma(n, vf_set(0x1.68cp-39f), r);
  r = vf_fnma(n, vf_set(0x1.1a6264p-54f), r);
  mathf_angle a = {r, vf_to_i(n)};
  const vm large = vf_gt(x, vf_set(MATHF_ANGLE_LIMIT));
  if (vm_any(large)) {
    const uint32_t lanes = vm_bits(large);
    for (int i = 0; i < TERCEL_VEC; i++) {
      if (!(lanes >> i & 1)) continue;
      int32_t q = 0;
      a.r[i] = mathf_reduce_large(x[i], &q);
      a.q[i] = q;
    }
  }
  return a;
}

VEC_INLINE vf mathf_sin_reduced(vf r) {
  const vf z = r * r;
  const vf p =
      MATHF_POLY(z, -0.1666666716337204f, 0.008333329111337662f, -0.00019839289598166943f, 2.717874622248928e-06f);
  return vf_fma(r * z, p, r);
}
VEC_INLINE vf mathf_cos_reduced(vf r) {
  const vf z = r * r;
  const vf p =
      MATHF_POLY(z, 0.0416666679084301f, -0.0013888883404433727f, 2.479947215761058e-05f, -2.720617828799732e-07f);
  return vf_fma(z * z, p, 1.0f - 0.5f * z);
}
/* Bit 1 of q: the half turn that flips the sign. */
VEC_INLINE vi mathf_half_turn(vi q) { return (q & 2) << 30; }

VEC_INLINE vf vf_sin(vf x) {
  const mathf_angle a = mathf_reduce_angle(vf_abs(x));
  const vm odd = vi_eq(a.q & 1, vi_set(1));
  const vf r = vf_select(odd, mathf_cos_reduced(a.r), mathf_sin_reduced(a.r));
  return vf_xor_sign(r, mathf_half_turn(a.q) ^ vf_sign_bit(x));
}
VEC_INLINE vf vf_cos(vf x) {
  const mathf_angle a = mathf_reduce_angle(vf_abs(x));
  const vm odd = vi_eq(a.q & 1, vi_set(1));
  const vf r = vf_select(odd, mathf_sin_reduced(a.r), mathf_cos_reduced(a.r));
  return vf_xor_sign(r, mathf_half_turn(a.q + 1));
}
/* sin / cos, and -cos / sin in odd quadrants */
VEC_INLINE vf vf_tan(vf x) {
  const mathf_angle a = mathf_reduce_angle(vf_abs(x));
  const vm odd = vi_eq(a.q & 1, vi_set(1));
  const vf sin = mathf_sin_reduced(a.r), cos = mathf_cos_reduced(a.r);
  const vf r = vf_select(odd, -cos, sin) / vf_select(odd, sin, cos);
  return vf_xor_sign(r, vf_sign_bit(x));
}

/* asin(t) for 0 <= t <= 1/2, z = t^2 */
VEC_INLINE vf mathf_asin_reduced(vf t, vf z) {
  const vf p = MATHF_POLY(z, 0.16666659712791443f, 0.07500510662794113f, 0.04451572149991989f, 0.031817615032196045f,
                          0.014402598142623901f, 0.037565212696790695f);
  return vf_fma(t * z, p, t);
}
/* Above 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). */
VEC_INLINE vf vf_asin(vf x) {
  const vf a = vf_abs(x);
  const vm small = vf_le(a, vf_set(0.5f));
  const vf z = vf_select(small, a * a, 0.5f - 0.5f * a);
  const vf r = mathf_asin_reduced(vf_select(small, a, vf_sqrt(z)), z);
  const vf far = MATHF_HALF_PI_HI - (2.0f * r - MATHF_HALF_PI_LO);
  return vf_xor_sign(vf_select(small, r, far), vf_sign_bit(x));
}
VEC_INLINE vf vf_acos(vf x) {
  const vf a = vf_abs(x);
  const vm small = vf_le(a, vf_set(0.5f)), negative = vf_lt(x, vf_zero());
  const vf z = vf_select(small, a * a, 0.5f - 0.5f * a);
  const vf r = mathf_asin_reduced(vf_select(small, a, vf_sqrt(z)), z);
  const vf near = MATHF_HALF_PI_HI - (vf_xor_sign(r, vf_sign_bit(x)) - MATHF_HALF_PI_LO);
  const vf far = vf_select(negative, MATHF_PI_HI - (2.0f * r - MATHF_PI_LO), 2.0f * r);
  return vf_select(small, near, far);
}

/* atan(t) for 0 <= t <= 1 */
VEC_INLINE vf mathf_atan_reduced(vf t) {
  const vf z = t * t;
  const vf p = MATHF_POLY(z, -0.33333301544189453f, 0.19998638331890106f, -0.1426524519920349f, 0.10957576334476471f,
                          -0.08419458568096161f, 0.05823454260826111f, -0.031455691903829575f, 0.011064435355365276f,
                          -0.0018272115848958492f);
  return vf_fma(t * z, p, t);
}
VEC_INLINE vf vf_atan(vf x) {
  const vf a = vf_abs(x);
  const vm large = vf_gt(a, vf_set(1.0f));
  const vf r = mathf_atan_reduced(vf_select(large, 1.0f / a, a));
  const vf far = MATHF_HALF_PI_HI - (r - MATHF_HALF_PI_LO);
  return vf_xor_sign(vf_select(large, far, r), vf_sign_bit(x));
}
/* The angle of the point (x, y). */
VEC_INLINE vf vf_atan2(vf y, vf x) {
  const vf ax = vf_abs(x), ay = vf_abs(y);
  const vm steep = vf_gt(ay, ax);
  const vf small = vf_select(steep, ax, ay), large = vf_select(steep, ay, ax);
  vf t = small / large;
  t = vf_select(vf_eq(small, large), vf_set(1.0f), t);  /* infinity / infinity */
  t = vf_select(vf_eq(small, vf_zero()), vf_zero(), t); /* 0 / 0 */
  vf r = mathf_atan_reduced(t);
  r = vf_select(steep, MATHF_HALF_PI_HI - (r - MATHF_HALF_PI_LO), r);
  r = vf_select(vi_lt((vi)x, vi_set(0)), MATHF_PI_HI - (r - MATHF_PI_LO), r);
  r = vf_xor_sign(r, vf_sign_bit(y));
  return vf_select(vm_or(vf_isnan(x), vf_isnan(y)), x + y, r);
}

/* ---- hyperbolic functions ------------------------------------------------------------------------------------------ */

/* With E = e^|x| - 1: (E + E / (E + 1)) / 2; e^|x| / 2 from 10 on, as the product of two halves that don't overflow early. */
VEC_INLINE vf vf_sinh(vf x) {
  const vf a = vf_abs(x), e = vf_expm1(a), root = vf_exp(0.5f * a);
  const vf r = vf_select(vf_lt(a, vf_set(10.0f)), 0.5f * (e + e / (e + 1.0f)), 0.5f * root * root);
  return vf_xor_sign(r, vf_sign_bit(x));
}
VEC_INLINE vf vf_cosh(vf x) {
  const vf a = vf_abs(x), e = vf_exp(a), root = vf_exp(0.5f * a);
  return vf_select(vf_lt(a, vf_set(10.0f)), 0.5f * (e + 1.0f / e), 0.5f * root * root);
}
/* log1p(a + a^2 / (1 + sqrt(a^2 + 1))); where a^2 would overflow: log(a) + ln 2 */
VEC_INLINE vf vf_asinh(vf x) {
  const vf a = vf_abs(x);
  const vm large = vf_gt(a, vf_set(0x1p+30f));
  const vf b = vf_select(large, vf_zero(), a), z = b * b;
  const vf near = vf_log1p(b + z / (1.0f + vf_sqrt(z + 1.0f)));
  const vf r = vf_select(large, vf_log(a) + 0x1.62e43p-1f, near);
  return vf_xor_sign(vf_select(vf_isnan(x), x, r), vf_sign_bit(x));
}
/* With t = x - 1: log1p(t + sqrt(2t + t^2)) */
VEC_INLINE vf vf_acosh(vf x) {
  const vm large = vf_gt(x, vf_set(0x1p+30f));
  const vf t = vf_select(large, vf_zero(), x - 1.0f);
  const vf near = vf_log1p(t + vf_sqrt(vf_fma(t, t, t + t)));
  const vf r = vf_select(large, vf_log(x) + 0x1.62e43p-1f, near);
  return vf_select(vf_lt(x, vf_set(1.0f)), vf_set(NAN), r);
}
/* log1p(2a / (1 - a)) / 2 */
VEC_INLINE vf vf_atanh(vf x) {
  const vf a = vf_abs(x);
  return vf_xor_sign(0.5f * vf_log1p((a + a) / (1.0f - a)), vf_sign_bit(x));
}

/* ---- power --------------------------------------------------------------------------------------------------------- */

/* Half a vector of f32, widened: the logarithm needs more digits than f32 has, since the exponent multiplies its error. */
typedef double mathf_d __attribute__((vector_size(4 * TERCEL_VEC)));
typedef float mathf_half __attribute__((vector_size(2 * TERCEL_VEC)));
typedef union mathf_halves {
  vf whole;
  mathf_half half[2];
} mathf_halves;

/* log2(2^e (1 + f)) in f64: log(1 + f) = 2 artanh(s) with s = f / (2 + f), |s| <= 0.1716; the series' rest is below 2^-39. */
VEC_INLINE mathf_d mathf_log2_wide(mathf_half e, mathf_half f) {
  const mathf_d x = __builtin_convertvector(f, mathf_d), s = x / (x + 2.0), z = s * s;
  mathf_d p = z * 0.22195308321368668 + 0.2623081892525388; /* 2 / ln 2 / 13, / 11, ... */
  p = z * p + 0.3205988979753252;
  p = z * p + 0.4121985831111324;
  p = z * p + 0.5770780163555854;
  p = z * p + 0.9617966939259757;
  p = z * p + 2.885390081777927;
  return s * p + __builtin_convertvector(e, mathf_d);
}

/* 2^(b log2 x) for x >= 0: y = b log2 x = n + f, with the fraction f taken in f64 */
VEC_INLINE vf mathf_pow_positive(vf x, vf b) {
  const vm tiny = vf_lt(x, vf_set(0x1p-126f));
  const mathf_log_parts u = mathf_log_reduce(vf_select(tiny, x * 0x1p+23f, x));
  const mathf_halves e = {u.e - vf_select(tiny, vf_set(23.0f), vf_zero())}, f = {u.f}, exponent = {b};
  mathf_d wide[2];
  mathf_halves y, n, rest;
  for (int i = 0; i < 2; i++) {
    wide[i] = mathf_log2_wide(e.half[i], f.half[i]) * __builtin_convertvector(exponent.half[i], mathf_d);
    y.half[i] = __builtin_convertvector(wide[i], mathf_half);
  }
  /* log2 of 0 and of infinity */
  const vf edge = vf_select(vf_eq(x, vf_zero()), vf_set(-INFINITY), x) * b;
  const vm inside = vm_and(vf_gt(x, vf_zero()), vf_lt(x, vf_set(INFINITY)));
  n.whole = vf_min_fast(vf_set(160.0f), vf_max_fast(vf_set(-160.0f), vf_select(inside, y.whole, edge)));
  n.whole = (n.whole + MATHF_ROUNDER) - MATHF_ROUNDER;
  for (int i = 0; i < 2; i++)
    rest.half[i] = __builtin_convertvector(wide[i] - __builtin_convertvector(n.half[i], mathf_d), mathf_half);
  const vf r = vf_select(inside, vf_min_fast(vf_set(1.0f), vf_max_fast(vf_set(-1.0f), rest.whole)), vf_zero());
  const vf p = MATHF_POLY(r, 0.6931471824645996f, 0.24022650718688965f, 0.05550410971045494f, 0.009618036448955536f,
                          0.0013333429815247655f, 0.00015467364573851228f, 1.5315199561882764e-05f);
  return mathf_scale(vf_fma(r, p, vf_set(1.0f)), n.whole);
}

/* C99 F.9.4.4: 1 where the base is 1, or -1 with an infinite exponent, or the exponent 0, even for NaN; a negative base wants an integer. */
VEC_INLINE vf vf_pow(vf a, vf b) {
  const vf x = vf_abs(a), whole = vf_trunc(b), half = 0.5f * b;
  const vm odd = vm_and(vf_eq(whole, b), vf_ne(vf_trunc(half), half));
  const vm negative = vi_lt((vi)a, vi_set(0)), infinite = vf_eq(vf_abs(b), vf_set(INFINITY));
  vf r = mathf_pow_positive(x, b);
  r = vf_xor_sign(r, (vi)vf_select(vm_and(negative, odd), vf_set(-0.0f), vf_zero()));
  const vm fraction = vf_ne(whole, b), below = vm_and(vf_lt(a, vf_zero()), vf_gt(a, vf_set(-INFINITY)));
  r = vf_select(vm_and(below, fraction), vf_set(NAN), r);
  r = vf_select(vm_or(vf_isnan(a), vf_isnan(b)), a + b, r);
  const vm one = vm_or(vf_eq(a, vf_set(1.0f)), vm_and(vf_eq(x, vf_set(1.0f)), infinite));
  return vf_select(vm_or(one, vf_eq(b, vf_zero())), vf_set(1.0f), r);
}

#endif
