/* Blocks, threads and packing around the register tiles.  See gemm.h. */
#include "backends/cpu/gemm.h"

#include <string.h>

/* Multiply-adds below which handing a piece to another thread costs more than it saves (some microseconds). */
static const int64_t smallest_piece = 64 * 1024;
/* Blocks a thread should find, so that threads end together though some are slower. */
static const int64_t blocks_per_thread = 4;
/* Rows of C up to which B is read as it lies: packing it would cost as much as it saves. */
static const int64_t direct_b_panels = 3;

static int64_t panels(int64_t size, int64_t panel) { return tercel_ceil_div(size, panel); }

size_t tercel_gemm_packed_a_size(const tercel_gemm_kernels *kernels, int64_t m, int64_t k) {
  return (size_t)(panels(m, kernels->mr) * kernels->mr * k);
}
size_t tercel_gemm_packed_b_size(const tercel_gemm_kernels *kernels, int64_t k, int64_t n) {
  return (size_t)(panels(n, kernels->nr) * kernels->nr * k);
}

/* ---- plan ---- */

/* Rows a multiple of 4 KiB apart fall into the same set of the first-level cache: mr of them evict each other. */
static bool rows_collide(int64_t row) { return row * (int64_t)sizeof(float) % 4096 == 0; }

tercel_gemm_blocks tercel_gemm_cut(int64_t m, int64_t n, int64_t k, int64_t outer, int mr, int nr, int64_t panel_bytes,
                                   bool b_is_packed, int num_threads) {
  tercel_gemm_blocks b;
  const int64_t m_panels = panels(m, mr), n_panels = panels(n, nr);
  const int64_t wanted = num_threads > 1 ? blocks_per_thread * num_threads : 1;
  int64_t n_each = tercel_max_i64((int64_t)tercel_cpu_cache_bytes(2) / 2 / panel_bytes, 1);
  int64_t m_each = m_panels;
  if (m_panels == 1 && b_is_packed) {
    n_each = 1; /* B is read once, in the order in which it lies */
  } else {
    n_each = tercel_min_i64(n_each, tercel_ceil_div(n_panels * outer, wanted));
    n_each = tercel_max_i64(n_each, 1);
    const int64_t columns = outer * tercel_ceil_div(n_panels, n_each);
    if (columns < wanted) m_each = tercel_max_i64(tercel_ceil_div(m_panels * columns, wanted), 4);
  }
  b.most_nc = n_each * nr;
  b.n_blocks = tercel_ceil_div(n_panels, n_each);
  b.m_blocks = tercel_ceil_div(m_panels, m_each);
  b.nc = tercel_ceil_div(n_panels, b.n_blocks) * nr;
  b.mc = tercel_ceil_div(m_panels, b.m_blocks) * mr;
  b.n_blocks = tercel_ceil_div(n, b.nc);
  b.m_blocks = tercel_ceil_div(m, b.mc);
  b.grain = tercel_ceil_div(smallest_piece, b.mc * b.nc * tercel_max_i64(k, 1));
  return b;
}

void tercel_gemm_make_plan(tercel_gemm_plan *plan, int num_threads) {
  const int64_t mr = plan->kernels->mr, nr = plan->kernels->nr;
  plan->direct_a = plan->a == TERCEL_GEMM_PLAIN && plan->a_col == 1 && !(rows_collide(plan->a_row) && plan->n > 2 * nr);
  plan->direct_b = plan->b == TERCEL_GEMM_PLAIN && plan->b_col == 1 && plan->m <= direct_b_panels * mr;
  plan->blocks = (tercel_gemm_blocks){0};
  plan->workspace_bytes = 0;
  if (plan->m == 0 || plan->n == 0 || plan->outer == 0) return;
  const int64_t kc = tercel_min_i64(plan->k, TERCEL_GEMM_KC);
  const int64_t panel_bytes = tercel_max_i64(kc, 1) * nr * (int64_t)sizeof(float);
  plan->blocks = tercel_gemm_cut(plan->m, plan->n, plan->k, plan->outer, (int)mr, (int)nr, panel_bytes,
                                 plan->b == TERCEL_GEMM_PACKED, num_threads);
  const int64_t b_floats = plan->b == TERCEL_GEMM_PACKED ? 0 : (plan->direct_b ? nr : plan->blocks.most_nc) * kc;
  const int64_t floats = b_floats + TERCEL_GEMM_SLACK + mr * kc;
  plan->thread_bytes = ((size_t)floats * sizeof(float) + TERCEL_ALIGNMENT - 1) & ~(size_t)(TERCEL_ALIGNMENT - 1);
  plan->workspace_bytes = plan->thread_bytes * (size_t)num_threads;
}

/* ---- run ---- */

/* One block of C in work. */
typedef struct block {
  const tercel_gemm_run *run;
  tercel_gemm_product product;
  int64_t outer, m0, m1, n0, n1;
  float *b_space, *a_space; /* this thread's */
} block;

/* A piece of B: panel j begins at data + j * panel_step; the last panel of direct B may stand apart. */
typedef struct b_piece {
  const float *data, *last;
  int64_t step, panel_step, last_step;
} b_piece;

static b_piece get_b(const block *t, int64_t k0, int64_t kc) {
  const tercel_gemm_plan *plan = t->run->plan;
  const int64_t nr = plan->kernels->nr, count = panels(t->n1 - t->n0, nr);
  b_piece b = {.data = t->b_space, .step = nr, .panel_step = kc * nr};
  if (plan->b == TERCEL_GEMM_PACKED) {
    b.data = t->product.b + t->n0 * plan->k + k0 * nr;
    b.panel_step = plan->k * nr;
  } else if (plan->b == TERCEL_GEMM_CALLED) {
    t->run->pack_b(t->run->user, t->outer, k0, kc, t->n0, t->n1 - t->n0, t->b_space);
  } else if (plan->direct_b) {
    b = (b_piece){.data = t->product.b + k0 * plan->b_row + t->n0, .step = plan->b_row, .panel_step = nr};
  } else {
    plan->kernels->pack_b(kc, t->n1 - t->n0, t->product.b + k0 * plan->b_row + t->n0 * plan->b_col, plan->b_row,
                          plan->b_col, t->b_space);
  }
  b.last = b.data + (count - 1) * b.panel_step;
  b.last_step = b.step;
  const int64_t tail = (t->n1 - t->n0) % nr;
  if (plan->b == TERCEL_GEMM_PLAIN && plan->direct_b &&
      tail != 0) { /* whole vectors are read: not from a tensor's end */
    plan->kernels->pack_b(kc, tail, b.last, plan->b_row, 1, t->b_space);
    b.last = t->b_space;
    b.last_step = nr;
  }
  return b;
}

static const float *get_a(const block *t, int64_t m, int64_t rows, int64_t k0, int64_t kc) {
  const tercel_gemm_plan *plan = t->run->plan;
  if (plan->a == TERCEL_GEMM_PACKED) return t->product.a + m * plan->k + k0 * plan->kernels->mr;
  const float *a = t->product.a + m * plan->a_row + k0 * plan->a_col;
  if (plan->direct_a) return a;
  plan->kernels->pack_a(rows, kc, a, plan->a_row, plan->a_col, t->a_space);
  return t->a_space;
}

/* Rows m .. m + rows of the block, over all its columns. */
static void run_rows(const block *t, const b_piece *b, int64_t m, int64_t rows, int64_t k0, int64_t kc) {
  const tercel_gemm_run *run = t->run;
  const tercel_gemm_plan *plan = run->plan;
  const tercel_gemm_kernels *kernels = plan->kernels;
  const tercel_gemm_product *p = &t->product;
  const bool last_run = k0 + kc == plan->k;
  const tercel_epilogue *epilogue = last_run ? run->epilogue : NULL;
  tercel_gemm_tile tile = {.k = kc,
                           .a = get_a(t, m, rows, k0, kc),
                           .a_row = plan->a_row,
                           .c_row = plan->c_row,
                           .alpha = run->alpha,
                           .add = k0 > 0 || run->accumulate,
                           .row_bias = p->row_bias == NULL ? NULL : p->row_bias + m};
  if (epilogue != NULL && epilogue->form == TERCEL_EPILOGUE_CLAMP) {
    tile.clamp = true;
    tile.low = epilogue->low;
    tile.high = epilogue->high;
    epilogue = NULL;
  }
  const tercel_gemm_tile_fn *fns = plan->direct_a ? kernels->direct[rows - 1] : kernels->packed[rows - 1];
  for (int64_t n = t->n0, j = 0; n < t->n1; n += kernels->nr, ++j) {
    const bool last = n + kernels->nr >= t->n1;
    tile.cols = last ? t->n1 - n : kernels->nr;
    tile.b = last ? b->last : b->data + j * b->panel_step;
    tile.b_step = last ? b->last_step : b->step;
    tile.c = p->c + m * plan->c_row + n;
    tile.col_bias = p->col_bias == NULL ? NULL : p->col_bias + n;
    if (tile.cols <= TERCEL_GEMM_MAX_COLUMNS && !plan->direct_a)
      kernels->columns[tile.cols - 1](&tile, (int)rows);
    else
      fns[(tile.cols - 1) / kernels->lanes](&tile);
  }
  if (epilogue == NULL) return;
  epilogue->apply(epilogue, run->extras, p->epilogue_outer, p->epilogue_row + m, t->n0, rows, t->n1 - t->n0,
                  p->c + m * plan->c_row + t->n0, plan->c_row);
}

static void run_block(const block *t) {
  const tercel_gemm_plan *plan = t->run->plan;
  int64_t k0 = 0;
  do { /* once even when k is 0: C is the start then */
    const int64_t kc = tercel_min_i64(plan->k - k0, TERCEL_GEMM_KC);
    const b_piece b = get_b(t, k0, kc);
    for (int64_t m = t->m0; m < t->m1; m += plan->kernels->mr)
      run_rows(t, &b, m, tercel_min_i64(t->m1 - m, plan->kernels->mr), k0, kc);
    k0 += kc;
  } while (k0 < plan->k);
}

typedef struct job {
  const tercel_gemm_run *run;
  uint8_t *workspace;
} job;

static void run_pieces(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const tercel_gemm_plan *plan = j->run->plan;
  float *space = (float *)(void *)(j->workspace + (size_t)thread * plan->thread_bytes);
  block t = {.run = j->run, .outer = -1, .a_space = space};
  t.b_space = space + tercel_min_i64(plan->k, TERCEL_GEMM_KC) * plan->kernels->mr;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t m_block = i % plan->blocks.m_blocks, rest = i / plan->blocks.m_blocks;
    const int64_t n_block = rest % plan->blocks.n_blocks, outer = rest / plan->blocks.n_blocks;
    if (outer != t.outer) {
      memset(&t.product, 0, sizeof t.product);
      j->run->product(j->run->user, outer, &t.product);
      t.outer = outer;
    }
    t.m0 = m_block * plan->blocks.mc;
    t.m1 = tercel_min_i64(t.m0 + plan->blocks.mc, plan->m);
    t.n0 = n_block * plan->blocks.nc;
    t.n1 = tercel_min_i64(t.n0 + plan->blocks.nc, plan->n);
    run_block(&t);
  }
}

void tercel_gemm_run_all(const tercel_gemm_run *run, void *workspace, tercel_pool *pool) {
  const tercel_gemm_plan *plan = run->plan;
  job j = {.run = run, .workspace = workspace};
  const int64_t count = plan->outer * plan->blocks.m_blocks * plan->blocks.n_blocks;
  if (count > 0) tercel_pool_run(pool, count, plan->blocks.grain, run_pieces, &j);
}
