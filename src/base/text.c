/* Growing text, and numbers in the C locale whatever the program's locale is. */
#include "base/text.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"

enum { FIRST_CAPACITY = 128, NUMBER_MAX = 64 };

/* The calling thread's locale is C from enter to leave.  The C library makes no new object for "C". */
typedef struct c_locale {
  locale_t c, before;
} c_locale;

static c_locale enter_c_locale(void) {
  c_locale scope = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (scope.c) scope.before = uselocale(scope.c);
  return scope;
}

static void leave_c_locale(c_locale scope) {
  if (!scope.c) return;
  uselocale(scope.before);
  freelocale(scope.c);
}

/* Room for `more` characters and the 0 after them. */
static bool reserve(tercel_text *text, size_t more) {
  size_t needed;
  if (text->failed || !tercel_add_size(text->length, more, &needed) || !tercel_add_size(needed, 1, &needed)) {
    text->failed = true;
    return false;
  }
  if (needed <= text->capacity) return true;
  size_t capacity = text->capacity ? text->capacity : FIRST_CAPACITY;
  while (capacity < needed) capacity = capacity > SIZE_MAX / 2 ? needed : 2 * capacity;
  char *const grown = tercel_realloc(text->data, text->data ? text->length + 1 : 0, capacity);
  if (!grown) {
    text->failed = true;
    return false;
  }
  text->data = grown;
  text->capacity = capacity;
  return true;
}

void tercel_text_add_bytes(tercel_text *text, const char *data, size_t length) {
  if (!reserve(text, length)) return;
  if (length) memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = 0;
}

void tercel_text_add(tercel_text *text, const char *format, ...) {
  if (text->failed) return;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const c_locale scope = enter_c_locale();
  const int length = vsnprintf(NULL, 0, format, args);
  if (length < 0) text->failed = true;
  if (length >= 0 && reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  leave_c_locale(scope);
  va_end(again);
  va_end(args);
}

static bool add_special(tercel_text *text, double value) {
  if (isnan(value))
    tercel_text_add_bytes(text, "nan", 3);
  else if (isinf(value))
    tercel_text_add(text, value < 0 ? "-inf" : "inf");
  else
    return false;
  return true;
}

/* A decimal of so many digits (15 and 6) survives the way through a normal f64 or f32, so that one that reads back to the
 * value at that precision has its trailing zeros cut by %g and is the shortest; a subnormal may need fewer. */
void tercel_text_add_f64(tercel_text *text, double value) {
  if (add_special(text, value)) return;
  char number[NUMBER_MAX];
  const c_locale scope = enter_c_locale();
  for (int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
    snprintf(number, sizeof number, "%.*g", digits, value);
    if (strtod(number, NULL) == value) break;
  }
  leave_c_locale(scope);
  tercel_text_add_bytes(text, number, strlen(number));
}

void tercel_text_add_f32(tercel_text *text, float value) {
  if (add_special(text, (double)value)) return;
  char number[NUMBER_MAX];
  const c_locale scope = enter_c_locale();
  for (int digits = fabsf(value) < FLT_MIN ? 1 : FLT_DIG; digits <= FLT_DECIMAL_DIG; digits++) {
    snprintf(number, sizeof number, "%.*g", digits, (double)value);
    if (strtof(number, NULL) == value) break;
  }
  leave_c_locale(scope);
  tercel_text_add_bytes(text, number, strlen(number));
}

/* Bytes of the well-formed UTF-8 sequence at data, or 0 (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *data, size_t left) {
  const unsigned first = data[0];
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; i++)
    if ((data[i] & 0xc0) != 0x80) return 0;
  if (length == 1) return 1;
  const unsigned second = data[1];
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f); /* surrogates; > U+10FFFF */
  return overlong || beyond ? 0 : length;
}

/* The letter after a backslash in JSON, or 0. */
static char json_escape(unsigned char c) {
  switch (c) {
  case '"': return '"';
  case '\\': return '\\';
  case '\n': return 'n';
  case '\r': return 'r';
  case '\t': return 't';
  default: return 0;
  }
}

void tercel_text_add_json(tercel_text *text, const char *data, size_t length) {
  tercel_text_add_bytes(text, "\"", 1);
  for (size_t i = 0; i < length;) {
    const unsigned char *const at = (const unsigned char *)data + i;
    const char letter = json_escape(*at);
    size_t taken = utf8_length(at, length - i);
    if (letter)
      tercel_text_add_bytes(text, (const char[]){'\\', letter}, 2);
    else if (taken == 0)
      tercel_text_add_bytes(text, "\\ufffd", 6); /* not UTF-8: the replacement character */
    else if (*at < 0x20 || *at == 0x7f)
      tercel_text_add(text, "\\u%04x", *at);
    else
      tercel_text_add_bytes(text, data + i, taken);
    i += taken ? taken : 1;
  }
  tercel_text_add_bytes(text, "\"", 1);
}

void tercel_text_deinit(tercel_text *text) {
  tercel_free(text->data);
  *text = (tercel_text){0};
}

bool tercel_parse_i64(const char *text, size_t length, int64_t *out) {
  size_t i = length > 0 && (text[0] == '-' || text[0] == '+');
  const bool negative = i && text[0] == '-';
  if (i == length) return false;
  int64_t value = 0; /* kept negative: INT64_MIN has no positive twin */
  for (; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (!tercel_mul_i64(value, 10, &value) || !tercel_sub_i64(value, text[i] - '0', &value)) return false;
  }
  if (!negative && value == INT64_MIN) return false;
  *out = negative ? value : -value;
  return true;
}

bool tercel_parse_f64(const char *text, size_t length, double *out) {
  char copy[1200]; /* the longest exact decimal of an f64 has 1,077 characters */
  if (length == 0 || length >= sizeof copy || memchr(text, 0, length)) return false;
  const char first = text[0];
  if (first == ' ' || (first >= '\t' && first <= '\r')) return false; /* strtod would skip it */
  memcpy(copy, text, length);
  copy[length] = 0;
  char *end = copy;
  const c_locale scope = enter_c_locale();
  errno = 0;
  const double value = strtod(copy, &end);
  const bool too_large = errno == ERANGE && isinf(value);
  leave_c_locale(scope);
  if (end != copy + length || too_large) return false;
  *out = value;
  return true;
}
