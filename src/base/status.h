/* Status and error: how a failure travels up.  See tercel.h for the codes. */
#ifndef TERCEL_BASE_STATUS_H
#define TERCEL_BASE_STATUS_H

#include "tercel/tercel.h"

/* Fills *err (may be NULL) with the code and the formatted message, and returns the code.
 * A message names what was found, where, and what was expected: "Conv 'layer1/conv': weight rank 3, want 4". */
tercel_status tercel_fail(tercel_error *err, tercel_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "place: " before the message that stands in *err (may be NULL); returns its status.  For callers that know the
 * node or file that a lower room doesn't. */
tercel_status tercel_fail_at(tercel_error *err, tercel_status status, const char *place_format, ...)
    __attribute__((format(printf, 3, 4)));

/* Out of memory: says how much was asked and for what. */
tercel_status tercel_fail_memory(tercel_error *err, size_t bytes, const char *what);

/* Returns from the function when the call failed.  For functions that own nothing yet. */
#define TERCEL_TRY(call)                                                                                               \
  do {                                                                                                                 \
    const tercel_status try_status_ = (call);                                                                          \
    if (try_status_ != TERCEL_OK) return try_status_;                                                                  \
  } while (0)

/* Jumps to `done` with `status` set when the call failed.  The one exit of functions that own something. */
#define TERCEL_CHECK(call)                                                                                             \
  do {                                                                                                                 \
    status = (call);                                                                                                   \
    if (status != TERCEL_OK) goto done;                                                                                \
  } while (0)

#endif
