/* base/file.h: what is opened, what is refused, and that a written file is whole or absent. */
#include "support/support.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static char root[] = "/tmp/tercel-test-XXXXXX";

static const char *path_of(const char *name) {
  static char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", root, name);
  return path;
}

static void put(const char *name, const char *text) {
  tercel_error err = {0};
  assert_ok(tercel_file_write(path_of(name), text, strlen(text), &err), &err);
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(root)) return -1;
  mkdir(path_of("model"), 0700);
  mkdir(path_of("model/sub"), 0700);
  mkdir(path_of("model-other"), 0700);
  put("model/weights", "inside");
  put("model/sub/more", "deeper");
  put("secret", "outside");
  put("model-other/weights", "outside");
  put("empty", "");
  char target[PATH_MAX];
  snprintf(target, sizeof target, "%s/secret", root);
  return symlink(target, path_of("model/absolute")) || symlink("../secret", path_of("model/up")) ||
         symlink("sub/more", path_of("model/good")) || symlink("..", path_of("model/parent")) ||
         mkfifo(path_of("model/pipe"), 0600);
}

static int tear_down(void **state) {
  (void)state;
  const char *const files[] = {"model/weights",  "model/sub/more", "secret",     "model-other/weights", "empty",
                               "model/absolute", "model/up",       "model/good", "model/parent",        "model/pipe",
                               "model/sub",      "model",          "model-other"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (unlink(path_of(files[i])) != 0) rmdir(path_of(files[i]));
  return rmdir(root); /* fails when a test left something, such as a temporary file */
}

static void test_open(void **state) {
  (void)state;
  tercel_error err = {0};
  for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
    tercel_file file = {0};
    assert_ok(tercel_file_open(path_of("secret"), use_mmap, &file, &err), &err);
    assert_int_equal(file.size, 7);
    assert_int_equal(file.mapped, use_mmap);
    assert_memory_equal(file.data, "outside", 7);
    tercel_file_close(&file);
    assert_ok(tercel_file_open(path_of("empty"), use_mmap, &file, &err), &err);
    assert_int_equal(file.size, 0);
    tercel_file_close(&file);
    tercel_file_close(&file);
  }
}

static void test_refused(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_file file = {0};
  assert_fails(tercel_file_open(path_of("none"), true, &file, &err), TERCEL_IO, &err, "none");
  assert_fails(tercel_file_open(root, true, &file, &err), TERCEL_IO, &err, "folder");
  assert_fails(tercel_file_open("/dev/null", true, &file, &err), TERCEL_IO, &err, "regular");
  assert_fails(tercel_file_open(path_of("model/pipe"), true, &file, &err), TERCEL_IO, &err, "regular");
  assert_null(file.data);
}

static void test_inside(void **state) {
  (void)state;
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s/model", root);
  const char *const good[] = {"weights", "./weights", "sub/more", "good", "sub/../weights", "sub//more"};
  const char *const leaving[] = {
      "../secret",        "/etc/hostname",          "absolute", "up", "sub/../../secret", "parent/secret",
      "../model/weights", "../model-other/weights", ""};
  const char *const missing[] = {"none", "sub/none", "weights/x"};
  tercel_error err = {0};
  tercel_file file = {0};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_ok(tercel_file_open_inside(folder, NULL, good[i], true, &file, &err), &err);
    assert_int_equal(file.size, 6);
    tercel_file_close(&file);
  }
  for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++)
    assert_fails(tercel_file_open_inside(folder, NULL, leaving[i], true, &file, &err), TERCEL_INVALID_MODEL, &err,
                 leaving[i]);
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    assert_fails(tercel_file_open_inside(folder, NULL, missing[i], true, &file, &err), TERCEL_IO, &err, missing[i]);
  assert_fails(tercel_file_open_inside(folder, NULL, "sub", true, &file, &err), TERCEL_IO, &err, "folder");
  assert_fails(tercel_file_open_inside(folder, NULL, "pipe", true, &file, &err), TERCEL_IO, &err, "regular");
  char name[PATH_MAX + 10];
  memset(name, 'n', sizeof name);
  name[sizeof name - 1] = 0;
  assert_fails(tercel_file_open_inside(folder, NULL, name, true, &file, &err), TERCEL_INVALID_MODEL, &err, "too long");
}

static void test_allowed_folders(void **state) {
  (void)state;
  char folder[PATH_MAX], other[PATH_MAX], secret[PATH_MAX];
  snprintf(folder, sizeof folder, "%s/model", root);
  snprintf(other, sizeof other, "%s/model-other", root);
  snprintf(secret, sizeof secret, "%s/secret", root);
  const char *const paths[] = {other, root};
  const tercel_folders only_other = {paths, 1}, all = {paths, 2}, none = {0};
  const char *const outside[] = {"absolute", "up", "../secret", "parent/secret", secret};
  tercel_error err = {0};
  tercel_file file = {0};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    assert_fails(tercel_file_open_inside(folder, &none, outside[i], true, &file, &err), TERCEL_INVALID_MODEL, &err,
                 "--allow-external '");
    assert_fails(tercel_file_open_inside(folder, &only_other, outside[i], true, &file, &err), TERCEL_INVALID_MODEL,
                 &err, root);
    assert_ok(tercel_file_open_inside(folder, &all, outside[i], true, &file, &err), &err);
    assert_memory_equal(file.data, "outside", 7);
    tercel_file_close(&file);
  }
  assert_ok(tercel_file_open_inside(folder, &only_other, "../model-other/weights", true, &file, &err), &err);
  tercel_file_close(&file);
  assert_ok(tercel_file_open_inside(folder, &only_other, "weights", true, &file, &err), &err);
  tercel_file_close(&file);
  const char *const missing[] = {path_of("no-such")};
  assert_fails(tercel_file_open_inside(folder, &(tercel_folders){missing, 1}, "up", true, &file, &err), TERCEL_IO, &err,
               "no-such");
}

static void test_write(void **state) {
  (void)state;
  tercel_error err = {0};
  put("secret", "changed");
  tercel_file file = {0};
  assert_ok(tercel_file_open(path_of("secret"), false, &file, &err), &err);
  assert_memory_equal(file.data, "changed", 7);
  tercel_file_close(&file);
  assert_fails(tercel_file_write(path_of("no/folder"), "x", 1, &err), TERCEL_IO, &err, "no/folder");
  assert_fails(tercel_file_write(path_of("model"), "x", 1, &err), TERCEL_IO, &err, "model"); /* a folder stands there */
}

/* Pages that were forgotten come back as they were: whole pages, parts of some, and memory that is no mapping. */
static void test_forget(void **state) {
  (void)state;
  tercel_error err = {0};
  enum { SIZE = 5 * 65536 + 77 };
  static char text[SIZE];
  for (int i = 0; i < SIZE; i++) text[i] = (char)('a' + i % 23);
  assert_ok(tercel_file_write(path_of("secret"), text, SIZE, &err), &err);
  for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
    tercel_file file = {0};
    assert_ok(tercel_file_open(path_of("secret"), use_mmap, &file, &err), &err);
    assert_memory_equal(file.data, text, SIZE);
    const size_t parts[][2] = {{0, SIZE}, {1, 10}, {65536, 0}, {100, 3 * 65536}, {SIZE, 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) tercel_file_forget(&file, parts[i][0], parts[i][1]);
    assert_memory_equal(file.data, text, SIZE);
    tercel_file_close(&file);
  }
}

static void test_folder_of_path(void **state) {
  (void)state;
  char folder[PATH_MAX];
  const char *const pairs[][2] = {{"a/b.onnx", "a"}, {"b.onnx", "."}, {"/b.onnx", "/"}, {"/x/y/z", "/x/y"}};
  for (size_t i = 0; i < 4; i++) {
    tercel_path_folder(pairs[i][0], folder, sizeof folder);
    assert_string_equal(folder, pairs[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_open),           cmocka_unit_test(test_refused),
      cmocka_unit_test(test_inside),         cmocka_unit_test(test_allowed_folders),
      cmocka_unit_test(test_write),          cmocka_unit_test(test_forget),
      cmocka_unit_test(test_folder_of_path),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
