/* pool: largest and average in f32, any number of spatial dims.  A row of the result along the last dim takes two steps: all input rows
 * under the window become one (padded) row, then the window slides along it. */
#include "ops/move.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/window.h"

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const char *kind = tercel_node_string(node, "kind");
  return node->inputs[0]->type.dtype == TERCEL_DTYPE_F32 && tercel_node_output(node, 1) == NULL && kind != NULL &&
         (strcmp(kind, "max") == 0 || strcmp(kind, "average") == 0);
}

typedef struct bound {
  bool average, count_pads;
  int outer;                                 /* spatial dims before the last */
  tercel_window windows[TERCEL_MAX_SPATIAL]; /* in order; the last is the row's */
  int64_t out_dims[TERCEL_MAX_SPATIAL];
  int64_t row;         /* elements of the padded row, rounded up */
  const float *counts; /* average: elements that each output position of a row has in its window */
} bound;

static int64_t padded_length(const tercel_window *w) {
  return (w->output - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
}

/* Elements of window number `at` of a dim that lie in the input, or in the input and its pads. */
static int64_t count_elements(const tercel_window *w, int64_t at, bool with_pads) {
  int64_t count = 0;
  for (int64_t k = 0; k < w->kernel; ++k) {
    const int64_t p = at * w->stride - w->pad_begin + k * w->dilation;
    count += with_pads ? p < w->input + w->pad_end : p >= 0 && p < w->input;
  }
  return count;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, int num_threads,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)state, (void)out;
  const int spatial = in[0]->rank - 2;
  size_t count = 0;
  bound *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "pool");
  b->average = strcmp(tercel_node_string(node, "kind"), "average") == 0;
  b->count_pads = tercel_node_int(node, "count_include_pad") != 0;
  b->outer = spatial - 1;
  TERCEL_TRY(tercel_windows(node, spatial, in[0]->dims + 2, tercel_node_ints(node, "kernel", &count), b->windows, err));
  for (int d = 0; d < spatial; ++d) b->out_dims[d] = b->windows[d].output;
  const tercel_window *w = &b->windows[b->outer];
  b->row = (padded_length(w) + 15) & ~(int64_t)15;
  binding->workspace_bytes = (size_t)num_threads * (size_t)b->row * sizeof(float);
  binding->data = b;
  if (!b->average) return TERCEL_OK;
  float *counts = tercel_arena_alloc_array(arena, (size_t)w->output, sizeof *counts);
  if (counts == NULL) return tercel_fail_memory(err, (size_t)w->output * sizeof *counts, "pool");
  for (int64_t i = 0; i < w->output; ++i) counts[i] = (float)count_elements(w, i, b->count_pads);
  b->counts = counts;
  return TERCEL_OK;
}

typedef struct job {
  const bound *bound;
  const tercel_window_kernels *kernels;
  const float *x;
  float *y, *rows;
  int64_t channel;     /* elements of one channel of x */
  int64_t per_channel; /* rows of one channel of y */
} job;

enum { MAX_ROWS = 16 }; /* joined at once */

/* y = the rows so far and those in rows[], of which there are *count; none are left. */
static void join_rows(const job *j, float *y, const float **rows, int64_t *count, int64_t n) {
  (j->bound->average ? j->kernels->sum_rows : j->kernels->max_rows)(y, rows, *count, n);
  rows[0] = y;
  *count = 1;
}

/* Joins the input rows under the window at `at` (of the outer spatial dims) into the middle of `row`; false: there are none. */
static bool join_window(const job *j, const float *channel, const int64_t *at, float *row) {
  const bound *b = j->bound;
  const tercel_window *last = &b->windows[b->outer];
  const int64_t width = tercel_max_i64(0, tercel_min_i64(b->row - last->pad_begin, last->input));
  int64_t kernel[TERCEL_MAX_SPATIAL], k[TERCEL_MAX_SPATIAL] = {0}, count = 0;
  const float *rows[MAX_ROWS];
  float *y = row + (width > 0 ? last->pad_begin : 0);
  bool any = false;
  for (int d = 0; d < b->outer; ++d) kernel[d] = b->windows[d].kernel;
  do {
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d < b->outer; ++d) {
      const tercel_window *w = &b->windows[d];
      const int64_t p = at[d] * w->stride - w->pad_begin + k[d] * w->dilation;
      inside = inside && p >= 0 && p < w->input;
      offset = offset * w->input + p;
    }
    if (!inside) continue;
    any = true;
    if (count == MAX_ROWS) join_rows(j, y, rows, &count, width);
    rows[count++] = channel + offset * last->input;
  } while (tercel_index_next(b->outer, kernel, k));
  if (any) join_rows(j, y, rows, &count, width);
  return any;
}

static void pool_rows(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const bound *b = j->bound;
  const tercel_window *last = &b->windows[b->outer];
  const float neutral = b->average ? 0.0f : -INFINITY;
  float *row = j->rows + thread * b->row;
  for (int64_t i = 0; i < b->row; ++i) row[i] = neutral;
  for (int64_t r = begin; r < end; ++r) {
    int64_t at[TERCEL_MAX_SPATIAL], rest = r % j->per_channel, count = 1;
    for (int d = b->outer - 1; d >= 0; --d) {
      at[d] = rest % b->out_dims[d];
      rest /= b->out_dims[d];
    }
    float *y = j->y + r * last->output;
    if (!join_window(j, j->x + r / j->per_channel * j->channel, at, row))
      for (int64_t i = 0; i < b->row; ++i) row[i] = neutral;
    if (!b->average) {
      j->kernels->max_window(y, row, last->output, last->kernel, last->stride, last->dilation);
      continue;
    }
    for (int d = 0; d < b->outer; ++d) count *= count_elements(&b->windows[d], at[d], b->count_pads);
    j->kernels->sum_window(y, row, last->output, last->kernel, last->stride, last->dilation);
    j->kernels->divide(y, b->counts, (float)count, last->output);
  }
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = run->in[0], *y = run->out[0];
  const bound *b = run->binding;
  const int64_t elements = tercel_tensor_num_elements(y);
  if (elements == 0) return TERCEL_OK;
  job j = {.bound = b,
           .kernels = TERCEL_CPU_PICK(tercel_window_kernels),
           .x = x->data,
           .y = y->data,
           .rows = run->workspace,
           .channel = tercel_dims_product(x->dims, 2, x->rank),
           .per_channel = tercel_dims_product(y->dims, 2, y->rank - 1)};
  const int64_t length = y->dims[y->rank - 1];
  int64_t work = length;
  for (int d = 0; d <= b->outer; ++d) work *= b->windows[d].kernel;
  tercel_pool_run(run->pool, elements / length, tercel_copy_grain(work * (int64_t)sizeof(float)), pool_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_pool_rows = {
    .name = "pool.rows",
    .op = TERCEL_OP_POOL,
    .supports = supports,
    .bind = bind,
    .run = run,
};
