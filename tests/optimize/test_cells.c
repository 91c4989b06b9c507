/* LSTM and GRU steps in their parts: what is found, with which weights, and what keeps them from it.  That the numbers are right is held by
 * test_random, whose graphs hold cells with gates in any order. */
#include <stdio.h>

#include "support/support.h"

#include "as_text.h"

#define FN1(to, fn, a) "%" to " = pointwise(%" a ") {program = {1: " fn "(%0)}} "
#define FN2(to, fn, a, b) "%" to " = pointwise(%" a ", %" b ") {program = {2: " fn "(%0, %1)}} "

/* ---- lstm: one column each, so that a gate's weight is one number ---- */

#define LSTM_INPUTS "graph \"g\" (%x: f32[n, 1], %h: f32[n, 1], %c: f32[n, 1]) { "
#define LSTM_WEIGHTS                                                                                                   \
  "%w: f32[1, 4] = constant data(1, 2, 3, 4) %r: f32[1, 4] = constant data(5, 6, 7, 8) "                               \
  "%b: f32[4] = constant data(10, 20, 30, 40) "
#define LSTM_SUM                                                                                                       \
  LSTM_WEIGHTS "%p = matmul(%x, %w) %q = matmul(%h, %r) " FN2("s", "add", "p", "q") FN2("t", "add", "b", "s")
#define SPLIT4 "%z: i64[4] = constant data(1, 1, 1, 1) %i, %f, %g, %o = split(%t, %z) {axis = 1} "
/* clang-format off */
#define LSTM_REST(forget)                                                                                              \
  FN1("si", "sigmoid", "i")                                                                                            \
  FN1("sf", "sigmoid", forget)                                                                                         \
  FN1("tg", "tanh", "g")                                                                                               \
  FN1("so", "sigmoid", "o")                                                                                            \
  FN2("kept", "mul", "c", "sf")                                                                                        \
  FN2("new", "mul", "si", "tg")                                                                                        \
  FN2("c1", "add", "kept", "new")                                                                                      \
  FN1("tc", "tanh", "c1")                                                                                              \
  FN2("h1", "mul", "so", "tc")
/* clang-format on */

/* torch's order i f g o becomes rnn's i o f g */
static void check_lstm(const char *text, const char *w, const char *r, const char *b) {
  char want[256];
  char *const have = test_optimize("cells", text, NULL);
  assert_non_null(strstr(have, "{cell = \"lstm\", hidden_size = 1}"));
  snprintf(want, sizeof want, "%%w: f32[1, 4, 1] = constant data(%s)", w);
  if (!strstr(have, want)) fail_msg("%s\nhas not %s", have, want);
  snprintf(want, sizeof want, "f32[1, 4, 1] = constant data(%s)", r);
  if (!strstr(have, want)) fail_msg("%s\nhas not %s", have, want);
  snprintf(want, sizeof want, "f32[1, 8] = constant data(%s, 0, 0, 0, 0)", b);
  if (!strstr(have, want)) fail_msg("%s\nhas not %s", have, want);
  assert_null(strstr(have, "sigmoid"));
  tercel_free(have);
}

static void test_lstm(void **state) {
  (void)state;
  check_lstm(LSTM_INPUTS LSTM_SUM SPLIT4 LSTM_REST("f") "return %h1, %c1 }", "1, 4, 2, 3", "5, 8, 6, 7",
             "10, 40, 20, 30");
  /* TensorFlow's: x and h joined, gates i g f o, a bias of the forget gate behind the split */
  check_lstm("graph \"g\" (%x: f32[n, 1], %h: f32[n, 1], %c: f32[n, 1]) { "
             "%w: f32[2, 4] = constant data(1, 2, 3, 4, 5, 6, 7, 8) %b: f32[4] = constant data(10, 20, 30, 40) "
             "%j = concat(%x, %h) {axis = 1} %t = matmul(%j, %w, %b) "
             "%z: i64[4] = constant data(1, 1, 1, 1) %i, %g, %f, %o = split(%t, %z) {axis = -1} "
             "%one: f32[] = constant data(1) " FN2("ff", "add", "f", "one") LSTM_REST("ff") "return %h1, %c1 }",
             "1, 4, 3, 2", "5, 8, 7, 6", "10, 40, 31, 20");
}

static void test_lstm_misses(void **state) {
  (void)state;
  test_assert_refused("cells", LSTM_INPUTS LSTM_SUM SPLIT4 LSTM_REST("f") "return %h1, %si }",
                      "lstm: refused h1: 'si' inside it is also read outside");
  test_assert_refused("cells", LSTM_INPUTS LSTM_SUM SPLIT4 LSTM_REST("f") "return %h1, %g }",
                      "lstm: refused h1: 'i' inside it is also read outside");
  test_assert_refused("cells",
                      LSTM_INPUTS LSTM_WEIGHTS "%p = matmul(%x, %w) " FN2("t", "add", "p", "b")
                          SPLIT4 LSTM_REST("f") "return %h1 }",
                      "lstm: refused h1: 'p' is of one operand, and not of an input and a state");
  test_assert_refused("cells",
                      "graph \"g\" (%x: f32[n, 1], %h: f32[n, 1], %c: f32[n, 1], %w: f32[1, 4]) { "
                      "%r: f32[1, 4] = constant data(5, 6, 7, 8) %p = matmul(%x, %w) %q = matmul(%h, %r) " FN2(
                          "t", "add", "p", "q") SPLIT4 LSTM_REST("f") "return %h1 }",
                      "lstm: refused h1: 'p' is not a product of rows and constant weights");
}

/* ---- gru ---- */

#define GRU_WEIGHTS                                                                                                    \
  "%w: f32[1, 3] = constant data(1, 2, 3) %r: f32[1, 3] = constant data(5, 6, 7) "                                     \
  "%b: f32[3] = constant data(10, 20, 30) %d: f32[3] = constant data(40, 50, 60) %s: i64[3] = constant data(1, 1, 1) "
#define GRU_PRODUCTS GRU_WEIGHTS "%p = matmul(%x, %w, %b) %q = matmul(%h, %r, %d) "
#define GRU_PARTS "%ar, %az, %an = split(%p, %s) {axis = 1} %er, %ez, %en = split(%q, %s) {axis = 1} "
#define GRU_GATES                                                                                                      \
  FN2("sr", "add", "ar", "er")                                                                                         \
  FN1("r1", "sigmoid", "sr")                                                                                           \
  FN2("sz", "add", "ez", "az")                                                                                         \
  FN1("z1", "sigmoid", "sz") FN2("rn", "mul", "r1", "en") FN2("sn", "add", "an", "rn") FN1("n1", "tanh", "sn")
#define GRU_STEP FN2("hn", "sub", "h", "n1") FN2("zhn", "mul", "hn", "z1") FN2("h1", "add", "zhn", "n1")

static void test_gru(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph \"g\" (%x: f32[n, 1], %h: f32[n, 1]) { " GRU_PRODUCTS GRU_PARTS GRU_GATES GRU_STEP "return %h1 }",
      "graph \"g\" (%x: f32[n, 1], %h: f32[n, 1]) { " GRU_PRODUCTS GRU_PARTS GRU_GATES
      "%one: f32[] = constant data(1) " FN2("m", "sub", "one", "z1") FN2("mn", "mul", "m", "n1")
          FN2("zh", "mul", "z1", "h") FN2("h1", "add", "mn", "zh") "return %h1 }",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *const have = test_optimize("cells", texts[i], NULL);
    /* z r n, of torch's r z n */
    if (!strstr(have, "{cell = \"gru\", hidden_size = 1, linear_before_reset = 1}") ||
        !strstr(have, "f32[1, 3, 1] = constant data(2, 1, 3)") ||
        !strstr(have, "f32[1, 3, 1] = constant data(6, 5, 7)") ||
        !strstr(have, "f32[1, 6] = constant data(20, 10, 30, 50, 40, 60)"))
      fail_msg("text %zu: %s", i, have);
    tercel_free(have);
  }
  test_assert_refused("cells",
                      "graph \"g\" (%x: f32[n, 1], %h: f32[n, 1]) { " GRU_PRODUCTS GRU_PARTS GRU_GATES GRU_STEP
                      "return %h1, %z1 }",
                      "gru: refused h1: 'z1' inside it is also read outside");
  test_assert_refused("cells",
                      "graph \"g\" (%x: f32[n, 1], %h: f32[n, 1], %k: f32[n, 1]) { " GRU_WEIGHTS
                      "%p = matmul(%x, %w, %b) %q = matmul(%k, %r, %d) " GRU_PARTS GRU_GATES GRU_STEP "return %h1 }",
                      "gru: refused h1: 'q' is not the product of the state 'h'");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lstm), cmocka_unit_test(test_lstm_misses),
                                     cmocka_unit_test(test_gru)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
