/* dynamic_quantize: the range of pieces on all threads, then the pieces quantized. */
#include "backends/cpu/kernels/quantize.h"

#include "backends/cpu/cpu.h"

enum { X };
enum { Y, SCALE, ZERO };

/* Elements that one piece of work takes. */
enum { PIECE = 16 * 1024 };

typedef struct limits {
  float low, high;
} limits;

typedef struct job {
  const tercel_quantize_kernels *kernels;
  const float *x;
  int64_t count;
  limits *limits; /* one a piece */
  float scale, zero;
  uint8_t *y;
} job;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  (void)node;
  return true;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel, (void)node, (void)state, (void)out, (void)target, (void)arena, (void)err;
  result->workspace_bytes = (size_t)tercel_ceil_div(tercel_tensor_num_elements(in[X]), PIECE) * sizeof(limits);
  return TERCEL_OK;
}

static void find_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  for (int64_t i = begin; i < end; ++i)
    j->kernels->range(j->x + i * PIECE, tercel_min_i64(PIECE, j->count - i * PIECE), &j->limits[i].low,
                      &j->limits[i].high);
}

static void quantize(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t first = begin * PIECE, last = tercel_min_i64(end * PIECE, j->count);
  j->kernels->to_u8(j->x + first, last - first, j->scale, j->zero, j->y + first);
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  job j = {.kernels = TERCEL_CPU_PICK(tercel_quantize_kernels),
           .x = r->in[X]->data,
           .count = tercel_tensor_num_elements(r->in[X]),
           .limits = r->workspace,
           .y = r->out[Y] == NULL ? NULL : r->out[Y]->data};
  const int64_t pieces = tercel_ceil_div(j.count, PIECE);
  limits all = {0, 0};
  if (pieces > 0) tercel_pool_run(r->pool, pieces, 2, find_range, &j);
  for (int64_t i = 0; i < pieces; ++i) {
    if (j.limits[i].low < all.low) all.low = j.limits[i].low;
    if (j.limits[i].high > all.high) all.high = j.limits[i].high;
  }
  const float least = -all.low;
  uint8_t zero;
  j.scale = tercel_quantize_scale(all.low, all.high);
  j.kernels->to_u8(&least, 1, j.scale, 0, &zero);
  j.zero = zero;
  if (r->out[SCALE] != NULL) *(float *)r->out[SCALE]->data = j.scale;
  if (r->out[ZERO] != NULL) *(uint8_t *)r->out[ZERO]->data = zero;
  if (j.y != NULL && pieces > 0) tercel_pool_run(r->pool, pieces, 2, quantize, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_dynamic_quantize = {
    .name = "dynamic_quantize", .op = TERCEL_OP_DYNAMIC_QUANTIZE, .supports = supports, .bind = bind, .run = run};
