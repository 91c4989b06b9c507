/* A picture as an input: which size and layout the model wants, what the options say, and the numbers it becomes. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "io/image.h"

#define OPTION(field) offsetof(tercel_cli_inputs, field)

const tercel_cli_option tercel_cli_image_options[] = {
    {"scale", TERCEL_CLI_NUMBER, OPTION(scale), "X", "multiply pixels by this first; default 1/255 (floats)", NULL},
    {"mean", TERCEL_CLI_TEXT, OPTION(mean), "R,G,B", "then subtract this; one number or one a channel; default 0",
     NULL},
    {"std", TERCEL_CLI_TEXT, OPTION(std), "R,G,B", "then divide by this; default 1", NULL},
    {"bgr", TERCEL_CLI_FLAG, OPTION(bgr), NULL, "the model wants blue first (so do --mean and --std)", NULL},
    {"layout", TERCEL_CLI_TEXT, OPTION(layout), "nchw|nhwc",
     "where the channels are; default: as the input's shape shows", NULL},
    {"size", TERCEL_CLI_TEXT, OPTION(size), "WxH",
     "resize to this where the model leaves it free; default: the picture's own size", NULL},
    {0}};

/* "0.5" or "0.1,0.2,0.3" */
static tercel_status parse_triple(const char *option, const char *text, float standard, float out[3],
                                  tercel_error *err) {
  int count = 0;
  for (const char *at = text; at; count++) {
    const size_t length = strcspn(at, ",");
    double value;
    if (count == 3 || !tercel_parse_f64(at, length, &value))
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--%s '%s': want one number, or three with commas", option,
                         text);
    out[count] = (float)value;
    at = at[length] ? at + length + 1 : NULL;
  }
  if (count == 2)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--%s '%s': want one number, or three with commas", option, text);
  for (int i = count; i < 3; i++) out[i] = count ? out[0] : standard;
  return TERCEL_OK;
}

static tercel_status parse_norm(const tercel_cli_inputs *options, tercel_image_norm *out, tercel_error *err) {
  *out = (tercel_image_norm){.scale = options->scale > 0 ? (float)options->scale : 1.0f / 255, .bgr = options->bgr};
  TERCEL_TRY(parse_triple("mean", options->mean, 0, out->mean, err));
  return parse_triple("std", options->std, 1, out->std, err);
}

/* What the input wants of a picture. */
typedef struct wanted {
  bool nhwc;
  int channels;
  int64_t width, height; /* -1: free */
} wanted;

static bool may_be_channels(int64_t dim) { return dim == 1 || dim == 3; }

static tercel_status read_wish(const tercel_io *io, const tercel_cli_inputs *options, wanted *out, tercel_error *err) {
  const int first = io->rank == 4; /* [N,C,H,W], or [C,H,W] */
  if (io->rank != 3 && io->rank != 4)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' of rank %d can't take a picture, want 3 or 4 dims",
                       io->name, io->rank);
  const char *const layout = options->layout;
  if (layout && strcmp(layout, "nchw") != 0 && strcmp(layout, "nhwc") != 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--layout '%s': want nchw or nhwc", layout);
  out->nhwc = layout ? layout[1] == 'h' : !may_be_channels(io->dims[first]) && may_be_channels(io->dims[first + 2]);
  const int64_t channels = io->dims[out->nhwc ? first + 2 : first];
  if (channels >= 0 && !may_be_channels(channels))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' has %lld channels, a picture has 1 or 3", io->name,
                       (long long)channels);
  out->channels = channels == 1 ? 1 : 3;
  out->height = io->dims[out->nhwc ? first : first + 1];
  out->width = io->dims[out->nhwc ? first + 1 : first + 2];
  if (!options->size) return TERCEL_OK;
  int rank;
  int64_t dims[TERCEL_MAX_RANK];
  if (!tercel_cli_parse_shape(options->size, strlen(options->size), &rank, dims) || rank != 2)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--size '%s': want WIDTHxHEIGHT", options->size);
  if (out->width < 0) out->width = dims[0];
  if (out->height < 0) out->height = dims[1];
  return TERCEL_OK;
}

/* u8 inputs get the pixels; floats the normalized values, rounded to the input's type. */
static tercel_status fill(const tercel_image *image, const tercel_image_norm *norm, tercel_view *view,
                          tercel_error *err) {
  const size_t count = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
  const tercel_image_norm raw = {.scale = 1, .std = {1, 1, 1}, .bgr = norm->bgr, .nhwc = norm->nhwc};
  float *const values = tercel_alloc_array(count, sizeof *values);
  if (!values) return tercel_fail_memory(err, count * sizeof *values, "a picture");
  tercel_image_normalize(image, view->dtype == TERCEL_DTYPE_U8 ? &raw : norm, values);
  for (size_t i = 0; i < count; i++) tercel_element_set_f64(view->data, view->dtype, (int64_t)i, (double)values[i]);
  tercel_free(values);
  return TERCEL_OK;
}

static tercel_status make_tensor(const tercel_image *image, const tercel_image_norm *norm, const tercel_io *io,
                                 tercel_datum *out, tercel_error *err) {
  const int first = io->rank == 4;
  int64_t dims[TERCEL_MAX_RANK] = {1};
  dims[norm->nhwc ? first + 2 : first] = image->channels;
  dims[norm->nhwc ? first : first + 1] = image->height;
  dims[norm->nhwc ? first + 1 : first + 2] = image->width;
  if (!tercel_dtype_is_float(io->dtype) && io->dtype != TERCEL_DTYPE_U8)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' is %s; a picture can be floats or u8", io->name,
                       tercel_dtype_name(io->dtype));
  TERCEL_TRY(tercel_datum_init_tensor(out, io->name, io->dtype, io->rank, dims, 0, err));
  const tercel_status status = fill(image, norm, out->views, err);
  if (status != TERCEL_OK) tercel_datum_deinit(out);
  return status;
}

tercel_status tercel_cli_read_image(const char *path, const tercel_cli_inputs *options, const tercel_io *io,
                                    tercel_datum *out, char *source, size_t source_size, tercel_error *err) {
  tercel_image_norm norm;
  wanted want = {0};
  tercel_image image = {0}, resized = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_TRY(parse_norm(options, &norm, err));
  TERCEL_TRY(read_wish(io, options, &want, err));
  norm.nhwc = want.nhwc;
  TERCEL_CHECK(tercel_image_read(path, want.channels, &image, err));
  const int64_t width = want.width >= 0 ? want.width : image.width,
                height = want.height >= 0 ? want.height : image.height;
  if (width > TERCEL_IMAGE_SIDE_MAX || height > TERCEL_IMAGE_SIDE_MAX) {
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a picture can't be resized to %lld x %lld", (long long)width,
                         (long long)height);
    goto done;
  }
  TERCEL_CHECK(tercel_image_resize(&image, (int)width, (int)height, true, &resized, err));
  snprintf(source, source_size, "%.160s (%d x %d resized to %d x %d)", path, image.width, image.height, resized.width,
           resized.height);
  TERCEL_CHECK(make_tensor(&resized, &norm, io, out, err));
done:
  tercel_image_deinit(&image);
  tercel_image_deinit(&resized);
  return status;
}
