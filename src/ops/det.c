/* det: determinants of square matrices. */
#include <math.h>

#include "ops/epilogue.h"
#include "ops/move.h"

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  infer->out[0].type.dtype = x->dtype;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want floats",
                            tercel_dtype_name(x->dtype));
  if (x->shape.rank < 0) return TERCEL_OK;
  const int rank = x->shape.rank;
  const tercel_dim rows = rank < 2 ? -1 : x->shape.dims[rank - 2], columns = rank < 2 ? -1 : x->shape.dims[rank - 1];
  if (rank < 2 || (tercel_dim_is_known(rows) && tercel_dim_is_known(columns) && rows != columns))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                            "input of rank %d whose last dims are %lld and %lld, want square matrices", rank,
                            (long long)rows, (long long)columns);
  infer->out[0].type.shape = x->shape;
  infer->out[0].type.shape.rank = rank - 2;
  return TERCEL_OK;
}

static void swap_rows(double *a, int64_t n, int64_t r, int64_t s) {
  for (int64_t j = 0; j < n; ++j) {
    const double v = a[r * n + j];
    a[r * n + j] = a[s * n + j];
    a[s * n + j] = v;
  }
}

/* Gauss, with the largest of each column as pivot; a is used up. */
static double determinant(double *a, int64_t n) {
  double result = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
    if (pivot != k) {
      swap_rows(a, n, pivot, k);
      result = -result;
    }
    const double head = a[k * n + k];
    result *= head;
    if (head == 0) return result;
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / head;
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return result;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const int64_t n = x->dims[x->rank - 1], count = tercel_tensor_num_elements(eval->out[0]);
  if (count == 0) return TERCEL_OK;
  double *a = tercel_arena_alloc_array(eval->scratch, (size_t)(n * n), sizeof *a);
  if (a == NULL) return tercel_fail_memory(err, (size_t)(n * n) * sizeof *a, "det");
  for (int64_t m = 0; m < count; ++m) {
    for (int64_t i = 0; i < n * n; ++i) a[i] = tercel_tensor_get_f64(x, m * n * n + i);
    tercel_tensor_set_f64(eval->out[0], m, determinant(a, n));
  }
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  const double n = (double)in[0]->dims[in[0]->rank - 1];
  return (double)tercel_tensor_num_elements(in[0]) * n * 2 / 3;
}

static const tercel_attr_spec attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_det = {
    .name = "det",
    .id = TERCEL_OP_DET,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "determinants of the matrices in the last two dims",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = flops,
};
