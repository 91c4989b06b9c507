/* conv, f32, as a matrix product: weights [out channels][taps] by the input as the window sees it [taps][outputs].
 *
 * Weights are packed once when they are constant.  A 1x1 window with stride 1 sees the input as it lies; else panels are made on the way,
 * or the input is read through a table of offsets (conv_direct.h), so no im2col matrix stands in memory.  Groups and images are products of their own. */
#include "backends/cpu/conv.h"

#include "backends/cpu/conv_direct.h"

typedef struct binding {
  tercel_conv_geometry g;
  tercel_conv_view view;
  tercel_gemm_plan plan;
  tercel_conv_direct direct; /* of conv.direct, whose operands are the plan's */
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

bool tercel_conv_supports(const tercel_node *node, tercel_layout layout, int max_spatial) {
  if (tercel_node_layout(node) != layout) return false;
  for (size_t i = TERCEL_CONV_X; i <= TERCEL_CONV_BIAS; ++i) {
    const tercel_value *value = tercel_node_input(node, i);
    if (value != NULL && value->type.dtype != TERCEL_DTYPE_F32) return false;
  }
  const int rank = node->inputs[TERCEL_CONV_W]->type.shape.rank;
  return rank >= 3 && rank - 2 <= max_spatial && tercel_epilogue_supports(node, TERCEL_CONV_FIRST_EXTRA);
}

static const tercel_conv_axis no_axis = {.input = 1, .output = 1, .kernel = 1, .stride = 1, .dilation = 1};

/* A dim of one element changes nothing about where the others lie. */
static bool is_single(const tercel_window *w) {
  return w->input == 1 && w->output == 1 && w->kernel == 1 && w->pad_begin == 0;
}

/* Axes of one element go to the front, so that rows are as long as they can be. */
tercel_conv_view tercel_conv_get_view(const tercel_conv_geometry *g) {
  tercel_conv_axis axes[TERCEL_MAX_SPATIAL];
  int count = 0;
  for (int i = 0; i < g->spatial; ++i) {
    const tercel_window *w = &g->windows[i];
    if (is_single(w)) continue;
    axes[count++] = (tercel_conv_axis){.input = w->input,
                                       .output = w->output,
                                       .kernel = w->kernel,
                                       .stride = w->stride,
                                       .dilation = w->dilation,
                                       .pad = w->pad_begin};
  }
  return (tercel_conv_view){.z = count > 2 ? axes[count - 3] : no_axis,
                            .y = count > 1 ? axes[count - 2] : no_axis,
                            .x = count > 0 ? axes[count - 1] : no_axis};
}

static int64_t pitch_of(const tercel_conv_axis *x) { return x->output + (x->kernel - 1) * x->dilation / x->stride; }

int64_t tercel_conv_plane_row_floats(const tercel_conv_view *view) {
  return pitch_of(&view->x) * view->x.stride * view->y.stride;
}

tercel_status tercel_conv_make_plane(const tercel_conv_view *view, int64_t band, tercel_arena *arena,
                                     tercel_conv_plane *out, tercel_error *err) {
  *out = (tercel_conv_plane){.y = view->y,
                             .x = view->x,
                             .band = tercel_min_i64(band, view->y.output),
                             .pitch = pitch_of(&view->x),
                             .num_taps = view->y.kernel * view->x.kernel};
  out->rows = out->band + (view->y.kernel - 1) * view->y.dilation / view->y.stride;
  int64_t *offsets = tercel_arena_alloc_array(arena, (size_t)out->num_taps, sizeof *offsets);
  if (offsets == NULL) return tercel_fail_memory(err, (size_t)out->num_taps * sizeof *offsets, "conv");
  for (int64_t t = 0; t < out->num_taps; ++t) {
    const int64_t y = t / view->x.kernel * view->y.dilation, x = t % view->x.kernel * view->x.dilation;
    const int64_t phase = y % view->y.stride * view->x.stride + x % view->x.stride;
    offsets[t] = (phase * out->rows + y / view->y.stride) * out->pitch + x / view->x.stride;
  }
  out->offsets = offsets;
  return TERCEL_OK;
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_conv_supports(node, TERCEL_LAYOUT_NCHW, 3);
}

static const tercel_gemm_packer packer = {TERCEL_GEMM_PACKER, TERCEL_CONV_W, false, tercel_conv_see_rows};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

bool tercel_conv_is_pointwise(const tercel_conv_geometry *g) {
  for (int i = 0; i < g->spatial; ++i) {
    const tercel_window *w = &g->windows[i];
    if (w->kernel != 1 || w->stride != 1 || w->pad_begin != 0 || w->pad_end != 0) return false;
  }
  return true;
}

static tercel_gemm_plan make_plan(const tercel_gemm_kernels *gemm, const tercel_conv_geometry *g, bool is_packed,
                                  int num_threads) {
  const int64_t k = g->in_channels / g->group * g->kernel_size;
  tercel_gemm_plan plan = {.kernels = gemm,
                           .m = g->out_channels / g->group,
                           .n = g->out_size,
                           .k = k,
                           .outer = g->batch * g->group,
                           .a = is_packed ? TERCEL_GEMM_PACKED : TERCEL_GEMM_PLAIN,
                           .a_row = k,
                           .a_col = 1,
                           .b = tercel_conv_is_pointwise(g) ? TERCEL_GEMM_PLAIN : TERCEL_GEMM_CALLED,
                           .b_row = g->in_size,
                           .b_col = 1,
                           .c_row = g->out_size};
  tercel_gemm_make_plan(&plan, num_threads);
  return plan;
}

/* The kernel's variant: its product reads the input through a table of offsets. */
static const char direct[] = "direct";

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv");
  tercel_conv_geometry *g = &b->g;
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], g, err));
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, 2, &b->epilogue, err));
  b->view = tercel_conv_get_view(g);
  b->plan = make_plan(s->gemm, g, s->packed != NULL, target->num_threads);
  if (kernel->variant == direct)
    TERCEL_TRY(tercel_conv_direct_bind(s->gemm, s->conv, g, target->num_threads, arena, &b->direct, err));
  b->epilogue_at = kernel->variant == direct ? b->direct.workspace_bytes : b->plan.workspace_bytes;
  result->data = b;
  result->workspace_bytes = b->epilogue_at + b->epilogue.workspace_bytes;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  tercel_conv_run r;
  const binding *b;
} job;

/* The channels of image outer / group that belong to group outer % group: they follow each other in that order. */
static const float *input_of(const job *j, int64_t outer) {
  const tercel_conv_geometry *g = &j->b->g;
  return j->r.x + outer * (g->in_channels / g->group) * g->in_size;
}

static void get_product(const void *user, int64_t outer, tercel_gemm_product *out) {
  const job *j = user;
  const tercel_conv_geometry *g = &j->b->g;
  const tercel_gemm_plan *plan = &j->b->plan;
  const int64_t group = outer % g->group;
  out->a = j->r.s->packed == NULL ? j->r.w + group * plan->m * plan->k : j->r.s->packed + group * j->r.s->packed_floats;
  out->b = input_of(j, outer);
  out->c = j->r.y + outer * plan->m * plan->n;
  out->row_bias = j->r.bias == NULL ? NULL : j->r.bias + group * plan->m;
  out->epilogue_outer = outer / g->group;
  out->epilogue_row = group * plan->m;
}

static void pack_input(const void *user, int64_t outer, int64_t k0, int64_t k, int64_t n0, int64_t n, float *out) {
  const job *j = user;
  j->r.s->conv->pack(&j->b->view, input_of(j, outer), j->r.x_end, k0, k, n0, n, out);
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  job j = {.b = b};
  tercel_conv_start(r, &b->epilogue, b->epilogue_at, &j.r);
  const tercel_gemm_run gemm = {.plan = &b->plan,
                                .alpha = 1,
                                .epilogue = &j.r.s->epilogue,
                                .extras = j.r.extras,
                                .product = get_product,
                                .pack_b = pack_input,
                                .user = &j};
  if (r->kernel->variant == direct)
    tercel_conv_direct_run(&b->direct, &gemm, r->workspace, r->pool);
  else
    tercel_gemm_run_all(&gemm, r->workspace, r->pool);
  return TERCEL_OK;
}

/* ---- estimates ---- */

static double cost(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                   const tercel_tensor *const *out, const tercel_target *target) {
  (void)out;
  static const double pack_ns = 0.3; /* an element of the panels */
  tercel_conv_geometry g;
  if (!tercel_conv_cost_geometry(node, in, &g)) return 0;
  const tercel_gemm_kernels *gemm = TERCEL_CPU_PICK(tercel_gemm_kernels);
  if (kernel->variant == direct) return tercel_conv_direct_cost(gemm, &g, target->num_threads);
  const tercel_gemm_plan plan = make_plan(gemm, &g, node->inputs[TERCEL_CONV_W]->constant != NULL, target->num_threads);
  return tercel_gemm_plan_cost(&plan, pack_ns, target->num_threads);
}

/* Both add the taps of a channel, then those of the next. */
static const char order[] = "channels of taps";

const tercel_kernel tercel_kernel_conv_gemm = {.name = "conv.gemm",
                                               .op = TERCEL_OP_CONV,
                                               .supports = supports,
                                               .packer = &packer.packer,
                                               .prepare = prepare,
                                               .release = tercel_conv_release,
                                               .bind = bind,
                                               .run = run,
                                               .cost = cost,
                                               .packing = "rows",
                                               .order = order};

/* Weights are packed, and at most two dims of the input are windows: planes. */
static bool supports_direct(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_conv_supports(node, TERCEL_LAYOUT_NCHW, 2) && node->inputs[TERCEL_CONV_W]->constant != NULL &&
         tercel_tensor_num_elements(node->inputs[TERCEL_CONV_W]->constant) > 0;
}

const tercel_kernel tercel_kernel_conv_direct = {.name = "conv.direct",
                                                 .op = TERCEL_OP_CONV,
                                                 .variant = direct,
                                                 .supports = supports_direct,
                                                 .packer = &packer.packer,
                                                 .prepare = prepare,
                                                 .release = tercel_conv_release,
                                                 .bind = bind,
                                                 .run = run,
                                                 .cost = cost,
                                                 .packing = "rows",
                                                 .order = order};
