/* resize and pool.  Expected numbers: ONNX's reference implementation (onnx 1.23). */
#include <stdio.h>

#include "ops/check.h"

#define SCALES(numbers) "%s: f32[4] = constant data(" numbers ")\n"
#define X "%x: f32[1, 1, 3, 4] = constant ramp()\n"

static void test_resize_shapes(void **state) {
  (void)state;
  check_type("%x: f32[n, 3, h, 5]", SCALES("1, 1, 2, 2") "%y = resize(%x, _, %s)\nreturn %y", "f32[n, 3, 2*h, 10]");
  check_type("%x: f32[n, 3, h, 5]", SCALES("1, 1, 0.5, 0.3") "%y = resize(%x, _, %s)\nreturn %y",
             "f32[n, 3, floor_div(h, 2), 1]");
  check_type("%x: f32[n, 3, h, 5]",
             "%s: f32[2] = constant data(2, 3)\n%y = resize(%x, _, %s) {axes = [2, -1]}\nreturn %y",
             "f32[n, 3, 2*h, 15]");
  check_type("%x: f32[n, 3, h, 5], %t: f32[a, b]",
             "%s = shape(%t)\n%y = resize(%x, _, _, %s) {axes = [2, 3]}\nreturn %y", "f32[n, 3, a, b]");
  check_type("%x: f32[n, 3, h, 5], %s: f32[4]", "%y = resize(%x, _, %s)\nreturn %y", "f32[?2, ?3, ?4, ?5]");
  check_type("%x: f32[1, 3, 4, 8]",
             "%s: i64[2] = constant data(7, 6)\n%y = resize(%x, _, _, %s) {axes = [2, 3], keep_aspect_ratio = "
             "\"not_smaller\"}\nreturn %y",
             "f32[1, 3, 7, 14]");
  check_rejects("%x: f32[n, 3, h, 5]", "%y = resize(%x)\nreturn %y", TERCEL_INVALID_MODEL, "neither scales and sizes");
  check_rejects("%x: f32[1, 3, 4, 5]", SCALES("1, 1, 0, 2") "%y = resize(%x, _, %s)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "scale 0");
  check_rejects("%x: f32[1, 3, 4, 5]", SCALES("1, 1, nan, 2") "%y = resize(%x, _, %s)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "scale nan");
  check_rejects("%x: f32[1, 3, 4, 5]", SCALES("1, 1, 1e30, 2") "%y = resize(%x, _, %s)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "too large");
  check_rejects("%x: f32[1, 3, 4, 5]", SCALES("1, 1, 1e12, 1e6") "%y = resize(%x, _, %s)\nreturn %y",
                TERCEL_OUT_OF_MEMORY, "too large");
  check_rejects("%x: f32[4, 5]", SCALES("1, 1, 1, 1") "%y = resize(%x, _, %s)\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "4 scales, want 2");
  check_rejects("%x: f32[4, 5]", "%s: f32[2] = constant fill(1)\n%y = resize(%x, _, %s) {mode = \"area\"}\nreturn %y",
                TERCEL_INVALID_MODEL, "mode is \"area\"");
}

static void test_nearest(void **state) {
  (void)state;
  check_values(X SCALES("1, 1, 2, 1.5") "%y = resize(%x, _, %s)\n%w: f32[1, 1, 6, 6] = constant data("
                                        "-0.75, -0.75, -0.625, -0.5, -0.5, -0.375, -0.75, -0.75, -0.625, -0.5, -0.5, "
                                        "-0.375, -0.25, -0.25, -0.125, 0, 0, 0.125, "
                                        "-0.25, -0.25, -0.125, 0, 0, 0.125, 0.25, 0.25, 0.375, 0.5, 0.5, 0.625, 0.25, "
                                        "0.25, 0.375, 0.5, 0.5, 0.625)\nreturn %y, %w",
               0);
  check_values("%x: i4[3] = constant data(1, -2, 3)\n%s: f32[1] = constant data(2)\n"
               "%y = resize(%x, _, %s) {coordinate = \"asymmetric\", nearest = \"ceil\"}\n%w: i4[6] = constant data(1, "
               "-2, -2, 3, 3, 3)\nreturn %y, %w",
               0);
  check_values(X "%s: i64[2] = constant data(7, 4)\n%y = resize(%x, _, _, %s) {axes = [2, 3], keep_aspect_ratio = "
                 "\"not_larger\"}\nreturn %y, %x",
               0);
}

static void test_interpolation(void **state) {
  (void)state;
  check_values(
      X SCALES("1, 1, 2, 1.5") "%y = resize(%x, _, %s) {mode = \"linear\"}\n%w: f32[1, 1, 6, 6] = constant data("
                               "-0.75, -0.6875, -0.6041667, -0.5208333, -0.4375, -0.375, -0.625, -0.5625, -0.4791667, "
                               "-0.3958333, -0.3125, -0.25, -0.375, -0.3125, "
                               "-0.2291667, -0.1458333, -0.0625, 0, -0.125, -0.0625, 0.0208333, 0.1041667, 0.1875, "
                               "0.25, 0.125, 0.1875, 0.2708333, 0.3541667, 0.4375, "
                               "0.5, 0.25, 0.3125, 0.3958333, 0.4791667, 0.5625, 0.625)\nreturn %y, %w",
      1e-6);
  check_values(X SCALES("1, 1, 1.4, 2") "%y = resize(%x, _, %s) {mode = \"linear\", coordinate = \"align_corners\"}\n"
                                        "%w: f32[1, 1, 4, 8] = constant data(-0.75, -0.6964286, -0.6428571, "
                                        "-0.5892857, -0.5357143, -0.4821429, -0.4285714, -0.375, -0.4375, "
                                        "-0.3839286, -0.3303571, -0.2767857, -0.2232143, -0.1696429, -0.1160714, "
                                        "-0.0625, -0.125, -0.0714286, -0.0178571, 0.0357143, 0.0892857, "
                                        "0.1428572, 0.1964286, 0.25, 0.1875, 0.2410714, 0.2946429, 0.3482143, "
                                        "0.4017857, 0.4553572, 0.5089286, 0.5625)\nreturn %y, %w",
               1e-6);
  check_values(X SCALES("1, 1, 1.5, 0.8") "%y = resize(%x, _, %s) {mode = \"cubic\"}\n%w: f32[1, 1, 4, 3] = constant "
                                          "data(-0.7816233, "
                                          "-0.6178659, -0.4552072, -0.5350952, -0.3713379, -0.2086792, -0.123058, "
                                          "0.0406994, 0.2033581, 0.1987007, 0.3624581, 0.5251169)\n"
                                          "return %y, %w",
               1e-6);
  check_values(X SCALES("1, 1, 0.4, 1.5") "%y = resize(%x, _, %s) {mode = \"cubic\", coordinate = "
                                          "\"pytorch_half_pixel\", exclude_outside = 1, "
                                          "cubic_coeff_a = -0.5}\n%w: f32[1, 1, 1, 6] = constant data(-0.4032618, "
                                          "-0.3435676, -0.2492049, -0.1658714, -0.0715088, -0.0118145)\n"
                                          "return %y, %w",
               1e-6);
  check_values(
      X SCALES("1, 1, 1.4, 0.6") "%y = resize(%x, _, %s) {mode = \"linear\", coordinate = \"half_pixel_symmetric\"}\n"
                                 "%w: f32[1, 1, 4, 2] = constant data(-0.6666667, -0.4583333, -0.3452381, -0.1369048, "
                                 "0.0119048, 0.2202381, 0.3333333, 0.5416667)\n"
                                 "return %y, %w",
      1e-6);
}

static void test_antialias_and_crop(void **state) {
  (void)state;
  check_values(X SCALES("1, 1, 0.6, 0.6") "%y = resize(%x, _, %s) {mode = \"linear\", antialias = 1}\n"
                                          "%w: f32[1, 1, 1, 2] = constant data(-0.515625, -0.3125)\nreturn %y, %w",
               1e-6);
  check_values(X SCALES("1, 1, 0.7, 0.5") "%y = resize(%x, _, %s) {mode = \"cubic\", antialias = 1}\n"
                                          "%w: f32[1, 1, 2, 2] = constant data(-0.5795017, -0.3270603, 0.1471719, "
                                          "0.3996133)\nreturn %y, %w",
               1e-6);
  check_values(
      X
      "%r: f32[8] = constant data(0, 0, 0.3, 0.1, 1, 1, 1.2, 0.9)\n%s: i64[4] = constant data(1, 1, 3, 3)\n"
      "%y = resize(%x, %r, _, %s) {mode = \"linear\", coordinate = \"tf_crop_and_resize\", extrapolation_value = 9}\n"
      "%w: f32[1, 1, 3, 3] = constant data(-0.4125, -0.2625, -0.1125, 0.0375, 0.1875, 0.3375, 9, 9, 9)\nreturn %y, %w",
      1e-6);
  check_values("%x: u8[1, 1, 3, 4] = constant data(0, 21, 42, 63, 84, 105, 126, 147, 168, 189, 210, 231)\n" SCALES(
                   "1, 1, 1.5, 1.5") "%y = resize(%x, _, %s) {mode = \"cubic\"}\n%w: u8[1, 1, 4, 6] = constant data(0, "
                                     "1, 18, 30, 47, 58, 32, 43, 60, 72, 89, 99, 102, 112, "
                                     "129, 141, 158, 168, 156, 166, 183, 195, 212, 222)\nreturn %y, %w",
               0);
}

static void test_pool_shapes(void **state) {
  (void)state;
  check_type("%x: f32[n, 3, h, 9]",
             "%y = pool(%x) {kind = \"max\", kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}\nreturn %y",
             "f32[n, 3, floor_div(h + 1, 2), 5]");
  check_type("%x: f32[n, 3, 4]",
             "%y = pool(%x) {kind = \"average\", kernel = [2], strides = [3], ceil_mode = 1}\nreturn %y",
             "f32[n, 3, 2]");
  check_type("%x: f32[1, 1, 2, 2]",
             "%y = pool(%x) {kind = \"max\", kernel = [1, 1], strides = [2, 2], ceil_mode = 1}\nreturn %y",
             "f32[1, 1, 1, 1]");
  check_rejects("%x: f32[n, 3, 4]", "%y = pool(%x) {kind = \"max\", kernel = [2, 2]}\nreturn %y", TERCEL_INVALID_MODEL,
                "kernel of 2 dims");
  check_rejects("%x: i32[n, 3, 4]", "%y = pool(%x) {kind = \"average\", kernel = [2]}\nreturn %y", TERCEL_INVALID_MODEL,
                "average pooling of i32");
  check_rejects("%x: f32[n, 3, 4]", "%y = pool(%x) {kind = \"lp\", kernel = [2], p = 0}\nreturn %y",
                TERCEL_INVALID_MODEL, "p is 0");
  check_rejects("%x: f32[n, 3, 4]", "%y, %z = pool(%x) {kind = \"lp\", kernel = [2]}\nreturn %y", TERCEL_INVALID_MODEL,
                "no indices");
  check_type(
      "%x: f32[n, h, 9, 3]",
      "%y = pool(%x) {kind = \"max\", layout = \"nhwc\", kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}\n"
      "return %y",
      "f32[n, floor_div(h + 1, 2), 5, 3]");
  check_rejects("%x: f32[n, 3, 4]", "%y, %i = pool(%x) {kind = \"max\", layout = \"nhwc\", kernel = [2]}\nreturn %y",
                TERCEL_INVALID_MODEL, "no indices");
}

/* The same numbers as with channels first. */
static void test_pool_channels_last(void **state) {
  (void)state;
  static const char *const attrs[] = {
      "kind = \"max\", kernel = [3, 2], pads = [1, 0, 2, 1]",
      "kind = \"average\", kernel = [2, 3], strides = [2, 1], pads = [0, 1, 1, 1], count_include_pad = 1",
      "kind = \"average\", kernel = [2, 2], dilations = [2, 1], pads = [1, 0, 0, 1], ceil_mode = 1, strides = [2, 2]",
      "kind = \"lp\", kernel = [2, 2]"};
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
    char text[900];
    snprintf(text, sizeof text,
             "%%n: i64[] = constant data(0)\n%%end: i64[] = constant data(180)\n%%one: i64[] = constant data(1)\n"
             "%%ramp = range(%%n, %%end, %%one)\n%%s: i64[4] = constant data(2, 3, 6, 5)\n"
             "%%whole = reshape(%%ramp, %%s)\n%%x = pointwise(%%whole) {program = {1: cast:f32<1, 0>(%%0)}}\n"
             "%%xt = transpose(%%x) {perm = [0, 2, 3, 1]}\n%%first = pool(%%x) {%s}\n"
             "%%want = transpose(%%first) {perm = [0, 2, 3, 1]}\n"
             "%%y = pool(%%xt) {layout = \"nhwc\", %s}\nreturn %%y, %%want",
             attrs[i], attrs[i]);
    check_values(text, 0);
  }
}

static void test_pool_values(void **state) {
  (void)state;
  check_values(
      "%x: f32[1, 1, 4] = constant data(1, nan, 3, -1)\n%y, %i = pool(%x) {kind = \"max\", kernel = [2], strides = "
      "[2]}\n"
      "%w: f32[1, 1, 2] = constant data(nan, 3)\n%v: i64[1, 1, 2] = constant data(1, 2)\nreturn %y, %w, %i, %v",
      0);
  check_values("%x: f32[1, 2, 2, 3] = constant data(1, 5, 2, 6, 3, 4, 1, 5, 2, 6, 3, 4)\n"
               "_, %i = pool(%x) {kind = \"max\", kernel = [2, 2], storage_order = 1}\n%v: i64[1, 2, 1, 2] = constant "
               "data(1, 2, 7, 8)\nreturn %i, %v",
               0);
  check_values("%x: f32[1, 1, 3] = constant data(1, 2, 6)\n%a = pool(%x) {kind = \"average\", kernel = [2], pads = [1, "
               "0], count_include_pad = 1}\n"
               "%b = pool(%x) {kind = \"average\", kernel = [2], pads = [1, 0]}\n%wa: f32[1, 1, 3] = constant "
               "data(0.5, 1.5, 4)\n"
               "%wb: f32[1, 1, 3] = constant data(1, 1.5, 4)\nreturn %a, %wa, %b, %wb",
               0);
  check_values("%x: f32[1, 1, 3] = constant data(1, 2, 6)\n"
               "%a = pool(%x) {kind = \"average\", kernel = [2], strides = [2], ceil_mode = 1, count_include_pad = 1}\n"
               "%w: f32[1, 1, 2] = constant data(1.5, 6)\nreturn %a, %w",
               0);
  check_values("%x: f32[1, 1, 2] = constant data(3, -4)\n%y = pool(%x) {kind = \"lp\", kernel = [2]}\n%w: f32[1, 1, 1] "
               "= constant data(5)\nreturn %y, %w",
               1e-7);
  check_values("%x: u8[1, 1, 2] = constant data(200, 100)\n%y = pool(%x) {kind = \"max\", kernel = [2], auto_pad = "
               "\"same_upper\"}\n"
               "%w: u8[1, 1, 2] = constant data(200, 100)\nreturn %y, %w",
               0);
  check_values(
      "%x: f32[1, 1, 5] = constant data(1, 2, 3, 4, 5)\n%y = pool(%x) {kind = \"max\", kernel = [2], dilations = [3]}\n"
      "%w: f32[1, 1, 2] = constant data(4, 5)\nreturn %y, %w",
      0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resize_shapes),     cmocka_unit_test(test_nearest),
      cmocka_unit_test(test_interpolation),     cmocka_unit_test(test_antialias_and_crop),
      cmocka_unit_test(test_pool_shapes),       cmocka_unit_test(test_pool_values),
      cmocka_unit_test(test_pool_channels_last)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
