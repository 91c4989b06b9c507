/* The order of sums, bit for bit: reductions run over 4 x 16 virtual lanes in one fixed tree, whatever the level's vectors are.  A model in
 * plain C says which number comes out; additions alone, so that levels with and without FMA agree. */
#include "kernels/check.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/norm.h"
#include "backends/cpu/kernels/reduce.h"

enum { MAX = 1000 };

/* Element i goes to lane i mod 16 of accumulator (i / 16) mod 4.  Then accumulators (0, 1), (2, 3); lanes 8, 4, 2, 1 apart. */
static float model_sum(const float *x, int64_t n) {
  float lanes[4][16] = {{0}};
  for (int64_t i = 0; i < n; i++) lanes[i / 16 % 4][i % 16] += x[i];
  float sum[16];
  for (int l = 0; l < 16; l++) sum[l] = (lanes[0][l] + lanes[1][l]) + (lanes[2][l] + lanes[3][l]);
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  return sum[0];
}

/* Bit for bit: 0 and -0 differ, and a NaN is itself. */
static bool same_bits(float a, float b) {
  uint32_t bits_a, bits_b;
  memcpy(&bits_a, &a, sizeof a);
  memcpy(&bits_b, &b, sizeof b);
  return bits_a == bits_b;
}

static void check_sums(tercel_cpu_level level, void *arg) {
  const tercel_reduce_kernels *reduce = TERCEL_CPU_PICK(tercel_reduce_kernels);
  const tercel_norm_kernels *norm = TERCEL_CPU_PICK(tercel_norm_kernels);
  const float *x = arg;
  for (int64_t n = 0; n < MAX; n++) {
    const float want = model_sum(x, n), got = reduce->row[TERCEL_FOLD_SUM](x, n, 0);
    if (!same_bits(got, want))
      fail_msg("%s: the sum of %lld numbers is %a, want %a", tercel_cpu_level_name(level), (long long)n, (double)got,
               (double)want);
    if (n == 0) continue;
    float alone = got;
    if (n > 1 && n <= TERCEL_FOLD_SHORT) reduce->short_rows[TERCEL_FOLD_SUM](x, 1, n, &alone);
    assert_memory_equal(&alone, &got, sizeof got);
    const float mean = norm->moments(x, n).mean, want_mean = want / (float)n;
    if (!same_bits(mean, want_mean))
      fail_msg("%s: the mean of %lld numbers is %a, want %a", tercel_cpu_level_name(level), (long long)n, (double)mean,
               (double)want_mean);
  }
}

static void test_sums(void **state) {
  (void)state;
  static float x[MAX];
  tercel_test_random random = tercel_test_random_start(1);
  tercel_test_random_fill_f32(&random, x, MAX, -1.0f, 1.0f);
  check_levels(check_sums, x);
}

/* Products of squares and maxima have no FMA either. */
static void check_products(tercel_cpu_level level, void *arg) {
  const tercel_reduce_kernels *reduce = TERCEL_CPU_PICK(tercel_reduce_kernels);
  const float *x = arg;
  float squares[MAX], largest = x[0];
  for (int64_t n = 1; n < MAX; n++) {
    squares[n - 1] = x[n - 1] * x[n - 1];
    if (x[n - 1] > largest) largest = x[n - 1];
    const float want = model_sum(squares, n), got = reduce->row[TERCEL_FOLD_SUM_SQUARE](x, n, 0);
    if (!same_bits(got, want))
      fail_msg("%s: the sum of %lld squares is %a, want %a", tercel_cpu_level_name(level), (long long)n, (double)got,
               (double)want);
    assert_true(reduce->row[TERCEL_FOLD_MAX](x, n, 0) == largest);
  }
}

static void test_products(void **state) {
  (void)state;
  static float x[MAX];
  tercel_test_random random = tercel_test_random_start(2);
  tercel_test_random_fill_f32(&random, x, MAX, -1.0f, 1.0f);
  check_levels(check_products, x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
