/* Pictures: read from files, resized, turned into tensors, and written. */
#ifndef TERCEL_IO_IMAGE_H
#define TERCEL_IO_IMAGE_H

#include "images/images.h"

/* tercel_image_decode of a file, within its limits. */
tercel_status tercel_image_read(const char *path, int channels, tercel_image *out, tercel_error *err);
tercel_status tercel_image_write_png(const char *path, const tercel_image *image, tercel_error *err);

/* Bilinear, pixel centres at half coordinates, borders repeated.  antialias: when shrinking, the triangle is widened by the
 * factor, so that every pixel counts (as Pillow does); else four neighbours (as OpenCV does). */
tercel_status tercel_image_resize(const tercel_image *image, int width, int height, bool antialias, tercel_image *out,
                                  tercel_error *err);

/* How a picture becomes numbers: value = (pixel * scale - mean[c]) / std[c], the channels in the order RGB, or BGR. */
typedef struct tercel_image_norm {
  float scale; /* 1/255 makes pixels 0 .. 1 */
  float mean[3], std[3];
  bool bgr;  /* the first channel of the result, and the first mean and std, are blue's */
  bool nhwc; /* channels last instead of planes */
} tercel_image_norm;

/* out: channels * height * width numbers. */
void tercel_image_normalize(const tercel_image *image, const tercel_image_norm *norm, float *out);

#endif
