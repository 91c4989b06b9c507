/* grid_sample, affine_grid: pictures sampled at given places, and places on an affine image of the picture's own grid. */
#include <math.h>

#include "ops/epilogue.h"
#include "ops/move.h"

/* ---- grid_sample --------------------------------------------------------------------------------------------------- */

typedef enum grid_mode { GRID_NEAREST, GRID_LINEAR, GRID_CUBIC } grid_mode;
static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
typedef enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding;
static const char *const paddings[] = {"zeros", "border", "reflection", NULL};

/* Taps along each axis, and of a whole point. */
enum { AXIS_TAPS = 4, MAX_TAPS = 1 << (2 * TERCEL_MAX_SPATIAL) };

static tercel_status infer_grid_sample(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_type *x = &infer->in[0]->type, *grid = &infer->in[1]->type;
  int mode, padding;
  TERCEL_TRY(tercel_node_choice(node, "mode", modes, &mode, err));
  TERCEL_TRY(tercel_node_choice(node, "padding", paddings, &padding, err));
  infer->out[0].type.dtype = x->dtype;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(x->dtype);
  if (mode != GRID_NEAREST && (kind == TERCEL_KIND_STRING || kind == TERCEL_KIND_COMPLEX))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%s sampling of %s", modes[mode],
                            tercel_dtype_name(x->dtype));
  if (grid->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(grid->dtype))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "the grid is %s, want floats",
                            tercel_dtype_name(grid->dtype));
  if (x->shape.rank < 0 || grid->shape.rank < 0) return TERCEL_OK;
  const int rank = x->shape.rank;
  const tercel_dim batch = grid->shape.dims[0], parts = grid->shape.rank == rank ? grid->shape.dims[rank - 1] : -1;
  const bool clash = tercel_dim_is_known(batch) && tercel_dim_is_known(x->shape.dims[0]) && batch != x->shape.dims[0];
  if (rank < 3 || grid->shape.rank != rank || clash || (tercel_dim_is_known(parts) && parts != rank - 2))
    return tercel_node_fail(
        node, err, TERCEL_INVALID_MODEL,
        "input of rank %d, grid of rank %d with %lld numbers a point in batch %lld, want N,C,spatial... and "
        "N,places...,spatial dims",
        rank, grid->shape.rank, (long long)parts, (long long)batch);
  tercel_shape *out = &infer->out[0].type.shape;
  *out = x->shape;
  for (int d = 2; d < rank; ++d) out->dims[d] = grid->shape.dims[d - 1];
  return tercel_infer_check_size(infer, 0, err);
}

/* One axis of the picture: elements lie at 0 .. size - 1, the picture ends at low and high. */
typedef struct grid_axis {
  int64_t size, stride;
  double low, high;
} grid_axis;

typedef struct sampler {
  grid_mode mode;
  grid_padding padding;
  bool align_corners;
  int spatial;
  grid_axis axes[TERCEL_MAX_SPATIAL];
} sampler;

static tercel_status make_sampler(const tercel_node *node, const tercel_tensor *x, sampler *s, tercel_error *err) {
  int mode, padding;
  TERCEL_TRY(tercel_node_choice(node, "mode", modes, &mode, err));
  TERCEL_TRY(tercel_node_choice(node, "padding", paddings, &padding, err));
  s->mode = (grid_mode)mode;
  s->padding = (grid_padding)padding;
  s->align_corners = tercel_node_int(node, "align_corners") != 0;
  s->spatial = x->rank - 2;
  int64_t strides[TERCEL_MAX_RANK];
  tercel_tensor_strides(x, strides);
  for (int d = 0; d < s->spatial; ++d) {
    const int64_t size = x->dims[d + 2];
    const double edge = s->align_corners ? 0 : 0.5;
    s->axes[d] = (grid_axis){size, strides[d + 2], -edge, (double)(size - 1) + edge};
  }
  return TERCEL_OK;
}

/* v mirrored at both ends until it lies between them. */
static double reflect(double v, const grid_axis *a) {
  const double range = a->high - a->low;
  if (range <= 0) return a->low;
  const double from_low = fmod(fabs(v - a->low), 2 * range);
  return a->low + (from_low <= range ? from_low : 2 * range - from_low);
}

/* -1 .. 1 (the picture's ends) to elements, brought into the picture where the padding says so.  A place that is no number
 * counts as -1; what is far away stays countable. */
static double place_on(const sampler *s, const grid_axis *a, double n) {
  if (isnan(n)) n = -1;
  const double size = (double)a->size;
  double v = s->align_corners ? (n + 1) / 2 * (size - 1) : ((n + 1) * size - 1) / 2;
  if (s->mode == GRID_NEAREST) v = rint(v);
  if (s->padding == GRID_BORDER) v = fmin(fmax(v, 0), size - 1);
  v = fmin(fmax(v, -0x1p40), 0x1p40);
  return s->padding == GRID_REFLECTION && (v < a->low || v > a->high) ? reflect(v, a) : v;
}

/* Element i of an axis, or the one that the padding shows in its place; -1: none. */
static int64_t element_at(const sampler *s, const grid_axis *a, int64_t i) {
  if (i >= 0 && i < a->size) return i;
  if (s->padding == GRID_ZEROS || a->size == 0) return -1;
  const int64_t inside = s->padding == GRID_REFLECTION ? tercel_saturate_i64(reflect((double)i, a)) : i;
  return tercel_max_i64(0, tercel_min_i64(inside, a->size - 1));
}

/* Keys 1981, with a = -0.75: weights of the elements at -1, 0, 1, 2 for a place at t in [0, 1). */
static void cubic_weights(double t, double w[AXIS_TAPS]) {
  const double a = -0.75, u = 1 - t;
  w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
  w[3] = ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a;
}

/* Which elements of a channel a point shows, with weights; offset -1: padding. */
typedef struct taps {
  int count;
  int64_t offsets[MAX_TAPS];
  double weights[MAX_TAPS];
} taps;

/* Multiplies the taps so far by those of one more axis. */
static void add_axis(const sampler *s, const grid_axis *a, double v, taps *t, taps *work) {
  double weights[AXIS_TAPS] = {1};
  const int64_t floor_of = (int64_t)floor(v);
  int64_t first = floor_of;
  int count = 1;
  if (s->mode == GRID_LINEAR) {
    weights[0] = 1 - (v - (double)floor_of);
    weights[1] = v - (double)floor_of;
    count = 2;
  } else if (s->mode == GRID_CUBIC) {
    cubic_weights(v - (double)floor_of, weights);
    --first;
    count = AXIS_TAPS;
  }
  work->count = 0;
  for (int i = 0; i < t->count; ++i)
    for (int k = 0; k < count; ++k) {
      const int64_t at = element_at(s, a, first + k);
      work->offsets[work->count] = t->offsets[i] < 0 || at < 0 ? -1 : t->offsets[i] + at * a->stride;
      work->weights[work->count++] = t->weights[i] * weights[k];
    }
}

/* The grid names the last axis first. */
static const taps *find_taps(const sampler *s, const tercel_tensor *grid, int64_t point, taps buffers[2]) {
  taps *t = &buffers[0], *work = &buffers[1];
  t->count = 1;
  t->offsets[0] = 0;
  t->weights[0] = 1;
  for (int d = 0; d < s->spatial; ++d) {
    const double n = tercel_tensor_get_f64(grid, point * s->spatial + s->spatial - 1 - d);
    add_axis(s, &s->axes[d], place_on(s, &s->axes[d], n), t, work);
    taps *const done = work;
    work = t;
    t = done;
  }
  return t;
}

static void show(const tercel_tensor *x, int64_t channel, const sampler *s, const taps *t, tercel_tensor *y,
                 int64_t to) {
  static const uint64_t zero[2]; /* one cleared element of any type */
  if (s->mode == GRID_NEAREST) {
    const bool none = t->offsets[0] < 0;
    tercel_element_copy(y->data, to, none ? zero : x->data, none ? 0 : channel + t->offsets[0], x->dtype);
    return;
  }
  double sum = 0;
  for (int i = 0; i < t->count; ++i)
    if (t->offsets[i] >= 0) sum += t->weights[i] * tercel_tensor_get_f64(x, channel + t->offsets[i]);
  tercel_tensor_set_f64(y, to, sum);
}

static tercel_status eval_grid_sample(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *grid = eval->in[1];
  tercel_tensor *y = eval->out[0];
  sampler s;
  TERCEL_TRY(make_sampler(eval->node, x, &s, err));
  taps *buffers = tercel_arena_alloc_array(eval->scratch, 2, sizeof *buffers);
  if (buffers == NULL) return tercel_fail_memory(err, 2 * sizeof *buffers, "grid_sample");
  const int64_t channels = x->dims[1], channel = tercel_dims_product(x->dims, 2, x->rank);
  const int64_t points = tercel_dims_product(y->dims, 2, y->rank);
  for (int64_t n = 0; n < x->dims[0]; ++n)
    for (int64_t p = 0; p < points; ++p) {
      const taps *t = find_taps(&s, grid, n * points + p, buffers);
      for (int64_t c = n * channels; c < (n + 1) * channels; ++c) show(x, c * channel, &s, t, y, c * points + p);
    }
  return TERCEL_OK;
}

static double grid_sample_flops(const tercel_node *node, const tercel_tensor *const *in,
                                const tercel_tensor *const *out) {
  int mode;
  if (out[0] == NULL || tercel_node_choice(node, "mode", modes, &mode, NULL) != TERCEL_OK) return 0;
  return 2 * (double)tercel_tensor_num_elements(out[0]) *
         tercel_f64_pow(mode == GRID_NEAREST ? 1 : 2 * mode, in[0]->rank - 2);
}

static const tercel_attr_spec grid_sample_attrs[] = {
    {"mode", TERCEL_ATTR_STRING, false, 0, "linear", "nearest linear cubic"},
    {"padding", TERCEL_ATTR_STRING, false, 0, "zeros", "what lies outside: zeros border reflection"},
    {"align_corners", TERCEL_ATTR_INT, false, 0, NULL, "1: -1 and 1 are centers of elements, 0: outer edges"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_grid_sample = {
    .name = "grid_sample",
    .id = TERCEL_OP_GRID_SAMPLE,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "a picture sampled at the places in a grid",
    .attrs = grid_sample_attrs,
    .infer = infer_grid_sample,
    .eval = eval_grid_sample,
    .flops = grid_sample_flops,
};

/* ---- affine_grid --------------------------------------------------------------------------------------------------- */

static tercel_status infer_affine_grid(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_type *theta = &infer->in[0]->type;
  infer->out[0].type.dtype = theta->dtype;
  if (theta->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(theta->dtype))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "theta is %s, want floats",
                            tercel_dtype_name(theta->dtype));
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  int64_t count = 0, number;
  const tercel_dim *size = tercel_infer_contents(infer, 1, &count, err);
  const tercel_shape *t = &theta->shape, *list = &infer->in[1]->type.shape;
  tercel_dim open[TERCEL_MAX_SPATIAL];
  if (size == NULL) {
    if (list->rank != 1 || !tercel_dim_is_known(list->dims[0])) return TERCEL_OK;
    count = list->dims[0];
    for (int64_t d = 0; d < count && d < TERCEL_MAX_SPATIAL; ++d) open[d] = tercel_dim_unknown(infer->dims);
    size = open;
  }
  const int64_t spatial = count - 2;
  const bool fits = t->rank < 0 || (t->rank == 3 && (t->dims[1] < 0 || t->dims[1] == spatial) &&
                                    (t->dims[2] < 0 || t->dims[2] == spatial + 1));
  if ((spatial != 2 && spatial != 3) || !fits)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL,
                            "a size of %lld dims with theta of rank %d, want N,C and 2 or 3 spatial dims, and "
                            "N,spatial,spatial + 1",
                            (long long)count, t->rank);
  tercel_shape *out = &infer->out[0].type.shape;
  out->rank = (int)count;
  out->dims[0] = t->rank == 3 ? t->dims[0] : size[0];
  if (tercel_dim_is_known(out->dims[0]) && tercel_dim_get_number(infer->dims, size[0], &number) &&
      number != out->dims[0])
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "size says batch %lld, theta has %lld", (long long)number,
                            (long long)out->dims[0]);
  for (int d = 1; d <= spatial; ++d) {
    out->dims[d] = size[d + 1];
    if (tercel_dim_get_number(infer->dims, size[d + 1], &number) && number < 0)
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "size[%d] is %lld", d + 1, (long long)number);
  }
  out->dims[count - 1] = spatial;
  return tercel_infer_check_size(infer, 0, err);
}

/* Element i of n, in -1 .. 1. */
static double center_of(int64_t i, int64_t n, bool align_corners) {
  if (!align_corners) return (2 * (double)i + 1) / (double)n - 1;
  return n == 1 ? 0 : 2 * (double)i / (double)(n - 1) - 1;
}

static tercel_status eval_affine_grid(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const tercel_tensor *theta = eval->in[0];
  tercel_tensor *y = eval->out[0];
  const bool align_corners = tercel_node_int(eval->node, "align_corners") != 0;
  const int spatial = y->rank - 2;
  const int64_t points = tercel_dims_product(y->dims, 1, y->rank - 1);
  int64_t index[TERCEL_MAX_RANK] = {0};
  for (int64_t p = 0; p < y->dims[0] * points; ++p) {
    const int64_t matrix = p / points * spatial * (spatial + 1);
    for (int k = 0; k < spatial; ++k) {
      const int64_t row = matrix + k * (spatial + 1);
      double sum = tercel_tensor_get_f64(theta, row + spatial);
      for (int d = 0; d < spatial; ++d) /* the last axis stands first */
        sum += tercel_tensor_get_f64(theta, row + d) *
               center_of(index[spatial - 1 - d], y->dims[spatial - d], align_corners);
      tercel_tensor_set_f64(y, p * spatial + k, sum);
    }
    tercel_index_next(spatial, y->dims + 1, index);
  }
  return TERCEL_OK;
}

static double affine_grid_flops(const tercel_node *node, const tercel_tensor *const *in,
                                const tercel_tensor *const *out) {
  (void)node, (void)in;
  return out[0] == NULL ? 0 : 2.0 * (out[0]->rank - 2) * (double)tercel_tensor_num_elements(out[0]);
}

static const tercel_attr_spec affine_grid_attrs[] = {
    {"align_corners", TERCEL_ATTR_INT, false, 0, NULL, "1: -1 and 1 are centers of elements, 0: outer edges"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_affine_grid = {
    .name = "affine_grid",
    .id = TERCEL_OP_AFFINE_GRID,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "places of a picture's elements after an affine map",
    .attrs = affine_grid_attrs,
    .infer = infer_affine_grid,
    .eval = eval_affine_grid,
    .flops = affine_grid_flops,
};
