/* softmax: e^x over its sum along one axis, or the logarithm of that. */
#include <math.h>

#include "ops/move.h"

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of %s, want floats",
                            tercel_dtype_name(x->dtype));
  infer->out[0].type.dtype = x->dtype;
  infer->out[0].type.shape = x->shape;
  int axis;
  return x->shape.rank < 0 ? TERCEL_OK
                           : tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->shape.rank, &axis, err);
}

/* One row of n elements, `stride` apart: with m its largest, e^(x - m) / sum e^(x - m), or x - m - log sum. */
static void eval_row(const tercel_tensor *x, tercel_tensor *y, int64_t base, int64_t n, int64_t stride, bool is_log) {
  double largest = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double v = tercel_tensor_get_f64(x, base + k * stride);
    if (v > largest || isnan(v)) largest = v;
  }
  for (int64_t k = 0; k < n; ++k) sum += exp(tercel_tensor_get_f64(x, base + k * stride) - largest);
  for (int64_t k = 0; k < n; ++k) {
    const double d = tercel_tensor_get_f64(x, base + k * stride) - largest;
    tercel_tensor_set_f64(y, base + k * stride, is_log ? d - log(sum) : exp(d) / sum);
  }
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), n = x->dims[axis];
  const int64_t inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  const bool is_log = tercel_node_int(eval->node, "log") != 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) eval_row(x, eval->out[0], o * n * inner + i, n, inner, is_log);
  return TERCEL_OK;
}

/* max, subtract, exponential, add, divide */
static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  return 5.0 * (double)tercel_tensor_num_elements(in[0]);
}

static const tercel_attr_spec attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, -1, NULL, "the axis whose elements add up to 1"},
    {"log", TERCEL_ATTR_INT, false, 0, NULL, "1: the logarithm of the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_softmax = {
    .name = "softmax",
    .id = TERCEL_OP_SOFTMAX,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "exponentials over their sum, along an axis",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = flops,
};
