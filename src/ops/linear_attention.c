/* linear_attention: attention without a softmax, as a state that each token decays, corrects and adds to (linear transformers, gated linear
 * attention, delta networks).  One token after the other; kernels may work in chunks. */
#include <math.h>

#include "ops/move.h"

enum { Q, K, V, STATE, DECAY, BETA, INPUTS };
static const char *const names[] = {"q", "k", "v", "state", "decay", "beta"};

/* ---- inference ----------------------------------------------------------------------------------------------------- */

static tercel_status check_divides(const tercel_infer *infer, size_t i, int64_t heads, tercel_error *err) {
  const tercel_dim row = infer->in[i]->type.shape.dims[2];
  if (!tercel_dim_is_known(row) || row % heads == 0) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s: rows of %lld do not divide into %lld heads",
                          names[i], (long long)row, (long long)heads);
}

static tercel_status check_operand(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_type *type = &infer->in[i]->type;
  const int want = i == STATE ? 4 : 3;
  if (type->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(type->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s is %s, want floats", names[i],
                            tercel_dtype_name(type->dtype));
  if (type->shape.rank < 0 || type->shape.rank == want) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s has rank %d, want %d", names[i], type->shape.rank,
                          want);
}

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  const int64_t heads = tercel_node_int(node, "heads"), kv_heads = tercel_node_int(node, "kv_heads");
  if (heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%lld query heads over %lld key heads", (long long)heads,
                          (long long)kv_heads);
}

static tercel_status infer_linear_attention(tercel_infer *infer, tercel_error *err) {
  const int64_t heads = tercel_node_int(infer->node, "heads"), kv_heads = tercel_node_int(infer->node, "kv_heads");
  TERCEL_TRY(verify(infer->node, err)); /* a file's graph is inferred before it is verified */
  for (size_t i = 0; i < infer->num_inputs; ++i)
    if (infer->in[i] != NULL) TERCEL_TRY(check_operand(infer, i, err));
  infer->out[0].type.dtype = infer->in[Q]->type.dtype;
  if (infer->num_outputs > 1)
    infer->out[1].type.dtype = infer->in[tercel_has_input(infer, STATE) ? STATE : Q]->type.dtype;
  const tercel_shape *q = &infer->in[Q]->type.shape, *v = &infer->in[V]->type.shape;
  if (q->rank < 0 || v->rank < 0) return TERCEL_OK;
  TERCEL_TRY(check_divides(infer, Q, heads, err));
  TERCEL_TRY(check_divides(infer, V, kv_heads, err));
  const tercel_dim key_size = tercel_dim_floor_div(infer->dims, q->dims[2], heads);
  const tercel_dim value_size = tercel_dim_floor_div(infer->dims, v->dims[2], kv_heads);
  infer->out[0].type.shape =
      (tercel_shape){3, {q->dims[0], q->dims[1], tercel_dim_mul(infer->dims, value_size, heads)}};
  if (infer->num_outputs > 1)
    infer->out[1].type.shape = (tercel_shape){4, {q->dims[0], kv_heads, key_size, value_size}};
  return tercel_infer_check_size(infer, 0, err);
}

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

typedef struct job {
  const tercel_tensor *in[INPUTS];
  tercel_tensor *y;
  int64_t tokens, heads, kv_heads, key_size, value_size;
  double scale;
  double *state, *change; /* of one key head: key_size x value_size, value_size */
} job;

static bool is_3d(const tercel_tensor *t, const tercel_tensor *q, int64_t row) {
  return t->dims[0] == q->dims[0] && t->dims[1] == q->dims[1] && t->dims[2] == row;
}

static tercel_status check_shapes(const tercel_node *node, const job *j, tercel_error *err) {
  const tercel_tensor *q = j->in[Q], *state = j->in[STATE], *decay = j->in[DECAY], *beta = j->in[BETA];
  bool fits = is_3d(j->in[K], q, j->kv_heads * j->key_size) && is_3d(j->in[V], q, j->kv_heads * j->value_size);
  if (state != NULL)
    fits = fits && state->dims[0] == q->dims[0] && state->dims[1] == j->kv_heads && state->dims[2] == j->key_size &&
           state->dims[3] == j->value_size;
  if (decay != NULL) fits = fits && (is_3d(decay, q, j->kv_heads) || is_3d(decay, q, j->kv_heads * j->key_size));
  if (beta != NULL) fits = fits && (is_3d(beta, q, j->kv_heads) || is_3d(beta, q, 1));
  return fits ? TERCEL_OK
              : tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT,
                                 "the shapes of the operands do not belong together");
}

/* Element d of head h in row r of a packed operand, whose heads have `size` elements; of size 1: one for the whole head. */
static double packed(const tercel_tensor *t, int64_t r, int64_t heads, int64_t h, int64_t d) {
  const int64_t size = t->dims[2] / heads;
  return tercel_tensor_get_f64(t, r * t->dims[2] + h * size + (size == 1 ? 0 : d));
}

/* S = e^decay S;  v = beta (v - S' k);  S = S + k v'. */
static void take_token(const job *j, int64_t r, int64_t h) {
  const int64_t m = j->value_size;
  for (int64_t d = 0; j->in[DECAY] != NULL && d < j->key_size; ++d) {
    const double keep = tercel_f64_exp(packed(j->in[DECAY], r, j->kv_heads, h, d));
    for (int64_t e = 0; e < m; ++e) j->state[d * m + e] *= keep;
  }
  for (int64_t e = 0; e < m; ++e) {
    double value = packed(j->in[V], r, j->kv_heads, h, e);
    if (j->in[BETA] != NULL) {
      const bool shared = j->in[BETA]->dims[2] == 1;
      for (int64_t d = 0; d < j->key_size; ++d) value -= j->state[d * m + e] * packed(j->in[K], r, j->kv_heads, h, d);
      value *= packed(j->in[BETA], r, shared ? 1 : j->kv_heads, shared ? 0 : h, 0);
    }
    j->change[e] = value;
  }
  for (int64_t d = 0; d < j->key_size; ++d)
    for (int64_t e = 0; e < m; ++e) j->state[d * m + e] += packed(j->in[K], r, j->kv_heads, h, d) * j->change[e];
}

/* y = scale q' S, for each of the query heads of key head h. */
static void give_token(const job *j, int64_t r, int64_t h) {
  const int64_t group = j->heads / j->kv_heads, m = j->value_size;
  for (int64_t a = h * group; a < (h + 1) * group; ++a)
    for (int64_t e = 0; e < m; ++e) {
      double sum = 0;
      for (int64_t d = 0; d < j->key_size; ++d) sum += packed(j->in[Q], r, j->heads, a, d) * j->state[d * m + e];
      tercel_tensor_set_f64(j->y, (r * j->heads + a) * m + e, j->scale * sum);
    }
}

static tercel_status eval_linear_attention(tercel_eval *eval, tercel_error *err) {
  const tercel_node *node = eval->node;
  const tercel_tensor *q = eval->in[Q], *v = eval->in[V];
  tercel_tensor *last = eval->num_outputs > 1 ? eval->out[1] : NULL;
  job j = {.y = eval->out[0],
           .tokens = q->dims[1],
           .heads = tercel_node_int(node, "heads"),
           .kv_heads = tercel_node_int(node, "kv_heads")};
  for (size_t i = 0; i < INPUTS; ++i) j.in[i] = tercel_input_tensor(eval->in, eval->num_inputs, i);
  j.key_size = q->dims[2] / j.heads;
  j.value_size = v->dims[2] / j.kv_heads;
  TERCEL_TRY(check_shapes(node, &j, err));
  j.scale = tercel_node_attr(node, "scale") != NULL ? tercel_node_float(node, "scale") : 1 / sqrt((double)j.key_size);
  const int64_t n = j.key_size * j.value_size;
  j.state = tercel_arena_alloc_array(eval->scratch, (size_t)n + 1, sizeof *j.state);
  j.change = tercel_arena_alloc_array(eval->scratch, (size_t)j.value_size + 1, sizeof *j.change);
  if (j.state == NULL || j.change == NULL) return tercel_fail_memory(err, (size_t)n * sizeof *j.state, "a state");
  for (int64_t b = 0; b < q->dims[0] * j.kv_heads; ++b) {
    const int64_t h = b % j.kv_heads, first = b / j.kv_heads * j.tokens;
    for (int64_t i = 0; i < n; ++i)
      j.state[i] = j.in[STATE] != NULL ? tercel_tensor_get_f64(j.in[STATE], b * n + i) : 0;
    for (int64_t t = 0; t < j.tokens; ++t) {
      take_token(&j, first + t, h);
      give_token(&j, first + t, h);
    }
    for (int64_t i = 0; last != NULL && i < n; ++i) tercel_tensor_set_f64(last, b * n + i, j.state[i]);
  }
  return TERCEL_OK;
}

/* Adding to the state and reading it: a multiply-add an element each; correcting and decaying, another. */
static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)out;
  const int64_t heads = tercel_node_int(node, "heads"), kv_heads = tercel_node_int(node, "kv_heads");
  const int64_t key = in[Q]->dims[2] / heads, value = in[V]->dims[2] / kv_heads; /* sizes of one head */
  const double state = (double)key * (double)value;
  return (double)(in[Q]->dims[0] * in[Q]->dims[1]) * state * (2.0 * (double)heads + 5.0 * (double)kv_heads);
}

static const tercel_attr_spec attrs[] = {
    {"heads", TERCEL_ATTR_INT, true, 0, NULL, "of q"},
    {"kv_heads", TERCEL_ATTR_INT, true, 0, NULL, "of k, v and the state"},
    {"scale", TERCEL_ATTR_FLOAT, false, 0, NULL, "of the result; none: 1 / sqrt(key size)"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_linear_attention = {
    .name = "linear_attention",
    .id = TERCEL_OP_LINEAR_ATTENTION,
    .min_inputs = 3,
    .max_inputs = INPUTS,
    .min_outputs = 1,
    .max_outputs = 2,
    .about = "queries against a state that keys and values were added to, token by token",
    .attrs = attrs,
    .infer = infer_linear_attention,
    .verify = verify,
    .eval = eval_linear_attention,
    .flops = flops,
};
