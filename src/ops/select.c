/* topk, nonzero, one_hot, trilu: elements chosen by their value or place. */
#include "ops/move.h"

#include <math.h>

/* ---- topk ---------------------------------------------------------------------------------------------------------- */

static tercel_status check_k(const tercel_node *node, int64_t k, tercel_dim size, tercel_error *err) {
  if (k >= 0 && (!tercel_dim_is_known(size) || k <= size)) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "k is %lld, but the axis has size %lld", (long long)k,
                          (long long)size);
}

static tercel_status infer_topk(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(x->dtype);
  if (kind == TERCEL_KIND_COMPLEX || kind == TERCEL_KIND_STRING)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of %s has no order",
                            tercel_dtype_name(x->dtype));
  infer->out[0].type.dtype = x->dtype;
  if (infer->num_outputs > 1) infer->out[1].type.dtype = TERCEL_DTYPE_I64;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (x->shape.rank < 0) return TERCEL_OK;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->shape.rank, &axis, err));
  int64_t count = 0, number;
  const tercel_dim *k = tercel_infer_contents(infer, 1, &count, err);
  if (k != NULL && count != 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "k has %lld elements, want one", (long long)count);
  if (k != NULL && tercel_dim_get_number(infer->dims, k[0], &number))
    TERCEL_TRY(check_k(infer->node, number, x->shape.dims[axis], err));
  tercel_shape out = x->shape;
  out.dims[axis] = k != NULL ? k[0] : tercel_dim_unknown(infer->dims);
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.shape = out;
  return TERCEL_OK;
}

/* Is element a of the row before element b?  NaN counts as larger than everything; equal ones keep their order. */
static bool is_before(const tercel_tensor *x, int64_t a, int64_t b, bool largest) {
  if (tercel_dtype_is_float(x->dtype)) {
    const double va = tercel_tensor_get_f64(x, a), vb = tercel_tensor_get_f64(x, b);
    if (isnan(va) || isnan(vb)) return isnan(va) && isnan(vb) ? a < b : isnan(va) == largest;
    if (va != vb) return (va > vb) == largest;
    return a < b;
  }
  const int64_t va = tercel_tensor_get_i64(x, a), vb = tercel_tensor_get_i64(x, b);
  if (va == vb) return a < b;
  const bool more = tercel_dtype_get_kind(x->dtype) == TERCEL_KIND_UINT ? (uint64_t)va > (uint64_t)vb : va > vb;
  return more == largest;
}

/* Keeps the best `size` positions in best[], in order, by insertion. */
static void insert(const tercel_tensor *x, int64_t *best, int64_t *count, int64_t size, int64_t at, bool largest) {
  if (*count == size && (size == 0 || !is_before(x, at, best[size - 1], largest))) return;
  int64_t i = *count < size ? (*count)++ : size - 1;
  for (; i > 0 && is_before(x, at, best[i - 1], largest); --i) best[i] = best[i - 1];
  best[i] = at;
}

static tercel_status eval_topk(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *values = eval->out[0], *indices = eval->num_outputs > 1 ? eval->out[1] : NULL;
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  const int64_t n = x->dims[axis], k = values != NULL ? values->dims[axis] : indices->dims[axis];
  const bool largest = tercel_node_int(eval->node, "largest") != 0;
  int64_t *best = tercel_arena_alloc_array(eval->scratch, (size_t)k, sizeof *best);
  if (best == NULL) return tercel_fail_memory(err, (size_t)k * sizeof *best, "topk");
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      int64_t count = 0;
      for (int64_t j = 0; j < n; ++j) insert(x, best, &count, k, (o * n + j) * inner + i, largest);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t to = (o * k + j) * inner + i;
        if (values != NULL) tercel_element_copy(values->data, to, x->data, best[j], x->dtype);
        if (indices != NULL) tercel_tensor_set_i64(indices, to, best[j] / inner - o * n);
      }
    }
  }
  return TERCEL_OK;
}

static const tercel_attr_spec topk_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, -1, NULL, "the axis to search along"},
    {"largest", TERCEL_ATTR_INT, false, 1, NULL, "1: the largest, 0: the smallest"},
    {"sorted", TERCEL_ATTR_INT, false, 1, NULL, "0: any order will do"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_topk = {
    .name = "topk",
    .id = TERCEL_OP_TOPK,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 2,
    .about = "the k largest or smallest along an axis; of equal ones the first",
    .attrs = topk_attrs,
    .infer = infer_topk,
    .eval = eval_topk,
};

/* ---- nonzero ------------------------------------------------------------------------------------------------------- */

static tercel_status infer_nonzero(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_type *out = &infer->out[0].type;
  out->dtype = TERCEL_DTYPE_I64;
  TERCEL_TRY(tercel_infer_open(infer, 2, &out->shape, err));
  if (x->rank >= 0) out->shape.dims[0] = x->rank;
  return TERCEL_OK;
}

static bool is_nonzero(const tercel_tensor *x, int64_t i) {
  switch (tercel_dtype_get_kind(x->dtype)) {
  case TERCEL_KIND_STRING: return ((const tercel_string *)x->data)[i].length > 0;
  case TERCEL_KIND_COMPLEX: {
    const tercel_dtype part = x->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
    return tercel_element_get_f64(x->data, part, 2 * i) != 0 || tercel_element_get_f64(x->data, part, 2 * i + 1) != 0;
  }
  case TERCEL_KIND_FLOAT: return tercel_tensor_get_f64(x, i) != 0; /* NaN too */
  default: return tercel_tensor_get_i64(x, i) != 0;
  }
}

static tercel_status eval_nonzero(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const int64_t n = tercel_tensor_num_elements(x);
  int64_t found = 0, index[TERCEL_MAX_RANK] = {0}, column = 0;
  for (int64_t i = 0; i < n; ++i) found += is_nonzero(x, i);
  TERCEL_TRY(tercel_eval_output(eval, 0, 2, (const int64_t[]){x->rank, found}, err));
  for (int64_t i = 0; i < n; ++i) {
    if (is_nonzero(x, i)) {
      for (int d = 0; d < x->rank; ++d) tercel_tensor_set_i64(eval->out[0], d * found + column, index[d]);
      ++column;
    }
    tercel_index_next(x->rank, x->dims, index);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_nonzero = {
    .name = "nonzero",
    .id = TERCEL_OP_NONZERO,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "indices of the elements that are not 0, a column each, in row-major order",
    .attrs = no_attrs,
    .infer = infer_nonzero,
    .eval = eval_nonzero,
};

/* ---- one_hot ------------------------------------------------------------------------------------------------------- */

static tercel_status infer_one_hot(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[2]->type.dtype;
  if (x->rank < 0) return TERCEL_OK;
  tercel_shape out;
  TERCEL_TRY(tercel_infer_open(infer, x->rank + 1, &out, err));
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), out.rank, &axis, err));
  tercel_dim depth = tercel_dim_unknown(infer->dims);
  if (tercel_dtype_is_integer(infer->in[1]->type.dtype)) {
    int64_t count = 0;
    const tercel_dim *contents = tercel_infer_contents(infer, 1, &count, err);
    if (contents != NULL && count == 1) depth = contents[0];
  } else {
    const tercel_tensor *t = tercel_infer_tensor(infer, 1);
    if (t != NULL && tercel_tensor_num_elements(t) == 1)
      depth = tercel_dim_constant(infer->dims, tercel_tensor_get_i64(t, 0));
  }
  int64_t number;
  if (tercel_dim_get_number(infer->dims, depth, &number) && number < 0)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_ARGUMENT, "depth is %lld", (long long)number);
  for (int d = 0, k = 0; d < out.rank; ++d) out.dims[d] = d == axis ? depth : x->dims[k++];
  infer->out[0].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status eval_one_hot(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *values = eval->in[2];
  tercel_tensor *y = eval->out[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), y->rank, &axis, err));
  if (tercel_tensor_num_elements(values) != 2)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "%lld values, want off and on",
                            (long long)tercel_tensor_num_elements(values));
  const int64_t depth = y->dims[axis], inner = tercel_dims_product(y->dims, axis + 1, y->rank);
  const int64_t n = tercel_tensor_num_elements(x), elements = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < elements; ++i) tercel_element_copy(y->data, i, values->data, 0, y->dtype);
  for (int64_t i = 0; i < n; ++i) { /* an index outside [-depth, depth) marks nothing */
    int64_t at = tercel_tensor_get_i64(x, i);
    if (at < -depth || at >= depth) continue;
    if (at < 0) at += depth;
    tercel_element_copy(y->data, (i / inner * depth + at) * inner + i % inner, values->data, 1, y->dtype);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec one_hot_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, -1, NULL, "where the new dim stands in the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_one_hot = {
    .name = "one_hot",
    .id = TERCEL_OP_ONE_HOT,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "a new dim of `depth` that holds `on` at the index, `off` elsewhere",
    .attrs = one_hot_attrs,
    .infer = infer_one_hot,
    .eval = eval_one_hot,
    .flops = tercel_no_flops,
};

/* ---- trilu --------------------------------------------------------------------------------------------------------- */

static tercel_status infer_trilu(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  infer->out[0].type.dtype = x->dtype;
  infer->out[0].type.shape = x->shape;
  if (x->shape.rank >= 0 && x->shape.rank < 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of rank %d, want 2 or more", x->shape.rank);
  return TERCEL_OK;
}

static tercel_status eval_trilu(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *offset = tercel_input_tensor(eval->in, eval->num_inputs, 1);
  tercel_tensor *y = eval->out[0];
  int64_t k = 0;
  if (offset != NULL) TERCEL_TRY(tercel_eval_scalar(eval->node, offset, "k", &k, err));
  static const uint64_t zero[2]; /* one cleared element of any type */
  const bool upper = tercel_node_int(eval->node, "upper") != 0;
  const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1], n = tercel_tensor_num_elements(x);
  k = tercel_max_i64(-rows - 1,
                     tercel_min_i64(k, columns + 1)); /* beyond that nothing changes, and nothing overflows */
  for (int64_t i = 0; i < n; ++i) {
    const int64_t column = i % columns, row = i / columns % rows;
    const bool kept = upper ? column - row >= k : column - row <= k;
    tercel_element_copy(y->data, i, kept ? x->data : zero, kept ? i : 0, x->dtype);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec trilu_attrs[] = {
    {"upper", TERCEL_ATTR_INT, false, 1, NULL, "1: keep on and above the diagonal, 0: on and below"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_trilu = {
    .name = "trilu",
    .id = TERCEL_OP_TRILU,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "zeros below (above) diagonal k of the last two dims",
    .attrs = trilu_attrs,
    .infer = infer_trilu,
    .eval = eval_trilu,
    .flops = tercel_no_flops,
};
