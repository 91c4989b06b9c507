/* topk, nonzero, trilu. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "ops/move.h"

/* ---- topk ---------------------------------------------------------------------------------------------------------- */

/* A heap of the k best so far, the worst on top: n log k, whatever the data.  Values are compared as 64-bit keys that sort as they do;
 * NaN sorts above everything. */
typedef struct entry {
  uint64_t key; /* larger is better */
  int64_t at;   /* of equal keys the first is better */
} entry;

static bool topk_supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(node->inputs[0]->type.dtype);
  return kind != TERCEL_KIND_COMPLEX && kind != TERCEL_KIND_STRING && kind != TERCEL_KIND_NONE;
}

static uint64_t key_of_f64(double v) {
  uint64_t bits;
  if (v != v) return UINT64_MAX;
  v += 0.0; /* -0 becomes 0 */
  memcpy(&bits, &v, sizeof bits);
  return bits >> 63 != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t key_at(const void *data, tercel_dtype dtype, tercel_dtype_kind kind, int64_t i) {
  if (dtype == TERCEL_DTYPE_F32) return key_of_f64((double)((const float *)data)[i]);
  if (kind == TERCEL_KIND_FLOAT) return key_of_f64(tercel_element_get_f64(data, dtype, i));
  const uint64_t bits = (uint64_t)tercel_element_get_i64(data, dtype, i);
  return kind == TERCEL_KIND_INT ? bits ^ UINT64_C(1) << 63 : bits;
}

static bool is_worse(entry a, entry b) { return a.key != b.key ? a.key < b.key : a.at > b.at; }

static void sift_down(entry *heap, int64_t n, int64_t i, entry e) {
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && is_worse(heap[child + 1], heap[child])) ++child;
    if (!is_worse(heap[child], e)) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = e;
}

static void sift_up(entry *heap, int64_t i, entry e) {
  while (i > 0 && is_worse(e, heap[(i - 1) / 2])) {
    heap[i] = heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  heap[i] = e;
}

typedef struct topk_job {
  const tercel_tensor *x;
  tercel_tensor *values, *indices;
  int64_t n, k, inner;
  bool largest;
  entry *heaps;
} topk_job;

static void find_best(const topk_job *j, int64_t first, entry *heap) {
  const uint64_t flip = j->largest ? 0 : UINT64_MAX;
  const tercel_dtype dtype = j->x->dtype;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(dtype);
  for (int64_t i = 0; i < j->n; ++i) {
    const entry e = {.key = key_at(j->x->data, dtype, kind, first + i * j->inner) ^ flip, .at = i};
    if (i < j->k)
      sift_up(heap, i, e);
    else if (e.key > heap[0].key)
      sift_down(heap, j->k, 0, e); /* an equal one comes later, so it is worse */
  }
  for (int64_t n = j->k - 1; n > 0; --n) { /* the worst goes last */
    const entry worst = heap[0], e = heap[n];
    sift_down(heap, n, 0, e);
    heap[n] = worst;
  }
}

static void topk_rows(void *arg, int64_t begin, int64_t end, int thread) {
  const topk_job *j = arg;
  entry *heap = j->heaps + thread * j->k;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t outer = row / j->inner, i = row % j->inner, first = outer * j->n * j->inner + i;
    find_best(j, first, heap);
    for (int64_t r = 0; r < j->k; ++r) {
      const int64_t to = (outer * j->k + r) * j->inner + i;
      if (j->values != NULL)
        tercel_element_copy(j->values->data, to, j->x->data, first + heap[r].at * j->inner, j->x->dtype);
      if (j->indices != NULL) ((int64_t *)j->indices->data)[to] = heap[r].at;
    }
  }
}

static const tercel_tensor *topk_shaped(const tercel_tensor *const *out, size_t num_outputs) {
  return out[0] != NULL || num_outputs < 2 ? out[0] : out[1];
}

static tercel_status topk_bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                               const tercel_tensor *const *in, const tercel_tensor *const *out,
                               const tercel_target *target, tercel_arena *arena, tercel_kernel_binding *binding,
                               tercel_error *err) {
  (void)kernel, (void)state, (void)arena;
  int axis;
  TERCEL_TRY(tercel_axis(node, tercel_node_int(node, "axis"), in[0]->rank, &axis, err));
  const int64_t k = topk_shaped(out, node->num_outputs)->dims[axis];
  binding->workspace_bytes = (size_t)target->num_threads * (size_t)k * sizeof(entry);
  return TERCEL_OK;
}

static tercel_status topk_run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  int axis;
  TERCEL_TRY(tercel_axis(run->node, tercel_node_int(run->node, "axis"), x->rank, &axis, err));
  topk_job j = {.x = x,
                .values = run->out[0],
                .indices = run->num_outputs > 1 ? run->out[1] : NULL,
                .n = x->dims[axis],
                .inner = tercel_dims_product(x->dims, axis + 1, x->rank),
                .largest = tercel_node_int(run->node, "largest") != 0,
                .heaps = run->workspace};
  j.k = (j.values != NULL ? j.values : j.indices)->dims[axis];
  const int64_t rows = tercel_dims_product(x->dims, 0, axis) * j.inner;
  if (j.k == 0 || rows == 0) return TERCEL_OK;
  tercel_pool_run(run->pool, rows, tercel_copy_grain(j.n * (int64_t)sizeof(entry)), topk_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_topk = {
    .name = "topk.heap",
    .op = TERCEL_OP_TOPK,
    .supports = topk_supports,
    .bind = topk_bind,
    .run = topk_run,
};

/* ---- nonzero ------------------------------------------------------------------------------------------------------- */

static bool nonzero_supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  switch (node->inputs[0]->type.dtype) {
  case TERCEL_DTYPE_BOOL:
  case TERCEL_DTYPE_U8:
  case TERCEL_DTYPE_I8:
  case TERCEL_DTYPE_I32:
  case TERCEL_DTYPE_I64:
  case TERCEL_DTYPE_F32: return true;
  default: return false;
  }
}

static bool is_set(const void *data, tercel_dtype dtype, int64_t i) {
  switch (dtype) {
  case TERCEL_DTYPE_F32: return ((const float *)data)[i] != 0.0f;
  case TERCEL_DTYPE_I32: return ((const int32_t *)data)[i] != 0;
  case TERCEL_DTYPE_I64: return ((const int64_t *)data)[i] != 0;
  default: return ((const uint8_t *)data)[i] != 0;
  }
}

static tercel_status nonzero_run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0];
  tercel_tensor *y = run->out[0];
  const int64_t n = tercel_tensor_num_elements(x);
  int64_t found = 0, column = 0, index[TERCEL_MAX_RANK] = {0};
  for (int64_t i = 0; i < n; ++i) found += is_set(x->data, x->dtype, i);
  if (!tercel_tensor_set_shape(y, TERCEL_DTYPE_I64, 2, (const int64_t[]){x->rank, found}))
    return tercel_node_fail(run->node, err, TERCEL_OUT_OF_MEMORY, "%lld indices are too many", (long long)found);
  TERCEL_TRY(run->allocate(run->user, 0, y, err));
  int64_t *out = y->data;
  for (int64_t i = 0; column < found; ++i) {
    if (is_set(x->data, x->dtype, i)) {
      for (int d = 0; d < x->rank; ++d) out[d * found + column] = index[d];
      ++column;
    }
    tercel_index_next(x->rank, x->dims, index);
  }
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_nonzero = {
    .name = "nonzero.scan",
    .op = TERCEL_OP_NONZERO,
    .supports = nonzero_supports,
    .run = nonzero_run,
};

/* ---- trilu --------------------------------------------------------------------------------------------------------- */

typedef struct trilu_job {
  const char *x;
  char *y;
  int64_t rows, columns, k, size;
  bool upper;
} trilu_job;

static void trilu_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const trilu_job *j = arg;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t diagonal =
        row % j->rows + j->k + (j->upper ? 0 : 1); /* where the row changes between kept and zero */
    const int64_t edge = tercel_max_i64(0, tercel_min_i64(diagonal, j->columns)) * j->size,
                  length = j->columns * j->size;
    const char *src = j->x + row * length;
    char *dst = j->y + row * length;
    const int64_t from = j->upper ? edge : 0, to = j->upper ? length : edge;
    if (dst != src) memcpy(dst + from, src + from, (size_t)(to - from));
    memset(dst, 0, (size_t)from);
    memset(dst + to, 0, (size_t)(length - to));
  }
}

static tercel_status trilu_run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *x = run->in[0], *offset = tercel_input_tensor(run->in, run->num_inputs, 1);
  trilu_job j = {.x = x->data,
                 .y = run->out[0]->data,
                 .rows = x->dims[x->rank - 2],
                 .columns = x->dims[x->rank - 1],
                 .size = (int64_t)tercel_element_bytes(x->dtype),
                 .upper = tercel_node_int(run->node, "upper") != 0};
  if (offset != NULL) TERCEL_TRY(tercel_eval_scalar(run->node, offset, "k", &j.k, err));
  j.k = tercel_max_i64(-j.rows - 1, tercel_min_i64(j.k, j.columns + 1)); /* beyond that nothing changes */
  const int64_t elements = tercel_tensor_num_elements(x);
  if (elements == 0) return TERCEL_OK;
  tercel_pool_run(run->pool, elements / j.columns, tercel_copy_grain(j.columns * j.size), trilu_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_trilu = {
    .name = "trilu.rows",
    .op = TERCEL_OP_TRILU,
    .supports = tercel_moves_bytes,
    .run = trilu_run,
    .inplace = 1,
};
