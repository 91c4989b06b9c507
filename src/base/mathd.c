/* See mathd.h.  Arguments are reduced exactly or with a second f64 that holds the rest, then series follow whose coefficients are those of
 * Taylor, cut where the next term is below half a unit in the last place. */
#include "base/mathd.h"

#include <math.h> /* sqrt, fabs, copysign, isnan: exact */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Constants as the nearest f64 and what is left; ln 2 and pi/2 also with trailing zeros, so that small integers times them are exact
 * (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980). */
static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33, log2_e = 0x1.71547652b82fep+0;
static const double half_pi = 0x1.921fb54442d18p+0, half_pi_rest = 0x1.1a62633145c07p-54;
static const double third_pis[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34,
                                   0x1.3198a2e037073p-69}; /* of pi/2, 33 bits each */

/* c[0] + c[1] x + ... */
static double series(double x, const double *c, int n) {
  double r = c[n - 1];
  for (int i = n - 2; i >= 0; --i) r = r * x + c[i];
  return r;
}

/* ---- pairs: a sum of two f64, the second below half a unit of the first ---- */

typedef struct pair {
  double high, low;
} pair;

/* a + b with its error (D. Knuth, "The Art of Computer Programming" 2, 4.2.2). */
static pair add_exactly(double a, double b) {
  const double sum = a + b, b_part = sum - a;
  return (pair){sum, (a - (sum - b_part)) + (b - b_part)};
}

/* The first 26 bits, and the rest. */
static pair split(double a) {
  const double c = 134217729.0 * a, high = c - (c - a);
  return (pair){high, a - high};
}

/* a * b with its error (T. J. Dekker, "A floating-point technique for extending the available precision", 1971). */
static pair multiply_exactly(double a, double b) {
  const double product = a * b;
  const pair x = split(a), y = split(b);
  return (pair){product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

static pair multiply_pairs(pair a, pair b) {
  const pair p = multiply_exactly(a.high, b.high);
  return add_exactly(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static pair add_pairs(pair a, pair b) {
  const pair s = add_exactly(a.high, b.high);
  return add_exactly(s.high, s.low + (a.low + b.low));
}

/* ---- exponential ---- */

/* x 2^n, rounded once; -2200 < n < 2200 */
static double scale(double x, int n) {
  const int half = n / 2;
  const uint64_t bits[] = {(uint64_t)(half + 1023) << 52, (uint64_t)(n - half + 1023) << 52};
  double factors[2];
  memcpy(factors, bits, sizeof bits);
  return x * factors[0] * factors[1];
}

/* e^(x + rest) = 2^n (1 + q): returns q.  |x| < 800, |rest| far below. */
static double exp_parts(double x, double rest, int *n) {
  static const double c[] = {1.0 / 2,         1.0 / 6,          1.0 / 24,         1.0 / 120,     1.0 / 720,
                             1.0 / 5040,      1.0 / 40320,      1.0 / 362880,     1.0 / 3628800, 1.0 / 39916800,
                             1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};
  const double steps = nearbyint(x * log2_e), high = x - steps * ln2_high, low = rest - steps * ln2_low;
  const double r = high + low, r_rest = (high - r) + low;
  *n = (int)steps;
  return r + (r * r * series(r, c, sizeof c / sizeof *c) + r_rest);
}

double tercel_f64_exp(double x) {
  if (!(x < 710)) return x < INFINITY ? INFINITY : x + x;
  if (x < -746) return 0;
  int n;
  const double q = exp_parts(x, 0, &n);
  return scale(1 + q, n);
}

double tercel_f64_expm1(double x) {
  if (!(x < 710)) return x < INFINITY ? INFINITY : x + x;
  if (x < -40) return -1;
  if (fabs(x) < 0x1p-54) return x;
  int n;
  const double q = exp_parts(x, 0, &n);
  if (n == 0) return q;
  const double half = scale(0.5, n); /* 2^1024 is no number */
  return 2 * ((half - 0.5) + half * q);
}

/* ---- logarithm ---- */

/* x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); x positive and finite */
static double log_reduce(double x, int *e) {
  int extra = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    extra = 54;
  }
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t root = 0x3fe6a09e667f3bcd; /* of 1/2 */
  const int64_t k = (int64_t)(bits - root) >> 52;
  bits -= (uint64_t)k << 52;
  memcpy(&x, &bits, sizeof bits);
  *e = (int)k - extra;
  return x - 1;
}

/* With s = f / (2 + f): log(1 + f) = 2 artanh(s) = s (2 + R), R = 2 s^2 / 3 + 2 s^4 / 5 + ...; returns R's terms from `first` on, over s^2. */
static double log_series(double z, int first) {
  static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                             2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  return series(z, c + first, (int)(sizeof c / sizeof *c) - first);
}

/* log(2^e (1 + f)) + rest.  f - s (f - R) = f - (f^2 / 2 - s (f^2 / 2 + R)) */
static double log_assemble(double f, int e, double rest) {
  const double s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  const double low = s * (half_square + z * log_series(z, 0)) + (e * ln2_low + rest);
  return e * ln2_high + (f - (half_square - low));
}

double tercel_f64_log(double x) {
  if (isnan(x) || x < 0) return NAN;
  if (x == 0) return -INFINITY;
  if (x == INFINITY) return x;
  int e;
  const double f = log_reduce(x, &e);
  return log_assemble(f, e, 0);
}

double tercel_f64_log1p(double x) {
  if (isnan(x) || x < -1) return NAN;
  if (x == -1) return -INFINITY;
  if (x == INFINITY || fabs(x) < 0x1p-54) return x;
  const double u = 1 + x, lost = x < 1 ? x - (u - 1) : 1 - (u - x);
  int e;
  const double f = log_reduce(u, &e);
  return log_assemble(f, e, lost / u);
}

/* ---- power ---- */

/* log x to about 2^-65, x positive and finite: the first two terms of the series in pairs. */
static pair log_pair(double x) {
  int e;
  const double f = log_reduce(x, &e);
  const pair below = add_exactly(2, f);
  const double s_high = f / below.high;
  const pair back = multiply_exactly(s_high, below.high);
  const pair s = {s_high, (((f - back.high) - back.low) - s_high * below.low) / below.high};
  const pair z = multiply_pairs(s, s), cube = multiply_pairs(s, z);
  const pair third = multiply_pairs(cube, (pair){0x1.5555555555555p-1, 0x1.5555555555555p-55});
  pair r = add_pairs((pair){2 * s.high, 2 * s.low}, third);
  r = add_pairs(r, (pair){cube.high * z.high * log_series(z.high, 1), 0});
  return add_pairs(add_exactly(e * ln2_high, e * ln2_low), r);
}

static bool is_odd(double y) { return fabs(y) < 0x1p53 && fmod(y, 2) != 0 && floor(y) == y; }

/* x^y for positive finite x, finite y */
static double pow_positive(double x, double y) {
  if (fabs(y) > 0x1p65) y = copysign(0x1p65, y); /* log x is 0, or no less than 2^-53 */
  const pair l = log_pair(x), product = multiply_exactly(y, l.high);
  const double high = product.high;
  if (high > 710) return INFINITY;
  if (high < -746) return 0;
  int n;
  const double q = exp_parts(high, product.low + y * l.low, &n);
  return scale(1 + q, n);
}

double tercel_f64_pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (isnan(x) || isnan(y)) return x + y;
  if (isinf(y)) {
    if (x == -1) return 1;
    return (fabs(x) > 1) == (y > 0) ? INFINITY : 0;
  }
  const double sign = signbit(x) && is_odd(y) ? -1 : 1;
  if (x == 0 || isinf(x)) return sign * ((x == 0) == (y > 0) ? 0.0 : INFINITY);
  if (x < 0 && floor(y) != y) return NAN;
  return sign * pow_positive(fabs(x), y);
}

/* ---- circular functions ---- */

/* x = q pi/2 + r.high + r.low; q modulo 4 */
typedef struct angle {
  pair r;
  int q;
} angle;

__extension__ typedef unsigned __int128 u128;

/* 64 bits of 2/pi from bit `at` behind the point on (bits before the point are 0).  2/pi to 1280 bits, from Machin's formula. */
static uint64_t two_over_pi(int at) {
  static const uint64_t words[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                   0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                   0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                   0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                   0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  const int word = at / 64, shift = at % 64;
  return shift == 0 ? words[word] : words[word] << shift | words[word + 1] >> (64 - shift);
}

/* x = m 2^k with 53 bits of m, k > 0: the bits of 2/pi that give multiples of 4 are skipped, 192 are multiplied.
 * M. Payne and R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983. */
static angle reduce_large(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int k = (int)(bits >> 52 & 0x7ff) - 1075, skip = k > 2 ? k - 2 : 0;
  const uint64_t m = (bits & 0xfffffffffffff) | 0x10000000000000;
  const u128 low = (u128)m * two_over_pi(skip + 128), middle = (u128)m * two_over_pi(skip + 64) + (low >> 64);
  const u128 high = (u128)m * two_over_pi(skip) + (middle >> 64);
  uint64_t w[] = {(uint64_t)(high >> 64), (uint64_t)high, (uint64_t)middle, (uint64_t)low};
  /* x 2/pi = w 2^(k - skip - 192): the two bits around 1 go to the top; 30 <= up <= 64 */
  const int up = 62 + k - skip;
  for (int i = 0; i < 3; ++i) w[i] = up == 64 ? w[i + 1] : w[i] << up | w[i + 1] >> (64 - up);
  angle a = {.q = (int)(w[0] >> 62)};
  u128 fraction = ((u128)w[0] << 64 | w[1]) << 2; /* of a quarter turn */
  const bool past = fraction >> 127;
  if (past) {
    fraction = -fraction;
    a.q = (a.q + 1) & 3;
  }
  const double top = (double)(uint64_t)(fraction >> 75), rest = (double)(uint64_t)(fraction >> 11 & 0xffffffffffffffff);
  const pair turns = add_exactly(top * 0x1p-53, rest * 0x1p-117);
  a.r = multiply_pairs(turns, (pair){half_pi, half_pi_rest});
  if (past) a.r = (pair){-a.r.high, -a.r.low};
  return a;
}

/* x >= 0 and finite */
static angle reduce_angle(double x) {
  if (x <= 0.78539816339744828) return (angle){.r = {x, 0}};
  if (x >= 0x1p20) return reduce_large(x);
  const double n = nearbyint(x * 0x1.45f306dc9c883p-1), high = x - n * third_pis[0];
  const pair r = add_exactly(high, -(n * third_pis[1]));
  return (angle){.r = add_exactly(r.high, r.low - n * third_pis[2]), .q = (int)n & 3};
}

static double sin_reduced(pair r) {
  static const double c[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                             -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double x = r.high, z = x * x;
  return x + (x * z * series(z, c, sizeof c / sizeof *c) + r.low * (1 - 0.5 * z));
}

static double cos_reduced(pair r) {
  static const double c[] = {1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
                             1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
  const double x = r.high, z = x * x, w = 1 - 0.5 * z;
  return w + (((1 - w) - 0.5 * z) + (z * z * series(z, c, sizeof c / sizeof *c) - x * r.low));
}

double tercel_f64_sin(double x) {
  if (!(fabs(x) < INFINITY)) return NAN;
  if (x == 0) return x;
  const angle a = reduce_angle(fabs(x));
  const double r = a.q & 1 ? cos_reduced(a.r) : sin_reduced(a.r);
  return (a.q & 2) != 0 ? -copysign(1, x) * r : copysign(1, x) * r;
}

double tercel_f64_cos(double x) {
  if (!(fabs(x) < INFINITY)) return NAN;
  const angle a = reduce_angle(fabs(x));
  const double r = a.q & 1 ? sin_reduced(a.r) : cos_reduced(a.r);
  return ((a.q + 1) & 2) != 0 ? -r : r;
}

double tercel_f64_tan(double x) {
  if (!(fabs(x) < INFINITY)) return NAN;
  if (x == 0) return x;
  const angle a = reduce_angle(fabs(x));
  const double sine = sin_reduced(a.r), cosine = cos_reduced(a.r), r = a.q & 1 ? -cosine / sine : sine / cosine;
  return copysign(1, x) * r;
}

/* atan of x >= 0, as atan(k/8) + atan((x - k/8) / (1 + x k/8)); above 1: pi/2 - atan(1/x) */
static pair atan_positive(double x) {
  static const pair eighths[] = {{0, 0},
                                 {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                 {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                 {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                 {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                 {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                 {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                 {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                 {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};
  static const double c[] = {-1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9, -1.0 / 11, 1.0 / 13, -1.0 / 15};
  if (x > 1) {
    const pair r = atan_positive(1 / x);
    return add_pairs((pair){half_pi, half_pi_rest}, (pair){-r.high, -r.low});
  }
  const int k = (int)nearbyint(8 * x);
  const double middle = k / 8.0, t = (x - middle) / (1 + x * middle), z = t * t;
  return add_pairs(eighths[k], (pair){t, t * z * series(z, c, sizeof c / sizeof *c)});
}

double tercel_f64_atan(double x) {
  if (isnan(x)) return x;
  const pair r = atan_positive(fabs(x));
  return copysign(r.high, x);
}

double tercel_f64_atan2(double y, double x) {
  if (isnan(x) || isnan(y)) return x + y;
  const double ax = fabs(x), ay = fabs(y);
  pair r;
  if (ay == 0)
    r = (pair){0, 0};
  else if (ax == ay)
    r = atan_positive(1);
  else
    r = atan_positive(ay / ax); /* infinity for x = 0 */
  if (signbit(x)) r = add_pairs((pair){2 * half_pi, 2 * half_pi_rest}, (pair){-r.high, -r.low});
  return copysign(r.high, y);
}

double tercel_f64_asin(double x) { return fabs(x) <= 1 ? tercel_f64_atan2(x, sqrt((1 - x) * (1 + x))) : NAN; }
double tercel_f64_acos(double x) { return fabs(x) <= 1 ? tercel_f64_atan2(sqrt((1 - x) * (1 + x)), x) : NAN; }

/* ---- hyperbolic functions ---- */

/* With E = e^|x| - 1: (E + E / (E + 1)) / 2; where e^|x| may overflow, as a product of halves. */
double tercel_f64_sinh(double x) {
  const double a = fabs(x), e = tercel_f64_expm1(a), root = tercel_f64_exp(0.5 * a);
  return copysign(a < 40 ? 0.5 * (e + e / (e + 1)) : 0.5 * root * root, x);
}
double tercel_f64_cosh(double x) {
  const double a = fabs(x), e = tercel_f64_exp(a), root = tercel_f64_exp(0.5 * a);
  return a < 40 ? 0.5 * (e + 1 / e) : 0.5 * root * root;
}
/* With E = e^(2|x|) - 1: E / (E + 2) */
double tercel_f64_tanh(double x) {
  if (isnan(x)) return x;
  const double e = tercel_f64_expm1(2 * fmin(fabs(x), 20));
  return copysign(e / (e + 2), x);
}
/* log1p(a + a^2 / (1 + sqrt(a^2 + 1))); where a^2 would overflow: log(a) + ln 2 */
double tercel_f64_asinh(double x) {
  const double a = fabs(x);
  if (!(a < INFINITY)) return x;
  const double r =
      a > 0x1p30 ? tercel_f64_log(a) + 0.69314718055994531 : tercel_f64_log1p(a + a * a / (1 + sqrt(a * a + 1)));
  return copysign(r, x);
}
/* With t = x - 1: log1p(t + sqrt(2 t + t^2)) */
double tercel_f64_acosh(double x) {
  if (!(x >= 1)) return NAN;
  if (x > 0x1p30) return tercel_f64_log(x) + 0.69314718055994531;
  const double t = x - 1;
  return tercel_f64_log1p(t + sqrt(2 * t + t * t));
}
/* log1p(2 a / (1 - a)) / 2 */
double tercel_f64_atanh(double x) {
  const double a = fabs(x);
  if (!(a <= 1)) return NAN;
  return copysign(0.5 * tercel_f64_log1p(2 * a / (1 - a)), x);
}

/* ---- error function ---- */

/* e^(-a^2) for 0 <= a <= 6, the square not rounded */
static double exp_minus_square(double a) {
  const pair square = multiply_exactly(a, a);
  int n;
  const double q = exp_parts(-square.high, -square.low, &n);
  return scale(1 + q, n);
}

/* Below 1.25: 2 / sqrt(pi) e^(-x^2) x (1 + 2 x^2 / 3 + (2 x^2)^2 / (3 5) + ...), all terms positive (Abramowitz and Stegun, 7.1.6).  Above,
 * 1 - e^(-x^2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))) (7.1.14). */
double tercel_f64_erf(double x) {
  const double a = fabs(x), square = a * a;
  if (isnan(x) || a == 0) return x;
  if (a > 6) return copysign(1, x);
  if (a < 1.25) {
    double term = 1, sum = 0;
    for (int n = 1; term > 0x1p-60 * sum; ++n) {
      term *= 2 * square / (2 * n + 1);
      sum += term;
    }
    const double factor = 0x1.20dd750429b6dp+0 * exp_minus_square(a) * a;
    return copysign(factor + factor * sum, x);
  }
  double below = a;
  for (int n = 120; n > 0; --n) below = a + n / 2.0 / below;
  return copysign(1 - exp_minus_square(a) * 0x1.20dd750429b6dp-1 / below, x);
}
