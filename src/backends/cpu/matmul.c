/* matmul, f32: the product of kernels/gemm.h, or dot products where a matrix meets a vector.
 *
 * A constant b is packed once; rows of a over all batches are one product when b is the same for all of them (the linear layers of a
 * transformer); else each batch is a product of its own and operands are packed on the way, or read as they lie. */
#include "backends/cpu/gemm_packer.h"

enum { A, B, BIAS, FIRST_EXTRA };

/* Columns of a vector-matrix product that one piece of work takes. */
enum { DOTS_PIECE = 64 };
/* Rows of a up to which a transposed b that isn't packed is read as it lies, once for each row. */
enum { DOTS_ROWS = 2 };

typedef struct state {
  const tercel_gemm_kernels *kernels;
  const float *packed;   /* b's matrices in panels; NULL: b is read at run time */
  int64_t packed_floats; /* of one matrix */
  float alpha;
  tercel_epilogue epilogue;
} state;

/* out[j] = v . rows[j]: a row of a against the rows of b', or the rows of a against a column. */
typedef struct dots_shape {
  bool column;     /* n is 1: v is the column, rows are a's */
  int64_t vectors; /* over all batches */
  int64_t length;  /* of out, for each vector */
  int64_t pieces;  /* of each out */
} dots_shape;

typedef struct binding {
  tercel_matmul_geometry g;
  tercel_gemm_plan plan;
  bool use_dots;
  dots_shape dots;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

static bool is_f32(const tercel_value *value) { return value == NULL || value->type.dtype == TERCEL_DTYPE_F32; }

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  for (size_t i = A; i <= BIAS; ++i)
    if (!is_f32(tercel_node_input(node, i))) return false;
  return tercel_epilogue_supports(node, FIRST_EXTRA);
}

static void release(void *data) {
  state *s = data;
  if (s == NULL) return;
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

/* The matrices of a constant b; a vector is read as it lies. */
static bool see(const tercel_node *node, const tercel_tensor *b, tercel_gemm_operand *out) {
  tercel_matmul_geometry g;
  const tercel_tensor row = {.dtype = b->dtype, .rank = 1, .dims = {1}};
  tercel_matmul_get_geometry(node, &row, b, &g);
  const int64_t k = b->rank == 1 ? b->dims[0] : b->dims[b->rank - (tercel_node_int(node, "trans_b") != 0 ? 1 : 2)];
  if (g.n <= 1 || k == 0) return false;
  *out = (tercel_gemm_operand){.count = tercel_tensor_num_elements(b) / (k * g.n),
                               .step = k * g.n,
                               .outer = g.n,
                               .outer_step = g.b_col,
                               .k = k,
                               .k_step = g.b_row};
  return true;
}

static const tercel_gemm_packer packer = {TERCEL_GEMM_PACKER, B, true, see};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, "matmul");
  tercel_status status = TERCEL_OK;
  s->kernels = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels);
  s->alpha = (float)tercel_node_float(node, "alpha");
  TERCEL_CHECK(tercel_epilogue_prepare(node, target, FIRST_EXTRA, &s->epilogue, err));
  tercel_gemm_operand operand;
  if (out->packed.data != NULL && tercel_gemm_see_constant(&packer, node, &operand)) {
    s->packed = out->packed.data;
    s->packed_floats = (int64_t)(out->packed.format.bytes / sizeof(float)) / operand.count;
    out->unused_inputs |= 1u << B;
  }
  out->data = s;
done:
  if (status != TERCEL_OK) release(s);
  return status;
}

/* ---- bind ---- */

void tercel_gemm_fold_batches(tercel_matmul_geometry *g) {
  int64_t next = g->m * g->k;
  if (g->a_col != 1 || g->a_row != g->k) return;
  for (int i = g->batch_rank - 1; i >= 0; --i) {
    if (g->batch_dims[i] != 1 && (g->b_batch[i] != 0 || g->a_batch[i] != next)) return;
    next *= g->batch_dims[i];
  }
  g->m *= g->batch;
  g->batch = 1;
  g->batch_rank = 0;
}

/* Dots add in another order than tiles: in deterministic mode the number of rows, where batches may hide, has no say. */
static bool wants_dots(const state *s, const tercel_matmul_geometry *g, const tercel_target *target) {
  if (s->packed != NULL || g->a_col != 1 || g->b_row != 1) return false;
  return g->n == 1 || (g->m <= DOTS_ROWS && !target->deterministic);
}

static void bind_dots(const tercel_matmul_geometry *g, dots_shape *d) {
  d->column = g->n == 1;
  d->vectors = g->batch * (d->column ? 1 : g->m);
  d->length = d->column ? g->m : g->n;
  d->pieces = tercel_ceil_div(d->length, DOTS_PIECE);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "matmul");
  tercel_matmul_get_geometry(node, in[A], in[B], &b->g);
  const int rank = out[0]->rank, col_dim = in[B]->rank == 1 ? rank : rank - 1;
  int row_dim = in[A]->rank == 1 ? col_dim : col_dim - 1;
  const int64_t batch = b->g.batch;
  tercel_gemm_fold_batches(&b->g);
  if (b->g.batch != batch || batch == 1) row_dim = 0;
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + FIRST_EXTRA, out[0], row_dim, col_dim, &b->epilogue, err));
  b->use_dots = wants_dots(s, &b->g, target);
  if (b->use_dots) {
    bind_dots(&b->g, &b->dots);
  } else {
    b->plan = (tercel_gemm_plan){.kernels = s->kernels,
                                 .m = b->g.m,
                                 .n = b->g.n,
                                 .k = b->g.k,
                                 .outer = b->g.batch,
                                 .a = TERCEL_GEMM_PLAIN,
                                 .b = s->packed == NULL ? TERCEL_GEMM_PLAIN : TERCEL_GEMM_PACKED,
                                 .a_row = b->g.a_row,
                                 .a_col = b->g.a_col,
                                 .b_row = b->g.b_row,
                                 .b_col = b->g.b_col,
                                 .c_row = b->g.n};
    tercel_gemm_make_plan(&b->plan, target->num_threads);
  }
  b->epilogue_at = b->plan.workspace_bytes;
  result->data = b;
  result->workspace_bytes = b->epilogue_at + b->epilogue.workspace_bytes;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  const state *s;
  const binding *b;
  const float *a, *right, *bias;
  float *c;
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS];
} job;

static void get_product(const void *user, int64_t outer, tercel_gemm_product *out) {
  const job *j = user;
  const tercel_matmul_geometry *g = &j->b->g;
  int64_t at_a, at_b;
  tercel_matmul_offsets(g, outer, &at_a, &at_b);
  out->a = j->a + at_a;
  out->b = j->s->packed == NULL ? j->right + at_b : j->s->packed + at_b / (g->k * g->n) * j->s->packed_floats;
  out->c = j->c + outer * g->m * g->n;
  out->col_bias = j->bias;
  out->epilogue_outer = outer;
}

static void run_dots(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const tercel_matmul_geometry *g = &j->b->g;
  const dots_shape *d = &j->b->dots;
  const tercel_epilogue *epilogue = &j->s->epilogue;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t vector = i / d->pieces, first = i % d->pieces * DOTS_PIECE;
    const int64_t count = tercel_min_i64(d->length - first, DOTS_PIECE);
    const int64_t batch = d->column ? vector : vector / g->m, row = d->column ? 0 : vector % g->m;
    int64_t at_a, at_b;
    tercel_matmul_offsets(g, batch, &at_a, &at_b);
    const float *a = j->a + at_a + row * g->a_row, *b = j->right + at_b;
    float *c = j->c + vector * d->length + first;
    if (d->column)
      j->s->kernels->dots(count, g->k, b, a + first * g->a_row, g->a_row, c);
    else
      j->s->kernels->dots(count, g->k, a, b + first * g->b_col, g->b_col, c);
    for (int64_t x = 0; x < count; ++x)
      c[x] = j->s->alpha * c[x] + (j->bias == NULL ? 0.0f : j->bias[d->column ? 0 : first + x]);
    if (d->column)
      epilogue->apply(epilogue, j->extras, batch, first, 0, count, 1, c, 1);
    else
      epilogue->apply(epilogue, j->extras, batch, row, first, 1, count, c, d->length);
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const state *s = r->state;
  const binding *b = r->binding;
  const tercel_tensor *bias = r->num_inputs > BIAS ? r->in[BIAS] : NULL;
  job j = {.s = s,
           .b = b,
           .a = r->in[A]->data,
           .right = r->in[B]->data,
           .bias = bias == NULL ? NULL : bias->data,
           .c = r->out[0]->data};
  tercel_epilogue_start(&s->epilogue, &b->epilogue, r->in + FIRST_EXTRA, (uint8_t *)r->workspace + b->epilogue_at,
                        j.extras);
  if (b->use_dots) {
    const int64_t grain = tercel_ceil_div(32 * 1024, DOTS_PIECE * tercel_max_i64(b->g.k, 1));
    if (b->dots.vectors * b->dots.pieces > 0)
      tercel_pool_run(r->pool, b->dots.vectors * b->dots.pieces, grain, run_dots, &j);
    return TERCEL_OK;
  }
  const tercel_gemm_run gemm = {.plan = &b->plan,
                                .alpha = s->alpha,
                                .epilogue = &s->epilogue,
                                .extras = j.extras,
                                .product = get_product,
                                .user = &j};
  tercel_gemm_run_all(&gemm, r->workspace, r->pool);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_matmul_f32 = {.name = "matmul.f32",
                                                .op = TERCEL_OP_MATMUL,
                                                .supports = supports,
                                                .packer = &packer.packer,
                                                .prepare = prepare,
                                                .release = release,
                                                .bind = bind,
                                                .run = run};
