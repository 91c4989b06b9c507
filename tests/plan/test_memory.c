/* The memory plan: no two blocks that live at one step overlap, and not more memory than it must. */
#include "support/support.h"

#include <string.h>

#include "plan/plan.h"

static size_t plan(tercel_block *blocks, size_t count) {
  tercel_arena scratch = {0};
  tercel_error err = {0};
  size_t extent = 0;
  assert_ok(tercel_plan_memory(blocks, count, SIZE_MAX, &scratch, &extent, &err), &err);
  tercel_arena_deinit(&scratch);
  return extent;
}

static bool live_together(const tercel_block *a, const tercel_block *b) {
  return a->first <= b->last && b->first <= a->last;
}

static void check(const tercel_block *blocks, size_t count, size_t extent) {
  for (size_t i = 0; i < count; ++i) {
    assert_true(blocks[i].placed);
    assert_int_equal(blocks[i].offset % TERCEL_ALIGNMENT, 0);
    assert_true(blocks[i].offset + blocks[i].bytes <= extent);
    for (size_t j = 0; j < i; ++j) {
      if (!live_together(&blocks[i], &blocks[j])) continue;
      assert_true(blocks[i].offset + blocks[i].bytes <= blocks[j].offset ||
                  blocks[j].offset + blocks[j].bytes <= blocks[i].offset);
    }
  }
}

/* Bytes of the largest set that lives at one step, each rounded up as the plan must. */
static size_t lower_bound(const tercel_block *blocks, size_t count, uint32_t steps) {
  size_t most = 0;
  for (uint32_t s = 0; s < steps; ++s) {
    size_t sum = 0;
    for (size_t i = 0; i < count; ++i)
      if (blocks[i].first <= s && s <= blocks[i].last) sum += (blocks[i].bytes + 63) / 64 * 64;
    if (sum > most) most = sum;
  }
  return most;
}

static void test_nothing(void **state) {
  (void)state;
  assert_int_equal(plan(NULL, 0), 0);
}

static void test_a_chain_takes_two(void **state) {
  (void)state;
  tercel_block blocks[8];
  for (uint32_t i = 0; i < 8; ++i) blocks[i] = (tercel_block){.bytes = 100, .first = i, .last = i + 1};
  const size_t extent = plan(blocks, 8);
  check(blocks, 8, extent);
  assert_int_equal(extent, 128 + 100);
}

static void test_placed_blocks_stay(void **state) {
  (void)state;
  tercel_block blocks[3] = {{.bytes = 64, .offset = 128, .first = 0, .last = TERCEL_NO_STEP, .placed = true},
                            {.bytes = 128, .first = 3, .last = 4},
                            {.bytes = 192, .first = 5, .last = 6}};
  const size_t extent = plan(blocks, 3);
  check(blocks, 3, extent);
  assert_int_equal(blocks[0].offset, 128);
  assert_int_equal(blocks[1].offset, 0);
  assert_int_equal(blocks[2].offset, 192);
}

static void test_random(void **state) {
  (void)state;
  enum { MOST = 80, STEPS = 40 };
  for (uint64_t round = 0; round < 300; ++round) {
    tercel_test_random random = tercel_test_random_start(round);
    tercel_block blocks[MOST];
    const size_t count = (size_t)tercel_test_random_int(&random, 1, MOST);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t first = (uint32_t)tercel_test_random_int(&random, 0, STEPS - 1);
      blocks[i] = (tercel_block){.bytes = (size_t)tercel_test_random_int(&random, 0, 5000),
                                 .first = first,
                                 .last = (uint32_t)tercel_test_random_int(&random, first, STEPS - 1)};
      if (tercel_test_random_int(&random, 0, 9) == 0) blocks[i].last = TERCEL_NO_STEP;
    }
    const size_t extent = plan(blocks, count);
    check(blocks, count, extent);
    assert_true(extent <= 2 * lower_bound(blocks, count, STEPS));
  }
}

static void test_too_large(void **state) {
  (void)state;
  tercel_block blocks[2] = {{.bytes = SIZE_MAX / 2 + 1, .last = 1}, {.bytes = SIZE_MAX / 2 + 1, .last = 1}};
  tercel_arena scratch = {0};
  tercel_error err = {0};
  size_t extent = 0;
  assert_fails(tercel_plan_memory(blocks, 2, SIZE_MAX, &scratch, &extent, &err), TERCEL_OUT_OF_MEMORY, &err,
               "too large");
  tercel_arena_deinit(&scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing), cmocka_unit_test(test_a_chain_takes_two),
                                     cmocka_unit_test(test_placed_blocks_stay), cmocka_unit_test(test_random),
                                     cmocka_unit_test(test_too_large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
