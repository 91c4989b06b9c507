/* Pictures: sampling, regions, boxes, blocks. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* Modes of version 16 had the names of two dims. */
void tercel_onnx_build_grid_sample(tercel_onnx_call *c) {
  const char *mode = tercel_onnx_get_text(c, "mode", "linear");
  if (c->version < 20 && strcmp(mode, "bilinear") == 0) mode = "linear";
  if (c->version < 20 && strcmp(mode, "bicubic") == 0) mode = "cubic";
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_grid_sample, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_set_text(c, n, "mode", mode);
  tercel_onnx_set_text(c, n, "padding", tercel_onnx_get_text(c, "padding_mode", "zeros"));
  tercel_onnx_copy_flag(c, n, "align_corners");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_affine_grid(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_affine_grid, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_flag(c, n, "align_corners");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Before version 16 edges were taken as given. */
void tercel_onnx_build_roi_align(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_roi_align, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  const char *const coordinate =
      c->version < 16 ? "output_half_pixel" : tercel_onnx_get_text(c, "coordinate_transformation_mode", "half_pixel");
  tercel_onnx_set_text(c, n, "coordinate", coordinate);
  tercel_onnx_set_text(c, n, "mode", tercel_onnx_get_text(c, "mode", "avg"));
  tercel_onnx_copy_int(c, n, "output_height");
  tercel_onnx_copy_int(c, n, "output_width");
  tercel_onnx_copy_int(c, n, "sampling_ratio");
  tercel_onnx_copy_float(c, n, "spatial_scale");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_max_roi_pool(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "pooled_shape");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_max_roi_pool, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_ints(c, n, "pooled_shape");
  tercel_onnx_copy_float(c, n, "spatial_scale");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_nms(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_nms, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 2), tercel_onnx_in(c, 3), tercel_onnx_in(c, 4));
  tercel_onnx_copy_flag(c, n, "center_point_box");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_col2im(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_col2im, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  tercel_onnx_copy_ints(c, n, "strides");
  tercel_onnx_copy_ints(c, n, "dilations");
  tercel_onnx_copy_ints(c, n, "pads");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_max_unpool(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "kernel_shape");
  size_t count;
  const int64_t *const kernel = tercel_onnx_get_ints(c, "kernel_shape", &count);
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_max_unpool, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  tercel_onnx_set_ints(c, n, "kernel", kernel, count);
  tercel_onnx_copy_ints(c, n, "strides");
  tercel_onnx_copy_ints(c, n, "pads");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_deform_conv(tercel_onnx_call *c) {
  tercel_onnx_check_kernel_shape(c, tercel_onnx_in(c, 1));
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_deform_conv, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 2), tercel_onnx_in(c, 3), tercel_onnx_in(c, 4));
  tercel_onnx_copy_ints(c, n, "strides");
  tercel_onnx_copy_ints(c, n, "dilations");
  tercel_onnx_copy_ints(c, n, "pads");
  tercel_onnx_copy_int(c, n, "group");
  tercel_onnx_copy_int(c, n, "offset_group");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* max(a - b, 0) and the half of it that is cut (or added) in front. */
static tercel_value *excess(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn_number(c, TERCEL_FN_MAX, tercel_onnx_fn2(c, TERCEL_FN_SUB, a, b), 0);
}

static tercel_value *front_of(tercel_onnx_call *c, tercel_value *excess) {
  return tercel_onnx_fn_number(c, TERCEL_FN_DIV, excess, 2);
}

/* A slice to the smaller of both sizes, then pads up to the wanted one. */
void tercel_onnx_build_center_crop_pad(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const want =
                                                    tercel_onnx_cast(c, tercel_onnx_in(c, 1), TERCEL_DTYPE_I64);
  tercel_value *have = tercel_onnx_shape_of(c, x), *axes = NULL;
  size_t count;
  const int64_t *const given = tercel_onnx_get_ints(c, "axes", &count);
  const int rank = tercel_onnx_rank(c, x);
  int64_t positive[TERCEL_MAX_RANK];
  if (given && count > TERCEL_MAX_RANK) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'axes' has %zu", count);
  for (size_t i = 0; given && tercel_onnx_ok(c) && i < count; i++) {
    positive[i] = given[i] < 0 ? given[i] + rank : given[i];
    if (positive[i] < 0 || positive[i] >= rank)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'axes' holds %" PRId64 " for rank %d", given[i], rank);
  }
  if (given && tercel_onnx_ok(c)) {
    axes = tercel_onnx_i64s(c, positive, count);
    have = tercel_onnx_op(c, &tercel_op_gather, have, axes);
  }
  tercel_value *const first = front_of(c, excess(c, have, want));
  tercel_value *const kept = tercel_onnx_fn2(c, TERCEL_FN_MIN, have, want);
  tercel_value *const cut =
      tercel_onnx_op(c, &tercel_op_slice, x, first, tercel_onnx_fn2(c, TERCEL_FN_ADD, first, kept), axes);
  tercel_value *const missing = excess(c, want, have), *const begin = front_of(c, missing);
  tercel_value *const pads[] = {begin, tercel_onnx_fn2(c, TERCEL_FN_SUB, missing, begin)};
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_pad, cut, tercel_onnx_concat(c, pads, 2, 0), NULL, axes));
}
