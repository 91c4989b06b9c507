/* The epilogue door: what conv, matmul and others do to a tile of f32 results while it is hot.  (Of products of 8-bit integers the tile
 * comes as i32 and leaves as f32.)
 *
 * A result is seen as outer x rows x cols (conv: images x channels x pixels; matmul: batches x rows x columns).  `apply` works on any
 * rectangle of one outer index, in place.  Extras are broadcast over the three by strides.
 *
 *     prepare   tercel_epilogue_prepare      compiles the attribute, notes cheap forms
 *     bind      tercel_epilogue_bind         workspace for extras that three strides can't express
 *     run       tercel_epilogue_start        points at the extras (and expands those)
 *               epilogue->apply(...)         from any thread, per tile
 *               tercel_epilogue_release      with the state */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_EPILOGUE_H
#define TERCEL_BACKENDS_CPU_KERNELS_EPILOGUE_H

#include "backends/backend.h"
#include "backends/cpu/kernels/pointwise.h"

typedef enum tercel_epilogue_form {
  TERCEL_EPILOGUE_NONE,
  TERCEL_EPILOGUE_CLAMP, /* min(max(x, low), high), NaN stays: relu, relu6, clip.  No extras.  A kernel may do it in registers */
  TERCEL_EPILOGUE_ADD,       /* x + extra 0 */
  TERCEL_EPILOGUE_ADD_CLAMP, /* min(max(x + extra 0, low), high) */
  TERCEL_EPILOGUE_PROGRAM    /* anything else */
} tercel_epilogue_form;

/* One extra in a run: element (outer, row, col) is data[outer * outer_stride + row * row_stride + col * col_stride]. */
typedef struct tercel_epilogue_extra {
  const void *data;
  int64_t outer_stride, row_stride, col_stride; /* in elements; col_stride is 0 or 1 */
} tercel_epilogue_extra;

enum { TERCEL_EPILOGUE_MAX_EXTRAS = TERCEL_PROGRAM_MAX_INPUTS - 1 };

typedef struct tercel_epilogue tercel_epilogue;

/* Applies the epilogue to tile[0 .. rows)[0 .. cols), rows `ld` floats apart, which holds the results from (outer, row, col) on.
 * Form NONE does nothing, so callers need no test. */
typedef void (*tercel_epilogue_apply)(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras,
                                      int64_t outer, int64_t row, int64_t col, int64_t rows, int64_t cols, float *tile,
                                      int64_t ld);

struct tercel_epilogue {
  tercel_epilogue_form form;
  float low, high; /* CLAMP, ADD_CLAMP */
  int num_extras;
  const tercel_code *code; /* always there, but for NONE */
  void (*run)(const tercel_code *code, const tercel_code_operand *operands, void *out, int64_t n);
  tercel_epilogue_apply apply;
  tercel_arena arena; /* owns the code */
};

typedef struct tercel_epilogue_binding {
  size_t workspace_bytes; /* 64-byte aligned memory that tercel_epilogue_start wants; often 0 */
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS]; /* strides; data is set by start */
  uint16_t expanded;                                        /* bit i: extra i is expanded into the workspace */
  int rank;
  int64_t dims[TERCEL_MAX_RANK]; /* of the result */
} tercel_epilogue_binding;

/* ---- compiled once (cpu/epilogue.c) ---- */

/* True when the node's epilogue (if any), whose extras are the inputs from `first_extra` on, can be applied to its results at the level in
 * force and gives f32. */
bool tercel_epilogue_supports(const tercel_node *node, size_t first_extra);
tercel_status tercel_epilogue_prepare(const tercel_node *node, const tercel_target *target, size_t first_extra,
                                      tercel_epilogue *out, tercel_error *err);
void tercel_epilogue_release(tercel_epilogue *epilogue);
/* extras: the node's inputs from first_extra on, shaped.  result: shaped.  Its dims before row_dim are "outer", those from col_dim on "cols". */
tercel_status tercel_epilogue_bind(const tercel_epilogue *epilogue, const tercel_tensor *const *extras,
                                   const tercel_tensor *result, int row_dim, int col_dim, tercel_epilogue_binding *out,
                                   tercel_error *err);
/* At the start of a run, before any apply: extras_out has TERCEL_EPILOGUE_MAX_EXTRAS entries. */
void tercel_epilogue_start(const tercel_epilogue *epilogue, const tercel_epilogue_binding *binding,
                           const tercel_tensor *const *extras, void *workspace, tercel_epilogue_extra *extras_out);

/* ---- compiled per level ---- */

typedef struct tercel_epilogue_kernels {
  tercel_epilogue_apply apply[TERCEL_EPILOGUE_PROGRAM + 1]; /* by form */
} tercel_epilogue_kernels;

extern const tercel_epilogue_kernels tercel_epilogue_kernels_baseline, tercel_epilogue_kernels_avx2,
    tercel_epilogue_kernels_avx512;

#endif
