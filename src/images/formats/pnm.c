/* PBM, PGM and PPM, as text (P1 P2 P3) and as bytes (P4 P5 P6): https://netpbm.sourceforge.net/doc/ppm.html and its siblings. */
#include "images/formats/codec.h"

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool recognize(const tercel_image_source *source) {
  return tercel_image_holds(source, 0, 3) && source->data[0] == 'P' && source->data[1] >= '1' &&
         source->data[1] <= '6' && (is_space(source->data[2]) || source->data[2] == '#');
}

typedef struct reader {
  const uint8_t *at, *end;
} reader;

/* Comments reach from # to the end of the line. */
static void skip_space(reader *r) {
  while (r->at < r->end && (is_space(*r->at) || *r->at == '#')) {
    if (*r->at == '#')
      while (r->at < r->end && *r->at != '\n') r->at++;
    else
      r->at++;
  }
}

/* A decimal number of at most 999999999; false when there is none. */
static bool read_number(reader *r, uint32_t *out) {
  skip_space(r);
  const uint8_t *const first = r->at;
  uint32_t value = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - first < 9; r->at++)
    value = value * 10 + *r->at - '0';
  *out = value;
  return r->at > first;
}

/* One digit: those of P1 need no space between them. */
static bool read_bit(reader *r, uint32_t *out) {
  skip_space(r);
  if (r->at == r->end || (*r->at != '0' && *r->at != '1')) return false;
  *out = (uint32_t)(*r->at++ - '0');
  return true;
}

typedef struct layout {
  bool text;
  int bits;     /* of a sample as bytes: 1, 8 or 16 (big-endian) */
  int samples;  /* of a pixel: 1 or 3 */
  uint32_t max; /* the value of white, or of a full color */
} layout;

static tercel_status fail_cut(tercel_error *err) { return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "cut"); }

static tercel_status read_header(reader *r, layout *l, uint32_t *width, uint32_t *height, tercel_error *err) {
  const int kind = r->at[1] - '0';
  *l = (layout){.text = kind <= 3, .bits = 1, .samples = kind % 3 == 0 ? 3 : 1, .max = 1};
  r->at += 2;
  if (!read_number(r, width) || !read_number(r, height)) return fail_cut(err);
  if (kind % 3 == 1) return TERCEL_OK; /* bits have no maximum */
  if (!read_number(r, &l->max)) return fail_cut(err);
  if (l->max < 1 || l->max > 65535)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "its largest value is %u, want 1 to 65535", l->max);
  l->bits = l->max > 255 ? 16 : 8;
  return TERCEL_OK;
}

/* What the samples take at least, so that a short file can't ask for much memory. */
static size_t least_bytes(const layout *l, uint32_t width, uint32_t height) {
  const size_t samples = (size_t)width * height * (size_t)l->samples;
  if (l->text) return l->bits == 1 ? samples : 2 * samples - 1;
  return l->bits == 1 ? (size_t)height * ((width + 7) / 8) : samples * (size_t)(l->bits / 8);
}

static bool read_text_sample(reader *r, const layout *l, uint32_t *out) {
  return l->bits == 1 ? read_bit(r, out) : read_number(r, out);
}

/* Sample x of a row of bytes. */
static uint32_t read_sample(const uint8_t *row, const layout *l, size_t x) {
  switch (l->bits) {
  case 1: return row[x / 8] >> (7 - x % 8) & 1u;
  case 8: return row[x];
  default: return (uint32_t)row[2 * x] << 8 | row[2 * x + 1];
  }
}

/* One row of samples, as 0 .. 255. */
static tercel_status read_row(reader *r, const layout *l, size_t samples, uint8_t *out, tercel_error *err) {
  const size_t bytes = l->bits == 1 ? (samples + 7) / 8 : samples * (size_t)(l->bits / 8);
  for (size_t x = 0; x < samples; x++) {
    uint32_t value = 0;
    if (!l->text)
      value = read_sample(r->at, l, x);
    else if (!read_text_sample(r, l, &value))
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged or cut");
    if (value > l->max)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged: a value of %u, want at most %u", value, l->max);
    out[x] = tercel_image_scale(l->bits == 1 ? 1 - value : value, l->max); /* a bit that is set is black */
  }
  if (!l->text) r->at += bytes;
  return TERCEL_OK;
}

/* Gray at the beginning of the row as RGB all over it. */
static void spread(uint8_t *row, size_t width) {
  for (size_t x = width; x-- > 0;) memset(row + 3 * x, row[x], 3);
}

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  reader r = {source->data, source->data + source->bytes};
  layout l;
  uint32_t width, height;
  TERCEL_TRY(read_header(&r, &l, &width, &height, err));
  TERCEL_TRY(tercel_image_check_size(source, width, height, err));
  if (r.at < r.end) r.at++; /* one space ends the header */
  if ((size_t)(r.end - r.at) < least_bytes(&l, width, height)) return fail_cut(err);
  TERCEL_TRY(tercel_image_prepare(source, width, height, out, err));
  for (uint32_t y = 0; y < height; y++) {
    uint8_t *const row = out->pixels + (size_t)y * width * 3;
    TERCEL_TRY(read_row(&r, &l, (size_t)width * (size_t)l.samples, row, err));
    if (l.samples == 1) spread(row, width);
  }
  return TERCEL_OK;
}

const tercel_image_codec tercel_image_codec_pnm = {"PNM", recognize, decode};
