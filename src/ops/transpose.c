/* transpose: dims in another order. */
#include "ops/move.h"

tercel_status tercel_transpose_perm(const tercel_node *node, int rank, int perm[TERCEL_MAX_RANK], tercel_error *err) {
  size_t count = 0;
  const int64_t *given = tercel_node_ints(node, "perm", &count);
  if (tercel_node_attr(node, "perm") == NULL) {
    for (int d = 0; d < rank; ++d) perm[d] = rank - 1 - d;
    return TERCEL_OK;
  }
  if (count != (size_t)rank)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "perm has %zu entries, but the input has rank %d", count,
                            rank);
  uint32_t seen = 0;
  for (int d = 0; d < rank; ++d) {
    TERCEL_TRY(tercel_axis(node, given[d], rank, &perm[d], err));
    if ((seen >> perm[d] & 1) != 0)
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "perm names axis %d twice", perm[d]);
    seen |= 1u << perm[d];
  }
  return TERCEL_OK;
}

static tercel_status infer_transpose(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape out = {.rank = -1};
  const tercel_attr *attr = tercel_node_attr(infer->node, "perm");
  if (x->rank < 0) {
    if (attr != NULL) TERCEL_TRY(tercel_infer_open(infer, (int64_t)attr->count, &out, err));
    return tercel_infer_view(infer, &out, err);
  }
  int perm[TERCEL_MAX_RANK];
  TERCEL_TRY(tercel_transpose_perm(infer->node, x->rank, perm, err));
  out.rank = x->rank;
  for (int d = 0; d < out.rank; ++d) out.dims[d] = x->dims[perm[d]];
  return tercel_infer_view(infer, &out, err);
}

static tercel_status eval_transpose(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  int perm[TERCEL_MAX_RANK];
  int64_t x_strides[TERCEL_MAX_RANK], strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  TERCEL_TRY(tercel_transpose_perm(eval->node, x->rank, perm, err));
  tercel_tensor_strides(x, x_strides);
  for (int d = 0; d < y->rank; ++d) strides[d] = x_strides[perm[d]];
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    tercel_element_copy(y->data, i, x->data, tercel_index_dot(y->rank, index, strides), x->dtype);
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec transpose_attrs[] = {
    {"perm", TERCEL_ATTR_INTS, false, 0, NULL, "dim d of the result is dim perm[d] of x; none: reversed"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_transpose = {
    .name = "transpose",
    .id = TERCEL_OP_TRANSPOSE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "dims in another order",
    .attrs = transpose_attrs,
    .infer = infer_transpose,
    .eval = eval_transpose,
    .flops = tercel_no_flops,
};
