/* concat: tensors joined along an axis. */
#include "ops/move.h"

/* Input i's dims beside the axis must be those seen so far; numbers replace expressions. */
static tercel_status merge_dims(const tercel_infer *infer, size_t i, int axis, tercel_shape *out, tercel_error *err) {
  const tercel_shape *x = &infer->in[i]->type.shape;
  for (int d = 0; d < out->rank; ++d) {
    if (d == axis) continue;
    if (!tercel_dim_is_known(out->dims[d])) {
      if (tercel_dim_is_known(x->dims[d]) || tercel_dim_is_unknown(infer->dims, out->dims[d]))
        out->dims[d] = x->dims[d];
    } else if (tercel_dim_is_known(x->dims[d]) && x->dims[d] != out->dims[d]) {
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                              "input %zu has size %lld along axis %d, the others %lld", i, (long long)x->dims[d], d,
                              (long long)out->dims[d]);
    }
  }
  return TERCEL_OK;
}

/* Vectors whose contents are known: the result's are theirs in turn, unknown where those of one are. */
static tercel_status join_contents(tercel_infer *infer, tercel_error *err) {
  tercel_dim joined[TERCEL_MAX_CONTENTS];
  int64_t total = 0;
  bool any = false;
  if (!tercel_dtype_is_integer(infer->out[0].type.dtype)) return TERCEL_OK;
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    int64_t count = 0;
    const tercel_dim *part = tercel_infer_flow(infer, i, &count, err);
    const tercel_shape *shape = &infer->in[i]->type.shape;
    if (part == NULL) count = shape->rank == 1 ? shape->dims[0] : -1;
    if (count < 0 || count > TERCEL_MAX_CONTENTS - total) return TERCEL_OK;
    for (int64_t k = 0; k < count; ++k) joined[total++] = part != NULL ? part[k] : tercel_dim_unknown(infer->dims);
    any |= part != NULL;
  }
  if (!any) return TERCEL_OK;
  tercel_dim *out;
  TERCEL_TRY(tercel_infer_give(infer, 0, total, &out, err));
  for (int64_t k = 0; out != NULL && k < total; ++k) out[k] = joined[k];
  return TERCEL_OK;
}

static tercel_status infer_concat(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  tercel_shape *out = &infer->out[0].type.shape;
  size_t first = infer->num_inputs;
  for (size_t i = infer->num_inputs; i-- > 0;) {
    if (infer->in[i] == NULL)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is missing", i);
    TERCEL_TRY(tercel_infer_check_dtype(infer, i, err));
    if (infer->in[i]->type.shape.rank >= 0) first = i;
  }
  if (first == infer->num_inputs) return TERCEL_OK;
  tercel_shape shape = infer->in[first]->type.shape;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), shape.rank, &axis, err));
  tercel_dim sum = 0;
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    const tercel_shape *x = &infer->in[i]->type.shape;
    if (x->rank < 0) {
      sum = tercel_dim_add(infer->dims, sum, tercel_dim_unknown(infer->dims));
      continue;
    }
    if (x->rank != shape.rank)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu has rank %d, input %zu has %d", i,
                              x->rank, first, shape.rank);
    TERCEL_TRY(merge_dims(infer, i, axis, &shape, err));
    sum = tercel_dim_add(infer->dims, sum, x->dims[axis]);
  }
  shape.dims[axis] = sum;
  *out = shape;
  TERCEL_TRY(tercel_infer_check_size(infer, 0, err));
  return shape.rank == 1 ? join_contents(infer, err) : TERCEL_OK;
}

static tercel_status eval_concat(tercel_eval *eval, tercel_error *err) {
  tercel_tensor *y = eval->out[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), y->rank, &axis, err));
  const int64_t outer = tercel_dims_product(y->dims, 0, axis), row = tercel_dims_product(y->dims, axis, y->rank);
  int64_t at = 0;
  for (size_t i = 0; i < eval->num_inputs; ++i) {
    const tercel_tensor *x = eval->in[i];
    const int64_t part = tercel_dims_product(x->dims, axis, x->rank);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < part; ++k)
        tercel_element_copy(y->data, o * row + at + k, x->data, o * part + k, y->dtype);
    at += part;
  }
  return TERCEL_OK;
}

static const tercel_attr_spec concat_attrs[] = {
    {"axis", TERCEL_ATTR_INT, true, 0, NULL, "the axis along which the inputs are joined"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_concat = {
    .name = "concat",
    .id = TERCEL_OP_CONCAT,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "tensors joined along an axis",
    .attrs = concat_attrs,
    .infer = infer_concat,
    .eval = eval_concat,
    .flops = tercel_no_flops,
};
