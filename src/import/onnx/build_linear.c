/* Linear algebra, and what else works on whole tensors: einsum, bits, reordering. */
#include "import/onnx/build.h"

void tercel_onnx_build_einsum(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "equation");
  tercel_node *const n = tercel_onnx_begin_list(c, &tercel_op_einsum, 1, c->inputs, c->num_inputs);
  tercel_onnx_set_text(c, n, "equation", tercel_onnx_get_text(c, "equation", ""));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_bitcast(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "to");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_bitcast, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_dtype(c, n, "to", tercel_onnx_get_dtype(c, "to", TERCEL_DTYPE_F32));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_reverse_sequence(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_reverse_sequence, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_int(c, n, "batch_axis");
  tercel_onnx_copy_int(c, n, "time_axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_unique(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_unique, c->num_outputs, tercel_onnx_in(c, 0));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_int(c, n, "sorted");
  tercel_onnx_return_all(c, n);
}
