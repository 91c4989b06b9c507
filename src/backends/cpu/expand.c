/* expand and tile: strided copies that read elements more than once. */
#include "backends/cpu/copy.h"
#include "ops/move.h"

static tercel_status run_expand(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = run->in[0];
  tercel_tensor *y = run->out[0];
  tercel_copy copy = {.rank = y->rank};
  for (int d = 0; d < y->rank; ++d) copy.dims[d] = y->dims[d];
  tercel_tensor_strides(y, copy.dst_strides);
  tercel_tensor_broadcast_strides(x, y->rank, y->dims, copy.src_strides);
  tercel_cpu_copy(run->pool, &copy, tercel_element_bytes(x->dtype), y->data, x->data);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_expand = {
    .name = "expand.copy",
    .op = TERCEL_OP_EXPAND,
    .supports = tercel_moves_bytes,
    .run = run_expand,
};

/* Axis d becomes two dims: which repeat, and the position in x. */
static tercel_status run_tile(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = run->in[0];
  tercel_tensor *y = run->out[0];
  if (tercel_tensor_num_elements(y) == 0) return TERCEL_OK;
  int64_t x_strides[TERCEL_MAX_RANK], y_strides[TERCEL_MAX_RANK];
  tercel_tensor_strides(x, x_strides);
  tercel_tensor_strides(y, y_strides);
  tercel_copy copy = {.rank = 2 * x->rank};
  for (int d = 0; d < x->rank; ++d) {
    copy.dims[2 * d] = y->dims[d] / x->dims[d];
    copy.dst_strides[2 * d] = x->dims[d] * y_strides[d];
    copy.dims[2 * d + 1] = x->dims[d];
    copy.dst_strides[2 * d + 1] = y_strides[d];
    copy.src_strides[2 * d + 1] = x_strides[d];
  }
  tercel_cpu_copy(run->pool, &copy, tercel_element_bytes(x->dtype), y->data, x->data);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_tile = {
    .name = "tile.copy",
    .op = TERCEL_OP_TILE,
    .supports = tercel_moves_bytes,
    .run = run_tile,
};
