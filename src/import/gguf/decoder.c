/* The builder of decoders.  Order of operations as llama.cpp's graphs have it, so that its logits are the reference. */
#include "import/gguf/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  PAGE_ROWS = 32, /* of the cache */
  MAX_LAYERS = 1 << 12,
  MAX_WIDTH = 1 << 20,
  MAX_HEADS = 1 << 14,
  MAX_CONTEXT = 1 << 30
};

/* A decoder in work. */
typedef struct work {
  tercel_gguf_builder *b;
  tercel_gguf_decoder d;
  tercel_value *positions, *firsts, *lengths, *tables;
  tercel_value *cosines[2],
      *sines[2]; /* of layers that see all; of those with a window, where they have another base */
} work;

/* ---- metadata ---- */

static void read_metadata(work *w) {
  tercel_gguf_builder *const b = w->b;
  tercel_gguf_decoder *const d = &w->d;
  *d = (tercel_gguf_decoder){.activation = TERCEL_FN_SILU, .embedding_scale = 1, .residual_scale = 1, .logit_scale = 1};
  d->layers = tercel_gguf_size(b, "block_count", 1, MAX_LAYERS);
  d->width = tercel_gguf_size(b, "embedding_length", 1, MAX_WIDTH);
  d->heads = tercel_gguf_size(b, "attention.head_count", 1, MAX_HEADS);
  d->context = tercel_gguf_size(b, "context_length", 1, MAX_CONTEXT);
  d->head = tercel_gguf_int(b, "attention.key_length", d->width / d->heads);
  d->value_head = tercel_gguf_int(b, "attention.value_length", d->head);
  d->turned = tercel_gguf_int(b, "rope.dimension_count", d->head);
  d->trained_context = tercel_gguf_int(b, "rope.scaling.original_context_length", d->context);
  d->base = tercel_gguf_factor(b, "rope.freq_base", 10000);
  d->attention_scale = tercel_gguf_float(b, "attention.scale", 0);
}

/* An epsilon is needed by the kind of norm that the architecture has. */
static void read_epsilon(work *w) {
  const char *const key = w->d.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  w->d.epsilon = tercel_gguf_float(w->b, key, 1e-5);
}

/* Does the layer see a window only? */
static bool has_window(const tercel_gguf_decoder *d, int64_t layer) {
  return d->window > 0 && d->window_period > 0 && (layer + 1) % d->window_period != 0;
}

/* ---- norms ---- */

/* The norm called `name`, over rows of `size`. */
static tercel_value *normalized(work *w, tercel_value *x, const char *name) {
  tercel_gguf_builder *const b = w->b;
  char bias[128];
  snprintf(bias, sizeof bias, "%s.bias", name);
  tercel_value *operands[3] = {x, tercel_gguf_weight(b, "%s.weight", name)};
  const bool has_bias = w->d.layer_norm && tercel_gguf_has(b, "%s", bias);
  if (has_bias) operands[2] = tercel_gguf_weight(b, "%s", bias);
  tercel_node *const node = tercel_gguf_node(b, w->d.layer_norm ? TERCEL_OP_LAYER_NORM : TERCEL_OP_RMS_NORM, name,
                                             operands, has_bias ? 3 : 2, 1);
  if (node == NULL) return NULL;
  b->status = tercel_node_set_float(node, "epsilon", w->d.epsilon, b->err);
  if (b->status == TERCEL_OK) b->status = tercel_infer_node(node, b->err);
  return node->outputs[0];
}

static tercel_value *layer_normalized(work *w, tercel_value *x, int64_t layer, const char *name) {
  char whole[96];
  snprintf(whole, sizeof whole, "blk.%lld.%s", (long long)layer, name);
  return normalized(w, x, whole);
}

/* q or k: the norm, if the file has it, is over each head, or over the whole row. */
static tercel_value *normalized_heads(work *w, tercel_value *x, int64_t layer, const char *name, int64_t heads) {
  const tercel_gguf_tensor *weight;
  char whole[96];
  snprintf(whole, sizeof whole, "blk.%lld.%s.weight", (long long)layer, name);
  weight = tercel_gguf_find_tensor(w->b->gguf, whole);
  if (weight == NULL) return x;
  const int64_t row = heads * w->d.head;
  if (weight->tensor.rank == 1 && weight->tensor.dims[0] == row) return layer_normalized(w, x, layer, name);
  tercel_value *const by_heads = tercel_gguf_reshaped(w->b, x, (const int64_t[]){-1, w->d.head}, 2);
  return tercel_gguf_reshaped(w->b, layer_normalized(w, by_heads, layer, name), (const int64_t[]){-1, row}, 2);
}

/* ---- rotary ---- */

static void set_scaling(work *w, tercel_node *node, bool windowed) {
  tercel_gguf_builder *const b = w->b;
  const double factor = tercel_gguf_factor(b, "rope.scaling.factor", 1);
  char key[96];
  snprintf(key, sizeof key, "%s.rope.scaling.type", b->architecture);
  const tercel_gguf_value *const kind = tercel_gguf_find(b->gguf, key);
  const bool yarn =
      kind != NULL && kind->type == TERCEL_GGUF_STRING && kind->count == 4 && memcmp(kind->data, "yarn", 4) == 0;
  const bool none =
      kind != NULL && kind->type == TERCEL_GGUF_STRING && kind->count == 4 && memcmp(kind->data, "none", 4) == 0;
  double magnitude = tercel_gguf_factor(b, "rope.scaling.attn_factor", 1);
  tercel_status status = TERCEL_OK;
  if (!windowed && !none && factor != 1) status = tercel_node_set_float(node, "scale", 1 / factor, b->err);
  if (status == TERCEL_OK && yarn && !windowed) {
    status = tercel_node_set_float(node, "yarn", 1, b->err);
    if (status == TERCEL_OK) status = tercel_node_set_float(node, "context", (double)w->d.trained_context, b->err);
    if (status == TERCEL_OK)
      status =
          tercel_node_set_float(node, "beta_fast", tercel_gguf_factor(b, "rope.scaling.yarn_beta_fast", 32), b->err);
    if (status == TERCEL_OK)
      status =
          tercel_node_set_float(node, "beta_slow", tercel_gguf_factor(b, "rope.scaling.yarn_beta_slow", 1), b->err);
    magnitude *= tercel_gguf_factor(b, "rope.scaling.yarn_attn_factor", 1);
  }
  if (status == TERCEL_OK) status = tercel_node_set_float(node, "magnitude", magnitude, b->err);
  if (b->status == TERCEL_OK) b->status = status;
}

/* Factors of frequencies: one list (Llama 3), or one for short and one for long contexts (Phi-3). */
static tercel_value *rotary_factors(work *w) {
  tercel_gguf_builder *const b = w->b;
  const bool is_long = w->d.context > w->d.trained_context;
  if (tercel_gguf_has(b, "rope_freqs.weight")) return tercel_gguf_weight(b, "rope_freqs.weight");
  if (!tercel_gguf_has(b, "rope_factors_long.weight")) return NULL;
  return is_long ? tercel_gguf_weight(b, "rope_factors_long.weight")
                 : tercel_gguf_weight(b, "rope_factors_short.weight");
}

/* Tables for all layers of a kind, [1, tokens, turned / 2]. */
static void make_rotary_table(work *w, bool windowed, double base) {
  tercel_gguf_builder *const b = w->b;
  tercel_value *const operands[2] = {w->positions, rotary_factors(w)};
  tercel_node *const node = tercel_gguf_node(b, TERCEL_OP_ROTARY_TABLE, windowed ? "rotary_window" : "rotary", operands,
                                             operands[1] != NULL ? 2 : 1, 2);
  if (node == NULL) return;
  b->status = tercel_node_set_int(node, "dims", w->d.turned, b->err);
  if (b->status == TERCEL_OK) b->status = tercel_node_set_float(node, "base", base, b->err);
  set_scaling(w, node, windowed && w->d.window_base != 0);
  if (b->status == TERCEL_OK) b->status = tercel_infer_node(node, b->err);
  const int64_t dims[3] = {1, -1, w->d.turned / 2};
  w->cosines[windowed] = tercel_gguf_reshaped(b, node->outputs[0], dims, 3);
  w->sines[windowed] = tercel_gguf_reshaped(b, node->outputs[1], dims, 3);
}

static tercel_value *turned(work *w, tercel_value *x, int64_t layer, int64_t heads) {
  const tercel_gguf_decoder *const d = &w->d;
  tercel_gguf_builder *const b = w->b;
  if (d->rotary == TERCEL_GGUF_ROTARY_NONE) return x;
  if (d->no_rotary_period > 0 && (layer + 1) % d->no_rotary_period == 0) return x;
  const bool windowed = d->window_base != 0 && has_window(d, layer);
  const int64_t row = heads * d->head;
  tercel_value *const operands[3] = {tercel_gguf_reshaped(b, x, (const int64_t[]){1, -1, row}, 3), w->cosines[windowed],
                                     w->sines[windowed]};
  tercel_node *const node = tercel_gguf_node(b, TERCEL_OP_ROTARY, "rotary", operands, 3, 1);
  if (node == NULL) return NULL;
  b->status = tercel_node_set_int(node, "heads", heads, b->err);
  if (b->status == TERCEL_OK) b->status = tercel_node_set_int(node, "dims", d->turned, b->err);
  if (b->status == TERCEL_OK)
    b->status = tercel_node_set_int(node, "interleaved", d->rotary == TERCEL_GGUF_ROTARY_PAIRS, b->err);
  if (b->status == TERCEL_OK) b->status = tercel_infer_node(node, b->err);
  return tercel_gguf_reshaped(b, node->outputs[0], (const int64_t[]){-1, row}, 2);
}

/* ---- attention ---- */

static tercel_value *add_cache(work *w, int64_t layer, const char *what, int64_t row) {
  static const char *const symbols[3] = {"pages", NULL, NULL};
  char name[64];
  snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, what);
  return tercel_gguf_input(w->b, name, TERCEL_DTYPE_F16, true, 3, symbols, (const int64_t[]){0, PAGE_ROWS, row});
}

typedef struct projections {
  tercel_value *q, *k, *v;
} projections;

/* q, k and v of their own, or from one matrix. */
static projections project(work *w, tercel_value *x, int64_t layer, int64_t kv_heads) {
  tercel_gguf_builder *const b = w->b;
  const tercel_gguf_decoder *const d = &w->d;
  const int64_t q = d->heads * d->head, k = kv_heads * d->head, v = kv_heads * d->value_head;
  const long long l = (long long)layer;
  if (tercel_gguf_has(b, "blk.%lld.attn_qkv.weight", l)) {
    tercel_value *const all = tercel_gguf_linear(b, x, TERCEL_GGUF_SCALE_PRODUCT, "blk.%lld.attn_qkv", l);
    return (projections){tercel_gguf_columns(b, all, 0, q), tercel_gguf_columns(b, all, q, k),
                         tercel_gguf_columns(b, all, q + k, v)};
  }
  return (projections){tercel_gguf_linear(b, x, TERCEL_GGUF_SCALE_PRODUCT, "blk.%lld.attn_q", l),
                       tercel_gguf_linear(b, x, TERCEL_GGUF_SCALE_PRODUCT, "blk.%lld.attn_k", l),
                       tercel_gguf_linear(b, x, TERCEL_GGUF_SCALE_PRODUCT, "blk.%lld.attn_v", l)};
}

static void set_attention(work *w, tercel_node *node, int64_t layer, int64_t kv_heads) {
  tercel_gguf_builder *const b = w->b;
  const tercel_gguf_decoder *const d = &w->d;
  tercel_status status = tercel_node_set_int(node, "heads", d->heads, b->err);
  if (status == TERCEL_OK) status = tercel_node_set_int(node, "kv_heads", kv_heads, b->err);
  if (status == TERCEL_OK && d->attention_scale != 0)
    status = tercel_node_set_float(node, "scale", d->attention_scale, b->err);
  if (status == TERCEL_OK && d->attention_softcap != 0)
    status = tercel_node_set_float(node, "softcap", d->attention_softcap, b->err);
  if (status == TERCEL_OK && has_window(d, layer)) status = tercel_node_set_int(node, "window", d->window, b->err);
  if (status == TERCEL_OK) status = tercel_infer_node(node, b->err);
  if (b->status == TERCEL_OK) b->status = status;
}

static tercel_value *attention(work *w, tercel_value *x, int64_t layer) {
  tercel_gguf_builder *const b = w->b;
  const tercel_gguf_decoder *const d = &w->d;
  const int64_t kv_heads = tercel_gguf_layer_int(b, "attention.head_count_kv", layer, d->heads);
  if (kv_heads < 1 || d->heads % kv_heads != 0)
    return tercel_gguf_failed(b, TERCEL_INVALID_MODEL, "layer %lld: %lld heads of queries over %lld of keys",
                              (long long)layer, (long long)d->heads, (long long)kv_heads);
  const projections p = project(w, x, layer, kv_heads);
  tercel_value *const q = turned(w, normalized_heads(w, p.q, layer, "attn_q_norm", d->heads), layer, d->heads);
  tercel_value *const k = turned(w, normalized_heads(w, p.k, layer, "attn_k_norm", kv_heads), layer, kv_heads);
  tercel_value *const operands[8] = {q,
                                     k,
                                     p.v,
                                     add_cache(w, layer, "keys", kv_heads * d->head),
                                     add_cache(w, layer, "values", kv_heads * d->value_head),
                                     w->firsts,
                                     w->lengths,
                                     w->tables};
  char name[48];
  snprintf(name, sizeof name, "blk.%lld.attention", (long long)layer);
  tercel_node *const node = tercel_gguf_node(b, TERCEL_OP_PAGED_ATTENTION, name, operands, 8, 1);
  if (node == NULL) return NULL;
  set_attention(w, node, layer, kv_heads);
  return tercel_gguf_linear(b, node->outputs[0], TERCEL_GGUF_SCALE_PRODUCT, "blk.%lld.attn_output", (long long)layer);
}

/* ---- feed-forward ---- */

/* down(act(gate x) * up x), down(act(up x)) where there is no gate; gate and up may lie in one matrix. */
static tercel_value *feed_forward(work *w, tercel_value *x, int64_t layer) {
  tercel_gguf_builder *const b = w->b;
  const tercel_fn activation = w->d.activation;
  const tercel_gguf_scale scale = w->d.feed_forward_scales ? TERCEL_GGUF_SCALE_SUM : TERCEL_GGUF_SCALE_NONE;
  const long long l = (long long)layer;
  tercel_value *up = tercel_gguf_linear(b, x, scale, "blk.%lld.ffn_up", l);
  const int64_t width = tercel_gguf_layer_int(b, "feed_forward_length", layer, 0);
  if (tercel_gguf_has(b, "blk.%lld.ffn_gate.weight", l)) {
    tercel_value *const gate = tercel_gguf_linear(b, x, scale, "blk.%lld.ffn_gate", l);
    up = tercel_gguf_apply(b, TERCEL_FN_MUL, tercel_gguf_apply(b, activation, gate, NULL), up);
  } else if (up != NULL && width > 0 && up->type.shape.dims[1] == 2 * width) {
    tercel_value *const gate = tercel_gguf_columns(b, up, 0, width);
    up = tercel_gguf_apply(b, TERCEL_FN_MUL, tercel_gguf_apply(b, activation, gate, NULL),
                           tercel_gguf_columns(b, up, width, width));
  } else {
    up = tercel_gguf_apply(b, activation, up, NULL);
  }
  return tercel_gguf_linear(b, up, scale, "blk.%lld.ffn_down", l);
}

/* ---- layers ---- */

static tercel_value *residual(work *w, tercel_value *x, tercel_value *y) {
  return tercel_gguf_apply(w->b, TERCEL_FN_ADD, tercel_gguf_scaled(w->b, y, w->d.residual_scale), x);
}

/* Behind attention or feed-forward, where the file has such a norm. */
static tercel_value *normalized_after(work *w, tercel_value *x, int64_t layer, const char *name) {
  return tercel_gguf_has(w->b, "blk.%lld.%s.weight", (long long)layer, name) ? layer_normalized(w, x, layer, name) : x;
}

static tercel_value *add_layer(work *w, tercel_value *x, int64_t layer) {
  const tercel_gguf_decoder *const d = &w->d;
  tercel_value *const before = d->norms_after ? x : layer_normalized(w, x, layer, "attn_norm");
  tercel_value *y = normalized_after(w, attention(w, before, layer), layer, "post_attention_norm");
  if (d->parallel) return residual(w, residual(w, x, y), feed_forward(w, before, layer));
  x = residual(w, x, y);
  y = feed_forward(w, d->norms_after ? x : layer_normalized(w, x, layer, "ffn_norm"), layer);
  return residual(w, x, normalized_after(w, y, layer, "post_ffw_norm"));
}

static tercel_value *embed(work *w, tercel_value *tokens) {
  tercel_gguf_builder *const b = w->b;
  tercel_value *x = tercel_gguf_rows(b, tercel_gguf_weight(b, "token_embd.weight"), tokens);
  x = tercel_gguf_scaled(b, x, w->d.embedding_scale);
  if (!tercel_gguf_has(b, "position_embd.weight")) return x;
  return tercel_gguf_apply(b, TERCEL_FN_ADD, x,
                           tercel_gguf_rows(b, tercel_gguf_weight(b, "position_embd.weight"), w->positions));
}

static tercel_value *add_logits(work *w, tercel_value *x, tercel_value *rows) {
  tercel_gguf_builder *const b = w->b;
  x = normalized(w, tercel_gguf_rows(b, x, rows), "output_norm");
  const bool own = tercel_gguf_has(b, "output.weight"); /* else tied */
  x = own ? tercel_gguf_linear(b, x, TERCEL_GGUF_SCALE_PRODUCT, "output")
          : tercel_gguf_linear(b, x, TERCEL_GGUF_SCALE_PRODUCT, "token_embd");
  return tercel_gguf_capped(b, tercel_gguf_scaled(b, x, w->d.logit_scale), w->d.logit_softcap);
}

void tercel_gguf_build_decoder(tercel_gguf_builder *b, const tercel_gguf_architecture *architecture) {
  static const char *const of_tokens[] = {"tokens"}, *const of_rows[] = {"rows"},
                           *const of_sequences[] = {"sequences", "table"};
  work w = {.b = b};
  read_metadata(&w);
  architecture->configure(b, &w.d);
  read_epsilon(&w);
  tercel_value *const tokens = tercel_gguf_input(b, "tokens", TERCEL_DTYPE_I32, false, 1, of_tokens, NULL);
  w.positions = tercel_gguf_input(b, "positions", TERCEL_DTYPE_I32, false, 1, of_tokens, NULL);
  static const char *const of_firsts[] = {"firsts"};
  w.firsts = tercel_gguf_input(b, "firsts", TERCEL_DTYPE_I32, false, 1, of_firsts, NULL);
  w.lengths = tercel_gguf_input(b, "lengths", TERCEL_DTYPE_I32, false, 1, of_sequences, NULL);
  w.tables = tercel_gguf_input(b, "tables", TERCEL_DTYPE_I32, false, 2, of_sequences, NULL);
  tercel_value *const rows = tercel_gguf_input(b, "rows", TERCEL_DTYPE_I32, false, 1, of_rows, NULL);
  if (w.d.rotary != TERCEL_GGUF_ROTARY_NONE) make_rotary_table(&w, false, w.d.base);
  if (w.d.window > 0 && w.d.window_base != 0) make_rotary_table(&w, true, w.d.window_base);
  tercel_value *x = embed(&w, tokens);
  for (int64_t layer = 0; layer < w.d.layers && b->status == TERCEL_OK; ++layer) x = add_layer(&w, x, layer);
  tercel_value *const logits = add_logits(&w, x, rows);
  if (b->status == TERCEL_OK) b->status = tercel_graph_add_output(b->graph, logits, "logits", b->err);
}
