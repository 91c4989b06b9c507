/* The headers of a JPEG 2000 file (ISO/IEC 15444-1, annexes A and I), read for the few numbers that say how much memory decoding
 * takes: size, components, tiles, precincts.  Whether the rest is well-formed is the decoder's matter. */
#include "images/formats/jpeg2000.h"

enum {
  SIZ = 0xff51,
  COD = 0xff52,
  COC = 0xff53,
  SOT = 0xff90,
  SOD = 0xff93,
  SIZ_BYTES = 38,       /* length field and all before the components */
  TILE_PART_BYTES = 14, /* what a tile takes at least: SOT and SOD */
  COMPONENTS_MAX = 4
};

bool tercel_jpeg2000_is_bare(const tercel_image_source *source) {
  return tercel_image_has(source, 0, "\xff\x4f\xff\x51", 4);
}

bool tercel_jpeg2000_recognize(const tercel_image_source *source) {
  return tercel_jpeg2000_is_bare(source) || tercel_image_has(source, 0, "\0\0\0\x0cjP  \r\n\x87\n", 12);
}

/* A big-endian number at an offset that was checked. */
static uint64_t get(const tercel_image_source *source, size_t at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value = value << 8 | source->data[at + (size_t)i];
  return value;
}

static tercel_status fail(tercel_error *err, const char *what) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not well-formed: %s", what);
}

/* Where the codestream begins: in the first box jp2c. */
static tercel_status find_codestream(const tercel_image_source *source, size_t *out, tercel_error *err) {
  size_t at = 0;
  *out = 0;
  if (tercel_jpeg2000_is_bare(source)) return TERCEL_OK;
  while (tercel_image_holds(source, at, 8)) {
    size_t header = 8;
    uint64_t length = get(source, at, 4);
    if (length == 1 && tercel_image_holds(source, at, 16)) {
      length = get(source, at + 8, 8);
      header = 16;
    }
    if (tercel_image_has(source, at + 4, "jp2c", 4)) {
      *out = at + header;
      return TERCEL_OK;
    }
    if (length < header || length > source->bytes - at) break; /* 0: to the end of the file */
    at += (size_t)length;
  }
  return fail(err, "it has no codestream");
}

/* Every tile has a header of its own in the file, so that they can't be more than fit. */
static tercel_status check_tiles(const tercel_image_source *source, const uint32_t sizes[8], tercel_error *err) {
  const int64_t width = sizes[0], height = sizes[1], tile_width = sizes[4], tile_height = sizes[5];
  const int64_t left = sizes[6], top = sizes[7];
  if (tile_width < 1 || tile_height < 1 || left >= width || top >= height) return fail(err, "it has no tiles");
  const int64_t across = tercel_ceil_div(width - left, tile_width), down = tercel_ceil_div(height - top, tile_height);
  if (across <= 65535 && down <= 65535 && (uint64_t)(across * down) <= source->bytes / TILE_PART_BYTES)
    return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%lld x %lld tiles in %zu bytes", (long long)across, (long long)down,
                     source->bytes);
}

/* at: behind the marker SIZ.  Width and height of the reference grid, offsets of the picture in it, size and offsets of tiles. */
static tercel_status check_size(const tercel_image_source *source, size_t at, tercel_error *err) {
  uint32_t sizes[8];
  if (!tercel_image_holds(source, at, SIZ_BYTES)) return fail(err, "its header is cut");
  for (size_t i = 0; i < 8; i++) sizes[i] = (uint32_t)get(source, at + 4 + 4 * i, 4);
  TERCEL_TRY(tercel_image_check_size(source, (int64_t)sizes[0] - sizes[2], (int64_t)sizes[1] - sizes[3], err));
  const uint64_t components = get(source, at + 36, 2);
  if (components > COMPONENTS_MAX)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%llu components, want at most %d", (unsigned long long)components,
                       COMPONENTS_MAX);
  return check_tiles(source, sizes, err);
}

/* at: the number of resolutions of COD or COC, then code block width and height, style, transform, and a byte for each resolution's
 * precincts: the logarithms of width and height.  Smaller ones than 4 x 4 cost memory for nothing. */
static tercel_status check_precincts(const tercel_image_source *source, size_t at, size_t end, tercel_error *err) {
  for (size_t i = at + 5; i < end; i++)
    if ((source->data[i] & 15) < 2 || source->data[i] >> 4 < 2)
      return tercel_fail(err, TERCEL_UNSUPPORTED, "precincts smaller than 4 x 4");
  return TERCEL_OK;
}

/* Segments of one header, from `at` to SOT or SOD, which *at stands at then; ends early where the file does. */
static tercel_status check_header(const tercel_image_source *source, size_t *at, tercel_error *err) {
  while (tercel_image_holds(source, *at, 4)) {
    const uint64_t marker = get(source, *at, 2), length = get(source, *at + 2, 2);
    if (marker == SOT || marker == SOD) return TERCEL_OK;
    if (length < 2 || !tercel_image_holds(source, *at + 2, (size_t)length)) break;
    const size_t body = *at + 4, end = *at + 2 + (size_t)length;
    if (marker == SIZ) TERCEL_TRY(check_size(source, *at + 2, err));
    /* Scod, progression, layers (2), transform of components; or the component (1 byte, as they are few), Scoc. */
    if (marker == COD && length >= 7 && source->data[body] & 1) TERCEL_TRY(check_precincts(source, body + 5, end, err));
    if (marker == COC && length >= 4 && source->data[body + 1] & 1)
      TERCEL_TRY(check_precincts(source, body + 2, end, err));
    *at = end;
  }
  *at = source->bytes;
  return TERCEL_OK;
}

tercel_status tercel_jpeg2000_check(const tercel_image_source *source, tercel_error *err) {
  size_t at;
  TERCEL_TRY(find_codestream(source, &at, err));
  if (!tercel_image_has(source, at, "\xff\x4f\xff\x51", 4))
    return fail(err, "its codestream doesn't begin with its size");
  at += 2;
  TERCEL_TRY(check_header(source, &at, err));
  /* SOT: length, tile (2), length of the tile-part from SOT on (4; 0: to the end), part, parts. */
  while (tercel_image_holds(source, at, 12) && get(source, at, 2) == SOT) {
    const uint64_t length = get(source, at + 6, 4);
    size_t in_part = at + 12;
    TERCEL_TRY(check_header(source, &in_part, err));
    if (length < TILE_PART_BYTES || length > source->bytes - at) break;
    at += (size_t)length;
  }
  return TERCEL_OK;
}
