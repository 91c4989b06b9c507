/* libFuzzer: pictures of all formats from hostile bytes. */
#include "fuzz/fuzz.h"
#include "images/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  tercel_image image;
  tercel_error err;
  if (tercel_image_decode(data, size, size % 2 ? 3 : 1, 1 << 20, &image, &err) == TERCEL_OK)
    tercel_image_deinit(&image);
  return 0;
}
