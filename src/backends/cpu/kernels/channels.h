/* Convolution and pooling over channels-last maps, f32, where each channel is by itself: depthwise, max, average.  Vectors lie along the
 * channels, so maps of any width fill them.  (What mixes channels is a matrix product: kernels/gemm.h, listed A.) */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_CHANNELS_H
#define TERCEL_BACKENDS_CPU_KERNELS_CHANNELS_H

#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/tables.h"

/* A map [y][x][channel] and the window that slides over it.  Two dims; a missing one is 1. */
typedef struct tercel_channels_view {
  tercel_conv_axis y, x;
  int64_t channels;
} tercel_channels_view;

typedef struct tercel_channels_kernels {
  /* Output rows y0 .. y0 + count of one image: in whole, w [tap][channel], bias [channel], out at row y0.  A sum begins with the bias and
   * takes the taps that lie in the map in order. */
  void (*depthwise)(const tercel_channels_view *view, const float *in, const float *w, const float *bias, int64_t y0,
                    int64_t count, float *out);
  /* The same for windows' largest elements (NaN if any is; -infinity where a window has nothing), and for their sums divided by
   * row_counts[y] * column_counts[x]. */
  void (*max)(const tercel_channels_view *view, const float *in, int64_t y0, int64_t count, float *out);
  void (*average)(const tercel_channels_view *view, const float *in, const float *row_counts,
                  const float *column_counts, int64_t y0, int64_t count, float *out);
} tercel_channels_kernels;

TERCEL_FUSED_TABLES(tercel_channels_kernels)

#endif
