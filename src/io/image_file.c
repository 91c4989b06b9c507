/* JPEG through libjpeg-turbo, PNG through libpng.  Sizes are looked at before anything is decoded. */
#include <string.h>

#include "io/image.h"

#ifdef TERCEL_IMAGES

#include <png.h>
#include <turbojpeg.h>

/* Takes the size and makes room for the pixels. */
static tercel_status prepare(int64_t width, int64_t height, int channels, tercel_image *out, tercel_error *err) {
  if (width < 1 || height < 1 || width > TERCEL_IMAGE_SIDE_MAX || height > TERCEL_IMAGE_SIDE_MAX ||
      width * height > TERCEL_IMAGE_PIXELS_MAX)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "a picture of %lld x %lld pixels, want sides of at most %d and %d pixels in all",
                       (long long)width, (long long)height, TERCEL_IMAGE_SIDE_MAX, TERCEL_IMAGE_PIXELS_MAX);
  const size_t bytes = (size_t)(width * height) * (size_t)channels;
  *out = (tercel_image){(int)width, (int)height, channels, tercel_alloc(bytes)};
  return out->pixels ? TERCEL_OK : tercel_fail_memory(err, bytes, "a picture");
}

static tercel_status parse_jpeg(const uint8_t *data, size_t bytes, int channels, tercel_image *out, tercel_error *err) {
  int width = 0, height = 0, subsampling = 0, colors = 0;
  tercel_status status = TERCEL_OK;
  const tjhandle decoder = tjInitDecompress();
  if (!decoder) return tercel_fail_memory(err, bytes, "the JPEG decoder");
  if (tjDecompressHeader3(decoder, data, (unsigned long)bytes, &width, &height, &subsampling, &colors) != 0)
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not a well-formed JPEG: %s", tjGetErrorStr2(decoder));
  else if (colors == TJCS_CMYK || colors == TJCS_YCCK)
    status = tercel_fail(err, TERCEL_UNSUPPORTED, "a JPEG in CMYK: convert it to RGB");
  else
    status = prepare(width, height, channels, out, err);
  const int format = channels == 1 ? TJPF_GRAY : TJPF_RGB;
  if (status == TERCEL_OK && tjDecompress2(decoder, data, (unsigned long)bytes, out->pixels, width, 0, height, format,
                                           TJFLAG_ACCURATEDCT) != 0)
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a damaged JPEG: %s", tjGetErrorStr2(decoder));
  tjDestroy(decoder);
  return status;
}

static tercel_status parse_png(const uint8_t *data, size_t bytes, int channels, tercel_image *out, tercel_error *err) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  const png_color white = {255, 255, 255};
  if (!png_image_begin_read_from_memory(&png, data, bytes))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not a well-formed PNG: %s", png.message);
  tercel_status status = prepare(png.width, png.height, channels, out, err);
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  if (status == TERCEL_OK && !png_image_finish_read(&png, &white, out->pixels, 0, NULL))
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a damaged PNG: %s", png.message);
  png_image_free(&png);
  return status;
}

tercel_status tercel_image_parse(const void *data, size_t bytes, int channels, tercel_image *out, tercel_error *err) {
  *out = (tercel_image){0};
  static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'},
                       jpeg_signature[3] = {0xff, 0xd8, 0xff};
  tercel_status status;
  if (channels != 1 && channels != 3)
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d channels, want 1 or 3", channels);
  else if (bytes >= sizeof png_signature && memcmp(data, png_signature, sizeof png_signature) == 0)
    status = parse_png(data, bytes, channels, out, err);
  else if (bytes >= sizeof jpeg_signature && memcmp(data, jpeg_signature, sizeof jpeg_signature) == 0)
    status = parse_jpeg(data, bytes, channels, out, err);
  else
    status = tercel_fail(err, TERCEL_UNSUPPORTED, "neither a JPEG nor a PNG");
  if (status != TERCEL_OK) tercel_image_deinit(out);
  return status;
}

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

static tercel_status fail_without(tercel_error *err) {
  return tercel_fail(err, TERCEL_UNSUPPORTED, "this tercel was built without pictures (TERCEL_IMAGES=OFF)");
}

tercel_status tercel_image_parse(const void *data, size_t bytes, int channels, tercel_image *out, tercel_error *err) {
  (void)data, (void)bytes, (void)channels;
  *out = (tercel_image){0};
  return fail_without(err);
}

tercel_status tercel_image_write_png(const char *path, const tercel_image *image, tercel_error *err) {
  (void)path, (void)image;
  return fail_without(err);
}

#endif

tercel_status tercel_image_read(const char *path, int channels, tercel_image *out, tercel_error *err) {
  *out = (tercel_image){0};
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  const tercel_status status = tercel_image_parse(file.data, file.size, channels, out, err);
  tercel_file_close(&file);
  return status == TERCEL_OK ? TERCEL_OK : tercel_fail_at(err, status, "%s", path);
}
