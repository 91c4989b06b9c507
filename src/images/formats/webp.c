/* WebP through libwebp: still pictures, lossy and lossless. */
#include <webp/decode.h>

#include "images/formats/codec.h"
#include "images/formats/library.h"

#define FUNCTIONS(F) F(WebPGetFeaturesInternal) F(WebPDecodeRGBInto) F(WebPDecodeRGBAInto)
TERCEL_IMAGE_LIBRARY(webp, "libwebp.so.7", FUNCTIONS)

static bool recognize(const tercel_image_source *source) {
  return tercel_image_has(source, 0, "RIFF", 4) && tercel_image_has(source, 8, "WEBP", 4);
}

static tercel_status fail_damaged(tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged or cut");
}

/* Room for RGBA, then RGB over white. */
static tercel_status decode_with_alpha(const webp *library, const tercel_image_source *source, tercel_image *out,
                                       tercel_error *err) {
  const size_t pixels = (size_t)out->width * (size_t)out->height;
  uint8_t *const rgba = tercel_alloc_array(pixels, 4);
  if (!rgba) return tercel_fail_memory(err, pixels * 4, "a picture with transparency");
  const bool good = library->WebPDecodeRGBAInto(source->data, source->bytes, rgba, pixels * 4, out->width * 4) != NULL;
  for (size_t i = 0; good && i < pixels; i++)
    for (size_t c = 0; c < 3; c++) out->pixels[3 * i + c] = tercel_image_over_white(rgba[4 * i + c], rgba[4 * i + 3]);
  tercel_free(rgba);
  return good ? TERCEL_OK : fail_damaged(err);
}

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  webp library;
  WebPBitstreamFeatures features;
  TERCEL_TRY(tercel_image_load(&webp_names, &library, err));
  if (library.WebPGetFeaturesInternal(source->data, source->bytes, &features, WEBP_DECODER_ABI_VERSION) !=
      VP8_STATUS_OK)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not well-formed");
  if (features.has_animation) return tercel_fail(err, TERCEL_UNSUPPORTED, "animated: save one frame of it");
  TERCEL_TRY(tercel_image_prepare(source, features.width, features.height, out, err));
  if (features.has_alpha) return decode_with_alpha(&library, source, out, err);
  const size_t bytes = (size_t)out->width * (size_t)out->height * 3;
  return library.WebPDecodeRGBInto(source->data, source->bytes, out->pixels, bytes, out->width * 3) ? TERCEL_OK
                                                                                                    : fail_damaged(err);
}

const tercel_image_codec tercel_image_codec_webp = {"WebP", recognize, decode};
