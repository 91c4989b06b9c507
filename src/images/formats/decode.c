/* Which format a picture has; sizes; gray out of RGB.  The formats themselves are the other files' here. */
#include "images/formats/codec.h"

/* In the order in which they are tried; no two recognize the same file. */
static const tercel_image_codec *const codecs[] = {
    &tercel_image_codec_jpeg, &tercel_image_codec_png, &tercel_image_codec_webp, &tercel_image_codec_jpeg2000,
    &tercel_image_codec_tiff, &tercel_image_codec_bmp, &tercel_image_codec_pnm,
};

tercel_status tercel_image_check_size(const tercel_image_source *source, int64_t width, int64_t height,
                                      tercel_error *err) {
  if (width >= 1 && height >= 1 && width <= TERCEL_IMAGE_SIDE_MAX && height <= TERCEL_IMAGE_SIDE_MAX &&
      width * height <= source->max_pixels)
    return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                     "%lld x %lld pixels, want sides of 1 to %d and at most %lld pixels in all", (long long)width,
                     (long long)height, TERCEL_IMAGE_SIDE_MAX, (long long)source->max_pixels);
}

tercel_status tercel_image_prepare(const tercel_image_source *source, int64_t width, int64_t height, tercel_image *out,
                                   tercel_error *err) {
  TERCEL_TRY(tercel_image_check_size(source, width, height, err));
  const size_t bytes = (size_t)width * (size_t)height * 3;
  *out = (tercel_image){(int)width, (int)height, 3, tercel_alloc(bytes)};
  return out->pixels ? TERCEL_OK : tercel_fail_memory(err, bytes, "a picture");
}

/* ITU-R BT.601's luma in 16 fractional bits, rounded: what is gray stays what it is. */
static void make_gray(tercel_image *image) {
  const size_t pixels = (size_t)image->width * (size_t)image->height;
  for (size_t i = 0; i < pixels; i++) {
    const uint8_t *const rgb = image->pixels + 3 * i;
    image->pixels[i] = (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
  }
  image->channels = 1;
}

static const tercel_image_codec *find(const tercel_image_source *source) {
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
    if (codecs[i]->recognize(source)) return codecs[i];
  return NULL;
}

tercel_status tercel_image_decode(const void *data, size_t bytes, int channels, int64_t max_pixels, tercel_image *out,
                                  tercel_error *err) {
  *out = (tercel_image){0};
  if (channels != 1 && channels != 3)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d channels, want 1 or 3", channels);
  const tercel_image_source source = {data, bytes, max_pixels};
  const tercel_image_codec *const codec = find(&source);
  if (!codec) return tercel_fail(err, TERCEL_UNSUPPORTED, "not a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP");
  const tercel_status status = codec->decode(&source, out, err);
  if (status != TERCEL_OK) {
    tercel_image_deinit(out);
    return tercel_fail_at(err, status, "%s", codec->name);
  }
  if (channels == 1) make_gray(out);
  return TERCEL_OK;
}
