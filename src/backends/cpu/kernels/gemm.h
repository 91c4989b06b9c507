/* Matrix product, f32: register tiles and the packing that feeds them.  The loops around them stand in cpu/gemm.c.
 *
 *     C[m][n] = start + alpha * sum over k of A(m, k) B(k, n)
 *
 * A tile is `mr` rows by `nr` columns of C, kept in registers over a run of k:
 *
 *                    B, a panel of nr columns: row k at b + k * b_step
 *                    b0 b1 .. | b.. | ..        nr / lanes vectors
 *     A, a panel     +--------+-----+----+
 *     of mr rows:  a | acc    | acc | .. |      one multiply-add of a broadcast element of A
 *     a[k][m] or   a | ..                |      with each vector of B
 *     a[m][k]        +-------------------+
 *
 * Packed A: panels of mr rows, [ceil(m / mr)][k][mr].  Packed B: panels of nr columns, [ceil(n / nr)][k][nr].  What lies beyond m or n in
 * the last panel is 0.
 *
 * The last few columns of a packed A's product (7 x 7 maps have 49) would leave most lanes idle; there the rows of A's panel are the lanes.
 *
 * Numbers: k runs upwards in one chain of multiply-adds an element, fused at levels with FMA (there, the last few columns of a product: two or
 * four chains, k modulo that), so that a result does not depend on threads; cpu/gemm.c cuts k every TERCEL_GEMM_KC.  The exact tables of all
 * levels give the same bits, through whatever tile. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_GEMM_H
#define TERCEL_BACKENDS_CPU_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels/tables.h"

/* How k is cut: a run of A's panel stays in the first-level cache; the same on all machines, since it decides how sums are grouped. */
enum { TERCEL_GEMM_KC = 256 };

typedef struct tercel_gemm_tile {
  int64_t k;
  const float *a;
  int64_t a_row; /* direct A: element (m, k) is a[m * a_row + k].  Not used for packed A: a[k * mr + m] */
  /* listed A: `segments` runs of k elements each (k of the product is segments * k); row m of run s is at a_rows[s * mr + m] */
  const float *const *a_rows;
  int64_t segments;
  const float *b;
  const int64_t *b_offsets; /* viewed B: row k is at b + b_offsets[k] */
  int64_t
      b_step; /* else: at b + k * b_step.  Whole vectors are read from each row of B: memory up to ceil(cols / lanes) * lanes must be there */
  float *c;
  int64_t c_row;
  int64_t cols; /* 1 .. nr: nothing of C beyond is read or written */
  float alpha;
  bool add;              /* start is what C holds; else the biases, each NULL for 0 (not both given) */
  const float *row_bias; /* one a row */
  const float *col_bias; /* one a column */
  bool clamp;            /* store min(max(x, low), high), NaN stays */
  float low, high;
} tercel_gemm_tile;

typedef void (*tercel_gemm_tile_fn)(const tercel_gemm_tile *tile);

enum { TERCEL_GEMM_MAX_MR = 8, TERCEL_GEMM_MAX_VECTORS = 3, TERCEL_GEMM_MAX_COLUMNS = 4 };

typedef struct tercel_gemm_kernels {
  int mr, nr, lanes;
  /* [rows - 1][vectors of a row - 1] */
  tercel_gemm_tile_fn packed[TERCEL_GEMM_MAX_MR][TERCEL_GEMM_MAX_VECTORS]; /* A packed */
  tercel_gemm_tile_fn direct[TERCEL_GEMM_MAX_MR][TERCEL_GEMM_MAX_VECTORS]; /* A as it lies */
  tercel_gemm_tile_fn viewed[TERCEL_GEMM_MAX_MR][TERCEL_GEMM_MAX_VECTORS]; /* A packed, B viewed */
  tercel_gemm_tile_fn listed[TERCEL_GEMM_MAX_MR]
                            [TERCEL_GEMM_MAX_VECTORS]; /* A listed, B packed; alpha 1, no row_bias */
  /* A packed, all rows of a panel, [columns - 1] */
  void (*columns[TERCEL_GEMM_MAX_COLUMNS])(const tercel_gemm_tile *tile, int rows);
  /* Element (m, k) of A is a[m * a_row + k * a_col]; writes ceil(m / mr) panels of k * mr floats. */
  void (*pack_a)(int64_t m, int64_t k, const float *a, int64_t a_row, int64_t a_col, float *out);
  /* Element (k, n) of B is b[k * b_row + n * b_col]; writes ceil(n / nr) panels of k * nr floats. */
  void (*pack_b)(int64_t k, int64_t n, const float *b, int64_t b_row, int64_t b_col, float *out);
  /* out[j] = dot(a, b + j * b_row) over k, for j in [0, n): for a single row against rows as they lie.
   * 16 lanes, summed in the fixed tree of vec.h. */
  void (*dots)(int64_t n, int64_t k, const float *a, const float *b, int64_t b_row, float *out);
} tercel_gemm_kernels;

TERCEL_FUSED_TABLES(tercel_gemm_kernels)

#endif
