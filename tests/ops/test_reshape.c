/* reshape, flatten, squeeze, unsqueeze. */
#include "ops/check.h"

static void test_reshape_shapes(void **state) {
  (void)state;
  check_type("%x: f32[2, 3, 4]", "%s: i64[2] = constant data(6, -1)\n%y = reshape(%x, %s)\nreturn %y", "f32[6, 4]");
  check_type("%x: f32[2, 3, 4]", "%s: i64[3] = constant data(0, 4, -1)\n%y = reshape(%x, %s)\nreturn %y",
             "f32[2, 4, 3]");
  check_type("%x: f32[n, 3, 4]", "%s: i64[2] = constant data(0, -1)\n%y = reshape(%x, %s)\nreturn %y", "f32[n, 12]");
  check_type("%x: f32[n, seq, 8]", "%s: i64[4] = constant data(0, 0, 2, 4)\n%y = reshape(%x, %s)\nreturn %y",
             "f32[n, seq, 2, 4]");
  check_type("%x: f32[n, seq, 8]", "%s: i64[2] = constant data(-1, 8)\n%y = reshape(%x, %s)\nreturn %y",
             "f32[n*seq, 8]");
  check_type("%x: f32[*]", "%s: i64[2] = constant data(-1, 8)\n%y = reshape(%x, %s)\nreturn %y", "f32[?1, 8]");
  check_type("%x: f32[0, 5]", "%s: i64[2] = constant data(0, 0)\n%y = reshape(%x, %s) {allowzero = 1}\nreturn %y",
             "f32[0, 0]");
  check_type("%x: f32[0, 5]", "%s: i64[2] = constant data(0, -1)\n%y = reshape(%x, %s)\nreturn %y", "f32[0, 5]");
}

/* A shape that is not known leaves the dims open, but not the rank. */
static void test_reshape_open(void **state) {
  (void)state;
  check_type("%x: f32[6], %s: i64[2]", "%y = reshape(%x, %s)\nreturn %y", "f32[?0, ?1]");
  check_type("%x: f32[6], %s: i64[k]", "%y = reshape(%x, %s)\nreturn %y", "f32[*]");
}

static void test_reshape_dynamic(void **state) {
  (void)state;
  check_type("%x: f32[batch, seq, 12]",
             "%i: i64[1] = constant data(0)\n%tail: i64[3] = constant data(-1, 3, 4)\n"
             "%s = shape(%x)\n%b = gather(%s, %i)\n%t = concat(%b, %tail) {axis = 0}\n%y = reshape(%x, %t)\nreturn %y",
             "f32[batch, seq, 3, 4]");
}

/* Of a list some numbers are known: each of the others may be -1, so that one of them is what is left, and of two nothing is known. */
static void test_reshape_partly_known(void **state) {
  (void)state;
#define LIST(parts) "%c: i64[1] = constant data(4)\n%t = concat(" parts ") {axis = 0}\n"
  check_type("%x: f32[2, 3, 4], %a: i64[1]", LIST("%a, %c") "%y = reshape(%x, %t)\nreturn %y", "f32[6, 4]");
  check_type("%x: f32[2, 3, 4], %a: i64[1]", LIST("%a, %c, %a") "%y = reshape(%x, %t)\nreturn %y", "f32[?2, 4, ?4]");
  check_type("%x: f32[n, 4], %a: i64[1]", LIST("%c, %a") "%y = reshape(%x, %t)\nreturn %y", "f32[4, ?3]");
  check_type("%x: f32[0, 4], %a: i64[1]", LIST("%c, %a") "%y = reshape(%x, %t)\nreturn %y", "f32[4, ?2]");
  check_type("%x: f32[1], %a: i64[1]", LIST("%c, %a") "%y = expand(%x, %t)\nreturn %y", "f32[4, ?0]");
  check_contents("%x: f32[1], %a: i64[2]", LIST("%c, %a") "return %t", "[4, ?0, ?1]");
#undef LIST
}

static void test_reshape_errors(void **state) {
  (void)state;
  check_rejects("%x: f32[2, 3]", "%s: i64[2] = constant data(-1, -1)\n%y = reshape(%x, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "dims 0 and 1 are both -1");
  check_rejects("%x: f32[2, 3]", "%s: i64[1] = constant data(7)\n%y = reshape(%x, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "[2, 3] can't become [7]: 6 elements against 7");
  check_rejects("%x: f32[2, 3]", "%s: i64[2] = constant data(4, -1)\n%y = reshape(%x, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "not a multiple");
  check_rejects("%x: f32[2, 3]", "%s: i64[3] = constant data(2, 3, 0)\n%y = reshape(%x, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "dim 2 is 0 (copy)");
  check_rejects("%x: f32[2, 3]", "%s: i64[1] = constant data(-6)\n%y = reshape(%x, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "dim 0 is -6");
  check_rejects("%x: f32[1]", "%s: i64[9] = constant fill(1)\n%y = reshape(%x, %s)\nreturn %y", TERCEL_UNSUPPORTED,
                "rank 9");
  check_rejects("%x: f32[0, 5]",
                "%s: i64[3] = constant data(0, 7, -1)\n%y = reshape(%x, %s) {allowzero = 1}\nreturn %y",
                TERCEL_INVALID_MODEL, "not a multiple");
}

static void test_views(void **state) {
  (void)state;
  check_type("%x: f32[2, 3, n]", "%y = flatten(%x)\nreturn %y", "f32[2, 3*n]");
  check_type("%x: f32[2, 3, 4]", "%y = flatten(%x) {axis = 3}\nreturn %y", "f32[24, 1]");
  check_type("%x: f32[2, 3, 4]", "%y = flatten(%x) {axis = -1}\nreturn %y", "f32[6, 4]");
  check_type("%x: f32[]", "%y = flatten(%x) {axis = 0}\nreturn %y", "f32[1, 1]");
  check_rejects("%x: f32[2]", "%y = flatten(%x) {axis = 2}\nreturn %y", TERCEL_INVALID_MODEL, "axis 2");
  check_type("%x: f32[1, n, 1]", "%y = squeeze(%x) {axes = [-1]}\nreturn %y", "f32[1, n]");
  check_type("%x: f32[1, 3, 1]", "%y = squeeze(%x)\nreturn %y", "f32[3]");
  check_type("%x: f32[1, n, 1]", "%y = squeeze(%x)\nreturn %y", "f32[*]");
  check_type("%x: f32[1, n, 1]", "%a: i64[1] = constant data(1)\n%y = squeeze(%x, %a)\nreturn %y", "f32[1, 1]");
  check_rejects("%x: f32[2, 3]", "%y = squeeze(%x) {axes = [1]}\nreturn %y", TERCEL_INVALID_MODEL,
                "axis 1 has size 3, want 1");
  check_type("%x: f32[n, 3]", "%y = unsqueeze(%x) {axes = [0, -1]}\nreturn %y", "f32[1, n, 3, 1]");
  check_type("%x: f32[n, 3]", "%a: i64[1] = constant data(1)\n%y = unsqueeze(%x, %a)\nreturn %y", "f32[n, 1, 3]");
  check_type("%x: f32[n, 3], %a: i64[2]", "%y = unsqueeze(%x, %a)\nreturn %y", "f32[?1, ?2, ?3, ?4]");
  check_rejects("%x: f32[n]", "%y = unsqueeze(%x) {axes = [0, -3]}\nreturn %y", TERCEL_INVALID_MODEL, "named twice");
  check_rejects("%x: f32[n]", "%y = unsqueeze(%x) {axes = [3]}\nreturn %y", TERCEL_INVALID_MODEL, "axis 3");
  check_rejects("%x: f32[n]", "%a: i64[8] = constant ramp()\n%y = unsqueeze(%x, %a)\nreturn %y", TERCEL_UNSUPPORTED,
                "8 axes");
}

static void test_contents(void **state) {
  (void)state;
  check_contents("%x: f32[batch, 3]",
                 "%s = shape(%x)\n%y = unsqueeze(%s) {axes = [0]}\n%z = squeeze(%y) {axes = [0]}\nreturn %s",
                 "[batch, 3]");
  check_contents(
      "%x: f32[batch, 3]",
      "%i: i64[] = constant data(0)\n%s = shape(%x)\n%n = gather(%s, %i)\n%y = unsqueeze(%n) {axes = [0]}\nreturn %y",
      "[batch]");
  check_contents("%x: f32[batch, 3]", "%t: i64[1] = constant data(2)\n%s = shape(%x)\n%y = reshape(%s, %t)\nreturn %y",
                 "[batch, 3]");
}

/* Every dtype, by whole tensors: packed types and strings too. */
static void test_values(void **state) {
  (void)state;
  check_values("%x: f32[2, 3] = constant ramp()\n%s: i64[1] = constant data(-1)\n%y = reshape(%x, %s)\n"
               "%w: f32[6] = constant ramp()\nreturn %y, %w",
               0);
  check_values("%x: string[1, 2] = constant data(\"a\", \"\")\n%y = squeeze(%x) {axes = [0]}\n"
               "%w: string[2] = constant data(\"a\", \"\")\nreturn %y, %w",
               0);
  check_values("%x: i4[3] = constant data(-8, 7, 1)\n%y = unsqueeze(%x) {axes = [1]}\n"
               "%w: i4[3, 1] = constant data(-8, 7, 1)\nreturn %y, %w",
               0);
  check_values("%x: bool[0, 3] = constant zeros()\n%y = flatten(%x)\n%w: bool[0, 3] = constant zeros()\nreturn %y, %w",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reshape_shapes),  cmocka_unit_test(test_reshape_open),
      cmocka_unit_test(test_reshape_dynamic), cmocka_unit_test(test_reshape_partly_known),
      cmocka_unit_test(test_reshape_errors),  cmocka_unit_test(test_views),
      cmocka_unit_test(test_contents),        cmocka_unit_test(test_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
