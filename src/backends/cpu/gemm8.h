/* Products of 8-bit integers for the CPU backend: blocks, threads, packing on the fly, zero points and epilogues around the register tiles of
 * kernels/gemm8.h.  matmul_integer, conv_integer and rnn go through here.
 *
 * `outer` independent products C = (A - its zero points) (B - its zero points), i32, cut into blocks as gemm.h does, but with k whole: eight
 * bits of a panel over all of k fit the caches.  A comes packed, or all of it is packed before the blocks begin; B comes packed, or each block packs
 * its columns. */
#ifndef TERCEL_BACKENDS_CPU_GEMM8_H
#define TERCEL_BACKENDS_CPU_GEMM8_H

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels/gemm8.h"

/* An operand whole in panels, with the sums of its rows (A) or columns (B). */
typedef struct tercel_gemm8_packed {
  void *panels;
  uint32_t *sums;
} tercel_gemm8_packed;

/* Bytes of panels, and elements of sums (rows or columns filled up to whole panels). */
size_t tercel_gemm8_panel_bytes_a(const tercel_gemm8_kernels *kernels, int64_t m, int64_t k);
size_t tercel_gemm8_panel_bytes_b(const tercel_gemm8_kernels *kernels, int64_t k, int64_t n);
int64_t tercel_gemm8_sums_a(const tercel_gemm8_kernels *kernels, int64_t m);
int64_t tercel_gemm8_sums_b(const tercel_gemm8_kernels *kernels, int64_t n);
/* Element (m, k) is a[m * a_row + k * a_col] ^ flip; likewise b. */
void tercel_gemm8_pack_a(const tercel_gemm8_kernels *kernels, int64_t m, int64_t k, const uint8_t *a, int64_t a_row,
                         int64_t a_col, uint8_t flip, const tercel_gemm8_packed *out);
void tercel_gemm8_pack_b(const tercel_gemm8_kernels *kernels, int64_t k, int64_t n, const uint8_t *b, int64_t b_row,
                         int64_t b_col, uint8_t flip, const tercel_gemm8_packed *out);

/* `count` operands in one piece of memory: their panels, then their sums.  outer: rows of A or columns of B. */
tercel_gemm8_packed tercel_gemm8_open_packed(const tercel_gemm8_kernels *kernels, const void *data, bool right,
                                             int64_t outer, int64_t k, int64_t count);
/* Operand number i of them. */
tercel_gemm8_packed tercel_gemm8_get_packed(const tercel_gemm8_kernels *kernels, const tercel_gemm8_packed *all,
                                            bool right, int64_t outer, int64_t k, int64_t i);

/* The caller fills the first part, tercel_gemm8_make_plan the second. */
typedef struct tercel_gemm8_plan {
  const tercel_gemm8_kernels *kernels;
  int64_t m, n, k, outer;
  int64_t c_row;
  bool a_is_packed, b_is_packed;

  tercel_gemm_blocks blocks;
  size_t a_bytes;      /* of the workspace: packed A of all products, then their sums */
  size_t thread_bytes; /* behind it, one thread's */
  size_t workspace_bytes;
} tercel_gemm8_plan;

tercel_status tercel_gemm8_make_plan(tercel_gemm8_plan *plan, int num_threads, tercel_error *err);

/* Zero points of an operand: as they lie in a tensor, one for all (count 1) or one a row or column; NULL: 0.  flip: 128 where the operand (and
 * so they) changes its kind on packing, else 0. */
typedef struct tercel_gemm8_zeros {
  const uint8_t *data;
  int64_t count;
  uint8_t flip;
} tercel_gemm8_zeros;

/* 128 when the left operand is i8, or the right one u8. */
uint8_t tercel_gemm8_flip(tercel_dtype dtype, bool right);

typedef struct tercel_gemm8_product {
  const uint8_t *a, *b;                   /* where they are not packed: packed by strides (A), or by pack_b */
  tercel_gemm8_packed packed_a, packed_b; /* where they are */
  uint32_t *c;
  tercel_gemm8_zeros a_zeros, b_zeros;
  int64_t epilogue_outer, epilogue_row; /* where C(0, 0) stands in the epilogue's view of the result */
} tercel_gemm8_product;

typedef struct tercel_gemm8_run {
  const tercel_gemm8_plan *plan;
  int64_t a_row, a_col; /* strides of an A that isn't packed */
  const tercel_epilogue *epilogue;
  const tercel_epilogue_extra *extras;
  /* Fills *out (cleared) for product number `outer`. */
  void (*product)(const void *user, int64_t outer, tercel_gemm8_product *out);
  /* Where B isn't packed: columns n0 .. n0 + n of it into panels, flipped as its zero points. */
  void (*pack_b)(const void *user, const tercel_gemm8_product *product, int64_t outer, int64_t n0, int64_t n,
                 int8_t *out);
  const void *user;
} tercel_gemm8_run;

void tercel_gemm8_run_all(const tercel_gemm8_run *run, void *workspace, tercel_pool *pool);

#endif
