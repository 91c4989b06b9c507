/* matmul and conv of i32, exact modulo 2^32, as the products of quantized networks need them.  No epilogue, no bias of a matmul. */
#include "backends/cpu/kernels/integer.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "ops/move.h"

static bool is_i32(const tercel_value *value) { return value == NULL || value->type.dtype == TERCEL_DTYPE_I32; }

static bool plain(const tercel_node *node, size_t num_operands) {
  for (size_t i = 0; i < num_operands; ++i)
    if (!is_i32(tercel_node_input(node, i))) return false;
  return node->num_inputs <= num_operands && tercel_node_attr(node, "epilogue") == NULL;
}

/* ---- matmul -------------------------------------------------------------------------------------------------------- */

/* Columns of b that stay in a core's cache while all rows of a pass over them. */
enum { MATMUL_COLUMNS = 256 };

typedef struct matmul_job {
  tercel_matmul_geometry g;
  const tercel_integer_kernels *kernels;
  const uint32_t *a, *b;
  uint32_t *y;
  int64_t blocks; /* of columns */
} matmul_job;

static bool matmul_supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const int b_rank = tercel_node_input(node, 1)->type.shape.rank;
  return plain(node, 2) && b_rank >= 2 && tercel_node_int(node, "trans_b") == 0 &&
         tercel_node_float(node, "alpha") == 1;
}

/* Row m of a times the columns of a block: y[j] += a(m, k) b(k, j), four k at a time. */
static void matmul_row(const matmul_job *j, const uint32_t *a, const uint32_t *b, uint32_t *y, int64_t n) {
  const tercel_matmul_geometry *g = &j->g;
  memset(y, 0, (size_t)n * sizeof *y);
  int64_t k = 0;
  for (; k + TERCEL_INTEGER_ROWS <= g->k; k += TERCEL_INTEGER_ROWS) {
    const uint32_t *rows[TERCEL_INTEGER_ROWS];
    uint32_t factors[TERCEL_INTEGER_ROWS];
    for (int i = 0; i < TERCEL_INTEGER_ROWS; ++i) {
      rows[i] = b + (k + i) * g->b_row;
      factors[i] = a[(k + i) * g->a_col];
    }
    j->kernels->add_rows(y, rows, 1, factors, n);
  }
  for (; k < g->k; ++k) j->kernels->add_row(y, b + k * g->b_row, 1, a[k * g->a_col], n);
}

static void matmul_blocks(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const matmul_job *j = arg;
  const tercel_matmul_geometry *g = &j->g;
  for (int64_t piece = begin; piece < end; ++piece) {
    const int64_t batch = piece / j->blocks, first = piece % j->blocks * MATMUL_COLUMNS;
    const int64_t n = tercel_min_i64(MATMUL_COLUMNS, g->n - first);
    int64_t at_a, at_b;
    tercel_matmul_offsets(g, batch, &at_a, &at_b);
    for (int64_t m = 0; m < g->m; ++m)
      matmul_row(j, j->a + at_a + m * g->a_row, j->b + at_b + first, j->y + (batch * g->m + m) * g->n + first, n);
  }
}

static tercel_status matmul_run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  matmul_job j = {.kernels = TERCEL_CPU_PICK(tercel_integer_kernels),
                  .a = run->in[0]->data,
                  .b = run->in[1]->data,
                  .y = run->out[0]->data};
  tercel_matmul_get_geometry(run->node, run->in[0], run->in[1], &j.g);
  if (tercel_tensor_num_elements(run->out[0]) == 0) return TERCEL_OK;
  j.blocks = tercel_ceil_div(j.g.n, MATMUL_COLUMNS);
  tercel_pool_run(run->pool, j.g.batch * j.blocks, 1, matmul_blocks, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_matmul_i32 = {
    .name = "matmul.i32",
    .op = TERCEL_OP_MATMUL,
    .supports = matmul_supports,
    .run = matmul_run,
};

/* ---- conv ---------------------------------------------------------------------------------------------------------- */

typedef struct conv_job {
  tercel_conv_geometry g;
  const tercel_integer_kernels *kernels;
  const uint32_t *x, *w, *bias; /* bias NULL: none */
  uint32_t *y;
} conv_job;

static bool conv_supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_node_layout(node) == TERCEL_LAYOUT_NCHW && plain(node, 3);
}

/* One row of the result along the last dim, one tap: its elements [first, first + count) meet the input from `from` on. */
typedef struct meeting {
  int64_t first, count, from;
} meeting;

/* row: flat index of the result's row over all spatial dims but the last; tap: of the kernel's elements. */
static meeting meet(const tercel_conv_geometry *g, int64_t row, int64_t tap) {
  const int last = g->spatial - 1;
  const tercel_window *w = &g->windows[last];
  const int64_t shift = tap % w->kernel * w->dilation - w->pad_begin; /* input place of output element 0 */
  meeting m = {.first = shift < 0 ? tercel_ceil_div(-shift, w->stride) : 0};
  const int64_t end =
      w->input - shift <= 0 ? 0 : tercel_min_i64(tercel_ceil_div(w->input - shift, w->stride), w->output);
  m.count = tercel_max_i64(end - m.first, 0);
  m.from = m.first * w->stride + shift;
  int64_t stride = w->input;
  tap /= w->kernel;
  for (int d = last - 1; d >= 0; --d) {
    const tercel_window *outer = &g->windows[d];
    const int64_t at = row % outer->output * outer->stride + tap % outer->kernel * outer->dilation - outer->pad_begin;
    if (at < 0 || at >= outer->input) return (meeting){0};
    m.from += at * stride;
    stride *= outer->input;
    row /= outer->output;
    tap /= outer->kernel;
  }
  return m;
}

/* All input channels of one tap, four at a time.  x, w: of the first channel. */
static void add_channels(const conv_job *j, const meeting *m, const uint32_t *x, const uint32_t *w, int64_t channels,
                         uint32_t *y) {
  const tercel_conv_geometry *g = &j->g;
  const int64_t step = g->windows[g->spatial - 1].stride;
  int64_t c = 0;
  for (; c + TERCEL_INTEGER_ROWS <= channels; c += TERCEL_INTEGER_ROWS) {
    const uint32_t *rows[TERCEL_INTEGER_ROWS];
    uint32_t factors[TERCEL_INTEGER_ROWS];
    for (int i = 0; i < TERCEL_INTEGER_ROWS; ++i) {
      rows[i] = x + (c + i) * g->in_size + m->from;
      factors[i] = w[(c + i) * g->kernel_size];
    }
    j->kernels->add_rows(y + m->first, rows, step, factors, m->count);
  }
  for (; c < channels; ++c)
    j->kernels->add_row(y + m->first, x + c * g->in_size + m->from, step, w[c * g->kernel_size], m->count);
}

/* Planes of the result: piece = image * out_channels + channel. */
static void conv_planes(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const conv_job *j = arg;
  const tercel_conv_geometry *g = &j->g;
  const int64_t width = g->windows[g->spatial - 1].output, per_group = g->in_channels / g->group;
  for (int64_t piece = begin; piece < end; ++piece) {
    const int64_t image = piece / g->out_channels, channel = piece % g->out_channels;
    const int64_t group = channel / (g->out_channels / g->group);
    const uint32_t *x = j->x + (image * g->in_channels + group * per_group) * g->in_size;
    const uint32_t *w = j->w + channel * per_group * g->kernel_size;
    uint32_t *plane = j->y + piece * g->out_size;
    const uint32_t start = j->bias == NULL ? 0 : j->bias[channel];
    for (int64_t i = 0; i < g->out_size; ++i) plane[i] = start;
    for (int64_t row = 0; row < g->out_size / width; ++row)
      for (int64_t tap = 0; tap < g->kernel_size; ++tap) {
        const meeting m = meet(g, row, tap);
        if (m.count > 0) add_channels(j, &m, x, w + tap, per_group, plane + row * width);
      }
  }
}

static tercel_status conv_run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *bias = tercel_input_tensor(run->in, run->num_inputs, 2);
  conv_job j = {.kernels = TERCEL_CPU_PICK(tercel_integer_kernels),
                .x = run->in[0]->data,
                .w = run->in[1]->data,
                .bias = bias == NULL ? NULL : bias->data,
                .y = run->out[0]->data};
  TERCEL_TRY(tercel_conv_get_geometry(run->node, run->in[0], run->in[1], &j.g, err));
  if (tercel_tensor_num_elements(run->out[0]) == 0) return TERCEL_OK;
  tercel_pool_run(run->pool, j.g.batch * j.g.out_channels, 1, conv_planes, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_conv_i32 = {
    .name = "conv.i32",
    .op = TERCEL_OP_CONV,
    .supports = conv_supports,
    .run = conv_run,
};
