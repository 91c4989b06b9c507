/* Attention and what stands around it: rotary embeddings, caches, linear attention, causal convolution. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

/* ---- Attention ------------------------------------------------------------------------------------------------------- */

tercel_value *tercel_onnx_by_heads(tercel_onnx_call *c, tercel_value *x, int64_t heads) {
  if (tercel_onnx_rank(c, x) != 3) return x;
  if (heads < 1) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "operands of rank 3 need the number of their heads");
  const int64_t shape[] = {0, 0, heads, -1}, perm[] = {0, 2, 1, 3};
  return tercel_onnx_transpose(c, tercel_onnx_reshape_to(c, x, shape, 4), perm, 4);
}

/* Keys or values of all times: the old ones, then the new ones. */
static tercel_value *present(tercel_onnx_call *c, tercel_value *past, tercel_value *now, int64_t heads) {
  tercel_value *const parts[] = {past, tercel_onnx_by_heads(c, now, heads)};
  return past ? tercel_onnx_concat(c, parts, 2, 2) : parts[1];
}

/* The place of the first query among the keys; NULL: 0. */
static tercel_value *first_place(tercel_onnx_call *c, tercel_value *q, tercel_value *past, tercel_value *lengths) {
  if (past) return tercel_onnx_dim_value(c, past, 2);
  if (!lengths) return NULL;
  return tercel_onnx_fn2(c, TERCEL_FN_SUB, lengths, tercel_onnx_dim_value(c, q, -2 + (tercel_onnx_rank(c, q) == 3)));
}

static void copy_heads(tercel_onnx_call *c, tercel_node *n, const char *name, const char *to) {
  if (tercel_onnx_has_attr(c, name)) tercel_onnx_set_int(c, n, to, tercel_onnx_get_int(c, name, 0));
}

static void set_scores(tercel_onnx_call *c, tercel_node *n) {
  static const char *const kinds[] = {"raw", "capped", "biased", "softmax"};
  const int64_t mode = tercel_onnx_get_int(c, "qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'qk_matmul_output_mode' is %" PRId64 ", want 0 to 3", mode);
  else
    tercel_onnx_set_text(c, n, "scores", kinds[mode]);
}

/* Integers are added to the scores as the numbers that they are. */
static tercel_value *mask_of(tercel_onnx_call *c, const tercel_value *q) {
  tercel_value *const mask = tercel_onnx_in(c, 3);
  const bool is_integer = mask && tercel_dtype_is_integer(tercel_onnx_dtype_of(mask));
  return is_integer ? tercel_onnx_cast(c, mask, tercel_onnx_dtype_of(q)) : mask;
}

void tercel_onnx_build_attention(tercel_onnx_call *c) {
  tercel_value *const q = tercel_onnx_in(c, 0), *const past_k = tercel_onnx_in(c, 4),
                      *const past_v = tercel_onnx_in(c, 5);
  tercel_value *k = tercel_onnx_in(c, 1), *v = tercel_onnx_in(c, 2), *const lengths = tercel_onnx_in(c, 6);
  if (!past_k != !past_v) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "past_key and past_value need each other");
  if (past_k && lengths) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "nonpad_kv_seqlen beside past_key");
  const int64_t kv_heads = tercel_onnx_get_int(c, "kv_num_heads", 0);
  const bool wants_present = tercel_onnx_wants_output(c, 1) || tercel_onnx_wants_output(c, 2);
  if (past_k || wants_present) {
    k = present(c, past_k, k, kv_heads);
    v = present(c, past_v, v, kv_heads);
    tercel_onnx_return(c, 1, k);
    tercel_onnx_return(c, 2, v);
  }
  const bool causal = tercel_onnx_get_flag(c, "is_causal", false);
  const int64_t left = c->version >= 25 ? tercel_onnx_get_int(c, "left_window_size", -1) : -1;
  const int64_t right = c->version >= 25 ? tercel_onnx_get_int(c, "right_window_size", -1) : -1;
  const bool by_place = causal || left >= 0 || right >= 0;
  tercel_value *const place = by_place ? first_place(c, q, past_k, lengths) : NULL;
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_attention, tercel_onnx_wants_output(c, 3) ? 2 : 1, q, k, v,
                                           mask_of(c, q), place, lengths);
  copy_heads(c, n, "q_num_heads", "heads");
  copy_heads(c, n, "kv_num_heads", "kv_heads");
  tercel_onnx_copy_float(c, n, "scale");
  tercel_onnx_copy_float(c, n, "softcap");
  tercel_onnx_set_int(c, n, "causal", causal);
  tercel_onnx_set_int(c, n, "left", left);
  tercel_onnx_set_int(c, n, "right", right);
  if (tercel_onnx_has_attr(c, "softmax_precision"))
    tercel_onnx_set_dtype(c, n, "precision", tercel_onnx_get_dtype(c, "softmax_precision", TERCEL_DTYPE_F32));
  set_scores(c, n);
  tercel_value *const y = tercel_onnx_end(c, n);
  if (tercel_onnx_ok(c) && tercel_onnx_rank(c, q) == 4 && tercel_onnx_rank(c, tercel_onnx_in(c, 2)) == 4) {
    tercel_shape shape = q->type.shape; /* of the names for the values' head size, that of the new ones */
    shape.dims[3] = tercel_onnx_in(c, 2)->type.shape.dims[3];
    tercel_onnx_shaped(c, y, &shape);
  }
  tercel_onnx_return(c, 0, y);
  if (tercel_onnx_ok(c) && tercel_onnx_wants_output(c, 3)) tercel_onnx_return(c, 3, tercel_node_output(n, 1));
}

/* ---- FlexAttention --------------------------------------------------------------------------------------------------- */

/* The scores or probabilities as the node's subgraph of that name changes them. */
static tercel_value *changed(tercel_onnx_call *c, const char *name, tercel_value *x) {
  if (!tercel_onnx_has_attr(c, name)) return x;
  const tercel_onnx_graph *const graph = tercel_onnx_get_graph(c, name);
  tercel_value *result = NULL;
  if (tercel_onnx_ok(c)) keep(c, tercel_onnx_inline_graph(c->import, c->scope, graph, &x, 1, &result, 1, c->err));
  if (result == TERCEL_ONNX_POISON) c->poisoned = true;
  return tercel_onnx_ok(c) && !c->poisoned ? result : NULL;
}

/* Key or value heads repeated, so that each query head has its own. */
static tercel_value *repeat_heads(tercel_onnx_call *c, tercel_value *q, tercel_value *x) {
  if (!tercel_onnx_ok(c) || q->type.shape.dims[1] == x->type.shape.dims[1]) return x;
  const int64_t heads = tercel_onnx_dim_of(c, q, 1), own = tercel_onnx_dim_of(c, x, 1), axis = 2;
  const bool known = heads >= 0 && own >= 0;
  if (known && (own == 0 || heads % own != 0)) {
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%" PRId64 " query heads over %" PRId64 " key or value heads", heads,
                     own);
    return NULL;
  }
  tercel_value *const all = tercel_onnx_dim_value(c, q, 1), *const one = tercel_onnx_i64(c, 1);
  tercel_value *const times =
      known ? tercel_onnx_i64(c, heads / own) : tercel_onnx_fn2(c, TERCEL_FN_DIV, all, tercel_onnx_dim_value(c, x, 1));
  tercel_value *const repeats[] = {one, one, times, one, one};
  tercel_value *const wide =
      tercel_onnx_op(c, &tercel_op_expand, tercel_onnx_unsqueeze(c, x, &axis, 1), tercel_onnx_concat(c, repeats, 5, 0));
  tercel_value *const parts[] = {tercel_onnx_dim_value(c, x, 0), all, tercel_onnx_dim_value(c, x, 2),
                                 tercel_onnx_dim_value(c, x, 3)};
  return tercel_onnx_reshape(c, wide, tercel_onnx_concat(c, parts, 4, 0));
}

/* x times the root of the scale, which is the attribute or 1 / sqrt(head size). */
static tercel_value *times_root(tercel_onnx_call *c, tercel_value *x, tercel_value *scale) {
  tercel_value *const root = tercel_onnx_fn1(c, TERCEL_FN_SQRT, scale);
  return tercel_onnx_fn2(c, TERCEL_FN_MUL, x, tercel_onnx_cast(c, root, tercel_onnx_dtype_of(x)));
}

static tercel_value *scale_of(tercel_onnx_call *c, tercel_value *q) {
  if (tercel_onnx_has_attr(c, "scale"))
    return tercel_onnx_scalar(c, TERCEL_DTYPE_F32, tercel_onnx_get_float(c, "scale", 1));
  tercel_value *const size = tercel_onnx_cast(c, tercel_onnx_dim_value(c, q, 3), TERCEL_DTYPE_F32);
  return tercel_onnx_fn1(c, TERCEL_FN_RSQRT, size);
}

/* The two products and the softmax between them one by one: subgraphs may change what comes out of each. */
void tercel_onnx_build_flex_attention(tercel_onnx_call *c) {
  tercel_value *const q = tercel_onnx_in(c, 0), *const k = tercel_onnx_in(c, 1), *const v = tercel_onnx_in(c, 2);
  for (size_t i = 0; i < 3; i++)
    if (tercel_onnx_ok(c) && tercel_onnx_rank(c, tercel_onnx_in(c, i)) != 4)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input %zu has rank %d, want 4", i,
                       tercel_onnx_rank(c, tercel_onnx_in(c, i)));
  const tercel_dtype own = tercel_onnx_dtype_of(q) == TERCEL_DTYPE_F64 ? TERCEL_DTYPE_F64 : TERCEL_DTYPE_F32;
  const tercel_dtype precision = tercel_onnx_get_dtype(c, "softmax_precision", own);
  tercel_value *const scale = scale_of(c, q);
  tercel_node *const product =
      tercel_onnx_begin(c, &tercel_op_matmul, 1, times_root(c, q, scale), times_root(c, repeat_heads(c, q, k), scale));
  tercel_onnx_set_int(c, product, "trans_b", 1);
  tercel_value *const scores = changed(c, "score_mod", tercel_onnx_cast(c, tercel_onnx_end(c, product), precision));
  if (c->poisoned) return;
  tercel_value *const shares = changed(c, "prob_mod", tercel_onnx_op(c, &tercel_op_softmax, scores));
  if (c->poisoned) return;
  tercel_value *const values = tercel_onnx_cast(c, repeat_heads(c, q, v), precision);
  tercel_value *const y = tercel_onnx_op(c, &tercel_op_matmul, shares, values);
  if (!tercel_onnx_ok(c)) return;
  tercel_shape shape = q->type.shape; /* batches and heads can't broadcast */
  shape.dims[3] = v->type.shape.dims[3];
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, tercel_onnx_shaped(c, y, &shape), tercel_onnx_dtype_of(v)));
}

/* ---- around attention ------------------------------------------------------------------------------------------------ */

void tercel_onnx_build_rotary_embedding(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_rotary, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 2), tercel_onnx_in(c, 3));
  copy_heads(c, n, "num_heads", "heads");
  tercel_onnx_set_int(c, n, "dims", tercel_onnx_get_int(c, "rotary_embedding_dim", 0));
  tercel_onnx_set_int(c, n, "interleaved", tercel_onnx_get_flag(c, "interleaved", false));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_tensor_scatter(tercel_onnx_call *c) {
  const char *const mode = tercel_onnx_get_text(c, "mode", "linear");
  const bool circular = strcmp(mode, "circular") == 0;
  if (!circular && strcmp(mode, "linear") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'mode' is '%s', want linear or circular", mode);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_tensor_scatter, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1),
                                           tercel_onnx_in(c, 2));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_set_int(c, n, "circular", circular);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* The rule says which of the optional inputs there must be. */
static void check_rule(tercel_onnx_call *c) {
  static const struct {
    const char *name;
    bool decay, beta;
  } rules[] = {{"linear", false, false}, {"gated", true, false}, {"delta", false, true}, {"gated_delta", true, true}};
  const char *const rule = tercel_onnx_get_text(c, "update_rule", "gated_delta");
  const bool decay = tercel_onnx_in(c, 4) != NULL, beta = tercel_onnx_in(c, 5) != NULL;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (strcmp(rules[i].name, rule) != 0) continue;
    if (rules[i].decay != decay || rules[i].beta != beta)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "update rule '%s' wants %s decay and %s beta", rule,
                       rules[i].decay ? "a" : "no", rules[i].beta ? "a" : "no");
    return;
  }
  tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'update_rule' is '%s', want linear, gated, delta or gated_delta",
                   rule);
}

void tercel_onnx_build_linear_attention(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "q_num_heads");
  tercel_onnx_need_attr(c, "kv_num_heads");
  tercel_onnx_ignore_attr(c, "chunk_size"); /* how to compute it, not what */
  check_rule(c);
  const double scale = tercel_onnx_get_float(c, "scale", 0);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_linear_attention, tercel_onnx_wants_output(c, 1) ? 2 : 1,
                                           tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2),
                                           tercel_onnx_in(c, 3), tercel_onnx_in(c, 4), tercel_onnx_in(c, 5));
  copy_heads(c, n, "q_num_heads", "heads");
  copy_heads(c, n, "kv_num_heads", "kv_heads");
  if (scale != 0) tercel_onnx_set_float(c, n, "scale", scale);
  tercel_onnx_return_all(c, n);
  if (!tercel_onnx_ok(c) || !tercel_node_output(n, 1) || !tercel_onnx_in(c, 3)) return;
  tercel_shape state =
      tercel_onnx_in(c, 3)->type.shape; /* keeps its shape; batches are called as those of the queries */
  if (state.rank == 4 && tercel_onnx_in(c, 0)->type.shape.rank > 0)
    state.dims[0] = tercel_onnx_in(c, 0)->type.shape.dims[0];
  tercel_onnx_shaped(c, tercel_node_output(n, 1), &state);
}

/* A convolution of each channel over itself and the k - 1 positions before, which are kept for the next call. */
void tercel_onnx_build_causal_conv(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const w = tercel_onnx_in(c, 1), *past = tercel_onnx_in(c, 3);
  const char *const activation = tercel_onnx_get_text(c, "activation", "none");
  const bool silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
  if (!silu && strcmp(activation, "none") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'activation' is '%s', want none, silu or swish", activation);
  if (tercel_onnx_ok(c) && (tercel_onnx_rank(c, x) != 3 || tercel_onnx_rank(c, w) != 3))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input and weight of ranks %d and %d, want 3", tercel_onnx_rank(c, x),
                     tercel_onnx_rank(c, w));
  const int64_t channels = tercel_onnx_dim_of(c, w, 0), kernel = tercel_onnx_dim_of(c, w, 2);
  if (tercel_onnx_ok(c) && (channels < 1 || kernel < 1))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a weight whose channels and kernel are not known before the run");
  if (!past) {
    tercel_value *const parts[] = {tercel_onnx_dim_value(c, x, 0), tercel_onnx_i64(c, channels),
                                   tercel_onnx_i64(c, kernel - 1)};
    past = tercel_onnx_fill(c, tercel_onnx_scalar_like(c, x, 0), tercel_onnx_concat(c, parts, 3, 0));
  }
  tercel_value *const all = tercel_onnx_concat(c, (tercel_value *const[]){past, x}, 2, 2);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_conv, 1, all, w, tercel_onnx_in(c, 2));
  tercel_onnx_set_int(c, n, "group", channels);
  tercel_value *const y = tercel_onnx_end(c, n);
  tercel_onnx_return(c, 0, silu ? tercel_onnx_fn_with(c, TERCEL_FN_SILU, y, 1, 0) : y);
  if (!tercel_onnx_wants_output(c, 1)) return;
  /* The last k - 1 positions; none of them for a kernel of 1. */
  const int64_t none = kernel == 1;
  tercel_onnx_return(c, 1, tercel_onnx_slice(c, all, 2, none ? 0 : 1 - kernel, none ? 0 : INT64_MAX));
}
