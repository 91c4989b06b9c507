/* JPEG through libjpeg-turbo: the accurate DCT, chroma interpolated ("fancy upsampling"). */
#include <turbojpeg.h>

#include "images/formats/codec.h"
#include "images/formats/library.h"

#define FUNCTIONS(F) F(tjInitDecompress) F(tjDecompressHeader3) F(tjDecompress2) F(tjGetErrorStr2) F(tjDestroy)
TERCEL_IMAGE_LIBRARY(turbojpeg, "libturbojpeg.so.0", FUNCTIONS)

static bool recognize(const tercel_image_source *source) { return tercel_image_has(source, 0, "\xff\xd8\xff", 3); }

static tercel_status decode_with(const turbojpeg *tj, tjhandle decoder, const tercel_image_source *source,
                                 tercel_image *out, tercel_error *err) {
  const unsigned long bytes = source->bytes;
  int width = 0, height = 0, subsampling = 0, colors = 0;
  if (tj->tjDecompressHeader3(decoder, source->data, bytes, &width, &height, &subsampling, &colors) != 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not well-formed: %s", tj->tjGetErrorStr2(decoder));
  if (colors == TJCS_CMYK || colors == TJCS_YCCK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "its colors are CMYK: convert it to RGB");
  TERCEL_TRY(tercel_image_prepare(source, width, height, out, err));
  if (tj->tjDecompress2(decoder, source->data, bytes, out->pixels, width, 0, height, TJPF_RGB,
                        TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged: %s", tj->tjGetErrorStr2(decoder));
  return TERCEL_OK;
}

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  turbojpeg tj;
  TERCEL_TRY(tercel_image_load(&turbojpeg_names, &tj, err));
  const tjhandle decoder = tj.tjInitDecompress();
  if (!decoder) return tercel_fail_memory(err, source->bytes, "the decoder");
  const tercel_status status = decode_with(&tj, decoder, source, out, err);
  tj.tjDestroy(decoder);
  return status;
}

const tercel_image_codec tercel_image_codec_jpeg = {"JPEG", recognize, decode};
