/* attention: softmax(scale q k' + bias) v, by heads, with what networks put around it: grouped heads, masks, causal order, windows, caches of
 * unequal lengths, soft caps.  Joining old keys and values with new ones is left to concat and tensor_scatter. */
#include "ops/attention.h"

#include <math.h>

#include "ops/narrow.h"

static const char *const operand_names[] = {"q", "k", "v"};
static const char *const score_names[] = {"raw", "capped", "biased", "softmax", NULL};
static const char *const unseen_names[] = {"zero", "nan", "clear", NULL};
typedef enum score_kind { SCORES_RAW, SCORES_CAPPED, SCORES_BIASED, SCORES_SOFTMAX } score_kind;

/* ---- inference ----------------------------------------------------------------------------------------------------- */

/* An operand's dims, whether by heads (N, H, S, D) or packed (N, S, H*D). */
typedef struct heads_shape {
  tercel_dim batch, heads, rows, size;
} heads_shape;

static int64_t packed_heads(const tercel_node *node, size_t operand) {
  return tercel_node_int(node, operand == TERCEL_ATTENTION_Q ? "heads" : "kv_heads");
}

static tercel_status get_heads_shape(tercel_infer *infer, size_t operand, heads_shape *out, tercel_error *err) {
  const tercel_shape *shape = &infer->in[operand]->type.shape;
  const char *name = operand_names[operand];
  if (shape->rank == 4) {
    *out = (heads_shape){shape->dims[0], shape->dims[1], shape->dims[2], shape->dims[3]};
    return TERCEL_OK;
  }
  if (shape->rank != 3)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s has rank %d, want 3 or 4", name, shape->rank);
  const int64_t heads = packed_heads(infer->node, operand);
  if (heads < 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s has rank 3, which needs its number of heads",
                            name);
  if (tercel_dim_is_known(shape->dims[2]) && shape->dims[2] % heads != 0)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s: rows of %lld do not divide into %lld heads",
                            name, (long long)shape->dims[2], (long long)heads);
  *out = (heads_shape){shape->dims[0], heads, shape->dims[1], tercel_dim_floor_div(infer->dims, shape->dims[2], heads)};
  return TERCEL_OK;
}

static tercel_status check_equal(const tercel_infer *infer, const char *what, tercel_dim a, tercel_dim b,
                                 tercel_error *err) {
  if (!tercel_dim_is_known(a) || !tercel_dim_is_known(b) || a == b) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s: %lld and %lld", what, (long long)a,
                          (long long)b);
}

static tercel_status check_dtypes(const tercel_infer *infer, tercel_error *err) {
  for (size_t i = 0; i <= TERCEL_ATTENTION_V; ++i) {
    const tercel_dtype dtype = infer->in[i]->type.dtype;
    if (dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(dtype))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s is %s, want floats", operand_names[i],
                              tercel_dtype_name(dtype));
  }
  TERCEL_TRY(tercel_infer_check_dtype(infer, TERCEL_ATTENTION_K, err));
  for (size_t i = TERCEL_ATTENTION_OFFSET; i <= TERCEL_ATTENTION_LENGTHS; ++i)
    if (tercel_has_input(infer, i)) TERCEL_TRY(tercel_infer_check_indices(infer, i, err));
  if (tercel_has_input(infer, TERCEL_ATTENTION_SINKS))
    TERCEL_TRY(tercel_infer_check_dtype(infer, TERCEL_ATTENTION_SINKS, err));
  if (!tercel_has_input(infer, TERCEL_ATTENTION_MASK)) return TERCEL_OK;
  const tercel_dtype mask = infer->in[TERCEL_ATTENTION_MASK]->type.dtype;
  if (mask == TERCEL_DTYPE_NONE || mask == TERCEL_DTYPE_BOOL || tercel_dtype_is_float(mask)) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "a mask of %s, want bool or floats",
                          tercel_dtype_name(mask));
}

/* The mask broadcasts to N, H, S, T, but for its last dim: that may be shorter and is never stretched. */
static tercel_status check_mask(const tercel_infer *infer, const heads_shape *q, tercel_dim keys, tercel_error *err) {
  if (!tercel_has_input(infer, TERCEL_ATTENTION_MASK)) return TERCEL_OK;
  const tercel_shape *mask = &infer->in[TERCEL_ATTENTION_MASK]->type.shape;
  if (mask->rank < 0) return TERCEL_OK;
  if (mask->rank < 1 || mask->rank > 4)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "a mask of rank %d, want 1 to 4", mask->rank);
  const tercel_dim want[4] = {q->batch, q->heads, q->rows, keys};
  for (int d = 0; d < mask->rank; ++d) {
    const tercel_dim size = mask->dims[d], whole = want[4 - mask->rank + d];
    if (!tercel_dim_is_known(size) || !tercel_dim_is_known(whole) || size == whole) continue;
    if (d == mask->rank - 1 ? size < whole : size == 1) continue;
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "mask: dim %d is %lld, want %lld", d,
                            (long long)size, (long long)whole);
  }
  return TERCEL_OK;
}

/* One number for all, or one each batch entry. */
static tercel_status check_counts(const tercel_infer *infer, size_t i, const char *what, tercel_dim batch,
                                  tercel_error *err) {
  if (!tercel_has_input(infer, i)) return TERCEL_OK;
  const tercel_shape *shape = &infer->in[i]->type.shape;
  if (shape->rank <= 0) return TERCEL_OK;
  if (shape->rank == 1 && (shape->dims[0] == 1 || shape->dims[0] == batch || !tercel_dim_is_known(shape->dims[0]) ||
                           !tercel_dim_is_known(batch)))
    return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s: want one number, or one for each of the batch",
                          what);
}

/* One number a query head. */
static tercel_status check_sinks(const tercel_infer *infer, tercel_dim heads, tercel_error *err) {
  if (!tercel_has_input(infer, TERCEL_ATTENTION_SINKS)) return TERCEL_OK;
  const tercel_shape *shape = &infer->in[TERCEL_ATTENTION_SINKS]->type.shape;
  if (shape->rank < 0) return TERCEL_OK;
  if (shape->rank == 1) return check_equal(infer, "sinks and heads", shape->dims[0], heads, err);
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "sinks of rank %d, want 1", shape->rank);
}

static tercel_status check_heads(const tercel_infer *infer, tercel_dim heads, tercel_dim kv_heads, tercel_error *err) {
  if (!tercel_dim_is_known(heads) || !tercel_dim_is_known(kv_heads)) return TERCEL_OK;
  if (kv_heads > 0 && heads % kv_heads == 0) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld query heads over %lld key heads",
                          (long long)heads, (long long)kv_heads);
}

static tercel_status infer_attention(tercel_infer *infer, tercel_error *err) {
  const tercel_type *in = &infer->in[TERCEL_ATTENTION_Q]->type;
  TERCEL_TRY(check_dtypes(infer, err));
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.dtype = in->dtype;
  for (size_t i = 0; i <= TERCEL_ATTENTION_V; ++i)
    if (infer->in[i]->type.shape.rank < 0) return TERCEL_OK;
  heads_shape q, k, v;
  TERCEL_TRY(get_heads_shape(infer, TERCEL_ATTENTION_Q, &q, err));
  TERCEL_TRY(get_heads_shape(infer, TERCEL_ATTENTION_K, &k, err));
  TERCEL_TRY(get_heads_shape(infer, TERCEL_ATTENTION_V, &v, err));
  TERCEL_TRY(check_equal(infer, "batch of q and k", q.batch, k.batch, err));
  TERCEL_TRY(check_equal(infer, "batch of q and v", q.batch, v.batch, err));
  TERCEL_TRY(check_equal(infer, "heads of k and v", k.heads, v.heads, err));
  TERCEL_TRY(check_equal(infer, "rows of k and v", k.rows, v.rows, err));
  TERCEL_TRY(check_equal(infer, "head size of q and k", q.size, k.size, err));
  TERCEL_TRY(check_heads(infer, q.heads, k.heads, err));
  TERCEL_TRY(check_mask(infer, &q, k.rows, err));
  TERCEL_TRY(check_sinks(infer, q.heads, err));
  TERCEL_TRY(check_counts(infer, TERCEL_ATTENTION_OFFSET, "offset", q.batch, err));
  TERCEL_TRY(check_counts(infer, TERCEL_ATTENTION_LENGTHS, "lengths", q.batch, err));
  infer->out[0].type.shape = in->shape.rank == 4
                                 ? (tercel_shape){4, {q.batch, q.heads, q.rows, v.size}}
                                 : (tercel_shape){3, {q.batch, q.rows, tercel_dim_mul(infer->dims, q.heads, v.size)}};
  TERCEL_TRY(tercel_infer_check_size(infer, 0, err));
  if (infer->num_outputs < 2) return TERCEL_OK;
  infer->out[1].type.shape = (tercel_shape){4, {q.batch, q.heads, q.rows, k.rows}};
  return tercel_infer_check_size(infer, 1, err);
}

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  int kind;
  TERCEL_TRY(tercel_node_choice(node, "scores", score_names, &kind, err));
  TERCEL_TRY(tercel_node_choice(node, "unseen", unseen_names, &kind, err));
  for (int i = 0; i < 2; ++i) {
    const char *name = i == 0 ? "left" : "right";
    if (tercel_node_int(node, name) < -1)
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%s is %lld, want -1 or more", name,
                              (long long)tercel_node_int(node, name));
  }
  if (tercel_node_attr(node, "precision") != NULL && !tercel_dtype_is_float(tercel_node_dtype(node, "precision")))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "a softmax in %s",
                            tercel_dtype_name(tercel_node_dtype(node, "precision")));
  return TERCEL_OK;
}

/* ---- geometry ------------------------------------------------------------------------------------------------------ */

/* Strides of a tensor of `heads` heads, and what it has of everything. */
static tercel_attention_strides strides_of(const tercel_tensor *t, int64_t heads, int64_t *rows, int64_t *size) {
  const bool packed = t->rank == 3;
  *rows = t->dims[packed ? 1 : 2];
  *size = packed ? t->dims[2] / heads : t->dims[3];
  if (packed) return (tercel_attention_strides){*rows * t->dims[2], *size, t->dims[2]};
  return (tercel_attention_strides){heads * *rows * *size, *rows * *size, *size};
}

static tercel_attention_strides mask_strides(const tercel_tensor *mask, const tercel_attention_geometry *g) {
  int64_t s[TERCEL_MAX_RANK];
  const int64_t whole[4] = {g->batch, g->heads, g->queries, mask->dims[mask->rank - 1]};
  tercel_tensor_broadcast_strides(mask, 4, whole, s);
  return (tercel_attention_strides){s[0], s[1], s[2]};
}

tercel_status tercel_attention_get_geometry(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                            tercel_attention_geometry *out, tercel_error *err) {
  const tercel_tensor *q = in[TERCEL_ATTENTION_Q], *k = in[TERCEL_ATTENTION_K], *v = in[TERCEL_ATTENTION_V];
  const int64_t heads = q->rank == 4 ? q->dims[1] : tercel_node_int(node, "heads");
  const int64_t k_heads = k->rank == 4 ? k->dims[1] : tercel_node_int(node, "kv_heads");
  const int64_t v_heads = v->rank == 4 ? v->dims[1] : tercel_node_int(node, "kv_heads");
  *out = (tercel_attention_geometry){
      .batch = q->dims[0],
      .heads = heads,
      .group = heads == 0 ? 1 : heads / k_heads,
      .softcap = tercel_node_float(node, "softcap"),
      .fill = tercel_node_float(node, "fill"),
      .causal = tercel_node_int(node, "causal") != 0,
      .left = tercel_node_int(node, "left"),
      .right = tercel_node_int(node, "right"),
      .offset = tercel_input_tensor(in, num_inputs, TERCEL_ATTENTION_OFFSET),
      .lengths = tercel_input_tensor(in, num_inputs, TERCEL_ATTENTION_LENGTHS),
      .sinks = tercel_input_tensor(in, num_inputs, TERCEL_ATTENTION_SINKS),
  };
  int unseen;
  TERCEL_TRY(tercel_node_choice(node, "unseen", unseen_names, &unseen, err));
  out->unseen = (tercel_attention_unseen)unseen;
  int64_t v_rows, k_size;
  out->q = strides_of(q, heads, &out->queries, &out->head_size);
  out->k = strides_of(k, k_heads, &out->keys, &k_size);
  out->v = strides_of(v, v_heads, &v_rows, &out->value_size);
  if (k_size != out->head_size || v_rows != out->keys || v_heads != k_heads || k->dims[0] != out->batch ||
      v->dims[0] != out->batch || (out->sinks != NULL && tercel_tensor_num_elements(out->sinks) != heads))
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "the shapes of q, k and v do not belong together");
  const int64_t y_row = q->rank == 4 ? out->value_size : heads * out->value_size;
  out->y = (tercel_attention_strides){heads * out->queries * out->value_size,
                                      q->rank == 4 ? out->queries * out->value_size : out->value_size, y_row};
  const tercel_tensor *mask = tercel_input_tensor(in, num_inputs, TERCEL_ATTENTION_MASK);
  out->mask_keys = mask != NULL ? mask->dims[mask->rank - 1] : out->keys;
  if (mask != NULL) out->mask = mask_strides(mask, out);
  out->scale =
      tercel_node_attr(node, "scale") != NULL ? tercel_node_float(node, "scale") : 1 / sqrt((double)out->head_size);
  return TERCEL_OK;
}

static int64_t count_of(const tercel_tensor *t, int64_t n) {
  return tercel_tensor_get_i64(t, tercel_tensor_num_elements(t) == 1 ? 0 : n);
}

void tercel_attention_range(const tercel_attention_geometry *g, int64_t n, int64_t i, int64_t *begin, int64_t *end) {
  const int64_t limit = tercel_min_i64(g->keys, g->mask_keys);
  /* Clamped so that sums with window sizes can't overflow; as far out of range as they were. */
  const int64_t far = (int64_t)1 << 61;
  const int64_t offset = g->offset != NULL ? tercel_max_i64(-far, tercel_min_i64(count_of(g->offset, n), far)) : 0;
  const int64_t at = offset + i;
  int64_t first = 0, last = limit; /* behind the last key */
  if (g->lengths != NULL) last = tercel_min_i64(last, count_of(g->lengths, n));
  if (g->causal) last = tercel_min_i64(last, at + 1);
  if (g->right >= 0) last = tercel_min_i64(last, at + tercel_min_i64(g->right, far) + 1);
  if (g->left >= 0) first = tercel_max_i64(first, at - tercel_min_i64(g->left, far));
  *begin = tercel_min_i64(first, limit);
  *end = tercel_max_i64(*begin, last);
}

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

/* Each step of ONNX's definition gives a tensor of q's type: so every one is rounded to it (nothing for f32 and f64). */
typedef struct job {
  tercel_attention_geometry g;
  const tercel_tensor *q, *k, *v, *mask;
  tercel_tensor *y, *scores; /* scores NULL: not wanted */
  score_kind kind;
  tercel_dtype dtype, precision; /* of q; of the softmax */
  double *row;                   /* one score a key, and one of the sink */
} job;

/* A key that a mask of bools hides. */
static bool is_masked(const job *j, int64_t mask_row, int64_t key) {
  return j->mask != NULL && j->mask->dtype == TERCEL_DTYPE_BOOL && tercel_tensor_get_i64(j->mask, mask_row + key) == 0;
}

/* What a mask of numbers adds to the score of a key. */
static double bias_of(const job *j, int64_t mask_row, int64_t key) {
  if (j->mask == NULL || j->mask->dtype == TERCEL_DTYPE_BOOL) return 0;
  return tercel_round_to(j->dtype, tercel_tensor_get_f64(j->mask, mask_row + key));
}

/* q k' with each side multiplied by the root of the scale. */
static double score_of(const job *j, int64_t q_row, int64_t k_row) {
  const double root = tercel_round_to(j->dtype, sqrt(j->g.scale));
  double sum = 0;
  for (int64_t d = 0; d < j->g.head_size; ++d)
    sum += tercel_round_to(j->dtype, tercel_tensor_get_f64(j->q, q_row + d) * root) *
           tercel_round_to(j->dtype, tercel_tensor_get_f64(j->k, k_row + d) * root);
  return tercel_round_to(j->dtype, sum);
}

static double cap(const job *j, double score) {
  const double ratio = tercel_round_to(j->dtype, score / j->g.softcap);
  return tercel_round_to(j->dtype, tercel_round_to(j->dtype, tercel_f64_tanh(ratio)) * j->g.softcap);
}

/* To f32 too: what a mask of large numbers leaves of the scores is part of the result. */
static double rounded(tercel_dtype dtype, double x) {
  return dtype == TERCEL_DTYPE_F32 ? (double)(float)x : tercel_round_to(dtype, x);
}

static void give_scores(const job *j, score_kind kind, int64_t row) {
  if (j->scores == NULL || j->kind != kind) return;
  for (int64_t key = 0; key < j->g.keys; ++key) tercel_tensor_set_f64(j->scores, row * j->g.keys + key, j->row[key]);
}

/* The probabilities of query i's keys into job->row. */
static void weigh_keys(const job *j, int64_t n, int64_t h, int64_t i) {
  const tercel_attention_geometry *g = &j->g;
  const int64_t out_row = (n * g->heads + h) * g->queries + i,
                mask_row = n * g->mask.batch + h * g->mask.head + i * g->mask.row;
  const int64_t q_row = n * g->q.batch + h * g->q.head + i * g->q.row;
  int64_t begin, end;
  tercel_attention_range(g, n, i, &begin, &end);
  bool hidden = true;
  for (int64_t key = 0; key < g->keys; ++key)
    j->row[key] = score_of(j, q_row, n * g->k.batch + h / g->group * g->k.head + key * g->k.row);
  give_scores(j, SCORES_RAW, out_row);
  for (int64_t key = 0; g->softcap > 0 && key < g->keys; ++key) j->row[key] = cap(j, j->row[key]);
  give_scores(j, SCORES_CAPPED, out_row);
  for (int64_t key = 0; key < g->keys; ++key) {
    const bool outside = key < begin || key >= end, unseen = outside || is_masked(j, mask_row, key);
    const double bias = outside ? -INFINITY : unseen ? g->fill : bias_of(j, mask_row, key);
    j->row[key] = rounded(j->dtype, unseen ? bias : j->row[key] + bias);
    hidden = hidden && bias == -INFINITY;
  }
  give_scores(j, SCORES_BIASED, out_row);
  for (int64_t key = 0; hidden && key < g->keys; ++key) j->row[key] = -INFINITY; /* a NaN there counts for nothing */
  for (int64_t key = 0; key < g->keys; ++key) j->row[key] = tercel_round_to(j->precision, j->row[key]);
  if (g->sinks != NULL) j->row[g->keys] = tercel_round_to(j->precision, tercel_tensor_get_f64(g->sinks, h));
  tercel_softmax_in(j->precision, j->row, g->keys + (g->sinks != NULL), g->unseen != TERCEL_UNSEEN_NAN);
  const bool clear = g->unseen == TERCEL_UNSEEN_CLEAR && g->keys > 0 && isnan(j->row[0]); /* then they all are */
  for (int64_t key = 0; clear && key < g->keys; ++key) j->row[key] = 0;
  for (int64_t key = 0; key < g->keys; ++key) j->row[key] = tercel_round_to(j->dtype, j->row[key]);
  give_scores(j, SCORES_SOFTMAX, out_row);
}

static void mix_values(const job *j, int64_t n, int64_t h, int64_t i) {
  const tercel_attention_geometry *g = &j->g;
  const int64_t v_head = n * g->v.batch + h / g->group * g->v.head;
  for (int64_t d = 0; d < g->value_size; ++d) {
    double sum = 0;
    for (int64_t key = 0; key < g->keys; ++key)
      sum += j->row[key] * tercel_tensor_get_f64(j->v, v_head + key * g->v.row + d);
    tercel_tensor_set_f64(j->y, n * g->y.batch + h * g->y.head + i * g->y.row + d, sum);
  }
}

static tercel_status eval_attention(tercel_eval *eval, tercel_error *err) {
  int kind;
  TERCEL_TRY(tercel_node_choice(eval->node, "scores", score_names, &kind, err));
  const tercel_dtype dtype = eval->in[TERCEL_ATTENTION_Q]->dtype;
  const bool precise = tercel_node_attr(eval->node, "precision") != NULL;
  job j = {.q = eval->in[TERCEL_ATTENTION_Q],
           .k = eval->in[TERCEL_ATTENTION_K],
           .v = eval->in[TERCEL_ATTENTION_V],
           .mask = tercel_input_tensor(eval->in, eval->num_inputs, TERCEL_ATTENTION_MASK),
           .y = eval->out[0],
           .scores = eval->num_outputs > 1 ? eval->out[1] : NULL,
           .kind = (score_kind)kind,
           .dtype = dtype,
           .precision = precise ? tercel_node_dtype(eval->node, "precision") : dtype};
  TERCEL_TRY(tercel_attention_get_geometry(eval->node, eval->in, eval->num_inputs, &j.g, err));
  const tercel_attention_geometry *g = &j.g;
  j.row = tercel_arena_alloc_array(eval->scratch, (size_t)g->keys + 1, sizeof *j.row);
  if (j.row == NULL) return tercel_fail_memory(err, (size_t)g->keys * sizeof *j.row, "attention");
  for (int64_t n = 0; n < g->batch; ++n)
    for (int64_t h = 0; h < g->heads; ++h)
      for (int64_t i = 0; i < g->queries; ++i) {
        weigh_keys(&j, n, h, i);
        mix_values(&j, n, h, i);
      }
  return TERCEL_OK;
}

/* Both products; the pairs that causal order hides are counted too. */
static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)out;
  tercel_attention_geometry g;
  const tercel_tensor *const operands[] = {in[0], in[1], in[2]};
  if (tercel_attention_get_geometry(node, operands, 3, &g, NULL) != TERCEL_OK) return 0;
  const double pairs = (double)g.batch * (double)g.heads * (double)g.queries * (double)g.keys;
  return pairs * (2.0 * (double)(g.head_size + g.value_size) + 5);
}

static const tercel_attr_spec attrs[] = {
    {"heads", TERCEL_ATTR_INT, false, 0, NULL, "of a packed q"},
    {"kv_heads", TERCEL_ATTR_INT, false, 0, NULL, "of packed k and v"},
    {"scale", TERCEL_ATTR_FLOAT, false, 0, NULL, "of the products; none: 1 / sqrt(head size)"},
    {"softcap", TERCEL_ATTR_FLOAT, false, 0, NULL, "scores become softcap tanh(score / softcap); 0: they stay"},
    {"causal", TERCEL_ATTR_INT, false, 0, NULL, "1: no key behind the query's own place is seen"},
    {"left", TERCEL_ATTR_INT, false, -1, NULL, "keys that are seen before the query's place; -1: all"},
    {"right", TERCEL_ATTR_INT, false, -1, NULL, "keys that are seen behind the query's place; -1: all"},
    {"fill", TERCEL_ATTR_FLOAT, false, -INFINITY, NULL, "score of a key that a mask of bools hides"},
    {"unseen", TERCEL_ATTR_STRING, false, 0, "zero",
     "what a query gives that sees no key: zero; nan, as softmax does; clear: 0, as where a weight is NaN"},
    {"precision", TERCEL_ATTR_DTYPE, false, TERCEL_DTYPE_NONE, NULL, "of the softmax; none: q's"},
    {"scores", TERCEL_ATTR_STRING, false, 0, "raw", "what output 1 shows: raw, capped, biased, softmax"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_attention = {
    .name = "attention",
    .id = TERCEL_OP_ATTENTION,
    .min_inputs = 3,
    .max_inputs = TERCEL_ATTENTION_INPUTS,
    .min_outputs = 1,
    .max_outputs = 2,
    .about = "values mixed by how well their keys match each query",
    .attrs = attrs,
    .infer = infer_attention,
    .verify = verify,
    .eval = eval_attention,
    .flops = flops,
};
