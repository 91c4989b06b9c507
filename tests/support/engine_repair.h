/* Bytes of an engine file whose checksums are made to fit again after they were changed, so that what lies behind the checksums is tested. */
#ifndef TERCEL_TESTS_SUPPORT_ENGINE_REPAIR_H
#define TERCEL_TESTS_SUPPORT_ENGINE_REPAIR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/checksum.h"

/* As plan/engine_file.c lays them out. */
enum { ENGINE_HEADER = 64, ENGINE_ROW = 48, ENGINE_SECTIONS = 9, ENGINE_SIZE_AT = 16, ENGINE_TABLE_SUM_AT = 40 };
enum { ENGINE_HEADER_SUM_AT = 56, ENGINE_ROW_OFFSET_AT = 16, ENGINE_ROW_BYTES_AT = 24, ENGINE_ROW_SUM_AT = 32 };

static inline uint64_t engine_get(const uint8_t *at) {
  uint64_t number;
  memcpy(&number, at, sizeof number);
  return number;
}

static inline void engine_set(uint8_t *at, uint64_t number) { memcpy(at, &number, sizeof number); }

static inline void engine_repair(uint8_t *data, size_t size) {
  const size_t top = ENGINE_HEADER + ENGINE_SECTIONS * ENGINE_ROW;
  if (size < top) return;
  for (int i = 0; i < ENGINE_SECTIONS; i++) {
    uint8_t *const row = data + ENGINE_HEADER + i * ENGINE_ROW;
    const uint64_t offset = engine_get(row + ENGINE_ROW_OFFSET_AT), bytes = engine_get(row + ENGINE_ROW_BYTES_AT);
    if (offset <= size && bytes <= size - offset)
      engine_set(row + ENGINE_ROW_SUM_AT, tercel_checksum(data + offset, (size_t)bytes));
  }
  engine_set(data + ENGINE_TABLE_SUM_AT, tercel_checksum(data + ENGINE_HEADER, top - ENGINE_HEADER));
  engine_set(data + ENGINE_HEADER_SUM_AT, tercel_checksum(data, ENGINE_HEADER_SUM_AT));
}

#endif
