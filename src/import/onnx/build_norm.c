/* Normalizations and softmax. */
#include <inttypes.h>

#include "import/onnx/build.h"

/* ---- batch, instance, group ------------------------------------------------------------------------------------------ */

/* The statistics as inputs, and running ones as outputs where the version trains.  Before version 14 the further outputs
 * belonged to training and are not there in files that only run. */
void tercel_onnx_build_batch_norm(tercel_onnx_call *c) {
  if (c->version < 6) tercel_onnx_ignore_attr(c, "consumed_inputs");
  if (c->version < 7) tercel_onnx_ignore_attr(c, "is_test"); /* files of that time leave it at 0 and mean inference */
  if (c->version < 9 && tercel_onnx_get_int(c, "spatial", 1) != 1)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'spatial' = 0 is not supported");
  const bool training = c->version >= 14 && tercel_onnx_get_flag(c, "training_mode", false);
  size_t num_outputs = 1;
  for (size_t i = 1; i < c->num_outputs; i++) {
    if (!tercel_onnx_wants_output(c, i)) continue;
    if (!training)
      tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "output %zu, which belongs to training, is not supported", i);
    num_outputs = i + 1;
  }
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_batch_norm, num_outputs, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                        tercel_onnx_in(c, 2), tercel_onnx_in(c, 3), tercel_onnx_in(c, 4));
  tercel_onnx_copy_float(c, n, "epsilon");
  tercel_onnx_copy_float(c, n, "momentum");
  tercel_onnx_set_int(c, n, "training", training);
  tercel_onnx_return_all(c, n);
  const bool has_channels = tercel_onnx_ok(c) && tercel_onnx_in(c, 0)->type.shape.rank > 1;
  for (size_t i = 1; has_channels && i < num_outputs; i++)
    tercel_onnx_shaped(c, tercel_node_output(n, i),
                       &(tercel_shape){.rank = 1, .dims = {tercel_onnx_in(c, 0)->type.shape.dims[1]}});
}

void tercel_onnx_build_instance_norm(tercel_onnx_call *c) {
  if (c->version < 6) tercel_onnx_ignore_attr(c, "consumed_inputs");
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_group_norm, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  tercel_onnx_copy_float(c, n, "epsilon");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* [groups] -> [channels]: each value for all channels of its group. */
static tercel_value *spread_over_channels(tercel_onnx_call *c, tercel_value *v, int64_t groups) {
  tercel_value *const channels = tercel_onnx_dim_value(c, tercel_onnx_in(c, 0), 1);
  tercel_value *const per_group = tercel_onnx_fn_number(c, TERCEL_FN_DIV, channels, (double)groups);
  tercel_value *const parts[] = {tercel_onnx_i64(c, groups), per_group};
  tercel_value *const shape = tercel_onnx_concat(c, parts, 2, 0);
  tercel_value *const column = tercel_onnx_reshape_to(c, v, (int64_t[]){groups, 1}, 2);
  return tercel_onnx_reshape_to(c, tercel_onnx_op(c, &tercel_op_expand, column, shape), (int64_t[]){-1}, 1);
}

static tercel_dtype stash_type(tercel_onnx_call *c) { return tercel_onnx_get_dtype(c, "stash_type", TERCEL_DTYPE_F32); }

/* Scale and bias per group in version 18, per channel from 21 on. */
void tercel_onnx_build_group_norm(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "num_groups");
  const int64_t groups = tercel_onnx_get_int(c, "num_groups", 1);
  if (groups < 1) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'num_groups' is %" PRId64, groups);
  tercel_value *scale = tercel_onnx_in(c, 1), *bias = tercel_onnx_in(c, 2);
  if (c->version < 21) {
    scale = spread_over_channels(c, scale, groups);
    bias = spread_over_channels(c, bias, groups);
  }
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_group_norm, 1, tercel_onnx_in(c, 0), scale, bias);
  tercel_onnx_set_int(c, n, "groups", groups);
  tercel_onnx_copy_float(c, n, "epsilon");
  if (c->version >= 21) tercel_onnx_set_dtype(c, n, "stash", stash_type(c));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- layer, RMS ------------------------------------------------------------------------------------------------------- */

void tercel_onnx_build_layer_norm(tercel_onnx_call *c) {
  size_t num_outputs = 1;
  for (size_t i = 1; i < c->num_outputs; i++)
    if (tercel_onnx_wants_output(c, i)) num_outputs = i + 1;
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_layer_norm, num_outputs, tercel_onnx_in(c, 0),
                                           tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_float(c, n, "epsilon");
  tercel_onnx_set_dtype(c, n, "stash", stash_type(c));
  tercel_onnx_return_all(c, n);
}

/* The result has the scale's type: where that is not x's, both are widened to what sums are formed in. */
void tercel_onnx_build_rms_norm(tercel_onnx_call *c) {
  tercel_value *x = tercel_onnx_in(c, 0), *scale = tercel_onnx_in(c, 1);
  const tercel_dtype dtype = tercel_onnx_dtype_of(scale), stash = stash_type(c);
  if (dtype != tercel_onnx_dtype_of(x)) {
    x = tercel_onnx_cast(c, x, stash);
    scale = tercel_onnx_cast(c, scale, stash);
  }
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_rms_norm, 1, x, scale);
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_float(c, n, "epsilon");
  tercel_onnx_set_dtype(c, n, "stash", stash);
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, tercel_onnx_end(c, n), dtype));
}

/* ---- others ------------------------------------------------------------------------------------------------------------ */

void tercel_onnx_build_lrn(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "size");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_lrn, 1, tercel_onnx_in(c, 0));
  tercel_onnx_copy_int(c, n, "size");
  tercel_onnx_copy_float(c, n, "alpha");
  tercel_onnx_copy_float(c, n, "beta");
  tercel_onnx_copy_float(c, n, "bias");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* x over its norm; where the norm is 0, x is 0 and stays so. */
void tercel_onnx_build_lp_normalization(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const int64_t axis = tercel_onnx_get_int(c, "axis", -1), p = tercel_onnx_get_int(c, "p", 2);
  if (p != 1 && p != 2) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'p' is %" PRId64 ", want 1 or 2", p);
  tercel_value *const norm = tercel_onnx_reduce(c, p == 1 ? "l1" : "l2", x, &axis, 1, true);
  tercel_value *const is_zero = tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, norm, 0);
  tercel_value *const divisor = tercel_onnx_fn3(c, TERCEL_FN_SELECT, is_zero, tercel_onnx_scalar_like(c, x, 1), norm);
  tercel_onnx_return(c, 0, tercel_onnx_fn2(c, TERCEL_FN_DIV, x, divisor));
}

/* (x - mean) / (deviation + 1e-9), the deviation from the mean of squares less the square of the mean, as the function body of
 * MeanVarianceNormalization-13 has it. */
void tercel_onnx_build_mean_variance(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  static const int64_t usual[] = {0, 2, 3};
  size_t count;
  const int64_t *axes = tercel_onnx_get_ints(c, "axes", &count);
  if (!axes) axes = usual, count = 3;
  tercel_value *const mean = tercel_onnx_reduce(c, "mean", x, axes, count, true);
  tercel_value *const squares =
      tercel_onnx_reduce(c, "mean", tercel_onnx_fn2(c, TERCEL_FN_MUL, x, x), axes, count, true);
  tercel_value *const variance =
      tercel_onnx_fn2(c, TERCEL_FN_SUB, squares, tercel_onnx_fn2(c, TERCEL_FN_MUL, mean, mean));
  tercel_value *const deviation =
      tercel_onnx_fn_number(c, TERCEL_FN_ADD, tercel_onnx_fn1(c, TERCEL_FN_SQRT, variance), 1e-9);
  tercel_onnx_return(c, 0, tercel_onnx_fn2(c, TERCEL_FN_DIV, tercel_onnx_fn2(c, TERCEL_FN_SUB, x, mean), deviation));
}

/* ---- softmax, hardmax -------------------------------------------------------------------------------------------------- */

typedef enum soft { SOFTMAX, LOG_SOFTMAX, HARDMAX } soft;

/* 1 where the largest stands (the first of them), else 0. */
static tercel_value *hardmax(tercel_onnx_call *c, tercel_value *x, int64_t axis) {
  tercel_node *const largest = tercel_onnx_begin(c, &tercel_op_arg_reduce, 1, x);
  tercel_onnx_set_text(c, largest, "kind", "max");
  tercel_onnx_set_int(c, largest, "axis", axis);
  tercel_onnx_set_int(c, largest, "keepdims", 0);
  tercel_value *const indices = tercel_onnx_end(c, largest);
  tercel_value *const depth = tercel_onnx_reshape_to(c, tercel_onnx_dim_value(c, x, axis), NULL, 0);
  const tercel_dtype dtype = tercel_onnx_dtype_of(x);
  tercel_value *const off_on[] = {tercel_onnx_reshape_to(c, tercel_onnx_scalar(c, dtype, 0), (int64_t[]){1}, 1),
                                  tercel_onnx_reshape_to(c, tercel_onnx_scalar(c, dtype, 1), (int64_t[]){1}, 1)};
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_one_hot, 1, indices, depth, tercel_onnx_concat(c, off_on, 2, 0));
  tercel_onnx_set_int(c, n, "axis", axis);
  return tercel_onnx_end(c, n);
}

static tercel_value *soft_of(tercel_onnx_call *c, tercel_value *x, int64_t axis, soft kind) {
  if (kind == HARDMAX) return hardmax(c, x, axis);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_softmax, 1, x);
  tercel_onnx_set_int(c, n, "axis", axis);
  tercel_onnx_set_int(c, n, "log", kind == LOG_SOFTMAX);
  return tercel_onnx_end(c, n);
}

void tercel_onnx_build_softmax(tercel_onnx_call *c) {
  const int64_t axis = tercel_onnx_get_int(c, "axis", -1);
  tercel_onnx_return(c, 0, soft_of(c, tercel_onnx_in(c, 0), axis, (soft)c->row->detail));
}

/* Before version 13 it went over all axes from 'axis' on, taken as one. */
static tercel_value *flat_soft_of(tercel_onnx_call *c, tercel_value *x, int64_t axis, soft kind) {
  const int rank = tercel_onnx_rank(c, x);
  if (axis < 0) axis += rank;
  if (axis == rank - 1) return soft_of(c, x, axis, kind);
  tercel_node *const flat = tercel_onnx_begin(c, &tercel_op_flatten, 1, x);
  tercel_onnx_set_int(c, flat, "axis", axis);
  tercel_value *const y = soft_of(c, tercel_onnx_end(c, flat), 1, kind);
  return tercel_onnx_reshape(c, y, tercel_onnx_shape_of(c, x));
}

void tercel_onnx_build_softmax1(tercel_onnx_call *c) {
  const int64_t axis = tercel_onnx_get_int(c, "axis", 1);
  tercel_onnx_return(c, 0, flat_soft_of(c, tercel_onnx_in(c, 0), axis, (soft)c->row->detail));
}

tercel_value *tercel_onnx_flat_softmax(tercel_onnx_call *c, tercel_value *x, int64_t axis) {
  return flat_soft_of(c, x, axis, SOFTMAX);
}
