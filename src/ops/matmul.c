/* matmul: numpy's matrix product over the last two dims, with bias and epilogue. */
#include <string.h>

#include "ir/blocks.h"
#include "ops/linear.h"

enum { A, B, BIAS, FIRST_EXTRA };

static bool dtype_fits(tercel_dtype d) {
  switch (d) {
  case TERCEL_DTYPE_F64:
  case TERCEL_DTYPE_F32:
  case TERCEL_DTYPE_F16:
  case TERCEL_DTYPE_BF16:
  case TERCEL_DTYPE_I64:
  case TERCEL_DTYPE_I32:
  case TERCEL_DTYPE_U64:
  case TERCEL_DTYPE_U32: return true;
  default: return false;
  }
}

/* b as language models keep weights: narrower than what they meet. */
static bool is_weights(tercel_dtype a, tercel_dtype b) {
  const bool narrow = b == TERCEL_DTYPE_F16 || b == TERCEL_DTYPE_BF16;
  return tercel_dtype_is_block(b) || (narrow && a == TERCEL_DTYPE_F32);
}

static tercel_status check_blocks(const tercel_infer *infer, tercel_error *err) {
  const tercel_type *const a = &infer->in[A]->type, *const b = &infer->in[B]->type;
  const bool rows = tercel_node_int(infer->node, "trans_b") != 0 && (b->shape.rank == 2 || b->shape.rank < 0);
  if (rows && (a->dtype == TERCEL_DTYPE_F32 || a->dtype == TERCEL_DTYPE_NONE)) return TERCEL_OK;
  return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': b is %s, which goes with an f32 a, rank 2 and trans_b only",
                     infer->node->op->name, infer->node->name, tercel_dtype_name(b->dtype));
}

static tercel_status check_dtypes(const tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_dtype want = infer->in[A]->type.dtype;
  for (size_t i = A; i <= BIAS && i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL || infer->in[i]->type.dtype == TERCEL_DTYPE_NONE) continue;
    const tercel_dtype dtype = infer->in[i]->type.dtype;
    if (i == B && is_weights(want, dtype)) {
      TERCEL_TRY(check_blocks(infer, err));
      continue;
    }
    if (!dtype_fits(dtype))
      return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': input %zu is %s, want f64 f32 f16 bf16 i64 i32 u64 u32",
                         node->op->name, node->name, i, tercel_dtype_name(dtype));
    if (want != TERCEL_DTYPE_NONE && dtype != want)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %zu is %s, input 0 is %s", node->op->name,
                         node->name, i, tercel_dtype_name(dtype), tercel_dtype_name(want));
  }
  return TERCEL_OK;
}

/* Rows and columns of an operand, after transposing; a vector is a row on the left, a column on the right. */
static void matrix_dims(const tercel_shape *shape, bool transposed, bool right, tercel_dim *rows, tercel_dim *cols) {
  if (shape->rank == 1) {
    *rows = right ? shape->dims[0] : 1;
    *cols = right ? 1 : shape->dims[0];
    return;
  }
  *rows = shape->dims[shape->rank - (transposed ? 1 : 2)];
  *cols = shape->dims[shape->rank - (transposed ? 2 : 1)];
}

static tercel_shape batch_shape(const tercel_shape *shape) {
  tercel_shape batch = *shape;
  batch.rank = shape->rank > 2 ? shape->rank - 2 : 0;
  return batch;
}

tercel_status tercel_infer_matmul_shape(tercel_infer *infer, tercel_shape *out, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_shape *a = &infer->in[A]->type.shape, *b = &infer->in[B]->type.shape;
  if (a->rank < 0 || b->rank < 0) return TERCEL_OK;
  if (a->rank == 0 || b->rank == 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %d is a scalar", node->op->name, node->name,
                       a->rank != 0);
  tercel_dim m, ka, kb, n;
  matrix_dims(a, tercel_node_int(node, "trans_a") != 0, false, &m, &ka);
  matrix_dims(b, tercel_node_int(node, "trans_b") != 0, true, &kb, &n);
  if (tercel_dim_is_known(ka) && tercel_dim_is_known(kb) && ka != kb)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': the left matrix has %lld columns, the right one %lld rows",
                       node->op->name, node->name, (long long)ka, (long long)kb);
  const tercel_shape a_batch = batch_shape(a), b_batch = batch_shape(b);
  TERCEL_TRY(tercel_infer_broadcast(infer, &a_batch, &b_batch, out, err));
  if (a->rank > 1) out->dims[out->rank++] = m;
  if (b->rank > 1) out->dims[out->rank++] = n;
  return TERCEL_OK;
}

static tercel_status check_bias(const tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_fact *bias = infer->num_inputs > BIAS ? infer->in[BIAS] : NULL;
  const tercel_shape *b = &infer->in[B]->type.shape;
  if (bias == NULL || bias->type.shape.rank < 0 || b->rank < 0) return TERCEL_OK;
  const tercel_shape *s = &bias->type.shape;
  tercel_dim k, n;
  matrix_dims(b, tercel_node_int(node, "trans_b") != 0, true, &k, &n);
  if (s->rank != 1 || b->rank == 1 || (tercel_dim_is_known(s->dims[0]) && tercel_dim_is_known(n) && s->dims[0] != n)) {
    tercel_text text = {0};
    tercel_shape_print(infer->dims, s, &text);
    const tercel_status status =
        tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': bias is %s, want one number a column of the result",
                    node->op->name, node->name, text.data ? text.data : "?");
    tercel_text_deinit(&text);
    return status;
  }
  return TERCEL_OK;
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_dtypes(infer, err));
  tercel_type *type = &infer->out[0].type;
  type->dtype = infer->in[A]->type.dtype;
  TERCEL_TRY(tercel_infer_matmul_shape(infer, &type->shape, err));
  TERCEL_TRY(check_bias(infer, err));
  return tercel_infer_epilogue(infer, FIRST_EXTRA, type, err);
}

/* ---- geometry ---- */

static void matrix_strides(const tercel_tensor *t, bool transposed, bool right, int64_t *rows, int64_t *cols,
                           int64_t *row, int64_t *col) {
  tercel_shape shape = {.rank = t->rank};
  memcpy(shape.dims, t->dims, sizeof shape.dims);
  matrix_dims(&shape, transposed, right, rows, cols);
  const bool swapped = t->rank == 1 ? right : transposed;
  const int64_t width = t->rank == 1 ? 1 : t->dims[t->rank - 1];
  *row = swapped ? 1 : width;
  *col = swapped ? width : 1;
}

/* Strides of an operand's batch dims, aligned with those of the result. */
static void batch_strides(const tercel_tensor *t, const tercel_matmul_geometry *g, int64_t strides[TERCEL_MAX_RANK]) {
  tercel_tensor batch = *t;
  batch.rank = t->rank > 2 ? t->rank - 2 : 0;
  tercel_tensor_broadcast_strides(&batch, g->batch_rank, g->batch_dims, strides);
  const int64_t size = t->rank > 1 ? t->dims[t->rank - 2] * t->dims[t->rank - 1] : 0;
  for (int i = 0; i < g->batch_rank; ++i) strides[i] *= size;
}

void tercel_matmul_get_geometry(const tercel_node *node, const tercel_tensor *a, const tercel_tensor *b,
                                tercel_matmul_geometry *out) {
  memset(out, 0, sizeof *out);
  int64_t k;
  matrix_strides(a, tercel_node_int(node, "trans_a") != 0, false, &out->m, &out->k, &out->a_row, &out->a_col);
  matrix_strides(b, tercel_node_int(node, "trans_b") != 0, true, &k, &out->n, &out->b_row, &out->b_col);
  const int a_rank = a->rank > 2 ? a->rank - 2 : 0, b_rank = b->rank > 2 ? b->rank - 2 : 0;
  out->batch_rank = a_rank > b_rank ? a_rank : b_rank;
  out->batch = 1;
  for (int i = 0; i < out->batch_rank; ++i) {
    const int ai = i - out->batch_rank + a_rank, bi = i - out->batch_rank + b_rank;
    const int64_t ad = ai >= 0 ? a->dims[ai] : 1, bd = bi >= 0 ? b->dims[bi] : 1;
    out->batch_dims[i] = ad == 1 ? bd : ad;
    out->batch *= out->batch_dims[i];
  }
  batch_strides(a, out, out->a_batch);
  batch_strides(b, out, out->b_batch);
}

void tercel_matmul_offsets(const tercel_matmul_geometry *g, int64_t index, int64_t *a_out, int64_t *b_out) {
  *a_out = *b_out = 0;
  for (int d = g->batch_rank - 1; d >= 0; --d) {
    const int64_t at = index % g->batch_dims[d];
    index /= g->batch_dims[d];
    *a_out += at * g->a_batch[d];
    *b_out += at * g->b_batch[d];
  }
}

/* ---- reference ---- */

/* y = alpha * sum + bias in double, rounded once to the operands' dtype, then the epilogue. */
static tercel_status eval_float(tercel_eval *eval, const tercel_matmul_geometry *g, tercel_eval_epilogue *epilogue,
                                tercel_error *err) {
  const tercel_tensor *bias_tensor = eval->num_inputs > BIAS ? eval->in[BIAS] : NULL;
  const double *a, *b, *bias = NULL;
  TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[A], &a, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[B], &b, err));
  if (bias_tensor != NULL) TERCEL_TRY(tercel_eval_widen_f64(eval, bias_tensor, &bias, err));
  const double alpha = tercel_node_float(eval->node, "alpha");
  int64_t index = 0;
  for (int64_t batch = 0; batch < g->batch; ++batch) {
    int64_t at_a, at_b;
    tercel_matmul_offsets(g, batch, &at_a, &at_b);
    for (int64_t m = 0; m < g->m; ++m) {
      for (int64_t n = 0; n < g->n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < g->k; ++k)
          sum += a[at_a + m * g->a_row + k * g->a_col] * b[at_b + k * g->b_row + n * g->b_col];
        tercel_eval_epilogue_store_f64(epilogue, index++, alpha * sum + (bias == NULL ? 0 : bias[n]));
      }
    }
  }
  return TERCEL_OK;
}

void tercel_matmul_sum_i64(const tercel_matmul_geometry *g, const int64_t *a, const int64_t *b, const int64_t *bias,
                           int64_t alpha, tercel_eval_epilogue *epilogue) {
  int64_t index = 0;
  for (int64_t batch = 0; batch < g->batch; ++batch) {
    int64_t at_a, at_b;
    tercel_matmul_offsets(g, batch, &at_a, &at_b);
    for (int64_t m = 0; m < g->m; ++m) {
      for (int64_t n = 0; n < g->n; ++n) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < g->k; ++k)
          sum += (uint64_t)a[at_a + m * g->a_row + k * g->a_col] * (uint64_t)b[at_b + k * g->b_row + n * g->b_col];
        sum = (uint64_t)alpha * sum + (bias == NULL ? 0 : (uint64_t)bias[n]);
        tercel_eval_epilogue_store_i64(epilogue, index++, (int64_t)sum);
      }
    }
  }
}

static tercel_status eval_integer(tercel_eval *eval, const tercel_matmul_geometry *g, tercel_eval_epilogue *epilogue,
                                  tercel_error *err) {
  const tercel_tensor *bias_tensor = eval->num_inputs > BIAS ? eval->in[BIAS] : NULL;
  const int64_t *a, *b, *bias = NULL;
  TERCEL_TRY(tercel_eval_widen_i64(eval, eval->in[A], &a, err));
  TERCEL_TRY(tercel_eval_widen_i64(eval, eval->in[B], &b, err));
  if (bias_tensor != NULL) TERCEL_TRY(tercel_eval_widen_i64(eval, bias_tensor, &bias, err));
  tercel_matmul_sum_i64(g, a, b, bias, tercel_saturate_i64(tercel_node_float(eval->node, "alpha")), epilogue);
  return TERCEL_OK;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  tercel_matmul_geometry g;
  tercel_matmul_get_geometry(eval->node, eval->in[A], eval->in[B], &g);
  tercel_eval_epilogue epilogue;
  const tercel_dtype dtype = eval->in[A]->dtype;
  TERCEL_TRY(tercel_eval_epilogue_start(eval, FIRST_EXTRA, dtype, &epilogue, err));
  return (tercel_dtype_is_float(dtype) ? eval_float : eval_integer)(eval, &g, &epilogue, err);
}

double tercel_matmul_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)out;
  tercel_matmul_geometry g;
  tercel_matmul_get_geometry(node, in[A], in[B], &g);
  return 2.0 * (double)g.batch * (double)g.m * (double)g.n * (double)g.k;
}

/* alpha scales integers too, but only by whole numbers that a double holds exactly. */
static tercel_status verify(const tercel_node *node, tercel_error *err) {
  const double alpha = tercel_node_float(node, "alpha");
  const tercel_value *a = tercel_node_input(node, A);
  if (a == NULL || !tercel_dtype_is_integer(a->type.dtype)) return TERCEL_OK;
  if (!(alpha >= -0x1p53 && alpha <= 0x1p53) || (double)(int64_t)alpha != alpha)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': alpha is %g, want a whole number for %s", node->op->name,
                       node->name, alpha, tercel_dtype_name(a->type.dtype));
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"trans_a", TERCEL_ATTR_INT, .about = "1: the last two dims of a are transposed"},
    {"trans_b", TERCEL_ATTR_INT, .about = "1: the last two dims of b are transposed"},
    {"alpha", TERCEL_ATTR_FLOAT, .number = 1, .about = "factor of the product"},
    {"epilogue", TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"},
    {0}};

const tercel_op tercel_op_matmul = {.name = "matmul",
                                    .id = TERCEL_OP_MATMUL,
                                    .min_inputs = 2,
                                    .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
                                    .min_outputs = 1,
                                    .max_outputs = 1,
                                    .about = "matrix product over the last two dims, with bias and epilogue",
                                    .attrs = attrs,
                                    .infer = infer,
                                    .verify = verify,
                                    .eval = eval,
                                    .flops = tercel_matmul_flops};
