/* pad: row by row.  For every axis a table says which input position each output position shows; along the last axis the middle, which
 * is input as it stands, is one memcpy. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "ops/move.h"

typedef struct job {
  const tercel_tensor *x, *y;
  const tercel_pad_axis *last;
  int64_t *source[TERCEL_MAX_RANK]; /* [axis][output position]: input position, -1: the constant */
  int64_t strides[TERCEL_MAX_RANK];
  const void *value;
  size_t bytes;
} job;

/* Positions [begin, end) of one output row whose input row begins at src. */
static void pick_row(const job *j, char *dst, const char *src, int64_t begin, int64_t end) {
  const int64_t *source = j->source[j->y->rank - 1];
  if (begin < end && source[begin] < 0) { /* either all of a side is constant, or none of it */
    tercel_fill_elements(dst + begin * (int64_t)j->bytes, j->value, end - begin, j->bytes);
    return;
  }
  for (int64_t i = begin; i < end; ++i)
    tercel_copy_element(dst + i * (int64_t)j->bytes, src + source[i] * (int64_t)j->bytes, j->bytes);
}

static void pad_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int last = j->y->rank - 1;
  const int64_t length = j->y->dims[last], size = (int64_t)j->bytes;
  for (int64_t row = begin; row < end; ++row) {
    char *dst = (char *)j->y->data + row * length * size;
    int64_t from = 0, rest = row;
    bool outside = false;
    for (int d = last - 1; d >= 0; --d) {
      const int64_t at = j->source[d][rest % j->y->dims[d]];
      rest /= j->y->dims[d];
      outside |= at < 0;
      from += at * j->strides[d];
    }
    if (outside) {
      tercel_fill_elements(dst, j->value, length, j->bytes);
      continue;
    }
    const char *src = (const char *)j->x->data + from * size;
    const int64_t middle = j->last->begin + j->last->kept;
    pick_row(j, dst, src, 0, j->last->begin);
    if (j->last->kept > 0)
      memcpy(dst + j->last->begin * size, src + j->last->first * size, (size_t)(j->last->kept * size));
    pick_row(j, dst, src, middle, length);
  }
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, int num_threads,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)node, (void)state, (void)in, (void)num_threads, (void)arena, (void)err;
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
  job j = {.x = x, .y = y, .value = value != NULL ? value->data : zero, .bytes = tercel_element_bytes(x->dtype)};
  if (y->rank == 0) {
    memcpy(y->data, x->data, j.bytes);
    return TERCEL_OK;
  }
  int64_t *table = run->workspace;
  for (int d = 0; d < y->rank; ++d) {
    j.source[d] = table;
    for (int64_t i = 0; i < y->dims[d]; ++i) *table++ = tercel_pad_source(plan.mode, &plan.axes[d], i);
  }
  tercel_tensor_strides(x, j.strides);
  j.last = &plan.axes[y->rank - 1];
  const int64_t length = y->dims[y->rank - 1];
  tercel_pool_run(run->pool, elements / length, tercel_copy_grain(length * (int64_t)j.bytes), pad_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_pad = {
    .name = "pad.rows",
    .op = TERCEL_OP_PAD,
    .supports = tercel_moves_bytes,
    .bind = bind,
    .run = run,
};
