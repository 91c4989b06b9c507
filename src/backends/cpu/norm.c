/* Norms over f32 on the CPU: rows (layer_norm, rms_norm), groups of planes (group_norm), planes (batch_norm, lrn).  An epilogue is applied to
 * each row or plane while it is hot. */
#include "backends/cpu/kernels/norm.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/epilogue.h"

enum { GRAIN_ELEMENTS = 32768, FIRST_EXTRA = 3 };

/* But for inputs of the epilogue. */
static bool all_f32(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_inputs && (i < FIRST_EXTRA || !tercel_node_program(node, "epilogue")); i++)
    if (node->inputs[i] && node->inputs[i]->type.dtype != TERCEL_DTYPE_F32) return false;
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && node->outputs[i]->type.dtype != TERCEL_DTYPE_F32) return false;
  return true;
}

static bool supports_f32(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return all_f32(node);
}

static const float *data_of(const tercel_kernel_run *run, size_t i) {
  return i < run->num_inputs && run->in[i] ? run->in[i]->data : NULL;
}
static float *result_of(const tercel_kernel_run *run, size_t i) {
  return i < run->num_outputs && run->out[i] ? run->out[i]->data : NULL;
}
static int64_t product(const tercel_tensor *x, int begin, int end) {
  int64_t r = 1;
  for (int d = begin; d < end; d++) r *= x->dims[d];
  return r;
}

/* ---- epilogues ----------------------------------------------------------------------------------------------------- */

static void release(void *state) {
  tercel_epilogue_release(state);
  tercel_free(state);
}

/* The state is the epilogue. */
static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  tercel_epilogue *epilogue = tercel_zalloc(sizeof *epilogue);
  if (!epilogue) return tercel_fail_memory(err, sizeof *epilogue, "a norm");
  const tercel_status status = tercel_epilogue_prepare(node, target, FIRST_EXTRA, epilogue, err);
  if (status != TERCEL_OK) release(epilogue);
  if (status == TERCEL_OK) out->data = epilogue;
  return status;
}

static tercel_status bind_epilogue(const tercel_node *node, const tercel_epilogue *epilogue,
                                   const tercel_tensor *const *in, const tercel_tensor *y, int row_dim, int col_dim,
                                   tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  tercel_epilogue_binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (!b) return tercel_fail_memory(err, sizeof *b, "a norm");
  const tercel_tensor *const *extras = node->num_inputs > FIRST_EXTRA ? in + FIRST_EXTRA : NULL;
  TERCEL_TRY(tercel_epilogue_bind(epilogue, extras, y, row_dim, col_dim, b, err));
  *result = (tercel_kernel_binding){.data = b, .workspace_bytes = b->workspace_bytes};
  return TERCEL_OK;
}

/* Of one run. */
typedef struct finish {
  const tercel_epilogue *epilogue;
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS];
} finish;

static void start_finish(const tercel_kernel_run *run, finish *out) {
  out->epilogue = run->state;
  tercel_epilogue_start(out->epilogue, run->binding, run->num_inputs > FIRST_EXTRA ? run->in + FIRST_EXTRA : NULL,
                        run->workspace, out->extras);
}

static void finish_row(const finish *f, int64_t outer, int64_t row, int64_t n, float *y) {
  f->epilogue->apply(f->epilogue, f->extras, outer, row, 0, 1, n, y, n);
}

/* ---- layer_norm and rms_norm --------------------------------------------------------------------------------------- */

/* Scale and bias have exactly the dims that are normalized. */
static bool covers_rows(const tercel_shape *x, int axis, const tercel_value *value) {
  if (!value) return true;
  const tercel_shape *s = &value->type.shape;
  if (s->rank != x->rank - axis) return false;
  for (int d = 0; d < s->rank; d++)
    if (s->dims[d] != x->dims[axis + d]) return false;
  return true;
}

static bool supports_rows(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const tercel_shape *x = &node->inputs[0]->type.shape;
  int axis;
  if (!all_f32(node) || x->rank < 0) return false;
  if (tercel_axis(node, tercel_node_int(node, "axis"), x->rank, &axis, NULL) != TERCEL_OK) return false;
  return covers_rows(x, axis, tercel_node_input(node, 1)) && covers_rows(x, axis, tercel_node_input(node, 2)) &&
         tercel_epilogue_supports(node, FIRST_EXTRA);
}

/* The rows of a result: all dims before the axis, the last of which counts rows of the epilogue. */
static tercel_status bind_rows(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                               const tercel_tensor *const *in, const tercel_tensor *const *out,
                               const tercel_target *target, tercel_arena *arena, tercel_kernel_binding *result,
                               tercel_error *err) {
  (void)kernel, (void)target;
  int axis;
  TERCEL_TRY(tercel_axis(node, tercel_node_int(node, "axis"), in[0]->rank, &axis, err));
  return bind_epilogue(node, state, in, out[0], axis > 0 ? axis - 1 : 0, axis, arena, result, err);
}

typedef struct row_job {
  const tercel_norm_kernels *kernels;
  bool centered;
  int64_t n;
  int64_t inner_rows; /* of one outer index of the epilogue */
  float epsilon;
  const float *x, *scale, *bias;
  float *y, *mean, *inverse;
  finish finish;
} row_job;

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const row_job *j = arg;
  for (int64_t r = begin; r < end; r++) {
    const float *x = j->x + r * j->n;
    const tercel_moments m =
        j->centered ? j->kernels->moments(x, j->n) : (tercel_moments){0.0f, j->kernels->mean_square(x, j->n)};
    const float inverse = j->kernels->rsqrt(m.variance + j->epsilon);
    j->kernels->affine_row(x, j->y + r * j->n, j->n, m.mean, inverse, j->scale, j->bias);
    finish_row(&j->finish, r / j->inner_rows, r % j->inner_rows, j->n, j->y + r * j->n);
    if (j->mean) j->mean[r] = m.mean;
    if (j->inverse) j->inverse[r] = inverse;
  }
}

static tercel_status run_row_norm(const tercel_kernel_run *run, bool centered, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  row_job j = {.kernels = TERCEL_CPU_PICK(tercel_norm_kernels),
               .centered = centered,
               .n = product(x, axis, x->rank),
               .inner_rows = axis > 0 ? x->dims[axis - 1] : 1,
               .epsilon = (float)tercel_node_float(run->node, "epsilon"),
               .x = x->data,
               .scale = data_of(run, 1),
               .bias = data_of(run, 2),
               .y = run->out[0]->data,
               .mean = result_of(run, 1),
               .inverse = result_of(run, 2)};
  const int64_t rows = product(x, 0, axis);
  start_finish(run, &j.finish);
  if (rows > 0) tercel_pool_run(run->pool, rows, GRAIN_ELEMENTS / (j.n + 1) + 1, run_rows, &j);
  return TERCEL_OK;
}

static tercel_status run_layer_norm(const tercel_kernel_run *run, tercel_error *err) {
  return run_row_norm(run, true, err);
}
static tercel_status run_rms_norm(const tercel_kernel_run *run, tercel_error *err) {
  return run_row_norm(run, false, err);
}

const tercel_kernel tercel_kernel_layer_norm = {.name = "layer_norm",
                                                .op = TERCEL_OP_LAYER_NORM,
                                                .supports = supports_rows,
                                                .prepare = prepare,
                                                .release = release,
                                                .bind = bind_rows,
                                                .run = run_layer_norm,
                                                .inplace = 1};
const tercel_kernel tercel_kernel_rms_norm = {.name = "rms_norm",
                                              .op = TERCEL_OP_RMS_NORM,
                                              .supports = supports_rows,
                                              .prepare = prepare,
                                              .release = release,
                                              .bind = bind_rows,
                                              .run = run_rms_norm,
                                              .inplace = 1};

/* ---- planes -------------------------------------------------------------------------------------------------------- */

typedef struct plane_job {
  const tercel_norm_kernels *kernels;
  const tercel_kernel_run *run;
  int64_t channels, pixels;
  int64_t per_group; /* channels */
  float epsilon;
  const float *x;
  float *y;
  finish finish; /* group_norm */
} plane_job;

static plane_job plane_job_of(const tercel_kernel_run *run) {
  const tercel_tensor *x = run->in[0];
  return (plane_job){.kernels = TERCEL_CPU_PICK(tercel_norm_kernels),
                     .run = run,
                     .channels = x->rank > 1 ? x->dims[1] : 1,
                     .pixels = product(x, 2, x->rank),
                     .epsilon = (float)tercel_node_float(run->node, "epsilon"),
                     .x = x->data,
                     .y = run->out[0]->data};
}

static void run_groups(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const plane_job *j = arg;
  const float *scale = data_of(j->run, 1), *bias = data_of(j->run, 2);
  for (int64_t g = begin; g < end; g++) {
    const int64_t first = g * j->per_group; /* plane */
    const tercel_moments m = j->kernels->moments(j->x + first * j->pixels, j->per_group * j->pixels);
    const float inverse = j->kernels->rsqrt(m.variance + j->epsilon);
    for (int64_t p = first; p < first + j->per_group; p++) {
      const int64_t c = p % j->channels;
      j->kernels->affine_plane(j->x + p * j->pixels, j->y + p * j->pixels, j->pixels, m.mean, inverse * scale[c],
                               bias[c]);
      finish_row(&j->finish, p / j->channels, c, j->pixels, j->y + p * j->pixels);
    }
  }
}

static bool supports_groups(const tercel_kernel *kernel, const tercel_node *node) {
  return supports_f32(kernel, node) && tercel_epilogue_supports(node, FIRST_EXTRA);
}

/* Images are outer, channels rows. */
static tercel_status bind_planes(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                                 const tercel_tensor *const *in, const tercel_tensor *const *out,
                                 const tercel_target *target, tercel_arena *arena, tercel_kernel_binding *result,
                                 tercel_error *err) {
  (void)kernel, (void)target;
  return bind_epilogue(node, state, in, out[0], 1, 2, arena, result, err);
}

static tercel_status run_group_norm(const tercel_kernel_run *run, tercel_error *err) {
  plane_job j = plane_job_of(run);
  const int64_t given = tercel_node_int(run->node, "groups"), groups = given == 0 ? j.channels : given;
  if (tercel_tensor_num_elements(run->in[0]) == 0) return TERCEL_OK;
  if (j.channels % groups != 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "group_norm '%s': %lld channels in %lld groups", run->node->name,
                       (long long)j.channels, (long long)groups);
  j.per_group = j.channels / groups;
  start_finish(run, &j.finish);
  tercel_pool_run(run->pool, run->in[0]->dims[0] * groups, GRAIN_ELEMENTS / (j.per_group * j.pixels) + 1, run_groups,
                  &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_group_norm = {.name = "group_norm",
                                                .op = TERCEL_OP_GROUP_NORM,
                                                .supports = supports_groups,
                                                .prepare = prepare,
                                                .release = release,
                                                .bind = bind_planes,
                                                .run = run_group_norm,
                                                .inplace = 1};

/* With the statistics given; training is left to the reference. */
static bool supports_batch_norm(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return all_f32(node) && tercel_node_int(node, "training") == 0 && !tercel_node_output(node, 1) &&
         !tercel_node_output(node, 2);
}

static void run_planes(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const plane_job *j = arg;
  const float *scale = data_of(j->run, 1), *bias = data_of(j->run, 2);
  const float *mean = data_of(j->run, 3), *variance = data_of(j->run, 4);
  for (int64_t p = begin; p < end; p++) {
    const int64_t c = p % j->channels;
    j->kernels->affine_plane(j->x + p * j->pixels, j->y + p * j->pixels, j->pixels, mean[c],
                             scale[c] * j->kernels->rsqrt(variance[c] + j->epsilon), bias[c]);
  }
}

static tercel_status run_batch_norm(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  plane_job j = plane_job_of(run);
  if (tercel_tensor_num_elements(run->in[0]) > 0)
    tercel_pool_run(run->pool, run->in[0]->dims[0] * j.channels, GRAIN_ELEMENTS / j.pixels + 1, run_planes, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_batch_norm = {.name = "batch_norm",
                                                .op = TERCEL_OP_BATCH_NORM,
                                                .supports = supports_batch_norm,
                                                .run = run_batch_norm,
                                                .inplace = 1};

static void run_lrn_planes(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const plane_job *j = arg;
  const tercel_node *node = j->run->node;
  const int64_t size = tercel_node_int(node, "size");
  const float alpha = (float)(tercel_node_float(node, "alpha") / (double)size);
  for (int64_t p = begin; p < end; p++) {
    const int64_t c = p % j->channels, image = p - c;
    const int64_t first = tercel_max_i64(0, c - (size - 1) / 2), last = tercel_min_i64(j->channels - 1, c + size / 2);
    j->kernels->lrn(j->x + p * j->pixels, j->y + p * j->pixels, j->pixels, j->x + (image + first) * j->pixels,
                    last - first + 1, j->pixels, alpha, (float)tercel_node_float(node, "beta"),
                    (float)tercel_node_float(node, "bias"));
  }
}

static tercel_status run_lrn(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const tercel_tensor *x = run->in[0];
  plane_job j = {.kernels = TERCEL_CPU_PICK(tercel_norm_kernels),
                 .run = run,
                 .channels = x->dims[1],
                 .pixels = product(x, 2, x->rank),
                 .x = x->data,
                 .y = run->out[0]->data};
  if (tercel_tensor_num_elements(x) > 0)
    tercel_pool_run(run->pool, x->dims[0] * j.channels, GRAIN_ELEMENTS / (4 * j.pixels) + 1, run_lrn_planes, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_lrn = {.name = "lrn", .op = TERCEL_OP_LRN, .supports = supports_f32, .run = run_lrn};
