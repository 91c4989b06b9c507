/* transpose: a strided copy. */
#include "backends/cpu/copy.h"
#include "backends/cpu/speed.h"
#include "ops/move.h"

typedef struct bound {
  tercel_copy copy;
  size_t bytes;
} bound;

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)state, (void)target;
  bound *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "transpose");
  int perm[TERCEL_MAX_RANK];
  int64_t strides[TERCEL_MAX_RANK];
  TERCEL_TRY(tercel_transpose_perm(node, in[0]->rank, perm, err));
  tercel_tensor_strides(in[0], strides);
  tercel_tensor_strides(out[0], b->copy.dst_strides);
  b->bytes = tercel_element_bytes(in[0]->dtype);
  b->copy.rank = out[0]->rank;
  for (int d = 0; d < out[0]->rank; ++d) {
    b->copy.dims[d] = out[0]->dims[d];
    b->copy.src_strides[d] = strides[perm[d]];
  }
  binding->data = b;
  return TERCEL_OK;
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const bound *b = run->binding;
  tercel_cpu_copy(run->pool, &b->copy, b->bytes, run->out[0]->data, run->in[0]->data);
  return TERCEL_OK;
}

/* Tiles go through registers, and rows of a block stay in the first-level cache: about the rate of the second-level one, as long as both
 * ends are in some cache. */
static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)kernel;
  (void)node;
  (void)out;
  const tercel_cpu_speed *const speed = tercel_cpu_get_speed();
  const double bytes = 2 * (double)in[0]->bytes;
  const bool cached = bytes < (double)tercel_cpu_cache_bytes(3) / 2;
  const double ns = 500 + bytes / (cached ? 0.8 * speed->near_bytes : speed->far_bytes);
  return tercel_cpu_shared_cost(ns, ns / 8000, target->num_threads);
}

const tercel_kernel tercel_kernel_transpose = {
    .name = "transpose.copy",
    .op = TERCEL_OP_TRANSPOSE,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run,
    .cost = cost,
};
