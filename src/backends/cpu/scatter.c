/* scatter_elements, scatter_nd without a reduction: x is copied by all threads, then the updates go to their places in order, since a
 * later one wins. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "ops/move.h"

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  return tercel_moves_bytes(kernel, node) && strcmp(tercel_node_string(node, "reduction"), "none") == 0;
}

/* y starts as x; it may lie on it. */
static void copy_whole(const tercel_kernel_run *run, size_t bytes) {
  if (run->out[0]->data == run->in[0]->data) return;
  const tercel_copy copy = {
      .rank = 1, .dims = {tercel_tensor_num_elements(run->in[0])}, .dst_strides = {1}, .src_strides = {1}};
  tercel_cpu_copy(run->pool, &copy, bytes, run->out[0]->data, run->in[0]->data);
}

static tercel_status run_scatter_elements(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *indices = run->in[1], *updates = run->in[2];
  tercel_tensor *y = run->out[0];
  const size_t bytes = tercel_element_bytes(y->dtype);
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), y->rank, &axis, err));
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(y, strides);
  copy_whole(run, bytes);
  const int64_t n = tercel_tensor_num_elements(indices);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at;
    TERCEL_TRY(tercel_pick_index(run->node, tercel_tensor_get_i64(indices, i), y->dims[axis], axis, &at, err));
    const int64_t to = tercel_index_dot(y->rank, index, strides) + (at - index[axis]) * strides[axis];
    tercel_copy_element(tercel_at(y->data, to, bytes), tercel_at_const(updates->data, i, bytes), bytes);
    tercel_index_next(indices->rank, indices->dims, index);
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_scatter_elements = {
    .name = "scatter_elements.replace",
    .op = TERCEL_OP_SCATTER_ELEMENTS,
    .supports = supports,
    .run = run_scatter_elements,
    .inplace = 1,
};

static tercel_status run_scatter_nd(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *indices = run->in[1], *updates = run->in[2];
  tercel_tensor *y = run->out[0];
  const size_t bytes = tercel_element_bytes(y->dtype);
  const int last = indices->rank - 1, depth = (int)indices->dims[last];
  const int64_t tuples = tercel_dims_product(indices->dims, 0, last),
                inner = tercel_dims_product(y->dims, depth, y->rank);
  copy_whole(run, bytes);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to;
    TERCEL_TRY(tercel_pick_tuple(run->node, indices, t, y->dims, 0, &to, err));
    if (inner > 0)
      memcpy(tercel_at(y->data, to * inner, bytes), tercel_at_const(updates->data, t * inner, bytes),
             (size_t)inner * bytes);
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_scatter_nd = {
    .name = "scatter_nd.replace",
    .op = TERCEL_OP_SCATTER_ND,
    .supports = supports,
    .run = run_scatter_nd,
    .inplace = 1,
};
