/* ai.onnx.ml: encoders, scalers, linear models.  Trees: build_trees.c. */
#include "import/onnx/build_ml.h"

#include <math.h>
#include <string.h>

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

/* ---- what they share ----------------------------------------------------------------------------------------------- */

tercel_value *tercel_onnx_ml_floats(tercel_onnx_call *c, const float *values, size_t count) {
  tercel_value *v = NULL;
  if (!tercel_onnx_ok(c)) return NULL;
  keep(c,
       tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 1, &(int64_t){(int64_t)count}, &v, c->err));
  if (v && count > 0) memcpy(v->constant->data, values, count * sizeof *values);
  return v;
}

static tercel_value *strings(tercel_onnx_call *c, const tercel_string *values, size_t count, int rank) {
  tercel_value *v = NULL;
  if (tercel_onnx_ok(c))
    keep(c, tercel_onnx_add_strings(c->graph, c->name, values, rank, &(int64_t){(int64_t)count}, &v, c->err));
  return v;
}

tercel_value *tercel_onnx_ml_list(tercel_onnx_call *c, const char *tensor, const char *text, const char *ints,
                                  const char *floats) {
  const tercel_onnx_attr *a;
  tercel_value *v = NULL;
  if (tensor && (a = tercel_onnx_get_attr(c, tensor, TERCEL_ONNX_TENSOR)) != NULL && a->t) {
    keep(c, tercel_onnx_add_tensor(c->import, c->graph, c->name, a->t, &v, c->err));
    return v;
  }
  if (text && (a = tercel_onnx_get_attr(c, text, TERCEL_ONNX_STRINGS)) != NULL && a->strings.count > 0)
    return strings(c, a->strings.items, a->strings.count, 1);
  if (ints && (a = tercel_onnx_get_attr(c, ints, TERCEL_ONNX_INTS)) != NULL && a->ints.count > 0)
    return tercel_onnx_i64s(c, a->ints.items, a->ints.count);
  if (floats && (a = tercel_onnx_get_attr(c, floats, TERCEL_ONNX_FLOATS)) != NULL && a->floats.count > 0)
    return tercel_onnx_ml_floats(c, a->floats.items, a->floats.count);
  return NULL;
}

tercel_value *tercel_onnx_ml_labels(tercel_onnx_call *c) {
  tercel_value *const labels = tercel_onnx_ml_list(c, NULL, "classlabels_strings", "classlabels_int64s", NULL);
  tercel_value *const ints = labels ? labels : tercel_onnx_ml_list(c, NULL, NULL, "classlabels_ints", NULL);
  if (!ints) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "no attribute lists the class labels");
  return ints;
}

static int64_t count_of(const tercel_value *v) { return v ? tercel_tensor_num_elements(v->constant) : 0; }

/* Floats of what they are; other numbers as f32. */
tercel_value *tercel_onnx_ml_float_input(tercel_onnx_call *c, size_t i) {
  tercel_value *const x = tercel_onnx_in(c, i);
  return tercel_dtype_is_float(tercel_onnx_dtype_of(x)) ? x : tercel_onnx_cast(c, x, TERCEL_DTYPE_F32);
}

tercel_value *tercel_onnx_ml_rows(tercel_onnx_call *c, tercel_value *x) {
  return tercel_onnx_rank(c, x) == 1 ? tercel_onnx_unsqueeze(c, x, (const int64_t[]){0}, 1) : x;
}

static tercel_value *softmax(tercel_onnx_call *c, tercel_value *x) { return tercel_onnx_op(c, &tercel_op_softmax, x); }

/* Softmax in which a score of 0 takes no part: it stays (almost) 0. */
static tercel_value *softmax_zero(tercel_onnx_call *c, tercel_value *x) {
  const int64_t last = -1;
  tercel_value *const max = tercel_onnx_reduce(c, "max", x, &last, 1, true);
  tercel_value *const e = tercel_onnx_fn1(c, TERCEL_FN_EXP, tercel_onnx_fn2(c, TERCEL_FN_SUB, x, max));
  tercel_value *const flat =
      tercel_onnx_fn2(c, TERCEL_FN_MUL, x, tercel_onnx_fn1(c, TERCEL_FN_EXP, tercel_onnx_fn1(c, TERCEL_FN_NEG, max)));
  tercel_value *const is_zero = tercel_onnx_fn2(c, TERCEL_FN_LESS_EQUAL, tercel_onnx_fn1(c, TERCEL_FN_ABS, x),
                                                tercel_onnx_scalar_like(c, x, 1e-7));
  tercel_value *const kept = tercel_onnx_fn3(c, TERCEL_FN_SELECT, is_zero, flat, e);
  return tercel_onnx_fn2(c, TERCEL_FN_DIV, kept, tercel_onnx_reduce(c, "sum", kept, &last, 1, true));
}

static tercel_value *plus(tercel_onnx_call *c, tercel_value *x, double number) {
  return tercel_onnx_fn_number(c, TERCEL_FN_ADD, x, number);
}

static tercel_value *times(tercel_onnx_call *c, tercel_value *x, double number) {
  return tercel_onnx_fn_number(c, TERCEL_FN_MUL, x, number);
}

/* The x below which a normal number lies with probability p: sqrt(2) erfinv(2 p - 1), the latter by Winitzki's formula ("A handy
 * approximation for the error function and its inverse", 2008, equation 7; within 0.004), which is what other runtimes compute here. */
static tercel_value *probit(tercel_onnx_call *c, tercel_value *p) {
  const double a = 0.147, pi = 3.14159265358979323846;
  tercel_value *const x = plus(c, times(c, p, 2), -1);
  tercel_value *const log = tercel_onnx_fn1(
      c, TERCEL_FN_LOG,
      tercel_onnx_fn2(c, TERCEL_FN_MUL, plus(c, tercel_onnx_fn1(c, TERCEL_FN_NEG, x), 1), plus(c, x, 1)));
  tercel_value *const v = plus(c, times(c, log, 0.5), 2 / (pi * a));
  tercel_value *const square = tercel_onnx_fn2(c, TERCEL_FN_MUL, v, v);
  tercel_value *const root =
      tercel_onnx_fn1(c, TERCEL_FN_SQRT, tercel_onnx_fn2(c, TERCEL_FN_SUB, square, times(c, log, 1 / a)));
  tercel_value *const size = tercel_onnx_fn1(c, TERCEL_FN_SQRT, tercel_onnx_fn2(c, TERCEL_FN_SUB, root, v));
  return times(c, tercel_onnx_fn2(c, TERCEL_FN_MUL, tercel_onnx_fn1(c, TERCEL_FN_SIGN, x), size), 1.4142135623730951);
}

tercel_value *tercel_onnx_ml_apply(tercel_onnx_call *c, tercel_value *scores, const char *name) {
  if (strcmp(name, "NONE") == 0) return scores;
  if (strcmp(name, "SOFTMAX") == 0) return softmax(c, scores);
  if (strcmp(name, "SOFTMAX_ZERO") == 0) return softmax_zero(c, scores);
  if (strcmp(name, "LOGISTIC") == 0) return tercel_onnx_fn1(c, TERCEL_FN_SIGMOID, scores);
  if (strcmp(name, "PROBIT") == 0) return probit(c, scores);
  tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'post_transform' is '%s'", name);
  return NULL;
}

tercel_value *tercel_onnx_ml_transform(tercel_onnx_call *c, tercel_value *scores) {
  return tercel_onnx_ml_apply(c, scores, tercel_onnx_get_text(c, "post_transform", "NONE"));
}

tercel_value *tercel_onnx_ml_pick(tercel_onnx_call *c, tercel_value *labels, tercel_value *index) {
  return tercel_onnx_op(c, &tercel_op_gather, labels, index);
}

tercel_value *tercel_onnx_ml_best(tercel_onnx_call *c, tercel_value *scores) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_arg_reduce, 1, scores);
  tercel_onnx_set_text(c, n, "kind", "max");
  tercel_onnx_set_int(c, n, "axis", 1);
  tercel_onnx_set_int(c, n, "keepdims", 0);
  return tercel_onnx_end(c, n);
}

/* ---- encoders ------------------------------------------------------------------------------------------------------ */

tercel_value *tercel_onnx_ml_string(tercel_onnx_call *c, const char *text) {
  return strings(c, &(tercel_string){text, strlen(text)}, 1, 0);
}

/* The default for values of this type. */
static tercel_value *default_for(tercel_onnx_call *c, tercel_dtype dtype) {
  if (dtype == TERCEL_DTYPE_STRING)
    return tercel_onnx_ml_string(c, tercel_onnx_get_text(c, "default_string", "_Unused"));
  if (tercel_dtype_is_float(dtype))
    return tercel_onnx_scalar(c, dtype, tercel_onnx_get_float(c, "default_float", -0.0));
  return tercel_onnx_scalar(c, dtype, (double)tercel_onnx_get_int(c, "default_int64", -1));
}

static void encode(tercel_onnx_call *c, tercel_value *x, tercel_value *keys, tercel_value *values,
                   tercel_value *otherwise) {
  static const char *const defaults[] = {"default_string", "default_int64", "default_float"};
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) tercel_onnx_ignore_attr(c, defaults[i]);
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_label_encode, x, keys, values, otherwise));
}

/* Version 1: strings to their place in a list, or back. */
void tercel_onnx_build_label_encoder1(tercel_onnx_call *c) {
  tercel_value *const classes = tercel_onnx_ml_list(c, NULL, "classes_strings", NULL, NULL), *const x =
                                                                                                 tercel_onnx_in(c, 0);
  if (!classes) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'classes_strings' is missing");
  const bool back = tercel_onnx_dtype_of(x) != TERCEL_DTYPE_STRING;
  tercel_value *const places = tercel_onnx_ml_iota(c, count_of(classes));
  encode(c, x, back ? places : classes, back ? classes : places,
         default_for(c, back ? TERCEL_DTYPE_STRING : TERCEL_DTYPE_I64));
}

void tercel_onnx_build_label_encoder(tercel_onnx_call *c) {
  tercel_value *const keys = tercel_onnx_ml_list(c, "keys_tensor", "keys_strings", "keys_int64s", "keys_floats");
  tercel_value *const values =
      tercel_onnx_ml_list(c, "values_tensor", "values_strings", "values_int64s", "values_floats");
  if (!keys || !values) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "no attribute lists the keys, or none the values");
  tercel_value *otherwise = tercel_onnx_ml_list(c, "default_tensor", NULL, NULL, NULL);
  if (!otherwise && tercel_onnx_ok(c)) otherwise = default_for(c, tercel_onnx_dtype_of(values));
  encode(c, tercel_onnx_in(c, 0), keys, values, otherwise);
}

/* Strings to numbers or numbers to strings, by two lists side by side. */
void tercel_onnx_build_category_mapper(tercel_onnx_call *c) {
  tercel_value *const strings_of = tercel_onnx_ml_list(c, NULL, "cats_strings", NULL, NULL);
  tercel_value *const ints = tercel_onnx_ml_list(c, NULL, NULL, "cats_int64s", NULL), *const x = tercel_onnx_in(c, 0);
  const bool back = tercel_onnx_dtype_of(x) != TERCEL_DTYPE_STRING;
  if (!strings_of || !ints || count_of(strings_of) != count_of(ints))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attributes 'cats_strings' and 'cats_int64s' have %lld and %lld elements",
                     (long long)count_of(strings_of), (long long)count_of(ints));
  encode(c, x, back ? ints : strings_of, back ? strings_of : ints,
         default_for(c, back ? TERCEL_DTYPE_STRING : TERCEL_DTYPE_I64));
}

/* 0, 1, ... count - 1. */
tercel_value *tercel_onnx_ml_iota(tercel_onnx_call *c, int64_t count) {
  return tercel_onnx_op(c, &tercel_op_range, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 0),
                        tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)count),
                        tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 1));
}

/* What is in no category is marked nowhere, or (zeros = 0) an index out of range: an error of the run. */
void tercel_onnx_build_one_hot_encoder(tercel_onnx_call *c) {
  tercel_value *const cats = tercel_onnx_ml_list(c, NULL, "cats_strings", "cats_int64s", NULL);
  const bool zeros = tercel_onnx_get_flag(c, "zeros", true);
  if (!cats) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "no attribute lists the categories");
  tercel_value *x = tercel_onnx_in(c, 0);
  if (tercel_onnx_dtype_of(x) != TERCEL_DTYPE_STRING) x = tercel_onnx_cast(c, x, TERCEL_DTYPE_I64);
  const int64_t count = count_of(cats);
  tercel_value *const places = tercel_onnx_ml_iota(c, count);
  tercel_value *index = tercel_onnx_op(c, &tercel_op_label_encode, x, cats, places,
                                       tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)count));
  if (!zeros) index = tercel_onnx_op(c, &tercel_op_gather, places, index);
  const float off_on[] = {0, 1};
  tercel_onnx_return(c, 0,
                     tercel_onnx_op(c, &tercel_op_one_hot, index,
                                    tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)count),
                                    tercel_onnx_ml_floats(c, off_on, 2)));
}

/* Columns of the last axis; a vector counts as one row. */
void tercel_onnx_build_array_feature_extractor(tercel_onnx_call *c) {
  const int64_t flat = -1;
  tercel_value *const x = tercel_onnx_ml_rows(c, tercel_onnx_in(c, 0));
  tercel_value *const index = tercel_onnx_reshape_to(c, tercel_onnx_in(c, 1), &flat, 1);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_gather, 1, x, index);
  tercel_onnx_set_int(c, n, "axis", -1);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

void tercel_onnx_build_binarizer(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  tercel_value *const more = tercel_onnx_fn_number(c, TERCEL_FN_GREATER, x, tercel_onnx_get_float(c, "threshold", 0));
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, more, tercel_onnx_dtype_of(x)));
}

/* (x - offset) * scale, in f32. */
void tercel_onnx_build_scaler(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_cast(c, tercel_onnx_in(c, 0), TERCEL_DTYPE_F32);
  tercel_value *const offset = tercel_onnx_ml_list(c, NULL, NULL, NULL, "offset"), *const scale = tercel_onnx_ml_list(
                                                                                       c, NULL, NULL, NULL, "scale");
  tercel_value *y = offset ? tercel_onnx_fn2(c, TERCEL_FN_SUB, x, offset) : x;
  if (scale) y = tercel_onnx_fn2(c, TERCEL_FN_MUL, y, scale);
  tercel_onnx_return(c, 0, y);
}

void tercel_onnx_build_imputer(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const bool is_float = tercel_dtype_is_float(tercel_onnx_dtype_of(x));
  const double replaced = tercel_onnx_get_float(c, "replaced_value_float", NAN);
  const int64_t replaced_int = tercel_onnx_get_int(c, "replaced_value_int64", 0);
  tercel_value *const floats = tercel_onnx_ml_list(c, NULL, NULL, NULL, "imputed_value_floats");
  tercel_value *const ints = tercel_onnx_ml_list(c, NULL, NULL, "imputed_value_int64s", NULL);
  tercel_value *const values = is_float ? floats : ints;
  if (!values) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "no attribute gives values of the input's type");
  tercel_value *const is_missing = !is_float ? tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, x, (double)replaced_int)
                                   : isnan(replaced) ? tercel_onnx_fn1(c, TERCEL_FN_IS_NAN, x)
                                                     : tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, x, replaced);
  tercel_onnx_return(
      c, 0, tercel_onnx_fn3(c, TERCEL_FN_SELECT, is_missing, tercel_onnx_cast(c, values, tercel_onnx_dtype_of(x)), x));
}

/* Each row over its norm, where that is not 0. */
void tercel_onnx_build_normalizer(tercel_onnx_call *c) {
  static const struct { const char *name, *kind; } norms[] = {{"MAX", "max"}, {"L1", "l1"}, {"L2", "l2"}};
  const char *const name = tercel_onnx_get_text(c, "norm", "MAX");
  const char *kind = NULL;
  for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
    if (strcmp(name, norms[i].name) == 0) kind = norms[i].kind;
  if (!kind) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'norm' is '%s', want MAX, L1 or L2", name);
  tercel_value *const x = tercel_onnx_cast(c, tercel_onnx_in(c, 0), TERCEL_DTYPE_F32);
  const int64_t axis = tercel_onnx_rank(c, x) > 1;
  tercel_value *const norm = tercel_onnx_ok(c) ? tercel_onnx_reduce(c, kind, x, &axis, 1, true) : NULL;
  tercel_value *const is_zero = tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, norm, 0);
  tercel_onnx_return(c, 0,
                     tercel_onnx_fn3(c, TERCEL_FN_SELECT, is_zero, x, tercel_onnx_fn2(c, TERCEL_FN_DIV, x, norm)));
}

/* Inputs side by side as f32, each cut or filled up with zeros to the width that is given for it. */
void tercel_onnx_build_feature_vectorizer(tercel_onnx_call *c) {
  size_t count;
  const int64_t *const widths = tercel_onnx_get_ints(c, "inputdimensions", &count);
  if (widths && count != c->num_inputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%zu inputdimensions for %zu inputs", count, c->num_inputs);
  tercel_value **const parts = tercel_arena_alloc_array(&c->import->arena, c->num_inputs, sizeof *parts);
  if (!parts) keep(c, tercel_fail_memory(c->err, c->num_inputs * sizeof *parts, "inputs"));
  for (size_t i = 0; tercel_onnx_ok(c) && i < c->num_inputs; i++) {
    tercel_value *x = tercel_onnx_cast(c, tercel_onnx_ml_rows(c, tercel_onnx_in(c, i)), TERCEL_DTYPE_F32);
    const int64_t width = tercel_onnx_dim_of(c, x, -1);
    if (widths && tercel_onnx_ok(c) && width != widths[i]) {
      if (width < 0 || widths[i] < 0) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "input %zu has no known width", i);
      const int64_t pads[] = {0, 0, 0, width < 0 ? 0 : widths[i] - width};
      x = tercel_onnx_op(c, &tercel_op_pad, x, tercel_onnx_i64s(c, pads, 4));
    }
    parts[i] = x;
  }
  tercel_onnx_return(c, 0, tercel_onnx_concat(c, parts, c->num_inputs, 1));
}

/* ---- linear models ------------------------------------------------------------------------------------------------- */

/* x coefficients' + intercepts: N,targets. */
static tercel_value *linear(tercel_onnx_call *c, int64_t targets) {
  tercel_value *const x = tercel_onnx_cast(c, tercel_onnx_ml_rows(c, tercel_onnx_in(c, 0)), TERCEL_DTYPE_F32);
  tercel_value *const w = tercel_onnx_ml_list(c, NULL, NULL, NULL, "coefficients");
  tercel_value *const bias = tercel_onnx_ml_list(c, NULL, NULL, NULL, "intercepts");
  if (!w) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'coefficients' is missing");
  if (targets < 1 || (w && count_of(w) % targets != 0) || (bias && count_of(bias) != targets))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%lld coefficients and %lld intercepts for %lld results",
                     (long long)count_of(w), (long long)count_of(bias), (long long)targets);
  if (!tercel_onnx_ok(c)) return NULL;
  tercel_value *const rows = tercel_onnx_reshape_to(c, w, (const int64_t[]){targets, count_of(w) / targets}, 2);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, x, rows, bias);
  tercel_onnx_set_int(c, n, "trans_b", 1);
  return tercel_onnx_end(c, n);
}

void tercel_onnx_build_linear_regressor(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_ml_transform(c, linear(c, tercel_onnx_get_int(c, "targets", 1))));
}

/* Without intercepts one row of coefficients a class. */
void tercel_onnx_build_linear_classifier(tercel_onnx_call *c) {
  tercel_onnx_ignore_attr(c, "multi_class"); /* nothing in the result follows from it */
  tercel_value *const labels = tercel_onnx_ml_labels(c);
  size_t num_intercepts;
  tercel_onnx_get_floats(c, "intercepts", &num_intercepts);
  tercel_value *const scores = linear(c, num_intercepts > 0 ? (int64_t)num_intercepts : count_of(labels));
  if (!tercel_onnx_ok(c)) return;
  if (num_intercepts == 1 && count_of(labels) == 2) {
    tercel_onnx_ml_binary(c, labels, scores, 0, false);
    return;
  }
  tercel_onnx_return(c, 0, tercel_onnx_ml_pick(c, labels, tercel_onnx_ml_best(c, scores)));
  tercel_onnx_return(c, 1, tercel_onnx_ml_transform(c, scores));
}

/* The second label where the score (N,1) is above the threshold. */
tercel_value *tercel_onnx_ml_decide(tercel_onnx_call *c, tercel_value *labels, tercel_value *score, double threshold) {
  tercel_value *const more = tercel_onnx_fn_number(c, TERCEL_FN_GREATER, score, threshold);
  return tercel_onnx_ml_pick(c, labels,
                             tercel_onnx_reshape_to(c, tercel_onnx_cast(c, more, TERCEL_DTYPE_I64), &(int64_t){-1}, 1));
}

tercel_value *tercel_onnx_ml_two_scores(tercel_onnx_call *c, tercel_value *score, bool mirrored) {
  const char *const transform = tercel_onnx_get_text(c, "post_transform", "NONE");
  const bool logistic = strcmp(transform, "LOGISTIC") == 0;
  if (strcmp(transform, "PROBIT") == 0)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "post_transform PROBIT of one score for two labels is not supported");
  tercel_value *const other = mirrored || logistic
                                  ? tercel_onnx_fn1(c, TERCEL_FN_NEG, score)
                                  : tercel_onnx_fn2(c, TERCEL_FN_SUB, tercel_onnx_scalar_like(c, score, 1), score);
  tercel_value *const both = tercel_onnx_concat(c, (tercel_value *const[]){other, score}, 2, 1);
  return logistic ? tercel_onnx_fn1(c, TERCEL_FN_SIGMOID, both) : both;
}

void tercel_onnx_ml_binary(tercel_onnx_call *c, tercel_value *labels, tercel_value *score, double threshold,
                           bool mirrored) {
  tercel_onnx_return(c, 0, tercel_onnx_ml_decide(c, labels, score, threshold));
  tercel_onnx_return(c, 1, tercel_onnx_ml_two_scores(c, score, mirrored));
}
