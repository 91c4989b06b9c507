/* Cells of recurrent networks.  See rnn.h. */
#define VEC_FUSED
#include "backends/cpu/kernels/rnn.h"

#include "backends/cpu/kernels/mathf.h"
#include "backends/cpu/kernels/vec.h"

static inline vf bounded(vf x, float limit) { return vf_min_fast(vf_set(limit), vf_max_fast(vf_set(-limit), x)); }

static vf activate(const tercel_rnn_activation *a, float clip, vf x) {
  const vf alpha = vf_set((float)a->alpha), beta = vf_set((float)a->beta), zero = vf_zero(), one = vf_set(1);
  x = bounded(x, clip);
  switch (a->fn) {
  case TERCEL_RNN_RELU: return vf_max_fast(zero, x);
  case TERCEL_RNN_TANH: return vf_tanh(x);
  case TERCEL_RNN_SIGMOID: return vf_sigmoid(x);
  case TERCEL_RNN_AFFINE: return vf_fma(alpha, x, beta);
  case TERCEL_RNN_LEAKY_RELU: return vf_select(vf_lt(x, zero), alpha * x, x);
  case TERCEL_RNN_THRESHOLDED_RELU: return vf_select(vf_gt(x, alpha), x, zero);
  case TERCEL_RNN_SCALED_TANH: return alpha * vf_tanh(beta * x);
  case TERCEL_RNN_HARD_SIGMOID: return vf_min_fast(one, vf_max_fast(zero, vf_fma(alpha, x, beta)));
  case TERCEL_RNN_ELU: return vf_select(vf_lt(x, zero), alpha * vf_expm1(x), x);
  case TERCEL_RNN_SOFTSIGN: return x / (one + vf_abs(x));
  case TERCEL_RNN_SOFTPLUS: return vf_softplus(x);
  }
  return x;
}

static void rnn(const tercel_rnn_cell_args *a) {
  for (int64_t j = 0; j < a->hidden; j += TERCEL_VEC) {
    const int64_t n = a->hidden - j;
    vf_store_n(a->h + j, activate(&a->activations[0], a->clip, vf_load_n(a->gates + j, n)), n);
  }
}

static void gru_reset(const tercel_rnn_cell_args *a) {
  const float *x = a->gates + a->hidden, *recurrent = a->recurrent + a->hidden;
  for (int64_t j = 0; j < a->hidden; j += TERCEL_VEC) {
    const int64_t n = a->hidden - j;
    const vf r = activate(&a->activations[0], a->clip, vf_load_n(x + j, n) + vf_load_n(recurrent + j, n));
    vf_store_n(a->reset + j, r * vf_load_n(a->h + j, n), n);
  }
}

static void gru(const tercel_rnn_cell_args *a) {
  const int64_t hidden = a->hidden;
  for (int64_t j = 0; j < hidden; j += TERCEL_VEC) {
    const int64_t n = hidden - j;
    const float *x = a->gates + j, *recurrent = a->recurrent + j;
    const vf z = activate(&a->activations[0], a->clip, vf_load_n(x, n) + vf_load_n(recurrent, n));
    vf from_state = vf_load_n(recurrent + 2 * hidden, n);
    if (a->linear_before_reset)
      from_state *= activate(&a->activations[0], a->clip, vf_load_n(x + hidden, n) + vf_load_n(recurrent + hidden, n));
    const vf candidate = activate(&a->activations[1], a->clip, vf_load_n(x + 2 * hidden, n) + from_state);
    const vf h = vf_load_n(a->h + j, n);
    vf_store_n(a->h + j, (vf_set(1) - z) * candidate + z * h, n);
  }
}

static inline vf with_peephole(const float *p, vf c, vf gate, int64_t n) {
  return p == NULL ? gate : vf_fma(vf_load_n(p, n), c, gate);
}

static void lstm(const tercel_rnn_cell_args *a) {
  const tercel_rnn_activation *f = &a->activations[0], *g = &a->activations[1], *h = &a->activations[2];
  const int64_t hidden = a->hidden;
  for (int64_t j = 0; j < hidden; j += TERCEL_VEC) {
    const int64_t n = hidden - j;
    const float *gates = a->gates + j, *p = a->peepholes;
    const float *pi = p == NULL ? NULL : p + j, *po = p == NULL ? NULL : p + hidden + j;
    const float *pf = p == NULL ? NULL : p + 2 * hidden + j;
    const vf c = vf_load_n(a->c + j, n);
    const vf input = activate(f, a->clip, with_peephole(pi, c, vf_load_n(gates, n), n));
    const vf forget = a->input_forget ? vf_set(1) - input
                                      : activate(f, a->clip, with_peephole(pf, c, vf_load_n(gates + 2 * hidden, n), n));
    const vf candidate = activate(g, a->clip, vf_load_n(gates + 3 * hidden, n));
    const vf next = vf_fma(forget, c, input * candidate);
    const vf output = activate(f, a->clip, with_peephole(po, next, vf_load_n(gates + hidden, n), n));
    vf_store_n(a->c + j, next, n);
    vf_store_n(a->h + j, output * activate(h, a->clip, next), n);
  }
}

static void add_scaled(const int32_t *sums, float state_scale, const float *scales, int64_t n, float *gates) {
  const vf scale = vf_set(state_scale);
  int64_t j = 0;
  for (; j + TERCEL_VEC <= n; j += TERCEL_VEC)
    vf_store(gates + j, vf_load(gates + j) + vf_from_i(vi_load(sums + j)) * (scale * vf_load(scales + j)));
  for (; j < n; ++j) gates[j] += (float)sums[j] * (state_scale * scales[j]);
}

const tercel_rnn_kernels TERCEL_LEVEL_NAME(tercel_rnn_kernels) = {
    .cells = {[TERCEL_RNN_CELL_RNN] = rnn, [TERCEL_RNN_CELL_GRU] = gru, [TERCEL_RNN_CELL_LSTM] = lstm},
    .gru_reset = gru_reset,
    .add_scaled = add_scaled};
