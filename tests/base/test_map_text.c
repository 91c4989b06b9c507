/* base/map.h and base/text.h. */
#include "support/support.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { NUM_KEYS = 5000 };

/* Random sets and removals, with an array as the truth. */
static void test_map_against_an_array(void **state) {
  (void)state;
  static uintptr_t truth[NUM_KEYS];
  tercel_test_random random = tercel_test_random_start(2);
  tercel_map map = {0};
  tercel_error err = {0};
  size_t count = 0;
  for (int step = 0; step < 100000; step++) {
    const size_t k = (size_t)tercel_test_random_int(&random, 0, NUM_KEYS - 1);
    char key[32];
    snprintf(key, sizeof key, "key-%zu", k);
    bool found = false;
    assert_ptr_equal(tercel_map_get(&map, key, &found), (void *)truth[k]);
    assert_int_equal(found, truth[k] != 0);
    if (tercel_test_random_int(&random, 0, 2) == 0) {
      assert_int_equal(tercel_map_remove(&map, key), truth[k] != 0);
      count -= truth[k] != 0;
      truth[k] = 0;
    } else {
      count += truth[k] == 0;
      truth[k] = (uintptr_t)step + 1;
      assert_ok(tercel_map_set(&map, key, (void *)truth[k], &err), &err);
    }
    assert_int_equal(map.count, count);
  }
  size_t cursor = 0, visited = 0, length = 0;
  const char *key = NULL;
  void *value = NULL;
  while (tercel_map_next(&map, &cursor, &key, &length, &value)) {
    assert_int_equal(strlen(key), length);
    assert_ptr_equal(value, (void *)truth[strtoul(key + 4, NULL, 10)]);
    visited++;
  }
  assert_int_equal(visited, count);
  tercel_map_clear(&map);
  assert_null(tercel_map_get(&map, "key-1", NULL));
  tercel_map_deinit(&map);
}

static void test_map_bytes_and_null(void **state) {
  (void)state;
  tercel_map map = {0};
  tercel_error err = {0};
  bool found = true;
  assert_null(tercel_map_get(&map, "x", &found));
  assert_false(found);
  assert_false(tercel_map_remove(&map, "x"));
  assert_ok(tercel_map_set_bytes(&map, "a\0b", 3, NULL, &err), &err);
  assert_ok(tercel_map_set_bytes(&map, "", 0, &map, &err), &err);
  assert_null(tercel_map_get_bytes(&map, "a\0b", 3, &found));
  assert_true(found);
  assert_null(tercel_map_get(&map, "a", &found));
  assert_false(found);
  assert_ptr_equal(tercel_map_get(&map, "", NULL), &map);
  tercel_map_deinit(&map);
}

static tercel_status fill_map(void *arg, tercel_error *err) {
  (void)arg;
  tercel_map map = {0};
  tercel_status status = TERCEL_OK;
  for (int i = 0; i < 40 && status == TERCEL_OK; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    status = tercel_map_set(&map, key, NULL, err);
  }
  tercel_map_deinit(&map);
  return status;
}

static void test_map_without_memory(void **state) {
  (void)state;
  assert_true(tercel_test_oom(fill_map, NULL, 0) > 40);
}

/* Every bit of the input moves about half the bits of the hash. */
static void test_hash_mixes(void **state) {
  (void)state;
  for (size_t length = 1; length <= 48; length++) {
    uint8_t data[48] = {0};
    const uint64_t base = tercel_hash(data, length, 7);
    assert_int_equal(base, tercel_hash(data, length, 7));
    assert_true(base != tercel_hash(data, length, 8) && base != tercel_hash(data, length - 1, 7));
    for (size_t bit = 0; bit < 8 * length; bit++) {
      data[bit / 8] ^= (uint8_t)(1 << bit % 8);
      const int moved = __builtin_popcountll(base ^ tercel_hash(data, length, 7));
      assert_in_range(moved, 10, 54);
      data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
  }
}

static void check_number(double value, const char *want) {
  tercel_text text = {0};
  tercel_text_add_f64(&text, value);
  assert_string_equal(text.data, want);
  tercel_text_deinit(&text);
}

static void check_number_f32(float value, const char *want) {
  tercel_text text = {0};
  tercel_text_add_f32(&text, value);
  assert_string_equal(text.data, want);
  tercel_text_deinit(&text);
}

static void test_numbers(void **state) {
  (void)state;
  check_number(1, "1");
  check_number(0.1, "0.1");
  check_number(-1e-5, "-1e-05");
  check_number(1.0 / 3, "0.3333333333333333");
  check_number(5e-324, "5e-324");
  check_number(1e22, "1e+22");
  check_number(-0.0, "-0");
  check_number((double)INFINITY, "inf");
  check_number((double)-INFINITY, "-inf");
  check_number((double)-NAN, "nan");
  check_number_f32(0.1f, "0.1");
  check_number_f32(16777216, "16777216");
  check_number_f32(1e-45f, "1e-45");
  check_number_f32(3.4028235e38f, "3.4028235e+38");
}

static void test_parse(void **state) {
  (void)state;
  int64_t i = 0;
  double d = 0;
  assert_true(tercel_parse_i64("-9223372036854775808", 20, &i) && i == INT64_MIN);
  assert_true(tercel_parse_i64("9223372036854775807", 19, &i) && i == INT64_MAX);
  assert_true(tercel_parse_i64("+12xyz", 3, &i) && i == 12);
  const char *const bad_integers[] = {"", "-", "9223372036854775808", "1.5", " 1", "1 ", "0x10"};
  for (size_t n = 0; n < sizeof bad_integers / sizeof *bad_integers; n++)
    assert_false(tercel_parse_i64(bad_integers[n], strlen(bad_integers[n]), &i));
  assert_true(tercel_parse_f64("1.5e3", 5, &d) && d == 1500);
  assert_true(tercel_parse_f64("-inf", 4, &d) && isinf(d) && d < 0);
  assert_true(tercel_parse_f64("5e-324", 6, &d) && d == 5e-324);
  const char *const bad_numbers[] = {"", " 1", "1 ", "1,5", "1e999", "x"};
  for (size_t n = 0; n < sizeof bad_numbers / sizeof *bad_numbers; n++)
    assert_false(tercel_parse_f64(bad_numbers[n], strlen(bad_numbers[n]), &d));
}

/* With a locale that writes 1,5: the same results. */
static void test_locale(void **state) {
  (void)state;
  const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "sv_SE.UTF-8"};
  bool set = false;
  for (size_t i = 0; i < 4 && !set; i++) set = setlocale(LC_ALL, names[i]) != NULL;
  if (!set) tercel_test_skip("no locale with a decimal comma is installed");
  tercel_text text = {0};
  double d = 0;
  tercel_text_add_f64(&text, 1.5);
  tercel_text_add(&text, " %.2f", 2.25);
  const bool parsed = tercel_parse_f64("1.5", 3, &d);
  setlocale(LC_ALL, "C");
  assert_string_equal(text.data, "1.5 2.25");
  assert_true(parsed && d == 1.5);
  tercel_text_deinit(&text);
}

static void test_json(void **state) {
  (void)state;
  tercel_text text = {0};
  const char data[] = "a\"\\\n\x01\xc3\xa9\xff\xed\xa0\x80z\xe2\x82";
  tercel_text_add_json(&text, data, sizeof data - 1);
  assert_string_equal(text.data, "\"a\\\"\\\\\\n\\u0001\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffdz\\ufffd\\ufffd\"");
  tercel_text_deinit(&text);
}

static tercel_status fill_text(void *arg, tercel_error *err) {
  (void)arg;
  tercel_text text = {0};
  for (int i = 0; i < 1000; i++) tercel_text_add(&text, "%d,", i);
  tercel_text_add_bytes(&text, "end", 3);
  const bool failed = text.failed;
  tercel_text_deinit(&text);
  return failed ? tercel_fail_memory(err, 1, "a text") : TERCEL_OK;
}

static void test_text_without_memory(void **state) {
  (void)state;
  assert_true(tercel_test_oom(fill_text, NULL, 0) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_map_against_an_array),
      cmocka_unit_test(test_map_bytes_and_null),
      cmocka_unit_test(test_map_without_memory),
      cmocka_unit_test(test_hash_mixes),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_parse),
      cmocka_unit_test(test_locale),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_text_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
