/* Masks of attention that is found in its parts: bools, causal order in its spellings, mixtures; what a query gives that sees no key. */
#include "support/support.h"

#include "as_text.h"

#define HEADS "%q: f32[n, 2, s, 4], %k: f32[n, 2, t, 4], %v: f32[n, 2, t, 3]"
#define GRAPH(params, body) "graph \"g\" (" params ") { " body "}"
#define SCORES "%a = matmul(%q, %k) {trans_b = 1, alpha = 0.5} "
#define REST(from) "%w = softmax(%" from ") {axis = -1} %y = matmul(%w, %v) return %y "
#define SELECT(to, c, a, b) "%" to " = pointwise(%" c ", %" a ", %" b ") {program = {3: select(%0, %1, %2)}} "
#define ADD(to, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: add(%0, %1)}} "
#define NUMBER(name, number) "%" name ": f32[] = constant data(" number ") "

/* The attention node in the result, from its name on. */
static void assert_attention(const char *text, const char *want) {
  char *const have = test_optimize("attention fold canonicalize", text, NULL);
  const char *const found = strstr(have, "attention(");
  if (!found || strncmp(found, want, strlen(want)) != 0) {
    print_error("have:\n%swant:\n%s\n", have, want);
    fail();
  }
  tercel_free(have);
}

static void test_bools(void **state) {
  (void)state;
  assert_attention(
      GRAPH(HEADS ", %m: bool[n, 1, 1, t]", SCORES NUMBER("f", "-inf") SELECT("b", "m", "a", "f") REST("b")),
      "attention(%q, %k, %v, %m) {scale = 0.5, unseen = \"nan\"}");
  /* a number that is not -infinity: rows without a key are averages */
  assert_attention(
      GRAPH(HEADS ", %m: bool[n, 1, 1, t]", SCORES NUMBER("f", "-1e9") SELECT("b", "m", "a", "f") REST("b")),
      "attention(%q, %k, %v, %m) {scale = 0.5, fill = -1000000000, unseen = \"nan\"}");
  /* true where keys are hidden */
  assert_attention(
      GRAPH(HEADS ", %m: bool[n, 1, 1, t]", SCORES NUMBER("f", "-inf") SELECT("b", "m", "f", "a") REST("b")),
      "attention(%q, %k, %v, %y) {scale = 0.5, unseen = \"nan\"}");
  /* two with one number */
  char *const both =
      test_optimize("attention",
                    GRAPH(HEADS ", %m: bool[n, 1, 1, t], %l: bool[s, t]",
                          SCORES NUMBER("f", "-1e9") SELECT("b", "m", "a", "f") SELECT("c", "l", "b", "f") REST("c")),
                    NULL);
  assert_non_null(strstr(both, "pointwise(%m, %l) {program = {2: and(%0, %1)}}"));
  assert_non_null(strstr(both, "attention(%q, %k, %v, %y) {scale = 0.5, fill = -1000000000, unseen = \"nan\"}"));
  tercel_free(both);
}

/* A mask of bools beside one that is added: worked out apart, in the order in which they came. */
static void test_mixtures(void **state) {
  (void)state;
  char *text = test_optimize("attention",
                             GRAPH(HEADS ", %m: bool[n, 1, 1, t], %r: f32[2, s, t]",
                                   SCORES NUMBER("f", "-inf") ADD("b", "a", "r") SELECT("c", "m", "b", "f") REST("c")),
                             NULL);
  assert_non_null(strstr(text, "pointwise(%m, %r, %hidden) {program = {3: select(%0, %1, %2)}}"));
  tercel_free(text);
  text = test_optimize("attention",
                       GRAPH(HEADS ", %m: bool[n, 1, 1, t], %r: f32[2, s, t]",
                             SCORES NUMBER("f", "-inf") SELECT("b", "m", "a", "f") ADD("c", "b", "r") REST("c")),
                       NULL);
  assert_non_null(strstr(text, "pointwise(%m, %seen, %hidden) {program = {3: select(%0, %1, %2)}}"));
  assert_non_null(strstr(text, "add(%0, %1)"));
  tercel_free(text);
  test_assert_refused("attention",
                      GRAPH(HEADS ", %m: bool[n, 1, 1, t], %r: f32[2, s, t]",
                            SCORES NUMBER("f", "-10000") ADD("b", "a", "r") SELECT("c", "m", "b", "f") REST("c")),
                      "hidden scores become -10000, which does not swallow the other masks");
  test_assert_refused(
      "attention", GRAPH(HEADS ", %m: bool[n, 1, 1, t], %r: f32[2, s, t]", SCORES SELECT("c", "m", "a", "r") REST("c")),
      "'r', which takes the place of hidden scores, is not one number");
  test_assert_refused(
      "attention",
      GRAPH(HEADS ", %m: bool[n, 2, s, 1]", SCORES NUMBER("f", "-inf") SELECT("c", "m", "a", "f") REST("c")),
      "'m', which hides keys, is broadcast over them");
}

/* As the expanded form of ONNX's Attention has it. */
static void test_cleared_rows(void **state) {
  (void)state;
#define CLEARED(mask)                                                                                                  \
  GRAPH(HEADS ", %m: f32[s, t], %l: f32[s, t]",                                                                        \
        SCORES ADD("b", "a", "m") "%w = softmax(%b) {axis = -1} " NUMBER("f", "-inf")                                  \
            NUMBER("z", "0") "%x = reduce(%" mask ") {kind = \"max\", axes = [-1]} "                                   \
                             "%e = pointwise(%x, %f) {program = {2: equal(%0, %1)}} " SELECT(                          \
                                 "c", "e", "z", "w") "%y = matmul(%c, %v) return %y ")
  assert_attention(CLEARED("m"), "attention(%q, %k, %v, %m) {scale = 0.5, unseen = \"zero\"}");
  test_assert_refused("attention", CLEARED("l"), "rows are cleared by 'l', which is not the mask");
}

#define SQUARE "%q: f32[n, 2, s, 4], %k: f32[n, 2, s, 4], %v: f32[n, 2, s, 3], %x: f32[s, s]"
#define SHAPE "%h = shape(%x) %zero: i64[] = constant data(0) %one: i64[] = constant data(1) "
#define CAUSAL "attention(%q, %k, %v) {scale = 0.5, causal = 1, unseen = \"nan\"}"

/* trilu of a whole tensor, upper or lower, added or selected by */
static void test_trilu(void **state) {
  (void)state;
  assert_attention(GRAPH(SQUARE, SHAPE NUMBER("f", "-inf") "%g = expand(%f, %h) %d = trilu(%g, %one) " SCORES ADD(
                                     "b", "a", "d") REST("b")),
                   CAUSAL);
  /* torch's scaled_dot_product_attention(is_causal=True) as TorchScript is exported */
  assert_attention(GRAPH(SQUARE, SHAPE NUMBER("f", "-inf") NUMBER("e", "1")
                                     NUMBER("o", "0") "%g = expand(%e, %h) %d = trilu(%g) {upper = 0} "
                                                      "%p = pointwise(%d, %o) {program = {2: equal(%0, %1)}} " SELECT(
                                                          "u", "p", "f", "o") SCORES ADD("b", "a", "u") REST("b")),
                   CAUSAL);
  assert_attention(GRAPH(SQUARE, SHAPE NUMBER("f", "-inf") "%e: bool[] = constant data(1) %g = expand(%e, %h) "
                                                           "%d = trilu(%g) {upper = 0} " SCORES SELECT("b", "d", "a",
                                                                                                       "f") REST("b")),
                   CAUSAL);
  /* the diagonal itself is hidden: the offset is -1 */
  assert_attention(GRAPH(SQUARE, SHAPE NUMBER("f", "-inf") "%g = expand(%f, %h) %d = trilu(%g, %zero) " SCORES ADD(
                                     "b", "a", "d") REST("b")),
                   "attention(%q, %k, %v, _, %offset) {scale = 0.5, causal = 1, unseen = \"nan\"}");
}

#define PLACES                                                                                                         \
  SHAPE "%c: i64[1] = constant data(1) %z: i64[1] = constant data(0) %l = gather(%h, %zero) "                          \
        "%r = range(%zero, %l, %one) %i = unsqueeze(%r, %c) %j = unsqueeze(%r, %z) "

#define COMPARED(spelling)                                                                                             \
  GRAPH(SQUARE, PLACES NUMBER("f", "-inf") spelling SCORES SELECT("b", "m", "a", "f") REST("b"))

/* places compared; a constant */
static void test_comparisons(void **state) {
  (void)state;
  static const char *const graphs[] = {
      COMPARED("%m = pointwise(%j, %i) {program = {2: less_equal(%0, %1)}} "),
      COMPARED("%m = pointwise(%i, %j) {program = {2: greater_equal(%0, %1)}} "),
      COMPARED("%g = pointwise(%j, %i) {program = {2: greater(%0, %1)}} %m = pointwise(%g) {program = {1: not(%0)}} "),
      COMPARED("%u = pointwise(%i, %one) {program = {2: add:i64(%0, %1)}} "
               "%m = pointwise(%j, %u) {program = {2: less(%0, %1)}} "),
  };
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) assert_attention(graphs[i], CAUSAL);
  assert_attention(GRAPH("%q: f32[n, 2, 3, 4], %k: f32[n, 2, 3, 4], %v: f32[n, 2, 3, 3]",
                         "%m: f32[1, 1, 3, 3] = constant data(0, -inf, -inf, 0, 0, -inf, 0, 0, 0) " SCORES ADD(
                             "b", "a", "m") REST("b")),
                   CAUSAL);
  /* a far lower number does as well while it is alone: the first key is always seen */
  assert_attention(
      GRAPH(SQUARE,
            PLACES NUMBER("f", "-3.4028234663852886e+38") "%m = pointwise(%j, %i) {program = {2: less_equal(%0, "
                                                          "%1)}} " SCORES SELECT("b", "m", "a", "f") REST("b")),
      CAUSAL);
}

/* What is no triangle, or may not become one, stays a mask. */
static void test_near_triangles(void **state) {
  (void)state;
  assert_attention(GRAPH("%q: f32[n, 2, 3, 4], %k: f32[n, 2, 3, 4], %v: f32[n, 2, 3, 3]",
                         "%m: f32[1, 1, 3, 3] = constant data(0, -inf, -inf, 0, 0, -inf, 0, -inf, 0) " SCORES ADD(
                             "b", "a", "m") REST("b")),
                   "attention(%q, %k, %v, %m) {scale = 0.5, unseen = \"nan\"}");
  assert_attention(GRAPH("%q: f32[n, 2, 3, 4], %k: f32[n, 2, 3, 4], %v: f32[n, 2, 3, 3]",
                         "%m: f32[1, 1, 3, 3] = constant data(0, -9, -9, 0, 0, -9, 0, 0, 0) " SCORES ADD("b", "a", "m")
                             REST("b")),
                   "attention(%q, %k, %v, %m) {scale = 0.5, unseen = \"nan\"}");
  /* a finite number beside padding: a query whose own keys are all padding would see those behind it */
  assert_attention(
      GRAPH(SQUARE ", %p: f32[n, 1, 1, s]",
            PLACES NUMBER("f", "-3.4028234663852886e+38") "%m = pointwise(%j, %i) {program = {2: less_equal(%0, "
                                                          "%1)}} " SCORES SELECT("b", "m", "a", "f") ADD("e", "b", "p")
                                                              REST("e")),
      "attention(%q, %k, %v, %y.1) {scale = 0.5, unseen = \"nan\"}");
}

/* Causal order and padding in one condition, and queries behind past keys. */
static void test_past(void **state) {
  (void)state;
  char *const text = test_optimize(
      "attention canonicalize",
      GRAPH(
          "%q: f32[n, 2, s, 4], %k: f32[n, 2, t, 4], %v: f32[n, 2, t, 3], %x: f32[s, t], %past: i64[], %p: bool[n, 1, "
          "1, t]",
          SHAPE "%c: i64[1] = constant data(1) %z: i64[1] = constant data(0) %l = gather(%h, %zero) "
                "%lt = gather(%h, %one) %r = range(%zero, %l, %one) %rt = range(%zero, %lt, %one) "
                "%rp = pointwise(%r, %past) {program = {2: add:i64(%0, %1)}} %i = unsqueeze(%rp, %c) "
                "%j = unsqueeze(%rt, %z) " NUMBER("f", "-inf") "%o = pointwise(%j, %i) {program = {2: less_equal(%0, "
                                                               "%1)}} %m = pointwise(%p, %o) {program = {2: and(%0, "
                                                               "%1)}} " SCORES SELECT("b", "m", "a", "f") REST("b")),
      NULL);
  assert_non_null(strstr(text, "attention(%q, %k, %v, %p, %past) {scale = 0.5, causal = 1, unseen = \"nan\"}"));
  tercel_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bools),        cmocka_unit_test(test_mixtures),    cmocka_unit_test(test_trilu),
      cmocka_unit_test(test_cleared_rows), cmocka_unit_test(test_comparisons), cmocka_unit_test(test_near_triangles),
      cmocka_unit_test(test_past),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
