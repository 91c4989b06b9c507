/* What matmul_integer and conv_integer have alike: inputs 0 and 1 of 8 bits, their zero points in inputs 2 and 3, what follows is the
 * epilogue's; input 1 packed once where it is constant. */
#ifndef TERCEL_BACKENDS_CPU_GEMM8_STATE_H
#define TERCEL_BACKENDS_CPU_GEMM8_STATE_H

#include "backends/cpu/gemm8.h"

enum { TERCEL_GEMM8_WEIGHTS = 1, TERCEL_GEMM8_FIRST_ZERO = 2, TERCEL_GEMM8_FIRST_EXTRA = 4 };

typedef struct tercel_gemm8_state {
  const tercel_gemm8_kernels *kernels;
  tercel_gemm8_packed packed; /* of constant weights, matrix after matrix; panels NULL: they are read at run time */
  size_t panel_bytes;         /* of one matrix */
  int64_t num_sums, matrices;
  tercel_epilogue epilogue;
} tercel_gemm8_state;

/* Allocates and fills `packed` for constant weights, or leaves it cleared. */
typedef tercel_status (*tercel_gemm8_pack_weights)(const tercel_node *node, const tercel_tensor *weights,
                                                   tercel_gemm8_state *state, tercel_error *err);
/* A tercel_gemm8_state as out->data. */
tercel_status tercel_gemm8_prepare(const tercel_node *node, const tercel_target *target, tercel_gemm8_pack_weights pack,
                                   tercel_kernel_state *out, tercel_error *err);
void tercel_gemm8_release(void *state);

/* Room for so many matrices of panel_bytes and num_sums each; none where there are no bytes. */
tercel_status tercel_gemm8_alloc_packed(tercel_gemm8_state *state, size_t panel_bytes, int64_t num_sums,
                                        int64_t matrices, tercel_error *err);
/* Matrix number i of the packed weights. */
static inline tercel_gemm8_packed tercel_gemm8_get_packed(const tercel_gemm8_state *state, int64_t i) {
  return (tercel_gemm8_packed){(uint8_t *)state->packed.panels + (size_t)i * state->panel_bytes,
                               state->packed.sums + i * state->num_sums};
}

/* The zero points of input 0 or 1, which is the product's right operand or its left one. */
tercel_gemm8_zeros tercel_gemm8_get_zeros(const tercel_kernel_run *run, size_t operand, bool right);

#endif
