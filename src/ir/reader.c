/* Reading texts word by word. */
#include "ir/reader.h"

#include <stdio.h>
#include <string.h>

#include "ir/name.h"

tercel_status tercel_reader_fail(const tercel_reader *r, const char *format, ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  size_t line = 1, column = 1;
  for (const char *c = r->text; c < r->at; c++) {
    column = *c == '\n' ? 1 : column + 1;
    line += *c == '\n';
  }
  return tercel_fail(r->err, TERCEL_INVALID_MODEL, "line %zu, column %zu: %s", line, column, message);
}

tercel_status tercel_reader_no_memory(const tercel_reader *r) {
  return tercel_fail(r->err, TERCEL_OUT_OF_MEMORY, "no memory for the graph of a text");
}

char tercel_reader_peek(tercel_reader *r) {
  while (r->at != r->end) {
    if (*r->at == '#') {
      while (r->at != r->end && *r->at != '\n') r->at++;
    } else if (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r') {
      r->at++;
    } else {
      return *r->at;
    }
  }
  return 0;
}

bool tercel_reader_accept(tercel_reader *r, const char *mark) {
  tercel_reader_peek(r);
  const size_t length = strlen(mark);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, mark, length) != 0) return false;
  r->at += length;
  return true;
}

tercel_status tercel_reader_expect(tercel_reader *r, const char *mark) {
  if (tercel_reader_accept(r, mark)) return TERCEL_OK;
  return tercel_reader_fail(r, "want '%s'", mark);
}

/* The word that comes next; length 0 when none does. */
static size_t word_length(tercel_reader *r) {
  tercel_reader_peek(r);
  const char *at = r->at;
  tercel_name_read_bare(&at, r->end, "");
  return (size_t)(at - r->at);
}

bool tercel_reader_accept_word(tercel_reader *r, const char *word) {
  const size_t length = word_length(r);
  if (length != strlen(word) || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

tercel_status tercel_reader_expect_word(tercel_reader *r, const char *word) {
  if (tercel_reader_accept_word(r, word)) return TERCEL_OK;
  return tercel_reader_fail(r, "want '%s'", word);
}

tercel_status tercel_reader_word(tercel_reader *r, const char *what, const char **out, size_t *length) {
  *length = word_length(r);
  if (*length == 0) return tercel_reader_fail(r, "want %s", what);
  *out = r->at;
  r->at += *length;
  return TERCEL_OK;
}

tercel_status tercel_reader_string(tercel_reader *r, const char **out) {
  tercel_text text = {0};
  tercel_status status = TERCEL_OK;
  tercel_reader_peek(r);
  switch (tercel_name_read_quoted(&r->at, r->end, &text)) {
  case TERCEL_NAME_OK:
    *out = tercel_arena_strndup(&r->scratch, text.data, text.length);
    if (!*out) status = tercel_reader_no_memory(r);
    break;
  case TERCEL_NAME_NO_MEMORY: status = tercel_reader_no_memory(r); break;
  case TERCEL_NAME_NONE: status = tercel_reader_fail(r, "want a string in double quotes"); break;
  case TERCEL_NAME_BAD: status = tercel_reader_fail(r, "the string ends or has a bad escape here"); break;
  }
  tercel_text_deinit(&text);
  return status;
}

/* What a number may consist of; whether it is one, the parsing of numbers says. */
static const char *number_end(tercel_reader *r) {
  tercel_reader_peek(r);
  const char *at = r->at;
  while (at != r->end && ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                          *at == '.' || *at == '-' || *at == '+'))
    at++;
  return at;
}

tercel_status tercel_reader_i64(tercel_reader *r, int64_t *out) {
  const char *const end = number_end(r);
  if (!tercel_parse_i64(r->at, (size_t)(end - r->at), out)) return tercel_reader_fail(r, "want an integer of 64 bits");
  r->at = end;
  return TERCEL_OK;
}

tercel_status tercel_reader_f64(tercel_reader *r, double *out) {
  const char *const end = number_end(r);
  if (!tercel_parse_f64(r->at, (size_t)(end - r->at), out)) return tercel_reader_fail(r, "want a number");
  r->at = end;
  return TERCEL_OK;
}

tercel_status tercel_reader_count(tercel_reader *r, const char *what, uint32_t most, uint32_t *out) {
  int64_t number;
  const char *const start = r->at;
  TERCEL_TRY(tercel_reader_i64(r, &number));
  if (number < 0 || number > most) {
    r->at = start;
    tercel_reader_peek(r);
    return tercel_reader_fail(r, "%s: %lld, want 0 to %u", what, (long long)number, most);
  }
  *out = (uint32_t)number;
  return TERCEL_OK;
}

tercel_status tercel_reader_value_name(tercel_reader *r, const char **out) {
  TERCEL_TRY(tercel_reader_expect(r, "%"));
  if (r->at != r->end && *r->at == '"') return tercel_reader_string(r, out);
  const char *const start = r->at;
  if (tercel_name_read_bare(&r->at, r->end, TERCEL_VALUE_NAME_CHARS) != TERCEL_NAME_OK)
    return tercel_reader_fail(r, "want the name of a value after %%");
  *out = tercel_arena_strndup(&r->scratch, start, (size_t)(r->at - start));
  return *out ? TERCEL_OK : tercel_reader_no_memory(r);
}

/* Arrays have room for the next power of two of their entries, from 8 on. */
tercel_status tercel_reader_grow(tercel_reader *r, void **array, size_t count, size_t entry_bytes) {
  const bool is_full = count == 0 || (count >= 8 && (count & (count - 1)) == 0);
  if (!is_full) return TERCEL_OK;
  void *const grown = tercel_arena_alloc_array(&r->scratch, count ? 2 * count : 8, entry_bytes);
  if (!grown) return tercel_reader_no_memory(r);
  if (count) memcpy(grown, *array, count * entry_bytes);
  *array = grown;
  return TERCEL_OK;
}
