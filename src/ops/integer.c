/* matmul_integer and conv_integer: products of 8-bit integers less their zero points, summed exactly in i32 (modulo 2^32), with epilogue.
 * What comes before and after (quantizing, scales, bias) are operators of their own. */
#include "ops/linear.h"

enum { LEFT, RIGHT, LEFT_ZERO, RIGHT_ZERO, FIRST_EXTRA };

/* LEFT and RIGHT are 8 bits wide; a zero point has its operand's dtype. */
static tercel_status check_dtypes(const tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  for (size_t i = LEFT; i < FIRST_EXTRA && i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL || infer->in[i]->type.dtype == TERCEL_DTYPE_NONE) continue;
    const tercel_dtype dtype = infer->in[i]->type.dtype, operand = infer->in[i % LEFT_ZERO]->type.dtype;
    if (dtype != TERCEL_DTYPE_U8 && dtype != TERCEL_DTYPE_I8)
      return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': input %zu is %s, want u8 or i8", node->op->name, node->name,
                         i, tercel_dtype_name(dtype));
    if (operand != TERCEL_DTYPE_NONE && dtype != operand)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': zero point %zu is %s, its operand %s", node->op->name,
                         node->name, i, tercel_dtype_name(dtype), tercel_dtype_name(operand));
  }
  return TERCEL_OK;
}

/* One number, or a list of *each of them (NULL: there is no such list). */
static tercel_status check_zero(const tercel_infer *infer, size_t input, const tercel_dim *each, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_fact *zero = infer->num_inputs > input ? infer->in[input] : NULL;
  if (zero == NULL || zero->type.shape.rank < 0) return TERCEL_OK;
  const tercel_shape *s = &zero->type.shape;
  if (s->rank == 0) return TERCEL_OK;
  if (s->rank == 1 && (s->dims[0] == 1 || !tercel_dim_is_known(s->dims[0]))) return TERCEL_OK;
  if (s->rank == 1 && each != NULL && (!tercel_dim_is_known(*each) || s->dims[0] == *each)) return TERCEL_OK;
  tercel_text text = {0};
  tercel_shape_print(infer->dims, s, &text);
  const tercel_status status = tercel_fail(
      err, TERCEL_INVALID_MODEL, "%s '%s': zero point %zu is %s, want one number or one a %s", node->op->name,
      node->name, input, text.data ? text.data : "?", input == LEFT_ZERO ? "row" : "column");
  tercel_text_deinit(&text);
  return status;
}

static tercel_status finish(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = TERCEL_DTYPE_I32;
  return tercel_infer_epilogue(infer, FIRST_EXTRA, &infer->out[0].type, err);
}

static tercel_status infer_matmul(tercel_infer *infer, tercel_error *err) {
  tercel_shape *out = &infer->out[0].type.shape;
  TERCEL_TRY(check_dtypes(infer, err));
  TERCEL_TRY(tercel_infer_matmul_shape(infer, out, err));
  const tercel_shape *a = &infer->in[LEFT]->type.shape, *b = &infer->in[RIGHT]->type.shape;
  if (out->rank >= 0) {
    TERCEL_TRY(check_zero(infer, LEFT_ZERO, a->rank >= 2 ? &a->dims[a->rank - 2] : NULL, err));
    TERCEL_TRY(check_zero(infer, RIGHT_ZERO, b->rank >= 2 ? &b->dims[b->rank - 1] : NULL, err));
  }
  return finish(infer, err);
}

static tercel_status infer_conv(tercel_infer *infer, tercel_error *err) {
  tercel_shape *out = &infer->out[0].type.shape;
  TERCEL_TRY(check_dtypes(infer, err));
  TERCEL_TRY(tercel_infer_conv_shape(infer, out, err));
  if (out->rank >= 0) {
    TERCEL_TRY(check_zero(infer, LEFT_ZERO, NULL, err));
    TERCEL_TRY(check_zero(infer, RIGHT_ZERO, &infer->in[RIGHT]->type.shape.dims[0], err));
  }
  return finish(infer, err);
}

/* ---- reference ---- */

/* The operand less its zero point.  Of a list of zero points, number i / inner modulo their count belongs to element i. */
static tercel_status center(tercel_eval *eval, size_t input, int64_t inner, const int64_t **out, tercel_error *err) {
  const tercel_tensor *tensor = eval->in[input];
  const tercel_tensor *zero = eval->num_inputs > input + LEFT_ZERO ? eval->in[input + LEFT_ZERO] : NULL;
  const int64_t count = tercel_tensor_num_elements(tensor), zeros = zero ? tercel_tensor_num_elements(zero) : 0;
  int64_t *wide = tercel_arena_alloc_array(eval->scratch, (size_t)count, sizeof *wide);
  if (wide == NULL) return tercel_fail_memory(err, (size_t)count * sizeof *wide, "a widened operand");
  for (int64_t i = 0; i < count; ++i)
    wide[i] = tercel_tensor_get_i64(tensor, i) - (zeros > 0 ? tercel_tensor_get_i64(zero, i / inner % zeros) : 0);
  *out = wide;
  return TERCEL_OK;
}

static tercel_status eval_matmul(tercel_eval *eval, tercel_error *err) {
  tercel_matmul_geometry g;
  tercel_matmul_get_geometry(eval->node, eval->in[LEFT], eval->in[RIGHT], &g);
  tercel_eval_epilogue epilogue;
  const int64_t *a, *b;
  TERCEL_TRY(tercel_eval_epilogue_start(eval, FIRST_EXTRA, TERCEL_DTYPE_I32, &epilogue, err));
  TERCEL_TRY(center(eval, LEFT, tercel_max_i64(g.k, 1), &a, err));
  TERCEL_TRY(center(eval, RIGHT, 1, &b, err));
  tercel_matmul_sum_i64(&g, a, b, NULL, 1, &epilogue);
  return TERCEL_OK;
}

static tercel_status eval_conv(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *w = eval->in[RIGHT];
  const int64_t filter = w->dims[0] > 0 ? tercel_tensor_num_elements(w) / w->dims[0] : 1;
  tercel_eval_epilogue epilogue;
  const int64_t *x, *wide_w;
  TERCEL_TRY(tercel_eval_epilogue_start(eval, FIRST_EXTRA, TERCEL_DTYPE_I32, &epilogue, err));
  TERCEL_TRY(center(eval, LEFT, 1, &x, err));
  TERCEL_TRY(center(eval, RIGHT, tercel_max_i64(filter, 1), &wide_w, err));
  return tercel_conv_sum_i64(eval, x, wide_w, &epilogue, err);
}

static const tercel_attr_spec matmul_attrs[] = {
    {"epilogue", TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"}, {0}};

/* clang-format off */
static const tercel_attr_spec conv_attrs[] = {
    {"group",     TERCEL_ATTR_INT, .number = 1, .about = "independent blocks of channels"},
    {"strides",   TERCEL_ATTR_INTS, .about = "step of the window, one a spatial dim; absent: 1"},
    {"dilations", TERCEL_ATTR_INTS, .about = "distance of the kernel's elements; absent: 1"},
    {"pads",      TERCEL_ATTR_INTS, .about = "zero points before each spatial dim, then after each; absent: 0"},
    {"auto_pad",  TERCEL_ATTR_STRING, .text = "", .about = "same_upper, same_lower, valid; empty: use pads"},
    {"epilogue",  TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"},
    {0}};
/* clang-format on */

const tercel_op tercel_op_matmul_integer = {.name = "matmul_integer",
                                            .id = TERCEL_OP_MATMUL_INTEGER,
                                            .min_inputs = 2,
                                            .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
                                            .min_outputs = 1,
                                            .max_outputs = 1,
                                            .about = "matrix product of 8-bit integers less their zero points",
                                            .attrs = matmul_attrs,
                                            .infer = infer_matmul,
                                            .eval = eval_matmul,
                                            .flops = tercel_matmul_flops};

const tercel_op tercel_op_conv_integer = {.name = "conv_integer",
                                          .id = TERCEL_OP_CONV_INTEGER,
                                          .min_inputs = 2,
                                          .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
                                          .min_outputs = 1,
                                          .max_outputs = 1,
                                          .about = "convolution of 8-bit integers less their zero points",
                                          .attrs = conv_attrs,
                                          .infer = infer_conv,
                                          .eval = eval_conv,
                                          .flops = tercel_conv_flops};
