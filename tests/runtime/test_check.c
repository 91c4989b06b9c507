/* Checks of the importer's fixtures (tests/import/onnx): they agree with loading, and hold all that is wrong at once. */
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define FIXTURES TERCEL_TEST_SOURCE_DIR "/import/onnx/"

static size_t count_level(const tercel_check *check, tercel_check_level level) {
  tercel_check_row row;
  size_t count = 0;
  for (size_t i = 0; tercel_check_get_row(check, i, &row); i++) count += row.level == level;
  return count;
}

static void check_texts(const tercel_check *check) {
  tercel_check_row row;
  tercel_check_level last = TERCEL_CHECK_ERROR;
  for (size_t i = 0; tercel_check_get_row(check, i, &row); i++) {
    assert_true(row.level <= last);
    assert_non_null(row.kind);
    assert_non_null(row.op);
    assert_non_null(row.node);
    assert_true(row.message[0] && !strchr(row.message, '\n'));
    assert_non_null(row.advice);
    last = row.level;
  }
}

/* A check's verdict is what an engine says, or the run that it can't foresee. */
static void check_file(const char *path) {
  tercel_model *model = NULL;
  tercel_engine *engine = NULL;
  tercel_check *check = NULL;
  tercel_error err = {0};
  tercel_status want = tercel_model_load(path, NULL, &model, &err);
  if (want == TERCEL_OK) want = tercel_engine_build(model, NULL, &engine, &err);
  tercel_error check_err = {0};
  assert_ok(tercel_model_check(path, NULL, &check, &check_err), &check_err);
  if (tercel_check_get_status(check) != want)
    fail_msg("%s: the check says %s, loading %s (%s)", path, tercel_status_name(tercel_check_get_status(check)),
             tercel_status_name(want), err.message);
  assert_int_equal(count_level(check, TERCEL_CHECK_ERROR) == 0, want == TERCEL_OK);
  check_texts(check);
  tercel_check_destroy(check);
  tercel_engine_destroy(engine);
  tercel_model_destroy(model);
}

static void check_folder(const char *folder) {
  DIR *const files = opendir(folder);
  assert_non_null(files);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(files)) != NULL;) {
    char path[512];
    const size_t length = strlen(entry->d_name);
    if (length < 6 || strcmp(entry->d_name + length - 5, ".onnx") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    check_file(path);
    count++;
  }
  closedir(files);
  assert_true(count > 25);
}

static void test_agrees_with_loading(void **state) {
  (void)state;
  const size_t before = tercel_alloc_live_bytes();
  check_folder(FIXTURES "good");
  check_folder(FIXTURES "bad");
  assert_int_equal(tercel_alloc_live_bytes(), before);
}

static void test_all_at_once(void **state) {
  (void)state;
  tercel_check *check = NULL;
  tercel_check_row row;
  tercel_error err = {0};
  assert_ok(tercel_model_check(FIXTURES "bad/many_unsupported.onnx", NULL, &check, &err), &err);
  assert_int_equal(count_level(check, TERCEL_CHECK_ERROR), 3);
  assert_int_equal(tercel_check_get_status(check), TERCEL_UNSUPPORTED);
  assert_int_equal(tercel_check_get_row(check, 0, &row), 1);
  assert_string_equal(row.kind, "operator");
  assert_string_equal(row.op, "Wobble");
  assert_string_equal(row.node, "first");
  assert_non_null(strstr(row.message, "ai.onnx 17"));
  assert_non_null(strstr(row.advice, "--plugin"));
  assert_int_equal(tercel_check_get_row(check, 2, &row), 1);
  assert_string_equal(row.kind, "attribute");
  assert_int_equal(tercel_check_get_row(check, 1000, &row), 0);
  tercel_check_destroy(check);
}

static void test_no_file(void **state) {
  (void)state;
  tercel_check *check = NULL;
  tercel_error err = {0};
  assert_fails(tercel_model_check(FIXTURES "none.onnx", NULL, &check, &err), TERCEL_IO, &err, "none.onnx");
  assert_null(check);
}

static void test_kinds(void **state) {
  (void)state;
  const char *what = NULL;
  size_t count = 0;
  while (tercel_check_kind(count, &what)) {
    assert_true(what[0]);
    count++;
  }
  assert_true(count > 10);
}

static tercel_status check_once(void *path, tercel_error *err) {
  tercel_check *check = NULL;
  const tercel_status status = tercel_model_check(path, NULL, &check, err);
  const tercel_status verdict = status == TERCEL_OK ? tercel_check_get_status(check) : status;
  tercel_check_destroy(check);
  return verdict == TERCEL_OUT_OF_MEMORY ? verdict : status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  static const char *const files[] = {"good/functions", "good/if_captures", "bad/many_unsupported"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[512];
    snprintf(path, sizeof path, FIXTURES "%s.onnx", files[i]);
    assert_true(tercel_test_oom(check_once, path, 3000) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_agrees_with_loading),
      cmocka_unit_test(test_all_at_once),
      cmocka_unit_test(test_no_file),
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
