/* images: pictures decoded, in the formats that ONNX's ImageDecoder names.  Knows base only; a component that TERCEL_IMAGES=OFF
 * leaves out.  One file a format; BMP and PNM are read here, the others by the libraries that everyone uses for them. */
#ifndef TERCEL_IMAGES_IMAGES_H
#define TERCEL_IMAGES_IMAGES_H

#include "base/base.h"

/* Rows from top to bottom without gaps, pixels from left to right, channels together (RGB, or gray). */
typedef struct tercel_image {
  int width, height, channels; /* channels: 1 or 3 */
  uint8_t *pixels;             /* owned */
} tercel_image;

/* What a picture may have at most.  The sizes that a file claims are checked before anything is decoded. */
enum { TERCEL_IMAGE_SIDE_MAX = 32768, TERCEL_IMAGE_PIXELS_MAX = 1 << 27 };

/* What a build without pictures says instead of decoding. */
#define TERCEL_IMAGES_LEFT_OUT "this tercel was built without pictures: build it with -DTERCEL_IMAGES=ON"

/* A BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP, recognized by content, as gray (channels 1) or RGB (3) of 8 bits.  Transparency
 * is laid over white; gray is ITU-R BT.601's luma; an orientation tag is not applied; of several pages the first.
 * INVALID_ARGUMENT: damaged, cut, or more than max_pixels.  UNSUPPORTED: another format, or built without pictures.  IO: the
 * library of the format isn't installed. */
tercel_status tercel_image_decode(const void *data, size_t bytes, int channels, int64_t max_pixels, tercel_image *out,
                                  tercel_error *err);
void tercel_image_deinit(tercel_image *image); /* safe on a zeroed struct */

#endif
