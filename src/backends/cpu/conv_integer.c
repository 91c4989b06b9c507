/* conv_integer as a product of kernels/gemm8.h: weights [out channels][taps] by the input as the window sees it [taps][outputs], whose
 * panels are made on the way.  Constant weights are packed once. */
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/gemm8_state.h"

enum { X, W, FIRST_EXTRA = TERCEL_GEMM8_FIRST_EXTRA };

typedef struct binding {
  tercel_conv_geometry g;
  tercel_conv_view view; /* of a 1x1 window: all of the input as one row */
  tercel_gemm8_plan plan;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const int rank = node->inputs[W]->type.shape.rank;
  return rank >= 3 && rank <= 5 && tercel_epilogue_supports(node, FIRST_EXTRA);
}

static const tercel_gemm_packer packer = {TERCEL_GEMM8_PACKER, W, false, tercel_conv_see_rows};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_gemm8_prepare(node, target, &packer, out, err);
}

static tercel_conv_view view_of(const tercel_conv_geometry *g) {
  static const tercel_conv_axis one = {.input = 1, .output = 1, .kernel = 1, .stride = 1, .dilation = 1};
  if (!tercel_conv_is_pointwise(g)) return tercel_conv_get_view(g);
  tercel_conv_view view = {one, one, one};
  view.x.input = view.x.output = g->in_size;
  return view;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const tercel_gemm8_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv_integer");
  tercel_conv_geometry *g = &b->g;
  TERCEL_TRY(tercel_conv_get_geometry(node, in[X], in[W], g, err));
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + FIRST_EXTRA, out[0], 1, 2, &b->epilogue, err));
  b->view = view_of(g);
  b->plan = (tercel_gemm8_plan){.kernels = s->kernels,
                                .m = g->out_channels / g->group,
                                .n = g->out_size,
                                .k = g->in_channels / g->group * g->kernel_size,
                                .outer = g->batch * g->group,
                                .c_row = g->out_size,
                                .a_is_packed = s->packed.panels != NULL};
  TERCEL_TRY(tercel_gemm8_make_plan(&b->plan, target->num_threads, err));
  b->epilogue_at = b->plan.workspace_bytes;
  result->data = b;
  result->workspace_bytes = b->epilogue_at + b->epilogue.workspace_bytes;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  const tercel_gemm8_state *s;
  const binding *b;
  const uint8_t *x, *w;
  uint32_t *y;
  tercel_gemm8_zeros x_zeros, w_zeros;
} job;

static void get_product(const void *user, int64_t outer, tercel_gemm8_product *out) {
  const job *j = user;
  const tercel_conv_geometry *g = &j->b->g;
  const tercel_gemm8_plan *plan = &j->b->plan;
  const int64_t group = outer % g->group;
  out->a = j->w + group * plan->m * plan->k;
  if (plan->a_is_packed)
    out->packed_a = tercel_gemm8_get_packed(j->s->kernels, &j->s->packed, false, plan->m, plan->k, group);
  out->b = j->x + outer * (g->in_channels / g->group) * g->in_size;
  out->c = j->y + outer * plan->m * plan->n;
  out->a_zeros = j->w_zeros;
  if (j->w_zeros.count > 1) out->a_zeros.data += group * plan->m;
  out->b_zeros = j->x_zeros;
  out->epilogue_outer = outer / g->group;
  out->epilogue_row = group * plan->m;
}

/* A row of the product's B: which channel, and which place in the window. */
typedef struct tap {
  const uint8_t *channel;
  int64_t z, y, x;
} tap;

static void next_tap(const tercel_conv_view *view, int64_t in_size, tap *t) {
  if (++t->x < view->x.kernel) return;
  t->x = 0;
  if (++t->y < view->y.kernel) return;
  t->y = 0;
  if (++t->z < view->z.kernel) return;
  t->z = 0;
  t->channel += in_size;
}

/* Where on an axis a place of the window lies for an output; -1: in the padding. */
static int64_t seen(const tercel_conv_axis *axis, int64_t output, int64_t place) {
  const int64_t at = output * axis->stride + place * axis->dilation - axis->pad;
  return at >= 0 && at < axis->input ? at : -1;
}

/* What a place of the window sees of a row of the input, or of the padding around it, from outputs x0 .. x0 + n. */
static void see_row(const tercel_conv_axis *axis, const uint8_t *row, int64_t place, int64_t x0, int64_t n,
                    uint8_t padding, uint8_t *out) {
  const int64_t from = x0 * axis->stride + place * axis->dilation - axis->pad;
  int64_t i = 0;
  for (; i < n && from + i * axis->stride < 0; ++i) out[i] = padding;
  const int64_t left = axis->input - from; /* elements up to the row's end */
  const int64_t end = left <= 0 ? i : tercel_max_i64(i, tercel_min_i64(n, tercel_ceil_div(left, axis->stride)));
  if (axis->stride == 1 && end > i) {
    memcpy(out + i, row + from + i, (size_t)(end - i));
    i = end;
  }
  for (; i < end; ++i) out[i] = row[from + i * axis->stride];
  memset(out + i, padding, (size_t)(n - i));
}

/* Outputs n0 .. n0 + n of an image: where the first stands, and whether they all stand in its row. */
typedef struct span {
  int64_t n0, n, x, y, z;
  bool one_row;
} span;

static span make_span(const tercel_conv_view *view, int64_t n0, int64_t n) {
  const int64_t width = view->x.output, row = n0 / width;
  span s = {.n0 = n0, .n = n, .x = n0 % width, .y = row % view->y.output, .z = row / view->y.output};
  s.one_row = s.x + n <= width;
  return s;
}

/* What the tap sees from outputs in several rows. */
static void see_rows(const tercel_conv_view *view, const tap *t, const span *outputs, uint8_t padding, uint8_t *space) {
  span s = *outputs;
  for (int64_t done = 0; done < outputs->n;) {
    const int64_t count = tercel_min_i64(outputs->n - done, view->x.output - s.x);
    const int64_t z = seen(&view->z, s.z, t->z), y = seen(&view->y, s.y, t->y);
    if (z < 0 || y < 0)
      memset(space + done, padding, (size_t)count);
    else
      see_row(&view->x, t->channel + (z * view->y.input + y) * view->x.input, t->x, s.x, count, padding, space + done);
    done += count;
    s.x = 0;
    s.z += s.y + 1 == view->y.output;
    s.y = s.y + 1 == view->y.output ? 0 : s.y + 1;
  }
}

/* What the tap sees from the outputs: where it lies, if it lies there in one piece, else collected in `space`. */
static inline const uint8_t *see(const tercel_conv_view *view, const tap *t, const span *s, uint8_t padding,
                                 uint8_t *space) {
  if (s->one_row && view->x.stride == 1) {
    const int64_t z = seen(&view->z, s->z, t->z), y = seen(&view->y, s->y, t->y);
    const int64_t from = s->x + t->x * view->x.dilation - view->x.pad;
    if (z >= 0 && y >= 0 && from >= 0 && from + s->n <= view->x.input)
      return t->channel + (z * view->y.input + y) * view->x.input + from;
  }
  see_rows(view, t, s, padding, space);
  return space;
}

static void pack_input(const void *user, const tercel_gemm8_product *product, int64_t outer, int64_t n0, int64_t n,
                       int8_t *out) {
  (void)outer;
  const job *j = user;
  const binding *b = j->b;
  const tercel_gemm8_kernels *kernels = j->s->kernels;
  const uint8_t padding = j->x_zeros.data == NULL ? 0 : j->x_zeros.data[0];
  uint8_t space[TERCEL_GEMM8_MAX_GROUP][TERCEL_GEMM8_MAX_NR];
  for (int64_t at = 0; at < n; at += kernels->nr) {
    const int64_t cols = tercel_min_i64(n - at, kernels->nr);
    const span outputs = make_span(&b->view, n0 + at, cols);
    tap t = {.channel = product->b};
    for (int64_t k = 0; k < b->plan.k; k += kernels->group, out += kernels->nr * kernels->group) {
      const uint8_t *rows[TERCEL_GEMM8_MAX_GROUP] = {NULL};
      for (int i = 0; i < kernels->group && k + i < b->plan.k; ++i, next_tap(&b->view, b->g.in_size, &t))
        rows[i] = see(&b->view, &t, &outputs, padding, space[i]);
      kernels->interleave(rows, cols, product->b_zeros.flip, out);
    }
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const tercel_gemm8_state *s = r->state;
  const binding *b = r->binding;
  const job j = {.s = s,
                 .b = b,
                 .x = r->in[X]->data,
                 .w = r->in[W]->data,
                 .y = r->out[0]->data,
                 .x_zeros = tercel_gemm8_get_zeros(r, X, true),
                 .w_zeros = tercel_gemm8_get_zeros(r, W, false)};
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS];
  tercel_epilogue_start(&s->epilogue, &b->epilogue, r->in + FIRST_EXTRA, (uint8_t *)r->workspace + b->epilogue_at,
                        extras);
  const tercel_gemm8_run gemm = {.plan = &b->plan,
                                 .a_row = b->plan.k,
                                 .a_col = 1,
                                 .epilogue = &s->epilogue,
                                 .extras = extras,
                                 .product = get_product,
                                 .pack_b = pack_input,
                                 .user = &j};
  tercel_gemm8_run_all(&gemm, r->workspace, r->pool);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_conv_integer = {.name = "conv_integer",
                                                  .op = TERCEL_OP_CONV_INTEGER,
                                                  .supports = supports,
                                                  .packer = &packer.packer,
                                                  .prepare = prepare,
                                                  .release = tercel_gemm8_release,
                                                  .bind = bind,
                                                  .run = run};
