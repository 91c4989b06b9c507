/* reduce, arg_reduce and cumsum over f32 against their references. */
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

static const char *const kinds[] = {"sum", "mean", "max",     "min",         "prod",
                                    "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square"};

/* Sums of numbers of both signs cancel: their error is of the size of what was added. */
static check_options options_of(size_t kind) {
  check_options o = {.tolerance = {.eps = 16, .scale = 16, .absolute = 1e-6}};
  if (kind == 7) o.low = 0.1, o.high = 2;                          /* logarithms of sums above 0 */
  if (kind == 4) o.low = 0.9, o.high = 1.1, o.tolerance.eps = 200; /* products that stay near 1 */
  return o;
}

static void test_shapes(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"1", "0"},
      {"7", "0"},
      {"3, 37", "1"},
      {"3, 37", "0"},
      {"3, 100", "0, 1"},
      {"5, 3, 49", "2"},
      {"5, 3, 49", "1"},
      {"5, 3, 49", "0, 2"},
      {"5, 3, 49", "0"},
      {"2, 3, 7, 7", "2, 3"},
      {"2, 9, 5, 70", "1, 3"},
      {"2, 9, 5, 70", "0, 2"},
      {"2, 3, 4, 5, 6", "0, 2, 4"},
      {"2, 3, 4, 5, 6", "1, 3"},
      {"4, 1, 130", "1"},
      {"1000, 3", "0"},
      {"3, 1000", "1"},
      {"2, 64, 17", "0"},
      {"0, 3", "0"},
      {"0, 3", "1"},
      {"2, 0, 3", "1"},
      {"35, 2", "1"},
      {"35, 3", "1"},
      {"4, 9, 16", "2"},
      {"3, 17", "1"},
  };
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      const check_options o = options_of(k);
      check(&o, "(%%x: f32[%s]) { %%y = reduce(%%x) {kind = \"%s\", axes = [%s], keepdims = %d} return %%y }",
            cases[i][0], kinds[k], cases[i][1], (int)(i % 2));
    }
}

static void test_axes(void **state) {
  (void)state;
  const check_options o = options_of(0);
  check(&o, "(%%x: f32[3, 4, 5]) { %%y = reduce(%%x) {kind = \"sum\"} return %%y }");
  check(&o, "(%%x: f32[3, 4, 5]) { %%y = reduce(%%x) {kind = \"l1\", noop_with_empty_axes = 1} return %%y }");
  check(
      &o,
      "(%%x: f32[3, 4, 5]) { %%a: i64[2] = constant data(-1, 0) %%y = reduce(%%x, %%a) {kind = \"mean\"} return %%y }");
  check(&o, "(%%x: f32[]) { %%y = reduce(%%x) {kind = \"mean\"} return %%y }");
}

static void test_specials(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    check_options o = options_of(k);
    o.specials = kinds[k][0] != 'p'; /* products of special numbers leave f32's range on the way, not f64's */
    o.tolerance.eps = 300;
    check(&o, "(%%x: f32[40, 19]) { %%y = reduce(%%x) {kind = \"%s\", axes = [1]} return %%y }", kinds[k]);
    check(&o, "(%%x: f32[19, 40]) { %%y = reduce(%%x) {kind = \"%s\", axes = [0]} return %%y }", kinds[k]);
  }
}

static void test_large(void **state) {
  (void)state;
  const check_options o = {.tolerance = {.eps = 16, .scale = 16, .absolute = 1e-5}, .timed = true};
  check(&o, "(%%x: f32[64, 112, 112]) { %%y = reduce(%%x) {kind = \"mean\", axes = [1, 2]} return %%y }");
  check(&o, "(%%x: f32[512, 7, 7]) { %%y = reduce(%%x) {kind = \"mean\", axes = [1, 2]} return %%y }");
  check(&o, "(%%x: f32[172, 309, 2]) { %%y = reduce(%%x) {kind = \"sum\", axes = [2]} return %%y }");
  check(&o, "(%%x: f32[1000000]) { %%y = reduce(%%x) {kind = \"l2\", axes = [0]} return %%y }");
  check(&o, "(%%x: f32[1000, 256]) { %%y = reduce(%%x) {kind = \"sum\", axes = [0]} return %%y }");
  check(&o, "(%%x: f32[1000, 256]) { %%y = reduce(%%x) {kind = \"max\", axes = [1]} return %%y }");
  check(&o, "(%%x: f32[1000, 256]) { %%y = reduce(%%x) {kind = \"log_sum_exp\", axes = [1]} return %%y }");
}

static void test_arg_reduce(void **state) {
  (void)state;
  static const char *const shapes[][2] = {{"7", "0"},        {"3, 37", "1"}, {"37, 3", "0"},
                                          {"2, 9, 70", "1"}, {"1, 1", "0"},  {"5, 1000", "1"}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int v = 0; v < 8; v++)
      check(&(check_options){.low = -3, .high = 3, .specials = v & 4},
            "(%%x: f32[%s]) { %%y = arg_reduce(%%x) {kind = \"%s\", axis = %s, select_last = %d} return %%y }",
            shapes[i][0], v & 1 ? "max" : "min", shapes[i][1], v >> 1 & 1);
  check(&(check_options){.timed = true},
        "(%%x: f32[1000, 6625]) { %%y = arg_reduce(%%x) {kind = \"max\", axis = 1, keepdims = 0} return %%y }");
}

static void test_cumsum(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"7", "0"},        {"3, 37", "1"},     {"37, 3", "0"},
                                         {"2, 9, 70", "1"}, {"2, 9, 70", "-3"}, {"0, 4", "1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int v = 0; v < 4; v++)
      check(&(check_options){.tolerance = {.eps = 8, .scale = 16}},
            "(%%x: f32[%s]) { %%a: i64[] = constant data(%s) %%y = cumsum(%%x, %%a) {exclusive = %d, reverse = %d} "
            "return %%y }",
            cases[i][0], cases[i][1], v & 1, v >> 1);
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),     cmocka_unit_test(test_axes),
                                     cmocka_unit_test(test_specials),   cmocka_unit_test(test_large),
                                     cmocka_unit_test(test_arg_reduce), cmocka_unit_test(test_cumsum)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
