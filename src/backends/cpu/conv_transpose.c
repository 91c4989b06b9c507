/* conv_transpose, f32, 1-D and 2-D: a matrix product gives what each input element sends to each tap, and those are added up per output row.
 *
 *     taps[(out channel, ky, kx)][(iy, ix)] = W^T [.., in channels] X [in channels, ..]
 *     y[out channel][iy stride - pad + ky dilation][...] += taps
 *
 * Work is cut by image, group, block of output channels and band of output rows.  A piece makes the taps of the input rows that its band
 * looks at (a few rows at its edges are made twice), so nobody else writes its outputs and the taps stay in the cache. */
#include <string.h>

#include "backends/cpu/conv.h"

typedef struct binding {
  tercel_conv_geometry g;
  tercel_conv_axis y, x;
  tercel_gemm_plan plan;                   /* of the largest piece */
  int64_t channels, blocks;                /* output channels a piece takes; blocks a group */
  int64_t band, bands;                     /* output rows a piece takes */
  size_t thread_bytes, taps_at, phases_at; /* this thread's workspace: the product's, then taps, then phases */
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

/* Bytes of taps a piece may make. */
static const int64_t most_taps_bytes = 512 * 1024;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_conv_supports(node, TERCEL_LAYOUT_NCHW, 2);
}

static const tercel_gemm_packer packer = {TERCEL_GEMM_PACKER, TERCEL_CONV_W, false, tercel_conv_see_transposed};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

/* ---- bind ---- */

/* Input rows [*begin, *end) that send something to output rows y0 .. y0 + count. */
static void input_rows(const tercel_conv_axis *y, int64_t y0, int64_t count, int64_t *begin, int64_t *end) {
  const int64_t extent = (y->kernel - 1) * y->dilation;
  *begin = tercel_min_i64(tercel_max_i64(tercel_ceil_div(y0 + y->pad - extent, y->stride), 0), y->input);
  *end = tercel_min_i64(tercel_floor_div(y0 + count - 1 + y->pad, y->stride) + 1, y->input);
  *end = tercel_max_i64(*end, *begin);
}

/* Pieces that a thread should find. */
enum { PIECES_PER_THREAD = 4 };

/* As many channels as keep the taps of the whole input in the cache; where even a few don't fit, bands of rows, which make some taps twice.
 * Less of both when threads would have nothing to do. */
static void choose_pieces(binding *b, int64_t channels, int num_threads) {
  const int64_t wanted = num_threads > 1 ? PIECES_PER_THREAD * num_threads : 1;
  const int64_t outer = b->g.batch * b->g.group,
                step = TERCEL_GEMM_MAX_MR; /* blocks begin at a panel of any level's weights */
  const int64_t row_bytes = b->g.kernel_size * b->x.input * (int64_t)sizeof(float);
  const int64_t fitting = tercel_max_i64(most_taps_bytes / (row_bytes * b->y.input) / step * step, step);
  b->channels = tercel_min_i64(fitting, channels);
  const int64_t rows = tercel_max_i64(most_taps_bytes / (row_bytes * b->channels), 1);
  b->band = rows >= b->y.input ? b->y.output : tercel_min_i64(rows * b->y.stride, b->y.output);
  b->blocks = tercel_ceil_div(channels, b->channels);
  b->bands = tercel_ceil_div(b->y.output, b->band);
  if (outer * b->blocks * b->bands < wanted) {
    const int64_t even = tercel_ceil_div(b->y.output * outer * b->blocks, wanted);
    b->band = tercel_min_i64(tercel_ceil_div(even, b->y.stride) * b->y.stride, b->band);
    b->bands = tercel_ceil_div(b->y.output, b->band);
  }
  if (outer * b->blocks * b->bands < wanted) {
    const int64_t even = tercel_ceil_div(channels * outer * b->bands, wanted);
    b->channels = tercel_min_i64(tercel_ceil_div(even, step) * step, b->channels);
    b->blocks = tercel_ceil_div(channels, b->channels);
  }
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv_transpose");
  tercel_conv_geometry *g = &b->g;
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], g, err));
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, 2, &b->epilogue, err));
  result->data = b;
  result->workspace_bytes = b->epilogue.workspace_bytes;
  if (tercel_tensor_num_elements(out[0]) == 0) return TERCEL_OK;
  const tercel_conv_view view = tercel_conv_get_view(g);
  b->y = view.y;
  b->x = view.x;
  const int64_t k = g->in_channels / g->group, channels = g->out_channels / g->group;
  choose_pieces(b, channels, target->num_threads);
  const int64_t most_rows = b->band / b->y.stride + (b->y.kernel - 1) * b->y.dilation / b->y.stride + 2;
  const int64_t n = tercel_min_i64(most_rows, b->y.input) * b->x.input;
  b->plan = (tercel_gemm_plan){.kernels = s->gemm,
                               .m = b->channels * g->kernel_size,
                               .n = n,
                               .k = k,
                               .outer = 1,
                               .a = s->packed == NULL ? TERCEL_GEMM_PLAIN : TERCEL_GEMM_PACKED,
                               .a_row = 1,
                               .a_col = channels * g->kernel_size,
                               .b = TERCEL_GEMM_PLAIN,
                               .b_row = g->in_size,
                               .b_col = 1,
                               .c_row = n};
  tercel_gemm_make_plan(&b->plan, 1);
  size_t taps, phases, all;
  b->taps_at = b->plan.workspace_bytes;
  const size_t phase_floats = (size_t)(tercel_conv_phase_floats(&b->x) * b->x.stride);
  if (!tercel_mul_size((size_t)(b->plan.m * n + TERCEL_GEMM_SLACK), sizeof(float), &taps) ||
      !tercel_mul_size(phase_floats, sizeof(float), &phases) || !tercel_add_size(b->taps_at, taps, &b->phases_at) ||
      !tercel_add_size(b->phases_at, phases, &all) || !tercel_round_up_size(all, TERCEL_ALIGNMENT, &b->thread_bytes) ||
      !tercel_mul_size(b->thread_bytes, (size_t)target->num_threads, &b->epilogue_at))
    return tercel_fail_memory(err, SIZE_MAX, "conv_transpose");
  result->workspace_bytes += b->epilogue_at;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  tercel_conv_run r;
  const binding *b;
} job;

typedef struct piece {
  const job *j;
  int64_t image, group, channel, channels; /* channel: the first, within the group */
  int64_t y0, count;                       /* output rows */
  int64_t begin, rows;                     /* input rows */
  float *taps, *phases;
} piece;

static void get_product(const void *user, int64_t outer, tercel_gemm_product *out) {
  (void)outer;
  const piece *p = user;
  const job *j = p->j;
  const tercel_conv_geometry *g = &j->b->g;
  const int64_t k = j->b->plan.k, first = p->channel * g->kernel_size;
  if (j->r.s->packed == NULL)
    out->a = j->r.w + p->group * k * j->b->plan.a_col + first;
  else
    out->a = j->r.s->packed + p->group * j->r.s->packed_floats + first * k;
  out->b = j->r.x + (p->image * g->in_channels + p->group * k) * g->in_size + p->begin * j->b->x.input;
  out->c = p->taps;
}

static void make_taps(const piece *p, void *workspace) {
  tercel_gemm_plan plan = p->j->b->plan;
  plan.m = p->channels * p->j->b->g.kernel_size;
  plan.n = p->rows * p->j->b->x.input;
  plan.c_row = plan.n;
  tercel_gemm_make_plan(&plan, 1);
  const tercel_gemm_run run = {.plan = &plan, .alpha = 1, .product = get_product, .user = p};
  tercel_gemm_run_all(&run, workspace, NULL);
}

/* One output row of one channel out of the taps. */
static void add_row(const piece *p, int64_t channel, int64_t oy, float bias, float *out) {
  const binding *b = p->j->b;
  const tercel_conv_kernels *kernels = p->j->r.s->conv;
  const int64_t n = p->rows * b->x.input;
  kernels->start(&b->x, bias, p->phases);
  for (int64_t ky = 0; ky < b->y.kernel; ++ky) {
    const int64_t at = oy + b->y.pad - ky * b->y.dilation, iy = at / b->y.stride;
    if (at < 0 || at % b->y.stride != 0 || iy >= b->y.input) continue;
    const float *taps = p->taps + (channel * b->g.kernel_size + ky * b->x.kernel) * n + (iy - p->begin) * b->x.input;
    kernels->add_taps(&b->x, taps, n, p->phases);
  }
  kernels->join(&b->x, p->phases, out);
}

static void run_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const binding *b = j->b;
  const tercel_conv_geometry *g = &b->g;
  const tercel_epilogue *epilogue = &j->r.s->epilogue;
  uint8_t *space = j->r.workspace + (size_t)thread * b->thread_bytes;
  const int64_t channels = g->out_channels / g->group, width = b->x.output;
  piece p = {.j = j, .taps = (float *)(void *)(space + b->taps_at), .phases = (float *)(void *)(space + b->phases_at)};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t block = i / b->bands, outer = block / b->blocks;
    p.image = outer / g->group;
    p.group = outer % g->group;
    p.channel = block % b->blocks * b->channels;
    p.channels = tercel_min_i64(b->channels, channels - p.channel);
    p.y0 = i % b->bands * b->band;
    p.count = tercel_min_i64(b->band, b->y.output - p.y0);
    int64_t last;
    input_rows(&b->y, p.y0, p.count, &p.begin, &last);
    p.rows = last - p.begin;
    if (p.rows > 0) make_taps(&p, space);
    for (int64_t c = 0; c < p.channels; ++c) {
      const int64_t m = p.group * channels + p.channel + c;
      float *y = j->r.y + (p.image * g->out_channels + m) * g->out_size + p.y0 * width;
      for (int64_t r = 0; r < p.count; ++r)
        add_row(&p, c, p.y0 + r, j->r.bias == NULL ? 0 : j->r.bias[m], y + r * width);
      epilogue->apply(epilogue, j->r.extras, p.image, m, p.y0 * width, 1, p.count * width, y, g->out_size);
    }
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  job j = {.b = b};
  tercel_conv_start(r, &b->epilogue, b->epilogue_at, &j.r);
  const int64_t count = b->g.batch * b->g.group * b->blocks * b->bands;
  if (count > 0) tercel_pool_run(r->pool, count, 1, run_pieces, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_conv_transpose_gemm = {.name = "conv_transpose.gemm",
                                                         .op = TERCEL_OP_CONV_TRANSPOSE,
                                                         .supports = supports,
                                                         .packer = &packer.packer,
                                                         .prepare = prepare,
                                                         .release = tercel_conv_release,
                                                         .bind = bind,
                                                         .run = run};
