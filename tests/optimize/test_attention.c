/* Attention out of its parts: spellings of masks, layouts of operands; near misses with their reasons. */
#include "support/support.h"

#include "as_text.h"

#define HEADS "%q: f32[n, 2, s, 4], %k: f32[n, 2, t, 4], %v: f32[n, 2, t, 3]"
#define GRAPH(params, body) "graph \"g\" (" params ") { " body "}"
#define SCORES "%a = matmul(%q, %k) {trans_b = 1, alpha = 0.5} "
#define ADD(to, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: add(%0, %1)}} "
#define WEIGHTS(from) "%w = softmax(%" from ") {axis = -1} "
#define MIX "%y = matmul(%w, %v) "

static void test_plain(void **state) {
  (void)state;
  test_assert_body("attention", GRAPH(HEADS, SCORES WEIGHTS("a") MIX "return %y "),
                   "  %y: f32[n, 2, s, 3] = attention(%q, %k, %v) {scale = 0.5, unseen = \"nan\"} from \"y\", \"w\", "
                   "\"a\"\n  return %y\n");
  /* torch: what is no NaN */
  test_assert_body("attention",
                   GRAPH(HEADS, SCORES WEIGHTS("a") "%z: f32[] = constant data(0) "
                                                    "%i = pointwise(%w) {program = {1: is_nan:bool(%0)}} "
                                                    "%o = pointwise(%i, %z, %w) {program = {3: select(%0, %1, %2)}} "
                                                    "%y = matmul(%o, %v) return %y "),
                   "  %y: f32[n, 2, s, 3] = attention(%q, %k, %v) {scale = 0.5, unseen = \"clear\"} from \"y\", \"i\", "
                   "\"o\", \"w\", \"a\"\n"
                   "  return %y\n");
}

static void test_masks(void **state) {
  (void)state;
  test_assert_body("attention",
                   GRAPH(HEADS ", %m: f32[n, 1, 1, t]", SCORES ADD("b", "m", "a") WEIGHTS("b") MIX "return %y "),
                   "  %y: f32[n, 2, s, 3] = attention(%q, %k, %v, %m) {scale = 0.5, unseen = \"nan\"} from \"y\", "
                   "\"w\", \"b\", \"a\"\n"
                   "  return %y\n");
  /* two become one */
  test_assert_body("attention",
                   GRAPH(HEADS ", %m: f32[n, 1, 1, t], %r: f32[2, s, t]",
                         SCORES ADD("b", "a", "r") ADD("c", "b", "m") WEIGHTS("c") MIX "return %y "),
                   "  %y: f32[n, 2, s, t] = pointwise(%r, %m) {program = {2: add(%0, %1)}}\n"
                   "  %y.1: f32[n, 2, s, 3] = attention(%q, %k, %v, %y) {scale = 0.5, unseen = \"nan\"} named \"y\" "
                   "from \"y\", \"w\", \"c\", \"b\", "
                   "\"a\"\n  return %y.1 as \"y\"\n");
  /* a sum of mask and bias that stands apart is one mask: the product is nearer on the other side */
  test_assert_body("attention",
                   GRAPH(HEADS ", %m: f32[s, t], %r: f32[s, t]",
                         ADD("b", "m", "r") SCORES ADD("c", "b", "a") WEIGHTS("c") MIX "return %y "),
                   "  %b: f32[s, t] = pointwise(%m, %r) {program = {2: add(%0, %1)}}\n"
                   "  %y: f32[n, 2, s, 3] = attention(%q, %k, %v, %b) {scale = 0.5, unseen = \"nan\"} from \"y\", "
                   "\"w\", \"c\", \"a\"\n"
                   "  return %y\n");
}

/* Rows of all heads' parts, transposed to heads and back: no transpose is left. */
static void test_rows(void **state) {
  (void)state;
  char *const text = test_optimize(
      "attention canonicalize transposes cse fold",
      "graph \"g\" (%q: f32[n, s, 8], %k: f32[n, t, 8], %v: f32[n, t, 8]) { %h: i64[4] = constant data(0, 0, 2, 4) "
      "%qh = reshape(%q, %h) %kh = reshape(%k, %h) %vh = reshape(%v, %h) "
      "%qt = transpose(%qh) {perm = [0, 2, 1, 3]} %kt = transpose(%kh) {perm = [0, 2, 3, 1]} "
      "%vt = transpose(%vh) {perm = [0, 2, 1, 3]} %a = matmul(%qt, %kt) " WEIGHTS(
          "a") "%o = matmul(%w, %vt) "
               "%ot = transpose(%o) {perm = [0, 2, 1, 3]} %r: i64[3] = constant data(0, 0, 8) %y = reshape(%ot, %r) "
               "return %y }",
      NULL);
  assert_null(strstr(text, "transpose"));
  assert_null(strstr(text, "reshape"));
  assert_non_null(strstr(text, "attention(%q, %k, %v) {heads = 2, kv_heads = 2, scale = 1, unseen = \"nan\"}"));
  tercel_free(text);
}

static void test_near_misses(void **state) {
  (void)state;
  test_assert_refused("attention", GRAPH(HEADS, SCORES WEIGHTS("a") MIX "return %y, %w "),
                      "attention: attention: refused y: 'w' inside it is an output of the graph");
  test_assert_refused(
      "attention", GRAPH(HEADS, SCORES WEIGHTS("a") MIX "%z = pointwise(%a) {program = {1: exp(%0)}} return %y, %z "),
      "'a' inside it is also read by 'z'");
  test_assert_refused("attention", GRAPH(HEADS, SCORES "%w = softmax(%a) {axis = 1} " MIX "return %y "),
                      "'w' is not over the keys, but over axis 1");
  test_assert_refused("attention",
                      GRAPH(HEADS ", %m: f32[n, 2, s, 1]", SCORES ADD("b", "a", "m") WEIGHTS("b") MIX "return %y "),
                      "'m', which hides keys, is broadcast over them");
  test_assert_refused(
      "attention", GRAPH(HEADS ", %m: f32[u, t]", SCORES ADD("b", "a", "m") WEIGHTS("b") MIX "return %y "),
      "a mask not known to fit the scores: 'm' is not known to be as large as the result along axis 2: u and s");
  test_assert_refused(
      "attention",
      GRAPH("%q: f32[n, 2, s, 4], %k: f32[1, 2, t, 4], %v: f32[n, 2, t, 3]", SCORES WEIGHTS("a") MIX "return %y "),
      "'q' and 'k' are not known to have the same batch");
  test_assert_refused("attention",
                      GRAPH(HEADS, "%a = matmul(%q, %k) {trans_b = 1, alpha = -1} " WEIGHTS("a") MIX "return %y "),
                      "a factor of -1");
  /* a cap of the scores, fused already */
  test_assert_refused(
      "attention",
      GRAPH(HEADS, "%a = matmul(%q, %k) {trans_b = 1, epilogue = {1: tanh(%0)}} " WEIGHTS("a") MIX "return %y "),
      "'a' has a bias or was fused with what follows it");
}

/* torch's exporter swaps the last two dims under merged ones. */
static void test_batched_transpose(void **state) {
  (void)state;
  test_assert_body(
      "transposes",
      "graph \"g\" (%x: f32[n, 2, 5, 4]) { %m: i64[3] = constant data(-1, 5, 4) %a = reshape(%x, %m) "
      "%b = transpose(%a) {perm = [0, 2, 1]} %s: i64[4] = constant data(-1, 2, 4, 5) "
      "%y = reshape(%b, %s) return %y }",
      "  %y: f32[n, 2, 4, 5] = transpose(%x) {perm = [0, 1, 3, 2]} from \"y\", \"b\", \"a\"\n  return %y\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_masks),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_near_misses),
      cmocka_unit_test(test_batched_transpose),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
