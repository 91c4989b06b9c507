/* Norms and softmax out of the parts that JAX, TensorFlow and torch write; activations in other spellings. */
#include "support/support.h"

#include "as_text.h"

#define FN1(to, fn, a) "%" to " = pointwise(%" a ") {program = {1: " fn "(%0)}} "
#define FN2(to, fn, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: " fn "(%0, %1)}} "
#define NUMBER(name, number) "%" name ": f32[] = constant data(" number ") "
#define SUM(to, from, axis) "%" to " = reduce(%" from ") {kind = \"sum\", axes = [" axis "], keepdims = 0} "
#define MEAN(to, from, axes) "%" to " = reduce(%" from ") {kind = \"mean\", axes = [" axes "]} "

static void assert_holds(const char *passes, const char *text, const char *want) {
  char *decisions = NULL;
  char *const have = test_optimize(passes, text, &decisions);
  if (!strstr(have, want)) {
    print_error("have:\n%swant:\n%s\n%s", have, want, decisions ? decisions : "");
    fail();
  }
  tercel_free(have);
  tercel_free(decisions);
}

/* flax: sums without dims, variance as the mean of squares less the square of the mean, not below 0, the scale multiplied into the inverse. */
/* clang-format off */
#define JAX_MOMENTS                                                                                                    \
  NUMBER("k", "0.25")                                                                                                  \
  NUMBER("e", "0.5")                                                                                                   \
  SUM("s", "x", "1")                                                                                                   \
  FN2("q", "mul", "x", "x")                                                                                            \
  SUM("t", "q", "1")                                                                                                   \
  FN2("m", "mul", "s", "k")                                                                                            \
  FN2("n2", "mul", "t", "k")                                                                                           \
  FN2("mm", "mul", "m", "m")                                                                                           \
  FN2("v", "sub", "n2", "mm")                                                                                          \
  FN1("p", "relu", "v")                                                                                                \
  "%to: i64[2] = constant data(-1, 1) %mk = reshape(%m, %to) %pk = reshape(%p, %to) "                                  \
  FN2("pe", "add", "pk", "e")                                                                                          \
  FN1("r", "rsqrt", "pe")                                                                                              \
  FN2("d", "sub", "x", "mk")
/* clang-format on */
#define JAX(rest)                                                                                                      \
  "graph \"g\" (%x: f32[n, 4]) { %g: f32[1, 4] = constant data(1, 2, 3, 4) %b: f32[1, 4] = constant data(4, 3, 2, "    \
  "1) " JAX_MOMENTS rest " }"

static void test_jax(void **state) {
  (void)state;
  assert_holds("norms",
               JAX(FN2("rg", "mul", "r", "g") FN2("dn", "mul", "d", "rg") FN2("y", "add", "dn", "b") "return %y"),
               "layer_norm(%x, %g, %b) {axis = 1, epsilon = 0.5}");
  test_assert_refused("norms", JAX(FN2("dn", "mul", "d", "r") "return %dn, %m"),
                      "layer-norm: refused dn: 'm' inside it is an output of the graph");
  /* the mean of other numbers: 1/3 of a sum of 4 */
  char *const text = test_optimize(
      "norms",
      "graph \"g\" (%x: f32[n, 4]) { " NUMBER("k", "0.3333") NUMBER("e", "0.5")
          FN2("q", "mul", "x", "x") "%t = reduce(%q) {kind = \"sum\", axes = [1]} " FN2("v", "mul", "t", "k")
              FN2("pe", "add", "v", "e") FN1("r", "rsqrt", "pe") FN2("y", "mul", "x", "r") "return %y }",
      NULL);
  assert_null(strstr(text, "rms_norm"));
  tercel_free(text);
}

/* tf.nn.batch_normalization over a row's moments: x factor + (bias - mean factor) */
static void test_tensorflow(void **state) {
  (void)state;
  assert_holds("norms",
               "graph \"g\" (%x: f32[n, 4]) { %g: f32[4] = constant data(1, 2, 3, 4) %b: f32[4] = constant data(4, 3, "
               "2, 1) " NUMBER("e", "0.5") MEAN("m", "x", "-1") FN2("d", "sub", "x", "m") FN2("q", "mul", "d", "d")
                   MEAN("v", "q", "-1") FN2("ve", "add", "v", "e") FN1("r", "rsqrt", "ve") FN2("f", "mul", "r", "g")
                       FN2("xf", "mul", "x", "f") FN2("mf", "mul", "m", "f") FN2("o", "sub", "b", "mf")
                           FN2("y", "add", "xf", "o") "return %y }",
               "layer_norm(%x, %g, %b) {axis = 1, epsilon = 0.5}");
}

/* clang-format off */
#define NORM_OVER(axes)                                                                                                \
  NUMBER("e", "0.5")                                                                                                   \
  MEAN("m", "x", axes)                                                                                                 \
  FN2("d", "sub", "x", "m")                                                                                            \
  FN2("q", "mul", "d", "d")                                                                                            \
  MEAN("v", "q", axes)                                                                                                 \
  FN2("ve", "add", "v", "e")                                                                                           \
  FN1("r", "sqrt", "ve")                                                                                               \
  FN2("z", "div", "d", "r")
/* clang-format on */

/* Channels of a picture: a layer norm of the transposed, as ConvNeXt has it. */
static void test_inner_axis(void **state) {
  (void)state;
  test_assert_body(
      "norms",
      "graph \"g\" (%x: f32[n, 2, h, w]) { %g: f32[2, 1, 1] = constant data(1, 2) " NORM_OVER("1")
          FN2("y", "mul", "z", "g") "return %y }",
      "  %y: f32[n, h, w, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
      "  %g: f32[2] = constant data(1, 2)\n"
      "  %y.1: f32[n, h, w, 2] = layer_norm(%y, %g) {axis = 3, epsilon = 0.5} named \"y\" from \"y\", \"z\", "
      "\"r\", \"ve\", \"v\", \"q\", \"d\", \"m\"\n"
      "  %y.2: f32[n, 2, h, w] = transpose(%y.1) {perm = [0, 3, 1, 2]} named \"y\" from \"y\", \"z\", \"r\", "
      "\"ve\", \"v\", \"q\", \"d\", \"m\"\n  return %y.2 as \"y\"\n");
  test_assert_refused("norms", "graph \"g\" (%x: f32[n, 2, h, 3]) { " NORM_OVER("1, 3") "return %z }",
                      "its mean is over several axes that are not the last ones");
}

static void test_instance_norm(void **state) {
  (void)state;
#define PICTURE(body)                                                                                                  \
  "graph \"g\" (%x: f32[n, 2, h, w]) { %g: f32[2, 1, 1] = constant data(1, 2) %b: f32[2, 1, 1] = constant data(2, "    \
  "1) " body " }"
  assert_holds("norms", PICTURE(NORM_OVER("2, 3") FN2("t", "mul", "z", "g") FN2("y", "add", "t", "b") "return %y"),
               "group_norm(%x, %g, %b) {epsilon = 0.5}");
  assert_holds("norms", PICTURE(NORM_OVER("2, 3") "return %z"), "group_norm(%x, %ones, %zeros) {epsilon = 0.5}");
  /* rows of a sequence look alike, but their scale runs along the row */
  assert_holds("norms",
               "graph \"g\" (%x: f32[n, 3, 2]) { %g: f32[2] = constant data(1, 2) " NORM_OVER("2")
                   FN2("y", "mul", "z", "g") "return %y }",
               "layer_norm(%x, %g) {axis = 2, epsilon = 0.5}");
}

/* As torch's TorchScript exporter has it. */
static void test_group_norm(void **state) {
  (void)state;
#define GROUPS(rest)                                                                                                   \
  "graph \"g\" (%x: f32[n, 4, 3, 5]) { %a: i64[3] = constant data(0, 2, -1) %to: i64[4] = constant data(0, 4, 3, 5) "  \
  "%one: f32[2] = constant data(1, 1) %zero: f32[2] = constant data(0, 0) "                                            \
  "%g: f32[4, 1, 1] = constant data(1, 2, 3, 4) %b: f32[4, 1, 1] = constant data(4, 3, 2, 1) "                         \
  "%v = reshape(%x, %a) %i = group_norm(%v, %one, %zero) {epsilon = 0.5} %r = reshape(%i, %to) " rest " }"
  assert_holds("norms", GROUPS(FN2("t", "mul", "r", "g") FN2("y", "add", "t", "b") "return %y"),
               "group_norm(%x, %g, %b) {groups = 2, epsilon = 0.5}");
  assert_holds("norms", GROUPS(FN2("y", "add", "r", "b") "return %y"),
               "group_norm(%x, %ones, %b) {groups = 2, epsilon = 0.5}");
  test_assert_refused("norms", GROUPS(FN2("t", "mul", "r", "g") FN2("y", "add", "t", "b") "return %y, %r"),
                      "group-norm: refused y: 'r' inside it is an output of the graph");
}

/* JAX: a maximum with -infinity around the largest, dims given back by reshapes. */
static void test_softmax(void **state) {
  (void)state;
#define SOFTMAX(axis)                                                                                                  \
  "graph \"g\" (%x: f32[n, 4]) { %to: i64[2] = constant data(-1, 1) " NUMBER(                                          \
      "f", "-inf") "%m = reduce(%x) {kind = \"max\", axes = [" axis                                                    \
                   "], keepdims = 0} " FN2("c", "max", "f", "m") "%k = reshape(%c, %to) " FN2("d", "sub", "x", "k")    \
                       FN1("e", "exp", "d")                                                                            \
                           SUM("s", "e", "1") "%t = reshape(%s, %to) " FN2("y", "div", "e", "t") "return %y }"
  assert_holds("norms canonicalize", SOFTMAX("1"), "softmax(%x) {axis = 1}");
}

/* A maximum of -infinity and a number is the number, on whichever side the constant stands. */
static void test_maximum_of_infinity(void **state) {
  (void)state;
  test_assert_body("canonicalize",
                   "graph \"g\" (%x: f32[]) { " NUMBER("f", "-inf") FN2("y", "max", "f", "x") "return %y }",
                   "  return %x as \"y\"\n");
}

static void test_gelu(void **state) {
  (void)state;
#define ROW(body) "graph \"g\" (%x: f32[n, 4]) { " body " }"
  /* JAX: x erfc(-x sqrt(1/2)) / 2, where erfc(x) = 1 - erf(x) */
  assert_holds("activations",
               ROW(NUMBER("k", "0.70710678") NUMBER("one", "1") NUMBER("h", "0.5") FN1("n1", "neg", "x")
                       FN2("s", "mul", "n1", "k") FN1("e", "erf", "s") FN2("c", "sub", "one", "e")
                           FN2("p", "mul", "x", "c") FN2("y", "mul", "p", "h") "return %y"),
               "gelu(%0)");
  test_assert_refused("activations",
                      ROW(NUMBER("k", "0.70710678") NUMBER("one", "1") NUMBER("h", "0.5") FN2("s", "mul", "x", "k")
                              FN1("e", "erf", "s") FN2("c", "sub", "one", "e") FN2("p", "mul", "x", "c")
                                  FN2("y", "mul", "p", "h") "return %y"),
                      "it is x (0.5 + -0.5 erf), not x (0.5 + 0.5 erf)");
  /* by sigmoid */
  assert_holds("activations",
               ROW(NUMBER("a", "0.044715") NUMBER("k", "1.5957691216") FN2("q", "mul", "x", "x")
                       FN2("c", "mul", "q", "x") FN2("t", "mul", "c", "a") FN2("u", "add", "x", "t")
                           FN2("v", "mul", "u", "k") FN1("s", "sigmoid", "v") FN2("y", "mul", "x", "s") "return %y"),
               "gelu_tanh(%0)");
  /* quick: the factor stays */
  assert_holds("activations",
               ROW(NUMBER("k", "1.702") FN2("v", "mul", "x", "k") FN1("s", "sigmoid", "v")
                       FN2("y", "mul", "x", "s") "return %y"),
               "silu<1.702");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_jax),
      cmocka_unit_test(test_tensorflow),
      cmocka_unit_test(test_inner_axis),
      cmocka_unit_test(test_instance_norm),
      cmocka_unit_test(test_group_norm),
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_maximum_of_infinity),
      cmocka_unit_test(test_gelu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
