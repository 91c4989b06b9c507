/* Sequences and optionals. */
#include "import/onnx/build.h"

void tercel_onnx_build_sequence_construct(tercel_onnx_call *c) {
  tercel_onnx_return(
      c, 0, tercel_onnx_end(c, tercel_onnx_begin_list(c, &tercel_op_sequence_construct, 1, c->inputs, c->num_inputs)));
}

void tercel_onnx_build_sequence_empty(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin_list(c, &tercel_op_sequence_construct, 1, NULL, 0);
  tercel_onnx_set_dtype(c, n, "dtype", tercel_onnx_get_dtype(c, "dtype", TERCEL_DTYPE_F32));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Operators that take their inputs as they are: builders.inc's detail is the operator's id. */
void tercel_onnx_build_same(tercel_onnx_call *c) {
  const tercel_op *const op = tercel_ops()[c->row->detail];
  tercel_onnx_return(c, 0, tercel_onnx_end(c, tercel_onnx_begin_list(c, op, 1, c->inputs, c->num_inputs)));
}

void tercel_onnx_build_split_to_sequence(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_sequence_split, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_flag(c, n, "keepdims");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_concat_from_sequence(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "axis");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_sequence_concat, 1, tercel_onnx_in(c, 0));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_flag(c, n, "new_axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Without an input the attribute says of which type the empty optional is. */
void tercel_onnx_build_optional(tercel_onnx_call *c) {
  const tercel_onnx_attr *const a = tercel_onnx_get_attr(c, "type", TERCEL_ONNX_TYPE_PROTO);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_optional_construct, 1, tercel_onnx_in(c, 0));
  if (!tercel_onnx_in(c, 0)) {
    if (!a) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'type' is missing, and there is no input");
    tercel_type type = {0};
    if (tercel_onnx_ok(c)) c->status = tercel_onnx_read_type(c->graph->dims, a->tp, "type", &type, c->err);
    tercel_onnx_set_dtype(c, n, "dtype", type.dtype);
    tercel_onnx_set_int(c, n, "sequence", type.kind == TERCEL_TYPE_SEQUENCE);
  }
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
