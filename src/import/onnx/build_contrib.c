/* Operators of com.microsoft that optimizers of transformers and convolutional networks write: ONNX's own, fused.  They are taken
 * apart again here; tercel's passes fuse what pays. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* ---- activations ------------------------------------------------------------------------------------------------------- */

static tercel_value *add(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return b ? tercel_onnx_fn2(c, TERCEL_FN_ADD, a, b) : a;
}

/* BiasGelu, FastGelu, Gelu: of the input with an optional bias. */
void tercel_onnx_build_bias_gelu(tercel_onnx_call *c) {
  tercel_value *const x = add(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_return(c, 0, tercel_onnx_fn1(c, (tercel_fn)c->row->detail, x));
}

/* x + bias + skip */
void tercel_onnx_build_bias_add(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, add(c, add(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)), tercel_onnx_in(c, 2)));
}

/* The left half times the GELU of the right one, of x + bias. */
void tercel_onnx_build_bias_split_gelu(tercel_onnx_call *c) {
  tercel_value *const x = add(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  const int rank = tercel_onnx_rank(c, x);
  const int64_t size = tercel_onnx_dim_of(c, x, -1);
  if (tercel_onnx_ok(c) && (rank < 1 || size < 2 || size % 2 != 0))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "rows of %" PRId64 " elements in two halves (-1: not known)", size);
  if (!tercel_onnx_ok(c)) return;
  tercel_value *const left = tercel_onnx_slice(c, x, rank - 1, 0, size / 2);
  tercel_value *const right = tercel_onnx_slice(c, x, rank - 1, size / 2, size);
  tercel_onnx_return(c, 0, tercel_onnx_fn2(c, TERCEL_FN_MUL, left, tercel_onnx_fn1(c, TERCEL_FN_GELU, right)));
}

/* Softmax over all axes from `axis` on.  The bias lacks the axes before that one (or those behind the first ones, which it has: its dims
 * broadcast as they stand, or have 1 put between). */
void tercel_onnx_build_bias_softmax(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const bias = tercel_onnx_in(c, 1);
  tercel_onnx_ignore_attr(c, "is_inner_broadcast"); /* the dims of the bias say it too */
  if (tercel_onnx_ok(c) && tercel_onnx_rank(c, bias) != tercel_onnx_rank(c, x))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a bias of rank %d for data of rank %d", tercel_onnx_rank(c, bias),
                     tercel_onnx_rank(c, x));
  tercel_onnx_return(c, 0, tercel_onnx_flat_softmax(c, add(c, x, bias), tercel_onnx_get_int(c, "axis", 1)));
}

void tercel_onnx_build_quick_gelu(tercel_onnx_call *c) {
  const double alpha = tercel_onnx_get_float(c, "alpha", 1.702f);
  tercel_onnx_return(c, 0, tercel_onnx_fn_with(c, TERCEL_FN_SILU, tercel_onnx_in(c, 0), alpha, 0));
}

/* What a fused node applies to its result, by the name of the ONNX operator. */
static const struct {
  const char *name;
  tercel_fn fn;
  double p, q; /* defaults */
} activations[] = {
    {"Relu", TERCEL_FN_RELU, 0, 0},
    {"Tanh", TERCEL_FN_TANH, 0, 0},
    {"Sigmoid", TERCEL_FN_SIGMOID, 0, 0},
    {"LeakyRelu", TERCEL_FN_LEAKY_RELU, 0.01f, 0},
    {"Clip", TERCEL_FN_CLIP, -3.402823466e38, 3.402823466e38},
    {"HardSigmoid", TERCEL_FN_HARD_SIGMOID, 0.2f, 0.5},
    {"Elu", TERCEL_FN_ELU, 1, 0},
};

static tercel_value *activate(tercel_onnx_call *c, tercel_value *x, double p, double q, bool given) {
  const char *const name = tercel_onnx_get_text(c, "activation", "");
  if (name[0] == 0) return x;
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (strcmp(activations[i].name, name) == 0)
      return tercel_onnx_fn_with(c, activations[i].fn, x, given ? p : activations[i].p, given ? q : activations[i].q);
  tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'activation' = '%s' is not supported", name);
  return NULL;
}

/* ---- products ---------------------------------------------------------------------------------------------------------- */

/* transBatch: the first dim and the batch dims behind it change places, [m, batch..., k] as [batch..., m, k]. */
static tercel_value *batch_first(tercel_onnx_call *c, tercel_value *x, const char *attr) {
  if (!tercel_onnx_get_flag(c, attr, false)) return x;
  const int rank = tercel_onnx_rank(c, x);
  if (rank < 3) return x;
  int64_t perm[TERCEL_MAX_RANK];
  for (int i = 0; i < rank - 2; i++) perm[i] = i + 1;
  perm[rank - 2] = 0;
  perm[rank - 1] = rank - 1;
  return tercel_onnx_transpose(c, x, perm, (size_t)rank);
}

void tercel_onnx_build_fused_matmul(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, batch_first(c, tercel_onnx_in(c, 0), "transBatchA"),
                                           batch_first(c, tercel_onnx_in(c, 1), "transBatchB"));
  tercel_onnx_set_int(c, n, "trans_a", tercel_onnx_get_flag(c, "transA", false));
  tercel_onnx_set_int(c, n, "trans_b", tercel_onnx_get_flag(c, "transB", false));
  tercel_onnx_set_float(c, n, "alpha", tercel_onnx_get_float(c, "alpha", 1));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* A product, then an activation whose parameters have names of their own. */
static void build_and_activate(tercel_onnx_call *c, void (*build)(tercel_onnx_call *c)) {
  const bool given = tercel_onnx_has_attr(c, "activation_alpha") || tercel_onnx_has_attr(c, "activation_beta");
  const double p = tercel_onnx_get_float(c, "activation_alpha", 0), q = tercel_onnx_get_float(c, "activation_beta", 0);
  tercel_onnx_ignore_attr(c, "activation_gamma"); /* no activation here has three, or an axis */
  tercel_onnx_ignore_attr(c, "activation_axis");
  build(c);
  if (tercel_onnx_ok(c)) tercel_onnx_return(c, 0, activate(c, c->outputs[0], p, q, given));
}

void tercel_onnx_build_fused_gemm(tercel_onnx_call *c) { build_and_activate(c, tercel_onnx_build_gemm); }
void tercel_onnx_build_fused_matmul_activation(tercel_onnx_call *c) {
  build_and_activate(c, tercel_onnx_build_fused_matmul);
}

/* x w + bias, then GELU by its tanh formula. */
void tercel_onnx_build_gemm_fast_gelu(tercel_onnx_call *c) {
  tercel_value *const y =
      tercel_onnx_op(c, &tercel_op_matmul, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  tercel_onnx_return(c, 0, tercel_onnx_fn1(c, TERCEL_FN_GELU_TANH, y));
}

/* The activation of a convolution, whose parameters are one list. */
static tercel_value *activate_fused(tercel_onnx_call *c, tercel_value *y) {
  size_t count;
  const float *const params = tercel_onnx_get_floats(c, "activation_params", &count);
  const double p = count > 0 ? (double)params[0] : 0, q = count > 1 ? (double)params[1] : 0;
  return activate(c, y, p, q, count > 0);
}

/* Activation of the convolution with a tensor added. */
void tercel_onnx_build_fused_conv(tercel_onnx_call *c) {
  tercel_value *const y = add(c, tercel_onnx_conv(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2)),
                              tercel_onnx_in(c, 3));
  tercel_onnx_return(c, 0, activate_fused(c, y));
}

static int spatial_rank(tercel_onnx_call *c, tercel_value *x) {
  const int rank = tercel_onnx_rank(c, x);
  if (tercel_onnx_ok(c) && rank < 3)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input of rank %d, want 3 or more", rank);
  return rank;
}

tercel_value *tercel_onnx_channels_first(tercel_onnx_call *c, tercel_value *x) {
  const int rank = spatial_rank(c, x);
  int64_t perm[TERCEL_MAX_RANK] = {0, rank - 1};
  for (int i = 2; i < rank; i++) perm[i] = i - 1;
  return tercel_onnx_ok(c) ? tercel_onnx_transpose(c, x, perm, (size_t)rank) : NULL;
}

tercel_value *tercel_onnx_channels_last(tercel_onnx_call *c, tercel_value *x) {
  const int rank = spatial_rank(c, x);
  int64_t perm[TERCEL_MAX_RANK] = {0};
  for (int i = 1; i < rank; i++) perm[i] = i < rank - 1 ? i + 1 : 1;
  return tercel_onnx_ok(c) ? tercel_onnx_transpose(c, x, perm, (size_t)rank) : NULL;
}

/* Channels last in and out, in the added tensor too; the weights as ever. */
void tercel_onnx_build_nhwc_conv(tercel_onnx_call *c) {
  tercel_value *const planes = tercel_onnx_channels_first(c, tercel_onnx_in(c, 0));
  tercel_value *const y = tercel_onnx_conv(c, planes, tercel_onnx_in(c, 1), tercel_onnx_in(c, 2));
  tercel_onnx_return(c, 0, activate_fused(c, add(c, tercel_onnx_channels_last(c, y), tercel_onnx_in(c, 3))));
}

/* ---- norms ------------------------------------------------------------------------------------------------------------- */

static void refuse_output(tercel_onnx_call *c, size_t i) {
  if (tercel_onnx_wants_output(c, i))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "output %zu, which belongs to training, is not supported", i);
}

static double epsilon_of(tercel_onnx_call *c, double fallback) { return tercel_onnx_get_float(c, "epsilon", fallback); }

/* scale (x - mean) / deviation + bias over the last dim; rms: without mean and bias. */
static tercel_value *norm(tercel_onnx_call *c, tercel_value *x, tercel_value *scale, tercel_value *bias, bool rms,
                          double epsilon, int64_t axis) {
  tercel_node *const n = rms ? tercel_onnx_begin(c, &tercel_op_rms_norm, 1, x, scale)
                             : tercel_onnx_begin(c, &tercel_op_layer_norm, 1, x, scale, bias);
  tercel_onnx_set_float(c, n, "epsilon", epsilon);
  tercel_onnx_set_int(c, n, "axis", axis);
  return tercel_onnx_end(c, n);
}

void tercel_onnx_build_simplified_layer_norm(tercel_onnx_call *c) {
  refuse_output(c, 1);
  if (tercel_onnx_get_int(c, "stash_type", 1) != 1)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'stash_type' other than 1 (float) is not supported");
  const int64_t axis = tercel_onnx_get_int(c, "axis", -1);
  tercel_onnx_return(c, 0, norm(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), NULL, true, epsilon_of(c, 1e-5f), axis));
}

/* Inputs: x, skip, scale, bias of the norm (not of the simplified one), bias of the sum.  Output 3 is the sum. */
void tercel_onnx_build_skip_layer_norm(tercel_onnx_call *c) {
  const bool rms = c->row->detail != 0;
  refuse_output(c, 1);
  refuse_output(c, 2);
  tercel_value *const bias = rms ? NULL : tercel_onnx_in(c, 3), *const sum_bias = tercel_onnx_in(c, rms ? 3 : 4);
  tercel_value *const sum = add(c, add(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)), sum_bias);
  tercel_onnx_return(c, 0, norm(c, sum, tercel_onnx_in(c, 2), bias, rms, epsilon_of(c, 1e-12f), -1));
  tercel_onnx_return(c, 3, sum);
}

/* Group norm, channels last unless told otherwise, with a SiLU behind it; before it (detail 1) a skip and a bias are added. */
void tercel_onnx_build_ms_group_norm(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "groups");
  const bool last = tercel_onnx_get_flag(c, "channels_last", true), skips = c->row->detail != 0;
  const int64_t groups = tercel_onnx_get_int(c, "groups", 1), activation = tercel_onnx_get_int(c, "activation", 0);
  tercel_value *x = tercel_onnx_in(c, 0), *skip = skips ? tercel_onnx_in(c, 3) : NULL;
  if (groups < 1 || activation < 0 || activation > 1)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attributes 'groups' and 'activation' are %" PRId64 " and %" PRId64,
                     groups, activation);
  if (skips && !last) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'channels_last' = 0 is not supported");
  if (skip && tercel_onnx_rank(c, skip) == 2) skip = tercel_onnx_unsqueeze(c, skip, (const int64_t[]){1, 2}, 2);
  if (skips) x = add(c, add(c, x, skip), tercel_onnx_in(c, 4));
  if (skips) tercel_onnx_return(c, 1, x);
  const tercel_dtype dtype = tercel_onnx_dtype_of(x);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_group_norm, 1, last ? tercel_onnx_channels_first(c, x) : x,
                                           tercel_onnx_cast(c, tercel_onnx_in(c, 1), dtype),
                                           tercel_onnx_cast(c, tercel_onnx_in(c, 2), dtype));
  tercel_onnx_set_int(c, n, "groups", groups);
  tercel_onnx_set_float(c, n, "epsilon", epsilon_of(c, 1e-5f));
  tercel_value *y = tercel_onnx_end(c, n);
  if (activation) y = tercel_onnx_fn_with(c, TERCEL_FN_SILU, y, 1, 0);
  tercel_onnx_return(c, 0, last ? tercel_onnx_channels_last(c, y) : y);
}

/* Token, position and segment embeddings added, then layer norm: BERT's first layer.  Output 1: how many tokens the mask
 * shows of each sequence. */
enum { IDS, SEGMENT_IDS, WORDS, POSITIONS, SEGMENTS, GAMMA, BETA, MASK, POSITION_IDS };

static tercel_value *rows(tercel_onnx_call *c, tercel_value *table, tercel_value *ids) {
  return tercel_onnx_op(c, &tercel_op_gather, table, ids);
}

/* 0, 1, ... for each token of a sequence. */
static tercel_value *default_places(tercel_onnx_call *c, tercel_value *ids) {
  tercel_value *const length = tercel_onnx_reshape_to(c, tercel_onnx_dim_value(c, ids, 1), NULL, 0);
  return tercel_onnx_op(c, &tercel_op_range, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 0), length,
                        tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 1));
}

/* The embeddings' tables and places, once read. */
typedef struct embedding {
  tercel_value *ids, *segment_ids, *words, *places_table, *segments, *gamma, *beta, *mask, *places;
} embedding;

static void embed(tercel_onnx_call *c, const embedding *e) {
  tercel_value *sum =
      add(c, rows(c, e->words, e->ids), rows(c, e->places_table, e->places ? e->places : default_places(c, e->ids)));
  if (e->segment_ids) sum = add(c, sum, rows(c, e->segments, e->segment_ids));
  tercel_onnx_return(c, 0, norm(c, sum, e->gamma, e->beta, false, epsilon_of(c, 1e-12f), -1));
  tercel_onnx_return(c, 2, sum);
  if (!tercel_onnx_wants_output(c, 1)) return;
  static const int64_t last[] = {1};
  tercel_value *const zeros =
      tercel_onnx_fill(c, tercel_onnx_scalar(c, TERCEL_DTYPE_I32, 0), tercel_onnx_dim_value(c, e->ids, 0));
  tercel_onnx_return(c, 1, e->mask ? tercel_onnx_reduce(c, "sum", e->mask, last, 1, false) : zeros);
}

void tercel_onnx_build_embed_layer_norm(tercel_onnx_call *c) {
  if (tercel_onnx_get_int(c, "mask_index_type", 1) != 1)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'mask_index_type' other than 1 is not supported");
  embed(c, &(embedding){tercel_onnx_in(c, IDS), tercel_onnx_in(c, SEGMENT_IDS), tercel_onnx_in(c, WORDS),
                        tercel_onnx_in(c, POSITIONS), tercel_onnx_in(c, SEGMENTS), tercel_onnx_in(c, GAMMA),
                        tercel_onnx_in(c, BETA), tercel_onnx_in(c, MASK), tercel_onnx_in(c, POSITION_IDS)});
}

/* Table i, of 8-bit integers, as floats: its scale is i - 2 inputs behind the mask, its zero point behind all scales. */
static tercel_value *dequantized_table(tercel_onnx_call *c, size_t i) {
  enum { FIRST_TABLE = 2, FIRST_SCALE = 8, FIRST_ZERO = 13 };
  tercel_value *const x = tercel_onnx_in(c, i), *const scale = tercel_onnx_in(c, FIRST_SCALE + i - FIRST_TABLE);
  tercel_value *const zero = tercel_onnx_in(c, FIRST_ZERO + i - FIRST_TABLE);
  if (!x || !scale || !zero) return NULL;
  return tercel_onnx_fn2(c, TERCEL_FN_MUL,
                         tercel_onnx_fn2(c, TERCEL_FN_SUB, tercel_onnx_cast(c, x, TERCEL_DTYPE_F32),
                                         tercel_onnx_cast(c, zero, TERCEL_DTYPE_F32)),
                         scale);
}

/* ids, segment ids, tables of words, positions and segments, gamma, beta, mask; then their scales and zero points. */
void tercel_onnx_build_qembed_layer_norm(tercel_onnx_call *c) {
  tercel_value *tables[5];
  for (size_t i = 0; i < 5; i++) tables[i] = dequantized_table(c, 2 + i);
  if (!tables[0] || !tables[1] || !tables[3] || !tables[4] || (tercel_onnx_in(c, 1) && !tables[2]))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "a table, its scale or its zero point is absent");
  embed(c, &(embedding){tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tables[0], tables[1], tables[2], tables[3],
                        tables[4], tercel_onnx_in(c, 7), NULL});
}
