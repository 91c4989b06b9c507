/* Strided copies, see copy.h.  A copy is brought into its simplest form (dims of 1 dropped, dims that lie behind each other in both
 * tensors joined), then walked as units: an index of the outer dims and a block of the inner ones. */
#include "backends/cpu/copy.h"

#include <string.h>

#include "backends/cpu/kernels/move.h"
#include "ops/move.h"

enum {
  PIECE_BYTES = 32768, /* what a thread takes at once, at least */
  MAX_RUN = 65536,     /* elements of a run in one unit: longer ones are shared among threads */
  TILE_ROWS = 64,      /* rows and columns of the result in one unit of a transpose */
  TILE_COLUMNS = 1024
};

size_t tercel_element_bytes(tercel_dtype dtype) {
  const int bits = tercel_dtype_bits(dtype);
  return bits % 8 == 0 ? (size_t)bits / 8 : 0;
}

bool tercel_moves_bytes(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_element_bytes(node->inputs[0]->type.dtype) > 0;
}

int64_t tercel_copy_grain(int64_t bytes_each) {
  return bytes_each <= 0 ? PIECE_BYTES : tercel_max_i64(1, PIECE_BYTES / bytes_each);
}

/* The four kinds of inner loop. */
typedef enum inner_kind { INNER_RUN, INNER_FILL, INNER_STRIDED, INNER_TRANSPOSE } inner_kind;

typedef struct job {
  tercel_copy copy; /* outer dims only */
  inner_kind kind;
  size_t bytes;
  char *dst;
  const char *src;
  int64_t count, dst_stride, src_stride; /* the innermost dim */
  int64_t rows, row_dst_stride;          /* transpose: the dim along which src is dense */
  int64_t block, num_blocks;             /* of count; transpose: of rows and columns */
  tercel_transpose_fn transpose;
} job;

/* Dims of 1 go; dim d joins d + 1 when stepping over the end of d + 1 is a step of d in both tensors. */
static void simplify(tercel_copy *c) {
  int rank = 0;
  for (int d = 0; d < c->rank; ++d) {
    if (c->dims[d] == 1) continue;
    const int last = rank - 1;
    const bool joins = rank > 0 && c->dst_strides[last] == c->dst_strides[d] * c->dims[d] &&
                       c->src_strides[last] == c->src_strides[d] * c->dims[d];
    const int to = joins ? last : rank++;
    c->dims[to] = joins ? c->dims[last] * c->dims[d] : c->dims[d];
    c->dst_strides[to] = c->dst_strides[d];
    c->src_strides[to] = c->src_strides[d];
  }
  c->rank = rank;
}

static void remove_dim(tercel_copy *c, int dim) {
  --c->rank;
  for (int d = dim; d < c->rank; ++d) {
    c->dims[d] = c->dims[d + 1];
    c->dst_strides[d] = c->dst_strides[d + 1];
    c->src_strides[d] = c->src_strides[d + 1];
  }
}

/* Takes the inner dims out of the copy. */
static void choose_inner(job *j) {
  tercel_copy *c = &j->copy;
  j->count = j->dst_stride = j->src_stride = 1;
  if (c->rank > 0) {
    const int last = c->rank - 1;
    j->count = c->dims[last];
    j->dst_stride = c->dst_strides[last];
    j->src_stride = c->src_strides[last];
    remove_dim(c, last);
  }
  j->kind = INNER_STRIDED;
  j->block = MAX_RUN;
  if (j->dst_stride == 1 && j->src_stride == 1)
    j->kind = INNER_RUN;
  else if (j->dst_stride == 1 && j->src_stride == 0)
    j->kind = INNER_FILL;
  j->num_blocks = tercel_ceil_div(j->count, j->block);
  if (j->kind != INNER_STRIDED || j->dst_stride != 1 || j->bytes > 8) return;
  for (int d = c->rank - 1; d >= 0; --d) {
    if (c->src_strides[d] != 1) continue;
    j->kind = INNER_TRANSPOSE;
    j->transpose = TERCEL_CPU_PICK(tercel_move_kernels)->transpose[__builtin_ctzl(j->bytes)];
    j->rows = c->dims[d];
    j->row_dst_stride = c->dst_strides[d];
    j->num_blocks = tercel_ceil_div(j->rows, TILE_ROWS) * tercel_ceil_div(j->count, TILE_COLUMNS);
    remove_dim(c, d);
    return;
  }
}

static void copy_strided(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, size_t bytes) {
  for (int64_t i = 0; i < n; ++i)
    tercel_copy_element(dst + i * dst_stride * (int64_t)bytes, src + i * src_stride * (int64_t)bytes, bytes);
}

void tercel_fill_elements(void *dst, const void *element, int64_t n, size_t bytes) {
  char *to = dst;
  if (n <= 0) return;
  if (bytes == 1) {
    memset(to, *(const unsigned char *)element, (size_t)n);
    return;
  }
  tercel_copy_element(to, element, bytes);
  /* What is filled already is the source of the next copy, which is twice as long each time up to a size that stays in cache. */
  int64_t filled = 1;
  while (filled < n) {
    const int64_t next = tercel_min_i64(tercel_min_i64(filled, 4096), n - filled);
    memcpy(to + filled * (int64_t)bytes, to, (size_t)next * bytes);
    filled += next;
  }
}

static void run_tile(const job *j, char *dst, const char *src, int64_t block) {
  const int64_t size = (int64_t)j->bytes, blocks = tercel_ceil_div(j->count, TILE_COLUMNS);
  const int64_t row = block / blocks * TILE_ROWS, column = block % blocks * TILE_COLUMNS;
  const int64_t rows = tercel_min_i64(TILE_ROWS, j->rows - row),
                columns = tercel_min_i64(TILE_COLUMNS, j->count - column);
  j->transpose(dst + (row * j->row_dst_stride + column) * size, j->row_dst_stride,
               src + (row + column * j->src_stride) * size, j->src_stride, rows, columns);
}

static void run_inner(const job *j, char *dst, const char *src, int64_t block) {
  if (j->kind == INNER_TRANSPOSE) {
    run_tile(j, dst, src, block);
    return;
  }
  const int64_t size = (int64_t)j->bytes, first = block * j->block;
  const int64_t n = tercel_min_i64(j->block, j->count - first);
  dst += first * j->dst_stride * size;
  src += first * j->src_stride * size;
  switch (j->kind) {
  case INNER_RUN: memcpy(dst, src, (size_t)n * j->bytes); break;
  case INNER_FILL: tercel_fill_elements(dst, src, n, j->bytes); break;
  default: copy_strided(dst, j->dst_stride, src, j->src_stride, n, j->bytes);
  }
}

static void run_units(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const tercel_copy *c = &j->copy;
  int64_t index[TERCEL_COPY_MAX_RANK] = {0}, block = begin % j->num_blocks, rest = begin / j->num_blocks;
  for (int d = c->rank - 1; d >= 0; --d) {
    index[d] = rest % c->dims[d];
    rest /= c->dims[d];
  }
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t size = (int64_t)j->bytes;
    run_inner(j, j->dst + tercel_index_dot(c->rank, index, c->dst_strides) * size,
              j->src + tercel_index_dot(c->rank, index, c->src_strides) * size, block);
    if (++block < j->num_blocks) continue;
    block = 0;
    tercel_index_next(c->rank, c->dims, index);
  }
}

void tercel_cpu_copy(tercel_pool *pool, const tercel_copy *copy, size_t element_bytes, void *dst, const void *src) {
  job j = {.copy = *copy, .bytes = element_bytes, .dst = dst, .src = src};
  int64_t outer = 1;
  for (int d = 0; d < copy->rank; ++d)
    if (copy->dims[d] == 0) return;
  simplify(&j.copy);
  choose_inner(&j);
  for (int d = 0; d < j.copy.rank; ++d) outer *= j.copy.dims[d];
  const int64_t each = j.kind == INNER_TRANSPOSE
                           ? tercel_min_i64(TILE_ROWS, j.rows) * tercel_min_i64(TILE_COLUMNS, j.count)
                           : tercel_min_i64(j.block, j.count);
  tercel_pool_run(pool, outer * j.num_blocks, tercel_copy_grain(each * (int64_t)element_bytes), run_units, &j);
}
