/* Every fuzz target over its seeds, tests/fuzz/seeds/TARGET: what fuzzing ever found stays there as a small file, and is tried again in
 * every run of the tests, under sanitizers too, and with compilers that have no libFuzzer. */
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

typedef int (*target_fn)(const uint8_t *data, size_t size);

/* The build names each target's LLVMFuzzerTestOneInput after its file. */
#define TARGETS(X) X(engine) X(gguf) X(graph_text) X(image) X(model) X(npy) X(onnx) X(optimize) X(run) X(tensorpb)
#define DECLARE(name) int test_fuzz_##name(const uint8_t *data, size_t size);
TARGETS(DECLARE)

static void replay_file(target_fn target, const char *folder, const char *name) {
  char path[1024];
  tercel_error err = {0};
  tercel_file file = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  print_message("%s\n", path); /* a crash is that of the last one named */
  assert_ok(tercel_file_open(path, false, &file, &err), &err);
  target(file.data, file.size);
  tercel_file_close(&file);
}

/* The folder's files whose names end in `suffix`. */
static void replay_folder(target_fn target, const char *folder, const char *suffix) {
  DIR *const list = opendir(folder);
  if (!list) fail_msg("%s can't be opened", folder);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(list));) {
    const size_t length = strlen(entry->d_name), end = strlen(suffix);
    if (entry->d_name[0] == '.' || length < end || strcmp(entry->d_name + length - end, suffix) != 0) continue;
    replay_file(target, folder, entry->d_name);
    count++;
  }
  closedir(list);
  assert_int_not_equal(count, 0);
}

static void replay(target_fn target, const char *name) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s/fuzz/seeds/fuzz_%s", TERCEL_TEST_SOURCE_DIR, name);
  replay_folder(target, folder, "");
  if (strcmp(name, "onnx") == 0 || strcmp(name, "model") == 0) {
    replay_folder(target, TERCEL_TEST_SOURCE_DIR "/import/onnx/good", ".onnx");
    replay_folder(target, TERCEL_TEST_SOURCE_DIR "/import/onnx/bad", ".onnx");
  }
  tercel_alloc_set_hook(NULL, NULL);
}

#define TEST(name)                                                                                                     \
  static void test_seeds_of_##name(void **state) {                                                                     \
    (void)state;                                                                                                       \
    replay(test_fuzz_##name, #name);                                                                                   \
  }
TARGETS(TEST)

int main(void) {
#define ENTRY(name) cmocka_unit_test(test_seeds_of_##name),
  const struct CMUnitTest tests[] = {TARGETS(ENTRY)};
  tercel_log_set(TERCEL_LOG_OFF, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
