/* Rules about data that only moves: parts of parts, concats, splits, gathers, expands, pads.  For each: a match, a near miss with its reason, a
 * value that something else reads. */
#include <stdio.h>

#include "support/support.h"

#include "as_text.h"

#define INTS(name, count, values) "%" name ": i64[" count "] = constant data(" values ") "
#define X84 "graph \"g\" (%x: f32[n, 8, 4]) { "
#define SLICE(to, from, begin, end, axis)                                                                              \
  INTS(to "b", "1", begin)                                                                                             \
  INTS(to "e", "1", end) INTS(to "a", "1", axis) "%" to " = slice(%" from ", %" to "b, %" to "e, %" to "a) "

static void test_slices(void **state) {
  (void)state;
  /* a slice of a slice, along the same axis and along another */
  test_assert_body("moves", X84 SLICE("s", "x", "2", "7", "1") SLICE("y", "s", "1", "3", "1") "return %y }",
                   "  %starts: i64[1] = constant data(3)\n  %ends: i64[1] = constant data(5)\n"
                   "  %axes: i64[1] = constant data(1)\n"
                   "  %y: f32[n, 2, 4] = slice(%x, %starts, %ends, %axes) from \"y\", \"s\"\n  return %y\n");
  test_assert_body("moves",
                   X84 SLICE("s", "x", "2", "7", "1") SLICE("y", "s", "-1", "9223372036854775807", "2") "return %y }",
                   "  %starts: i64[2] = constant data(2, 3)\n  %ends: i64[2] = constant data(7, 4)\n"
                   "  %axes: i64[2] = constant data(1, 2)\n"
                   "  %y: f32[n, 5, 1] = slice(%x, %starts, %ends, %axes) from \"y\", \"s\"\n  return %y\n");
  /* the first one is a result: it stays, and the second reads past it */
  test_assert_body(
      "moves", X84 SLICE("s", "x", "2", "7", "1") SLICE("y", "s", "1", "3", "1") "return %y, %s }",
      "  %sb: i64[1] = constant data(2)\n  %se: i64[1] = constant data(7)\n  %sa: i64[1] = constant data(1)\n"
      "  %s: f32[n, 5, 4] = slice(%x, %sb, %se, %sa)\n"
      "  %starts: i64[1] = constant data(3)\n  %ends: i64[1] = constant data(5)\n"
      "  %axes: i64[1] = constant data(1)\n"
      "  %y: f32[n, 2, 4] = slice(%x, %starts, %ends, %axes) from \"y\", \"s\"\n  return %y, %s\n");
  /* a slice of a split */
  test_assert_body(
      "moves",
      X84 INTS("z", "2", "3, 5") "%p, %q = split(%x, %z) {axis = 1} " SLICE("y", "q", "0", "2", "1") "return %y }",
      "  %starts: i64[1] = constant data(3)\n  %ends: i64[1] = constant data(5)\n"
      "  %axes: i64[1] = constant data(1)\n"
      "  %y: f32[n, 2, 4] = slice(%x, %starts, %ends, %axes) from \"y\", \"p\"\n  return %y\n");
  /* of a concat: within one of its inputs, all of one, across two */
  static const char two[] = "graph \"g\" (%x: f32[n, 8, 4], %z: f32[n, 2, 4]) { %c = concat(%x, %z) {axis = 1} ";
  char text[512];
  snprintf(text, sizeof text, "%s%s", two, SLICE("y", "c", "8", "10", "1") "return %y }");
  test_assert_body("moves", text, "  return %z as \"y\"\n");
  snprintf(text, sizeof text, "%s%s", two, SLICE("y", "c", "9", "10", "-2") "return %y }");
  test_assert_body("moves", text,
                   "  %starts: i64[1] = constant data(1)\n  %ends: i64[1] = constant data(2)\n"
                   "  %axes: i64[1] = constant data(1)\n"
                   "  %y: f32[n, 1, 4] = slice(%z, %starts, %ends, %axes) from \"y\", \"c\"\n  return %y\n");
  snprintf(text, sizeof text, "%s%s", two, SLICE("y", "c", "7", "9", "1") "return %y }");
  test_assert_refused("moves", text, "slice-of-concat: refused y: it takes places 7 to 8, and 'x' ends at 8");
}

static void test_concats(void **state) {
  (void)state;
  test_assert_body("moves",
                   X84 "%r = pointwise(%x) {program = {1: relu(%0)}} %c = concat(%x, %r) {axis = -1} "
                       "%y = concat(%r, %c, %x) {axis = 2} return %y }",
                   "  %r: f32[n, 8, 4] = pointwise(%x) {program = {1: relu(%0)}}\n"
                   "  %y: f32[n, 8, 16] = concat(%r, %x, %r, %x) {axis = 2} from \"y\", \"c\"\n  return %y\n");
  test_assert_refused("moves", X84 "%c = concat(%x, %x) {axis = 1} %y = concat(%x, %c) {axis = 1} return %y, %c }",
                      "concat-of-concat: refused y: 'c' is an output of the graph");
  test_assert_body("moves", X84 "%c = concat(%x, %x) {axis = 2} %y = concat(%c, %c) {axis = 1} return %y }",
                   "  %c: f32[n, 8, 8] = concat(%x, %x) {axis = 2}\n"
                   "  %y: f32[n, 16, 8] = concat(%c, %c) {axis = 1}\n  return %y\n");
  /* split and joined again */
  static const char split[] = X84 "%z: i64[3] = constant data(2, 3, 3) %p, %q, %r = split(%x, %z) {axis = 1} ";
  char text[512];
  snprintf(text, sizeof text, "%s%s", split, "%y = concat(%p, %q, %r) {axis = 1} return %y }");
  test_assert_body("moves", text, "  return %x as \"y\"\n");
  snprintf(text, sizeof text, "%s%s", split, "%y = concat(%q, %r) {axis = 1} return %y }");
  test_assert_body("moves", text,
                   "  %starts: i64[1] = constant data(2)\n  %ends: i64[1] = constant data(8)\n"
                   "  %axes: i64[1] = constant data(1)\n"
                   "  %y: f32[n, 6, 4] = slice(%x, %starts, %ends, %axes)\n  return %y\n");
  snprintf(text, sizeof text, "%s%s", split, "%y = concat(%p, %r) {axis = 1} return %y }");
  test_assert_refused("moves", text, "concat-of-parts: refused y: 'r' begins at 5 of 'x', and not at 2");
  /* joined and split again */
  test_assert_body("moves",
                   "graph \"g\" (%x: f32[n, 8], %z: f32[n, 2]) { %c = concat(%x, %z) {axis = 1} "
                   "%s: i64[2] = constant data(8, 2) %y, %w = split(%c, %s) {axis = 1} return %w, %y }",
                   "  return %z as \"w\", %x as \"y\"\n");
  test_assert_refused("moves",
                      "graph \"g\" (%x: f32[n, 8], %z: f32[n, 2]) { %c = concat(%x, %z) {axis = 1} "
                      "%s: i64[2] = constant data(5, 5) %y, %w = split(%c, %s) {axis = 1} return %w, %y }",
                      "split-of-concat: refused y: piece 0 is not known to be as large as 'x'");
}

static void test_gathers(void **state) {
  (void)state;
  test_assert_body("moves", X84 INTS("i", "3", "2, 4, 6") "%y = gather(%x, %i) {axis = 1} return %y }",
                   "  %starts: i64[1] = constant data(2)\n  %ends: i64[1] = constant data(7)\n"
                   "  %axes: i64[1] = constant data(1)\n  %steps: i64[1] = constant data(2)\n"
                   "  %y: f32[n, 3, 4] = slice(%x, %starts, %ends, %axes, %steps)\n  return %y\n");
  test_assert_body("moves", X84 INTS("i", "1", "-1") "%y = gather(%x, %i) {axis = 1} return %y }",
                   "  %starts: i64[1] = constant data(7)\n  %ends: i64[1] = constant data(8)\n"
                   "  %axes: i64[1] = constant data(1)\n"
                   "  %y: f32[n, 1, 4] = slice(%x, %starts, %ends, %axes)\n  return %y\n");
  test_assert_refused("moves", X84 INTS("i", "2", "4, 2") "%y = gather(%x, %i) {axis = 1} return %y }",
                      "gather: refused y: its indices don't ascend by equal steps");
  test_assert_refused("moves", X84 INTS("i", "2", "0, 1") "%y = gather(%x, %i) {axis = 0} return %y }",
                      "gather: refused y: dim 0 of 'x' is not known");
  /* out of range: an error of the run, which a slice would hide */
  char *const text =
      test_optimize("moves", X84 INTS("i", "2", "7, 8") "%y = gather(%x, %i) {axis = 1} return %y }", NULL);
  assert_non_null(strstr(text, "gather("));
  tercel_free(text);
}

static void test_share_out(void **state) {
  (void)state;
  test_assert_body("share-out", X84 SLICE("p", "x", "3", "8", "1") SLICE("q", "x", "0", "3", "1") "return %p, %q }",
                   "  %sizes: i64[2] = constant data(3, 5)\n"
                   "  %q: f32[n, 3, 4], %p: f32[n, 5, 4] = split(%x, %sizes) {axis = 1} named \"p\" from \"q\", \"p\"\n"
                   "  return %p, %q\n");
  char *const text = test_optimize(
      "share-out", X84 SLICE("p", "x", "4", "8", "1") SLICE("q", "x", "0", "3", "1") "return %p, %q }", NULL);
  assert_null(strstr(text, "split"));
  tercel_free(text);
}

static void test_expands(void **state) {
  (void)state;
#define MASK "graph \"g\" (%m: i64[n, s, 1], %x: f32[n, s, 8]) { " INTS("t", "3", "1, 1, 8") "%e = expand(%m, %t) "
  /* a mask's cast comes first, and then nothing is left of the expand */
  test_assert_body("expands canonicalize",
                   MASK "%c: f32[n, s, 8] = pointwise(%e) {program = {1: cast<1, 0>(%0)}} "
                        "%y = pointwise(%x, %c) {program = {2: mul(%0, %1)}} return %y }",
                   "  %c: f32[n, s, 1] = pointwise(%m) {program = {1: cast<1, 0>(%0)}}\n"
                   "  %y: f32[n, s, 8] = pointwise(%x, %c) {program = {2: mul(%0, %1)}} from \"y\", \"e\"\n"
                   "  return %y\n");
  test_assert_body("expands",
                   MASK "%c: f32[n, s, 8] = pointwise(%e) {program = {1: cast<1, 0>(%0)}} "
                        "%y = reduce(%c) {kind = \"sum\", axes = [1], keepdims = 0} return %y }",
                   "  %c: f32[n, s, 1] = pointwise(%m) {program = {1: cast<1, 0>(%0)}}\n"
                   "  %y: f32[n, 1] = reduce(%c) {kind = \"sum\", axes = [1], keepdims = 0}\n"
                   "  %shape: i64[2] = constant data(1, 8)\n"
                   "  %y.1: f32[n, 8] = expand(%y, %shape) named \"e\"\n  return %y.1 as \"y\"\n");
  test_assert_refused("expands", MASK "%y = reduce(%e) {kind = \"sum\", axes = [2]} return %y }",
                      "reduce-first: refused y: it reduces a dim that was expanded");
}

#define PICTURE "graph \"g\" (%x: f32[n, 3, 8, 8]) { %w: f32[4, 3, 3, 3] = constant fill(0.5) "
#define PAD(to, from, pads, more) INTS(to "p", "8", pads) "%" to " = pad(%" from ", %" to "p" more ") "
#define MAX_POOL(more) "%y = pool(%p) {kind = \"max\", kernel = [3, 3], strides = [2, 2]" more "} return %y }"
#define AVERAGE_POOL(more) "%y = pool(%p) {kind = \"average\", kernel = [3, 3]" more "} return %y }"

static void test_pads_of_conv(void **state) {
  (void)state;
  test_assert_body(
      "pads", PICTURE PAD("p", "x", "0, 0, 1, 2, 0, 0, 0, 1", "") "%y = conv(%p, %w) {pads = [1, 1, 1, 1]} return %y }",
      "  %w: f32[4, 3, 3, 3] = constant fill(0.5)\n"
      "  %y: f32[n, 4, 9, 11] = conv(%x, %w) {pads = [2, 3, 1, 2]} from \"y\", \"p\"\n  return %y\n");
  /* through a transpose and a view that adds a dim */
  test_assert_body("pads",
                   "graph \"g\" (%x: f32[n, 9, 2]) { %w: f32[1, 2, 1, 3] = constant fill(1) "
                   "%q: i64[6] = constant data(0, 1, 0, 0, 2, 0) %p = pad(%x, %q) "
                   "%t = transpose(%p) {perm = [0, 2, 1]} %a: i64[1] = constant data(2) %u = unsqueeze(%t, %a) "
                   "%y = conv(%u, %w) {auto_pad = \"valid\"} return %y }",
                   "  %t: f32[n, 2, 9] = transpose(%x) {perm = [0, 2, 1]}\n"
                   "  %shape: i64[4] = constant data(0, 2, 1, 9)\n"
                   "  %u: f32[n, 2, 1, 9] = reshape(%t, %shape)\n"
                   "  %w: f32[1, 2, 1, 3] = constant data(1, 1, 1, 1, 1, 1)\n"
                   "  %y: f32[n, 1, 1, 10] = conv(%u, %w) {pads = [0, 1, 0, 2]} from \"y\", \"p\"\n  return %y\n");
  test_assert_refused("pads", PICTURE PAD("p", "x", "0, 0, 1, 1, 0, 0, 1, 1", "") "%y = conv(%p, %w) return %y, %p }",
                      "conv: refused y: 'p' is an output of the graph");
  test_assert_refused(
      "pads",
      PICTURE PAD("p", "x", "0, 0, 1, 1, 0, 0, 1, 1", "") "%y = conv(%p, %w) {auto_pad = \"same_upper\"} return %y }",
      "conv: refused y: its own pads are 'same_upper'");
  test_assert_refused("pads",
                      PICTURE "%one: f32[] = constant data(1) " PAD("p", "x", "0, 0, 1, 1, 0, 0, 1, 1",
                                                                    ", %one") "%y = conv(%p, %w) return %y }",
                      "conv: refused y: 'p' pads with 1, not with 0");
  test_assert_refused(
      "pads",
      PICTURE INTS("q", "8",
                   "0, 0, 1, 1, 0, 0, 1, 1") "%p = pad(%x, %q) {mode = \"reflect\"} %y = conv(%p, %w) return %y }",
      "conv: refused y: 'p' pads with 'reflect'");
  test_assert_refused("pads",
                      "graph \"g\" (%x: f32[n, 2, 8, 8]) { %w: f32[4, 3, 3, 3] = constant fill(0.5) " PAD(
                          "p", "x", "0, 1, 0, 0, 0, 0, 0, 0", "") "%y = conv(%p, %w) return %y }",
                      "conv: refused y: channels are padded");
}

static void test_pads_of_pools(void **state) {
  (void)state;
#define LOWEST "%low: f32[] = constant data(-inf) "
#define POOLED(from, more)                                                                                             \
  "  %y: f32[n, 3, 4, 4] = pool(%" from ") {kind = \"max\", kernel = [3, 3], strides = [2, 2]" more                    \
  ", pads = [0, 0, 1, 1]} from \"y\", \"p\"\n  return %y\n"
  test_assert_body("pads", PICTURE LOWEST PAD("p", "x", "0, 0, 0, 0, 0, 0, 1, 1", ", %low") MAX_POOL(""),
                   POOLED("x", ""));
  test_assert_body("pads",
                   PICTURE INTS("q", "8", "0, 0, 0, 0, 0, 0, 1, 1") "%p = pad(%x, %q) {mode = \"edge\"} " MAX_POOL(""),
                   POOLED("x", ""));
  /* zeros win against nothing that is not negative */
  test_assert_body("pads",
                   PICTURE "%r = pointwise(%x) {program = {1: relu(%0)}} " PAD("p", "r", "0, 0, 0, 0, 0, 0, 1, 1", "")
                       MAX_POOL(""),
                   "  %r: f32[n, 3, 8, 8] = pointwise(%x) {program = {1: relu(%0)}}\n" POOLED("r", ""));
  test_assert_refused("pads", PICTURE PAD("p", "x", "0, 0, 0, 0, 0, 0, 1, 1", "") MAX_POOL(""),
                      "pool: refused y: 'p' pads with 0, which may be the largest");
  test_assert_refused("pads", PICTURE LOWEST PAD("p", "x", "0, 0, 3, 0, 0, 0, 0, 1", ", %low") MAX_POOL(""),
                      "pool: refused y: a window could see nothing but pads");
  test_assert_refused("pads",
                      PICTURE LOWEST PAD("p", "x", "0, 0, 0, 0, 0, 0, 1, 1", ", %low") MAX_POOL(", ceil_mode = 1"),
                      "pool: refused y: it rounds up how many windows there are");
  test_assert_body("pads", PICTURE PAD("p", "x", "0, 0, 1, 1, 0, 0, 1, 1", "") AVERAGE_POOL(""),
                   "  %y: f32[n, 3, 8, 8] = pool(%x) {kind = \"average\", kernel = [3, 3], count_include_pad = 1, "
                   "pads = [1, 1, 1, 1]} from \"y\", \"p\"\n  return %y\n");
  test_assert_refused("pads", PICTURE PAD("p", "x", "0, 0, 1, 1, 0, 0, 1, 1", "") AVERAGE_POOL(", pads = [1, 1, 1, 1]"),
                      "pool: refused y: it does not count its own pads, as it would those of the pad");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slices),        cmocka_unit_test(test_concats), cmocka_unit_test(test_gathers),
      cmocka_unit_test(test_share_out),     cmocka_unit_test(test_expands), cmocka_unit_test(test_pads_of_conv),
      cmocka_unit_test(test_pads_of_pools),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
