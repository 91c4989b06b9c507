/* Attention of com.microsoft: with projections, with caches of keys and values, with integer weights; rotary embeddings. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

static tercel_value *add(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return a && b ? tercel_onnx_fn2(c, TERCEL_FN_ADD, a, b) : a ? a : b;
}

static int64_t need_heads(tercel_onnx_call *c, const char *name) {
  tercel_onnx_need_attr(c, name);
  const int64_t heads = tercel_onnx_get_int(c, name, 1);
  if (heads < 1 || heads > INT32_MAX)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' is %" PRId64 ", want 1 or more", name, heads);
  return tercel_onnx_ok(c) ? heads : 1;
}

/* What no file needs at run time, only the library that wrote it. */
static void refuse_input(tercel_onnx_call *c, size_t i, const char *name) {
  if (tercel_onnx_in(c, i)) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "input %zu (%s) is not supported", i, name);
}

/* ---- masks ------------------------------------------------------------------------------------------------------------- */

/* What keys a query may not see: scores to add, and how many keys of each sequence count. */
typedef struct limits {
  tercel_value *scores, *lengths;
} limits;

/* 0 where a key is seen, else the filter. */
static tercel_value *hidden_scores(tercel_onnx_call *c, tercel_value *seen, tercel_value *q, double filter) {
  const tercel_dtype dtype = tercel_onnx_dtype_of(q);
  return tercel_onnx_fn3(c, TERCEL_FN_SELECT, seen, tercel_onnx_scalar(c, dtype, 0),
                         tercel_onnx_scalar(c, dtype, filter));
}

/* Keys before the start of each sequence (starts: N) are hidden: bool N,1,1,T. */
static tercel_value *from_start(tercel_onnx_call *c, tercel_value *starts, tercel_value *num_keys) {
  static const int64_t behind[] = {1, 2, 3};
  tercel_value *const keys =
      tercel_onnx_op(c, &tercel_op_range, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 0),
                     tercel_onnx_reshape_to(c, num_keys, NULL, 0), tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 1));
  return tercel_onnx_fn2(c, TERCEL_FN_GREATER_EQUAL, keys, tercel_onnx_unsqueeze(c, starts, behind, 3));
}

/* mask: of 0 and 1 for N,T or N,S,T (hidden keys get `mask_filter_value` added); or the end of each sequence; or all ends, then all starts. */
static limits read_mask(tercel_onnx_call *c, tercel_value *mask, tercel_value *q, tercel_value *num_keys) {
  const double filter = tercel_onnx_get_float(c, "mask_filter_value", -10000);
  if (!mask) return (limits){0};
  const int rank = tercel_onnx_rank(c, mask);
  const int64_t count = tercel_onnx_dim_of(c, mask, 0), batch = tercel_onnx_dim_of(c, q, 0);
  if (rank == 1 && count >= 0 && batch > 0 && count == 2 * batch) {
    tercel_value *const places = tercel_onnx_cast(c, mask, TERCEL_DTYPE_I64);
    return (limits){
        .scores = hidden_scores(c, from_start(c, tercel_onnx_slice(c, places, 0, batch, count), num_keys), q, filter),
        .lengths = tercel_onnx_slice(c, places, 0, 0, batch)};
  }
  if (rank == 1 && count >= 0 && batch >= 0 && count != batch)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a mask of %" PRId64 " numbers for %" PRId64 " sequences", count, batch);
  if (rank == 1) return (limits){.lengths = tercel_onnx_cast(c, mask, TERCEL_DTYPE_I64)};
  if (tercel_onnx_ok(c) && rank != 2 && rank != 3) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a mask of rank %d", rank);
  tercel_value *const scores = hidden_scores(c, tercel_onnx_cast(c, mask, TERCEL_DTYPE_BOOL), q, filter);
  static const int64_t axes[] = {1, 2};
  return (limits){.scores = tercel_onnx_unsqueeze(c, scores, axes, rank == 2 ? 2 : 1)};
}

/* ---- attention over known parts ---------------------------------------------------------------------------------------- */

typedef struct parts {
  tercel_value *q, *k, *v;
} parts;

/* Sizes q, k, v of the last dim, one after the other. */
static parts split3(tercel_onnx_call *c, tercel_value *x, int64_t q, int64_t k, int64_t v) {
  const int rank = tercel_onnx_rank(c, x);
  return (parts){tercel_onnx_slice(c, x, rank - 1, 0, q), tercel_onnx_slice(c, x, rank - 1, q, q + k),
                 tercel_onnx_slice(c, x, rank - 1, q + k, q + k + v)};
}

/* Old keys (or values), then new ones: N,H,T,D. */
static tercel_value *behind(tercel_onnx_call *c, tercel_value *past, tercel_value *now, int64_t heads) {
  tercel_value *const list[] = {past, tercel_onnx_by_heads(c, now, heads)};
  return past ? tercel_onnx_concat(c, list, 2, 2) : list[1];
}

static tercel_value *attend(tercel_onnx_call *c, const parts *p, int64_t heads, const limits *l, tercel_value *place) {
  const bool causal = tercel_onnx_get_flag(c, "unidirectional", false);
  const double scale = tercel_onnx_get_float(c, "scale", 0);
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_attention, 1, p->q, p->k, p->v, l->scores, causal ? place : NULL, l->lengths);
  tercel_onnx_set_int(c, n, "heads", heads);
  tercel_onnx_set_int(c, n, "kv_heads", heads);
  if (scale != 0) tercel_onnx_set_float(c, n, "scale", scale);
  tercel_onnx_set_int(c, n, "causal", causal);
  return tercel_onnx_end(c, n);
}

/* Part i of N,S,H,parts,D as N,S,H*D. */
static tercel_value *part_of(tercel_onnx_call *c, tercel_value *x, int64_t i) {
  static const int64_t rows[] = {0, 0, -1};
  return tercel_onnx_reshape_to(c, tercel_onnx_slice(c, x, 3, i, i + 1), rows, 3);
}

/* All three may come in one input, [N,S,H,3,D], or keys and values in one, [N,T,H,2,D]. */
static parts unpacked(tercel_onnx_call *c, parts p) {
  const int q_rank = tercel_onnx_rank(c, p.q), k_rank = p.k ? tercel_onnx_rank(c, p.k) : 0;
  if (q_rank == 5 && !p.k && !p.v && tercel_onnx_dim_of(c, p.q, 3) == 3)
    return (parts){part_of(c, p.q, 0), part_of(c, p.q, 1), part_of(c, p.q, 2)};
  if (q_rank == 3 && k_rank == 5 && !p.v && tercel_onnx_dim_of(c, p.k, 3) == 2)
    return (parts){p.q, part_of(c, p.k, 0), part_of(c, p.k, 1)};
  if (tercel_onnx_ok(c) && (q_rank != 3 || !p.k || !p.v))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "query of rank %d, key of rank %d%s", q_rank, k_rank,
                     p.v ? "" : ", no value");
  return p;
}

/* q, k, v (see above, or k and v by heads), bias, mask, scores to add, past k, past v.  Outputs y, k and v of all times. */
void tercel_onnx_build_multi_head_attention(tercel_onnx_call *c) {
  const int64_t heads = need_heads(c, "num_heads");
  tercel_value *const bias = tercel_onnx_in(c, 3), *const past_k = tercel_onnx_in(c, 6),
                      *const past_v = tercel_onnx_in(c, 7);
  parts p = {tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2)};
  refuse_input(c, 8, "past_sequence_length");
  refuse_input(c, 9, "cache_indirection");
  p = unpacked(c, p);
  if (!past_k != !past_v) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "past_key and past_value need each other");
  const int k_rank = tercel_onnx_rank(c, p.k);
  if (bias && tercel_onnx_ok(c)) {
    const int64_t q_size = tercel_onnx_dim_of(c, p.q, 2), all = tercel_onnx_dim_of(c, bias, 0);
    if (q_size < 0 || all < 2 * q_size) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a bias of %" PRId64 " numbers", all);
    const parts b = split3(c, bias, q_size, q_size, all - 2 * q_size);
    p.q = add(c, p.q, b.q);
    if (k_rank == 3) p.k = add(c, p.k, b.k), p.v = add(c, p.v, b.v);
  }
  tercel_value *const old = past_k ? tercel_onnx_dim_value(c, past_k, 2) : NULL;
  limits l = read_mask(c, tercel_onnx_in(c, 4), p.q, add(c, old, tercel_onnx_dim_value(c, p.k, k_rank == 3 ? 1 : 2)));
  l.scores = add(c, l.scores, tercel_onnx_in(c, 5));
  if (past_k || tercel_onnx_wants_output(c, 1) || tercel_onnx_wants_output(c, 2)) {
    p.k = behind(c, past_k, p.k, heads);
    p.v = behind(c, past_v, p.v, heads);
    tercel_onnx_return(c, 1, p.k);
    tercel_onnx_return(c, 2, p.v);
  }
  tercel_onnx_return(c, 0, attend(c, &p, heads, &l, old));
}

/* One of both halves of a cache [2, N, H, T, D]. */
static tercel_value *half(tercel_onnx_call *c, tercel_value *cache, int64_t which) {
  if (!cache) return NULL;
  return tercel_onnx_op(c, &tercel_op_gather, cache, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)which));
}

/* qkv: the three projections, one after the other in the last dim.  Outputs y, keys and values of all times as one cache. */
static void attention_of(tercel_onnx_call *c, tercel_value *qkv, tercel_value *mask, tercel_value *past,
                         tercel_value *scores) {
  const int64_t heads = need_heads(c, "num_heads");
  size_t count;
  const int64_t *const given = tercel_onnx_get_ints(c, "qkv_hidden_sizes", &count);
  const int64_t all = tercel_onnx_dim_of(c, qkv, -1);
  int64_t sizes[3] = {all / 3, all / 3, all / 3};
  if (tercel_onnx_get_flag(c, "do_rotary", false) || tercel_onnx_get_flag(c, "past_present_share_buffer", false))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attributes 'do_rotary' and 'past_present_share_buffer' are not supported");
  if (given && count != 3) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'qkv_hidden_sizes' has %zu", count);
  for (size_t i = 0; given && count == 3 && i < 3; i++) sizes[i] = given[i];
  if (tercel_onnx_ok(c) && (all < 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 || sizes[0] > all ||
                            sizes[1] > all || sizes[0] + sizes[1] + sizes[2] != all))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "projections of %" PRId64 " numbers", all);
  parts p = split3(c, qkv, sizes[0], sizes[1], sizes[2]);
  tercel_value *const old = past ? tercel_onnx_dim_value(c, past, 3) : NULL;
  limits l = read_mask(c, mask, qkv, add(c, old, tercel_onnx_dim_value(c, qkv, 1)));
  l.scores = add(c, l.scores, scores);
  if (past || tercel_onnx_wants_output(c, 1)) {
    static const int64_t front[] = {0};
    p.k = behind(c, half(c, past, 0), p.k, heads);
    p.v = behind(c, half(c, past, 1), p.v, heads);
    tercel_value *const both[] = {tercel_onnx_unsqueeze(c, p.k, front, 1), tercel_onnx_unsqueeze(c, p.v, front, 1)};
    if (tercel_onnx_wants_output(c, 1)) tercel_onnx_return(c, 1, tercel_onnx_concat(c, both, 2, 0));
  }
  tercel_onnx_return(c, 0, attend(c, &p, heads, &l, old));
}

/* x, weights, [bias], [mask], [past], [scores to add] */
void tercel_onnx_build_ms_attention(tercel_onnx_call *c) {
  refuse_input(c, 6, "past_sequence_length");
  tercel_value *const product = tercel_onnx_op(c, &tercel_op_matmul, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  attention_of(c, add(c, product, tercel_onnx_in(c, 2)), tercel_onnx_in(c, 3), tercel_onnx_in(c, 4),
               tercel_onnx_in(c, 5));
}

/* x, weights, bias, x scale, weights' scale, [mask], [x zero], [weights' zero], [past]: the projections are products of integers. */
void tercel_onnx_build_qattention(tercel_onnx_call *c) {
  tercel_value *const sums = tercel_onnx_quantized_product(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 6),
                                                           tercel_onnx_in(c, 1), tercel_onnx_in(c, 7));
  tercel_value *const scale = tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_in(c, 3), tercel_onnx_in(c, 4));
  tercel_value *const product =
      tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_cast(c, sums, tercel_onnx_dtype_of(scale)), scale);
  attention_of(c, add(c, product, tercel_onnx_in(c, 2)), tercel_onnx_in(c, 5), tercel_onnx_in(c, 8), NULL);
}

/* ---- rotary embeddings ------------------------------------------------------------------------------------------------- */

/* start[n] + 0, 1, ...: places of the tokens, [N, S]; start: [N], or [1] for all of them alike. */
static tercel_value *places_from(tercel_onnx_call *c, tercel_value *start, tercel_value *batch, tercel_value *length) {
  static const int64_t last[] = {1};
  tercel_value *const steps =
      tercel_onnx_op(c, &tercel_op_range, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 0),
                     tercel_onnx_reshape_to(c, length, NULL, 0), tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 1));
  tercel_value *const places = tercel_onnx_fn2(c, TERCEL_FN_ADD, tercel_onnx_unsqueeze(c, start, last, 1), steps);
  tercel_value *const shape[] = {batch, length};
  return tercel_onnx_op(c, &tercel_op_expand, places, tercel_onnx_concat(c, shape, 2, 0));
}

static tercel_value *rotate(tercel_onnx_call *c, tercel_value *x, tercel_value *cos, tercel_value *sin,
                            tercel_value *places, int64_t heads, int64_t dims, bool interleaved) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_rotary, 1, x, cos, sin, places);
  if (tercel_onnx_rank(c, x) == 3) tercel_onnx_set_int(c, n, "heads", heads);
  tercel_onnx_set_int(c, n, "dims", dims);
  tercel_onnx_set_int(c, n, "interleaved", interleaved);
  return tercel_onnx_end(c, n);
}

/* x, places (one: of the first token), cos, sin.  Without the number of heads all of a head is turned. */
void tercel_onnx_build_ms_rotary_embedding(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const cos = tercel_onnx_in(c, 2);
  tercel_value *places = tercel_onnx_in(c, 1);
  const bool packed = tercel_onnx_rank(c, x) == 3;
  int64_t heads = tercel_onnx_get_int(c, "num_heads", 0);
  const int64_t width = tercel_onnx_dim_of(c, x, 2), turned = tercel_onnx_times(c, 2, tercel_onnx_dim_of(c, cos, 1));
  if (tercel_onnx_get_float(c, "scale", 1) != 1 || tercel_onnx_get_flag(c, "is_packed_batching", false))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attributes 'scale' and 'is_packed_batching' are not supported");
  if (packed && heads == 0 && width > 0 && turned > 0) heads = width / turned;
  if (tercel_onnx_rank(c, places) == 1)
    places = places_from(c, places, tercel_onnx_dim_value(c, x, 0), tercel_onnx_dim_value(c, x, packed ? 1 : 2));
  tercel_onnx_return(c, 0,
                     rotate(c, x, cos, tercel_onnx_in(c, 3), places, heads,
                            tercel_onnx_get_int(c, "rotary_embedding_dim", 0),
                            tercel_onnx_get_flag(c, "interleaved", false)));
}

/* ---- grouped queries with a cache -------------------------------------------------------------------------------------- */

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LAST_PLACES,
  TOTAL_LENGTH,
  COS,
  SIN,
  POSITIONS,
  BIAS,
  SINKS,
  KEY_SCALE,
  VALUE_SCALE,
  QUERY_NORM,
  KEY_NORM,
  QUERY_LENGTHS
};

typedef struct grouped {
  int64_t heads, kv_heads;
  tercel_value *start;   /* [N]: where the new tokens begin */
  tercel_value *lengths; /* [N]: tokens that count, new ones too */
  tercel_value *total;   /* [1]: of the longest */
} grouped;

static tercel_value *as_list(tercel_onnx_call *c, tercel_value *v) {
  static const int64_t flat[] = {-1};
  return tercel_onnx_reshape_to(c, tercel_onnx_cast(c, v, TERCEL_DTYPE_I64), flat, 1);
}

/* A sequence shorter than the new tokens is filled up behind its own (the first run): its tokens begin at 0. */
static grouped read_grouped(tercel_onnx_call *c, tercel_value *q) {
  grouped g = {need_heads(c, "num_heads"), need_heads(c, "kv_num_heads"), NULL, NULL, NULL};
  g.lengths = tercel_onnx_fn_number(c, TERCEL_FN_ADD, as_list(c, tercel_onnx_in(c, LAST_PLACES)), 1);
  g.total = as_list(c, tercel_onnx_in(c, TOTAL_LENGTH));
  tercel_value *const before = tercel_onnx_fn2(c, TERCEL_FN_SUB, g.lengths, tercel_onnx_dim_value(c, q, 1));
  g.start = tercel_onnx_fn_number(c, TERCEL_FN_MAX, before, 0);
  return g;
}

/* The query alone, or query, key and value one after the other. */
static parts grouped_parts(tercel_onnx_call *c, const grouped *g) {
  parts p = {tercel_onnx_in(c, QUERY), tercel_onnx_in(c, KEY), tercel_onnx_in(c, VALUE)};
  if (tercel_onnx_ok(c) && tercel_onnx_rank(c, p.q) != 3)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "query of rank %d, want 3", tercel_onnx_rank(c, p.q));
  if (p.k || !tercel_onnx_ok(c)) return p;
  const int64_t all = tercel_onnx_dim_of(c, p.q, 2), size = all / (g->heads + 2 * g->kv_heads);
  if (size < 1) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "packed query, key and value of %" PRId64 " numbers", all);
  return split3(c, p.q, g->heads * size, g->kv_heads * size, g->kv_heads * size);
}

/* The cache with room for all tokens and the new ones written into it: N,G,T,D. */
static tercel_value *updated(tercel_onnx_call *c, const grouped *g, tercel_value *past, tercel_value *now) {
  static const int64_t axis[] = {2};
  tercel_value *const rows = tercel_onnx_by_heads(c, now, g->kv_heads);
  if (!past) return rows;
  tercel_value *const room = tercel_onnx_fn2(c, TERCEL_FN_SUB, g->total, tercel_onnx_dim_value(c, past, 2));
  tercel_value *const pads[] = {tercel_onnx_i64(c, 0), tercel_onnx_fn_number(c, TERCEL_FN_MAX, room, 0)};
  tercel_value *const cache =
      tercel_onnx_op(c, &tercel_op_pad, past, tercel_onnx_concat(c, pads, 2, 0), NULL, tercel_onnx_i64s(c, axis, 1));
  return tercel_onnx_op(c, &tercel_op_tensor_scatter, cache, rows, g->start);
}

static void turn(tercel_onnx_call *c, const grouped *g, parts *p) {
  const bool wanted = tercel_onnx_get_flag(c, "do_rotary", false),
             interleaved = tercel_onnx_get_flag(c, "rotary_interleaved", false);
  if (!wanted) return;
  tercel_value *const cos = tercel_onnx_in(c, COS), *const sin = tercel_onnx_in(c, SIN);
  if (!cos || !sin)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'do_rotary' wants inputs cos_cache and sin_cache");
  tercel_value *const places =
      tercel_onnx_in(c, POSITIONS)
          ? tercel_onnx_in(c, POSITIONS)
          : places_from(c, g->start, tercel_onnx_dim_value(c, p->q, 0), tercel_onnx_dim_value(c, p->q, 1));
  p->q = rotate(c, p->q, cos, sin, places, g->heads, 0, interleaved);
  p->k = rotate(c, p->k, cos, sin, places, g->kv_heads, 0, interleaved);
}

/* Each head's row over its root mean square, times the weight [D]. */
static tercel_value *norm_heads(tercel_onnx_call *c, tercel_value *x, int64_t heads, size_t weight,
                                const char *epsilon) {
  if (!tercel_onnx_in(c, weight)) return x;
  const int64_t by_head[] = {0, 0, heads, -1}, rows[] = {0, 0, -1};
  const double shared = tercel_onnx_get_float(c, "qk_norm_epsilon", 1e-6f);
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_rms_norm, 1, tercel_onnx_reshape_to(c, x, by_head, 4), tercel_onnx_in(c, weight));
  tercel_onnx_set_float(c, n, "epsilon", tercel_onnx_get_float(c, epsilon, shared));
  tercel_onnx_set_int(c, n, "axis", -1);
  return tercel_onnx_reshape_to(c, tercel_onnx_end(c, n), rows, 3);
}

/* Scores that go to no value: one a head, or 0 for all of them. */
static tercel_value *sinks_of(tercel_onnx_call *c, const grouped *g, tercel_value *q) {
  tercel_value *const given = tercel_onnx_in(c, SINKS);
  if (given || tercel_onnx_get_int(c, "smooth_softmax", 0) <= 0) return given;
  return tercel_onnx_fill(c, tercel_onnx_scalar_like(c, q, 0), tercel_onnx_i64(c, g->heads));
}

/* Keys and values of 8 or 4 bits, and windows that move along. */
static void refuse_caches(tercel_onnx_call *c) {
  static const char *const types[] = {"k_quant_type", "v_quant_type"};
  for (size_t i = 0; i < 2; i++)
    if (strcmp(tercel_onnx_get_text(c, types[i], "NONE"), "NONE") != 0)
      tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute '%s' other than NONE is not supported", types[i]);
  if (tercel_onnx_get_flag(c, "sliding_window_cache", false) || tercel_onnx_get_flag(c, "qk_output", false))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attributes 'sliding_window_cache' and 'qk_output' are not supported");
  tercel_onnx_ignore_attr(c, "kv_cache_bit_width");
  refuse_input(c, KEY_SCALE, "k_scale");
  refuse_input(c, VALUE_SCALE, "v_scale");
  refuse_input(c, QUERY_LENGTHS, "query_seqlens");
}

void tercel_onnx_build_group_query_attention(tercel_onnx_call *c) {
  const grouped g = read_grouped(c, tercel_onnx_in(c, QUERY));
  parts p = grouped_parts(c, &g);
  refuse_caches(c);
  p.q = norm_heads(c, p.q, g.heads, QUERY_NORM, "q_norm_epsilon");
  p.k = norm_heads(c, p.k, g.kv_heads, KEY_NORM, "k_norm_epsilon");
  turn(c, &g, &p);
  p.k = updated(c, &g, tercel_onnx_in(c, PAST_KEY), p.k);
  p.v = updated(c, &g, tercel_onnx_in(c, PAST_VALUE), p.v);
  tercel_onnx_return(c, 1, p.k);
  tercel_onnx_return(c, 2, p.v);
  const double scale = tercel_onnx_get_float(c, "scale", 0);
  const int64_t window = tercel_onnx_get_int(c, "local_window_size", -1);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_attention, 1, p.q, p.k, p.v, tercel_onnx_in(c, BIAS), g.start,
                                           g.lengths, sinks_of(c, &g, p.q));
  tercel_onnx_set_int(c, n, "heads", g.heads);
  tercel_onnx_set_int(c, n, "kv_heads", g.kv_heads);
  tercel_onnx_set_int(c, n, "causal", tercel_onnx_get_flag(c, "causal", true));
  tercel_onnx_set_int(c, n, "left", window > 0 ? window - 1 : -1);
  tercel_onnx_copy_float(c, n, "softcap");
  if (scale != 0) tercel_onnx_set_float(c, n, "scale", scale);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
