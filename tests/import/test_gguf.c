/* GGUF files: what is in them, hostile ones, split ones. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "import/gguf/gguf.h"

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void put(tercel_text *out, const void *bytes, size_t count) { tercel_text_add_bytes(out, bytes, count); }
static void put_u32(tercel_text *out, uint32_t v) { put(out, &v, sizeof v); }
static void put_u64(tercel_text *out, uint64_t v) { put(out, &v, sizeof v); }
static void put_text(tercel_text *out, const char *text) {
  put_u64(out, strlen(text));
  put(out, text, strlen(text));
}

static void put_header(tercel_text *out, uint64_t num_tensors, uint64_t num_entries) {
  put(out, "GGUF", 4);
  put_u32(out, 3);
  put_u64(out, num_tensors);
  put_u64(out, num_entries);
}

static void put_key(tercel_text *out, const char *key, uint32_t type) {
  put_text(out, key);
  put_u32(out, type);
}

static void put_number(tercel_text *out, const char *key, uint32_t value) {
  put_key(out, key, TERCEL_GGUF_U32);
  put_u32(out, value);
}

/* Rows of `columns` elements. */
static void put_tensor(tercel_text *out, const char *name, uint64_t columns, uint64_t rows, uint32_t type,
                       uint64_t offset) {
  put_text(out, name);
  put_u32(out, 2);
  put_u64(out, columns);
  put_u64(out, rows);
  put_u32(out, type);
  put_u64(out, offset);
}

/* Padding, then data bytes 0, 1, 2, ... */
static void put_data(tercel_text *out, size_t alignment, size_t bytes) {
  while (out->length % alignment != 0) put(out, "", 1);
  for (size_t i = 0; i < bytes; i++) put(out, &(uint8_t){(uint8_t)i}, 1);
}

static tercel_gguf *open_text(const tercel_text *text) {
  tercel_gguf *gguf = NULL;
  tercel_error err = {0};
  assert_ok(tercel_gguf_open_memory(text->data, text->length, &gguf, &err), &err);
  return gguf;
}

/* ---- good files ---------------------------------------------------------------------------------------------------- */

static void check_print(const tercel_gguf *gguf, const char *key, const char *want) {
  tercel_text out = {0};
  tercel_gguf_print_value(tercel_gguf_find(gguf, key), &out);
  assert_string_equal(out.data, want);
  tercel_text_deinit(&out);
}

static void test_values(void **state) {
  (void)state;
  tercel_text t = {0};
  put_header(&t, 0, 6);
  put_key(&t, "text", TERCEL_GGUF_STRING), put_text(&t, "a \"b\"\n");
  put_key(&t, "minus", TERCEL_GGUF_I8), put(&t, &(int8_t){-3}, 1);
  put_key(&t, "large", TERCEL_GGUF_U64), put_u64(&t, UINT64_MAX);
  put_key(&t, "f", TERCEL_GGUF_F32), put(&t, &(float){0.1f}, 4);
  put_key(&t, "texts", TERCEL_GGUF_ARRAY), put_u32(&t, TERCEL_GGUF_STRING), put_u64(&t, 2);
  put_text(&t, "x"), put_text(&t, "");
  put_key(&t, "bools", TERCEL_GGUF_ARRAY), put_u32(&t, TERCEL_GGUF_BOOL), put_u64(&t, 2), put(&t, "\1\0", 2);
  tercel_gguf *const gguf = open_text(&t);
  check_print(gguf, "text", "\"a \\\"b\\\"\\n\"");
  check_print(gguf, "minus", "-3");
  check_print(gguf, "large", "18446744073709551615");
  check_print(gguf, "f", "0.1");
  check_print(gguf, "texts", "[\"x\", \"\"]");
  check_print(gguf, "bools", "[true, false]");
  int64_t i;
  double f;
  assert_true(tercel_gguf_get_i64(tercel_gguf_find(gguf, "minus"), 0, &i) && i == -3);
  assert_true(tercel_gguf_get_i64(tercel_gguf_find(gguf, "bools"), 0, &i) && i == 1);
  assert_false(tercel_gguf_get_i64(tercel_gguf_find(gguf, "bools"), 2, &i));
  assert_false(tercel_gguf_get_i64(tercel_gguf_find(gguf, "large"), 0, &i));
  assert_false(tercel_gguf_get_i64(tercel_gguf_find(gguf, "text"), 0, &i));
  assert_false(tercel_gguf_get_i64(tercel_gguf_find(gguf, "f"), 0, &i));
  assert_true(tercel_gguf_get_f64(tercel_gguf_find(gguf, "f"), 0, &f) && f == (double)0.1f);
  assert_null(tercel_gguf_find(gguf, "nothing"));
  tercel_gguf_close(gguf);
  tercel_text_deinit(&t);
}

static void test_tensors(void **state) {
  (void)state;
  tercel_text t = {0};
  put_header(&t, 2, 1);
  put_number(&t, "general.alignment", 64);
  put_tensor(&t, "w", 32, 2, 8, 64); /* Q8_0 */
  put_tensor(&t, "f", 3, 5, 0, 0);
  put_data(&t, 64, 64 + 2 * 34);
  tercel_gguf *const gguf = open_text(&t);
  const tercel_gguf_tensor *const w = tercel_gguf_find_tensor(gguf, "w"), *const f = &gguf->tensors[1];
  assert_int_equal(gguf->num_tensors, 2);
  assert_true(w->tensor.dtype == TERCEL_DTYPE_Q8_0 && w->tensor.dims[0] == 2 && w->tensor.dims[1] == 32);
  assert_true(((const uint8_t *)w->tensor.data)[0] == 64 && w->tensor.bytes == 68);
  assert_true(f->tensor.dtype == TERCEL_DTYPE_F32 && f->tensor.dims[0] == 5 && f->tensor.dims[1] == 3);
  assert_null(tercel_gguf_find_tensor(gguf, "v"));
  tercel_gguf_close(gguf);
  tercel_text_deinit(&t);
}

/* ---- bad files ----------------------------------------------------------------------------------------------------- */

/* Closes the text. */
static void check_bad(tercel_text *t, tercel_status want, const char *message) {
  tercel_gguf *gguf = NULL;
  tercel_error err = {0};
  assert_fails(tercel_gguf_open_memory(t->data, t->length, &gguf, &err), want, &err, message);
  tercel_text_deinit(t);
}

static void test_bad_headers(void **state) {
  (void)state;
  tercel_text t = {0};
  put(&t, "GGUF\0\0\0\3", 8), put_u64(&t, 0), put_u64(&t, 0);
  check_bad(&t, TERCEL_UNSUPPORTED, "a big-endian file");
  put(&t, "GGUF", 4), put_u32(&t, 77), put_u64(&t, 0), put_u64(&t, 0);
  check_bad(&t, TERCEL_UNSUPPORTED, "version 77, want 2 or 3");
  put(&t, "GGUF\3", 5);
  check_bad(&t, TERCEL_INVALID_MODEL, "ends 1 bytes further on, want 4");
  put_header(&t, UINT64_MAX, 0);
  check_bad(&t, TERCEL_INVALID_MODEL, "no room");
  put_header(&t, 0, 1u << 20);
  check_bad(&t, TERCEL_INVALID_MODEL, "no room");
}

static void test_bad_metadata(void **state) {
  (void)state;
  tercel_text t = {0};
  put_header(&t, 0, 1), put_key(&t, "k", TERCEL_GGUF_STRING), put_u64(&t, (uint64_t)1 << 40), put(&t, "abc", 3);
  check_bad(&t, TERCEL_INVALID_MODEL, "metadata 1 of 1: key 'k': the file ends 3 bytes further on, want 1099511627776");
  put_header(&t, 0, 1), put_key(&t, "k", TERCEL_GGUF_ARRAY), put_u32(&t, TERCEL_GGUF_F32);
  put_u64(&t, (uint64_t)1 << 63), put(&t, "abcdefgh", 8);
  check_bad(&t, TERCEL_INVALID_MODEL, "key 'k': the file ends");
  put_header(&t, 0, 1), put_key(&t, "k", 13), put_u64(&t, 0);
  check_bad(&t, TERCEL_INVALID_MODEL, "type 13, want 0 to 12");
  put_header(&t, 0, 1), put_key(&t, "k", TERCEL_GGUF_BOOL), put(&t, "\2", 1);
  check_bad(&t, TERCEL_INVALID_MODEL, "a bool of 2");
  put_header(&t, 0, 2), put_number(&t, "k", 1), put_number(&t, "k", 1);
  check_bad(&t, TERCEL_INVALID_MODEL, "key 'k' comes twice");
  put_header(&t, 0, 1), put_number(&t, "general.alignment", 1u << 31);
  check_bad(&t, TERCEL_INVALID_MODEL, "general.alignment is 2147483648");
  put_header(&t, 0, 1), put_number(&t, "general.alignment", 24);
  check_bad(&t, TERCEL_INVALID_MODEL, "want a power of two");
  put_header(&t, 0, 1), put_key(&t, "k", TERCEL_GGUF_ARRAY);
  for (int i = 0; i < 100; i++) put_u32(&t, TERCEL_GGUF_ARRAY), put_u64(&t, 1);
  check_bad(&t, TERCEL_UNSUPPORTED, "arrays in arrays, more than 4 deep");
}

static void test_bad_tensors(void **state) {
  (void)state;
  static const struct {
    uint64_t columns, rows;
    uint32_t type;
    uint64_t offset;
    tercel_status status;
    const char *message;
  } cases[] = {
      {(uint64_t)1 << 32, (uint64_t)1 << 32, 0, 0, TERCEL_INVALID_MODEL, "its dims are too large"},
      {(uint64_t)1 << 63, 1, 0, 0, TERCEL_INVALID_MODEL, "dim 0 is 9223372036854775808"},
      {33, 1, 8, 0, TERCEL_INVALID_MODEL, "no whole number of blocks of 32"},
      {8, 4, 4, 0, TERCEL_UNSUPPORTED, "type 4 (Q4_2, which was removed) is not supported"},
      {8, 4, 99, 0, TERCEL_UNSUPPORTED, "type 99 is not supported"},
      {8, 4, 0, 5, TERCEL_INVALID_MODEL, "begin at 5, want a multiple of 32"},
      {8, 4, 0, 32, TERCEL_INVALID_MODEL, "128 bytes from 32 on lie beyond the file's data section of 128"},
      {8, 4, 0, (uint64_t)1 << 63, TERCEL_INVALID_MODEL, "is the file cut short?"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tercel_text t = {0};
    put_header(&t, 1, 0);
    put_tensor(&t, "w", cases[i].columns, cases[i].rows, cases[i].type, cases[i].offset);
    put_data(&t, 32, 128);
    check_bad(&t, cases[i].status, cases[i].message);
  }
  tercel_text t = {0};
  put_header(&t, 2, 0), put_tensor(&t, "w", 8, 4, 0, 0), put_tensor(&t, "w", 8, 4, 0, 0), put_data(&t, 32, 128);
  check_bad(&t, TERCEL_INVALID_MODEL, "tensor 2 of 2: tensor 'w': the name comes twice");
  put_header(&t, 1, 0), put_text(&t, "w"), put_u32(&t, 5), put_data(&t, 32, 128);
  check_bad(&t, TERCEL_INVALID_MODEL, "5 dims, want at most 4");
}

/* Cut anywhere, a file is refused and nothing beyond its end is read (ASan watches). */
static void test_cut(void **state) {
  (void)state;
  tercel_text t = {0};
  put_header(&t, 1, 2), put_number(&t, "a", 1), put_key(&t, "texts", TERCEL_GGUF_ARRAY),
      put_u32(&t, TERCEL_GGUF_STRING);
  put_u64(&t, 1), put_text(&t, "x"), put_tensor(&t, "w", 8, 4, 0, 0), put_data(&t, 32, 128);
  for (size_t length = 0; length < t.length; length++) {
    tercel_gguf *gguf = NULL;
    tercel_test_buffer copy = tercel_test_buffer_create(length, 0);
    if (length > 0) memcpy(copy.data, t.data, length);
    assert_int_not_equal(tercel_gguf_open_memory(copy.data, length, &gguf, NULL), TERCEL_OK);
    tercel_test_buffer_destroy(&copy);
  }
  tercel_text_deinit(&t);
}

/* ---- split files --------------------------------------------------------------------------------------------------- */

enum { NUM_PARTS = 3 };

/* Part `number` says that it is `says` of `count`; its tensor is called `name`. */
static void write_part(int number, uint32_t says, uint32_t count, const char *name) {
  char path[512];
  tercel_error err = {0};
  tercel_text t = {0};
  put_header(&t, 1, number == 0 ? 4 : 3);
  put_number(&t, "split.no", says), put_number(&t, "split.count", count),
      put_number(&t, "split.tensors.count", NUM_PARTS);
  if (number == 0) put_number(&t, "of.the.first", 7);
  put_tensor(&t, name, 8, 4, 0, 0), put_data(&t, 32, 128);
  snprintf(path, sizeof path, TERCEL_TEST_BUILD_DIR "/split-%05d-of-%05d.gguf", number + 1, NUM_PARTS);
  assert_ok(tercel_file_write(path, t.data, t.length, &err), &err);
  tercel_text_deinit(&t);
}

static void part_path(int number, char path[512]) {
  snprintf(path, 512, TERCEL_TEST_BUILD_DIR "/split-%05d-of-%05d.gguf", number + 1, NUM_PARTS);
}

static void test_split(void **state) {
  (void)state;
  static const char *const names[NUM_PARTS] = {"a", "b", "c"};
  char path[512];
  tercel_error err = {0};
  for (int i = 0; i < NUM_PARTS; i++) write_part(i, (uint32_t)i, NUM_PARTS, names[i]);
  for (int i = 0; i < NUM_PARTS; i++) { /* from any of them */
    tercel_gguf *gguf = NULL;
    part_path(i, path);
    assert_ok(tercel_gguf_open(path, i != 1, &gguf, &err), &err);
    assert_int_equal(gguf->num_tensors, NUM_PARTS);
    assert_non_null(tercel_gguf_find(gguf, "of.the.first"));
    for (int j = 0; j < NUM_PARTS; j++) {
      const tercel_gguf_tensor *const t = tercel_gguf_find_tensor(gguf, names[j]);
      assert_true(t != NULL && ((const uint8_t *)t->tensor.data)[127] == 127 && t->storage != NULL);
    }
    tercel_gguf_close(gguf);
  }
}

static void check_bad_split(const char *message) {
  char path[512];
  tercel_gguf *gguf = NULL;
  tercel_error err = {0};
  part_path(0, path);
  assert_fails(tercel_gguf_open(path, true, &gguf, &err), TERCEL_INVALID_MODEL, &err, message);
}

static void test_bad_split(void **state) {
  (void)state;
  char path[512];
  for (int i = 0; i < NUM_PARTS; i++) write_part(i, (uint32_t)i, NUM_PARTS, i == 2 ? "a" : i == 1 ? "b" : "a");
  check_bad_split("tensor 'a' stands in two files");
  write_part(2, 1, NUM_PARTS, "c");
  check_bad_split("says that it is part 2 of 3");
  write_part(0, 0, 1 << 20, "a");
  check_bad_split("split.no 0 of split.count 1048576");
  write_part(0, 0, 5, "a");
  check_bad_split("its name does not end in -of-00005.gguf");
  write_part(0, 0, NUM_PARTS, "a");
  part_path(2, path);
  remove(path);
  tercel_gguf *gguf = NULL;
  tercel_error err = {0};
  part_path(0, path);
  assert_fails(tercel_gguf_open(path, true, &gguf, &err), TERCEL_IO, &err, "split-00003-of-00003.gguf");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),       cmocka_unit_test(test_tensors),     cmocka_unit_test(test_bad_headers),
      cmocka_unit_test(test_bad_metadata), cmocka_unit_test(test_bad_tensors), cmocka_unit_test(test_cut),
      cmocka_unit_test(test_split),        cmocka_unit_test(test_bad_split),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
