/* softmax and the norms over f32 against their references. */
#include "kernels/check_text.h"

#include <stdio.h>

static void check(const check_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void check(const check_options *options, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  check_text(text, options);
}

static void test_softmax(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"7", "0"},           {"3, 37", "1"},   {"37, 3", "0"}, {"5, 1", "1"},
                                         {"2, 9, 70", "1"},    {"4, 65", "-1"},  {"4, 64", "1"}, {"4, 128", "1"},
                                         {"2, 3, 17, 5", "2"}, {"3, 1000", "1"}, {"0, 4", "1"},  {"4, 0", "1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int log = 0; log < 2; log++)
      for (int specials = 0; specials < 2; specials++)
        check(
            &(check_options){
                .tolerance = {.eps = 12, .absolute = log ? 4e-6 : 2e-7}, .low = -20, .high = 20, .specials = specials},
            "(%%x: f32[%s]) { %%y = softmax(%%x) {axis = %s, log = %d} return %%y }", cases[i][0], cases[i][1], log);
  const check_options timed = {.tolerance = {.eps = 8}, .timed = true};
  check(&timed, "(%%x: f32[12, 197, 197]) { %%y = softmax(%%x) return %%y }");
  check(&timed, "(%%x: f32[40, 6625]) { %%y = softmax(%%x) return %%y }");
  check(&timed, "(%%x: f32[4, 16, 2100]) { %%y = softmax(%%x) {axis = 1} return %%y }");
}

static void test_rows(void **state) {
  (void)state;
  static const char *const cases[][3] = {{"3, 37", "1", "37"}, {"2, 5, 64", "-1", "64"}, {"2, 5, 8", "1", "5, 8"},
                                         {"4, 1", "1", "1"},   {"4, 384", "-1", "384"},  {"2, 3, 130", "2", "130"},
                                         {"0, 3", "1", "3"}};
  const check_options options = {.tolerance = {.eps = 16, .scale = 4}, .low = -1, .high = 3};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *x = cases[i][0], *axis = cases[i][1], *s = cases[i][2];
    check(&options,
          "(%%x: f32[%s], %%s: f32[%s], %%b: f32[%s]) { %%y = layer_norm(%%x, %%s, %%b) {axis = %s} return %%y }", x, s,
          s, axis);
    check(&options, "(%%x: f32[%s], %%s: f32[%s]) { %%y, %%m, %%d = layer_norm(%%x, %%s) {axis = %s} return %%y }", x,
          s, axis);
    check(&options, "(%%x: f32[%s], %%s: f32[%s]) { %%y = rms_norm(%%x, %%s) {axis = %s, epsilon = 0.001} return %%y }",
          x, s, axis);
  }
  check(&(check_options){.tolerance = {.eps = 8, .scale = 4}, .timed = true},
        "(%%x: f32[197, 768], %%s: f32[768], %%b: f32[768]) { %%y = layer_norm(%%x, %%s, %%b) return %%y }");
  check(&(check_options){.reference_only = true},
        "(%%x: f32[3, 4], %%s: f32[1]) { %%y = layer_norm(%%x, %%s) return %%y }");
}

static void test_planes(void **state) {
  (void)state;
  const check_options options = {.tolerance = {.eps = 16, .scale = 8}, .low = 0.25, .high = 3};
  static const char *const shapes[] = {"2, 6, 5, 7", "1, 6, 100", "3, 6", "2, 6, 1, 1", "2, 6, 16, 16"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int groups = 0; groups < 4; groups++)
      check(&options,
            "(%%x: f32[%s], %%s: f32[6], %%b: f32[6]) { %%y = group_norm(%%x, %%s, %%b) {groups = %d, epsilon = 0.01} "
            "return %%y }",
            shapes[i], groups);
    check(&options,
          "(%%x: f32[%s], %%s: f32[6], %%b: f32[6], %%m: f32[6], %%v: f32[6]) { %%y = batch_norm(%%x, %%s, %%b, %%m, "
          "%%v) return %%y }",
          shapes[i]);
    for (int size = 1; size < 8; size++)
      check(&options, "(%%x: f32[%s]) { %%y = lrn(%%x) {size = %d, alpha = 0.1, bias = 1.5} return %%y }", shapes[i],
            size);
  }
}

/* Extras: none, as the result, one a row (channel), one a column, broadcast over inner rows only, one number, integers; and x itself, which
 * the result must not overwrite before it is read. */
static void test_epilogues(void **state) {
  (void)state;
  const check_options options = {.tolerance = {.eps = 24, .scale = 8}, .low = 0.25, .high = 3};
  static const char *const extras[] = {"2, 6, 5, 7", "1, 6, 1, 1", "7", "5, 7",
                                       "6, 1, 7",    "2, 1, 5, 1", "1", "2, 1, 1, 7"};
  static const char *const norms[] = {"layer_norm(%x, %s, %b, ", "rms_norm(%x, %s, _, ", "group_norm(%x, %c, %c, "};
#define NORM_INPUTS "%%x: f32[2, 6, 5, 7], %%s: f32[5, 7], %%b: f32[5, 7], %%c: f32[6]"
  for (size_t n = 0; n < sizeof norms / sizeof *norms; n++) {
    const char *const attrs = n == 2 ? "" : "axis = 2, ";
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
      check(&options,
            "(" NORM_INPUTS
            ", %%e: f32[%s]) { %%y = %s%%e) {%sepilogue = {2: mul(%%0, %%1); gelu(%%2); add(%%3, %%1)}} "
            "return %%y }",
            extras[i], norms[n], attrs);
    check(&options, "(" NORM_INPUTS ") { %%y = %s%%x) {%sepilogue = {2: add(%%0, %%1); relu(%%2)}} return %%y }",
          norms[n], attrs);
    check(&options,
          "(" NORM_INPUTS ", %%e: i32[6, 1, 1], %%f: f32[]) { %%y = %s%%e, %%f) {%sepilogue = {3: cast<1, 0>(%%1); "
          "mul(%%3, %%2); add(%%0, %%4)}} return %%y }",
          norms[n], attrs);
  }
  check(&options,
        "(%%x: f32[3, 37], %%s: f32[37]) { %%y = layer_norm(%%x, %%s) {epilogue = {1: silu<1>(%%0)}} return %%y }");
  check(&options,
        "(%%x: f32[70], %%s: f32[70]) { %%y = rms_norm(%%x, %%s) {epilogue = {1: clip<0, 1>(%%0)}} return %%y }");
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax), cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_planes), cmocka_unit_test(test_epilogues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
