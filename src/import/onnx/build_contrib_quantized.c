/* Operators of com.microsoft on quantized tensors: dequantized, computed, quantized again, or products of integers. */
#include <inttypes.h>

#include "import/onnx/build.h"

/* ---- blocks of few bits ------------------------------------------------------------------------------------------------ */

/* Elements of `bits` bits packed into the bytes of the last dim, low ones first: [..., bytes] -> [..., bytes * 8 / bits]. */
static tercel_value *unpacked(tercel_onnx_call *c, tercel_value *x, int64_t bits) {
  if (bits == 8) return x;
  const int rank = tercel_onnx_rank(c, x);
  tercel_value *parts[4] = {NULL};
  size_t count = 0;
  const int64_t axis = rank;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    tercel_value *const moved = tercel_onnx_fn_number(c, TERCEL_FN_SHIFT_RIGHT, x, (double)shift);
    tercel_value *const element = tercel_onnx_fn_number(c, TERCEL_FN_BIT_AND, moved, (double)((1 << bits) - 1));
    parts[count++] = tercel_onnx_unsqueeze(c, element, &axis, 1);
  }
  int64_t shape[TERCEL_MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = i == rank - 1 ? -1 : 0;
  return tercel_onnx_reshape_to(c, tercel_onnx_concat(c, parts, count, axis), shape, (size_t)rank);
}

typedef struct blocks {
  int64_t k, n, bits, size, count; /* count: of blocks a column */
} blocks;

static blocks read_blocks(tercel_onnx_call *c) {
  static const char *const needed[] = {"K", "N", "block_size"};
  for (int i = 0; i < 3; i++) tercel_onnx_need_attr(c, needed[i]);
  tercel_onnx_ignore_attr(c, "accuracy_level"); /* the least precision that will do: more is fine */
  blocks b = {tercel_onnx_get_int(c, "K", 1), tercel_onnx_get_int(c, "N", 1), tercel_onnx_get_int(c, "bits", 4),
              tercel_onnx_get_int(c, "block_size", 1), 1};
  if (b.k < 1 || b.n < 1 || b.k > INT32_MAX || b.n > INT32_MAX || b.size < 1 || b.size > INT32_MAX)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "K is %" PRId64 ", N %" PRId64 ", block_size %" PRId64, b.k, b.n, b.size);
  if (b.bits != 2 && b.bits != 4 && b.bits != 8)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'bits' = %" PRId64 " is not supported (2, 4, 8 are)", b.bits);
  if (tercel_onnx_ok(c)) b.count = tercel_ceil_div(b.k, b.size);
  return b;
}

/* One zero point a block, [N, blocks, 1] of `dtype`: packed as the weights are (each column filled up to bytes), or floats, or
 * the middle of the range. */
static tercel_value *block_zeros(tercel_onnx_call *c, const blocks *b, tercel_value *given, tercel_dtype dtype) {
  if (!given) return tercel_onnx_scalar(c, dtype, (double)(1 << (b->bits - 1)));
  const int64_t shape[] = {b->n, b->count, 1}, columns[] = {b->n, -1};
  if (tercel_dtype_is_float(tercel_onnx_dtype_of(given)))
    return tercel_onnx_cast(c, tercel_onnx_reshape_to(c, given, shape, 3), dtype);
  tercel_value *const all = unpacked(c, tercel_onnx_reshape_to(c, given, columns, 2), b->bits);
  return tercel_onnx_cast(c, tercel_onnx_reshape_to(c, tercel_onnx_slice(c, all, 1, 0, b->count), shape, 3), dtype);
}

/* A, B: [N, blocks, bytes], scales, [zero points], [group index], [bias].  B is made floats, [N, K], and multiplied. */
void tercel_onnx_build_matmul_nbits(tercel_onnx_call *c) {
  const blocks b = read_blocks(c);
  tercel_value *const a = tercel_onnx_in(c, 0);
  const tercel_dtype dtype = tercel_onnx_dtype_of(a);
  if (tercel_onnx_in(c, 4)) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "input 4 (g_idx) is not supported");
  if (!tercel_onnx_ok(c)) return;
  const int64_t shape[] = {b.n, b.count, 1}, packed[] = {b.n, b.count, -1}, flat[] = {b.n, -1};
  tercel_value *const elements = unpacked(c, tercel_onnx_reshape_to(c, tercel_onnx_in(c, 1), packed, 3), b.bits);
  tercel_value *const centered = tercel_onnx_fn2(c, TERCEL_FN_SUB, tercel_onnx_cast(c, elements, dtype),
                                                 block_zeros(c, &b, tercel_onnx_in(c, 3), dtype));
  tercel_value *const scales = tercel_onnx_cast(c, tercel_onnx_reshape_to(c, tercel_onnx_in(c, 2), shape, 3), dtype);
  tercel_value *const weights = tercel_onnx_slice(
      c, tercel_onnx_reshape_to(c, tercel_onnx_fn2(c, TERCEL_FN_MUL, centered, scales), flat, 2), 1, 0, b.k);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, a, weights, tercel_onnx_in(c, 5));
  tercel_onnx_set_int(c, n, "trans_b", 1);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- products of integers, as floats ----------------------------------------------------------------------------------- */

static tercel_value *scaled(tercel_onnx_call *c, tercel_value *sums, tercel_value *a_scale, tercel_value *b_scale,
                            tercel_value *bias) {
  tercel_value *const scale = tercel_onnx_fn2(c, TERCEL_FN_MUL, a_scale, b_scale);
  tercel_value *const y =
      tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_cast(c, sums, tercel_onnx_dtype_of(scale)), scale);
  return bias ? tercel_onnx_fn2(c, TERCEL_FN_ADD, y, bias) : y;
}

/* a, b, a scale, b scale, [a zero], [b zero], [bias] */
void tercel_onnx_build_matmul_integer_to_float(tercel_onnx_call *c) {
  tercel_value *const sums = tercel_onnx_quantized_product(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 4),
                                                           tercel_onnx_in(c, 1), tercel_onnx_in(c, 5));
  tercel_onnx_return(c, 0, scaled(c, sums, tercel_onnx_in(c, 2), tercel_onnx_in(c, 3), tercel_onnx_in(c, 6)));
}

/* a of floats, b, b scale, [b zero], [bias] */
void tercel_onnx_build_dynamic_quantize_matmul(tercel_onnx_call *c) {
  const tercel_onnx_quantized a = tercel_onnx_dynamic_quantize(c, tercel_onnx_in(c, 0));
  tercel_value *const sums = tercel_onnx_quantized_product(c, a.x, a.zero, tercel_onnx_in(c, 1), tercel_onnx_in(c, 3));
  tercel_onnx_return(c, 0, scaled(c, sums, a.scale, tercel_onnx_in(c, 2), tercel_onnx_in(c, 4)));
}

/* ---- QLinear: quantized in and out ------------------------------------------------------------------------------------- */

/* (x - zero) * scale of the three inputs from `first` on. */
static tercel_value *dequantized(tercel_onnx_call *c, size_t first) {
  tercel_value *const scale = tercel_onnx_in(c, first + 1), *const zero = tercel_onnx_in(c, first + 2);
  tercel_value *y = tercel_onnx_cast(c, tercel_onnx_in(c, first), TERCEL_DTYPE_F32);
  if (zero) y = tercel_onnx_fn2(c, TERCEL_FN_SUB, y, tercel_onnx_cast(c, zero, TERCEL_DTYPE_F32));
  return tercel_onnx_fn2(c, TERCEL_FN_MUL, y, scale);
}

/* With the scale and zero point from input `first` on; the type is the operands'. */
static void return_quantized(tercel_onnx_call *c, tercel_value *y, size_t first, tercel_dtype to) {
  tercel_onnx_return(c, 0,
                     tercel_onnx_quantize(c, y, tercel_onnx_in(c, first), tercel_onnx_in(c, first + 1), to, true));
}

static tercel_dtype dtype_of_input(const tercel_onnx_call *c, size_t i) {
  return tercel_onnx_dtype_of(tercel_onnx_in(c, i));
}

void tercel_onnx_build_qlinear_add(tercel_onnx_call *c) {
  tercel_value *const y = tercel_onnx_fn2(c, TERCEL_FN_ADD, dequantized(c, 0), dequantized(c, 3));
  return_quantized(c, y, 6, dtype_of_input(c, 0));
}

/* x - zero as i32. */
static tercel_value *centered(tercel_onnx_call *c, size_t first) {
  tercel_value *const x = tercel_onnx_cast(c, tercel_onnx_in(c, first), TERCEL_DTYPE_I32), *const zero = tercel_onnx_in(
                                                                                               c, first + 2);
  return zero ? tercel_onnx_fn2(c, TERCEL_FN_SUB, x, tercel_onnx_cast(c, zero, TERCEL_DTYPE_I32)) : x;
}

/* The product of the integers is exact; only then it is scaled. */
void tercel_onnx_build_qlinear_mul(tercel_onnx_call *c) {
  tercel_value *const product = tercel_onnx_fn2(c, TERCEL_FN_MUL, centered(c, 0), centered(c, 3));
  return_quantized(c, scaled(c, product, tercel_onnx_in(c, 1), tercel_onnx_in(c, 4), NULL), 6, dtype_of_input(c, 0));
}

void tercel_onnx_build_qlinear_unary(tercel_onnx_call *c) {
  const tercel_fn fn = (tercel_fn)c->row->detail;
  const double alpha = fn == TERCEL_FN_LEAKY_RELU ? tercel_onnx_get_float(c, "alpha", 0.01f) : 0;
  return_quantized(c, tercel_onnx_fn_with(c, fn, dequantized(c, 0), alpha, 0), 3, dtype_of_input(c, 0));
}

void tercel_onnx_build_qlinear_softmax(tercel_onnx_call *c) {
  if (tercel_onnx_get_int(c, "opset", 13) < 13)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'opset' below 13 is not supported");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_softmax, 1, dequantized(c, 0));
  tercel_onnx_copy_int(c, n, "axis");
  return_quantized(c, tercel_onnx_end(c, n), 3, dtype_of_input(c, 0));
}

/* The mean over all spatial dims. */
void tercel_onnx_build_qlinear_global_average_pool(tercel_onnx_call *c) {
  const bool channels_last = tercel_onnx_get_int(c, "channels_last", 0) != 0;
  const int rank = tercel_onnx_rank(c, tercel_onnx_in(c, 0));
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  for (int i = 2; i < rank; i++) axes[count++] = channels_last ? i - 1 : i;
  return_quantized(c, tercel_onnx_reduce(c, "mean", dequantized(c, 0), axes, count, true), 3, dtype_of_input(c, 0));
}

/* Scale and zero point of the result, then three inputs an operand. */
void tercel_onnx_build_qlinear_concat(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "axis");
  tercel_value **const parts = tercel_arena_alloc_array(&c->import->arena, c->num_inputs, sizeof *parts);
  if (!parts) tercel_onnx_fail(c, TERCEL_OUT_OF_MEMORY, "no memory for %zu operands", c->num_inputs);
  size_t count = 0;
  for (size_t i = 2; tercel_onnx_ok(c) && i < c->num_inputs; i += 3) parts[count++] = dequantized(c, i);
  if (!tercel_onnx_ok(c)) return;
  tercel_value *const y = tercel_onnx_concat(c, parts, count, tercel_onnx_get_int(c, "axis", 0));
  return_quantized(c, y, 0, dtype_of_input(c, 2));
}

/* cond, x, y, result: cond ? x : y */
void tercel_onnx_build_qlinear_where(tercel_onnx_call *c) {
  tercel_value *const y =
      tercel_onnx_fn3(c, TERCEL_FN_SELECT, tercel_onnx_in(c, 0), dequantized(c, 1), dequantized(c, 4));
  return_quantized(c, y, 7, dtype_of_input(c, 1));
}

static tercel_value *transposed_if(tercel_onnx_call *c, tercel_value *x, const char *attr) {
  static const int64_t swap[] = {1, 0};
  return tercel_onnx_get_int(c, attr, 0) != 0 ? tercel_onnx_transpose(c, x, swap, 2) : x;
}

/* a, b, [bias of i32, in units of alpha * a scale * b scale], [scale and zero of the result; absent: floats] */
void tercel_onnx_build_qgemm(tercel_onnx_call *c) {
  tercel_value *const bias = tercel_onnx_in(c, 6), *const alpha = tercel_onnx_scalar(
                                                       c, TERCEL_DTYPE_F32, tercel_onnx_get_float(c, "alpha", 1));
  tercel_value *sums =
      tercel_onnx_quantized_product(c, transposed_if(c, tercel_onnx_in(c, 0), "transA"), tercel_onnx_in(c, 2),
                                    transposed_if(c, tercel_onnx_in(c, 3), "transB"), tercel_onnx_in(c, 5));
  if (bias) sums = tercel_onnx_fn2(c, TERCEL_FN_ADD, sums, bias);
  tercel_value *const scale = tercel_onnx_fn2(c, TERCEL_FN_MUL, alpha, tercel_onnx_in(c, 1));
  tercel_value *const y = scaled(c, sums, scale, tercel_onnx_in(c, 4), NULL);
  if (tercel_onnx_in(c, 7))
    return_quantized(c, y, 7, dtype_of_input(c, 0));
  else
    tercel_onnx_return(c, 0, y);
}
