/* scatter_elements of f32 with a reduction.  Updates that may meet (those along the axis) stay on one thread, in their order; the
 * other dims are shared out. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "ops/move.h"

/* y[i] = y[i] (how) u[i] for i in [0, n) */
typedef void (*combine_fn)(float *y, const float *u, int64_t n);

static void add(float *y, const float *u, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += u[i];
}
static void multiply(float *y, const float *u, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] *= u[i];
}
/* A NaN that is there stays; one that comes does not. */
static void keep_greater(float *y, const float *u, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] != y[i] || y[i] > u[i] ? y[i] : u[i];
}
static void keep_less(float *y, const float *u, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] != y[i] || y[i] < u[i] ? y[i] : u[i];
}

static const struct {
  const char *name;
  combine_fn combine;
} reductions[] = {{"add", add}, {"mul", multiply}, {"max", keep_greater}, {"min", keep_less}};

static combine_fn find_combine(const tercel_node *node) {
  const char *const name = tercel_node_string(node, "reduction");
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; ++i)
    if (strcmp(name, reductions[i].name) == 0) return reductions[i].combine;
  return NULL;
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return node->inputs[0]->type.dtype == TERCEL_DTYPE_F32 && node->inputs[0]->type.shape.rank > 0 &&
         find_combine(node) != NULL;
}

/* Elements that one piece of work takes. */
enum { PIECE = 4096 };

/* Updates as [outer][along the axis][inner]: those with one `outer` and one place in `inner` may meet.  y has other sizes before and
 * behind the axis, hence the indices of outer and inner in y are counted. */
typedef struct job {
  combine_fn combine;
  const tercel_tensor *indices;
  const float *updates;
  float *y;
  int axis, rank;
  int64_t along, inner, strides[TERCEL_MAX_RANK], y_along;
  int64_t pieces, piece; /* of inner */
} job;

static int64_t place_of(const job *j, int64_t i) {
  const int64_t at = tercel_tensor_get_i64(j->indices, i);
  return at < 0 ? at + j->y_along : at;
}

/* Where in y an index over dims [first, last) of the updates begins. */
static int64_t offset_in_y(const job *j, int first, int last, int64_t index) {
  int64_t offset = 0;
  for (int d = last - 1; d >= first; --d) {
    offset += index % j->indices->dims[d] * j->strides[d];
    index /= j->indices->dims[d];
  }
  return offset;
}

/* Updates i .. i + n of one row, whose elements stand together in y but for their places along the axis. */
static void scatter_row(const job *j, int64_t i, int64_t n, float *y) {
  const int64_t step = j->strides[j->axis];
  for (int64_t k = 0; k < n;) {
    const int64_t place = place_of(j, i + k);
    int64_t run = 1;
    while (k + run < n && place_of(j, i + k + run) == place) ++run;
    j->combine(y + k + place * step, j->updates + i + k, run);
    k += run;
  }
}

static void scatter_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t row = j->axis == j->rank - 1 ? 1 : j->indices->dims[j->rank - 1]; /* what stands together in y */
  for (int64_t p = begin; p < end; ++p) {
    const int64_t outer = p / j->pieces, first = p % j->pieces * j->piece;
    const int64_t last = tercel_min_i64(first + j->piece, j->inner);
    float *const y = j->y + offset_in_y(j, 0, j->axis, outer);
    for (int64_t a = 0; a < j->along; ++a)
      for (int64_t k = first; k < last;) {
        const int64_t n = tercel_min_i64(last - k, row - k % row);
        scatter_row(j, (outer * j->along + a) * j->inner + k, n, y + offset_in_y(j, j->axis + 1, j->rank, k));
        k += n;
      }
  }
}

static tercel_status check_indices(const tercel_kernel_run *run, const job *j, tercel_error *err) {
  const int64_t n = tercel_tensor_num_elements(j->indices);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at;
    TERCEL_TRY(tercel_pick_index(run->node, tercel_tensor_get_i64(j->indices, i), j->y_along, j->axis, &at, err));
  }
  return TERCEL_OK;
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  tercel_tensor *const y = r->out[0];
  job j = {
      .combine = find_combine(r->node), .indices = r->in[1], .updates = r->in[2]->data, .y = y->data, .rank = y->rank};
  TERCEL_TRY(tercel_axis(r->node, tercel_node_int(r->node, "axis"), y->rank, &j.axis, err));
  j.y_along = y->dims[j.axis];
  TERCEL_TRY(check_indices(r, &j, err));
  if (y->data != r->in[0]->data && y->bytes > 0) memcpy(y->data, r->in[0]->data, y->bytes);
  if (tercel_tensor_num_elements(j.indices) == 0) return TERCEL_OK;
  tercel_tensor_strides(y, j.strides);
  j.along = j.indices->dims[j.axis];
  j.inner = tercel_dims_product(j.indices->dims, j.axis + 1, j.rank);
  j.piece = tercel_max_i64(PIECE / j.along, 16);
  j.pieces = tercel_ceil_div(j.inner, j.piece);
  const int64_t outer = tercel_dims_product(j.indices->dims, 0, j.axis);
  const int64_t each = j.along * tercel_min_i64(j.piece, j.inner);
  tercel_pool_run(r->pool, outer * j.pieces, tercel_ceil_div(PIECE, each), scatter_pieces, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_scatter_reduce = {
    .name = "scatter_elements.reduce",
    .op = TERCEL_OP_SCATTER_ELEMENTS,
    .supports = supports,
    .run = run,
    .inplace = 1,
};
