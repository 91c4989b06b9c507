/* JPEG 2000 through OpenJPEG, out of memory: .jp2 files and bare codestreams.  What a hostile header could make OpenJPEG
 * allocate is looked at in jpeg2000_header.c first. */
#include <openjpeg.h>

#include "images/formats/jpeg2000.h"
#include "images/formats/library.h"

/* clang-format off */
#define FUNCTIONS(F) \
  F(opj_stream_create) F(opj_stream_set_user_data) F(opj_stream_set_user_data_length) \
  F(opj_stream_set_read_function) F(opj_stream_set_skip_function) F(opj_stream_set_seek_function) \
  F(opj_stream_destroy) F(opj_create_decompress) F(opj_destroy_codec) F(opj_set_error_handler) \
  F(opj_set_warning_handler) F(opj_set_info_handler) F(opj_set_default_decoder_parameters) F(opj_setup_decoder) \
  F(opj_decoder_set_strict_mode) F(opj_read_header) F(opj_decode) F(opj_end_decompress) F(opj_image_destroy)
/* clang-format on */
TERCEL_IMAGE_LIBRARY(openjpeg, "libopenjp2.so.7", FUNCTIONS)

/* ---- OpenJPEG's view of the file ----------------------------------------------------------------------------------- */

typedef struct stream {
  const tercel_image_source *source;
  size_t at; /* at most source->bytes */
} stream;

static OPJ_SIZE_T read_bytes(void *to, OPJ_SIZE_T bytes, void *user) {
  stream *const s = user;
  const size_t left = s->source->bytes - s->at;
  if (left == 0) return (OPJ_SIZE_T)-1; /* its sign of the end */
  const size_t count = bytes < left ? bytes : left;
  memcpy(to, s->source->data + s->at, count);
  s->at += count;
  return count;
}

static OPJ_BOOL seek_to(OPJ_OFF_T offset, void *user) {
  stream *const s = user;
  if (offset < 0 || (uint64_t)offset > s->source->bytes) return OPJ_FALSE;
  s->at = (size_t)offset;
  return OPJ_TRUE;
}

static OPJ_OFF_T skip(OPJ_OFF_T bytes, void *user) {
  stream *const s = user;
  if (bytes < 0 || (uint64_t)bytes > s->source->bytes - s->at) return -1;
  s->at += (size_t)bytes;
  return bytes;
}

static opj_stream_t *open_stream(const openjpeg *library, stream *s) {
  opj_stream_t *const made = library->opj_stream_create(OPJ_J2K_STREAM_CHUNK_SIZE, OPJ_TRUE);
  if (!made) return NULL;
  library->opj_stream_set_user_data(made, s, NULL);
  library->opj_stream_set_user_data_length(made, s->source->bytes);
  library->opj_stream_set_read_function(made, read_bytes);
  library->opj_stream_set_skip_function(made, skip);
  library->opj_stream_set_seek_function(made, seek_to);
  return made;
}

/* ---- what it complains of ------------------------------------------------------------------------------------------ */

enum { MESSAGE_BYTES = 200 };

/* Keeps the first message, without the end of the line that they have. */
static void keep_error(const char *text, void *user) {
  char *const message = user;
  if (message[0]) return;
  size_t length = strcspn(text, "\n");
  if (length >= MESSAGE_BYTES) length = MESSAGE_BYTES - 1;
  memcpy(message, text, length);
  message[length] = '\0';
}

static void log_message(const char *text, void *user) {
  (void)user;
  tercel_log(TERCEL_LOG_DEBUG, "JPEG 2000: %.*s", (int)strcspn(text, "\n"), text);
}

static tercel_status fail_damaged(const char *message, tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged: %s", message[0] ? message : "no reason is given");
}

/* ---- components to RGB --------------------------------------------------------------------------------------------- */

/* Which component is which channel; -1: there is none. */
typedef struct channels {
  int color[3], alpha;
} channels;

static tercel_status find_channels(const opj_image_t *image, channels *out, tercel_error *err) {
  int colors[4], count = 0;
  *out = (channels){.alpha = -1};
  for (OPJ_UINT32 i = 0; i < image->numcomps && i < 4; i++) {
    if (image->comps[i].alpha)
      out->alpha = (int)i;
    else
      colors[count++] = (int)i;
  }
  if ((count != 1 && count != 3) || image->color_space == OPJ_CLRSPC_CMYK || image->color_space == OPJ_CLRSPC_EYCC)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%d colors that are not gray or RGB: convert it to RGB", count);
  for (int c = 0; c < 3; c++) out->color[c] = colors[count == 3 ? c : 0];
  return TERCEL_OK;
}

static tercel_status check_component(const opj_image_comp_t *c, tercel_error *err) {
  if (!c->data || c->w < 1 || c->h < 1 || c->dx < 1 || c->dy < 1)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "damaged: a component is empty");
  if (c->prec < 1 || c->prec > 16)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%u bits a sample, want 1 to 16", c->prec);
  return TERCEL_OK;
}

/* The sample that covers pixel x, y of the picture, as 0 .. 255. */
static uint8_t sample_at(const opj_image_comp_t *c, size_t x, size_t y) {
  const size_t column = x / c->dx < c->w ? x / c->dx : c->w - 1, row = y / c->dy < c->h ? y / c->dy : c->h - 1;
  const int64_t max = ((int64_t)1 << c->prec) - 1;
  const int64_t value = c->data[row * c->w + column] + (c->sgnd ? ((int64_t)1 << c->prec) / 2 : 0);
  return tercel_image_scale((uint32_t)tercel_min_i64(tercel_max_i64(value, 0), max), (uint32_t)max);
}

static uint8_t clamp(int value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* Full-range Y, Cb, Cr (ISO/IEC 10918-5) in place; coefficients in 16 fractional bits. */
static void ycc_to_rgb(uint8_t p[3]) {
  const int y = p[0] * 65536 + 32768, cb = p[1] - 128, cr = p[2] - 128;
  const int red = y + 91881 * cr, green = y - 22554 * cb - 46802 * cr, blue = y + 116130 * cb;
  p[0] = clamp(red >> 16);
  p[1] = clamp(green >> 16);
  p[2] = clamp(blue >> 16);
}

static void fill(const opj_image_t *image, const channels *from, tercel_image *out) {
  const bool ycc = image->color_space == OPJ_CLRSPC_SYCC && from->color[1] != from->color[0];
  uint8_t *rgb = out->pixels;
  for (size_t y = 0; y < (size_t)out->height; y++) {
    for (size_t x = 0; x < (size_t)out->width; x++, rgb += 3) {
      for (int c = 0; c < 3; c++) rgb[c] = sample_at(&image->comps[from->color[c]], x, y);
      if (ycc) ycc_to_rgb(rgb);
      if (from->alpha < 0) continue;
      const uint8_t alpha = sample_at(&image->comps[from->alpha], x, y);
      for (int c = 0; c < 3; c++) rgb[c] = tercel_image_over_white(rgb[c], alpha);
    }
  }
}

static tercel_status convert(const tercel_image_source *source, const opj_image_t *image, tercel_image *out,
                             tercel_error *err) {
  channels from;
  TERCEL_TRY(find_channels(image, &from, err));
  for (OPJ_UINT32 i = 0; i < image->numcomps && i < 4; i++) TERCEL_TRY(check_component(&image->comps[i], err));
  TERCEL_TRY(tercel_image_prepare(source, (int64_t)image->x1 - image->x0, (int64_t)image->y1 - image->y0, out, err));
  fill(image, &from, out);
  return TERCEL_OK;
}

/* ---- decoding ------------------------------------------------------------------------------------------------------ */

static tercel_status decode_stream(const openjpeg *library, opj_codec_t *codec, opj_stream_t *from,
                                   const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  char message[MESSAGE_BYTES] = "";
  opj_dparameters_t parameters;
  opj_image_t *image = NULL;
  library->opj_set_default_decoder_parameters(&parameters);
  library->opj_set_error_handler(codec, keep_error, message);
  library->opj_set_warning_handler(codec, log_message, NULL);
  library->opj_set_info_handler(codec, log_message, NULL);
  const bool good = library->opj_setup_decoder(codec, &parameters) &&
                    library->opj_decoder_set_strict_mode(codec, OPJ_TRUE) &&
                    library->opj_read_header(from, codec, &image) && library->opj_decode(codec, from, image) &&
                    library->opj_end_decompress(codec, from);
  const tercel_status status = good ? convert(source, image, out, err) : fail_damaged(message, err);
  library->opj_image_destroy(image);
  return status;
}

static tercel_status decode(const tercel_image_source *source, tercel_image *out, tercel_error *err) {
  TERCEL_TRY(tercel_jpeg2000_check(source, err));
  stream s = {source, 0};
  openjpeg library;
  TERCEL_TRY(tercel_image_load(&openjpeg_names, &library, err));
  opj_stream_t *const from = open_stream(&library, &s);
  opj_codec_t *const codec =
      library.opj_create_decompress(tercel_jpeg2000_is_bare(source) ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
  tercel_status status = TERCEL_OK;
  if (from && codec)
    status = decode_stream(&library, codec, from, source, out, err);
  else
    status = tercel_fail_memory(err, source->bytes, "OpenJPEG");
  if (codec) library.opj_destroy_codec(codec);
  if (from) library.opj_stream_destroy(from);
  return status;
}

const tercel_image_codec tercel_image_codec_jpeg2000 = {"JPEG 2000", tercel_jpeg2000_recognize, decode};
