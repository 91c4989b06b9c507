/* Status codes, the version, and how error messages are made. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[] = {
    [TERCEL_OK] = "ok",
    [TERCEL_INVALID_ARGUMENT] = "invalid argument",
    [TERCEL_INVALID_MODEL] = "invalid model",
    [TERCEL_UNSUPPORTED] = "unsupported",
    [TERCEL_OUT_OF_MEMORY] = "out of memory",
    [TERCEL_IO] = "input/output error",
    [TERCEL_CANCELLED] = "cancelled",
    [TERCEL_INTERNAL] = "internal error",
};

const char *tercel_status_name(tercel_status status) {
  const size_t count = sizeof status_names / sizeof *status_names;
  return (unsigned)status < count ? status_names[status] : "unknown status";
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *tercel_version(void) {
  return TEXT(TERCEL_VERSION_MAJOR) "." TEXT(TERCEL_VERSION_MINOR) "." TEXT(TERCEL_VERSION_PATCH);
}

/* A message is one line whatever names a file puts into it: control characters become spaces.  One that is too long
 * ends in "...". */
static void set_message(tercel_error *err, tercel_status status, const char *message, size_t full_length) {
  size_t length = strlen(message);
  for (size_t i = 0; i < length; i++) {
    const unsigned char c = (unsigned char)message[i];
    err->message[i] = (char)(c < 0x20 || c == 0x7f ? ' ' : c);
  }
  if (full_length > length && length > 3) memcpy(err->message + length - 3, "...", 3);
  err->message[length] = 0;
  err->status = status;
}

static void __attribute__((format(printf, 3, 0)))
format_message(tercel_error *err, tercel_status status, const char *format, va_list args) {
  char message[TERCEL_ERROR_MESSAGE_MAX]; /* apart from *err: the arguments may point into err->message */
  const int length = vsnprintf(message, sizeof message, format, args);
  if (length < 0) message[0] = 0;
  set_message(err, status, message, length < 0 ? 0 : (size_t)length);
}

tercel_status tercel_fail(tercel_error *err, tercel_status status, const char *format, ...) {
  if (!err) return status;
  va_list args;
  va_start(args, format);
  format_message(err, status, format, args);
  va_end(args);
  return status;
}

tercel_status tercel_error_set(tercel_error *err, tercel_status status, const char *format, ...) {
  if (!err) return status;
  va_list args;
  va_start(args, format);
  format_message(err, status, format, args);
  va_end(args);
  return status;
}

tercel_status tercel_fail_at(tercel_error *err, tercel_status status, const char *place_format, ...) {
  if (!err) return status;
  char place[TERCEL_ERROR_MESSAGE_MAX / 2];
  va_list args;
  va_start(args, place_format);
  if (vsnprintf(place, sizeof place, place_format, args) < 0) place[0] = 0;
  va_end(args);
  return tercel_fail(err, status, "%s: %s", place, err->message);
}

tercel_status tercel_fail_memory(tercel_error *err, size_t bytes, const char *what) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
}
