/* conv and conv_transpose: inference, errors, values (made with ONNX Runtime from the same ramps). */
#include <stdio.h>

#include "ops/check.h"

static void test_types(void **state) {
  (void)state;
  check_type("%x: f32[n, 3, h, w], %w: f32[8, 3, 3, 3]", "%y = conv(%x, %w) {pads = [1, 1, 1, 1]}\nreturn %y",
             "f32[n, 8, h, w]");
  check_type("%x: f32[n, 4, h, 10], %w: f32[8, 2, 3, 3]",
             "%y = conv(%x, %w) {group = 2, strides = [2, 3], dilations = [1, 2]}\nreturn %y",
             "f32[n, 8, floor_div(h + 1, 2) - 1, 2]");
  check_type("%x: f32[n, 3, l], %w: f32[8, 3, 3]",
             "%y = conv(%x, %w) {strides = [2], auto_pad = \"same_upper\"}\nreturn %y",
             "f32[n, 8, floor_div(l + 1, 2)]");
  check_type("%x: f32[n, 3, h, w], %w: f32[3, 4, 2, 2]", "%y = conv_transpose(%x, %w) {strides = [2, 2]}\nreturn %y",
             "f32[n, 4, 2*h, 2*w]");
  check_type("%x: f32[*], %w: f32[8, 3, 3, 3]", "%y = conv(%x, %w)\nreturn %y", "f32[*]");
}

#define CONV(attrs) "%y = conv(%x, %w) {" attrs "}\nreturn %y"
#define TRANSPOSED(attrs) "%y = conv_transpose(%x, %w) {" attrs "}\nreturn %y"

static void test_rejects(void **state) {
  (void)state;
  const char *const params = "%x: f32[1, 4, 5, 5], %w: f32[8, 4, 3, 3]";
  check_rejects("%x: f32[1, 3, 5, 5], %w: f32[8, 4, 3, 3]", CONV("group = 1"), TERCEL_INVALID_MODEL,
                "channels is 3, want 4");
  check_rejects("%x: f32[1, 4, 5], %w: f32[8, 4, 3, 3]", CONV("group = 1"), TERCEL_INVALID_MODEL, "rank is 4, want 3");
  check_rejects("%x: f32[1, 4], %w: f32[8, 4]", CONV("group = 1"), TERCEL_INVALID_MODEL, "rank is 2, want 3");
  check_rejects("%x: f32[1, 6, 5, 5], %w: f32[8, 2, 3, 3]", CONV("group = 3"), TERCEL_INVALID_MODEL, "group");
  check_rejects("%x: f32[1, 4, 2, 5], %w: f32[8, 4, 3, 3]", CONV("group = 1"), TERCEL_INVALID_MODEL,
                "larger than the padded input");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f64[8, 4, 3, 3]", CONV("group = 1"), TERCEL_INVALID_MODEL, "input 1 is f64");
  check_rejects("%x: i8[1, 4, 5, 5], %w: i8[8, 4, 3, 3]", CONV("group = 1"), TERCEL_UNSUPPORTED, "input 0 is i8");
  check_rejects(params, CONV("group = 0"), TERCEL_INVALID_MODEL, "group is 0");
  check_rejects(params, CONV("strides = [0, 1]"), TERCEL_INVALID_MODEL, "strides[0] is 0");
  check_rejects(params, CONV("strides = [1]"), TERCEL_INVALID_MODEL, "1 strides, want 2");
  check_rejects(params, CONV("pads = [0, 0, -1, 0]"), TERCEL_INVALID_MODEL, "pads[2] is -1");
  check_rejects(params, CONV("dilations = [1, 4611686018427387904]"), TERCEL_INVALID_MODEL, "dilations[1]");
  check_rejects(params, CONV("auto_pad = \"SAME\""), TERCEL_INVALID_MODEL, "auto_pad 'SAME'");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f32[4, 4, 1, 1]", TRANSPOSED("pads = [3, 3, 3, 3]"), TERCEL_INVALID_MODEL,
                "leave no output");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f32[4, 4, 1, 1]", TRANSPOSED("output_shape = [1]"), TERCEL_INVALID_MODEL,
                "1 output_shape, want 2");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f32[8, 4, 3, 3], %b: f32[3]", "%y = conv(%x, %w, %b)\nreturn %y",
                TERCEL_INVALID_MODEL, "length is 3, want 8");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f32[8, 4, 3, 3], %b: f32[8], %e: f32[7, 1, 1]",
                "%y = conv(%x, %w, %b, %e) {epilogue = {2: add(%0, %1)}}\nreturn %y", TERCEL_INVALID_MODEL,
                "does not broadcast");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f32[8, 4, 3, 3], %b: f32[8], %e: f32[8, 1, 1]",
                "%y = conv(%x, %w, %b, %e)\nreturn %y", TERCEL_INVALID_MODEL,
                "1 inputs for the epilogue, which reads 0");
}

static void test_channels_last(void **state) {
  (void)state;
  check_type("%x: f32[n, h, w, 4], %w: f32[8, 2, 3, 3]",
             "%y = conv(%x, %w) {layout = \"nhwc\", group = 2, strides = [1, 2], pads = [1, 1, 1, 1]}\nreturn %y",
             "f32[n, h, floor_div(w + 1, 2), 8]");
  check_type("%x: f32[n, 9, 5], %w: f32[8, 5, 3]", "%y = conv(%x, %w) {layout = \"nhwc\"}\nreturn %y", "f32[n, 7, 8]");
  check_rejects("%x: f32[1, 5, 5, 3], %w: f32[8, 4, 3, 3]", CONV("layout = \"nhwc\""), TERCEL_INVALID_MODEL,
                "channels is 3, want 4");
  check_rejects("%x: f32[1, 4, 5, 5], %w: f32[8, 4, 3, 3]", CONV("layout = \"nchw16c\""), TERCEL_INVALID_MODEL,
                "layout is \"nchw16c\"");
  /* the same numbers as with channels first */
  static const char *const attrs[] = {"pads = [1, 0, 2, 1]", "strides = [2, 1], dilations = [1, 2]",
                                      "auto_pad = \"same_lower\", strides = [2, 2]"};
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
    char text[900];
    snprintf(
        text, sizeof text,
        "%%n: i64[] = constant data(0)\n%%end: i64[] = constant data(240)\n%%one: i64[] = constant data(1)\n"
        "%%ramp = range(%%n, %%end, %%one)\n%%s: i64[4] = constant data(2, 4, 6, 5)\n"
        "%%whole = reshape(%%ramp, %%s)\n%%x = pointwise(%%whole) {program = {1: cast:f32<1, 0>(%%0)}}\n"
        "%%w: f32[4, 2, 2, 2] = constant data(1, -2, 3, 0, 2, 1, -1, 4, 0, 3, 2, 2, -2, 1, 1, 1, 5, 3, 1, 0, 1, 1, "
        "2, -3, 4, 1, 0, 2, -1, 2, 2, 1)\n%%b: f32[4] = constant data(1, -1, 2, 5)\n"
        "%%xt = transpose(%%x) {perm = [0, 2, 3, 1]}\n%%first = conv(%%x, %%w, %%b) {group = 2, %s}\n"
        "%%want = transpose(%%first) {perm = [0, 2, 3, 1]}\n"
        "%%y = conv(%%xt, %%w, %%b) {layout = \"nhwc\", group = 2, %s}\nreturn %%y, %%want",
        attrs[i], attrs[i]);
    check_values(text, 0);
  }
}

static void test_epilogue(void **state) {
  (void)state;
  check_values("%x: f32[1, 1, 2, 2] = constant data(1, -2, 3, -4)\n%w: f32[2, 1, 1, 1] = constant data(1, -1)\n"
               "%e: f32[2, 1, 1] = constant data(0.5, 2)\n"
               "%y = conv(%x, %w, _, %e) {epilogue = {2: relu(%0); mul(%2, %1)}}\n"
               "%want: f32[1, 2, 2, 2] = constant data(0.5, 0, 1.5, 0, 0, 4, 0, 8)\nreturn %y, %want",
               0);
}

/* Sums are rounded once: the f16 nearest to the exact result. */
static void test_narrow(void **state) {
  (void)state;
  check_values("%x: f16[1, 1, 3] = constant data(2048, 1, 1)\n%w: f16[1, 1, 3] = constant data(1, 1, 1)\n"
               "%y = conv(%x, %w)\n%want: f16[1, 1, 1] = constant data(2050)\nreturn %y, %want",
               0);
}

static void test_conv_values(void **state) {
  (void)state;
  check_values("%x: i32[1, 2, 3] = constant data(1, 2, 3, 40000, 50000, 60000)\n"
               "%w: i32[1, 2, 2] = constant data(1, -1, 50000, 1)\n%b: i32[1] = constant data(7)\n"
               "%y = conv(%x, %w, %b)\n%want: i32[1, 1, 2] = constant data(2000050006, -1794907290)\nreturn %y, %want",
               0);
  /* pads on all sides */
  check_values("%x: f32[1, 2, 4, 4] = constant ramp()\n"
               "%w: f32[2, 2, 3, 3] = constant ramp()\n"
               "%b: f32[2] = constant ramp()\n"
               "%y = conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n"
               "%want: f32[1, 2, 4, 4] = constant data(-0.21875, -0.53125, -0.796875, -0.921875, -0.78125, "
               "-0.328125, -0.03125, 0.375, -1.171875, 0.25, 1.15625, -0.765625, 0.203125, -1.234375, -1.65625, "
               "-1.84375, -1.140625, -1.203125, -0.9375, -0.59375, -0.25, -0.3125, -0.640625, -0.0625, "
               "0.265625, -0.609375, -1.34375, -1.3125, -1.203125, -1.3125, -1, -0.171875)\n"
               "return %y, %want",
               1e-5);
  /* strides, uneven pads */
  check_values("%x: f32[2, 1, 5, 4] = constant ramp()\n"
               "%w: f32[1, 1, 3, 2] = constant ramp()\n"
               "%y = conv(%x, %w) {strides = [2, 1], pads = [1, 0, 0, 1]}\n"
               "%want: f32[2, 1, 2, 4] = constant data(0.6875, 0.53125, 0.375, 0.15625, -0.09375, -0.015625, "
               "-0.34375, -0.28125, -0.40625, -0.359375, -0.109375, -0.09375, -0.5625, 0.125, 1.015625, 0.4375)\n"
               "return %y, %want",
               1e-5);
  /* groups */
  check_values("%x: f32[1, 4, 3, 3] = constant ramp()\n"
               "%w: f32[4, 2, 2, 2] = constant ramp()\n"
               "%b: f32[4] = constant ramp()\n"
               "%y = conv(%x, %w, %b) {group = 2}\n"
               "%want: f32[1, 4, 2, 2] = constant data(0.234375, -0.078125, -0.5, -0.40625, -1.578125, "
               "-0.484375, 0.890625, -0.25, -0.84375, -0.78125, -0.65625, -0.59375, -0.296875, -0.453125, "
               "-0.765625, 0.09375)\n"
               "return %y, %want",
               1e-5);
  /* dilations */
  check_values("%x: f32[1, 1, 6, 6] = constant ramp()\n"
               "%w: f32[1, 1, 2, 2] = constant ramp()\n"
               "%y = conv(%x, %w) {dilations = [2, 3]}\n"
               "%want: f32[1, 1, 4, 3] = constant data(0.609375, 1.140625, 0.859375, -0.265625, -0.546875, "
               "-0.828125, -0.328125, 0.609375, 1.140625, 0.015625, -0.265625, -0.546875)\n"
               "return %y, %want",
               1e-5);
  /* one dim, same_lower */
  check_values("%x: f32[1, 2, 7] = constant ramp()\n"
               "%w: f32[2, 2, 3] = constant ramp()\n"
               "%y = conv(%x, %w) {strides = [2], auto_pad = \"same_lower\"}\n"
               "%want: f32[1, 2, 4] = constant data(0.71875, 0.71875, 0.0625, 0, -0.03125, 0.4375, 0.90625, "
               "-0.09375)\n"
               "return %y, %want",
               1e-5);
  /* same_upper */
  check_values("%x: f32[1, 1, 5, 5] = constant ramp()\n"
               "%w: f32[1, 1, 2, 2] = constant ramp()\n"
               "%y = conv(%x, %w) {auto_pad = \"same_upper\"}\n"
               "%want: f32[1, 1, 5, 5] = constant data(1.015625, 0.734375, 0.453125, 0.171875, 0, -0.390625, "
               "-0.671875, -0.34375, 0.1875, 0.03125, -0.375, -0.65625, 0.078125, 1.015625, 0.46875, 0.453125, "
               "0.171875, -0.109375, -0.390625, -0.3125, -0.25, -0.421875, -0.59375, -0.765625, -0.46875)\n"
               "return %y, %want",
               1e-5);
  /* three dims */
  check_values("%x: f32[1, 1, 2, 3, 3] = constant ramp()\n"
               "%w: f32[2, 1, 2, 2, 2] = constant ramp()\n"
               "%b: f32[2] = constant ramp()\n"
               "%y = conv(%x, %w, %b)\n"
               "%want: f32[1, 2, 1, 2, 2] = constant data(0.234375, -0.078125, -0.5, -0.40625, -1.578125, "
               "-0.484375, 0.890625, -0.25)\n"
               "return %y, %want",
               1e-5);
}

static void test_conv_transpose_values(void **state) {
  (void)state;
  /* parts that do not overlap */
  check_values("%x: f32[1, 2, 2, 2] = constant ramp()\n"
               "%w: f32[2, 3, 2, 2] = constant ramp()\n"
               "%b: f32[3] = constant ramp()\n"
               "%y = conv_transpose(%x, %w, %b) {strides = [2, 2]}\n"
               "%want: f32[1, 3, 4, 4] = constant data(-0.375, -0.09375, -0.375, -0.265625, -0.21875, -0.34375, "
               "-0.359375, -0.453125, -0.375, -0.4375, -0.375, -0.609375, -0.5, -0.5625, -0.640625, -0.671875, "
               "-0.34375, -0.46875, -0.421875, -0.515625, -0.59375, -0.71875, -0.609375, -0.703125, -0.5, "
               "-0.5625, -0.578125, -0.609375, -0.625, -0.6875, -0.640625, -0.671875, -0.71875, -0.84375, "
               "-0.671875, -0.765625, -0.96875, -1.09375, -0.859375, -0.953125, -0.625, -0.6875, -0.578125, "
               "-0.609375, -0.75, -0.8125, -0.640625, -0.671875)\n"
               "return %y, %want",
               1e-5);
  /* parts that overlap, cut by pads */
  check_values("%x: f32[1, 1, 3, 3] = constant ramp()\n"
               "%w: f32[1, 1, 3, 3] = constant ramp()\n"
               "%y = conv_transpose(%x, %w) {strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]}\n"
               "%want: f32[1, 1, 6, 6] = constant data(0.1875, 0.328125, 0.15625, 0.265625, 0.125, 0.0625, "
               "0.140625, 0.1875, 0.078125, 0.0625, 0.015625, -0.0625, 0.09375, 0.140625, 0.0625, 0.078125, "
               "0.03125, 0.015625, -0.046875, -0.1875, -0.109375, -0.3125, -0.171875, -0.15625, 0, -0.046875, "
               "-0.03125, -0.109375, -0.0625, -0.03125, 0, 0, 0.015625, 0.03125, 0.03125, 0.0625)\n"
               "return %y, %want",
               1e-5);
  /* groups */
  check_values("%x: f32[1, 4, 2, 2] = constant ramp()\n"
               "%w: f32[4, 1, 2, 2] = constant ramp()\n"
               "%y = conv_transpose(%x, %w) {group = 2}\n"
               "%want: f32[1, 2, 3, 3] = constant data(0.625, 1, 0.40625, 0.75, 1.125, 0.4375, 0.25, 0.375, "
               "0.15625, 0.625, -0.9375, 0.703125, -0.6875, 0.875, 1.21875, 0.640625, 1.25, 0.640625)\n"
               "return %y, %want",
               1e-5);
  /* dilations */
  check_values("%x: f32[1, 1, 2, 3] = constant ramp()\n"
               "%w: f32[1, 1, 2, 2] = constant ramp()\n"
               "%y = conv_transpose(%x, %w) {dilations = [2, 2]}\n"
               "%want: f32[1, 1, 4, 5] = constant data(0.5625, 0.46875, 0.84375, 0.390625, 0.3125, 0.28125, "
               "0.1875, 0.328125, 0.15625, 0.078125, 0.375, 0.3125, 0.53125, 0.234375, 0.1875, 0.1875, 0.125, "
               "0.203125, 0.09375, 0.046875)\n"
               "return %y, %want",
               1e-5);
  /* output_shape */
  check_values("%x: f32[1, 1, 3, 3] = constant ramp()\n"
               "%w: f32[1, 1, 3, 3] = constant ramp()\n"
               "%y = conv_transpose(%x, %w) {strides = [2, 2], output_shape = [6, 5]}\n"
               "%want: f32[1, 1, 6, 5] = constant data(0.1875, 0.328125, 0.15625, 0.265625, 0.125, 0.140625, "
               "0.1875, 0.078125, 0.0625, 0.015625, 0.09375, 0.140625, 0.0625, 0.078125, 0.03125, -0.046875, "
               "-0.1875, -0.109375, -0.3125, -0.171875, 0, -0.046875, -0.03125, -0.109375, -0.0625, 0, 0, "
               "0.015625, 0.03125, 0.03125)\n"
               "return %y, %want",
               1e-5);
  /* one dim, same_upper */
  check_values("%x: f32[1, 1, 4] = constant ramp()\n"
               "%w: f32[1, 2, 3] = constant ramp()\n"
               "%y = conv_transpose(%x, %w) {strides = [2], auto_pad = \"same_upper\"}\n"
               "%want: f32[1, 2, 8] = constant data(0.5625, 0.46875, 0.84375, 0.390625, 0.6875, 0.3125, "
               "0.53125, 0.234375, 0.28125, 0.1875, 0.328125, 0.15625, 0.265625, 0.125, 0.203125, 0.09375)\n"
               "return %y, %want",
               1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_rejects),
      cmocka_unit_test(test_epilogue),
      cmocka_unit_test(test_channels_last),
      cmocka_unit_test(test_narrow),
      cmocka_unit_test(test_conv_values),
      cmocka_unit_test(test_conv_transpose_values),
  };
  return cmocka_run_group_tests_name("ops/conv", tests, NULL, NULL);
}
