/* deform_conv: convolution of pictures whose taps are moved by offsets and weighted by a mask (Dai et al. 2017, Zhu et al. 2018). */
#include <math.h>

#include "ops/epilogue.h"
#include "ops/move.h"

enum { X, W, OFFSET, BIAS, MASK };

static bool differ(tercel_dim a, tercel_dim b) { return tercel_dim_is_known(a) && tercel_dim_is_known(b) && a != b; }

/* Input i must have these dims. */
static tercel_status check_shape(tercel_infer *infer, size_t i, const tercel_shape *want, tercel_error *err) {
  if (!tercel_has_input(infer, i)) return TERCEL_OK;
  const tercel_shape *have = &infer->in[i]->type.shape;
  TERCEL_TRY(tercel_infer_check_dtype(infer, i, err));
  if (have->rank < 0) return TERCEL_OK;
  bool fits = have->rank == want->rank;
  for (int d = 0; fits && d < want->rank; ++d) fits = !differ(have->dims[d], want->dims[d]);
  if (fits) return TERCEL_OK;
  tercel_text text = {0};
  tercel_shape_print(infer->dims, have, &text);
  tercel_text_add(&text, ", want ");
  tercel_shape_print(infer->dims, want, &text);
  const tercel_status status =
      tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s", i, text.data ? text.data : "?");
  tercel_text_deinit(&text);
  return status;
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_shape *x = &infer->in[X]->type.shape, *w = &infer->in[W]->type.shape;
  const tercel_dtype dtype = infer->in[X]->type.dtype;
  infer->out[0].type.dtype = dtype;
  if (dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(dtype))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "input is %s, want floats", tercel_dtype_name(dtype));
  const int64_t group = tercel_node_int(node, "group"), moved = tercel_node_int(node, "offset_group");
  if (group < 1 || group > INT32_MAX || moved < 1 || moved > INT32_MAX)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "group is %lld, offset_group %lld", (long long)group,
                            (long long)moved);
  if (x->rank < 0 || w->rank < 0) return TERCEL_OK;
  if (x->rank != 4 || w->rank != 4)
    return tercel_node_fail(node, err, TERCEL_UNSUPPORTED, "input of rank %d, weights of rank %d, want 4", x->rank,
                            w->rank);
  tercel_dims *dims = infer->dims;
  const bool odd = (tercel_dim_is_known(w->dims[0]) && w->dims[0] % group != 0) ||
                   (tercel_dim_is_known(x->dims[1]) && x->dims[1] % moved != 0);
  if (odd || differ(x->dims[1], tercel_dim_mul(dims, w->dims[1], group)))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL,
                            "%lld channels for weights of %lld, group %lld, offset_group %lld", (long long)x->dims[1],
                            (long long)w->dims[1], (long long)group, (long long)moved);
  tercel_shape out = {4, {x->dims[0], w->dims[0]}};
  TERCEL_TRY(tercel_infer_windows(infer, 2, x->dims + 2, w->dims + 2, out.dims + 2, err));
  const tercel_dim taps = tercel_dim_mul(dims, tercel_dim_mul(dims, w->dims[2], w->dims[3]), moved);
  const tercel_shape offsets = {4, {x->dims[0], tercel_dim_mul(dims, taps, 2), out.dims[2], out.dims[3]}};
  const tercel_shape mask = {4, {x->dims[0], taps, out.dims[2], out.dims[3]}}, bias = {1, {w->dims[0]}};
  TERCEL_TRY(check_shape(infer, OFFSET, &offsets, err));
  TERCEL_TRY(check_shape(infer, BIAS, &bias, err));
  TERCEL_TRY(check_shape(infer, MASK, &mask, err));
  infer->out[0].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

/* Between the elements of a plane, which is 0 outside. */
static double sample(const double *plane, const tercel_window *size, double y, double x) {
  const int64_t height = size[0].input, width = size[1].input;
  if (!(y > -1 && x > -1 && y < (double)height && x < (double)width)) return 0;
  const int64_t row = (int64_t)floor(y), column = (int64_t)floor(x);
  const double down = y - (double)row, right = x - (double)column;
  double sum = 0;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      const bool inside = row + i >= 0 && row + i < height && column + j >= 0 && column + j < width;
      const double weight = (i ? down : 1 - down) * (j ? right : 1 - right);
      if (inside) sum += weight * plane[(row + i) * width + column + j];
    }
  return sum;
}

typedef struct deformed {
  const double *x, *offset, *mask; /* mask NULL: all 1 */
  int64_t channels, moved_groups, taps, places;
  tercel_window windows[2];
} deformed;

/* What tap `tap` of channel c sees at place `at` of the result. */
static double seen_by(const deformed *d, int64_t picture, int64_t c, int64_t tap, int64_t at) {
  const tercel_window *w = d->windows;
  const int64_t moved = c / (d->channels / d->moved_groups);
  const int64_t which = (picture * d->moved_groups + moved) * d->taps + tap;
  const double *offset = d->offset + 2 * which * d->places + at;
  const int64_t row = at / w[1].output * w[0].stride - w[0].pad_begin + tap / w[1].kernel * w[0].dilation;
  const int64_t column = at % w[1].output * w[1].stride - w[1].pad_begin + tap % w[1].kernel * w[1].dilation;
  const double *plane = d->x + (picture * d->channels + c) * w[0].input * w[1].input;
  const double v = sample(plane, w, (double)row + offset[0], (double)column + offset[d->places]);
  return d->mask == NULL ? v : v * d->mask[which * d->places + at];
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[X], *w = eval->in[W], *y = eval->out[0];
  const tercel_tensor *bias_tensor = tercel_input_tensor(eval->in, eval->num_inputs, BIAS);
  const tercel_tensor *mask = tercel_input_tensor(eval->in, eval->num_inputs, MASK);
  const double *weights, *bias = NULL;
  deformed d = {.channels = x->dims[1], .moved_groups = tercel_node_int(eval->node, "offset_group")};
  TERCEL_TRY(tercel_windows(eval->node, 2, x->dims + 2, w->dims + 2, d.windows, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &d.x, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, w, &weights, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[OFFSET], &d.offset, err));
  if (bias_tensor != NULL) TERCEL_TRY(tercel_eval_widen_f64(eval, bias_tensor, &bias, err));
  if (mask != NULL) TERCEL_TRY(tercel_eval_widen_f64(eval, mask, &d.mask, err));
  d.taps = w->dims[2] * w->dims[3];
  d.places = y->dims[2] * y->dims[3];
  const int64_t group = tercel_node_int(eval->node, "group"), filters = y->dims[1], per_group = w->dims[1];
  int64_t to = 0;
  for (int64_t n = 0; n < y->dims[0]; ++n)
    for (int64_t m = 0; m < filters; ++m)
      for (int64_t at = 0; at < d.places; ++at) {
        double sum = bias == NULL ? 0 : bias[m];
        for (int64_t c = 0; c < per_group; ++c)
          for (int64_t tap = 0; tap < d.taps; ++tap)
            sum += weights[(m * per_group + c) * d.taps + tap] *
                   seen_by(&d, n, m / (filters / group) * per_group + c, tap, at);
        tercel_tensor_set_f64(eval->out[0], to++, sum);
      }
  return TERCEL_OK;
}

/* Each tap is 4 elements weighted, then the product. */
static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node;
  if (out[0] == NULL || in[W]->rank != 4) return 0;
  return 10.0 * (double)tercel_tensor_num_elements(out[0]) * (double)(in[W]->dims[1] * in[W]->dims[2] * in[W]->dims[3]);
}

static const tercel_attr_spec attrs[] = {
    {"group", TERCEL_ATTR_INT, false, 1, NULL, "independent blocks of channels"},
    {"offset_group", TERCEL_ATTR_INT, false, 1, NULL, "blocks of channels with offsets of their own"},
    {"strides", TERCEL_ATTR_INTS, false, 0, NULL, "step of the window, one a spatial dim; absent: 1"},
    {"dilations", TERCEL_ATTR_INTS, false, 0, NULL, "distance of the kernel's elements; absent: 1"},
    {"pads", TERCEL_ATTR_INTS, false, 0, NULL, "zeros before each spatial dim, then after each; absent: 0"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_deform_conv = {
    .name = "deform_conv",
    .id = TERCEL_OP_DEFORM_CONV,
    .min_inputs = 3,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "convolution whose taps are moved by offsets and weighted by a mask",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = flops,
};
