/* Operands of attention that is found in its parts: dims swapped, heads repeated or merged with the batch, soft caps. */
#include "support/support.h"

#include "as_text.h"

#define GRAPH(params, body) "graph \"g\" (" params ") { " body "}"
#define SOFTMAX(from) "%w = softmax(%" from ") {axis = -1} "

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

/* Convolutions give (N, H, D, S): channels before places. */
static void test_turned(void **state) {
  (void)state;
  test_assert_body(
      "attention",
      GRAPH("%q: f32[n, 2, 4, s], %k: f32[n, 2, 4, t], %v: f32[n, 2, 3, t]",
            "%a = matmul(%q, %k) {trans_a = 1} " SOFTMAX("a") "%y = matmul(%v, %w) {trans_b = 1} return %y "),
      "  %y: f32[n, 2, s, 4] = transpose(%q) {perm = [0, 1, 3, 2]}\n"
      "  %y.1: f32[n, 2, t, 4] = transpose(%k) {perm = [0, 1, 3, 2]} named \"y\"\n"
      "  %y.2: f32[n, 2, t, 3] = transpose(%v) {perm = [0, 1, 3, 2]} named \"y\"\n"
      "  %y.3: f32[n, 2, s, 3] = attention(%y, %y.1, %y.2) {scale = 1, unseen = \"nan\"} named \"y\" from "
      "\"y\", \"w\", \"a\"\n"
      "  %y.4: f32[n, 2, 3, s] = transpose(%y.3) {perm = [0, 1, 3, 2]} named \"y\" from \"y\", \"w\", \"a\"\n"
      "  return %y.4 as \"y\"\n");
  /* weights of queries mixed, not of keys */
  char *const text = test_optimize(
      "attention",
      GRAPH("%q: f32[n, 2, 5, 4], %k: f32[n, 2, 5, 4], %v: f32[n, 2, 5, 3]",
            "%a = matmul(%q, %k) {trans_b = 1} " SOFTMAX("a") "%y = matmul(%w, %v) {trans_a = 1} return %y "),
      NULL);
  assert_null(strstr(text, "attention"));
  tercel_free(text);
}

#define GROUPED "%q: f32[n, 6, s, 4], %k: f32[n, 2, t, 4], %v: f32[n, 2, t, 3]"
#define REPEAT(to, x, size)                                                                                            \
  "%" to "u = unsqueeze(%" x ", %two) %" to "e = expand(%" to "u, %times) %" to                                        \
  "s: i64[4] = constant data(0, 6, -1, " size ") %" to " = reshape(%" to "e, %" to "s) "

static void test_repeated(void **state) {
  (void)state;
#define COUNTS "%two: i64[1] = constant data(2) %times: i64[5] = constant data(1, 1, 3, 1, 1) "
#define ATTEND "%a = matmul(%q, %kr) {trans_b = 1} " SOFTMAX("a") "%y = matmul(%w, %vr) return %y "
  assert_holds("attention", GRAPH(GROUPED, COUNTS REPEAT("kr", "k", "4") REPEAT("vr", "v", "3") ATTEND),
               "attention(%q, %k, %v) {scale = 1, unseen = \"nan\"}");
  /* by joining three of each */
  assert_holds("attention",
               GRAPH(GROUPED,
                     COUNTS "%ku = unsqueeze(%k, %two) %vu = unsqueeze(%v, %two) "
                            "%kc = concat(%ku, %ku, %ku) {axis = 2} %vc = concat(%vu, %vu, %vu) {axis = 2} "
                            "%ks: i64[4] = constant data(0, 6, -1, 4) %vs: i64[4] = constant data(0, 6, -1, 3) "
                            "%kr = reshape(%kc, %ks) %vr = reshape(%vc, %vs) " ATTEND),
               "attention(%q, %k, %v) {scale = 1, unseen = \"nan\"}");
  /* the repeated keys are read by something else, too: they are made, but not for attention */
  assert_holds(
      "attention",
      GRAPH(GROUPED, COUNTS REPEAT("kr", "k", "4") REPEAT("vr", "v", "3") "%a = matmul(%q, %kr) {trans_b = 1} " SOFTMAX(
                         "a") "%y = matmul(%w, %vr) return %y, %kr "),
      "attention(%q, %k, %v) {scale = 1, unseen = \"nan\"}");
  /* whole groups repeated: query head 0 and 2 share a key head, not 0 and 1 */
  assert_holds("attention",
               GRAPH(GROUPED, "%kr = concat(%k, %k, %k) {axis = 1} %vr = concat(%v, %v, %v) {axis = 1} " ATTEND),
               "attention(%q, %kr, %vr) {scale = 1, unseen = \"nan\"}");
  /* one key head for all, broadcast by the product */
  assert_holds("attention", GRAPH("%q: f32[n, 6, s, 4], %kr: f32[n, 1, t, 4], %vr: f32[n, 1, t, 3]", ATTEND),
               "attention(%q, %kr, %vr) {scale = 1, unseen = \"nan\"}");
  test_assert_refused("attention", GRAPH("%q: f32[n, 6, s, 4], %kr: f32[n, 6, t, 4], %vr: f32[n, 1, t, 3]", ATTEND),
                      "are not known to have the same heads");
}

/* Batch and heads merged, as products of rank 3 have it. */
static void test_merged(void **state) {
  (void)state;
  assert_holds("attention",
               GRAPH("%q: f32[b, s, 4], %k: f32[b, t, 4], %v: f32[b, t, 3], %m: f32[b, s, t]",
                     "%a = matmul(%q, %k) {trans_b = 1} %c = pointwise(%a, %m) {program = {2: add(%0, %1)}} " SOFTMAX(
                         "c") "%y = matmul(%w, %v) return %y "),
               "attention(%q, %k, %v, %y) {heads = 1, kv_heads = 1, scale = 1, unseen = \"nan\"}");
#define MERGE(to, x, rows, size)                                                                                       \
  "%" to "s: i64[3] = constant data(-1, " rows ", " size ") %" to " = reshape(%" x ", %" to "s) "
#define OPERANDS "%q4: f32[n, 2, 5, 4], %k4: f32[n, 2, 7, 4], %v4: f32[n, 2, 7, 3], %m: f32[n, 1, 1, 7]"
#define MERGED MERGE("q", "q4", "5", "4") MERGE("k", "k4", "7", "4") MERGE("v", "v4", "7", "3")
#define SPLIT                                                                                                          \
  "%a = matmul(%q, %k) {trans_b = 1} %ss: i64[4] = constant data(-1, 2, 5, 7) %a4 = reshape(%a, %ss) "                 \
  "%c4 = pointwise(%a4, %m) {program = {2: add(%0, %1)}} %ts: i64[3] = constant data(-1, 5, 7) "                       \
  "%c = reshape(%c4, %ts) " SOFTMAX("c") "%o = matmul(%w, %v) "
  /* masked by heads in between: they are told apart again */
  assert_holds(
      "attention",
      GRAPH(OPERANDS, MERGED SPLIT "%ys: i64[4] = constant data(-1, 2, 5, 3) %y = reshape(%o, %ys) return %y "),
      "attention(%q4, %k4, %v4, %m) {scale = 1, unseen = \"nan\"}");
  test_assert_refused("attention", GRAPH(OPERANDS, MERGED SPLIT "return %o "),
                      "'m' differs between heads or batch entries, which the products don't tell apart");
  test_assert_refused("attention",
                      GRAPH("%q: f32[2, n, 2, s, 4], %k: f32[2, n, 2, t, 4], %v: f32[2, n, 2, t, 3]",
                            "%a = matmul(%q, %k) {trans_b = 1} " SOFTMAX("a") "%y = matmul(%w, %v) return %y "),
                      "'q' has rank 5, not 4");
}

/* cap tanh(scale q k' / cap), then masked */
static void test_softcap(void **state) {
  (void)state;
#define HEADS "%q: f32[n, 2, s, 4], %k: f32[n, 2, t, 4], %v: f32[n, 2, t, 3], %m: f32[n, 1, 1, t]"
  assert_holds(
      "attention",
      GRAPH(HEADS,
            "%a = matmul(%q, %k) {trans_b = 1, alpha = 0.03125} %th = pointwise(%a) {program = {1: "
            "tanh(%0)}} %cap: f32[] = constant data(16) %b = pointwise(%th, %cap) {program = {2: mul(%0, "
            "%1)}} %c = pointwise(%b, %m) {program = {2: add(%0, %1)}} " SOFTMAX("c") "%y = matmul(%w, %v) return %y "),
      "attention(%q, %k, %v, %m) {scale = 0.5, softcap = 16, unseen = \"nan\"}");
}

/* Narrow products of one value are one; wide ones, which gain nothing, and those that take part in an epilogue stay. */
static void test_parallel_matmuls(void **state) {
  (void)state;
#define PRODUCTS(columns, rest)                                                                                        \
  "graph \"g\" (%x: f32[n, 16]) { %w: f32[16, " columns "] = constant fill(2) %u: f32[16, " columns                    \
  "] = constant fill(3) %b: f32[" columns "] = constant fill(4) %p = matmul(%x, %w) %q = matmul(%x, %u, %b) " rest     \
  " }"
  assert_holds("parallel-matmuls", PRODUCTS("4", "%y = softmax(%p) %z = softmax(%q) return %y, %z"),
               ", %columns) {axis = 1}");
  assert_holds("parallel-matmuls", PRODUCTS("4", "return %p, %q"), "%bias: f32[8] = constant ");
  char *const text = test_optimize("parallel-matmuls", PRODUCTS("16", "return %p, %q"), NULL);
  assert_null(strstr(text, "split"));
  tercel_free(text);
  test_assert_refused("parallel-matmuls",
                      PRODUCTS("4", "%y = pointwise(%p) {program = {1: silu<1>(%0)}} return %y, %q"),
                      "'p' is read by pointwise operators, which its product can do by itself");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_turned),  cmocka_unit_test(test_repeated),         cmocka_unit_test(test_merged),
      cmocka_unit_test(test_softcap), cmocka_unit_test(test_parallel_matmuls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
