/* pad: row by row.  For every axis a table says which input position each output position shows; along the last padded axis the middle,
 * which is input as it stands, is one memcpy. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "ops/move.h"

/* Rows along the last axis that is padded; what stands behind it moves as one run. */
typedef struct job {
  const char *x;
  char *y;
  int rank; /* axes up to and with the last that is padded */
  int64_t dims[TERCEL_MAX_RANK];
  const int64_t *source[TERCEL_MAX_RANK]; /* [axis][output position]: input position, -1: the constant */
  int64_t strides[TERCEL_MAX_RANK];       /* of x, in runs */
  int64_t run;                            /* elements */
  const tercel_pad_axis *last;
  const void *value;
  size_t bytes; /* of an element */
} job;

/* Positions [begin, end) of one output row whose input row begins at src. */
static void pick_row(const job *j, char *dst, const char *src, int64_t begin, int64_t end) {
  const int64_t *source = j->source[j->rank - 1], size = j->run * (int64_t)j->bytes;
  if (begin < end && source[begin] < 0) { /* either all of a side is constant, or none of it */
    tercel_fill_elements(dst + begin * size, j->value, (end - begin) * j->run, j->bytes);
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    if (j->run == 1)
      tercel_copy_element(dst + i * size, src + source[i] * size, j->bytes);
    else
      memcpy(dst + i * size, src + source[i] * size, (size_t)size);
  }
}

static void pad_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int last = j->rank - 1;
  const int64_t length = j->dims[last], size = j->run * (int64_t)j->bytes;
  int64_t index[TERCEL_MAX_RANK];
  tercel_index_of(last, j->dims, begin, index);
  for (int64_t row = begin; row < end; ++row) {
    char *dst = j->y + row * length * size;
    int64_t from = 0;
    bool outside = false;
    for (int d = 0; d < last; ++d) {
      const int64_t at = j->source[d][index[d]];
      outside |= at < 0;
      from += at * j->strides[d];
    }
    tercel_index_next(last, j->dims, index);
    if (outside) {
      tercel_fill_elements(dst, j->value, length * j->run, j->bytes);
      continue;
    }
    const char *src = j->x + from * size;
    const int64_t middle = j->last->begin + j->last->kept;
    pick_row(j, dst, src, 0, j->last->begin);
    if (j->last->kept > 0)
      memcpy(dst + j->last->begin * size, src + j->last->first * size, (size_t)(j->last->kept * size));
    pick_row(j, dst, src, middle, length);
  }
}

static bool is_whole(const tercel_pad_axis *axis, int64_t size) {
  return axis->begin == 0 && axis->end == 0 && axis->kept == size;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)node, (void)state, (void)in, (void)target, (void)arena, (void)err;
  for (int d = 0; d < out[0]->rank; ++d) binding->workspace_bytes += (size_t)out[0]->dims[d] * sizeof(int64_t);
  return TERCEL_OK;
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  static const uint64_t zero[2]; /* one cleared element of any type */
  const tercel_tensor *x = run->in[0], *y = run->out[0], *value = tercel_input_tensor(run->in, run->num_inputs, 2);
  const int64_t elements = tercel_tensor_num_elements(y);
  tercel_pad_plan plan;
  TERCEL_TRY(tercel_pad_resolve(run->node, run->in, run->num_inputs, &plan, err));
  if (value != NULL && tercel_tensor_num_elements(value) != 1)
    return tercel_node_fail(run->node, err, TERCEL_INVALID_ARGUMENT, "the value has %lld elements, want one",
                            (long long)tercel_tensor_num_elements(value));
  if (elements == 0) return TERCEL_OK;
  job j = {.x = x->data,
           .y = y->data,
           .rank = x->rank,
           .run = 1,
           .value = value != NULL ? value->data : zero,
           .bytes = tercel_element_bytes(x->dtype)};
  while (j.rank > 0 && is_whole(&plan.axes[j.rank - 1], x->dims[j.rank - 1])) j.run *= x->dims[--j.rank];
  if (j.rank == 0) {
    memcpy(y->data, x->data, (size_t)elements * j.bytes);
    return TERCEL_OK;
  }
  int64_t *table = run->workspace, stride = 1;
  for (int d = j.rank - 1; d >= 0; --d) {
    j.dims[d] = y->dims[d];
    j.source[d] = table;
    j.strides[d] = stride;
    stride *= x->dims[d];
    for (int64_t i = 0; i < y->dims[d]; ++i) *table++ = tercel_pad_source(plan.mode, &plan.axes[d], i);
  }
  j.last = &plan.axes[j.rank - 1];
  const int64_t row = y->dims[j.rank - 1] * j.run;
  tercel_pool_run(run->pool, elements / row, tercel_copy_grain(row * (int64_t)j.bytes), pad_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_pad = {
    .name = "pad.rows",
    .op = TERCEL_OP_PAD,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run,
};
