/* base/alloc.h: alignment, exact counting, the hook, arenas and their limit. */
#include "support/support.h"

#include <string.h>

#include "base/base.h"

static bool is_aligned(const void *p, size_t alignment) { return ((uintptr_t)p & (alignment - 1)) == 0; }

static void test_blocks_are_aligned_and_counted(void **state) {
  (void)state;
  const size_t before = tercel_alloc_live_bytes();
  tercel_alloc_reset_peak();
  void *blocks[200];
  size_t sum = 0;
  for (size_t i = 0; i < 200; i++) {
    blocks[i] = tercel_alloc(i + 1);
    assert_non_null(blocks[i]);
    assert_true(is_aligned(blocks[i], TERCEL_ALIGNMENT));
    memset(blocks[i], 0xff, i + 1);
    sum += i + 1;
  }
  assert_int_equal(tercel_alloc_live_bytes() - before, sum);
  for (size_t i = 0; i < 200; i++) tercel_free(blocks[i]);
  assert_int_equal(tercel_alloc_live_bytes(), before);
  assert_int_equal(tercel_alloc_peak_bytes() - before, sum);
  tercel_alloc_reset_peak();
  assert_int_equal(tercel_alloc_peak_bytes(), before);
}

static void test_edges(void **state) {
  (void)state;
  assert_null(tercel_alloc(0));
  assert_null(tercel_alloc(SIZE_MAX));
  assert_null(tercel_alloc_array(SIZE_MAX / 2, 3));
  assert_null(tercel_zalloc_array(SIZE_MAX, SIZE_MAX));
  tercel_free(NULL);
  unsigned char *zero = tercel_zalloc(1 << 20);
  for (size_t i = 0; i < 1 << 20; i++) assert_int_equal(zero[i], 0);
  tercel_free(zero);
}

static void test_realloc_keeps_the_old_block_on_failure(void **state) {
  (void)state;
  char *block = tercel_alloc(6);
  memcpy(block, "hello", 6);
  assert_null(tercel_realloc(block, 6, SIZE_MAX));
  assert_string_equal(block, "hello");
  block = tercel_realloc(block, 6, 1000);
  assert_string_equal(block, "hello");
  block = tercel_realloc(block, 1000, 3);
  assert_memory_equal(block, "hel", 3);
  tercel_free(block);
}

static bool refuse_large(size_t bytes, void *user) {
  ++*(int *)user;
  return bytes < 100;
}

static void test_hook(void **state) {
  (void)state;
  int calls = 0;
  tercel_alloc_set_hook(refuse_large, &calls);
  void *const small = tercel_alloc(99), *const large = tercel_alloc(100);
  char *const copy = tercel_strdup("text");
  tercel_alloc_set_hook(NULL, NULL);
  assert_non_null(small);
  assert_null(large);
  assert_string_equal(copy, "text");
  assert_int_equal(calls, 3);
  tercel_free(small);
  tercel_free(copy);
}

static void test_arena(void **state) {
  (void)state;
  const size_t before = tercel_alloc_live_bytes();
  tercel_arena arena = {0};
  for (size_t bytes = 0; bytes < 3000; bytes += 7) {
    unsigned char *const data = tercel_arena_alloc(&arena, bytes);
    assert_non_null(data);
    assert_true(is_aligned(data, bytes >= 64 ? 64 : 16));
    for (size_t i = 0; i < bytes; i++) assert_int_equal(data[i], 0);
    memset(data, 0xee, bytes);
  }
  unsigned char *const big = tercel_arena_alloc(&arena, 10 << 20);
  assert_non_null(big);
  assert_int_equal(big[(10 << 20) - 1], 0);
  assert_ptr_not_equal(tercel_arena_alloc(&arena, 0), tercel_arena_alloc(&arena, 0));
  assert_string_equal(tercel_arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
  assert_string_equal(tercel_arena_strndup(&arena, "abcdef", 3), "abc");
  assert_string_equal(tercel_arena_strdup(&arena, ""), "");
  assert_memory_equal(tercel_arena_copy(&arena, "xyz", 3), "xyz", 3);
  assert_null(tercel_arena_alloc_array(&arena, SIZE_MAX / 4, 8));
  assert_null(tercel_arena_alloc(&arena, SIZE_MAX));
  tercel_arena_deinit(&arena);
  assert_int_equal(tercel_alloc_live_bytes(), before);
}

static void test_arena_reset_clears_and_keeps_one_block(void **state) {
  (void)state;
  tercel_arena arena = {0};
  for (int i = 0; i < 100; i++) memset(tercel_arena_alloc(&arena, 1000), 1, 1000);
  tercel_arena_reset(&arena);
  assert_int_equal(arena.used_bytes, 0);
  const size_t kept = tercel_alloc_live_bytes();
  const unsigned char *const data = tercel_arena_alloc(&arena, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(data[i], 0);
  assert_int_equal(tercel_alloc_live_bytes(), kept);
  tercel_arena_deinit(&arena);
}

static void test_arena_limit(void **state) {
  (void)state;
  const size_t before = tercel_alloc_live_bytes();
  tercel_arena arena = {.max_bytes = 100000};
  size_t got = 0;
  while (tercel_arena_alloc(&arena, 1000)) got += 1000;
  assert_true(got > 90000 && got <= 100000);
  assert_true(tercel_alloc_live_bytes() - before <= 100000);
  assert_null(tercel_arena_alloc(&arena, 50000));
  tercel_arena_deinit(&arena);
  assert_int_equal(arena.max_bytes, 100000);
}

static void test_checked_arithmetic(void **state) {
  (void)state;
  size_t size = 5;
  int64_t wide = 5;
  assert_false(tercel_add_size(SIZE_MAX, 1, &size));
  assert_false(tercel_mul_size(SIZE_MAX, 2, &size));
  assert_false(tercel_round_up_size(SIZE_MAX - 3, 64, &size));
  assert_int_equal(size, 5);
  assert_true(tercel_round_up_size(65, 64, &size));
  assert_int_equal(size, 128);
  assert_false(tercel_add_i64(INT64_MAX, 1, &wide));
  assert_false(tercel_sub_i64(INT64_MIN, 1, &wide));
  assert_false(tercel_mul_i64(INT64_MIN, -1, &wide));
  assert_int_equal(wide, 5);
  assert_int_equal(tercel_floor_div(-7, 2), -4);
  assert_int_equal(tercel_ceil_div(-7, 2), -3);
  assert_int_equal(tercel_ceil_div(7, 2), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_blocks_are_aligned_and_counted),
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_realloc_keeps_the_old_block_on_failure),
      cmocka_unit_test(test_hook),
      cmocka_unit_test(test_arena),
      cmocka_unit_test(test_arena_reset_clears_and_keeps_one_block),
      cmocka_unit_test(test_arena_limit),
      cmocka_unit_test(test_checked_arithmetic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
