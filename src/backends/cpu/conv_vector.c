/* conv, f32, whose window covers the whole input once (a 1x1 conv on a 1x1 map, as squeeze-and-excitation blocks have): each image is a
 * vector, each output a dot product with a row of the weights as they lie. */
#include "backends/cpu/conv.h"

typedef struct binding {
  tercel_conv_geometry g;
  int64_t rows, length; /* outputs and inputs of a group */
  int64_t pieces;       /* of a group's rows */
  tercel_epilogue_binding epilogue;
} binding;

enum { PIECE = 64 };

static bool covers_once(const tercel_window *w) {
  return w->output == 1 && w->kernel == w->input && w->pad_begin == 0 && (w->dilation == 1 || w->kernel == 1);
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  if (!tercel_conv_supports(node, TERCEL_LAYOUT_NCHW, TERCEL_MAX_SPATIAL)) return false;
  const tercel_shape *x = &node->inputs[TERCEL_CONV_X]->type.shape, *w = &node->inputs[TERCEL_CONV_W]->type.shape;
  if (x->rank != w->rank) return false;
  for (int i = 2; i < x->rank; ++i)
    if (!tercel_dim_is_known(x->dims[i]) || !tercel_dim_is_known(w->dims[i])) return false;
  tercel_window windows[TERCEL_MAX_SPATIAL];
  if (tercel_windows(node, x->rank - 2, x->dims + 2, w->dims + 2, windows, NULL) != TERCEL_OK) return false;
  for (int i = 0; i < x->rank - 2; ++i)
    if (!covers_once(&windows[i])) return false;
  return true;
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_conv_prepare(node, target, out, err);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  (void)target;
  const tercel_conv_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "conv");
  TERCEL_TRY(tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], &b->g, err));
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + TERCEL_CONV_FIRST_EXTRA, out[0], 1, 2, &b->epilogue, err));
  b->rows = b->g.out_channels / b->g.group;
  b->length = b->g.in_channels / b->g.group * b->g.in_size;
  b->pieces = tercel_ceil_div(b->rows, PIECE);
  result->data = b;
  result->workspace_bytes = b->epilogue.workspace_bytes;
  return TERCEL_OK;
}

typedef struct job {
  tercel_conv_run r;
  const binding *b;
} job;

/* Pieces of rows of groups of images. */
static void run_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const binding *b = j->b;
  const tercel_conv_run *r = &j->r;
  const tercel_epilogue *epilogue = &r->s->epilogue;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t vector = i / b->pieces, first = i % b->pieces * PIECE;
    const int64_t image = vector / b->g.group, row = vector % b->g.group * b->rows + first;
    const int64_t count = tercel_min_i64(b->rows - first, PIECE);
    float *y = r->y + image * b->g.out_channels + row;
    r->s->gemm->dots(count, b->length, r->x + vector * b->length, r->w + row * b->length, b->length, y);
    if (r->bias != NULL)
      for (int64_t m = 0; m < count; ++m) y[m] += r->bias[row + m];
    epilogue->apply(epilogue, r->extras, image, row, 0, count, 1, y, 1);
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const binding *b = r->binding;
  job j = {.b = b};
  tercel_conv_start(r, &b->epilogue, 0, &j.r);
  const int64_t count = b->g.batch * b->g.group * b->pieces;
  if (count == 0) return TERCEL_OK;
  const int64_t work = tercel_max_i64(tercel_min_i64(b->rows, PIECE) * b->length, 1);
  tercel_pool_run(r->pool, count, tercel_ceil_div(64 * 1024, work), run_pieces, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_conv_vector = {.name = "conv.vector",
                                                 .op = TERCEL_OP_CONV,
                                                 .supports = supports,
                                                 .prepare = prepare,
                                                 .release = tercel_conv_release,
                                                 .bind = bind,
                                                 .run = run};
