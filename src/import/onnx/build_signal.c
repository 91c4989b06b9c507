/* Spectra. */
#include "import/onnx/build.h"

/* The axis is an attribute in version 17, then an input. */
void tercel_onnx_build_dft(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_dft, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  if (c->version < 20) tercel_onnx_set_int(c, n, "axis", tercel_onnx_get_int(c, "axis", 1));
  tercel_onnx_copy_flag(c, n, "inverse");
  tercel_onnx_copy_flag(c, n, "onesided");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_stft(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_stft, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 2), tercel_onnx_in(c, 3));
  tercel_onnx_copy_flag(c, n, "onesided");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_mel_weight_matrix(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_mel_weight_matrix, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                        tercel_onnx_in(c, 2), tercel_onnx_in(c, 3), tercel_onnx_in(c, 4));
  tercel_onnx_set_dtype(c, n, "dtype", tercel_onnx_get_dtype(c, "output_datatype", TERCEL_DTYPE_F32));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
