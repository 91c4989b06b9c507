/* reshape, flatten, squeeze, unsqueeze: the same elements under another shape. */
#include "ops/move.h"

/* ---- reshape ------------------------------------------------------------------------------------------------------- */

static bool is_number(const tercel_infer *infer, tercel_dim dim, int64_t number) {
  int64_t n;
  return tercel_dim_get_number(infer->dims, dim, &n) && n == number;
}

/* What -1 stands for: x's elements divided by the product of the others.  Equal dims of both sides cancel first, even zeros: what a
 * symbolic [n, 4] -> [n, -1] gives for n > 0 holds for n = 0 too. */
static tercel_status remaining_dim(tercel_infer *infer, const tercel_shape *x, const tercel_shape *out, int hole,
                                   tercel_dim *result, tercel_error *err) {
  tercel_dim num = 1, den = 1;
  bool taken[TERCEL_MAX_RANK] = {false};
  for (int d = 0; d < out->rank; ++d) {
    if (d == hole) continue;
    int match = -1;
    for (int k = 0; k < x->rank && match < 0; ++k)
      if (!taken[k] && x->dims[k] == out->dims[d]) match = k;
    if (match >= 0)
      taken[match] = true;
    else
      den = tercel_dim_mul(infer->dims, den, out->dims[d]);
  }
  for (int k = 0; k < x->rank; ++k)
    if (!taken[k]) num = tercel_dim_mul(infer->dims, num, x->dims[k]);
  if (den == 0)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "-1 beside a new dim of 0 could be anything");
  if (tercel_dim_is_known(num) && tercel_dim_is_known(den) && num % den != 0)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                            "-1 can't be resolved: %lld is not a multiple of %lld", (long long)num, (long long)den);
  *result = den == 1 ? num : tercel_dim_floor_div(infer->dims, num, den);
  return TERCEL_OK;
}

static tercel_status check_counts(tercel_infer *infer, const tercel_shape *x, const tercel_shape *out,
                                  tercel_error *err) {
  if (!tercel_shape_is_known(x) || !tercel_shape_is_known(out)) return TERCEL_OK;
  const tercel_dim from = tercel_shape_num_elements(infer->dims, x), to = tercel_shape_num_elements(infer->dims, out);
  if (from == to) return TERCEL_OK;
  tercel_text text = {0};
  tercel_shape_print(infer->dims, x, &text);
  tercel_text_add(&text, " can't become ");
  tercel_shape_print(infer->dims, out, &text);
  const tercel_status status =
      tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s: %lld elements against %lld",
                       text.data ? text.data : "", (long long)from, (long long)to);
  tercel_text_deinit(&text);
  return status;
}

/* All dims but one are numbers, and none is 0. */
static bool has_elements(const tercel_shape *shape, int but) {
  for (int d = 0; d < shape->rank; ++d)
    if (d != but && shape->dims[d] <= 0) return false;
  return shape->rank >= 0;
}

static tercel_status infer_reshape(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  const bool allow_zero = tercel_node_int(infer->node, "allowzero") != 0;
  tercel_shape out = {.rank = -1};
  int64_t count = 0;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  const tercel_dim *want = tercel_infer_contents(infer, 1, &count, err);
  if (want == NULL) {
    const tercel_shape *s = &infer->in[1]->type.shape;
    if (s->rank == 1 && tercel_dim_is_known(s->dims[0])) TERCEL_TRY(tercel_infer_open(infer, s->dims[0], &out, err));
    return tercel_infer_view(infer, &out, err);
  }
  TERCEL_TRY(tercel_infer_open(infer, count, &out, err));
  int hole = -1, open = -1, num_open = 0;
  for (int d = 0; d < out.rank; ++d) {
    if (is_number(infer, want[d], -1)) {
      if (hole >= 0)
        return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "dims %d and %d are both -1", hole, d);
      hole = d;
    } else if (want[d] == 0 && !allow_zero) {
      if (x->rank < 0) continue;
      if (d >= x->rank)
        return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "dim %d is 0 (copy), but the input has rank %d",
                                d, x->rank);
      out.dims[d] = x->dims[d];
    } else if (tercel_dim_is_unknown(infer->dims, want[d])) {
      open = d; /* it may be -1, or 0 that copies */
      num_open++;
    } else {
      int64_t number;
      if (tercel_dim_get_number(infer->dims, want[d], &number) && number < 0)
        return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "dim %d is %lld", d, (long long)number);
      out.dims[d] = want[d];
    }
  }
  if (hole < 0 && num_open == 1 && has_elements(x, -1) && has_elements(&out, open)) hole = open;
  if (hole >= 0 && num_open <= (hole == open) && x->rank >= 0)
    TERCEL_TRY(remaining_dim(infer, x, &out, hole, &out.dims[hole], err));
  TERCEL_TRY(check_counts(infer, x, &out, err));
  return tercel_infer_view(infer, &out, err);
}

static const tercel_attr_spec reshape_attrs[] = {
    {"allowzero", TERCEL_ATTR_INT, false, 0, NULL, "1: a dim of 0 is 0; 0: it copies the input's"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_reshape = {
    .name = "reshape",
    .id = TERCEL_OP_RESHAPE,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_VIEW,
    .about = "the same elements under the shape that input 1 gives",
    .attrs = reshape_attrs,
    .infer = infer_reshape,
    .eval = tercel_eval_view,
    .flops = tercel_no_flops,
};

/* ---- flatten ------------------------------------------------------------------------------------------------------- */

static tercel_status infer_flatten(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape out = {.rank = 2};
  if (x->rank < 0) {
    TERCEL_TRY(tercel_infer_open(infer, 2, &out, err));
    return tercel_infer_view(infer, &out, err);
  }
  int64_t axis = tercel_node_int(infer->node, "axis");
  if (axis < -x->rank || axis > x->rank)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "axis %lld, want -%d .. %d", (long long)axis,
                            x->rank, x->rank);
  if (axis < 0) axis += x->rank;
  out.dims[0] = out.dims[1] = 1;
  for (int d = 0; d < x->rank; ++d) {
    tercel_dim *side = &out.dims[d < axis ? 0 : 1];
    *side = tercel_dim_mul(infer->dims, *side, x->dims[d]);
  }
  return tercel_infer_view(infer, &out, err);
}

static const tercel_attr_spec flatten_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, 1, NULL, "dims before it become dim 0, the others dim 1"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_flatten = {
    .name = "flatten",
    .id = TERCEL_OP_FLATTEN,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_VIEW,
    .about = "two dims: those before the axis, and the rest",
    .attrs = flatten_attrs,
    .infer = infer_flatten,
    .eval = tercel_eval_view,
    .flops = tercel_no_flops,
};

/* ---- squeeze ------------------------------------------------------------------------------------------------------- */

static tercel_status infer_squeeze(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape out = {.rank = -1};
  if (x->rank < 0) return tercel_infer_view(infer, &out, err);
  uint32_t mask = 0;
  bool given = false, known = false;
  TERCEL_TRY(tercel_infer_axes(infer, 1, x->rank, &mask, &given, &known, err));
  if (!known) return tercel_infer_view(infer, &out, err);
  out.rank = 0;
  for (int d = 0; d < x->rank; ++d) {
    const bool named = given && (mask >> d & 1) != 0;
    if (named && tercel_dim_is_known(x->dims[d]) && x->dims[d] != 1)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "axis %d has size %lld, want 1", d,
                              (long long)x->dims[d]);
    if (!given && !tercel_dim_is_known(x->dims[d])) { /* it may turn out to be 1 */
      out.rank = -1;
      return tercel_infer_view(infer, &out, err);
    }
    if (!named && (given || x->dims[d] != 1)) out.dims[out.rank++] = x->dims[d];
  }
  return tercel_infer_view(infer, &out, err);
}

static const tercel_attr_spec axes_attrs[] = {
    {"axes", TERCEL_ATTR_INTS, false, 0, NULL, "the axes, unless input 1 gives them"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_squeeze = {
    .name = "squeeze",
    .id = TERCEL_OP_SQUEEZE,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_VIEW,
    .about = "drops dims of 1: those named, or all",
    .attrs = axes_attrs,
    .infer = infer_squeeze,
    .eval = tercel_eval_view,
    .flops = tercel_no_flops,
};

/* ---- unsqueeze ----------------------------------------------------------------------------------------------------- */

/* How many axes the node names: -1 when that isn't known. */
static int64_t count_axes(const tercel_infer *infer) {
  size_t count = 0;
  if (tercel_node_ints(infer->node, "axes", &count) != NULL || tercel_node_attr(infer->node, "axes") != NULL)
    return (int64_t)count;
  if (!tercel_has_input(infer, 1)) return 0;
  const tercel_shape *axes = &infer->in[1]->type.shape;
  if (axes->rank == 0) return 1;
  return axes->rank == 1 && tercel_dim_is_known(axes->dims[0]) ? axes->dims[0] : -1;
}

static tercel_status infer_unsqueeze(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape out = {.rank = -1};
  const int64_t count = count_axes(infer);
  if (x->rank < 0 || count < 0) return tercel_infer_view(infer, &out, err);
  if (count > TERCEL_MAX_RANK - x->rank)
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED,
                            "%lld axes more than rank %d; at most %d dims are supported", (long long)count, x->rank,
                            TERCEL_MAX_RANK);
  TERCEL_TRY(tercel_infer_open(infer, x->rank + count, &out, err));
  uint32_t mask = 0;
  bool given = false, known = false;
  TERCEL_TRY(tercel_infer_axes(infer, 1, out.rank, &mask, &given, &known, err));
  if (!known) return tercel_infer_view(infer, &out, err);
  if (__builtin_popcount(mask) != (int)count)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "an axis is named twice");
  for (int d = 0, k = 0; d < out.rank; ++d) out.dims[d] = (mask >> d & 1) != 0 ? 1 : x->dims[k++];
  return tercel_infer_view(infer, &out, err);
}

const tercel_op tercel_op_unsqueeze = {
    .name = "unsqueeze",
    .id = TERCEL_OP_UNSQUEEZE,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_VIEW,
    .about = "new dims of 1 at the axes (of the result)",
    .attrs = axes_attrs,
    .infer = infer_unsqueeze,
    .eval = tercel_eval_view,
    .flops = tercel_no_flops,
};
