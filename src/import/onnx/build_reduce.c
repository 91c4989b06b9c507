/* Reductions and searches along axes. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* builders.inc's detail of a reduction. */
static const char *const kinds[] = {"sum", "mean", "max",     "min",         "prod",
                                    "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square"};

/* Axes are an attribute up to version 12 (ReduceSum) or 17 (the others), then an input. */
void tercel_onnx_build_reduce(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const bool is_bool = tercel_onnx_dtype_of(x) == TERCEL_DTYPE_BOOL; /* of min and max from version 20 on */
  tercel_value *const operand = is_bool ? tercel_onnx_cast(c, x, TERCEL_DTYPE_U8) : x;
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_reduce, 1, operand, tercel_onnx_in(c, 1));
  tercel_onnx_set_text(c, n, "kind", kinds[c->row->detail]);
  if (c->row->max_inputs == 1) tercel_onnx_copy_ints(c, n, "axes");
  if (c->row->max_inputs == 2) tercel_onnx_copy_flag(c, n, "noop_with_empty_axes");
  tercel_onnx_copy_flag(c, n, "keepdims");
  tercel_value *const y = tercel_onnx_end(c, n);
  tercel_onnx_return(c, 0, is_bool ? tercel_onnx_cast(c, y, TERCEL_DTYPE_BOOL) : y);
}

void tercel_onnx_build_arg_reduce(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_arg_reduce, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_text(c, n, "kind", c->row->detail ? "max" : "min");
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_flag(c, n, "keepdims");
  if (tercel_onnx_has_attr(c, "select_last_index"))
    tercel_onnx_set_int(c, n, "select_last", tercel_onnx_get_flag(c, "select_last_index", false));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_cumulative(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, tercel_ops()[c->row->detail], 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_flag(c, n, "exclusive");
  tercel_onnx_copy_flag(c, n, "reverse");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* k is an attribute in version 1, then an input. */
void tercel_onnx_build_topk(tercel_onnx_call *c) {
  tercel_value *k = tercel_onnx_in(c, 1);
  if (c->version < 10) {
    tercel_onnx_need_attr(c, "k");
    k = tercel_onnx_i64(c, tercel_onnx_get_int(c, "k", 0));
  }
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_topk, 2, tercel_onnx_in(c, 0), k);
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_flag(c, n, "largest");
  tercel_onnx_copy_flag(c, n, "sorted");
  tercel_onnx_return_all(c, n);
}
