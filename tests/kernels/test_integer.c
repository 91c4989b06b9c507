/* Products of i32 and of 8-bit integers, and quantizing, against their references: equal to the last bit.  `--bench` times typical layers. */
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

/* ---- 8 bits ---- */

/* All of the range, so that sums of products reach what 16 bits can't hold. */
static void check_bytes(const char *text) { check_text(text, &(check_options){.low = -128, .high = 256}); }

static const char *const kinds[][2] = {{"u8", "i8"}, {"u8", "u8"}, {"i8", "i8"}, {"i8", "u8"}};

/* Zero points: none, of either, of both, one a row and one a column. */
static void check_matmul_integer(const char *a, const char *b, int64_t m, int64_t n) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char zeros[5][2][40]; /* 3: single ones, 4: lists */
    snprintf(zeros[4][0], sizeof zeros[4][0], "%%z: %s[%lld]", kinds[i][0], (long long)m);
    snprintf(zeros[4][1], sizeof zeros[4][1], "%%y: %s[%lld]", kinds[i][1], (long long)n);
    snprintf(zeros[3][0], sizeof zeros[3][0], "%%z: %s[]", kinds[i][0]);
    snprintf(zeros[3][1], sizeof zeros[3][1], "%%y: %s[1]", kinds[i][1]);
    for (int z = 0; z < 5; z++) {
      const bool left = z == 1 || z >= 3, right = z >= 2;
      const int from = z == 4 ? 4 : 3;
      char text[400];
      snprintf(text, sizeof text,
               "(%%a: %s[%s], %%b: %s[%s]%s%s%s%s) { %%c = matmul_integer(%%a, %%b%s%s) return %%c }", kinds[i][0], a,
               kinds[i][1], b, left ? ", " : "", left ? zeros[from][0] : "", right ? ", " : "",
               right ? zeros[from][1] : "",
               left    ? ", %z"
               : right ? ", _"
                       : "",
               right ? ", %y" : "");
      check_bytes(text);
    }
  }
}

static void test_matmul_integer(void **state) {
  (void)state;
  check_matmul_integer("5, 7", "7, 3", 5, 3);
  check_matmul_integer("1, 64", "64, 200", 1, 200);
  check_matmul_integer("9, 129", "129, 49", 9, 49);
  check_matmul_integer("3, 17, 33", "33, 50", 17, 50);
  check_matmul_integer("2, 3, 4, 6", "3, 6, 9", 4, 9);
  check_matmul_integer("4, 0", "0, 3", 4, 3);
  check_matmul_integer("0, 4", "4, 3", 0, 3);
  check_bytes(
      "(%a: u8[9, 3, 131], %z: u8[]) { %b: i8[131, 77] = constant ramp() %c = matmul_integer(%a, %b, %z) return %c }");
  check_bytes("(%a: i8[9, 130], %z: i8[], %y: u8[]) { %b: u8[130, 77] = constant ramp() %c = matmul_integer(%a, %b, "
              "%z, %y) return %c }");
  check_bytes("(%a: u8[70], %b: i8[70, 5]) { %c = matmul_integer(%a, %b) return %c }");
  check_bytes("(%a: i8[3, 70], %b: i8[70]) { %c = matmul_integer(%a, %b) return %c }");
}
static void test_conv_integer(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char text[400];
    const char *const x = kinds[i][0], *const w = kinds[i][1];
    snprintf(
        text, sizeof text,
        "(%%x: %s[2, 6, 11, 19], %%w: %s[9, 6, 3, 3], %%z: %s[], %%y: %s[9]) { %%c = conv_integer(%%x, %%w, %%z, %%y) "
        "{pads = [1, 1, 1, 1]} return %%c }",
        x, w, x, w);
    check_bytes(text);
    snprintf(text, sizeof text,
             "(%%x: %s[1, 6, 11, 19], %%w: %s[4, 3, 3, 5], %%z: %s[1]) { %%c = conv_integer(%%x, %%w, %%z) "
             "{group = 2, strides = [2, 3], dilations = [2, 1], pads = [0, 4, 1, 2]} return %%c }",
             x, w, x);
    check_bytes(text);
    snprintf(text, sizeof text,
             "(%%x: %s[1, 5, 120], %%w: %s[3, 5, 7], %%y: %s[]) { %%c = conv_integer(%%x, %%w, _, %%y) "
             "{auto_pad = \"same_lower\"} return %%c }",
             x, w, w);
    check_bytes(text);
    snprintf(text, sizeof text,
             "(%%x: %s[1, 9, 5, 6, 7], %%w: %s[2, 9, 2, 3, 2]) { %%c = conv_integer(%%x, %%w) {strides = [1, 2, 2]} "
             "return %%c }",
             x, w);
    check_bytes(text);
  }
  check_bytes("(%x: u8[1, 70, 6, 20], %w: i8[17, 70, 1, 1], %z: u8[]) { %c = conv_integer(%x, %w, %z) return %c }");
  check_bytes("(%x: u8[1, 12, 40], %z: u8[]) { %w: i8[18, 6, 3] = constant ramp() %c = conv_integer(%x, %w, %z) {group "
              "= 2} return %c }");
  check_bytes(
      "(%x: u8[1, 2, 3], %w: i8[2, 2, 3], %z: u8[]) { %c = conv_integer(%x, %w, %z) {pads = [9, 9]} return %c }");
  check_bytes("(%x: u8[0, 2, 3], %w: i8[2, 2, 3]) { %c = conv_integer(%x, %w) return %c }");
}

/* What a dynamically quantized layer does behind the product: i32 sums scaled, a bias, an activation. */
static void test_epilogues(void **state) {
  (void)state;
  check_text("(%a: u8[2, 5, 40], %b: i8[40, 50], %z: u8[], %s: f32[], %h: f32[50]) { %c = matmul_integer(%a, %b, %z, "
             "_, %s, %h) "
             "{epilogue = {3: cast:f32<1, 0>(%0); mul:f32(%3, %1); add:f32(%4, %2); relu:f32(%5)}} return %c }",
             &exact);
}

static void test_quantize(void **state) {
  (void)state;
  static const char *const shapes[] = {"", "1", "3, 7", "2, 5, 19", "70000", "0"};
  static const double ranges[][2] = {{-2, 2}, {0.5, 3}, {-1e-40, 1e-40}, {-3e38, 3e38}, {-4, -1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
      for (int specials = 0; specials < 2; specials++) {
        char text[120];
        snprintf(text, sizeof text, "(%%x: f32[%s]) { %%y, %%s, %%z = dynamic_quantize(%%x) return %%y, %%s, %%z }",
                 shapes[i]);
        check_text(text, &(check_options){.low = ranges[r][0], .high = ranges[r][1], .specials = specials != 0});
      }
}

static void test_layers(void **state) {
  (void)state;
  static const check_options timed = {.timed = true};
  check_text("(%a: i32[36, 512], %b: i32[512, 2048]) { %y = matmul(%a, %b) return %y }", &timed);
  check_text("(%x: i32[1, 256, 600], %w: i32[64, 256, 5]) { %y = conv(%x, %w) {pads = [2, 2]} return %y }", &timed);
  check_text("(%a: u8[36, 512], %b: i8[512, 2048], %z: u8[]) { %y = matmul_integer(%a, %b, %z) return %y }", &timed);
  check_text("(%x: u8[1, 256, 600], %w: u8[64, 256, 5], %z: u8[], %y: u8[]) { %c = conv_integer(%x, %w, %z, %y) "
             "{pads = [2, 2]} return %c }",
             &timed);
  check_text("(%x: u8[1, 128, 3000], %z: u8[], %y: u8[]) { %w: u8[128, 128, 11] = constant ramp() "
             "%c = conv_integer(%x, %w, %z, %y) {pads = [15, 15], dilations = [3]} return %c }",
             &timed);
  check_text("(%x: f32[36, 2048]) { %y, %s, %z = dynamic_quantize(%x) return %y, %s, %z }", &timed);
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matmul),         cmocka_unit_test(test_conv),
                                     cmocka_unit_test(test_matmul_integer), cmocka_unit_test(test_conv_integer),
                                     cmocka_unit_test(test_epilogues),      cmocka_unit_test(test_quantize),
                                     cmocka_unit_test(test_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
