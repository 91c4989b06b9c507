/* matmul_integer: the product of kernels/gemm8.h.  A constant b is packed once; of batches with the same b one product is made. */
#include "backends/cpu/gemm8_state.h"

enum { A, B, A_ZERO, FIRST_EXTRA = TERCEL_GEMM8_FIRST_EXTRA };

typedef struct binding {
  tercel_matmul_geometry g;
  tercel_gemm8_plan plan;
  tercel_epilogue_binding epilogue;
  size_t epilogue_at; /* in the workspace */
} binding;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return tercel_epilogue_supports(node, FIRST_EXTRA);
}

/* A batch of matrices stays as it is. */
static bool see(const tercel_node *node, const tercel_tensor *b, tercel_gemm_operand *out) {
  (void)node;
  if (b->rank != 2) return false;
  *out = (tercel_gemm_operand){.count = 1, .outer = b->dims[1], .outer_step = 1, .k = b->dims[0], .k_step = b->dims[1]};
  return true;
}

static const tercel_gemm_packer packer = {TERCEL_GEMM8_PACKER, B, true, see};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  return tercel_gemm8_prepare(node, target, &packer, out, err);
}

/* A list of zero points has one a row of each matrix a: these matrices stay products of their own. */
static bool is_list(const tercel_tensor *zero) { return zero != NULL && tercel_tensor_num_elements(zero) > 1; }

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const tercel_gemm8_state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "matmul_integer");
  tercel_matmul_get_geometry(node, in[A], in[B], &b->g);
  const int rank = out[0]->rank, col_dim = in[B]->rank == 1 ? rank : rank - 1;
  int row_dim = in[A]->rank == 1 ? col_dim : col_dim - 1;
  const int64_t batch = b->g.batch;
  if (!is_list(node->num_inputs > A_ZERO ? in[A_ZERO] : NULL)) tercel_gemm_fold_batches(&b->g);
  if (b->g.batch != batch || batch == 1) row_dim = 0;
  TERCEL_TRY(tercel_epilogue_bind(&s->epilogue, in + FIRST_EXTRA, out[0], row_dim, col_dim, &b->epilogue, err));
  b->plan = (tercel_gemm8_plan){.kernels = s->kernels,
                                .m = b->g.m,
                                .n = b->g.n,
                                .k = b->g.k,
                                .outer = b->g.batch,
                                .c_row = b->g.n,
                                .b_is_packed = s->packed.panels != NULL};
  TERCEL_TRY(tercel_gemm8_make_plan(&b->plan, target->num_threads, err));
  b->epilogue_at = b->plan.workspace_bytes;
  result->data = b;
  result->workspace_bytes = b->epilogue_at + b->epilogue.workspace_bytes;
  return TERCEL_OK;
}

typedef struct job {
  const tercel_gemm8_state *s;
  const binding *b;
  const uint8_t *left, *right;
  uint32_t *c;
  tercel_gemm8_zeros left_zeros, right_zeros;
} job;

static void get_product(const void *user, int64_t outer, tercel_gemm8_product *out) {
  const job *j = user;
  const tercel_matmul_geometry *g = &j->b->g;
  int64_t at_a, at_b;
  tercel_matmul_offsets(g, outer, &at_a, &at_b);
  out->a = j->left + at_a;
  out->b = j->right + at_b;
  out->packed_b = j->s->packed;
  out->c = j->c + outer * g->m * g->n;
  out->a_zeros = j->left_zeros;
  out->b_zeros = j->right_zeros;
  out->epilogue_outer = outer;
}

static void pack_columns(const void *user, const tercel_gemm8_product *product, int64_t outer, int64_t n0, int64_t n,
                         int8_t *out) {
  (void)outer;
  const job *j = user;
  const tercel_matmul_geometry *g = &j->b->g;
  const tercel_gemm8_kernels *kernels = j->s->kernels;
  const size_t panel = tercel_gemm8_panel_bytes_b(kernels, g->k, kernels->nr);
  for (int64_t at = 0; at < n; at += kernels->nr, out += panel)
    kernels->pack_b(g->k, tercel_min_i64(n - at, kernels->nr), product->b + (n0 + at) * g->b_col, g->b_row, g->b_col,
                    product->b_zeros.flip, out);
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  (void)err;
  const tercel_gemm8_state *s = r->state;
  const binding *b = r->binding;
  const job j = {.s = s,
                 .b = b,
                 .left = r->in[A]->data,
                 .right = r->in[B]->data,
                 .c = r->out[0]->data,
                 .left_zeros = tercel_gemm8_get_zeros(r, A, false),
                 .right_zeros = tercel_gemm8_get_zeros(r, B, true)};
  tercel_epilogue_extra extras[TERCEL_EPILOGUE_MAX_EXTRAS];
  tercel_epilogue_start(&s->epilogue, &b->epilogue, r->in + FIRST_EXTRA, (uint8_t *)r->workspace + b->epilogue_at,
                        extras);
  const tercel_gemm8_run gemm = {.plan = &b->plan,
                                 .a_row = b->g.a_row,
                                 .a_col = b->g.a_col,
                                 .epilogue = &s->epilogue,
                                 .extras = extras,
                                 .product = get_product,
                                 .pack_b = pack_columns,
                                 .user = &j};
  tercel_gemm8_run_all(&gemm, r->workspace, r->pool);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_matmul_integer = {.name = "matmul_integer",
                                                    .op = TERCEL_OP_MATMUL_INTEGER,
                                                    .supports = supports,
                                                    .packer = &packer.packer,
                                                    .prepare = prepare,
                                                    .release = tercel_gemm8_release,
                                                    .bind = bind,
                                                    .run = run};
