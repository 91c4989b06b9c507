/* transpose, concat, slice, split. */
#include "ops/check.h"

static void test_transpose(void **state) {
  (void)state;
  check_type("%x: f32[n, 3, h]", "%y = transpose(%x)\nreturn %y", "f32[h, 3, n]");
  check_type("%x: f32[n, 3, h]", "%y = transpose(%x) {perm = [0, 2, 1]}\nreturn %y", "f32[n, h, 3]");
  check_rejects("%x: f32[n, 3]", "%y = transpose(%x) {perm = [0, 0]}\nreturn %y", TERCEL_INVALID_MODEL,
                "names axis 0 twice");
  check_rejects("%x: f32[n, 3]", "%y = transpose(%x) {perm = [0]}\nreturn %y", TERCEL_INVALID_MODEL,
                "perm has 1 entries");
  check_values("%x: f32[2, 3] = constant ramp()\n%y = transpose(%x)\n"
               "%w: f32[3, 2] = constant data(-0.75, -0.375, -0.625, -0.25, -0.5, -0.125)\nreturn %y, %w",
               0);
  check_values("%x: u4[2, 3] = constant data(1, 2, 3, 4, 5, 6)\n%y = transpose(%x)\n"
               "%w: u4[3, 2] = constant data(1, 4, 2, 5, 3, 6)\nreturn %y, %w",
               0);
  check_values("%x: string[2, 2] = constant data(\"a\", \"b\", \"c\", \"d\")\n%y = transpose(%x)\n"
               "%w: string[2, 2] = constant data(\"a\", \"c\", \"b\", \"d\")\nreturn %y, %w",
               0);
}

static void test_concat(void **state) {
  (void)state;
  check_type("%a: f32[n, 2], %b: f32[n, m]", "%y = concat(%a, %b) {axis = -1}\nreturn %y", "f32[n, m + 2]");
  check_type("%a: f32[n, 2], %b: f32[4, m]", "%y = concat(%a, %b) {axis = 1}\nreturn %y", "f32[4, m + 2]");
  check_type("%a: f32[*], %b: f32[4, 3]", "%y = concat(%a, %b) {axis = 1}\nreturn %y", "f32[4, ?0 + 3]");
  check_contents("%x: f32[n, 3]",
                 "%c: i64[2] = constant data(-1, 7)\n%s = shape(%x)\n%y = concat(%s, %c) {axis = 0}\nreturn %y",
                 "[n, 3, -1, 7]");
  check_rejects("%a: f32[3, 2], %b: f32[4, 2]", "%y = concat(%a, %b) {axis = 1}\nreturn %y", TERCEL_INVALID_MODEL,
                "input 1 has size 4 along axis 0");
  check_rejects("%a: f32[3, 2], %b: f32[3]", "%y = concat(%a, %b) {axis = 0}\nreturn %y", TERCEL_INVALID_MODEL, "rank");
  check_rejects("%a: f32[3], %b: i64[3]", "%y = concat(%a, %b) {axis = 0}\nreturn %y", TERCEL_INVALID_MODEL,
                "input 1 is i64, but input 0 is f32");
  check_rejects("%a: f32[4611686018427387904], %b: f32[4611686018427387904]",
                "%y = concat(%a, %b) {axis = 0}\nreturn %y", TERCEL_OUT_OF_MEMORY, "too large");
  check_values(
      "%a: i2[2, 1] = constant data(1, -2)\n%b: i2[2, 2] = constant data(0, 1, -1, 0)\n%y = concat(%a, %b) {axis = 1}\n"
      "%w: i2[2, 3] = constant data(1, 0, 1, -2, -1, 0)\nreturn %y, %w",
      0);
  check_values("%a: f32[2, 0] = constant zeros()\n%b: f32[2, 2] = constant ramp()\n%y = concat(%a, %b) {axis = "
               "1}\nreturn %y, %b",
               0);
}

/* starts, ends, axes, steps as constants of one entry. */
#define SLICE(start, end, axis, step)                                                                                  \
  "%s: i64[1] = constant data(" #start ")\n%e: i64[1] = constant data(" #end ")\n%a: i64[1] = constant data(" #axis    \
  ")\n%p: i64[1] = constant data(" #step ")\n%y = slice(%x, %s, %e, %a, %p)\n"

static void test_slice_shapes(void **state) {
  (void)state;
  check_type("%x: f32[4, 10]", SLICE(1, 8, 1, 3) "return %y", "f32[4, 3]");
  check_type("%x: f32[4, 10]", SLICE(-1, -100, 1, -4) "return %y", "f32[4, 3]");
  check_type("%x: f32[4, 10]", SLICE(5, 2, -1, 1) "return %y", "f32[4, 0]");
  check_type("%x: f32[4, 10]", SLICE(-9223372036854775807, 9223372036854775807, 1, 9223372036854775807) "return %y",
             "f32[4, 1]");
  check_type("%x: f32[4, n]", SLICE(0, 9223372036854775807, 1, 1) "return %y", "f32[4, n]");
  check_type("%x: f32[4, n]", SLICE(0, 1000000000, 1, 1) "return %y", "f32[4, min(n, 1000000000)]");
  check_type("%x: f32[n, 512, 256]", SLICE(0, 1000000000, 0, 1) "return %y", "f32[n, 512, 256]"); /* 2^48 bytes */
  check_type("%x: f32[4, n]", SLICE(0, -1, 1, 1) "return %y", "f32[4, max(n - 1, 0)]");
  check_type("%x: f32[4, n]", SLICE(-2, 9223372036854775807, 1, 1) "return %y", "f32[4, min(n, 2)]");
  check_type("%x: f32[4, 2*n]", SLICE(0, 2147483647, 1, 2) "return %y", "f32[4, n]");
  check_type("%x: f32[4, n]", SLICE(-1, -9223372036854775807, 1, -1) "return %y", "f32[4, n]");
  /* as many from the end as there are: T5's position biases */
  check_type("%x: f32[n, 4]",
             "%s = shape(%x) {start = 0, end = 1} %m = pointwise(%s) {program = {1: neg:i64(%0)}} "
             "%e: i64[1] = constant data(9223372036854775807) %a: i64[1] = constant data(0) "
             "%y = slice(%x, %m, %e, %a)\nreturn %y",
             "f32[n, 4]");
  check_type("%x: f32[4, 10], %s: i64[1], %e: i64[1]",
             "%a: i64[1] = constant data(1)\n%y = slice(%x, %s, %e, %a)\nreturn %y", "f32[4, ?0]");
  check_type("%x: f32[4, 10], %k: f32[seq]",
             "%s: i64[1] = constant data(0)\n%a: i64[1] = constant data(1)\n%e = shape(%k)\n%y = slice(%x, %s, %e, "
             "%a)\nreturn %y",
             "f32[4, min(seq, 10)]");
  check_rejects("%x: f32[4, 10]", SLICE(0, 1, 2, 1) "return %y", TERCEL_INVALID_MODEL, "axis 2");
  check_rejects("%x: f32[4, 10]", SLICE(0, 1, 0, 0) "return %y", TERCEL_INVALID_ARGUMENT, "step is 0");
  check_rejects("%x: f32[4, 10]",
                "%s: i64[2] = constant data(0, 0)\n%e: i64[1] = constant data(1)\n%y = slice(%x, %s, %e)\nreturn %y",
                TERCEL_INVALID_MODEL, "beside 2 starts");
  check_contents("%t: f32[a, b, c, 5]", "%x = shape(%t)\n" SLICE(1, -1, 0, 1) "return %y", "[b, c]");
  check_contents("%t: f32[a, b, c, 5]", "%x = shape(%t)\n" SLICE(-1, -9, 0, -2) "return %y", "[5, b]");
}

static void test_slice_values(void **state) {
  (void)state;
  check_values("%x: i32[2, 4] = constant ramp()\n" SLICE(
                   -1, -9, 1, -2) "%w: i32[2, 2] = constant data(-3, -5, 1, -1)\nreturn %y, %w",
               0);
  check_values(
      "%x: i4[5] = constant data(1, 2, 3, 4, 5)\n" SLICE(1, 4, 0, 2) "%w: i4[2] = constant data(2, 4)\nreturn %y, %w",
      0);
  check_values("%x: string[3] = constant data(\"a\", \"b\", \"c\")\n" SLICE(
                   2, -9, 0, -1) "%w: string[3] = constant data(\"c\", \"b\", \"a\")\nreturn %y, %w",
               0);
  check_values("%x: f32[2, 0] = constant zeros()\n" SLICE(0, 5, 1, 1) "return %y, %x", 0);
  check_values("%x: f32[2, 0] = constant zeros()\n" SLICE(-1, -9, 1, -1) "return %y, %x", 0);
  check_values("%x: i32[5] = constant data(1, 2, 3, 4, 5)\n" SLICE(
                   4, -9, 0, -9223372036854775807) "%w: i32[1] = constant data(5)\nreturn %y, %w",
               0);
}

static void test_split(void **state) {
  (void)state;
  check_type("%x: f32[10, n]", "%z, %y = split(%x)\nreturn %z", "f32[5, n]");
  check_type("%x: f32[10, n]", "%a, %b, %y = split(%x)\nreturn %y", "f32[2, n]");
  check_type("%x: f32[3, n]", "%y, %b = split(%x) {axis = 1}\nreturn %y", "f32[3, ?4]");
  check_type("%x: f32[3, 2*n]", "%y, %b = split(%x) {axis = 1}\nreturn %y", "f32[3, n]");
  check_type("%x: f32[3, n]", "%s: i64[2] = constant data(2, 4)\n%a, %y = split(%x, %s) {axis = -1}\nreturn %y",
             "f32[3, 4]");
  check_type("%x: f32[3, n], %s: i64[2]", "%a, %y = split(%x, %s) {axis = -1}\nreturn %y", "f32[3, ?2]");
  check_contents("%t: f32[a, b, 5]",
                 "%s: i64[2] = constant data(1, 2)\n%x = shape(%t)\n%a, %y = split(%x, %s)\nreturn %y", "[b, 5]");
  check_rejects("%x: f32[5]", "%s: i64[2] = constant data(2, 4)\n%a, %y = split(%x, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "add up to 6, but the axis has 5");
  check_rejects("%x: f32[5]", "%s: i64[1] = constant data(5)\n%a, %y = split(%x, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "1 sizes for 2 outputs");
  check_rejects("%x: f32[5]", "%s: i64[2] = constant data(6, -1)\n%a, %y = split(%x, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "size -1");
  check_values(
      "%x: i8[2, 3] = constant ramp()\n%a, %b = split(%x) {axis = 1}\n%v: i8[2, 2] = constant data(-6, -5, -3, -2)\n"
      "%w: i8[2, 1] = constant data(-4, -1)\nreturn %a, %v, %b, %w",
      0);
  check_values("%x: u2[5] = constant data(0, 1, 2, 3, 1)\n%s: i64[2] = constant data(1, 4)\n_, %b = split(%x, %s)\n"
               "%w: u2[4] = constant data(1, 2, 3, 1)\nreturn %b, %w",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_transpose), cmocka_unit_test(test_concat),
                                     cmocka_unit_test(test_slice_shapes), cmocka_unit_test(test_slice_values),
                                     cmocka_unit_test(test_split)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
