/* dft, stft, mel_weight_matrix: inference, errors, values (small ones by hand, others made with numpy). */
#include "ops/check.h"

static void test_dft_types(void **state) {
  (void)state;
  check_type("%x: f32[n, l, 1]", "%y = dft(%x)\nreturn %y", "f32[n, l, 2]");
  check_type("%x: f32[n, l, 1]", "%y = dft(%x) {onesided = 1}\nreturn %y", "f32[n, floor_div(l, 2) + 1, 2]");
  check_type("%x: f64[n, l, 2]", "%y = dft(%x) {onesided = 1, inverse = 1}\nreturn %y", "f64[n, 2*l - 2, 1]");
  check_type("%x: f32[n, l, 2]", "%k: i64[] = constant data(16)\n%y = dft(%x, %k) {axis = 0}\nreturn %y",
             "f32[16, l, 2]");
  check_type("%x: f32[3, 4, 2]", "%a: i64[] = constant data(0)\n%y = dft(%x, _, %a) {inverse = 1}\nreturn %y",
             "f32[3, 4, 2]");
  check_type("%x: f32[3, 4, 2], %a: i64[]", "%y = dft(%x, _, %a)\nreturn %y", "f32[3, 4, 2]");
  check_type("%x: f32[3, 4, 1], %a: i64[]", "%y = dft(%x, _, %a) {onesided = 1}\nreturn %y", "f32[?1, ?2, 2]");
}

static void test_dft_errors(void **state) {
  (void)state;
  check_rejects("%x: i32[3, 1]", "%y = dft(%x)\nreturn %y", TERCEL_INVALID_MODEL, "input 0 is i32, want floats");
  check_rejects("%x: f32[3, 3]", "%y = dft(%x)\nreturn %y", TERCEL_INVALID_MODEL, "whose last dim is 3");
  check_rejects("%x: f32[3, 2]", "%y = dft(%x) {onesided = 1}\nreturn %y", TERCEL_INVALID_MODEL, "two sides");
  check_rejects("%x: f32[3, 2]", "%y = dft(%x) {axis = 1}\nreturn %y", TERCEL_INVALID_MODEL, "axis 1 holds real");
  check_rejects("%x: f32[3, 2]", "%k: i64[] = constant data(0)\n%y = dft(%x, %k)\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "the length is 0");
  check_rejects("%x: f32[3, 2]", "%k: i64[] = constant data(4611686018427387904)\n%y = dft(%x, %k)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "the length is 4611686018427387904");
}

static void test_dft_values(void **state) {
  (void)state;
  check_values(
      "%x: f32[3, 1] = constant data(1, 2, 4)\n%y = dft(%x)\n"
      "%w: f32[3, 2] = constant data(7, 0, -2, 1.7320508, -2, -1.7320508)\n"
      "%h = dft(%x) {onesided = 1}\n%wh: f32[2, 2] = constant data(7, 0, -2, 1.7320508)\n"
      "%k: i64[] = constant data(3)\n%b = dft(%h, %k) {inverse = 1, onesided = 1}\nreturn %y, %w, %h, %wh, %b, %x",
      1e-6);
  /* 12 = 2 2 3 points, every factor; the transform of a shifted pulse turns once around. */
  check_values(
      "%x: f64[1, 6, 2] = constant data(0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)\n%y = dft(%x)\n"
      "%w: f64[1, 6, 2] = constant data(1, 0, 0.5, -0.86602540378443865, -0.5, -0.86602540378443865, -1, 0, "
      "-0.5, 0.86602540378443865, 0.5, 0.86602540378443865)\n%b = dft(%y) {inverse = 1}\nreturn %y, %w, %b, %x",
      1e-15);
  /* Longer: zeros are added.  Shorter: the rest does not count. */
  check_values("%x: f32[2, 1] = constant data(1, 2)\n%k: i64[] = constant data(4)\n%o: i64[] = constant data(1)\n"
               "%y = dft(%x, %k)\n%w: f32[4, 2] = constant data(3, 0, 1, -2, -1, 0, 1, 2)\n"
               "%z = dft(%x, %o)\n%v: f32[1, 2] = constant data(1, 0)\nreturn %y, %w, %z, %v",
               1e-6);
}

static void test_stft(void **state) {
  (void)state;
  check_type("%x: f32[n, l, 1], %w: f32[16]", "%s: i64[] = constant data(8)\n%y = stft(%x, %s, %w)\nreturn %y",
             "f32[n, floor_div(l, 8) - 1, 9, 2]");
  check_rejects("%x: f32[1, 4, 1]", "%s: i64[] = constant data(0)\n%y = stft(%x, %s)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "the step is 0");
  check_rejects("%x: f32[1, 4, 1], %w: f32[8]", "%s: i64[] = constant data(1)\n%y = stft(%x, %s, %w)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "frames of 8 in a signal of 4");
  check_rejects("%x: f32[1, 9, 1], %w: f32[8]",
                "%s: i64[] = constant data(1)\n%k: i64[] = constant data(4)\n%y = stft(%x, %s, %w, %k)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "a window of 8 for frames of 4");
  check_values("%x: f32[1, 4] = constant data(1, 2, 4, 8)\n%s: i64[] = constant data(2)\n"
               "%w: f32[2] = constant data(1, 0.5)\n%y = stft(%x, %s, %w)\n"
               "%v: f32[1, 2, 2, 2] = constant data(2, 0, 0, 0, 8, 0, 0, 0)\nreturn %y, %v",
               1e-6);
}

static void test_mel_weight_matrix(void **state) {
  (void)state;
#define MEL(low, high)                                                                                                 \
  "%b: i64[] = constant data(2)\n%l: i64[] = constant data(8)\n%r: i64[] = constant data(8000)\n"                      \
  "%lo: f32[] = constant data(" low ")\n%hi: f32[] = constant data(" high ")\n"                                        \
  "%y = mel_weight_matrix(%b, %l, %r, %lo, %hi)\n"
  check_type("%x: f32[1]", MEL("0", "4000") "return %y", "f32[5, 2]");
  check_values(MEL("0", "4000") "%w: f32[5, 2] = constant data(1, 0, 0, 1, 0, 0, 0, 0, 0, 0)\nreturn %y, %w", 0);
  check_eval_fails(MEL("0", "400000") "return %y", TERCEL_INVALID_ARGUMENT, "of a spectrum of 5 bins");
  check_eval_fails(MEL("nan", "4000") "return %y", TERCEL_INVALID_ARGUMENT, "edge 0 lies at bin nan");
#undef MEL
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dft_types), cmocka_unit_test(test_dft_errors),
                                     cmocka_unit_test(test_dft_values), cmocka_unit_test(test_stft),
                                     cmocka_unit_test(test_mel_weight_matrix)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
