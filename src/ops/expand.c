/* expand and tile: a tensor repeated. */
#include "ops/move.h"

/* ---- expand -------------------------------------------------------------------------------------------------------- */

/* A vector (or scalar) whose contents are known, broadcast to a vector of known length. */
static tercel_status repeat_contents(tercel_infer *infer, int64_t length, tercel_error *err) {
  int64_t count = 0;
  const tercel_dim *in = tercel_infer_flow(infer, 0, &count, err);
  if (in == NULL || count == 0) return TERCEL_OK;
  tercel_dim *out;
  TERCEL_TRY(tercel_infer_give(infer, 0, length, &out, err));
  for (int64_t i = 0; out != NULL && i < length; ++i) out[i] = in[i % count];
  return TERCEL_OK;
}

static tercel_status infer_repeated(tercel_infer *infer, const tercel_shape *shape, tercel_error *err) {
  infer->out[0].type.shape = *shape;
  TERCEL_TRY(tercel_infer_check_size(infer, 0, err));
  if (shape->rank == 0) return repeat_contents(infer, 1, err);
  if (shape->rank == 1 && tercel_dim_is_known(shape->dims[0])) return repeat_contents(infer, shape->dims[0], err);
  return TERCEL_OK;
}

static tercel_status infer_expand(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  int64_t count = 0;
  const tercel_dim *want = tercel_infer_contents(infer, 1, &count, err);
  tercel_shape shape, out;
  if (want == NULL) {
    const tercel_shape *s = &infer->in[1]->type.shape;
    if (x->rank < 0 || s->rank != 1 || !tercel_dim_is_known(s->dims[0])) return TERCEL_OK;
    TERCEL_TRY(tercel_infer_open(infer, s->dims[0], &shape, err));
    return tercel_infer_broadcast(infer, x, &shape, &infer->out[0].type.shape, err);
  }
  TERCEL_TRY(tercel_infer_open(infer, count, &shape, err));
  for (int d = 0; d < shape.rank; ++d) {
    int64_t number;
    if (tercel_dim_get_number(infer->dims, want[d], &number) && number < 0)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "dim %d of the shape is %lld", d,
                              (long long)number);
    shape.dims[d] = want[d];
  }
  TERCEL_TRY(tercel_infer_broadcast(infer, x, &shape, &out, err));
  return infer_repeated(infer, &out, err);
}

static tercel_status eval_expand(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_broadcast_strides(x, y->rank, y->dims, strides);
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    tercel_element_copy(y->data, i, x->data, tercel_index_dot(y->rank, index, strides), x->dtype);
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_expand = {
    .name = "expand",
    .id = TERCEL_OP_EXPAND,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "x broadcast together with a shape",
    .attrs = no_attrs,
    .infer = infer_expand,
    .eval = eval_expand,
    .flops = tercel_no_flops,
};

/* ---- tile ---------------------------------------------------------------------------------------------------------- */

static tercel_status infer_tile(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (x->rank < 0) return TERCEL_OK;
  int64_t count = 0;
  const tercel_dim *repeats = tercel_infer_contents(infer, 1, &count, err);
  if (repeats == NULL) return tercel_infer_open(infer, x->rank, &infer->out[0].type.shape, err);
  if (count != x->rank)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld repeats for rank %d", (long long)count,
                            x->rank);
  tercel_shape out = *x;
  for (int d = 0; d < x->rank; ++d) {
    int64_t number;
    if (tercel_dim_get_number(infer->dims, repeats[d], &number) && number < 0)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "repeat %d is %lld", d, (long long)number);
    out.dims[d] = tercel_dim_mul(infer->dims, x->dims[d], repeats[d]);
  }
  return infer_repeated(infer, &out, err);
}

static tercel_status eval_tile(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    int64_t from = 0;
    for (int d = 0; d < y->rank; ++d) from += index[d] % x->dims[d] * strides[d];
    tercel_element_copy(y->data, i, x->data, from, x->dtype);
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

const tercel_op tercel_op_tile = {
    .name = "tile",
    .id = TERCEL_OP_TILE,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "x repeated along each axis",
    .attrs = no_attrs,
    .infer = infer_tile,
    .eval = eval_tile,
    .flops = tercel_no_flops,
};
