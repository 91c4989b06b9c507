/* Protocol Buffers wire format: tags, varints, lengths; every one checked against the bytes that are there. */
#include "base/protobuf.h"

#include <string.h>

static tercel_status fail(const tercel_pb *message, const uint8_t *at, tercel_error *err, const char *what) {
  return tercel_fail(err, TERCEL_INVALID_MODEL, "%s at byte %zu", what, (size_t)(at - message->file));
}

tercel_status tercel_pb_varint(tercel_pb *message, uint64_t *out, tercel_error *err) {
  const uint8_t *const start = message->at;
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (message->at == message->end) return fail(message, start, err, "the file ends inside a number");
    const uint8_t byte = *message->at++;
    if (shift == 63 && byte > 1) return fail(message, start, err, "a number of more than 64 bits");
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out = value;
      return TERCEL_OK;
    }
  }
  return fail(message, start, err, "a number of more than 64 bits");
}

static tercel_status read_fixed(tercel_pb *message, size_t bytes, uint64_t *out, tercel_error *err) {
  if (tercel_pb_left(message) < bytes) return fail(message, message->at, err, "the file ends inside a number");
  *out = 0;
  memcpy(out, message->at, bytes); /* little-endian, as the build checks */
  message->at += bytes;
  return TERCEL_OK;
}

static tercel_status read_bytes(tercel_pb *message, tercel_pb *out, tercel_error *err) {
  const uint8_t *const start = message->at;
  uint64_t length;
  TERCEL_TRY(tercel_pb_varint(message, &length, err));
  const size_t left = tercel_pb_left(message);
  if (length > left)
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "a field of %llu bytes at byte %zu, where %zu are left: the file was cut or damaged",
                       (unsigned long long)length, (size_t)(start - message->file), left);
  *out = (tercel_pb){message->at, message->at + length, message->file};
  message->at += length;
  return TERCEL_OK;
}

tercel_status tercel_pb_next(tercel_pb *message, tercel_pb_field *field, bool *more, tercel_error *err) {
  *more = message->at != message->end;
  if (!*more) return TERCEL_OK;
  const uint8_t *const start = message->at;
  uint64_t tag;
  TERCEL_TRY(tercel_pb_varint(message, &tag, err));
  if (tag >> 3 == 0) return fail(message, start, err, "field number 0, which is not legal,");
  if (tag >> 32 != 0) return fail(message, start, err, "a field number of more than 29 bits");
  field->number = (uint32_t)(tag >> 3);
  field->wire = (tercel_pb_wire)(tag & 7);
  field->number_value = 0;
  field->bytes = (tercel_pb){0};
  switch (field->wire) {
  case TERCEL_PB_VARINT: return tercel_pb_varint(message, &field->number_value, err);
  case TERCEL_PB_FIXED64: return read_fixed(message, 8, &field->number_value, err);
  case TERCEL_PB_FIXED32: return read_fixed(message, 4, &field->number_value, err);
  case TERCEL_PB_BYTES: return read_bytes(message, &field->bytes, err);
  }
  return tercel_fail(err, TERCEL_INVALID_MODEL, "field %u with wire type %u, which is not in use, at byte %zu",
                     (unsigned)field->number, (unsigned)(tag & 7), (size_t)(start - message->file));
}
