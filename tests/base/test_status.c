/* base/status.h and base/log.h: messages are one line, places go in front, levels and sinks work. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

static void test_names(void **state) {
  (void)state;
  assert_string_equal(tercel_status_name(TERCEL_OK), "ok");
  assert_string_equal(tercel_status_name(TERCEL_INTERNAL), "internal error");
  assert_string_equal(tercel_status_name((tercel_status)99), "unknown status");
  assert_string_equal(tercel_status_name((tercel_status)-1), "unknown status");
  assert_string_equal(tercel_version(), "0.1.0");
}

static void test_messages(void **state) {
  (void)state;
  tercel_error err = {0};
  assert_int_equal(tercel_fail(NULL, TERCEL_IO, "x"), TERCEL_IO);
  assert_int_equal(tercel_fail(&err, TERCEL_INVALID_MODEL, "rank %d, want %d", 3, 4), TERCEL_INVALID_MODEL);
  assert_int_equal(err.status, TERCEL_INVALID_MODEL);
  tercel_fail_at(&err, TERCEL_UNSUPPORTED, "node '%s'", "n");
  assert_string_equal(err.message, "node 'n': rank 3, want 4");
  assert_int_equal(err.status, TERCEL_UNSUPPORTED);
  tercel_fail(&err, TERCEL_IO, "again: %s", err.message);
  assert_string_equal(err.message, "again: node 'n': rank 3, want 4");
  tercel_fail(&err, TERCEL_IO, "a\nb\x1b[31m");
  assert_string_equal(err.message, "a b [31m");
  tercel_fail_memory(&err, 12, "a thing");
  assert_string_equal(err.message, "no memory for a thing (12 bytes)");
}

static void test_long_messages_are_cut(void **state) {
  (void)state;
  static char name[2 * TERCEL_ERROR_MESSAGE_MAX];
  tercel_error err = {0};
  memset(name, 'n', sizeof name - 1);
  tercel_fail(&err, TERCEL_IO, "%s", name);
  assert_int_equal(strlen(err.message), TERCEL_ERROR_MESSAGE_MAX - 1);
  assert_string_equal(err.message + TERCEL_ERROR_MESSAGE_MAX - 4, "...");
  tercel_fail_at(&err, TERCEL_IO, "%s", name);
  assert_int_equal(strlen(err.message), TERCEL_ERROR_MESSAGE_MAX - 1);
}

typedef struct record {
  int count;
  tercel_log_level level;
  char message[64];
} record;

static void keep(tercel_log_level level, const char *message, void *user) {
  record *const r = user;
  r->count++;
  r->level = level;
  snprintf(r->message, sizeof r->message, "%s", message);
}

static void test_log(void **state) {
  (void)state;
  record r = {0};
  tercel_log_set(TERCEL_LOG_WARNING, keep, &r);
  tercel_log(TERCEL_LOG_INFO, "not wanted");
  assert_int_equal(r.count, 0);
  assert_false(tercel_log_enabled(TERCEL_LOG_INFO));
  tercel_log(TERCEL_LOG_ERROR, "number %d", 5);
  assert_int_equal(r.count, 1);
  assert_int_equal(r.level, TERCEL_LOG_ERROR);
  assert_string_equal(r.message, "number 5");
  tercel_log_set(TERCEL_LOG_OFF, keep, &r);
  tercel_log(TERCEL_LOG_ERROR, "off");
  assert_int_equal(r.count, 1);
  assert_false(tercel_log_enabled(TERCEL_LOG_OFF));
  tercel_log_set(TERCEL_LOG_WARNING, NULL, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_long_messages_are_cut),
      cmocka_unit_test(test_log),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
