/* Strided copies, see copy.h.  A copy is brought into its simplest form (dims of 1 dropped, dims that lie behind each other in both
 * tensors joined).  The last dim is a line (a run, a fill, or strided), the one before it counts lines; or the two are a transpose.  The
 * work is walked as units: an index of the dims before those, and a block of lines, of a long line, or of a transpose. */
#include "backends/cpu/copy.h"

#include <string.h>

#include "backends/cpu/kernels/move.h"
#include "ops/move.h"

enum {
  PIECE_BYTES = 32768, /* what a thread takes at once, at least */
  MAX_LINE = 65536,    /* elements of a line in one unit: longer ones are shared among threads */
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

typedef enum inner_kind { INNER_RUN, INNER_FILL, INNER_STRIDED, INNER_TRANSPOSE } inner_kind;

typedef struct job {
  tercel_copy copy; /* outer dims only */
  inner_kind kind;
  size_t bytes;
  char *dst;
  const char *src;
  int64_t count, dst_stride, src_stride;           /* the line; transpose: columns, and src's stride of them */
  int64_t lines, line_dst_stride, line_src_stride; /* transpose: rows, along which src is dense */
  int64_t unit_count, unit_lines;                  /* how much of them one unit takes */
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

/* Takes dim `dim` out as the lines. */
static void take_lines(job *j, int dim) {
  j->lines = j->copy.dims[dim];
  j->line_dst_stride = j->copy.dst_strides[dim];
  j->line_src_stride = j->copy.src_strides[dim];
  remove_dim(&j->copy, dim);
}

/* A dim along which src is dense, where dst is dense along the line; -1: none. */
static int find_transpose(const job *j) {
  if (j->dst_stride != 1 || j->src_stride == 1 || j->src_stride == 0 || j->bytes > 8) return -1;
  int d = j->copy.rank - 1;
  while (d >= 0 && j->copy.src_strides[d] != 1) --d;
  return d;
}

/* Takes the inner dims out of the copy. */
static void choose_inner(job *j) {
  tercel_copy *c = &j->copy;
  j->count = j->lines = j->dst_stride = j->src_stride = 1;
  if (c->rank > 0) {
    const int last = c->rank - 1;
    j->count = c->dims[last];
    j->dst_stride = c->dst_strides[last];
    j->src_stride = c->src_strides[last];
    remove_dim(c, last);
  }
  const int dense = find_transpose(j);
  if (dense >= 0) {
    j->kind = INNER_TRANSPOSE;
    j->transpose = TERCEL_CPU_PICK(tercel_move_kernels)->transpose[__builtin_ctzl(j->bytes)];
    j->unit_count = tercel_min_i64(j->count, TILE_COLUMNS);
    take_lines(j, dense);
    j->unit_lines = tercel_min_i64(j->lines, TILE_ROWS);
    return;
  }
  j->kind = INNER_STRIDED;
  if (j->dst_stride == 1 && j->src_stride == 1)
    j->kind = INNER_RUN;
  else if (j->dst_stride == 1 && j->src_stride == 0)
    j->kind = INNER_FILL;
  j->unit_count = tercel_min_i64(j->count, MAX_LINE);
  if (c->rank > 0) take_lines(j, c->rank - 1);
  j->unit_lines = tercel_min_i64(j->lines, tercel_copy_grain(j->unit_count * (int64_t)j->bytes));
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

/* A memcpy without its call for short lines: chunks, the last one overlapping the one before. */
static inline void copy_short(char *dst, const char *src, size_t n) {
  if (n >= 16) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) __builtin_memcpy(dst + i, src + i, 16);
    __builtin_memcpy(dst + n - 16, src + n - 16, 16);
  } else if (n >= 8) {
    __builtin_memcpy(dst, src, 8);
    __builtin_memcpy(dst + n - 8, src + n - 8, 8);
  } else if (n >= 4) {
    __builtin_memcpy(dst, src, 4);
    __builtin_memcpy(dst + n - 4, src + n - 4, 4);
  } else {
    for (size_t i = 0; i < n; ++i) dst[i] = src[i];
  }
}

static void copy_runs(const job *j, char *dst, const char *src, int64_t lines, int64_t count) {
  const int64_t size = (int64_t)j->bytes, dst_step = j->line_dst_stride * size, src_step = j->line_src_stride * size;
  const size_t n = (size_t)(count * size);
  if (n <= 128) {
    for (int64_t i = 0; i < lines; ++i) copy_short(dst + i * dst_step, src + i * src_step, n);
  } else {
    for (int64_t i = 0; i < lines; ++i) memcpy(dst + i * dst_step, src + i * src_step, n);
  }
}

static void copy_fills(const job *j, char *dst, const char *src, int64_t lines, int64_t count) {
  const int64_t size = (int64_t)j->bytes;
  for (int64_t i = 0; i < lines; ++i)
    tercel_fill_elements(dst + i * j->line_dst_stride * size, src + i * j->line_src_stride * size, count, j->bytes);
}

/* bytes is a constant where this is inlined. */
static inline __attribute__((always_inline)) void copy_strided(const job *j, char *dst, const char *src, int64_t lines,
                                                               int64_t count, int64_t bytes) {
  for (int64_t i = 0; i < lines; ++i) {
    char *to = dst + i * j->line_dst_stride * bytes;
    const char *from = src + i * j->line_src_stride * bytes;
    for (int64_t k = 0; k < count; ++k)
      __builtin_memcpy(to + k * j->dst_stride * bytes, from + k * j->src_stride * bytes, (size_t)bytes);
  }
}

static void copy_any_strided(const job *j, char *dst, const char *src, int64_t lines, int64_t count) {
  switch (j->bytes) {
  case 1: copy_strided(j, dst, src, lines, count, 1); break;
  case 2: copy_strided(j, dst, src, lines, count, 2); break;
  case 4: copy_strided(j, dst, src, lines, count, 4); break;
  case 8: copy_strided(j, dst, src, lines, count, 8); break;
  default: copy_strided(j, dst, src, lines, count, 16);
  }
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

/* ---- units --------------------------------------------------------------------------------------------------------- */

static int64_t count_blocks(const job *j) { return tercel_ceil_div(j->count, j->unit_count); }
static int64_t num_blocks(const job *j) { return tercel_ceil_div(j->lines, j->unit_lines) * count_blocks(j); }

static void run_block(const job *j, char *dst, const char *src, int64_t block) {
  const int64_t size = (int64_t)j->bytes, blocks = count_blocks(j);
  const int64_t line = block / blocks * j->unit_lines, first = block % blocks * j->unit_count;
  const int64_t lines = tercel_min_i64(j->unit_lines, j->lines - line),
                count = tercel_min_i64(j->unit_count, j->count - first);
  dst += (line * j->line_dst_stride + first * j->dst_stride) * size;
  src += (line * j->line_src_stride + first * j->src_stride) * size;
  switch (j->kind) {
  case INNER_RUN: copy_runs(j, dst, src, lines, count); break;
  case INNER_FILL: copy_fills(j, dst, src, lines, count); break;
  case INNER_STRIDED: copy_any_strided(j, dst, src, lines, count); break;
  case INNER_TRANSPOSE: j->transpose(dst, j->line_dst_stride, src, j->src_stride, lines, count); break;
  }
}

static void run_units(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const tercel_copy *c = &j->copy;
  const int64_t size = (int64_t)j->bytes, blocks = num_blocks(j);
  int64_t index[TERCEL_COPY_MAX_RANK], block = begin % blocks;
  tercel_index_of(c->rank, c->dims, begin / blocks, index);
  for (int64_t unit = begin; unit < end; ++unit) {
    run_block(j, j->dst + tercel_index_dot(c->rank, index, c->dst_strides) * size,
              j->src + tercel_index_dot(c->rank, index, c->src_strides) * size, block);
    if (++block < blocks) continue;
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
  const int64_t bytes = j.unit_lines * j.unit_count * (int64_t)element_bytes;
  tercel_pool_run(pool, outer * num_blocks(&j), tercel_copy_grain(bytes), run_units, &j);
}
