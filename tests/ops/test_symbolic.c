/* What inference says with symbols must be what it says with numbers: every graph is inferred with n and h free, then with numbers in their
 * places, and the dims of all its outputs are compared.  Dims that stay unknown are fine. */
#include "support/support.h"

#include <string.h>

#include "ops/ops.h"

static const char *const graphs[] = {
    /* slices: each end fixed, free, negative, out of range; steps */
    "(%x: f32[n, h]) { %s: i64[2] = constant data(1, -3) %e: i64[2] = constant data(-1, 9223372036854775807) "
    "%y = slice(%x, %s, %e) return %y }",
    "(%x: f32[n, h]) { %s: i64[2] = constant data(2, 0) %e: i64[2] = constant data(5, -2) %a: i64[2] = constant "
    "data(0, 1) "
    "%p: i64[2] = constant data(2, 3) %y = slice(%x, %s, %e, %a, %p) return %y }",
    "(%x: f32[n, h]) { %s: i64[2] = constant data(-1, 2147483647) %e: i64[2] = constant data(-9223372036854775807, "
    "-2147483648) "
    "%a: i64[2] = constant data(0, 1) %p: i64[2] = constant data(-1, -3) %y = slice(%x, %s, %e, %a, %p) return %y }",
    "(%x: f32[n, h]) { %s: i64[1] = constant data(-4) %e: i64[1] = constant data(-1) %y = slice(%x, %s, %e) return %y "
    "}",
    "(%x: f32[n, h], %k: f32[h]) { %z: i64[1] = constant data(0) %e = shape(%k) %y = slice(%x, %z, %e) return %y }",
    "(%x: f32[n, h], %k: f32[h]) { %b = shape(%k) %m: i64[1] = constant data(2147483647) %y = slice(%x, %b, %m) return "
    "%y }",
    /* shapes of shapes */
    "(%x: f32[n, h, 6]) { %s: i64[3] = constant data(0, -1, 2) %y = reshape(%x, %s) return %y }",
    "(%x: f32[n, h, 6]) { %s: i64[2] = constant data(-1, 3) %y = reshape(%x, %s) return %y }",
    "(%x: f32[n, h, 6]) { %s = shape(%x) %y = reshape(%x, %s) return %y }",
    "(%x: f32[n, 6, h]) { %s: i64[2] = constant data(0, -1) %y = reshape(%x, %s) %z = flatten(%x) {axis = 2} return "
    "%y, %z }",
    "(%x: f32[n, h]) { %s = shape(%x) %i: i64[2] = constant data(1, 0) %r = gather(%s, %i) %o: f32[] = constant "
    "data(1) "
    "%y = expand(%o, %r) return %y }",
    "(%x: f32[n, h]) { %a = shape(%x) {end = 1} %b = shape(%x) {start = 1} %c = concat(%b, %a, %b) {axis = 0} "
    "%o: f32[1, 1, 1] = constant data(1) %y = tile(%o, %c) return %y }",
    "(%x: f32[n, h]) { %c = size(%x) %z: i64[] = constant data(3) %o: i64[] = constant data(2) %y = range(%z, %c, %o) "
    "return %y }",
    /* parts and wholes */
    "(%x: f32[n, h]) { %a, %b, %c = split(%x) {axis = 1} return %a, %b, %c }",
    "(%x: f32[n, h], %y: f32[n, 3]) { %z = concat(%x, %y, %x) {axis = 1} return %z }",
    "(%x: f32[n, h]) { %p: i64[4] = constant data(1, 0, 2, -1) %y = pad(%x, %p) return %y }",
    "(%x: f32[n, h]) { %y = transpose(%x) %z = unsqueeze(%y) {axes = [1]} return %z }",
    "(%x: f32[n, h], %i: i64[h, 2]) { %y = gather(%x, %i) {axis = 1} return %y }",
    /* windows and scales */
    "(%x: f32[1, 2, n, h]) { %y = pool(%x) {kind = \"max\", kernel = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]} "
    "return %y }",
    "(%x: f32[1, 2, n, h]) { %y = pool(%x) {kind = \"max\", kernel = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1], "
    "ceil_mode = 1} "
    "return %y }",
    "(%x: f32[1, 2, n, h]) { %y = pool(%x) {kind = \"average\", kernel = [1, 2], strides = [3, 2], ceil_mode = 1} "
    "return %y }",
    "(%x: f32[1, 2, n, h]) { %y = pool(%x) {kind = \"max\", kernel = [3, 2], strides = [2, 3], auto_pad = "
    "\"same_upper\"} return %y }",
    "(%x: f32[1, 2, n, h]) { %y = pool(%x) {kind = \"max\", kernel = [2, 2], strides = [2, 3], auto_pad = \"valid\"} "
    "return %y }",
    "(%x: f32[1, 2, n, h]) { %s: f32[4] = constant data(1, 1, 2, 0.5) %y = resize(%x, _, %s) return %y }",
    "(%x: f32[2, n, 1]) { %y = dft(%x) {onesided = 1} %z = dft(%x) %b = dft(%z) {onesided = 1, inverse = 1} return %y, "
    "%z, %b }",
    "(%x: f32[h, n, 1]) { %s: i64[] = constant data(2) %w: f32[2] = constant ramp() %y = stft(%x, %s, %w) return %y }",
    "(%x: f32[n, h, 3], %y: f32[n, 3, h]) { %z = einsum(%x, %y) {equation = \"bij,bjk->ikb\"} return %z }",
    "(%x: f32[1, 2, n, h], %g: f32[1, h, n, 2]) { %y = grid_sample(%x, %g) return %y }",
    "(%x: f32[1, 2, n, h], %i: i64[1, 2, n, h]) { %y = max_unpool(%x, %i) {kernel = [2, 3], strides = [2, 1]} return "
    "%y }",
    "(%x: f32[1, 2, n, h]) { %s: f32[2] = constant data(0.375, 1.75) %y = resize(%x, _, %s) {axes = [3, 2]} return %y "
    "}",
};

static bool value_of(void *user, const char *symbol, int64_t *out) {
  const int64_t *values = user;
  if (symbol[0] == '?') return false; /* a dim that nobody knows */
  *out = strcmp(symbol, "n") == 0 ? values[0] : values[1];
  return true;
}

static tercel_graph *parse(const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text whole = {0};
  tercel_text_add(&whole, "graph \"t\" %s", text);
  assert_ok(tercel_graph_parse(whole.data, whole.length, tercel_ops(), &graph, &err), &err);
  tercel_text_deinit(&whole);
  return graph;
}

/* What `symbolic` (inferred already) says for these values, against an inference with the numbers. */
static void check_values(const char *text, const tercel_graph *symbolic, const int64_t values[2]) {
  tercel_error err = {0};
  tercel_graph *graph = parse(text), *numbers = NULL;
  assert_ok(tercel_graph_clone(graph, value_of, (void *)(uintptr_t)values, &numbers, &err), &err);
  assert_ok(tercel_infer_graph(numbers, &err), &err);
  for (uint32_t i = 0; i < symbolic->num_outputs; i++) {
    const tercel_shape *with_symbols = &symbolic->outputs[i]->type.shape,
                       *with_numbers = &numbers->outputs[i]->type.shape;
    assert_int_equal(with_symbols->rank, with_numbers->rank);
    for (int d = 0; d < with_numbers->rank; d++) {
      const tercel_dim got = tercel_dim_translate(symbolic->dims, with_symbols->dims[d], numbers->dims, value_of,
                                                  (void *)(uintptr_t)values);
      if (tercel_dim_is_known(got) ? got != with_numbers->dims[d] : !tercel_dim_is_unknown(numbers->dims, got))
        fail_msg("n = %lld, h = %lld: output %u, dim %d: symbols say %lld, numbers %lld: %s", (long long)values[0],
                 (long long)values[1], i, d, (long long)got, (long long)with_numbers->dims[d], text);
    }
  }
  tercel_graph_destroy(numbers);
  tercel_graph_destroy(graph);
}

static void test_symbols_and_numbers(void **state) {
  (void)state;
  for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
    tercel_error err = {0};
    tercel_graph *symbolic = parse(graphs[g]);
    assert_ok(tercel_infer_graph(symbolic, &err), &err);
    for (int64_t n = 2; n < 12; n++)
      for (int64_t h = 2; h < 12; h += n % 2 + 1) check_values(graphs[g], symbolic, (const int64_t[]){n, h});
    tercel_graph_destroy(symbolic);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_symbols_and_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
