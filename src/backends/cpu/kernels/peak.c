/* Multiply-adds in registers, enough chains to fill two units of latency 4 or 5. */
#define VEC_FUSED
#include "backends/cpu/kernels/peak.h"

#include "backends/cpu/kernels/vec.h"

enum { CHAINS = 12 };

static double fma_rounds(int64_t rounds, float *sink) {
  const vf scale = vf_set(0.999f), step = vf_set(1e-3f);
  vf acc[CHAINS];
  for (int i = 0; i < CHAINS; i++) acc[i] = vf_set((float)i);
  for (int64_t r = 0; r < rounds; r++)
    for (int i = 0; i < CHAINS; i++) acc[i] = vf_fma(acc[i], scale, step);
  float lanes[TERCEL_VEC];
  vf sum = acc[0];
  for (int i = 1; i < CHAINS; i++) sum += acc[i];
  vf_store(lanes, sum);
  *sink = lanes[0];
  return 2.0 * TERCEL_VEC * CHAINS * (double)rounds;
}

const tercel_peak_kernels TERCEL_LEVEL_NAME(tercel_peak_kernels) = {.fma = fma_rounds};
