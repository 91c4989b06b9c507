/* The harness of the kernel checks: levels, errors in ULP, and nodes run through a kernel and through their reference. */
#include "kernels/check.h"

#include <math.h>
#include <stdio.h>

void check_levels(void (*fn)(tercel_cpu_level level, void *arg), void *arg) {
  static const tercel_cpu_level levels[] = {TERCEL_CPU_BASELINE, TERCEL_CPU_AVX2, TERCEL_CPU_AVX512};
  tercel_error err = {0};
  const tercel_cpu_level best = tercel_cpu_current();
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (!tercel_cpu_has(levels[i]) || levels[i] > best) {
      fprintf(stderr, "skipped: level %s\n", tercel_cpu_level_name(levels[i]));
      continue;
    }
    assert_ok(tercel_cpu_set_level(levels[i], &err), &err);
    fn(levels[i], arg);
  }
  assert_ok(tercel_cpu_set_level(best, &err), &err);
}

double check_ulp(float got, double want) {
  const float rounded = (float)want;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0.0 : INFINITY;
  if (isinf(rounded) && isinf(got)) return !signbit(rounded) == !signbit(got) ? 0.0 : INFINITY;
  if (want == 0.0 && got == 0.0f) return !signbit(want) == !signbit(got) ? 0.0 : INFINITY;
  if (isinf(want) || isinf(got)) /* one beyond the largest number, the other just below */
    return fabs(want) > 0x1.fffffcp+127 && fabs((double)got) > 0x1.fffffcp+127 ? 1.0 : INFINITY;
  int exponent;
  frexp(want, &exponent);
  return fabs((double)got - want) / ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}
