/* libFuzzer: pictures of all formats from hostile bytes. */
#include "images/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_image image;
  tercel_error err;
  if (tercel_image_decode(data, size, 1 + 2 * (size % 2), 1 << 20, &image, &err) == TERCEL_OK)
    tercel_image_deinit(&image);
  return 0;
}
