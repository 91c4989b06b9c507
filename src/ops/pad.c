/* pad: new elements around a tensor, or (negative pads) fewer. */
#include "ops/move.h"

static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};

static tercel_status resolve_axis(const tercel_node *node, tercel_pad_mode mode, int axis, int64_t begin, int64_t end,
                                  int64_t size, tercel_pad_axis *out, tercel_error *err) {
  /* INT64_MIN can't be negated; nothing is that large anyway. */
  const int64_t cut_begin = begin < 0 ? -tercel_max_i64(begin, -INT64_MAX) : 0;
  const int64_t cut_end = end < 0 ? -tercel_max_i64(end, -INT64_MAX) : 0;
  if (cut_begin > size || cut_end > size - cut_begin)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "pads %lld and %lld cut more than axis %d has (%lld)",
                            (long long)begin, (long long)end, axis, (long long)size);
  *out = (tercel_pad_axis){.begin = tercel_max_i64(begin, 0),
                           .end = tercel_max_i64(end, 0),
                           .first = cut_begin,
                           .kept = size - cut_begin - cut_end};
  if (mode != TERCEL_PAD_CONSTANT && out->kept == 0 && (out->begin > 0 || out->end > 0))
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "axis %d is empty: mode \"%s\" has nothing to pad with",
                            axis, modes[mode]);
  return TERCEL_OK;
}

/* The mode of a node whose verify passed. */
static tercel_status get_mode(const tercel_node *node, tercel_pad_mode *out, tercel_error *err) {
  int choice;
  TERCEL_TRY(tercel_node_choice(node, "mode", modes, &choice, err));
  *out = (tercel_pad_mode)choice;
  return TERCEL_OK;
}

static tercel_status check_count(const tercel_node *node, int64_t pads, int64_t axes, tercel_error *err) {
  if (pads == 2 * axes) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%lld pads for %lld axes, want two each", (long long)pads,
                          (long long)axes);
}

tercel_status tercel_pad_resolve(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                 tercel_pad_plan *out, tercel_error *err) {
  const tercel_tensor *x = in[0], *axes = tercel_input_tensor(in, num_inputs, 3);
  int64_t pads[2 * TERCEL_MAX_RANK], list[TERCEL_MAX_RANK];
  size_t num_pads = 0, num_axes = (size_t)x->rank;
  TERCEL_TRY(get_mode(node, &out->mode, err));
  TERCEL_TRY(tercel_eval_ints(in[1], "pads", pads, 2 * TERCEL_MAX_RANK, &num_pads, err));
  for (int d = 0; d < x->rank; ++d) {
    list[d] = d;
    out->axes[d] = (tercel_pad_axis){.kept = x->dims[d]};
  }
  if (axes != NULL) TERCEL_TRY(tercel_eval_ints(axes, "axes", list, TERCEL_MAX_RANK, &num_axes, err));
  TERCEL_TRY(check_count(node, (int64_t)num_pads, (int64_t)num_axes, err));
  for (size_t k = 0; k < num_axes; ++k) {
    int axis;
    TERCEL_TRY(tercel_axis(node, list[k], x->rank, &axis, err));
    TERCEL_TRY(resolve_axis(node, out->mode, axis, pads[k], pads[num_axes + k], x->dims[axis], &out->axes[axis], err));
  }
  return TERCEL_OK;
}

int64_t tercel_pad_source(tercel_pad_mode mode, const tercel_pad_axis *axis, int64_t at) {
  const int64_t n = axis->kept;
  int64_t i = at - axis->begin;
  if (i < 0 || i >= n) {
    if (mode == TERCEL_PAD_CONSTANT) return -1;
    if (mode == TERCEL_PAD_EDGE || n == 1) {
      i = i < 0 ? 0 : n - 1;
    } else { /* both repeat: wrap with the axis's length, reflect there and back without doubling the ends */
      const int64_t period = mode == TERCEL_PAD_WRAP ? n : 2 * (n - 1);
      i = (i % period + period) % period;
      if (i >= n) i = period - i;
    }
  }
  return axis->first + i;
}

static tercel_status infer_pad(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  tercel_pad_mode mode;
  TERCEL_TRY(get_mode(infer->node, &mode, err));
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (tercel_has_input(infer, 2)) TERCEL_TRY(tercel_infer_check_dtype(infer, 2, err));
  if (x->rank < 0) return TERCEL_OK;
  tercel_shape *out = &infer->out[0].type.shape;
  int64_t num_pads = 0, num_axes = x->rank;
  const tercel_dim *pads = tercel_infer_contents(infer, 1, &num_pads, err), *axes = NULL;
  const bool listed = tercel_has_input(infer, 3);
  if (listed) {
    TERCEL_TRY(tercel_infer_check_indices(infer, 3, err));
    axes = tercel_infer_contents(infer, 3, &num_axes, err);
  }
  if (pads == NULL || (listed && axes == NULL)) return tercel_infer_open(infer, x->rank, out, err);
  TERCEL_TRY(check_count(infer->node, num_pads, num_axes, err));
  tercel_shape shape = *x;
  for (int64_t k = 0; k < num_axes; ++k) {
    int64_t number = k, begin, end;
    int axis;
    if (axes != NULL && !tercel_dim_get_number(infer->dims, axes[k], &number))
      return tercel_infer_open(infer, x->rank, out, err);
    TERCEL_TRY(tercel_axis(infer->node, number, x->rank, &axis, err));
    if (tercel_dim_is_known(x->dims[axis]) && tercel_dim_get_number(infer->dims, pads[k], &begin) &&
        tercel_dim_get_number(infer->dims, pads[num_axes + k], &end)) {
      tercel_pad_axis geometry;
      TERCEL_TRY(resolve_axis(infer->node, mode, axis, begin, end, x->dims[axis], &geometry, err));
    }
    shape.dims[axis] =
        tercel_dim_add(infer->dims, x->dims[axis], tercel_dim_add(infer->dims, pads[k], pads[num_axes + k]));
  }
  *out = shape;
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status eval_pad(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *value = tercel_input_tensor(eval->in, eval->num_inputs, 2);
  tercel_tensor *y = eval->out[0];
  tercel_pad_plan plan;
  TERCEL_TRY(tercel_pad_resolve(eval->node, eval->in, eval->num_inputs, &plan, err));
  if (value != NULL && tercel_tensor_num_elements(value) != 1)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "the value has %lld elements, want one",
                            (long long)tercel_tensor_num_elements(value));
  static const uint64_t zero[2]; /* one cleared element of any type */
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    int64_t from = 0;
    bool outside = false;
    for (int d = 0; d < y->rank; ++d) {
      const int64_t at = tercel_pad_source(plan.mode, &plan.axes[d], index[d]);
      outside |= at < 0;
      from += at * strides[d];
    }
    if (outside)
      tercel_element_copy(y->data, i, value != NULL ? value->data : zero, 0, y->dtype);
    else
      tercel_element_copy(y->data, i, x->data, from, y->dtype);
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

static tercel_status verify_pad(const tercel_node *node, tercel_error *err) {
  tercel_pad_mode mode;
  return get_mode(node, &mode, err);
}

static const tercel_attr_spec pad_attrs[] = {
    {"mode", TERCEL_ATTR_STRING, false, 0, "constant", "constant, reflect (without doubling the edge), edge, wrap"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_pad = {
    .name = "pad",
    .id = TERCEL_OP_PAD,
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "new elements around a tensor; negative pads cut",
    .attrs = pad_attrs,
    .infer = infer_pad,
    .verify = verify_pad,
    .eval = eval_pad,
    .flops = tercel_no_flops,
};
