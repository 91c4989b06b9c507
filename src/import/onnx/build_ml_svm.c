/* ai.onnx.ml: support vector machines, as products of matrices: of rows and support vectors, then of what kernels make of those and the
 * coefficients.  Where the specification is silent they do what LIBSVM and ONNX Runtime do. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build_ml.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

typedef struct floats {
  const float *items;
  size_t count;
} floats;

static floats get_floats(tercel_onnx_call *c, const char *name) {
  floats f;
  f.items = tercel_onnx_get_floats(c, name, &f.count);
  return f;
}

static void want_count(tercel_onnx_call *c, const char *name, size_t is, int64_t want) {
  if (tercel_onnx_ok(c) && (int64_t)is != want)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' has %zu numbers, want %" PRId64, name, is, want);
}

static tercel_value *matrix(tercel_onnx_call *c, const float *values, int64_t rows, int64_t columns) {
  if (!tercel_onnx_ok(c)) return NULL;
  tercel_value *const list = tercel_onnx_ml_floats(c, values, (size_t)(rows * columns));
  return tercel_onnx_reshape_to(c, list, (const int64_t[]){rows, columns}, 2);
}

static tercel_value *product(tercel_onnx_call *c, tercel_value *a, tercel_value *b, tercel_value *bias, bool trans_b) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, a, b, bias);
  tercel_onnx_set_int(c, n, "trans_b", trans_b);
  return tercel_onnx_end(c, n);
}

/* What the kernel makes of each row and each support vector: N,V.  Parameters: gamma, coef0, degree. */
static tercel_value *kernel(tercel_onnx_call *c, tercel_value *x, tercel_value *vectors) {
  const char *const name = tercel_onnx_get_text(c, "kernel_type", "LINEAR");
  const floats params = get_floats(c, "kernel_params");
  const float defaults[3] = {0, 0, 0}, *const p = params.count > 0 ? params.items : defaults;
  if (params.count > 0) want_count(c, "kernel_params", params.count, 3);
  if (!tercel_onnx_ok(c)) return NULL;
  if (strcmp(name, "LINEAR") == 0) return product(c, x, vectors, NULL, true);
  if (strcmp(name, "RBF") == 0) {
    tercel_node *const n = tercel_onnx_begin(c, &tercel_op_cdist, 1, x, vectors);
    tercel_onnx_set_int(c, n, "squared", 1);
    return tercel_onnx_fn1(c, TERCEL_FN_EXP,
                           tercel_onnx_fn_number(c, TERCEL_FN_MUL, tercel_onnx_end(c, n), -(double)p[0]));
  }
  const bool poly = strcmp(name, "POLY") == 0;
  if (!poly && strcmp(name, "SIGMOID") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'kernel_type' is '%s', want LINEAR, POLY, RBF or SIGMOID",
                     name);
  tercel_value *const scaled =
      tercel_onnx_fn_number(c, TERCEL_FN_MUL, product(c, x, vectors, NULL, true), (double)p[0]);
  tercel_value *const moved = tercel_onnx_fn_number(c, TERCEL_FN_ADD, scaled, (double)p[1]);
  return poly ? tercel_onnx_fn_number(c, TERCEL_FN_POW, moved, (double)p[2])
              : tercel_onnx_fn1(c, TERCEL_FN_TANH, moved);
}

/* The support vectors as rows. */
static tercel_value *get_vectors(tercel_onnx_call *c, int64_t count) {
  const floats f = get_floats(c, "support_vectors");
  if (tercel_onnx_ok(c) && (f.count == 0 || (int64_t)f.count % count != 0))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'support_vectors' has %zu numbers for %" PRId64 " vectors",
                     f.count, count);
  return tercel_onnx_ok(c) ? matrix(c, f.items, count, (int64_t)f.count / count) : NULL;
}

static tercel_value *get_x(tercel_onnx_call *c) {
  return tercel_onnx_cast(c, tercel_onnx_ml_rows(c, tercel_onnx_in(c, 0)), TERCEL_DTYPE_F32);
}

/* Without support vectors the kernel is linear and the coefficients are those of the features. */
static tercel_value *linear(tercel_onnx_call *c, int64_t rows) {
  const floats coefficients = get_floats(c, "coefficients"), rho = get_floats(c, "rho");
  tercel_onnx_ignore_attr(c, "kernel_type");
  tercel_onnx_ignore_attr(c, "kernel_params");
  tercel_onnx_ignore_attr(c, "support_vectors");
  if (tercel_onnx_ok(c) && (coefficients.count == 0 || (int64_t)coefficients.count % rows != 0 || rho.count == 0))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%zu coefficients and %zu rho for %" PRId64 " results",
                     coefficients.count, rho.count, rows);
  if (!tercel_onnx_ok(c)) return NULL;
  tercel_value *const w = matrix(c, coefficients.items, rows, (int64_t)coefficients.count / rows);
  return tercel_onnx_fn_number(c, TERCEL_FN_ADD, product(c, get_x(c), w, NULL, true), (double)rho.items[0]);
}

/* ---- regression -------------------------------------------------------------------------------------------------------- */

/* 1 where the score is positive, else -1: inside or outside of what was learned. */
static tercel_value *side_of(tercel_onnx_call *c, tercel_value *score) {
  tercel_value *const inside = tercel_onnx_fn_number(c, TERCEL_FN_GREATER, score, 0);
  return tercel_onnx_fn3(c, TERCEL_FN_SELECT, inside, tercel_onnx_scalar_like(c, score, 1),
                         tercel_onnx_scalar_like(c, score, -1));
}

void tercel_onnx_build_svm_regressor(tercel_onnx_call *c) {
  const int64_t count = tercel_onnx_get_int(c, "n_supports", 0);
  const bool one_class = tercel_onnx_get_flag(c, "one_class", false);
  tercel_value *score;
  if (count > 0) {
    const floats coefficients = get_floats(c, "coefficients"), rho = get_floats(c, "rho");
    want_count(c, "coefficients", coefficients.count, count);
    want_count(c, "rho", rho.count, 1);
    tercel_value *const k = kernel(c, get_x(c), get_vectors(c, count));
    score =
        product(c, k, matrix(c, coefficients.items, 1, count), tercel_onnx_ml_floats(c, rho.items, rho.count), true);
  } else {
    score = linear(c, 1);
  }
  if (one_class) score = side_of(c, score);
  tercel_onnx_return(c, 0, tercel_onnx_ml_transform(c, score));
}

/* ---- classification ---------------------------------------------------------------------------------------------------- */

/* A classifier of each pair of classes i < j over the support vectors of both. */
typedef struct machine {
  int64_t classes, pairs, vectors;
  const int64_t *per_class; /* support vectors */
} machine;

/* Coefficients as a matrix V,pairs.  In the file they are rows of V: vectors of class i have theirs against j in row j - 1 where i < j, else
 * in row j. */
static tercel_value *pair_coefficients(tercel_onnx_call *c, const machine *m) {
  const floats f = get_floats(c, "coefficients");
  want_count(c, "coefficients", f.count, (m->classes - 1) * m->vectors);
  tercel_value *v = NULL;
  if (!tercel_onnx_ok(c)) return NULL;
  keep(c, tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 2, (const int64_t[]){m->vectors, m->pairs},
                                        &v, c->err));
  if (!v) return NULL;
  float *const out = v->constant->data;
  memset(out, 0, v->constant->bytes);
  int64_t pair = 0, first = 0;
  for (int64_t i = 0; i < m->classes; first += m->per_class[i++]) {
    int64_t second = first + m->per_class[i];
    for (int64_t j = i + 1; j < m->classes; second += m->per_class[j++], ++pair) {
      for (int64_t a = 0; a < m->per_class[i]; a++)
        out[(first + a) * m->pairs + pair] = f.items[(j - 1) * m->vectors + first + a];
      for (int64_t b = 0; b < m->per_class[j]; b++)
        out[(second + b) * m->pairs + pair] = f.items[i * m->vectors + second + b];
    }
  }
  return v;
}

/* votes N,K: how often each class wins.  Each pair gives a vote to its first class where the score is positive, else to its second: with
 * w 1 or 0, that is w (first - second) + second. */
static tercel_value *count_votes(tercel_onnx_call *c, const machine *m, tercel_value *scores) {
  tercel_value *change = NULL, *base = NULL;
  if (tercel_onnx_ok(c))
    keep(c, tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 2,
                                          (const int64_t[]){m->pairs, m->classes}, &change, c->err));
  if (tercel_onnx_ok(c))
    keep(c, tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 1, &m->classes, &base, c->err));
  if (!tercel_onnx_ok(c)) return NULL;
  float *const to = change->constant->data, *const from = base->constant->data;
  memset(to, 0, change->constant->bytes);
  for (int64_t i = 0, pair = 0; i < m->classes; i++) {
    from[i] = (float)i; /* second of as many pairs */
    for (int64_t j = i + 1; j < m->classes; j++, pair++) {
      to[pair * m->classes + i] = 1;
      to[pair * m->classes + j] = -1;
    }
  }
  tercel_value *const wins =
      tercel_onnx_cast(c, tercel_onnx_fn_number(c, TERCEL_FN_GREATER, scores, 0), TERCEL_DTYPE_F32);
  return product(c, wins, change, base, false);
}

/* 1 / (1 + exp(a s + b)) for each pair, kept away from 0 and 1, then of each class. */
static tercel_value *probabilities(tercel_onnx_call *c, const machine *m, tercel_value *scores) {
  const floats a = get_floats(c, "prob_a"), b = get_floats(c, "prob_b");
  want_count(c, "prob_a", a.count, m->pairs);
  want_count(c, "prob_b", b.count, m->pairs);
  if (!tercel_onnx_ok(c)) return NULL;
  tercel_value *const scaled = tercel_onnx_fn2(c, TERCEL_FN_MUL, scores, tercel_onnx_ml_floats(c, a.items, a.count));
  tercel_value *const moved = tercel_onnx_fn2(c, TERCEL_FN_ADD, scaled, tercel_onnx_ml_floats(c, b.items, b.count));
  tercel_value *const p = tercel_onnx_fn1(c, TERCEL_FN_SIGMOID, tercel_onnx_fn1(c, TERCEL_FN_NEG, moved));
  return tercel_onnx_op(c, &tercel_op_pairwise_coupling, tercel_onnx_fn_with(c, TERCEL_FN_CLIP, p, 1e-7, 1 - 1e-7));
}

static machine read_machine(tercel_onnx_call *c, int64_t classes) {
  size_t count;
  machine m = {.classes = classes, .pairs = classes * (classes - 1) / 2};
  m.per_class = tercel_onnx_get_ints(c, "vectors_per_class", &count);
  if (count > 0) want_count(c, "vectors_per_class", count, classes);
  for (size_t i = 0; tercel_onnx_ok(c) && i < count; i++) {
    if (m.per_class[i] < 0 || m.per_class[i] > INT32_MAX)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "class %zu has %" PRId64 " support vectors", i, m.per_class[i]);
    m.vectors += tercel_onnx_ok(c) ? m.per_class[i] : 0;
  }
  return m;
}

void tercel_onnx_build_svm_classifier(tercel_onnx_call *c) {
  tercel_value *const labels = tercel_onnx_ml_labels(c);
  if (!tercel_onnx_ok(c)) return;
  const machine m = read_machine(c, tercel_tensor_num_elements(labels->constant));
  if (!tercel_onnx_ok(c)) return;
  if (m.vectors == 0) {
    tercel_onnx_ignore_attr(c, "prob_a");
    tercel_onnx_ignore_attr(c, "prob_b");
    tercel_value *const scores = linear(c, m.classes);
    tercel_onnx_return(c, 0, tercel_onnx_ml_pick(c, labels, tercel_onnx_ml_best(c, scores)));
    tercel_onnx_return(c, 1, tercel_onnx_ml_transform(c, scores));
    return;
  }
  const floats rho = get_floats(c, "rho");
  if (m.classes < 2 || m.classes > INT16_MAX)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "support vectors of %" PRId64 " classes", m.classes);
  want_count(c, "rho", rho.count, m.pairs);
  tercel_value *const k = kernel(c, get_x(c), get_vectors(c, m.vectors));
  tercel_value *const scores =
      product(c, k, pair_coefficients(c, &m), tercel_onnx_ml_floats(c, rho.items, rho.count), false);
  tercel_onnx_return(c, 0, tercel_onnx_ml_pick(c, labels, tercel_onnx_ml_best(c, count_votes(c, &m, scores))));
  if (tercel_onnx_has_attr(c, "prob_a")) {
    tercel_onnx_return(c, 1, tercel_onnx_ml_transform(c, probabilities(c, &m, scores)));
    return;
  }
  const bool mirrored = strcmp(tercel_onnx_get_text(c, "post_transform", "NONE"), "NONE") == 0;
  tercel_onnx_return(
      c, 1, m.pairs == 1 ? tercel_onnx_ml_two_scores(c, scores, mirrored) : tercel_onnx_ml_transform(c, scores));
}
