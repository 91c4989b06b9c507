/* rotary, f32: the heads of a row (one token) are an item. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/rotary.h"
#include "ops/attention.h"

enum { GRAIN_ELEMENTS = 16384 };

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  for (uint32_t i = 0; i < 3; ++i)
    if (node->inputs[i]->type.dtype != TERCEL_DTYPE_F32) return false;
  return true;
}

typedef struct job {
  void (*turn)(const float *x, const float *c, const float *s, int64_t half, float *y);
  int64_t rows, heads, size, half; /* rows: of one batch entry */
  int64_t head_stride, row_stride;
  const float *x, *cosines, *sines;
  const tercel_tensor *positions; /* NULL: a row's angles stand at its own place */
  bool one_for_all;               /* and are those of every batch entry */
  int64_t num_positions;
  float *y;
} job;

/* Negative positions count from the end; they were checked. */
static int64_t angles_of(const job *j, int64_t r) {
  if (j->positions == NULL) return (j->one_for_all ? r % j->rows : r) * j->half;
  const int64_t at = tercel_tensor_get_i64(j->positions, r);
  return (at < 0 ? at + j->num_positions : at) * j->half;
}

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t angles = angles_of(j, r), turned = 2 * j->half;
    const int64_t first = r / j->rows * j->rows * j->heads * j->size + r % j->rows * j->row_stride;
    for (int64_t h = 0; h < j->heads; ++h) {
      const float *x = j->x + first + h * j->head_stride;
      float *y = j->y + first + h * j->head_stride;
      j->turn(x, j->cosines + angles, j->sines + angles, j->half, y);
      if (y != x) memcpy(y + turned, x + turned, (size_t)(j->size - turned) * sizeof *y);
    }
  }
}

static tercel_status check_positions(const tercel_kernel_run *run, const job *j, int64_t rows, tercel_error *err) {
  int64_t at;
  for (int64_t r = 0; j->positions != NULL && r < rows; ++r)
    TERCEL_TRY(tercel_pick_index(run->node, tercel_tensor_get_i64(j->positions, r), j->num_positions, 0, &at, err));
  return TERCEL_OK;
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  const tercel_rotary_kernels *kernels = TERCEL_CPU_PICK(tercel_rotary_kernels);
  const bool packed = x->rank == 3;
  const int64_t dims = tercel_node_int(run->node, "dims");
  job j = {.turn = tercel_node_int(run->node, "interleaved") != 0 ? kernels->neighbours : kernels->halves,
           .rows = x->dims[packed ? 1 : 2],
           .heads = packed ? tercel_node_int(run->node, "heads") : x->dims[1],
           .x = x->data,
           .cosines = run->in[1]->data,
           .sines = run->in[2]->data,
           .positions = tercel_input_tensor(run->in, run->num_inputs, 3),
           .num_positions = run->in[1]->dims[0],
           .one_for_all = run->in[1]->dims[0] == 1,
           .y = run->out[0]->data};
  j.size = packed ? x->dims[2] / j.heads : x->dims[3];
  j.half = (dims != 0 ? dims : j.size) / 2;
  j.head_stride = packed ? j.size : j.rows * j.size;
  j.row_stride = packed ? j.heads * j.size : j.size;
  const int64_t rows = x->dims[0] * j.rows;
  TERCEL_TRY(tercel_rotary_check(run->node, run->in, run->num_inputs, x->dims[0], j.rows, j.half, err));
  TERCEL_TRY(check_positions(run, &j, rows, err));
  if (rows > 0) tercel_pool_run(run->pool, rows, GRAIN_ELEMENTS / (j.heads * j.size + 1) + 1, run_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_rotary_f32 = {
    .name = "rotary.f32", .op = TERCEL_OP_ROTARY, .supports = supports, .run = run, .inplace = 1};
