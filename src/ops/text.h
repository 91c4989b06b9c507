/* What the operators on strings share: strings in the making, and characters beyond ASCII.  Nothing here depends on the locale. */
#ifndef TERCEL_OPS_TEXT_H
#define TERCEL_OPS_TEXT_H

#include "ops/ops.h"

/* Strings of a result while they are made, one after the other: their characters, and where each ends.  tercel_strings_deinit when
 * done; the ends live in `scratch`, which has room for as many as were asked for. */
typedef struct tercel_strings {
  tercel_text characters;
  size_t *ends;
  int64_t count;
} tercel_strings;

tercel_status tercel_strings_init(tercel_strings *strings, tercel_arena *scratch, int64_t capacity, tercel_error *err);
/* Ends the string that was added to `characters` since the last call. */
void tercel_strings_end(tercel_strings *strings);
/* The strings as output i of this shape (as many elements as there are strings). */
tercel_status tercel_strings_give(const tercel_strings *strings, tercel_eval *eval, size_t i, int rank,
                                  const int64_t *dims, tercel_error *err);
void tercel_strings_deinit(tercel_strings *strings);

/* The elements of a string tensor. */
static inline const tercel_string *tercel_tensor_strings(const tercel_tensor *tensor) { return tensor->data; }

/* Fails when input i is known not to hold strings. */
tercel_status tercel_infer_check_strings(const tercel_infer *infer, size_t i, tercel_error *err);

/* The code point at *at, which moves behind it; a byte that is no UTF-8 is U+FFFD.  at < end. */
uint32_t tercel_utf8_next(const char **at, const char *end);
void tercel_utf8_add(tercel_text *text, uint32_t code);
/* Unicode's simple case mappings: one code point to one (case.c). */
uint32_t tercel_to_upper(uint32_t code);
uint32_t tercel_to_lower(uint32_t code);

#endif
