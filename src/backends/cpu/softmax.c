/* softmax over f32 on the CPU: a row an item where the axis is innermost, else a block of columns. */
#include "backends/cpu/kernels/softmax.h"

#include "backends/cpu/cpu.h"

enum { GRAIN_ELEMENTS = 16384 };

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return node->inputs[0]->type.dtype == TERCEL_DTYPE_F32;
}

typedef struct job {
  const tercel_softmax_kernels *kernels;
  int64_t n, inner;
  bool is_log;
  const float *x;
  float *y;
} job;

static void run_items(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t per_outer = tercel_ceil_div(j->inner, TERCEL_SOFTMAX_COLS);
  for (int64_t i = begin; i < end; i++) {
    const int64_t col = i % per_outer * TERCEL_SOFTMAX_COLS, at = i / per_outer * j->n * j->inner + col;
    if (j->inner == 1)
      j->kernels->row(j->x + at, j->y + at, j->n, j->is_log);
    else
      j->kernels->cols(j->x + at, j->y + at, j->n, j->inner, tercel_min_i64(j->inner - col, TERCEL_SOFTMAX_COLS),
                       j->is_log);
  }
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  job j = {.kernels = TERCEL_CPU_PICK_FOR(run->target, tercel_softmax_kernels),
           .n = x->dims[axis],
           .inner = 1,
           .is_log = tercel_node_int(run->node, "log") != 0,
           .x = x->data,
           .y = run->out[0]->data};
  int64_t outer = 1;
  for (int d = 0; d < axis; d++) outer *= x->dims[d];
  for (int d = axis + 1; d < x->rank; d++) j.inner *= x->dims[d];
  if (outer * j.n * j.inner == 0) return TERCEL_OK;
  const int64_t items = outer * tercel_ceil_div(j.inner, TERCEL_SOFTMAX_COLS);
  const int64_t each = j.n * tercel_min_i64(j.inner, TERCEL_SOFTMAX_COLS);
  tercel_pool_run(run->pool, items, GRAIN_ELEMENTS / each + 1, run_items, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_softmax = {
    .name = "softmax", .op = TERCEL_OP_SOFTMAX, .supports = supports, .run = run, .inplace = 1};
