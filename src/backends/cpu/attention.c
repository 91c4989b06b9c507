/* attention, f32: tiles of queries against blocks of keys, the scores of one block at a time (Dao et al.: FlashAttention, 2022).
 *
 *     an item: `rows` queries of one batch entry, of all the heads that share a key head
 *     for each block of keys that any of them sees:
 *       S = Q K'                     rows x keys
 *       S = e^(S - largest so far)   row by row, masked; what stands in O is scaled down where a larger score came
 *       O = O + S V                  rows x value size
 *     y = O / sums
 *
 * Items go to the threads; an item's result depends on nothing but its operands. */
#include "backends/cpu/attention.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/kernels/attention.h"

enum {
  TILE_ROWS = 128, /* queries of an item, at most */
  HALF_TILE = 64,  /* where whole tiles would be fewer than... */
  MIN_ITEMS = 16,  /* so many: threads want some each */
  FEW_ROWS = 4,    /* up to so many, keys and values are read as they lie: packing would cost as much as the products */
};

static bool is_f32(const tercel_node *node, size_t i) { return node->inputs[i]->type.dtype == TERCEL_DTYPE_F32; }

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  const tercel_value *mask = tercel_node_input(node, TERCEL_ATTENTION_MASK);
  if (tercel_node_output(node, 1) != NULL) return false;
  if (tercel_node_attr(node, "precision") != NULL && tercel_node_dtype(node, "precision") != TERCEL_DTYPE_F32)
    return false;
  for (size_t i = 0; i <= TERCEL_ATTENTION_V; ++i)
    if (!is_f32(node, i)) return false;
  return mask == NULL || mask->type.dtype == TERCEL_DTYPE_BOOL || mask->type.dtype == TERCEL_DTYPE_F32;
}

/* ---- bind ---- */

static size_t reserve(tercel_attention_space *s, size_t floats) {
  const size_t at = s->floats, line = TERCEL_ALIGNMENT / sizeof(float);
  s->floats += (floats + line - 1) / line * line;
  return at;
}

void tercel_attention_plan(const tercel_target *target, int64_t most_rows, int64_t most_keys, int64_t head_size,
                           int64_t value_size, tercel_attention_space *out) {
  const size_t rows = (size_t)tercel_min_i64(most_rows, TILE_ROWS);
  const int64_t keys = tercel_min_i64(most_keys, TERCEL_ATTENTION_BLOCK);
  *out = (tercel_attention_space){.gemm = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels)};
  out->keys_at = reserve(out, tercel_gemm_packed_b_size(out->gemm, head_size, keys));
  if (value_size % out->gemm->lanes != 0)
    out->values_at = reserve(out, tercel_gemm_packed_b_size(out->gemm, keys, value_size));
  out->queries_at = reserve(out, rows * (size_t)head_size);
  out->scores_at = reserve(out, rows * TERCEL_ATTENTION_BLOCK);
  out->out_at = reserve(out, rows * (size_t)value_size);
  out->largest_at = reserve(out, rows);
  out->sums_at = reserve(out, rows);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)state, (void)out;
  tercel_attention_geometry g;
  TERCEL_TRY(tercel_attention_get_geometry(node, in, node->num_inputs, &g, err));
  tercel_attention_space *const space = tercel_arena_alloc(arena, sizeof *space);
  if (space == NULL) return tercel_fail_memory(err, sizeof *space, "attention");
  tercel_attention_plan(target, g.group * g.queries, g.keys, g.head_size, g.value_size, space);
  binding->data = space;
  binding->workspace_bytes = space->floats * sizeof(float) * (size_t)target->num_threads;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  const tercel_attention_kernels *kernels;
  const tercel_attention_space *space;
  tercel_attention_geometry g;
  bool deterministic;
  int64_t rows, tiles; /* queries that share a key head: group * queries; items of them */
  int64_t tile_rows;   /* of an item */
  tercel_attention_operands o;
  float *workspace;
} job;

/* One item at work. */
typedef struct item {
  const job *job;
  int64_t batch, key_head, first, count;    /* queries first .. first + count of the job's rows */
  int64_t begin[TILE_ROWS], end[TILE_ROWS]; /* the keys that each sees */
  float *keys, *values, *queries, *scores, *out, *largest, *sums;
} item;

static int64_t head_of(const item *t, int64_t r) {
  return t->key_head * t->job->g.group + (t->first + r) / t->job->g.queries;
}
static int64_t query_of(const item *t, int64_t r) { return (t->first + r) % t->job->g.queries; }
static int64_t place_of(const item *t, const tercel_attention_strides *s, int64_t r) {
  return t->batch * s->batch + head_of(t, r) * s->head + query_of(t, r) * s->row;
}

static item begin_item(const job *j, int64_t index, int thread) {
  const tercel_attention_geometry *g = &j->g;
  const tercel_attention_space *b = j->space;
  float *space = j->workspace + (size_t)thread * b->floats;
  const int64_t key_heads = g->heads / g->group, first = index % j->tiles * j->tile_rows;
  item t = {.job = j,
            .batch = index / j->tiles / key_heads,
            .key_head = index / j->tiles % key_heads,
            .first = first,
            .count = tercel_min_i64(j->rows - first, j->tile_rows),
            .keys = space + b->keys_at,
            .values = space + b->values_at,
            .queries = space + b->queries_at,
            .scores = space + b->scores_at,
            .out = space + b->out_at,
            .largest = space + b->largest_at,
            .sums = space + b->sums_at};
  for (int64_t r = 0; r < t.count; ++r) {
    tercel_attention_range(g, t.batch, query_of(&t, r), &t.begin[r], &t.end[r]);
    j->kernels->scale(j->o.q + place_of(&t, &g->q, r), g->head_size, (float)g->scale, t.queries + r * g->head_size);
    /* A sink is a key seen before all others, without a value. */
    t.largest[r] = j->o.sinks != NULL ? j->o.sinks[head_of(&t, r)] : -INFINITY;
    t.sums[r] = t.largest[r] > -INFINITY ? 1 : 0;
  }
  memset(t.out, 0, (size_t)(t.count * g->value_size) * sizeof(float));
  return t;
}

/* c[m][n] = (add: what it holds) + a b, b in packed panels, or (b_row > 0) as it lies. */
static void multiply(const tercel_gemm_kernels *gemm, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row,
                     const float *b, int64_t b_row, float *c, int64_t c_row, bool add) {
  for (int64_t i = 0; i < m; i += gemm->mr) {
    const int64_t rows = tercel_min_i64(m - i, gemm->mr);
    for (int64_t j = 0; j < n; j += gemm->nr) {
      const int64_t cols = tercel_min_i64(n - j, gemm->nr);
      const tercel_gemm_tile tile = {.k = k,
                                     .a = a + i * a_row,
                                     .a_row = a_row,
                                     .b = b + (b_row > 0 ? j : j * k),
                                     .b_step = b_row > 0 ? b_row : gemm->nr,
                                     .c = c + i * c_row + j,
                                     .c_row = c_row,
                                     .cols = cols,
                                     .alpha = 1,
                                     .add = add};
      gemm->direct[rows - 1][(cols - 1) / gemm->lanes](&tile);
    }
  }
}

/* Products with few rows add in another order. */
static bool few_rows(const item *t) { return t->count <= FEW_ROWS && !t->job->deterministic; }

/* Scores of all rows against n keys. */
static void score(const item *t, const float *k, int64_t n) {
  const tercel_attention_geometry *g = &t->job->g;
  const tercel_gemm_kernels *gemm = t->job->space->gemm;
  if (few_rows(t)) {
    for (int64_t r = 0; r < t->count; ++r)
      gemm->dots(n, g->head_size, t->queries + r * g->head_size, k, g->k.row, t->scores + r * TERCEL_ATTENTION_BLOCK);
    return;
  }
  gemm->pack_b(g->head_size, n, k, 1, g->k.row, t->keys);
  multiply(gemm, t->count, n, g->head_size, t->queries, g->head_size, t->keys, 0, t->scores, TERCEL_ATTENTION_BLOCK,
           false);
}

/* Scores to weights for keys j .. j + n of row r. */
static void weigh(const item *t, int64_t r, int64_t j, int64_t n) {
  const tercel_attention_geometry *g = &t->job->g;
  const tercel_attention_kernels *kernels = t->job->kernels;
  const tercel_tensor *mask = t->job->o.mask;
  float *s = t->scores + r * TERCEL_ATTENTION_BLOCK;
  const int64_t begin = tercel_max_i64(0, tercel_min_i64(t->begin[r] - j, n));
  const int64_t end = tercel_max_i64(begin, tercel_min_i64(t->end[r] - j, n));
  if (g->softcap > 0) kernels->cap(s + begin, end - begin, (float)g->softcap);
  for (int64_t i = 0; i < begin; ++i) s[i] = -INFINITY;
  for (int64_t i = end; i < n; ++i) s[i] = -INFINITY;
  if (mask != NULL) {
    const int64_t at = place_of(t, &g->mask, r) + j + begin;
    if (mask->dtype == TERCEL_DTYPE_BOOL)
      kernels->hide(s + begin, (const uint8_t *)mask->data + at, end - begin, (float)g->fill);
    else
      kernels->add(s + begin, (const float *)mask->data + at, end - begin);
  }
  float *out = t->out + r * g->value_size;
  const float factor = kernels->step(s, n, &t->largest[r], &t->sums[r]);
  if (factor != 1.0f) kernels->scale(out, g->value_size, factor, out);
}

/* O += weights times n values. */
static void mix(const item *t, const float *v, int64_t n) {
  const tercel_attention_geometry *g = &t->job->g;
  const tercel_gemm_kernels *gemm = t->job->space->gemm;
  if (few_rows(t)) {
    for (int64_t r = 0; r < t->count; ++r)
      t->job->kernels->mix(t->scores + r * TERCEL_ATTENTION_BLOCK, n, v, g->v.row, g->value_size,
                           t->out + r * g->value_size);
    return;
  }
  const bool in_place = g->value_size % gemm->lanes == 0; /* no vector reaches into what is not a value */
  if (!in_place) gemm->pack_b(n, g->value_size, v, g->v.row, 1, t->values);
  multiply(gemm, t->count, g->value_size, n, t->scores, TERCEL_ATTENTION_BLOCK, in_place ? v : t->values,
           in_place ? g->v.row : 0, t->out, g->value_size, true);
}

/* Blocks begin at multiples of their size in deterministic mode, so that a query's sums are cut alike whoever is beside it. */
static int64_t first_block(const job *j, int64_t begin) {
  return j->deterministic ? begin / TERCEL_ATTENTION_BLOCK * TERCEL_ATTENTION_BLOCK : begin;
}

/* Blocks of about the same size: a last one of a few keys would cost nearly as much as a whole one.  Single rows keep their scores near. */
static int64_t block_size(const item *t, int64_t keys) {
  if (t->job->deterministic) return TERCEL_ATTENTION_BLOCK;
  const int64_t most = t->count <= FEW_ROWS ? TERCEL_ATTENTION_BLOCK / 2 : TERCEL_ATTENTION_BLOCK, line = 16;
  const int64_t blocks = tercel_ceil_div(keys, most);
  return blocks > 0 ? tercel_ceil_div(tercel_ceil_div(keys, blocks), line) * line : line;
}

/* Follows from shapes alone: results do not depend on threads, nor (in deterministic mode) on the batch. */
static int64_t choose_tile_rows(const job *j) {
  const int64_t items = j->g.batch * (j->g.heads / j->g.group) * tercel_ceil_div(j->rows, TILE_ROWS);
  return j->deterministic || items < MIN_ITEMS ? HALF_TILE : TILE_ROWS;
}

/* All weights are 0, which values that are infinite or no numbers still make NaN. */
static void mix_nothing(const tercel_attention_geometry *g, const float *v, float *y) {
  memset(y, 0, (size_t)g->value_size * sizeof *y);
  for (int64_t key = 0; key < g->keys; ++key)
    for (int64_t d = 0; d < g->value_size; ++d) y[d] += 0 * v[key * g->v.row + d];
}

static void run_item(const job *j, int64_t index, int thread) {
  const tercel_attention_geometry *g = &j->g;
  const item t = begin_item(j, index, thread);
  int64_t begin = g->keys, end = 0;
  for (int64_t r = 0; r < t.count; ++r) {
    if (t.begin[r] == t.end[r]) continue;
    begin = tercel_min_i64(begin, t.begin[r]);
    end = tercel_max_i64(end, t.end[r]);
  }
  const float *k = j->o.k + t.batch * g->k.batch + t.key_head * g->k.head;
  const float *v = j->o.v + t.batch * g->v.batch + t.key_head * g->v.head;
  const int64_t most = block_size(&t, end - begin);
  for (int64_t at = first_block(j, begin); at < end; at += most) {
    const int64_t n = tercel_min_i64(end - at, most);
    score(&t, k + at * g->k.row, n);
    for (int64_t r = 0; r < t.count; ++r) weigh(&t, r, at, n);
    mix(&t, v + at * g->v.row, n);
  }
  const float of_unseen = g->unseen == TERCEL_UNSEEN_NAN && g->keys > 0 ? NAN : 0;
  for (int64_t r = 0; r < t.count; ++r) {
    const float share = t.sums[r] == 0 ? of_unseen : 1 / t.sums[r];
    if (g->unseen == TERCEL_UNSEEN_CLEAR && (isnan(share) || t.sums[r] == 0))
      mix_nothing(g, v, j->o.y + place_of(&t, &g->y, r));
    else
      j->kernels->scale(t.out + r * g->value_size, g->value_size, share, j->o.y + place_of(&t, &g->y, r));
  }
}

static void run_items(void *arg, int64_t begin, int64_t end, int thread) {
  for (int64_t i = begin; i < end; ++i) run_item(arg, i, thread);
}

void tercel_attention_run(const tercel_attention_geometry *geometry, const tercel_attention_operands *operands,
                          const tercel_attention_space *space, float *workspace, const tercel_target *target,
                          tercel_pool *pool) {
  job j = {.kernels = TERCEL_CPU_PICK_FOR(target, tercel_attention_kernels),
           .space = space,
           .g = *geometry,
           .deterministic = target->deterministic,
           .rows = geometry->group * geometry->queries,
           .o = *operands,
           .workspace = workspace};
  j.tile_rows = choose_tile_rows(&j);
  j.tiles = tercel_ceil_div(j.rows, j.tile_rows);
  const int64_t items = geometry->batch * (geometry->heads / geometry->group) * j.tiles;
  if (items > 0) tercel_pool_run(pool, items, 1, run_items, &j);
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_tensor *sinks = tercel_input_tensor(run->in, run->num_inputs, TERCEL_ATTENTION_SINKS);
  const tercel_attention_operands operands = {.q = run->in[TERCEL_ATTENTION_Q]->data,
                                              .k = run->in[TERCEL_ATTENTION_K]->data,
                                              .v = run->in[TERCEL_ATTENTION_V]->data,
                                              .mask =
                                                  tercel_input_tensor(run->in, run->num_inputs, TERCEL_ATTENTION_MASK),
                                              .sinks = sinks != NULL ? sinks->data : NULL,
                                              .y = run->out[0]->data};
  tercel_attention_geometry g;
  TERCEL_TRY(tercel_attention_get_geometry(run->node, run->in, run->num_inputs, &g, err));
  tercel_attention_run(&g, &operands, run->binding, run->workspace, run->target, run->pool);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_attention_f32 = {
    .name = "attention.f32", .op = TERCEL_OP_ATTENTION, .supports = supports, .bind = bind, .run = run};
