/* Operators of components that this build leaves out. */
#include "import/onnx/build.h"

void tercel_onnx_build_left_out(tercel_onnx_call *c) {
  static const struct {
    const char *what, *option;
  } components[] = {
      [TERCEL_ONNX_IMAGES] = {"pictures", "TERCEL_IMAGES"},
      [TERCEL_ONNX_ML] = {"the operators of ai.onnx.ml", "TERCEL_ML"},
      [TERCEL_ONNX_UNICODE] = {"the operators that need Unicode", "TERCEL_UNICODE"},
  };
  tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "this tercel was built without %s: build it with -D%s=ON",
                   components[c->row->detail].what, components[c->row->detail].option);
}
