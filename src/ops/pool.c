/* pool: windows that slide over the spatial dims, each giving its largest element, its average or its p-norm. */
#include "ops/move.h"

#include <math.h>

typedef enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP } pool_kind;
static const char *const kinds[] = {"max", "average", "lp", NULL};

static tercel_status infer_pool(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  const tercel_node *node = infer->node;
  int kind;
  TERCEL_TRY(tercel_node_choice(node, "kind", kinds, &kind, err));
  const bool integers = tercel_dtype_is_integer(x->dtype) || x->dtype == TERCEL_DTYPE_BOOL;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype) && !(kind == POOL_MAX && integers))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%s pooling of %s", kinds[kind],
                            tercel_dtype_name(x->dtype));
  if (infer->num_outputs > 1 && kind != POOL_MAX)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%s pooling has no indices", kinds[kind]);
  TERCEL_TRY(tercel_check_layout(node, err));
  if (infer->num_outputs > 1 && tercel_node_layout(node) != TERCEL_LAYOUT_NCHW)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "pooling with channels last has no indices");
  infer->out[0].type.dtype = x->dtype;
  if (infer->num_outputs > 1) infer->out[1].type.dtype = TERCEL_DTYPE_I64;
  if (x->shape.rank < 0) return TERCEL_OK;
  if (x->shape.rank < 3)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "input of rank %d, want N, C and spatial dims",
                            x->shape.rank);
  const int64_t *kernel;
  const int first = tercel_first_spatial_dim(tercel_node_layout(node));
  TERCEL_TRY(tercel_window_kernel(node, x->shape.rank - 2, &kernel, err));
  tercel_shape out = x->shape;
  TERCEL_TRY(tercel_infer_windows(infer, out.rank - 2, x->shape.dims + first, kernel, out.dims + first, err));
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

/* What one window of one channel shows: sizes of the window clipped to the input (first, count per dim). */
typedef struct window {
  int spatial;
  int64_t first[TERCEL_MAX_SPATIAL], count[TERCEL_MAX_SPATIAL], step[TERCEL_MAX_SPATIAL];
  int64_t inside;  /* elements of it in the input */
  int64_t covered; /* in the input or its pads */
} window;

tercel_window_part tercel_window_at(const tercel_window *w, int64_t at) {
  const int64_t start = at * w->stride - w->pad_begin, step = w->dilation;
  const int64_t to_end = w->input - start, to_padded_end = to_end + w->pad_end;
  const int64_t first = start < 0 ? tercel_ceil_div(-start, step) : 0;
  const int64_t end = to_end > 0 ? tercel_min_i64(w->kernel, tercel_ceil_div(to_end, step)) : 0;
  const int64_t covered = to_padded_end > 0 ? tercel_min_i64(w->kernel, tercel_ceil_div(to_padded_end, step)) : 0;
  return (tercel_window_part){.first = first, .inside = tercel_max_i64(end - first, 0), .covered = covered};
}

static void clip_window(const tercel_window *dims, int spatial, const int64_t *at, window *w) {
  w->spatial = spatial;
  w->inside = w->covered = 1;
  for (int d = 0; d < spatial; ++d) {
    const tercel_window *g = &dims[d];
    const tercel_window_part part = tercel_window_at(g, at[d]);
    w->first[d] = at[d] * g->stride - g->pad_begin + part.first * g->dilation;
    w->count[d] = part.inside;
    w->step[d] = g->dilation;
    w->inside *= part.inside;
    w->covered *= part.covered;
  }
}

/* An element of the window. */
typedef struct cursor {
  int64_t index[TERCEL_MAX_SPATIAL];
} cursor;

static int64_t offset_of(const window *w, const cursor *c, const int64_t *strides) {
  int64_t offset = 0;
  for (int d = 0; d < w->spatial; ++d) offset += (w->first[d] + c->index[d] * w->step[d]) * strides[d];
  return offset;
}

/* NaN wins, as in the pointwise max; of equal ones the first. */
static bool beats(const tercel_tensor *x, int64_t a, int64_t best) {
  if (tercel_dtype_is_float(x->dtype)) {
    const double va = tercel_tensor_get_f64(x, a), vb = tercel_tensor_get_f64(x, best);
    return va > vb || (isnan(va) && !isnan(vb));
  }
  const int64_t va = tercel_tensor_get_i64(x, a), vb = tercel_tensor_get_i64(x, best);
  return tercel_dtype_get_kind(x->dtype) == TERCEL_KIND_UINT ? (uint64_t)va > (uint64_t)vb : va > vb;
}

/* The smallest value of the dtype, for a window that lies in the pads altogether. */
static void set_lowest(tercel_tensor *y, int64_t i) {
  switch (tercel_dtype_get_kind(y->dtype)) {
  case TERCEL_KIND_FLOAT: tercel_tensor_set_f64(y, i, -INFINITY); break;
  case TERCEL_KIND_INT: tercel_tensor_set_i64(y, i, (int64_t)(UINT64_MAX << (tercel_dtype_bits(y->dtype) - 1))); break;
  default: tercel_tensor_set_i64(y, i, 0);
  }
}

static int64_t find_max(const tercel_tensor *x, int64_t base, const window *w, const int64_t *strides) {
  cursor c = {{0}};
  int64_t best = -1;
  do {
    const int64_t at = base + offset_of(w, &c, strides);
    if (best < 0 || beats(x, at, best)) best = at;
  } while (tercel_index_next(w->spatial, w->count, c.index));
  return best;
}

static double sum_window(const tercel_tensor *x, int64_t base, const window *w, const int64_t *strides, bool norm,
                         double p) {
  cursor c = {{0}};
  double sum = 0;
  do {
    const double v = tercel_tensor_get_f64(x, base + offset_of(w, &c, strides));
    sum += norm ? tercel_f64_pow(fabs(v), p) : v;
  } while (tercel_index_next(w->spatial, w->count, c.index));
  return sum;
}

/* Indices count over the whole tensor; storage_order 1 counts the spatial dims of a channel with the first one fastest. */
static int64_t stored_index(const tercel_tensor *x, int64_t base, int64_t at, bool column_major) {
  if (!column_major) return at;
  int64_t rest = at - base, weight = tercel_dims_product(x->dims, 2, x->rank), result = base;
  for (int d = x->rank - 1; d >= 2; --d) {
    weight /= x->dims[d];
    result += rest % x->dims[d] * weight;
    rest /= x->dims[d];
  }
  return result;
}

static tercel_status eval_pool(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0], *indices = eval->num_outputs > 1 ? eval->out[1] : NULL;
  const tercel_tensor *shaped = y != NULL ? y : indices;
  const int spatial = x->rank - 2;
  const int64_t *kernel;
  tercel_window geometry[TERCEL_MAX_SPATIAL];
  int kind;
  TERCEL_TRY(tercel_node_choice(eval->node, "kind", kinds, &kind, err));
  TERCEL_TRY(tercel_window_kernel(eval->node, spatial, &kernel, err));
  const tercel_layout layout = tercel_node_layout(eval->node);
  const int first = tercel_first_spatial_dim(layout), channel_dim = tercel_channel_dim(layout, x->rank);
  TERCEL_TRY(tercel_windows(eval->node, spatial, x->dims + first, kernel, geometry, err));
  const bool count_pads = tercel_node_int(eval->node, "count_include_pad") != 0;
  const bool column_major = tercel_node_int(eval->node, "storage_order") != 0;
  const double p = (double)tercel_node_int(eval->node, "p");
  int64_t strides[TERCEL_MAX_RANK], at[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  const int64_t n = tercel_tensor_num_elements(shaped);
  for (int64_t i = 0; i < n; ++i) {
    window w;
    clip_window(geometry, spatial, at + first, &w);
    const int64_t base = at[0] * strides[0] + at[channel_dim] * strides[channel_dim];
    tercel_index_next(shaped->rank, shaped->dims, at);
    if (kind == POOL_MAX) {
      const int64_t best = w.inside > 0 ? find_max(x, base, &w, strides + first) : -1;
      if (y != NULL && best >= 0) tercel_element_copy(y->data, i, x->data, best, x->dtype);
      if (y != NULL && best < 0) set_lowest(y, i);
      if (indices != NULL) tercel_tensor_set_i64(indices, i, best < 0 ? -1 : stored_index(x, base, best, column_major));
      continue;
    }
    const double sum = w.inside > 0 ? sum_window(x, base, &w, strides + first, kind == POOL_LP, p) : 0;
    if (kind == POOL_LP)
      tercel_tensor_set_f64(y, i, tercel_f64_pow(sum, 1 / p));
    else
      tercel_tensor_set_f64(y, i, sum / (double)(count_pads ? w.covered : w.inside));
  }
  return TERCEL_OK;
}

static tercel_status verify_pool(const tercel_node *node, tercel_error *err) {
  int kind;
  TERCEL_TRY(tercel_node_choice(node, "kind", kinds, &kind, err));
  const int64_t p = tercel_node_int(node, "p");
  return kind != POOL_LP || p > 0
             ? TERCEL_OK
             : tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "p is %lld, want 1 or more", (long long)p);
}

static double pool_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)in;
  size_t count = 0;
  const int64_t *kernel = tercel_node_ints(node, "kernel", &count);
  double flops = out[0] != NULL ? (double)tercel_tensor_num_elements(out[0]) : 0;
  for (size_t d = 0; d < count; ++d) flops *= (double)kernel[d];
  return flops;
}

static const tercel_attr_spec pool_attrs[] = {
    {"kind", TERCEL_ATTR_STRING, true, 0, NULL, "max, average, lp"},
    {"kernel", TERCEL_ATTR_INTS, true, 0, NULL, "size of the window in each spatial dim"},
    {"strides", TERCEL_ATTR_INTS, false, 0, NULL, "steps of the window in each spatial dim; none: 1"},
    {"dilations", TERCEL_ATTR_INTS, false, 0, NULL, "distance of the window's elements in each spatial dim; none: 1"},
    {"pads", TERCEL_ATTR_INTS, false, 0, NULL, "begin of each spatial dim, then end of each; none: 0"},
    {"auto_pad", TERCEL_ATTR_STRING, false, 0, "", "\"\" (pads), same_upper, same_lower, valid"},
    {"ceil_mode", TERCEL_ATTR_INT, false, 0, NULL, "1: a last window that reaches over the end counts"},
    {"count_include_pad", TERCEL_ATTR_INT, false, 0, NULL, "1: pads count as zeros in averages"},
    {"p", TERCEL_ATTR_INT, false, 2, NULL, "exponent of the lp norm"},
    {"layout", TERCEL_ATTR_STRING, false, 0, "nchw", "of input and result: nchw, nhwc (channels last)"},
    {"storage_order", TERCEL_ATTR_INT, false, 0, NULL, "1: indices count column-major within a channel"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_pool = {
    .name = "pool",
    .id = TERCEL_OP_POOL,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .about = "largest element, average or p-norm of sliding windows",
    .attrs = pool_attrs,
    .infer = infer_pool,
    .verify = verify_pool,
    .eval = eval_pool,
    .flops = pool_flops,
};
