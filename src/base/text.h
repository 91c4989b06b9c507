/* A growing text, and numbers that do not depend on the locale. */
#ifndef TERCEL_BASE_TEXT_H
#define TERCEL_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zero-initialize.  After a failed allocation `failed` is set, further calls do nothing, and tercel_text_take says so. */
typedef struct tercel_text {
  char *data; /* 0-terminated once anything was added */
  size_t length, capacity;
  bool failed;
} tercel_text;

void tercel_text_add(tercel_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tercel_text_add_bytes(tercel_text *text, const char *data, size_t length);
/* The shortest decimal that reads back to the same value: 1, 0.1, -1e-05, inf, nan. */
void tercel_text_add_f64(tercel_text *text, double value);
void tercel_text_add_f32(tercel_text *text, float value);
/* A JSON string literal with its quotes. */
void tercel_text_add_json(tercel_text *text, const char *data, size_t length);
void tercel_text_deinit(tercel_text *text);

/* Parse all of [text, text + length); false when anything is left over or out of range.  C locale always. */
bool tercel_parse_i64(const char *text, size_t length, int64_t *out);
bool tercel_parse_f64(const char *text, size_t length, double *out);

#endif
