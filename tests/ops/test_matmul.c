/* matmul: inference, errors, values. */
#include "ops/check.h"

static void test_types(void **state) {
  (void)state;
  check_type("%a: f32[b, s, 64], %b: f32[64, n]", "%y = matmul(%a, %b)\nreturn %y", "f32[b, s, n]");
  check_type("%a: f32[b, 1, s, 64], %b: f32[h, t, 64]", "%y = matmul(%a, %b) {trans_b = 1}\nreturn %y",
             "f32[b, h, s, t]");
  check_type("%a: f32[k], %b: f32[3, k, 5]", "%y = matmul(%a, %b)\nreturn %y", "f32[3, 5]");
  check_type("%a: f32[2, m, k], %b: f32[k]", "%y = matmul(%a, %b)\nreturn %y", "f32[2, m]");
  check_type("%a: f32[k], %b: f32[k]", "%y = matmul(%a, %b)\nreturn %y", "f32[]");
  check_type("%a: f32[2, 3], %b: f32[3, 4]", "%y = matmul(%a, %b) {epilogue = {1: less(%0, %0)}}\nreturn %y",
             "bool[2, 4]");
  check_type("%a: f32[*], %b: f32[3, 4]", "%y = matmul(%a, %b)\nreturn %y", "f32[*]");
}

static void test_rejects(void **state) {
  (void)state;
  const char *const body = "%y = matmul(%a, %b)\nreturn %y";
  check_rejects("%a: f32[2, 3], %b: f32[4, 5]", body, TERCEL_INVALID_MODEL, "has 3 columns, the right one 4 rows");
  check_rejects("%a: f32[2, 3], %b: f32[]", body, TERCEL_INVALID_MODEL, "input 1 is a scalar");
  check_rejects("%a: f32[2, 5, 3], %b: f32[3, 3, 5]", body, TERCEL_INVALID_MODEL, "");
  check_rejects("%a: f32[2, 3], %b: f64[3, 5]", body, TERCEL_INVALID_MODEL, "input 1 is f64, input 0 is f32");
  check_rejects("%a: bool[2, 3], %b: bool[3, 5]", body, TERCEL_UNSUPPORTED, "input 0 is bool");
  check_rejects("%a: f32[2, 3], %b: f32[3, 5], %c: f32[4]", "%y = matmul(%a, %b, %c)\nreturn %y", TERCEL_INVALID_MODEL,
                "bias is [4]");
  check_rejects("%a: f32[2, 3], %b: f32[3], %c: f32[1]", "%y = matmul(%a, %b, %c)\nreturn %y", TERCEL_INVALID_MODEL,
                "bias is [1]");
}

/* Integers wrap; sums of narrow floats are rounded once. */
static void test_dtypes(void **state) {
  (void)state;
  check_values("%a: i32[1, 2] = constant data(2000000000, 3)\n%b: i32[2, 1] = constant data(2, -1)\n"
               "%y = matmul(%a, %b)\n%want: i32[1, 1] = constant data(-294967299)\nreturn %y, %want",
               0);
  check_values("%a: u64[1, 1] = constant data(18446744073709551615)\n%b: u64[1, 1] = constant data(2)\n"
               "%y = matmul(%a, %b)\n%want: u64[1, 1] = constant data(18446744073709551614)\nreturn %y, %want",
               0);
  check_values("%a: bf16[1, 3] = constant data(256, 1, 1)\n%b: bf16[3, 1] = constant data(1, 1, 1)\n"
               "%y = matmul(%a, %b)\n%want: bf16[1, 1] = constant data(258)\nreturn %y, %want",
               0);
  check_values("%a: f64[1, 2] = constant data(1e300, 1)\n%b: f64[2, 1] = constant data(1e-300, 0.5)\n"
               "%y = matmul(%a, %b)\n%want: f64[1, 1] = constant data(1.5)\nreturn %y, %want",
               1e-15);
}

static void test_epilogue(void **state) {
  (void)state;
  check_values(
      "%a: f32[2, 1] = constant data(1, -2)\n%b: f32[1, 2] = constant data(1, 3)\n%c: f32[2] = constant data(0.5, 0)\n"
      "%e: f32[2, 1] = constant data(10, 20)\n"
      "%y = matmul(%a, %b, %c, %e) {epilogue = {2: relu(%0); add(%2, %1)}}\n"
      "%want: f32[2, 2] = constant data(11.5, 13, 20, 20)\nreturn %y, %want",
      0);
}

/* No terms: the bias alone.  No rows: nothing. */
static void test_empty(void **state) {
  (void)state;
  check_values("%a: f32[2, 0] = constant zeros()\n%b: f32[0, 2] = constant zeros()\n%c: f32[2] = constant data(1, 2)\n"
               "%y = matmul(%a, %b, %c)\n%want: f32[2, 2] = constant data(1, 2, 1, 2)\nreturn %y, %want",
               0);
  check_values("%a: f32[0, 3] = constant zeros()\n%b: f32[3, 2] = constant ramp()\n"
               "%y = matmul(%a, %b)\n%want: f32[0, 2] = constant zeros()\nreturn %y, %want",
               0);
}

static void test_values(void **state) {
  (void)state;
  /* plain */
  check_values("%a: f32[2, 3] = constant ramp()\n"
               "%b: f32[3, 4] = constant ramp()\n"
               "%y = matmul(%a, %b)\n"
               "%want: f32[2, 4] = constant data(0.59375, 0.359375, 0.125, -0.109375, 0.3125, 0.21875, 0.125, "
               "0.03125)\n"
               "return %y, %want",
               1e-6);
  /* both transposed, scaled, with bias */
  check_values("%a: f32[3, 2] = constant ramp()\n"
               "%b: f32[4, 3] = constant ramp()\n"
               "%c: f32[4] = constant ramp()\n"
               "%y = matmul(%a, %b, %c) {trans_a = 1, trans_b = 1, alpha = 0.5}\n"
               "%want: f32[2, 4] = constant data(-0.25, -0.40625, -0.5625, -0.71875, -0.3671875, -0.453125, "
               "-0.5390625, -0.625)\n"
               "return %y, %want",
               1e-6);
  /* batches broadcast both ways */
  check_values("%a: f32[2, 1, 2, 3] = constant ramp()\n"
               "%b: f32[3, 3, 2] = constant ramp()\n"
               "%y = matmul(%a, %b)\n"
               "%want: f32[2, 3, 2, 2] = constant data(1, 0.765625, 0.4375, 0.34375, -0.40625, -0.640625, "
               "-0.125, -0.21875, 0.015625, 1, -0.078125, 0.4375, -0.125, -0.078125, -0.6875, -0.5, 0.15625, "
               "0.203125, 0.4375, 0.625, -0.171875, -0.125, -0.265625, -0.6875)\n"
               "return %y, %want",
               1e-6);
  /* vector by matrices */
  check_values("%a: f32[3] = constant ramp()\n"
               "%b: f32[2, 3, 2] = constant ramp()\n"
               "%y = matmul(%a, %b)\n"
               "%want: f32[2, 2] = constant data(1, 0.765625, -0.40625, -0.640625)\n"
               "return %y, %want",
               1e-6);
  /* matrices by vector */
  check_values("%a: f32[2, 2, 3] = constant ramp()\n"
               "%b: f32[3] = constant ramp()\n"
               "%y = matmul(%a, %b)\n"
               "%want: f32[2, 2] = constant data(1.203125, 0.5, -0.203125, -0.90625)\n"
               "return %y, %want",
               1e-6);
  /* vector by vector */
  check_values("%a: f32[3] = constant ramp()\n"
               "%b: f32[3] = constant ramp()\n"
               "%y = matmul(%a, %b)\n"
               "%want: f32[] = constant data(1.203125)\n"
               "return %y, %want",
               1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),    cmocka_unit_test(test_rejects), cmocka_unit_test(test_dtypes),
      cmocka_unit_test(test_epilogue), cmocka_unit_test(test_empty),   cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests_name("ops/matmul", tests, NULL, NULL);
}
