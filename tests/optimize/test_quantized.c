/* Quantizing and back. */
#include "support/support.h"

#include "as_text.h"

#define FN1(to, fn, a) "%" to " = pointwise(%" a ") {program = {1: " fn "(%0)}} "
#define FN2(to, fn, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: " fn "(%0, %1)}} "
#define SCALAR(name, value) "%" name ": f32[] = constant data(" value ") "
#define GRID(scale, zero, minus) SCALAR("s", scale) SCALAR("z", zero) SCALAR("m", minus)
#define DEQUANTIZE(to, from) FN1(to "a", "cast<1, 0>", from) FN2(to "b", "add", to "a", "m") FN2(to, "mul", to "b", "s")
#define QUANTIZE(to, from)                                                                                             \
  FN2(to "a", "div", from, "s")                                                                                        \
  FN1(to "b", "round", to "a")                                                                                         \
  FN2(to "c", "add", to "b", "z")                                                                                      \
  FN1(to "d", "clip<0, 255>", to "c") "%" to " = pointwise(%" to "d) {program = {1: cast:u8<1, 0>(%0)}} "
#define BYTES "graph \"g\" (%q: u8[n, 4]) { "

static void test_there_and_back(void **state) {
  (void)state;
  test_assert_body("quantized", BYTES GRID("0.1", "128", "-128") DEQUANTIZE("x", "q") QUANTIZE("y", "x") "return %y }",
                   "  return %q as \"y\"\n");
  /* around moves; the numbers between are a result */
  test_assert_body("quantized",
                   BYTES GRID("0.1", "128", "-128")
                       DEQUANTIZE("x", "q") "%t = transpose(%x) {perm = [1, 0]} " QUANTIZE("y", "t") "return %y, %x }",
                   "  %xa: f32[n, 4] = pointwise(%q) {program = {1: cast<1, 0>(%0)}}\n"
                   "  %m: f32[] = constant data(-128)\n"
                   "  %xb: f32[n, 4] = pointwise(%xa, %m) {program = {2: add(%0, %1)}}\n"
                   "  %s: f32[] = constant data(0.1)\n"
                   "  %x: f32[n, 4] = pointwise(%xb, %s) {program = {2: mul(%0, %1)}}\n"
                   "  %y: u8[4, n] = transpose(%q) {perm = [1, 0]} named \"t\"\n  return %y, %x\n");
  test_assert_refused(
      "quantized", BYTES GRID("0.1", "127", "-128") DEQUANTIZE("x", "q") QUANTIZE("y", "x") "return %y }",
      "there-and-back: refused y: 'x' has scale 0.100000001 and zero point 128, and not 0.100000001 and 127");
  test_assert_refused("quantized",
                      "graph \"g\" (%q: i8[n, 4]) { " GRID("0.1", "128", "-128") DEQUANTIZE("x", "q")
                          QUANTIZE("y", "x") "return %y }",
                      "there-and-back: refused y: it makes u8 of what was i8");
}

static void test_relu(void **state) {
  (void)state;
#define FLOATS "graph \"g\" (%x: f32[n, 4]) { "
  char *const text = test_optimize(
      "quantized", FLOATS GRID("0.1", "0", "0") FN1("r", "relu", "x") QUANTIZE("y", "r") "return %y }", NULL);
  assert_null(strstr(text, "relu"));
  assert_non_null(strstr(text, "%ya: f32[n, 4] = pointwise(%x, %s) {program = {2: div(%0, %1)}} from \"ya\", \"r\""));
  tercel_free(text);
  test_assert_refused("quantized", FLOATS GRID("0.1", "1", "0") FN1("r", "relu", "x") QUANTIZE("y", "r") "return %y }",
                      "relu: refused y: its zero point is 1, and not the least integer, 0");
  test_assert_refused("quantized",
                      FLOATS GRID("0.1", "0", "0") FN1("r", "relu", "x") QUANTIZE("y", "r") "return %y, %r }",
                      "relu: refused y: 'r' is an output of the graph");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_relu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
