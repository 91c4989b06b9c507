/* Pictures from files of any format that tercel decodes, and into PNG files. */
#include "io/image.h"

#if TERCEL_IMAGES
#include <png.h>

tercel_status tercel_image_write_png(const char *path, const tercel_image *image, tercel_error *err) {
  png_image png = {
      .version = PNG_IMAGE_VERSION,
      .width = (png_uint_32)image->width,
      .height = (png_uint_32)image->height,
      .format = image->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB,
  };
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png); /* without compression: what it takes at most */
  void *const data = tercel_alloc(bytes);
  if (!data) return tercel_fail_memory(err, bytes, "a PNG");
  tercel_status status = TERCEL_OK;
  if (!png_image_write_to_memory(&png, data, &bytes, 0, image->pixels, 0, NULL))
    status = tercel_fail(err, TERCEL_INTERNAL, "libpng can't write '%s': %s", path, png.message);
  if (status == TERCEL_OK) status = tercel_file_write(path, data, bytes, err);
  tercel_free(data);
  return status;
}

#else
tercel_status tercel_image_write_png(const char *path, const tercel_image *image, tercel_error *err) {
  (void)path, (void)image;
  return tercel_fail(err, TERCEL_UNSUPPORTED, "%s", TERCEL_IMAGES_LEFT_OUT);
}
#endif

tercel_status tercel_image_read(const char *path, int channels, tercel_image *out, tercel_error *err) {
  *out = (tercel_image){0};
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  const tercel_status status = tercel_image_decode(file.data, file.size, channels, TERCEL_IMAGE_PIXELS_MAX, out, err);
  tercel_file_close(&file);
  return status == TERCEL_OK ? TERCEL_OK : tercel_fail_at(err, status, "%s", path);
}
