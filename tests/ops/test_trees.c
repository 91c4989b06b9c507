/* trees. */
#include "ops/check.h"

/* Two nodes: x0 <= 0 gives leaf 0, else x1 > 5 gives leaf 1, else leaf 2. */
#define TREE(yes, first)                                                                                               \
  "%x: f32[4, 2] = constant data(-1, 0, 1, 6, 1, 5, nan, 6)\n%f: i64[2] = constant data(0, 1)\n"                       \
  "%m: u8[2] = constant data(0, 3)\n%s: f32[2] = constant data(0, 5)\n%yes: i64[2] = constant data(" yes ")\n"         \
  "%no: i64[2] = constant data(1, -3)\n%nan: u8[2] = constant data(1, 0)\n%r: i64[1] = constant data(0)\n"             \
  "%first: i64[4] = constant data(" first ")\n%t: i64[3] = constant data(0, 1, 1)\n"                                   \
  "%w: f32[3] = constant data(10, 20, 30)\n"                                                                           \
  "%y = trees(%x, %f, %m, %s, %yes, %no, %nan, %r, %first, %t, %w) {targets = 2}\n"

static void test_trees(void **state) {
  (void)state;
  check_type("%x: f32[n, 2]",
             "%i: i64[0] = constant zeros()\n%b: u8[0] = constant zeros()\n%s: f32[0] = constant zeros()\n"
             "%one: i64[1] = constant zeros()\n"
             "%y = trees(%x, %i, %b, %s, %i, %i, %b, %i, %one, %i, %s) {targets = 3}\nreturn %y",
             "f32[n, 3]");
  check_values(TREE("-1, -2", "0, 1, 2, 3") "%want: f32[4, 2] = constant data(10, 0, 0, 20, 0, 30, 10, 0)\n"
                                            "return %y, %want",
               0);
  check_values(TREE("-1, -2", "0, 0, 2, 3") "%want: f32[4, 2] = constant data(0, 0, 10, 20, 0, 30, 0, 0)\n"
                                            "return %y, %want",
               0);
}

static void test_hostile(void **state) {
  (void)state;
  check_eval_fails(TREE("0, -2", "0, 1, 2, 3") "return %y", TERCEL_INVALID_MODEL, "is its own ancestor");
  check_eval_fails(TREE("-4, -2", "0, 1, 2, 3") "return %y", TERCEL_INVALID_MODEL, "input 4 holds -4, want -3 to 1");
  check_eval_fails(TREE("2, -2", "0, 1, 2, 3") "return %y", TERCEL_INVALID_MODEL, "input 4 holds 2");
  check_eval_fails(TREE("-1, -2", "0, 1, 2, 9") "return %y", TERCEL_INVALID_MODEL, "input 8 holds 9");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_trees), cmocka_unit_test(test_hostile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
