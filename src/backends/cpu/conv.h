/* What the conv tactics of the CPU backend share. */
#ifndef TERCEL_BACKENDS_CPU_CONV_H
#define TERCEL_BACKENDS_CPU_CONV_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/epilogue.h"

enum { TERCEL_CONV_X, TERCEL_CONV_W, TERCEL_CONV_BIAS, TERCEL_CONV_FIRST_EXTRA };

/* All operands f32 of a known rank, with at most `max_spatial` spatial dims, and an epilogue that fits. */
bool tercel_conv_supports(const tercel_node *node, int max_spatial);
/* What the tactics that are matrix products prepare. */
typedef struct tercel_conv_state {
  const tercel_gemm_kernels *gemm;
  const tercel_conv_kernels *conv;
  float *packed;         /* constant weights in panels, group after group; NULL: read at run time */
  int64_t packed_floats; /* of one group */
  tercel_epilogue epilogue;
} tercel_conv_state;

/* A tercel_conv_state as out->data.  transposed: of W^T, for conv_transpose, whose weights are [in channels][..]. */
tercel_status tercel_conv_prepare(const tercel_node *node, bool transposed, tercel_kernel_state *out,
                                  tercel_error *err);
void tercel_conv_release(void *state);

/* The windows as three axes. */
tercel_conv_view tercel_conv_get_view(const tercel_conv_geometry *geometry);

/* Planes of a channel (see tercel_conv_plane) for bands of at most `band` output rows.  The depth must be 1. */
tercel_status tercel_conv_make_plane(const tercel_conv_view *view, int64_t band, tercel_arena *arena,
                                     tercel_conv_plane *out, tercel_error *err);
/* Floats of one row over all phases. */
int64_t tercel_conv_plane_row_floats(const tercel_conv_view *view);

#endif
