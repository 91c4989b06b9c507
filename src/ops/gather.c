/* gather, gather_elements, gather_nd: elements picked by index. */
#include "ir/blocks.h"
#include "ops/move.h"

/* ---- gather -------------------------------------------------------------------------------------------------------- */

static tercel_status gather_contents(tercel_infer *infer, tercel_error *err) {
  int64_t n = 0, count = 0;
  const tercel_dim *x = tercel_infer_flow(infer, 0, &n, err);
  const tercel_dim *indices = x != NULL ? tercel_infer_flow(infer, 1, &count, err) : NULL;
  if (indices == NULL) return TERCEL_OK;
  for (int64_t k = 0; k < count; ++k) {
    int64_t number;
    if (!tercel_dim_get_number(infer->dims, indices[k], &number)) return TERCEL_OK;
  }
  tercel_dim *out;
  TERCEL_TRY(tercel_infer_give(infer, 0, count, &out, err));
  for (int64_t k = 0; out != NULL && k < count; ++k) {
    int64_t number = 0, at;
    tercel_dim_get_number(infer->dims, indices[k], &number);
    TERCEL_TRY(tercel_pick_index(infer->node, number, n, 0, &at, err));
    out[k] = x[at];
  }
  return TERCEL_OK;
}

static tercel_status infer_gather(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *indices = &infer->in[1]->type.shape;
  const tercel_dtype dtype = infer->in[0]->type.dtype;
  const bool blocks = tercel_dtype_is_block(dtype);
  infer->out[0].type.dtype = blocks ? TERCEL_DTYPE_F32 : dtype;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (x->rank < 0) return TERCEL_OK;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->rank, &axis, err));
  if (blocks && (axis != 0 || x->rank < 2))
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "of %s, whole rows only can be gathered",
                            tercel_dtype_name(dtype));
  if (indices->rank < 0) return TERCEL_OK;
  tercel_shape out;
  TERCEL_TRY(tercel_infer_open(infer, x->rank - 1 + indices->rank, &out, err));
  int k = 0;
  for (int d = 0; d < axis; ++d) out.dims[k++] = x->dims[d];
  for (int d = 0; d < indices->rank; ++d) out.dims[k++] = indices->dims[d];
  for (int d = axis + 1; d < x->rank; ++d) out.dims[k++] = x->dims[d];
  infer->out[0].type.shape = out;
  TERCEL_TRY(tercel_infer_check_size(infer, 0, err));
  return x->rank == 1 && out.rank <= 1 ? gather_contents(infer, err) : TERCEL_OK;
}

static tercel_status eval_gather(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *indices = eval->in[1];
  tercel_tensor *y = eval->out[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  const int64_t n = x->dims[axis], count = tercel_tensor_num_elements(indices);
  const tercel_block_format block = tercel_dtype_block_format(x->dtype);
  for (int64_t k = 0; k < count; ++k) {
    int64_t at;
    TERCEL_TRY(tercel_pick_index(eval->node, tercel_tensor_get_i64(indices, k), n, axis, &at, err));
    if (block.elements > 0) {
      const int64_t blocks = inner / block.elements;
      tercel_blocks_decode(x->dtype, (const uint8_t *)x->data + at * blocks * block.bytes, blocks,
                           (float *)y->data + k * inner);
      continue;
    }
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        tercel_element_copy(y->data, (o * count + k) * inner + i, x->data, (o * n + at) * inner + i, x->dtype);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec axis_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, 0, NULL, "the axis that the indices count along"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_gather = {
    .name = "gather",
    .id = TERCEL_OP_GATHER,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "slices of x along an axis, one for each index",
    .attrs = axis_attrs,
    .infer = infer_gather,
    .eval = eval_gather,
    .flops = tercel_no_flops,
};

/* ---- gather_elements ----------------------------------------------------------------------------------------------- */

static tercel_status infer_gather_elements(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *indices = &infer->in[1]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  infer->out[0].type.shape = *indices;
  if (x->rank < 0 || indices->rank < 0) return TERCEL_OK;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->rank, &axis, err));
  TERCEL_TRY(tercel_infer_check_within(infer, 1, axis, err));
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status eval_gather_elements(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *indices = eval->in[1];
  tercel_tensor *y = eval->out[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at;
    TERCEL_TRY(tercel_pick_index(eval->node, tercel_tensor_get_i64(indices, i), x->dims[axis], axis, &at, err));
    const int64_t from = tercel_index_dot(x->rank, index, strides) + (at - index[axis]) * strides[axis];
    tercel_element_copy(y->data, i, x->data, from, x->dtype);
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

const tercel_op tercel_op_gather_elements = {
    .name = "gather_elements",
    .id = TERCEL_OP_GATHER_ELEMENTS,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "y[i][j] = x[indices[i][j]][j] for axis 0, and so on",
    .attrs = axis_attrs,
    .infer = infer_gather_elements,
    .eval = eval_gather_elements,
    .flops = tercel_no_flops,
};

/* ---- gather_nd ----------------------------------------------------------------------------------------------------- */

static tercel_status check_batch_dims(const tercel_node *node, int64_t batch, int x_rank, int index_rank,
                                      tercel_error *err) {
  if (batch >= 0 && batch < x_rank && batch < index_rank) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "batch_dims %lld for data of rank %d and indices of rank %d",
                          (long long)batch, x_rank, index_rank);
}

static tercel_status infer_gather_nd(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *indices = &infer->in[1]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (x->rank < 0 || indices->rank < 0) return TERCEL_OK;
  const int64_t batch = tercel_node_int(infer->node, "batch_dims");
  TERCEL_TRY(check_batch_dims(infer->node, batch, x->rank, indices->rank, err));
  for (int d = 0; d < batch; ++d)
    if (tercel_dim_is_known(x->dims[d]) && tercel_dim_is_known(indices->dims[d]) && x->dims[d] != indices->dims[d])
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                              "batch dim %d is %lld in the data, %lld in the indices", d, (long long)x->dims[d],
                              (long long)indices->dims[d]);
  const tercel_dim depth = indices->dims[indices->rank - 1];
  if (!tercel_dim_is_known(depth)) return TERCEL_OK;
  if (depth > x->rank - batch)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "index tuples of %lld for data of rank %d",
                            (long long)depth, x->rank);
  tercel_shape out;
  const int kept = (int)(batch + depth);
  TERCEL_TRY(tercel_infer_open(infer, indices->rank - 1 + x->rank - kept, &out, err));
  int k = 0;
  for (int d = 0; d < indices->rank - 1; ++d) out.dims[k++] = indices->dims[d];
  for (int d = kept; d < x->rank; ++d) out.dims[k++] = x->dims[d];
  infer->out[0].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status eval_gather_nd(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *indices = eval->in[1];
  tercel_tensor *y = eval->out[0];
  const int batch = (int)tercel_node_int(eval->node, "batch_dims"), last = indices->rank - 1;
  const int depth = (int)indices->dims[last];
  const int64_t inner = tercel_dims_product(x->dims, batch + depth, x->rank);
  const int64_t batches = tercel_dims_product(indices->dims, 0, batch);
  const int64_t tuples = tercel_dims_product(indices->dims, batch, last);
  const int64_t x_batch = tercel_dims_product(x->dims, batch, x->rank);
  for (int64_t t = 0; t < batches * tuples; ++t) {
    int64_t from;
    TERCEL_TRY(tercel_pick_tuple(eval->node, indices, t, x->dims + batch, batch, &from, err));
    from = t / tuples * x_batch + from * inner;
    for (int64_t i = 0; i < inner; ++i) tercel_element_copy(y->data, t * inner + i, x->data, from + i, x->dtype);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec gather_nd_attrs[] = {
    {"batch_dims", TERCEL_ATTR_INT, false, 0, NULL, "leading dims that data and indices share"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_gather_nd = {
    .name = "gather_nd",
    .id = TERCEL_OP_GATHER_ND,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "slices of x at the index tuples in the last dim of the indices",
    .attrs = gather_nd_attrs,
    .infer = infer_gather_nd,
    .eval = eval_gather_nd,
    .flops = tercel_no_flops,
};
