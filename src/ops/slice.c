/* slice and split: parts of a tensor. */
#include "ops/move.h"

/* ---- slice --------------------------------------------------------------------------------------------------------- */

/* ONNX Slice-13 for one axis of size n: negative positions count from the end, then both ends are clamped. */
static tercel_slice_axis resolve_axis(int64_t start, int64_t end, int64_t step, int64_t n) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  if (start < 0) start += n;
  if (end < 0) end += n;
  start = step > 0 ? tercel_min_i64(tercel_max_i64(start, 0), n) : tercel_min_i64(tercel_max_i64(start, 0), n - 1);
  end = tercel_min_i64(tercel_max_i64(end, low), high);
  int64_t count = 0;
  if (step > 0 && end > start) count = (end - start - 1) / step + 1;
  /* -(step + 1) + 1 as unsigned: the smallest int64 has no positive twin */
  if (step < 0 && start > end) count = (int64_t)((uint64_t)(start - end - 1) / ((uint64_t)(-(step + 1)) + 1)) + 1;
  return (tercel_slice_axis){.first = count > 0 ? start : 0, .step = count > 1 ? step : 1, .count = count};
}

static tercel_status check_step(const tercel_node *node, int64_t step, tercel_error *err) {
  return step != 0 ? TERCEL_OK : tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "a step is 0");
}

tercel_status tercel_slice_resolve(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                   tercel_slice_axis axes[TERCEL_MAX_RANK], tercel_error *err) {
  static const char *const names[] = {"x", "starts", "ends", "axes", "steps"};
  const tercel_tensor *x = in[0];
  int64_t lists[5][TERCEL_MAX_RANK];
  size_t count = 0;
  for (size_t i = 1; i < 5; ++i) {
    size_t n = 0;
    const tercel_tensor *list = tercel_input_tensor(in, num_inputs, i);
    if (list == NULL) {
      for (int k = 0; k < TERCEL_MAX_RANK; ++k) lists[i][k] = i == 4 ? 1 : k;
      continue;
    }
    TERCEL_TRY(tercel_eval_ints(list, names[i], lists[i], TERCEL_MAX_RANK, &n, err));
    if (i == 1) count = n;
    if (n != count || n > (size_t)x->rank)
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%zu %s beside %zu starts for rank %d", n, names[i],
                              count, x->rank);
  }
  for (int d = 0; d < x->rank; ++d) axes[d] = (tercel_slice_axis){.first = 0, .step = 1, .count = x->dims[d]};
  for (size_t k = 0; k < count; ++k) {
    int axis;
    TERCEL_TRY(tercel_axis(node, lists[3][k], x->rank, &axis, err));
    TERCEL_TRY(check_step(node, lists[4][k], err));
    axes[axis] = resolve_axis(lists[1][k], lists[2][k], lists[4][k], x->dims[axis]);
  }
  return TERCEL_OK;
}

/* No smaller than 0 for every value of its symbols, as far as the dims' algebra can tell. */
static bool is_size(tercel_dims *dims, tercel_dim d) {
  return tercel_dim_is_known(d) || (!tercel_dim_is_unknown(dims, d) && tercel_dim_max(dims, d, 0) == d);
}

/* start or end, made a position in [0, n]; false when its sign isn't known. */
static bool clamp_position(tercel_dims *dims, tercel_dim at, tercel_dim n, tercel_dim *out) {
  int64_t number;
  if (at == n) {
    *out = n;
  } else if (tercel_dim_get_number(dims, at, &number)) {
    if (number == 0)
      *out = 0;
    else if (number < 0)
      *out = number <= INT32_MIN ? 0 : tercel_dim_max(dims, tercel_dim_add(dims, n, at), 0);
    else
      *out = number >= INT32_MAX ? n : tercel_dim_min(dims, at, n);
  } else if (is_size(dims, at)) {
    *out = tercel_dim_min(dims, at, n);
  } else if (tercel_dim_add(dims, at, n) == 0) { /* -n: as far from the end as the axis is long */
    *out = 0;
  } else {
    return false;
  }
  return true;
}

/* The size of a sliced axis: an expression where something is symbolic, unknown where that says nothing. */
static tercel_dim sliced_dim(tercel_dims *dims, tercel_dim n, tercel_dim start, tercel_dim end, int64_t step) {
  int64_t s, e;
  const bool numbers = tercel_dim_get_number(dims, start, &s) && tercel_dim_get_number(dims, end, &e);
  if (numbers && tercel_dim_is_known(n)) return resolve_axis(s, e, step, n).count;
  if (step < 0) { /* a whole axis reversed */
    const bool whole = numbers && (s == -1 || s >= INT32_MAX) && e <= INT32_MIN;
    if (!whole) return tercel_dim_unknown(dims);
    return step == -1 ? n
                      : tercel_dim_ceil_div(dims, n, tercel_dim_constant(dims, step == INT64_MIN ? INT64_MAX : -step));
  }
  tercel_dim from, to;
  if (!clamp_position(dims, start, n, &from) || !clamp_position(dims, end, n, &to)) return tercel_dim_unknown(dims);
  tercel_dim length = from == 0 ? to : tercel_dim_max(dims, tercel_dim_sub(dims, to, from), 0);
  int64_t number;
  if (to == n && tercel_dim_get_number(dims, start, &number) && number < 0 && number > INT32_MIN)
    length = tercel_dim_min(dims, n, tercel_dim_constant(dims, -number)); /* the last -number of them */
  return step == 1 ? length : tercel_dim_ceil_div(dims, length, step);
}

static tercel_status slice_contents(tercel_infer *infer, int64_t start, int64_t end, int64_t step, tercel_error *err) {
  int64_t count = 0;
  const tercel_dim *in = tercel_infer_flow(infer, 0, &count, err);
  if (in == NULL) return TERCEL_OK;
  const tercel_slice_axis axis = resolve_axis(start, end, step, count);
  tercel_dim *out;
  TERCEL_TRY(tercel_infer_give(infer, 0, axis.count, &out, err));
  for (int64_t i = 0; out != NULL && i < axis.count; ++i) out[i] = in[axis.first + i * axis.step];
  return TERCEL_OK;
}

/* No axis can be longer in a tensor that any machine has addresses for (2^48 bytes): an end behind that is just the end, as exporters write
 * with numbers like 1000000000. */
static int64_t longest_axis(const tercel_type *x, int axis) {
  const double most = 281474976710656.0, element = (double)tercel_dtype_bits(x->dtype) / 8;
  double bytes = element;
  for (int d = 0; d < x->shape.rank; ++d)
    if (d != axis && tercel_dim_is_known(x->shape.dims[d])) bytes *= (double)x->shape.dims[d];
  return bytes >= 1 ? (int64_t)(most / bytes) : INT64_MAX;
}

static tercel_status infer_slice(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  if (x->rank < 0) return TERCEL_OK;
  const tercel_dim *lists[5] = {NULL};
  int64_t counts[5] = {0};
  bool known = true;
  for (size_t i = 1; i < 5; ++i) {
    if (!tercel_has_input(infer, i)) continue;
    TERCEL_TRY(tercel_infer_check_indices(infer, i, err));
    lists[i] = tercel_infer_contents(infer, i, &counts[i], err);
    known = known && lists[i] != NULL;
    if (lists[i] != NULL && (counts[i] > x->rank || (lists[1] != NULL && counts[i] != counts[1])))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                              "input %zu has %lld entries beside %lld starts for rank %d", i, (long long)counts[i],
                              (long long)counts[1], x->rank);
  }
  tercel_shape *out = &infer->out[0].type.shape;
  const bool axes_known = lists[3] != NULL || (known && !tercel_has_input(infer, 3));
  if (!axes_known) return tercel_infer_open(infer, x->rank, out, err);
  tercel_shape shape = *x;
  const int64_t count = lists[3] != NULL ? counts[3] : counts[1];
  for (int64_t k = 0; k < count; ++k) {
    int64_t number = k, step = 1;
    int axis;
    if (lists[3] != NULL && !tercel_dim_get_number(infer->dims, lists[3][k], &number))
      return tercel_infer_open(infer, x->rank, out, err);
    TERCEL_TRY(tercel_axis(infer->node, number, x->rank, &axis, err));
    if (!known || (lists[4] != NULL && !tercel_dim_get_number(infer->dims, lists[4][k], &step))) {
      shape.dims[axis] = tercel_dim_unknown(infer->dims);
      continue;
    }
    TERCEL_TRY(check_step(infer->node, step, err));
    int64_t start, end;
    if (x->rank == 1 && tercel_dim_get_number(infer->dims, lists[1][k], &start) &&
        tercel_dim_get_number(infer->dims, lists[2][k], &end))
      TERCEL_TRY(slice_contents(infer, start, end, step, err));
    tercel_dim until = lists[2][k];
    if (step > 0 && tercel_dim_get_number(infer->dims, until, &end) && end >= longest_axis(&infer->in[0]->type, axis))
      until = tercel_dim_constant(infer->dims, INT64_MAX);
    shape.dims[axis] = sliced_dim(infer->dims, x->dims[axis], lists[1][k], until, step);
  }
  *out = shape;
  return TERCEL_OK;
}

static tercel_status eval_slice(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  tercel_slice_axis axes[TERCEL_MAX_RANK];
  TERCEL_TRY(tercel_slice_resolve(eval->node, eval->in, eval->num_inputs, axes, err));
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0}, first = 0;
  tercel_tensor_strides(x, strides);
  for (int d = 0; d < x->rank; ++d) {
    first += axes[d].first * strides[d];
    strides[d] *= axes[d].step;
  }
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    tercel_element_copy(y->data, i, x->data, first + tercel_index_dot(y->rank, index, strides), x->dtype);
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_slice = {
    .name = "slice",
    .id = TERCEL_OP_SLICE,
    .min_inputs = 3,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "elements start, start + step, ... before end along each axis",
    .attrs = no_attrs,
    .infer = infer_slice,
    .eval = eval_slice,
    .flops = tercel_no_flops,
};

/* ---- split --------------------------------------------------------------------------------------------------------- */

/* Part i of n: equal parts of ceil(size / parts), the last ones smaller or empty.  dims is not needed for a size that is a number. */
static tercel_dim equal_part(tercel_dims *dims, tercel_dim size, int64_t parts, int64_t i) {
  if (tercel_dim_is_known(size)) {
    const int64_t whole = tercel_ceil_div(size, parts);
    return tercel_max_i64(0, tercel_min_i64(whole, size - i * whole));
  }
  const tercel_dim chunk = tercel_dim_ceil_div(dims, size, parts);
  return tercel_dim_mul(dims, chunk, parts) == size ? chunk : tercel_dim_unknown(dims);
}

static tercel_status check_sizes(const tercel_infer *infer, tercel_dim size, int64_t count, const tercel_dim *sizes,
                                 tercel_error *err) {
  if (count != (int64_t)infer->num_outputs)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld sizes for %zu outputs", (long long)count,
                            infer->num_outputs);
  int64_t sum = 0;
  bool known = tercel_dim_is_known(size);
  for (int64_t i = 0; i < count; ++i) {
    int64_t number;
    if (!tercel_dim_get_number(infer->dims, sizes[i], &number)) {
      known = false;
      continue;
    }
    if (number < 0 || !tercel_add_i64(sum, number, &sum))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "size %lld of part %lld", (long long)number,
                              (long long)i);
  }
  if (known && sum != size)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the parts add up to %lld, but the axis has %lld",
                            (long long)sum, (long long)size);
  return TERCEL_OK;
}

static tercel_status infer_split(tercel_infer *infer, tercel_error *err) {
  const tercel_fact *x = infer->in[0];
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.dtype = x->type.dtype;
  if (x->type.shape.rank < 0) return TERCEL_OK;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->type.shape.rank, &axis, err));
  const tercel_dim size = x->type.shape.dims[axis];
  const tercel_dim *sizes = NULL;
  const bool listed = tercel_has_input(infer, 1);
  if (listed) {
    int64_t count = 0;
    TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
    sizes = tercel_infer_contents(infer, 1, &count, err);
    if (sizes != NULL) TERCEL_TRY(check_sizes(infer, size, count, sizes, err));
  }
  int64_t num_contents = 0, at = 0;
  const tercel_dim *contents = x->type.shape.rank == 1 ? tercel_infer_flow(infer, 0, &num_contents, err) : NULL;
  for (size_t i = 0; i < infer->num_outputs; ++i) {
    tercel_shape *out = &infer->out[i].type.shape;
    *out = x->type.shape;
    tercel_dim part;
    if (sizes != NULL)
      part = sizes[i];
    else if (listed)
      part = tercel_dim_unknown(infer->dims);
    else
      part = equal_part(infer->dims, size, (int64_t)infer->num_outputs, (int64_t)i);
    out->dims[axis] = part;
    if (!tercel_dim_is_known(part)) contents = NULL;
    if (contents == NULL) continue;
    tercel_dim *given;
    TERCEL_TRY(tercel_infer_give(infer, i, part, &given, err));
    for (int64_t k = 0; given != NULL && k < part; ++k) given[k] = contents[at + k];
    at += part;
  }
  return TERCEL_OK;
}

int64_t tercel_split_part(const tercel_node *node, int64_t size, const tercel_tensor *sizes, size_t i) {
  if (sizes != NULL) return tercel_tensor_get_i64(sizes, (int64_t)i);
  return equal_part(NULL, size, (int64_t)node->num_outputs, (int64_t)i);
}

static tercel_status eval_split(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), inner = tercel_dims_product(x->dims, axis + 1, x->rank);
  const int64_t row = x->dims[axis] * inner;
  int64_t at = 0;
  for (size_t i = 0; i < eval->num_outputs; ++i) {
    tercel_tensor *y = eval->out[i];
    const int64_t part =
        tercel_split_part(eval->node, x->dims[axis], tercel_input_tensor(eval->in, eval->num_inputs, 1), i) * inner;
    for (int64_t o = 0; y != NULL && o < outer; ++o)
      for (int64_t k = 0; k < part; ++k)
        tercel_element_copy(y->data, o * part + k, x->data, o * row + at + k, x->dtype);
    at += part;
  }
  return TERCEL_OK;
}

static const tercel_attr_spec split_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, 0, NULL, "the axis that is cut"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_split = {
    .name = "split",
    .id = TERCEL_OP_SPLIT,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = -1,
    .about = "parts along an axis, of the sizes that input 1 gives, or equal ones",
    .attrs = split_attrs,
    .infer = infer_split,
    .eval = eval_split,
    .flops = tercel_no_flops,
};
