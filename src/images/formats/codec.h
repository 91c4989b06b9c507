/* What the decoders share. */
#ifndef TERCEL_IMAGES_FORMATS_CODEC_H
#define TERCEL_IMAGES_FORMATS_CODEC_H

#include <string.h>

#include "images/images.h"

/* A file in memory, and what its picture may have at most. */
typedef struct tercel_image_source {
  const uint8_t *data;
  size_t bytes;
  int64_t max_pixels;
} tercel_image_source;

typedef struct tercel_image_codec {
  const char *name;
  bool (*recognize)(const tercel_image_source *source);
  /* Fills out with RGB.  After a failure its pixels, if any, are the caller's to free. */
  tercel_status (*decode)(const tercel_image_source *source, tercel_image *out, tercel_error *err);
} tercel_image_codec;

extern const tercel_image_codec tercel_image_codec_bmp, tercel_image_codec_jpeg, tercel_image_codec_jpeg2000,
    tercel_image_codec_png, tercel_image_codec_pnm, tercel_image_codec_tiff, tercel_image_codec_webp;

/* Is the size allowed?  Comes before anything that takes memory. */
tercel_status tercel_image_check_size(const tercel_image_source *source, int64_t width, int64_t height,
                                      tercel_error *err);
/* Checks the size and makes room for RGB pixels. */
tercel_status tercel_image_prepare(const tercel_image_source *source, int64_t width, int64_t height, tercel_image *out,
                                   tercel_error *err);

static inline bool tercel_image_holds(const tercel_image_source *source, size_t offset, size_t length) {
  return offset <= source->bytes && length <= source->bytes - offset;
}

/* Do these bytes stand at the offset? */
static inline bool tercel_image_has(const tercel_image_source *source, size_t offset, const char *bytes,
                                    size_t length) {
  return tercel_image_holds(source, offset, length) && memcmp(source->data + offset, bytes, length) == 0;
}

/* A sample of 0 .. max (> 0) as 0 .. 255, rounded. */
static inline uint8_t tercel_image_scale(uint32_t sample, uint32_t max) {
  return (uint8_t)(((uint64_t)sample * 255 + max / 2) / max);
}

/* A sample laid over white. */
static inline uint8_t tercel_image_over_white(uint8_t sample, uint8_t alpha) {
  return (uint8_t)((sample * alpha + 255 * (255 - alpha) + 127) / 255);
}

#endif
