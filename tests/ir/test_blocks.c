/* Block-quantized types: sizes, shapes, and that decoding random bytes stays inside (ASan watches).  Their numbers are held against the package
 * gguf in tests/python/test_dequantize.py. */
#include "support/support.h"

#include <string.h>

#include "base/random.h"
#include "ir/blocks.h"
#include "ir/ir.h"

static void test_sizes(void **state) {
  (void)state;
  size_t bytes = 0;
  tercel_tensor t = {0};
  assert_true(tercel_dtype_size(TERCEL_DTYPE_Q4_0, 64, &bytes) && bytes == 36);
  assert_true(tercel_dtype_size(TERCEL_DTYPE_Q6_K, 512, &bytes) && bytes == 420);
  assert_false(tercel_dtype_size(TERCEL_DTYPE_Q4_0, 33, &bytes));
  assert_true(tercel_tensor_set_shape(&t, TERCEL_DTYPE_Q8_0, 2, (const int64_t[]){3, 64}) && t.bytes == 3 * 68);
  assert_true(tercel_tensor_set_shape(&t, TERCEL_DTYPE_Q8_0, 2, (const int64_t[]){3, 0}) && t.bytes == 0);
  assert_false(
      tercel_tensor_set_shape(&t, TERCEL_DTYPE_Q8_0, 2, (const int64_t[]){64, 3})); /* no row of whole blocks */
  assert_false(tercel_tensor_set_shape(&t, TERCEL_DTYPE_Q8_0, 0, NULL));
  assert_false(tercel_tensor_set_shape(&t, TERCEL_DTYPE_Q8_0, 1, (const int64_t[]){INT64_MAX / 32 * 32}));
}

static void test_decode(void **state) {
  (void)state;
  const uint8_t q4_0[18] = {0x00, 0x3c, 0x80, 0xf7}; /* scale 1: 0, -1, ...; the high halves follow 16 elements later */
  float numbers[32];
  tercel_blocks_decode(TERCEL_DTYPE_Q4_0, q4_0, 1, numbers);
  assert_true(numbers[0] == -8 && numbers[1] == -1 && numbers[16] == 0 && numbers[17] == 7 && numbers[2] == -8);
  uint32_t counter[4] = {0}, bits[4];
  for (int i = TERCEL_DTYPE_NONE; i < TERCEL_DTYPE_COUNT; i++) {
    const tercel_block_format format = tercel_dtype_block_format((tercel_dtype)i);
    if (format.elements == 0) continue;
    tercel_test_buffer data = tercel_test_buffer_create(3 * (size_t)format.bytes, 1);
    tercel_test_buffer out = tercel_test_buffer_create(3 * (size_t)format.elements * sizeof(float), 0);
    for (size_t j = 0; j < data.bytes; j++) {
      counter[0]++;
      tercel_philox((const uint32_t[]){7, 7}, counter, bits);
      data.data[j] = (uint8_t)bits[0];
    }
    tercel_blocks_decode((tercel_dtype)i, data.data, 3, (float *)(void *)out.data);
    tercel_test_buffer_destroy(&data);
    tercel_test_buffer_destroy(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_decode)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
