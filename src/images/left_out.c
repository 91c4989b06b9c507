/* In the place of the decoders where TERCEL_IMAGES is off. */
#include "images/images.h"

tercel_status tercel_image_decode(const void *data, size_t bytes, int channels, int64_t max_pixels, tercel_image *out,
                                  tercel_error *err) {
  (void)data, (void)bytes, (void)channels, (void)max_pixels;
  *out = (tercel_image){0};
  return tercel_fail(err, TERCEL_UNSUPPORTED, "%s", TERCEL_IMAGES_LEFT_OUT);
}
