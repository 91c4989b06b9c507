/* Names in texts: bare where they are plain, else quoted as JSON strings. */
#include "ir/name.h"

#include <string.h>

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_in(char c, const char *more) { return c && strchr(more, c); }

static bool can_start(char c, const char *more) {
  return is_letter(c) || (*more == '0' && (is_digit(c) || is_in(c, more)));
}

static bool can_follow(char c, const char *more) { return is_letter(c) || is_digit(c) || is_in(c, more); }

bool tercel_name_is_bare(const char *name, const char *more) {
  const char *end = name + strlen(name);
  const char *at = name;
  return tercel_name_read_bare(&at, end, more) == TERCEL_NAME_OK && at == end;
}

void tercel_name_print(const char *name, const char *more, tercel_text *out) {
  if (tercel_name_is_bare(name, more))
    tercel_text_add_bytes(out, name, strlen(name));
  else
    tercel_text_add_json(out, name, strlen(name));
}

tercel_name_result tercel_name_read_bare(const char **text, const char *end, const char *more) {
  const char *at = *text;
  if (at == end || !can_start(*at, more)) return TERCEL_NAME_NONE;
  while (at != end && can_follow(*at, more)) at++;
  *text = at;
  return TERCEL_NAME_OK;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The four digits of \uXXXX; -1 when they are none. */
static int read_hex4(const char *at, const char *end) {
  if (end - at < 4) return -1;
  int code = 0;
  for (int i = 0; i < 4; i++) {
    const int digit = hex_digit(at[i]);
    if (digit < 0) return -1;
    code = 16 * code + digit;
  }
  return code;
}

/* Characters of the basic plane; others stand in the text as themselves, never as a pair of escapes. */
static bool add_utf8(int code, tercel_text *out) {
  if (code == 0 || (code >= 0xd800 && code < 0xe000)) return false;
  char bytes[3];
  size_t count = 0;
  if (code < 0x80) {
    bytes[count++] = (char)code;
  } else if (code < 0x800) {
    bytes[count++] = (char)(0xc0 | code >> 6);
    bytes[count++] = (char)(0x80 | (code & 0x3f));
  } else {
    bytes[count++] = (char)(0xe0 | code >> 12);
    bytes[count++] = (char)(0x80 | (code >> 6 & 0x3f));
    bytes[count++] = (char)(0x80 | (code & 0x3f));
  }
  tercel_text_add_bytes(out, bytes, count);
  return true;
}

/* *at stands behind the backslash. */
static bool read_escape(const char **at, const char *end, tercel_text *out) {
  static const char letters[] = "\"\\/nrtbf", meanings[] = "\"\\/\n\r\t\b\f";
  if (*at == end) return false;
  const char c = *(*at)++;
  if (c == 'u') {
    const int code = read_hex4(*at, end);
    if (code < 0 || !add_utf8(code, out)) return false;
    *at += 4;
    return true;
  }
  const char *const letter = c ? strchr(letters, c) : NULL;
  if (letter) tercel_text_add_bytes(out, &meanings[letter - letters], 1);
  return letter;
}

tercel_name_result tercel_name_read_quoted(const char **text, const char *end, tercel_text *out) {
  const char *at = *text;
  if (at == end || *at != '"') return TERCEL_NAME_NONE;
  tercel_text_add_bytes(out, "", 0); /* an empty name is a string too */
  for (at++; at != end && *at != '"';) {
    *text = at;
    const char c = *at++;
    if (c == '\\' ? !read_escape(&at, end, out) : (unsigned char)c < 0x20) return TERCEL_NAME_BAD;
    if (c != '\\') tercel_text_add_bytes(out, &c, 1);
  }
  *text = at;
  if (at == end) return TERCEL_NAME_BAD;
  *text = at + 1;
  return out->failed ? TERCEL_NAME_NO_MEMORY : TERCEL_NAME_OK;
}
