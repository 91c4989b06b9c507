/* Layers of networks: convolution, pooling, matrix products. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* ---- windows ------------------------------------------------------------------------------------------------------- */

static void copy_auto_pad(tercel_onnx_call *c, tercel_node *n) {
  static const char *const names[][2] = {
      {"NOTSET", ""}, {"", ""}, {"SAME_UPPER", "same_upper"}, {"SAME_LOWER", "same_lower"}, {"VALID", "valid"}};
  const char *const given = tercel_onnx_get_text(c, "auto_pad", "NOTSET");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], given) == 0) {
      if (names[i][1][0]) tercel_onnx_set_text(c, n, "auto_pad", names[i][1]);
      return;
    }
  tercel_onnx_fail(c, TERCEL_INVALID_MODEL,
                   "attribute 'auto_pad' is '%s', want NOTSET, SAME_UPPER, SAME_LOWER or VALID", given);
}

/* What convolutions and pools share. */
static void copy_window(tercel_onnx_call *c, tercel_node *n) {
  tercel_onnx_copy_ints(c, n, "strides");
  tercel_onnx_copy_ints(c, n, "dilations");
  tercel_onnx_copy_ints(c, n, "pads");
  copy_auto_pad(c, n);
}

void tercel_onnx_check_kernel_shape(tercel_onnx_call *c, tercel_value *weights) {
  size_t count;
  const int64_t *const kernel = tercel_onnx_get_ints(c, "kernel_shape", &count);
  if (!kernel || !tercel_onnx_ok(c) || weights->type.shape.rank < 0) return;
  if (count + 2 != (size_t)weights->type.shape.rank) {
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'kernel_shape' has %zu dims, the weights have %d", count,
                     weights->type.shape.rank - 2);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const int64_t have = tercel_onnx_dim_of(c, weights, (int)i + 2);
    if (have >= 0 && have != kernel[i])
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL,
                       "attribute 'kernel_shape' says %" PRId64 " in dim %zu, the weights %" PRId64, kernel[i], i,
                       have);
  }
}

/* ---- convolution ----------------------------------------------------------------------------------------------------- */

tercel_value *tercel_onnx_conv_with(tercel_onnx_call *c, tercel_node *n, tercel_value *w) {
  tercel_onnx_check_kernel_shape(c, w);
  copy_window(c, n);
  tercel_onnx_copy_int(c, n, "group");
  return tercel_onnx_end(c, n);
}

tercel_value *tercel_onnx_conv(tercel_onnx_call *c, tercel_value *x, tercel_value *w, tercel_value *bias) {
  return tercel_onnx_conv_with(c, tercel_onnx_begin(c, &tercel_op_conv, 1, x, w, bias), w);
}

void tercel_onnx_build_conv(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_conv(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2)));
}

void tercel_onnx_build_conv_transpose(tercel_onnx_call *c) {
  tercel_onnx_check_kernel_shape(c, tercel_onnx_in(c, 1));
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_conv_transpose, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 2));
  copy_window(c, n);
  tercel_onnx_copy_int(c, n, "group");
  tercel_onnx_copy_ints(c, n, "output_padding");
  tercel_onnx_copy_ints(c, n, "output_shape");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- pooling ----------------------------------------------------------------------------------------------------------- */

static tercel_node *pool(tercel_onnx_call *c, const char *kind, tercel_value *x, size_t num_outputs) {
  tercel_onnx_need_attr(c, "kernel_shape");
  size_t count;
  const int64_t *const kernel = tercel_onnx_get_ints(c, "kernel_shape", &count);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_pool, num_outputs, x);
  tercel_onnx_set_text(c, n, "kind", kind);
  tercel_onnx_set_ints(c, n, "kernel", kernel, count);
  copy_window(c, n);
  tercel_onnx_copy_flag(c, n, "ceil_mode");
  return n;
}

tercel_value *tercel_onnx_pool(tercel_onnx_call *c, const char *kind, tercel_value *x) {
  tercel_node *const n = pool(c, kind, x, 1);
  if (strcmp(kind, "average") == 0) tercel_onnx_copy_flag(c, n, "count_include_pad");
  return tercel_onnx_end(c, n);
}

void tercel_onnx_build_max_pool(tercel_onnx_call *c) {
  tercel_node *const n = pool(c, "max", tercel_onnx_in(c, 0), tercel_onnx_wants_output(c, 1) ? 2 : 1);
  tercel_onnx_copy_flag(c, n, "storage_order");
  tercel_onnx_return_all(c, n);
}

void tercel_onnx_build_average_pool(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_pool(c, "average", tercel_onnx_in(c, 0)));
}

/* LpPool-1 gave p as a float. */
static int64_t norm_order(tercel_onnx_call *c) {
  if (c->version > 1) return tercel_onnx_get_int(c, "p", 2);
  const double p = tercel_onnx_get_float(c, "p", 2);
  const int64_t whole = tercel_saturate_i64(p);
  if (p != (double)whole) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'p' = %g is not supported", p);
  return whole;
}

void tercel_onnx_build_lp_pool(tercel_onnx_call *c) {
  tercel_node *const n = pool(c, "lp", tercel_onnx_in(c, 0), 1);
  tercel_onnx_set_int(c, n, "p", norm_order(c));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* All axes behind the channels. */
static size_t spatial_axes(tercel_onnx_call *c, tercel_value *x, int64_t axes[TERCEL_MAX_RANK]) {
  const int rank = tercel_onnx_rank(c, x);
  if (tercel_onnx_ok(c) && rank < 3)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input has rank %d, want at least 3", rank);
  size_t count = 0;
  for (int i = 2; i < rank; i++) axes[count++] = i;
  return count;
}

static tercel_value *global_reduce(tercel_onnx_call *c, const char *kind, tercel_value *x) {
  int64_t axes[TERCEL_MAX_RANK];
  const size_t count = spatial_axes(c, x, axes);
  return tercel_onnx_reduce(c, kind, x, axes, count, true);
}

void tercel_onnx_build_global_pool(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, global_reduce(c, c->row->detail ? "max" : "mean", tercel_onnx_in(c, 0)));
}

void tercel_onnx_build_global_lp_pool(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const int64_t p = norm_order(c);
  if (p == 1 || p == 2) {
    tercel_onnx_return(c, 0, global_reduce(c, p == 1 ? "l1" : "l2", x));
    return;
  }
  tercel_value *const powers = tercel_onnx_fn_number(c, TERCEL_FN_POW, tercel_onnx_fn1(c, TERCEL_FN_ABS, x), (double)p);
  tercel_value *const sum = global_reduce(c, "sum", powers);
  tercel_onnx_return(c, 0, tercel_onnx_fn_number(c, TERCEL_FN_POW, sum, 1.0 / (double)p));
}

/* ---- matrix products ------------------------------------------------------------------------------------------------------ */

void tercel_onnx_build_matmul(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_matmul, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)));
}

/* alpha A' B' + beta C.  C is the product's bias where it is a row of N; else it is added. */
void tercel_onnx_build_gemm(tercel_onnx_call *c) {
  tercel_value *const a = tercel_onnx_in(c, 0), *const b = tercel_onnx_in(c, 1);
  tercel_value *addend = tercel_onnx_in(c, 2);
  if (c->version < 7) tercel_onnx_ignore_attr(c, "broadcast"); /* what it allows is what numpy's rule does */
  const double alpha = tercel_onnx_get_float(c, "alpha", 1), beta = tercel_onnx_get_float(c, "beta", 1);
  const bool trans_a = tercel_onnx_get_flag(c, "transA", false), trans_b = tercel_onnx_get_flag(c, "transB", false);
  if (tercel_onnx_ok(c) && (tercel_onnx_rank(c, a) != 2 || tercel_onnx_rank(c, b) != 2))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "operands of ranks %d and %d, want 2", tercel_onnx_rank(c, a),
                     tercel_onnx_rank(c, b));
  if (addend && beta == 0) addend = NULL;
  if (addend && beta != 1) addend = tercel_onnx_fn_number(c, TERCEL_FN_MUL, addend, beta);
  const int64_t columns = tercel_onnx_dim_of(c, b, trans_b ? 0 : 1);
  const bool is_row =
      addend && columns >= 0 && tercel_onnx_rank(c, addend) == 1 && tercel_onnx_dim_of(c, addend, 0) == columns;
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, a, b, is_row ? addend : NULL);
  tercel_onnx_set_float(c, n, "alpha", alpha);
  tercel_onnx_set_int(c, n, "trans_a", trans_a);
  tercel_onnx_set_int(c, n, "trans_b", trans_b);
  tercel_value *const product = tercel_onnx_end(c, n);
  tercel_onnx_return(
      c, 0,
      addend && !is_row ? tercel_onnx_like(c, tercel_onnx_fn2(c, TERCEL_FN_ADD, product, addend), product) : product);
}
