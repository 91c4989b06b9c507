/* The product of a conv without packing its input: planes of the input are copied once (padded, split by phase), and the tiles read them
 * through a table of offsets, one a tap.  Copying costs the input's size instead of the size of the input times the taps, which pays when
 * few output channels share the panels.  Tiles keep to rows of the output, so the width must fill vectors well. */
#ifndef TERCEL_BACKENDS_CPU_CONV_DIRECT_H
#define TERCEL_BACKENDS_CPU_CONV_DIRECT_H

#include "backends/cpu/conv.h"
#include "backends/cpu/gemm.h"

typedef struct tercel_conv_direct {
  const tercel_gemm_kernels *gemm;
  const tercel_conv_kernels *conv;
  int64_t outer, m, channels, k; /* of one product: output channels, input channels, channels * taps */
  int64_t in_size, out_size;
  tercel_conv_plane plane;
  int64_t plane_floats;
  const int64_t *offsets; /* [k], into the planes of all channels */
  int64_t bands;
  int64_t block, blocks; /* output channels that a piece of work takes, a multiple of mr; pieces of a band */
  size_t thread_bytes, workspace_bytes;
} tercel_conv_direct;

/* Nanoseconds that a run is expected to take; INFINITY for planes that caches don't hold. */
double tercel_conv_direct_cost(const tercel_gemm_kernels *gemm, const tercel_conv_geometry *geometry, int num_threads);
tercel_status tercel_conv_direct_bind(const tercel_gemm_kernels *gemm, const tercel_conv_kernels *conv,
                                      const tercel_conv_geometry *geometry, int num_threads, tercel_arena *arena,
                                      tercel_conv_direct *out, tercel_error *err);
/* run: as for tercel_gemm_run_all, but for the plan.  A is packed, a product's b is its input channels. */
void tercel_conv_direct_run(const tercel_conv_direct *direct, const tercel_gemm_run *run, void *workspace,
                            tercel_pool *pool);

#endif
