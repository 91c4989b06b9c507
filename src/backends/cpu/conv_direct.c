/* See conv_direct.h.  A piece of work is a band of output rows of one product or, where those are too few for the threads, a block of output
 * channels of one: each then copies the planes for itself. */
#include "backends/cpu/conv_direct.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/speed.h"

/* Bytes of planes a band may take: they should stay in the second-level cache beside the weights. */
static const int64_t most_planes_bytes = 256 * 1024;

enum { BANDS_PER_THREAD = 4 };

/* Beyond this, planes of the fewest rows (a long signal has but one) would be read from memory again for each panel of weights. */
static const int64_t too_many_planes_bytes = 1024 * 1024;

/* Nanoseconds to copy an element into its plane. */
static const double copy_ns = 0.5;

/* Rows of a band: few enough for the cache, and for the threads. */
static int64_t rows_of_band(const tercel_conv_view *view, int64_t channels, int64_t outer, int num_threads) {
  const int64_t row_bytes = channels * tercel_conv_plane_row_floats(view) * (int64_t)sizeof(float);
  const int64_t halo = (view->y.kernel - 1) * view->y.dilation / view->y.stride;
  int64_t band = tercel_max_i64(most_planes_bytes / tercel_max_i64(row_bytes, 1) - halo, halo + 1);
  if (num_threads > 1 && outer > 0) {
    const int64_t wanted = tercel_ceil_div((int64_t)BANDS_PER_THREAD * num_threads, outer);
    band = tercel_min_i64(band, tercel_ceil_div(view->y.output, wanted));
  }
  return tercel_max_i64(band, 1);
}

double tercel_conv_direct_cost(const tercel_gemm_kernels *gemm, const tercel_conv_geometry *g, int num_threads) {
  const tercel_conv_view v = tercel_conv_get_view(g);
  const int64_t halo = (v.y.kernel - 1) * v.y.dilation / v.y.stride, channels = g->in_channels / g->group;
  const int64_t row_floats = channels * tercel_conv_plane_row_floats(&v), outer = g->batch * g->group;
  if (row_floats * (halo + 1) * (int64_t)sizeof(float) > too_many_planes_bytes) return INFINITY;
  const int64_t out_channels = g->out_channels / g->group;
  const double m = (double)out_channels, k = (double)(channels * g->kernel_size);
  const double rows = (double)v.y.output, width = (double)v.x.output;
  const double bands = ceil(rows / (double)rows_of_band(&v, channels, outer, num_threads));
  const double copied = (double)row_floats * (rows + bands * (double)halo);
  const double weights = tercel_cpu_weights_cost(m * k * sizeof(float)) * bands;
  const double ns = rows * tercel_gemm_tiles_cost(gemm, m, width, k) + copied * copy_ns + weights;
  const double panels = ceil(m / gemm->mr), pieces = (double)outer * bands;
  return tercel_cpu_shared_cost(ns * (double)outer, pieces < num_threads ? pieces * panels : pieces, num_threads);
}

/* Planes of all channels follow each other. */
static tercel_status make_offsets(tercel_conv_direct *d, tercel_arena *arena, tercel_error *err) {
  int64_t *offsets = tercel_arena_alloc_array(arena, (size_t)d->k, sizeof *offsets);
  if (offsets == NULL) return tercel_fail_memory(err, (size_t)d->k * sizeof *offsets, "conv");
  for (int64_t i = 0; i < d->k; ++i)
    offsets[i] = i / d->plane.num_taps * d->plane_floats + d->plane.offsets[i % d->plane.num_taps];
  d->offsets = offsets;
  return TERCEL_OK;
}

tercel_status tercel_conv_direct_bind(const tercel_gemm_kernels *gemm, const tercel_conv_kernels *conv,
                                      const tercel_conv_geometry *g, int num_threads, tercel_arena *arena,
                                      tercel_conv_direct *out, tercel_error *err) {
  const tercel_conv_view view = tercel_conv_get_view(g);
  *out = (tercel_conv_direct){.gemm = gemm,
                              .conv = conv,
                              .outer = g->batch * g->group,
                              .m = g->out_channels / g->group,
                              .channels = g->in_channels / g->group,
                              .in_size = g->in_size,
                              .out_size = g->out_size};
  out->k = out->channels * g->kernel_size;
  const int64_t band = rows_of_band(&view, out->channels, out->outer, num_threads);
  TERCEL_TRY(tercel_conv_make_plane(&view, band, arena, &out->plane, err));
  out->plane_floats = tercel_conv_plane_floats(&out->plane);
  out->bands = tercel_ceil_div(view.y.output, out->plane.band);
  const int64_t panels = tercel_ceil_div(out->m, gemm->mr), pieces = out->outer * out->bands;
  const int64_t splits = pieces > 0 ? tercel_ceil_div(num_threads, pieces) : 1;
  out->block = tercel_max_i64(tercel_ceil_div(panels, splits), 1) * gemm->mr;
  out->blocks = tercel_ceil_div(out->m, out->block);
  TERCEL_TRY(make_offsets(out, arena, err));
  size_t bytes;
  if (!tercel_mul_size((size_t)out->plane_floats * sizeof(float), (size_t)out->channels, &bytes) ||
      !tercel_round_up_size(bytes, TERCEL_ALIGNMENT, &out->thread_bytes) ||
      !tercel_mul_size(out->thread_bytes, (size_t)num_threads, &out->workspace_bytes))
    return tercel_fail_memory(err, SIZE_MAX, "conv");
  return TERCEL_OK;
}

typedef struct job {
  const tercel_conv_direct *d;
  const tercel_gemm_run *run;
  uint8_t *workspace;
} job;

/* A panel of output channels, m .. m + rows, over a band and a run of k. */
static void run_panel(const job *j, const tercel_gemm_product *p, const float *planes, int64_t y0, int64_t count,
                      int64_t m, int64_t k0, int64_t kc) {
  const tercel_conv_direct *d = j->d;
  const int64_t rows = tercel_min_i64(d->m - m, d->gemm->mr), width = d->plane.x.output;
  const tercel_epilogue *epilogue = k0 + kc == d->k ? j->run->epilogue : NULL;
  float *c = p->c + m * d->out_size + y0 * width;
  tercel_gemm_tile tile = {.k = kc,
                           .a = p->a + m * d->k + k0 * d->gemm->mr,
                           .b_offsets = d->offsets + k0,
                           .c_row = d->out_size,
                           .alpha = 1,
                           .add = k0 > 0,
                           .row_bias = p->row_bias == NULL ? NULL : p->row_bias + m};
  if (epilogue != NULL && epilogue->form == TERCEL_EPILOGUE_CLAMP) {
    tile.clamp = true;
    tile.low = epilogue->low;
    tile.high = epilogue->high;
    epilogue = NULL;
  }
  for (int64_t y = 0; y < count; ++y) {
    for (int64_t x = 0; x < width; x += d->gemm->nr) {
      tile.cols = tercel_min_i64(width - x, d->gemm->nr);
      tile.b = planes + y * d->plane.pitch + x;
      tile.c = c + y * width + x;
      d->gemm->viewed[rows - 1][(tile.cols - 1) / d->gemm->lanes](&tile);
    }
  }
  if (epilogue != NULL)
    epilogue->apply(epilogue, j->run->extras, p->epilogue_outer, p->epilogue_row + m, y0 * width, rows, count * width,
                    c, d->out_size);
}

static void run_bands(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const tercel_conv_direct *d = j->d;
  float *planes = (float *)(void *)(j->workspace + (size_t)thread * d->thread_bytes);
  memset(planes, 0, d->thread_bytes);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t band = i / d->blocks, first = i % d->blocks * d->block;
    const int64_t last = tercel_min_i64(first + d->block, d->m);
    const int64_t y0 = band % d->bands * d->plane.band, count = tercel_min_i64(d->plane.band, d->plane.y.output - y0);
    tercel_gemm_product p = {0};
    j->run->product(j->run->user, band / d->bands, &p);
    for (int64_t c = 0; c < d->channels; ++c)
      d->conv->fill(&d->plane, p.b + c * d->in_size, y0, count, planes + c * d->plane_floats);
    int64_t k0 = 0;
    do { /* once even when there are no channels: the bias remains */
      const int64_t kc = tercel_min_i64(d->k - k0, TERCEL_GEMM_KC);
      for (int64_t m = first; m < last; m += d->gemm->mr) run_panel(j, &p, planes, y0, count, m, k0, kc);
      k0 += kc;
    } while (k0 < d->k);
  }
}

void tercel_conv_direct_run(const tercel_conv_direct *d, const tercel_gemm_run *run, void *workspace,
                            tercel_pool *pool) {
  job j = {.d = d, .run = run, .workspace = workspace};
  if (d->m > 0) tercel_pool_run(pool, d->outer * d->bands * d->blocks, 1, run_bands, &j);
}
