/* batch_norm, layer_norm, rms_norm, group_norm, lrn: elements measured against their surroundings. */
#include <math.h>

#include "ops/epilogue.h"
#include "ops/move.h"

enum { FIRST_EXTRA = 3 }; /* of layer_norm, rms_norm and group_norm */

static tercel_status check_floats(const tercel_infer *infer, size_t most, tercel_error *err) {
  for (size_t i = 0; i < infer->num_inputs && i < most; ++i) {
    if (infer->in[i] == NULL || infer->in[i]->type.dtype == TERCEL_DTYPE_NONE) continue;
    if (!tercel_dtype_is_float(infer->in[i]->type.dtype))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want floats", i,
                              tercel_dtype_name(infer->in[i]->type.dtype));
  }
  return TERCEL_OK;
}

/* Input i: one number a channel. */
static tercel_status check_channels(const tercel_infer *infer, size_t i, tercel_dim channels, tercel_error *err) {
  if (!tercel_has_input(infer, i) || infer->in[i]->type.shape.rank < 0) return TERCEL_OK;
  const tercel_shape *shape = &infer->in[i]->type.shape;
  const tercel_dim size = shape->dims[0];
  if (shape->rank == 1 && (!tercel_dim_is_known(size) || !tercel_dim_is_known(channels) || size == channels))
    return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                          "input %zu has rank %d and %lld elements, want one for each of %lld channels", i, shape->rank,
                          shape->rank == 1 ? (long long)size : -1LL, (long long)channels);
}

/* Output 0 as input 0, of rank `least` or more. */
static tercel_status infer_same(tercel_infer *infer, int least, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  const bool has_epilogue = infer->node->op->id != TERCEL_OP_BATCH_NORM && infer->node->op->id != TERCEL_OP_LRN;
  TERCEL_TRY(check_floats(infer, has_epilogue ? FIRST_EXTRA : SIZE_MAX, err));
  if (x->shape.rank >= 0 && x->shape.rank < least)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of rank %d, want %d or more", x->shape.rank,
                            least);
  infer->out[0].type.dtype = x->dtype;
  infer->out[0].type.shape = x->shape;
  return TERCEL_OK;
}

/* Mean of x[0], x[stride], ... and of their squared distances from it. */
typedef struct moments {
  double mean, variance;
} moments;

static moments moments_of(const double *x, int64_t n) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / (double)n;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return (moments){mean, squares / (double)n};
}

/* x as images x channels x pixels. */
typedef struct planes {
  int64_t images, channels, pixels;
} planes;

static planes planes_of(const tercel_tensor *x) {
  if (x->rank == 1) return (planes){x->dims[0], 1, 1};
  return (planes){x->dims[0], x->dims[1], tercel_dims_product(x->dims, 2, x->rank)};
}

static double flops_of_norm(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  return 7.0 * (double)tercel_tensor_num_elements(in[0]);
}

/* ---- batch_norm ---------------------------------------------------------------------------------------------------- */

static tercel_status infer_batch_norm(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(infer_same(infer, 1, err));
  const tercel_shape *x = &infer->in[0]->type.shape;
  const tercel_dim channels = x->rank < 0 ? -1 : x->rank == 1 ? 1 : x->dims[1];
  for (size_t i = 1; i < 5 && x->rank >= 0; ++i) TERCEL_TRY(check_channels(infer, i, channels, err));
  for (size_t i = 1; i < infer->num_outputs; ++i) {
    infer->out[i].type.dtype = infer->in[i + 2]->type.dtype;
    infer->out[i].type.shape = infer->in[i + 2]->type.shape;
  }
  return TERCEL_OK;
}

/* Over images and pixels of channel c. */
static moments channel_moments(const tercel_tensor *x, planes p, int64_t c) {
  const double count = (double)(p.images * p.pixels);
  double sum = 0, squares = 0;
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t i = 0; i < p.pixels; ++i) sum += tercel_tensor_get_f64(x, (n * p.channels + c) * p.pixels + i);
  const double mean = sum / count;
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t i = 0; i < p.pixels; ++i) {
      const double d = tercel_tensor_get_f64(x, (n * p.channels + c) * p.pixels + i) - mean;
      squares += d * d;
    }
  return (moments){mean, squares / count};
}

static void give_running(const tercel_eval *eval, size_t output, int64_t c, double batch) {
  if (output >= eval->num_outputs || eval->out[output] == NULL) return;
  const double momentum = tercel_node_float(eval->node, "momentum");
  const double before = tercel_tensor_get_f64(eval->in[output + 2], c);
  const bool training = tercel_node_int(eval->node, "training") != 0;
  tercel_tensor_set_f64(eval->out[output], c, training ? before * momentum + batch * (1 - momentum) : before);
}

static tercel_status eval_batch_norm(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = eval->in[0];
  const planes p = planes_of(x);
  const double epsilon = tercel_node_float(eval->node, "epsilon");
  const bool training = tercel_node_int(eval->node, "training") != 0;
  for (int64_t c = 0; c < p.channels; ++c) {
    const moments m = training
                          ? channel_moments(x, p, c)
                          : (moments){tercel_tensor_get_f64(eval->in[3], c), tercel_tensor_get_f64(eval->in[4], c)};
    const double scale = tercel_tensor_get_f64(eval->in[1], c) / sqrt(m.variance + epsilon);
    const double bias = tercel_tensor_get_f64(eval->in[2], c);
    for (int64_t n = 0; n < p.images; ++n)
      for (int64_t i = 0; i < p.pixels; ++i) {
        const int64_t at = (n * p.channels + c) * p.pixels + i;
        tercel_tensor_set_f64(eval->out[0], at, (tercel_tensor_get_f64(x, at) - m.mean) * scale + bias);
      }
    give_running(eval, 1, c, m.mean);
    give_running(eval, 2, c, m.variance);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec batch_norm_attrs[] = {
    {"epsilon", TERCEL_ATTR_FLOAT, false, 1e-5, NULL, "added to the variance"},
    {"momentum", TERCEL_ATTR_FLOAT, false, 0.9, NULL, "share of the old running mean and variance in the new"},
    {"training", TERCEL_ATTR_INT, false, 0, NULL, "1: mean and variance of this batch are used"},
    {NULL, 0, false, 0, NULL, NULL},
};

static double flops_of_batch_norm(const tercel_node *node, const tercel_tensor *const *in,
                                  const tercel_tensor *const *out) {
  (void)out;
  return (tercel_node_int(node, "training") != 0 ? 7.0 : 2.0) * (double)tercel_tensor_num_elements(in[0]);
}

const tercel_op tercel_op_batch_norm = {
    .name = "batch_norm",
    .id = TERCEL_OP_BATCH_NORM,
    .min_inputs = 5,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 3,
    .about = "each channel shifted and scaled by a mean and a variance",
    .attrs = batch_norm_attrs,
    .infer = infer_batch_norm,
    .eval = eval_batch_norm,
    .flops = flops_of_batch_norm,
};

/* ---- layer_norm and rms_norm --------------------------------------------------------------------------------------- */

/* Scale (or bias) broadcasts to x. */
static tercel_status check_broadcast(tercel_infer *infer, size_t i, tercel_error *err) {
  if (!tercel_has_input(infer, i)) return TERCEL_OK;
  const tercel_shape *x = &infer->in[0]->type.shape, *s = &infer->in[i]->type.shape;
  if (x->rank < 0 || s->rank < 0) return TERCEL_OK;
  tercel_shape both;
  TERCEL_TRY(tercel_infer_broadcast(infer, x, s, &both, err));
  for (int d = 0; d < both.rank; ++d) {
    const bool grows = both.rank > x->rank || (tercel_dim_is_known(x->dims[d]) && tercel_dim_is_known(both.dims[d]) &&
                                               x->dims[d] != both.dims[d]);
    if (grows)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu does not broadcast to input 0", i);
  }
  return TERCEL_OK;
}

static tercel_status infer_layer_norm(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(infer_same(infer, 1, err));
  TERCEL_TRY(check_broadcast(infer, 1, err));
  TERCEL_TRY(check_broadcast(infer, 2, err));
  if (infer->node->op->id == TERCEL_OP_RMS_NORM && tercel_has_input(infer, 2))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input 2: there is no bias");
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape statistics = *x;
  if (x->rank >= 0) {
    int axis;
    TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->rank, &axis, err));
    for (int d = axis; d < x->rank; ++d) statistics.dims[d] = 1;
  }
  for (size_t i = 1; i < infer->num_outputs; ++i) {
    infer->out[i].type.dtype = tercel_node_dtype(infer->node, "stash");
    infer->out[i].type.shape = statistics;
  }
  return tercel_infer_epilogue(infer, FIRST_EXTRA, &infer->out[0].type, err);
}

/* One row: (x - mean) * inverse * scale + bias.  Scale and bias are read with x's coordinates. */
typedef struct affine {
  const tercel_tensor *x, *scale, *bias; /* bias NULL: none */
  int64_t scale_strides[TERCEL_MAX_RANK], bias_strides[TERCEL_MAX_RANK];
} affine;

static affine affine_of(const tercel_eval *eval) {
  affine a = {.x = eval->in[0], .scale = eval->in[1], .bias = tercel_input_tensor(eval->in, eval->num_inputs, 2)};
  tercel_tensor_broadcast_strides(a.scale, a.x->rank, a.x->dims, a.scale_strides);
  if (a.bias != NULL) tercel_tensor_broadcast_strides(a.bias, a.x->rank, a.x->dims, a.bias_strides);
  return a;
}

static double apply_affine(const affine *a, const int64_t *index, double normalized) {
  const double scale = tercel_tensor_get_f64(a->scale, tercel_index_dot(a->x->rank, index, a->scale_strides));
  const double bias =
      a->bias == NULL ? 0 : tercel_tensor_get_f64(a->bias, tercel_index_dot(a->x->rank, index, a->bias_strides));
  return normalized * scale + bias;
}

static void give_statistic(const tercel_eval *eval, size_t output, int64_t row, double value) {
  if (output < eval->num_outputs && eval->out[output] != NULL) tercel_tensor_set_f64(eval->out[output], row, value);
}

static tercel_status eval_rows(tercel_eval *eval, bool centered, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const double *wide;
  int axis;
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &wide, err));
  const affine a = affine_of(eval);
  tercel_eval_epilogue epilogue;
  TERCEL_TRY(tercel_eval_epilogue_start(eval, FIRST_EXTRA, x->dtype, &epilogue, err));
  const double epsilon = tercel_node_float(eval->node, "epsilon");
  const int64_t rows = tercel_dims_product(x->dims, 0, axis), n = tercel_dims_product(x->dims, axis, x->rank);
  int64_t index[TERCEL_MAX_RANK] = {0};
  for (int64_t r = 0; r < rows; ++r) {
    moments m = moments_of(wide + r * n, n);
    if (!centered) m = (moments){0, m.variance + m.mean * m.mean};
    const double inverse = 1 / sqrt(m.variance + epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const double y = apply_affine(&a, index, (wide[r * n + i] - m.mean) * inverse);
      tercel_eval_epilogue_store_f64(&epilogue, r * n + i, y);
      tercel_index_next(x->rank, x->dims, index);
    }
    give_statistic(eval, 1, r, m.mean);
    give_statistic(eval, 2, r, inverse);
  }
  return TERCEL_OK;
}

static tercel_status eval_layer_norm(tercel_eval *eval, tercel_error *err) { return eval_rows(eval, true, err); }
static tercel_status eval_rms_norm(tercel_eval *eval, tercel_error *err) { return eval_rows(eval, false, err); }

static const tercel_attr_spec layer_norm_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, -1, NULL, "the first of the axes that are normalized together"},
    {"epsilon", TERCEL_ATTR_FLOAT, false, 1e-5, NULL, "added to the variance (mean square)"},
    {"stash", TERCEL_ATTR_DTYPE, false, TERCEL_DTYPE_F32, NULL, "dtype of the statistics"},
    {"epilogue", TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_layer_norm = {
    .name = "layer_norm",
    .id = TERCEL_OP_LAYER_NORM,
    .min_inputs = 2,
    .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
    .min_outputs = 1,
    .max_outputs = 3,
    .about = "rows made of mean 0 and variance 1, then scaled and shifted",
    .attrs = layer_norm_attrs,
    .infer = infer_layer_norm,
    .eval = eval_layer_norm,
    .flops = flops_of_norm,
};

const tercel_op tercel_op_rms_norm = {
    .name = "rms_norm",
    .id = TERCEL_OP_RMS_NORM,
    .min_inputs = 2,
    .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "rows divided by their root mean square, then scaled",
    .attrs = layer_norm_attrs,
    .infer = infer_layer_norm,
    .eval = eval_rms_norm,
    .flops = flops_of_norm,
};

/* ---- group_norm ---------------------------------------------------------------------------------------------------- */

static tercel_status infer_group_norm(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(infer_same(infer, 2, err));
  const tercel_shape *x = &infer->in[0]->type.shape;
  TERCEL_TRY(tercel_infer_epilogue(infer, FIRST_EXTRA, &infer->out[0].type, err));
  if (x->rank < 0) return TERCEL_OK;
  TERCEL_TRY(check_channels(infer, 1, x->dims[1], err));
  TERCEL_TRY(check_channels(infer, 2, x->dims[1], err));
  const int64_t groups = tercel_node_int(infer->node, "groups");
  if (groups < 0 || (groups > 0 && tercel_dim_is_known(x->dims[1]) && x->dims[1] % groups != 0))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld channels in %lld groups",
                            (long long)x->dims[1], (long long)groups);
  return TERCEL_OK;
}

static tercel_status eval_group_norm(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const planes p = planes_of(x);
  const double *wide;
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &wide, err));
  const int64_t given = tercel_node_int(eval->node, "groups"), groups = given == 0 ? p.channels : given;
  if (groups == 0 || p.channels % groups != 0) return TERCEL_OK; /* no channels */
  tercel_eval_epilogue epilogue;
  TERCEL_TRY(tercel_eval_epilogue_start(eval, FIRST_EXTRA, x->dtype, &epilogue, err));
  const int64_t per_group = p.channels / groups, n = per_group * p.pixels;
  const double epsilon = tercel_node_float(eval->node, "epsilon");
  for (int64_t g = 0; g < p.images * groups; ++g) {
    const moments m = moments_of(wide + g * n, n);
    const double inverse = 1 / sqrt(m.variance + epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = g % groups * per_group + i / p.pixels;
      const double scale = tercel_tensor_get_f64(eval->in[1], c), bias = tercel_tensor_get_f64(eval->in[2], c);
      tercel_eval_epilogue_store_f64(&epilogue, g * n + i, (wide[g * n + i] - m.mean) * inverse * scale + bias);
    }
  }
  return TERCEL_OK;
}

static const tercel_attr_spec group_norm_attrs[] = {
    {"groups", TERCEL_ATTR_INT, false, 0, NULL, "of channels; 0: each channel is one (instance norm)"},
    {"epsilon", TERCEL_ATTR_FLOAT, false, 1e-5, NULL, "added to the variance"},
    {"stash", TERCEL_ATTR_DTYPE, false, TERCEL_DTYPE_F32, NULL, "dtype of the statistics"},
    {"epilogue", TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_group_norm = {
    .name = "group_norm",
    .id = TERCEL_OP_GROUP_NORM,
    .min_inputs = 3,
    .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "groups of channels made of mean 0 and variance 1, then scaled and shifted by channel",
    .attrs = group_norm_attrs,
    .infer = infer_group_norm,
    .eval = eval_group_norm,
    .flops = flops_of_norm,
};

/* ---- lrn ----------------------------------------------------------------------------------------------------------- */

static tercel_status infer_lrn(tercel_infer *infer, tercel_error *err) { return infer_same(infer, 2, err); }

static tercel_status verify_lrn(const tercel_node *node, tercel_error *err) {
  const int64_t size = tercel_node_int(node, "size");
  if (size >= 1) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "size is %lld, want 1 or more", (long long)size);
}

/* y = x / (bias + alpha / size * sum of squares of the channels around)^beta; the window has one more channel after than before when its
 * size is even. */
static tercel_status eval_lrn(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const planes p = planes_of(x);
  const double *wide;
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &wide, err));
  const int64_t size = tercel_node_int(eval->node, "size");
  const double alpha = tercel_node_float(eval->node, "alpha"), beta = tercel_node_float(eval->node, "beta");
  const double bias = tercel_node_float(eval->node, "bias");
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t c = 0; c < p.channels; ++c) {
      const int64_t begin = tercel_max_i64(0, c - (size - 1) / 2), end = tercel_min_i64(p.channels, c + size / 2 + 1);
      for (int64_t i = 0; i < p.pixels; ++i) {
        double squares = 0;
        for (int64_t k = begin; k < end; ++k) {
          const double v = wide[(n * p.channels + k) * p.pixels + i];
          squares += v * v;
        }
        const int64_t at = (n * p.channels + c) * p.pixels + i;
        tercel_tensor_set_f64(eval->out[0], at, wide[at] / tercel_f64_pow(bias + alpha / (double)size * squares, beta));
      }
    }
  return TERCEL_OK;
}

static double flops_of_lrn(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)out;
  return (2.0 * (double)tercel_node_int(node, "size") + 4.0) * (double)tercel_tensor_num_elements(in[0]);
}

static const tercel_attr_spec lrn_attrs[] = {
    {"size", TERCEL_ATTR_INT, true, 0, NULL, "channels that are summed over"},
    {"alpha", TERCEL_ATTR_FLOAT, false, 1e-4, NULL, "weight of the mean square"},
    {"beta", TERCEL_ATTR_FLOAT, false, 0.75, NULL, "exponent"},
    {"bias", TERCEL_ATTR_FLOAT, false, 1, NULL, "added to the mean square"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_lrn = {
    .name = "lrn",
    .id = TERCEL_OP_LRN,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "elements divided by a power of the mean square of neighbouring channels",
    .attrs = lrn_attrs,
    .infer = infer_lrn,
    .verify = verify_lrn,
    .eval = eval_lrn,
    .flops = flops_of_lrn,
};
