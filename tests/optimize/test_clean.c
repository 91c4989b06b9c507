/* Rules that tidy up: canonicalize, fold, inline, cse, dead-code.  Text in, text out. */
#include "support/support.h"

#include "as_text.h"

typedef struct example {
  const char *passes, *text, *want;
} example;

static void check_all(const example *examples, size_t count) {
  for (size_t i = 0; i < count; i++) test_assert_body(examples[i].passes, examples[i].text, examples[i].want);
}
#define CHECK_ALL(examples) check_all((examples), sizeof(examples) / sizeof *(examples))

#define UNARY(fn) "%y: f32[2, n] = pointwise(%x) {program = {1: " fn "}} return %y }"

static void test_pointwise(void **state) {
  (void)state;
  static const example examples[] = {
      {"canonicalize", "graph \"g\" (%x: f32[2, n]) { " UNARY("cast<1, 0>(%0)"), "  return %x as \"y\"\n"},
      {"canonicalize", "graph \"g\" (%x: f32[2, n]) { " UNARY("copy(%0)"), "  return %x as \"y\"\n"},
      {"canonicalize", "graph \"g\" (%x: f32[2, n]) { " UNARY("clip<0, inf>(%0)"),
       "  %y: f32[2, n] = pointwise(%x) {program = {1: relu(%0)}}\n  return %y\n"},
      {"canonicalize", "graph \"g\" (%x: f32[2, n]) { " UNARY("clip<-inf, inf>(%0)"), "  return %x as \"y\"\n"},
      /* a narrow type and back: only where the wide one holds all of it */
      {"canonicalize",
       "graph \"g\" (%x: f32[2]) { %a = pointwise(%x) {program = {1: cast:f64<1, 0>(%0)}} "
       "%y: f32[2] = pointwise(%a) {program = {1: cast<1, 0>(%0)}} return %y }",
       "  return %x as \"y\"\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[2]) { %a: f16[2] = pointwise(%x) {program = {1: cast:f16<1, 0>(%0)}} "
       "%y: f32[2] = pointwise(%a) {program = {1: cast<1, 0>(%0)}} return %y }",
       "  %a: f16[2] = pointwise(%x) {program = {1: cast:f16<1, 0>(%0)}}\n"
       "  %y: f32[2] = pointwise(%a) {program = {1: cast(%0)}}\n  return %y\n"},
  };
  for (size_t i = 0; i + 1 < sizeof examples / sizeof *examples; i++)
    test_assert_body(examples[i].passes, examples[i].text, examples[i].want);
  char *const kept = test_optimize("canonicalize", examples[5].text, NULL);
  assert_non_null(strstr(kept, "cast:f16"));
  tercel_free(kept);
}

/* A bias divided by a run's scale, as dynamic quantization writes it, gets its dims before the run. */
static void test_view_of_constants(void **state) {
  (void)state;
#define BIAS(rest)                                                                                                     \
  "graph \"g\" (%s: f32[]) { %b: f32[2] = constant data(3, 4) %a = pointwise(%b, %s) {program = {2: div(%0, %1)}} "    \
  "%t: i64[3] = constant data(1, 2, 1) %y = reshape(%a, %t) " rest " }"
  static const example examples[] = {
      {"canonicalize", BIAS("return %y"),
       "  %b: f32[1, 2, 1] = constant data(3, 4)\n"
       "  %y: f32[1, 2, 1] = pointwise(%b, %s) {program = {2: div(%0, %1)}} from \"y\", \"a\"\n  return %y\n"},
      {"canonicalize", BIAS("return %y, %a"),
       "  %b: f32[2] = constant data(3, 4)\n  %a: f32[2] = pointwise(%b, %s) {program = {2: div(%0, %1)}}\n"
       "  %t: i64[3] = constant data(1, 2, 1)\n  %y: f32[1, 2, 1] = reshape(%a, %t)\n  return %y, %a\n"},
  };
  CHECK_ALL(examples);
}

/* An embedding in 8 bits is not widened whole: its rows are, in each run. */
static void test_gather_first(void **state) {
  (void)state;
#define TABLE(rows, rest) SCALED_TABLE(rows, "", rest)
#define SCALED_TABLE(rows, scale, rest)                                                                                \
  "graph \"g\" (%i: i64[n]) { %w: i8[" rows ", 64] = constant fill(3) %s: f32[" scale "] = constant fill(0.5) "        \
  "%c: f32[" rows ", 64] = pointwise(%w) {program = {1: cast<1, 0>(%0)}} "                                             \
  "%m: f32[" rows ", 64] = pointwise(%c, %s) {program = {2: mul(%0, %1)}} %y = gather(%m, %i) " rest " }"
  static const struct {
    const char *text;
    bool first;
  } examples[] = {
      {TABLE("64", "return %y"), true},
      {SCALED_TABLE("64", "64, 1", "return %y"), true}, /* a scale a row */
      {SCALED_TABLE("64", "1, 64", "return %y"), true}, /* a scale a column */
      {TABLE("63", "return %y"), false},                /* small: one table of floats is read faster */
      {TABLE("64", "return %y, %m"), false},            /* wanted whole */
  };
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    char *const text = test_optimize("canonicalize,fold", examples[i].text, NULL);
    const bool is_first = strstr(text, "gather(%w, %i)") && strstr(text, "mul(%0, %1)");
    if (is_first != examples[i].first) fail_msg("%s", text);
    tercel_free(text);
  }
}

static void test_pairs(void **state) {
  (void)state;
  static const example examples[] = {
      /* the inner cast loses nothing */
      {"canonicalize",
       "graph \"g\" (%x: u8[n]) { %a: i64[n] = pointwise(%x) {program = {1: cast:i64<1, 0>(%0)}} "
       "%y: f32[n] = pointwise(%a) {program = {1: cast<1, 0>(%0)}} return %y }",
       "  %y: f32[n] = pointwise(%x) {program = {1: cast<1, 0>(%0)}} from \"y\", \"a\"\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: i64[n]) { %a: u8[n] = pointwise(%x) {program = {1: cast:u8<1, 0>(%0)}} "
       "%y: f32[n] = pointwise(%a) {program = {1: cast<1, 0>(%0)}} return %y }",
       "  %a: u8[n] = pointwise(%x) {program = {1: cast:u8<1, 0>(%0)}}\n"
       "  %y: f32[n] = pointwise(%a) {program = {1: cast<1, 0>(%0)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %a = pointwise(%x) {program = {1: relu(%0)}} "
       "%y = pointwise(%a) {program = {1: clip<-1, 6>(%0)}} return %y }",
       "  %y: f32[n] = pointwise(%x) {program = {1: clip<0, 6>(%0)}} from \"y\", \"a\"\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %a = pointwise(%x) {program = {1: clip<-3, -1>(%0)}} "
       "%y = pointwise(%a) {program = {1: relu(%0)}} return %y, %a }",
       "  %a: f32[n] = pointwise(%x) {program = {1: clip<-3, -1>(%0)}}\n"
       "  %y: f32[n] = pointwise(%x) {program = {1: clip<0, 0>(%0)}} from \"y\", \"a\"\n  return %y, %a\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n], %z: f32[n]) { %a = pointwise(%z) {program = {1: reciprocal(%0)}} "
       "%y = pointwise(%a, %x) {program = {2: mul(%0, %1)}} return %y }",
       "  %y: f32[n] = pointwise(%x, %z) {program = {2: div(%0, %1)}} from \"y\", \"a\"\n  return %y\n"},
      /* once for a row and then a product is less than a quotient for each element */
      {"canonicalize",
       "graph \"g\" (%x: f32[n, 8], %z: f32[n, 1]) { %a = pointwise(%z) {program = {1: reciprocal(%0)}} "
       "%y = pointwise(%a, %x) {program = {2: mul(%0, %1)}} return %y }",
       "  %a: f32[n, 1] = pointwise(%z) {program = {1: reciprocal(%0)}}\n"
       "  %y: f32[n, 8] = pointwise(%a, %x) {program = {2: mul(%0, %1)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%c: bool[n], %x: f32[n], %z: f32[n]) { %a = pointwise(%c) {program = {1: not(%0)}} "
       "%y = pointwise(%a, %x, %z) {program = {3: select(%0, %1, %2)}} return %y }",
       "  %y: f32[n] = pointwise(%c, %z, %x) {program = {3: select(%0, %1, %2)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%c: bool[n], %x: f32[n]) { %a = pointwise(%c) {program = {1: not(%0)}} "
       "%b = pointwise(%a) {program = {1: not(%0)}} %y = pointwise(%b, %x, %x) {program = {3: select(%0, %1, %2)}} "
       "return %y, %b }",
       "  return %x as \"y\", %c as \"b\"\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n, 8]) { %a = pointwise(%x, %x) {program = {2: mul(%0, %1)}} "
       "%y = reduce(%a) {kind = \"sum\", axes = [1]} return %y }",
       "  %y: f32[n, 1] = reduce(%x) {kind = \"sum_square\", axes = [1]} from \"y\", \"a\"\n  return %y\n"},
  };
  CHECK_ALL(examples);
  test_assert_refused("canonicalize",
                      "graph \"g\" (%x: f32[n, 8]) { %a = pointwise(%x) {program = {1: abs(%0)}} "
                      "%y = reduce(%a) {kind = \"sum\", axes = [1]} return %y, %a }",
                      "reduce-of: refused y: 'a' is an output of the graph");
}

static void test_constants(void **state) {
  (void)state;
  static const example examples[] = {
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[1] = constant data(0) %y = pointwise(%c, %x) {program = {2: add(%0, %1)}} "
       "return %y }",
       "  return %x as \"y\"\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[1] = constant data(1) %y = pointwise(%x, %c) {program = {2: mul(%0, %1)}} "
       "return %y }",
       "  return %x as \"y\"\n"},
      /* the constant gives the result its rank: it stays */
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[1, 1] = constant data(1) %y = pointwise(%x, %c) {program = {2: mul(%0, "
       "%1)}} return %y }",
       "  %c: f32[1, 1] = constant data(1)\n  %y: f32[1, n] = pointwise(%x, %c) {program = {2: mul(%0, %1)}}\n  return "
       "%y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[1] = constant data(3) %y = pointwise(%c, %x) {program = {2: mul(%0, %1)}} "
       "return %y }",
       "  %c: f32[1] = constant data(3)\n  %y: f32[n] = pointwise(%x, %c) {program = {2: mul(%0, %1)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[1] = constant data(3) %y = pointwise(%x, %c) {program = {2: sub(%0, %1)}} "
       "return %y }",
       "  %c: f32[1] = constant data(-3)\n  %y: f32[n] = pointwise(%x, %c) {program = {2: add(%0, %1)}}\n  return "
       "%y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[] = constant data(8) %y = pointwise(%x, %c) {program = {2: div(%0, %1)}} "
       "return %y }",
       "  %c: f32[] = constant data(0.125)\n  %y: f32[n] = pointwise(%x, %c) {program = {2: mul(%0, %1)}}\n  return "
       "%y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[] = constant data(3) %y = pointwise(%x, %c) {program = {2: div(%0, %1)}} "
       "return %y }",
       "  %c: f32[] = constant data(3)\n  %y: f32[n] = pointwise(%x, %c) {program = {2: div(%0, %1)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[] = constant data(2) %y = pointwise(%x, %c) {program = {2: pow(%0, %1)}} "
       "return %y }",
       "  %y: f32[n] = pointwise(%x, %x) {program = {2: mul(%0, %1)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %c: f32[] = constant data(6) %y = pointwise(%x, %c) {program = {2: min(%0, %1)}} "
       "return %y }",
       "  %y: f32[n] = pointwise(%x) {program = {1: clip<-inf, 6>(%0)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n]) { %a: f32[] = constant data(-1) %b: f32[] = constant data(6) "
       "%y = pointwise(%x, %a, %b) {program = {3: clamp(%0, %1, %2)}} return %y }",
       "  %y: f32[n] = pointwise(%x) {program = {1: clip<-1, 6>(%0)}}\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[2], %z: f32[2]) { %c: bool[1] = constant data(0) "
       "%y = pointwise(%c, %x, %z) {program = {3: select(%0, %1, %2)}} return %y }",
       "  return %z as \"y\"\n"},
      /* integers: no neutral element of another type, exact rules only */
      {"canonicalize",
       "graph \"g\" (%x: i64[n]) { %c: i64[] = constant data(0) %y = pointwise(%x, %c) {program = {2: add:i64(%0, "
       "%1)}} return %y }",
       "  return %x as \"y\"\n"},
  };
  CHECK_ALL(examples);
}

static void test_views_and_moves(void **state) {
  (void)state;
  static const example examples[] = {
      {"canonicalize",
       "graph \"g\" (%x: f32[n, 4]) { %s: i64[2] = constant data(-1, 4) %y = reshape(%x, %s) return %y }",
       "  return %x as \"y\"\n"},
      /* two views are one */
      {"canonicalize",
       "graph \"g\" (%x: f32[n, 4]) { %s: i64[1] = constant data(-1) %a = reshape(%x, %s) %t: i64[3] = constant "
       "data(-1, 2, 2) "
       "%y: f32[n, 2, 2] = reshape(%a, %t) return %y }",
       "  %shape: i64[3] = constant data(0, 2, 2)\n  %y: f32[n, 2, 2] = reshape(%x, %shape) from \"y\", \"a\"\n  "
       "return %y\n"},
      /* a shape that is computed from the input's own becomes a constant */
      {"canonicalize",
       "graph \"g\" (%x: f32[n, h, 6]) { %s = shape(%x) {start = 0, end = 2} %t: i64[2] = constant data(2, 3) "
       "%u = concat(%s, %t) {axis = 0} %y = reshape(%x, %u) return %y }",
       "  %shape: i64[4] = constant data(0, 0, 2, 3)\n  %y: f32[n, h, 2, 3] = reshape(%x, %shape)\n  return %y\n"},
      {"canonicalize", "graph \"g\" (%x: f32[2, 3]) { %s = shape(%x) return %s }",
       "  %s: i64[2] = constant data(2, 3)\n  return %s\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n, 4]) { %a: i64[1] = constant data(0) %b: i64[1] = constant data(9223372036854775807) "
       "%c: i64[1] = constant data(1) %y = slice(%x, %a, %b, %c) return %y }",
       "  return %x as \"y\"\n"},
      /* backwards is not the same */
      {"canonicalize",
       "graph \"g\" (%x: f32[4]) { %a: i64[1] = constant data(3) %b: i64[1] = constant data(-9223372036854775808) "
       "%c: i64[1] = constant data(0) %d: i64[1] = constant data(-1) %y = slice(%x, %a, %b, %c, %d) return %y }",
       "  %a: i64[1] = constant data(3)\n  %b: i64[1] = constant data(-9223372036854775808)\n  %c: i64[1] = constant "
       "data(0)\n"
       "  %d: i64[1] = constant data(-1)\n  %y: f32[4] = slice(%x, %a, %b, %c, %d)\n  return %y\n"},
      {"canonicalize",
       "graph \"g\" (%x: f32[n, 4]) { %p: i64[4] = constant data(0, 0, 0, 0) %y = pad(%x, %p) return %y }",
       "  return %x as \"y\"\n"},
      /* shifted, not the same */
      {"canonicalize", "graph \"g\" (%x: f32[4]) { %p: i64[2] = constant data(1, -1) %y = pad(%x, %p) return %y }",
       "  %p: i64[2] = constant data(1, -1)\n  %y: f32[4] = pad(%x, %p)\n  return %y\n"},
      {"canonicalize", "graph \"g\" (%x: f32[n]) { %y = concat(%x) {axis = 0} return %y }", "  return %x as \"y\"\n"},
      {"canonicalize", "graph \"g\" (%x: f32[2], %e: f32[0]) { %y = concat(%e, %x, %e) {axis = 0} return %y }",
       "  return %x as \"y\"\n"},
      {"canonicalize", "graph \"g\" (%x: f32[n, 1]) { %y = reduce(%x) {kind = \"mean\", axes = [1]} return %y }",
       "  return %x as \"y\"\n"},
      {"canonicalize", "graph \"g\" (%x: f32[n, 1]) { %y = reduce(%x) {kind = \"l1\", axes = [1]} return %y }",
       "  %y: f32[n, 1] = reduce(%x) {kind = \"l1\", axes = [1]}\n  return %y\n"},
      /* pointwise operators broadcast by themselves */
      {"canonicalize",
       "graph \"g\" (%x: f32[2, 3], %z: f32[3]) { %s: i64[2] = constant data(2, 3) %e = expand(%z, %s) "
       "%y = pointwise(%x, %e) {program = {2: add(%0, %1)}} return %y }",
       "  %y: f32[2, 3] = pointwise(%x, %z) {program = {2: add(%0, %1)}} from \"y\", \"e\"\n  return %y\n"},
  };
  CHECK_ALL(examples);
}

static void test_batch_norm(void **state) {
  (void)state;
  test_assert_body("canonicalize",
                   "graph \"g\" (%x: f32[n, 2, h]) { %s: f32[2] = constant data(2, 8) %b: f32[2] = constant data(1, 0) "
                   "%m: f32[2] = constant data(1, 2) %v: f32[2] = constant data(4, 16) "
                   "%y = batch_norm(%x, %s, %b, %m, %v) {epsilon = 0} return %y }",
                   "  %s: f32[1, 2, 1] = constant data(1, 2)\n"
                   "  %y: f32[n, 2, h] = pointwise(%x, %s) {program = {2: mul(%0, %1)}}\n"
                   "  %b: f32[1, 2, 1] = constant data(0, -4)\n"
                   "  %y.1: f32[n, 2, h] = pointwise(%y, %b) {program = {2: add(%0, %1)}} named \"y\"\n"
                   "  return %y.1 as \"y\"\n");
}

static void test_fold(void **state) {
  (void)state;
  static const example examples[] = {
      {"fold",
       "graph \"g\" () { %a: f32[2] = constant data(1, 2) %y = pointwise(%a, %a) {program = {2: mul(%0, %1)}} return "
       "%y }",
       "  %y: f32[2] = constant data(1, 4)\n  return %y\n"},
      {"fold",
       "graph \"g\" () { %a: f32[2, 2] = constant data(1, 2, 3, 4) %y, %z = split(%a) {axis = 0} return %z, %y }",
       "  %y: f32[1, 2] = constant data(1, 2)\n  %z: f32[1, 2] = constant data(3, 4)\n  return %z, %y\n"},
      {"fold", "graph \"g\" () { %a: i64[3] = constant data(0, 5, 0) %y = nonzero(%a) return %y }",
       "  %y: i64[1, 1] = constant data(1)\n  return %y\n"},
  };
  CHECK_ALL(examples);
  /* what would store far more than it reads stays; so does what fails, until it is run */
  test_assert_refused("fold",
                      "graph \"g\" () { %a: f32[] = constant data(1) %s: i64[2] = constant data(100000, 100000) "
                      "%y = expand(%a, %s) return %y }",
                      "40000000000 bytes would be stored for 20 that are read");
  test_assert_refused("fold",
                      "graph \"g\" () { %a: f32[2] = constant data(1, 2) %i: i64[1] = constant data(7) "
                      "%y = gather(%a, %i) return %y }",
                      "gather");
}

#define IF_OF(condition)                                                                                               \
  "graph \"g\" (%x: f32[n]) { %c: bool[] = constant data(" condition ") %k: f32[1] = constant data(5) "                \
  "%y: f32[n] = if(%c, %x, %k) captures 2 do {"                                                                        \
  "graph \"then\" (%a: f32[n], %b: f32[1]) { %r = pointwise(%a) {program = {1: relu(%0)}} return %r } "                \
  "graph \"else\" (%a: f32[n], %b: f32[1]) { %s = pointwise(%a, %b) {program = {2: add(%0, %1)}} return %s } } "       \
  "return %y }"

static void test_inline(void **state) {
  (void)state;
  test_assert_body("inline", IF_OF("1"),
                   "  %y: f32[n] = pointwise(%x) {program = {1: relu(%0)}} named \"r\"\n  return %y\n");
  test_assert_body("inline", IF_OF("0"),
                   "  %k: f32[1] = constant data(5)\n"
                   "  %y: f32[n] = pointwise(%x, %k) {program = {2: add(%0, %1)}} named \"s\"\n  return %y\n");
  /* a condition that is not known: captured constants move in */
  test_assert_body(
      "inline",
      "graph \"g\" (%c: bool[], %x: f32[1]) { %k: f32[1] = constant data(5) "
      "%y: f32[1] = if(%c, %k, %x) captures 2 do {"
      "graph \"then\" (%a: f32[1], %b: f32[1]) { return %a } graph \"else\" (%a: f32[1], %b: f32[1]) { return %b } } "
      "return %y }",
      "  %y: f32[1] = if(%c, %x) captures 1 do {\n"
      "    graph \"then\" (%b: f32[1]) {\n"
      "      %k: f32[1] = constant data(5)\n"
      "      return %k as \"a\"\n"
      "    }\n"
      "    graph \"else\" (%b: f32[1]) {\n"
      "      return %b\n"
      "    }\n"
      "  }\n"
      "  return %y\n");
}

static void test_cse(void **state) {
  (void)state;
  static const example examples[] = {
      {"cse",
       "graph \"g\" (%x: f32[n]) { %a = pointwise(%x) {program = {1: exp(%0)}} %b = pointwise(%x) {program = {1: "
       "exp(%0)}} "
       "%y = pointwise(%a, %b) {program = {2: mul(%0, %1)}} return %y, %b }",
       "  %a: f32[n] = pointwise(%x) {program = {1: exp(%0)}} from \"a\", \"b\"\n"
       "  %y: f32[n] = pointwise(%a, %a) {program = {2: mul(%0, %1)}}\n  return %y, %a as \"b\"\n"},
      /* other attributes, other values */
      {"cse", "graph \"g\" (%x: f32[2, 2]) { %a = softmax(%x) {axis = 0} %b = softmax(%x) {axis = 1} return %a, %b }",
       "  %a: f32[2, 2] = softmax(%x) {axis = 0}\n  %b: f32[2, 2] = softmax(%x) {axis = 1}\n  return %a, %b\n"},
      /* equal constants are one; equal bits of another type are not */
      {"cse",
       "graph \"g\" () { %a: f32[1] = constant data(0) %b: f32[1] = constant data(0) %c: i32[1] = constant data(0) "
       "return %a, %b, %c }",
       "  %a: f32[1] = constant data(0)\n  %c: i32[1] = constant data(0)\n  return %a, %a as \"b\", %c\n"},
  };
  CHECK_ALL(examples);
}

static void test_dead_code(void **state) {
  (void)state;
  static const example examples[] = {
      {"dead-code",
       "graph \"g\" (%x: f32[n], %unused: f32[n]) { %k: f32[1] = constant data(1) %a = pointwise(%x) {program = {1: "
       "exp(%0)}} "
       "%b = pointwise(%a) {program = {1: exp(%0)}} %y = pointwise(%x) {program = {1: relu(%0)}} return %y }",
       "  %y: f32[n] = pointwise(%x) {program = {1: relu(%0)}}\n  return %y\n"},
      {"dead-code", "graph \"g\" (%x: f32[n]) { %k: i64[1] = constant data(1) %v, %i = topk(%x, %k) return %v }",
       "  %k: i64[1] = constant data(1)\n  %v: f32[1], _ = topk(%x, %k)\n  return %v\n"},
  };
  CHECK_ALL(examples);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pointwise),  cmocka_unit_test(test_gather_first),
      cmocka_unit_test(test_pairs),      cmocka_unit_test(test_view_of_constants),
      cmocka_unit_test(test_constants),  cmocka_unit_test(test_views_and_moves),
      cmocka_unit_test(test_batch_norm), cmocka_unit_test(test_fold),
      cmocka_unit_test(test_inline),     cmocka_unit_test(test_cse),
      cmocka_unit_test(test_dead_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
