/* cumsum, cumprod: running sums and products along an axis. */
#include "ops/move.h"

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype) && !tercel_dtype_is_integer(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want numbers",
                            tercel_dtype_name(x->dtype));
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  infer->out[0].type.dtype = x->dtype;
  infer->out[0].type.shape = x->shape;
  return TERCEL_OK;
}

/* What has been gathered so far: floats in double, integers modulo 2^64. */
typedef struct running {
  bool product, is_float;
  double real;
  uint64_t whole;
} running;

static void store(const running *r, tercel_tensor *y, int64_t at) {
  if (r->is_float)
    tercel_tensor_set_f64(y, at, r->real);
  else
    tercel_tensor_set_i64(y, at, (int64_t)r->whole);
}

static void take(running *r, const tercel_tensor *x, int64_t at) {
  if (r->is_float) {
    const double v = tercel_tensor_get_f64(x, at);
    r->real = r->product ? r->real * v : r->real + v;
  } else {
    const uint64_t v = (uint64_t)tercel_tensor_get_i64(x, at);
    r->whole = r->product ? r->whole * v : r->whole + v;
  }
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  int64_t number;
  int axis;
  TERCEL_TRY(tercel_eval_scalar(eval->node, eval->in[1], "axis", &number, err));
  TERCEL_TRY(tercel_axis(eval->node, number, x->rank, &axis, err));
  const bool exclusive = tercel_node_int(eval->node, "exclusive") != 0;
  const bool reverse = tercel_node_int(eval->node, "reverse") != 0;
  const bool product = eval->node->op->id == TERCEL_OP_CUMPROD;
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), n = x->dims[axis];
  const int64_t inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  for (int64_t line = 0; line < outer * inner; ++line) {
    running r = {product, tercel_dtype_is_float(x->dtype), product, product};
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = (line / inner * n + (reverse ? n - 1 - k : k)) * inner + line % inner;
      if (exclusive) store(&r, y, at);
      take(&r, x, at);
      if (!exclusive) store(&r, y, at);
    }
  }
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"exclusive", TERCEL_ATTR_INT, false, 0, NULL, "1: the element itself does not count"},
    {"reverse", TERCEL_ATTR_INT, false, 0, NULL, "1: from the end"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_cumsum = {
    .name = "cumsum",
    .id = TERCEL_OP_CUMSUM,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "running sums along an axis",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
};

const tercel_op tercel_op_cumprod = {
    .name = "cumprod",
    .id = TERCEL_OP_CUMPROD,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "running products along an axis",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
};
