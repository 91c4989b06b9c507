/* Matrix product of 8-bit integers, exact in 32 bits (modulo 2^32): register tiles and the packing that feeds them.  The loops around them
 * stand in cpu/gemm8.c.
 *
 *     C[m][n] = sum over k of (A(m, k) - z(m)) (B(k, n) - y(n))
 *             = sum of A B  -  z(m) sum over k of B  -  y(n) (sum over k of A - K z(m))
 *
 * The tile forms the first sum of A as u8 and B as i8; an operand of the other kind is moved by 128, and its zero points with it, by flipping
 * the top bit (`flip`).  What remains are sums of A's rows and B's columns, which packing leaves.
 *
 * k is cut into groups of `group` elements, filled up with 0, which the instructions at hand multiply and add at once:
 *
 *     group 4   VNNI: four u8 by four i8 into an i32 (vpdpbusd)
 *     group 2   else: two i16 by two i16 into an i32 (pmaddwd); never pmaddubsw, whose sums saturate
 *
 * Packed A: panels of mr rows, [ceil(m / mr)][groups][mr] words: a word is a group of a row, 4 x u8 or 2 x i16 (of 0 .. 255).
 * Packed B: panels of nr columns, [ceil(n / nr)][groups][nr][group] bytes. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_GEMM8_H
#define TERCEL_BACKENDS_CPU_KERNELS_GEMM8_H

#include <stdint.h>

typedef struct tercel_gemm8_tile {
  int64_t groups;
  const uint32_t *a; /* a panel of packed A; word of row r in group g: a[g * a_step + r] */
  int64_t a_step;    /* mr; 0: all groups are the same */
  const int8_t *b;   /* a panel of packed B */
  uint32_t *c;
  int64_t c_row;
  int64_t cols; /* 1 .. nr: nothing of C beyond is written */
  /* C = sums + row_factor[r] * col_sum[n] + row_rest[r] * col_zero[n].  The factors of columns stand for whole vectors up to cols.
   * row_factor NULL: C = sums.  col_zero NULL: all 0. */
  const uint32_t *row_factor, *row_rest, *col_sum, *col_zero;
} tercel_gemm8_tile;

typedef void (*tercel_gemm8_tile_fn)(const tercel_gemm8_tile *tile);

enum { TERCEL_GEMM8_MAX_MR = 8, TERCEL_GEMM8_MAX_VECTORS = 3, TERCEL_GEMM8_MAX_GROUP = 4, TERCEL_GEMM8_MAX_NR = 48 };

typedef struct tercel_gemm8_kernels {
  int mr, nr, lanes, group;
  uint32_t one; /* a word of A whose elements are 1 */
  /* [rows - 1][vectors of a row - 1] */
  tercel_gemm8_tile_fn tiles[TERCEL_GEMM8_MAX_MR][TERCEL_GEMM8_MAX_VECTORS];
  /* One panel: element (m, k) of A is a[m * a_row + k * a_col] ^ flip, for m < rows (1 .. mr); writes ceil(k / group) * mr words, and
   * the sum of each row to sums[0 .. rows). */
  void (*pack_a)(int64_t rows, int64_t k, const uint8_t *a, int64_t a_row, int64_t a_col, uint8_t flip, uint32_t *out,
                 uint32_t *sums);
  /* One panel: element (k, n) of B is b[k * b_row + n * b_col] ^ flip, for n < cols (1 .. nr). */
  void (*pack_b)(int64_t k, int64_t cols, const uint8_t *b, int64_t b_row, int64_t b_col, uint8_t flip, int8_t *out);
  /* One group of a panel from `group` rows of at least cols bytes; NULL: behind the end of k. */
  void (*interleave)(const uint8_t *const rows[TERCEL_GEMM8_MAX_GROUP], int64_t cols, uint8_t flip, int8_t *out);
} tercel_gemm8_kernels;

extern const tercel_gemm8_kernels tercel_gemm8_kernels_baseline, tercel_gemm8_kernels_avx2, tercel_gemm8_kernels_avx512,
    tercel_gemm8_kernels_avx512_vnni;

#endif
