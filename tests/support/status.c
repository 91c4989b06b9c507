/* Assertions about statuses and their messages. */
#include <string.h>

#include "support/support.h"

void tercel_test_assert_ok(tercel_status status, const tercel_error *err, const char *file, int line) {
  if (status == TERCEL_OK) return;
  print_error("status %d: %s\n", (int)status, err ? err->message : "(no error struct)");
  _fail(file, line);
}

void tercel_test_assert_fails(tercel_status status, tercel_status want, const tercel_error *err, const char *part,
                              const char *file, int line) {
  const char *message = err ? err->message : "";
  if (status == want && (!part || strstr(message, part))) return;
  print_error("status %d, want %d; message \"%s\", want it to hold \"%s\"\n", (int)status, (int)want, message,
              part ? part : "");
  _fail(file, line);
}
