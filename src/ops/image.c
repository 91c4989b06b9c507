/* image_decode: a picture's file to its pixels.  The formats are src/images/'s.  A component: TERCEL_IMAGES. */
#include <string.h>

#include "images/images.h"
#include "ops/move.h"

static const char *const formats[] = {"rgb", "bgr", "gray", NULL};
enum { FORMAT_RGB, FORMAT_BGR, FORMAT_GRAY };

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  int format;
  return tercel_node_choice(node, "format", formats, &format, err);
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const x = &infer->in[0]->type;
  tercel_type *const y = &infer->out[0].type;
  int format;
  if (x->dtype != TERCEL_DTYPE_NONE && x->dtype != TERCEL_DTYPE_U8)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the file is %s, want u8",
                            tercel_dtype_name(x->dtype));
  if (x->shape.rank >= 0 && x->shape.rank != 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the file is of rank %d, want 1", x->shape.rank);
  TERCEL_TRY(tercel_node_choice(infer->node, "format", formats, &format, err));
  y->dtype = TERCEL_DTYPE_U8;
  TERCEL_TRY(tercel_infer_open(infer, 3, &y->shape, err));
  y->shape.dims[2] = format == FORMAT_GRAY ? 1 : 3;
  return TERCEL_OK;
}

static void copy_pixels(const tercel_image *image, bool bgr, uint8_t *to) {
  const size_t channels = (size_t)image->channels, pixels = (size_t)image->width * (size_t)image->height;
  for (size_t i = 0; i < pixels; i++, to += channels) {
    memcpy(to, image->pixels + i * channels, channels);
    if (!bgr) continue;
    to[0] = image->pixels[i * channels + 2];
    to[2] = image->pixels[i * channels];
  }
}

/* A file that can't be decoded is an empty picture, as ONNX has it, and a warning; without memory or library it is an error. */
static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  tercel_image image = {0};
  int format;
  TERCEL_TRY(tercel_node_choice(eval->node, "format", formats, &format, err));
  const int channels = format == FORMAT_GRAY ? 1 : 3;
  tercel_error why = {0};
  tercel_status status = tercel_image_decode(x->data, (size_t)tercel_tensor_num_elements(x), channels,
                                             TERCEL_IMAGE_PIXELS_MAX, &image, &why);
  if (status == TERCEL_INVALID_ARGUMENT || status == TERCEL_UNSUPPORTED)
    tercel_log(TERCEL_LOG_WARNING, "a picture became empty: %s", why.message);
  else if (status != TERCEL_OK)
    return tercel_node_fail(eval->node, err, status, "%s", why.message);
  status = tercel_eval_output(eval, 0, 3, (const int64_t[]){image.height, image.width, channels}, err);
  if (status == TERCEL_OK) copy_pixels(&image, format == FORMAT_BGR, eval->out[0]->data);
  tercel_image_deinit(&image);
  return status;
}

static const tercel_attr_spec attrs[] = {
    {"format", TERCEL_ATTR_STRING, false, 0, "rgb", "order of the channels: rgb, bgr, or gray for a single one"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_image_decode = {
    .name = "image_decode",
    .id = TERCEL_OP_IMAGE_DECODE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "the pixels of a picture's file: height, width, channels",
    .attrs = attrs,
    .infer = infer,
    .verify = verify,
    .eval = eval,
};
