/* base/random.h: Philox against the known answers of its authors' Random123 (kat_vectors); keys differ. */
#include "support/support.h"

#include "base/random.h"

static void test_philox(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], want[4];
  } known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    uint32_t out[4];
    tercel_philox(known[i].key, known[i].counter, out);
    assert_memory_equal(out, known[i].want, sizeof out);
  }
}

static void test_keys(void **state) {
  (void)state;
  assert_true(tercel_random_key() != tercel_random_key());
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_philox), cmocka_unit_test(test_keys)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
