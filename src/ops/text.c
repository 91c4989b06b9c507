/* Strings in the making, and UTF-8. */
#include "ops/text.h"

#include <string.h>

#include "ops/move.h"

/* ---- strings in the making ----------------------------------------------------------------------------------------- */

tercel_status tercel_strings_init(tercel_strings *strings, tercel_arena *scratch, int64_t capacity, tercel_error *err) {
  *strings = (tercel_strings){.ends = tercel_arena_alloc_array(scratch, (size_t)capacity, sizeof(size_t))};
  return strings->ends != NULL ? TERCEL_OK : tercel_fail_memory(err, (size_t)capacity * sizeof(size_t), "strings");
}

void tercel_strings_end(tercel_strings *strings) { strings->ends[strings->count++] = strings->characters.length; }

tercel_status tercel_strings_give(const tercel_strings *strings, tercel_eval *eval, size_t i, int rank,
                                  const int64_t *dims, tercel_error *err) {
  if (strings->characters.failed) return tercel_fail_memory(err, strings->characters.length, "characters");
  char *to = NULL;
  TERCEL_TRY(tercel_eval_strings(eval, i, rank, dims, strings->characters.length, &to, err));
  if (to == NULL) return TERCEL_OK; /* nobody wants them, or there are none */
  if (strings->characters.length > 0) memcpy(to, strings->characters.data, strings->characters.length);
  tercel_string *const elements = eval->out[i]->data;
  size_t begin = 0;
  for (int64_t k = 0; k < strings->count; ++k) {
    elements[k] = (tercel_string){to + begin, strings->ends[k] - begin};
    begin = strings->ends[k];
  }
  return TERCEL_OK;
}

void tercel_strings_deinit(tercel_strings *strings) { tercel_text_deinit(&strings->characters); }

/* ---- UTF-8 --------------------------------------------------------------------------------------------------------- */

enum { REPLACEMENT = 0xFFFD };

uint32_t tercel_utf8_next(const char **at, const char *end) {
  const unsigned char *const s = (const unsigned char *)*at;
  const size_t left = (size_t)(end - *at);
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const size_t length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
  *at += 1;
  if (length == 1) return s[0];
  if (length == 0 || length > left) return REPLACEMENT;
  uint32_t code = s[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (s[i] >> 6 != 2) return REPLACEMENT;
    code = code << 6 | (s[i] & 0x3Fu);
  }
  if (code < smallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return REPLACEMENT;
  *at += length - 1;
  return code;
}

void tercel_utf8_add(tercel_text *text, uint32_t code) {
  char bytes[4];
  const int extra = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
  bytes[0] = (char)(lead[extra] | code >> (6 * extra));
  for (int i = 1; i <= extra; ++i) bytes[i] = (char)(0x80 | (code >> (6 * (extra - i)) & 0x3F));
  tercel_text_add_bytes(text, bytes, (size_t)extra + 1);
}

/* ---- inference ----------------------------------------------------------------------------------------------------- */

tercel_status tercel_infer_check_strings(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_dtype dtype = infer->in[i]->type.dtype;
  if (dtype == TERCEL_DTYPE_NONE || dtype == TERCEL_DTYPE_STRING) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want string", i,
                          tercel_dtype_name(dtype));
}
