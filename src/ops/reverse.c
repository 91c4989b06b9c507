/* reverse_sequence: the first elements of each sequence of a batch in reversed order. */
#include "ops/move.h"

static tercel_status read_axes(const tercel_node *node, int rank, int *batch, int *time, tercel_error *err) {
  TERCEL_TRY(tercel_axis(node, tercel_node_int(node, "batch_axis"), rank, batch, err));
  TERCEL_TRY(tercel_axis(node, tercel_node_int(node, "time_axis"), rank, time, err));
  if (*batch != *time) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "batch_axis and time_axis are both %d", *time);
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *lengths = &infer->in[1]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  infer->out[0].type.shape = *x;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (x->rank < 0) return TERCEL_OK;
  int batch, time;
  TERCEL_TRY(read_axes(infer->node, x->rank, &batch, &time, err));
  if (lengths->rank < 0) return TERCEL_OK;
  const tercel_dim have = lengths->rank == 1 ? lengths->dims[0] : -1, want = x->dims[batch];
  const bool known = tercel_dim_is_known(have) && tercel_dim_is_known(want);
  if (lengths->rank != 1 || (known && have != want))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                            "lengths of rank %d and %lld elements, want one for each of %lld sequences", lengths->rank,
                            (long long)have, (long long)want);
  return TERCEL_OK;
}

static tercel_status check_lengths(const tercel_eval *eval, int64_t size, tercel_error *err) {
  const tercel_tensor *lengths = eval->in[1];
  for (int64_t i = 0; i < lengths->dims[0]; ++i) {
    const int64_t length = tercel_tensor_get_i64(lengths, i);
    if (length < 0 || length > size)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "length %lld of sequence %lld, want 0 .. %lld",
                              (long long)length, (long long)i, (long long)size);
  }
  return TERCEL_OK;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  int batch, time;
  TERCEL_TRY(read_axes(eval->node, x->rank, &batch, &time, err));
  TERCEL_TRY(check_lengths(eval, x->dims[time], err));
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  const int64_t n = tercel_tensor_num_elements(x);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = tercel_tensor_get_i64(eval->in[1], index[batch]), at = index[time];
    const int64_t from = at < length ? i + (length - 1 - 2 * at) * strides[time] : i;
    tercel_element_copy(eval->out[0]->data, i, x->data, from, x->dtype);
    tercel_index_next(x->rank, x->dims, index);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"batch_axis", TERCEL_ATTR_INT, false, 1, NULL, "the axis that counts the sequences"},
    {"time_axis", TERCEL_ATTR_INT, false, 0, NULL, "the axis along which they run"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_reverse_sequence = {
    .name = "reverse_sequence",
    .id = TERCEL_OP_REVERSE_SEQUENCE,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "the first elements of each sequence in reversed order",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = tercel_no_flops,
};
