/* Reading zip archives in memory: PKWARE's APPNOTE 6.3.10, zip64 included; stored entries, and deflated ones where zlib is there.  No
 * encryption, no split archives. */
#ifndef TERCEL_IO_ZIP_H
#define TERCEL_IO_ZIP_H

#include "base/base.h"

typedef struct tercel_zip {
  const uint8_t *data; /* borrowed */
  size_t bytes;
  size_t next_entry; /* offset of the next central header */
  uint64_t num_left;
} tercel_zip;

typedef struct tercel_zip_entry {
  const char *name; /* borrowed, not 0-terminated */
  size_t name_length;
  int method; /* 0 stored, 8 deflated */
  uint32_t crc;
  const uint8_t *packed; /* borrowed */
  size_t packed_bytes, bytes;
} tercel_zip_entry;

tercel_status tercel_zip_open(const void *data, size_t bytes, tercel_zip *out, tercel_error *err);
/* The next entry of the archive's directory; *more is false after the last. */
tercel_status tercel_zip_next(tercel_zip *zip, tercel_zip_entry *out, bool *more, tercel_error *err);
/* The contents: *out points into the archive (stored), or into memory of the arena.  The checksum is checked. */
tercel_status tercel_zip_extract(const tercel_zip_entry *entry, tercel_arena *arena, const uint8_t **out,
                                 tercel_error *err);

#endif
