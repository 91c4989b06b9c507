/* Epilogues as conv and matmul apply them: every form, and extras of every kind of broadcast, also those that no three strides express. */
#include "kernels/check_text.h"

#include <stdio.h>

static const char *const programs[] = {
    "{2: add(%0, %1)}",
    "{2: add(%1, %0); relu(%2)}",
    "{2: add(%0, %1); clip<0.0, 6.0>(%2)}",
    "{2: mul(%0, %1); hard_swish(%2)}",
    "{2: sigmoid(%0); mul(%2, %1); add(%3, %0)}",
};

static void check(const char *params, const char *call, const char *program) {
  char text[512];
  snprintf(text, sizeof text, "(%s) { %%y = %s {epilogue = %s} return %%y }", params, call, program);
  check_text(text, &(check_options){.tolerance = {.eps = 32, .scale = 32}});
}

static void test_conv(void **state) {
  (void)state;
  static const char *const extras[] = {"2, 5, 6, 7", "5, 1, 1",    "2, 1, 1, 1", "7",
                                       "6, 1",       "2, 1, 6, 7", "1, 5, 1, 7", "1"};
  for (size_t e = 0; e < sizeof extras / sizeof *extras; e++)
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
      char params[256];
      snprintf(params, sizeof params, "%%x: f32[2, 3, 6, 7], %%w: f32[5, 3, 1, 1], %%b: f32[5], %%e: f32[%s]",
               extras[e]);
      check(params, "conv(%x, %w, %b, %e)", programs[p]);
    }
}

static void test_matmul(void **state) {
  (void)state;
  static const char *const extras[] = {"2, 3, 9, 37", "37", "9, 1", "3, 1, 1", "2, 1, 9, 37", "2, 1, 1, 37"};
  for (size_t e = 0; e < sizeof extras / sizeof *extras; e++)
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
      char params[256];
      snprintf(params, sizeof params, "%%x: f32[2, 3, 9, 16], %%w: f32[16, 37], %%e: f32[%s]", extras[e]);
      check(params, "matmul(%x, %w, _, %e)", programs[p]);
    }
}

/* Extras of other types go through the program. */
static void test_types(void **state) {
  (void)state;
  check("%x: f32[9, 16], %w: f32[16, 37], %m: bool[37], %e: f16[9, 1]", "matmul(%x, %w, _, %m, %e)",
        "{3: cast:f32<1, 0>(%2); select:f32(%1, %0, %3)}");
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv), cmocka_unit_test(test_matmul),
                                     cmocka_unit_test(test_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
