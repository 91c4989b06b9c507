/* The vector functions of mathf.h against libm in f64, over samples of all f32: the largest error in units of the last place (ULP),
 * held to the bound that docs/numerics.md states.  `--print` shows what was measured. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/pointwise.h"
#include "kernels/check.h"

enum { SAMPLES = 1 << 18, BATCH = 509 };

static bool print_errors;

typedef struct function {
  tercel_fn fn;
  double (*want)(double);
  double bound; /* ULP */
  double least; /* smaller results are measured in ULP of this */
} function;

static double rsqrt(double x) { return 1.0 / sqrt(x); }
static double reciprocal(double x) { return 1.0 / x; }
static double sigmoid(double x) { return x < 0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double softplus_nan(double x) { return x != x ? x : softplus(x); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double gelu_tanh(double x) {
  return x * sigmoid(2.0 * sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x));
}
static double mish(double x) { return x != x ? x : x * tanh(softplus(x)); }
static double softsign(double x) { return x / (1.0 + fabs(x)); }

static const function functions[] = {
    {TERCEL_FN_EXP, exp, 1.0, 0},
    {TERCEL_FN_LOG, log, 1.0, 0},
    {TERCEL_FN_TANH, tanh, 3.0, 0},
    {TERCEL_FN_ERF, erf, 2.0, 0},
    {TERCEL_FN_SIGMOID, sigmoid, 2.75, 0},
    {TERCEL_FN_SOFTPLUS, softplus_nan, 2.0, 0},
    {TERCEL_FN_GELU, gelu, 8.0, 0x1p-4},
    {TERCEL_FN_GELU_TANH, gelu_tanh, 8.0, 0x1p-4},
    {TERCEL_FN_MISH, mish, 5.0, 0x1p-120},
    {TERCEL_FN_SOFTSIGN, softsign, 1.6, 0},
    {TERCEL_FN_SQRT, sqrt, 0.5, 0},
    {TERCEL_FN_RSQRT, rsqrt, 1.6, 0},
    {TERCEL_FN_RECIPROCAL, reciprocal, 0.5, 0},
    {TERCEL_FN_SIN, sin, 2.5, 0},
    {TERCEL_FN_COS, cos, 2.5, 0},
    {TERCEL_FN_TAN, tan, 4.5, 0},
    {TERCEL_FN_ASIN, asin, 3.0, 0},
    {TERCEL_FN_ACOS, acos, 2.0, 0},
    {TERCEL_FN_ATAN, atan, 2.0, 0},
    {TERCEL_FN_SINH, sinh, 3.5, 0},
    {TERCEL_FN_COSH, cosh, 3.5, 0},
    {TERCEL_FN_ASINH, asinh, 2.5, 0},
    {TERCEL_FN_ACOSH, acosh, 2.5, 0},
    {TERCEL_FN_ATANH, atanh, 2.5, 0},
    {TERCEL_FN_FLOOR, floor, 0, 0},
    {TERCEL_FN_CEIL, ceil, 0, 0},
    {TERCEL_FN_ROUND, rint, 0, 0},
};

/* Sample number i of all f32 in the order of their bits, both signs in turn; at the end some special ones. */
static float sample(uint32_t i, uint32_t total, tercel_test_random *random) {
  static const uint32_t special[] = {0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x3f7fffff,
                                     0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000,
                                     0x42b17218, 0x42b17217, 0x42cff1b5, 0x3f000000};
  const uint32_t num_special = sizeof special / sizeof *special;
  uint32_t bits;
  if (i / 2 < num_special) {
    bits = special[i / 2];
  } else {
    const uint32_t stride = (uint32_t)(0x7f800000u / (total / 2));
    bits = i / 2 * stride + (uint32_t)tercel_test_random_int(random, 0, stride - 1);
  }
  bits |= (i & 1) << 31;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

typedef struct worst {
  double ulp;
  float x, got;
  double want;
} worst;

static void measure(const function *f, const float *x, const float *got, int64_t n, worst *w) {
  for (int64_t i = 0; i < n; i++) {
    const double want = f->want((double)x[i]);
    const bool small = fabs(want) < f->least && fabs((double)got[i]) < f->least;
    const double error = small ? fabs((double)got[i] - want) / (f->least * 0x1p-23) : check_ulp(got[i], want);
    if (error > w->ulp) *w = (worst){error, x[i], got[i], want};
  }
}

static void check_function(const tercel_pointwise_kernels *kernels, const function *f, const char *level) {
  tercel_test_random random = tercel_test_random_start((uint64_t)f->fn);
  static float x[BATCH], got[BATCH];
  worst w = {.ulp = 0};
  for (uint32_t i = 0; i < SAMPLES;) {
    int64_t n = 0;
    for (; n < BATCH && i < SAMPLES; n++, i++) x[n] = sample(i, SAMPLES, &random);
    kernels->f32[f->fn](&(tercel_lanes){.dst = got, .src = {x}, .step = {1}, .n = n});
    measure(f, x, got, n, &w);
  }
  const char *name = tercel_fn_get_info(f->fn)->name;
  if (print_errors)
    printf("%-9s %-12s %6.2f ULP at %.9g: %.9g, want %.17g\n", level, name, w.ulp, (double)w.x, (double)w.got, w.want);
  else if (!(w.ulp <= f->bound))
    fail_msg("%s %s: %.2f ULP at %.9g (%a): %.9g, want %.17g; bound %.2f", level, name, w.ulp, (double)w.x, (double)w.x,
             (double)w.got, w.want, f->bound);
}

static void check_functions(tercel_cpu_level level, void *arg) {
  (void)arg;
  const tercel_pointwise_kernels *kernels = TERCEL_CPU_PICK(tercel_pointwise_kernels);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    check_function(kernels, &functions[i], tercel_cpu_level_name(level));
}

static void test_functions(void **state) {
  (void)state;
  check_levels(check_functions, NULL);
}

/* ---- functions of two ---- */

static float draw(tercel_test_random *random) {
  static const float special[] = {
      0.0f, 1.0f, 2.0f, 3.0f, 0.5f, INFINITY, NAN, 0x1p-149f, 0x1p-126f, 0x1.fffffep+127f, 16777216.0f, 4.5f};
  const int64_t kind = tercel_test_random_int(random, 0, 9);
  const float sign = tercel_test_random_int(random, 0, 1) ? 1.0f : -1.0f;
  if (kind < 2) return sign * special[tercel_test_random_int(random, 0, sizeof special / sizeof *special - 1)];
  if (kind < 5) return sign * tercel_test_random_f32(random, 0.0f, 4.0f);
  if (kind < 7) return sign * (float)tercel_test_random_int(random, 0, 40);
  return sign * ldexpf(tercel_test_random_f32(random, 1.0f, 2.0f), (int)tercel_test_random_int(random, -140, 127));
}

static void check_binary(const tercel_pointwise_kernels *kernels, tercel_fn fn, double (*want)(double, double),
                         double bound, const char *level) {
  tercel_test_random random = tercel_test_random_start(1000 + (uint64_t)fn);
  static float a[BATCH], b[BATCH], got[BATCH];
  double most = 0;
  for (int round = 0; round < 400; round++) {
    for (int i = 0; i < BATCH; i++) a[i] = draw(&random), b[i] = draw(&random);
    kernels->f32[fn](&(tercel_lanes){.dst = got, .src = {a, b}, .step = {1, 1}, .n = BATCH});
    for (int i = 0; i < BATCH; i++) {
      const double w = want((double)a[i], (double)b[i]), error = check_ulp(got[i], w);
      if (error > most) most = error;
      if (!(error <= bound) && !print_errors)
        fail_msg("%s %s(%.9g, %.9g): %.9g, want %.17g: %.2f ULP, bound %.2f", level, tercel_fn_get_info(fn)->name,
                 (double)a[i], (double)b[i], (double)got[i], w, error, bound);
    }
  }
  if (print_errors) printf("%-9s %-12s %6.2f ULP\n", level, tercel_fn_get_info(fn)->name, most);
}

static void check_binaries(tercel_cpu_level level, void *arg) {
  (void)arg;
  const tercel_pointwise_kernels *kernels = TERCEL_CPU_PICK(tercel_pointwise_kernels);
  check_binary(kernels, TERCEL_FN_POW, pow, 2.0, tercel_cpu_level_name(level));
  check_binary(kernels, TERCEL_FN_ATAN2, atan2, 3.5, tercel_cpu_level_name(level));
  check_binary(kernels, TERCEL_FN_FMOD, fmod, 0.0, tercel_cpu_level_name(level));
}

static void test_binaries(void **state) {
  (void)state;
  check_levels(check_binaries, NULL);
}

int main(int argc, char **argv) {
  print_errors = argc > 1 && strcmp(argv[1], "--print") == 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_binaries)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
