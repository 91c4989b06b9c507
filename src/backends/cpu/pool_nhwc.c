/* pool, f32, channels last: largest and average over up to two spatial dims.  Work is cut into output rows. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/channels.h"
#include "ops/move.h"

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const char *kind = tercel_node_string(node, "kind");
  const tercel_type *x = &node->inputs[0]->type;
  return x->dtype == TERCEL_DTYPE_F32 && (x->shape.rank == 3 || x->shape.rank == 4) &&
         tercel_node_layout(node) == TERCEL_LAYOUT_NHWC && kind != NULL &&
         (strcmp(kind, "max") == 0 || strcmp(kind, "average") == 0);
}

typedef struct bound {
  bool average;
  tercel_channels_view view;
  const float *row_counts, *column_counts; /* averages: a window has row_counts[y] * column_counts[x] elements */
} bound;

static const tercel_window single = {
    .kernel = 1, .stride = 1, .dilation = 1, .pad_begin = 0, .pad_end = 0, .input = 1, .output = 1};

static tercel_conv_axis axis_of(const tercel_window *w) {
  return (tercel_conv_axis){w->input, w->output, w->kernel, w->stride, w->dilation, w->pad_begin};
}

static tercel_status count_elements(const tercel_window *w, bool with_pads, tercel_arena *arena, const float **out,
                                    tercel_error *err) {
  float *counts = tercel_arena_alloc_array(arena, (size_t)w->output, sizeof *counts);
  if (counts == NULL) return tercel_fail_memory(err, (size_t)w->output * sizeof *counts, "pool");
  for (int64_t at = 0; at < w->output; ++at) {
    const tercel_window_part part = tercel_window_at(w, at);
    counts[at] = (float)(with_pads ? part.covered : part.inside);
  }
  *out = counts;
  return TERCEL_OK;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)state, (void)out, (void)target;
  bound *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "pool");
  size_t count = 0;
  tercel_window windows[2] = {single, single};
  const int spatial = in[0]->rank - 2;
  TERCEL_TRY(tercel_windows(node, spatial, in[0]->dims + 1, tercel_node_ints(node, "kernel", &count),
                            windows + 2 - spatial, err));
  *b = (bound){.average = strcmp(tercel_node_string(node, "kind"), "average") == 0,
               .view = {axis_of(&windows[0]), axis_of(&windows[1]), in[0]->dims[in[0]->rank - 1]}};
  binding->data = b;
  const bool with_pads = tercel_node_int(node, "count_include_pad") != 0;
  TERCEL_TRY(count_elements(&windows[0], with_pads, arena, &b->row_counts, err));
  return count_elements(&windows[1], with_pads, arena, &b->column_counts, err);
}

typedef struct job {
  const bound *b;
  const tercel_channels_kernels *kernels;
  const float *x;
  float *y;
} job;

/* Output rows of all images, counted through. */
static void pool_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const bound *b = j->b;
  const tercel_channels_view *v = &b->view;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t y = i % v->y.output;
    const float *x = j->x + i / v->y.output * v->y.input * v->x.input * v->channels;
    float *out = j->y + i * v->x.output * v->channels;
    if (b->average)
      j->kernels->average(v, x, b->row_counts, b->column_counts, y, 1, out);
    else
      j->kernels->max(v, x, y, 1, out);
  }
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const bound *b = run->binding;
  const tercel_channels_view *v = &b->view;
  if (tercel_tensor_num_elements(run->out[0]) == 0) return TERCEL_OK;
  job j = {.b = b,
           .kernels = TERCEL_CPU_PICK_FOR(run->target, tercel_channels_kernels),
           .x = run->in[0]->data,
           .y = run->out[0]->data};
  const int64_t seen = tercel_min_i64(v->y.kernel, v->y.input) * v->x.input; /* pixels that a row of outputs looks at */
  const int64_t bytes = (seen + v->x.output) * v->channels * (int64_t)sizeof(float);
  tercel_pool_run(run->pool, run->in[0]->dims[0] * v->y.output, tercel_copy_grain(tercel_max_i64(bytes, 1)), pool_rows,
                  &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_pool_nhwc = {
    .name = "pool.nhwc",
    .op = TERCEL_OP_POOL,
    .supports = supports,
    .bind = bind,
    .run = run,
};
