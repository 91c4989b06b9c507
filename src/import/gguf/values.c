/* Values of metadata: taken out, and printed. */
#include "import/gguf/gguf.h"

#include <string.h>

static const struct {
  const char *name;
  tercel_dtype dtype; /* of numbers; NONE for texts and arrays */
} types[TERCEL_GGUF_NUM_TYPES] = {
    [TERCEL_GGUF_U8] = {"u8", TERCEL_DTYPE_U8},    [TERCEL_GGUF_I8] = {"i8", TERCEL_DTYPE_I8},
    [TERCEL_GGUF_U16] = {"u16", TERCEL_DTYPE_U16}, [TERCEL_GGUF_I16] = {"i16", TERCEL_DTYPE_I16},
    [TERCEL_GGUF_U32] = {"u32", TERCEL_DTYPE_U32}, [TERCEL_GGUF_I32] = {"i32", TERCEL_DTYPE_I32},
    [TERCEL_GGUF_F32] = {"f32", TERCEL_DTYPE_F32}, [TERCEL_GGUF_BOOL] = {"bool", TERCEL_DTYPE_BOOL},
    [TERCEL_GGUF_STRING] = {"string", 0},          [TERCEL_GGUF_ARRAY] = {"array", 0},
    [TERCEL_GGUF_U64] = {"u64", TERCEL_DTYPE_U64}, [TERCEL_GGUF_I64] = {"i64", TERCEL_DTYPE_I64},
    [TERCEL_GGUF_F64] = {"f64", TERCEL_DTYPE_F64},
};

enum { MAX_SHOWN_ELEMENTS = 8, MAX_SHOWN_BYTES = 120 };

const char *tercel_gguf_type_name(tercel_gguf_type type) { return types[type].name; }

/* The dtype of the value's numbers, when element `index` is one. */
static tercel_dtype number_dtype(const tercel_gguf_value *value, uint64_t index) {
  const uint64_t count = value->type == TERCEL_GGUF_ARRAY ? value->count : 1;
  return index < count ? types[value->element].dtype : TERCEL_DTYPE_NONE;
}

bool tercel_gguf_get_f64(const tercel_gguf_value *value, uint64_t index, double *out) {
  const tercel_dtype dtype = number_dtype(value, index);
  if (dtype == TERCEL_DTYPE_NONE) return false;
  *out = tercel_element_get_f64(value->data, dtype, (int64_t)index);
  return true;
}

bool tercel_gguf_get_i64(const tercel_gguf_value *value, uint64_t index, int64_t *out) {
  const tercel_dtype dtype = number_dtype(value, index);
  if (dtype == TERCEL_DTYPE_NONE || tercel_dtype_is_float(dtype)) return false;
  const int64_t number = tercel_element_get_i64(value->data, dtype, (int64_t)index);
  if (dtype == TERCEL_DTYPE_U64 && number < 0) return false;
  *out = number;
  return true;
}

bool tercel_gguf_next_text(const tercel_gguf_value *value, const uint8_t **cursor, const char **text, size_t *length) {
  if (value->element != TERCEL_GGUF_STRING || value->type != TERCEL_GGUF_ARRAY) return false;
  if (*cursor >= value->data + value->bytes) return false;
  uint64_t bytes; /* checked when the file was read */
  memcpy(&bytes, *cursor, sizeof bytes);
  *text = (const char *)*cursor + sizeof bytes;
  *length = (size_t)bytes;
  *cursor += sizeof bytes + bytes;
  return true;
}

static void print_text(const char *text, size_t length, tercel_text *out) {
  const size_t shown = length < MAX_SHOWN_BYTES ? length : MAX_SHOWN_BYTES;
  tercel_text_add_json(out, text, shown);
  if (shown < length) tercel_text_add(out, "... (%zu bytes)", length);
}

static void print_number(const tercel_gguf_value *value, uint64_t index, tercel_text *out) {
  double number = 0;
  tercel_gguf_get_f64(value, index, &number);
  if (value->element == TERCEL_GGUF_BOOL)
    tercel_text_add(out, number != 0 ? "true" : "false");
  else if (value->element == TERCEL_GGUF_F32)
    tercel_text_add_f32(out, (float)number);
  else if (value->element == TERCEL_GGUF_U64)
    tercel_text_add(out, "%llu",
                    (unsigned long long)tercel_element_get_i64(value->data, TERCEL_DTYPE_U64, (int64_t)index));
  else if (value->element == TERCEL_GGUF_I64)
    tercel_text_add(out, "%lld", (long long)tercel_element_get_i64(value->data, TERCEL_DTYPE_I64, (int64_t)index));
  else
    tercel_text_add_f64(out, number);
}

static void print_array(const tercel_gguf_value *value, tercel_text *out) {
  const uint64_t shown = value->count < MAX_SHOWN_ELEMENTS ? value->count : MAX_SHOWN_ELEMENTS;
  const uint8_t *cursor = value->data;
  tercel_text_add(out, "[");
  for (uint64_t i = 0; i < shown; ++i) {
    const char *text;
    size_t length;
    tercel_text_add(out, i > 0 ? ", " : "");
    if (value->element == TERCEL_GGUF_ARRAY)
      tercel_text_add(out, "[...]");
    else if (value->element != TERCEL_GGUF_STRING)
      print_number(value, i, out);
    else if (tercel_gguf_next_text(value, &cursor, &text, &length))
      print_text(text, length, out);
  }
  tercel_text_add(out, shown < value->count ? ", ...] (%llu)" : "]", (unsigned long long)value->count);
}

void tercel_gguf_print_value(const tercel_gguf_value *value, tercel_text *out) {
  if (value->type == TERCEL_GGUF_ARRAY)
    print_array(value, out);
  else if (value->type == TERCEL_GGUF_STRING)
    print_text((const char *)value->data, (size_t)value->count, out);
  else
    print_number(value, 0, out);
}
