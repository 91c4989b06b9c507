/* inverse: inverses of square matrices. */
#include <math.h>

#include "ops/move.h"

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  infer->out[0].type = *x;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want floats",
                            tercel_dtype_name(x->dtype));
  const int rank = x->shape.rank;
  if (rank < 0) return TERCEL_OK;
  const tercel_dim rows = rank < 2 ? -1 : x->shape.dims[rank - 2], columns = rank < 2 ? -1 : x->shape.dims[rank - 1];
  if (rank < 2 || (tercel_dim_is_known(rows) && tercel_dim_is_known(columns) && rows != columns))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                            "input of rank %d whose last dims are %lld and %lld, want square matrices", rank,
                            (long long)rows, (long long)columns);
  return TERCEL_OK;
}

static void swap_rows(double *a, int64_t width, int64_t r, int64_t s) {
  for (int64_t j = 0; j < width; ++j) {
    const double v = a[r * width + j];
    a[r * width + j] = a[s * width + j];
    a[s * width + j] = v;
  }
}

/* Gauss and Jordan, with the largest of each column as pivot: [a | 1], n by 2n, becomes [1 | inverse of a].  Of a singular matrix
 * it becomes infinities and NaN, as the division by a pivot of 0 says. */
static void invert(double *a, int64_t n) {
  const int64_t width = 2 * n;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (fabs(a[i * width + k]) > fabs(a[pivot * width + k])) pivot = i;
    if (pivot != k) swap_rows(a, width, pivot, k);
    const double head = a[k * width + k];
    for (int64_t j = k; j < width; ++j) a[k * width + j] /= head;
    for (int64_t i = 0; i < n; ++i) {
      const double factor = a[i * width + k];
      for (int64_t j = k; i != k && j < width; ++j) a[i * width + j] -= factor * a[k * width + j];
    }
  }
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const int64_t n = x->dims[x->rank - 1], elements = tercel_tensor_num_elements(x);
  if (elements == 0) return TERCEL_OK;
  double *a = tercel_arena_alloc_array(eval->scratch, (size_t)(n * n), 2 * sizeof *a);
  if (a == NULL) return tercel_fail_memory(err, (size_t)(n * n) * 2 * sizeof *a, "inverse");
  for (int64_t first = 0; first < elements; first += n * n) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        a[i * 2 * n + j] = tercel_tensor_get_f64(x, first + i * n + j);
        a[i * 2 * n + n + j] = i == j;
      }
    invert(a, n);
    for (int64_t i = 0; i < n * n; ++i) tercel_tensor_set_f64(eval->out[0], first + i, a[i / n * 2 * n + n + i % n]);
  }
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  return (double)tercel_tensor_num_elements(in[0]) * (double)in[0]->dims[in[0]->rank - 1] * 2;
}

static const tercel_attr_spec attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_inverse = {
    .name = "inverse",
    .id = TERCEL_OP_INVERSE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "inverses of the matrices in the last two dims",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = flops,
};
