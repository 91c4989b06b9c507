/* Packers of constant operands of products (kernels/gemm.h, kernels/gemm8.h).
 *
 * A kernel says how its constant is seen as an operand, one of many of the same size; all else is the same for all kernels:
 *
 *     gemm.a.6.f32, gemm.b.32.f32     panels of so many rows of A or columns of B, operand after operand
 *     gemm8.a.8x4, gemm8.b.32x4       panels of 8-bit operands, k in groups of 4; then the sums of rows or columns, as u32
 *
 * Beyond the last row or column stand zeros.  Packing is a permutation, so that the constant comes back out of it. */
#ifndef TERCEL_BACKENDS_CPU_GEMM_PACKER_H
#define TERCEL_BACKENDS_CPU_GEMM_PACKER_H

#include "backends/cpu/gemm.h"
#include "backends/cpu/gemm8.h"

/* Element (outer, k) of operand i is data[i * step + outer * outer_step + k * k_step]. */
typedef struct tercel_gemm_operand {
  int64_t count, step;
  int64_t outer, outer_step; /* rows of A or columns of B */
  int64_t k, k_step;
} tercel_gemm_operand;

/* How the constant is seen; false: it is read as it lies. */
typedef bool (*tercel_gemm_see)(const tercel_node *node, const tercel_tensor *constant, tercel_gemm_operand *out);

typedef struct tercel_gemm_packer {
  tercel_packer packer; /* first: TERCEL_GEMM_PACKER or TERCEL_GEMM8_PACKER */
  uint32_t input;       /* the constant */
  bool right;           /* it is B, else A */
  tercel_gemm_see see;
} tercel_gemm_packer;

/* The operand that the packer's constant is; false: there is none, or it is read as it lies. */
bool tercel_gemm_see_constant(const tercel_gemm_packer *packer, const tercel_node *node, tercel_gemm_operand *out);

tercel_status tercel_gemm_describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                                   tercel_pack_format *out, tercel_error *err);
tercel_status tercel_gemm_pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                               const tercel_pack_format *format, void *out, tercel_error *err);
tercel_status tercel_gemm_unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                                 uint32_t input, void *out, tercel_error *err);
#define TERCEL_GEMM_PACKER                                                                                             \
  { tercel_gemm_describe, tercel_gemm_pack, tercel_gemm_unpack }

tercel_status tercel_gemm8_describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                                    tercel_pack_format *out, tercel_error *err);
tercel_status tercel_gemm8_pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                                const tercel_pack_format *format, void *out, tercel_error *err);
tercel_status tercel_gemm8_unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                                  uint32_t input, void *out, tercel_error *err);
#define TERCEL_GEMM8_PACKER                                                                                            \
  { tercel_gemm8_describe, tercel_gemm8_pack, tercel_gemm8_unpack }

/* ---- panels of any width ---- */

/* How one operand lies in panels: element (outer, k) is number
 * ((outer / width * groups + k / group) * width + outer % width) * group + k % group, of element_bytes each. */
typedef struct tercel_panels {
  int width, group, element_bytes;
} tercel_panels;

/* Bytes of `operand->count` operands; false when that overflows. */
bool tercel_panels_bytes(const tercel_panels *panels, const tercel_gemm_operand *operand, size_t *out);
/* One operand back to where it came from; the low byte of wider elements, where out has bytes. */
void tercel_panels_unpack_f32(const tercel_panels *panels, const tercel_gemm_operand *operand, const float *packed,
                              float *out);
void tercel_panels_unpack_bytes(const tercel_panels *panels, const tercel_gemm_operand *operand, const uint8_t *packed,
                                uint8_t flip, uint8_t *out);
/* Reads a number of 1 .. 1024 and moves on; false: there is none. */
bool tercel_panels_parse_number(const char **text, int *out);

#endif
