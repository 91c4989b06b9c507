/* Buffers with guard bytes.  Not through base/alloc.h: they work while a test fails allocations. */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { GUARD_BYTES = 256, GUARD = 0x5A, FILL = 0xA5, ALIGNMENT = 64 };

tercel_test_buffer tercel_test_buffer_create(size_t bytes, size_t offset) {
  tercel_test_buffer buffer = {.bytes = bytes, .block_bytes = GUARD_BYTES + offset + bytes + GUARD_BYTES};
  buffer.block_bytes = (buffer.block_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  buffer.block = aligned_alloc(ALIGNMENT, buffer.block_bytes);
  assert_non_null(buffer.block);
  memset(buffer.block, GUARD, buffer.block_bytes);
  buffer.data = buffer.block + GUARD_BYTES + offset;
  memset(buffer.data, FILL, bytes);
  return buffer;
}

static void check(const tercel_test_buffer *buffer, const uint8_t *from, const uint8_t *to) {
  for (const uint8_t *p = from; p < to; p++)
    if (*p != GUARD) fail_msg("byte %td of a buffer of %zu bytes was written", p - buffer->data, buffer->bytes);
}

void tercel_test_buffer_check(const tercel_test_buffer *buffer) {
  check(buffer, buffer->block, buffer->data);
  check(buffer, buffer->data + buffer->bytes, buffer->block + buffer->block_bytes);
}

void tercel_test_buffer_destroy(tercel_test_buffer *buffer) {
  if (!buffer->block) return;
  tercel_test_buffer_check(buffer);
  free(buffer->block);
  *buffer = (tercel_test_buffer){0};
}
