/* random: shapes, the properties of its distributions, and seeds. */
#include "ops/check.h"

static void test_shape(void **state) {
  (void)state;
  check_type("%x: f32[n, 3]", "%s = shape(%x)\n%y = random(%s) {kind = \"normal\", dtype = f16}\nreturn %y",
             "f16[n, 3]");
  check_type("%s: i64[2]", "%y = random(%s) {kind = \"uniform\"}\nreturn %y", "f32[?0, ?1]");
  check_rejects("%s: f32[2]", "%y = random(%s) {kind = \"uniform\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "want i32 or i64");
  check_rejects("%x: f32[2]", "%s: i64[1] = constant data(-2)\n%y = random(%s) {kind = \"uniform\"}\nreturn %y",
                TERCEL_INVALID_MODEL, "dim 0 of the shape is -2");
}

/* Seeds are fixed, so nothing here is left to chance; the bounds are some four standard deviations. */
static void test_uniform(void **state) {
  (void)state;
  check_values("%s: i64[1] = constant data(20001)\n%y = random(%s) {kind = \"uniform\", a = -1, b = 3, seed = 5}\n"
               "%m = reduce(%y) {kind = \"mean\", keepdims = 0}\n%want: f32[] = constant data(1)\nreturn %m, %want",
               0.033);
  check_values("%s: i64[1] = constant data(20001)\n%y = random(%s) {kind = \"uniform\", dtype = f64, seed = 5}\n"
               "%lo = reduce(%y) {kind = \"min\", keepdims = 0}\n%zero: f64[] = constant data(0)\n"
               "%hi = reduce(%y) {kind = \"max\", keepdims = 0}\n%one: f64[] = constant data(1)\n"
               "%q = reduce(%y) {kind = \"sum_square\", keepdims = 0}\n%third: f64[] = constant data(6667)\n"
               "return %lo, %zero, %hi, %one, %q, %third",
               0.02);
  /* The upper bound is left out, in narrow types too. */
  check_values("%s: i64[1] = constant data(4000)\n%y = random(%s) {kind = \"uniform\", dtype = bf16, seed = 1}\n"
               "%hi = reduce(%y) {kind = \"max\", keepdims = 0}\n%want: bf16[] = constant data(0.99609375)\n"
               "return %hi, %want",
               0);
}

static void test_normal(void **state) {
  (void)state;
  check_values("%s: i64[2] = constant data(201, 99)\n%y = random(%s) {kind = \"normal\", a = 2, b = 3, seed = 9}\n"
               "%m = reduce(%y) {kind = \"mean\", keepdims = 0}\n%two: f32[] = constant data(2)\n"
               "%q = reduce(%y) {kind = \"sum_square\", keepdims = 0}\n%want: f32[] = constant data(258687)\n"
               "return %m, %two, %q, %want",
               0.03);
}

static void test_seed(void **state) {
  (void)state;
  check_values("%s: i64[1] = constant data(7)\n%a = random(%s) {kind = \"uniform\", seed = 3}\n"
               "%b = random(%s) {kind = \"uniform\", seed = 3}\nreturn %a, %b",
               0);
  /* Element i is the same whatever the shape. */
  check_values("%s: i64[1] = constant data(7)\n%a = random(%s) {kind = \"normal\", seed = 3}\n"
               "%t: i64[1] = constant data(3)\n%b = random(%t) {kind = \"normal\", seed = 3}\n"
               "%zero: i64[1] = constant data(0)\n%c = slice(%a, %zero, %t)\nreturn %b, %c",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shape), cmocka_unit_test(test_uniform),
                                     cmocka_unit_test(test_normal), cmocka_unit_test(test_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
