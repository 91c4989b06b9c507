/* TIFF through libtiff, out of memory: the first page, as libtiff makes RGBA of it. */
#include <limits.h>
#include <stdio.h>
#include <tiffio.h>

#include "images/formats/codec.h"
#include "images/formats/library.h"

/* clang-format off */
#define FUNCTIONS(F) \
  F(TIFFOpenOptionsAlloc) F(TIFFOpenOptionsFree) F(TIFFOpenOptionsSetMaxSingleMemAlloc) \
  F(TIFFOpenOptionsSetErrorHandlerExtR) F(TIFFOpenOptionsSetWarningHandlerExtR) F(TIFFClientOpenExt) F(TIFFClose) \
  F(TIFFGetField) F(TIFFGetFieldDefaulted) F(TIFFRGBAImageOK) F(TIFFRGBAImageBegin) F(TIFFRGBAImageGet) \
  F(TIFFRGBAImageEnd)
/* clang-format on */
TERCEL_IMAGE_LIBRARY(tiff, "libtiff.so.6", FUNCTIONS)

static bool recognize(const tercel_image_source *source) {
  static const char *const marks[] = {"II*\0", "MM\0*", "II+\0", "MM\0+"}; /* both byte orders; + is BigTIFF */
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (tercel_image_has(source, 0, marks[i], 4)) return true;
  return false;
}

/* ---- libtiff's view of the file ------------------------------------------------------------------------------------ */

typedef struct stream {
  const tercel_image_source *source;
  size_t at; /* at most source->bytes */
} stream;

static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t bytes) {
  stream *const s = handle;
  const size_t left = s->source->bytes - s->at;
  const size_t count = bytes < 0 ? 0 : (size_t)bytes < left ? (size_t)bytes : left;
  memcpy(to, s->source->data + s->at, count);
  s->at += count;
  return (tmsize_t)count;
}

static tmsize_t write_bytes(thandle_t handle, void *from, tmsize_t bytes) {
  (void)handle, (void)from, (void)bytes;
  return 0;
}

/* Places behind the end are the end, where nothing is left to read. */
static toff_t seek_to(thandle_t handle, toff_t offset, int whence) {
  stream *const s = handle;
  const toff_t base = whence == SEEK_CUR ? s->at : whence == SEEK_END ? s->source->bytes : 0;
  toff_t at;
  if (__builtin_add_overflow(base, offset, &at)) return (toff_t)-1;
  s->at = at < s->source->bytes ? (size_t)at : s->source->bytes;
  return at;
}

static int close_stream(thandle_t handle) {
  (void)handle;
  return 0;
}

static toff_t size_of(thandle_t handle) { return ((const stream *)handle)->source->bytes; }

/* ---- what it complains of ------------------------------------------------------------------------------------------ */

/* Keeps the first message, in user: MESSAGE_BYTES characters. */
enum { MESSAGE_BYTES = 200 };

__attribute__((format(printf, 4, 0))) static int keep_error(TIFF *tif, void *user, const char *module,
                                                            const char *format, va_list arguments) {
  char *const message = user;
  (void)tif, (void)module;
  if (!message[0]) vsnprintf(message, MESSAGE_BYTES, format, arguments);
  return 1; /* nothing more is to be said of it */
}

__attribute__((format(printf, 4, 0))) static int log_warning(TIFF *tif, void *user, const char *module,
                                                             const char *format, va_list arguments) {
  char message[MESSAGE_BYTES];
  (void)tif, (void)user, (void)module;
  vsnprintf(message, sizeof message, format, arguments);
  tercel_log(TERCEL_LOG_DEBUG, "TIFF: %s", message);
  return 1;
}

/* ---- decoding ------------------------------------------------------------------------------------------------------ */

/* The compressions that are in use everywhere; the many rare ones of libtiff are not worth what a hostile file can do in them. */
static bool is_known_compression(uint16_t compression) {
  static const uint16_t known[] = {COMPRESSION_NONE,      COMPRESSION_CCITTRLE,      COMPRESSION_CCITTFAX3,
                                   COMPRESSION_CCITTFAX4, COMPRESSION_LZW,           COMPRESSION_JPEG,
                                   COMPRESSION_DEFLATE,   COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i] == compression) return true;
  return false;
}

/* rgba: libtiff's packed pixels, multiplied by their alpha. */
static void over_white(const uint32_t *rgba, tercel_image *out) {
  const size_t pixels = (size_t)out->width * (size_t)out->height;
  for (size_t i = 0; i < pixels; i++) {
    const uint32_t parts[] = {TIFFGetR(rgba[i]), TIFFGetG(rgba[i]), TIFFGetB(rgba[i])};
    for (size_t c = 0; c < 3; c++) {
      const uint32_t value = parts[c] + 255 - TIFFGetA(rgba[i]);
      out->pixels[3 * i + c] = (uint8_t)(value < 255 ? value : 255);
    }
  }
}

static tercel_status fail_damaged(const char *message, tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged: %s", message[0] ? message : "no reason is given");
}

static tercel_status decode_pixels(const tiff *library, TIFFRGBAImage *image, const char *message, tercel_image *out,
                                   tercel_error *err) {
  const size_t pixels = (size_t)out->width * (size_t)out->height;
  uint32_t *const rgba = tercel_zalloc_array(pixels, sizeof *rgba);
  if (!rgba) return tercel_fail_memory(err, pixels * sizeof *rgba, "a picture");
  image->req_orientation = image->orientation; /* rows and columns as they are stored */
  const bool good = library->TIFFRGBAImageGet(image, rgba, (uint32_t)out->width, (uint32_t)out->height) != 0;
  if (good) over_white(rgba, out);
  tercel_free(rgba);
  return good && !message[0] ? TERCEL_OK : fail_damaged(message, err);
}

static tercel_status decode_page(const tiff *library, TIFF *tif, const char *message, const tercel_image_source *source,
                                 tercel_image *out, tercel_error *err) {
  uint32_t width = 0, height = 0;
  uint16_t compression = COMPRESSION_NONE;
  char reason[1024] = "";
  library->TIFFGetField(tif, TIFFTAG_IMAGEWIDTH, &width);
  library->TIFFGetField(tif, TIFFTAG_IMAGELENGTH, &height);
  TERCEL_TRY(tercel_image_check_size(source, width, height, err));
  library->TIFFGetFieldDefaulted(tif, TIFFTAG_COMPRESSION, &compression);
  if (!is_known_compression(compression))
    return tercel_fail(err, TERCEL_UNSUPPORTED, "compression %d is not supported", compression);
  if (!library->TIFFRGBAImageOK(tif, reason)) return tercel_fail(err, TERCEL_UNSUPPORTED, "%s", reason);
  TIFFRGBAImage image;
  if (!library->TIFFRGBAImageBegin(&image, tif, 1, reason)) return fail_damaged(reason, err);
  tercel_status status = tercel_image_prepare(source, width, height, out, err);
  if (status == TERCEL_OK) status = decode_pixels(library, &image, message, out, err);
  library->TIFFRGBAImageEnd(&image);
  return status;
}

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  char message[MESSAGE_BYTES] = "";
  stream s = {source, 0};
  tiff library;
  TERCEL_TRY(tercel_image_load(&tiff_names, &library, err));
  TIFFOpenOptions *const options = library.TIFFOpenOptionsAlloc();
  if (!options) return tercel_fail_memory(err, source->bytes, "libtiff");
  /* No part of a picture needs more than its largest form: RGBA of 16 bits. */
  const tmsize_t most = (tmsize_t)tercel_min_i64(8 * source->max_pixels + 65536, INT_MAX);
  library.TIFFOpenOptionsSetMaxSingleMemAlloc(options, most);
  library.TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, message);
  library.TIFFOpenOptionsSetWarningHandlerExtR(options, log_warning, NULL);
  TIFF *const tif = library.TIFFClientOpenExt("picture", "rm", &s, read_bytes, write_bytes, seek_to, close_stream,
                                              size_of, NULL, NULL, options);
  tercel_status status = tif ? decode_page(&library, tif, message, source, out, err) : fail_damaged(message, err);
  if (tif) library.TIFFClose(tif);
  library.TIFFOpenOptionsFree(options);
  return status;
}

const tercel_image_codec tercel_image_codec_tiff = {"TIFF", recognize, decode};
