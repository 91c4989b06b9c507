/* reduce, arg_reduce and cumsum over f32 on the CPU: shapes merged into kept and reduced groups, work cut into items.
 *
 * Merged dims alternate between kept and reduced.  When the innermost is reduced, each result folds rows of neighbours; else rows are
 * folded into rows, a block of columns at a time.  The order of a fold depends on the shape only, not on threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/reduce.h"
#include "ops/reduce.h"

enum { GRAIN_ELEMENTS = 65536, ROWS_PER_PARTIAL = 256 };

/* How each kind is gathered. */
static const tercel_fold folds[TERCEL_REDUCE_COUNT] = {
    [TERCEL_REDUCE_SUM] = TERCEL_FOLD_SUM,
    [TERCEL_REDUCE_MEAN] = TERCEL_FOLD_SUM,
    [TERCEL_REDUCE_MAX] = TERCEL_FOLD_MAX,
    [TERCEL_REDUCE_MIN] = TERCEL_FOLD_MIN,
    [TERCEL_REDUCE_PROD] = TERCEL_FOLD_PROD,
    [TERCEL_REDUCE_L1] = TERCEL_FOLD_SUM_ABS,
    [TERCEL_REDUCE_L2] = TERCEL_FOLD_SUM_SQUARE,
    [TERCEL_REDUCE_LOG_SUM] = TERCEL_FOLD_SUM,
    [TERCEL_REDUCE_LOG_SUM_EXP] = TERCEL_FOLD_SUM_EXP,
    [TERCEL_REDUCE_SUM_SQUARE] = TERCEL_FOLD_SUM_SQUARE,
};

static float neutral(tercel_fold fold) {
  switch (fold) {
  case TERCEL_FOLD_MAX: return -INFINITY;
  case TERCEL_FOLD_MIN: return INFINITY;
  case TERCEL_FOLD_PROD: return 1.0f;
  default: return 0.0f;
  }
}

static float combine(tercel_fold fold, float a, float b) {
  switch (fold) {
  case TERCEL_FOLD_MAX: return a > b || a != a ? a : b;
  case TERCEL_FOLD_MIN: return a < b || a != a ? a : b;
  case TERCEL_FOLD_PROD: return a * b;
  default: return a + b;
  }
}

/* Dims of one kind, outermost first, with their strides in the input. */
typedef struct groups {
  int count;
  int64_t sizes[TERCEL_MAX_RANK], strides[TERCEL_MAX_RANK];
  int64_t product;
} groups;

static int64_t offset_in(const groups *g, int64_t index) {
  int64_t offset = 0;
  for (int i = g->count - 1; i >= 0; i--) {
    offset += index % g->sizes[i] * g->strides[i];
    index /= g->sizes[i];
  }
  return offset;
}

typedef struct binding {
  tercel_reduce_kind kind;
  groups kept, reduced; /* those outside of the innermost ones */
  bool rows;            /* the innermost group is reduced */
  int64_t n;            /* rows: elements of the innermost group; else rows that are folded together, `inner` apart */
  int64_t inner;        /* columns; 1 for rows */
  int64_t results;
  int64_t blocks; /* rows: of a result, over all reduced groups */
  bool split;     /* rows: blocks of one result are folded by several threads */
  float elements; /* behind one result */
} binding;

static void add_group(groups *g, int64_t size, int64_t stride) {
  g->sizes[g->count] = size;
  g->strides[g->count++] = stride;
  g->product *= size;
}

/* Merges neighbouring dims of one kind, then sorts them into kept, reduced and innermost. */
static void merge(const tercel_tensor *x, uint32_t mask, binding *b) {
  int64_t sizes[TERCEL_MAX_RANK], strides[TERCEL_MAX_RANK];
  bool reduced[TERCEL_MAX_RANK];
  int count = 0;
  int64_t stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) { /* innermost first */
    const bool r = mask >> d & 1;
    if (x->dims[d] != 1) {
      if (count > 0 && reduced[count - 1] == r) {
        sizes[count - 1] *= x->dims[d];
      } else {
        sizes[count] = x->dims[d];
        strides[count] = stride;
        reduced[count++] = r;
      }
    }
    stride *= x->dims[d];
  }
  b->kept.product = b->reduced.product = 1;
  b->rows = count > 0 && reduced[0];
  b->n = b->rows ? sizes[0] : count > 1 ? sizes[1] : 1;
  b->inner = b->rows || count == 0 ? 1 : sizes[0];
  const int inside = b->rows ? 1 : count > 1 ? 2 : count;
  for (int i = count - 1; i >= inside; i--) add_group(reduced[i] ? &b->reduced : &b->kept, sizes[i], strides[i]);
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const tercel_value *axes = tercel_node_input(node, 1);
  return node->inputs[0]->type.dtype == TERCEL_DTYPE_F32 && (tercel_node_attr(node, "axes") || !axes || axes->constant);
}

static tercel_status kind_of(const tercel_node *node, tercel_reduce_kind *out, tercel_error *err) {
  const char *kind = tercel_node_string(node, "kind");
  for (int i = 0; tercel_reduce_kinds[i]; i++) {
    if (strcmp(tercel_reduce_kinds[i], kind) != 0) continue;
    *out = (tercel_reduce_kind)i;
    return TERCEL_OK;
  }
  return tercel_fail(err, TERCEL_INTERNAL, "reduce '%s': kind '%s'", node->name, kind);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel, (void)state;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (!b) return tercel_fail_memory(err, sizeof *b, "a reduction");
  uint32_t mask;
  TERCEL_TRY(kind_of(node, &b->kind, err));
  TERCEL_TRY(tercel_reduce_axes(node, in, &mask, err));
  merge(in[0], mask, b);
  b->results = tercel_tensor_num_elements(out[0]);
  const int64_t elements = b->results > 0 ? tercel_tensor_num_elements(in[0]) / b->results : 0; /* a result's */
  b->elements = (float)elements;
  const int64_t per_row = b->n > 0 ? tercel_ceil_div(b->n, TERCEL_FOLD_ROW_BLOCK) : 0;
  b->blocks = b->reduced.product * per_row;
  b->split = b->rows && b->results < 2 * target->num_threads && b->blocks > 1 && target->num_threads > 1;
  size_t floats = b->kind == TERCEL_REDUCE_LOG_SUM_EXP ? (size_t)b->results : 0;
  if (b->split) floats += (size_t)(b->results * b->blocks);
  *result = (tercel_kernel_binding){.data = b, .workspace_bytes = floats * sizeof(float)};
  return TERCEL_OK;
}

typedef struct job {
  const binding *binding;
  const tercel_reduce_kernels *kernels;
  tercel_fold fold;
  const float *x, *shift; /* shift: by result, or NULL */
  float *y, *partials;
} job;

/* Block number `block` of result r. */
static float fold_block(const job *j, int64_t r, int64_t block) {
  const binding *b = j->binding;
  const int64_t per_row = b->blocks / b->reduced.product, at = block % per_row * TERCEL_FOLD_ROW_BLOCK;
  const float *row = j->x + offset_in(&b->kept, r) + offset_in(&b->reduced, block / per_row);
  return j->kernels->row[j->fold](row + at, tercel_min_i64(b->n - at, TERCEL_FOLD_ROW_BLOCK),
                                  j->shift ? j->shift[r] : 0);
}

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  for (int64_t r = begin; r < end; r++) {
    float sofar = neutral(j->fold);
    for (int64_t block = 0; block < j->binding->blocks; block++)
      sofar = combine(j->fold, sofar, fold_block(j, r, block));
    j->y[r] = sofar;
  }
}

/* Short rows that touch are folded many at once. */
static void run_short_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t n = j->binding->n;
  j->kernels->short_rows[j->fold](j->x + begin * n, end - begin, n, j->y + begin);
}

static void run_blocks(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) j->partials[i] = fold_block(j, i / j->binding->blocks, i % j->binding->blocks);
}

static void combine_blocks(const job *j) {
  for (int64_t r = 0; r < j->binding->results; r++) {
    float sofar = neutral(j->fold);
    for (int64_t k = 0; k < j->binding->blocks; k++)
      sofar = combine(j->fold, sofar, j->partials[r * j->binding->blocks + k]);
    j->y[r] = sofar;
  }
}

/* Folds rows [first, first + rows) under one reduced index; of long columns some rows at a time, so that rounding errors of sums stay small. */
static void fold_rows(const job *j, const float *x, int64_t cols, const float *shift, float *gathered) {
  const binding *b = j->binding;
  for (int64_t at = 0; at < b->n; at += ROWS_PER_PARTIAL) {
    float partial[TERCEL_FOLD_COLS];
    for (int64_t c = 0; c < cols; c++) partial[c] = neutral(j->fold);
    j->kernels->cols[j->fold](x + at * b->inner, tercel_min_i64(b->n - at, ROWS_PER_PARTIAL), b->inner, cols, shift,
                              partial);
    for (int64_t c = 0; c < cols; c++) gathered[c] = combine(j->fold, gathered[c], partial[c]);
  }
}

static void run_cols(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const binding *b = j->binding;
  const int64_t per_kept = tercel_ceil_div(b->inner, TERCEL_FOLD_COLS);
  for (int64_t i = begin; i < end; i++) {
    const int64_t kept = i / per_kept, col = i % per_kept * TERCEL_FOLD_COLS;
    const int64_t cols = tercel_min_i64(b->inner - col, TERCEL_FOLD_COLS), first = kept * b->inner + col;
    float *y = j->y + first;
    const float *x = j->x + offset_in(&b->kept, kept) + col;
    for (int64_t c = 0; c < cols; c++) y[c] = neutral(j->fold);
    for (int64_t r = 0; r < b->reduced.product; r++)
      fold_rows(j, x + offset_in(&b->reduced, r), cols, j->shift ? j->shift + first : NULL, y);
  }
}

static void fold_all(job *j, tercel_pool *pool) {
  const binding *b = j->binding;
  const int64_t elements = b->elements > 1 ? (int64_t)b->elements : 1;
  if (b->split) {
    tercel_pool_run(pool, b->results * b->blocks, 4, run_blocks, j);
    combine_blocks(j);
  } else if (b->rows) {
    const bool touching = b->reduced.count == 0 && b->kept.count <= 1 && b->n > 1 && b->n <= TERCEL_FOLD_SHORT;
    tercel_pool_run(pool, b->results, GRAIN_ELEMENTS / elements + 1,
                    touching && j->kernels->short_rows[j->fold] ? run_short_rows : run_rows, j);
  } else {
    const int64_t per_kept = tercel_ceil_div(b->inner, TERCEL_FOLD_COLS);
    tercel_pool_run(pool, b->kept.product * per_kept, GRAIN_ELEMENTS / (elements * TERCEL_FOLD_COLS) + 1, run_cols, j);
  }
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const binding *b = run->binding;
  const tercel_reduce_kernels *kernels = TERCEL_CPU_PICK(tercel_reduce_kernels);
  float *y = run->out[0]->data, *shift = run->workspace;
  if (b->results == 0) return TERCEL_OK;
  job j = {.binding = b,
           .kernels = kernels,
           .fold = folds[b->kind],
           .x = run->in[0]->data,
           .y = y,
           .partials = run->workspace};
  if (b->kind == TERCEL_REDUCE_LOG_SUM_EXP) {
    j.partials = shift + b->results;
    j.fold = TERCEL_FOLD_MAX;
    fold_all(&j, run->pool);
    for (int64_t i = 0; i < b->results; i++) shift[i] = isfinite(y[i]) ? y[i] : 0.0f;
    j.fold = TERCEL_FOLD_SUM_EXP;
    j.shift = shift;
  }
  fold_all(&j, run->pool);
  switch (b->kind) {
  case TERCEL_REDUCE_MEAN: kernels->divide(y, b->results, b->elements); break;
  case TERCEL_REDUCE_L2: kernels->root(y, b->results); break;
  case TERCEL_REDUCE_LOG_SUM: kernels->log(y, b->results, NULL); break;
  case TERCEL_REDUCE_LOG_SUM_EXP: kernels->log(y, b->results, shift); break;
  default: break;
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_reduce = {
    .name = "reduce", .op = TERCEL_OP_REDUCE, .supports = supports, .bind = bind, .run = run};

/* ---- arg_reduce ---------------------------------------------------------------------------------------------------- */

/* A tensor as outer x n x inner around one axis. */
typedef struct around {
  int64_t outer, n, inner;
} around;

static around around_axis(const tercel_tensor *x, int axis) {
  around a = {1, x->dims[axis], 1};
  for (int d = 0; d < axis; d++) a.outer *= x->dims[d];
  for (int d = axis + 1; d < x->rank; d++) a.inner *= x->dims[d];
  return a;
}

static bool is_f32(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return node->inputs[0]->type.dtype == TERCEL_DTYPE_F32;
}

typedef struct arg_job {
  const tercel_reduce_kernels *kernels;
  around shape;
  bool is_max, last;
  const float *x;
  int64_t *y;
} arg_job;

/* Items: blocks of columns of one outer index; where there is one column, that is a row. */
static void run_args(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const arg_job *j = arg;
  const around s = j->shape;
  const int64_t per_outer = tercel_ceil_div(s.inner, TERCEL_FOLD_COLS);
  for (int64_t i = begin; i < end; i++) {
    const int64_t outer = i / per_outer, col = i % per_outer * TERCEL_FOLD_COLS;
    const float *x = j->x + outer * s.n * s.inner + col;
    int64_t *y = j->y + outer * s.inner + col;
    if (s.inner == 1)
      *y = j->kernels->arg_row(x, s.n, j->is_max, j->last);
    else
      j->kernels->arg_cols(x, s.n, s.inner, tercel_min_i64(s.inner - col, TERCEL_FOLD_COLS), j->is_max, j->last, y);
  }
}

static tercel_status run_arg_reduce(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  arg_job j = {.kernels = TERCEL_CPU_PICK(tercel_reduce_kernels),
               .shape = around_axis(x, axis),
               .is_max = strcmp(tercel_node_string(run->node, "kind"), "max") == 0,
               .last = tercel_node_int(run->node, "select_last") != 0,
               .x = x->data,
               .y = run->out[0]->data};
  if (j.shape.outer * j.shape.inner == 0) return TERCEL_OK;
  if (j.shape.n == 0 || j.shape.n > INT32_MAX)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "arg_reduce '%s': axis %d has %lld elements, want 1 .. %d",
                       run->node->name, axis, (long long)j.shape.n, INT32_MAX);
  const int64_t items = j.shape.outer * tercel_ceil_div(j.shape.inner, TERCEL_FOLD_COLS);
  const int64_t each = j.shape.n * tercel_min_i64(j.shape.inner, TERCEL_FOLD_COLS);
  tercel_pool_run(run->pool, items, GRAIN_ELEMENTS / each + 1, run_args, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_arg_reduce = {
    .name = "arg_reduce", .op = TERCEL_OP_ARG_REDUCE, .supports = is_f32, .run = run_arg_reduce};

/* ---- cumsum -------------------------------------------------------------------------------------------------------- */

typedef struct cumsum_job {
  const tercel_reduce_kernels *kernels;
  around shape;
  bool exclusive, reverse;
  const float *x;
  float *y;
} cumsum_job;

static void sum_row(const cumsum_job *j, const float *x, float *y) {
  const int64_t n = j->shape.n;
  float sum = 0.0f;
  for (int64_t k = 0; k < n; k++) {
    const int64_t at = j->reverse ? n - 1 - k : k;
    const float before = sum;
    sum += x[at];
    y[at] = j->exclusive ? before : sum;
  }
}

/* Row k of the result is row k of the input (exclusive: the row before it) plus the result's row before. */
static void sum_rows(const cumsum_job *j, const float *x, float *y) {
  const around s = j->shape;
  const int64_t step = j->reverse ? -s.inner : s.inner, first = j->reverse ? (s.n - 1) * s.inner : 0;
  x += first;
  y += first;
  if (j->exclusive)
    memset(y, 0, (size_t)s.inner * sizeof *y);
  else
    memcpy(y, x, (size_t)s.inner * sizeof *y);
  for (int64_t k = 1; k < s.n; k++)
    j->kernels->add_rows(x + (j->exclusive ? k - 1 : k) * step, y + (k - 1) * step, y + k * step, s.inner);
}

static void run_sums(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const cumsum_job *j = arg;
  const int64_t size = j->shape.n * j->shape.inner;
  for (int64_t o = begin; o < end; o++) (j->shape.inner == 1 ? sum_row : sum_rows)(j, j->x + o * size, j->y + o * size);
}

static tercel_status run_cumsum(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_tensor_get_i64(run->in[1], 0), x->rank, &axis, err));
  cumsum_job j = {.kernels = TERCEL_CPU_PICK(tercel_reduce_kernels),
                  .shape = around_axis(x, axis),
                  .exclusive = tercel_node_int(run->node, "exclusive") != 0,
                  .reverse = tercel_node_int(run->node, "reverse") != 0,
                  .x = x->data,
                  .y = run->out[0]->data};
  const int64_t size = j.shape.n * j.shape.inner;
  if (size * j.shape.outer > 0) tercel_pool_run(run->pool, j.shape.outer, GRAIN_ELEMENTS / size + 1, run_sums, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_cumsum = {
    .name = "cumsum", .op = TERCEL_OP_CUMSUM, .supports = is_f32, .run = run_cumsum};
