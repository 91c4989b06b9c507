/* What is there with and without decoders. */
#include "images/images.h"

void tercel_image_deinit(tercel_image *image) {
  tercel_free(image->pixels);
  *image = (tercel_image){0};
}
