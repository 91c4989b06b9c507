/* PNG through libpng.  16 bits a sample become 8. */
#include <png.h>

#include "images/formats/codec.h"
#include "images/formats/library.h"

#define FUNCTIONS(F) F(png_image_begin_read_from_memory) F(png_image_finish_read) F(png_image_free)
TERCEL_IMAGE_LIBRARY(png, "libpng16.so.16", FUNCTIONS)

static bool recognize(const tercel_image_source *source) { return tercel_image_has(source, 0, "\x89PNG\r\n\x1a\n", 8); }

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  png library;
  png_image image = {.version = PNG_IMAGE_VERSION};
  const png_color white = {255, 255, 255};
  TERCEL_TRY(tercel_image_load(&png_names, &library, err));
  if (!library.png_image_begin_read_from_memory(&image, source->data, source->bytes))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not well-formed: %s", image.message);
  tercel_status status = tercel_image_prepare(source, image.width, image.height, out, err);
  image.format = PNG_FORMAT_RGB;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* as 8 bits are; libpng's own guess is linear light */
  if (status == TERCEL_OK && !library.png_image_finish_read(&image, &white, out->pixels, 0, NULL))
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged: %s", image.message);
  library.png_image_free(&image);
  return status;
}

const tercel_image_codec tercel_image_codec_png = {"PNG", recognize, decode};
