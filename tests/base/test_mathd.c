/* f64 functions against the library's long double ones, in units in the last place, and their special values; and some bits, which are to be the
 * same on every machine. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mathd.h"
#include "support/support.h"

typedef struct function {
  const char *name;
  double (*got)(double);
  long double (*want)(long double);
  double low, high; /* arguments are drawn between, and over all bit patterns */
  double most_ulp;  /* measured, and a little more */
} function;

static const function functions[] = {
    {"exp", tercel_f64_exp, expl, -745, 709, 1},   {"expm1", tercel_f64_expm1, expm1l, -5, 5, 3},
    {"log", tercel_f64_log, logl, 0, 10, 1},       {"log1p", tercel_f64_log1p, log1pl, -1, 3, 2},
    {"sin", tercel_f64_sin, sinl, -100, 100, 1},   {"cos", tercel_f64_cos, cosl, -100, 100, 1},
    {"tan", tercel_f64_tan, tanl, -100, 100, 3},   {"asin", tercel_f64_asin, asinl, -1, 1, 3},
    {"acos", tercel_f64_acos, acosl, -1, 1, 3},    {"atan", tercel_f64_atan, atanl, -10, 10, 1.5},
    {"sinh", tercel_f64_sinh, sinhl, -50, 50, 4},  {"cosh", tercel_f64_cosh, coshl, -50, 50, 4},
    {"tanh", tercel_f64_tanh, tanhl, -20, 20, 4},  {"asinh", tercel_f64_asinh, asinhl, -10, 10, 4},
    {"acosh", tercel_f64_acosh, acoshl, 1, 10, 4}, {"atanh", tercel_f64_atanh, atanhl, -1, 1, 4},
    {"erf", tercel_f64_erf, erfl, -6, 6, 7},
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions, TRIES = 100000 };

/* How far got is from want, in units in the last place of a f64 there. */
static double ulps(double got, long double want) {
  const double rounded = (double)want;
  if (isnan(rounded) || isnan(got)) return isnan(rounded) && isnan(got) ? 0 : INFINITY;
  if (got == rounded) return signbit(got) == signbit(rounded) || got != 0 ? 0 : INFINITY;
  if (isinf(rounded) || isinf(got)) {
    const double other = isinf(rounded) ? got : rounded; /* overflow a little early or late */
    return fabs(other) > DBL_MAX * (1 - 0x1p-50) ? 1 : INFINITY;
  }
  int exponent;
  frexp(rounded, &exponent);
  const long double unit = ldexpl(1, (exponent < -1021 ? -1021 : exponent) - 53);
  return (double)(fabsl((long double)got - want) / unit);
}

static double any_bits(tercel_test_random *random) {
  const uint64_t bits = tercel_test_random_u64(random);
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static double between(tercel_test_random *random, double low, double high) {
  return low + (high - low) * ((double)(tercel_test_random_u64(random) >> 11) * 0x1p-53);
}

static void check(const function *f, double x, double *worst) {
  const double distance = ulps(f->got(x), f->want((long double)x));
  if (distance > f->most_ulp)
    fail_msg("%s(%a) is %a, want %a: %.3g ulp", f->name, x, f->got(x), (double)f->want((long double)x), distance);
  *worst = fmax(*worst, distance);
}

static void is_close(void **state) {
  const function *const f = *state;
  static const double special[] = {0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   DBL_MIN,
                                   -DBL_MIN,
                                   0x1p-1074,
                                   DBL_MAX,
                                   -DBL_MAX,
                                   0.5,
                                   2,
                                   0.78539816339744831,
                                   1.5707963267948966,
                                   3.1415926535897931,
                                   0x1p20,
                                   6,
                                   3,
                                   6381956970095103 * 0x1p797 /* nearest of all f64 to a multiple of pi/2 */};
  double worst = 0;
  tercel_test_random random = tercel_test_random_start((uint64_t)(f - functions));
  for (size_t i = 0; i < sizeof special / sizeof *special; ++i) check(f, special[i], &worst);
  for (int i = 0; i < TRIES; ++i) {
    check(f, between(&random, f->low, f->high), &worst);
    check(f, any_bits(&random), &worst);
  }
  fprintf(stderr, "%s: off by %.2f ulp at most, allowed %.1f\n", f->name, worst, f->most_ulp);
}

/* ---- two arguments ---- */

static void check_two(const char *name, double got, long double want, double x, double y, double most_ulp,
                      double *worst) {
  const double distance = ulps(got, want);
  if (distance > most_ulp) fail_msg("%s(%a, %a) is %a, want %a: %.3g ulp", name, x, y, got, (double)want, distance);
  *worst = fmax(*worst, distance);
}

static void check_pair(double x, double y, double *worst_pow, double *worst_atan2) {
  check_two("pow", tercel_f64_pow(x, y), powl((long double)x, (long double)y), x, y, 1, worst_pow);
  check_two("atan2", tercel_f64_atan2(x, y), atan2l((long double)x, (long double)y), x, y, 3, worst_atan2);
}

static void pow_and_atan2_are_close(void **state) {
  (void)state;
  static const double special[] = {
      0.0,       -0.0, 1,         -1,      2,        -2,         3,           -3,          0.5,   -0.5,   INFINITY,
      -INFINITY, NAN,  0x1p-1074, DBL_MAX, -DBL_MAX, 0x1p53 + 2, 1 + 0x1p-52, 1 - 0x1p-53, 1e300, -1e300, 1e-300};
  enum { NUM_SPECIAL = sizeof special / sizeof *special };
  double worst_pow = 0, worst_atan2 = 0;
  tercel_test_random random = tercel_test_random_start(NUM_FUNCTIONS);
  for (int i = 0; i < NUM_SPECIAL * NUM_SPECIAL; ++i)
    check_pair(special[i / NUM_SPECIAL], special[i % NUM_SPECIAL], &worst_pow, &worst_atan2);
  for (int i = 0; i < TRIES; ++i) {
    check_pair(between(&random, 0, 10), between(&random, -300, 300), &worst_pow, &worst_atan2);
    check_pair(any_bits(&random), between(&random, -3, 3), &worst_pow, &worst_atan2);
    check_pair(any_bits(&random), any_bits(&random), &worst_pow, &worst_atan2);
    check_pair(between(&random, -9, 9), (double)tercel_test_random_int(&random, -9, 9), &worst_pow, &worst_atan2);
  }
  fprintf(stderr, "pow: off by %.2f ulp at most; atan2: %.2f\n", worst_pow, worst_atan2);
}

/* ---- bits ---- */

/* FNV-1a of what all functions give for numbers that are made without rounding. */
static uint64_t hash_of_all(void) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < 20000; ++i) {
    const double x = (i - 10000) * 0x1.3p-10 * (i % 7 == 0 ? 64 : 1);
    for (size_t f = 0; f <= NUM_FUNCTIONS + 1; ++f) {
      const double y = f < NUM_FUNCTIONS    ? functions[f].got(x)
                       : f == NUM_FUNCTIONS ? tercel_f64_pow(fabs(x), x * 0.75 + 1)
                                            : tercel_f64_atan2(x, i % 11 - 5);
      uint64_t bits = 0;
      if (y == y) memcpy(&bits, &y, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3u;
    }
  }
  return hash;
}

static void has_the_same_bits_everywhere(void **state) {
  (void)state;
  const uint64_t hash = hash_of_all();
  if (hash != 0xbaf4a9e6cea95043) fail_msg("the hash is %016llx", (unsigned long long)hash);
}

int main(void) {
  struct CMUnitTest tests[NUM_FUNCTIONS + 2] = {0};
  for (int i = 0; i < NUM_FUNCTIONS; ++i)
    tests[i] = (struct CMUnitTest){functions[i].name, is_close, NULL, NULL, (void *)(uintptr_t)&functions[i]};
  tests[NUM_FUNCTIONS] = (struct CMUnitTest)cmocka_unit_test(pow_and_atan2_are_close);
  tests[NUM_FUNCTIONS + 1] = (struct CMUnitTest)cmocka_unit_test(has_the_same_bits_everywhere);
  return cmocka_run_group_tests_name("mathd", tests, NULL, NULL);
}
