/* scatter_elements, scatter_nd: a copy of x with elements replaced, or combined with updates, in the order of the updates. */
#include "ops/move.h"

#include <math.h>

typedef enum reduction { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN } reduction;
static const char *const reductions[] = {"none", "add", "mul", "max", "min", NULL};

static double combine_f64(reduction how, double a, double b) {
  switch (how) {
  case REDUCE_ADD: return a + b;
  case REDUCE_MUL: return a * b;
  case REDUCE_MAX: return isnan(a) || a > b ? a : b;
  case REDUCE_MIN: return isnan(a) || a < b ? a : b;
  default: return b;
  }
}

/* Unsigned arithmetic wraps; is_unsigned: how the bits compare. */
static int64_t combine_i64(reduction how, int64_t a, int64_t b, bool is_unsigned) {
  const bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
  switch (how) {
  case REDUCE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
  case REDUCE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
  case REDUCE_MAX: return less ? b : a;
  case REDUCE_MIN: return less ? a : b;
  default: return b;
  }
}

/* y[at] = y[at] (how) updates[from] */
static void update(reduction how, tercel_tensor *y, int64_t at, const tercel_tensor *updates, int64_t from) {
  if (how == REDUCE_NONE) {
    tercel_element_copy(y->data, at, updates->data, from, y->dtype);
  } else if (tercel_dtype_is_float(y->dtype)) {
    const double a = tercel_tensor_get_f64(y, at), b = tercel_tensor_get_f64(updates, from);
    tercel_tensor_set_f64(y, at, combine_f64(how, a, b));
  } else {
    const bool is_unsigned = tercel_dtype_get_kind(y->dtype) == TERCEL_KIND_UINT;
    const int64_t a = tercel_tensor_get_i64(y, at), b = tercel_tensor_get_i64(updates, from);
    tercel_tensor_set_i64(y, at, combine_i64(how, a, b, is_unsigned));
  }
}

static tercel_status check_types(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  infer->out[0].type.shape = infer->in[0]->type.shape;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  TERCEL_TRY(tercel_infer_check_dtype(infer, 2, err));
  int how;
  TERCEL_TRY(tercel_node_choice(infer->node, "reduction", reductions, &how, err));
  const tercel_dtype_kind kind = tercel_dtype_get_kind(infer->in[0]->type.dtype);
  if (how != REDUCE_NONE && (kind == TERCEL_KIND_STRING || kind == TERCEL_KIND_COMPLEX))
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "reduction \"%s\" over %s", reductions[how],
                            tercel_dtype_name(infer->in[0]->type.dtype));
  return TERCEL_OK;
}

static tercel_status start(tercel_eval *eval, reduction *how, tercel_error *err) {
  int choice;
  TERCEL_TRY(tercel_node_choice(eval->node, "reduction", reductions, &choice, err));
  *how = (reduction)choice;
  return tercel_eval_view(eval, err);
}

/* ---- scatter_elements ---------------------------------------------------------------------------------------------- */

static tercel_status infer_scatter_elements(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_types(infer, err));
  const tercel_shape *x = &infer->in[0]->type.shape, *indices = &infer->in[1]->type.shape;
  const tercel_shape *updates = &infer->in[2]->type.shape;
  if (x->rank < 0) return TERCEL_OK;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->rank, &axis, err));
  if (indices->rank < 0) return TERCEL_OK;
  TERCEL_TRY(tercel_infer_check_within(infer, 1, axis, err));
  bool same = updates->rank < 0 || updates->rank == indices->rank;
  for (int d = 0; same && d < updates->rank; ++d)
    same = !tercel_dim_is_known(updates->dims[d]) || !tercel_dim_is_known(indices->dims[d]) ||
           updates->dims[d] == indices->dims[d];
  return same ? TERCEL_OK
              : tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "updates and indices have different shapes");
}

static tercel_status eval_scatter_elements(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *indices = eval->in[1], *updates = eval->in[2];
  tercel_tensor *y = eval->out[0];
  reduction how;
  int axis;
  TERCEL_TRY(start(eval, &how, err));
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), y->rank, &axis, err));
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(y, strides);
  const int64_t n = tercel_tensor_num_elements(indices);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at;
    TERCEL_TRY(tercel_pick_index(eval->node, tercel_tensor_get_i64(indices, i), y->dims[axis], axis, &at, err));
    update(how, y, tercel_index_dot(y->rank, index, strides) + (at - index[axis]) * strides[axis], updates, i);
    tercel_index_next(indices->rank, indices->dims, index);
  }
  return TERCEL_OK;
}

static tercel_status verify_scatter(const tercel_node *node, tercel_error *err) {
  int how;
  return tercel_node_choice(node, "reduction", reductions, &how, err);
}

/* clang-format off */
#define REDUCTION {"reduction", TERCEL_ATTR_STRING, false, 0, "none", "none (the last update wins), add, mul, max, min"}
/* clang-format on */

static const tercel_attr_spec scatter_elements_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, 0, NULL, "the axis that the indices count along"},
    REDUCTION,
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_scatter_elements = {
    .name = "scatter_elements",
    .id = TERCEL_OP_SCATTER_ELEMENTS,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "x, with y[indices[i][j]][j] = updates[i][j] for axis 0, and so on",
    .attrs = scatter_elements_attrs,
    .infer = infer_scatter_elements,
    .verify = verify_scatter,
    .eval = eval_scatter_elements,
    .flops = tercel_no_flops,
};

/* ---- scatter_nd ---------------------------------------------------------------------------------------------------- */

static tercel_status infer_scatter_nd(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_types(infer, err));
  const tercel_shape *x = &infer->in[0]->type.shape, *indices = &infer->in[1]->type.shape;
  const tercel_shape *updates = &infer->in[2]->type.shape;
  if (x->rank < 0 || indices->rank < 0) return TERCEL_OK;
  if (indices->rank == 0) return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "indices of rank 0");
  const tercel_dim depth = indices->dims[indices->rank - 1];
  if (!tercel_dim_is_known(depth)) return TERCEL_OK;
  if (depth > x->rank)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "index tuples of %lld for data of rank %d",
                            (long long)depth, x->rank);
  const int tuple_dims = indices->rank - 1, rank = tuple_dims + x->rank - (int)depth;
  bool same = updates->rank < 0 || updates->rank == rank;
  for (int d = 0; same && d < updates->rank; ++d) {
    const tercel_dim want = d < tuple_dims ? indices->dims[d] : x->dims[(int)depth + d - tuple_dims];
    same = !tercel_dim_is_known(want) || !tercel_dim_is_known(updates->dims[d]) || want == updates->dims[d];
  }
  return same ? TERCEL_OK
              : tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                                 "the updates' shape is not that of the index tuples and the data they point to");
}

static tercel_status eval_scatter_nd(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *indices = eval->in[1], *updates = eval->in[2];
  tercel_tensor *y = eval->out[0];
  reduction how;
  TERCEL_TRY(start(eval, &how, err));
  const int last = indices->rank - 1, depth = (int)indices->dims[last];
  const int64_t tuples = tercel_dims_product(indices->dims, 0, last),
                inner = tercel_dims_product(y->dims, depth, y->rank);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to;
    TERCEL_TRY(tercel_pick_tuple(eval->node, indices, t, y->dims, 0, &to, err));
    for (int64_t i = 0; i < inner; ++i) update(how, y, to * inner + i, updates, t * inner + i);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec scatter_nd_attrs[] = {
    REDUCTION,
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_scatter_nd = {
    .name = "scatter_nd",
    .id = TERCEL_OP_SCATTER_ND,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "x, with the slices at the index tuples replaced by updates",
    .attrs = scatter_nd_attrs,
    .infer = infer_scatter_nd,
    .verify = verify_scatter,
    .eval = eval_scatter_nd,
    .flops = tercel_no_flops,
};
