/* Element types: sizes, single elements, casts between every pair; tensors' shapes. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "ir/blocks.h"
#include "ir/ir.h"

static void test_names_and_sizes(void **state) {
  (void)state;
  size_t bytes = 0;
  for (int i = 0; i < TERCEL_DTYPE_COUNT; i++) {
    tercel_dtype parsed;
    const char *const name = tercel_dtype_name((tercel_dtype)i);
    assert_true(tercel_dtype_parse(name, strlen(name), &parsed));
    assert_int_equal(parsed, i);
    const bool has_bits = i != TERCEL_DTYPE_NONE && !tercel_dtype_is_block((tercel_dtype)i);
    assert_true((tercel_dtype_bits((tercel_dtype)i) != 0) == has_bits);
  }
  assert_string_equal(tercel_dtype_name((tercel_dtype)99), "none");
  assert_true(tercel_dtype_size(TERCEL_DTYPE_I4, 3, &bytes) && bytes == 2);
  assert_true(tercel_dtype_size(TERCEL_DTYPE_U2, 5, &bytes) && bytes == 2);
  assert_true(tercel_dtype_size(TERCEL_DTYPE_F32, 0, &bytes) && bytes == 0);
  assert_false(tercel_dtype_size(TERCEL_DTYPE_C128, INT64_MAX, &bytes));
  assert_false(tercel_dtype_size(TERCEL_DTYPE_F32, -1, &bytes));
  assert_false(tercel_dtype_size(TERCEL_DTYPE_NONE, 1, &bytes));
}

/* Small numbers survive in every type; neighbours in packed ones are left alone. */
static void test_elements(void **state) {
  (void)state;
  for (int i = TERCEL_DTYPE_F64; i <= TERCEL_DTYPE_BOOL; i++) {
    const tercel_dtype dtype = (tercel_dtype)i;
    if (dtype == TERCEL_DTYPE_F8E8M0) continue; /* has no 0 */
    uint8_t data[5 * 8] = {0};
    for (int64_t j = 0; j < 5; j++) tercel_element_set_i64(data, dtype, j, j % 2);
    tercel_element_set_f64(data, dtype, 2, 1);
    const int64_t want[5] = {0, 1, 1, 1, 0};
    for (int64_t j = 0; j < 5; j++) {
      assert_int_equal(tercel_element_get_i64(data, dtype, j), want[j]);
      assert_true(tercel_element_get_f64(data, dtype, j) == (double)want[j]);
    }
    tercel_element_copy(data, 4, data, 3, dtype);
    assert_int_equal(tercel_element_get_i64(data, dtype, 4), 1);
  }
}

static int64_t cast_f64(double value, tercel_dtype to) {
  uint64_t out = 0;
  tercel_element_cast(&out, to, 0, &value, TERCEL_DTYPE_F64, 0, true, 'u');
  return tercel_element_get_i64(&out, to, 0);
}

/* Out of range as numpy on x86 does. */
static void test_float_to_integer(void **state) {
  (void)state;
  assert_int_equal(cast_f64(-1.9, TERCEL_DTYPE_I32), -1);
  assert_int_equal(cast_f64(3e9, TERCEL_DTYPE_I32), INT32_MIN);
  assert_int_equal(cast_f64((double)NAN, TERCEL_DTYPE_I64), INT64_MIN);
  assert_int_equal(cast_f64(1e30, TERCEL_DTYPE_I64), INT64_MIN);
  assert_int_equal(cast_f64(300, TERCEL_DTYPE_U8), 44);
  assert_int_equal(cast_f64(-1, TERCEL_DTYPE_U8), 255);
  assert_int_equal(cast_f64(-1, TERCEL_DTYPE_U32), 4294967295);
  assert_int_equal(cast_f64(3e9, TERCEL_DTYPE_U32), 3000000000);
  assert_int_equal(cast_f64(1e19, TERCEL_DTYPE_U64), (int64_t)10000000000000000000u);
  assert_int_equal(cast_f64((double)NAN, TERCEL_DTYPE_BOOL), 1);
  assert_int_equal(cast_f64(0.25, TERCEL_DTYPE_BOOL), 1);
  assert_int_equal(cast_f64(-7.5, TERCEL_DTYPE_I4), -7);
}

static void test_integer_to_float_rounds_once(void **state) {
  (void)state;
  float out = 0;
  const int64_t odd = ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1; /* just above the middle of two f32 */
  tercel_element_cast(&out, TERCEL_DTYPE_F32, 0, &odd, TERCEL_DTYPE_I64, 0, true, 'u');
  assert_true(out == 0x1.000002p60f);
  const uint64_t large = UINT64_MAX;
  tercel_element_cast(&out, TERCEL_DTYPE_F32, 0, &large, TERCEL_DTYPE_U64, 0, true, 'u');
  assert_true(out == 0x1p64f);
}

/* 1 + 2^-4 is half way between two f8e4m3fn; a hair more must go up, which rounding to f32 first would lose. */
static void test_narrow_floats_round_once(void **state) {
  (void)state;
  uint8_t out = 0;
  const double value = 1.0625 + 0x1p-50;
  tercel_element_cast(&out, TERCEL_DTYPE_F8E4M3FN, 0, &value, TERCEL_DTYPE_F64, 0, true, 'u');
  assert_true(tercel_element_get_f64(&out, TERCEL_DTYPE_F8E4M3FN, 0) == 1.125);
  const double large = 1e300;
  tercel_element_cast(&out, TERCEL_DTYPE_F8E4M3FN, 0, &large, TERCEL_DTYPE_F64, 0, true, 'u');
  assert_true(tercel_element_get_f64(&out, TERCEL_DTYPE_F8E4M3FN, 0) == 448);
}

static void test_complex(void **state) {
  (void)state;
  const double source[2] = {0, -2};
  float c64[2] = {0};
  uint8_t b = 0;
  double real = 1;
  tercel_element_cast(c64, TERCEL_DTYPE_C64, 0, source, TERCEL_DTYPE_C128, 0, true, 'u');
  assert_true(c64[0] == 0 && c64[1] == -2);
  tercel_element_cast(&b, TERCEL_DTYPE_BOOL, 0, source, TERCEL_DTYPE_C128, 0, true, 'u');
  assert_int_equal(b, 1);
  tercel_element_cast(&real, TERCEL_DTYPE_F64, 0, source, TERCEL_DTYPE_C128, 0, true, 'u');
  assert_true(real == 0);
}

/* No pair of types reads or writes outside (ASan watches). */
static void test_every_pair(void **state) {
  (void)state;
  for (int i = 0; i < TERCEL_DTYPE_COUNT; i++)
    for (int j = 0; j < TERCEL_DTYPE_COUNT; j++) {
      tercel_string source[1] = {{0}}, target[1] = {{0}};
      tercel_element_cast(target, (tercel_dtype)i, 0, source, (tercel_dtype)j, 0, false, 'n');
    }
}

static void test_shapes(void **state) {
  (void)state;
  tercel_tensor t = {0};
  int64_t strides[TERCEL_MAX_RANK];
  assert_true(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 3, (const int64_t[]){2, 1, 3}));
  assert_int_equal(t.bytes, 24);
  tercel_tensor_strides(&t, strides);
  assert_int_equal(strides[0], 3);
  tercel_tensor_broadcast_strides(&t, 4, (const int64_t[]){5, 2, 4, 3}, strides);
  const int64_t want[4] = {0, 3, 0, 1};
  assert_memory_equal(strides, want, sizeof want);
  assert_true(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 2, (const int64_t[]){0, 3}) && t.bytes == 0);
  assert_true(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 0, NULL) && t.bytes == 4);
  assert_false(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 2, (const int64_t[]){INT64_MAX, 2}));
  assert_false(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 3, (const int64_t[]){INT64_MAX, 2, 0}));
  assert_false(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 1, (const int64_t[]){-1}));
  assert_false(tercel_tensor_set_shape(&t, TERCEL_DTYPE_F32, 9, (const int64_t[9]){1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_and_sizes),
      cmocka_unit_test(test_elements),
      cmocka_unit_test(test_float_to_integer),
      cmocka_unit_test(test_integer_to_float_rounds_once),
      cmocka_unit_test(test_narrow_floats_round_once),
      cmocka_unit_test(test_complex),
      cmocka_unit_test(test_every_pair),
      cmocka_unit_test(test_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
