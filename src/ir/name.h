/* Names in texts: bare where they are plain, else quoted as JSON strings.  For files of ir only. */
#ifndef TERCEL_IR_NAME_H
#define TERCEL_IR_NAME_H

#include "base/base.h"

/* Letters, digits, _ and the characters of `more`; the first not a digit unless more says so with a leading '0'. */
bool tercel_name_is_bare(const char *name, const char *more);
/* Bare or quoted. */
void tercel_name_print(const char *name, const char *more, tercel_text *out);

typedef enum tercel_name_result {
  TERCEL_NAME_OK,
  TERCEL_NAME_NONE,
  TERCEL_NAME_BAD,
  TERCEL_NAME_NO_MEMORY
} tercel_name_result;

/* Reads a bare name (the longest) at *text; NONE when there is none.  *text moves behind it. */
tercel_name_result tercel_name_read_bare(const char **text, const char *end, const char *more);
/* Reads a quoted one, *text at its quote, into `out` (appended); BAD at *text for a bad escape, a zero or a missing
 * quote. */
tercel_name_result tercel_name_read_quoted(const char **text, const char *end, tercel_text *out);

#endif
