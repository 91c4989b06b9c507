/* Dims: random expressions keep their value when symbols get numbers; equal ones have one id; text reads back. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "ir/ir.h"

enum { NUM_SYMBOLS = 3 };
static const char *const symbols[NUM_SYMBOLS] = {"a", "b", "c"};

typedef struct fixture {
  tercel_arena arena;
  tercel_dims dims;
} fixture;

static void start(fixture *f) {
  *f = (fixture){0};
  tercel_dims_init(&f->dims, &f->arena);
}

static void stop(fixture *f) {
  tercel_dims_deinit(&f->dims);
  tercel_arena_deinit(&f->arena);
}

static tercel_dim parse(fixture *f, const char *text) {
  tercel_dim dim = 0;
  const char *at = text, *end = text + strlen(text);
  assert_true(tercel_dim_parse(&f->dims, &at, end, &dim));
  assert_ptr_equal(at, end);
  return dim;
}

static void assert_prints(const fixture *f, tercel_dim dim, const char *want) {
  tercel_text text = {0};
  tercel_dim_print(&f->dims, dim, &text);
  assert_string_equal(text.data, want);
  tercel_text_deinit(&text);
}

static bool value_of(void *user, const char *symbol, int64_t *out) {
  for (int i = 0; i < NUM_SYMBOLS; i++)
    if (strcmp(symbol, symbols[i]) == 0) *out = ((const int64_t *)user)[i];
  return true;
}

static int64_t value_at(fixture *f, tercel_dim dim, const int64_t *values) {
  int64_t number = 0;
  const tercel_dim result = tercel_dim_translate(&f->dims, dim, &f->dims, value_of, (void *)(uintptr_t)values);
  assert_true(tercel_dim_get_number(&f->dims, result, &number));
  return number;
}

/* ---- random expressions ---- */

/* A dim and its value for given symbols, built side by side. */
typedef struct pair {
  tercel_dim dim;
  int64_t value;
} pair;

static int64_t floor_of(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static pair combine(fixture *f, tercel_test_random *random, pair x, pair y) {
  tercel_dims *const d = &f->dims;
  switch (tercel_test_random_int(random, 0, 7)) {
  case 0: return (pair){tercel_dim_add(d, x.dim, y.dim), x.value + y.value};
  case 1: return (pair){tercel_dim_sub(d, x.dim, y.dim), x.value - y.value};
  case 2: return (pair){tercel_dim_mul(d, x.dim, y.dim), x.value * y.value};
  case 3: return (pair){tercel_dim_min(d, x.dim, y.dim), tercel_min_i64(x.value, y.value)};
  case 4: return (pair){tercel_dim_max(d, x.dim, y.dim), tercel_max_i64(x.value, y.value)};
  default: break;
  }
  const int64_t n = tercel_test_random_int(random, 1, 6);
  const pair by = y.value != 0 && tercel_test_random_int(random, 0, 3) == 0 ? y : (pair){n, n};
  switch (tercel_test_random_int(random, 0, 2)) {
  case 0: return (pair){tercel_dim_floor_div(d, x.dim, by.dim), floor_of(x.value, by.value)};
  case 1: return (pair){tercel_dim_ceil_div(d, x.dim, by.dim), -floor_of(-x.value, by.value)};
  default: return (pair){tercel_dim_mod(d, x.dim, by.dim), x.value - by.value * floor_of(x.value, by.value)};
  }
}

static pair grow(fixture *f, tercel_test_random *random, const int64_t *values, int depth) {
  if (depth == 0 || tercel_test_random_int(random, 0, 5) == 0) {
    const int64_t i = tercel_test_random_int(random, 0, NUM_SYMBOLS);
    if (i < NUM_SYMBOLS) return (pair){tercel_dim_symbol(&f->dims, symbols[i]), values[i]};
    const int64_t n = tercel_test_random_int(random, -5, 9);
    return (pair){tercel_dim_constant(&f->dims, n), n};
  }
  const pair x = grow(f, random, values, depth - 1), y = grow(f, random, values, depth - 1);
  return combine(f, random, x, y);
}

/* Beyond the limits an expression is a fresh unknown, and has no value. */
static bool has_unknown(const fixture *f, tercel_dim dim) {
  tercel_text text = {0};
  tercel_dim_print(&f->dims, dim, &text);
  const bool found = strchr(text.data, '?') != NULL;
  tercel_text_deinit(&text);
  return found;
}

static void test_random_expressions(void **state) {
  (void)state;
  int evaluated = 0;
  for (uint64_t round = 0; round < 3000; round++) {
    fixture f;
    start(&f);
    tercel_test_random random = tercel_test_random_start(round);
    int64_t values[NUM_SYMBOLS];
    for (int i = 0; i < NUM_SYMBOLS; i++) values[i] = tercel_test_random_int(&random, 1, 7);
    const pair p = grow(&f, &random, values, 4);
    if (!f.dims.overflow && !has_unknown(&f, p.dim)) {
      assert_int_equal(value_at(&f, p.dim, values), p.value);
      /* text reads back to the same dim, and in an empty table to one that prints the same */
      tercel_text text = {0};
      tercel_dim_print(&f.dims, p.dim, &text);
      assert_int_equal(parse(&f, text.data), p.dim);
      fixture other;
      start(&other);
      assert_prints(&other, parse(&other, text.data), text.data);
      assert_prints(&other, tercel_dim_translate(&f.dims, p.dim, &other.dims, NULL, NULL), text.data);
      stop(&other);
      tercel_text_deinit(&text);
      evaluated++;
    }
    stop(&f);
  }
  assert_true(evaluated > 2000);
}

/* ---- normal form ---- */

static void test_equal_dims_have_one_id(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"h + w", "w + h"},
      {"2*h - h", "h"},
      {"h - h", "0"},
      {"floor_div(2*h + 4, 2)", "h + 2"},
      {"floor_div(2*h + 1, 2)", "h"},
      {"floor_div(h - 1, 2) + 1", "floor_div(h + 1, 2)"},
      {"floor_div(floor_div(h + 1, 2) + 1, 2)", "floor_div(h + 3, 4)"},
      {"floor_div(4*h + 2, 6)", "floor_div(2*h + 1, 3)"},
      {"floor_div(batch*seq*12, batch*seq)", "12"},
      {"floor_div(batch*seq*768, 64*batch)", "12*seq"},
      {"floor_div(b*h*w + b*h, h*w + h)", "b"},
      {"floor_div(-h, -2)", "floor_div(h, 2)"},
      {"max(h, h)", "h"},
      {"max(h, 0)", "h"},
      {"max(h + 1, h)", "h + 1"},
      {"min(h + 1, 1)", "1"},
      {"min(h, w)", "min(w, h)"},
      {"max(max(h, w), w)", "max(h, w)"},
      {"max(h, min(h, 512))", "h"},
      {"min(max(w, h), h)", "h"},
      {"min(9223372036854775807, h)", "min(h, 9223372036854775807)"},
  };
  fixture f;
  start(&f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (parse(&f, cases[i][0]) != parse(&f, cases[i][1])) fail_msg("%s is not %s", cases[i][0], cases[i][1]);
  assert_int_equal(tercel_dim_sub(&f.dims, parse(&f, "h"), tercel_dim_mod(&f.dims, parse(&f, "h"), 8)),
                   tercel_dim_mul(&f.dims, 8, tercel_dim_floor_div(&f.dims, parse(&f, "h"), 8)));
  tercel_error err = {0};
  assert_ok(tercel_dims_check(&f.dims, &err), &err);
  stop(&f);
}

static void test_unknowns(void **state) {
  (void)state;
  fixture f;
  start(&f);
  const tercel_dim seven = parse(&f, "?7"), a = tercel_dim_unknown(&f.dims), b = tercel_dim_unknown(&f.dims);
  assert_int_equal(parse(&f, "?7"), seven);
  assert_true(a != b && a != seven && b != seven);
  assert_int_equal(tercel_dim_sub(&f.dims, a, a), 0);
  stop(&f);
}

static void test_which_says_more(void **state) {
  (void)state;
  tercel_arena arena = {0};
  tercel_dims dims;
  tercel_dims_init(&dims, &arena);
  const tercel_dim n = tercel_dim_symbol(&dims, "n"), m = tercel_dim_symbol(&dims, "m"), x = tercel_dim_unknown(&dims),
                   y = tercel_dim_unknown(&dims), sum = tercel_dim_add(&dims, n, x), both = tercel_dim_mul(&dims, x, y),
                   larger = tercel_dim_max(&dims, n, m);
  /* from more to less */
  const tercel_dim ranks[] = {3, n, larger, x, sum, both};
  const size_t count = sizeof ranks / sizeof *ranks;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < count; k++)
      assert_true(tercel_dim_better(&dims, ranks[i], ranks[k]) == ranks[i < k ? i : k]);
  assert_true(tercel_dim_better(&dims, m, n) == m && tercel_dim_better(&dims, n, m) == n);
  assert_int_equal(tercel_dim_count_unknowns(&dims, 3), 0);
  assert_int_equal(tercel_dim_count_unknowns(&dims, larger), 0);
  assert_int_equal(tercel_dim_count_unknowns(&dims, tercel_dim_floor_div(&dims, both, sum)), 3);
  tercel_dims_deinit(&dims);
  tercel_arena_deinit(&arena);
}

static void test_numbers_leave_the_table_alone(void **state) {
  (void)state;
  fixture f;
  start(&f);
  tercel_dim out;
  assert_int_equal(tercel_dim_add(&f.dims, 2, 3), 5);
  assert_int_equal(tercel_dim_sub(&f.dims, 3, 2), 1);
  assert_int_equal(tercel_dim_mul(&f.dims, 3, 2), 6);
  assert_int_equal(tercel_dim_floor_div(&f.dims, 7, 2), 3);
  assert_int_equal(tercel_dim_ceil_div(&f.dims, 7, 2), 4);
  assert_int_equal(tercel_dim_mod(&f.dims, 7, 4), 3);
  assert_int_equal(tercel_dim_floor_div(&f.dims, 7, 0), 0);
  assert_int_equal(tercel_dim_mod(&f.dims, 7, 0), 0);
  assert_true(tercel_dim_broadcast(&f.dims, 1, 5, &out) && out == 5);
  assert_true(tercel_dim_broadcast(&f.dims, 0, 1, &out) && out == 0);
  assert_false(tercel_dim_broadcast(&f.dims, 2, 5, &out));
  assert_int_equal(f.dims.count, 0);
  assert_int_equal(f.arena.used_bytes, 0);
  stop(&f);
}

static void test_broadcast_of_symbols(void **state) {
  (void)state;
  fixture f;
  start(&f);
  tercel_dim out;
  const tercel_dim a = parse(&f, "a"), b = parse(&f, "b");
  assert_true(tercel_dim_broadcast(&f.dims, a, 1, &out) && out == a);
  assert_true(tercel_dim_broadcast(&f.dims, a, a, &out) && out == a);
  assert_true(tercel_dim_broadcast(&f.dims, 4, a, &out) && out == 4);
  assert_true(tercel_dim_broadcast(&f.dims, a, b, &out));
  assert_prints(&f, out, "max(a, b)");
  stop(&f);
}

static void test_overflow_is_noticed(void **state) {
  (void)state;
  fixture f;
  tercel_error err = {0};
  start(&f);
  tercel_dim_mul(&f.dims, INT64_MAX, 2);
  assert_fails(tercel_dims_check(&f.dims, &err), TERCEL_INVALID_MODEL, &err, "too large");
  tercel_dim_mul(&f.dims, parse(&f, "4000000000*h"), 4000000000);
  assert_fails(tercel_dims_check(&f.dims, &err), TERCEL_INVALID_MODEL, &err, "too large");
  tercel_dim_add(&f.dims, INT64_MAX, 1);
  assert_fails(tercel_dims_check(&f.dims, &err), TERCEL_INVALID_MODEL, &err, "too large");
  /* the ends of slices reach as far as numbers do: no overflow */
  assert_int_equal(tercel_dim_max(&f.dims, parse(&f, "h"), tercel_dim_constant(&f.dims, INT64_MIN)), parse(&f, "h"));
  assert_ok(tercel_dims_check(&f.dims, &err), &err);
  stop(&f);
}

/* Hostile expressions: sums and trees that double in size with each step end in an unknown. */
static void test_size_is_bounded(void **state) {
  (void)state;
  fixture f;
  start(&f);
  tercel_dim sum = 0, tree = parse(&f, "h");
  for (int i = 0; i < 100; i++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    sum = tercel_dim_add(&f.dims, sum, tercel_dim_symbol(&f.dims, name));
    tree =
        tercel_dim_floor_div(&f.dims, tercel_dim_add(&f.dims, tercel_dim_mul(&f.dims, tree, parse(&f, "w")), tree), 3);
  }
  tercel_text text = {0};
  tercel_dim_print(&f.dims, tree, &text);
  tercel_dim_print(&f.dims, sum, &text);
  assert_true(text.length < 10000);
  tercel_text_deinit(&text);
  stop(&f);
}

static tercel_status build(void *arg, tercel_error *err) {
  (void)arg;
  fixture f;
  start(&f);
  const tercel_dim h = tercel_dim_symbol(&f.dims, "h"), w = tercel_dim_symbol(&f.dims, "w");
  const tercel_dim sum = tercel_dim_add(&f.dims, tercel_dim_mul(&f.dims, h, w), tercel_dim_floor_div(&f.dims, h, 3));
  tercel_dim_max(&f.dims, sum, tercel_dim_unknown(&f.dims));
  const tercel_status status = tercel_dims_check(&f.dims, err);
  stop(&f);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  tercel_test_oom(build, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_expressions),
      cmocka_unit_test(test_equal_dims_have_one_id),
      cmocka_unit_test(test_unknowns),
      cmocka_unit_test(test_which_says_more),
      cmocka_unit_test(test_numbers_leave_the_table_alone),
      cmocka_unit_test(test_broadcast_of_symbols),
      cmocka_unit_test(test_overflow_is_noticed),
      cmocka_unit_test(test_size_is_bounded),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
