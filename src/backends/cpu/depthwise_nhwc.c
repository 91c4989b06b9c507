/* conv, f32, channels last, with one input and one output channel a group (depthwise).  Work is cut into output rows. */
#include <math.h>
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/kernels/channels.h"
#include "backends/cpu/speed.h"
#include "ops/move.h"

typedef struct binding {
  const tercel_channels_kernels *kernels;
  tercel_conv_geometry g;
  tercel_channels_view view;
  tercel_epilogue_binding epilogue;
  size_t bias_bytes; /* in the workspace: zeros where there is no bias */
} binding;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  if (!tercel_conv_supports(node, TERCEL_LAYOUT_NHWC, 2)) return false;
  const tercel_value *w = node->inputs[TERCEL_CONV_W];
  return w->constant != NULL && w->constant->dims[1] == 1 && w->constant->dims[0] == tercel_node_int(node, "group") &&
         w->constant->dims[0] > 1;
}

/* ---- weights: [tap][channel] out of [channel][tap] ---- */

static const char format_name[] = "depthwise.nhwc.f32";

static void transpose(int64_t rows, int64_t columns, const float *in, float *out) {
  for (int64_t i = 0; i < rows * columns; ++i) out[i] = in[i % rows * columns + i / rows];
}

static int64_t taps_of(const tercel_tensor *w) { return tercel_dims_product(w->dims, 2, w->rank); }

static tercel_status describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                              tercel_pack_format *out, tercel_error *err) {
  (void)packer;
  (void)target;
  (void)err;
  const tercel_tensor *const w = node->inputs[TERCEL_CONV_W]->constant;
  *out = (tercel_pack_format){.bytes = w->bytes, .inputs = 1u << TERCEL_CONV_W};
  memcpy(out->name, format_name, sizeof format_name);
  return TERCEL_OK;
}

static tercel_status pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                          const tercel_pack_format *format, void *out, tercel_error *err) {
  (void)packer;
  (void)target;
  (void)format;
  (void)err;
  const tercel_tensor *const w = node->inputs[TERCEL_CONV_W]->constant;
  transpose(w->dims[0], taps_of(w), w->data, out);
  return TERCEL_OK;
}

static tercel_status unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                            uint32_t input, void *out, tercel_error *err) {
  (void)packer;
  (void)input;
  const tercel_tensor *const w = node->inputs[TERCEL_CONV_W]->constant;
  if (strcmp(packed->format.name, format_name) != 0 || packed->format.bytes != w->bytes)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "conv '%s': %zu bytes of %s are not its weights", node->name,
                       packed->format.bytes, packed->format.name);
  transpose(taps_of(w), w->dims[0], packed->data, out);
  return TERCEL_OK;
}

static const tercel_packer packer = {describe, pack, unpack};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv");
  *b = (binding){.kernels = TERCEL_CPU_PICK_FOR(target, tercel_channels_kernels)};
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], &b->g, err));
  TERCEL_TRY(
      tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, out[0]->rank - 1, &b->epilogue, err));
  const tercel_conv_view view = tercel_conv_get_view(&b->g);
  b->view = (tercel_channels_view){.y = view.y, .x = view.x, .channels = b->g.in_channels};
  if (!tercel_round_up_size((size_t)b->g.in_channels * sizeof(float), TERCEL_ALIGNMENT, &b->bias_bytes) ||
      !tercel_add_size(b->bias_bytes, b->epilogue.workspace_bytes, &result->workspace_bytes))
    return tercel_fail_memory(err, SIZE_MAX, "conv");
  result->data = b;
  return TERCEL_OK;
}

typedef struct job {
  tercel_conv_run r;
  const binding *b;
} job;

/* Output rows of all images, counted through. */
static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const binding *b = j->b;
  const tercel_epilogue *epilogue = &j->r.s->epilogue;
  const int64_t height = b->view.y.output, width = b->view.x.output, channels = b->view.channels;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / height, y = i % height;
    float *out = j->r.y + i * width * channels;
    b->kernels->depthwise(&b->view, j->r.x + image * b->g.in_size * channels, j->r.s->packed, j->r.bias, y, 1, out);
    epilogue->apply(epilogue, j->r.extras, image, y * width, 0, width, channels, out, channels);
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  if (tercel_tensor_num_elements(r->out[0]) == 0) return TERCEL_OK;
  job j = {.b = b};
  tercel_conv_start(r, &b->epilogue, b->bias_bytes, &j.r);
  if (j.r.bias == NULL) j.r.bias = memset(r->workspace, 0, b->bias_bytes);
  const int64_t work = b->g.kernel_size * b->view.x.output * b->view.channels;
  tercel_pool_run(r->pool, b->g.batch * b->view.y.output, tercel_ceil_div(64 * 1024, tercel_max_i64(work, 1)), run_rows,
                  &j);
  return TERCEL_OK;
}

static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)kernel;
  (void)out;
  static const double efficiency = 0.48; /* each vector of taps is loaded for a few pixels only */
  static const double pixel_ns = 0.5;
  tercel_conv_geometry g;
  if (!tercel_conv_cost_geometry(node, in, &g)) return 0;
  const tercel_cpu_speed *const speed = tercel_cpu_get_speed();
  const double pixels = (double)(g.batch * g.out_size), vectors = ceil((double)g.out_channels / speed->lanes);
  const double sums = pixels * vectors * (double)g.kernel_size;
  return tercel_cpu_shared_cost(sums / (speed->fma * efficiency) + pixels * pixel_ns, sums * speed->lanes / (64 * 1024),
                                target->num_threads);
}

const tercel_kernel tercel_kernel_conv_depthwise_nhwc = {.name = "conv.depthwise_nhwc",
                                                         .op = TERCEL_OP_CONV,
                                                         .supports = supports,
                                                         .packer = &packer,
                                                         .prepare = prepare,
                                                         .release = tercel_conv_release,
                                                         .bind = bind,
                                                         .run = run,
                                                         .cost = cost};
