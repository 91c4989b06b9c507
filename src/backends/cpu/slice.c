/* slice: a strided copy out of the middle of a tensor. */
#include "backends/cpu/copy.h"
#include "ops/move.h"

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  tercel_tensor *y = run->out[0];
  tercel_slice_axis axes[TERCEL_MAX_RANK];
  TERCEL_TRY(tercel_slice_resolve(run->node, run->in, run->num_inputs, axes, err));
  tercel_copy copy = {.rank = x->rank};
  int64_t first = 0;
  tercel_tensor_strides(x, copy.src_strides);
  tercel_tensor_strides(y, copy.dst_strides);
  for (int d = 0; d < x->rank; ++d) {
    copy.dims[d] = axes[d].count;
    first += axes[d].first * copy.src_strides[d];
    copy.src_strides[d] *= axes[d].step;
  }
  const size_t bytes = tercel_element_bytes(x->dtype);
  tercel_cpu_copy(run->pool, &copy, bytes, y->data, tercel_at_const(x->data, first, bytes));
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_slice = {
    .name = "slice.copy",
    .op = TERCEL_OP_SLICE,
    .supports = tercel_moves_bytes,
    .run = run,
};
