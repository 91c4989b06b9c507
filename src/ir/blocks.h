/* Block-quantized element types: rows of numbers in blocks that share a scale, as GGUF files keep weights.
 *
 * A block holds 32, 64 or 256 neighbouring elements of a tensor's last dim, which must be a whole number of blocks.  Single elements have no
 * bits of their own (tercel_dtype_bits gives 0), so only operators that say so take these types; everything else sees what
 * tercel_blocks_decode makes of them. */
#ifndef TERCEL_IR_BLOCKS_H
#define TERCEL_IR_BLOCKS_H

#include "base/base.h"

typedef struct tercel_block_format {
  int elements; /* of a block; 0: not a block-quantized type */
  int bytes;
} tercel_block_format;

tercel_block_format tercel_dtype_block_format(tercel_dtype dtype);
static inline bool tercel_dtype_is_block(tercel_dtype dtype) { return tercel_dtype_block_format(dtype).elements > 0; }

/* num_blocks blocks to f32: the numbers that the format stands for, every operation in the order in which ggml's reference does it, so that the bits
 * are those of its dequantization. */
void tercel_blocks_decode(tercel_dtype dtype, const void *data, int64_t num_blocks, float *out);
/* The other way round, as ggml's reference does it: Q8_0, which caches are kept in. */
void tercel_blocks_encode_q8_0(const float *x, int64_t num_blocks, void *out);

#endif
