/* resize: ONNX Resize-19, any rank.  Interpolation is separable: each axis has its positions and weights (resize.h), an element of the
 * result is the sum over their products. */
#include "ops/resize.h"

#include <float.h>
#include <math.h>

#include "ops/move.h"

static const char *const modes[] = {"nearest", "linear", "cubic", NULL};

typedef enum coordinate {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  TF_CROP_AND_RESIZE
} coordinate;
static const char *const coordinates[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    NULL};

typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } rounding;
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};

typedef enum policy { STRETCH, NOT_LARGER, NOT_SMALLER } policy;
static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};

enum { IN_ROI = 1, IN_SCALES, IN_SIZES };

/* ---- sizes and scales ---------------------------------------------------------------------------------------------- */

/* The axes that roi, scales and sizes speak of, in their order. */
static tercel_status get_axes(const tercel_node *node, int rank, int *list, int *count, tercel_error *err) {
  size_t given = 0;
  const int64_t *axes = tercel_node_ints(node, "axes", &given);
  *count = axes != NULL ? (int)given : rank;
  if (given > (size_t)rank)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%zu axes for rank %d", given, rank);
  uint32_t seen = 0;
  for (int k = 0; k < *count; ++k) {
    list[k] = k;
    if (axes != NULL) TERCEL_TRY(tercel_axis(node, axes[k], rank, &list[k], err));
    if ((seen >> list[k] & 1) != 0)
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "axis %d is named twice", list[k]);
    seen |= 1u << list[k];
  }
  return TERCEL_OK;
}

static tercel_status check_list(const tercel_node *node, const char *what, int64_t count, int want, tercel_error *err) {
  if (count == want) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%lld %s, want %d", (long long)count, what, want);
}

/* floor(input * scale) as ONNX's own inference has it: the product is an f32. */
static tercel_status scaled_size(const tercel_node *node, int64_t input, double scale, int64_t *out,
                                 tercel_error *err) {
  if (!(scale > 0) || !(scale <= FLT_MAX))
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "scale %g, want a positive number", scale);
  const double size = floor((double)((float)input * (float)scale));
  if (!(size < 0x1p62))
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "scale %g makes %lld too large", scale,
                            (long long)input);
  *out = (int64_t)size;
  return TERCEL_OK;
}

/* Sizes under keep_aspect_ratio: one scale for all axes, the smallest or the largest that the sizes ask for. */
static void apply_policy(policy how, tercel_resize_axis *axes, const int *list, int count) {
  double scale = how == NOT_LARGER ? INFINITY : 0;
  for (int k = 0; k < count; ++k) {
    const tercel_resize_axis *a = &axes[list[k]];
    if (a->input == 0) continue;
    const double wanted = (double)a->output / (double)a->input;
    scale = how == NOT_LARGER ? fmin(scale, wanted) : fmax(scale, wanted);
  }
  for (int k = 0; k < count; ++k) {
    tercel_resize_axis *a = &axes[list[k]];
    if (a->input == 0) continue;
    a->output = tercel_saturate_i64(scale * (double)a->input + 0.5);
    a->scale = scale;
  }
}

/* Fills input, output and scale of every axis. */
static tercel_status resolve_sizes(const tercel_node *node, const tercel_tensor *x_shape, const tercel_tensor *scales,
                                   const tercel_tensor *sizes, const int *list, int count, tercel_resize_axis *axes,
                                   tercel_error *err) {
  for (int d = 0; d < x_shape->rank; ++d)
    axes[d] = (tercel_resize_axis){.input = x_shape->dims[d], .output = x_shape->dims[d], .scale = 1, .roi_end = 1};
  const tercel_tensor *given = sizes != NULL ? sizes : scales;
  TERCEL_TRY(check_list(node, sizes != NULL ? "sizes" : "scales", tercel_tensor_num_elements(given), count, err));
  for (int k = 0; k < count; ++k) {
    tercel_resize_axis *a = &axes[list[k]];
    if (sizes != NULL) {
      a->output = tercel_tensor_get_i64(sizes, k);
      if (a->output < 0)
        return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "size %lld of axis %d", (long long)a->output,
                                list[k]);
      if (a->input > 0) a->scale = (double)a->output / (double)a->input;
    } else {
      a->scale = tercel_tensor_get_f64(scales, k);
      TERCEL_TRY(scaled_size(node, a->input, a->scale, &a->output, err));
    }
  }
  int how = STRETCH;
  TERCEL_TRY(tercel_node_choice(node, "keep_aspect_ratio", policies, &how, err));
  if (sizes != NULL && how != STRETCH) apply_policy((policy)how, axes, list, count);
  for (int d = 0; d < x_shape->rank; ++d)
    if (axes[d].input == 0 && axes[d].output > 0)
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "axis %d is empty and can't become %lld long", d,
                              (long long)axes[d].output);
  return TERCEL_OK;
}

/* An input that is there and not empty (older models pass empty tensors for absent ones). */
static const tercel_tensor *filled(const tercel_tensor *const *in, size_t num_inputs, size_t i) {
  const tercel_tensor *t = tercel_input_tensor(in, num_inputs, i);
  return t != NULL && tercel_tensor_num_elements(t) > 0 ? t : NULL;
}

static tercel_status check_one(const tercel_node *node, bool scales, bool sizes, tercel_error *err) {
  if (scales != sizes) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%s scales and sizes, want one of them",
                          scales ? "both" : "neither");
}

tercel_status tercel_resize_resolve(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                    tercel_resize_plan *out, tercel_error *err) {
  const tercel_tensor *scales = filled(in, num_inputs, IN_SCALES), *sizes = filled(in, num_inputs, IN_SIZES);
  const tercel_tensor *roi = filled(in, num_inputs, IN_ROI);
  int mode, list[TERCEL_MAX_RANK], count;
  *out = (tercel_resize_plan){.rank = in[0]->rank,
                              .cubic_a = tercel_node_float(node, "cubic_coeff_a"),
                              .extrapolation = tercel_node_float(node, "extrapolation_value"),
                              .exclude_outside = tercel_node_int(node, "exclude_outside") != 0,
                              .antialias = tercel_node_int(node, "antialias") != 0};
  TERCEL_TRY(tercel_node_choice(node, "mode", modes, &mode, err));
  out->mode = (tercel_resize_mode)mode;
  TERCEL_TRY(tercel_node_choice(node, "coordinate", coordinates, &out->coordinate, err));
  TERCEL_TRY(tercel_node_choice(node, "nearest", roundings, &out->nearest, err));
  TERCEL_TRY(get_axes(node, in[0]->rank, list, &count, err));
  TERCEL_TRY(check_one(node, scales != NULL, sizes != NULL, err));
  TERCEL_TRY(resolve_sizes(node, in[0], scales, sizes, list, count, out->axes, err));
  if (out->coordinate != TF_CROP_AND_RESIZE) return TERCEL_OK;
  if (roi == NULL) return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "tf_crop_and_resize without a roi");
  TERCEL_TRY(check_list(node, "roi numbers", tercel_tensor_num_elements(roi), 2 * count, err));
  for (int k = 0; k < count; ++k) {
    out->axes[list[k]].roi_begin = tercel_tensor_get_f64(roi, k);
    out->axes[list[k]].roi_end = tercel_tensor_get_f64(roi, count + k);
  }
  return TERCEL_OK;
}

/* ---- positions and weights ----------------------------------------------------------------------------------------- */

/* Where output position `at` lies in the input, as a real number. */
static double source_of(const tercel_resize_plan *plan, const tercel_resize_axis *a, int64_t at) {
  const double y = (double)at, n = (double)a->input;
  const double length = a->scale * n; /* of the result, before it was rounded to a whole number */
  switch ((coordinate)plan->coordinate) {
  case ALIGN_CORNERS: return length == 1 ? 0 : y * (n - 1) / (length - 1);
  case ASYMMETRIC: return y / a->scale;
  case TF_CROP_AND_RESIZE: {
    const double span = (a->roi_end - a->roi_begin) * (n - 1);
    return a->roi_begin * (n - 1) + (length == 1 ? span / 2 : y * span / (length - 1));
  }
  case PYTORCH_HALF_PIXEL: return length == 1 ? -0.5 : (y + 0.5) / a->scale - 0.5;
  case HALF_PIXEL_SYMMETRIC: return n / 2 * (1 - (double)a->output / length) + (y + 0.5) / a->scale - 0.5;
  default: return (y + 0.5) / a->scale - 0.5;
  }
}

static double linear_weight(double distance) { return fmax(0, 1 - fabs(distance)); }

/* R. Keys, "Cubic convolution interpolation for digital image processing", 1981, equation 4, with a free. */
static double cubic_weight(double distance, double a) {
  const double d = fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/* How far the kernel is stretched: antialias widens it when the axis shrinks. */
static double kernel_scale(const tercel_resize_plan *plan, int axis) {
  return plan->antialias ? fmin(plan->axes[axis].scale, 1) : 1;
}

/* Elements on each side of a position that the kernel can reach: at most twice the axis where there is an output. */
static int64_t kernel_reach(const tercel_resize_plan *plan, int axis) {
  const double reach = ceil((plan->mode == TERCEL_RESIZE_CUBIC ? 2 : 1) / kernel_scale(plan, axis));
  return tercel_min_i64(tercel_saturate_i64(reach), INT64_MAX / 4);
}

bool tercel_resize_is_identity(const tercel_resize_plan *plan, int axis) {
  const tercel_resize_axis *a = &plan->axes[axis];
  return a->input == a->output && fabs(a->scale - 1) <= 1e-9 && a->roi_begin == 0 && a->roi_end == 1;
}

int64_t tercel_resize_num_taps(const tercel_resize_plan *plan, int axis) {
  if (plan->mode == TERCEL_RESIZE_NEAREST || tercel_resize_is_identity(plan, axis)) return 1;
  return 2 * kernel_reach(plan, axis);
}

static int64_t nearest_of(rounding how, double x) {
  switch (how) {
  case PREFER_FLOOR: return (int64_t)ceil(x - 0.5);
  case PREFER_CEIL: return (int64_t)floor(x + 0.5);
  case FLOOR: return (int64_t)floor(x);
  default: return (int64_t)ceil(x);
  }
}

static int64_t clamp_position(int64_t at, int64_t n) { return tercel_max_i64(0, tercel_min_i64(at, n - 1)); }

bool tercel_resize_taps(const tercel_resize_plan *plan, int axis, int64_t at, int64_t *positions, double *weights) {
  const tercel_resize_axis *a = &plan->axes[axis];
  positions[0] = at;
  weights[0] = 1;
  if (tercel_resize_is_identity(plan, axis)) return true;
  double x = source_of(plan, a, at);
  if (plan->coordinate == TF_CROP_AND_RESIZE && !(x >= 0 && x <= (double)a->input - 1)) return false;
  /* Beyond this only the edge is seen, and the conversion to an integer stays defined. */
  x = fmax(-0x1p52, fmin(x, 0x1p52));
  if (plan->mode == TERCEL_RESIZE_NEAREST) {
    positions[0] = clamp_position(nearest_of((rounding)plan->nearest, x), a->input);
    return true;
  }
  const int64_t base = (int64_t)floor(x), reach = kernel_reach(plan, axis);
  const double fraction = x - (double)base, stretch = kernel_scale(plan, axis);
  double sum = 0;
  for (int64_t k = 0; k < 2 * reach; ++k) {
    const int64_t position = base + k + 1 - reach;
    const double distance = ((double)(k + 1 - reach) - fraction) * stretch;
    weights[k] = plan->mode == TERCEL_RESIZE_CUBIC ? cubic_weight(distance, plan->cubic_a) : linear_weight(distance);
    if (plan->exclude_outside && (position < 0 || position >= a->input)) weights[k] = 0;
    sum += weights[k];
    positions[k] = clamp_position(position, a->input);
  }
  if ((plan->exclude_outside || stretch < 1) && sum != 0)
    for (int64_t k = 0; k < 2 * reach; ++k) weights[k] /= sum;
  return true;
}

/* ---- inference ----------------------------------------------------------------------------------------------------- */

/* scale as numerator / 2^k where both are small enough for the f32 product to be exact for every size that matters. */
static bool small_fraction(double scale, int64_t *num, int64_t *den) {
  for (*den = 1; *den <= 4096; *den *= 2) {
    const double n = scale * (double)*den;
    if (n != floor(n)) continue;
    *num = tercel_saturate_i64(n);
    return n > 0 && n <= 4096;
  }
  return false;
}

static tercel_dim scaled_dim(tercel_dims *dims, tercel_dim input, double scale) {
  int64_t num, den;
  if (!small_fraction(scale, &num, &den)) return tercel_dim_unknown(dims);
  return tercel_dim_floor_div(dims, tercel_dim_mul(dims, input, num), den);
}

/* Does the model have this list?  An input whose length isn't known yet counts. */
static bool is_given(const tercel_infer *infer, size_t i) {
  if (!tercel_has_input(infer, i)) return false;
  const tercel_shape *shape = &infer->in[i]->type.shape;
  return !(shape->rank == 1 && shape->dims[0] == 0);
}

/* All dims are numbers and the lists are known: exactly what a run will do. */
static tercel_status infer_numbers(tercel_infer *infer, const tercel_tensor *scales, const tercel_tensor *sizes,
                                   const int *list, int count, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_tensor shaped = {.rank = x->rank};
  tercel_resize_axis axes[TERCEL_MAX_RANK];
  for (int d = 0; d < x->rank; ++d) shaped.dims[d] = x->dims[d];
  TERCEL_TRY(resolve_sizes(infer->node, &shaped, scales, sizes, list, count, axes, err));
  tercel_shape *out = &infer->out[0].type.shape;
  out->rank = x->rank;
  for (int d = 0; d < x->rank; ++d) out->dims[d] = axes[d].output;
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status infer_from_sizes(tercel_infer *infer, const int *list, int count, tercel_shape *out,
                                      tercel_error *err) {
  int64_t given = 0;
  const tercel_dim *sizes = tercel_infer_contents(infer, IN_SIZES, &given, err);
  int how;
  TERCEL_TRY(tercel_node_choice(infer->node, "keep_aspect_ratio", policies, &how, err));
  if (sizes != NULL) TERCEL_TRY(check_list(infer->node, "sizes", given, count, err));
  for (int k = 0; k < count; ++k)
    out->dims[list[k]] = sizes != NULL && how == STRETCH ? sizes[k] : tercel_dim_unknown(infer->dims);
  return TERCEL_OK;
}

static tercel_status infer_from_scales(tercel_infer *infer, const tercel_tensor *scales, const int *list, int count,
                                       tercel_shape *out, tercel_error *err) {
  if (scales != NULL) TERCEL_TRY(check_list(infer->node, "scales", tercel_tensor_num_elements(scales), count, err));
  for (int k = 0; k < count; ++k) {
    tercel_dim *dim = &out->dims[list[k]];
    if (scales == NULL) {
      *dim = tercel_dim_unknown(infer->dims);
    } else if (tercel_dim_is_known(*dim)) {
      TERCEL_TRY(scaled_size(infer->node, *dim, tercel_tensor_get_f64(scales, k), dim, err));
    } else {
      *dim = scaled_dim(infer->dims, *dim, tercel_tensor_get_f64(scales, k));
    }
  }
  return TERCEL_OK;
}

/* The sizes as a tensor, where all of them are known numbers. */
static const tercel_tensor *known_sizes(tercel_infer *infer, int64_t numbers[TERCEL_MAX_RANK], tercel_tensor *out,
                                        tercel_error *err) {
  int64_t count = 0;
  const tercel_dim *sizes = tercel_infer_contents(infer, IN_SIZES, &count, err);
  if (sizes == NULL || count > TERCEL_MAX_RANK) return NULL;
  for (int64_t k = 0; k < count; ++k)
    if (!tercel_dim_get_number(infer->dims, sizes[k], &numbers[k])) return NULL;
  *out = (tercel_tensor){.dtype = TERCEL_DTYPE_I64, .rank = 1, .dims = {count}, .data = numbers};
  return out;
}

static tercel_status infer_resize(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  infer->out[0].type.dtype = x->dtype;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(x->dtype);
  int mode, place;
  TERCEL_TRY(tercel_node_choice(infer->node, "mode", modes, &mode, err));
  TERCEL_TRY(tercel_node_choice(infer->node, "coordinate", coordinates, &place, err));
  const bool is_copy = mode == TERCEL_RESIZE_NEAREST && place != TF_CROP_AND_RESIZE;
  if (!is_copy && (kind == TERCEL_KIND_STRING || kind == TERCEL_KIND_COMPLEX))
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "%s is resized by copying only: mode nearest, no roi",
                            tercel_dtype_name(x->dtype));
  const bool has_scales = is_given(infer, IN_SCALES), has_sizes = is_given(infer, IN_SIZES);
  if (!has_scales && !has_sizes) return check_one(infer->node, false, false, err);
  if (x->shape.rank < 0) return TERCEL_OK;
  int list[TERCEL_MAX_RANK], count;
  TERCEL_TRY(get_axes(infer->node, x->shape.rank, list, &count, err));
  const tercel_tensor *scales = has_scales ? tercel_infer_tensor(infer, IN_SCALES) : NULL;
  int64_t numbers[TERCEL_MAX_RANK];
  tercel_tensor sizes_tensor;
  const tercel_tensor *sizes = has_sizes ? known_sizes(infer, numbers, &sizes_tensor, err) : NULL;
  if (scales != NULL && tercel_tensor_num_elements(scales) == 0) scales = NULL;
  if (sizes != NULL && tercel_tensor_num_elements(sizes) == 0) sizes = NULL;
  if ((!has_scales || scales != NULL) && (!has_sizes || sizes != NULL)) {
    TERCEL_TRY(check_one(infer->node, scales != NULL, sizes != NULL, err));
    if (tercel_shape_is_known(&x->shape)) return infer_numbers(infer, scales, sizes, list, count, err);
  }
  tercel_shape *out = &infer->out[0].type.shape;
  *out = x->shape;
  if (has_sizes) return infer_from_sizes(infer, list, count, out, err);
  return infer_from_scales(infer, scales, list, count, out, err);
}

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

/* All positions and weights of an axis: taps of output position at stand from at * count on. */
typedef struct axis_taps {
  int64_t count;
  int64_t *positions;
  double *weights;
  bool *inside;
} axis_taps;

static tercel_status make_taps(tercel_eval *eval, const tercel_resize_plan *plan, int axis, axis_taps *out,
                               tercel_error *err) {
  const int64_t n = plan->axes[axis].output;
  out->count = tercel_resize_num_taps(plan, axis);
  size_t total;
  if (!tercel_mul_size((size_t)out->count, (size_t)n, &total))
    return tercel_node_fail(eval->node, err, TERCEL_OUT_OF_MEMORY, "axis %d shrinks too far", axis);
  out->positions = tercel_arena_alloc_array(eval->scratch, total, sizeof *out->positions);
  out->weights = tercel_arena_alloc_array(eval->scratch, total, sizeof *out->weights);
  out->inside = tercel_arena_alloc_array(eval->scratch, (size_t)n, sizeof *out->inside);
  if (out->positions == NULL || out->weights == NULL || out->inside == NULL)
    return tercel_fail_memory(err, total * sizeof *out->positions, "resize");
  for (int64_t at = 0; at < n; ++at)
    out->inside[at] =
        tercel_resize_taps(plan, axis, at, out->positions + at * out->count, out->weights + at * out->count);
  return TERCEL_OK;
}

/* Floats as they are; integers to the nearest, halves to even, saturated. */
static void store(tercel_tensor *y, int64_t i, double value) {
  const tercel_dtype_kind kind = tercel_dtype_get_kind(y->dtype);
  if (kind != TERCEL_KIND_INT && kind != TERCEL_KIND_UINT) {
    tercel_tensor_set_f64(y, i, value);
    return;
  }
  const int bits = tercel_dtype_bits(y->dtype);
  const double high = ldexp(1, kind == TERCEL_KIND_INT ? bits - 1 : bits), low = kind == TERCEL_KIND_INT ? -high : 0;
  value = nearbyint(value);
  if (value <= low)
    tercel_tensor_set_f64(y, i, low);
  else if (value < high)
    tercel_tensor_set_f64(y, i, value);
  else
    tercel_tensor_set_i64(y, i, kind == TERCEL_KIND_UINT ? -1 : (int64_t)((UINT64_C(1) << (bits - 1)) - 1));
}

static double sum_taps(const tercel_tensor *x, const axis_taps *taps, const int64_t *index, const int64_t *strides) {
  int64_t counts[TERCEL_MAX_RANK], tap[TERCEL_MAX_RANK] = {0};
  for (int d = 0; d < x->rank; ++d) counts[d] = taps[d].count;
  double sum = 0;
  do {
    int64_t from = 0;
    double weight = 1;
    for (int d = 0; d < x->rank; ++d) {
      const int64_t t = index[d] * taps[d].count + tap[d];
      from += taps[d].positions[t] * strides[d];
      weight *= taps[d].weights[t];
    }
    sum += weight * tercel_tensor_get_f64(x, from);
  } while (tercel_index_next(x->rank, counts, tap));
  return sum;
}

static tercel_status eval_resize(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  tercel_resize_plan plan;
  axis_taps taps[TERCEL_MAX_RANK];
  TERCEL_TRY(tercel_resize_resolve(eval->node, eval->in, eval->num_inputs, &plan, err));
  for (int d = 0; d < x->rank; ++d) TERCEL_TRY(make_taps(eval, &plan, d, &taps[d], err));
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    bool inside = true;
    int64_t from = 0;
    for (int d = 0; d < y->rank; ++d) {
      inside = inside && taps[d].inside[index[d]];
      if (plan.mode == TERCEL_RESIZE_NEAREST) from += taps[d].positions[index[d]] * strides[d];
    }
    if (!inside)
      store(y, i, plan.extrapolation);
    else if (plan.mode == TERCEL_RESIZE_NEAREST)
      tercel_element_copy(y->data, i, x->data, from, x->dtype);
    else
      store(y, i, sum_taps(x, taps, index, strides));
    tercel_index_next(y->rank, y->dims, index);
  }
  return TERCEL_OK;
}

static tercel_status verify_resize(const tercel_node *node, tercel_error *err) {
  int choice;
  TERCEL_TRY(tercel_node_choice(node, "coordinate", coordinates, &choice, err));
  TERCEL_TRY(tercel_node_choice(node, "nearest", roundings, &choice, err));
  TERCEL_TRY(tercel_node_choice(node, "keep_aspect_ratio", policies, &choice, err));
  TERCEL_TRY(tercel_node_choice(node, "mode", modes, &choice, err));
  if (choice == TERCEL_RESIZE_NEAREST && tercel_node_int(node, "antialias") != 0)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "antialias with mode \"nearest\"");
  return TERCEL_OK;
}

static double resize_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)in;
  int mode = TERCEL_RESIZE_NEAREST;
  if (tercel_node_choice(node, "mode", modes, &mode, NULL) != TERCEL_OK || mode == TERCEL_RESIZE_NEAREST) return 0;
  return (double)tercel_tensor_num_elements(out[0]) * (mode == TERCEL_RESIZE_CUBIC ? 40 : 8);
}

static const tercel_attr_spec resize_attrs[] = {
    {"mode", TERCEL_ATTR_STRING, false, 0, "nearest", "nearest, linear, cubic"},
    {"coordinate", TERCEL_ATTR_STRING, false, 0, "half_pixel",
     "how a position of the result maps to the input (ONNX's names)"},
    {"nearest", TERCEL_ATTR_STRING, false, 0, "round_prefer_floor",
     "round_prefer_floor, round_prefer_ceil, floor, ceil"},
    {"cubic_coeff_a", TERCEL_ATTR_FLOAT, false, -0.75, NULL, "the free coefficient of cubic interpolation"},
    {"exclude_outside", TERCEL_ATTR_INT, false, 0, NULL, "1: elements outside get weight 0; 0: the edge is repeated"},
    {"extrapolation_value", TERCEL_ATTR_FLOAT, false, 0, NULL, "tf_crop_and_resize: what stands outside of the input"},
    {"antialias", TERCEL_ATTR_INT, false, 0, NULL, "1: the kernel widens when an axis shrinks"},
    {"keep_aspect_ratio", TERCEL_ATTR_STRING, false, 0, "stretch", "with sizes: stretch, not_larger, not_smaller"},
    {"axes", TERCEL_ATTR_INTS, false, 0, NULL, "the axes that roi, scales and sizes speak of; none: all"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_resize = {
    .name = "resize",
    .id = TERCEL_OP_RESIZE,
    .min_inputs = 1,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "interpolation to another size",
    .attrs = resize_attrs,
    .infer = infer_resize,
    .verify = verify_resize,
    .eval = eval_resize,
    .flops = resize_flops,
};
