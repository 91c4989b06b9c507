/* Random numbers, and what is made with them: Dropout, Bernoulli, Multinomial.  The generator is tercel's own (ops/random.c): results have the
 * right distribution, but not the bits of another runtime. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

static const char *const kinds[] = {"uniform", "normal"};

/* ---- the generator --------------------------------------------------------------------------------------------------- */

static tercel_node *begin_random(tercel_onnx_call *c, const char *kind, tercel_value *shape, tercel_dtype dtype) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_random, 1, shape);
  tercel_onnx_set_text(c, n, "kind", kind);
  tercel_onnx_set_dtype(c, n, "dtype", dtype);
  return n;
}

/* Seeds are floats here: their bits are the key. */
static void copy_seed(tercel_onnx_call *c, tercel_node *n) {
  if (!tercel_onnx_has_attr(c, "seed")) return;
  const float seed = (float)tercel_onnx_get_float(c, "seed", 0);
  uint32_t bits;
  memcpy(&bits, &seed, sizeof bits);
  tercel_onnx_set_int(c, n, "seed", bits);
}

/* Uniform numbers of [0, 1). */
static tercel_value *uniform(tercel_onnx_call *c, tercel_value *shape, tercel_dtype dtype) {
  tercel_node *const n = begin_random(c, "uniform", shape, dtype);
  copy_seed(c, n);
  return tercel_onnx_end(c, n);
}

static tercel_value *random_numbers(tercel_onnx_call *c, tercel_value *shape, tercel_dtype dtype) {
  const bool normal = c->row->detail != 0;
  tercel_node *const n = begin_random(c, kinds[normal], shape, dtype);
  tercel_onnx_set_float(c, n, "a", tercel_onnx_get_float(c, normal ? "mean" : "low", 0));
  tercel_onnx_set_float(c, n, "b", tercel_onnx_get_float(c, normal ? "scale" : "high", 1));
  copy_seed(c, n);
  return tercel_onnx_end(c, n);
}

void tercel_onnx_build_random(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "shape");
  size_t count;
  const int64_t *const shape = tercel_onnx_get_ints(c, "shape", &count);
  const tercel_dtype dtype = tercel_onnx_get_dtype(c, "dtype", TERCEL_DTYPE_F32);
  tercel_onnx_return(c, 0, random_numbers(c, tercel_onnx_i64s(c, shape, count), dtype));
}

void tercel_onnx_build_random_like(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const tercel_dtype dtype = tercel_onnx_get_dtype(c, "dtype", tercel_onnx_dtype_of(x));
  tercel_onnx_return(c, 0, random_numbers(c, tercel_onnx_shape_of(c, x), dtype));
}

/* ---- draws ----------------------------------------------------------------------------------------------------------- */

/* 1 with the probability that the input gives. */
void tercel_onnx_build_bernoulli(tercel_onnx_call *c) {
  tercel_value *const p = tercel_onnx_in(c, 0);
  const tercel_dtype dtype = tercel_onnx_get_dtype(c, "dtype", tercel_onnx_dtype_of(p));
  tercel_value *const u = uniform(c, tercel_onnx_shape_of(c, p), TERCEL_DTYPE_F64);
  tercel_value *const hit = tercel_onnx_fn2(c, TERCEL_FN_LESS, u, tercel_onnx_cast(c, p, TERCEL_DTYPE_F64));
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, hit, dtype));
}

/* Classes by their log probabilities [N, C], not normalized, S times: the largest of log p + g, where g = -log(-log u) follows Gumbel's
 * distribution, is class c with probability p_c / sum p (Gumbel 1954). */
void tercel_onnx_build_multinomial(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const int64_t samples = tercel_onnx_get_int(c, "sample_size", 1);
  const tercel_dtype dtype = tercel_onnx_get_dtype(c, "dtype", TERCEL_DTYPE_I32);
  if (tercel_onnx_ok(c) && tercel_onnx_rank(c, x) != 2)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input has rank %d, want 2", tercel_onnx_rank(c, x));
  if (samples < 1) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'sample_size' is %" PRId64, samples);
  tercel_value *const parts[] = {tercel_onnx_dim_value(c, x, 0), tercel_onnx_i64(c, samples),
                                 tercel_onnx_dim_value(c, x, 1)};
  tercel_value *const u = uniform(c, tercel_onnx_concat(c, parts, 3, 0), TERCEL_DTYPE_F64);
  tercel_value *const exponential = tercel_onnx_fn1(c, TERCEL_FN_NEG, tercel_onnx_fn1(c, TERCEL_FN_LOG, u));
  tercel_value *const logits = tercel_onnx_unsqueeze(c, tercel_onnx_cast(c, x, TERCEL_DTYPE_F64), &(int64_t){1}, 1);
  tercel_node *const best =
      tercel_onnx_begin(c, &tercel_op_arg_reduce, 1,
                        tercel_onnx_fn2(c, TERCEL_FN_SUB, logits, tercel_onnx_fn1(c, TERCEL_FN_LOG, exponential)));
  tercel_onnx_set_text(c, best, "kind", "max");
  tercel_onnx_set_int(c, best, "axis", 2);
  tercel_onnx_set_int(c, best, "keepdims", 0);
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, tercel_onnx_end(c, best), dtype));
}

/* ---- dropout --------------------------------------------------------------------------------------------------------- */

/* Inference: what comes in goes out, nothing is dropped. */
static void drop_nothing(tercel_onnx_call *c, tercel_dtype mask) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  tercel_onnx_return(c, 0, x);
  if (!tercel_onnx_wants_output(c, 1)) return;
  tercel_onnx_return(c, 1, tercel_onnx_fill(c, tercel_onnx_scalar(c, mask, 1), tercel_onnx_shape_of(c, x)));
}

/* Whether it trains was an attribute up to version 6, which files of that time leave at 0 and mean inference; then it was not said. */
void tercel_onnx_build_dropout1(tercel_onnx_call *c) {
  tercel_onnx_ignore_attr(c, "ratio");
  if (c->version < 7) {
    tercel_onnx_ignore_attr(c, "consumed_inputs");
    tercel_onnx_ignore_attr(c, "is_test");
  }
  drop_nothing(c, c->version < 10 ? tercel_onnx_dtype_of(tercel_onnx_in(c, 0)) : TERCEL_DTYPE_BOOL);
}

/* y = mask x / (1 - ratio), where an element of the mask is true with probability 1 - ratio.  Ratio and training may be known only in the run. */
void tercel_onnx_build_dropout(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const training = tercel_onnx_in(c, 2);
  tercel_value *ratio = tercel_onnx_in(c, 1);
  double known_ratio, known_training;
  const bool no_training =
      training == NULL || (tercel_onnx_known_scalar(training, &known_training) && known_training == 0);
  if (no_training || (ratio && tercel_onnx_known_scalar(ratio, &known_ratio) && known_ratio == 0)) {
    tercel_onnx_ignore_attr(c, "seed");
    drop_nothing(c, TERCEL_DTYPE_BOOL);
    return;
  }
  ratio = ratio ? tercel_onnx_cast(c, ratio, TERCEL_DTYPE_F32) : tercel_onnx_scalar(c, TERCEL_DTYPE_F32, 0.5);
  tercel_node *const n = begin_random(c, "uniform", tercel_onnx_shape_of(c, x), TERCEL_DTYPE_F32);
  if (tercel_onnx_has_attr(c, "seed")) tercel_onnx_set_int(c, n, "seed", tercel_onnx_get_int(c, "seed", 0));
  tercel_value *const drawn = tercel_onnx_fn2(c, TERCEL_FN_GREATER_EQUAL, tercel_onnx_end(c, n), ratio);
  tercel_value *const keep = tercel_onnx_fn2(c, TERCEL_FN_OR, drawn, tercel_onnx_fn1(c, TERCEL_FN_NOT, training));
  tercel_value *const one = tercel_onnx_scalar(c, TERCEL_DTYPE_F32, 1);
  tercel_value *const kept_share = tercel_onnx_fn2(c, TERCEL_FN_SUB, one, ratio);
  tercel_value *const factor =
      tercel_onnx_fn3(c, TERCEL_FN_SELECT, training, tercel_onnx_fn1(c, TERCEL_FN_RECIPROCAL, kept_share), one);
  tercel_value *const scaled =
      tercel_onnx_fn2(c, TERCEL_FN_MUL, x, tercel_onnx_cast(c, factor, tercel_onnx_dtype_of(x)));
  tercel_onnx_return(c, 0, tercel_onnx_fn3(c, TERCEL_FN_SELECT, keep, scaled, tercel_onnx_scalar_like(c, x, 0)));
  tercel_onnx_return(c, 1, keep);
}
