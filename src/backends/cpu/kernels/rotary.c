/* rotary embeddings over f32: one head's row. */
#include "backends/cpu/kernels/rotary.h"

#include "backends/cpu/kernels/vec.h"

static void halves(const float *x, const float *c, const float *s, int64_t half, float *y) {
  int64_t i = 0;
  for (; i + TERCEL_VEC <= half; i += TERCEL_VEC) {
    const vf a = vf_load(x + i), b = vf_load(x + half + i), cosine = vf_load(c + i), sine = vf_load(s + i);
    vf_store(y + i, vf_fnma(sine, b, cosine * a));
    vf_store(y + half + i, vf_fma(cosine, b, sine * a));
  }
  if (i == half) return;
  const int64_t n = half - i;
  const vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n), cosine = vf_load_n(c + i, n),
           sine = vf_load_n(s + i, n);
  vf_store_n(y + i, vf_fnma(sine, b, cosine * a), n);
  vf_store_n(y + half + i, vf_fma(cosine, b, sine * a), n);
}

static void neighbours(const float *x, const float *c, const float *s, int64_t half, float *y) {
  VEC_INDEPENDENT
  for (int64_t i = 0; i < half; i++) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = c[i] * a - s[i] * b;
    y[2 * i + 1] = s[i] * a + c[i] * b;
  }
}

const tercel_rotary_kernels TERCEL_LEVEL_NAME(tercel_rotary_kernels) = {.halves = halves, .neighbours = neighbours};
