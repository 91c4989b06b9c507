/* ImageDecoder.  A component: TERCEL_IMAGES. */
#include <string.h>

#include "import/onnx/build.h"

void tercel_onnx_build_image_decoder(tercel_onnx_call *c) {
  static const struct {
    const char *name, *format;
  } formats[] = {{"RGB", "rgb"}, {"BGR", "bgr"}, {"Grayscale", "gray"}, {NULL, NULL}};
  const char *const name = tercel_onnx_get_text(c, "pixel_format", "RGB");
  size_t i = 0;
  while (formats[i].name && strcmp(formats[i].name, name) != 0) i++;
  if (!formats[i].name)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'pixel_format' is '%s', want RGB, BGR or Grayscale", name);
  if (!tercel_onnx_ok(c)) return;
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_image_decode, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_text(c, n, "format", formats[i].format);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
