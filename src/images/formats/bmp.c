/* BMP: 1, 2, 4, 8, 16, 24 and 32 bits a pixel, RLE4 and RLE8, channel masks, headers from OS/2's to version 5 (Microsoft,
 * "Bitmap Storage").  A BMP that wraps a JPEG or a PNG is not read. */
#include "images/formats/codec.h"

enum {
  FILE_HEADER_BYTES = 14,
  CORE_HEADER_BYTES = 12, /* OS/2 */
  INFO_HEADER_BYTES = 40,
  ALPHA_HEADER_BYTES = 56, /* the first one with a mask of alpha */
  RGB = 0,
  RLE8 = 1,
  RLE4 = 2,
  BITFIELDS = 3,
  ALPHA_BITFIELDS = 6
};

typedef struct channel {
  uint32_t max; /* 0: there is none */
  int shift;
} channel;

typedef struct bitmap {
  const tercel_image_source *source;
  int64_t width, height;
  bool top_down;
  uint32_t bits, compression;
  size_t pixels; /* where they begin */
  channel channels[4];
  uint8_t palette[256][3];
} bitmap;

static bool recognize(const tercel_image_source *source) { return tercel_image_has(source, 0, "BM", 2); }

/* Little-endian numbers at an offset that was checked. */
static uint32_t get16(const tercel_image_source *source, size_t at) {
  return source->data[at] | (uint32_t)source->data[at + 1] << 8;
}
static uint32_t get32(const tercel_image_source *source, size_t at) {
  return get16(source, at) | get16(source, at + 2) << 16;
}

static tercel_status fail_cut(tercel_error *err) { return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "cut"); }

static tercel_status check_format(const bitmap *b, tercel_error *err) {
  static const struct {
    uint32_t compression, bits;
  } known[] = {
      {RGB, 1},
      {RGB, 2},
      {RGB, 4},
      {RGB, 8},
      {RGB, 16},
      {RGB, 24},
      {RGB, 32},
      {RLE8, 8},
      {RLE4, 4},
      {BITFIELDS, 16},
      {BITFIELDS, 32},
      {ALPHA_BITFIELDS, 16},
      {ALPHA_BITFIELDS, 32},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].compression == b->compression && known[i].bits == b->bits) return TERCEL_OK;
  return tercel_fail(err, TERCEL_UNSUPPORTED, "compression %u of %u bits a pixel is not supported", b->compression,
                     b->bits);
}

static tercel_status read_mask(uint32_t mask, channel *out, tercel_error *err) {
  *out = (channel){0};
  if (mask == 0) return TERCEL_OK;
  out->shift = __builtin_ctz(mask);
  out->max = mask >> out->shift;
  if ((out->max & (out->max + 1)) == 0) return TERCEL_OK; /* all ones, though max + 1 may be 0 */
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a channel's mask is 0x%08x, want bits side by side", mask);
}

/* Red, green, blue, alpha: from the header, or what its absence means. */
static tercel_status read_masks(bitmap *b, uint32_t header_bytes, tercel_error *err) {
  const bool wide = b->bits == 32;
  uint32_t masks[4] = {wide ? 0xff0000 : 0x7c00, wide ? 0xff00 : 0x03e0, wide ? 0xff : 0x1f, 0};
  if (b->compression != RGB) {
    const int count = b->compression == ALPHA_BITFIELDS || header_bytes >= ALPHA_HEADER_BYTES ? 4 : 3;
    const size_t at = FILE_HEADER_BYTES + INFO_HEADER_BYTES;
    if (!tercel_image_holds(b->source, at, (size_t)count * 4)) return fail_cut(err);
    for (int i = 0; i < count; i++) masks[i] = get32(b->source, at + (size_t)i * 4);
  }
  for (int i = 0; i < 4; i++) TERCEL_TRY(read_mask(masks[i], &b->channels[i], err));
  return TERCEL_OK;
}

/* Colors that the file doesn't list are black.  Entries are blue, green, red and, but for OS/2's, an unused byte. */
static tercel_status read_palette(bitmap *b, uint32_t header_bytes, tercel_error *err) {
  const size_t entry = header_bytes == CORE_HEADER_BYTES ? 3 : 4, at = FILE_HEADER_BYTES + (size_t)header_bytes;
  uint32_t count = header_bytes == CORE_HEADER_BYTES ? 0 : get32(b->source, FILE_HEADER_BYTES + 32);
  if (count == 0 || count > 1u << b->bits) count = 1u << b->bits;
  if (b->pixels < at) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "its pixels lie in its header");
  if (count > (b->pixels - at) / entry) count = (uint32_t)((b->pixels - at) / entry);
  if (!tercel_image_holds(b->source, at, count * entry)) return fail_cut(err);
  for (uint32_t i = 0; i < count; i++)
    for (size_t c = 0; c < 3; c++) b->palette[i][c] = b->source->data[at + i * entry + 2 - c];
  return TERCEL_OK;
}

static tercel_status read_header(const tercel_image_source *source, bitmap *b, tercel_error *err) {
  *b = (bitmap){.source = source};
  if (!tercel_image_holds(source, 0, FILE_HEADER_BYTES + CORE_HEADER_BYTES)) return fail_cut(err);
  const uint32_t header_bytes = get32(source, FILE_HEADER_BYTES);
  const size_t at = FILE_HEADER_BYTES;
  b->pixels = get32(source, 10);
  if (header_bytes == CORE_HEADER_BYTES) {
    b->width = get16(source, at + 4);
    b->height = get16(source, at + 6);
    b->bits = get16(source, at + 10);
  } else if (header_bytes >= INFO_HEADER_BYTES && tercel_image_holds(source, at, INFO_HEADER_BYTES)) {
    const int64_t height = (int32_t)get32(source, at + 8);
    b->width = (int32_t)get32(source, at + 4);
    b->height = height < 0 ? -height : height;
    b->top_down = height < 0;
    b->bits = get16(source, at + 14);
    b->compression = get32(source, at + 16);
  } else {
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a header of %u bytes", header_bytes);
  }
  TERCEL_TRY(check_format(b, err));
  if (b->bits <= 8) return read_palette(b, header_bytes, err);
  return b->bits == 24 ? TERCEL_OK : read_masks(b, header_bytes, err);
}

/* ---- plain rows ---------------------------------------------------------------------------------------------------- */

static void put_masked(const bitmap *b, uint32_t pixel, uint8_t rgb[3]) {
  uint8_t values[4] = {0, 0, 0, 255};
  for (int i = 0; i < 4; i++)
    if (b->channels[i].max)
      values[i] = tercel_image_scale(pixel >> b->channels[i].shift & b->channels[i].max, b->channels[i].max);
  for (int i = 0; i < 3; i++) rgb[i] = tercel_image_over_white(values[i], values[3]);
}

static void put_row(const bitmap *b, size_t at, uint8_t *rgb) {
  const uint8_t *const row = b->source->data + at;
  for (size_t x = 0; x < (size_t)b->width; x++, rgb += 3) {
    switch (b->bits) {
    case 16: put_masked(b, get16(b->source, at + 2 * x), rgb); break;
    case 24:
      for (size_t c = 0; c < 3; c++) rgb[c] = row[3 * x + 2 - c];
      break;
    case 32: put_masked(b, get32(b->source, at + 4 * x), rgb); break;
    default: { /* the first pixel in the highest bits */
      const size_t bit = x * b->bits;
      const unsigned index = row[bit / 8] >> (8 - b->bits - bit % 8) & ((1u << b->bits) - 1);
      memcpy(rgb, b->palette[index], 3);
    }
    }
  }
}

/* Row y from the top, in the result. */
static uint8_t *row_of(const bitmap *b, int64_t y, tercel_image *out) {
  return out->pixels + (size_t)(b->top_down ? y : b->height - 1 - y) * (size_t)b->width * 3;
}

static tercel_status decode_rows(const bitmap *b, tercel_image *out, tercel_error *err) {
  const size_t bits = (size_t)b->width * b->bits, bytes = (bits + 7) / 8, stride = (bits + 31) / 32 * 4;
  if (!tercel_image_holds(b->source, b->pixels, stride * (size_t)(b->height - 1) + bytes)) return fail_cut(err);
  TERCEL_TRY(tercel_image_prepare(b->source, b->width, b->height, out, err));
  for (int64_t y = 0; y < b->height; y++) put_row(b, b->pixels + (size_t)y * stride, row_of(b, y, out));
  return TERCEL_OK;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

typedef struct runs {
  const bitmap *b;
  tercel_image *out;
  size_t at; /* the next byte */
  int64_t x, y;
} runs;

/* What lies outside the picture is dropped. */
static void put_index(runs *r, unsigned index) {
  if (r->x < r->b->width && r->y < r->b->height) memcpy(row_of(r->b, r->y, r->out) + 3 * r->x, r->b->palette[index], 3);
  r->x++;
}

/* Pixel i of the byte(s) at `from`: of RLE4 two in a byte, the first one higher. */
static unsigned index_at(const bitmap *b, size_t from, unsigned i) {
  if (b->compression == RLE8) return b->source->data[from + i];
  return b->source->data[from + i / 2] >> (i % 2 ? 0 : 4) & 15u;
}

/* `count` pixels as they are, padded to an even number of bytes. */
static bool put_literal(runs *r, unsigned count) {
  const size_t bytes = r->b->compression == RLE8 ? count : (count + 1) / 2;
  if (!tercel_image_holds(r->b->source, r->at, bytes)) return false;
  for (unsigned i = 0; i < count; i++) put_index(r, index_at(r->b, r->at, i));
  r->at += bytes + bytes % 2;
  return true;
}

/* `count` pixels of the color(s) in one byte. */
static void put_run(runs *r, unsigned count) {
  for (unsigned i = 0; i < count; i++) put_index(r, index_at(r->b, r->at - 1, r->b->compression == RLE8 ? 0 : i % 2));
}

/* One command; *more is false at the end of the picture. */
static bool step(runs *r, bool *more) {
  const tercel_image_source *const source = r->b->source;
  if (!tercel_image_holds(source, r->at, 2)) return false;
  const unsigned count = source->data[r->at], what = source->data[r->at + 1];
  r->at += 2;
  if (count > 0) {
    put_run(r, count);
  } else if (what == 0) { /* end of the row */
    r->x = 0;
    r->y++;
  } else if (what == 1) { /* end of the picture */
    *more = false;
  } else if (what == 2) { /* a step right and up */
    if (!tercel_image_holds(source, r->at, 2)) return false;
    r->x += source->data[r->at];
    r->y += source->data[r->at + 1];
    r->at += 2;
  } else {
    return put_literal(r, what);
  }
  return true;
}

/* Pixels that no command names have the first color. */
static tercel_status decode_runs(const bitmap *b, tercel_image *out, tercel_error *err) {
  TERCEL_TRY(tercel_image_prepare(b->source, b->width, b->height, out, err));
  for (size_t i = 0; i < (size_t)b->width * (size_t)b->height; i++) memcpy(out->pixels + 3 * i, b->palette[0], 3);
  runs r = {.b = b, .out = out, .at = b->pixels};
  bool more = true;
  while (more)
    if (!step(&r, &more)) return fail_cut(err);
  return TERCEL_OK;
}

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  bitmap b;
  TERCEL_TRY(read_header(source, &b, err));
  TERCEL_TRY(tercel_image_check_size(source, b.width, b.height, err));
  return b.compression == RLE8 || b.compression == RLE4 ? decode_runs(&b, out, err) : decode_rows(&b, out, err);
}

const tercel_image_codec tercel_image_codec_bmp = {"BMP", recognize, decode};
