/* Rules that fuse: activations, norms, transposes, scale folding, epilogues, chains.  For each: a match, a near miss with its reason, a value
 * that something else reads. */
#include "support/support.h"

#include "as_text.h"

/* A pointwise node of one function, %to = fn(%from...). */
#define FN1(to, fn, a) "%" to " = pointwise(%" a ") {program = {1: " fn "(%0)}} "
#define FN2(to, fn, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: " fn "(%0, %1)}} "
#define SCALAR(name, value) "%" name ": f32[] = constant data(" value ") "
#define GRAPH(body) "graph \"g\" (%x: f32[n, 4]) { " body "}"

/* ---- activations ---- */

#define GELU_PARTS                                                                                                     \
  SCALAR("r", "1.4142135")                                                                                             \
  SCALAR("o", "1") SCALAR("h", "0.5") FN2("a", "div", "x", "r") FN1("b", "erf", "a") FN2("c", "add", "b", "o")

static void test_gelu(void **state) {
  (void)state;
  static const char *const want = "  %y: f32[n, 4] = pointwise(%x) {program = {1: gelu(%0)}}";
  static const char *const spellings[] = {
      GRAPH(GELU_PARTS FN2("d", "mul", "x", "c") FN2("y", "mul", "d", "h") "return %y "),
      GRAPH(GELU_PARTS FN2("d", "mul", "x", "h") FN2("y", "mul", "d", "c") "return %y "),
      GRAPH(GELU_PARTS FN2("d", "mul", "h", "c") FN2("y", "mul", "d", "x") "return %y "),
      /* x (erf(x / sqrt 2) / 2 + 1 / 2) */
      GRAPH(SCALAR("r", "0.70710677") SCALAR("h", "0.5") FN2("a", "mul", "x", "r") FN1("b", "erf", "a")
                FN2("c", "mul", "b", "h") FN2("d", "add", "c", "h") FN2("y", "mul", "x", "d") "return %y "),
  };
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    char *const text = test_optimize("activations", spellings[i], NULL);
    if (!strstr(text, want)) fail_msg("spelling %zu: %s", i, text);
    tercel_free(text);
  }
  test_assert_refused("activations",
                      GRAPH(GELU_PARTS FN2("d", "mul", "x", "c") FN2("y", "mul", "d", "h") "return %y, %b "),
                      "'b' inside it is an output of the graph");
  /* another factor, another function */
  test_assert_body("activations canonicalize",
                   GRAPH(SCALAR("r", "1.5") SCALAR("o", "1") FN2("a", "div", "x", "r") FN1("b", "erf", "a")
                             FN2("c", "add", "b", "o") FN2("y", "mul", "x", "c") "return %y "),
                   "  %r: f32[] = constant data(1.5)\n"
                   "  %a: f32[n, 4] = pointwise(%x, %r) {program = {2: div(%0, %1)}}\n"
                   "  %b: f32[n, 4] = pointwise(%a) {program = {1: erf(%0)}}\n"
                   "  %o: f32[] = constant data(1)\n"
                   "  %c: f32[n, 4] = pointwise(%b, %o) {program = {2: add(%0, %1)}}\n"
                   "  %y: f32[n, 4] = pointwise(%x, %c) {program = {2: mul(%0, %1)}}\n  return %y\n");
}

static void test_gelu_tanh(void **state) {
  (void)state;
  static const char *const spellings[] = {
      GRAPH(SCALAR("k", "0.044715") SCALAR("q", "0.7978846") SCALAR("o", "1") SCALAR("h", "0.5") SCALAR("t", "3")
                FN2("a", "pow", "x", "t") FN2("b", "mul", "a", "k") FN2("c", "add", "x", "b") FN2("d", "mul", "c", "q")
                    FN1("e", "tanh", "d") FN2("f", "add", "e", "o") FN2("g", "mul", "x", "h")
                        FN2("y", "mul", "g", "f") "return %y "),
      GRAPH(SCALAR("k", "0.044715") SCALAR("q", "0.7978846") SCALAR("o", "1") SCALAR("h", "0.5")
                FN2("a", "mul", "x", "x") FN2("b", "mul", "a", "k") FN2("c", "add", "b", "o") FN2("d", "mul", "x", "q")
                    FN2("e", "mul", "d", "c") FN1("f", "tanh", "e") FN2("g", "add", "f", "o") FN2("i", "mul", "g", "h")
                        FN2("y", "mul", "x", "i") "return %y "),
  };
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    char *const text = test_optimize("activations", spellings[i], NULL);
    if (!strstr(text, "%y: f32[n, 4] = pointwise(%x) {program = {1: gelu_tanh(%0)}}"))
      fail_msg("spelling %zu: %s", i, text);
    tercel_free(text);
  }
}

static void test_other_activations(void **state) {
  (void)state;
  test_assert_body("activations", GRAPH(FN1("a", "sigmoid", "x") FN2("y", "mul", "x", "a") "return %y "),
                   "  %y: f32[n, 4] = pointwise(%x) {program = {1: silu<1>(%0)}} from \"y\", \"a\"\n  return %y\n");
  test_assert_body(
      "activations",
      GRAPH(SCALAR("k", "1.702") FN2("a", "mul", "x", "k") FN1("b", "sigmoid", "a")
                FN2("y", "mul", "b", "x") "return %y "),
      "  %y: f32[n, 4] = pointwise(%x) {program = {1: silu<1.7020000219345093>(%0)}} from \"y\", \"b\", \"a\"\n"
      "  return %y\n");
  test_assert_body("activations",
                   GRAPH(SCALAR("t", "3") SCALAR("s", "6") FN2("a", "add", "x", "t") FN1("b", "clip<0, 6>", "a")
                             FN2("c", "mul", "x", "b") FN2("y", "div", "c", "s") "return %y "),
                   "  %y: f32[n, 4] = pointwise(%x) {program = {1: hard_swish(%0)}} from \"y\", \"c\", \"b\", \"a\"\n"
                   "  return %y\n");
  test_assert_body(
      "activations",
      GRAPH(SCALAR("p", "0.25") SCALAR("q", "0.5") FN2("a", "mul", "x", "p") FN2("b", "add", "a", "q")
                FN1("y", "clip<0, 1>", "b") "return %y "),
      "  %y: f32[n, 4] = pointwise(%x) {program = {1: hard_sigmoid<0.25, 0.5>(%0)}} from \"y\", \"b\", \"a\"\n"
      "  return %y\n");
  test_assert_body("activations",
                   GRAPH(FN1("a", "softplus", "x") FN1("b", "tanh", "a") FN2("y", "mul", "x", "b") "return %y "),
                   "  %y: f32[n, 4] = pointwise(%x) {program = {1: mish(%0)}} from \"y\", \"b\", \"a\"\n  return %y\n");
}

static void test_leaky_relu(void **state) {
  (void)state;
  static const char want[] = "  %y: f32[n, 4] = pointwise(%x) {program = {1: leaky_relu<0.25>(%0)}}";
  static const char *const spellings[] = {
      GRAPH(SCALAR("p", "0.25") FN2("a", "mul", "x", "p") FN2("y", "max", "a", "x") "return %y "),
      GRAPH(SCALAR("p", "0.25") SCALAR("o", "0") FN2("a", "mul", "p", "x") FN2(
          "c", "greater", "x", "o") "%y = pointwise(%c, %x, %a) {program = {3: select(%0, %1, %2)}} return %y "),
      GRAPH(SCALAR("p", "0.25") SCALAR("o", "0") FN2("a", "mul", "p", "x")
                FN2("c", "less", "x", "o") "%y = pointwise(%c, %a, %x) {program = {3: select(%0, %1, %2)}} return %y "),
  };
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    char *const text = test_optimize("activations", spellings[i], NULL);
    if (!strstr(text, want)) fail_msg("spelling %zu: %s", i, text);
    tercel_free(text);
  }
  test_assert_refused("activations",
                      GRAPH(SCALAR("p", "1.5") FN2("a", "mul", "x", "p") FN2("y", "max", "a", "x") "return %y "),
                      "leaky-relu: refused y: the larger of x and 1.5 x is no leaky ReLU");
  test_assert_refused("activations",
                      GRAPH(SCALAR("p", "0.5") FN2("a", "mul", "x", "p") FN2("y", "max", "a", "x") "return %y, %a "),
                      "leaky-relu: refused y: 'a' inside it is an output of the graph");
}

static void test_sigmoid(void **state) {
  (void)state;
#define ONE_AND_EXP SCALAR("o", "1") FN1("a", "neg", "x") FN1("b", "exp", "a") FN2("c", "add", "b", "o")
  static const char sigmoid[] = "  %y: f32[n, 4] = pointwise(%x) {program = {1: sigmoid(%0)}}";
  static const char silu[] = "  %y: f32[n, 4] = pointwise(%x) {program = {1: silu<1>(%0)}}";
  static const struct {
    const char *text, *want;
  } spellings[] = {
      {GRAPH(ONE_AND_EXP FN2("y", "div", "o", "c") "return %y "), sigmoid},
      {GRAPH(ONE_AND_EXP FN1("y", "reciprocal", "c") "return %y "), sigmoid},
      {GRAPH(ONE_AND_EXP FN2("y", "div", "x", "c") "return %y "), silu},
      {GRAPH(ONE_AND_EXP FN2("d", "div", "o", "c") FN2("y", "mul", "x", "d") "return %y "), silu},
  };
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    char *const text = test_optimize("activations canonicalize", spellings[i].text, NULL);
    if (!strstr(text, spellings[i].want)) fail_msg("spelling %zu: %s", i, text);
    tercel_free(text);
  }
  test_assert_refused("activations", GRAPH(ONE_AND_EXP FN2("y", "div", "o", "c") "return %y, %b "),
                      "sigmoid: refused y: 'b' inside it is an output of the graph");
}

/* ---- norms ---- */

#define MEAN(to, from) "%" to " = reduce(%" from ") {kind = \"mean\", axes = [-1]} "
#define DEVIATION                                                                                                      \
  MEAN("m", "x")                                                                                                       \
  FN2("d", "sub", "x", "m") FN2("s", "mul", "d", "d") MEAN("v", "s") SCALAR("e", "0.5") FN2("w", "add", "v", "e")
#define SCALE_BIAS "%g: f32[4] = constant data(1, 2, 3, 4) %b: f32[1, 4] = constant data(4, 3, 2, 1) "

#define PICTURES(body) "graph \"g\" (%x: f32[n, 2, h, w]) { " body "}"
#define PIXEL_MEAN(to, from) "%" to " = reduce(%" from ") {kind = \"mean\", axes = [2, 3]} "
#define PIXEL_DEVIATION                                                                                                \
  PIXEL_MEAN("m", "x")                                                                                                 \
  FN2("d", "sub", "x", "m")                                                                                            \
  FN2("s", "mul", "d", "d")                                                                                            \
  PIXEL_MEAN("v", "s") SCALAR("e", "0.5") FN2("w", "add", "v", "e") FN1("r", "sqrt", "w") FN2("q", "div", "d", "r")

static void test_instance_norm(void **state) {
  (void)state;
  test_assert_body("norms", PICTURES(PIXEL_DEVIATION "return %q "),
                   "  %ones: f32[2] = constant data(1, 1)\n  %zeros: f32[2] = constant data(0, 0)\n"
                   "  %q: f32[n, 2, h, w] = group_norm(%x, %ones, %zeros) {epsilon = 0.5} from \"q\", \"r\", \"w\", "
                   "\"v\", \"s\", \"d\", \"m\"\n  return %q\n");
  test_assert_body(
      "norms",
      PICTURES(PIXEL_DEVIATION "%g: f32[2, 1, 1] = constant data(3, 4) %b: f32[1, 2, 1, 1] = constant data(5, 6) " FN2(
          "t", "mul", "q", "g") FN2("y", "add", "b", "t") "return %y "),
      "  %g: f32[2] = constant data(3, 4)\n  %b: f32[2] = constant data(5, 6)\n"
      "  %y: f32[n, 2, h, w] = group_norm(%x, %g, %b) {epsilon = 0.5} from \"y\", \"t\", \"q\", \"r\", "
      "\"w\", \"v\", \"s\", \"d\", \"m\"\n  return %y\n");
  test_assert_refused("norms", PICTURES(PIXEL_DEVIATION "return %q, %m "),
                      "instance-norm: refused q: 'm' inside it is an output of the graph");
}

static void test_layer_norm(void **state) {
  (void)state;
  test_assert_body(
      "norms",
      GRAPH(DEVIATION SCALE_BIAS FN1("r", "sqrt", "w") FN2("q", "div", "d", "r") FN2("t", "mul", "q", "g")
                FN2("y", "add", "t", "b") "return %y "),
      "  %g: f32[4] = constant data(1, 2, 3, 4)\n  %b: f32[4] = constant data(4, 3, 2, 1)\n"
      "  %y: f32[n, 4] = layer_norm(%x, %g, %b) {axis = 1, epsilon = 0.5} from \"y\", \"t\", \"q\", \"r\", \"w\", "
      "\"v\", \"s\", \"d\", \"m\"\n  return %y\n");
  test_assert_body(
      "norms", GRAPH(DEVIATION FN1("r", "rsqrt", "w") FN2("y", "mul", "d", "r") "return %y "),
      "  %ones: f32[4] = constant data(1, 1, 1, 1)\n"
      "  %y: f32[n, 4] = layer_norm(%x, %ones) {axis = 1, epsilon = 0.5} from \"y\", \"r\", \"w\", \"v\", \"s\", "
      "\"d\", \"m\"\n  return %y\n");
  test_assert_refused("norms", GRAPH(DEVIATION FN1("r", "sqrt", "w") FN2("y", "div", "d", "r") "return %y, %v "),
                      "layer-norm: refused y: 'v' inside it is an output of the graph");
  test_assert_refused(
      "norms", "graph \"g\" (%x: f32[4, n]) { " DEVIATION FN1("r", "sqrt", "w") FN2("y", "div", "d", "r") "return %y }",
      "dim 1 of its input is not known");
}

/* Means without dims, which a reshape gives back. */
static void test_layer_norm_of_reshaped_means(void **state) {
  (void)state;
  static const char text[] =
      "graph \"g\" (%x: f32[3, 4]) { %to: i64[2] = constant data(3, 1) "
      "%m0 = reduce(%x) {kind = \"mean\", axes = [1], keepdims = 0} %m = reshape(%m0, %to) " FN2("d", "sub", "x", "m")
          FN2("s", "mul", "d", "d") "%v0 = reduce(%s) {kind = \"mean\", axes = [1], keepdims = 0} "
                                    "%v = reshape(%v0, %to) " SCALAR("e", "0.5") FN2("w", "add", "v", "e")
                                        FN1("r", "sqrt", "w") FN2("y", "div", "d", "r") "return %y }";
  char *const have = test_optimize("norms canonicalize", text, NULL);
  if (!strstr(have, "layer_norm(%x, ")) fail_msg("%s", have);
  tercel_free(have);
  /* another reads the mean without its dim: it stays */
  test_assert_body("canonicalize",
                   "graph \"g\" (%x: f32[3, 4]) { %to: i64[2] = constant data(3, 1) "
                   "%m = reduce(%x) {kind = \"mean\", axes = [1], keepdims = 0} %y = reshape(%m, %to) return %y, %m }",
                   "  %m: f32[3] = reduce(%x) {kind = \"mean\", axes = [1], keepdims = 0}\n"
                   "  %to: i64[2] = constant data(3, 1)\n  %y: f32[3, 1] = reshape(%m, %to)\n  return %y, %m\n");
}

static void test_rms_norm(void **state) {
  (void)state;
  test_assert_body(
      "norms",
      GRAPH(FN2("s", "mul", "x", "x") MEAN("v", "s") SCALAR("e", "0.5") FN2("w", "add", "v", "e") FN1("r", "rsqrt", "w")
                FN2("q", "mul", "x", "r") "%g: f32[4] = constant data(1, 2, 3, 4) " FN2("y", "mul", "g",
                                                                                        "q") "return %y "),
      "  %g: f32[4] = constant data(1, 2, 3, 4)\n"
      "  %y: f32[n, 4] = rms_norm(%x, %g) {axis = 1, epsilon = 0.5} from \"y\", \"q\", \"r\", \"w\", \"v\", \"s\"\n"
      "  return %y\n");
}

static void test_softmax(void **state) {
  (void)state;
  test_assert_body(
      "norms",
      GRAPH("%m = reduce(%x) {kind = \"max\", axes = [1]} " FN2("d", "sub", "x", "m") FN1(
          "e", "exp", "d") "%s = reduce(%e) {kind = \"sum\", axes = [1]} " FN2("y", "div", "e", "s") "return %y "),
      "  %y: f32[n, 4] = softmax(%x) {axis = 1} from \"y\", \"s\", \"e\", \"d\", \"m\"\n  return %y\n");
}

/* ---- transposes ---- */

#define IMAGE(body) "graph \"g\" (%x: f32[n, 3, h, 2]) { " body "}"
#define TO_LAST(to, from) "%" to " = transpose(%" from ") {perm = [0, 2, 3, 1]} "
#define TO_FIRST(to, from) "%" to " = transpose(%" from ") {perm = [0, 3, 1, 2]} "

static void test_transposes(void **state) {
  (void)state;
  test_assert_body("transposes", IMAGE(TO_LAST("a", "x") TO_FIRST("y", "a") "return %y "), "  return %x as \"y\"\n");
  test_assert_body("transposes", IMAGE(TO_LAST("a", "x") TO_LAST("y", "a") "return %y "),
                   "  %y: f32[n, 2, 3, h] = transpose(%x) {perm = [0, 3, 1, 2]} from \"y\", \"a\"\n  return %y\n");
  /* the inner one stays for others */
  test_assert_body("transposes", IMAGE(TO_LAST("a", "x") TO_FIRST("y", "a") "return %y, %a "),
                   "  %a: f32[n, h, 2, 3] = transpose(%x) {perm = [0, 2, 3, 1]}\n  return %x as \"y\", %a\n");
  test_assert_body(
      "transposes", "graph \"g\" (%x: f32[n, 1, 5]) { %y = transpose(%x) {perm = [0, 2, 1]} return %y }",
      "  %shape: i64[3] = constant data(0, 5, 1)\n  %y: f32[n, 5, 1] = reshape(%x, %shape)\n  return %y\n");
}

static void test_sinking(void **state) {
  (void)state;
  /* a chain between two transposes: the constant is laid out anew */
  test_assert_body("transposes",
                   IMAGE(TO_LAST("a", "x") "%k: f32[3] = constant data(1, 2, 3) " FN2("b", "mul", "a", "k")
                             FN1("c", "relu", "b") TO_FIRST("y", "c") "return %y "),
                   "  %k: f32[1, 3, 1, 1] = constant data(1, 2, 3)\n"
                   "  %b: f32[n, 3, h, 2] = pointwise(%x, %k) {program = {2: mul(%0, %1)}}\n"
                   "  %c: f32[n, 3, h, 2] = pointwise(%b) {program = {1: relu(%0)}}\n  return %c as \"y\"\n");
  test_assert_body("transposes",
                   IMAGE(TO_LAST("a", "x") "%y = reduce(%a) {kind = \"mean\", axes = [1, 2], keepdims = 0} return %y "),
                   "  %y: f32[n, 3] = reduce(%x) {kind = \"mean\", keepdims = 0, axes = [2, 3]}\n  return %y\n");
  test_assert_body("transposes",
                   IMAGE(TO_LAST("a", "x") "%b = softmax(%a) {axis = -1} " TO_FIRST("y", "b") "return %y "),
                   "  %b: f32[n, 3, h, 2] = softmax(%x) {axis = 1}\n  return %b as \"y\"\n");
  test_assert_body(
      "transposes",
      IMAGE(TO_LAST("a", "x") "%p: i64[8] = constant data(0, 1, 2, 0, 0, 1, 2, 0) %b = pad(%a, %p) " TO_FIRST(
          "y", "b") "return %y "),
      "  %p: i64[8] = constant data(0, 0, 1, 2, 0, 0, 1, 2)\n"
      "  %b: f32[n, 3, h + 2, 6] = pad(%x, %p)\n  return %b as \"y\"\n");
  test_assert_body("transposes",
                   IMAGE(TO_LAST("a", "x") TO_LAST("b", "x") "%z: f32[1, 1, 1, 3] = constant data(1, 2, 3) " FN2(
                       "u", "add", "a", "z") "%c = concat(%u, %b) {axis = 3} " TO_FIRST("y", "c") "return %y "),
                   "  %z: f32[1, 3, 1, 1] = constant data(1, 2, 3)\n"
                   "  %u: f32[n, 3, h, 2] = pointwise(%x, %z) {program = {2: add(%0, %1)}}\n"
                   "  %c: f32[n, 6, h, 2] = concat(%u, %x) {axis = 1}\n  return %c as \"y\"\n");
  test_assert_refused("transposes", IMAGE(TO_LAST("a", "x") FN1("y", "relu", "a") "return %y, %a "),
                      "'a' is an output of the graph");
  test_assert_refused(
      "transposes",
      "graph \"g\" (%x: f32[n, 3], %z: f32[3, n]) { %a = transpose(%x) " FN2("y", "add", "a", "z") "return %y }",
      "'z' is neither transposed nor constant");
}

static void test_transposed_operands(void **state) {
  (void)state;
  test_assert_body("transposes",
                   "graph \"g\" (%x: f32[b, 2, 3], %z: f32[b, 4, 3]) { %t = transpose(%z) {perm = [0, 2, 1]} "
                   "%y = matmul(%x, %t) return %y }",
                   "  %y: f32[b, 2, 4] = matmul(%x, %z) {trans_b = 1} from \"y\", \"t\"\n  return %y\n");
  /* attention's keys: whole rows move, the rest is read swapped */
  test_assert_body("transposes",
                   "graph \"g\" (%x: f32[b, 4, 5, 8], %z: f32[b, s, 4, 8]) { %t = transpose(%z) {perm = [0, 2, 3, 1]} "
                   "%y = matmul(%x, %t) return %y }",
                   "  %t: f32[b, 4, s, 8] = transpose(%z) {perm = [0, 2, 1, 3]}\n"
                   "  %y: f32[b, 4, 5, s] = matmul(%x, %t) {trans_b = 1}\n  return %y\n");
}

/* ---- scale, epilogue, chains ---- */

#define CONV(body) "graph \"g\" (%x: f32[n, 2, h, w]) { %k: f32[2, 2, 1, 1] = constant data(1, 2, 3, 4) " body "}"
#define FACTOR "%c: f32[2, 1, 1] = constant data(2, 10) "

static void test_fold_scale(void **state) {
  (void)state;
  test_assert_body("fold-scale",
                   CONV("%a = conv(%x, %k) " FACTOR FN2("b", "mul", "a", "c") FN2("y", "add", "b", "c") "return %y "),
                   "  %k: f32[2, 2, 1, 1] = constant data(2, 4, 30, 40)\n  %bias: f32[2] = constant data(2, 10)\n"
                   "  %y: f32[n, 2, h, w] = conv(%x, %k, %bias) named \"a\" from \"a\", \"b\", \"y\"\n  return %y\n");
  test_assert_body(
      "fold-scale", CONV(FACTOR FN2("b", "mul", "x", "c") "%y = conv(%b, %k) {pads = [1, 1, 1, 1]} return %y "),
      "  %k: f32[2, 2, 1, 1] = constant data(2, 20, 6, 40)\n"
      "  %y: f32[n, 2, h + 2, w + 2] = conv(%x, %k) {pads = [1, 1, 1, 1]} from \"y\", \"b\"\n  return %y\n");
  test_assert_body("fold-scale", CONV(FACTOR FN2("b", "add", "x", "c") "%y = conv(%b, %k) return %y "),
                   "  %k: f32[2, 2, 1, 1] = constant data(1, 2, 3, 4)\n  %bias: f32[2] = constant data(22, 46)\n"
                   "  %y: f32[n, 2, h, w] = conv(%x, %k, %bias) from \"y\", \"b\"\n  return %y\n");
  test_assert_refused("fold-scale",
                      CONV(FACTOR FN2("b", "add", "x", "c") "%y = conv(%b, %k) {pads = [1, 1, 1, 1]} return %y "),
                      "'y' pads with zeros");
  test_assert_refused("fold-scale", CONV("%a = conv(%x, %k) " FACTOR FN2("y", "mul", "a", "c") "return %y, %a "),
                      "'a' is an output of the graph");
  test_assert_refused(
      "fold-scale",
      CONV("%a = conv(%x, %k) %c: f32[1, 2] = constant data(1, 2) " FN2("y", "mul", "a", "c") "return %y "),
      "'a' is not known to be as large as the result along axis 3: w and 2");
  test_assert_body(
      "fold-scale",
      "graph \"g\" (%x: f32[n, 2], %z: f32[2, m]) { %a = matmul(%x, %z) %s: f32[] = constant data(0.5) " FN2(
          "y", "mul", "a", "s") "return %y }",
      "  %y: f32[n, m] = matmul(%x, %z) {alpha = 0.5} named \"a\" from \"a\", \"y\"\n  return %y\n");
  /* a factor on an operand, across a transpose */
  test_assert_body("fold-scale",
                   "graph \"g\" (%x: f32[n, 2], %z: f32[m, 2]) { %s: f32[] = constant data(0.5) " FN2(
                       "a", "mul", "z", "s") "%t = transpose(%a) %y = matmul(%x, %t) return %y }",
                   "  %t: f32[2, m] = transpose(%z)\n  %y: f32[n, m] = matmul(%x, %t) {alpha = 0.5} from \"y\", \"a\"\n"
                   "  return %y\n");
}

/* Groups of a transposed convolution: weights are C, M / group. */
static void test_fold_scale_transposed(void **state) {
  (void)state;
  test_assert_body(
      "fold-scale",
      "graph \"g\" (%x: f32[1, 2, 3]) { %k: f32[2, 2, 1] = constant data(1, 1, 1, 1) "
      "%a = conv_transpose(%x, %k) {group = 2} %c: f32[4, 1] = constant data(2, 3, 4, 5) " FN2("y", "mul", "a",
                                                                                               "c") "return %y }",
      "  %k: f32[2, 2, 1] = constant data(2, 3, 4, 5)\n"
      "  %y: f32[1, 4, 3] = conv_transpose(%x, %k) {group = 2} named \"a\" from \"a\", \"y\"\n  return %y\n");
}

static void test_epilogue(void **state) {
  (void)state;
  test_assert_body(
      "fuse-epilogue", CONV("%a = conv(%x, %k) " FN2("b", "add", "x", "a") FN1("y", "relu", "b") "return %y "),
      "  %k: f32[2, 2, 1, 1] = constant data(1, 2, 3, 4)\n"
      "  %y: f32[n, 2, h, w] = conv(%x, %k, _, %x) {epilogue = {2: add(%1, %0); relu(%2)}} named \"a\" from \"a\", "
      "\"b\", \"y\"\n  return %y\n");
  /* used twice by the same node: one register */
  test_assert_body("fuse-epilogue", CONV("%a = conv(%x, %k) " FN2("y", "mul", "a", "a") "return %y "),
                   "  %k: f32[2, 2, 1, 1] = constant data(1, 2, 3, 4)\n"
                   "  %y: f32[n, 2, h, w] = conv(%x, %k) {epilogue = {1: mul(%0, %0)}} named \"a\" from \"a\", \"y\"\n "
                   " return %y\n");
  /* the sum of two convolutions: the last takes it */
  test_assert_body(
      "fuse-epilogue", CONV("%a = conv(%x, %k) %b = conv(%x, %k) {group = 1} " FN2("y", "add", "a", "b") "return %y "),
      "  %k: f32[2, 2, 1, 1] = constant data(1, 2, 3, 4)\n  %a: f32[n, 2, h, w] = conv(%x, %k)\n"
      "  %y: f32[n, 2, h, w] = conv(%x, %k, _, %a) {group = 1, epilogue = {2: add(%1, %0)}} named \"b\" from \"b\", "
      "\"y\"\n  return %y\n");
  test_assert_refused("fuse-epilogue", CONV("%a = conv(%x, %k) " FN1("y", "relu", "a") "return %y, %a "),
                      "'a' is an output of the graph");
  test_assert_refused("fuse-epilogue",
                      CONV("%a = conv(%x, %k) " FN1("y", "relu", "a") FN1("z", "exp", "a") "return %y, %z "),
                      "'a' is also read by exp 'z'");
  test_assert_refused("fuse-epilogue",
                      "graph \"g\" (%x: f32[1, 2], %z: f32[2, 3], %u: f32[n, 3]) { %a = matmul(%x, %z) " FN2(
                          "y", "add", "a", "u") "return %y }",
                      "'a' is broadcast from [1, 3] to [n, 3]");
  test_assert_refused("fuse-epilogue",
                      "graph \"g\" (%x: f64[1, 2], %z: f64[2, 3]) { %a = matmul(%x, %z) "
                      "%y = pointwise(%a) {program = {1: relu:f64(%0)}} return %y }",
                      "'a' is f64, not f32");
}

static void test_chains(void **state) {
  (void)state;
  test_assert_body(
      "chains",
      GRAPH(SCALAR("k", "3") FN2("a", "add", "x", "k") FN1("b", "exp", "a") FN2("y", "mul", "b", "x") "return %y "),
      "  %y: f32[n, 4] = pointwise(%x) {program = {1: constant<3>(); add(%0, %1); exp(%2); mul(%3, %0)}} from \"y\", "
      "\"b\", \"a\"\n  return %y\n");
  /* a diamond: b joins y, then a is read by y alone */
  test_assert_body(
      "chains", GRAPH(FN1("a", "exp", "x") FN1("b", "tanh", "a") FN2("y", "mul", "a", "b") "return %y "),
      "  %y: f32[n, 4] = pointwise(%x) {program = {1: exp(%0); tanh(%1); mul(%1, %2)}} from \"y\", \"b\", \"a\"\n"
      "  return %y\n");
  test_assert_refused("chains", GRAPH(FN1("a", "exp", "x") FN1("y", "tanh", "a") "return %y, %a "),
                      "'a' is an output of the graph");
  /* computed once, read in every row */
  test_assert_refused("chains",
                      "graph \"g\" (%x: f32[n, 4], %z: f32[4]) { " FN1("a", "exp", "z")
                          FN2("y", "mul", "x", "a") "return %y }",
                      "'a' is broadcast from [4] to [n, 4]");
  /* a scalar that gives the result its rank stays an input */
  test_assert_body(
      "chains", "graph \"g\" (%x: f32[n]) { %k: f32[1, 1] = constant data(3) " FN2("y", "add", "x", "k") "return %y }",
      "  %k: f32[1, 1] = constant data(3)\n  %y: f32[1, n] = pointwise(%x, %k) {program = {2: add(%0, %1)}}\n  return "
      "%y\n");
}

/* Sixteen inputs are the most: a longer sum is several programs. */
static void test_chains_have_limits(void **state) {
  (void)state;
  tercel_text text = {0};
  tercel_text_add(&text, "graph \"g\" (%%x0: f32[n]");
  for (int i = 1; i < 40; i++) tercel_text_add(&text, ", %%x%d: f32[n]", i);
  tercel_text_add(&text, ") { %%s0 = pointwise(%%x0, %%x1) {program = {2: add(%%0, %%1)}} ");
  for (int i = 1; i < 39; i++)
    tercel_text_add(&text, "%%s%d = pointwise(%%s%d, %%x%d) {program = {2: add(%%0, %%1)}} ", i, i - 1, i + 1);
  tercel_text_add(&text, "return %%s38 }");
  char *decisions = NULL;
  char *const have = test_optimize("chains", text.data, &decisions);
  assert_non_null(strstr(have, "{16: "));
  assert_null(strstr(have, "{17: "));
  assert_non_null(strstr(decisions, "want at most 16"));
  tercel_free(have);
  tercel_free(decisions);
  tercel_text_deinit(&text);
}

/* ---- norms with an epilogue; cheap extras made again ---- */

#define NORM "%s: f32[4] = constant data(1, 2, 3, 4) %m = layer_norm(%x, %s) {axis = 1} "

static void test_norm_epilogue(void **state) {
  (void)state;
  test_assert_body("fuse-epilogue", GRAPH(NORM FN1("a", "gelu", "m") FN2("y", "add", "x", "a") "return %y "),
                   "  %s: f32[4] = constant data(1, 2, 3, 4)\n"
                   "  %y: f32[n, 4] = layer_norm(%x, %s, _, %x) {axis = 1, epilogue = {2: gelu(%0); add(%1, %2)}} "
                   "named \"m\" from \"m\", \"a\", \"y\"\n  return %y\n");
  test_assert_refused("fuse-epilogue", GRAPH(NORM FN1("y", "relu", "m") "return %y, %m "),
                      "epilogue: refused y: 'm' is an output of the graph");
  test_assert_refused("fuse-epilogue",
                      "graph \"g\" (%x: f32[n, 4]) { %s: f32[4] = constant data(1, 2, 3, 4) "
                      "%m, %mean = layer_norm(%x, %s) {axis = 1} " FN1("y", "relu", "m") "return %y, %mean }",
                      "epilogue: refused y: 'm' also gives 'mean'");
}

#define PRODUCT(inputs, scale, rest)                                                                                   \
  "graph \"g\" (%x: u8[n, 8], %w: i8[8, 4], " inputs ") { %p = matmul_integer(%x, %w) " scale                          \
  "%c: f32[n, 4] = pointwise(%p) {program = {1: cast<1, 0>(%0)}} " FN2("y", "mul", "c", "k") rest "}"

static void test_cheap_extras(void **state) {
  (void)state;
  /* the scale of a dynamically quantized product, times the weights' */
  test_assert_body("fuse-epilogue", PRODUCT("%s: f32[]", SCALAR("v", "0.5") FN2("k", "mul", "s", "v"), "return %y "),
                   "  %y: f32[n, 4] = matmul_integer(%x, %w, _, _, %s) {epilogue = {2: cast<1, 0>(%0); "
                   "constant<0.5>(); mul(%1, %3); "
                   "mul(%2, %4)}} named \"p\" from \"p\", \"c\", \"y\", \"k\"\n  return %y\n");
  /* the scale was read by the bias's quotient, too, until that was joined */
  test_assert_body(
      "fuse-epilogue",
      PRODUCT("%s: f32[]", SCALAR("v", "0.5") FN2("k", "mul", "s", "v") SCALAR("i", "8") FN2("d", "div", "i", "k"),
              FN2("z", "add", "y", "d") "return %z "),
      "  %z: f32[n, 4] = matmul_integer(%x, %w, _, _, %s) {epilogue = {2: constant<0.5>(); mul(%1, %2); "
      "cast<1, 0>(%0); mul(%4, %3); constant<8>(); div(%6, %3); add(%5, %7)}} named \"p\" from \"p\", \"c\", "
      "\"y\", \"z\", \"d\", \"k\"\n  return %z\n");
  static const char kept[] = "  %k: f32[4] = pointwise(";
  static const char *const texts[] = {
      /* one more effort for each element than a column's scale is worth; something that takes long; another reader */
      PRODUCT("%s: f32[4], %v: f32[4]", FN2("h", "mul", "s", "v") FN2("k", "div", "s", "v"), "return %y, %h "),
      PRODUCT("%s: f32[4]", FN1("k", "exp", "s"), "return %y "),
      PRODUCT("%s: f32[4], %v: f32[4]", FN2("k", "mul", "s", "v"), "return %y, %k "),
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *const text = test_optimize("fuse-epilogue", texts[i], NULL);
    if (!strstr(text, kept)) fail_msg("text %zu: %s", i, text);
    tercel_free(text);
  }
  /* the same in chains */
  test_assert_body(
      "chains",
      "graph \"g\" (%x: f32[n, 4], %s: f32[n, 1], %t: f32[n, 1]) { " FN2("a", "div", "s", "t")
          FN2("y", "mul", "x", "a") "return %y }",
      "  %y: f32[n, 4] = pointwise(%s, %t, %x) {program = {3: div(%0, %1); mul(%2, %3)}} from \"y\", \"a\"\n"
      "  return %y\n");
  test_assert_refused("chains",
                      "graph \"g\" (%x: f32[n, 4], %s: f32[n, 1]) { " FN1("a", "exp", "s")
                          FN2("y", "mul", "x", "a") "return %y }",
                      "join: refused y: 'a' is broadcast from [n, 1] to [n, 4]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gelu),
      cmocka_unit_test(test_gelu_tanh),
      cmocka_unit_test(test_other_activations),
      cmocka_unit_test(test_leaky_relu),
      cmocka_unit_test(test_norm_epilogue),
      cmocka_unit_test(test_cheap_extras),
      cmocka_unit_test(test_sigmoid),
      cmocka_unit_test(test_instance_norm),
      cmocka_unit_test(test_layer_norm),
      cmocka_unit_test(test_layer_norm_of_reshaped_means),
      cmocka_unit_test(test_rms_norm),
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_transposes),
      cmocka_unit_test(test_sinking),
      cmocka_unit_test(test_transposed_operands),
      cmocka_unit_test(test_fold_scale),
      cmocka_unit_test(test_fold_scale_transposed),
      cmocka_unit_test(test_epilogue),
      cmocka_unit_test(test_chains),
      cmocka_unit_test(test_chains_have_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
