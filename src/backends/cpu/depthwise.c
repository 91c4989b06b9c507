/* conv, f32, with one input channel a group (depthwise, any multiplier): each output channel looks at one plane.
 * Work is cut into bands of rows, small enough that a band stays in the first-level cache from copy to epilogue. */
#include <math.h>
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/speed.h"

typedef struct binding {
  const tercel_conv_kernels *kernels;
  tercel_conv_geometry g;
  tercel_conv_plane d;
  int64_t bands; /* a channel */
  size_t thread_bytes;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

/* Floats of a band's copy; output rows a band has at least, so that little is copied twice. */
enum { BAND_FLOATS = 4096, BAND_ROWS = 8 };

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  if (!tercel_conv_supports(node, TERCEL_LAYOUT_NCHW, 2)) return false;
  const tercel_dim *w = node->inputs[TERCEL_CONV_W]->type.shape.dims;
  return w[1] == 1 && tercel_dim_is_known(w[0]) && tercel_node_int(node, "group") > 1;
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

/* The kernel's variant: vectors of 8 where the level has 16, which narrow outputs fill better. */
static const char narrow[] = "narrow";
enum { NARROW_LANES = 8 };

/* Bits don't hang on the vectors' width here, so deterministic mode chooses by columns alone. */
static const tercel_conv_kernels *kernels_for(const tercel_kernel *kernel, const tercel_conv_state *s,
                                              const tercel_target *target, int64_t columns) {
#if defined(__x86_64__)
#if TERCEL_EXACT_LEVELS
  if (target->deterministic && columns <= NARROW_LANES && tercel_cpu_current() >= TERCEL_CPU_AVX2)
    return &tercel_conv_kernels_avx2_exact;
#endif
  if (kernel->variant == narrow) return &tercel_conv_kernels_avx2;
#endif
  (void)kernel, (void)target, (void)columns;
  return s->conv;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv");
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], &b->g, err));
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, 2, &b->epilogue, err));
  result->data = b;
  result->workspace_bytes = b->epilogue.workspace_bytes;
  if (tercel_tensor_num_elements(out[0]) == 0) return TERCEL_OK;
  const tercel_conv_view view = tercel_conv_get_view(&b->g);
  const int64_t row_floats = tercel_conv_plane_row_floats(&view);
  TERCEL_TRY(tercel_conv_make_plane(&view, tercel_max_i64(BAND_FLOATS / row_floats, BAND_ROWS), arena, &b->d, err));
  b->kernels = kernels_for(kernel, s, target, b->d.x.output);
  b->bands = tercel_ceil_div(b->d.y.output, b->d.band);
  const size_t floats = (size_t)tercel_conv_plane_floats(&b->d);
  size_t thread_bytes;
  if (!tercel_mul_size(floats, sizeof(float), &thread_bytes) ||
      !tercel_round_up_size(thread_bytes, TERCEL_ALIGNMENT, &b->thread_bytes) ||
      !tercel_mul_size(b->thread_bytes, (size_t)target->num_threads, &b->epilogue_at))
    return tercel_fail_memory(err, SIZE_MAX, "conv");
  result->workspace_bytes += b->epilogue_at;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  tercel_conv_run r;
  const binding *b;
} job;

static void run_bands(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const tercel_conv_geometry *g = &j->b->g;
  const tercel_conv_plane *d = &j->b->d;
  const tercel_conv_run *r = &j->r;
  const tercel_epilogue *epilogue = &r->s->epilogue;
  float *plane = (float *)(void *)(r->workspace + (size_t)thread * j->b->thread_bytes);
  const int64_t multiplier = g->out_channels / g->group, width = d->x.output;
  memset(plane, 0, (size_t)tercel_conv_plane_floats(d) * sizeof *plane);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t channel = i / j->b->bands, image = channel / g->out_channels, m = channel % g->out_channels;
    const int64_t y0 = i % j->b->bands * d->band, count = tercel_min_i64(d->band, d->y.output - y0);
    const float *x = r->x + (image * g->in_channels + m / multiplier) * g->in_size;
    float *y = r->y + channel * g->out_size + y0 * width;
    j->b->kernels->depthwise(d, x, r->w + m * d->num_taps, r->bias == NULL ? 0 : r->bias[m], y0, count, y, plane);
    epilogue->apply(epilogue, r->extras, image, m, y0 * width, 1, count * width, y, g->out_size);
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  job j = {.b = b};
  tercel_conv_start(r, &b->epilogue, b->epilogue_at, &j.r);
  const int64_t count = b->g.batch * b->g.out_channels * b->bands;
  if (count == 0) return TERCEL_OK;
  const int64_t work = b->d.num_taps * b->d.band * b->d.x.output;
  tercel_pool_run(r->pool, count, tercel_ceil_div(32 * 1024, work), run_bands, &j);
  return TERCEL_OK;
}

static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)out;
  static const double efficiency = 0.6, channel_ns = 55; /* of multiply-adds; beside copies and sums */
  tercel_conv_geometry g;
  if (!tercel_conv_cost_geometry(node, in, &g)) return 0;
  const tercel_cpu_speed *const speed = tercel_cpu_get_speed();
  const tercel_conv_axis x = tercel_conv_get_view(&g).x;
  const bool is_narrow = kernel->variant == narrow;
  const int64_t lanes = is_narrow ? NARROW_LANES : speed->lanes;
  const double rows = (double)g.out_size / (double)tercel_max_i64(x.output, 1);
  const double vectors = rows * (double)tercel_ceil_div(x.output, lanes) *
                         (is_narrow ? 0.6 : 1); /* half vectors, almost twice as many in the same time */
  const double copy_ns = x.stride == 1 ? 0.12 : is_narrow ? 0.17 : 0.2; /* an element into its phase */
  const double channels = (double)(g.batch * g.out_channels), taps = (double)g.kernel_size;
  const double ns = vectors * taps / (speed->fma * efficiency) + (double)g.in_size * copy_ns + channel_ns;
  return tercel_cpu_shared_cost(channels * ns, channels * (double)g.out_size * taps / (32 * 1024), target->num_threads);
}

const tercel_kernel tercel_kernel_conv_depthwise = {.name = "conv.depthwise",
                                                    .op = TERCEL_OP_CONV,
                                                    .supports = supports,
                                                    .prepare = prepare,
                                                    .release = tercel_conv_release,
                                                    .bind = bind,
                                                    .run = run,
                                                    .cost = cost,
                                                    .packing = "plain"};

static bool supports_narrow(const tercel_kernel *kernel, const tercel_node *node) {
  return tercel_cpu_get_speed()->lanes > NARROW_LANES && supports(kernel, node);
}

const tercel_kernel tercel_kernel_conv_depthwise_narrow = {.name = "conv.depthwise.narrow",
                                                           .op = TERCEL_OP_CONV,
                                                           .variant = narrow,
                                                           .supports = supports_narrow,
                                                           .supports_exact = tercel_kernel_never,
                                                           .prepare = prepare,
                                                           .release = tercel_conv_release,
                                                           .bind = bind,
                                                           .run = run,
                                                           .cost = cost,
                                                           .packing = "plain"};
