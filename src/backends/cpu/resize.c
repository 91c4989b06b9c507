/* resize: nearest for every dtype of whole bytes, and linear and cubic in f32, an axis at a time (interpolation is separable), the last
 * axis first.  tf_crop_and_resize is left to the reference. */
#include <math.h>
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/move.h"
#include "backends/cpu/kernels/resize.h"
#include "ops/move.h"
#include "ops/resize.h"

static bool is(const tercel_node *node, const char *attr, const char *text) {
  return strcmp(tercel_node_string(node, attr), text) == 0;
}

/* ---- nearest ------------------------------------------------------------------------------------------------------- */

static bool nearest_supports(const tercel_kernel *kernel, const tercel_node *node) {
  return tercel_moves_bytes(kernel, node) && is(node, "mode", "nearest") &&
         !is(node, "coordinate", "tf_crop_and_resize");
}

static tercel_status nearest_bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                                  const tercel_tensor *const *in, const tercel_tensor *const *out,
                                  const tercel_target *target, tercel_arena *arena, tercel_kernel_binding *binding,
                                  tercel_error *err) {
  (void)kernel, (void)node, (void)state, (void)in, (void)target, (void)arena, (void)err;
  for (int d = 0; d < out[0]->rank; ++d) binding->workspace_bytes += (size_t)out[0]->dims[d] * sizeof(int64_t);
  return TERCEL_OK;
}

/* Rows of the last axis that changes; what stands behind it moves as one run. */
typedef struct nearest_job {
  const char *x;
  char *y;
  int rank; /* axes up to and with the last that changes */
  const int64_t *source[TERCEL_MAX_RANK];
  int64_t dims[TERCEL_MAX_RANK], strides[TERCEL_MAX_RANK]; /* of y and of x, in runs */
  int64_t run;                                             /* elements */
  int64_t times;                                           /* every position stands so often in a row; 0: irregular */
  size_t bytes;
  tercel_repeat_fn repeat;
} nearest_job;

/* Where the row at `index` (of the axes before the last) begins in x, in runs. */
static int64_t source_row(const nearest_job *j, const int64_t *index) {
  int64_t from = 0;
  for (int d = 0; d < j->rank - 1; ++d) from += j->source[d][index[d]] * j->strides[d];
  return from;
}

static void pick_row(const nearest_job *j, char *dst, const char *src) {
  const int64_t *source = j->source[j->rank - 1];
  const int64_t n = j->dims[j->rank - 1], size = (int64_t)j->bytes;
  if (j->run > 1) {
    for (int64_t i = 0; i < n; ++i)
      memcpy(dst + i * j->run * size, src + source[i] * j->run * size, (size_t)(j->run * size));
  } else if (j->times > 0) {
    j->repeat(dst, src, n / j->times, j->times);
  } else {
    for (int64_t i = 0; i < n; ++i) tercel_copy_element(dst + i * size, src + source[i] * size, j->bytes);
  }
}

static void nearest_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const nearest_job *j = arg;
  const int64_t row_bytes = j->dims[j->rank - 1] * j->run * (int64_t)j->bytes;
  int64_t previous = -1, index[TERCEL_MAX_RANK];
  tercel_index_of(j->rank - 1, j->dims, begin, index);
  for (int64_t row = begin; row < end; ++row) {
    char *dst = j->y + row * row_bytes;
    const int64_t from = source_row(j, index);
    tercel_index_next(j->rank - 1, j->dims, index);
    if (from == previous)
      memcpy(dst, dst - row_bytes, (size_t)row_bytes);
    else
      pick_row(j, dst, j->x + from * j->run * (int64_t)j->bytes);
    previous = from;
  }
}

/* n / m when every position stands exactly that often, in order; else 0. */
static int64_t regular_times(const int64_t *source, int64_t n, int64_t m) {
  if (m == 0 || n % m != 0) return 0;
  const int64_t times = n / m;
  for (int64_t i = 0; i < n; ++i)
    if (source[i] != i / times) return 0;
  return times;
}

static tercel_status nearest_run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0], *y = run->out[0];
  tercel_resize_plan plan;
  TERCEL_TRY(tercel_resize_resolve(run->node, run->in, run->num_inputs, &plan, err));
  const int64_t elements = tercel_tensor_num_elements(y);
  if (elements == 0) return TERCEL_OK;
  nearest_job j = {.x = x->data, .y = y->data, .rank = y->rank, .run = 1, .bytes = tercel_element_bytes(x->dtype)};
  while (j.rank > 0 && tercel_resize_is_identity(&plan, j.rank - 1)) j.run *= y->dims[--j.rank];
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
    double weight;
    for (int64_t i = 0; i < y->dims[d]; ++i) tercel_resize_taps(&plan, d, i, table++, &weight);
  }
  const int last = j.rank - 1;
  if (j.bytes <= 8) {
    j.times = regular_times(j.source[last], j.dims[last], x->dims[last]);
    j.repeat = TERCEL_CPU_PICK(tercel_move_kernels)->repeat[__builtin_ctzl(j.bytes)];
  }
  const int64_t row = j.dims[last] * j.run;
  tercel_pool_run(run->pool, elements / row, tercel_copy_grain(row * (int64_t)j.bytes), nearest_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_resize_nearest = {
    .name = "resize.nearest",
    .op = TERCEL_OP_RESIZE,
    .supports = nearest_supports,
    .bind = nearest_bind,
    .run = nearest_run,
};

/* ---- linear and cubic ---------------------------------------------------------------------------------------------- */

/* With antialias the number of taps follows from the scales, and bind must see them. */
static bool axes_supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  if (node->inputs[0]->type.dtype != TERCEL_DTYPE_F32 || is(node, "mode", "nearest") ||
      is(node, "coordinate", "tf_crop_and_resize"))
    return false;
  for (size_t i = 2; i < node->num_inputs; ++i)
    if (tercel_node_int(node, "antialias") != 0 && node->inputs[i] != NULL && node->inputs[i]->constant == NULL)
      return false;
  return true;
}

/* One axis to interpolate along: from [outer][input][inner] to [outer][output][inner]. */
typedef struct pass {
  int axis;
  int64_t input, output, outer, inner, taps;
  int32_t *positions; /* inner == 1: [tap][output], else [output][tap] */
  float *weights;
} pass;

/* How the work is cut up. */
typedef struct layout {
  int num_passes;
  pass passes[TERCEL_MAX_RANK]; /* in the order they run: the last axis first */
  int64_t slices, x_slice,
      y_slice;             /* independent parts of x (the dims before the first axis that changes), their elements */
  int64_t scratch;         /* elements of what stands between two passes over a slice */
  int64_t table, max_taps; /* entries in all tables of positions; in the longest row of one */
  int workers;             /* slices that are worked on at once; 1: the threads share each slice */
} layout;

/* sliced false: all of x is one slice, so that the workspace doesn't depend on which axes turn out to stay as they are. */
static void make_layout(const tercel_resize_plan *plan, bool sliced, int num_threads, layout *out) {
  *out = (layout){.slices = 1, .workers = 1, .x_slice = 1, .y_slice = 1};
  int first = 0;
  while (sliced && first < plan->rank && tercel_resize_is_identity(plan, first))
    out->slices *= plan->axes[first++].input;
  for (int d = first; d < plan->rank; ++d) {
    out->x_slice *= plan->axes[d].input;
    out->y_slice *= plan->axes[d].output;
  }
  int64_t inner = 1, outer = out->x_slice;
  for (int d = plan->rank - 1; d >= first; --d) {
    const tercel_resize_axis *a = &plan->axes[d];
    if (a->input > 0) outer /= a->input;
    if (!tercel_resize_is_identity(plan, d)) {
      out->passes[out->num_passes++] = (pass){.axis = d,
                                              .input = a->input,
                                              .output = a->output,
                                              .outer = outer,
                                              .inner = inner,
                                              .taps = tercel_resize_num_taps(plan, d)};
      out->table += out->passes[out->num_passes - 1].taps * a->output;
      out->max_taps = tercel_max_i64(out->max_taps, out->passes[out->num_passes - 1].taps);
      out->scratch = tercel_max_i64(out->scratch, outer * a->output * inner);
    }
    inner *= a->output;
  }
  if (out->slices >= num_threads) out->workers = num_threads;
}

typedef struct bound {
  bool sliced;
  int num_threads;
} bound;

static size_t round_up_64(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static tercel_status axes_bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                               const tercel_tensor *const *in, const tercel_tensor *const *out,
                               const tercel_target *target, tercel_arena *arena, tercel_kernel_binding *binding,
                               tercel_error *err) {
  (void)kernel, (void)state;
  bound *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "resize");
  binding->data = b;
  b->num_threads = target->num_threads;
  b->sliced = true;
  for (size_t i = 1; i < node->num_inputs; ++i)
    if (in[i] != NULL && in[i]->data == NULL && tercel_tensor_num_elements(in[i]) > 0) b->sliced = false;
  tercel_resize_plan plan;
  if (b->sliced) {
    TERCEL_TRY(tercel_resize_resolve(node, in, node->num_inputs, &plan, err));
  } else {
    plan = (tercel_resize_plan){.mode = is(node, "mode", "cubic") ? TERCEL_RESIZE_CUBIC : TERCEL_RESIZE_LINEAR,
                                .rank = in[0]->rank};
    for (int d = 0; d < plan.rank; ++d) /* a scale that no axis can have as it is: every axis counts */
      plan.axes[d] = (tercel_resize_axis){.input = in[0]->dims[d], .output = out[0]->dims[d], .scale = NAN};
  }
  layout l;
  make_layout(&plan, b->sliced, target->num_threads, &l);
  for (int d = 0; d < in[0]->rank; ++d)
    if (in[0]->dims[d] > INT32_MAX)
      return tercel_node_fail(node, err, TERCEL_UNSUPPORTED, "axis %d is longer than 2^31 - 1", d);
  binding->workspace_bytes = round_up_64((size_t)l.max_taps * (sizeof(int64_t) + sizeof(double))) +
                             round_up_64((size_t)l.table * sizeof(int32_t)) +
                             round_up_64((size_t)l.table * sizeof(float)) +
                             2 * (size_t)l.workers * round_up_64((size_t)l.scratch * sizeof(float));
  return TERCEL_OK;
}

/* Positions and weights of all passes, into the front of the workspace; returns what is left of it. */
static char *make_tables(const tercel_resize_plan *plan, layout *l, char *workspace) {
  int64_t *at = (int64_t *)workspace;
  double *weight = (double *)(at + l->max_taps);
  workspace += round_up_64((size_t)l->max_taps * (sizeof *at + sizeof *weight));
  int32_t *positions = (int32_t *)workspace;
  workspace += round_up_64((size_t)l->table * sizeof *positions);
  float *weights = (float *)workspace;
  workspace += round_up_64((size_t)l->table * sizeof *weights);
  for (int k = 0; k < l->num_passes; ++k) {
    pass *p = &l->passes[k];
    p->positions = positions;
    p->weights = weights;
    positions += p->taps * p->output;
    weights += p->taps * p->output;
    for (int64_t i = 0; i < p->output; ++i) {
      tercel_resize_taps(plan, p->axis, i, at, weight);
      for (int64_t t = 0; t < p->taps; ++t) {
        const int64_t to = p->inner == 1 ? t * p->output + i : i * p->taps + t;
        p->positions[to] = (int32_t)at[t];
        p->weights[to] = (float)weight[t];
      }
    }
  }
  return workspace;
}

typedef struct axes_job {
  const tercel_resize_kernels *kernels;
  layout layout;
  const float *x;
  float *y;
  float *scratch; /* two buffers a worker */
  size_t scratch_elements;
  tercel_pool *pool; /* for the rows of a pass, where slices are not shared out */
} axes_job;

typedef struct rows_job {
  const axes_job *job;
  const pass *pass;
  const float *from;
  float *to;
} rows_job;

/* Rows of a pass's result: inner == 1: one for each outer index, else for each outer index and output position. */
static void pass_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const rows_job *r = arg;
  const pass *p = r->pass;
  const tercel_resize_kernels *k = r->job->kernels;
  for (int64_t row = begin; row < end; ++row) {
    if (p->inner == 1) {
      k->pick_columns(r->to + row * p->output, r->from + row * p->input, p->positions, p->weights, p->taps, p->output);
      continue;
    }
    const int64_t outer = row / p->output, at = row % p->output;
    k->blend_rows(r->to + row * p->inner, r->from + outer * p->input * p->inner, p->inner, p->positions + at * p->taps,
                  p->weights + at * p->taps, p->taps, p->inner);
  }
}

static void resize_slice(const axes_job *j, int64_t slice, int worker) {
  const layout *l = &j->layout;
  const float *from = j->x + slice * l->x_slice;
  for (int k = 0; k < l->num_passes; ++k) {
    const pass *p = &l->passes[k];
    float *to = j->scratch + (size_t)(2 * worker + k % 2) * j->scratch_elements;
    if (k == l->num_passes - 1) to = j->y + slice * l->y_slice;
    rows_job r = {.job = j, .pass = p, .from = from, .to = to};
    const int64_t rows = p->inner == 1 ? p->outer : p->outer * p->output;
    const int64_t each = (p->inner == 1 ? p->output : p->inner) * p->taps * (int64_t)sizeof(float);
    tercel_pool_run(j->pool, rows, tercel_copy_grain(each), pass_rows, &r);
    from = to;
  }
}

static void resize_slices(void *arg, int64_t begin, int64_t end, int thread) {
  for (int64_t slice = begin; slice < end; ++slice) resize_slice(arg, slice, thread);
}

static tercel_status axes_run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0], *y = run->out[0];
  const bound *b = run->binding;
  tercel_resize_plan plan;
  TERCEL_TRY(tercel_resize_resolve(run->node, run->in, run->num_inputs, &plan, err));
  if (tercel_tensor_num_elements(y) == 0) return TERCEL_OK;
  axes_job j = {.kernels = TERCEL_CPU_PICK(tercel_resize_kernels), .x = x->data, .y = y->data};
  make_layout(&plan, b->sliced, b->num_threads, &j.layout);
  if (j.layout.num_passes == 0) {
    memcpy(y->data, x->data, (size_t)tercel_tensor_num_elements(y) * sizeof(float));
    return TERCEL_OK;
  }
  j.scratch_elements = round_up_64((size_t)j.layout.scratch * sizeof(float)) / sizeof(float);
  j.scratch = (float *)make_tables(&plan, &j.layout, run->workspace);
  if (j.layout.workers > 1) {
    tercel_pool_run(run->pool, j.layout.slices, 1, resize_slices, &j);
  } else {
    j.pool = run->pool;
    resize_slices(&j, 0, j.layout.slices, 0);
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_resize_axes = {
    .name = "resize.axes",
    .op = TERCEL_OP_RESIZE,
    .supports = axes_supports,
    .bind = axes_bind,
    .run = axes_run,
};
