/* Losses and the steps of optimizers, made of plain operators. */
#include <string.h>

#include "import/onnx/build.h"

/* ---- losses ---------------------------------------------------------------------------------------------------------- */

static const char *reduction_of(tercel_onnx_call *c) {
  const char *const reduction = tercel_onnx_get_text(c, "reduction", "mean");
  if (strcmp(reduction, "none") != 0 && strcmp(reduction, "sum") != 0 && strcmp(reduction, "mean") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'reduction' is '%s', want none, sum or mean", reduction);
  return reduction;
}

/* x[n][target[n, i...]][i...] for x of [N, C, d...] and a target of [N, d...]. */
static tercel_value *pick_classes(tercel_onnx_call *c, tercel_value *x, tercel_value *target) {
  const int64_t axis = 1;
  tercel_node *const pick =
      tercel_onnx_begin(c, &tercel_op_gather_elements, 1, x, tercel_onnx_unsqueeze(c, target, &axis, 1));
  tercel_onnx_set_int(c, pick, "axis", axis);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_squeeze, 1, tercel_onnx_end(c, pick));
  tercel_onnx_set_ints(c, n, "axes", &axis, 1);
  return tercel_onnx_end(c, n);
}

/* All elements to a scalar. */
static tercel_value *total(tercel_onnx_call *c, const char *kind, tercel_value *x) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_reduce, 1, x);
  tercel_onnx_set_text(c, n, "kind", kind);
  tercel_onnx_set_int(c, n, "keepdims", 0);
  return tercel_onnx_end(c, n);
}

/* -log p of the target's class, times the class's weight (absent: 1), 0 where the target is to be ignored; the mean is over the weights. */
static tercel_value *nll_loss(tercel_onnx_call *c, tercel_value *log_p, tercel_value *target, tercel_value *weight) {
  const char *const reduction = reduction_of(c);
  tercel_value *const zero = tercel_onnx_scalar_like(c, log_p, 0);
  tercel_value *ignored = NULL, *classes = target;
  if (tercel_onnx_has_attr(c, "ignore_index")) {
    const int64_t index = tercel_onnx_get_int(c, "ignore_index", 0);
    ignored = tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, target, (double)index);
    classes = tercel_onnx_fn3(c, TERCEL_FN_SELECT, ignored, tercel_onnx_scalar_like(c, target, 0), target);
  }
  tercel_value *loss = tercel_onnx_fn1(c, TERCEL_FN_NEG, pick_classes(c, log_p, classes));
  tercel_value *weights = weight ? tercel_onnx_op(c, &tercel_op_gather, weight, classes) : NULL;
  if (weights) loss = tercel_onnx_fn2(c, TERCEL_FN_MUL, loss, weights);
  if (ignored) {
    loss = tercel_onnx_fn3(c, TERCEL_FN_SELECT, ignored, zero, loss);
    tercel_value *const given = weights ? weights : tercel_onnx_scalar_like(c, log_p, 1);
    weights = tercel_onnx_fn3(c, TERCEL_FN_SELECT, ignored, zero, given);
  }
  if (strcmp(reduction, "none") == 0) return loss;
  if (!weights || strcmp(reduction, "sum") == 0) return total(c, reduction, loss);
  return tercel_onnx_fn2(c, TERCEL_FN_DIV, total(c, "sum", loss), total(c, "sum", weights));
}

void tercel_onnx_build_nll_loss(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, nll_loss(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2)));
}

void tercel_onnx_build_cross_entropy_loss(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_softmax, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_int(c, n, "axis", 1);
  tercel_onnx_set_int(c, n, "log", 1);
  tercel_value *const log_p = tercel_onnx_end(c, n);
  tercel_onnx_return(c, 0, nll_loss(c, log_p, tercel_onnx_in(c, 1), tercel_onnx_in(c, 2)));
  tercel_onnx_return(c, 1, log_p);
}

/* ---- optimizers ------------------------------------------------------------------------------------------------------ */

/* Inputs: rate, step count, then `states` lists of n tensors each: the parameters X, their gradients G, further state.  Outputs: the new X,
 * then the new state, without the gradients.  Rates and bias corrections are computed in f64, tensors in their own type. */
typedef struct step {
  tercel_value *rate, *count; /* f64 scalars */
  size_t num_tensors;
} step;

static step begin_step(tercel_onnx_call *c, size_t states) {
  if (tercel_onnx_ok(c) && (c->num_inputs - 2) % states != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%zu inputs behind rate and count, want a multiple of %zu",
                     c->num_inputs - 2, states);
  return (step){.rate = tercel_onnx_cast(c, tercel_onnx_in(c, 0), TERCEL_DTYPE_F64),
                .count = tercel_onnx_cast(c, tercel_onnx_in(c, 1), TERCEL_DTYPE_F64),
                .num_tensors = (c->num_inputs - 2) / states};
}

/* Tensor i of list `state`. */
static tercel_value *state_of(const tercel_onnx_call *c, const step *s, size_t state, size_t i) {
  return tercel_onnx_in(c, 2 + state * s->num_tensors + i);
}

/* The new value of tensor i of list `state`, which keeps its shape. */
static void return_state(tercel_onnx_call *c, const step *s, size_t output, size_t state, size_t i, tercel_value *v) {
  tercel_onnx_return(c, output * s->num_tensors + i, tercel_onnx_like(c, v, state_of(c, s, state, i)));
}

static tercel_value *add(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_ADD, a, b);
}
static tercel_value *sub(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_SUB, a, b);
}
static tercel_value *mul(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_MUL, a, b);
}
static tercel_value *scaled(tercel_onnx_call *c, tercel_value *a, double factor) {
  return tercel_onnx_fn_number(c, TERCEL_FN_MUL, a, factor);
}

/* a s, for a scalar in f64 */
static tercel_value *scaled_by(tercel_onnx_call *c, tercel_value *a, tercel_value *s) {
  return mul(c, a, tercel_onnx_cast(c, s, tercel_onnx_dtype_of(a)));
}

/* a / (sqrt(h) + epsilon) */
static tercel_value *over_root(tercel_onnx_call *c, tercel_value *a, tercel_value *h, double epsilon) {
  tercel_value *const root = tercel_onnx_fn1(c, TERCEL_FN_SQRT, h);
  return tercel_onnx_fn2(c, TERCEL_FN_DIV, a, tercel_onnx_fn_number(c, TERCEL_FN_ADD, root, epsilon));
}

/* The gradient with that of 0.5 norm |X|^2. */
static tercel_value *regularized(tercel_onnx_call *c, const step *s, size_t i) {
  const double norm = tercel_onnx_get_float(c, "norm_coefficient", 0);
  return add(c, scaled(c, state_of(c, s, 0, i), norm), state_of(c, s, 1, i));
}

void tercel_onnx_build_adagrad(tercel_onnx_call *c) {
  const step s = begin_step(c, 3);
  const double decay = tercel_onnx_get_float(c, "decay_factor", 0);
  const double epsilon = tercel_onnx_get_float(c, "epsilon", 1e-6f);
  tercel_value *const slowed = tercel_onnx_fn_number(c, TERCEL_FN_ADD, scaled(c, s.count, decay), 1);
  tercel_value *const rate = tercel_onnx_fn2(c, TERCEL_FN_DIV, s.rate, slowed);
  for (size_t i = 0; i < s.num_tensors; i++) {
    tercel_value *const g = regularized(c, &s, i), *const h = add(c, state_of(c, &s, 2, i), mul(c, g, g));
    tercel_value *const move = over_root(c, scaled_by(c, g, rate), h, epsilon);
    return_state(c, &s, 0, 0, i, sub(c, state_of(c, &s, 0, i), move));
    return_state(c, &s, 1, 2, i, h);
  }
}

/* 1 - base^count */
static tercel_value *correction(tercel_onnx_call *c, const step *s, double base) {
  tercel_value *const power =
      tercel_onnx_fn2(c, TERCEL_FN_POW, tercel_onnx_scalar(c, TERCEL_DTYPE_F64, base), s->count);
  return sub(c, tercel_onnx_scalar(c, TERCEL_DTYPE_F64, 1), power);
}

/* Kingma and Ba: Adam (2015), with the corrections of both means in the rate, from the second step on. */
void tercel_onnx_build_adam(tercel_onnx_call *c) {
  const step s = begin_step(c, 4);
  const double alpha = tercel_onnx_get_float(c, "alpha", 0.9f), beta = tercel_onnx_get_float(c, "beta", 0.999f);
  const double epsilon = tercel_onnx_get_float(c, "epsilon", 1e-6f);
  const double shrink = 1 - tercel_onnx_get_float(c, "norm_coefficient_post", 0);
  tercel_value *const corrected =
      tercel_onnx_fn2(c, TERCEL_FN_DIV, mul(c, s.rate, tercel_onnx_fn1(c, TERCEL_FN_SQRT, correction(c, &s, beta))),
                      correction(c, &s, alpha));
  tercel_value *const rate =
      tercel_onnx_fn3(c, TERCEL_FN_SELECT, tercel_onnx_fn_number(c, TERCEL_FN_GREATER, s.count, 0), corrected, s.rate);
  for (size_t i = 0; i < s.num_tensors; i++) {
    tercel_value *const g = regularized(c, &s, i);
    tercel_value *const v = add(c, scaled(c, state_of(c, &s, 2, i), alpha), scaled(c, g, 1 - alpha));
    tercel_value *const h = add(c, scaled(c, state_of(c, &s, 3, i), beta), scaled(c, mul(c, g, g), 1 - beta));
    tercel_value *const x = sub(c, state_of(c, &s, 0, i), scaled_by(c, over_root(c, v, h, epsilon), rate));
    return_state(c, &s, 0, 0, i, scaled(c, x, shrink));
    return_state(c, &s, 1, 2, i, v);
    return_state(c, &s, 2, 3, i, h);
  }
}

void tercel_onnx_build_momentum(tercel_onnx_call *c) {
  static const char *const needed[] = {"alpha", "beta", "mode", "norm_coefficient"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) tercel_onnx_need_attr(c, needed[i]);
  const step s = begin_step(c, 3);
  const double alpha = tercel_onnx_get_float(c, "alpha", 0), beta = tercel_onnx_get_float(c, "beta", 0);
  const char *const mode = tercel_onnx_get_text(c, "mode", "standard");
  const bool nesterov = strcmp(mode, "nesterov") == 0;
  if (!nesterov && strcmp(mode, "standard") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'mode' is '%s', want standard or nesterov", mode);
  /* The first gradient counts in full. */
  tercel_value *const share =
      tercel_onnx_fn3(c, TERCEL_FN_SELECT, tercel_onnx_fn_number(c, TERCEL_FN_GREATER, s.count, 0),
                      tercel_onnx_scalar(c, TERCEL_DTYPE_F64, beta), tercel_onnx_scalar(c, TERCEL_DTYPE_F64, 1));
  for (size_t i = 0; i < s.num_tensors; i++) {
    tercel_value *const g = regularized(c, &s, i);
    tercel_value *const v = add(c, scaled(c, state_of(c, &s, 2, i), alpha), scaled_by(c, g, share));
    tercel_value *const move = nesterov ? add(c, g, scaled(c, v, alpha)) : v;
    return_state(c, &s, 0, 0, i, sub(c, state_of(c, &s, 0, i), scaled_by(c, move, s.rate)));
    return_state(c, &s, 1, 2, i, v);
  }
}
