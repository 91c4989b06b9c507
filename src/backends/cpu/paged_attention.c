/* paged_attention: a key head of one sequence after the other (over the threads), its keys and values gathered out of their pages as f32; then as
 * attention does it. */
#include "ops/paged_attention.h"

#include <string.h>

#include "backends/cpu/attention.h"
#include "backends/cpu/weights.h"

enum { Q, K, V, KEYS, VALUES, FIRSTS, LENGTHS, TABLES };

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  for (size_t i = Q; i <= VALUES; ++i)
    if (node->inputs[i]->type.shape.rank < 0) return false;
  return tercel_is_cache_dtype(node->inputs[KEYS]->type.dtype) &&
         tercel_is_cache_dtype(node->inputs[VALUES]->type.dtype);
}

typedef struct binding {
  tercel_attention_space space;
  size_t keys_at, values_at, floats; /* of one thread: attention's own, then rows of one head */
} binding;

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel, (void)state, (void)out;
  const int64_t kv_heads = tercel_node_int(node, "kv_heads");
  const size_t size = (size_t)(in[K]->dims[1] / kv_heads), value_size = (size_t)(in[V]->dims[1] / kv_heads);
  size_t rows, keys, values, all;
  binding *const b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "paged_attention");
  tercel_attention_plan(target, INT64_MAX, INT64_MAX, (int64_t)size, (int64_t)value_size, &b->space);
  b->keys_at = b->space.floats;
  if (!tercel_mul_size((size_t)in[TABLES]->dims[1], (size_t)in[KEYS]->dims[1], &rows) ||
      !tercel_mul_size(rows, size, &keys) || !tercel_mul_size(rows, value_size, &values) ||
      !tercel_round_up_size(keys, TERCEL_ALIGNMENT, &keys) ||
      !tercel_round_up_size(values, TERCEL_ALIGNMENT, &values) || !tercel_add_size(b->keys_at, keys, &b->values_at) ||
      !tercel_add_size(b->values_at, values, &b->floats) ||
      !tercel_mul_size(b->floats, sizeof(float) * (size_t)target->num_threads, &all))
    return tercel_fail_memory(err, SIZE_MAX, "keys and values of a sequence");
  result->data = b;
  result->workspace_bytes = all;
  return TERCEL_OK;
}

typedef struct job {
  const tercel_kernel_run *run;
  const binding *b;
  tercel_paged g;
  tercel_weight_rows keys, values;
} job;

/* ---- the cache ---- */

/* The new row number `x` of the operand into row `at` of the cache. */
static void write_row(const tercel_tensor *operand, int64_t x, const tercel_tensor *cache, int64_t at,
                      tercel_lanes_fn store) {
  const int64_t size = operand->dims[1];
  const float *const from = (const float *)operand->data + x * size;
  if (cache->dtype == TERCEL_DTYPE_Q8_0) {
    const tercel_block_format block = tercel_dtype_block_format(cache->dtype);
    tercel_blocks_encode_q8_0(from, size / block.elements,
                              (uint8_t *)cache->data + at * (size / block.elements) * block.bytes);
    return;
  }
  uint8_t *const to = (uint8_t *)cache->data + at * size * (tercel_dtype_bits(cache->dtype) / 8);
  if (store == NULL) {
    memcpy(to, from, (size_t)size * sizeof *from);
    return;
  }
  const tercel_lanes lanes = {.dst = to, .src = {from}, .step = {1}, .n = size};
  store(&lanes);
}

static tercel_lanes_fn store_of(const tercel_tensor *cache, const tercel_target *target) {
  const tercel_pointwise_kernels *const loops = TERCEL_CPU_PICK_FOR(target, tercel_pointwise_kernels);
  return cache->dtype == TERCEL_DTYPE_F16    ? loops->f16_store
         : cache->dtype == TERCEL_DTYPE_BF16 ? loops->bf16_store
                                             : NULL;
}

static void write_rows(const job *j) {
  const tercel_paged *const g = &j->g;
  const tercel_lanes_fn key_store = store_of(g->keys, j->run->target),
                        value_store = store_of(g->values, j->run->target);
  for (int64_t s = 0; s < g->sequences; ++s) {
    const int64_t first = tercel_tensor_get_i64(g->firsts, s), end = tercel_tensor_get_i64(g->firsts, s + 1),
                  length = tercel_tensor_get_i64(g->lengths, s);
    for (int64_t x = first; x < end; ++x) {
      const int64_t at = tercel_paged_row(g, s, length + x - first);
      write_row(j->run->in[K], x, g->keys, at, key_store);
      write_row(j->run->in[V], x, g->values, at, value_store);
    }
  }
}

/* Rows begin .. end of a head of a sequence, one after the other. */
static void gather(const tercel_paged *g, const tercel_weight_rows *rows, int64_t s, int64_t begin, int64_t end,
                   int64_t first, int64_t size, float *out) {
  const int64_t block = rows->block.elements;
  /* A head may begin or end inside a block: then whole blocks around it are read. */
  const int64_t from = first / block * block, to = tercel_ceil_div(first + size, block) * block;
  for (int64_t r = begin; r < end; ++r, out += size) {
    const int64_t at = tercel_paged_row(g, s, r);
    if (from == first && to == first + size) {
      tercel_weight_rows_read(rows, at, first, size, out);
      continue;
    }
    for (int64_t e = from; e < to; e += block) {
      float piece[32]; /* of Q8_0, the only one with blocks */
      tercel_weight_rows_read(rows, at, e, block, piece);
      for (int64_t i = tercel_max_i64(e, first); i < tercel_min_i64(e + block, first + size); ++i)
        out[i - first] = piece[i - e];
    }
  }
}

/* ---- run ---- */

/* All queries of the heads that share key head `kv` of sequence s. */
static void attend(const job *j, int64_t s, int64_t kv, float *space) {
  const tercel_paged *const g = &j->g;
  const int64_t first = tercel_tensor_get_i64(g->firsts, s), count = tercel_tensor_get_i64(g->firsts, s + 1) - first,
                length = tercel_tensor_get_i64(g->lengths, s), end = length + count;
  if (count == 0) return;
  /* Rows that no query sees any more are left out: whole blocks, so that sums are cut alike however a prompt was. */
  const int64_t begin =
      g->window > 0 ? tercel_max_i64(0, length + 1 - g->window) / TERCEL_ATTENTION_BLOCK * TERCEL_ATTENTION_BLOCK : 0;
  int64_t offset = length - begin;
  const tercel_tensor offsets = {.dtype = TERCEL_DTYPE_I64, .rank = 0, .data = &offset, .bytes = sizeof offset};
  gather(g, &j->keys, s, begin, end, kv * g->size, g->size, space + j->b->keys_at);
  gather(g, &j->values, s, begin, end, kv * g->value_size, g->value_size, space + j->b->values_at);
  const int64_t head = kv * g->group;
  const tercel_attention_geometry geometry = {
      .batch = 1,
      .heads = g->group,
      .group = g->group,
      .queries = count,
      .keys = end - begin,
      .mask_keys = end - begin,
      .head_size = g->size,
      .value_size = g->value_size,
      .q = {0, g->size, g->heads * g->size},
      .k = {0, 0, g->size},
      .v = {0, 0, g->value_size},
      .y = {0, g->value_size, g->heads * g->value_size},
      .scale = g->scale,
      .softcap = g->softcap,
      .causal = true,
      .left = g->window > 0 ? g->window - 1 : -1,
      .right = -1,
      .offset = &offsets,
  };
  const float *const sinks = g->sinks != NULL ? g->sinks->data : NULL;
  const tercel_attention_operands operands = {
      .q = (const float *)j->run->in[Q]->data + first * g->heads * g->size + head * g->size,
      .k = space + j->b->keys_at,
      .v = space + j->b->values_at,
      .sinks = sinks != NULL ? sinks + head : NULL,
      .y = (float *)j->run->out[0]->data + first * g->heads * g->value_size + head * g->value_size};
  tercel_attention_run(&geometry, &operands, &j->b->space, space, j->run->target, NULL);
}

static void attend_items(void *arg, int64_t begin, int64_t end, int thread) {
  const job *const j = arg;
  float *const space = (float *)j->run->workspace + (size_t)thread * j->b->floats;
  for (int64_t i = begin; i < end; ++i) attend(j, i / j->g.kv_heads, i % j->g.kv_heads, space);
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  job j = {.run = run, .b = run->binding};
  TERCEL_TRY(tercel_paged_get_geometry(run->node, run->in, run->num_inputs, &j.g, err));
  j.keys = tercel_weight_rows_of(j.g.keys, run->target);
  j.values = tercel_weight_rows_of(j.g.values, run->target);
  write_rows(&j);
  tercel_pool_run(run->pool, j.g.sequences * j.g.kv_heads, 1, attend_items, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_paged_attention = {
    .name = "paged_attention.f32", .op = TERCEL_OP_PAGED_ATTENTION, .supports = supports, .bind = bind, .run = run};
