/* States: memory that runs write and find again.  Attention over a cache in pages, in pieces and for several sequences at once, equals attention over
 * whole sequences.
 * run-tests: levels */
#include "runtime/net.h"

#include <math.h>
#include <stdio.h>

enum {
  HEADS = 4,
  KV_HEADS = 2,
  SIZE = 32,
  WIDTH = HEADS * SIZE,
  KV_WIDTH = KV_HEADS * SIZE,
  ROWS = 7,
  PAGE = 4,
  PAGES = 6
};

/* %s: dtype of the cache, then attributes of attention. */
static const char paged[] =
    "graph \"net\" (%%q: f32[n, 128], %%k: f32[n, 64], %%v: f32[n, 64], %%keys: state(%s[6, 4, 64]),\n"
    "  %%values: state(%s[6, 4, 64]), %%firsts: i32[f], %%lengths: i32[s], %%tables: i32[s, 3]) {\n"
    "  %%y = paged_attention(%%q, %%k, %%v, %%keys, %%values, %%firsts, %%lengths, %%tables)\n"
    "    {heads = 4, kv_heads = 2%s}\n"
    "  return %%y\n}\n";
static const char whole[] = "graph \"net\" (%%q: f32[1, 7, 128], %%k: f32[1, 7, 64], %%v: f32[1, 7, 64]) {\n"
                            "  %%y = attention(%%q, %%k, %%v) {heads = 4, kv_heads = 2, causal = 1%s}\n"
                            "  return %%y\n}\n";

typedef struct operands {
  float q[ROWS * WIDTH], k[ROWS * KV_WIDTH], v[ROWS * KV_WIDTH];
} operands;

static operands make_operands(int seed) {
  operands o;
  for (int i = 0; i < ROWS * WIDTH; ++i) o.q[i] = (float)((i * 37 + seed) % 101) / 50 - 1;
  for (int i = 0; i < ROWS * KV_WIDTH; ++i) o.k[i] = (float)((i * 53 + seed) % 97) / 48 - 1;
  for (int i = 0; i < ROWS * KV_WIDTH; ++i) o.v[i] = (float)((i * 71 + seed) % 89) / 44 - 1;
  return o;
}

/* A matrix, or without columns a vector. */
static void set(tercel_context *context, size_t index, tercel_dtype dtype, int64_t rows, int64_t columns,
                const void *data) {
  net_set(context, index, dtype, (void *)(uintptr_t)data, columns > 0 ? 2 : 1, (const int64_t[]){rows, columns});
}

static const float *run(tercel_context *context) {
  net_run(context);
  return net_output(context, 0).data;
}

static void attend_whole(const operands *o, const char *attributes, float *out) {
  char text[1024];
  snprintf(text, sizeof text, whole, attributes);
  tercel_context *const context = net_open(text);
  const void *const data[3] = {o->q, o->k, o->v};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t columns = i == 0 ? WIDTH : KV_WIDTH;
    net_set(context, i, TERCEL_DTYPE_F32, (void *)(uintptr_t)data[i], DIMS(1, ROWS, columns));
  }
  memcpy(out, run(context), ROWS * WIDTH * sizeof *out);
  tercel_context_destroy(context);
}

/* `count` rows of a, then `other` rows of b, each sequence behind `length` rows that it has in the cache. */
static const float *step(tercel_context *context, const operands *a, int64_t a_first, int64_t a_rows, const operands *b,
                         int64_t b_first, int64_t b_rows) {
  static const int32_t tables[6] = {5, 0, 3, 1, 4, 2};
  static operands both;
  const int64_t n = a_rows + b_rows;
  static int32_t firsts[3], lengths[2]; /* inputs are borrowed */
  firsts[1] = (int32_t)a_rows;
  firsts[2] = (int32_t)n;
  lengths[0] = (int32_t)a_first;
  lengths[1] = (int32_t)b_first;
  memcpy(both.q, a->q + a_first * WIDTH, (size_t)(a_rows * WIDTH) * 4);
  memcpy(both.k, a->k + a_first * KV_WIDTH, (size_t)(a_rows * KV_WIDTH) * 4);
  memcpy(both.v, a->v + a_first * KV_WIDTH, (size_t)(a_rows * KV_WIDTH) * 4);
  memcpy(both.q + a_rows * WIDTH, b->q + b_first * WIDTH, (size_t)(b_rows * WIDTH) * 4);
  memcpy(both.k + a_rows * KV_WIDTH, b->k + b_first * KV_WIDTH, (size_t)(b_rows * KV_WIDTH) * 4);
  memcpy(both.v + a_rows * KV_WIDTH, b->v + b_first * KV_WIDTH, (size_t)(b_rows * KV_WIDTH) * 4);
  set(context, 0, TERCEL_DTYPE_F32, n, WIDTH, both.q);
  set(context, 1, TERCEL_DTYPE_F32, n, KV_WIDTH, both.k);
  set(context, 2, TERCEL_DTYPE_F32, n, KV_WIDTH, both.v);
  set(context, 5, TERCEL_DTYPE_I32, 3, 0, firsts);
  set(context, 6, TERCEL_DTYPE_I32, 2, 0, lengths);
  set(context, 7, TERCEL_DTYPE_I32, 2, 3, tables);
  return run(context);
}

static void check_rows(const float *got, const float *want, int64_t rows, double tolerance) {
  for (int64_t i = 0; i < rows * WIDTH; ++i)
    if (!(fabs((double)got[i] - (double)want[i]) <= tolerance))
      fail_msg("element %lld is %g, want %g", (long long)i, (double)got[i], (double)want[i]);
}

static void check_pieces(const char *dtype, const char *paged_attributes, const char *attributes, double tolerance) {
  const operands a = make_operands(1), b = make_operands(2);
  float want_a[ROWS * WIDTH], want_b[ROWS * WIDTH];
  char text[1024];
  attend_whole(&a, attributes, want_a);
  attend_whole(&b, attributes, want_b);
  snprintf(text, sizeof text, paged, dtype, dtype, paged_attributes);
  tercel_context *const context = net_open(text);
  const float *y = step(context, &a, 0, 5, &b, 0, 1); /* a prompt beside a first token */
  check_rows(y, want_a, 5, tolerance);
  check_rows(y + 5 * WIDTH, want_b, 1, tolerance);
  y = step(context, &a, 5, 1, &b, 1, 6); /* a token beside a prompt that goes on */
  check_rows(y, want_a + 5 * WIDTH, 1, tolerance);
  check_rows(y + WIDTH, want_b + WIDTH, 6, tolerance);
  y = step(context, &a, 6, 1, &b, 7, 0);
  check_rows(y, want_a + 6 * WIDTH, 1, tolerance);
  tercel_context_destroy(context);
}

static void test_pieces(void **state) {
  (void)state;
  check_pieces("f32", "", "", 1e-5);
  check_pieces("f32", ", window = 3, softcap = 2.0", ", left = 2, softcap = 2.0", 1e-5);
  check_pieces("f16", "", "", 2e-3);
  check_pieces("q8_0", "", "", 2e-2);
}

static void test_bad_tables(void **state) {
  (void)state;
  const operands a = make_operands(1);
  char text[1024];
  tercel_error err = {0};
  snprintf(text, sizeof text, paged, "f32", "f32", "");
  tercel_context *const context = net_open(text);
  step(context, &a, 0, 3, &a, 0, 1);
  const int32_t wild[6] = {0, 1, 2, 6, 0, 0}, firsts[3] = {0, 5, 4}, lengths[2] = {0, 11};
  set(context, 7, TERCEL_DTYPE_I32, 2, 3, wild);
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "sequence 1: page 6, want 0 to 5");
  const int32_t good[6] = {0, 1, 2, 3, 4, 5};
  set(context, 7, TERCEL_DTYPE_I32, 2, 3, good);
  set(context, 6, TERCEL_DTYPE_I32, 2, 0, lengths);
  step(context, &a, 0, 3, &a, 0, 1);
  set(context, 6, TERCEL_DTYPE_I32, 2, 0, (const int32_t[]){0, 12});
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "need more pages than its table has");
  set(context, 5, TERCEL_DTYPE_I32, 3, 0, firsts);
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "sequence 0 has rows 0 to 5 of 4");
  tercel_context_destroy(context);
}

static void check_refused(const char *text, const char *message) {
  tercel_graph *graph = NULL;
  tercel_error err = {0};
  assert_fails(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), TERCEL_INVALID_MODEL, &err, message);
}

/* A state is one node's, and that node says that it writes. */
static void test_misused(void **state) {
  (void)state;
  check_refused("graph \"net\" (%x: state(f32[4])) { %y = softmax(%x) return %y }",
                "is read by others than the one node");
  check_refused("graph \"net\" (%x: state(f32[4])) { return %x }", "is read by others");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_bad_tables),
                                     cmocka_unit_test(test_misused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
