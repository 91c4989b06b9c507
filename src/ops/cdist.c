/* cdist: euclidean distances between the rows of two matrices. */
#include <math.h>

#include "ops/move.h"

static tercel_status infer_cdist(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const a = &infer->in[0]->type, *const b = &infer->in[1]->type;
  infer->out[0].type.dtype = a->dtype;
  TERCEL_TRY(tercel_infer_check_dtype(infer, 1, err));
  if (a->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(a->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want floats",
                            tercel_dtype_name(a->dtype));
  if (a->shape.rank < 0 || b->shape.rank < 0) return TERCEL_OK;
  if (a->shape.rank != 2 || b->shape.rank != 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "inputs of ranks %d and %d, want 2", a->shape.rank,
                            b->shape.rank);
  const tercel_dim wide = a->shape.dims[1], other = b->shape.dims[1];
  if (tercel_dim_is_known(wide) && tercel_dim_is_known(other) && wide != other)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "rows of %lld and of %lld elements",
                            (long long)wide, (long long)other);
  infer->out[0].type.shape = a->shape;
  infer->out[0].type.shape.dims[1] = b->shape.dims[0];
  return tercel_infer_check_size(infer, 0, err);
}

/* Differences first, so that points close to each other keep their distance. */
static tercel_status eval_cdist(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const a = eval->in[0], *const b = eval->in[1];
  const bool squared = tercel_node_int(eval->node, "squared") != 0;
  const int64_t rows = a->dims[0], columns = b->dims[0], size = a->dims[1];
  if (b->dims[1] != size)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "rows of %lld and of %lld elements",
                            (long long)size, (long long)b->dims[1]);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < size; ++k) {
        const double difference = tercel_tensor_get_f64(a, i * size + k) - tercel_tensor_get_f64(b, j * size + k);
        sum += difference * difference;
      }
      tercel_tensor_set_f64(eval->out[0], i * columns + j, squared ? sum : sqrt(sum));
    }
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node;
  (void)out;
  return 3.0 * (double)in[0]->dims[0] * (double)in[1]->dims[0] * (double)in[0]->dims[1];
}

static const tercel_attr_spec attrs[] = {
    {"squared", TERCEL_ATTR_INT, false, 0, NULL, "1: of the squares of the distances"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_cdist = {
    .name = "cdist",
    .id = TERCEL_OP_CDIST,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "euclidean distances between the rows of two matrices",
    .attrs = attrs,
    .infer = infer_cdist,
    .eval = eval_cdist,
    .flops = flops,
};
