/* The timing cache: what is written can be read, texts merge by standing one after the other, and wrong ones are refused whole. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/timing_cache.h"

static tercel_timing_cache *make(const char *text) {
  tercel_error err = {0};
  tercel_timing_cache *cache = NULL;
  assert_ok(tercel_timing_cache_create(&cache, &err), &err);
  assert_ok(tercel_timing_cache_read(cache, text, strlen(text), "test", &err), &err);
  return cache;
}

static void assert_prints(const tercel_timing_cache *cache, const char *want) {
  tercel_error err = {0};
  tercel_text text = {0};
  assert_ok(tercel_timing_cache_print(cache, &text, &err), &err);
  const char *const lines = strchr(text.data, '\n') + 1; /* behind the line that explains */
  assert_int_equal(text.data[0], '#');
  assert_string_equal(lines, want);
  tercel_text_deinit(&text);
}

static void test_sorted(void **state) {
  (void)state;
  tercel_timing_cache *const cache = make("m\tb\ty\t2\n\n# a comment\nm\ta\tx\t1.5\r\nm\tb\tx\t0.0004\nk\tz\tx\t1e3");
  assert_int_equal(tercel_timing_cache_count(cache), 4);
  assert_prints(cache, "k\tz\tx\t1000.000\nm\ta\tx\t1.500\nm\tb\tx\t0.001\nm\tb\ty\t2.000\n");
  tercel_timing_cache_destroy(cache);
}

static void test_last_counts(void **state) {
  (void)state;
  tercel_error err = {0};
  int64_t ns = 0;
  tercel_timing_cache *const cache = make("m\ta\tx\t1\nm\ta\tx\t2\n");
  assert_true(tercel_timing_cache_get(cache, "m", "a", "x", &ns));
  assert_int_equal(ns, 2000);
  assert_false(tercel_timing_cache_get(cache, "m", "a", "y", &ns));
  assert_false(tercel_timing_cache_get(cache, "m\ta", "", "x", &ns));
  assert_ok(tercel_timing_cache_set(cache, "m", "a", "x", -7, &err), &err); /* no time is less than one nanosecond */
  assert_true(tercel_timing_cache_get(cache, "m", "a", "x", &ns));
  assert_int_equal(ns, 1);
  tercel_timing_cache_destroy(cache);
}

static void test_files(void **state) {
  (void)state;
  tercel_error err = {0};
  char path[] = "/tmp/tercel-times-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  tercel_timing_cache *const cache = make("m\ta\tx\t1\n"), *const again = make("");
  assert_ok(tercel_timing_cache_save(cache, path, &err), &err);
  assert_ok(tercel_timing_cache_load(again, path, false, &err), &err);
  assert_prints(again, "m\ta\tx\t1.000\n");
  assert_int_equal(unlink(path), 0);
  assert_ok(tercel_timing_cache_load(again, path, true, &err), &err);
  assert_fails(tercel_timing_cache_load(again, path, false, &err), TERCEL_IO, &err, "tercel-times");
  tercel_timing_cache_destroy(cache);
  tercel_timing_cache_destroy(again);
}

static void test_wrong(void **state) {
  (void)state;
  static const char *const texts[] = {
      "m\ta\tx",     "m\ta\tx\t",    "m\ta\tx\t1\t2",  "m\t\tx\t1",           "\ta\tx\t1",       "m\ta\tx\t0",
      "m\ta\tx\t-1", "m\ta\tx\tnan", "m\ta\tx\tinf",   "m\ta\tx\t1e99",       "m\ta\tx\t1 ",     "m\ta\tx\t1us",
      "m a x 1",     "\x01",         "m\ta\x02\tx\t1", "m\ta\tx\t1\n\ttrash", "m\ta\tx\t1e9999",
  };
  tercel_timing_cache *const cache = make("m\ta\tx\t5\n");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    tercel_error err = {0};
    assert_fails(tercel_timing_cache_read(cache, texts[i], strlen(texts[i]), "bad.txt", &err), TERCEL_INVALID_ARGUMENT,
                 &err, "timing cache 'bad.txt', line ");
  }
  tercel_error err = {0};
  assert_fails(tercel_timing_cache_read(cache, "m\ta\0b\tx\t1", 9, "zero", &err), TERCEL_INVALID_ARGUMENT, &err,
               "zero");
  assert_prints(cache, "m\ta\tx\t5.000\n"); /* nothing of them counts */
  tercel_timing_cache_destroy(cache);
}

/* Any bytes: no crash, and what was taken can be written and read again. */
static void test_any_bytes(void **state) {
  (void)state;
  tercel_test_random random = tercel_test_random_start(1);
  for (int round = 0; round < 2000; ++round) {
    static const char alphabet[] = "ma\tx1.5e-\n\r#\t\t\n0";
    char text[64];
    tercel_error err = {0};
    tercel_timing_cache *const cache = make("");
    const size_t length = (size_t)tercel_test_random_int(&random, 0, sizeof text - 1);
    for (size_t i = 0; i < length; ++i)
      text[i] = alphabet[tercel_test_random_int(&random, 0, (int64_t)sizeof alphabet - 2)];
    if (tercel_timing_cache_read(cache, text, length, "random", &err) == TERCEL_OK) {
      tercel_text out = {0};
      assert_ok(tercel_timing_cache_print(cache, &out, &err), &err);
      tercel_timing_cache *const again = make(out.data);
      assert_int_equal(tercel_timing_cache_count(again), tercel_timing_cache_count(cache));
      tercel_timing_cache_destroy(again);
      tercel_text_deinit(&out);
    }
    tercel_timing_cache_destroy(cache);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sorted), cmocka_unit_test(test_last_counts), cmocka_unit_test(test_files),
      cmocka_unit_test(test_wrong),  cmocka_unit_test(test_any_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
