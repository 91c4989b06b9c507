/* range: start, start + delta, ... before limit. */
#include "ops/move.h"

#include <math.h>

static const char *const names[] = {"start", "limit", "delta"};

/* ceil((limit - start) / delta), at least 0. */
static tercel_status count_f64(const tercel_node *node, const double v[3], int64_t *out, tercel_error *err) {
  if (v[2] == 0) return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "delta is 0");
  const double count = ceil((v[1] - v[0]) / v[2]);
  if (!(count < 0x1p62)) /* also NaN */
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "from %g to %g by %g makes no finite range", v[0], v[1],
                            v[2]);
  *out = count > 0 ? (int64_t)count : 0;
  return TERCEL_OK;
}

static tercel_status count_i64(const tercel_node *node, const int64_t v[3], int64_t *out, tercel_error *err) {
  if (v[2] == 0) return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "delta is 0");
  const bool up = v[2] > 0;
  if (up ? v[1] <= v[0] : v[1] >= v[0]) {
    *out = 0;
    return TERCEL_OK;
  }
  /* Distances as unsigned numbers, so that the extremes of i64 don't overflow. */
  const uint64_t distance = up ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
  const uint64_t step = up ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
  const uint64_t count = (distance - 1) / step + 1;
  if (count > (uint64_t)1 << 62)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%llu elements are too many",
                            (unsigned long long)count);
  *out = (int64_t)count;
  return TERCEL_OK;
}

static tercel_status infer_floats(tercel_infer *infer, tercel_dim *count, tercel_error *err) {
  double v[3];
  for (size_t i = 0; i < 3; ++i) {
    const tercel_tensor *t = tercel_infer_tensor(infer, i);
    if (t == NULL || tercel_tensor_num_elements(t) != 1) return TERCEL_OK;
    v[i] = tercel_tensor_get_f64(t, 0);
  }
  return count_f64(infer->node, v, count, err);
}

static tercel_status infer_integers(tercel_infer *infer, tercel_dim *count, tercel_error *err) {
  tercel_dim d[3];
  int64_t v[3];
  int numbers = 0;
  for (size_t i = 0; i < 3; ++i) {
    int64_t n = 0;
    const tercel_dim *contents = tercel_infer_contents(infer, i, &n, err);
    if (contents == NULL || n != 1) return TERCEL_OK;
    d[i] = contents[0];
    numbers += tercel_dim_get_number(infer->dims, d[i], &v[i]);
  }
  if (numbers < 3) {
    int64_t delta;
    if (!tercel_dim_get_number(infer->dims, d[2], &delta) || delta <= 0) return TERCEL_OK;
    const tercel_dim length = tercel_dim_ceil_div(infer->dims, tercel_dim_sub(infer->dims, d[1], d[0]), delta);
    *count = tercel_dim_max(infer->dims, length, 0);
    return TERCEL_OK;
  }
  TERCEL_TRY(count_i64(infer->node, v, count, err));
  tercel_dim *contents;
  TERCEL_TRY(tercel_infer_give(infer, 0, *count, &contents, err));
  for (int64_t i = 0; contents != NULL && i < *count; ++i)
    contents[i] = tercel_dim_constant(infer->dims, v[0] + i * v[2]);
  return TERCEL_OK;
}

static tercel_status infer_range(tercel_infer *infer, tercel_error *err) {
  const tercel_dtype dtype = infer->in[0]->type.dtype;
  infer->out[0].type.dtype = dtype;
  for (size_t i = 1; i < 3; ++i) TERCEL_TRY(tercel_infer_check_dtype(infer, i, err));
  const bool is_float = tercel_dtype_is_float(dtype);
  if (!is_float && !tercel_dtype_is_integer(dtype) && dtype != TERCEL_DTYPE_NONE)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "a range of %s", tercel_dtype_name(dtype));
  tercel_dim count = tercel_dim_unknown(infer->dims);
  TERCEL_TRY(is_float ? infer_floats(infer, &count, err) : infer_integers(infer, &count, err));
  infer->out[0].type.shape = (tercel_shape){.rank = 1, .dims = {count}};
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status eval_range(tercel_eval *eval, tercel_error *err) {
  tercel_tensor *y = eval->out[0];
  for (size_t i = 0; i < 3; ++i) {
    int64_t whole;
    TERCEL_TRY(tercel_eval_scalar(eval->node, eval->in[i], names[i], &whole, err));
  }
  const int64_t n = tercel_tensor_num_elements(y);
  if (tercel_dtype_is_float(y->dtype)) {
    const double start = tercel_tensor_get_f64(eval->in[0], 0), delta = tercel_tensor_get_f64(eval->in[2], 0);
    for (int64_t i = 0; i < n; ++i) tercel_tensor_set_f64(y, i, start + (double)i * delta);
  } else {
    const int64_t start = tercel_tensor_get_i64(eval->in[0], 0), delta = tercel_tensor_get_i64(eval->in[2], 0);
    for (int64_t i = 0; i < n; ++i) tercel_tensor_set_i64(y, i, start + i * delta);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_range = {
    .name = "range",
    .id = TERCEL_OP_RANGE,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "start, start + delta, ... before limit",
    .attrs = no_attrs,
    .infer = infer_range,
    .eval = eval_range,
};
