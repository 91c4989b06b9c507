/* Rows of weights and caches as f32.  See weights.h. */
#include "backends/cpu/weights.h"

#include <string.h>

bool tercel_weight_rows_support(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_F32 || dtype == TERCEL_DTYPE_F16 || dtype == TERCEL_DTYPE_BF16 ||
         tercel_dtype_is_block(dtype);
}

tercel_weight_rows tercel_weight_rows_of(const tercel_tensor *t, const tercel_target *target) {
  const tercel_pointwise_kernels *const loops = TERCEL_CPU_PICK_FOR(target, tercel_pointwise_kernels);
  tercel_weight_rows rows = {.dtype = t->dtype, .block = tercel_dtype_block_format(t->dtype), .data = t->data};
  if (rows.block.elements == 0) rows.block = (tercel_block_format){1, tercel_dtype_bits(t->dtype) / 8};
  rows.row_bytes = (size_t)(t->dims[t->rank - 1] / rows.block.elements) * (size_t)rows.block.bytes;
  rows.widen = t->dtype == TERCEL_DTYPE_F16 ? loops->f16_load : t->dtype == TERCEL_DTYPE_BF16 ? loops->bf16_load : NULL;
  return rows;
}

void tercel_weight_rows_read(const tercel_weight_rows *rows, int64_t row, int64_t first, int64_t count, float *out) {
  const uint8_t *const from =
      rows->data + (size_t)row * rows->row_bytes + (size_t)(first / rows->block.elements) * (size_t)rows->block.bytes;
  if (rows->widen != NULL) {
    const tercel_lanes lanes = {.dst = out, .src = {from}, .step = {1}, .n = count};
    rows->widen(&lanes);
  } else if (rows->dtype == TERCEL_DTYPE_F32) {
    memcpy(out, from, (size_t)count * sizeof *out);
  } else {
    tercel_blocks_decode(rows->dtype, from, count / rows->block.elements, out);
  }
}
