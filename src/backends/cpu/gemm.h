/* Matrix products for the CPU backend: blocks for the caches, threads, packing on the fly and epilogues around the register tiles of
 * kernels/gemm.h.  matmul, conv and rnn all go through here.
 *
 * `outer` independent products C = start + alpha A B of the same sizes.  The work is cut into blocks of C; each block walks k in runs of
 * TERCEL_GEMM_KC, with its piece of B packed (or as it lies) in the second-level cache and one panel of A in the first:
 *
 *     for each block of C, mc by nc                  a piece of work for a thread
 *       for each run of k                            B: kc by nc into this thread's workspace
 *         for each panel of mr rows                  A: kc by mr
 *           for each panel of nr columns             tile
 *           after the last run: epilogue on mr by nc */
#ifndef TERCEL_BACKENDS_CPU_GEMM_H
#define TERCEL_BACKENDS_CPU_GEMM_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/epilogue.h"
#include "backends/cpu/kernels/gemm.h"

typedef enum tercel_gemm_layout {
  TERCEL_GEMM_PLAIN,  /* by strides, as it lies in a tensor */
  TERCEL_GEMM_PACKED, /* in the kernels' panels */
  TERCEL_GEMM_CALLED  /* B only: a function packs pieces (conv) */
} tercel_gemm_layout;

/* How C is cut into pieces of work. */
typedef struct tercel_gemm_blocks {
  int64_t mc, nc;             /* block sizes: multiples of mr and nr */
  int64_t most_nc;            /* nc before it was made even: what workspace is for */
  int64_t m_blocks, n_blocks; /* per product */
  int64_t grain;              /* blocks that are worth a thread */
} tercel_gemm_blocks;

/* Of `outer` products m by n by k with tiles of mr by nr.  panel_bytes: of B, nr columns over a run of k; many of them share a core's cache.
 * b_is_packed: B lies packed before the run. */
tercel_gemm_blocks tercel_gemm_cut(int64_t m, int64_t n, int64_t k, int64_t outer, int mr, int nr, int64_t panel_bytes,
                                   bool b_is_packed, int num_threads);

/* What is fixed when shapes are bound.  The caller fills the first part, tercel_gemm_plan the second. */
typedef struct tercel_gemm_plan {
  const tercel_gemm_kernels *kernels;
  int64_t m, n, k, outer;
  tercel_gemm_layout a, b;
  int64_t a_row, a_col, b_row, b_col; /* strides of PLAIN operands: A(m, k), B(k, n) */
  int64_t c_row;

  bool direct_a, direct_b; /* read as they lie, not packed */
  tercel_gemm_blocks blocks;
  size_t thread_bytes; /* workspace of one thread */
  size_t workspace_bytes;
} tercel_gemm_plan;

/* Workspace grows with m, n and k: that of a larger product with the same operands serves smaller ones. */
void tercel_gemm_make_plan(tercel_gemm_plan *plan, int num_threads);

/* The operands of one product. */
typedef struct tercel_gemm_product {
  const float *a, *b;
  float *c;
  const float *row_bias, *col_bias;     /* NULL: 0; not both */
  int64_t epilogue_outer, epilogue_row; /* where C(0, 0) stands in the epilogue's view of the result */
} tercel_gemm_product;

typedef struct tercel_gemm_run {
  const tercel_gemm_plan *plan;
  float alpha;
  bool accumulate;                 /* start is what C holds, not the biases */
  const tercel_epilogue *epilogue; /* NULL: none */
  const tercel_epilogue_extra *extras;
  /* Fills *out (cleared) for product number `outer`. */
  void (*product)(const void *user, int64_t outer, tercel_gemm_product *out);
  /* For TERCEL_GEMM_CALLED: packs rows k0 .. k0 + k of columns n0 .. n0 + n of B into panels.  May write up to
   * TERCEL_GEMM_SLACK floats behind the last. */
  void (*pack_b)(const void *user, int64_t outer, int64_t k0, int64_t k, int64_t n0, int64_t n, float *out);
  const void *user;
} tercel_gemm_run;

enum { TERCEL_GEMM_SLACK = 64 };

void tercel_gemm_run_all(const tercel_gemm_run *run, void *workspace, tercel_pool *pool);

/* Nanoseconds of one thread for the register tiles of a product, its operands in near caches: how rows and columns fill the tiles counts. */
double tercel_gemm_tiles_cost(const tercel_gemm_kernels *kernels, double m, double n, double k);
/* Nanoseconds that a planned run is expected to take, with what it reads and packs; called_ns: of an element that pack_b packs. */
double tercel_gemm_plan_cost(const tercel_gemm_plan *plan, double called_ns, int num_threads);

/* Makes one product of many (batch 1, rows of all batches), when b is the same for all of them and a's rows follow each other. */
void tercel_gemm_fold_batches(tercel_matmul_geometry *geometry);

/* Floats of a packed operand. */
size_t tercel_gemm_packed_a_size(const tercel_gemm_kernels *kernels, int64_t m, int64_t k);
size_t tercel_gemm_packed_b_size(const tercel_gemm_kernels *kernels, int64_t k, int64_t n);

#endif
