/* Convolution, f32: what stands around the matrix product (kernels/gemm.h), and the depthwise case, which is none.
 *
 * conv as a product: C[out channel][output] = W[out channel][tap] * B[tap][output], where a tap is (input channel, kz, ky, kx) and B is the
 * input seen through the window.  B is never made whole: `pack` makes the panels that a block of the product asks for.
 *
 * Spatial dims are three: depth, height, width; missing ones are 1. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_CONV_H
#define TERCEL_BACKENDS_CPU_KERNELS_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels/tables.h"

typedef struct tercel_conv_axis {
  int64_t input, output, kernel, stride, dilation, pad; /* pad: before the first element */
} tercel_conv_axis;

typedef struct tercel_conv_view {
  tercel_conv_axis z, y, x;
} tercel_conv_view;

/* Some rows (a band) of one channel's plane, copied with their padding and split by row and column phase, so that every tap of every
 * stride reads neighbouring elements:
 *
 *     plane[iy % stride_y][ix % stride_x][iy / stride_y][ix / stride_x]      iy, ix: counted from the first padded element of the band
 *
 * Each phase is rows x pitch; tap t of output (oy, ox) is at offsets[t] + oy * pitch + ox. */
typedef struct tercel_conv_plane {
  tercel_conv_axis y, x;
  int64_t band; /* most output rows of a call */
  int64_t rows, pitch;
  int64_t num_taps;
  const int64_t *offsets; /* num_taps */
} tercel_conv_plane;

typedef struct tercel_conv_kernels {
  /* Packs rows k0 .. k0 + k of columns n0 .. n0 + n of B into panels of the product's nr columns.  in: one image's channels of one
   * group, [channel][z][y][x], nothing readable before in or at and behind in_end.  Writes up to TERCEL_GEMM_SLACK floats behind the
   * last panel. */
  void (*pack)(const tercel_conv_view *view, const float *in, const float *in_end, int64_t k0, int64_t k, int64_t n0,
               int64_t n, float *out);
  /* Copies what output rows y0 .. y0 + count (at most p->band) of one channel look at: in [y][x] whole.  The plane was cleared before the
   * first of several calls with the same p: what lies in the padding's columns stays 0. */
  void (*fill)(const tercel_conv_plane *p, const float *in, int64_t y0, int64_t count, float *plane);
  /* Output rows y0 .. y0 + count (at most d->band) of one channel: in [y][x] whole, w [num_taps], out at row y0.
   * plane: tercel_conv_plane_floats(d) floats of scratch, cleared as for fill. */
  void (*depthwise)(const tercel_conv_plane *d, const float *in, const float *w, float bias, int64_t y0, int64_t count,
                    float *out, float *plane);
  /* A row of a transposed conv.  phases: x->stride rows of tercel_conv_phase_floats(x) floats, where output ox stands in row ox % stride at
   * ox / stride.  `start` sets them to the bias.  `add_taps` adds the contributions of one row of the input: taps[kx * tap_step + ix] goes to output
   * ix * stride + kx * dilation - pad.  `join` puts the phases together: out[0 .. x->output). */
  void (*start)(const tercel_conv_axis *x, float bias, float *phases);
  void (*add_taps)(const tercel_conv_axis *x, const float *taps, int64_t tap_step, float *phases);
  void (*join)(const tercel_conv_axis *x, const float *phases, float *out);
} tercel_conv_kernels;

TERCEL_FUSED_TABLES(tercel_conv_kernels)

/* Readable floats wanted behind what a vector loop reads. */
enum { TERCEL_CONV_SLACK = 64 };

static inline int64_t tercel_conv_phase_floats(const tercel_conv_axis *x) {
  return (x->output + x->stride - 1) / x->stride + TERCEL_CONV_SLACK;
}
static inline int64_t tercel_conv_plane_floats(const tercel_conv_plane *d) {
  return d->y.stride * d->x.stride * d->rows * d->pitch + TERCEL_CONV_SLACK;
}

#endif
