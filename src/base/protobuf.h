/* Protocol Buffers wire format, read in place.  Knows nothing of any message: a reader asks for field after field.
 * https://protobuf.dev/programming-guides/encoding/.  Groups (wire types 3 and 4, long deprecated) are refused. */
#ifndef TERCEL_BASE_PROTOBUF_H
#define TERCEL_BASE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The part of a message that is still to be read. */
typedef struct tercel_pb {
  const uint8_t *at, *end;
  const uint8_t *file; /* start of the outermost message: errors name offsets from here */
} tercel_pb;

typedef enum tercel_pb_wire {
  TERCEL_PB_VARINT = 0,
  TERCEL_PB_FIXED64 = 1,
  TERCEL_PB_BYTES = 2,
  TERCEL_PB_FIXED32 = 5
} tercel_pb_wire;

typedef struct tercel_pb_field {
  uint32_t number;
  tercel_pb_wire wire;
  uint64_t number_value; /* of varints and fixed */
  tercel_pb bytes;       /* of BYTES: the contents, within the message */
} tercel_pb_field;

static inline tercel_pb tercel_pb_open(const void *data, size_t bytes) {
  const uint8_t *const start = data;
  return (tercel_pb){start, bytes ? start + bytes : start, start};
}
static inline size_t tercel_pb_left(const tercel_pb *message) { return (size_t)(message->end - message->at); }

/* Reads the next field and moves on; *more is false at the end of the message.  INVALID_MODEL names the offset. */
tercel_status tercel_pb_next(tercel_pb *message, tercel_pb_field *field, bool *more, tercel_error *err);
/* Reads one varint, for packed fields. */
tercel_status tercel_pb_varint(tercel_pb *message, uint64_t *out, tercel_error *err);

#endif
