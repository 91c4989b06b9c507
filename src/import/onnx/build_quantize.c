/* Quantizing and back, in plain arithmetic: passes find these patterns again and make integer kernels of them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/onnx/build.h"

/* Least and greatest of the integer types that numbers are quantized to. */
static bool integer_limits(tercel_dtype dtype, double *low, double *high) {
  if (!tercel_dtype_is_integer(dtype)) return false;
  const int bits = tercel_dtype_bits(dtype);
  const bool is_signed = tercel_dtype_get_kind(dtype) == TERCEL_KIND_INT;
  *low = is_signed ? -ldexp(1, bits - 1) : 0;
  *high = ldexp(1, is_signed ? bits - 1 : bits) - 1;
  return true;
}

/* A scale or zero point in the shape that broadcasts against x: per tensor, per axis ([n] at `axis`), or per block along it. */
typedef struct grid {
  tercel_value *x;
  int64_t axis, block;
} grid;

static int64_t axis_of(tercel_onnx_call *c, const grid *g) {
  const int rank = tercel_onnx_rank(c, g->x);
  const int64_t axis = g->axis < 0 ? g->axis + rank : g->axis;
  if (tercel_onnx_ok(c) && (axis < 0 || axis >= rank))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'axis' is %" PRId64 " for rank %d", g->axis, rank);
  return tercel_onnx_ok(c) ? axis : 0;
}

/* Each value block times along the axis, cut to x's size there: [.., blocks, block, ..] is made one axis again. */
static tercel_value *repeat_blocks(tercel_onnx_call *c, const grid *g, tercel_value *v) {
  const int64_t axis = axis_of(c, g), blocks = tercel_onnx_dim_of(c, v, (int)axis);
  const int rank = tercel_onnx_rank(c, g->x);
  if (tercel_onnx_ok(c) && (rank + 1 > TERCEL_MAX_RANK || rank != tercel_onnx_rank(c, v)))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "blocks: scale has rank %d, input %d", tercel_onnx_rank(c, v), rank);
  int64_t repeated_size = 0;
  if (tercel_onnx_ok(c) && blocks >= 0 && !tercel_mul_i64(blocks, g->block, &repeated_size))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%" PRId64 " blocks of %" PRId64 " elements", blocks, g->block);
  if (!tercel_onnx_ok(c)) return NULL;
  int64_t repeats[TERCEL_MAX_RANK];
  tercel_value *shape[TERCEL_MAX_RANK];
  for (int i = 0; i <= rank; i++) repeats[i] = i == axis + 1 ? g->block : 1;
  for (int i = 0; i < rank; i++) {
    shape[i] = i < axis   ? tercel_onnx_i64(c, 0) /* as it is */
               : i > axis ? tercel_onnx_dim_value(c, v, i)
               : blocks >= 0
                   ? tercel_onnx_i64(c, repeated_size)
                   : tercel_onnx_fn_number(c, TERCEL_FN_MUL, tercel_onnx_dim_value(c, v, i), (double)g->block);
  }
  tercel_value *const column = tercel_onnx_unsqueeze(c, v, &(int64_t){axis + 1}, 1);
  tercel_value *const repeated =
      tercel_onnx_op(c, &tercel_op_tile, column, tercel_onnx_i64s(c, repeats, (size_t)rank + 1));
  tercel_value *const flat = tercel_onnx_reshape(c, repeated, tercel_onnx_concat(c, shape, (size_t)rank, 0));
  return tercel_onnx_op(c, &tercel_op_slice, flat, tercel_onnx_i64(c, 0), tercel_onnx_dim_value(c, g->x, axis),
                        tercel_onnx_i64(c, axis));
}

static tercel_value *spread(tercel_onnx_call *c, const grid *g, tercel_value *v) {
  if (!v || !tercel_onnx_ok(c)) return v;
  if (g->block > 0) return repeat_blocks(c, g, v);
  if (tercel_onnx_rank(c, v) == 0 || (tercel_onnx_rank(c, v) == 1 && tercel_onnx_dim_of(c, v, 0) == 1)) return v;
  /* One for all, or one for each element of a list: which of them is not known yet, and doesn't matter. */
  if (tercel_onnx_rank(c, v) == 1 && tercel_onnx_rank(c, g->x) == 1 && tercel_onnx_dim_of(c, v, 0) < 0) return v;
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  const int64_t axis = axis_of(c, g);
  for (int i = (int)axis + 1; i < tercel_onnx_rank(c, g->x); i++) axes[count++] = i - axis;
  return count > 0 ? tercel_onnx_unsqueeze(c, v, axes, count) : v;
}

static grid read_grid(tercel_onnx_call *c) {
  const grid g = {tercel_onnx_in(c, 0), tercel_onnx_get_int(c, "axis", 1), tercel_onnx_get_int(c, "block_size", 0)};
  if (g.block < 0) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'block_size' is %" PRId64, g.block);
  return g;
}

tercel_value *tercel_onnx_quantize(tercel_onnx_call *c, tercel_value *x, tercel_value *scale, tercel_value *zero,
                                   tercel_dtype to, bool saturate) {
  tercel_value *y = tercel_onnx_fn2(c, TERCEL_FN_DIV, x, scale);
  const tercel_dtype work = tercel_onnx_dtype_of(y);
  double low, high;
  if (tercel_dtype_is_integer(to) && tercel_dtype_bits(to) > 32)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "quantizes to %s, want a type of at most 32 bits", tercel_dtype_name(to));
  if (!integer_limits(to, &low, &high)) {
    if (zero) y = tercel_onnx_fn2(c, TERCEL_FN_ADD, y, tercel_onnx_cast(c, zero, work));
    return tercel_onnx_like(c, tercel_onnx_cast_with(c, y, to, saturate, 'u'), x);
  }
  y = tercel_onnx_fn1(c, TERCEL_FN_ROUND, y);
  if (zero) y = tercel_onnx_fn2(c, TERCEL_FN_ADD, y, tercel_onnx_cast(c, zero, work));
  return tercel_onnx_like(c, tercel_onnx_cast(c, tercel_onnx_fn_with(c, TERCEL_FN_CLIP, y, low, high), to), x);
}

/* The type to divide in: attribute precision, else the scale's; narrow ones in f32. */
static tercel_dtype work_type(tercel_onnx_call *c, tercel_dtype scale, tercel_dtype fallback) {
  if (tercel_onnx_get_int(c, "precision", 0) != 0) return tercel_onnx_get_dtype(c, "precision", fallback);
  return scale == TERCEL_DTYPE_F8E8M0 ? TERCEL_DTYPE_F32 : fallback;
}

void tercel_onnx_build_quantize_linear(tercel_onnx_call *c) {
  const grid g = read_grid(c);
  tercel_value *const scale = tercel_onnx_in(c, 1), *const zero = tercel_onnx_in(c, 2);
  tercel_dtype to = zero ? tercel_onnx_dtype_of(zero) : TERCEL_DTYPE_U8;
  if (tercel_onnx_get_int(c, "output_dtype", 0) != 0) to = tercel_onnx_get_dtype(c, "output_dtype", to);
  const bool saturate = tercel_onnx_get_flag(c, "saturate", true);
  tercel_dtype work = tercel_onnx_dtype_of(g.x);
  if (!tercel_dtype_is_float(work)) work = TERCEL_DTYPE_F32;
  work = work_type(c, tercel_onnx_dtype_of(scale), work);
  tercel_onnx_return(c, 0,
                     tercel_onnx_quantize(c, tercel_onnx_cast(c, g.x, work),
                                          tercel_onnx_cast(c, spread(c, &g, scale), work), spread(c, &g, zero), to,
                                          saturate));
}

/* (x - zero point) * scale */
void tercel_onnx_build_dequantize_linear(tercel_onnx_call *c) {
  const grid g = read_grid(c);
  tercel_value *const scale = tercel_onnx_in(c, 1), *const zero = tercel_onnx_in(c, 2);
  const tercel_dtype from = tercel_onnx_dtype_of(scale);
  tercel_dtype to = from;
  if (tercel_onnx_get_int(c, "output_dtype", 0) != 0) to = tercel_onnx_get_dtype(c, "output_dtype", to);
  const tercel_dtype work = from == TERCEL_DTYPE_F64 ? from : TERCEL_DTYPE_F32;
  tercel_value *y = tercel_onnx_cast(c, g.x, work);
  if (zero) y = tercel_onnx_fn2(c, TERCEL_FN_SUB, y, tercel_onnx_cast(c, spread(c, &g, zero), work));
  y = tercel_onnx_fn2(c, TERCEL_FN_MUL, y, tercel_onnx_cast(c, spread(c, &g, scale), work));
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, tercel_onnx_like(c, y, g.x), to));
}

tercel_onnx_quantized tercel_onnx_dynamic_quantize(tercel_onnx_call *c, tercel_value *x) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_dynamic_quantize, 3, x);
  tercel_onnx_end(c, n);
  return tercel_onnx_ok(c) ? (tercel_onnx_quantized){n->outputs[0], n->outputs[1], n->outputs[2]}
                           : (tercel_onnx_quantized){NULL, NULL, NULL};
}

void tercel_onnx_build_dynamic_quantize_linear(tercel_onnx_call *c) {
  const tercel_onnx_quantized q = tercel_onnx_dynamic_quantize(c, tercel_onnx_in(c, 0));
  tercel_onnx_return(c, 0, q.x);
  tercel_onnx_return(c, 1, q.scale);
  tercel_onnx_return(c, 2, q.zero);
}

/* ---- products of integers ---------------------------------------------------------------------------------------- */

/* x - zero point in a type that holds it exactly. */
static tercel_value *centered(tercel_onnx_call *c, tercel_value *x, tercel_value *zero, tercel_dtype work) {
  tercel_value *const wide = tercel_onnx_cast(c, x, work);
  if (!zero) return wide;
  return tercel_onnx_like(c, tercel_onnx_fn2(c, TERCEL_FN_SUB, wide, tercel_onnx_cast(c, zero, work)), x);
}

/* One value for each row of the left operand belongs to its last dim but one. */
static tercel_value *per_row(tercel_onnx_call *c, tercel_value *v) {
  const bool list = v && tercel_onnx_rank(c, v) == 1 && tercel_onnx_dim_of(c, v, 0) != 1;
  return list ? tercel_onnx_unsqueeze(c, v, &(int64_t){1}, 1) : v;
}

/* [m] -> [m, 1, ...], against results [n, m, spatial...] */
static tercel_value *per_channel(tercel_onnx_call *c, tercel_value *v, int spatial) {
  if (!v || tercel_onnx_rank(c, v) == 0 || spatial < 1) return v;
  int64_t axes[TERCEL_MAX_RANK];
  for (int i = 0; i < spatial; i++) axes[i] = i + 1;
  return tercel_onnx_unsqueeze(c, v, axes, (size_t)spatial);
}

static bool is_8_bits(const tercel_value *v) {
  const tercel_dtype dtype = tercel_onnx_dtype_of(v);
  return dtype == TERCEL_DTYPE_U8 || dtype == TERCEL_DTYPE_I8;
}

/* One number, or a list. */
static bool is_flat(tercel_onnx_call *c, const tercel_value *zero) { return !zero || tercel_onnx_rank(c, zero) <= 1; }

tercel_value *tercel_onnx_quantized_product(tercel_onnx_call *c, tercel_value *a, tercel_value *a_zero, tercel_value *b,
                                            tercel_value *b_zero) {
  if (is_8_bits(a) && is_8_bits(b) && is_flat(c, a_zero) && is_flat(c, b_zero))
    return tercel_onnx_op(c, &tercel_op_matmul_integer, a, b, a_zero, b_zero);
  const tercel_dtype work = tercel_dtype_is_float(tercel_onnx_dtype_of(a)) ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_I32;
  return tercel_onnx_op(c, &tercel_op_matmul, centered(c, a, per_row(c, a_zero), work), centered(c, b, b_zero, work));
}

/* bias: of i32, one an output channel */
static tercel_value *integer_conv(tercel_onnx_call *c, tercel_value *x, tercel_value *x_zero, tercel_value *w,
                                  tercel_value *w_zero, tercel_value *bias) {
  tercel_value *const y =
      tercel_onnx_conv_with(c, tercel_onnx_begin(c, &tercel_op_conv_integer, 1, x, w, x_zero, w_zero), w);
  return bias ? tercel_onnx_fn2(c, TERCEL_FN_ADD, y, per_channel(c, bias, tercel_onnx_rank(c, w) - 2)) : y;
}

void tercel_onnx_build_matmul_integer(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0,
                     tercel_onnx_quantized_product(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 2), tercel_onnx_in(c, 1),
                                                   tercel_onnx_in(c, 3)));
}

void tercel_onnx_build_conv_integer(tercel_onnx_call *c) {
  tercel_onnx_return(
      c, 0,
      integer_conv(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 2), tercel_onnx_in(c, 1), tercel_onnx_in(c, 3), NULL));
}

/* sums * (a_scale * b_scale / y_scale), rounded, + y_zero, saturated */
static tercel_value *requantize(tercel_onnx_call *c, tercel_value *sums, tercel_value *a_scale, tercel_value *b_scale,
                                tercel_value *y_scale, tercel_value *y_zero) {
  const tercel_dtype work = TERCEL_DTYPE_F32;
  tercel_value *const scales =
      tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_cast(c, a_scale, work), tercel_onnx_cast(c, b_scale, work));
  tercel_value *const real =
      tercel_onnx_like(c, tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_cast(c, sums, work), scales), sums);
  return tercel_onnx_quantize(c, real, tercel_onnx_cast(c, y_scale, work), y_zero, tercel_onnx_dtype_of(y_zero), true);
}

void tercel_onnx_build_qlinear_matmul(tercel_onnx_call *c) {
  tercel_value *const sums = tercel_onnx_quantized_product(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 2),
                                                           tercel_onnx_in(c, 3), tercel_onnx_in(c, 5));
  tercel_onnx_return(c, 0,
                     requantize(c, sums, per_row(c, tercel_onnx_in(c, 1)), tercel_onnx_in(c, 4),
                                per_row(c, tercel_onnx_in(c, 6)), per_row(c, tercel_onnx_in(c, 7))));
}

/* The bias is in units of x_scale * w_scale. */
tercel_value *tercel_onnx_quantized_conv(tercel_onnx_call *c, tercel_value *x) {
  tercel_value *const w = tercel_onnx_in(c, 3);
  tercel_value *const sums = integer_conv(c, x, tercel_onnx_in(c, 2), w, tercel_onnx_in(c, 5), tercel_onnx_in(c, 8));
  const int spatial = tercel_onnx_rank(c, w) - 2;
  tercel_value *const w_scale = per_channel(c, tercel_onnx_in(c, 4), spatial);
  return requantize(c, sums, tercel_onnx_in(c, 1), w_scale, tercel_onnx_in(c, 6), tercel_onnx_in(c, 7));
}

void tercel_onnx_build_qlinear_conv(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_quantized_conv(c, tercel_onnx_in(c, 0)));
}
