/* roi_align, max_roi_pool: regions of pictures brought to one size. */
#include <math.h>

#include "ops/epilogue.h"
#include "ops/move.h"

/* Edges of a region beyond this are a mistake, and would make the loops endless. */
static const double farthest = 1 << 24;

/* Input i, of regions: rank 2 with `columns` numbers each. */
static tercel_status check_rois(const tercel_infer *infer, int64_t columns, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *rois = &infer->in[1]->type.shape;
  const tercel_dtype dtype = infer->in[0]->type.dtype;
  if (dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input 0 is %s, want floats",
                            tercel_dtype_name(dtype));
  TERCEL_TRY(tercel_infer_check_dtype(infer, 1, err));
  if (x->rank >= 0 && x->rank != 4)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of rank %d, want N,C,H,W", x->rank);
  if (rois->rank < 0 || (rois->rank == 2 && (!tercel_dim_is_known(rois->dims[1]) || rois->dims[1] == columns)))
    return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                          "regions of rank %d with %lld numbers each, want rank 2 with %lld", rois->rank,
                          rois->rank == 2 ? (long long)rois->dims[1] : -1LL, (long long)columns);
}

static tercel_status give_shape(tercel_infer *infer, int64_t height, int64_t width, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *rois = &infer->in[1]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  if (height < 1 || width < 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "an output of %lld x %lld", (long long)height,
                            (long long)width);
  const tercel_dim count = rois->rank < 0 ? tercel_dim_unknown(infer->dims) : rois->dims[0];
  const tercel_dim channels = x->rank < 0 ? tercel_dim_unknown(infer->dims) : x->dims[1];
  infer->out[0].type.shape = (tercel_shape){4, {count, channels, height, width}};
  return tercel_infer_check_size(infer, 0, err);
}

/* A region's picture, and whether its edges can be worked with. */
static tercel_status check_region(const tercel_eval *eval, int64_t roi, double picture, const double *edges,
                                  tercel_error *err) {
  const int64_t pictures = eval->in[0]->dims[0];
  if (!(picture >= 0 && picture < (double)pictures))
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "region %lld is of picture %g, there are %lld",
                            (long long)roi, picture, (long long)pictures);
  for (int i = 0; i < 4; ++i)
    if (!(fabs(edges[i]) <= farthest))
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "region %lld has an edge at %g", (long long)roi,
                              edges[i]);
  return TERCEL_OK;
}

static double scale_of(const tercel_node *node) { return tercel_node_float(node, "spatial_scale"); }

/* ---- roi_align ----------------------------------------------------------------------------------------------------- */

static const char *const modes[] = {"avg", "max", NULL};
static const char *const coordinates[] = {"half_pixel", "output_half_pixel", NULL};

static tercel_status infer_roi_align(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  int choice;
  TERCEL_TRY(tercel_node_choice(node, "mode", modes, &choice, err));
  TERCEL_TRY(tercel_node_choice(node, "coordinate", coordinates, &choice, err));
  TERCEL_TRY(check_rois(infer, 4, err));
  TERCEL_TRY(tercel_infer_check_indices(infer, 2, err));
  const int64_t ratio = tercel_node_int(node, "sampling_ratio");
  if (ratio < 0 || ratio > INT16_MAX)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "sampling_ratio is %lld", (long long)ratio);
  const tercel_shape *rois = &infer->in[1]->type.shape, *pictures = &infer->in[2]->type.shape;
  const bool known = rois->rank == 2 && pictures->rank == 1 && tercel_dim_is_known(rois->dims[0]) &&
                     tercel_dim_is_known(pictures->dims[0]);
  if ((pictures->rank >= 0 && pictures->rank != 1) || (known && rois->dims[0] != pictures->dims[0]))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "picture numbers of rank %d, want one for each region",
                            pictures->rank);
  return give_shape(infer, tercel_node_int(node, "output_height"), tercel_node_int(node, "output_width"), err);
}

/* One direction of a region: `bins` parts, each sampled at `samples` places. */
typedef struct span {
  double start, bin;
  int64_t samples;
} span;

static span span_of(double from, double to, int64_t bins, int64_t ratio, bool half_pixel) {
  const double shift = half_pixel ? 0.5 : 0, start = from - shift;
  const double length = half_pixel ? to - from : fmax(to - from, 1); /* the older rule has no smaller regions */
  return (span){start, length / (double)bins, ratio > 0 ? ratio : (int64_t)ceil(length / (double)bins)};
}

static double sample_place(const span *s, int64_t bin, int64_t sample) {
  return s->start + ((double)bin + ((double)sample + 0.5) / (double)s->samples) * s->bin;
}

/* The two elements of an axis around a place, and the second one's share; false: outside. */
typedef struct pair {
  int64_t low, high;
  double share;
} pair;

static bool pair_of(double v, int64_t size, pair *out) {
  if (v < -1 || v > (double)size) return false;
  v = fmin(fmax(v, 0), (double)(size - 1));
  out->low = (int64_t)v;
  out->high = tercel_min_i64(out->low + 1, size - 1);
  out->share = v - (double)out->low;
  return true;
}

/* A sample's average of the four elements around it, or the largest weighted one. */
static double sample(const double *plane, int64_t width, const pair *y, const pair *x, bool max) {
  const double *upper = plane + y->low * width, *lower = plane + y->high * width;
  const double a = (1 - y->share) * (1 - x->share) * upper[x->low], b = (1 - y->share) * x->share * upper[x->high];
  const double c = y->share * (1 - x->share) * lower[x->low], d = y->share * x->share * lower[x->high];
  return max ? fmax(fmax(a, b), fmax(c, d)) : a + b + c + d;
}

static double pool_bin(const double *plane, const int64_t *size, const span *rows, const span *columns, int64_t i,
                       int64_t j, bool max) {
  double result = 0;
  for (int64_t sy = 0; sy < rows->samples; ++sy)
    for (int64_t sx = 0; sx < columns->samples; ++sx) {
      pair y, x;
      const bool inside =
          pair_of(sample_place(rows, i, sy), size[0], &y) && pair_of(sample_place(columns, j, sx), size[1], &x);
      const double v = inside ? sample(plane, size[1], &y, &x, max) : 0;
      result = !max ? result + v : sy + sx == 0 ? v : fmax(result, v);
    }
  return max ? result : result / (double)tercel_max_i64(rows->samples * columns->samples, 1);
}

static tercel_status eval_roi_align(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *rois = eval->in[1], *pictures = eval->in[2];
  tercel_tensor *y = eval->out[0];
  int mode, coordinate;
  const double *wide;
  TERCEL_TRY(tercel_node_choice(eval->node, "mode", modes, &mode, err));
  TERCEL_TRY(tercel_node_choice(eval->node, "coordinate", coordinates, &coordinate, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &wide, err));
  const int64_t channels = x->dims[1], height = y->dims[2], width = y->dims[3], plane = x->dims[2] * x->dims[3];
  const int64_t ratio = tercel_node_int(eval->node, "sampling_ratio");
  const double scale = scale_of(eval->node);
  int64_t to = 0;
  for (int64_t r = 0; r < y->dims[0]; ++r) {
    double edges[4];
    for (int i = 0; i < 4; ++i) edges[i] = tercel_tensor_get_f64(rois, 4 * r + i) * scale;
    const int64_t picture = tercel_tensor_get_i64(pictures, r);
    TERCEL_TRY(check_region(eval, r, (double)picture, edges, err));
    const span columns = span_of(edges[0], edges[2], width, ratio, coordinate == 0);
    const span rows = span_of(edges[1], edges[3], height, ratio, coordinate == 0);
    for (int64_t c = 0; c < channels && plane > 0; ++c)
      for (int64_t i = 0; i < height * width; ++i)
        tercel_tensor_set_f64(y, to++,
                              pool_bin(wide + (picture * channels + c) * plane, x->dims + 2, &rows, &columns, i / width,
                                       i % width, mode == 1));
  }
  return TERCEL_OK;
}

static const tercel_attr_spec roi_align_attrs[] = {
    {"mode", TERCEL_ATTR_STRING, false, 0, "avg", "avg or max of a bin's samples"},
    {"coordinate", TERCEL_ATTR_STRING, false, 0, "half_pixel",
     "half_pixel: edges less 0.5; output_half_pixel: as given"},
    {"output_height", TERCEL_ATTR_INT, false, 1, NULL, "bins of a region"},
    {"output_width", TERCEL_ATTR_INT, false, 1, NULL, "bins of a region"},
    {"sampling_ratio", TERCEL_ATTR_INT, false, 0, NULL, "samples a bin in each direction; 0: one an element"},
    {"spatial_scale", TERCEL_ATTR_FLOAT, false, 1, NULL, "from the regions' units to elements"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_roi_align = {
    .name = "roi_align",
    .id = TERCEL_OP_ROI_ALIGN,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "regions of pictures sampled between their elements into bins",
    .attrs = roi_align_attrs,
    .infer = infer_roi_align,
    .eval = eval_roi_align,
};

/* ---- max_roi_pool -------------------------------------------------------------------------------------------------- */

static tercel_status infer_max_roi_pool(tercel_infer *infer, tercel_error *err) {
  size_t count;
  const int64_t *pooled = tercel_node_ints(infer->node, "pooled_shape", &count);
  if (count != 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "pooled_shape has %zu numbers, want 2", count);
  TERCEL_TRY(check_rois(infer, 5, err));
  return give_shape(infer, pooled[0], pooled[1], err);
}

/* Elements [first, end) of an axis that bin `bin` of `bins` covers; the region's edges are whole elements, both inside. */
static void bin_of(double from, double to, int64_t bin, int64_t bins, int64_t size, int64_t *first, int64_t *end) {
  const int64_t start = (int64_t)round(from), length = tercel_max_i64((int64_t)round(to) - start + 1, 1);
  const double part = (double)length / (double)bins;
  *first = tercel_max_i64(0, tercel_min_i64(start + (int64_t)floor((double)bin * part), size));
  *end = tercel_max_i64(0, tercel_min_i64(start + (int64_t)ceil((double)(bin + 1) * part), size));
}

static tercel_status eval_max_roi_pool(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0], *rois = eval->in[1];
  tercel_tensor *y = eval->out[0];
  const double scale = scale_of(eval->node);
  const int64_t channels = x->dims[1], height = y->dims[2], width = y->dims[3];
  for (int64_t r = 0; r < y->dims[0]; ++r) {
    double edges[4];
    const double picture = tercel_tensor_get_f64(rois, 5 * r);
    for (int i = 0; i < 4; ++i) edges[i] = tercel_tensor_get_f64(rois, 5 * r + 1 + i) * scale;
    TERCEL_TRY(check_region(eval, r, picture, edges, err));
    for (int64_t k = 0; k < channels * height * width; ++k) {
      const int64_t c = (int64_t)picture * channels + k / (height * width);
      int64_t top, bottom, left, right;
      bin_of(edges[1], edges[3], k / width % height, height, x->dims[2], &top, &bottom);
      bin_of(edges[0], edges[2], k % width, width, x->dims[3], &left, &right);
      double result = top < bottom && left < right ? -INFINITY : 0;
      for (int64_t i = top; i < bottom; ++i)
        for (int64_t j = left; j < right; ++j) {
          const double v = tercel_tensor_get_f64(x, (c * x->dims[2] + i) * x->dims[3] + j);
          if (v > result || isnan(v)) result = v;
        }
      tercel_tensor_set_f64(y, r * channels * height * width + k, result);
    }
  }
  return TERCEL_OK;
}

static const tercel_attr_spec max_roi_pool_attrs[] = {
    {"pooled_shape", TERCEL_ATTR_INTS, true, 0, NULL, "rows and columns of a region's bins"},
    {"spatial_scale", TERCEL_ATTR_FLOAT, false, 1, NULL, "from the regions' units to elements"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_max_roi_pool = {
    .name = "max_roi_pool",
    .id = TERCEL_OP_MAX_ROI_POOL,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "the largest element of each bin of regions of pictures",
    .attrs = max_roi_pool_attrs,
    .infer = infer_max_roi_pool,
    .eval = eval_max_roi_pool,
};
