/* reduce, arg_reduce: many elements of an axis into one. */
#include <math.h>

#include "ops/epilogue.h"
#include "ops/move.h"
#include "ops/reduce.h"

const char *const tercel_reduce_kinds[] = {"sum", "mean",    "max",         "min",        "prod", "l1",
                                           "l2",  "log_sum", "log_sum_exp", "sum_square", NULL};

static bool is_number(tercel_dtype dtype) {
  switch (tercel_dtype_get_kind(dtype)) {
  case TERCEL_KIND_FLOAT:
  case TERCEL_KIND_INT:
  case TERCEL_KIND_UINT: return true;
  default: return false;
  }
}

/* ---- reduce -------------------------------------------------------------------------------------------------------- */

static tercel_status check_reduce_dtype(const tercel_infer *infer, int kind, tercel_error *err) {
  const tercel_dtype dtype = infer->in[0]->type.dtype;
  const bool ordered = kind == TERCEL_REDUCE_MAX || kind == TERCEL_REDUCE_MIN;
  if (dtype == TERCEL_DTYPE_NONE || is_number(dtype) || (ordered && dtype == TERCEL_DTYPE_BOOL)) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "a %s of %s", tercel_reduce_kinds[kind],
                          tercel_dtype_name(dtype));
}

tercel_status tercel_reduce_axes(const tercel_node *node, const tercel_tensor *const *in, uint32_t *mask,
                                 tercel_error *err) {
  const int rank = in[0]->rank;
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  const int64_t *given = tercel_node_ints(node, "axes", &count);
  const tercel_tensor *input = tercel_input_tensor(in, node->num_inputs, 1);
  if (tercel_node_attr(node, "axes") == NULL && input != NULL) {
    TERCEL_TRY(tercel_eval_ints(input, "axes of a reduction", axes, TERCEL_MAX_RANK, &count, err));
    given = axes;
  }
  *mask = 0;
  if (count == 0 && tercel_node_int(node, "noop_with_empty_axes") == 0) *mask = (1u << rank) - 1;
  for (size_t i = 0; i < count; ++i) {
    int axis;
    TERCEL_TRY(tercel_axis(node, given[i], rank, &axis, err));
    *mask |= 1u << axis;
  }
  return TERCEL_OK;
}

static tercel_shape reduced_shape(const tercel_shape *x, uint32_t mask, bool keepdims) {
  tercel_shape out = {.rank = 0};
  for (int d = 0; d < x->rank; ++d) {
    const bool reduced = mask >> d & 1;
    if (!reduced || keepdims) out.dims[out.rank++] = reduced ? 1 : x->dims[d];
  }
  return out;
}

/* The product (sum, ...) of a vector of known sizes: how graphs count elements. */
static tercel_status reduce_contents(tercel_infer *infer, int kind, tercel_error *err) {
  if (kind != TERCEL_REDUCE_SUM && kind != TERCEL_REDUCE_PROD && kind != TERCEL_REDUCE_MAX && kind != TERCEL_REDUCE_MIN)
    return TERCEL_OK;
  const tercel_dtype dtype = infer->in[0]->type.dtype;
  if (dtype != TERCEL_DTYPE_I64 && dtype != TERCEL_DTYPE_I32) return TERCEL_OK;
  int64_t count = 0;
  const tercel_dim *x = tercel_infer_flow(infer, 0, &count, err);
  if (x == NULL || count == 0) return TERCEL_OK;
  tercel_dim result = x[0], *out;
  for (int64_t i = 1; i < count; ++i)
    result = kind == TERCEL_REDUCE_SUM    ? tercel_dim_add(infer->dims, result, x[i])
             : kind == TERCEL_REDUCE_PROD ? tercel_dim_mul(infer->dims, result, x[i])
             : kind == TERCEL_REDUCE_MAX  ? tercel_dim_max(infer->dims, result, x[i])
                                          : tercel_dim_min(infer->dims, result, x[i]);
  TERCEL_TRY(tercel_infer_give(infer, 0, 1, &out, err));
  out[0] = result;
  return TERCEL_OK;
}

static tercel_status infer_reduce(tercel_infer *infer, tercel_error *err) {
  int kind;
  TERCEL_TRY(tercel_node_choice(infer->node, "kind", tercel_reduce_kinds, &kind, err));
  TERCEL_TRY(check_reduce_dtype(infer, kind, err));
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape *out = &infer->out[0].type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  if (x->rank < 0) return TERCEL_OK;
  const bool keepdims = tercel_node_int(infer->node, "keepdims") != 0;
  uint32_t mask;
  bool given, known;
  TERCEL_TRY(tercel_infer_axes(infer, 1, x->rank, &mask, &given, &known, err));
  if (!known) return keepdims ? tercel_infer_open(infer, x->rank, out, err) : TERCEL_OK;
  if (!given) mask = tercel_node_int(infer->node, "noop_with_empty_axes") != 0 ? 0 : (1u << x->rank) - 1;
  *out = reduced_shape(x, mask, keepdims);
  return x->rank == 1 && mask == 1 ? reduce_contents(infer, kind, err) : TERCEL_OK;
}

/* The place in the result of each input element: strides over the input's dims, 0 where reduced. */
static void result_strides(const tercel_tensor *x, uint32_t mask, int64_t *strides) {
  int64_t stride = 1;
  for (int d = x->rank - 1; d >= 0; --d) {
    const bool reduced = mask >> d & 1;
    strides[d] = reduced ? 0 : stride;
    if (!reduced) stride *= x->dims[d];
  }
}

static double first_float(int kind) {
  switch (kind) {
  case TERCEL_REDUCE_MAX: return -INFINITY;
  case TERCEL_REDUCE_MIN: return INFINITY;
  case TERCEL_REDUCE_PROD: return 1;
  default: return 0;
  }
}

/* Takes x into what was gathered so far; largest: of all elements of this result (log_sum_exp). */
static double add_float(int kind, double sofar, double x, double largest) {
  switch (kind) {
  case TERCEL_REDUCE_MAX: return x > sofar || isnan(x) ? x : sofar;
  case TERCEL_REDUCE_MIN: return x < sofar || isnan(x) ? x : sofar;
  case TERCEL_REDUCE_PROD: return sofar * x;
  case TERCEL_REDUCE_L1: return sofar + fabs(x);
  case TERCEL_REDUCE_L2:
  case TERCEL_REDUCE_SUM_SQUARE: return sofar + x * x;
  case TERCEL_REDUCE_LOG_SUM_EXP: return sofar + tercel_f64_exp(isfinite(largest) ? x - largest : x);
  default: return sofar + x;
  }
}

static double finish_float(int kind, double gathered, double count, double largest) {
  switch (kind) {
  case TERCEL_REDUCE_MEAN: return gathered / count;
  case TERCEL_REDUCE_L2: return sqrt(gathered);
  case TERCEL_REDUCE_LOG_SUM: return tercel_f64_log(gathered);
  case TERCEL_REDUCE_LOG_SUM_EXP: return tercel_f64_log(gathered) + (isfinite(largest) ? largest : 0);
  default: return gathered;
  }
}

static tercel_status reduce_floats(tercel_eval *eval, int kind, const int64_t *strides, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  const int64_t count = tercel_tensor_num_elements(x), results = tercel_tensor_num_elements(y);
  double *gathered = tercel_arena_alloc_array(eval->scratch, (size_t)results, sizeof *gathered);
  double *largest = tercel_arena_alloc_array(eval->scratch, (size_t)results, sizeof *largest);
  if (gathered == NULL || largest == NULL)
    return tercel_fail_memory(err, (size_t)results * sizeof *gathered, "a reduction");
  for (int64_t r = 0; r < results; ++r) {
    gathered[r] = first_float(kind);
    largest[r] = -INFINITY;
  }
  int64_t index[TERCEL_MAX_RANK] = {0};
  for (int64_t i = 0; kind == TERCEL_REDUCE_LOG_SUM_EXP && i < count; ++i) {
    double *m = &largest[tercel_index_dot(x->rank, index, strides)];
    *m = add_float(TERCEL_REDUCE_MAX, *m, tercel_tensor_get_f64(x, i), 0);
    tercel_index_next(x->rank, x->dims, index);
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t r = tercel_index_dot(x->rank, index, strides);
    gathered[r] = add_float(kind, gathered[r], tercel_tensor_get_f64(x, i), largest[r]);
    tercel_index_next(x->rank, x->dims, index);
  }
  const double each = results > 0 ? (double)count / (double)results : 0;
  for (int64_t r = 0; r < results; ++r) tercel_tensor_set_f64(y, r, finish_float(kind, gathered[r], each, largest[r]));
  return TERCEL_OK;
}

static bool is_less(tercel_dtype dtype, int64_t a, int64_t b) {
  return tercel_dtype_get_kind(dtype) == TERCEL_KIND_UINT ? (uint64_t)a < (uint64_t)b : a < b;
}

/* The least (most = false) and greatest number of an integer type or bool. */
static int64_t limit_of(tercel_dtype dtype, bool most) {
  const int bits = tercel_dtype_bits(dtype);
  if (dtype == TERCEL_DTYPE_BOOL) return most;
  if (tercel_dtype_get_kind(dtype) == TERCEL_KIND_UINT) return most ? (int64_t)(UINT64_MAX >> (64 - bits)) : 0;
  const int64_t greatest = INT64_MAX >> (64 - bits);
  return most ? greatest : -greatest - 1;
}

/* Arithmetic wraps, as numpy's does. */
static int64_t add_integer(int kind, tercel_dtype dtype, int64_t sofar, int64_t x) {
  const uint64_t a = (uint64_t)sofar, b = (uint64_t)x;
  switch (kind) {
  case TERCEL_REDUCE_MAX: return is_less(dtype, sofar, x) ? x : sofar;
  case TERCEL_REDUCE_MIN: return is_less(dtype, x, sofar) ? x : sofar;
  case TERCEL_REDUCE_PROD: return (int64_t)(a * b);
  case TERCEL_REDUCE_L1: return (int64_t)(a + (x < 0 && tercel_dtype_get_kind(dtype) == TERCEL_KIND_INT ? 0 - b : b));
  case TERCEL_REDUCE_SUM_SQUARE: return (int64_t)(a + b * b);
  default: return (int64_t)(a + b);
  }
}

static tercel_status reduce_integers(tercel_eval *eval, int kind, const int64_t *strides, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  const int64_t count = tercel_tensor_num_elements(x), results = tercel_tensor_num_elements(y);
  int64_t *gathered = tercel_arena_alloc_array(eval->scratch, (size_t)results, sizeof *gathered);
  if (gathered == NULL) return tercel_fail_memory(err, (size_t)results * sizeof *gathered, "a reduction");
  for (int64_t r = 0; r < results; ++r)
    gathered[r] = kind == TERCEL_REDUCE_MAX    ? limit_of(x->dtype, false)
                  : kind == TERCEL_REDUCE_MIN  ? limit_of(x->dtype, true)
                  : kind == TERCEL_REDUCE_PROD ? 1
                                               : 0;
  int64_t index[TERCEL_MAX_RANK] = {0};
  for (int64_t i = 0; i < count; ++i) {
    int64_t *r = &gathered[tercel_index_dot(x->rank, index, strides)];
    *r = add_integer(kind, x->dtype, *r, tercel_tensor_get_i64(x, i));
    tercel_index_next(x->rank, x->dims, index);
  }
  for (int64_t r = 0; r < results; ++r) tercel_tensor_set_i64(y, r, gathered[r]);
  return TERCEL_OK;
}

/* Those that leave the integers on the way (roots, logarithms, means) are done in floats and cut. */
static bool stays_integer(int kind) {
  return kind != TERCEL_REDUCE_MEAN && kind != TERCEL_REDUCE_L2 && kind != TERCEL_REDUCE_LOG_SUM &&
         kind != TERCEL_REDUCE_LOG_SUM_EXP;
}

static tercel_status eval_reduce(tercel_eval *eval, tercel_error *err) {
  int kind;
  uint32_t mask;
  TERCEL_TRY(tercel_node_choice(eval->node, "kind", tercel_reduce_kinds, &kind, err));
  TERCEL_TRY(tercel_reduce_axes(eval->node, eval->in, &mask, err));
  const tercel_tensor *x = eval->in[0];
  if (eval->out[0]->rank < 0) {
    tercel_shape shape = {.rank = x->rank};
    for (int d = 0; d < x->rank; ++d) shape.dims[d] = x->dims[d];
    shape = reduced_shape(&shape, mask, tercel_node_int(eval->node, "keepdims") != 0);
    TERCEL_TRY(tercel_eval_output(eval, 0, shape.rank, shape.dims, err));
  }
  int64_t strides[TERCEL_MAX_RANK];
  result_strides(x, mask, strides);
  return tercel_dtype_is_float(x->dtype) || !stays_integer(kind) ? reduce_floats(eval, kind, strides, err)
                                                                 : reduce_integers(eval, kind, strides, err);
}

static double input_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  return (double)tercel_tensor_num_elements(in[0]);
}

static const tercel_attr_spec reduce_attrs[] = {
    {"kind", TERCEL_ATTR_STRING, true, 0, NULL, "sum mean max min prod l1 l2 log_sum log_sum_exp sum_square"},
    {"axes", TERCEL_ATTR_INTS, false, 0, NULL, "axes to reduce; absent: the input says, or all"},
    {"keepdims", TERCEL_ATTR_INT, false, 1, NULL, "1: reduced dims stay as 1"},
    {"noop_with_empty_axes", TERCEL_ATTR_INT, false, 0, NULL, "1: without axes every element is a result of its own"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_reduce = {
    .name = "reduce",
    .id = TERCEL_OP_REDUCE,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "sum, mean, max, ... over axes",
    .attrs = reduce_attrs,
    .infer = infer_reduce,
    .eval = eval_reduce,
    .flops = input_flops,
};

/* ---- arg_reduce ---------------------------------------------------------------------------------------------------- */

static const char *const arg_kinds[] = {"max", "min", NULL};

static tercel_status infer_arg_reduce(tercel_infer *infer, tercel_error *err) {
  int kind, axis;
  TERCEL_TRY(tercel_node_choice(infer->node, "kind", arg_kinds, &kind, err));
  const tercel_type *x = &infer->in[0]->type;
  if (x->dtype != TERCEL_DTYPE_NONE && !is_number(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of %s has no order",
                            tercel_dtype_name(x->dtype));
  infer->out[0].type.dtype = TERCEL_DTYPE_I64;
  if (x->shape.rank < 0) return TERCEL_OK;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->shape.rank, &axis, err));
  infer->out[0].type.shape = reduced_shape(&x->shape, 1u << axis, tercel_node_int(infer->node, "keepdims") != 0);
  return TERCEL_OK;
}

/* Is element b better than a?  The first NaN is better than all numbers. */
static bool is_better(const tercel_tensor *x, int64_t b, int64_t a, bool max, bool or_equal) {
  if (tercel_dtype_is_float(x->dtype)) {
    const double va = tercel_tensor_get_f64(x, a), vb = tercel_tensor_get_f64(x, b);
    if (isnan(va)) return isnan(vb) && or_equal;
    if (isnan(vb)) return true;
    return max ? vb > va || (or_equal && vb == va) : vb < va || (or_equal && vb == va);
  }
  const int64_t va = tercel_tensor_get_i64(x, a), vb = tercel_tensor_get_i64(x, b);
  if (va == vb) return or_equal;
  return is_less(x->dtype, va, vb) == max;
}

static tercel_status eval_arg_reduce(tercel_eval *eval, tercel_error *err) {
  int kind, axis;
  const tercel_tensor *x = eval->in[0];
  TERCEL_TRY(tercel_node_choice(eval->node, "kind", arg_kinds, &kind, err));
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), n = x->dims[axis];
  const int64_t inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  const bool last = tercel_node_int(eval->node, "select_last") != 0;
  if (n == 0 && outer * inner > 0)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "axis %d is empty: nothing to choose from", axis);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t base = o * n * inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < n; ++k)
        if (is_better(x, base + k * inner, base + best * inner, kind == 0, last)) best = k;
      tercel_tensor_set_i64(eval->out[0], o * inner + i, best);
    }
  return TERCEL_OK;
}

static const tercel_attr_spec arg_attrs[] = {
    {"kind", TERCEL_ATTR_STRING, true, 0, NULL, "max or min"},
    {"axis", TERCEL_ATTR_INT, false, 0, NULL, "the axis to search along"},
    {"keepdims", TERCEL_ATTR_INT, false, 1, NULL, "1: the axis stays as 1"},
    {"select_last", TERCEL_ATTR_INT, false, 0, NULL, "1: of equal ones the last"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_arg_reduce = {
    .name = "arg_reduce",
    .id = TERCEL_OP_ARG_REDUCE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "where the largest or smallest element of an axis stands",
    .attrs = arg_attrs,
    .infer = infer_arg_reduce,
    .eval = eval_arg_reduce,
    .flops = input_flops,
};
