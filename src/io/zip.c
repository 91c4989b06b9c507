/* Zip archives: the directory at the end is the truth; every offset and length is checked against the archive. */
#include "io/zip.h"

#include <string.h>

#if TERCEL_IMAGES
#include <zlib.h> /* libpng brings it */
#endif

enum {
  END_SIGNATURE = 0x06054b50,
  END_BYTES = 22,
  END_COMMENT_MAX = 65535,
  LOCATOR_SIGNATURE = 0x07064b50, /* of the zip64 end record */
  LOCATOR_BYTES = 20,
  END64_SIGNATURE = 0x06064b50,
  END64_BYTES = 56,
  CENTRAL_SIGNATURE = 0x02014b50,
  CENTRAL_BYTES = 46,
  LOCAL_SIGNATURE = 0x04034b50,
  LOCAL_BYTES = 30,
  EXTRA_ZIP64 = 1,
  STORED = 0,
  DEFLATED = 8
};

static tercel_status fail(tercel_error *err, const char *what) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not a well-formed zip archive: %s", what);
}

/* A little-endian number of 2, 4 or 8 bytes. */
static uint64_t get(const uint8_t *at, int bytes) {
  uint64_t value = 0;
  memcpy(&value, at, (size_t)bytes);
  return value;
}

/* Does the archive hold `length` bytes at `offset`? */
static bool holds(const tercel_zip *zip, uint64_t offset, uint64_t length) {
  return offset <= zip->bytes && length <= zip->bytes - offset;
}

/* The end record stands last, but a comment may follow. */
static const uint8_t *find_end(const uint8_t *data, size_t bytes) {
  if (bytes < END_BYTES) return NULL;
  const size_t last = bytes - END_BYTES, first = last > END_COMMENT_MAX ? last - END_COMMENT_MAX : 0;
  for (size_t at = last;; at--) {
    if (get(data + at, 4) == END_SIGNATURE && get(data + at + 20, 2) == last - at) return data + at;
    if (at == first) return NULL;
  }
}

tercel_status tercel_zip_open(const void *data, size_t bytes, tercel_zip *out, tercel_error *err) {
  *out = (tercel_zip){.data = data, .bytes = bytes};
  const uint8_t *const end = find_end(data, bytes);
  if (!end) return fail(err, "it has no directory at its end");
  uint64_t count = get(end + 10, 2), offset = get(end + 16, 4);
  const size_t end_offset = (size_t)(end - out->data);
  if (end_offset >= LOCATOR_BYTES && get(end - LOCATOR_BYTES, 4) == LOCATOR_SIGNATURE) {
    const uint64_t end64 = get(end - LOCATOR_BYTES + 8, 8);
    if (!holds(out, end64, END64_BYTES) || get(out->data + end64, 4) != END64_SIGNATURE)
      return fail(err, "its zip64 end record is missing");
    count = get(out->data + end64 + 32, 8);
    offset = get(out->data + end64 + 48, 8);
  }
  if (!holds(out, offset, 0)) return fail(err, "its directory lies outside");
  out->next_entry = (size_t)offset;
  out->num_left = count;
  return TERCEL_OK;
}

/* Zip64 keeps numbers that do not fit 32 bits in an extra field, in this order, and only those. */
static bool read_zip64(const uint8_t *extra, size_t length, uint64_t *const numbers[3]) {
  while (length >= 4) {
    const uint64_t id = get(extra, 2), size = get(extra + 2, 2);
    if (size > length - 4) return false;
    const uint8_t *at = extra + 4;
    size_t left = (size_t)size;
    for (int i = 0; id == EXTRA_ZIP64 && i < 3; i++) {
      if (*numbers[i] != UINT32_MAX) continue;
      if (left < 8) return false;
      *numbers[i] = get(at, 8);
      at += 8;
      left -= 8;
    }
    extra += 4 + size;
    length -= 4 + (size_t)size;
  }
  return true;
}

tercel_status tercel_zip_next(tercel_zip *zip, tercel_zip_entry *out, bool *more, tercel_error *err) {
  *more = zip->num_left > 0;
  if (!*more) return TERCEL_OK;
  const uint8_t *const central = zip->data + zip->next_entry;
  if (!holds(zip, zip->next_entry, CENTRAL_BYTES) || get(central, 4) != CENTRAL_SIGNATURE)
    return fail(err, "its directory is cut");
  const uint64_t flags = get(central + 8, 2), name_length = get(central + 28, 2), extra_length = get(central + 30, 2);
  const uint64_t length = CENTRAL_BYTES + name_length + extra_length + get(central + 32, 2);
  uint64_t packed = get(central + 20, 4), bytes = get(central + 24, 4), local = get(central + 42, 4);
  if (!holds(zip, zip->next_entry, length)) return fail(err, "its directory is cut");
  if (!read_zip64(central + CENTRAL_BYTES + name_length, (size_t)extra_length,
                  (uint64_t *const[]){&bytes, &packed, &local}))
    return fail(err, "a zip64 field is cut");
  if (flags & 1) return tercel_fail(err, TERCEL_UNSUPPORTED, "an encrypted zip archive");
  if (!holds(zip, local, LOCAL_BYTES) || get(zip->data + local, 4) != LOCAL_SIGNATURE)
    return fail(err, "an entry lies outside");
  const uint64_t start = local + LOCAL_BYTES + get(zip->data + local + 26, 2) + get(zip->data + local + 28, 2);
  if (!holds(zip, start, packed)) return fail(err, "an entry is cut");
  *out = (tercel_zip_entry){
      .name = (const char *)central + CENTRAL_BYTES,
      .name_length = (size_t)name_length,
      .method = (int)get(central + 10, 2),
      .crc = (uint32_t)get(central + 16, 4),
      .packed = zip->data + start,
      .packed_bytes = (size_t)packed,
      .bytes = (size_t)bytes,
  };
  zip->next_entry += (size_t)length;
  zip->num_left--;
  return TERCEL_OK;
}

/* CRC-32 (ISO 3309), four bits a step. */
static uint32_t crc32_of(const uint8_t *data, size_t bytes) {
  static const uint32_t steps[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                     0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                     0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    crc = crc >> 4 ^ steps[crc & 15];
    crc = crc >> 4 ^ steps[crc & 15];
  }
  return ~crc;
}

#if TERCEL_IMAGES
/* Deflate packs at most 1032 to 1, so that the size an entry claims is bounded by what the archive holds. */
static tercel_status inflate_entry(const tercel_zip_entry *entry, tercel_arena *arena, const uint8_t **out,
                                   tercel_error *err) {
  if (entry->bytes / 1032 > entry->packed_bytes || entry->bytes > UINT32_MAX || entry->packed_bytes > UINT32_MAX)
    return fail(err, "an entry claims a size that it can't have");
  uint8_t *const data = tercel_arena_alloc(arena, entry->bytes);
  if (!data) return tercel_fail_memory(err, entry->bytes, "an entry of a zip archive");
  z_stream stream = {.next_in = (Bytef *)(uintptr_t)entry->packed, .avail_in = (uInt)entry->packed_bytes};
  stream.next_out = data;
  stream.avail_out = (uInt)entry->bytes;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return tercel_fail_memory(err, entry->bytes, "zlib");
  const int result = inflate(&stream, Z_FINISH);
  const bool whole = result == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole) return fail(err, "a deflated entry is damaged");
  *out = data;
  return TERCEL_OK;
}
#else
static tercel_status inflate_entry(const tercel_zip_entry *entry, tercel_arena *arena, const uint8_t **out,
                                   tercel_error *err) {
  (void)entry, (void)arena, (void)out;
  return tercel_fail(err, TERCEL_UNSUPPORTED,
                     "a compressed zip archive: this tercel was built without zlib; save it uncompressed");
}
#endif

tercel_status tercel_zip_extract(const tercel_zip_entry *entry, tercel_arena *arena, const uint8_t **out,
                                 tercel_error *err) {
  if (entry->method == DEFLATED)
    TERCEL_TRY(inflate_entry(entry, arena, out, err));
  else if (entry->method != STORED)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "zip compression method %d, want stored or deflated", entry->method);
  else if (entry->bytes != entry->packed_bytes)
    return fail(err, "a stored entry has two sizes");
  else
    *out = entry->packed;
  return crc32_of(*out, entry->bytes) == entry->crc ? TERCEL_OK : fail(err, "the checksum of an entry is wrong");
}
