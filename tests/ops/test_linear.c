/* einsum, det, cumsum, cumprod, bitcast, reverse_sequence, unique. */
#include "ops/check.h"

#define EINSUM(equation, ...) "%y = einsum(" __VA_ARGS__ ") {equation = \"" equation "\"}\n"

static void test_einsum_types(void **state) {
  (void)state;
  check_type("%a: f32[b, i, j], %c: f32[b, j, k]", EINSUM("bij,bjk->bik", "%a, %c") "return %y", "f32[b, i, k]");
  check_type("%a: f32[b, i, j], %c: f32[j, k]", EINSUM("...ij, jk", "%a, %c") "return %y", "f32[b, i, k]");
  check_type("%a: f32[n, n]", EINSUM("ii", "%a") "return %y", "f32[]");
  check_type("%a: f32[b, 1, d], %c: f32[h, d]", EINSUM("...d,...d->...", "%a, %c") "return %y", "f32[b, h]");
  check_type("%a: f32[3, 4]", EINSUM("ba", "%a") "return %y", "f32[4, 3]");
  check_type("%a: f32[*], %c: f32[3]", EINSUM("...i,i", "%a, %c") "return %y", "f32[*]");
}

static void test_einsum_errors(void **state) {
  (void)state;
  check_rejects("%a: f32[2, 3], %c: f32[4, 5]", EINSUM("ij,jk", "%a, %c") "return %y", TERCEL_INVALID_MODEL,
                "dim 0 of input 1 is 4, but its label stands for 3 elsewhere");
  check_rejects("%a: f32[2, 3]", EINSUM("ijk", "%a") "return %y", TERCEL_INVALID_MODEL, "not as many dims");
  check_rejects("%a: f32[2, 3]", EINSUM("ij,j", "%a") "return %y", TERCEL_INVALID_MODEL, "more terms than operands");
  check_rejects("%a: f32[2], %c: f32[2]", EINSUM("i", "%a, %c") "return %y", TERCEL_INVALID_MODEL, "fewer terms");
  check_rejects("%a: f32[2, 3]", EINSUM("ij->ii", "%a") "return %y", TERCEL_INVALID_MODEL, "names a label twice");
  check_rejects("%a: f32[2, 3]", EINSUM("ij->k", "%a") "return %y", TERCEL_INVALID_MODEL, "that no operand has");
  check_rejects("%a: f32[2, 3]", EINSUM("i......j", "%a") "return %y", TERCEL_INVALID_MODEL, "at most one \"...\"");
  check_rejects("%a: f32[2, 3]", EINSUM("i.j", "%a") "return %y", TERCEL_INVALID_MODEL, "want letters");
  check_rejects("%a: f32[2, 3]", EINSUM("ij->i,j", "%a") "return %y", TERCEL_INVALID_MODEL, "not the end");
  check_rejects("%a: bool[2, 3]", EINSUM("ij", "%a") "return %y", TERCEL_INVALID_MODEL, "input 0 is bool");
}

static void test_einsum_values(void **state) {
  (void)state;
  check_values("%a: i32[2, 2] = constant data(1, 2, 3, 4)\n%c: i32[2] = constant data(10, 100)\n" //
               EINSUM("ij,j", "%a, %c") "%w: i32[2] = constant data(210, 430)\nreturn %y, %w",
               0);
  check_values("%a: f32[2, 2] = constant data(1, 2, 3, 4)\n" EINSUM("ii->i", "%a") "%w: f32[2] = constant data(1, 4)\n"
                                                                                   "return %y, %w",
               0);
  check_values(
      "%a: i8[2, 1] = constant data(100, 3)\n%c: i8[3] = constant data(1, 2, 3)\n%d: i8[2] = constant data(1, 2)\n" //
      EINSUM("ik,j,i->ji", "%a, %c, %d") "%w: i8[3, 2] = constant data(100, 6, -56, 12, 44, 18)\nreturn %y, %w",
      0);
  check_values("%a: f32[0] = constant zeros()\n%c: f32[0] = constant zeros()\n" EINSUM(
                   "i,i", "%a, %c") "%w: f32[] = constant data(0)\nreturn %y, %w",
               0);
}

static void test_det(void **state) {
  (void)state;
  check_type("%x: f32[b, n, n]", "%y = det(%x)\nreturn %y", "f32[b]");
  check_rejects("%x: f32[2, 3]", "%y = det(%x)\nreturn %y", TERCEL_INVALID_MODEL, "last dims are 2 and 3");
  check_rejects("%x: i32[2, 2]", "%y = det(%x)\nreturn %y", TERCEL_INVALID_MODEL, "input is i32");
  check_values("%x: f64[2, 2, 2] = constant data(0, 2, 3, 4, 1, 2, 2, 4)\n%y = det(%x)\n"
               "%w: f64[2] = constant data(-6, 0)\n%e: f32[1, 0, 0] = constant zeros()\n%z = det(%e)\n"
               "%o: f32[1] = constant data(1)\nreturn %y, %w, %z, %o",
               0);
}

static void test_inverse(void **state) {
  (void)state;
  check_type("%x: f32[b, n, n]", "%y = inverse(%x)\nreturn %y", "f32[b, n, n]");
  check_rejects("%x: f32[2, 3]", "%y = inverse(%x)\nreturn %y", TERCEL_INVALID_MODEL, "last dims are 2 and 3");
  check_rejects("%x: f32[2]", "%y = inverse(%x)\nreturn %y", TERCEL_INVALID_MODEL, "input of rank 1");
  check_rejects("%x: i32[2, 2]", "%y = inverse(%x)\nreturn %y", TERCEL_INVALID_MODEL, "input is i32");
  /* The first needs its rows swapped; nothing is the inverse of nothing. */
  check_values("%x: f64[2, 2, 2] = constant data(0, 2, 4, 0, 1, 2, 3, 4)\n%y = inverse(%x)\n"
               "%w: f64[2, 2, 2] = constant data(0, 0.25, 0.5, 0, -2, 1, 1.5, -0.5)\n"
               "%e: f32[3, 0, 0] = constant zeros()\n%z = inverse(%e)\nreturn %y, %w, %z, %e",
               1e-15);
  check_values("%x: f32[2, 2] = constant data(0, 0, 0, 0)\n%y = inverse(%x)\n"
               "%w: f32[2, 2] = constant data(nan, nan, nan, nan)\nreturn %y, %w",
               0);
}

static void test_cumulative(void **state) {
  (void)state;
#define AXIS0 "%a: i64[] = constant data(0)\n"
  check_type("%x: f32[n, 3], %a: i32[]", "%y = cumprod(%x, %a)\nreturn %y", "f32[n, 3]");
  check_rejects("%x: bool[n], %a: i32[]", "%y = cumprod(%x, %a)\nreturn %y", TERCEL_INVALID_MODEL, "input is bool");
  check_values("%x: i32[3] = constant data(2, 3, 4)\n" AXIS0
               "%p = cumprod(%x, %a)\n%wp: i32[3] = constant data(2, 6, 24)\n"
               "%e = cumprod(%x, %a) {exclusive = 1}\n%we: i32[3] = constant data(1, 2, 6)\n"
               "%r = cumsum(%x, %a) {reverse = 1}\n%wr: i32[3] = constant data(9, 7, 4)\n"
               "%b = cumsum(%x, %a) {reverse = 1, exclusive = 1}\n%wb: i32[3] = constant data(7, 4, 0)\n"
               "return %p, %wp, %e, %we, %r, %wr, %b, %wb",
               0);
  check_values("%x: u8[2] = constant data(200, 2)\n" AXIS0 "%p = cumprod(%x, %a)\n%w: u8[2] = constant data(200, 144)\n"
               "return %p, %w",
               0);
  check_eval_fails("%x: i32[2] = constant data(1, 2)\n%a: i64[] = constant data(1)\n%y = cumprod(%x, %a)\nreturn %y",
                   TERCEL_INVALID_MODEL, "axis 1");
#undef AXIS0
}

static void test_bitcast(void **state) {
  (void)state;
  check_type("%x: f32[n, 3]", "%y = bitcast(%x) {to = i32}\nreturn %y", "i32[n, 3]");
  check_rejects("%x: f32[n]", "%y = bitcast(%x) {to = i64}\nreturn %y", TERCEL_INVALID_MODEL,
                "f32 can't be read as i64");
  check_rejects("%x: string[n]", "%y = bitcast(%x) {to = c128}\nreturn %y", TERCEL_INVALID_MODEL, "string can't");
  check_values("%x: f32[2] = constant data(1, -2)\n%y = bitcast(%x) {to = u32}\n"
               "%w: u32[2] = constant data(1065353216, 3221225472)\n%b: u8[3] = constant data(0, 1, 7)\n"
               "%z = bitcast(%b) {to = bool}\n%v: bool[3] = constant data(0, 1, 1)\nreturn %y, %w, %z, %v",
               0);
}

static void test_reverse_sequence(void **state) {
  (void)state;
  check_type("%x: f32[t, b, 3], %l: i64[b]", "%y = reverse_sequence(%x, %l)\nreturn %y", "f32[t, b, 3]");
  check_rejects("%x: f32[4, 2], %l: i64[3]", "%y = reverse_sequence(%x, %l)\nreturn %y", TERCEL_INVALID_MODEL,
                "3 elements, want one for each of 2 sequences");
  check_rejects("%x: f32[4, 2], %l: i64[4]", "%y = reverse_sequence(%x, %l) {batch_axis = 0}\nreturn %y",
                TERCEL_INVALID_MODEL, "both 0");
  check_values("%x: i32[2, 3] = constant data(1, 2, 3, 4, 5, 6)\n%l: i64[2] = constant data(2, 3)\n"
               "%y = reverse_sequence(%x, %l) {batch_axis = 0, time_axis = 1}\n"
               "%w: i32[2, 3] = constant data(2, 1, 3, 6, 5, 4)\nreturn %y, %w",
               0);
  check_eval_fails("%x: i32[2, 1] = constant data(1, 2)\n%l: i64[1] = constant data(3)\n"
                   "%y = reverse_sequence(%x, %l)\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "length 3 of sequence 0, want 0 .. 2");
}

static void test_unique(void **state) {
  (void)state;
  check_type("%x: f32[n, 3]", "%y = unique(%x)\nreturn %y", "f32[?1]");
  check_type("%x: f32[n, 3]", "_, _, %i = unique(%x)\nreturn %i", "i64[3*n]");
  check_type("%x: f32[n, 3]", "%y = unique(%x) {axis = -1}\nreturn %y", "f32[n, ?1]");
  check_values("%x: f32[6] = constant data(2, nan, 1, 2, nan, 1)\n%y, %f, %i, %c = unique(%x)\n"
               "%wy: f32[3] = constant data(1, 2, nan)\n%wf: i64[3] = constant data(2, 0, 1)\n"
               "%wi: i64[6] = constant data(1, 2, 0, 1, 2, 0)\n%wc: i64[3] = constant data(2, 2, 2)\n"
               "return %y, %wy, %f, %wf, %i, %wi, %c, %wc",
               0);
  check_values("%x: i8[5] = constant data(3, -1, 3, 2, -1)\n%y, %f, %i, %c = unique(%x) {sorted = 0}\n"
               "%wy: i8[3] = constant data(3, -1, 2)\n%wf: i64[3] = constant data(0, 1, 3)\n"
               "%wi: i64[5] = constant data(0, 1, 0, 2, 1)\n%wc: i64[3] = constant data(2, 2, 1)\n"
               "return %y, %wy, %f, %wf, %i, %wi, %c, %wc",
               0);
  check_values("%x: string[2, 3] = constant data(\"b\", \"a\", \"b\", \"\", \"c\", \"\")\n%y = unique(%x) {axis = 1}\n"
               "%w: string[2, 2] = constant data(\"a\", \"b\", \"c\", \"\")\nreturn %y, %w",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_einsum_types),  cmocka_unit_test(test_einsum_errors),
                                     cmocka_unit_test(test_einsum_values), cmocka_unit_test(test_det),
                                     cmocka_unit_test(test_inverse),       cmocka_unit_test(test_cumulative),
                                     cmocka_unit_test(test_bitcast),       cmocka_unit_test(test_reverse_sequence),
                                     cmocka_unit_test(test_unique)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
