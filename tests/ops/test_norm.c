/* softmax and the norms: inference, values as numpy gives them, errors. */
#include "ops/check.h"

#define X "%x: f32[2, 3] = constant data(1.5, -2, 0.25, 3, -1, 4)\n"

static void test_softmax(void **state) {
  (void)state;
  check_type("%x: f16[b, 3]", "%y = softmax(%x)\nreturn %y", "f16[b, 3]");
  check_rejects("%x: f32[2, 3]", "%y = softmax(%x) {axis = 2}\nreturn %y", TERCEL_INVALID_MODEL, "axis 2");
  check_rejects("%x: i32[2, 3]", "%y = softmax(%x)\nreturn %y", TERCEL_INVALID_MODEL, "want floats");
  check_values(X "%y = softmax(%x)\n"
                 "%w: f32[2, 3] = constant data(0.759473205, 0.0229341034, 0.217592716, 0.267623156, 0.00490168901, "
                 "0.727475166)\nreturn %y, %w",
               1e-6);
  check_values(X "%y = softmax(%x) {log = 1}\n"
                 "%w: f32[2, 3] = constant data(-0.275130272, -3.77513027, -1.52513027, -1.31817544, -5.31817532, "
                 "-0.318175435)\nreturn %y, %w",
               1e-6);
  check_values(X "%y = softmax(%x) {axis = 0}\n"
                 "%w: f32[2, 3] = constant data(0.182425529, 0.268941432, 0.0229773708, 0.817574501, 0.731058598, "
                 "0.977022648)\nreturn %y, %w",
               1e-6);
}

static void test_rows(void **state) {
  (void)state;
  check_type("%x: f32[b, s, 8], %s: f32[8]", "%y, %m, %d = layer_norm(%x, %s)\nreturn %m", "f32[b, s, 1]");
  check_type("%x: f16[b, s, 8], %s: f16[s, 8]", "%y, %m = layer_norm(%x, %s) {axis = 1}\nreturn %m", "f32[b, 1, 1]");
  check_rejects("%x: f32[2, 8], %s: f32[4]", "%y = rms_norm(%x, %s)\nreturn %y", TERCEL_INVALID_MODEL, "");
  check_values(X "%s: f32[3] = constant data(1, 2, -1)\n%b: f32[3] = constant data(0.5, 0, 1)\n"
                 "%y, %m, %d = layer_norm(%x, %s, %b)\n"
                 "%w: f32[2, 3] = constant data(1.59332454, -2.64699626, 0.769826412, 0.962909579, -2.77745724, "
                 "0.0741808936)\n%v: f32[2, 1] = constant data(-0.0833333358, 2)\n"
                 "%u: f32[2, 1] = constant data(0.690520763, 0.462909549)\nreturn %y, %w, %m, %v, %d, %u",
               1e-6);
  check_values(X "%s: f32[3] = constant data(1, 2, -1)\n%y = rms_norm(%x, %s)\n"
                 "%w: f32[2, 3] = constant data(1.03407049, -2.75752139, -0.172345087, 1.01904869, -0.679365814, "
                 "-1.35873163)\nreturn %y, %w",
               1e-6);
}

#define PLANES                                                                                                         \
  "%x: f32[1, 4, 2] = constant data(1, 2, 3, 5, -1, 0, 4, 4)\n%s: f32[4] = constant data(1, 2, 1, 0.5)\n"              \
  "%b: f32[4] = constant data(0, 1, 0, -1)\n"

static void test_groups(void **state) {
  (void)state;
  check_rejects("%x: f32[2, 6, 3], %s: f32[6]", "%y = group_norm(%x, %s, %s) {groups = 4}\nreturn %y",
                TERCEL_INVALID_MODEL, "6 channels in 4 groups");
  check_rejects("%x: f32[2, 6, 3], %s: f32[5]", "%y = group_norm(%x, %s, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "want one for each of 6 channels");
  check_values(PLANES
               "%y = group_norm(%x, %s, %b) {groups = 2}\n"
               "%w: f32[1, 4, 2] = constant data(-1.18321323, -0.507091403, 1.33806098, 4.04254818, -1.20740569, "
               "-0.768349051, -0.506061316, -0.506061316)\nreturn %y, %w",
               1e-6);
  check_values(PLANES "%y = group_norm(%x, %s, %b)\n"
                      "%w: f32[1, 4, 2] = constant data(-0.999979973, 0.999979973, -0.999989986, 2.99998999, "
                      "-0.999979973, 0.999979973, -1, -1)\nreturn %y, %w",
               1e-6);
}

static void test_batch_norm(void **state) {
  (void)state;
  check_type("%x: f16[b, 4, h], %s: f16[4], %m: f32[4]",
             "%y, %r, %v = batch_norm(%x, %s, %s, %m, %m) {training = 1}\nreturn %r", "f32[4]");
  check_rejects("%x: f32[2, 6, 3], %s: f32[5]", "%y = batch_norm(%x, %s, %s, %s, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "want one for each of 6 channels");
  check_values(PLANES
               "%m: f32[4] = constant data(1, 2, 0, 4)\n%v: f32[4] = constant data(1, 4, 0.25, 1)\n"
               "%y = batch_norm(%x, %s, %b, %m, %v)\n"
               "%w: f32[1, 4, 2] = constant data(0, 0.999994993, 1.99999881, 3.99999619, -1.99995995, 0, -1, -1)\n"
               "return %y, %w",
               1e-6);
  check_values(PLANES "%m: f32[4] = constant data(1, 2, 0, 4)\n%v: f32[4] = constant data(1, 4, 0.25, 1)\n"
                      "%y, %rm, %rv = batch_norm(%x, %s, %b, %m, %v) {training = 1}\n"
                      "%w: f32[1, 4, 2] = constant data(-0.999979973, 0.999979973, -0.999989986, 2.99998999, "
                      "-0.999979973, 0.999979973, -1, -1)\n"
                      "%wm: f32[4] = constant data(1.04999995, 2.20000005, -0.0500000007, 4)\n"
                      "%wv: f32[4] = constant data(0.925000012, 3.70000005, 0.25, 0.899999976)\n"
                      "return %y, %w, %rm, %wm, %rv, %wv",
               1e-6);
}

static void test_lrn(void **state) {
  (void)state;
  check_rejects("%x: f32[2, 6, 3]", "%y = lrn(%x) {size = 0}\nreturn %y", TERCEL_INVALID_MODEL, "size is 0");
  check_values("%x: f32[1, 4, 2] = constant data(1, 2, 3, 5, -1, 0, 4, 4)\n"
               "%y = lrn(%x) {size = 3, alpha = 0.1}\n"
               "%w: f32[1, 4, 2] = constant data(0.805927455, 1.2042923, 2.37341833, 3.01073098, -0.626181066, 0, "
               "2.85645604, 2.90290332)\nreturn %y, %w",
               1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax), cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_groups), cmocka_unit_test(test_batch_norm),
                                     cmocka_unit_test(test_lrn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
