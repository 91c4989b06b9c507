/* transpose: a strided copy. */
#include "backends/cpu/copy.h"
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

const tercel_kernel tercel_kernel_transpose = {
    .name = "transpose.copy",
    .op = TERCEL_OP_TRANSPOSE,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run,
};
