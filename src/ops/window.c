/* Windows: how a kernel with strides, dilations and pads slides over a spatial dim (conv, pool), and the transposed case.
 *
 *     extent = dilation * (kernel - 1) + 1
 *     output = floor((input + pads - extent) / stride) + 1            ceil with ceil_mode, no window beginning behind the input
 *     transposed output = stride * (input - 1) + output_padding + extent - pads
 *
 * ONNX Conv-22, MaxPool-22, ConvTranspose-22 say how auto_pad and output_shape turn into pads. */
#include <string.h>

#include "ops/move.h"

/* Attributes beyond this are a mistake, and bounding them keeps the arithmetic below from overflowing. */
static const int64_t largest = INT32_MAX;

typedef enum auto_pad { PAD_EXPLICIT, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_VALID } auto_pad;

typedef struct sliding {
  auto_pad auto_pad;
  bool ceil_mode;
  bool has_output_shape;
  int64_t strides[TERCEL_MAX_SPATIAL], dilations[TERCEL_MAX_SPATIAL];
  int64_t pads[2 * TERCEL_MAX_SPATIAL];
  int64_t output_padding[TERCEL_MAX_SPATIAL], output_shape[TERCEL_MAX_SPATIAL];
} sliding;

static tercel_status read_auto_pad(const tercel_node *node, auto_pad *out, tercel_error *err) {
  static const char *const names[] = {
      [PAD_EXPLICIT] = "", [PAD_SAME_UPPER] = "same_upper", [PAD_SAME_LOWER] = "same_lower", [PAD_VALID] = "valid"};
  const char *text = tercel_node_string(node, "auto_pad");
  if (text == NULL) text = "";
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (strcmp(text, names[i]) != 0) continue;
    *out = (auto_pad)i;
    return TERCEL_OK;
  }
  return tercel_fail(err, TERCEL_INVALID_MODEL,
                     "%s '%s': auto_pad '%s', want 'same_upper', 'same_lower', 'valid' or nothing", node->op->name,
                     node->name, text);
}

/* One number a spatial dim (or `want` of them), all in [low, largest]; absent: all `standard`. */
static tercel_status read_list(const tercel_node *node, const char *name, size_t want, int64_t low, int64_t standard,
                               int64_t *out, tercel_error *err) {
  const tercel_attr *attr = tercel_node_attr(node, name);
  if (attr == NULL) {
    for (size_t i = 0; i < want; ++i) out[i] = standard;
    return TERCEL_OK;
  }
  if (attr->count != want)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %zu %s, want %zu", node->op->name, node->name, attr->count,
                       name, want);
  for (size_t i = 0; i < want; ++i) {
    out[i] = attr->value.ints[i];
    if (out[i] < low || out[i] > largest)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %s[%zu] is %lld, want %lld .. %lld", node->op->name,
                         node->name, name, i, (long long)out[i], (long long)low, (long long)largest);
  }
  return TERCEL_OK;
}

/* output_shape may name the spatial dims only, or all dims. */
static tercel_status read_output_shape(const tercel_node *node, int spatial, sliding *out, tercel_error *err) {
  const tercel_attr *attr = tercel_node_attr(node, "output_shape");
  out->has_output_shape = attr != NULL && attr->count > 0;
  if (!out->has_output_shape) return TERCEL_OK;
  const size_t want = (size_t)spatial;
  if (attr->count != want && attr->count != want + 2)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %zu output_shape, want %zu", node->op->name, node->name,
                       attr->count, want);
  for (size_t i = 0; i < want; ++i) {
    out->output_shape[i] = attr->value.ints[attr->count - want + i];
    if (out->output_shape[i] < 1 || out->output_shape[i] > largest)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': output_shape[%zu] is %lld, want 1 .. %lld",
                         node->op->name, node->name, i, (long long)out->output_shape[i], (long long)largest);
  }
  return TERCEL_OK;
}

static tercel_status read_sliding(const tercel_node *node, int spatial, bool transposed, sliding *out,
                                  tercel_error *err) {
  const size_t count = (size_t)spatial;
  TERCEL_TRY(read_auto_pad(node, &out->auto_pad, err));
  TERCEL_TRY(read_list(node, "strides", count, 1, 1, out->strides, err));
  TERCEL_TRY(read_list(node, "dilations", count, 1, 1, out->dilations, err));
  TERCEL_TRY(read_list(node, "pads", 2 * count, 0, 0, out->pads, err));
  const tercel_attr *ceil_mode = tercel_node_attr(node, "ceil_mode");
  out->ceil_mode = ceil_mode != NULL && ceil_mode->value.i != 0;
  if (!transposed) return TERCEL_OK;
  TERCEL_TRY(read_list(node, "output_padding", count, 0, 0, out->output_padding, err));
  return read_output_shape(node, spatial, out, err);
}

static tercel_status fail_dim(const tercel_node *node, int i, const char *what, int64_t number, tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': spatial dim %d: %s (%lld)", node->op->name, node->name, i,
                     what, (long long)number);
}

/* Begin and end of a total that auto_pad or output_shape asks for. */
static void share_pads(int64_t total, bool more_at_end, tercel_window *w) {
  const int64_t half = total / 2;
  w->pad_begin = more_at_end ? half : total - half;
  w->pad_end = total - w->pad_begin;
}

static bool extent_of(int64_t kernel, int64_t dilation, int64_t *out) {
  return kernel > 0 && tercel_mul_i64(kernel - 1, dilation, out) && tercel_add_i64(*out, 1, out) &&
         *out <= INT64_MAX / 4;
}

/* Input, kernel and the plain attributes of dim i; *extent is what the kernel covers. */
static tercel_status start_window(const tercel_node *node, int spatial, int i, const sliding *s, int64_t input,
                                  int64_t kernel, tercel_window *w, int64_t *extent, tercel_error *err) {
  *w = (tercel_window){.kernel = kernel,
                       .stride = s->strides[i],
                       .dilation = s->dilations[i],
                       .input = input,
                       .pad_begin = s->auto_pad == PAD_EXPLICIT ? s->pads[i] : 0,
                       .pad_end = s->auto_pad == PAD_EXPLICIT ? s->pads[spatial + i] : 0};
  if (input > INT64_MAX / 4) return fail_dim(node, i, "the input is too large", input, err);
  if (!extent_of(kernel, w->dilation, extent))
    return fail_dim(node, i, "the kernel is empty or too large", kernel, err);
  return TERCEL_OK;
}

static tercel_status make_window(const tercel_node *node, int spatial, int i, const sliding *s, int64_t input,
                                 int64_t kernel, tercel_window *w, tercel_error *err) {
  int64_t extent;
  TERCEL_TRY(start_window(node, spatial, i, s, input, kernel, w, &extent, err));
  if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) {
    w->output = tercel_ceil_div(input, w->stride);
    const int64_t total = tercel_max_i64((w->output - 1) * w->stride + extent - input, 0);
    share_pads(total, s->auto_pad == PAD_SAME_UPPER, w);
    return TERCEL_OK;
  }
  const int64_t room = input + w->pad_begin + w->pad_end - extent;
  if (room < 0) return fail_dim(node, i, "the kernel is larger than the padded input, by", -room, err);
  w->output = room / w->stride + 1;
  if (s->ceil_mode && s->auto_pad == PAD_EXPLICIT) {
    w->output = tercel_ceil_div(room, w->stride) + 1;
    if ((w->output - 1) * w->stride >= input + w->pad_begin) --w->output;
  }
  return TERCEL_OK;
}

static tercel_status make_transposed_window(const tercel_node *node, int spatial, int i, const sliding *s,
                                            int64_t input, int64_t kernel, tercel_window *w, tercel_error *err) {
  int64_t extent, full;
  TERCEL_TRY(start_window(node, spatial, i, s, input, kernel, w, &extent, err));
  if (input == 0) return fail_dim(node, i, "the input is empty", input, err);
  if (!tercel_mul_i64(w->stride, input - 1, &full) || full > INT64_MAX / 4)
    return fail_dim(node, i, "the output is too large", input, err);
  full += s->output_padding[i] + extent;
  const bool same = s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER;
  if (same || s->has_output_shape) {
    w->output = s->has_output_shape ? s->output_shape[i] : input * w->stride;
    share_pads(tercel_max_i64(full - w->output, 0), s->auto_pad == PAD_SAME_UPPER, w);
    return TERCEL_OK;
  }
  w->output = full - w->pad_begin - w->pad_end;
  if (w->output < 1) return fail_dim(node, i, "the pads leave no output", w->output, err);
  return TERCEL_OK;
}

tercel_status tercel_window_kernel(const tercel_node *node, int spatial, const int64_t **out, tercel_error *err) {
  size_t count = 0;
  *out = tercel_node_ints(node, "kernel", &count);
  if (*out == NULL || count != (size_t)spatial)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "kernel of %zu dims for an input of %d spatial dims",
                            count, spatial);
  for (int i = 0; i < spatial; ++i)
    if ((*out)[i] < 1)
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "kernel[%d] is %lld, want 1 or more", i,
                              (long long)(*out)[i]);
  return TERCEL_OK;
}

tercel_status tercel_windows(const tercel_node *node, int spatial, const int64_t *in_dims, const int64_t *kernel_dims,
                             tercel_window *out, tercel_error *err) {
  sliding s = {0};
  TERCEL_TRY(read_sliding(node, spatial, false, &s, err));
  for (int i = 0; i < spatial; ++i)
    TERCEL_TRY(make_window(node, spatial, i, &s, in_dims[i], kernel_dims[i], &out[i], err));
  return TERCEL_OK;
}

tercel_status tercel_conv_transpose_windows(const tercel_node *node, int spatial, const int64_t *in_dims,
                                            const int64_t *kernel_dims, tercel_window *out, tercel_error *err) {
  sliding s = {0};
  TERCEL_TRY(read_sliding(node, spatial, true, &s, err));
  for (int i = 0; i < spatial; ++i)
    TERCEL_TRY(make_transposed_window(node, spatial, i, &s, in_dims[i], kernel_dims[i], &out[i], err));
  return TERCEL_OK;
}

/* ---- symbolic ---- */

static tercel_dim extent_dim(tercel_dims *dims, tercel_dim kernel, int64_t dilation) {
  const tercel_dim steps = tercel_dim_sub(dims, kernel, 1);
  return tercel_dim_add(dims, tercel_dim_mul(dims, steps, dilation), 1);
}

static tercel_dim output_dim(tercel_dims *dims, const sliding *s, int spatial, int i, tercel_dim input,
                             tercel_dim kernel) {
  const int64_t stride = s->strides[i];
  if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) return tercel_dim_ceil_div(dims, input, stride);
  const bool explicit = s->auto_pad == PAD_EXPLICIT;
  const int64_t begin = explicit ? s->pads[i] : 0, end = explicit ? s->pads[spatial + i] : 0;
  const tercel_dim extent = extent_dim(dims, kernel, s->dilations[i]);
  const tercel_dim room = tercel_dim_sub(dims, tercel_dim_add(dims, input, begin + end), extent);
  if (!s->ceil_mode || !explicit) return tercel_dim_add(dims, tercel_dim_floor_div(dims, room, stride), 1);
  const tercel_dim covering = tercel_dim_add(dims, tercel_dim_ceil_div(dims, room, stride), 1);
  const tercel_dim last = tercel_dim_sub(dims, tercel_dim_add(dims, input, begin), 1); /* where a window may begin */
  return tercel_dim_min(dims, covering, tercel_dim_add(dims, tercel_dim_floor_div(dims, last, stride), 1));
}

static tercel_dim transposed_output_dim(tercel_dims *dims, const sliding *s, int spatial, int i, tercel_dim input,
                                        tercel_dim kernel) {
  const int64_t stride = s->strides[i];
  if (s->has_output_shape) return s->output_shape[i];
  if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) return tercel_dim_mul(dims, input, stride);
  const bool explicit = s->auto_pad == PAD_EXPLICIT;
  const int64_t pads = explicit ? s->pads[i] + s->pads[spatial + i] : 0;
  const tercel_dim steps = tercel_dim_mul(dims, tercel_dim_sub(dims, input, 1), stride);
  const tercel_dim full = tercel_dim_add(dims, steps, extent_dim(dims, kernel, s->dilations[i]));
  return tercel_dim_sub(dims, tercel_dim_add(dims, full, s->output_padding[i]), pads);
}

static tercel_status infer_windows(tercel_infer *infer, bool transposed, int spatial, const tercel_dim *in_dims,
                                   const tercel_dim *kernel_dims, tercel_dim *out_dims, tercel_error *err) {
  sliding s = {0};
  TERCEL_TRY(read_sliding(infer->node, spatial, transposed, &s, err));
  for (int i = 0; i < spatial; ++i) {
    if (tercel_dim_is_known(in_dims[i]) && tercel_dim_is_known(kernel_dims[i])) {
      tercel_window w;
      TERCEL_TRY((transposed ? make_transposed_window : make_window)(infer->node, spatial, i, &s, in_dims[i],
                                                                     kernel_dims[i], &w, err));
      out_dims[i] = w.output;
    } else {
      out_dims[i] =
          (transposed ? transposed_output_dim : output_dim)(infer->dims, &s, spatial, i, in_dims[i], kernel_dims[i]);
    }
  }
  return TERCEL_OK;
}

tercel_status tercel_infer_windows(tercel_infer *infer, int spatial, const tercel_dim *in_dims,
                                   const tercel_dim *kernel_dims, tercel_dim *out_dims, tercel_error *err) {
  return infer_windows(infer, false, spatial, in_dims, kernel_dims, out_dims, err);
}

tercel_status tercel_infer_conv_transpose_windows(tercel_infer *infer, int spatial, const tercel_dim *in_dims,
                                                  const tercel_dim *kernel_dims, tercel_dim *out_dims,
                                                  tercel_error *err) {
  return infer_windows(infer, true, spatial, in_dims, kernel_dims, out_dims, err);
}

/* ---- layout ---- */

static const char *const layouts[] = {[TERCEL_LAYOUT_NCHW] = "nchw", [TERCEL_LAYOUT_NHWC] = "nhwc", NULL};

tercel_layout tercel_node_layout(const tercel_node *node) {
  const char *const text = tercel_node_string(node, "layout");
  return text != NULL && strcmp(text, layouts[TERCEL_LAYOUT_NHWC]) == 0 ? TERCEL_LAYOUT_NHWC : TERCEL_LAYOUT_NCHW;
}

tercel_status tercel_check_layout(const tercel_node *node, tercel_error *err) {
  int layout;
  return tercel_node_string(node, "layout") == NULL ? TERCEL_OK
                                                    : tercel_node_choice(node, "layout", layouts, &layout, err);
}
