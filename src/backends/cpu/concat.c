/* concat and split: strided copies between a tensor and its parts. */
#include "backends/cpu/copy.h"
#include "ops/move.h"

/* Part `part` (of `length` along the axis) lies at position `at` of `whole`.  join: part to whole, else whole to part. */
static void copy_part(tercel_pool *pool, const tercel_tensor *whole, const tercel_tensor *part, int axis, int64_t at,
                      bool join) {
  const size_t bytes = tercel_element_bytes(whole->dtype);
  const int64_t inner = tercel_dims_product(whole->dims, axis + 1, whole->rank);
  const int64_t row = whole->dims[axis] * inner, run = part->dims[axis] * inner;
  const tercel_copy copy = {.rank = 2,
                            .dims = {tercel_dims_product(whole->dims, 0, axis), run},
                            .dst_strides = {join ? row : run, 1},
                            .src_strides = {join ? run : row, 1}};
  void *place = tercel_at(whole->data, at * inner, bytes);
  if (join)
    tercel_cpu_copy(pool, &copy, bytes, place, part->data);
  else
    tercel_cpu_copy(pool, &copy, bytes, part->data, place);
}

static tercel_status run_concat(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *y = run->out[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), y->rank, &axis, err));
  int64_t at = 0;
  for (size_t i = 0; i < run->num_inputs; ++i) {
    copy_part(run->pool, y, run->in[i], axis, at, true);
    at += run->in[i]->dims[axis];
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_concat = {
    .name = "concat.copy",
    .op = TERCEL_OP_CONCAT,
    .supports = tercel_moves_bytes,
    .run = run_concat,
};

static tercel_status run_split(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  int64_t at = 0;
  for (size_t i = 0; i < run->num_outputs; ++i) {
    if (run->out[i] != NULL) copy_part(run->pool, x, run->out[i], axis, at, false);
    at += tercel_split_part(run->node, x->dims[axis], tercel_input_tensor(run->in, run->num_inputs, 1), i);
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_split = {
    .name = "split.copy",
    .op = TERCEL_OP_SPLIT,
    .supports = tercel_moves_bytes,
    .run = run_split,
};
