/* Attention over f32 operands as they lie, whatever operator asks for it. */
#ifndef TERCEL_BACKENDS_CPU_ATTENTION_H
#define TERCEL_BACKENDS_CPU_ATTENTION_H

#include "backends/cpu/gemm.h"
#include "ops/attention.h"

/* Keys are taken in blocks of so many: larger blocks have fewer maxima and rescalings, and must stay in the second-level cache with the
 * scores. */
enum { TERCEL_ATTENTION_BLOCK = 256 };

/* One thread's memory; offsets in floats. */
typedef struct tercel_attention_space {
  const tercel_gemm_kernels *gemm;
  size_t keys_at, values_at, queries_at, scores_at, out_at, largest_at, sums_at, floats;
} tercel_attention_space;

/* For heads of these sizes, and at most so many rows (queries times the heads that share a key head) and keys. */
void tercel_attention_plan(const tercel_target *target, int64_t most_rows, int64_t most_keys, int64_t head_size,
                           int64_t value_size, tercel_attention_space *out);

typedef struct tercel_attention_operands {
  const float *q, *k, *v, *sinks; /* sinks may be NULL */
  const tercel_tensor *mask;      /* bool or f32; may be NULL */
  float *y;
} tercel_attention_operands;

/* workspace: space->floats for each thread. */
void tercel_attention_run(const tercel_attention_geometry *geometry, const tercel_attention_operands *operands,
                          const tercel_attention_space *space, float *workspace, const tercel_target *target,
                          tercel_pool *pool);

#endif
