/* Products of i32 against their references: equal to the last bit.  `--bench` times typical layers. */
#include "kernels/check_text.h"

#include <stdio.h>

static const check_options exact = {0};

static void test_matmul(void **state) {
  (void)state;
  static const char *const shapes[][2] = {{"5, 7", "7, 3"}, {"1, 64", "64, 600"},      {"3, 9, 33", "33, 257"},
                                          {"7", "7, 5"},    {"2, 1, 4, 6", "3, 6, 9"}, {"4, 3, 5", "4, 5, 2"},
                                          {"3, 0", "0, 4"}, {"0, 4", "4, 3"},          {"256, 13", "13, 256"}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    char text[200];
    snprintf(text, sizeof text, "(%%a: i32[%s], %%b: i32[%s]) { %%y = matmul(%%a, %%b) return %%y }", shapes[i][0],
             shapes[i][1]);
    check_text(text, &exact);
  }
  check_text("(%a: i32[2, 5, 3], %b: i32[5, 4]) { %y = matmul(%a, %b) {trans_a = 1} return %y }", &exact);
}

static void test_conv(void **state) {
  (void)state;
  check_text("(%x: i32[2, 6, 11, 19], %w: i32[4, 6, 3, 3], %b: i32[4]) { %y = conv(%x, %w, %b) {pads = [1, 1, 1, 1]} "
             "return %y }",
             &exact);
  check_text(
      "(%x: i32[1, 6, 11, 19], %w: i32[4, 3, 3, 5]) { %y = conv(%x, %w) {group = 2, strides = [2, 3], dilations = "
      "[2, 1], pads = [0, 4, 1, 2]} return %y }",
      &exact);
  check_text("(%x: i32[1, 5, 40], %w: i32[3, 5, 7]) { %y = conv(%x, %w) {auto_pad = \"same_lower\"} return %y }",
             &exact);
  check_text("(%x: i32[1, 9, 5, 6, 7], %w: i32[2, 9, 2, 3, 2]) { %y = conv(%x, %w) {strides = [1, 2, 2]} return %y }",
             &exact);
  check_text("(%x: i32[1, 2, 3], %w: i32[2, 2, 3]) { %y = conv(%x, %w) {pads = [9, 9]} return %y }", &exact);
  check_text("(%x: i32[0, 2, 3], %w: i32[2, 2, 3]) { %y = conv(%x, %w) return %y }", &exact);
}

static void test_layers(void **state) {
  (void)state;
  static const check_options timed = {.timed = true};
  check_text("(%a: i32[36, 512], %b: i32[512, 2048]) { %y = matmul(%a, %b) return %y }", &timed);
  check_text("(%x: i32[1, 256, 600], %w: i32[64, 256, 5]) { %y = conv(%x, %w) {pads = [2, 2]} return %y }", &timed);
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matmul), cmocka_unit_test(test_conv),
                                     cmocka_unit_test(test_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
