/* attention over f32: rows of scores, and values mixed by them. */
#define VEC_FUSED
#include "backends/cpu/kernels/attention.h"

#include "backends/cpu/kernels/rows.h"

static void scale(const float *x, int64_t n, float factor, float *out) {
  const vf f = vf_set(factor);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(out + i, vf_load(x + i) * f);
  if (i < n) vf_store_n(out + i, vf_load_n(x + i, n - i) * f, n - i);
}

static void cap(float *s, int64_t n, float softcap) {
  const vf c = vf_set(softcap);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(s + i, c * vf_tanh(vf_load(s + i) / c));
  if (i < n) vf_store_n(s + i, c * vf_tanh(vf_load_n(s + i, n - i) / c), n - i);
}

static void add(float *s, const float *mask, int64_t n) {
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(s + i, vf_load(s + i) + vf_load(mask + i));
  if (i < n) vf_store_n(s + i, vf_load_n(s + i, n - i) + vf_load_n(mask + i, n - i), n - i);
}

static void hide(float *s, const uint8_t *mask, int64_t n, float fill) {
  for (int64_t i = 0; i < n; i++) s[i] = mask[i] != 0 ? s[i] : fill;
}

static float step(float *s, int64_t n, float *largest, float *sum) {
  const float here = v16_largest(row_fold(s, n, v16_set(0), -INFINITY, -INFINITY, row_same, row_max_fast));
  const float m = here > *largest ? here : *largest;
  const float shift = m == -INFINITY ? 0.0f : m; /* e^(-infinity) is 0 then too */
  const float factor = vf_exp(vf_set(*largest - shift))[0];
  *sum = *sum * factor + row_exponentials(s, s, n, shift);
  *largest = m;
  return factor;
}

enum { MIX_VECTORS = 8 };

/* `count` vectors of out, of which all lanes are there. */
VEC_INLINE void mix_vectors(const float *p, int64_t n, const float *v, int64_t v_row, const int count, float *out) {
  vf acc[MIX_VECTORS];
#pragma GCC unroll 8
  for (int u = 0; u < count; u++) acc[u] = vf_load(out + u * TERCEL_VEC);
  for (int64_t j = 0; j < n; j++, v += v_row) {
    const vf weight = vf_set(p[j]);
#pragma GCC unroll 8
    for (int u = 0; u < count; u++) acc[u] = vf_fma(weight, vf_load(v + u * TERCEL_VEC), acc[u]);
  }
#pragma GCC unroll 8
  for (int u = 0; u < count; u++) vf_store(out + u * TERCEL_VEC, acc[u]);
}

static void mix(const float *p, int64_t n, const float *v, int64_t v_row, int64_t size, float *out) {
  int64_t d = 0;
  for (; d + MIX_VECTORS * TERCEL_VEC <= size; d += MIX_VECTORS * TERCEL_VEC)
    mix_vectors(p, n, v + d, v_row, MIX_VECTORS, out + d);
  for (; d + TERCEL_VEC <= size; d += TERCEL_VEC) mix_vectors(p, n, v + d, v_row, 1, out + d);
  if (d == size) return;
  vf acc = vf_load_n(out + d, size - d);
  for (int64_t j = 0; j < n; j++) acc = vf_fma(vf_set(p[j]), vf_load_n(v + j * v_row + d, size - d), acc);
  vf_store_n(out + d, acc, size - d);
}

const tercel_attention_kernels TERCEL_LEVEL_NAME(tercel_attention_kernels) = {
    .scale = scale, .cap = cap, .add = add, .hide = hide, .step = step, .mix = mix};
