/* Pooling and interpolation kernels against their references.  `--bench` times typical layers. */
#include "kernels/check_text.h"

#include <stdio.h>
#include <string.h>

static const check_options exact = {0};
/* Sums of up to 25 numbers against sums in double. */
static const check_options summed = {.tolerance = {.eps = 4, .scale = 8}};

static void test_max_pool(void **state) {
  (void)state;
  const check_options special = {.specials = true};
  check_text("(%x: f32[2, 3, 17, 37]) { %y = pool(%x) {kind = \"max\", kernel = [3, 3], strides = [2, 2], pads = [1, "
             "1, 1, 1]} return %y }",
             &special);
  check_text("(%x: f32[1, 5, 16, 35]) { %y = pool(%x) {kind = \"max\", kernel = [2, 2], strides = [2, 2]} return %y }",
             &special);
  check_text(
      "(%x: f32[1, 5, 10, 10]) { %y = pool(%x) {kind = \"max\", kernel = [5, 5], pads = [2, 2, 2, 2]} return %y }",
      &exact);
  check_text("(%x: f32[1, 2, 9, 40]) { %y = pool(%x) {kind = \"max\", kernel = [2, 3], strides = [1, 3], dilations = "
             "[3, 2], ceil_mode = 1, "
             "pads = [0, 2, 1, 1]} return %y }",
             &exact);
  check_text(
      "(%x: f32[2, 3, 41]) { %y = pool(%x) {kind = \"max\", kernel = [4], auto_pad = \"same_lower\"} return %y }",
      &exact);
  check_text("(%x: f32[1, 2, 5, 6, 7]) { %y = pool(%x) {kind = \"max\", kernel = [2, 3, 2], strides = [2, 1, 2], pads "
             "= [1, 0, 0, 0, 1, 1]} return %y }",
             &exact);
  check_text("(%x: f32[1, 2, 3, 3]) { %y = pool(%x) {kind = \"max\", kernel = [2, 2], pads = [3, 3, 3, 3]} return %y }",
             &exact);
  /* a window that is nearly all padding costs no more than what it sees */
  check_text(
      "(%x: f32[1, 1, 3, 3]) { %y = pool(%x) {kind = \"max\", kernel = [2147483647, 2], pads = [2147483000, 0, 1000, "
      "0]} return %y }",
      &exact);
  check_text("(%x: f32[0, 2, 3, 3]) { %y = pool(%x) {kind = \"max\", kernel = [2, 2]} return %y }", &exact);
}

static void test_average_pool(void **state) {
  (void)state;
  check_text("(%x: f32[2, 3, 17, 37]) { %y = pool(%x) {kind = \"average\", kernel = [3, 3], strides = [2, 2], pads = "
             "[1, 1, 1, 1]} return %y }",
             &summed);
  check_text("(%x: f32[2, 3, 17, 37]) { %y = pool(%x) {kind = \"average\", kernel = [3, 3], strides = [2, 2], pads = "
             "[1, 1, 1, 1], "
             "count_include_pad = 1, ceil_mode = 1} return %y }",
             &summed);
  check_text("(%x: f32[1, 5, 12, 20]) { %y = pool(%x) {kind = \"average\", kernel = [2, 2], strides = [2, 2], "
             "ceil_mode = 1} return %y }",
             &summed);
  check_text("(%x: f32[1, 2, 5, 6, 7]) { %y = pool(%x) {kind = \"average\", kernel = [2, 3, 2], dilations = [2, 1, 3]} "
             "return %y }",
             &summed);
  check_text("(%x: f32[1, 2, 3]) { %y = pool(%x) {kind = \"average\", kernel = [2], pads = [3, 2]} return %y }",
             &summed);
}

static void test_channels_last(void **state) {
  (void)state;
  static const char *const cases[] = {
      "(%x: f32[2, 17, 11, 19]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [3, 3], strides = [2, 2], "
      "pads = [1, 1, 1, 1]} return %y }",
      "(%x: f32[1, 9, 12, 33]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [2, 3], strides = [1, 3], "
      "dilations = [3, 2], ceil_mode = 1, pads = [0, 2, 1, 1], count_include_pad = 1} return %y }",
      "(%x: f32[2, 41, 3]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [4], auto_pad = \"same_lower\"} "
      "return %y }",
      "(%x: f32[1, 3, 3, 16]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [2, 2], pads = [3, 3, 3, 3]} "
      "return %y }",
      "(%x: f32[1, 3, 3, 2]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [2147483647, 2], pads = "
      "[2147483000, 0, 1000, 0]} return %y }",
      "(%x: f32[0, 3, 3, 2]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [2, 2]} return %y }",
      "(%x: f32[1, 3, 3, 0]) { %y = pool(%x) {layout = \"nhwc\", kind = \"@\", kernel = [2, 2]} return %y }"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int average = 0; average < 2; average++) {
      char text[400];
      const char *at = strchr(cases[i], '@');
      snprintf(text, sizeof text, "%.*s%s%s", (int)(at - cases[i]), cases[i], average ? "average" : "max", at + 1);
      check_text(text, average ? &summed : &(check_options){.specials = true});
    }
}

static void test_nearest(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "u8", "f16", "f64"};
  static const char *const scales[] = {"1, 1, 2, 2", "1, 1, 3, 4",   "1, 1, 1.5, 0.7", "2, 1, 1, 1",
                                       "1, 1, 2, 1", "1, 2, 1, 1.3", "1, 1, 1, 1"};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
      char text[250];
      snprintf(text, sizeof text,
               "(%%x: %s[2, 3, 5, 19]) { %%s: f32[4] = constant data(%s) %%y = resize(%%x, _, %%s) {coordinate = "
               "\"%s\", nearest = \"%s\"} return %%y }",
               dtypes[d], scales[i], d % 2 ? "half_pixel" : "asymmetric", d % 2 ? "round_prefer_ceil" : "floor");
      check_text(text, &exact);
    }
  }
}

static void test_interpolation(void **state) {
  (void)state;
  static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
                                            "half_pixel_symmetric"};
  static const char *const scales[] = {"1, 1, 2, 2",   "1, 1, 1.5, 0.7", "2, 1, 1, 3.1",  "1, 1, 2, 1",
                                       "1, 1.7, 1, 1", "1, 1, 1, 1",     "1, 1, 0.3, 0.2"};
  for (size_t c = 0; c < sizeof coordinates / sizeof *coordinates; c++) {
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
      for (int kind = 0; kind < 4; kind++) { /* linear and cubic, with antialias or without */
        char text[300];
        snprintf(text, sizeof text,
                 "(%%x: f32[2, 3, 7, 21]) { %%s: f32[4] = constant data(%s) %%y = resize(%%x, _, %%s) "
                 "{mode = \"%s\", coordinate = \"%s\", antialias = %d, exclude_outside = %d} return %%y }",
                 scales[i], kind % 2 ? "cubic" : "linear", coordinates[c], kind / 2, (int)(i % 2));
        check_text(text, &summed);
      }
    }
  }
  check_text("(%x: f32[1, 1, 7, 21]) { %s: i64[4] = constant data(1, 1, 30, 11) %y = resize(%x, _, _, %s) {mode = "
             "\"linear\"} return %y }",
             &summed);
  check_text("(%x: f32[9]) { %s: i64[1] = constant data(0) %y = resize(%x, _, _, %s) {mode = \"linear\"} return %y }",
             &summed);
}

static void test_layers(void **state) {
  (void)state;
  check_text("(%x: f32[1, 64, 112, 112]) { %y = pool(%x) {kind = \"max\", kernel = [3, 3], strides = [2, 2], pads = "
             "[1, 1, 1, 1]} return %y }",
             &(check_options){.timed = true});
  check_text(
      "(%x: f32[1, 256, 20, 20]) { %y = pool(%x) {kind = \"max\", kernel = [5, 5], pads = [2, 2, 2, 2]} return %y }",
      &(check_options){.timed = true});
  check_text("(%x: f32[1, 64, 40, 40]) { %s: f32[4] = constant data(1, 1, 2, 2) %y = resize(%x, _, %s) {coordinate = "
             "\"asymmetric\", nearest = \"floor\"} return %y }",
             &(check_options){.timed = true});
  check_text("(%x: f32[1, 24, 60, 60]) { %s: f32[4] = constant data(1, 1, 2, 2) %y = resize(%x, _, %s) {mode = "
             "\"linear\"} return %y }",
             &(check_options){.tolerance = {.eps = 4, .scale = 8}, .timed = true});
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_max_pool),      cmocka_unit_test(test_average_pool),
                                     cmocka_unit_test(test_channels_last), cmocka_unit_test(test_nearest),
                                     cmocka_unit_test(test_interpolation), cmocka_unit_test(test_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
