/* col2im, max_unpool: what windows showed, put back to where it came from. */
#include "ops/move.h"

#include <string.h>

/* ---- col2im -------------------------------------------------------------------------------------------------------- */

/* Numbers of a list input; *known false when some aren't known yet, *count -1 when not even how many there are. */
static tercel_status infer_list(tercel_infer *infer, size_t i, const char *what, int64_t *out, int *count, bool *known,
                                tercel_error *err) {
  int64_t length = 0;
  TERCEL_TRY(tercel_infer_check_indices(infer, i, err));
  const tercel_dim *contents = tercel_infer_contents(infer, i, &length, err);
  const tercel_shape *shape = &infer->in[i]->type.shape;
  *known = contents != NULL;
  *count = -1;
  if (contents == NULL) {
    if (shape->rank != 1 || !tercel_dim_is_known(shape->dims[0])) return TERCEL_OK;
    length = shape->dims[0];
  }
  if (length < 1 || length > TERCEL_MAX_SPATIAL)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s has %lld numbers, want 1 .. %d", what,
                            (long long)length, TERCEL_MAX_SPATIAL);
  *count = (int)length;
  for (int d = 0; contents != NULL && d < *count; ++d) {
    if (!tercel_dim_get_number(infer->dims, contents[d], &out[d])) *known = false;
    if (*known && out[d] < 1)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_ARGUMENT, "%s[%d] is %lld, want 1 or more", what, d,
                              (long long)out[d]);
  }
  return TERCEL_OK;
}

/* Product of numbers from a file. */
static tercel_status checked_product(const tercel_node *node, const char *what, const int64_t *numbers, int count,
                                     int64_t *out, tercel_error *err) {
  *out = 1;
  for (int d = 0; d < count; ++d)
    if (!tercel_mul_i64(*out, numbers[d], out))
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%s is too large", what);
  return TERCEL_OK;
}

/* The columns x has must be the places that the windows have in the image. */
static tercel_status check_columns(tercel_infer *infer, int spatial, const int64_t *image, const int64_t *block,
                                   tercel_dim columns, tercel_error *err) {
  tercel_window windows[TERCEL_MAX_SPATIAL];
  int64_t places[TERCEL_MAX_SPATIAL], want;
  TERCEL_TRY(tercel_windows(infer->node, spatial, image, block, windows, err));
  for (int d = 0; d < spatial; ++d) places[d] = windows[d].output;
  TERCEL_TRY(checked_product(infer->node, "the image", places, spatial, &want, err));
  if (!tercel_dim_is_known(columns) || columns == want) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_ARGUMENT, "%lld columns for an image with %lld blocks",
                          (long long)columns, (long long)want);
}

/* What is known of the result before both lists are. */
static tercel_status infer_open_col2im(tercel_infer *infer, int spatial, const int64_t *image, const int64_t *block,
                                       tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_shape *out = &infer->out[0].type.shape;
  int64_t elements;
  if (spatial < 0) return TERCEL_OK;
  TERCEL_TRY(tercel_infer_open(infer, spatial + 2, out, err));
  for (int d = 0; image != NULL && d < spatial; ++d) out->dims[d + 2] = image[d];
  if (x->rank < 0) return TERCEL_OK;
  out->dims[0] = x->dims[0];
  if (block == NULL) return TERCEL_OK;
  TERCEL_TRY(checked_product(infer->node, "the block", block, spatial, &elements, err));
  out->dims[1] = tercel_dim_floor_div(infer->dims, x->dims[1], elements);
  return TERCEL_OK;
}

/* Spatial dims as a list among the attributes tells them; -1: none does. */
static int listed_dims(const tercel_node *node) {
  size_t count = 0;
  static const char *const lists[] = {"strides", "dilations", "pads"};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i)
    if (tercel_node_ints(node, lists[i], &count) != NULL && count > 0 && count <= 2 * TERCEL_MAX_SPATIAL)
      return (int)(i == 2 ? count / 2 : count);
  return -1;
}

static tercel_status infer_col2im(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_type *x = &infer->in[0]->type;
  infer->out[0].type.dtype = x->dtype;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype) && !tercel_dtype_is_integer(x->dtype))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "input is %s, want numbers", tercel_dtype_name(x->dtype));
  if (x->shape.rank >= 0 && x->shape.rank != 3)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "input of rank %d, want N, C times block, columns",
                            x->shape.rank);
  int64_t image[TERCEL_MAX_SPATIAL], block[TERCEL_MAX_SPATIAL], elements;
  int spatial, block_dims;
  bool image_known, block_known;
  TERCEL_TRY(infer_list(infer, 1, "the image's shape", image, &spatial, &image_known, err));
  TERCEL_TRY(infer_list(infer, 2, "the block's shape", block, &block_dims, &block_known, err));
  if (spatial >= 0 && block_dims >= 0 && spatial != block_dims)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "an image of %d dims, a block of %d", spatial, block_dims);
  if (spatial < 0) spatial = block_dims >= 0 ? block_dims : listed_dims(node);
  if (!image_known || !block_known || x->shape.rank < 0)
    return infer_open_col2im(infer, spatial, image_known ? image : NULL, block_known ? block : NULL, err);
  TERCEL_TRY(checked_product(node, "the block", block, spatial, &elements, err));
  const tercel_dim rows = x->shape.dims[1];
  if (tercel_dim_is_known(rows) && rows % elements != 0)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT,
                            "dim 1 is %lld, no multiple of the block's %lld elements", (long long)rows,
                            (long long)elements);
  TERCEL_TRY(check_columns(infer, spatial, image, block, x->shape.dims[2], err));
  tercel_shape *out = &infer->out[0].type.shape;
  out->rank = spatial + 2;
  out->dims[0] = x->shape.dims[0];
  out->dims[1] = tercel_dim_floor_div(infer->dims, rows, elements);
  for (int d = 0; d < spatial; ++d) out->dims[d + 2] = image[d];
  return tercel_infer_check_size(infer, 0, err);
}

/* The column whose block has its element `tap` at position `at` of the image (flat indices); -1: none. */
static int64_t column_of(const tercel_window *windows, int spatial, int64_t at, int64_t tap) {
  int64_t index = 0, stride = 1;
  for (int d = spatial - 1; d >= 0; --d) {
    const tercel_window *w = &windows[d];
    const int64_t moved = at % w->input + w->pad_begin - tap % w->kernel * w->dilation;
    if (moved < 0 || moved % w->stride != 0 || moved / w->stride >= w->output) return -1;
    index += moved / w->stride * stride;
    stride *= w->output;
    at /= w->input;
    tap /= w->kernel;
  }
  return index;
}

/* Element `at` of one channel, whose columns begin at `base`: the sum of all that blocks have there. */
static void put_element(const tercel_tensor *x, const tercel_window *windows, int spatial, int64_t base, int64_t taps,
                        int64_t at, tercel_tensor *y, int64_t to) {
  double sum = 0;
  uint64_t whole = 0;
  const bool is_float = tercel_dtype_is_float(x->dtype);
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t column = column_of(windows, spatial, at, tap);
    if (column < 0) continue;
    const int64_t from = base + tap * x->dims[2] + column;
    if (is_float)
      sum += tercel_tensor_get_f64(x, from);
    else
      whole += (uint64_t)tercel_tensor_get_i64(x, from);
  }
  if (is_float)
    tercel_tensor_set_f64(y, to, sum);
  else
    tercel_tensor_set_i64(y, to, (int64_t)whole);
}

static tercel_status eval_col2im(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  const int spatial = y->rank - 2;
  int64_t block[TERCEL_MAX_SPATIAL];
  size_t count;
  tercel_window windows[TERCEL_MAX_SPATIAL];
  TERCEL_TRY(tercel_eval_ints(eval->in[2], "the block's shape", block, TERCEL_MAX_SPATIAL, &count, err));
  TERCEL_TRY(tercel_windows(eval->node, spatial, y->dims + 2, block, windows, err));
  const int64_t taps = tercel_dims_product(block, 0, spatial), image = tercel_dims_product(y->dims, 2, y->rank);
  for (int64_t channel = 0; channel < y->dims[0] * y->dims[1]; ++channel)
    for (int64_t at = 0; at < image; ++at)
      put_element(x, windows, spatial, channel * taps * x->dims[2], taps, at, y, channel * image + at);
  return TERCEL_OK;
}

static double col2im_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  return (double)tercel_tensor_num_elements(in[0]);
}

static const tercel_attr_spec col2im_attrs[] = {
    {"strides", TERCEL_ATTR_INTS, false, 0, NULL, "steps of the block in each spatial dim; none: 1"},
    {"dilations", TERCEL_ATTR_INTS, false, 0, NULL, "distance of the block's elements in each spatial dim; none: 1"},
    {"pads", TERCEL_ATTR_INTS, false, 0, NULL, "begin of each spatial dim, then end of each; none: 0"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_col2im = {
    .name = "col2im",
    .id = TERCEL_OP_COL2IM,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "blocks of an image, one a column, summed where they overlap",
    .attrs = col2im_attrs,
    .infer = infer_col2im,
    .eval = eval_col2im,
    .flops = col2im_flops,
};

/* ---- max_unpool ---------------------------------------------------------------------------------------------------- */

/* A larger result may be asked for: then the elements stand in its first corner. */
static tercel_status infer_asked_shape(tercel_infer *infer, tercel_shape *out, tercel_error *err) {
  int64_t count = 0, number;
  TERCEL_TRY(tercel_infer_check_indices(infer, 2, err));
  const tercel_dim *asked = tercel_infer_contents(infer, 2, &count, err);
  if (asked != NULL && count != out->rank)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "an output shape of %lld dims, want %d",
                            (long long)count, out->rank);
  for (int d = 0; d < out->rank; ++d) {
    const tercel_dim least = out->dims[d];
    out->dims[d] = asked != NULL ? asked[d] : tercel_dim_unknown(infer->dims);
    if (asked != NULL && tercel_dim_get_number(infer->dims, asked[d], &number) &&
        (number < 0 || (tercel_dim_is_known(least) && number < least)))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_ARGUMENT, "output_shape[%d] is %lld, want %lld or more",
                              d, (long long)number, (long long)least);
  }
  return TERCEL_OK;
}

static tercel_status infer_max_unpool(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type, *indices = &infer->in[1]->type;
  infer->out[0].type.dtype = x->dtype;
  TERCEL_TRY(tercel_infer_check_indices(infer, 1, err));
  if (x->shape.rank < 0) return TERCEL_OK;
  const int64_t *kernel;
  TERCEL_TRY(tercel_window_kernel(infer->node, x->shape.rank - 2, &kernel, err));
  bool same = indices->shape.rank < 0 || indices->shape.rank == x->shape.rank;
  for (int d = 0; same && d < indices->shape.rank; ++d) {
    const tercel_dim a = x->shape.dims[d], b = indices->shape.dims[d];
    same = a == b || !tercel_dim_is_known(a) || !tercel_dim_is_known(b);
  }
  if (!same)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the indices have another shape than the input");
  tercel_shape out = x->shape;
  TERCEL_TRY(tercel_infer_conv_transpose_windows(infer, out.rank - 2, x->shape.dims + 2, kernel, out.dims + 2, err));
  if (tercel_has_input(infer, 2)) TERCEL_TRY(infer_asked_shape(infer, &out, err));
  infer->out[0].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

/* Indices count in the shape that pooling started from, not in a larger one that is asked for. */
static tercel_status eval_max_unpool(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  tercel_tensor *y = eval->out[0];
  const int64_t *kernel;
  tercel_window windows[TERCEL_MAX_SPATIAL];
  int64_t dims[TERCEL_MAX_RANK], strides[TERCEL_MAX_RANK], total;
  TERCEL_TRY(tercel_window_kernel(eval->node, x->rank - 2, &kernel, err));
  TERCEL_TRY(tercel_conv_transpose_windows(eval->node, x->rank - 2, x->dims + 2, kernel, windows, err));
  memcpy(dims, x->dims, sizeof dims);
  for (int d = 2; d < x->rank; ++d) dims[d] = windows[d - 2].output;
  total = tercel_dims_product(dims, 0, x->rank);
  tercel_tensor_strides(y, strides);
  if (y->bytes > 0) memset(y->data, 0, y->bytes);
  const int64_t n = tercel_tensor_num_elements(x);
  for (int64_t i = 0; i < n; ++i) {
    int64_t index = tercel_tensor_get_i64(eval->in[1], i), to = 0;
    if (index < 0 || index >= total)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "index %lld, want 0 .. %lld", (long long)index,
                              (long long)total - 1);
    for (int d = x->rank - 1; d >= 0; --d) {
      to += index % dims[d] * strides[d];
      index /= dims[d];
    }
    tercel_element_copy(y->data, to, x->data, i, x->dtype);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec max_unpool_attrs[] = {
    {"kernel", TERCEL_ATTR_INTS, true, 0, NULL, "size of the window in each spatial dim"},
    {"strides", TERCEL_ATTR_INTS, false, 0, NULL, "steps of the window in each spatial dim; none: 1"},
    {"pads", TERCEL_ATTR_INTS, false, 0, NULL, "begin of each spatial dim, then end of each; none: 0"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_max_unpool = {
    .name = "max_unpool",
    .id = TERCEL_OP_MAX_UNPOOL,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "the results of max pooling where they stood, zeros elsewhere",
    .attrs = max_unpool_attrs,
    .infer = infer_max_unpool,
    .eval = eval_max_unpool,
    .flops = tercel_no_flops,
};
