/* Operators of com.microsoft that came before ONNX had them, or beside it: moving, counting, distances.  Some rows of builders.inc need no
 * builder of their own. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/onnx/build.h"

/* The axis as a constant. */
void tercel_onnx_build_expand_dims(tercel_onnx_call *c) {
  int64_t axis = 0;
  size_t count = 0;
  if (tercel_onnx_ok(c) && (!tercel_onnx_known_ints(c, tercel_onnx_in(c, 1), &axis, 1, &count) || count != 1))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "an axis that is not one constant number is not supported");
  tercel_onnx_return(c, 0, tercel_onnx_unsqueeze(c, tercel_onnx_in(c, 0), &axis, 1));
}

/* start, limit, [delta]: scalars, or of one element each. */
void tercel_onnx_build_ms_range(tercel_onnx_call *c) {
  tercel_value *ends[3] = {tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2)};
  if (!ends[2]) ends[2] = tercel_onnx_scalar_like(c, ends[0], 1);
  for (size_t i = 0; i < 3; i++) ends[i] = tercel_onnx_reshape_to(c, ends[i], NULL, 0);
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_range, ends[0], ends[1], ends[2]));
}

/* Elements in the order they are met, where each of x stands among them, how often they come. */
void tercel_onnx_build_ms_unique(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_unique, 4, tercel_onnx_in(c, 0));
  tercel_onnx_set_int(c, n, "sorted", 0);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
  for (size_t i = 1; tercel_onnx_ok(c) && i < c->num_outputs; i++)
    tercel_onnx_return(c, i, tercel_node_output(n, i + 1)); /* output 1 of ours: first places */
}

void tercel_onnx_build_cdist(tercel_onnx_call *c) {
  const char *const metric = tercel_onnx_get_text(c, "metric", "sqeuclidean");
  const bool squared = strcmp(metric, "sqeuclidean") == 0;
  if (!squared && strcmp(metric, "euclidean") != 0)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'metric' = '%s' is not supported (euclidean, sqeuclidean are)",
                     metric);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_cdist, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_set_int(c, n, "squared", squared);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Slices of `size` elements of a dim, `step` apart, each as a row of its own: they become the last dim. */
void tercel_onnx_build_unfold(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "size");
  tercel_value *const x = tercel_onnx_in(c, 0);
  const int rank = tercel_onnx_rank(c, x);
  const int64_t size = tercel_onnx_get_int(c, "size", 1), step = tercel_onnx_get_int(c, "step", 1);
  int64_t dim = tercel_onnx_get_int(c, "dim", -1);
  if (dim < 0) dim += rank;
  if (tercel_onnx_ok(c) && (dim < 0 || dim >= rank || rank == TERCEL_MAX_RANK || size < 1 || step < 1))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL,
                     "rank %d, attributes 'dim', 'size', 'step' are %" PRId64 ", %" PRId64 ", %" PRId64, rank, dim,
                     size, step);
  const int64_t length = tercel_onnx_dim_of(c, x, (int)dim);
  if (tercel_onnx_ok(c) && (length < size || length > INT32_MAX))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "slices of %" PRId64 " of a dim of %" PRId64 " (-1: not known)", size,
                     length);
  if (!tercel_onnx_ok(c)) return;
  /* Places: start of each slice + 0, 1, ... */
  tercel_value *const scalars[] = {
      tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 0), tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 1),
      tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)step), tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)size),
      tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)(length - size + 1))};
  tercel_value *const starts = tercel_onnx_op(c, &tercel_op_range, scalars[0], scalars[4], scalars[2]);
  tercel_value *const steps = tercel_onnx_op(c, &tercel_op_range, scalars[0], scalars[3], scalars[1]);
  tercel_value *const places =
      tercel_onnx_fn2(c, TERCEL_FN_ADD, tercel_onnx_unsqueeze(c, starts, (const int64_t[]){1}, 1), steps);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_gather, 1, x, places);
  tercel_onnx_set_int(c, n, "axis", dim);
  int64_t perm[TERCEL_MAX_RANK];
  for (int i = 0; i <= rank; i++) perm[i] = i <= dim ? i : i == rank ? dim + 1 : i + 1;
  tercel_onnx_return(c, 0, tercel_onnx_transpose(c, tercel_onnx_end(c, n), perm, (size_t)rank + 1));
}

/* Is every element of every input neither NaN nor infinite (or not the one of both that is asked for)? */
void tercel_onnx_build_is_all_finite(tercel_onnx_call *c) {
  const bool nan_only = tercel_onnx_get_flag(c, "isnan_only", false),
             inf_only = tercel_onnx_get_flag(c, "isinf_only", false);
  if (nan_only && inf_only)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attributes 'isnan_only' and 'isinf_only' are both set");
  tercel_value *all = NULL;
  for (size_t i = 0; tercel_onnx_ok(c) && i < c->num_inputs; i++) {
    tercel_value *const x = tercel_onnx_in(c, i);
    tercel_value *const nan = tercel_onnx_fn1(c, TERCEL_FN_IS_NAN, x);
    tercel_value *const inf = tercel_onnx_fn2(c, TERCEL_FN_EQUAL, tercel_onnx_fn1(c, TERCEL_FN_ABS, x),
                                              tercel_onnx_scalar_like(c, x, INFINITY));
    tercel_value *const bad = nan_only ? nan : inf_only ? inf : tercel_onnx_fn2(c, TERCEL_FN_OR, nan, inf);
    const int64_t flat[] = {-1}, axis = 0;
    tercel_value *const list = tercel_onnx_cast(c, tercel_onnx_reshape_to(c, bad, flat, 1), TERCEL_DTYPE_I32);
    tercel_value *const good =
        tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, tercel_onnx_reduce(c, "sum", list, &axis, 1, false), 0);
    all = all ? tercel_onnx_fn2(c, TERCEL_FN_AND, all, good) : good;
  }
  tercel_onnx_return(c, 0, all);
}

/* weight, indices: the other inputs are for training. */
void tercel_onnx_build_torch_embedding(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_gather, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)));
}

/* Pairs of numbers in the last dim; conjugated (detail 1): the second operand. */
void tercel_onnx_build_complex_mul(tercel_onnx_call *c) {
  tercel_value *parts[2][2];
  for (size_t i = 0; i < 2; i++) {
    tercel_value *const x = tercel_onnx_in(c, i);
    const int rank = tercel_onnx_rank(c, x);
    if (tercel_onnx_ok(c) && (rank < 1 || tercel_onnx_dim_of(c, x, -1) != 2))
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input %zu holds no pairs in its last dim", i);
    for (int64_t k = 0; k < 2; k++)
      parts[i][k] = tercel_onnx_ok(c) ? tercel_onnx_slice(c, x, rank - 1, k, k + 1) : NULL;
  }
  if (c->row->detail) parts[1][1] = tercel_onnx_fn1(c, TERCEL_FN_NEG, parts[1][1]);
#define MUL(i, k) tercel_onnx_fn2(c, TERCEL_FN_MUL, parts[0][i], parts[1][k])
  tercel_value *const pair[] = {tercel_onnx_fn2(c, TERCEL_FN_SUB, MUL(0, 0), MUL(1, 1)),
                                tercel_onnx_fn2(c, TERCEL_FN_ADD, MUL(0, 1), MUL(1, 0))};
#undef MUL
  const int rank = tercel_onnx_rank(c, pair[0]);
  tercel_onnx_return(c, 0, tercel_onnx_concat(c, pair, 2, rank - 1));
}

/* ---- pictures ---------------------------------------------------------------------------------------------------------- */

/* Pads as an input: they must be constant. */
void tercel_onnx_build_conv_transpose_pads(tercel_onnx_call *c) {
  int64_t pads[2 * TERCEL_MAX_SPATIAL];
  size_t count = 0;
  if (tercel_onnx_ok(c) && tercel_onnx_in(c, 2) &&
      !tercel_onnx_known_ints(c, tercel_onnx_in(c, 2), pads, sizeof pads / sizeof *pads, &count))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "pads that are not constant are not supported");
  if (strcmp(tercel_onnx_get_text(c, "auto_pad", "NOTSET"), "NOTSET") != 0)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'auto_pad' other than NOTSET is not supported");
  tercel_onnx_check_kernel_shape(c, tercel_onnx_in(c, 1));
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_conv_transpose, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 3));
  static const char *const lists[] = {"strides", "dilations", "output_padding"};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) tercel_onnx_copy_ints(c, n, lists[i]);
  tercel_onnx_copy_int(c, n, "group");
  if (count > 0) tercel_onnx_set_ints(c, n, "pads", pads, count);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

static tercel_value *column(tercel_onnx_call *c, tercel_value *boxes, int64_t i) {
  return tercel_onnx_slice(c, boxes, 1, i, i + 1);
}

/* Where the samples of each box lie along a dim of the picture: [boxes, count]; *last: the place of its last row or column. */
static tercel_value *sample_places(tercel_onnx_call *c, tercel_value *boxes, int64_t low, tercel_value *size,
                                   int64_t count, tercel_value **last) {
  tercel_value *const begin = column(c, boxes, low), *const end = column(c, boxes, low + 2);
  *last = tercel_onnx_fn_number(c, TERCEL_FN_ADD, tercel_onnx_cast(c, size, TERCEL_DTYPE_F32), -1);
  if (count == 1) {
    tercel_value *const middle =
        tercel_onnx_fn_number(c, TERCEL_FN_MUL, tercel_onnx_fn2(c, TERCEL_FN_ADD, begin, end), 0.5);
    return tercel_onnx_fn2(c, TERCEL_FN_MUL, middle, *last);
  }
  tercel_value *const steps = tercel_onnx_op(c, &tercel_op_range, tercel_onnx_scalar(c, TERCEL_DTYPE_F32, 0),
                                             tercel_onnx_scalar(c, TERCEL_DTYPE_F32, (double)count),
                                             tercel_onnx_scalar(c, TERCEL_DTYPE_F32, 1));
  tercel_value *const span = tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_fn2(c, TERCEL_FN_SUB, end, begin), *last);
  tercel_value *const step = tercel_onnx_fn_number(c, TERCEL_FN_DIV, span, (double)(count - 1));
  return tercel_onnx_fn2(c, TERCEL_FN_ADD, tercel_onnx_fn2(c, TERCEL_FN_MUL, begin, *last),
                         tercel_onnx_fn2(c, TERCEL_FN_MUL, steps, step));
}

/* -1 .. 1 over a dim; a dim of one element: -1. */
static tercel_value *normalized(tercel_onnx_call *c, tercel_value *places, tercel_value *last) {
  tercel_value *const span = tercel_onnx_fn_number(c, TERCEL_FN_MAX, last, 1);
  tercel_value *const doubled =
      tercel_onnx_fn_number(c, TERCEL_FN_MUL, tercel_onnx_fn2(c, TERCEL_FN_DIV, places, span), 2);
  return tercel_onnx_fn_number(c, TERCEL_FN_ADD, doubled, -1);
}

static tercel_value *within(tercel_onnx_call *c, tercel_value *places, tercel_value *last) {
  return tercel_onnx_fn2(c, TERCEL_FN_AND, tercel_onnx_fn_number(c, TERCEL_FN_GREATER_EQUAL, places, 0),
                         tercel_onnx_fn2(c, TERCEL_FN_LESS_EQUAL, places, last));
}

/* x, boxes (y, x of two corners, 0 to 1 over the picture), the picture of each box, size of the crops: samples of the box's own grid, corners
 * on corners, which lie outside the picture: a constant. */
void tercel_onnx_build_crop_and_resize(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const boxes = tercel_onnx_in(c, 1);
  int64_t size[2] = {0, 0};
  size_t count = 0;
  if (strcmp(tercel_onnx_get_text(c, "mode", "bilinear"), "bilinear") != 0)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'mode' other than bilinear is not supported");
  if (tercel_onnx_ok(c) && (!tercel_onnx_known_ints(c, tercel_onnx_in(c, 3), size, 2, &count) || count != 2 ||
                            size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX || size[1] > INT32_MAX))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a crop size that is not two constant numbers of 1 or more");
  if (tercel_onnx_ok(c) && (tercel_onnx_rank(c, x) != 4 || tercel_onnx_rank(c, boxes) != 2))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input and boxes of ranks %d and %d, want 4 and 2",
                     tercel_onnx_rank(c, x), tercel_onnx_rank(c, boxes));
  if (!tercel_onnx_ok(c)) return;
  static const int64_t row[] = {2}, columns[] = {1}, pair[] = {3}, planes[] = {1};
  tercel_value *bottom, *right;
  tercel_value *const ys = sample_places(c, boxes, 0, tercel_onnx_dim_value(c, x, 2), size[0], &bottom);
  tercel_value *const xs = sample_places(c, boxes, 1, tercel_onnx_dim_value(c, x, 3), size[1], &right);
  tercel_value *const shape[] = {tercel_onnx_dim_value(c, boxes, 0), tercel_onnx_i64s(c, size, 2)};
  tercel_value *const whole = tercel_onnx_concat(c, shape, 2, 0);
  tercel_value *const down = tercel_onnx_unsqueeze(c, normalized(c, ys, bottom), row, 1);
  tercel_value *const across = tercel_onnx_unsqueeze(c, normalized(c, xs, right), columns, 1);
  tercel_value *const both[] = {tercel_onnx_unsqueeze(c, tercel_onnx_op(c, &tercel_op_expand, across, whole), pair, 1),
                                tercel_onnx_unsqueeze(c, tercel_onnx_op(c, &tercel_op_expand, down, whole), pair, 1)};
  tercel_value *const pictures = tercel_onnx_op(c, &tercel_op_gather, x, tercel_onnx_in(c, 2));
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_grid_sample, 1, pictures, tercel_onnx_concat(c, both, 2, 3));
  tercel_onnx_set_text(c, n, "mode", "linear");
  tercel_onnx_set_text(c, n, "padding", "border");
  tercel_onnx_set_int(c, n, "align_corners", 1);
  tercel_value *const inside =
      tercel_onnx_fn2(c, TERCEL_FN_AND, tercel_onnx_unsqueeze(c, within(c, ys, bottom), row, 1),
                      tercel_onnx_unsqueeze(c, within(c, xs, right), columns, 1));
  tercel_value *const outside = tercel_onnx_scalar_like(c, x, tercel_onnx_get_float(c, "extrapolation_value", 0));
  tercel_onnx_return(c, 0,
                     tercel_onnx_fn3(c, TERCEL_FN_SELECT, tercel_onnx_unsqueeze(c, inside, planes, 1),
                                     tercel_onnx_end(c, n), outside));
}
