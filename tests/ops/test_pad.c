/* pad, expand, tile, range, shape, size. */
#include "ops/check.h"

#define PAD(pads) "%p: i64[2] = constant data(" pads ")\n"

static void test_pad(void **state) {
  (void)state;
  check_type("%x: f32[n, 3]", "%p: i64[4] = constant data(0, 1, 2, -1)\n%y = pad(%x, %p)\nreturn %y", "f32[n + 2, 3]");
  check_type("%x: f32[n, 3]",
             PAD("1, 1") "%v: f32[] = constant data(0)\n%a: i64[1] = constant data(-1)\n"
                         "%y = pad(%x, %p, %v, %a)\nreturn %y",
             "f32[n, 5]");
  check_type("%x: f32[n, 3], %p: i64[4]", "%y = pad(%x, %p)\nreturn %y", "f32[?1, ?2]");
  check_rejects("%x: f32[3]", PAD("-2, -2") "%y = pad(%x, %p)\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "cut more than axis 0 has (3)");
  check_rejects("%x: f32[3]", PAD("-9223372036854775807, 0") "%y = pad(%x, %p)\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "cut more");
  check_rejects("%x: f32[3]", PAD("9223372036854775807, 9223372036854775807") "%y = pad(%x, %p)\nreturn %y",
                TERCEL_INVALID_MODEL, "too large");
  check_rejects("%x: f32[3]", PAD("4611686018427387904, 0") "%y = pad(%x, %p)\nreturn %y", TERCEL_OUT_OF_MEMORY,
                "too large to address");
  check_rejects("%x: f32[0]", PAD("1, 0") "%y = pad(%x, %p) {mode = \"edge\"}\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "nothing to pad with");
  check_rejects("%x: f32[3]", PAD("1, 0") "%y = pad(%x, %p) {mode = \"mirror\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "mode is \"mirror\", want one of");
  check_rejects("%x: f32[3, 3]", PAD("1, 0") "%y = pad(%x, %p)\nreturn %y", TERCEL_INVALID_MODEL, "2 pads for 2 axes");
}

static void test_pad_modes(void **state) {
  (void)state;
  check_values(
      "%x: i32[3] = constant data(1, 2, 3)\n" PAD("2, 1") "%v: i32[] = constant data(9)\n%y = pad(%x, %p, %v)\n"
                                                          "%w: i32[6] = constant data(9, 9, 1, 2, 3, 9)\nreturn %y, %w",
      0);
  check_values("%x: i32[3] = constant data(1, 2, 3)\n" PAD(
                   "5, 3") "%y = pad(%x, %p) {mode = \"reflect\"}\n"
                           "%w: i32[11] = constant data(2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2)\nreturn %y, %w",
               0);
  check_values(
      "%x: i32[3] = constant data(1, 2, 3)\n" PAD("2, 1") "%y = pad(%x, %p) {mode = \"edge\"}\n"
                                                          "%w: i32[6] = constant data(1, 1, 1, 2, 3, 3)\nreturn %y, %w",
      0);
  check_values("%x: i32[3] = constant data(1, 2, 3)\n" PAD(
                   "4, 1") "%y = pad(%x, %p) {mode = \"wrap\"}\n"
                           "%w: i32[8] = constant data(3, 1, 2, 3, 1, 2, 3, 1)\nreturn %y, %w",
               0);
  check_values("%x: i32[4] = constant data(1, 2, 3, 4)\n" PAD(
                   "-1, 2") "%y = pad(%x, %p) {mode = \"reflect\"}\n"
                            "%w: i32[5] = constant data(2, 3, 4, 3, 2)\nreturn %y, %w",
               0);
  check_values("%x: i32[1] = constant data(7)\n" PAD("1, 2") "%y = pad(%x, %p) {mode = \"reflect\"}\n"
                                                             "%w: i32[4] = constant fill(7)\nreturn %y, %w",
               0);
  check_values(
      "%x: string[1] = constant data(\"a\")\n" PAD("1, 0") "%y = pad(%x, %p)\n"
                                                           "%w: string[2] = constant data(\"\", \"a\")\nreturn %y, %w",
      0);
  check_values("%x: u4[3] = constant data(1, 2, 3)\n" PAD(
                   "1, 1") "%y = pad(%x, %p)\n%w: u4[5] = constant data(0, 1, 2, 3, 0)\nreturn %y, %w",
               0);
  check_values(
      "%x: f32[0] = constant zeros()\n" PAD("1, 1") "%y = pad(%x, %p)\n%w: f32[2] = constant zeros()\nreturn %y, %w",
      0);
}

static void test_expand(void **state) {
  (void)state;
  check_type("%x: f32[n, 1, 3]", "%s: i64[2] = constant data(4, 1)\n%y = expand(%x, %s)\nreturn %y", "f32[n, 4, 3]");
  check_type("%x: f32[3], %s: i64[2]", "%y = expand(%x, %s)\nreturn %y", "f32[?0, 3]");
  check_type("%x: f32[1, n, 2], %s: i64[3]", "%y = expand(%x, %s)\nreturn %y", "f32[?1, max(n, ?2), 2]");
  check_type("%x: f32[3], %t: f32[b, s]",
             "%o: f32[] = constant data(1)\n%s = shape(%t)\n%y = expand(%o, %s)\nreturn %y", "f32[b, s]");
  check_contents("%x: f32[3]",
                 "%v: i64[1] = constant data(-1)\n%s: i64[1] = constant data(3)\n%y = expand(%v, %s)\nreturn %y",
                 "[-1, -1, -1]");
  check_rejects("%x: f32[3]", "%s: i64[1] = constant data(2)\n%y = expand(%x, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "broadcast");
  check_rejects("%x: f32[1]", "%s: i64[1] = constant data(-1)\n%y = expand(%x, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "-1");
  check_rejects("%x: f32[1]", "%s: i64[2] = constant data(4294967296, 4294967296)\n%y = expand(%x, %s)\nreturn %y",
                TERCEL_OUT_OF_MEMORY, "too large to address");
  check_values("%x: i4[2, 1] = constant data(3, -4)\n%s: i64[3] = constant data(2, 1, 2)\n%y = expand(%x, %s)\n"
               "%w: i4[2, 2, 2] = constant data(3, 3, -4, -4, 3, 3, -4, -4)\nreturn %y, %w",
               0);
  check_values("%x: string[] = constant data(\"z\")\n%s: i64[1] = constant data(2)\n%y = expand(%x, %s)\n"
               "%w: string[2] = constant data(\"z\", \"z\")\nreturn %y, %w",
               0);
  check_values("%x: f32[1, 3] = constant ramp()\n%s: i64[2] = constant data(0, 3)\n%y = expand(%x, %s)\n"
               "%w: f32[0, 3] = constant zeros()\nreturn %y, %w",
               0);
}

static void test_tile(void **state) {
  (void)state;
  check_type("%x: f32[n, 3]", "%r: i64[2] = constant data(2, 3)\n%y = tile(%x, %r)\nreturn %y", "f32[2*n, 9]");
  check_rejects("%x: f32[n, 3]", "%r: i64[1] = constant data(2)\n%y = tile(%x, %r)\nreturn %y", TERCEL_INVALID_MODEL,
                "1 repeats");
  check_rejects("%x: f32[3]", "%r: i64[1] = constant data(-2)\n%y = tile(%x, %r)\nreturn %y", TERCEL_INVALID_MODEL,
                "repeat 0 is -2");
  check_rejects("%x: f32[4]", "%r: i64[1] = constant data(4611686018427387904)\n%y = tile(%x, %r)\nreturn %y",
                TERCEL_INVALID_MODEL, "too large");
  check_values("%x: i32[2, 2] = constant data(1, 2, 3, 4)\n%r: i64[2] = constant data(2, 2)\n%y = tile(%x, %r)\n"
               "%w: i32[4, 4] = constant data(1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4)\nreturn %y, %w",
               0);
  check_values("%x: i32[2] = constant data(1, 2)\n%r: i64[1] = constant data(0)\n%y = tile(%x, %r)\n%w: i32[0] = "
               "constant zeros()\nreturn %y, %w",
               0);
}

#define RANGE(type, a, b, c)                                                                                           \
  "%a: " type "[] = constant data(" a ")\n%b: " type "[] = constant data(" b ")\n%c: " type "[] = constant data(" c    \
  ")\n%y = range(%a, %b, %c)\n"

static void test_range(void **state) {
  (void)state;
  check_type("%x: f32[n]",
             "%i: i64[] = constant data(0)\n%c: i64[] = constant data(1)\n%s = shape(%x)\n%e = gather(%s, %i)\n"
             "%y = range(%i, %e, %c)\nreturn %y",
             "i64[n]");
  check_type("%a: f32[], %b: f32[], %c: f32[]", "%y = range(%a, %b, %c)\nreturn %y", "f32[?0]");
  check_contents("", RANGE("i64", "3", "-4", "-3") "return %y", "[3, 0, -3]");
  check_values(RANGE("f32", "1", "2", "0.3") "%w: f32[4] = constant data(1, 1.3, 1.6, 1.9)\nreturn %y, %w", 1e-6);
  check_values(RANGE("i16", "5", "5", "1") "%w: i16[0] = constant zeros()\nreturn %y, %w", 0);
  check_rejects("", RANGE("i64", "0", "5", "0") "return %y", TERCEL_INVALID_ARGUMENT, "delta is 0");
  check_rejects("", RANGE("f32", "0", "5", "0") "return %y", TERCEL_INVALID_ARGUMENT, "delta is 0");
  check_rejects("", RANGE("f64", "0", "1e300", "1e-300") "return %y", TERCEL_INVALID_ARGUMENT, "no finite range");
  check_rejects("", RANGE("i64", "-9223372036854775807", "9223372036854775807", "1") "return %y",
                TERCEL_INVALID_ARGUMENT, "too many");
  check_rejects("", RANGE("i64", "0", "4611686018427387904", "1") "return %y", TERCEL_OUT_OF_MEMORY,
                "too large to address");
}

static void test_shape(void **state) {
  (void)state;
  check_contents("%x: f32[a, b, 3]", "%y = shape(%x) {start = 1}\nreturn %y", "[b, 3]");
  check_contents("%x: f32[a, b, 3]", "%y = shape(%x) {start = -9, end = -1}\nreturn %y", "[a, b]");
  check_type("%x: f32[a, b, 3]", "%y = shape(%x) {start = 2, end = 1}\nreturn %y", "i64[0]");
  check_type("%x: f32[*]", "%y = shape(%x)\nreturn %y", "i64[?0]");
  check_contents("%x: f32[a, b, 3]", "%y = size(%x)\nreturn %y", "[3*a*b]");
  check_values("%x: f32[2, 3] = constant zeros()\n%s = shape(%x)\n%w: i64[2] = constant data(2, 3)\n%n = size(%x)\n"
               "%v: i64[] = constant data(6)\nreturn %s, %w, %n, %v",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pad),    cmocka_unit_test(test_pad_modes),
                                     cmocka_unit_test(test_expand), cmocka_unit_test(test_tile),
                                     cmocka_unit_test(test_range),  cmocka_unit_test(test_shape)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
