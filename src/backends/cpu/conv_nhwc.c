/* conv, f32, channels last, as a matrix product: pixels of the result by out channels.  A row of A is what a pixel's window sees: one run of
 * channels a tap, read where it lies in the input, through a list of addresses (zeros for taps in the padding).  B is the weights, packed
 * once: [tap][in channel] by out channel.  So nothing is packed while it runs, and a 1x1 convolution is a plain product.
 *
 *     for each block of pixels by out channels      a piece of work for a thread
 *       for each run of k                           some taps whole, or a part of one tap's channels
 *         for each panel of mr pixels               their addresses, for the taps of the run
 *           for each panel of nr channels           tile
 *         after the last run: epilogue on the panel's pixels */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/speed.h"
#include "ops/move.h"

/* Taps and channels of a tap that a run of k has at most.  Where taps of a row touch (`row` of them, else 1), they are one run of addresses for
 * pixels whose windows lie inside. */
typedef struct run_size {
  int64_t taps, channels, row;
} run_size;

typedef struct binding {
  tercel_conv_geometry g;
  tercel_conv_view view;
  int64_t in_each, out_each; /* channels of a group */
  tercel_gemm_blocks blocks;
  run_size run;
  const int64_t *offsets; /* of taps from the first, in floats, for windows that lie inside */
  bool
      copies; /* rows of A go through a thread's workspace: where they lie, they would evict each other from the cache */
  size_t zeros_bytes, thread_bytes;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at;
} binding;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_conv_supports(node, TERCEL_LAYOUT_NHWC, 2) && node->inputs[TERCEL_CONV_W]->constant != NULL;
}

/* ---- weights ---- */

/* Of a group: [panel of nr out channels][tap][in channel][nr], zeros beyond the last.  The weights are [out channel][in channel][tap]. */
typedef struct weights {
  int64_t group, out_each, in_each, taps;
} weights;

static weights weights_of(const tercel_node *node) {
  const tercel_tensor *const w = node->inputs[TERCEL_CONV_W]->constant;
  const int64_t group = tercel_node_int(node, "group");
  return (weights){group, w->dims[0] / group, w->dims[1], tercel_dims_product(w->dims, 2, w->rank)};
}

static bool panel_bytes(const weights *w, int width, size_t *out) {
  const tercel_panels panels = {width, 1, sizeof(float)};
  const tercel_gemm_operand operand = {.count = w->group, .outer = w->out_each, .k = w->in_each * w->taps};
  return tercel_panels_bytes(&panels, &operand, out);
}

static tercel_status describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                              tercel_pack_format *out, tercel_error *err) {
  (void)packer;
  const weights w = weights_of(node);
  const int width = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels)->nr;
  if (!panel_bytes(&w, width, &out->bytes)) return tercel_fail_memory(err, SIZE_MAX, "packed weights");
  if (out->bytes == 0) return TERCEL_OK;
  snprintf(out->name, sizeof out->name, "conv.nhwc.%d.f32", width);
  out->inputs = 1u << TERCEL_CONV_W;
  return TERCEL_OK;
}

static tercel_status pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                          const tercel_pack_format *format, void *out, tercel_error *err) {
  (void)packer;
  (void)format;
  (void)err;
  const weights w = weights_of(node);
  const tercel_gemm_kernels *const kernels = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels);
  const int64_t row = w.in_each * w.taps;
  const float *from = node->inputs[TERCEL_CONV_W]->constant->data;
  float *to = out;
  for (int64_t group = 0; group < w.group; ++group, from += w.out_each * row)
    for (int64_t m = 0; m < w.out_each; m += kernels->nr)
      for (int64_t tap = 0; tap < w.taps; ++tap, to += w.in_each * kernels->nr)
        kernels->pack_b(w.in_each, tercel_min_i64(w.out_each - m, kernels->nr), from + m * row + tap, w.taps, row, to);
  return TERCEL_OK;
}

static bool parse_name(const char *name, int *width) {
  const char *at = name + strlen("conv.nhwc.");
  return strncmp(name, "conv.nhwc.", strlen("conv.nhwc.")) == 0 && tercel_panels_parse_number(&at, width) &&
         strcmp(at, ".f32") == 0;
}

static tercel_status unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                            uint32_t input, void *out, tercel_error *err) {
  (void)packer;
  (void)input;
  const weights w = weights_of(node);
  int width;
  size_t bytes;
  if (!parse_name(packed->format.name, &width) || !panel_bytes(&w, width, &bytes) || bytes != packed->format.bytes)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "conv '%s': %zu bytes of %s are not its weights", node->name,
                       packed->format.bytes, packed->format.name);
  const tercel_panels panels = {width, 1, sizeof(float)};
  const int64_t row = w.in_each * w.taps;
  const float *from = packed->data;
  float *to = out;
  for (int64_t group = 0; group < w.group; ++group, to += w.out_each * row)
    for (int64_t m = 0; m < w.out_each; m += width)
      for (int64_t tap = 0; tap < w.taps; ++tap, from += w.in_each * width) {
        const tercel_gemm_operand panel = {.count = 1,
                                           .outer = tercel_min_i64(w.out_each - m, width),
                                           .outer_step = row,
                                           .k = w.in_each,
                                           .k_step = w.taps};
        tercel_panels_unpack_f32(&panels, &panel, from, to + m * row + tap);
      }
  return TERCEL_OK;
}

static const tercel_packer packer = {describe, pack, unpack};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

/* ---- bind ---- */

/* Rows a multiple of 4 KiB apart fall into the same set of the first-level cache. */
static bool rows_collide(const tercel_conv_geometry *g, const tercel_conv_view *view) {
  return g->in_channels * view->x.stride * (int64_t)sizeof(float) % 4096 == 0;
}

/* Bytes of the input and the result that a block's runs of k go over again and again. */
static int64_t most_block_bytes(void) { return (int64_t)tercel_cpu_cache_bytes(2) / 4; }

/* Pixels that a block has at most, so that they stay in the second-level cache from one run of k to the next. */
static void limit_pixels(binding *b, int64_t mr) {
  const tercel_conv_view *v = &b->view;
  if (b->in_each * b->g.kernel_size <= b->run.taps * b->run.channels) return;
  const int64_t floats = b->in_each * v->y.stride * v->x.stride + tercel_min_i64(b->blocks.nc, b->out_each);
  const int64_t most = tercel_max_i64(most_block_bytes() / (floats * (int64_t)sizeof(float)), 8 * mr);
  if (b->blocks.mc <= most) return;
  b->blocks.m_blocks = tercel_ceil_div(b->g.out_size, most);
  b->blocks.mc = tercel_ceil_div(tercel_ceil_div(b->g.out_size, b->blocks.m_blocks), mr) * mr;
  b->blocks.m_blocks = tercel_ceil_div(b->g.out_size, b->blocks.mc);
}

static run_size choose_run(const binding *b) {
  const tercel_conv_geometry *g = &b->g;
  run_size r = {.row = 1, .channels = tercel_min_i64(b->in_each, TERCEL_GEMM_KC)};
  r.taps = tercel_min_i64(TERCEL_GEMM_KC / tercel_max_i64(r.channels, 1), g->kernel_size);
  const tercel_conv_axis *x = &b->view.x;
  if (g->group > 1 || x->dilation != 1 || r.taps < x->kernel || r.channels == 0) return r;
  r.row = x->kernel;
  r.taps -= r.taps % r.row;
  return r;
}

static tercel_status make_offsets(binding *b, tercel_arena *arena, tercel_error *err) {
  const tercel_conv_view *v = &b->view;
  int64_t *offsets = tercel_arena_alloc_array(arena, (size_t)b->g.kernel_size, sizeof *offsets);
  if (offsets == NULL) return tercel_fail_memory(err, (size_t)b->g.kernel_size * sizeof *offsets, "conv");
  for (int64_t t = 0; t < b->g.kernel_size; ++t) {
    const int64_t y = t / v->x.kernel * v->y.dilation, x = t % v->x.kernel * v->x.dilation;
    offsets[t] = (y * v->x.input + x) * b->g.in_channels;
  }
  b->offsets = offsets;
  return TERCEL_OK;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv");
  *b = (binding){0};
  tercel_conv_geometry *g = &b->g;
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], g, err));
  TERCEL_TRY(
      tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, out[0]->rank - 1, &b->epilogue, err));
  result->data = b;
  result->workspace_bytes = b->epilogue.workspace_bytes;
  if (tercel_tensor_num_elements(out[0]) == 0) return TERCEL_OK;
  b->view = tercel_conv_get_view(g);
  b->in_each = g->in_channels / g->group;
  b->out_each = g->out_channels / g->group;
  b->run = choose_run(b);
  TERCEL_TRY(make_offsets(b, arena, err));
  b->copies = rows_collide(g, &b->view) && b->out_each > s->gemm->nr;
  const int64_t k = b->in_each * g->kernel_size, kc = b->run.taps * b->run.channels;
  b->blocks = tercel_gemm_cut(g->out_size, b->out_each, k, g->batch * g->group, s->gemm->mr, s->gemm->nr,
                              tercel_max_i64(kc, 1) * s->gemm->nr * (int64_t)sizeof(float), true, target->num_threads);
  limit_pixels(b, s->gemm->mr);
  size_t lists, rows, all;
  if (!tercel_round_up_size((size_t)b->run.channels * sizeof(float), TERCEL_ALIGNMENT, &b->zeros_bytes) ||
      !tercel_round_up_size((size_t)(b->run.taps * s->gemm->mr) * sizeof(float *), TERCEL_ALIGNMENT, &lists) ||
      !tercel_round_up_size(b->copies ? (size_t)(kc * s->gemm->mr) * sizeof(float) : 0, TERCEL_ALIGNMENT, &rows) ||
      !tercel_add_size(lists, rows, &b->thread_bytes) ||
      !tercel_mul_size(b->thread_bytes, (size_t)target->num_threads, &all) ||
      !tercel_add_size(all, b->zeros_bytes, &b->epilogue_at))
    return tercel_fail_memory(err, SIZE_MAX, "conv");
  result->workspace_bytes += b->epilogue_at;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  tercel_conv_run r;
  const binding *b;
  const float *zeros;
} job;

/* A block of the result in work. */
typedef struct block {
  const float *x, *weights; /* of the image's group; weights packed */
  const float *bias;        /* NULL: 0 */
  float *y;                 /* pixel 0, first channel of the group */
  int64_t image, group, m0, m1, n0, n1;
  const float **list;
  float *rows;
} block;

/* A run of k: some taps' channels c0 .. c0 + channels; k0: where they begin among the weights. */
typedef struct run_part {
  int64_t tap, taps, c0, channels, k0;
  bool first, last;
} run_part;

/* Addresses for a panel: list[segment * mr + pixel], `length` floats each. */
typedef struct panel {
  int64_t m, rows, segments, length;
} panel;

/* Position in an axis, or -1 in the padding. */
static int64_t position(const tercel_conv_axis *axis, int64_t output, int64_t tap) {
  const int64_t at = output * axis->stride + tap * axis->dilation - axis->pad;
  return at < axis->input ? at : -1;
}

/* Are all taps of outputs first .. last inside? */
static bool lies_inside(const tercel_conv_axis *axis, int64_t first, int64_t last) {
  return first * axis->stride >= axis->pad &&
         last * axis->stride + (axis->kernel - 1) * axis->dilation - axis->pad < axis->input;
}

/* All windows of the panel lie inside: bases and offsets, and taps of a row as one. */
static bool list_inside(const job *j, const block *t, const run_part *part, panel *p) {
  const binding *b = j->b;
  const tercel_conv_view *v = &b->view;
  const int64_t mr = j->r.s->gemm->mr, width = v->x.output, last = p->m + p->rows - 1;
  const int64_t oy = p->m / width, ox = p->m % width;
  const bool one_row = oy == last / width;
  if (!lies_inside(&v->y, oy, last / width) ||
      !lies_inside(&v->x, one_row ? ox : 0, one_row ? last % width : width - 1))
    return false;
  const float *bases[TERCEL_GEMM_MAX_MR];
  const float *row = t->x + ((oy * v->y.stride - v->y.pad) * v->x.input - v->x.pad) * b->g.in_channels + part->c0;
  const int64_t step = v->x.stride * b->g.in_channels, row_step = v->y.stride * v->x.input * b->g.in_channels;
  for (int64_t r = 0, x = ox; r < p->rows; ++r) {
    bases[r] = row + x * step;
    if (++x < width) continue;
    x = 0;
    row += row_step;
  }
  p->segments = part->taps / b->run.row;
  p->length = part->channels * b->run.row;
  const float **list = t->list;
  for (int64_t i = 0; i < p->segments; ++i, list += mr) {
    const int64_t offset = b->offsets[part->tap + i * b->run.row];
    for (int64_t r = 0; r < p->rows; ++r) list[r] = bases[r] + offset;
  }
  return true;
}

static void list_rows(const job *j, const block *t, const run_part *part, panel *p) {
  if (list_inside(j, t, part, p)) return;
  const tercel_conv_view *v = &j->b->view;
  const int64_t mr = j->r.s->gemm->mr, channels = j->b->g.in_channels;
  p->segments = part->taps;
  p->length = part->channels;
  for (int64_t i = 0; i < part->taps; ++i) {
    const int64_t tap = part->tap + i, ky = tap / v->x.kernel, kx = tap % v->x.kernel;
    int64_t oy = p->m / v->x.output, ox = p->m % v->x.output, y = position(&v->y, oy, ky);
    for (int64_t r = 0; r < p->rows; ++r) {
      const int64_t x = y < 0 ? -1 : position(&v->x, ox, kx);
      t->list[i * mr + r] = x < 0 ? j->zeros : t->x + (y * v->x.input + x) * channels + part->c0;
      if (++ox < v->x.output) continue;
      ox = 0;
      y = position(&v->y, ++oy, ky);
    }
  }
}

static void copy_rows(const job *j, const block *t, const panel *p) {
  const int64_t mr = j->r.s->gemm->mr;
  float *to = t->rows;
  for (int64_t i = 0; i < p->segments; ++i)
    for (int64_t r = 0; r < p->rows; ++r, to += p->length) {
      memcpy(to, t->list[i * mr + r], (size_t)p->length * sizeof *to);
      t->list[i * mr + r] = to;
    }
}

/* Pixels m .. m + rows of the block, over all its channels. */
static void run_rows(const job *j, const block *t, const run_part *part, int64_t m, int64_t rows) {
  const tercel_gemm_kernels *gemm = j->r.s->gemm;
  const binding *b = j->b;
  const int64_t k = b->in_each * b->g.kernel_size, ld = b->g.out_channels;
  const tercel_epilogue *epilogue = part->last ? &j->r.s->epilogue : NULL;
  panel p = {.m = m, .rows = rows};
  list_rows(j, t, part, &p);
  if (b->copies) copy_rows(j, t, &p);
  tercel_gemm_tile tile = {
      .k = p.length, .segments = p.segments, .a_rows = t->list, .c_row = ld, .alpha = 1, .add = !part->first};
  if (epilogue != NULL && epilogue->form == TERCEL_EPILOGUE_CLAMP) {
    tile.clamp = true;
    tile.low = epilogue->low;
    tile.high = epilogue->high;
    epilogue = NULL;
  }
  for (int64_t n = t->n0; n < t->n1; n += gemm->nr) {
    tile.cols = tercel_min_i64(t->n1 - n, gemm->nr);
    tile.b = t->weights + n * k + part->k0 * gemm->nr;
    tile.c = t->y + m * ld + n;
    tile.col_bias = t->bias == NULL ? NULL : t->bias + n;
    gemm->listed[rows - 1][(tile.cols - 1) / gemm->lanes](&tile);
  }
  if (epilogue != NULL)
    epilogue->apply(epilogue, j->r.extras, t->image, m, t->group * b->out_each + t->n0, rows, t->n1 - t->n0,
                    t->y + m * ld + t->n0, ld);
}

static void run_block(const job *j, const block *t) {
  const binding *b = j->b;
  const int64_t mr = j->r.s->gemm->mr, taps = b->g.kernel_size;
  run_part part = {.first = true};
  do { /* once even when there are no channels: the bias remains */
    part.taps = tercel_min_i64(b->run.taps, taps - part.tap);
    part.channels = tercel_min_i64(b->run.channels, b->in_each - part.c0);
    const bool tap_done = part.c0 + part.channels == b->in_each;
    part.last = tap_done && part.tap + part.taps == taps;
    for (int64_t m = t->m0; m < t->m1; m += mr) run_rows(j, t, &part, m, tercel_min_i64(t->m1 - m, mr));
    part.first = false;
    part.k0 += part.taps * part.channels;
    part.tap += tap_done ? part.taps : 0;
    part.c0 = tap_done ? 0 : part.c0 + part.channels;
  } while (!part.last);
}

static void run_blocks(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const binding *b = j->b;
  const tercel_conv_geometry *g = &b->g;
  uint8_t *space = j->r.workspace + b->zeros_bytes + (size_t)thread * b->thread_bytes;
  const size_t list_bytes = (size_t)(b->run.taps * j->r.s->gemm->mr) * sizeof(float *);
  block t = {.list = (const float **)(void *)space,
             .rows =
                 (float *)(void *)(space + ((list_bytes + TERCEL_ALIGNMENT - 1) & ~(size_t)(TERCEL_ALIGNMENT - 1)))};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t n_block = i % b->blocks.n_blocks, rest = i / b->blocks.n_blocks;
    const int64_t m_block = rest % b->blocks.m_blocks, outer = rest / b->blocks.m_blocks;
    t.image = outer / g->group;
    t.group = outer % g->group;
    t.m0 = m_block * b->blocks.mc;
    t.m1 = tercel_min_i64(t.m0 + b->blocks.mc, g->out_size);
    t.n0 = n_block * b->blocks.nc;
    t.n1 = tercel_min_i64(t.n0 + b->blocks.nc, b->out_each);
    t.x = j->r.x + t.image * g->in_size * g->in_channels + t.group * b->in_each;
    t.weights = j->r.s->packed + t.group * j->r.s->packed_floats;
    t.bias = j->r.bias == NULL ? NULL : j->r.bias + t.group * b->out_each;
    t.y = j->r.y + t.image * g->out_size * g->out_channels + t.group * b->out_each;
    run_block(j, &t);
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  const int64_t count = b->g.batch * b->g.group * b->blocks.m_blocks * b->blocks.n_blocks;
  if (count == 0) return TERCEL_OK;
  job j = {.b = b, .zeros = r->workspace};
  tercel_conv_start(r, &b->epilogue, b->epilogue_at, &j.r);
  memset(r->workspace, 0, b->zeros_bytes);
  tercel_pool_run(r->pool, count, b->blocks.grain, run_blocks, &j);
  return TERCEL_OK;
}

/* ---- estimate ---- */

static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)kernel;
  (void)out;
  static const double list_ns = 0.15, panel_ns = 15; /* an address; beside the tiles of a panel */
  tercel_conv_geometry g;
  if (!tercel_conv_cost_geometry(node, in, &g)) return 0;
  const tercel_gemm_kernels *gemm = TERCEL_CPU_PICK(tercel_gemm_kernels);
  const double outer = (double)(g.batch * g.group), pixels = (double)g.out_size, taps = (double)g.kernel_size;
  const double m = (double)g.out_channels / (double)g.group, k = (double)g.in_channels / (double)g.group * taps;
  const double panels = ceil(pixels / gemm->mr), pieces = outer * panels * ceil(m / gemm->nr);
  const double list = pixels * taps * list_ns + panels * panel_ns,
               reading = tercel_cpu_weights_cost(m * k * sizeof(float));
  return tercel_cpu_shared_cost(outer * (tercel_gemm_tiles_cost(gemm, pixels, m, k) + list + reading),
                                fmin(pieces, outer * pixels * m * k / (64 * 1024)), target->num_threads);
}

const tercel_kernel tercel_kernel_conv_nhwc = {.name = "conv.nhwc",
                                               .op = TERCEL_OP_CONV,
                                               .supports = supports,
                                               .packer = &packer,
                                               .prepare = prepare,
                                               .release = tercel_conv_release,
                                               .bind = bind,
                                               .run = run,
                                               .cost = cost};
