/* conv, f32, 3x3 with stride 1, by Winograd's F(4x4, 3x3): a quarter of the multiplications.  kernels/winograd.h has the mathematics.
 *
 *     U[position][out channel][in channel]   the weights, transformed once
 *     V[position][in channel][tile]          the input of a piece, transformed by channel
 *     M[position][out channel][tile]         36 matrix products, one panel of output channels at a time
 *
 * A piece of work is a band of rows of tiles and a block of output channels; V stays in the second-level cache, M in the first or second. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/kernels/winograd.h"
#include "backends/cpu/speed.h"

enum { POSITIONS = TERCEL_WINOGRAD_POSITIONS, TILE = TERCEL_WINOGRAD_TILE, TAPS = 9 };

typedef struct binding {
  tercel_conv_geometry g;
  const tercel_winograd_kernels *kernels;
  tercel_winograd_view view;
  int64_t channels, k;     /* of a group: output and input channels */
  int64_t rows, bands;     /* rows of tiles of a piece; pieces of an image */
  int64_t block, blocks;   /* output channels of a piece, a multiple of mr; pieces of a group */
  int64_t tiles;           /* V's and M's rows: those of a piece, with room for whole vectors */
  size_t m_at, scratch_at; /* in floats, in a thread's workspace: V, M, scratch */
  int64_t scratch_floats;
  size_t thread_bytes;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at;
} binding;

/* ---- when it pays ---- */

/* Bytes of V that a piece may make; of transformed weights where the size of the map is not known. */
static const int64_t most_v_bytes = 512 * 1024;
static const int64_t most_unseen_bytes = 4 * 1024 * 1024;

/* Nanoseconds of a vector of tiles' transforms. */
static const double in_ns = 80, out_ns = 62;

/* The same against one vector of multiply-adds, and that of reading a cache line of U, from the second-level cache and from beyond. */
static const double in_cost = 260, out_cost = 200, near_cost = 1, far_cost = 12;

/* Deterministic mode chooses for this machine everywhere, since Winograd's sums have other bits: lanes, rows of a tile, bytes of a core's
 * second-level cache. */
static const int64_t nominal_lanes = 16, nominal_mr = 8, nominal_cache_bytes = 1024 * 1024;

static int64_t weight_bytes(int64_t m, int64_t k) { return POSITIONS * m * k * (int64_t)sizeof(float); }

/* m, k: channels of a group. */
static bool pays_exact(int64_t m, int64_t k, int64_t height, int64_t width) {
  const double lanes = (double)nominal_lanes, pairs = (double)m * (double)k;
  const double tile_rows = ceil((double)height / TILE), row_tiles = ceil((double)width / TILE);
  const double tiles = tile_rows * row_tiles, v_bytes = tiles * (double)(k * POSITIONS) * sizeof(float);
  const double transforms = tile_rows * ceil(row_tiles / lanes) * ((double)k * in_cost + (double)m * out_cost);
  const double lines = ceil(v_bytes / (double)most_v_bytes) * (double)weight_bytes(m, k) / 64; /* read once a band */
  const bool near = weight_bytes(m, k) <= nominal_cache_bytes / 2;
  const double winograd = POSITIONS * pairs * ceil(tiles / lanes) + transforms + lines * (near ? near_cost : far_cost);
  return winograd < 0.9 * TAPS * pairs * (double)height * (double)width / lanes;
}

static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)kernel;
  const tercel_gemm_kernels *gemm = TERCEL_CPU_PICK(tercel_gemm_kernels);
  tercel_conv_geometry g;
  if (!tercel_conv_cost_geometry(node, in, &g)) return 0;
  const int64_t m = g.out_channels / g.group, k = g.in_channels / g.group, outer = g.batch * g.group;
  if (m < gemm->mr || k < gemm->mr) return INFINITY;
  const double rows = ceil((double)out[0]->dims[2] / TILE), row_tiles = ceil((double)out[0]->dims[3] / TILE);
  const double v_bytes = rows * row_tiles * (double)(k * POSITIONS) * sizeof(float);
  const double bands = fmin(ceil(v_bytes / (double)most_v_bytes), rows);
  const double transforms = rows * ceil(row_tiles / gemm->lanes) * ((double)k * in_ns + (double)m * out_ns);
  const double products =
      POSITIONS * bands * tercel_gemm_tiles_cost(gemm, (double)m, rows * row_tiles / bands, (double)k);
  const double weights = bands * tercel_cpu_weights_cost((double)weight_bytes(m, k));
  const double panels = ceil((double)m / gemm->mr), pieces = (double)outer * bands;
  return tercel_cpu_shared_cost((products + transforms + weights) * (double)outer,
                                pieces < target->num_threads ? pieces * panels : pieces, target->num_threads);
}

static bool is_three_by_three(const tercel_node *node) {
  const tercel_dim *w = node->inputs[TERCEL_CONV_W]->type.shape.dims;
  static const char *const steps[] = {"strides", "dilations"};
  for (int i = 0; i < 2; ++i) {
    size_t count;
    const int64_t *values = tercel_node_ints(node, steps[i], &count);
    for (size_t d = 0; d < count; ++d)
      if (values[d] != 1) return false;
  }
  return w[2] == 3 && w[3] == 3;
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const tercel_value *w = node->inputs[TERCEL_CONV_W];
  return tercel_conv_supports(node, TERCEL_LAYOUT_NCHW, 2) && w->constant != NULL && w->type.shape.rank == 4 &&
         is_three_by_three(node) && node->outputs[0]->type.shape.rank == 4 &&
         tercel_tensor_num_elements(w->constant) > 0;
}

static bool supports_exact(const tercel_kernel *kernel, const tercel_node *node) {
  if (!supports(kernel, node)) return false;
  const tercel_tensor *w = node->inputs[TERCEL_CONV_W]->constant;
  const int64_t m = w->dims[0] / tercel_node_int(node, "group"), k = w->dims[1];
  const tercel_dim *y = node->outputs[0]->type.shape.dims;
  if (m < nominal_mr || k < nominal_mr) return false;
  if (tercel_dim_is_known(y[2]) && tercel_dim_is_known(y[3])) return pays_exact(m, k, y[2], y[3]);
  return weight_bytes(m, k) <= most_unseen_bytes; /* small maps then cost little more than they would */
}

/* ---- prepare ---- */

/* The weights of one in channel for a panel's out channels, beside each other. */
enum { LANES = TERCEL_GEMM_MAX_MR };
typedef double double_lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef float float_lanes __attribute__((vector_size(LANES * sizeof(float))));

/* out[6][step] = G g, of three numbers in_step apart. */
static void transform_weights(const double_lanes *in, int in_step, double_lanes *out, int out_step) {
  const double p = TERCEL_WINOGRAD_P, q = TERCEL_WINOGRAD_Q, p2 = p * p, q2 = q * q;
  const double_lanes g0 = in[0], g1 = in[in_step], g2 = in[2 * in_step];
  const double points[] = {p, q}, scales[] = {1 / (2 * p2 * (p2 - q2)), 1 / (2 * q2 * (q2 - p2))};
  out[0] = g0 / (p2 * q2);
  for (int i = 0; i < 2; ++i) {
    const double_lanes even = g0 + points[i] * points[i] * g2, odd = points[i] * g1;
    out[(1 + 2 * i) * out_step] = (even + odd) * scales[i];
    out[(2 + 2 * i) * out_step] = (even - odd) * scales[i];
  }
  out[5 * out_step] = g2;
}

/* U of a panel of `rows` out channels: [position][k][mr], zeros beyond them. */
static void transform_panel(const float *w, int64_t rows, int64_t k, int64_t mr, float *out) {
  for (int64_t c = 0; c < k; ++c) {
    double_lanes g[TAPS] = {{0}}, down[18], u[POSITIONS];
    for (int64_t r = 0; r < rows; ++r)
      for (int t = 0; t < TAPS; ++t) g[t][r] = w[(r * k + c) * TAPS + t];
    for (int x = 0; x < 3; ++x) transform_weights(g + x, 3, down + x, 3);
    for (int y = 0; y < 6; ++y) transform_weights(down + 3 * y, 1, u + 6 * y, 1);
    for (int e = 0; e < POSITIONS; ++e) {
      const float_lanes rounded = __builtin_convertvector(u[e], float_lanes);
      memcpy(out + (e * k + c) * mr, &rounded, (size_t)mr * sizeof *out);
    }
  }
}

/* U of one group, panel after panel. */
static void transform_group(const float *w, int64_t m, int64_t k, int64_t mr, float *out) {
  for (int64_t i = 0; i < m; i += mr)
    transform_panel(w + i * k * TAPS, tercel_min_i64(m - i, mr), k, mr, out + i * k * POSITIONS);
}

static tercel_status describe(const tercel_packer *p, const tercel_node *node, const tercel_target *target,
                              tercel_pack_format *out, tercel_error *err) {
  (void)p;
  const tercel_tensor *const w = node->inputs[TERCEL_CONV_W]->constant;
  const int64_t group = tercel_node_int(node, "group"), m = w->dims[0] / group, k = w->dims[1];
  const int mr = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels)->mr;
  size_t floats;
  if (!tercel_mul_size((size_t)(tercel_ceil_div(m, mr) * mr), (size_t)(k * POSITIONS), &floats) ||
      !tercel_mul_size(floats, (size_t)group, &floats) || !tercel_mul_size(floats, sizeof(float), &out->bytes))
    return tercel_fail_memory(err, SIZE_MAX, "packed weights");
  snprintf(out->name, sizeof out->name, "winograd.4x4.%d.f32", mr);
  return TERCEL_OK;
}

static tercel_status pack(const tercel_packer *p, const tercel_node *node, const tercel_target *target,
                          const tercel_pack_format *format, void *out, tercel_error *err) {
  (void)p;
  (void)err;
  const tercel_tensor *const w = node->inputs[TERCEL_CONV_W]->constant;
  const int64_t group = tercel_node_int(node, "group"), m = w->dims[0] / group, k = w->dims[1];
  const size_t floats = format->bytes / sizeof(float) / (size_t)group;
  for (int64_t i = 0; i < group; ++i)
    transform_group((const float *)w->data + i * m * k * TAPS, m, k,
                    TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels)->mr, (float *)out + (size_t)i * floats);
  return TERCEL_OK;
}

/* The weights don't come back out of their transform bit by bit, and are smaller: they are what is kept. */
static const tercel_packer packer = {.describe = describe, .pack = pack};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

/* ---- bind ---- */

/* As many rows of tiles as keep V in the cache; less, and less channels, when threads would have nothing to do. */
static void choose_pieces(binding *b, int64_t mr, int num_threads) {
  const int64_t wanted = num_threads,
                outer = b->g.batch * b->g.group; /* small pieces would waste lanes, and read U often */
  const int64_t row_bytes = b->view.tiles * b->k * POSITIONS * (int64_t)sizeof(float);
  const int64_t all = tercel_ceil_div(b->view.y.output, TILE);
  b->rows = tercel_min_i64(tercel_max_i64(most_v_bytes / row_bytes, 1), all);
  if (outer * tercel_ceil_div(all, b->rows) < wanted)
    b->rows = tercel_max_i64(tercel_min_i64(b->rows, all * outer / wanted), 1);
  b->rows = tercel_ceil_div(all, tercel_ceil_div(all, b->rows)); /* even */
  b->bands = tercel_ceil_div(all, b->rows);
  const int64_t panels = tercel_ceil_div(b->channels, mr), splits = tercel_ceil_div(wanted, outer * b->bands);
  b->block = tercel_ceil_div(panels, tercel_min_i64(splits, panels)) * mr;
  b->blocks = tercel_ceil_div(b->channels, b->block);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv");
  tercel_conv_geometry *g = &b->g;
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], g, err));
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, 2, &b->epilogue, err));
  result->data = b;
  result->workspace_bytes = b->epilogue.workspace_bytes;
  if (tercel_tensor_num_elements(out[0]) == 0) return TERCEL_OK;
  const tercel_conv_view view = tercel_conv_get_view(g);
  const int64_t mr = s->gemm->mr, lanes = s->gemm->lanes;
  b->kernels = TERCEL_CPU_PICK_FOR(target, tercel_winograd_kernels);
  b->channels = g->out_channels / g->group;
  b->k = g->in_channels / g->group;
  b->view = (tercel_winograd_view){.y = view.y, .x = view.x, .tiles = tercel_ceil_div(view.x.output, TILE)};
  choose_pieces(b, mr, target->num_threads);
  b->tiles = tercel_ceil_div(b->rows * b->view.tiles + lanes - 1, lanes) * lanes;
  b->scratch_floats = tercel_winograd_scratch_floats(&b->view);
  size_t v, m, all;
  if (!tercel_mul_size((size_t)(POSITIONS * b->tiles), (size_t)b->k, &v) ||
      !tercel_mul_size((size_t)(POSITIONS * b->tiles), (size_t)mr, &m) || !tercel_add_size(v, m, &b->scratch_at) ||
      !tercel_add_size(b->scratch_at, (size_t)b->scratch_floats, &all) || !tercel_mul_size(all, sizeof(float), &all) ||
      !tercel_round_up_size(all, TERCEL_ALIGNMENT, &b->thread_bytes) ||
      !tercel_mul_size(b->thread_bytes, (size_t)target->num_threads, &b->epilogue_at))
    return tercel_fail_memory(err, SIZE_MAX, "conv");
  b->m_at = v;
  result->workspace_bytes += b->epilogue_at;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  tercel_conv_run r;
  const binding *b;
} job;

/* A band of an image's group. */
typedef struct band {
  int64_t image, group, ty, rows;
  const float *v;
  float *m;
} band;

/* M of the panel of output channels from `channel` on: a product for each position. */
static void multiply(const job *j, const band *p, int64_t channel) {
  const binding *b = j->b;
  const tercel_gemm_kernels *gemm = j->r.s->gemm;
  const int64_t mr = gemm->mr, rows = tercel_min_i64(b->channels - channel, mr), tiles = p->rows * b->view.tiles;
  const float *u = j->r.s->packed + p->group * j->r.s->packed_floats + channel * POSITIONS * b->k;
  for (int64_t e = 0; e < POSITIONS; ++e)
    for (int64_t k0 = 0; k0 < b->k; k0 += TERCEL_GEMM_KC) {
      tercel_gemm_tile tile = {.k = tercel_min_i64(b->k - k0, TERCEL_GEMM_KC),
                               .a = u + (e * b->k + k0) * mr,
                               .b_step = b->tiles,
                               .c_row = b->tiles,
                               .alpha = 1,
                               .add = k0 > 0};
      for (int64_t n = 0; n < tiles; n += gemm->nr) {
        tile.cols = tercel_min_i64(tiles - n, gemm->nr);
        tile.b = p->v + (e * b->k + k0) * b->tiles + n;
        tile.c = p->m + e * mr * b->tiles + n;
        gemm->packed[rows - 1][(tile.cols - 1) / gemm->lanes](&tile);
      }
    }
}

static void run_panel(const job *j, const band *p, int64_t channel) {
  const binding *b = j->b;
  const tercel_conv_geometry *g = &b->g;
  const tercel_conv_run *r = &j->r;
  const tercel_epilogue *epilogue = &r->s->epilogue;
  const int64_t mr = r->s->gemm->mr, rows = tercel_min_i64(b->channels - channel, mr), width = b->view.x.output;
  const int64_t first = p->group * b->channels + channel, y0 = p->ty * TILE;
  const int64_t count = tercel_min_i64(p->rows * TILE, b->view.y.output - y0);
  multiply(j, p, channel);
  tercel_winograd_view view = b->view;
  view.step = mr * b->tiles;
  float *y = r->y + (p->image * g->out_channels + first) * g->out_size + y0 * width;
  for (int64_t i = 0; i < rows; ++i)
    b->kernels->output(&view, p->m + i * b->tiles, r->bias == NULL ? 0 : r->bias[first + i], p->ty, p->rows,
                       y + i * g->out_size);
  epilogue->apply(epilogue, r->extras, p->image, first, y0 * width, rows, count * width, y, g->out_size);
}

static void run_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const binding *b = j->b;
  const tercel_conv_geometry *g = &b->g;
  float *v = (float *)(void *)(j->r.workspace + (size_t)thread * b->thread_bytes), *scratch = v + b->scratch_at;
  tercel_winograd_view view = b->view;
  view.step = b->k * b->tiles;
  memset(scratch, 0, (size_t)b->scratch_floats * sizeof *scratch);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t outer = i / b->blocks / b->bands, block = i % b->blocks;
    band p = {.image = outer / g->group, .group = outer % g->group, .v = v, .m = v + b->m_at};
    p.ty = i / b->blocks % b->bands * b->rows;
    p.rows = tercel_min_i64(b->rows, tercel_ceil_div(view.y.output, TILE) - p.ty);
    /* Neighbouring pieces share V. */
    for (int64_t c = 0; c < b->k && (i == begin || block == 0); ++c)
      b->kernels->input(&view, j->r.x + (outer * b->k + c) * g->in_size, p.ty, p.rows, scratch, v + c * b->tiles);
    const int64_t last = tercel_min_i64((block + 1) * b->block, b->channels);
    for (int64_t channel = block * b->block; channel < last; channel += j->r.s->gemm->mr) run_panel(j, &p, channel);
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  if (b->g.batch == 0 || b->g.out_size == 0) return TERCEL_OK;
  job j = {.b = b};
  tercel_conv_start(r, &b->epilogue, b->epilogue_at, &j.r);
  tercel_pool_run(r->pool, b->g.batch * b->g.group * b->bands * b->blocks, 1, run_pieces, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_conv_winograd = {.name = "conv.winograd",
                                                   .op = TERCEL_OP_CONV,
                                                   .supports = supports,
                                                   .supports_exact = supports_exact,
                                                   .packer = &packer,
                                                   .prepare = prepare,
                                                   .release = tercel_conv_release,
                                                   .bind = bind,
                                                   .run = run,
                                                   .cost = cost};
