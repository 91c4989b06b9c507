/* Blocks, threads, packing and zero points around the 8-bit register tiles.  See gemm8.h. */
#include "backends/cpu/gemm8.h"

#include <string.h>

static int64_t panels(int64_t size, int64_t panel) { return tercel_ceil_div(size, panel); }
static int64_t groups_of(const tercel_gemm8_kernels *kernels, int64_t k) { return tercel_ceil_div(k, kernels->group); }

int64_t tercel_gemm8_sums_a(const tercel_gemm8_kernels *kernels, int64_t m) {
  return panels(m, kernels->mr) * kernels->mr;
}
int64_t tercel_gemm8_sums_b(const tercel_gemm8_kernels *kernels, int64_t n) {
  return panels(n, kernels->nr) * kernels->nr;
}
size_t tercel_gemm8_panel_bytes_a(const tercel_gemm8_kernels *kernels, int64_t m, int64_t k) {
  return (size_t)(tercel_gemm8_sums_a(kernels, m) * groups_of(kernels, k)) * sizeof(uint32_t);
}
size_t tercel_gemm8_panel_bytes_b(const tercel_gemm8_kernels *kernels, int64_t k, int64_t n) {
  return (size_t)(tercel_gemm8_sums_b(kernels, n) * groups_of(kernels, k) * kernels->group);
}

uint8_t tercel_gemm8_flip(tercel_dtype dtype, bool right) {
  return dtype == (right ? TERCEL_DTYPE_U8 : TERCEL_DTYPE_I8) ? 0x80 : 0;
}

/* ---- packing ---- */

/* Panel number `panel` of A. */
static void pack_panel_a(const tercel_gemm8_kernels *kernels, int64_t m, int64_t k, int64_t panel, const uint8_t *a,
                         int64_t a_row, int64_t a_col, uint8_t flip, const tercel_gemm8_packed *out) {
  const int64_t at = panel * kernels->mr, rows = tercel_min_i64(m - at, kernels->mr);
  kernels->pack_a(rows, k, a + at * a_row, a_row, a_col, flip, (uint32_t *)out->panels + at * groups_of(kernels, k),
                  out->sums + at);
}

void tercel_gemm8_pack_a(const tercel_gemm8_kernels *kernels, int64_t m, int64_t k, const uint8_t *a, int64_t a_row,
                         int64_t a_col, uint8_t flip, const tercel_gemm8_packed *out) {
  for (int64_t i = 0; i < panels(m, kernels->mr); ++i) pack_panel_a(kernels, m, k, i, a, a_row, a_col, flip, out);
}

/* The sums of a panel's columns: a row of ones times the panel. */
static void sum_columns(const tercel_gemm8_kernels *kernels, int64_t groups, const int8_t *panel, uint32_t *out) {
  const tercel_gemm8_tile tile = {
      .groups = groups, .a = &kernels->one, .b = panel, .c = out, .c_row = kernels->nr, .cols = kernels->nr};
  kernels->tiles[0][kernels->nr / kernels->lanes - 1](&tile);
}

void tercel_gemm8_pack_b(const tercel_gemm8_kernels *kernels, int64_t k, int64_t n, const uint8_t *b, int64_t b_row,
                         int64_t b_col, uint8_t flip, const tercel_gemm8_packed *out) {
  const int64_t groups = groups_of(kernels, k);
  for (int64_t at = 0; at < n; at += kernels->nr) {
    int8_t *const panel = (int8_t *)out->panels + at * groups * kernels->group;
    kernels->pack_b(k, tercel_min_i64(n - at, kernels->nr), b + at * b_col, b_row, b_col, flip, panel);
    sum_columns(kernels, groups, panel, out->sums + at);
  }
}

static size_t panel_bytes_of(const tercel_gemm8_kernels *kernels, bool right, int64_t outer, int64_t k) {
  return right ? tercel_gemm8_panel_bytes_b(kernels, k, outer) : tercel_gemm8_panel_bytes_a(kernels, outer, k);
}

tercel_gemm8_packed tercel_gemm8_open_packed(const tercel_gemm8_kernels *kernels, const void *data, bool right,
                                             int64_t outer, int64_t k, int64_t count) {
  uint8_t *const bytes = (uint8_t *)(uintptr_t)data; /* written while packing only */
  const size_t all = panel_bytes_of(kernels, right, outer, k) * (size_t)count;
  return (tercel_gemm8_packed){bytes, (uint32_t *)(void *)(bytes + all)};
}

tercel_gemm8_packed tercel_gemm8_get_packed(const tercel_gemm8_kernels *kernels, const tercel_gemm8_packed *all,
                                            bool right, int64_t outer, int64_t k, int64_t i) {
  const int64_t sums = right ? tercel_gemm8_sums_b(kernels, outer) : tercel_gemm8_sums_a(kernels, outer);
  return (tercel_gemm8_packed){(uint8_t *)all->panels + panel_bytes_of(kernels, right, outer, k) * (size_t)i,
                               all->sums + sums * i};
}

/* ---- plan ---- */

/* Of one thread: packed columns of B, then their sums and zero points. */
static bool thread_bytes(const tercel_gemm8_plan *plan, size_t *out) {
  const int64_t nc = plan->blocks.most_nc;
  size_t bytes = plan->b_is_packed ? 0 : tercel_gemm8_panel_bytes_b(plan->kernels, plan->k, nc);
  return tercel_add_size(bytes, (size_t)nc * 2 * sizeof(uint32_t), &bytes) &&
         tercel_round_up_size(bytes, TERCEL_ALIGNMENT, out);
}

static bool packed_a_bytes(const tercel_gemm8_plan *plan, size_t *out) {
  size_t bytes = tercel_gemm8_panel_bytes_a(plan->kernels, plan->m, plan->k);
  *out = 0;
  return plan->a_is_packed ||
         (tercel_add_size(bytes, (size_t)tercel_gemm8_sums_a(plan->kernels, plan->m) * sizeof(uint32_t), &bytes) &&
          tercel_mul_size(bytes, (size_t)plan->outer, &bytes) && tercel_round_up_size(bytes, TERCEL_ALIGNMENT, out));
}

tercel_status tercel_gemm8_make_plan(tercel_gemm8_plan *plan, int num_threads, tercel_error *err) {
  const tercel_gemm8_kernels *const kernels = plan->kernels;
  plan->blocks = (tercel_gemm_blocks){0};
  plan->workspace_bytes = plan->a_bytes = plan->thread_bytes = 0;
  if (plan->m == 0 || plan->n == 0 || plan->outer == 0) return TERCEL_OK;
  const int64_t panel_bytes = (int64_t)tercel_gemm8_panel_bytes_b(kernels, tercel_max_i64(plan->k, 1), kernels->nr);
  plan->blocks = tercel_gemm_cut(plan->m, plan->n, plan->k, plan->outer, kernels->mr, kernels->nr, panel_bytes,
                                 plan->b_is_packed, num_threads);
  size_t all_threads;
  if (!thread_bytes(plan, &plan->thread_bytes) || !packed_a_bytes(plan, &plan->a_bytes) ||
      !tercel_mul_size(plan->thread_bytes, (size_t)num_threads, &all_threads) ||
      !tercel_add_size(plan->a_bytes, all_threads, &plan->workspace_bytes))
    return tercel_fail_memory(err, SIZE_MAX, "a product's workspace");
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  const tercel_gemm8_run *run;
  uint8_t *workspace;
} job;

/* Packed A of product `outer`, in the workspace. */
static tercel_gemm8_packed packed_in_workspace(const job *j, int64_t outer) {
  const tercel_gemm8_plan *plan = j->run->plan;
  const int64_t sums = tercel_gemm8_sums_a(plan->kernels, plan->m);
  const size_t bytes = tercel_gemm8_panel_bytes_a(plan->kernels, plan->m, plan->k);
  uint32_t *const all_sums = (uint32_t *)(void *)(j->workspace + bytes * (size_t)plan->outer);
  return (tercel_gemm8_packed){j->workspace + bytes * (size_t)outer, all_sums + sums * outer};
}

static void pack_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const tercel_gemm8_run *run = j->run;
  const tercel_gemm8_plan *plan = run->plan;
  const int64_t each = panels(plan->m, plan->kernels->mr);
  for (int64_t i = begin; i < end; ++i) {
    tercel_gemm8_product p = {0};
    run->product(run->user, i / each, &p);
    const tercel_gemm8_packed out = packed_in_workspace(j, i / each);
    pack_panel_a(plan->kernels, plan->m, plan->k, i % each, p.a, run->a_row, run->a_col, p.a_zeros.flip, &out);
  }
}

/* One block of C in work. */
typedef struct block {
  const tercel_gemm8_run *run;
  tercel_gemm8_product product;
  int64_t outer, m0, m1, n0, n1, groups;
  const int8_t *b;       /* packed columns from n0 on */
  const uint32_t *sums;  /* of these columns */
  const uint32_t *zeros; /* likewise; NULL: all 0 */
  int8_t *b_space;       /* this thread's */
  uint32_t *sum_space, *zero_space;
} block;

static uint32_t zero_at(const tercel_gemm8_zeros *zeros, int64_t i) {
  if (zeros->data == NULL) return zeros->flip;
  return (uint8_t)(zeros->data[zeros->count == 1 ? 0 : i] ^ zeros->flip);
}

/* Those of columns n0 .. n1, as the i8 that B holds. */
static const uint32_t *get_zeros(const block *t) {
  bool any = false;
  for (int64_t i = t->n0; i < t->n1; ++i) {
    const uint32_t zero = (uint32_t)(int8_t)zero_at(&t->product.b_zeros, i);
    any = any || zero != 0;
    t->zero_space[i - t->n0] = zero;
  }
  return any ? t->zero_space : NULL;
}

static void get_b(block *t) {
  const tercel_gemm8_run *run = t->run;
  const tercel_gemm8_plan *plan = run->plan;
  const tercel_gemm8_kernels *kernels = plan->kernels;
  t->zeros = get_zeros(t);
  if (plan->b_is_packed) {
    t->b = (const int8_t *)t->product.packed_b.panels + t->n0 * t->groups * kernels->group;
    t->sums = t->product.packed_b.sums + t->n0;
    return;
  }
  run->pack_b(run->user, &t->product, t->outer, t->n0, t->n1 - t->n0, t->b_space);
  for (int64_t n = 0; n < t->n1 - t->n0; n += kernels->nr)
    sum_columns(kernels, t->groups, t->b_space + n * t->groups * kernels->group, t->sum_space + n);
  t->b = t->b_space;
  t->sums = t->sum_space;
}

/* Rows m .. m + rows of the block, over all its columns. */
static void run_rows(const block *t, int64_t m, int64_t rows) {
  const tercel_gemm8_run *run = t->run;
  const tercel_gemm8_plan *plan = run->plan;
  const tercel_gemm8_kernels *kernels = plan->kernels;
  const tercel_gemm8_product *p = &t->product;
  uint32_t factor[TERCEL_GEMM8_MAX_MR], rest[TERCEL_GEMM8_MAX_MR], any = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const uint32_t zero = zero_at(&p->a_zeros, m + r);
    factor[r] = 0u - zero;
    rest[r] = (uint32_t)plan->k * zero - p->packed_a.sums[m + r];
    any |= zero;
  }
  tercel_gemm8_tile tile = {.groups = t->groups,
                            .a = (const uint32_t *)p->packed_a.panels + m * t->groups,
                            .a_step = kernels->mr,
                            .c_row = plan->c_row,
                            .row_factor = any != 0 ? factor : NULL,
                            .row_rest = rest};
  for (int64_t n = t->n0; n < t->n1; n += kernels->nr) {
    const int64_t at = n - t->n0;
    tile.cols = tercel_min_i64(t->n1 - n, kernels->nr);
    tile.b = t->b + at * t->groups * kernels->group;
    tile.c = p->c + m * plan->c_row + n;
    tile.col_sum = t->sums + at;
    tile.col_zero = t->zeros == NULL ? NULL : t->zeros + at;
    kernels->tiles[rows - 1][(tile.cols - 1) / kernels->lanes](&tile);
  }
  run->epilogue->apply(run->epilogue, run->extras, p->epilogue_outer, p->epilogue_row + m, t->n0, rows, t->n1 - t->n0,
                       (float *)(void *)(p->c + m * plan->c_row + t->n0), plan->c_row);
}

static void run_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const tercel_gemm8_run *run = j->run;
  const tercel_gemm8_plan *plan = run->plan;
  const tercel_gemm_blocks *blocks = &plan->blocks;
  uint8_t *const space = j->workspace + plan->a_bytes + (size_t)thread * plan->thread_bytes;
  block t = {.run = run,
             .outer = -1,
             .groups = groups_of(plan->kernels, plan->k),
             .sum_space = (uint32_t *)(void *)space,
             .zero_space = (uint32_t *)(void *)space + blocks->most_nc,
             .b_space = (int8_t *)space + (size_t)blocks->most_nc * 2 * sizeof(uint32_t)};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t m_block = i % blocks->m_blocks, rest = i / blocks->m_blocks;
    const int64_t n_block = rest % blocks->n_blocks, outer = rest / blocks->n_blocks;
    const bool same = outer == t.outer && t.n0 == n_block * blocks->nc;
    if (outer != t.outer) {
      memset(&t.product, 0, sizeof t.product);
      run->product(run->user, outer, &t.product);
      if (!plan->a_is_packed) t.product.packed_a = packed_in_workspace(j, outer);
      t.outer = outer;
    }
    t.m0 = m_block * blocks->mc;
    t.m1 = tercel_min_i64(t.m0 + blocks->mc, plan->m);
    t.n0 = n_block * blocks->nc;
    t.n1 = tercel_min_i64(t.n0 + blocks->nc, plan->n);
    if (!same) get_b(&t);
    for (int64_t m = t.m0; m < t.m1; m += plan->kernels->mr)
      run_rows(&t, m, tercel_min_i64(t.m1 - m, plan->kernels->mr));
  }
}

void tercel_gemm8_run_all(const tercel_gemm8_run *run, void *workspace, tercel_pool *pool) {
  const tercel_gemm8_plan *plan = run->plan;
  job j = {.run = run, .workspace = workspace};
  const int64_t count = plan->outer * plan->blocks.m_blocks * plan->blocks.n_blocks;
  if (count == 0) return;
  if (!plan->a_is_packed) {
    const int64_t bytes =
        plan->kernels->mr * tercel_max_i64(plan->k, 1); /* of a panel: some of them are worth a thread */
    tercel_pool_run(pool, plan->outer * panels(plan->m, plan->kernels->mr), tercel_ceil_div(32 * 1024, bytes),
                    pack_pieces, &j);
  }
  tercel_pool_run(pool, count, plan->blocks.grain, run_pieces, &j);
}
