/* Elements moved, not changed: reshapes, slices, gathers, pads, resizing. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* ---- views ----------------------------------------------------------------------------------------------------------- */

/* The shape is an attribute up to version 4, then an input. */
void tercel_onnx_build_reshape(tercel_onnx_call *c) {
  tercel_value *shape = tercel_onnx_in(c, 1);
  if (c->version < 5) {
    size_t count;
    tercel_onnx_ignore_attr(c, "consumed_inputs");
    tercel_onnx_need_attr(c, "shape");
    const int64_t *const dims = tercel_onnx_get_ints(c, "shape", &count);
    shape = tercel_onnx_i64s(c, dims, count);
  }
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_reshape, 1, tercel_onnx_in(c, 0), shape);
  tercel_onnx_copy_flag(c, n, "allowzero");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_flatten(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_flatten, 1, tercel_onnx_in(c, 0));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Squeeze and Unsqueeze: axes are an attribute up to version 12, then an input. */
static void change_rank(tercel_onnx_call *c, const tercel_op *op) {
  tercel_node *const n = tercel_onnx_begin(c, op, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  if (c->version < 13) tercel_onnx_copy_ints(c, n, "axes");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_squeeze(tercel_onnx_call *c) { change_rank(c, &tercel_op_squeeze); }

void tercel_onnx_build_unsqueeze(tercel_onnx_call *c) {
  if (c->version < 13) tercel_onnx_need_attr(c, "axes");
  change_rank(c, &tercel_op_unsqueeze);
}

void tercel_onnx_build_transpose(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_transpose, 1, tercel_onnx_in(c, 0));
  tercel_onnx_copy_ints(c, n, "perm");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- blocks of space and depth ------------------------------------------------------------------------------------------- */

/* Splits and merges dims of [n, c, h, w]; a dim that is not a number yet comes from the input's shape at run time. */
typedef struct block_shape {
  tercel_onnx_call *c;
  tercel_value *x;
  tercel_value *parts[6];
  size_t count;
} block_shape;

static void add_number(block_shape *s, int64_t number) { s->parts[s->count++] = tercel_onnx_i64(s->c, number); }

static void add_dim(block_shape *s, int dim, tercel_fn fn, int64_t by) {
  tercel_value *const value = tercel_onnx_dim_value(s->c, s->x, dim);
  s->parts[s->count++] = by == 1 ? value : tercel_onnx_fn_number(s->c, fn, value, (double)by);
}

static tercel_value *reshape_to_parts(block_shape *s, tercel_value *v) {
  return tercel_onnx_reshape(s->c, v, tercel_onnx_concat(s->c, s->parts, s->count, 0));
}

static int64_t block_size(tercel_onnx_call *c, tercel_value *x) {
  tercel_onnx_need_attr(c, "blocksize");
  const int64_t b = tercel_onnx_get_int(c, "blocksize", 1);
  if (b < 1 || b > INT32_MAX) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'blocksize' is %" PRId64, b);
  if (tercel_onnx_ok(c) && tercel_onnx_rank(c, x) != 4)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input has rank %d, want 4", tercel_onnx_rank(c, x));
  return tercel_onnx_ok(c) ? b : 1;
}

static bool column_first(tercel_onnx_call *c) {
  const char *const mode = tercel_onnx_get_text(c, "mode", "DCR");
  if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'mode' is '%s', want DCR or CRD", mode);
  return strcmp(mode, "CRD") == 0;
}

/* DCR: [n, b, b, c, h, w] -> [n, c, h, b, w, b]; CRD: [n, c, b, b, h, w] -> the same. */
void tercel_onnx_build_depth_to_space(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const int64_t b = block_size(c, x);
  const bool crd = column_first(c);
  block_shape inner = {.c = c, .x = x}, outer = {.c = c, .x = x};
  add_dim(&inner, 0, TERCEL_FN_MUL, 1);
  if (crd) add_dim(&inner, 1, TERCEL_FN_DIV, b * b);
  add_number(&inner, b);
  add_number(&inner, b);
  if (!crd) add_dim(&inner, 1, TERCEL_FN_DIV, b * b);
  add_dim(&inner, 2, TERCEL_FN_MUL, 1);
  add_dim(&inner, 3, TERCEL_FN_MUL, 1);
  static const int64_t from_dcr[] = {0, 3, 4, 1, 5, 2}, from_crd[] = {0, 1, 4, 2, 5, 3};
  tercel_value *const y = tercel_onnx_transpose(c, reshape_to_parts(&inner, x), crd ? from_crd : from_dcr, 6);
  add_dim(&outer, 0, TERCEL_FN_MUL, 1);
  add_dim(&outer, 1, TERCEL_FN_DIV, b * b);
  add_dim(&outer, 2, TERCEL_FN_MUL, b);
  add_dim(&outer, 3, TERCEL_FN_MUL, b);
  tercel_onnx_return(c, 0, reshape_to_parts(&outer, y));
}

/* [n, c, h, b, w, b] -> DCR: [n, b, b, c, h, w]; CRD: [n, c, b, b, h, w]. */
void tercel_onnx_build_space_to_depth(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const int64_t b = block_size(c, x);
  const bool crd = column_first(c);
  block_shape inner = {.c = c, .x = x}, outer = {.c = c, .x = x};
  add_dim(&inner, 0, TERCEL_FN_MUL, 1);
  add_dim(&inner, 1, TERCEL_FN_MUL, 1);
  add_dim(&inner, 2, TERCEL_FN_DIV, b);
  add_number(&inner, b);
  add_dim(&inner, 3, TERCEL_FN_DIV, b);
  add_number(&inner, b);
  static const int64_t to_dcr[] = {0, 3, 5, 1, 2, 4}, to_crd[] = {0, 1, 3, 5, 2, 4};
  tercel_value *const y = tercel_onnx_transpose(c, reshape_to_parts(&inner, x), crd ? to_crd : to_dcr, 6);
  add_dim(&outer, 0, TERCEL_FN_MUL, 1);
  add_dim(&outer, 1, TERCEL_FN_MUL, b * b);
  add_dim(&outer, 2, TERCEL_FN_DIV, b);
  add_dim(&outer, 3, TERCEL_FN_DIV, b);
  tercel_onnx_return(c, 0, reshape_to_parts(&outer, y));
}

/* ---- concat, split, slice ---------------------------------------------------------------------------------------------------- */

void tercel_onnx_build_concat(tercel_onnx_call *c) {
  if (c->version >= 4) tercel_onnx_need_attr(c, "axis");
  tercel_onnx_return(c, 0, tercel_onnx_concat(c, c->inputs, c->num_inputs, tercel_onnx_get_int(c, "axis", 1)));
}

/* Sizes are an attribute up to version 12 (an input, too, in version 1), then an input; without them parts are equal. */
void tercel_onnx_build_split(tercel_onnx_call *c) {
  tercel_value *sizes = tercel_onnx_in(c, 1);
  size_t count;
  const int64_t *const given = c->version < 13 ? tercel_onnx_get_ints(c, "split", &count) : NULL;
  if (given && count != c->num_outputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'split' has %zu sizes for %zu outputs", count, c->num_outputs);
  if (given) sizes = tercel_onnx_i64s(c, given, count);
  if (c->version >= 18) {
    const int64_t parts = tercel_onnx_get_int(c, "num_outputs", (int64_t)c->num_outputs);
    if (parts != (int64_t)c->num_outputs)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'num_outputs' is %" PRId64 ", the node has %zu outputs",
                       parts, c->num_outputs);
  }
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_split, c->num_outputs, tercel_onnx_in(c, 0), sizes);
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_return_all(c, n);
}

/* Starts and ends are attributes in version 1. */
void tercel_onnx_build_slice1(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "starts");
  tercel_onnx_need_attr(c, "ends");
  size_t num_starts, num_ends, num_axes;
  const int64_t *const starts = tercel_onnx_get_ints(c, "starts", &num_starts), *const ends = tercel_onnx_get_ints(
                                                                                    c, "ends", &num_ends);
  const int64_t *const axes = tercel_onnx_get_ints(c, "axes", &num_axes);
  tercel_onnx_return(c, 0,
                     tercel_onnx_op(c, &tercel_op_slice, tercel_onnx_in(c, 0), tercel_onnx_i64s(c, starts, num_starts),
                                    tercel_onnx_i64s(c, ends, num_ends),
                                    axes ? tercel_onnx_i64s(c, axes, num_axes) : NULL));
}

void tercel_onnx_build_slice(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0,
                     tercel_onnx_op(c, &tercel_op_slice, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                    tercel_onnx_in(c, 2), tercel_onnx_in(c, 3), tercel_onnx_in(c, 4)));
}

/* ---- pad ------------------------------------------------------------------------------------------------------------------ */

static void pad(tercel_onnx_call *c, tercel_value *pads, tercel_value *value, tercel_value *axes) {
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
  const char *const mode = tercel_onnx_get_text(c, "mode", "constant");
  const size_t num_modes = c->version >= 19 ? 4 : 3;
  bool known = false;
  for (size_t i = 0; i < num_modes; i++) known |= strcmp(mode, modes[i]) == 0;
  if (!known) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'mode' is '%s', which does not exist", mode);
  if (value && tercel_onnx_rank(c, value) != 0) value = tercel_onnx_reshape_to(c, value, NULL, 0);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_pad, 1, tercel_onnx_in(c, 0), pads, value, axes);
  tercel_onnx_set_text(c, n, "mode", mode);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Pads and value as attributes, up to version 10; version 1 called them 'paddings'. */
void tercel_onnx_build_pad1(tercel_onnx_call *c) {
  const char *const name = c->version < 2 ? "paddings" : "pads";
  tercel_onnx_need_attr(c, name);
  size_t count;
  const int64_t *const pads = tercel_onnx_get_ints(c, name, &count);
  tercel_value *const value = tercel_onnx_scalar_like(c, tercel_onnx_in(c, 0), tercel_onnx_get_float(c, "value", 0));
  pad(c, tercel_onnx_i64s(c, pads, count), value, NULL);
}

void tercel_onnx_build_pad(tercel_onnx_call *c) {
  pad(c, tercel_onnx_in(c, 1), tercel_onnx_in(c, 2), tercel_onnx_in(c, 3));
}

/* ---- gather, scatter ---------------------------------------------------------------------------------------------------------- */

static void gather(tercel_onnx_call *c, const tercel_op *op, const char *attr) {
  tercel_node *const n = tercel_onnx_begin(c, op, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_int(c, n, attr);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_gather(tercel_onnx_call *c) { gather(c, &tercel_op_gather, "axis"); }
void tercel_onnx_build_gather_elements(tercel_onnx_call *c) { gather(c, &tercel_op_gather_elements, "axis"); }
void tercel_onnx_build_gather_nd(tercel_onnx_call *c) { gather(c, &tercel_op_gather_nd, "batch_dims"); }

static tercel_node *scatter(tercel_onnx_call *c, const tercel_op *op) {
  tercel_node *const n = tercel_onnx_begin(c, op, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  const char *const reduction = tercel_onnx_get_text(c, "reduction", "none");
  static const char *const known[] = {"none", "add", "mul", "max", "min"};
  bool found = false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= strcmp(reduction, known[i]) == 0;
  if (!found)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'reduction' is '%s', which does not exist", reduction);
  tercel_onnx_set_text(c, n, "reduction", reduction);
  return n;
}

void tercel_onnx_build_scatter_elements(tercel_onnx_call *c) {
  tercel_node *const n = scatter(c, &tercel_op_scatter_elements);
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_scatter_nd(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_end(c, scatter(c, &tercel_op_scatter_nd)));
}

/* The places where a list of conditions is true, taken along an axis, or from the flat tensor. */
void tercel_onnx_build_compress(tercel_onnx_call *c) {
  tercel_value *x = tercel_onnx_in(c, 0);
  static const int64_t flat[] = {-1};
  if (tercel_onnx_rank(c, tercel_onnx_in(c, 1)) > 1)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "condition has rank %d, want 1",
                     tercel_onnx_rank(c, tercel_onnx_in(c, 1)));
  tercel_value *const places =
      tercel_onnx_reshape_to(c, tercel_onnx_op(c, &tercel_op_nonzero, tercel_onnx_in(c, 1)), flat, 1);
  if (!tercel_onnx_has_attr(c, "axis")) x = tercel_onnx_reshape_to(c, x, flat, 1);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_gather, 1, x, places);
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- expand, tile ---------------------------------------------------------------------------------------------------------------- */

void tercel_onnx_build_expand(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_expand, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)));
}

void tercel_onnx_build_tile(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_tile, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)));
}

/* ---- resize ---------------------------------------------------------------------------------------------------------------------- */

/* Upsample and Resize-10: positions are those of the input times 1 / scale, nearest rounds down. */
static void resize_by(tercel_onnx_call *c, tercel_value *scales) {
  const char *mode = tercel_onnx_get_text(c, "mode", "nearest");
  if (strcmp(mode, "bilinear") == 0) mode = "linear"; /* Upsample-1's word */
  if (strcmp(mode, "nearest") != 0 && strcmp(mode, "linear") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'mode' is '%s', want 'nearest' or 'linear'", mode);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_resize, 1, tercel_onnx_in(c, 0), NULL, scales);
  tercel_onnx_set_text(c, n, "mode", mode);
  tercel_onnx_set_text(c, n, "coordinate", "asymmetric");
  tercel_onnx_set_text(c, n, "nearest", "floor");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

static tercel_value *f32_list(tercel_onnx_call *c, const float *values, size_t count) {
  tercel_value *v = NULL;
  if (!tercel_onnx_ok(c)) return NULL;
  c->status =
      tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 1, &(int64_t){(int64_t)count}, &v, c->err);
  if (v && count > 0) memcpy(v->constant->data, values, count * sizeof *values);
  return v;
}

void tercel_onnx_build_upsample(tercel_onnx_call *c) {
  tercel_value *scales = tercel_onnx_in(c, 1);
  size_t count;
  if (c->version < 7) {
    tercel_onnx_need_attr(c, "height_scale");
    tercel_onnx_need_attr(c, "width_scale");
    const float list[] = {1, 1, (float)tercel_onnx_get_float(c, "height_scale", 1),
                          (float)tercel_onnx_get_float(c, "width_scale", 1)};
    scales = f32_list(c, list, 4);
  } else if (c->version < 9) {
    tercel_onnx_need_attr(c, "scales");
    const float *const list = tercel_onnx_get_floats(c, "scales", &count);
    scales = f32_list(c, list, count);
  }
  resize_by(c, scales);
}

void tercel_onnx_build_resize10(tercel_onnx_call *c) { resize_by(c, tercel_onnx_in(c, 1)); }

/* An empty tensor stands for an absent one. */
static tercel_value *unless_empty(tercel_onnx_call *c, tercel_value *v) {
  return v && v->type.shape.rank == 1 && tercel_onnx_dim_of(c, v, 0) == 0 ? NULL : v;
}

static void copy_choice(tercel_onnx_call *c, tercel_node *n, const char *from, const char *to) {
  if (tercel_onnx_has_attr(c, from)) tercel_onnx_set_text(c, n, to, tercel_onnx_get_text(c, from, ""));
}

void tercel_onnx_build_resize(tercel_onnx_call *c) {
  tercel_value *const scales = unless_empty(c, tercel_onnx_in(c, 2)), *const sizes =
                                                                          unless_empty(c, tercel_onnx_in(c, 3));
  if (!scales == !sizes) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "want scales or sizes, one of them");
  const char *const coordinate = tercel_onnx_get_text(c, "coordinate_transformation_mode", "half_pixel");
  const bool crops = strcmp(coordinate, "tf_crop_and_resize") == 0;
  tercel_value *const roi = crops ? tercel_onnx_in(c, 1) : NULL;
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_resize, 1, tercel_onnx_in(c, 0), roi, scales, sizes);
  tercel_onnx_set_text(c, n, "coordinate", coordinate);
  copy_choice(c, n, "mode", "mode");
  copy_choice(c, n, "nearest_mode", "nearest");
  copy_choice(c, n, "keep_aspect_ratio_policy", "keep_aspect_ratio");
  tercel_onnx_copy_float(c, n, "cubic_coeff_a");
  tercel_onnx_copy_flag(c, n, "exclude_outside");
  tercel_onnx_copy_float(c, n, "extrapolation_value");
  tercel_onnx_copy_flag(c, n, "antialias");
  tercel_onnx_copy_ints(c, n, "axes");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
