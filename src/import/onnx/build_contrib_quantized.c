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

/* Each element of the last dim `times` times, cut to `size`. */
static tercel_value *repeated(tercel_onnx_call *c, tercel_value *x, int64_t times, int64_t size) {
  const int rank = tercel_onnx_rank(c, x);
  if (tercel_onnx_ok(c) && rank + 1 > TERCEL_MAX_RANK) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "indices of this rank");
  if (!tercel_onnx_ok(c)) return NULL;
  int64_t repeats[TERCEL_MAX_RANK], shape[TERCEL_MAX_RANK];
  for (int i = 0; i <= rank; i++) repeats[i] = i == rank ? times : 1;
  for (int i = 0; i < rank; i++) shape[i] = i == rank - 1 ? -1 : 0;
  tercel_value *const column = tercel_onnx_unsqueeze(c, x, &(int64_t){rank}, 1);
  tercel_value *const tiled =
      tercel_onnx_op(c, &tercel_op_tile, column, tercel_onnx_i64s(c, repeats, (size_t)rank + 1));
  return tercel_onnx_slice(c, tercel_onnx_reshape_to(c, tiled, shape, (size_t)rank), rank - 1, 0, size);
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

/* Of each block, [N, blocks, 1], by the group of each of the K inputs: [N, K]. */
static tercel_value *of_groups(tercel_onnx_call *c, const blocks *b, tercel_value *v, tercel_value *groups) {
  const int64_t rows[] = {b->n, b->count};
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_gather, 1, tercel_onnx_reshape_to(c, v, rows, 2),
                                           tercel_onnx_slice(c, groups, 0, 0, b->k));
  tercel_onnx_set_int(c, n, "axis", 1);
  return tercel_onnx_end(c, n);
}

/* A, B: [N, blocks, bytes], scales, [zero points], [group index], [bias].  B is made floats, [N, K], and multiplied. */
void tercel_onnx_build_matmul_nbits(tercel_onnx_call *c) {
  const blocks b = read_blocks(c);
  tercel_value *const a = tercel_onnx_in(c, 0);
  const tercel_dtype dtype = tercel_onnx_dtype_of(a);
  tercel_value *const groups = tercel_onnx_in(c, 4);
  if (tercel_onnx_get_flag(c, "weight_prepacked", false))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'weight_prepacked' (for one kind of GPU) is not supported");
  if (!tercel_onnx_ok(c)) return;
  const int64_t shape[] = {b.n, b.count, 1}, packed[] = {b.n, b.count, -1}, flat[] = {b.n, -1};
  tercel_value *const elements = unpacked(c, tercel_onnx_reshape_to(c, tercel_onnx_in(c, 1), packed, 3), b.bits);
  tercel_value *zeros = block_zeros(c, &b, tercel_onnx_in(c, 3), dtype), *values = tercel_onnx_cast(c, elements, dtype);
  tercel_value *scales = tercel_onnx_cast(c, tercel_onnx_reshape_to(c, tercel_onnx_in(c, 2), shape, 3), dtype);
  if (groups) {
    values = tercel_onnx_slice(c, tercel_onnx_reshape_to(c, values, flat, 2), 1, 0, b.k);
    scales = of_groups(c, &b, scales, groups);
    if (tercel_onnx_in(c, 3)) zeros = of_groups(c, &b, zeros, groups);
  }
  tercel_value *weights = tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_fn2(c, TERCEL_FN_SUB, values, zeros), scales);
  if (!groups) weights = tercel_onnx_slice(c, tercel_onnx_reshape_to(c, weights, flat, 2), 1, 0, b.k);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, a, weights, tercel_onnx_in(c, 5));
  tercel_onnx_set_int(c, n, "trans_b", 1);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* A, B: 4 bits an element, high ones first, a column after the other; a scale a block: elements are numbers of a table of 16, by
 * attribute 'quant_type' those of an FP4 (1 sign, 2 exponent, 1 mantissa bits, largest 1) or the NF4 of QLoRA (Dettmers et al., 2023, appendix
 * E). */
void tercel_onnx_build_matmul_bnb4(tercel_onnx_call *c) {
  static const double tables[2][16] = {
      {0, 0.00520833333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25, -0.0, -0.00520833333, -0.66666667, -1,
       -0.33333333, -0.5, -0.16666667, -0.25},
      {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}};
  tercel_onnx_need_attr(c, "quant_type");
  const int64_t type = tercel_onnx_get_int(c, "quant_type", 1);
  const blocks b = read_blocks(c);
  tercel_value *const a = tercel_onnx_in(c, 0), *table = NULL;
  tercel_onnx_ignore_attr(c, "training_mode");
  if (tercel_onnx_get_int(c, "transB", 1) != 1 || type < 0 || type > 1)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attributes 'quant_type' other than 0 and 1, and 'transB' other than 1");
  const int64_t count = b.n * b.k, sixteen = 16, flat[] = {-1}, by_block[] = {-1, b.size}, rows[] = {b.n, b.k},
                one[] = {1};
  if (tercel_onnx_ok(c) && count % b.size != 0)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "%" PRId64 " weights in blocks of %" PRId64, count, b.size);
  if (!tercel_onnx_ok(c)) return;
  const tercel_dtype dtype = tercel_onnx_dtype_of(a);
  c->status = tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 1, &sixteen, &table, c->err);
  if (!table) return;
  for (int64_t i = 0; i < sixteen; i++)
    tercel_element_set_f64(table->constant->data, TERCEL_DTYPE_F32, i, tables[type][i]);
  tercel_value *const bytes = tercel_onnx_reshape_to(c, tercel_onnx_in(c, 1), flat, 1);
  tercel_value *const halves[] = {
      tercel_onnx_unsqueeze(c, tercel_onnx_fn_number(c, TERCEL_FN_SHIFT_RIGHT, bytes, 4), one, 1),
      tercel_onnx_unsqueeze(c, tercel_onnx_fn_number(c, TERCEL_FN_BIT_AND, bytes, 15), one, 1)};
  tercel_value *const codes = tercel_onnx_cast(
      c, tercel_onnx_slice(c, tercel_onnx_reshape_to(c, tercel_onnx_concat(c, halves, 2, 1), flat, 1), 0, 0, count),
      TERCEL_DTYPE_I64);
  tercel_value *const numbers = tercel_onnx_cast(c, tercel_onnx_op(c, &tercel_op_gather, table, codes), dtype);
  tercel_value *const scales =
      tercel_onnx_unsqueeze(c, tercel_onnx_reshape_to(c, tercel_onnx_in(c, 2), flat, 1), one, 1);
  tercel_value *const weights =
      tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_reshape_to(c, numbers, by_block, 2), scales);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, a, tercel_onnx_reshape_to(c, weights, rows, 2));
  tercel_onnx_set_int(c, n, "trans_b", 1);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* Rows of a quantized table: gathered first, with their scales and zero points, then made floats.  Bytes hold 8 / bits elements. */
void tercel_onnx_build_gather_block_quantized(tercel_onnx_call *c) {
  tercel_value *const data = tercel_onnx_in(c, 0), *const index = tercel_onnx_in(c, 1), *scales = tercel_onnx_in(c, 2);
  const int64_t block = tercel_onnx_get_int(c, "block_size", 128), bits = tercel_onnx_get_int(c, "bits", 4);
  const bool bytes = tercel_onnx_dtype_of(data) == TERCEL_DTYPE_U8;
  const int rank = tercel_onnx_rank(c, data);
  const int64_t axis = tercel_onnx_get_int(c, "quantize_axis", 1), along = tercel_onnx_get_int(c, "gather_axis", 0);
  if (tercel_onnx_ok(c) &&
      (rank < 2 || (axis != rank - 1 && axis != -1) || (along != 0 && along != -rank) || block < 1))
    tercel_onnx_fail(
        c, TERCEL_UNSUPPORTED,
        "only gathering along the first axis of what is quantized in blocks along the last one is supported");
  if (bytes && bits != 2 && bits != 4 && bits != 8)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'bits' is %" PRId64 ", want 2, 4 or 8", bits);
  const int64_t size = tercel_onnx_times(c, tercel_onnx_dim_of(c, data, -1), bytes && bits > 0 ? 8 / bits : 1),
                count = tercel_onnx_dim_of(c, scales, -1);
  if (tercel_onnx_ok(c) && (size < 0 || count != tercel_ceil_div(size, block)))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%" PRId64 " scales for rows of %" PRId64 " in blocks of %" PRId64, count,
                     size, block);
  if (!tercel_onnx_ok(c)) return;
  const tercel_dtype dtype = tercel_onnx_dtype_of(scales);
  tercel_value *zeros = tercel_onnx_in(c, 3), *rows = tercel_onnx_op(c, &tercel_op_gather, data, index);
  scales = tercel_onnx_op(c, &tercel_op_gather, scales, index);
  if (zeros) zeros = tercel_onnx_op(c, &tercel_op_gather, zeros, index);
  if (bytes) rows = unpacked(c, rows, bits);
  if (bytes && zeros) zeros = tercel_onnx_slice(c, unpacked(c, zeros, bits), tercel_onnx_rank(c, zeros) - 1, 0, count);
  tercel_value *x = tercel_onnx_cast(c, rows, dtype);
  if (zeros)
    x = tercel_onnx_fn2(c, TERCEL_FN_SUB, x, repeated(c, tercel_onnx_cast(c, zeros, dtype), block, size));
  else if (bytes)
    x = tercel_onnx_fn_number(c, TERCEL_FN_SUB, x, (double)(1 << (bits - 1)));
  tercel_onnx_return(c, 0, tercel_onnx_fn2(c, TERCEL_FN_MUL, x, repeated(c, scales, block, size)));
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
  if (tercel_onnx_get_int(c, "opset", 13) < 13) {
    tercel_value *const y = tercel_onnx_flat_softmax(c, dequantized(c, 0), tercel_onnx_get_int(c, "axis", -1));
    return_quantized(c, y, 3, dtype_of_input(c, 0));
    return;
  }
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_softmax, 1, dequantized(c, 0));
  tercel_onnx_copy_int(c, n, "axis");
  return_quantized(c, tercel_onnx_end(c, n), 3, dtype_of_input(c, 0));
}

/* Attribute 'channels_last' says how both x and the result lie. */
static bool has_channels_last(tercel_onnx_call *c) { return tercel_onnx_get_flag(c, "channels_last", false); }

void tercel_onnx_build_qlinear_average_pool(tercel_onnx_call *c) {
  const bool last = has_channels_last(c);
  tercel_value *const x = dequantized(c, 0);
  tercel_value *const y = tercel_onnx_pool(c, "average", last ? tercel_onnx_channels_first(c, x) : x);
  return_quantized(c, last ? tercel_onnx_channels_last(c, y) : y, 3, dtype_of_input(c, 0));
}

void tercel_onnx_build_ms_qlinear_conv(tercel_onnx_call *c) {
  const bool last = has_channels_last(c);
  tercel_value *const x = tercel_onnx_in(c, 0);
  tercel_value *const y = tercel_onnx_quantized_conv(c, last ? tercel_onnx_channels_first(c, x) : x);
  tercel_onnx_return(c, 0, last ? tercel_onnx_channels_last(c, y) : y);
}

/* Of integers, channels last. */
void tercel_onnx_build_nhwc_max_pool(tercel_onnx_call *c) {
  tercel_value *const planes = tercel_onnx_channels_first(c, tercel_onnx_in(c, 0));
  tercel_onnx_return(c, 0, tercel_onnx_channels_last(c, tercel_onnx_pool(c, "max", planes)));
}

/* Over the axes of the attribute, or all. */
static tercel_value *reduce_axes(tercel_onnx_call *c, const char *kind, tercel_value *x) {
  size_t count;
  const int64_t *axes = tercel_onnx_get_ints(c, "axes", &count);
  int64_t all[TERCEL_MAX_RANK];
  const int rank = tercel_onnx_rank(c, x);
  for (int i = 0; i < rank; i++) all[i] = i;
  return tercel_onnx_reduce(c, kind, x, axes ? axes : all, axes ? count : (size_t)rank,
                            tercel_onnx_get_flag(c, "keepdims", true));
}

void tercel_onnx_build_qlinear_reduce_mean(tercel_onnx_call *c) {
  return_quantized(c, reduce_axes(c, "mean", dequantized(c, 0)), 3, dtype_of_input(c, 0));
}

/* Summed as wider integers, signed or not as they are. */
void tercel_onnx_build_reduce_sum_integer(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const bool is_signed = tercel_dtype_get_kind(tercel_onnx_dtype_of(x)) == TERCEL_KIND_INT;
  tercel_onnx_return(c, 0,
                     reduce_axes(c, "sum", tercel_onnx_cast(c, x, is_signed ? TERCEL_DTYPE_I32 : TERCEL_DTYPE_U32)));
}

/* The mean over all spatial dims. */
void tercel_onnx_build_qlinear_global_average_pool(tercel_onnx_call *c) {
  const bool channels_last = has_channels_last(c);
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
  return tercel_onnx_get_flag(c, attr, false) ? tercel_onnx_transpose(c, x, swap, 2) : x;
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
