/* softmax: e^x over its sum along one axis, or the logarithm of that. */
#include <math.h>

#include "ops/move.h"
#include "ops/narrow.h"

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

void tercel_softmax_in(tercel_dtype dtype, double *x, int64_t n, bool zero_hidden) {
  double largest = -INFINITY;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] > largest || isnan(x[i])) largest = x[i];
  const bool hidden = zero_hidden && largest == -INFINITY;
  for (int64_t i = 0; i < n; ++i)
    x[i] = hidden ? 0 : tercel_round_to(dtype, tercel_f64_exp(tercel_round_to(dtype, x[i] - largest)));
  const double sum = hidden ? 1 : tercel_sum_in(dtype, x, n);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

/* x[i] - m - log sum e^(x[i] - m), with m the largest. */
static void log_softmax(double *x, int64_t n) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] > largest || isnan(x[i])) largest = x[i];
  for (int64_t i = 0; i < n; ++i) sum += tercel_f64_exp(x[i] - largest);
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] - largest - tercel_f64_log(sum);
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), n = x->dims[axis];
  const int64_t inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  const bool is_log = tercel_node_int(eval->node, "log") != 0;
  double *row = tercel_arena_alloc_array(eval->scratch, (size_t)n + 1, sizeof *row);
  if (row == NULL) return tercel_fail_memory(err, (size_t)n * sizeof *row, "softmax");
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t base = o * n * inner + i;
      for (int64_t k = 0; k < n; ++k) row[k] = tercel_tensor_get_f64(x, base + k * inner);
      if (is_log)
        log_softmax(row, n);
      else
        tercel_softmax_in(x->dtype, row, n, false);
      for (int64_t k = 0; k < n; ++k) tercel_tensor_set_f64(eval->out[0], base + k * inner, row[k]);
    }
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
