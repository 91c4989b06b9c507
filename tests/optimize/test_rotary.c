/* Rotary position embeddings out of their parts. */
#include "support/support.h"

#include "as_text.h"

#define FN1(to, fn, a) "%" to " = pointwise(%" a ") {program = {1: " fn "(%0)}} "
#define FN2(to, fn, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: " fn "(%0, %1)}} "
#define INTS                                                                                                           \
  "%zero: i64[1] = constant data(0) %one: i64[1] = constant data(1) %two: i64[1] = constant data(2) "                  \
  "%four: i64[1] = constant data(4) %last: i64[1] = constant data(-1) "
#define GRAPH(params, body) "graph \"g\" (" params ") { " INTS body " }"
#define SLICE(to, from, begin, end, step) "%" to " = slice(%" from ", %" begin ", %" end ", %last, %" step ") "
/* Tables whose halves are equal: the angles joined with themselves, as Transformers has it. */
#define TABLES                                                                                                         \
  "%a2 = concat(%angles, %angles) {axis = -1} " FN1("c3", "cos", "a2")                                                 \
      FN1("s3", "sin", "a2") "%c = unsqueeze(%c3, %one) %s = unsqueeze(%s3, %one) "
#define HALVES SLICE("x1", "x", "zero", "two", "one") SLICE("x2", "x", "two", "four", "one")
#define TURNED HALVES FN1("n2", "neg", "x2") "%t = concat(%n2, %x1) {axis = -1} "
#define SUM FN2("xc", "mul", "x", "c") FN2("ts", "mul", "t", "s") FN2("y", "add", "xc", "ts")
#define BY_HEADS "%x: f32[n, 2, p, 4], %angles: f32[n, p, 2]"

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

static void test_halves(void **state) {
  (void)state;
  char *const text = test_optimize("rotary", GRAPH(BY_HEADS, TABLES TURNED SUM "return %y"), NULL);
  assert_non_null(strstr(text, "f32[n, 1, p, 2] = slice(%c, %start, %end, %axis, %step)"));
  assert_non_null(strstr(text, "f32[n, p, 2] = reshape("));
  assert_non_null(strstr(text, "f32[n, 2, p, 4] = rotary(%x, "));
  assert_null(strstr(text, "neg"));
  tercel_free(text);
  /* by a split */
  assert_holds("rotary",
               GRAPH(BY_HEADS, TABLES "%h: i64[2] = constant data(2, 2) %x1, %x2 = split(%x, %h) {axis = 3} " FN1(
                                   "n2", "neg", "x2") "%t = concat(%n2, %x1) {axis = 3} " SUM "return %y"),
               "rotary(%x, ");
  /* tables of one batch entry, in either order of operands */
  assert_holds("rotary",
               GRAPH("%x: f32[n, 2, p, 4], %angles: f32[1, p, 2]",
                     TABLES TURNED FN2("xc", "mul", "c", "x") FN2("ts", "mul", "s", "t")
                         FN2("y", "add", "ts", "xc") "return %y"),
               "rotary(%x, ");
}

/* Each half by itself, tables of half a head's size. */
static void test_by_halves(void **state) {
  (void)state;
/* clang-format off */
#define EACH                                                                                                           \
  FN2("a", "mul", "x1", "c")                                                                                           \
  FN2("b", "mul", "x2", "s")                                                                                           \
  FN2("l", "sub", "a", "b")                                                                                            \
  FN2("d", "mul", "x2", "c")                                                                                           \
  FN2("e", "mul", "x1", "s")                                                                                           \
  FN2("r", "add", "d", "e")                                                                                            \
  "%y = concat(%l, %r) {axis = 3} "
  /* clang-format on */
  test_assert_body(
      "rotary",
      "graph \"g\" (%x: f32[n, 2, p, 4], %c: f32[1, p, 2], %s: f32[1, p, 2]) { %h: i64[2] = constant data(2, 2) "
      "%x1, %x2 = split(%x, %h) {axis = 3} " EACH "return %y }",
      "  %y: f32[n, 2, p, 4] = rotary(%x, %c, %s) from \"y\", \"l\", \"a\", \"b\", \"r\", \"d\", \"e\"\n  return %y\n");
}

/* Pairs of neighbours, as GPT-J has them. */
static void test_neighbours(void **state) {
  (void)state;
  assert_holds(
      "rotary",
      GRAPH(BY_HEADS,
            "%three: i64[1] = constant data(3) %max: i64[1] = constant data(9223372036854775807) "
            "%au = unsqueeze(%angles, %three) %a2s = concat(%au, %au) {axis = -1} %flat: i64[3] = constant "
            "data(0, 0, 4) %a2 = reshape(%a2s, %flat) " FN1("c3", "cos", "a2")
                FN1("s3", "sin", "a2") "%c = unsqueeze(%c3, %one) %s = unsqueeze(%s3, %one) " SLICE(
                    "x1", "x", "zero", "max", "two") SLICE("x2", "x", "one", "max", "two")
                    FN1("n2", "neg",
                        "x2") "%u1 = unsqueeze(%x1, %four) %u2 = unsqueeze(%n2, %four) %st = concat(%u2, %u1) {axis = "
                              "-1} %all: i64[4] = constant data(0, 0, 0, 4) %t = reshape(%st, %all) " SUM "return %y"),
      "{interleaved = 1}");
}

/* Rows of heads are turned before they are transposed to heads. */
static void test_rows(void **state) {
  (void)state;
  assert_holds("rotary",
               GRAPH("%r: f32[n, p, 2, 4], %angles: f32[n, p, 2]",
                     "%x = transpose(%r) {perm = [0, 2, 1, 3]} " TABLES TURNED SUM "return %y"),
               "{heads = 2}");
  assert_holds("rotary",
               GRAPH("%x: f32[n, p, 2, 4], %angles: f32[n, p, 2]",
                     "%a2 = concat(%angles, %angles) {axis = -1} " FN1("c3", "cos", "a2")
                         FN1("s3", "sin", "a2") "%c = unsqueeze(%c3, %two) %s = unsqueeze(%s3, %two) " TURNED SUM
                                                "return %y"),
               "{heads = 2}");
}

static void test_partial(void **state) {
  (void)state;
  assert_holds("rotary",
               GRAPH("%w: f32[n, 2, p, 6], %angles: f32[n, p, 2]",
                     "%six: i64[1] = constant data(6) " SLICE("x", "w", "zero", "four", "one")
                         SLICE("rest", "w", "four", "six", "one") TABLES TURNED SUM
                     "%z = concat(%y, %rest) {axis = -1} return %z"),
               "{dims = 4, interleaved = 0}");
}

static void test_near_misses(void **state) {
  (void)state;
  test_assert_refused("rotary", GRAPH(BY_HEADS, TABLES TURNED SUM "return %y, %t"),
                      "rotary: rotary: refused y: 't' inside it is an output of the graph");
  test_assert_refused("rotary",
                      GRAPH("%x: f32[n, 2, p, 4], %c: f32[n, 1, p, 4], %s: f32[n, 1, p, 4]", TURNED SUM "return %y"),
                      "'c' is not known to hold each angle twice");
  test_assert_refused(
      "rotary",
      GRAPH("%x: f32[n, 2, p, 4], %angles: f32[n, q, 2]",
            "%a2 = concat(%angles, %angles) {axis = -1} " FN1("c3", "cos", "a2")
                FN1("s3", "sin", "a2") "%c = unsqueeze(%c3, %one) %s = unsqueeze(%s3, %one) " TURNED FN2(
                    "xc", "mul", "x", "c") FN2("ts", "mul", "t", "s") FN2("y", "add", "xc", "ts") "return %y"),
      "'c' is not known to be as large as the result along axis 2: q and p");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_halves), cmocka_unit_test(test_by_halves), cmocka_unit_test(test_neighbours),
      cmocka_unit_test(test_rows),   cmocka_unit_test(test_partial),   cmocka_unit_test(test_near_misses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
