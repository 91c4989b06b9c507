/* io/npy.h: files as NumPy writes them, damaged ones, and a round trip of every type. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/npy.h"
#include "io/zip.h"

/* A .npy of version 1 in memory. */
typedef struct npy {
  uint8_t data[1024];
  size_t bytes;
} npy;

static npy make(const char *dict, const void *elements, size_t bytes) {
  npy file = {.bytes = 10 + strlen(dict) + bytes};
  memcpy(file.data, "\x93NUMPY\x01\x00", 8);
  file.data[8] = (uint8_t)strlen(dict);
  file.data[9] = (uint8_t)(strlen(dict) >> 8);
  memcpy(file.data + 10, dict, strlen(dict));
  if (bytes) memcpy(file.data + 10 + strlen(dict), elements, bytes);
  return file;
}

static void test_plain(void **state) {
  (void)state;
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  tercel_error err = {0};
  tercel_datum datum;
  npy file = make("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", numbers, sizeof numbers);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  assert_string_equal(datum.kind, "tensor");
  assert_int_equal(datum.views->dtype, TERCEL_DTYPE_F32);
  assert_int_equal(datum.views->rank, 2);
  assert_int_equal(datum.views->dims[1], 3);
  assert_memory_equal(datum.views->data, numbers, sizeof numbers);
  tercel_datum_deinit(&datum);

  file = make("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", numbers, sizeof numbers);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  assert_memory_equal(datum.views->data, ((const float[]){1, 3, 5, 2, 4, 6}), sizeof numbers);
  tercel_datum_deinit(&datum);

  file = make("{\"shape\": (), \"descr\": \"|u1\", \"fortran_order\": False}", "\x07", 1);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  assert_int_equal(datum.views->rank, 0);
  assert_int_equal(*(uint8_t *)datum.views->data, 7);
  tercel_datum_deinit(&datum);
}

static void test_byte_order(void **state) {
  (void)state;
  const uint8_t big[] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
  tercel_error err = {0};
  tercel_datum datum;
  npy file = make("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", big, sizeof big);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  assert_memory_equal(datum.views->data, ((const float[]){1, 2}), 8);
  tercel_datum_deinit(&datum);
  file = make("{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }\n", big, sizeof big);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  assert_int_equal(datum.views->dtype, TERCEL_DTYPE_C64);
  assert_memory_equal(datum.views->data, ((const float[]){1, 2}), 8);
  tercel_datum_deinit(&datum);
}

static void test_strings(void **state) {
  (void)state;
  const uint32_t wide[] = {'a', 0xe9, 0, 0x1f600, 0, 0, 0, 0, 0};
  tercel_error err = {0};
  tercel_datum datum;
  npy file = make("{'descr': '<U3', 'fortran_order': False, 'shape': (3,), }\n", wide, sizeof wide);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  const tercel_string *strings = datum.views->data;
  assert_int_equal(strings[0].length, 3);
  assert_memory_equal(strings[0].data, "a\xc3\xa9", 3);
  assert_memory_equal(strings[1].data, "\xf0\x9f\x98\x80", 4);
  assert_int_equal(strings[2].length, 0);
  tercel_datum_deinit(&datum);
  file = make("{'descr': '|S4', 'fortran_order': False, 'shape': (2,), }\n", "abcdxy\0\0", 8);
  assert_ok(tercel_npy_parse(file.data, file.bytes, &datum, &err), &err);
  strings = datum.views->data;
  assert_int_equal(strings[1].length, 2);
  assert_memory_equal(strings[0].data, "abcd", 4);
  tercel_datum_deinit(&datum);
}

static void test_bad_files(void **state) {
  (void)state;
  static const struct {
    const char *dict;
    size_t bytes;
    const char *part;
  } bad[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, "ends inside"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }", 8, "more elements"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8, "numbers"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", 8, "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 8, "dims"},
      {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", 8, "fortran_order"},
      {"{'descr': '<f4', 'shape': (2,), }", 8, "missing"},
      {"{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", 8, "twice"},
      {"{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }", 8, "'f3'"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, "'|O'"},
      {"{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", 8, "'V2'"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, "structured"},
      {"{'descr': '<U999999999', 'fortran_order': False, 'shape': (1,), }", 8, "elements"},
      {"{'descr", 0, "dict"},
      {"", 0, "dict"},
  };
  tercel_error err = {0};
  tercel_datum datum;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const npy file = make(bad[i].dict, "\0\0\0\0\0\0\0\0", bad[i].bytes);
    const tercel_status status = tercel_npy_parse(file.data, file.bytes, &datum, &err);
    assert_int_not_equal(status, TERCEL_OK);
    if (!strstr(err.message, bad[i].part))
      fail_msg("'%s' gives '%s', want '%s'", bad[i].dict, err.message, bad[i].part);
    assert_null(datum.views);
  }
  const npy good = make("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "\0\0\0\0\0\0\0\0", 8);
  for (size_t cut = 0; cut < good.bytes; cut++) {
    uint8_t *const exact = malloc(cut ? cut : 1); /* so that ASan sees a byte read too many */
    memcpy(exact, good.data, cut);
    assert_int_not_equal(tercel_npy_parse(exact, cut, &datum, &err), TERCEL_OK);
    free(exact);
  }
}

/* ---- writing ---- */

static char path[] = "/tmp/tercel-npy-XXXXXX";

static int make_path(void **state) {
  (void)state;
  const int fd = mkstemp(path);
  return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
  (void)state;
  return unlink(path);
}

static void test_round_trip(void **state) {
  (void)state;
  tercel_error err = {0};
  uint8_t bytes[16 * 6];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i & 1);
  for (int d = TERCEL_DTYPE_F64; d < TERCEL_DTYPE_STRING; d++) {
    const tercel_dtype dtype = (tercel_dtype)d;
    tercel_view view = {.dtype = dtype, .rank = 2, .dims = {2, 3}, .data = bytes};
    assert_true(tercel_dtype_size(dtype, 6, &view.bytes));
    tercel_datum back;
    assert_ok(tercel_npy_write(path, &view, &err), &err);
    assert_ok(tercel_npy_read(path, &back, &err), &err);
    assert_int_equal(back.views->rank, 2);
    if (back.views->dtype == dtype) {
      assert_memory_equal(back.views->data, bytes, view.bytes);
    } else {
      for (int64_t i = 0; i < 6; i++)
        assert_true(tercel_element_get_f64(back.views->data, back.views->dtype, i) ==
                    tercel_element_get_f64(bytes, dtype, i));
    }
    tercel_datum_deinit(&back);
  }
}

static void test_round_trip_of_strings(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_string strings[] = {{"", 0}, {"z\xc3\xbcrich", 7}, {"\xf0\x9f\x98\x80!", 5}};
  const tercel_view view = {TERCEL_DTYPE_STRING, 1, {3}, strings, sizeof strings};
  tercel_datum back;
  assert_ok(tercel_npy_write(path, &view, &err), &err);
  assert_ok(tercel_npy_read(path, &back, &err), &err);
  const tercel_string *const got = back.views->data;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(got[i].length, strings[i].length);
    assert_memory_equal(got[i].data, strings[i].data, strings[i].length);
  }
  tercel_datum_deinit(&back);
}

static tercel_status write_and_read(void *arg, tercel_error *err) {
  tercel_datum back = {0};
  TERCEL_TRY(tercel_npy_write(path, arg, err));
  const tercel_status status = tercel_npy_read(path, &back, err);
  tercel_datum_deinit(&back);
  return status;
}

static void test_without_memory(void **state) {
  (void)state;
  float numbers[6] = {0};
  tercel_view view = {TERCEL_DTYPE_F32, 2, {2, 3}, numbers, sizeof numbers};
  assert_true(tercel_test_oom(write_and_read, &view, 0) >= 3);
}

/* ---- npz: an archive as numpy.savez_compressed and numpy.savez write it ---- */

static void put16(uint8_t *at, unsigned value) { memcpy(at, &value, 2); }
static void put32(uint8_t *at, uint32_t value) { memcpy(at, &value, 4); }

/* One stored entry "x.npy". */
static size_t make_zip(const npy *file, uint32_t crc, uint8_t *out) {
  size_t at = 0;
  memset(out, 0, 2048);
  put32(out, 0x04034b50);
  put32(out + 18, (uint32_t)file->bytes);
  put32(out + 22, (uint32_t)file->bytes);
  put16(out + 26, 5);
  memcpy(out + 30, "x.npy", 5);
  memcpy(out + 35, file->data, file->bytes);
  at = 35 + file->bytes;
  uint8_t *const central = out + at;
  put32(central, 0x02014b50);
  put32(central + 16, crc);
  put32(central + 20, (uint32_t)file->bytes);
  put32(central + 24, (uint32_t)file->bytes);
  put16(central + 28, 5);
  memcpy(central + 46, "x.npy", 5);
  uint8_t *const end = central + 51;
  put32(end, 0x06054b50);
  put16(end + 8, 1);
  put16(end + 10, 1);
  put32(end + 12, 51);
  put32(end + 16, (uint32_t)at);
  return at + 51 + 22;
}

static void test_npz(void **state) {
  (void)state;
  static uint8_t zip[2048];
  tercel_error err = {0};
  tercel_datum datum;
  const npy file = make("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\x05\x06", 2);
  const uint32_t crc = 0xe34b0b49; /* of the whole entry, by zlib */
  const size_t bytes = make_zip(&file, crc, zip);
  assert_ok(tercel_npz_parse(zip, bytes, NULL, &datum, &err), &err);
  assert_memory_equal(datum.views->data, "\x05\x06", 2);
  tercel_datum_deinit(&datum);
  assert_ok(tercel_npz_parse(zip, bytes, "x", &datum, &err), &err);
  tercel_datum_deinit(&datum);
  assert_fails(tercel_npz_parse(zip, bytes, "y", &datum, &err), TERCEL_INVALID_ARGUMENT, &err, "it has: x");
  for (size_t i = 0; i < bytes; i++) { /* every bit of a byte wrong: an error or the same array, never a crash */
    zip[i] ^= 0xff;
    uint8_t *const exact = malloc(bytes);
    memcpy(exact, zip, bytes);
    if (tercel_npz_parse(exact, bytes, NULL, &datum, &err) == TERCEL_OK) {
      assert_memory_equal(datum.views->data, "\x05\x06", 2);
      tercel_datum_deinit(&datum);
    }
    free(exact);
    zip[i] ^= 0xff;
  }
  for (size_t cut = 0; cut < bytes; cut++)
    assert_int_not_equal(tercel_npz_parse(zip, cut, NULL, &datum, &err), TERCEL_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),          cmocka_unit_test(test_byte_order),
      cmocka_unit_test(test_strings),        cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_round_trip_of_strings),
      cmocka_unit_test(test_without_memory), cmocka_unit_test(test_npz),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
