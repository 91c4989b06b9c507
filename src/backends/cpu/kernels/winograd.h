/* The transforms of a 3x3 convolution by Winograd's F(4x4, 3x3): a tile of 4 x 4 outputs costs 36 multiplications for each pair of channels
 * instead of 144 (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015):
 *
 *     Y = A^T [ sum over channels of (G g G^T) . (B^T d B) ] A        d: 6 x 6 of the input, g: 3 x 3 weights, . : element by element
 *
 * The points are 0, a, -a, b, -b and infinity with a = 11/16, b = 11/8: every constant of A and B is exact in f32, and rounding errors are about
 * twice those of the plain sum (with the usual 1 and 2 they are five times; B. Barabasz et al., "Error Analysis and Improving the Accuracy of
 * Winograd Convolution", 2018).
 *
 *     B^T row of 0:     ( a2 b2,     0, -(a2+b2),      0, 1, 0)       G row of 0:     (1, 0, 0) / (a2 b2)
 *             of +-p:   (0, -+p q2,       -q2,       +-p, 1, 0)              of +-p:   (1, +-p, p2) / (2 p2 (p2 - q2))
 *             of inf:   (0,    a2 b2,        0, -(a2+b2), 0, 1)              of inf:   (0, 0, 1)
 *     A^T row i:        (0^i, a^i, (-a)^i, b^i, (-b)^i, i == 3)       p, q: a, b or b, a; x2: x squared; 0^0 = 1
 *
 * Lanes are neighbouring tiles of a row. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_WINOGRAD_H
#define TERCEL_BACKENDS_CPU_KERNELS_WINOGRAD_H

#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/tables.h"

enum { TERCEL_WINOGRAD_TILE = 4, TERCEL_WINOGRAD_IN = 6, TERCEL_WINOGRAD_POSITIONS = 36 };

#define TERCEL_WINOGRAD_P 0.6875 /* a */
#define TERCEL_WINOGRAD_Q 1.375  /* b */

typedef struct tercel_winograd_view {
  tercel_conv_axis y, x; /* kernel 3, stride and dilation 1 */
  int64_t tiles;         /* in a row of them: ceil(x.output / 4) */
  int64_t step;          /* floats between the transformed elements of a tile */
} tercel_winograd_view;

typedef struct tercel_winograd_kernels {
  /* B^T d B for `rows` rows of tiles of one channel from row ty on: in [y][x]; element e of tile n goes to v[e * step + n].  Whole vectors are
   * written: up to lanes - 1 floats behind the last tile.  scratch: tercel_winograd_scratch_floats, cleared before the first of several
   * calls with the same view. */
  void (*input)(const tercel_winograd_view *view, const float *in, int64_t ty, int64_t rows, float *scratch, float *v);
  /* bias + A^T M A, M as input writes v; out [y][x] at output row 4 ty: rows and columns beyond the output are left out. */
  void (*output)(const tercel_winograd_view *view, const float *m, float bias, int64_t ty, int64_t rows, float *out);
} tercel_winograd_kernels;

TERCEL_FUSED_TABLES(tercel_winograd_kernels)

/* Tiles of a row with room for whole vectors, and one more tile, at any level. */
static inline int64_t tercel_winograd_pitch(const tercel_winograd_view *view) { return (view->tiles / 16 + 2) * 16; }
/* A row of zeros, 6 padded rows, and the 4 column phases of one. */
static inline int64_t tercel_winograd_scratch_floats(const tercel_winograd_view *view) {
  return (view->x.input + 16) + (TERCEL_WINOGRAD_IN + 1) * TERCEL_WINOGRAD_TILE * tercel_winograd_pitch(view);
}

#endif
