/* What matmul_integer and conv_integer have alike: inputs 0 and 1 of 8 bits, their zero points in inputs 2 and 3, what follows is the
 * epilogue's; input 1 packed once where it is constant. */
#ifndef TERCEL_BACKENDS_CPU_GEMM8_STATE_H
#define TERCEL_BACKENDS_CPU_GEMM8_STATE_H

#include "backends/cpu/gemm_packer.h"

enum { TERCEL_GEMM8_WEIGHTS = 1, TERCEL_GEMM8_FIRST_ZERO = 2, TERCEL_GEMM8_FIRST_EXTRA = 4 };

typedef struct tercel_gemm8_state {
  const tercel_gemm8_kernels *kernels;
  tercel_gemm8_packed packed; /* of constant weights, all operands; panels NULL: they are read at run time */
  tercel_epilogue epilogue;
} tercel_gemm8_state;

/* A tercel_gemm8_state as out->data. */
tercel_status tercel_gemm8_prepare(const tercel_node *node, const tercel_target *target,
                                   const tercel_gemm_packer *packer, tercel_kernel_state *out, tercel_error *err);
void tercel_gemm8_release(void *state);

/* The zero points of input 0 or 1, which is the product's right operand or its left one. */
tercel_gemm8_zeros tercel_gemm8_get_zeros(const tercel_kernel_run *run, size_t operand, bool right);

#endif
