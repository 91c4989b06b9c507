/* ops: the operator set.  Knows ir and base.  One file a family: schema, shape inference, plain reference kernel, cost. */
#ifndef TERCEL_OPS_OPS_H
#define TERCEL_OPS_OPS_H

#include "ir/ir.h"

typedef enum tercel_op_id {
#define TERCEL_OP(id, name) TERCEL_OP_##id,
#include "ops/ops.inc"
#undef TERCEL_OP
  TERCEL_OP_COUNT,
  TERCEL_OP_CUSTOM = TERCEL_OP_COUNT /* all that users register (custom.h): in no table */
} tercel_op_id;

#define TERCEL_OP(id, name) extern const tercel_op tercel_op_##name;
#include "ops/ops.inc"
#undef TERCEL_OP

/* All operators, NULL-terminated, indexed by tercel_op_id. */
const tercel_op *const *tercel_ops(void);

/* Infers one node: types and contents of its outputs go into their values.  Knowledge that a value already has (declared in a file) is merged: what
 * contradicts is INVALID_MODEL and names both. */
tercel_status tercel_infer_node(tercel_node *node, tercel_error *err);
/* All nodes in order, subgraphs of control operators included. */
tercel_status tercel_infer_graph(tercel_graph *graph, tercel_error *err);
/* The same for those only whose inputs have changed since. */
tercel_status tercel_infer_changed(tercel_graph *graph, tercel_error *err);

/* Calls the operator's inference and checks the dims it made.  When there was no memory for dims, that is the error, whatever was
 * concluded without them. */
tercel_status tercel_infer_call(tercel_infer *infer, tercel_error *err);

/* The fact of a value as the graph knows it. */
tercel_fact tercel_value_fact(const tercel_value *value);

/* Runs a node's reference kernel on constants or given tensors; outputs get storage of their own (one reference each, the
 * caller's).  Absent outputs: NULL in storages_out.  For folding and tests. */
tercel_status tercel_eval_node(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                               tercel_storage **storages_out, tercel_error *err);
/* What stands for it where something faster is at hand. */
typedef tercel_status (*tercel_eval_fn)(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                                        tercel_storage **storages_out, tercel_error *err);

/* Helpers that op files share. */

/* axis in [-rank, rank) made positive; INVALID_MODEL names the node otherwise. */
tercel_status tercel_axis(const tercel_node *node, int64_t axis, int rank, int *out, tercel_error *err);
/* The axes a node names (attribute "axes", else the contents of input `input`), normalized into a bit mask; false in *known when they come
 * from an input whose contents aren't known yet; *given false when there are none at all. */
tercel_status tercel_infer_axes(tercel_infer *infer, size_t input, int rank, uint32_t *mask, bool *given, bool *known,
                                tercel_error *err);
/* numpy broadcasting of two shapes. */
tercel_status tercel_infer_broadcast(tercel_infer *infer, const tercel_shape *a, const tercel_shape *b,
                                     tercel_shape *out, tercel_error *err);
/* A runtime list of integers (starts, sizes, axes, ...) from a tensor of i32 or i64, any rank <= 1: at most `capacity`. */
tercel_status tercel_eval_ints(const tercel_tensor *tensor, const char *what, int64_t *out, size_t capacity,
                               size_t *count, tercel_error *err);

/* Window geometry of one spatial dim of conv and pool: pads resolved from auto_pad, output size. */
typedef struct tercel_window {
  int64_t kernel, stride, dilation, pad_begin, pad_end, input, output;
} tercel_window;
enum { TERCEL_MAX_SPATIAL = TERCEL_MAX_RANK - 2 };
/* The attribute "kernel" of a pool: one positive number a spatial dim; INVALID_MODEL otherwise. */
tercel_status tercel_window_kernel(const tercel_node *node, int spatial, const int64_t **out, tercel_error *err);
/* Windows of a conv or pool node for numbers: in_dims and kernel_dims have `spatial` entries.  (Transposed: tercel_conv_transpose_windows.) */
tercel_status tercel_windows(const tercel_node *node, int spatial, const int64_t *in_dims, const int64_t *kernel_dims,
                             tercel_window *out, tercel_error *err);
tercel_status tercel_conv_transpose_windows(const tercel_node *node, int spatial, const int64_t *in_dims,
                                            const int64_t *kernel_dims, tercel_window *out, tercel_error *err);
/* The output dims of both, where dims may be symbolic. */
tercel_status tercel_infer_windows(tercel_infer *infer, int spatial, const tercel_dim *in_dims,
                                   const tercel_dim *kernel_dims, tercel_dim *out_dims, tercel_error *err);
tercel_status tercel_infer_conv_transpose_windows(tercel_infer *infer, int spatial, const tercel_dim *in_dims,
                                                  const tercel_dim *kernel_dims, tercel_dim *out_dims,
                                                  tercel_error *err);

/* A matmul of known shapes: for each of the `batch` index tuples, y[m][n] = sum over k of a(m, k) b(k, n).  Strides in elements; a batch
 * stride is 0 where that operand is broadcast.  y is dense: [batch..., m, n] (without m, n where a, b have rank 1). */
typedef struct tercel_matmul_geometry {
  int64_t m, n, k, batch;
  int batch_rank;
  int64_t batch_dims[TERCEL_MAX_RANK], a_batch[TERCEL_MAX_RANK], b_batch[TERCEL_MAX_RANK];
  int64_t a_row, a_col; /* strides of a(m, k) */
  int64_t b_row, b_col; /* strides of b(k, n) */
} tercel_matmul_geometry;
/* The shapes must have passed inference. */
void tercel_matmul_get_geometry(const tercel_node *node, const tercel_tensor *a, const tercel_tensor *b,
                                tercel_matmul_geometry *out);
/* Where the operands of matrix `index` (0 .. batch - 1) begin, in elements. */
void tercel_matmul_offsets(const tercel_matmul_geometry *geometry, int64_t index, int64_t *a_out, int64_t *b_out);

/* How a conv's or pool's input and result lie: attribute "layout".  Weights are the same in both. */
typedef enum tercel_layout {
  TERCEL_LAYOUT_NCHW, /* channels first: dim 1, before the spatial dims */
  TERCEL_LAYOUT_NHWC  /* channels last: the last dim, behind the spatial dims */
} tercel_layout;
/* NCHW for operators without the attribute; an unknown word is INVALID_MODEL in verify and inference. */
tercel_layout tercel_node_layout(const tercel_node *node);
tercel_status tercel_check_layout(const tercel_node *node, tercel_error *err);
static inline int tercel_channel_dim(tercel_layout layout, int rank) {
  return layout == TERCEL_LAYOUT_NHWC ? rank - 1 : 1;
}
static inline int tercel_first_spatial_dim(tercel_layout layout) { return layout == TERCEL_LAYOUT_NHWC ? 1 : 2; }

/* A conv or conv_transpose of known shapes. */
typedef struct tercel_conv_geometry {
  tercel_layout layout;
  int64_t batch, group;
  int64_t in_channels, out_channels;      /* of all groups */
  int64_t in_size, out_size, kernel_size; /* products of the spatial dims */
  int spatial;
  tercel_window windows[TERCEL_MAX_SPATIAL];
} tercel_conv_geometry;
tercel_status tercel_conv_get_geometry(const tercel_node *node, const tercel_tensor *x, const tercel_tensor *w,
                                       tercel_conv_geometry *out, tercel_error *err);

/* The attribute "epilogue" and its extras, which begin at input `first_extra`: *type comes as the operator's own result and leaves with the
 * dtype that the program gives.  Extras must broadcast to the shape; without an epilogue there may be none. */
tercel_status tercel_infer_epilogue(tercel_infer *infer, size_t first_extra, tercel_type *type, tercel_error *err);

#endif
