/* pointwise: types, contents that shapes are made of, values and errors. */
#include <stdio.h>

#include "ops/check.h"

static void test_types(void **state) {
  (void)state;
  check_type("%a: f32[b, 1, 3], %b: f32[5, 1]", "%y = pointwise(%a, %b) {program = {2: add(%0, %1)}}\nreturn %y",
             "f32[b, 5, 3]");
  check_type("%a: f32[n], %b: f32[n]", "%y = pointwise(%a, %b) {program = {2: less:bool(%0, %1)}}\nreturn %y",
             "bool[n]");
  check_type("%a: f32[2]", "%y = pointwise(%a) {program = {1: cast:i64<1, 0>(%0)}}\nreturn %y", "i64[2]");
  check_type("%a: bool[2, 1], %b: f16[3], %c: f16[]",
             "%y = pointwise(%a, %b, %c) {program = {3: select:f16(%0, %1, %2)}}\nreturn %y", "f16[2, 3]");
  check_type("%a: f32[*], %b: f32[3]", "%y = pointwise(%a, %b) {program = {2: mul(%0, %1)}}\nreturn %y", "f32[*]");
}

/* Sizes pass through arithmetic on small integers. */
static void test_contents(void **state) {
  (void)state;
  check_contents("%x: f32[b, 6]",
                 "%s = shape(%x)\n%k: i64[2] = constant data(2, -1)\n"
                 "%y = pointwise(%s, %k) {program = {2: mul:i64(%0, %1)}}\nreturn %y",
                 "[2*b, -6]");
  check_contents("%x: f32[b, 6]",
                 "%s = shape(%x)\n%k: i64[] = constant data(4)\n"
                 "%y = pointwise(%s, %k) {program = {2: add:i64(%0, %1)}}\nreturn %y",
                 "[b + 4, 10]");
  check_contents("%x: f32[7, 6]",
                 "%s = shape(%x)\n%k: i64[] = constant data(2)\n"
                 "%y = pointwise(%s, %k) {program = {2: div:i64(%0, %1)}}\nreturn %y",
                 "[3, 3]");
  /* expand's usual preparation: where(equal(shape, -1), 1, shape) */
  check_contents("%x: f32[b, 6]",
                 "%s: i64[2] = constant data(-1, 5)\n%m: i64[] = constant data(-1)\n%o: i64[] = constant data(1)\n"
                 "%y = pointwise(%s, %m, %o) {program = {3: equal:bool(%0, %1); select:i64(%3, %2, %0)}}\nreturn %y",
                 "[1, 5]");
  check_contents(
      "%x: f32[b, 6]",
      "%s = shape(%x)\n%y = pointwise(%s) {program = {1: cast:i32<1, 0>(%0); cast:i64<1, 0>(%1)}}\nreturn %y",
      "[b, 6]");
  /* what comes out of floats is not followed */
  check_contents(
      "%x: f32[b, 6]",
      "%s = shape(%x)\n%y = pointwise(%s) {program = {1: cast:f32<1, 0>(%0); cast:i64<1, 0>(%1)}}\nreturn %y", "?");
}

static void test_rejects(void **state) {
  (void)state;
  check_rejects("%a: f32[2], %b: f32[3]", "%y = pointwise(%a, %b) {program = {2: add(%0, %1)}}\nreturn %y",
                TERCEL_INVALID_MODEL, "do not broadcast");
  check_rejects("%a: f32[2], %b: f16[2]", "%y = pointwise(%a, %b) {program = {2: add(%0, %1)}}\nreturn %y",
                TERCEL_INVALID_MODEL, "");
  check_rejects("%a: f32[2], %b: f32[2]", "%y = pointwise(%a, %b) {program = {1: relu(%0)}}\nreturn %y",
                TERCEL_INVALID_MODEL, "takes 1 inputs, the node has 2");
}

static void test_values(void **state) {
  (void)state;
  check_values("%a: f32[2, 1] = constant data(1, -2)\n%b: f32[3] = constant data(0.5, 1, 4)\n"
               "%y = pointwise(%a, %b) {program = {2: mul(%0, %1); relu(%2)}}\n"
               "%w: f32[2, 3] = constant data(0.5, 1, 4, 0, 0, 0)\nreturn %y, %w",
               0);
  /* each instruction rounds to its dtype: 2048 + 1 is 2048 in f16 */
  check_values("%a: f16[1] = constant data(2048)\n%b: f16[1] = constant data(1)\n"
               "%y = pointwise(%a, %b) {program = {2: add:f16(%0, %1); sub:f16(%2, %0)}}\n"
               "%w: f16[1] = constant data(0)\nreturn %y, %w",
               0);
  check_values("%a: i8[3] = constant data(127, -128, 5)\n%b: i8[3] = constant data(1, -1, 0)\n"
               "%y = pointwise(%a, %b) {program = {2: add:i8(%0, %1)}}\n"
               "%w: i8[3] = constant data(-128, 127, 5)\n"
               "%z = pointwise(%a, %b) {program = {2: div:i8(%0, %1)}}\n"
               "%v: i8[3] = constant data(127, -128, 0)\nreturn %y, %w, %z, %v",
               0);
}

/* The same function by rows and, with a copy behind it, element by element. */
#define BOTH(fn)                                                                                                       \
  " %y" fn " = pointwise(%a, %b) {program = {2: " fn "(%0, %1)}} %z" fn " = pointwise(%a, %b) {program = {2: " fn      \
  "(%0, %1); copy(%2)}} "

static void test_rows(void **state) {
  (void)state;
  static const char *const operands[] = {
      "%a: f32[2, 3] = constant data(0.1, -2.7, 3e-39, 4, 1e30, 6) %b: f32[2, 3] = constant data(7, 1e-3, 3, 1, 9, 2)",
      "%a: f32[2, 3] = constant data(0.1, -2.7, 3, 4.5, 5, -6) %b: f32[3] = constant data(7.3, 1e-3, 3)",
      "%a: f32[2, 3] = constant data(0.1, -2.7, 3, 4.5, 5, -6) %b: f32[2, 1] = constant data(7.3, 1e-3)",
      "%a: f32[] = constant data(0.1) %b: f32[2, 3] = constant data(0.1, -2.7, 3, 4.5, 5, -6)",
      "%a: f32[2, 1, 3] = constant data(1, 2, 3, 4, 5, 6) %b: f32[2, 1] = constant data(0.3, 0.7)",
      "%a: f32[2, 3, 1] = constant data(1, 2, 3, 4, 5, 6) %b: f32[3, 1] = constant data(0.3, 0.7, 3)",
  };
  for (size_t i = 0; i < sizeof operands / sizeof *operands; ++i) {
    char body[2000];
    snprintf(body, sizeof body, "%s%s", operands[i],
             BOTH("add") BOTH("sub") BOTH("mul")
                 BOTH("div") " return %yadd, %zadd, %ysub, %zsub, %ymul, %zmul, %ydiv, %zdiv");
    check_values(body, 0);
  }
  static const char *const casts[][3] = {
      {"i8", "-128, 127, 5", "f32"}, {"u8", "0, 255, 5", "f32"}, {"i32", "16777217, -2147483648, 33554435", "f32"},
      {"i8", "-128, 127, 5", "i32"}, {"u8", "0, 255, 5", "i32"},
  };
  for (size_t i = 0; i < sizeof casts / sizeof *casts; ++i) {
    char body[500];
    snprintf(body, sizeof body,
             "%%a: %s[3] = constant data(%s) %%y = pointwise(%%a) {program = {1: cast:%s<1, 0>(%%0)}} "
             "%%z = pointwise(%%a) {program = {1: cast:%s<1, 0>(%%0); copy:%s(%%1)}} return %%y, %%z",
             casts[i][0], casts[i][1], casts[i][2], casts[i][2], casts[i][2]);
    check_values(body, 0);
  }
  check_values("%a: i32[3] = constant data(-2147483648, 5, 2) %b: i32[] = constant data(1) "
               "%y = pointwise(%a, %b) {program = {2: sub:i32(%0, %1)}} %z: i32[3] = constant data(2147483647, 4, 1) "
               "return %y, %z",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_contents),
                                     cmocka_unit_test(test_rejects), cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
