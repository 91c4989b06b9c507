/* gather, gather_elements, gather_nd.  Indices are checked and turned into positions first, then rows are copied by all threads. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "ops/move.h"

/* Row i of the result, `run` elements, is found at element from[i] of x (plus offset per outer row, for gather). */
typedef struct job {
  const char *x;
  char *y;
  const int64_t *from;
  int64_t count;   /* rows in an outer row of y */
  int64_t x_outer; /* elements of x in an outer row */
  int64_t run;
  size_t bytes;
} job;

static void copy_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t size = (int64_t)j->bytes;
  for (int64_t row = begin; row < end; ++row) {
    const char *src = j->x + (row / j->count * j->x_outer + j->from[row % j->count]) * size;
    if (j->run == 1)
      tercel_copy_element(j->y + row * size, src, j->bytes);
    else
      memcpy(j->y + row * j->run * size, src, (size_t)(j->run * size));
  }
}

static void copy_all(tercel_pool *pool, job *j, int64_t outer) {
  if (j->run == 0 || j->count == 0) return;
  tercel_pool_run(pool, outer * j->count, tercel_copy_grain(j->run * (int64_t)j->bytes), copy_rows, j);
}

/* A position for each index (gather_nd: for each tuple, of which there are at most as many). */
static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)node, (void)state, (void)out, (void)target, (void)arena, (void)err;
  int64_t positions = tercel_tensor_num_elements(in[1]);
  if (in[1]->rank > 0 && in[1]->dims[in[1]->rank - 1] == 0)
    positions = tercel_dims_product(in[1]->dims, 0, in[1]->rank - 1);
  binding->workspace_bytes = (size_t)positions * sizeof(int64_t);
  return TERCEL_OK;
}

static tercel_status run_gather(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0], *indices = run->in[1];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  int64_t *from = run->workspace;
  job j = {.x = x->data,
           .y = run->out[0]->data,
           .from = from,
           .count = tercel_tensor_num_elements(indices),
           .x_outer = tercel_dims_product(x->dims, axis, x->rank),
           .run = tercel_dims_product(x->dims, axis + 1, x->rank),
           .bytes = tercel_element_bytes(x->dtype)};
  for (int64_t i = 0; i < j.count; ++i) {
    TERCEL_TRY(tercel_pick_index(run->node, tercel_tensor_get_i64(indices, i), x->dims[axis], axis, &from[i], err));
    from[i] *= j.run;
  }
  copy_all(run->pool, &j, tercel_dims_product(x->dims, 0, axis));
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_gather = {
    .name = "gather.rows",
    .op = TERCEL_OP_GATHER,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run_gather,
};

static tercel_status run_gather_elements(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0], *indices = run->in[1];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  int64_t *from = run->workspace, strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_strides(x, strides);
  job j = {.x = x->data,
           .y = run->out[0]->data,
           .from = from,
           .count = tercel_tensor_num_elements(indices),
           .run = 1,
           .bytes = tercel_element_bytes(x->dtype)};
  for (int64_t i = 0; i < j.count; ++i) {
    int64_t at;
    TERCEL_TRY(tercel_pick_index(run->node, tercel_tensor_get_i64(indices, i), x->dims[axis], axis, &at, err));
    from[i] = tercel_index_dot(x->rank, index, strides) + (at - index[axis]) * strides[axis];
    tercel_index_next(indices->rank, indices->dims, index);
  }
  copy_all(run->pool, &j, 1);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_gather_elements = {
    .name = "gather_elements.checked",
    .op = TERCEL_OP_GATHER_ELEMENTS,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run_gather_elements,
};

static tercel_status run_gather_nd(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0], *indices = run->in[1];
  const int batch = (int)tercel_node_int(run->node, "batch_dims"), last = indices->rank - 1;
  const int64_t tuples = tercel_dims_product(indices->dims, batch, last);
  int64_t *from = run->workspace;
  job j = {.x = x->data,
           .y = run->out[0]->data,
           .from = from,
           .count = tercel_dims_product(indices->dims, 0, last),
           .run = tercel_dims_product(x->dims, batch + (int)indices->dims[last], x->rank),
           .bytes = tercel_element_bytes(x->dtype)};
  const int64_t x_batch = tercel_dims_product(x->dims, batch, x->rank);
  for (int64_t t = 0; t < j.count; ++t) {
    TERCEL_TRY(tercel_pick_tuple(run->node, indices, t, x->dims + batch, batch, &from[t], err));
    from[t] = t / tuples * x_batch + from[t] * j.run;
  }
  copy_all(run->pool, &j, 1);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_gather_nd = {
    .name = "gather_nd.rows",
    .op = TERCEL_OP_GATHER_ND,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run_gather_nd,
};
