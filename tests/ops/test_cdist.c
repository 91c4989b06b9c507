/* cdist, pairwise_coupling. */
#include "ops/check.h"

static void test_cdist(void **state) {
  (void)state;
  check_type("%a: f32[n, 3], %b: f32[m, 3]", "%y = cdist(%a, %b)\nreturn %y", "f32[n, m]");
  check_rejects("%a: f32[2, 3], %b: f32[2, 4]", "%y = cdist(%a, %b)\nreturn %y", TERCEL_INVALID_MODEL,
                "rows of 3 and of 4");
  check_rejects("%a: f32[2], %b: f32[2, 4]", "%y = cdist(%a, %b)\nreturn %y", TERCEL_INVALID_MODEL, "ranks 1 and 2");
  check_rejects("%a: i32[2, 4], %b: i32[2, 4]", "%y = cdist(%a, %b)\nreturn %y", TERCEL_INVALID_MODEL, "want floats");
#define POINTS "%a: f32[2, 2] = constant data(0, 0, 1, 1)\n%b: f32[3, 2] = constant data(3, 4, 1, 1, 0, 0)\n"
  check_values(
      POINTS "%y = cdist(%a, %b) {squared = 1}\n%w: f32[2, 3] = constant data(25, 2, 0, 13, 0, 2)\nreturn %y, %w", 0);
  check_values(POINTS "%y = cdist(%a, %b)\n%w: f32[2, 3] = constant data(5, 1.4142135, 0, 3.6055512, 0, 1.4142135)\n"
                      "return %y, %w",
               1e-6);
}

static void test_coupling(void **state) {
  (void)state;
  check_type("%p: f32[n, 6]", "%y = pairwise_coupling(%p)\nreturn %y", "f32[n, 4]");
  check_rejects("%p: f32[n, 4]", "%y = pairwise_coupling(%p)\nreturn %y", TERCEL_INVALID_MODEL,
                "4 is no number of pairs");
  check_rejects("%p: f32[6]", "%y = pairwise_coupling(%p)\nreturn %y", TERCEL_INVALID_MODEL, "rank 1");
  /* Two classes: the pair's own, as close as the bound of the iterations, 0.005 / K, lets them. */
  check_values("%p: f32[2, 1] = constant data(0.25, 0.5)\n%y = pairwise_coupling(%p)\n"
               "%w: f32[2, 2] = constant data(0.25, 0.75, 0.5, 0.5)\nreturn %y, %w",
               1e-4);
  /* Pairs that agree, r_ij = p_i / (p_i + p_j), give back p = 0.5, 0.3, 0.2. */
  check_values("%p: f64[1, 3] = constant data(0.625, 0.7142857142857143, 0.6)\n%y = pairwise_coupling(%p)\n"
               "%w: f64[1, 3] = constant data(0.5, 0.3, 0.2)\nreturn %y, %w",
               0.01);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cdist), cmocka_unit_test(test_coupling)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
