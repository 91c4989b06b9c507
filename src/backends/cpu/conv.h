/* What the conv tactics of the CPU backend share. */
#ifndef TERCEL_BACKENDS_CPU_CONV_H
#define TERCEL_BACKENDS_CPU_CONV_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm_packer.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/epilogue.h"

enum { TERCEL_CONV_X, TERCEL_CONV_W, TERCEL_CONV_BIAS, TERCEL_CONV_FIRST_EXTRA };

/* In that layout, all operands f32 of a known rank, with at most `max_spatial` spatial dims, and an epilogue that fits. */
bool tercel_conv_supports(const tercel_node *node, tercel_layout layout, int max_spatial);
/* What the tactics prepare. */
typedef struct tercel_conv_state {
  const tercel_gemm_kernels *gemm;
  const tercel_conv_kernels *conv;
  const float
      *packed; /* constant weights as the tactic's packer left them, group after group; NULL: read at run time */
  int64_t packed_floats; /* of one group */
  tercel_epilogue epilogue;
} tercel_conv_state;

/* A tercel_conv_state as out->data. */
tercel_status tercel_conv_prepare(const tercel_node *node, const tercel_target *target, tercel_kernel_state *out,
                                  tercel_error *err);
void tercel_conv_release(void *state);
/* Weights seen as A of a product: W, and W^T for conv_transpose, whose weights are [in channels][..]. */
bool tercel_conv_see_rows(const tercel_node *node, const tercel_tensor *w, tercel_gemm_operand *out);
bool tercel_conv_see_transposed(const tercel_node *node, const tercel_tensor *w, tercel_gemm_operand *out);

/* The geometry of a conv whose shapes are known, for estimates; false where there is nothing to compute or it is none. */
bool tercel_conv_cost_geometry(const tercel_node *node, const tercel_tensor *const *in, tercel_conv_geometry *out);

/* A run's operands. */
typedef struct tercel_conv_run {
  const tercel_conv_state *s;
  const float *x, *x_end, *w, *bias; /* bias: NULL for 0 */
  float *y;
  uint8_t *workspace;
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS];
} tercel_conv_run;

/* epilogue_at: where the epilogue's workspace begins in the run's. */
void tercel_conv_start(const tercel_kernel_run *r, const tercel_epilogue_binding *epilogue, size_t epilogue_at,
                       tercel_conv_run *out);

/* The windows as three axes; there are at most three of more than one element. */
tercel_conv_view tercel_conv_get_view(const tercel_conv_geometry *geometry);
/* The window sees each input element once, in order. */
bool tercel_conv_is_pointwise(const tercel_conv_geometry *geometry);

/* Planes of a channel (see tercel_conv_plane) for bands of at most `band` output rows.  The depth must be 1. */
tercel_status tercel_conv_make_plane(const tercel_conv_view *view, int64_t band, tercel_arena *arena,
                                     tercel_conv_plane *out, tercel_error *err);
/* Floats of one row over all phases. */
int64_t tercel_conv_plane_row_floats(const tercel_conv_view *view);

#endif
