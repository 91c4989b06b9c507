/* paged_attention: causal attention of tokens of several sequences over what those sequences keep in a cache, which lies in pages (Kwon et al.:
 * Efficient memory management for large language model serving with PagedAttention, 2023).
 *
 *     keys, values     states of pages, each of `page` rows
 *     sequence s       has rows firsts[s] .. firsts[s + 1] of this run; lengths[s] rows of it lie in the cache already; its row number r is row
 *                      r % page of page tables[s, r / page]
 *
 * A run writes the new rows of k and v into the cache, then lets each row of q see the rows of its sequence up to itself. */
#include "ops/paged_attention.h"

#include <math.h>

#include "ir/blocks.h"
#include "ops/narrow.h"

enum { Q, K, V, KEYS, VALUES, FIRSTS, LENGTHS, TABLES, SINKS };

/* ---- inference ----------------------------------------------------------------------------------------------------- */

static tercel_status check_rank(const tercel_infer *infer, size_t i, const char *name, int rank, tercel_error *err) {
  const tercel_shape *const shape = &infer->in[i]->type.shape;
  if (shape->rank < 0 || shape->rank == rank) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s has rank %d, want %d", name, shape->rank, rank);
}

static tercel_status check_equal(const tercel_infer *infer, const char *what, tercel_dim a, tercel_dim b,
                                 tercel_error *err) {
  if (!tercel_dim_is_known(a) || !tercel_dim_is_known(b) || a == b) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s: %lld and %lld", what, (long long)a,
                          (long long)b);
}

static tercel_status check_heads(const tercel_infer *infer, tercel_error *err) {
  const int64_t heads = tercel_node_int(infer->node, "heads"), kv_heads = tercel_node_int(infer->node, "kv_heads");
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld query heads over %lld key heads",
                            (long long)heads, (long long)kv_heads);
  for (size_t i = Q; i <= V; ++i) {
    const tercel_dim row = infer->in[i]->type.shape.dims[1];
    const int64_t of = i == Q ? heads : kv_heads;
    if (tercel_dim_is_known(row) && row % of != 0)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu: rows of %lld in %lld heads", i,
                              (long long)row, (long long)of);
  }
  const tercel_dim q = infer->in[Q]->type.shape.dims[1], k = infer->in[K]->type.shape.dims[1];
  if (tercel_dim_is_known(q) && tercel_dim_is_known(k))
    return check_equal(infer, "size of heads of q and k", q / heads, k / kv_heads, err);
  return TERCEL_OK;
}

static tercel_status check_dtypes(const tercel_infer *infer, tercel_error *err) {
  static const char *const names[] = {"q", "k", "v", "keys", "values"};
  for (size_t i = Q; i <= VALUES; ++i) {
    const tercel_dtype dtype = infer->in[i]->type.dtype;
    const bool cache = i >= KEYS, known = dtype != TERCEL_DTYPE_NONE;
    if (known && (cache ? !tercel_is_cache_dtype(dtype) : dtype != TERCEL_DTYPE_F32))
      return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "%s is %s, want %s", names[i],
                              tercel_dtype_name(dtype), cache ? "f32, f16, bf16 or q8_0" : "f32");
  }
  for (size_t i = FIRSTS; i <= TABLES; ++i) TERCEL_TRY(tercel_infer_check_indices(infer, i, err));
  return TERCEL_OK;
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  static const struct {
    const char *name;
    int rank;
  } operands[] = {{"q", 2},      {"k", 2},       {"v", 2},      {"keys", 3}, {"values", 3},
                  {"firsts", 1}, {"lengths", 1}, {"tables", 2}, {"sinks", 1}};
  TERCEL_TRY(check_dtypes(infer, err));
  infer->out[0].type.dtype = TERCEL_DTYPE_F32;
  for (size_t i = Q; i < infer->num_inputs; ++i) {
    if (!tercel_has_input(infer, i)) continue;
    TERCEL_TRY(check_rank(infer, i, operands[i].name, operands[i].rank, err));
    if (infer->in[i]->type.shape.rank < 0) return TERCEL_OK;
  }
  TERCEL_TRY(check_heads(infer, err));
  const tercel_shape *const q = &infer->in[Q]->type.shape, *const k = &infer->in[K]->type.shape,
                            *const v = &infer->in[V]->type.shape, *const keys = &infer->in[KEYS]->type.shape,
                            *const values = &infer->in[VALUES]->type.shape;
  TERCEL_TRY(check_equal(infer, "rows of q and k", q->dims[0], k->dims[0], err));
  TERCEL_TRY(check_equal(infer, "rows of q and v", q->dims[0], v->dims[0], err));
  TERCEL_TRY(check_equal(infer, "rows of k and of the cache", k->dims[1], keys->dims[2], err));
  TERCEL_TRY(check_equal(infer, "rows of v and of the cache", v->dims[1], values->dims[2], err));
  TERCEL_TRY(check_equal(infer, "pages of keys and values", keys->dims[0], values->dims[0], err));
  TERCEL_TRY(check_equal(infer, "rows of a page of keys and values", keys->dims[1], values->dims[1], err));
  TERCEL_TRY(check_equal(infer, "lengths and tables", infer->in[LENGTHS]->type.shape.dims[0],
                         infer->in[TABLES]->type.shape.dims[0], err));
  const int64_t group = tercel_node_int(infer->node, "heads") / tercel_node_int(infer->node, "kv_heads");
  infer->out[0].type.shape = (tercel_shape){2, {q->dims[0], tercel_dim_mul(infer->dims, v->dims[1], group)}};
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  for (size_t i = KEYS; i <= VALUES; ++i)
    if (node->inputs[i] != NULL && !node->inputs[i]->type.state)
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "input %zu is no state", i);
  if (tercel_node_int(node, "window") < 0 || !(tercel_node_float(node, "softcap") >= 0))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "window and softcap are at least 0");
  return TERCEL_OK;
}

/* ---- geometry ------------------------------------------------------------------------------------------------------ */

bool tercel_is_cache_dtype(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_F32 || dtype == TERCEL_DTYPE_F16 || dtype == TERCEL_DTYPE_BF16 ||
         dtype == TERCEL_DTYPE_Q8_0;
}

/* Every row that this run reads or writes lies in the cache. */
static tercel_status check_sequence(const tercel_node *node, const tercel_paged *p, int64_t s, tercel_error *err) {
  const int64_t first = tercel_tensor_get_i64(p->firsts, s), end = tercel_tensor_get_i64(p->firsts, s + 1),
                length = tercel_tensor_get_i64(p->lengths, s);
  if (first < 0 || end < first || end > p->rows)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "sequence %lld has rows %lld to %lld of %lld",
                            (long long)s, (long long)first, (long long)end, (long long)p->rows);
  const int64_t pages = tercel_ceil_div(tercel_max_i64(length, 0) + (end - first), p->page);
  if (length < 0 || length > INT32_MAX || pages > p->table)
    return tercel_node_fail(
        node, err, TERCEL_INVALID_ARGUMENT,
        "sequence %lld: %lld rows behind %lld need more pages than its table has (%lld of %lld rows)", (long long)s,
        (long long)(end - first), (long long)length, (long long)p->table, (long long)p->page);
  for (int64_t i = 0; i < pages; ++i) {
    const int64_t page = tercel_tensor_get_i64(p->tables, s * p->table + i);
    if (page < 0 || page >= p->pages)
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "sequence %lld: page %lld, want 0 to %lld",
                              (long long)s, (long long)page, (long long)p->pages - 1);
  }
  return TERCEL_OK;
}

tercel_status tercel_paged_get_geometry(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                        tercel_paged *out, tercel_error *err) {
  const double scale = tercel_node_float(node, "scale");
  *out = (tercel_paged){.heads = tercel_node_int(node, "heads"),
                        .kv_heads = tercel_node_int(node, "kv_heads"),
                        .rows = in[Q]->dims[0],
                        .pages = in[KEYS]->dims[0],
                        .page = in[KEYS]->dims[1],
                        .sequences = in[LENGTHS]->dims[0],
                        .table = in[TABLES]->dims[1],
                        .window = tercel_node_int(node, "window"),
                        .softcap = tercel_node_float(node, "softcap"),
                        .firsts = in[FIRSTS],
                        .lengths = in[LENGTHS],
                        .tables = in[TABLES],
                        .keys = in[KEYS],
                        .values = in[VALUES],
                        .sinks = num_inputs > SINKS ? in[SINKS] : NULL};
  out->size = in[K]->dims[1] / out->kv_heads;
  out->value_size = in[V]->dims[1] / out->kv_heads;
  out->group = out->heads / out->kv_heads;
  out->scale = scale != 0 ? scale : 1 / sqrt((double)tercel_max_i64(out->size, 1));
  if (in[FIRSTS]->dims[0] != out->sequences + 1 || out->page < 1)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%lld firsts for %lld sequences, want one more",
                            (long long)in[FIRSTS]->dims[0], (long long)out->sequences);
  if (out->sinks != NULL && tercel_tensor_num_elements(out->sinks) != out->heads)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%lld sinks for %lld heads",
                            (long long)tercel_tensor_num_elements(out->sinks), (long long)out->heads);
  int64_t end = 0; /* the sequences share the rows out */
  for (int64_t s = 0; s < out->sequences; ++s) {
    if (tercel_tensor_get_i64(out->firsts, s) != end)
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT,
                              "sequence %lld does not begin where the one before ends", (long long)s);
    TERCEL_TRY(check_sequence(node, out, s, err));
    end = tercel_tensor_get_i64(out->firsts, s + 1);
  }
  return end == out->rows
             ? TERCEL_OK
             : tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "the sequences have %lld rows, q has %lld",
                                (long long)end, (long long)out->rows);
}

int64_t tercel_paged_row(const tercel_paged *p, int64_t sequence, int64_t row) {
  const int64_t page = tercel_tensor_get_i64(p->tables, sequence * p->table + row / p->page);
  return page * p->page + row % p->page;
}

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

typedef struct job {
  tercel_paged g;
  const tercel_tensor *q;
  tercel_tensor *y;
  float *row;     /* of the cache */
  double *scores; /* one a row of the sequence, and one of the sink */
} job;

static void write_row(const tercel_tensor *x, int64_t row, const tercel_tensor *cache, int64_t at, int64_t size) {
  const float *const from = (const float *)x->data + row * size;
  if (cache->dtype == TERCEL_DTYPE_Q8_0) {
    tercel_blocks_encode_q8_0(from, size / 32, (uint8_t *)cache->data + (size_t)(at * (size / 32)) * 34);
    return;
  }
  for (int64_t i = 0; i < size; ++i) tercel_element_set_f64(cache->data, cache->dtype, at * size + i, (double)from[i]);
}

/* `size` numbers of a head of a row. */
static void read_head(const tercel_tensor *cache, int64_t at, int64_t width, int64_t first, int64_t size, float *row,
                      double *out) {
  if (cache->dtype == TERCEL_DTYPE_Q8_0) {
    tercel_blocks_decode(cache->dtype, (const uint8_t *)cache->data + (size_t)(at * (width / 32)) * 34, width / 32,
                         row);
    for (int64_t i = 0; i < size; ++i) out[i] = (double)row[first + i];
    return;
  }
  for (int64_t i = 0; i < size; ++i) out[i] = tercel_element_get_f64(cache->data, cache->dtype, at * width + first + i);
}

/* One head of row `r` of a sequence, which is row `x` of q. */
static void attend(const job *j, int64_t s, int64_t x, int64_t r, int64_t h, double *head) {
  const tercel_paged *const g = &j->g;
  const int64_t kv = h / g->group, width = g->kv_heads * g->size, value_width = g->kv_heads * g->value_size;
  const int64_t begin = g->window > 0 ? tercel_max_i64(0, r + 1 - g->window) : 0, count = r + 1 - begin;
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    read_head(g->keys, tercel_paged_row(g, s, begin + i), width, kv * g->size, g->size, j->row, head);
    for (int64_t d = 0; d < g->size; ++d)
      sum += tercel_tensor_get_f64(j->q, (x * g->heads + h) * g->size + d) * head[d];
    sum *= g->scale;
    j->scores[i] = g->softcap > 0 ? g->softcap * tercel_f64_tanh(sum / g->softcap) : sum;
  }
  if (g->sinks != NULL) j->scores[count] = tercel_tensor_get_f64(g->sinks, h);
  tercel_softmax_in(TERCEL_DTYPE_F64, j->scores, count + (g->sinks != NULL), false);
  double *const sums = head + g->value_size;
  for (int64_t d = 0; d < g->value_size; ++d) sums[d] = 0;
  for (int64_t i = 0; i < count; ++i) {
    read_head(g->values, tercel_paged_row(g, s, begin + i), value_width, kv * g->value_size, g->value_size, j->row,
              head);
    for (int64_t d = 0; d < g->value_size; ++d) sums[d] += j->scores[i] * head[d];
  }
  for (int64_t d = 0; d < g->value_size; ++d)
    tercel_tensor_set_f64(j->y, (x * g->heads + h) * g->value_size + d, sums[d]);
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  job j = {.q = eval->in[Q], .y = eval->out[0]};
  TERCEL_TRY(tercel_paged_get_geometry(eval->node, eval->in, eval->num_inputs, &j.g, err));
  const tercel_paged *const g = &j.g;
  const int64_t most = tercel_max_i64(g->size, g->value_size);
  double *const head = tercel_arena_alloc_array(eval->scratch, (size_t)(2 * most + 1), sizeof *head);
  j.row = tercel_arena_alloc_array(eval->scratch, (size_t)(g->kv_heads * most + 1), sizeof *j.row);
  j.scores = tercel_arena_alloc_array(eval->scratch, (size_t)(g->table * g->page + 1), sizeof *j.scores);
  if (head == NULL || j.row == NULL || j.scores == NULL)
    return tercel_fail_memory(err, (size_t)(g->table * g->page) * sizeof *j.scores, "scores");
  for (int64_t s = 0; s < g->sequences; ++s) {
    const int64_t first = tercel_tensor_get_i64(g->firsts, s), end = tercel_tensor_get_i64(g->firsts, s + 1),
                  length = tercel_tensor_get_i64(g->lengths, s);
    for (int64_t x = first; x < end; ++x) {
      const int64_t at = tercel_paged_row(g, s, length + x - first);
      write_row(eval->in[K], x, g->keys, at, g->kv_heads * g->size);
      write_row(eval->in[V], x, g->values, at, g->kv_heads * g->value_size);
    }
    for (int64_t x = first; x < end; ++x)
      for (int64_t h = 0; h < g->heads; ++h) attend(&j, s, x, length + x - first, h, head);
  }
  return TERCEL_OK;
}

/* As if all pages of the tables were full. */
static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)out;
  const int64_t sequences = tercel_max_i64(in[LENGTHS]->dims[0], 1);
  const double keys = (double)in[TABLES]->dims[1] * (double)in[KEYS]->dims[1] / (double)sequences;
  const double group = (double)tercel_node_int(node, "heads") / (double)tercel_node_int(node, "kv_heads");
  return 2 * (double)in[Q]->dims[0] * keys * group * (double)(in[K]->dims[1] + in[V]->dims[1]);
}

static const tercel_attr_spec attrs[] = {
    {"heads", TERCEL_ATTR_INT, .required = true, .about = "of q"},
    {"kv_heads", TERCEL_ATTR_INT, .required = true, .about = "of k and v; heads is a multiple"},
    {"scale", TERCEL_ATTR_FLOAT, .about = "factor of q k'; 0: one over the root of a head's size"},
    {"window", TERCEL_ATTR_INT, .about = "rows that a row sees, itself included; 0: all before it"},
    {"softcap", TERCEL_ATTR_FLOAT, .about = "c: scores become c tanh(score / c); 0: they stay"},
    {0}};

const tercel_op tercel_op_paged_attention = {.name = "paged_attention",
                                             .id = TERCEL_OP_PAGED_ATTENTION,
                                             .min_inputs = 8,
                                             .max_inputs = 9,
                                             .min_outputs = 1,
                                             .max_outputs = 1,
                                             .flags = TERCEL_OP_STATEFUL,
                                             .about = "causal attention of several sequences over a cache in pages",
                                             .attrs = attrs,
                                             .infer = infer,
                                             .verify = verify,
                                             .eval = eval,
                                             .flops = flops};
