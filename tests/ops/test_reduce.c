/* reduce, arg_reduce, cumsum: inference, values as numpy gives them, errors. */
#include "ops/check.h"

#include <stdio.h>

static void test_types(void **state) {
  (void)state;
  check_type("%x: f32[b, 3, n]", "%y = reduce(%x) {kind = \"sum\", axes = [-1]}\nreturn %y", "f32[b, 3, 1]");
  check_type("%x: f32[b, 3, n]", "%y = reduce(%x) {kind = \"max\", axes = [0, 1], keepdims = 0}\nreturn %y", "f32[n]");
  check_type("%x: f32[b, 3, n]", "%y = reduce(%x) {kind = \"mean\"}\nreturn %y", "f32[1, 1, 1]");
  check_type("%x: f32[b, 3, n]", "%y = reduce(%x) {kind = \"l1\", noop_with_empty_axes = 1}\nreturn %y",
             "f32[b, 3, n]");
  check_type("%x: f32[b, 3], %a: i64[1]", "%y = reduce(%x, %a) {kind = \"l1\", keepdims = 0}\nreturn %y", "f32[*]");
  check_type("%x: f32[b, 3]", "%y = arg_reduce(%x) {kind = \"min\", axis = 1, keepdims = 0}\nreturn %y", "i64[b]");
  check_type("%x: i32[b, 3], %a: i64[]", "%y = cumsum(%x, %a)\nreturn %y", "i32[b, 3]");
}

static void test_contents(void **state) {
  (void)state;
  check_contents("%x: f32[b, 3, 4]", "%s = shape(%x)\n%y = reduce(%s) {kind = \"prod\", keepdims = 0}\nreturn %y",
                 "[12*b]");
  check_contents("%x: f32[b, 3, 4]", "%s = shape(%x)\n%y = reduce(%s) {kind = \"sum\"}\nreturn %y", "[b + 7]");
}

static void test_rejects(void **state) {
  (void)state;
  check_rejects("%x: f32[2, 3]", "%y = reduce(%x) {kind = \"median\"}\nreturn %y", TERCEL_INVALID_MODEL, "median");
  check_rejects("%x: f32[2, 3]", "%y = reduce(%x) {kind = \"sum\", axes = [2]}\nreturn %y", TERCEL_INVALID_MODEL,
                "axis 2");
  check_rejects("%x: bool[2, 3]", "%y = reduce(%x) {kind = \"sum\"}\nreturn %y", TERCEL_INVALID_MODEL, "a sum of bool");
  check_rejects("%x: f32[2, 3]", "%y = arg_reduce(%x) {kind = \"max\", axis = -3}\nreturn %y", TERCEL_INVALID_MODEL,
                "axis -3");
  check_eval_fails("%x: f32[2, 0] = constant zeros()\n%y = arg_reduce(%x) {kind = \"max\", axis = 1}\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "is empty");
}

static void test_kinds(void **state) {
  (void)state;
  static const char *const kinds[][2] = {{"sum", "-0.25, 6"},
                                         {"mean", "-0.0833333358, 2"},
                                         {"max", "1.5, 4"},
                                         {"min", "-2, -1"},
                                         {"prod", "-0.75, -12"},
                                         {"l1", "3.75, 8"},
                                         {"l2", "2.51246881, 5.09901953"},
                                         {"log_sum_exp", "1.77513027, 4.31817532"},
                                         {"sum_square", "6.3125, 26"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char body[512];
    snprintf(
        body, sizeof body,
        "%%x: f32[2, 3] = constant data(1.5, -2, 0.25, 3, -1, 4)\n"
        "%%y = reduce(%%x) {kind = \"%s\", axes = [1], keepdims = 0}\n%%w: f32[2] = constant data(%s)\nreturn %%y, %%w",
        kinds[i][0], kinds[i][1]);
    check_values(body, 1e-6);
  }
}

static void test_other_types(void **state) {
  (void)state;
  check_values("%x: i32[3] = constant data(2000000000, 2000000000, 1)\n%y = reduce(%x) {kind = \"sum\"}\n"
               "%w: i32[1] = constant data(-294967295)\nreturn %y, %w",
               0);
  check_values("%x: u8[2] = constant data(3, 200)\n%y = reduce(%x) {kind = \"max\"}\n%w: u8[1] = constant data(200)\n"
               "%b: bool[2] = constant data(0, 1)\n%z = reduce(%b) {kind = \"min\"}\n%v: bool[1] = constant data(0)\n"
               "return %y, %w, %z, %v",
               0);
  /* sums of f16 are rounded once */
  check_values("%x: f16[3] = constant data(2048, 1, 1)\n%y = reduce(%x) {kind = \"sum\"}\n"
               "%w: f16[1] = constant data(2050)\nreturn %y, %w",
               0);
}

/* Nothing gives what changes nothing. */
static void test_empty(void **state) {
  (void)state;
  check_values("%x: f32[2, 0] = constant zeros()\n%y = reduce(%x) {kind = \"sum\", axes = [1], keepdims = 0}\n"
               "%w: f32[2] = constant data(0, 0)\n%z = reduce(%x) {kind = \"prod\", axes = [1], keepdims = 0}\n"
               "%v: f32[2] = constant data(1, 1)\nreturn %y, %w, %z, %v",
               0);
  check_values("%x: f32[2, 0] = constant zeros()\n%y = reduce(%x) {kind = \"max\", axes = [1], keepdims = 0}\n"
               "%w: f32[2] = constant data(-inf, -inf)\nreturn %y, %w",
               0);
  check_values("%x: i32[0] = constant zeros()\n%y = reduce(%x) {kind = \"min\"}\n"
               "%w: i32[1] = constant data(2147483647)\nreturn %y, %w",
               0);
}

static void test_arg_reduce(void **state) {
  (void)state;
  check_values("%x: f32[2, 4] = constant data(1, 3, 3, nan, 5, 2, 5, 2)\n"
               "%y = arg_reduce(%x) {kind = \"max\", axis = 1, keepdims = 0}\n%w: i64[2] = constant data(3, 0)\n"
               "%z = arg_reduce(%x) {kind = \"min\", axis = 1, keepdims = 0, select_last = 1}\n"
               "%v: i64[2] = constant data(3, 3)\nreturn %y, %w, %z, %v",
               0);
  check_values("%x: u8[3] = constant data(200, 7, 200)\n%y = arg_reduce(%x) {kind = \"max\"}\n"
               "%w: i64[1] = constant data(0)\nreturn %y, %w",
               0);
}

static void test_cumsum(void **state) {
  (void)state;
  check_values("%x: f32[2, 3] = constant data(1, 2, 3, 4, 5, 6)\n%a: i64[] = constant data(1)\n%y = cumsum(%x, %a)\n"
               "%w: f32[2, 3] = constant data(1, 3, 6, 4, 9, 15)\n"
               "%z = cumsum(%x, %a) {exclusive = 1, reverse = 1}\n%v: f32[2, 3] = constant data(5, 3, 0, 11, 6, 0)\n"
               "return %y, %w, %z, %v",
               0);
  check_values("%x: i64[2, 2] = constant data(1, 2, 3, 4)\n%a: i32[] = constant data(-2)\n%y = cumsum(%x, %a)\n"
               "%w: i64[2, 2] = constant data(1, 2, 4, 6)\nreturn %y, %w",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_types),       cmocka_unit_test(test_contents),
                                     cmocka_unit_test(test_rejects),     cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_other_types), cmocka_unit_test(test_empty),
                                     cmocka_unit_test(test_arg_reduce),  cmocka_unit_test(test_cumsum)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
