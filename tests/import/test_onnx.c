/* ONNX files in, graphs or errors out: the fixtures of tests/import/onnx (made by make_fixtures.py there).
 *
 * good/NAME.onnx must become the graph that good/NAME.txt shows (TERCEL_TEST_UPDATE=1 writes it); bad/expect.tsv says for
 * each file of bad/ which status and which words (several: separated by |) must come. */
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "import/onnx/build.h"

#define FIXTURES TERCEL_TEST_SOURCE_DIR "/import/onnx/"

static char *read_text(const char *path) {
  tercel_file file = {0};
  if (tercel_file_open(path, false, &file, NULL) != TERCEL_OK) return NULL;
  char *const text = calloc(file.size + 1, 1);
  assert_non_null(text);
  if (file.size > 0) memcpy(text, file.data, file.size);
  tercel_file_close(&file);
  return text;
}

static char *print(const tercel_graph *graph) {
  tercel_text text = {0};
  tercel_error err = {0};
  assert_ok(tercel_graph_print(graph, &(tercel_text_options){.all_data = true}, &text, &err), &err);
  char *const copy = calloc(text.length + 1, 1);
  assert_non_null(copy);
  memcpy(copy, text.data, text.length);
  tercel_text_deinit(&text);
  return copy;
}

/* ---- good files -------------------------------------------------------------------------------------------------- */

static void check_good(const char *name) {
  char path[512];
  tercel_imported model = {0};
  tercel_error err = {0};
  snprintf(path, sizeof path, FIXTURES "good/%s", name);
  assert_ok(tercel_import_file(path, NULL, &model, &err), &err);
  assert_ok(tercel_graph_verify(model.graph, &err), &err);
  char *const got = print(model.graph);
  snprintf(path + strlen(path) - strlen(".onnx"), 8, ".txt");
  if (getenv("TERCEL_TEST_UPDATE")) assert_ok(tercel_file_write(path, got, strlen(got), &err), &err);
  char *const want = read_text(path);
  if (!want) fail_msg("%s is missing; TERCEL_TEST_UPDATE=1 writes it", path);
  if (strcmp(got, want) != 0) fail_msg("%s: the graph is\n%s\nwant\n%s", name, got, want);
  free(got);
  free(want);
  tercel_imported_deinit(&model);
}

static void test_good_files(void **state) {
  (void)state;
  DIR *const folder = opendir(FIXTURES "good");
  assert_non_null(folder);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    const size_t length = strlen(entry->d_name);
    if (length < 6 || strcmp(entry->d_name + length - 5, ".onnx") != 0) continue;
    check_good(entry->d_name);
    count++;
  }
  closedir(folder);
  assert_true(count > 25);
}

static void test_metadata(void **state) {
  (void)state;
  tercel_imported model = {0};
  tercel_error err = {0};
  assert_ok(tercel_import_file(FIXTURES "good/metadata.onnx", NULL, &model, &err), &err);
  assert_string_equal(model.format, "onnx");
  assert_string_equal(model.producer, "fixtures 1");
  assert_string_equal(model.about, "about it");
  assert_int_equal(model.num_metadata, 1);
  assert_string_equal(model.metadata[0].key, "character");
  assert_string_equal(model.metadata[0].value, "a\nb");
  tercel_imported_deinit(&model);
}

/* Weights that are aligned lie in the caller's bytes, the others in a copy: every one has the right numbers. */
static void test_raw_data_in_place(void **state) {
  (void)state;
  const char *const path = FIXTURES "good/raw_data_alignments.onnx";
  tercel_file file = {0};
  tercel_imported model = {0};
  tercel_error err = {0};
  assert_ok(tercel_file_open(path, true, &file, &err), &err);
  assert_ok(tercel_import_memory(file.data, file.size, NULL, NULL, &model, &err), &err);
  int in_place = 0, tensors = 0;
  for (uint32_t i = 0; i < model.graph->num_values; i++) {
    const tercel_value *const v = model.graph->values[i];
    if (!v || !v->constant) continue;
    const uint8_t *const data = v->constant->data;
    in_place += data >= file.data && data < file.data + file.size;
    for (int64_t k = 0; k < 3; k++) assert_true(tercel_tensor_get_f64(v->constant, k) == (double)k);
    tensors++;
  }
  assert_int_equal(tensors, 4);
  assert_in_range(in_place, 1, 3);
  tercel_imported_deinit(&model);
  tercel_file_close(&file);
}

/* ---- bad files --------------------------------------------------------------------------------------------------- */

static void check_words(const char *name, const char *words, const char *message) {
  char copy[512];
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
    if (!strstr(message, word)) fail_msg("%s: the message is \"%s\", want \"%s\" in it", name, message, word);
  if (strchr(message, '\n')) fail_msg("%s: the message has several lines: %s", name, message);
}

static void check_bad(const char *name, const char *status, const char *words) {
  char path[512];
  tercel_imported model = {0};
  tercel_error err = {0};
  snprintf(path, sizeof path, FIXTURES "bad/%s.onnx", name);
  const tercel_status got = tercel_import_file(path, NULL, &model, &err);
  if (strcmp(tercel_status_name(got), status) != 0)
    fail_msg("%s: status is %s (%s), want %s", name, tercel_status_name(got), err.message, status);
  check_words(name, words, err.message);
  assert_null(model.graph);
}

static void test_bad_files(void **state) {
  (void)state;
  char *const expect = read_text(FIXTURES "bad/expect.tsv");
  assert_non_null(expect);
  const size_t before = tercel_alloc_live_bytes();
  int count = 0;
  for (char *line = expect; *line;) {
    char *const end = strchr(line, '\n'), *const status = strchr(line, '\t'), *const words = strchr(status + 1, '\t');
    *end = *status = *words = 0;
    check_bad(line, status + 1, words + 1);
    line = end + 1;
    count++;
  }
  assert_true(count > 60);
  assert_int_equal(tercel_alloc_live_bytes(), before);
  free(expect);
}

static void test_external_data_needs_a_folder(void **state) {
  (void)state;
  tercel_file file = {0};
  tercel_imported model = {0};
  tercel_error err = {0};
  assert_ok(tercel_file_open(FIXTURES "good/external_data.onnx", true, &file, &err), &err);
  assert_fails(tercel_import_memory(file.data, file.size, NULL, NULL, &model, &err), TERCEL_INVALID_MODEL, &err,
               "the model came without a folder");
  assert_ok(tercel_import_memory(file.data, file.size, FIXTURES "good", NULL, &model, &err), &err);
  tercel_imported_deinit(&model);
  tercel_file_close(&file);
}

/* Every beginning of a sound file is refused, or is a smaller sound one; none reads past its end (ASan watches). */
static void test_cut_files(void **state) {
  (void)state;
  tercel_file file = {0};
  tercel_error err = {0};
  assert_ok(tercel_file_open(FIXTURES "good/functions.onnx", true, &file, &err), &err);
  for (size_t size = 0; size < file.size; size++) {
    uint8_t *const part = malloc(size + 1);
    assert_non_null(part);
    memcpy(part, file.data, size);
    tercel_imported model = {0};
    tercel_import_memory(part, size, NULL, NULL, &model, NULL);
    tercel_imported_deinit(&model);
    free(part);
  }
  tercel_file_close(&file);
}

/* ---- allocation failures ------------------------------------------------------------------------------------------- */

static tercel_status import_once(void *path, tercel_error *err) {
  tercel_imported model = {0};
  const tercel_status status = tercel_import_file(path, NULL, &model, err);
  tercel_imported_deinit(&model);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  static const char *const files[] = {
      "functions",          "if_captures",         "sequence_map",     "typed_fields",
      "sparse_initializer", "external_data",       "metadata",         "function_input_left_out",
      "initializer_twice",  "domain_not_imported", "loop_changes_rank"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[512];
    snprintf(path, sizeof path, FIXTURES "good/%s.onnx", files[i]);
    assert_true(tercel_test_oom(import_once, path, 500) > 0);
  }
}

/* ---- the table of builders ------------------------------------------------------------------------------------------- */

static void test_rows(void **state) {
  (void)state;
  for (const tercel_onnx_row *row = tercel_onnx_rows(); row->op_type; row++) {
    assert_in_range(row->since, 1, TERCEL_ONNX_MAX_OPSET);
    assert_true(row->max_inputs < 0 || row->min_inputs <= row->max_inputs);
    assert_ptr_equal(tercel_onnx_find_row(row->domain, row->op_type, row->since, NULL), row);
  }
  bool newer;
  assert_null(tercel_onnx_find_row("", "Gelu", 19, &newer));
  assert_true(newer);
  assert_int_equal(tercel_onnx_find_row("ai.onnx", "Softmax", 12, NULL)->since, 1);
  assert_int_equal(tercel_onnx_find_row("", "Softmax", 28, NULL)->since, 13);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good_files),
      cmocka_unit_test(test_metadata),
      cmocka_unit_test(test_raw_data_in_place),
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_external_data_needs_a_folder),
      cmocka_unit_test(test_cut_files),
      cmocka_unit_test(test_allocation_failures),
      cmocka_unit_test(test_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
