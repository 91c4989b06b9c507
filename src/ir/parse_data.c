/* The elements of constants out of a text.  The grammar stands in print.c. */
#include <string.h>

#include "ir/reader.h"

static tercel_status read_string_element(tercel_reader *r, const tercel_tensor *t, int64_t i) {
  const char *text;
  TERCEL_TRY(tercel_reader_string(r, &text));
  const size_t length = strlen(text);
  const char *const copy = tercel_arena_copy(r->graph->arena, text, length);
  if (!copy) return tercel_reader_no_memory(r);
  ((tercel_string *)t->data)[i] = (tercel_string){copy, length};
  return TERCEL_OK;
}

/* u64 reaches further than i64. */
static tercel_status read_u64(tercel_reader *r, int64_t *out) {
  const char *const start = r->at;
  uint64_t value = 0;
  tercel_reader_peek(r);
  for (; r->at != r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*r->at - '0'), &value))
      return tercel_reader_fail(r, "want an unsigned integer of 64 bits");
  if (r->at == start) return tercel_reader_fail(r, "want an unsigned integer");
  *out = (int64_t)value;
  return TERCEL_OK;
}

static tercel_status read_integer_element(tercel_reader *r, const tercel_tensor *t, int64_t i) {
  int64_t value;
  if (t->dtype == TERCEL_DTYPE_U64)
    TERCEL_TRY(read_u64(r, &value));
  else
    TERCEL_TRY(tercel_reader_i64(r, &value));
  tercel_element_set_i64(t->data, t->dtype, i, value);
  if (tercel_element_get_i64(t->data, t->dtype, i) == value) return TERCEL_OK;
  return tercel_reader_fail(r, "%lld does not fit %s", (long long)value, tercel_dtype_name(t->dtype));
}

static tercel_status read_float_element(tercel_reader *r, void *data, tercel_dtype dtype, int64_t i) {
  double value;
  TERCEL_TRY(tercel_reader_f64(r, &value));
  tercel_element_set_f64(data, dtype, i, value);
  return TERCEL_OK;
}

static tercel_status read_element(tercel_reader *r, const tercel_tensor *t, int64_t i) {
  const tercel_dtype part = t->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
  switch (tercel_dtype_get_kind(t->dtype)) {
  case TERCEL_KIND_FLOAT: return read_float_element(r, t->data, t->dtype, i);
  case TERCEL_KIND_STRING: return read_string_element(r, t, i);
  case TERCEL_KIND_COMPLEX:
    TERCEL_TRY(read_float_element(r, t->data, part, 2 * i));
    TERCEL_TRY(tercel_reader_expect(r, ","));
    return read_float_element(r, t->data, part, 2 * i + 1);
  default: return read_integer_element(r, t, i);
  }
}

static tercel_status read_elements(tercel_reader *r, const tercel_tensor *t, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (i) TERCEL_TRY(tercel_reader_expect(r, ","));
    TERCEL_TRY(read_element(r, t, i));
  }
  return TERCEL_OK;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static tercel_status read_hex(tercel_reader *r, const tercel_tensor *t) {
  tercel_reader_peek(r);
  for (size_t i = 0; i < t->bytes; i++) {
    const int high = r->end - r->at < 2 ? -1 : hex_digit(r->at[0]), low = high < 0 ? -1 : hex_digit(r->at[1]);
    if (low < 0) return tercel_reader_fail(r, "want %zu bytes in hexadecimal, got %zu", t->bytes, i);
    ((uint8_t *)t->data)[i] = (uint8_t)(16 * high + low);
    r->at += 2;
  }
  return TERCEL_OK;
}

static bool is(const char *kind, size_t length, const char *name) {
  return strlen(name) == length && memcmp(kind, name, length) == 0;
}

tercel_status tercel_reader_data(tercel_reader *r, const tercel_tensor *t, const char *kind, size_t length) {
  const int64_t count = tercel_tensor_num_elements(t);
  const bool is_text = t->dtype == TERCEL_DTYPE_STRING;
  TERCEL_TRY(tercel_reader_expect(r, "("));
  if (is(kind, length, "data")) {
    TERCEL_TRY(read_elements(r, t, count));
  } else if (is_text) {
    return tercel_reader_fail(r, "strings want data(...)");
  } else if (is(kind, length, "hex")) {
    TERCEL_TRY(read_hex(r, t));
  } else if (is(kind, length, "ramp")) {
    for (int64_t i = 0; i < count; i++) tercel_ramp_element(t->data, t->dtype, i);
  } else if (is(kind, length, "fill")) {
    if (count == 0) return tercel_reader_fail(r, "nothing to fill");
    TERCEL_TRY(read_element(r, t, 0));
    for (int64_t i = 1; i < count; i++) tercel_element_copy(t->data, i, t->data, 0, t->dtype);
  } else if (is(kind, length, "hidden")) {
    return tercel_reader_fail(r, "this text was printed without its large data: it can't be read back");
  } else if (!is(kind, length, "zeros")) {
    return tercel_reader_fail(r, "want data, hex, fill, zeros or ramp");
  }
  return tercel_reader_expect(r, ")");
}
