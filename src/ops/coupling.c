/* pairwise_coupling: probabilities of K classes that agree best with those of the pairs of classes.
 *
 * T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling", JMLR 5 (2004), the second
 * approach, section 4: minimize the sum over pairs of (r_ji p_i - r_ij p_j)^2, by algorithm 2 with the iterations and the bound of LIBSVM. */
#include <math.h>

#include "ops/move.h"

/* K from the K (K - 1) / 2 pairs; 0 when that is no such number. */
static int64_t classes_of(int64_t pairs) {
  int64_t k = 2;
  while (k < 65536 && k * (k - 1) / 2 < pairs) ++k;
  return k * (k - 1) / 2 == pairs ? k : 0;
}

static tercel_status infer_coupling(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const x = &infer->in[0]->type;
  infer->out[0].type.dtype = x->dtype;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want floats",
                            tercel_dtype_name(x->dtype));
  if (x->shape.rank < 0) return TERCEL_OK;
  if (x->shape.rank != 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of rank %d, want 2", x->shape.rank);
  infer->out[0].type.shape = x->shape;
  infer->out[0].type.shape.dims[1] = tercel_dim_unknown(infer->dims);
  if (!tercel_dim_is_known(x->shape.dims[1])) return TERCEL_OK;
  const int64_t k = classes_of(x->shape.dims[1]);
  if (k == 0)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld is no number of pairs",
                            (long long)x->shape.dims[1]);
  infer->out[0].type.shape.dims[1] = k;
  return TERCEL_OK;
}

/* q: K x K, from r, row-major, r[i][j] the probability of i against j. */
static void make_matrix(const double *r, int64_t k, double *q) {
  for (int64_t t = 0; t < k; ++t) {
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      if (j == t) continue;
      sum += r[j * k + t] * r[j * k + t];
      q[t * k + j] = -r[j * k + t] * r[t * k + j];
    }
    q[t * k + t] = sum;
  }
}

/* p solves q p = (p' q p) 1, sum p = 1; qp: room for k. */
static void solve(const double *q, int64_t k, double *p, double *qp) {
  const double bound = 0.005 / (double)k;
  for (int64_t t = 0; t < k; ++t) p[t] = 1.0 / (double)k;
  for (int64_t left = k > 100 ? k : 100; left > 0; --left) {
    double pqp = 0, worst = 0;
    for (int64_t t = 0; t < k; ++t) {
      qp[t] = 0;
      for (int64_t j = 0; j < k; ++j) qp[t] += q[t * k + j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (int64_t t = 0; t < k; ++t) worst = fmax(worst, fabs(qp[t] - pqp));
    if (worst < bound) return;
    for (int64_t t = 0; t < k; ++t) {
      const double step = (pqp - qp[t]) / q[t * k + t], scale = 1 / (1 + step);
      p[t] += step;
      pqp = (pqp + step * (step * q[t * k + t] + 2 * qp[t])) * scale * scale;
      for (int64_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + step * q[t * k + j]) * scale;
        p[j] *= scale;
      }
    }
  }
}

static tercel_status eval_coupling(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  const int64_t rows = x->dims[0], pairs = x->dims[1], k = classes_of(pairs);
  if (k == 0)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "%lld is no number of pairs", (long long)pairs);
  if (eval->out[0]->data == NULL) TERCEL_TRY(tercel_eval_output(eval, 0, 2, (const int64_t[]){rows, k}, err));
  double *const r = tercel_arena_alloc_array(eval->scratch, (size_t)(k * k), sizeof *r);
  double *const q = tercel_arena_alloc_array(eval->scratch, (size_t)(k * k), sizeof *q);
  double *const p = tercel_arena_alloc_array(eval->scratch, (size_t)(2 * k), sizeof *p);
  if (r == NULL || q == NULL || p == NULL) return tercel_fail_memory(err, (size_t)(k * k) * sizeof *r, "coupling");
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = row * pairs;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i + 1; j < k; ++j, ++at) {
        r[i * k + j] = tercel_tensor_get_f64(x, at);
        r[j * k + i] = 1 - r[i * k + j];
      }
    make_matrix(r, k, q);
    solve(q, k, p, p + k);
    for (int64_t t = 0; t < k; ++t) tercel_tensor_set_f64(eval->out[0], row * k + t, p[t]);
  }
  return TERCEL_OK;
}

const tercel_op tercel_op_pairwise_coupling = {
    .name = "pairwise_coupling",
    .id = TERCEL_OP_PAIRWISE_COUPLING,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "probabilities of classes from those of the pairs of classes",
    .infer = infer_coupling,
    .eval = eval_coupling,
    .flops = tercel_no_flops,
};
