/* io/tensorpb.h: round trips of every type, the typed fields as other programs write them, damaged files. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/tensorpb.h"

static char path[] = "/tmp/tercel-pb-XXXXXX";

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
  uint8_t bytes[16 * 15];
  for (int d = TERCEL_DTYPE_F64; d < TERCEL_DTYPE_STRING; d++) {
    const uint8_t mask = tercel_dtype_is_f6((tercel_dtype)d) ? 0x3F : 0xFF; /* 6 bits a byte */
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37) & mask;
    tercel_view view = {.dtype = (tercel_dtype)d, .rank = 2, .dims = {3, 5}, .data = bytes};
    assert_true(tercel_dtype_size(view.dtype, 15, &view.bytes));
    tercel_datum back;
    assert_ok(tercel_tensorpb_write(path, "tensor", "x", &view, 1, &err), &err);
    assert_ok(tercel_tensorpb_read(path, "tensor", &back, &err), &err);
    assert_string_equal(back.name, "x");
    assert_int_equal(back.views->dtype, d);
    assert_int_equal(back.views->dims[1], 5);
    assert_memory_equal(back.views->data, bytes, view.bytes);
    tercel_datum_deinit(&back);
  }
}

static void test_sequences_and_optionals(void **state) {
  (void)state;
  tercel_error err = {0};
  int32_t numbers[] = {1, 2, 3};
  tercel_string strings[] = {{"a", 1}, {"", 0}};
  const tercel_view views[] = {{TERCEL_DTYPE_I32, 1, {3}, numbers, sizeof numbers},
                               {TERCEL_DTYPE_STRING, 1, {2}, strings, sizeof strings}};
  static const struct {
    const char *kind;
    size_t count;
  } cases[] = {{"sequence", 2}, {"sequence", 0}, {"optional", 1}, {"optional", 0}, {"optional_sequence", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tercel_datum back;
    assert_ok(tercel_tensorpb_write(path, cases[i].kind, "s", views, cases[i].count, &err), &err);
    assert_ok(tercel_tensorpb_read(path, cases[i].kind, &back, &err), &err);
    assert_int_equal(back.num_views, cases[i].count);
    assert_string_equal(back.name, "s");
    if (cases[i].count) assert_memory_equal(back.views[0].data, numbers, sizeof numbers);
    if (cases[i].count > 1) assert_int_equal(((tercel_string *)back.views[1].data)[0].data[0], 'a');
    tercel_datum_deinit(&back);
  }
  assert_fails(tercel_tensorpb_write(path, "tensor", "", views, 2, &err), TERCEL_INVALID_ARGUMENT, &err, "2 tensors");
}

/* Wire bytes by hand: dims 1, data type 2, then the typed field. */
static void check(const char *wire, size_t bytes, tercel_dtype dtype, const void *want, size_t want_bytes) {
  tercel_error err = {0};
  tercel_datum datum;
  assert_ok(tercel_tensorpb_parse(wire, bytes, "tensor", &datum, &err), &err);
  assert_int_equal(datum.views->dtype, dtype);
  assert_int_equal(datum.views->bytes, want_bytes);
  assert_memory_equal(datum.views->data, want, want_bytes);
  tercel_datum_deinit(&datum);
}

#define WIRE(text) text, sizeof(text) - 1

static void test_typed_fields(void **state) {
  (void)state;
  check(WIRE("\x08\x02\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\x40"), TERCEL_DTYPE_F32, (const float[]){1, 2}, 8);
  check(WIRE("\x0a\x01\x02\x10\x01\x25\0\0\x80\x3f\x25\0\0\0\x40"), TERCEL_DTYPE_F32, (const float[]){1, 2},
        8); /* not packed */
  check(WIRE("\x08\x02\x10\x06\x2a\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05"), TERCEL_DTYPE_I32,
        (const int32_t[]){-1, 5}, 8);
  check(WIRE("\x2a\x03\x80\x78\x00\x08\x02\x10\x0a"), TERCEL_DTYPE_F16, (const uint16_t[]){0x3c00, 0},
        4); /* data before dims */
  check(WIRE("\x08\x03\x10\x16\x2a\x03\xf1\x01\x02"), TERCEL_DTYPE_I4, "\xf1\x02", 2);
  check(WIRE("\x08\x05\x10\x19\x2a\x03\xe4\x01\x03"), TERCEL_DTYPE_U2, "\xe4\x03", 2);
  check(WIRE("\x08\x01\x10\x07\x3a\x01\x07"), TERCEL_DTYPE_I64, (const int64_t[]){7}, 8);
  check(WIRE("\x08\x01\x10\x0c\x5a\x01\x07"), TERCEL_DTYPE_U32, (const uint32_t[]){7}, 4);
  check(WIRE("\x08\x01\x10\x0e\x22\x08\0\0\x80\x3f\0\0\0\x40"), TERCEL_DTYPE_C64, (const float[]){1, 2}, 8);
  check(WIRE("\x10\x09\x2a\x01\x01"), TERCEL_DTYPE_BOOL, "\x01", 1); /* a scalar */
  check(WIRE("\x08\x00\x10\x01"), TERCEL_DTYPE_F32, "", 0);
}

/* {"a": 1.5, "b": 2} and {7: 1, -1: 2} (keys packed), as onnx.numpy_helper.from_dict writes them. */
static void test_maps(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_datum datum;
#define VALUE(bits) "\x1a\x08\x10\x01\x4a\x04" bits
#define VALUES(a, b) "\x2a\x14" VALUE(a) VALUE(b)
  assert_ok(tercel_tensorpb_parse(WIRE("\x0a\x01m\x10\x08\x22\x01"
                                       "a\x22\x01"
                                       "b" VALUES("\0\0\xc0\x3f", "\0\0\0\x40")),
                                  "map", &datum, &err),
            &err);
  assert_string_equal(datum.name, "m");
  assert_int_equal(datum.num_views, 2);
  assert_int_equal(((const tercel_string *)datum.views[0].data)[1].data[0], 'b');
  assert_memory_equal(datum.views[1].data, ((const float[]){1.5f, 2}), 8);
  tercel_datum_deinit(&datum);
  assert_ok(tercel_tensorpb_parse(WIRE("\x10\x07\x1a\x0b\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" VALUES(
                                      "\0\0\x80\x3f", "\0\0\0\x40")),
                                  "map", &datum, &err),
            &err);
  assert_memory_equal(datum.views[0].data, ((const int64_t[]){7, -1}), 16);
  tercel_datum_deinit(&datum);
  assert_fails(tercel_tensorpb_parse(WIRE("\x18\x07" VALUES("\0\0\x80\x3f", "\0\0\0\x40")), "map", &datum, &err),
               TERCEL_UNSUPPORTED, &err, "1 keys and 2 values");
  assert_fails(
      tercel_tensorpb_parse(WIRE("\x18\x07\x22\x01q" VALUES("\0\0\x80\x3f", "\0\0\0\x40")), "map", &datum, &err),
      TERCEL_INVALID_MODEL, &err, "integer and string keys");
  assert_fails(tercel_tensorpb_parse(WIRE(""), "map", &datum, &err), TERCEL_UNSUPPORTED, &err, "0 keys");
}

static void test_bad_files(void **state) {
  (void)state;
  static const struct {
    const char *wire;
    size_t bytes;
    const char *part;
  } bad[] = {
      {WIRE(""), "data type 0"},
      {WIRE("\x10\x63"), "data type 99"},
      {WIRE("\x08\x03\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\x40"), "fewer"},
      {WIRE("\x08\x01\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\x40"), "more numbers"},
      {WIRE("\x08\x01\x10\x01\x22\x03\0\0\x80"), "inside a number"},
      {WIRE("\x08\x02\x10\x01\x4a\x03xyz"), "3 bytes, want 8"},
      {WIRE("\x08\x01\x10\x08\x4a\x01x"), "strings in raw_data"},
      {WIRE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01"), "more elements"},
      {WIRE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01"), "dim 0 is -1"},
      {WIRE("\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x10\x01"), "dims"},
      {WIRE("\x08\x01\x10\x01\x70\x01"), "external"},
      {WIRE("\x1a\x00\x10\x01"), "segments"},
      {WIRE("\x08\x01\x10\x01\x4a\x7f"), "byte"},
  };
  tercel_error err = {0};
  tercel_datum datum;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_not_equal(tercel_tensorpb_parse(bad[i].wire, bad[i].bytes, "tensor", &datum, &err), TERCEL_OK);
    if (!strstr(err.message, bad[i].part)) fail_msg("case %zu gives '%s', want '%s'", i, err.message, bad[i].part);
    assert_null(datum.views);
  }
  assert_fails(tercel_tensorpb_parse("\x32\x00", 2, "sequence", &datum, &err), TERCEL_UNSUPPORTED, &err,
               "else than tensors");
  assert_fails(tercel_tensorpb_read("/nonexistent.pb", "tensor", &datum, &err), TERCEL_IO, &err, "/nonexistent.pb");
}

static tercel_status write_and_read(void *arg, tercel_error *err) {
  tercel_datum back = {0};
  TERCEL_TRY(tercel_tensorpb_write(path, "sequence", "name", arg, 2, err));
  const tercel_status status = tercel_tensorpb_read(path, "sequence", &back, err);
  tercel_datum_deinit(&back);
  return status;
}

static void test_without_memory(void **state) {
  (void)state;
  float numbers[2000] = {0};
  tercel_view views[] = {{TERCEL_DTYPE_F32, 1, {2000}, numbers, sizeof numbers},
                         {TERCEL_DTYPE_F32, 1, {1}, numbers, sizeof *numbers}};
  assert_true(tercel_test_oom(write_and_read, views, 0) >= 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_sequences_and_optionals),
      cmocka_unit_test(test_typed_fields),   cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_without_memory), cmocka_unit_test(test_maps),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
