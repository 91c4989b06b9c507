/* pool: largest and average in f32, any number of spatial dims; see kernels/window.h. */
#include "ops/move.h"

#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/window.h"

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const char *kind = tercel_node_string(node, "kind");
  return node->inputs[0]->type.dtype == TERCEL_DTYPE_F32 && tercel_node_output(node, 1) == NULL && kind != NULL &&
         tercel_node_layout(node) == TERCEL_LAYOUT_NCHW && (strcmp(kind, "max") == 0 || strcmp(kind, "average") == 0);
}

typedef struct bound {
  bool average;
  tercel_window_plane plane;
  int64_t rows, scratch; /* output rows of a plane; elements of scratch a thread */
} bound;

/* Elements of window number `at` of a dim that lie in the input, or in the input and its pads. */
static int64_t count_elements(const tercel_window *w, int64_t at, bool with_pads) {
  const tercel_window_part part = tercel_window_at(w, at);
  return with_pads ? part.covered : part.inside;
}

/* The input rows of the windows whose number in the outer spatial dims is `at`: how many, and (where wanted) their offsets. */
static int64_t list_rows(const tercel_window *windows, int outer, const int64_t *at, int64_t *offsets) {
  tercel_window_part parts[TERCEL_MAX_SPATIAL];
  int64_t dims[TERCEL_MAX_SPATIAL], k[TERCEL_MAX_SPATIAL] = {0}, count = 1;
  for (int d = 0; d < outer; ++d) {
    parts[d] = tercel_window_at(&windows[d], at[d]);
    dims[d] = parts[d].inside;
    count *= dims[d];
  }
  if (offsets == NULL || count == 0) return count;
  do {
    int64_t offset = 0;
    for (int d = 0; d < outer; ++d) {
      const tercel_window *w = &windows[d];
      offset = offset * w->input + at[d] * w->stride - w->pad_begin + (parts[d].first + k[d]) * w->dilation;
    }
    *offsets++ = offset * windows[outer].input;
  } while (tercel_index_next(outer, dims, k));
  return count;
}

/* Tables of which input rows each output row has, and of how many elements the averages are made. */
static tercel_status make_tables(bound *b, const tercel_window *windows, int outer, bool count_pads,
                                 tercel_arena *arena, tercel_error *err) {
  int64_t dims[TERCEL_MAX_SPATIAL], at[TERCEL_MAX_SPATIAL] = {0}, total = 0;
  const int64_t output = windows[outer].output;
  for (int d = 0; d < outer; ++d) dims[d] = windows[d].output;
  int64_t *first = tercel_arena_alloc_array(arena, (size_t)b->rows + 1, sizeof *first);
  float *row_counts = tercel_arena_alloc_array(arena, (size_t)b->rows, sizeof *row_counts);
  float *column_counts = tercel_arena_alloc_array(arena, (size_t)output, sizeof *column_counts);
  if (first == NULL || row_counts == NULL || column_counts == NULL)
    return tercel_fail_memory(err, (size_t)b->rows * sizeof *first, "pool");
  for (int64_t r = 0; r < b->rows; ++r) {
    total += list_rows(windows, outer, at, NULL);
    first[r + 1] = total;
    int64_t count = 1;
    for (int d = 0; d < outer; ++d) count *= count_elements(&windows[d], at[d], count_pads);
    row_counts[r] = (float)count;
    tercel_index_next(outer, dims, at);
  }
  int64_t *offsets = tercel_arena_alloc_array(arena, (size_t)total, sizeof *offsets);
  if (offsets == NULL) return tercel_fail_memory(err, (size_t)total * sizeof *offsets, "pool");
  for (int64_t r = 0; r < b->rows; ++r) { /* the walk ended where it began */
    list_rows(windows, outer, at, offsets + first[r]);
    tercel_index_next(outer, dims, at);
  }
  for (int64_t c = 0; c < output; ++c) column_counts[c] = (float)count_elements(&windows[outer], c, count_pads);
  b->plane.first = first;
  b->plane.offsets = offsets;
  b->plane.row_counts = row_counts;
  b->plane.column_counts = column_counts;
  return TERCEL_OK;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)state;
  const int spatial = in[0]->rank - 2, outer = spatial - 1;
  size_t count = 0;
  bound *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "pool");
  tercel_window windows[TERCEL_MAX_SPATIAL];
  TERCEL_TRY(tercel_windows(node, spatial, in[0]->dims + 2, tercel_node_ints(node, "kernel", &count), windows, err));
  const tercel_window *last = &windows[outer];
  b->average = strcmp(tercel_node_string(node, "kind"), "average") == 0;
  b->rows = tercel_dims_product(out[0]->dims, 2, out[0]->rank - 1);
  b->plane =
      (tercel_window_plane){.pad_begin = last->pad_begin,
                            .length = (last->output - 1) * last->stride + (last->kernel - 1) * last->dilation + 1,
                            .output = last->output,
                            .kernel = last->kernel,
                            .stride = last->stride,
                            .dilation = last->dilation};
  b->plane.width = tercel_min_i64(b->plane.length - last->pad_begin, last->input);
  if (last->output == 0) b->plane.length = 0;
  b->scratch = (b->plane.length + 15) & ~(int64_t)15;
  binding->workspace_bytes = (size_t)target->num_threads * (size_t)b->scratch * sizeof(float);
  binding->data = b;
  return make_tables(b, windows, outer, tercel_node_int(node, "count_include_pad") != 0, arena, err);
}

typedef struct job {
  const bound *bound;
  tercel_window_fn fn;
  const float *x;
  float *y, *scratch;
  int64_t plane; /* elements of a plane of x */
} job;

/* Rows of all planes, counted through. */
static void pool_rows(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const bound *b = j->bound;
  float *scratch = j->scratch + thread * b->scratch;
  while (begin < end) {
    const int64_t plane = begin / b->rows, row = begin % b->rows, until = tercel_min_i64(b->rows, row + end - begin);
    j->fn(&b->plane, j->y + begin * b->plane.output, j->x + plane * j->plane, scratch, row, until);
    begin += until - row;
  }
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = run->in[0], *y = run->out[0];
  const bound *b = run->binding;
  const int64_t elements = tercel_tensor_num_elements(y);
  if (elements == 0) return TERCEL_OK;
  const tercel_window_kernels *kernels = TERCEL_CPU_PICK(tercel_window_kernels);
  job j = {.bound = b,
           .fn = b->average ? kernels->average : kernels->max,
           .x = x->data,
           .y = y->data,
           .scratch = run->workspace,
           .plane = tercel_dims_product(x->dims, 2, x->rank)};
  const int64_t rows = elements / b->plane.output, read = tercel_tensor_num_elements(x) / rows + 1;
  tercel_pool_run(run->pool, rows, tercel_copy_grain((read + b->plane.output) * (int64_t)sizeof(float)), pool_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_pool_rows = {
    .name = "pool.rows",
    .op = TERCEL_OP_POOL,
    .supports = supports,
    .bind = bind,
    .run = run,
};
