/* Rows of numbers in any type that weights and caches are kept in, read as f32. */
#ifndef TERCEL_BACKENDS_CPU_WEIGHTS_H
#define TERCEL_BACKENDS_CPU_WEIGHTS_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/pointwise.h"
#include "ir/blocks.h"

typedef struct tercel_weight_rows {
  tercel_dtype dtype;
  tercel_block_format block; /* of one element where the type has no blocks */
  const uint8_t *data;
  size_t row_bytes;
  tercel_lanes_fn widen; /* NULL: blocks, or f32 */
} tercel_weight_rows;

/* f32, f16, bf16 and block-quantized types. */
bool tercel_weight_rows_support(tercel_dtype dtype);
/* Rows along the last dim of t, whatever stands before it. */
tercel_weight_rows tercel_weight_rows_of(const tercel_tensor *t, const tercel_target *target);
/* Elements first .. first + count of a row: whole blocks. */
void tercel_weight_rows_read(const tercel_weight_rows *rows, int64_t row, int64_t first, int64_t count, float *out);

#endif
