/* matmul of f32 rows with weights that stay as their file has them (rows of blocks, f16, bf16): each piece of b is widened to f32 when its turn
 * comes, so products are as exact as f32 is.  What language models compute with when asked to be exact. */
#include "backends/cpu/gemm.h"
#include "backends/cpu/weights.h"

enum { A, B, BIAS, FIRST_EXTRA };

typedef struct state {
  const tercel_gemm_kernels *gemm;
  float alpha;
  tercel_epilogue epilogue;
} state;

typedef struct binding {
  tercel_gemm_plan plan;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const tercel_value *const a = node->inputs[A], *const b = node->inputs[B],
                            *const bias = tercel_node_input(node, BIAS);
  if (a->type.dtype != TERCEL_DTYPE_F32 || b->type.dtype == TERCEL_DTYPE_F32) return false;
  if (!tercel_weight_rows_support(b->type.dtype) || b->type.shape.rank != 2 || a->type.shape.rank < 1) return false;
  if (tercel_node_int(node, "trans_a") != 0 || tercel_node_int(node, "trans_b") == 0) return false;
  if (bias != NULL && bias->type.dtype != TERCEL_DTYPE_F32) return false;
  return tercel_epilogue_supports(node, FIRST_EXTRA);
}

static void release(void *data) {
  state *const s = data;
  if (s == NULL) return;
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  state *const s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, "matmul");
  s->gemm = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels);
  s->alpha = (float)tercel_node_float(node, "alpha");
  const tercel_status status = tercel_epilogue_prepare(node, target, FIRST_EXTRA, &s->epilogue, err);
  if (status == TERCEL_OK)
    out->data = s;
  else
    release(s);
  return status;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel, (void)node;
  const state *const s = state_data;
  binding *const b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "matmul");
  const int64_t k = in[B]->dims[1], n = in[B]->dims[0], rows = tercel_tensor_num_elements(out[0]);
  *b = (binding){.plan = {.kernels = s->gemm,
                          .m = n > 0 ? rows / n : 0,
                          .n = n,
                          .k = k,
                          .outer = 1,
                          .a = TERCEL_GEMM_PLAIN,
                          .b = TERCEL_GEMM_CALLED,
                          .a_row = k,
                          .a_col = 1,
                          .c_row = n}};
  const int rank = out[0]->rank;
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + FIRST_EXTRA, out[0], 0, rank - 1, &b->epilogue, err));
  tercel_gemm_make_plan(&b->plan, target->num_threads);
  b->epilogue_at = b->plan.workspace_bytes;
  result->data = b;
  result->workspace_bytes = b->epilogue_at + b->epilogue.workspace_bytes;
  return TERCEL_OK;
}

typedef struct job {
  tercel_weight_rows rows;
  int64_t nr;
  const float *a, *bias;
  float *c;
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS];
} job;

static void get_product(const void *user, int64_t outer, tercel_gemm_product *out) {
  (void)outer;
  const job *const j = user;
  out->a = j->a;
  out->c = j->c;
  out->col_bias = j->bias;
}

/* Columns of b are rows of the weights. */
static void pack_b(const void *user, int64_t outer, int64_t k0, int64_t k, int64_t n0, int64_t n, float *out) {
  (void)outer;
  const job *const j = user;
  float row[TERCEL_GEMM_KC];
  const int64_t whole = tercel_ceil_div(n, j->nr) * j->nr;
  for (int64_t x = 0; x < whole; ++x) {
    float *const column = out + x / j->nr * j->nr * k + x % j->nr;
    if (x < n) tercel_weight_rows_read(&j->rows, n0 + x, k0, k, row);
    for (int64_t i = 0; i < k; ++i) column[i * j->nr] = x < n ? row[i] : 0;
  }
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const state *const s = r->state;
  const binding *const b = r->binding;
  const tercel_tensor *const bias = r->num_inputs > BIAS ? r->in[BIAS] : NULL;
  job j = {.rows = tercel_weight_rows_of(r->in[B], r->target),
           .nr = s->gemm->nr,
           .a = r->in[A]->data,
           .bias = bias != NULL ? bias->data : NULL,
           .c = r->out[0]->data};
  tercel_epilogue_start(&s->epilogue, &b->epilogue, r->in + FIRST_EXTRA, (uint8_t *)r->workspace + b->epilogue_at,
                        j.extras);
  const tercel_gemm_run gemm = {.plan = &b->plan,
                                .alpha = s->alpha,
                                .epilogue = &s->epilogue,
                                .extras = j.extras,
                                .product = get_product,
                                .pack_b = pack_b,
                                .user = &j};
  tercel_gemm_run_all(&gemm, r->workspace, r->pool);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_matmul_blocks = {.name = "matmul.blocks",
                                                   .op = TERCEL_OP_MATMUL,
                                                   .supports = supports,
                                                   .prepare = prepare,
                                                   .release = release,
                                                   .bind = bind,
                                                   .run = run};
