/* Layer norm and RMS norm in their parts: what exporters write.
 *
 *     inverse = 1 / sqrt(variance + epsilon)       rsqrt, div, reciprocal, pow -0.5
 *     variance = mean(d d)                         d = x - mean(x)
 *              = mean(x x) - mean(x)^2             JAX, with max(.., 0) around it
 *     mean = reduce mean, or sum times (over) the number of elements; one number a row, whatever views give it its dims back
 *
 *     d inverse    d / sqrt(..)    d (inverse scale)    x (inverse scale) + (bias - mean (inverse scale))      the last by TensorFlow
 *
 * The mean of squares less the square of the mean loses digits where the mean is large; the operator doesn't. */
#include "optimize/norm_match.h"

#include <math.h>
#include <string.h>

/* ---- reductions ---- */

static bool read_axes(const tercel_node *reduce, uint32_t *mask) {
  int64_t numbers[TERCEL_MAX_RANK];
  size_t count = 0;
  const int rank = reduce->inputs[0]->type.shape.rank;
  const int64_t *axes = tercel_node_ints(reduce, "axes", &count);
  if (!axes && tercel_constant_ints(tercel_node_input(reduce, 1), numbers, TERCEL_MAX_RANK, &count)) axes = numbers;
  *mask = 0;
  if (!axes || rank < 0) return false;
  for (size_t i = 0; i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return false;
    *mask |= 1u << axis;
  }
  return *mask != 0;
}

bool tercel_match_reduce(tercel_pattern *p, const tercel_value *value, const char *kind, tercel_value **x,
                         uint32_t *axes) {
  const tercel_node *const reduce = tercel_producer(value, TERCEL_OP_REDUCE);
  const char *const has = reduce ? tercel_node_string(reduce, "kind") : NULL;
  if (!has || strcmp(has, kind) != 0 || !read_axes(reduce, axes)) return false;
  tercel_pattern_add(p, reduce);
  *x = reduce->inputs[0];
  return true;
}

tercel_value *tercel_behind_row_views(tercel_pattern *p, tercel_value *value) {
  while (value->producer && value->producer->op->flags & TERCEL_OP_VIEW && value->producer->inputs[0]) {
    tercel_pattern_add(p, value->producer);
    value = value->producer->inputs[0];
  }
  return value;
}

bool tercel_keeps_axes(const tercel_value *value, const tercel_value *x, uint32_t axes) {
  const tercel_shape *const shape = &value->type.shape, *const whole = &x->type.shape;
  if (shape->rank != whole->rank) return false;
  for (int d = 0; d < shape->rank; d++)
    if (shape->dims[d] != (axes & 1u << d ? 1 : whole->dims[d])) return false;
  return true;
}

static double count_of(const tercel_value *x, uint32_t axes) {
  double count = 1;
  for (int d = 0; d < x->type.shape.rank; d++)
    if (axes & 1u << d) count *= tercel_dim_is_known(x->type.shape.dims[d]) ? (double)x->type.shape.dims[d] : NAN;
  return count;
}

/* value = mean(*x), of `kind` "sum", or mean(*x *x), of kind "sum_square" */
static bool match_divided_sum(tercel_pattern *p, tercel_value *value, const char *kind, tercel_value **x,
                              uint32_t *axes) {
  tercel_value *sum;
  double factor;
  tercel_pattern at = *p;
  tercel_pattern_scaled(&at, value, &sum, &factor);
  if (!tercel_match_reduce(&at, tercel_behind_row_views(&at, sum), kind, x, axes) ||
      !tercel_nearly(factor * count_of(*x, *axes), 1))
    return false;
  *p = at;
  return true;
}

static bool match_mean(tercel_pattern *p, tercel_value *value, tercel_value **x, uint32_t *axes) {
  value = tercel_behind_row_views(p, value);
  return tercel_match_reduce(p, value, "mean", x, axes) || match_divided_sum(p, value, "sum", x, axes);
}

/* ---- inside the root ---- */

/* value = *x *x */
static bool match_square(tercel_pattern *p, const tercel_value *value, tercel_value **x) {
  const tercel_node *const mul = tercel_pattern_fn(p, value, TERCEL_FN_MUL);
  if (!mul || mul->inputs[0] != mul->inputs[1]) return false;
  *x = mul->inputs[0];
  return true;
}

/* value = mean(*x *x) */
static bool match_mean_square(tercel_pattern *p, tercel_value *value, tercel_value **x, uint32_t *axes) {
  tercel_value *square;
  if (match_divided_sum(p, tercel_behind_row_views(p, value), "sum_square", x, axes)) return true;
  if (!match_mean(p, value, &square, axes)) return false;
  return match_square(p, square, x) ||
         tercel_pattern_miss(p, "'%.80s', whose mean is taken, is no square", square->name);
}

/* d = *x - mean(*x) over those axes. */
static bool match_deviation(tercel_pattern *p, const tercel_value *d, uint32_t axes, tercel_value **x) {
  tercel_value *mean_of;
  uint32_t mean_axes;
  tercel_pattern at = *p;
  const tercel_node *const sub = tercel_pattern_fn(&at, d, TERCEL_FN_SUB);
  if (!sub || !match_mean(&at, sub->inputs[1], &mean_of, &mean_axes) || mean_of != sub->inputs[0] ||
      mean_axes != axes || !tercel_keeps_axes(sub->inputs[1], mean_of, axes))
    return false;
  *p = at;
  *x = mean_of;
  return true;
}

/* value = mean(*x *x) - mean(*x)^2, perhaps no less than 0 */
static bool match_moments(tercel_pattern *p, tercel_value *value, tercel_value **x, uint32_t *axes) {
  tercel_value *mean, *mean_of;
  uint32_t mean_axes;
  tercel_pattern at = *p;
  const tercel_node *const relu = tercel_pattern_fn(&at, value, TERCEL_FN_RELU);
  const tercel_node *const sub = tercel_pattern_fn(&at, relu ? relu->inputs[0] : value, TERCEL_FN_SUB);
  if (!sub || !match_mean_square(&at, sub->inputs[0], x, axes)) return false;
  if (!match_square(&at, tercel_behind_row_views(&at, sub->inputs[1]), &mean) ||
      !match_mean(&at, mean, &mean_of, &mean_axes) || mean_of != *x || mean_axes != *axes)
    return false;
  *p = at;
  return true;
}

/* ---- the root ---- */

/* value = 1 / sqrt(*inside) */
static bool match_inverse_root(tercel_pattern *p, tercel_value *value, tercel_value **inside) {
  double power;
  value = tercel_behind_row_views(p, value);
  const tercel_node *node = tercel_pattern_fn(p, value, TERCEL_FN_RSQRT);
  if (!node && tercel_pattern_scalar(p, value, TERCEL_FN_POW, inside, &power)) return power == -0.5;
  if (!node) {
    node = tercel_pattern_fn(p, value, TERCEL_FN_RECIPROCAL);
    if (node) node = tercel_pattern_fn(p, tercel_behind_row_views(p, node->inputs[0]), TERCEL_FN_SQRT);
  }
  if (!node) {
    const tercel_node *const div = tercel_pattern_fn(p, value, TERCEL_FN_DIV);
    if (div && tercel_scalar(div->inputs[0], &power) && power == 1)
      node = tercel_pattern_fn(p, tercel_behind_row_views(p, div->inputs[1]), TERCEL_FN_SQRT);
  }
  if (node) *inside = node->inputs[0];
  return node;
}

/* ---- the whole ---- */

/* A value times the inverse root, which broadcasts to it. */
typedef struct quotient {
  tercel_value *d, *inverse, *inside;
  tercel_value *scale;
} quotient;

static bool match_division(tercel_pattern *p, const tercel_node *node, quotient *q) {
  if (tercel_single_fn(node) != TERCEL_FN_DIV) return false;
  const tercel_node *const root = tercel_pattern_fn(p, tercel_behind_row_views(p, node->inputs[1]), TERCEL_FN_SQRT);
  if (root) *q = (quotient){node->inputs[0], node->inputs[1], root->inputs[0], NULL};
  return root;
}

/* A product of d, the inverse root and a constant or none, in any order. */
static bool match_product(tercel_pattern *p, const tercel_node *node, quotient *q) {
  tercel_product product;
  if (tercel_single_fn(node) != TERCEL_FN_MUL) return false;
  *q = (quotient){0};
  tercel_pattern_product(p, node->outputs[0], &product);
  if (product.factor != 1 || product.num_terms < 2 || product.num_terms > 3) return false;
  for (int i = 0; i < product.num_terms; i++) {
    tercel_value *const term = product.terms[i];
    tercel_pattern at = *p;
    if (!q->inverse && match_inverse_root(&at, term, &q->inside)) {
      *p = at;
      q->inverse = term;
    } else if (term->constant && !q->scale) {
      q->scale = term;
    } else if (!q->d) {
      q->d = term;
    } else {
      return false;
    }
  }
  return q->d && q->inverse;
}

/* What d is: x, or x less its mean, whose square's mean is inside the root. */
static bool match_inside(tercel_pattern *p, const quotient *q, tercel_norm_match *out) {
  tercel_value *variance, *x, *squared;
  if (!tercel_pattern_scalar(p, tercel_behind_row_views(p, q->inside), TERCEL_FN_ADD, &variance, &out->epsilon))
    return false;
  variance = tercel_behind_row_views(p, variance);
  out->scale = q->scale;
  if (match_moments(p, variance, &x, &out->axes)) {
    out->x = x;
    if (!tercel_keeps_axes(q->inverse, x, out->axes)) return false;
    return q->d == x || match_deviation(p, q->d, out->axes, &out->x);
  }
  if (!match_mean_square(p, variance, &squared, &out->axes)) return false;
  if (squared != q->d)
    return tercel_pattern_miss(p, "'%.80s' is the mean of the square of '%.80s', not of '%.80s'", variance->name,
                               squared->name, q->d->name);
  out->is_rms = !match_deviation(p, q->d, out->axes, &out->x);
  if (out->is_rms) out->x = q->d;
  return tercel_keeps_axes(q->inverse, out->x, out->axes);
}

/* value = *a fn inverse root [scale]: a product whose other term is read by both halves of TensorFlow's form. */
static bool match_scaled(const tercel_value *value, const tercel_value *factor, tercel_value **a) {
  const tercel_node *const mul = tercel_fn_node(value, TERCEL_FN_MUL);
  for (int side = 0; mul && side < 2; side++) {
    if (mul->inputs[side] != factor) continue;
    *a = mul->inputs[1 - side];
    return true;
  }
  return false;
}

/* x factor + (bias - mean factor), where factor = inverse root [scale] */
static bool match_folded(tercel_pattern *p, const tercel_node *add, tercel_norm_match *out) {
  tercel_value *mean, *mean_of, *squared, *variance_of;
  uint32_t axes;
  if (tercel_single_fn(add) != TERCEL_FN_ADD) return false;
  for (int side = 0; side < 2; side++) {
    const tercel_node *const mul = tercel_fn_node(add->inputs[side], TERCEL_FN_MUL);
    const tercel_node *const sub = tercel_fn_node(add->inputs[1 - side], TERCEL_FN_SUB);
    for (int i = 0; mul && sub && i < 2; i++) {
      tercel_pattern at = *p;
      tercel_value *const factor = mul->inputs[i];
      quotient q = {.d = mul->inputs[1 - i], .inverse = factor};
      tercel_pattern_add(&at, mul);
      tercel_pattern_add(&at, sub);
      if (!sub->inputs[0]->constant || !match_scaled(sub->inputs[1], factor, &mean)) continue;
      tercel_pattern_add(&at, sub->inputs[1]->producer);
      const tercel_node *const scaled = tercel_pattern_fn(&at, factor, TERCEL_FN_MUL);
      if (scaled && scaled->inputs[1]->constant) {
        q.inverse = scaled->inputs[0];
        q.scale = scaled->inputs[1];
      }
      if (!match_inverse_root(&at, q.inverse, &q.inside) || !match_mean(&at, mean, &mean_of, &axes) || mean_of != q.d ||
          !tercel_keeps_axes(mean, q.d, axes) || !tercel_keeps_axes(q.inverse, q.d, axes))
        continue;
      if (!tercel_pattern_scalar(&at, q.inside, TERCEL_FN_ADD, &variance_of, &out->epsilon) ||
          !match_mean_square(&at, tercel_behind_row_views(&at, variance_of), &squared, &out->axes) ||
          out->axes != axes || !match_deviation(&at, squared, axes, &out->x) || out->x != q.d)
        continue;
      *p = at;
      out->scale = q.scale;
      out->bias = sub->inputs[0];
      return true;
    }
  }
  return false;
}

bool tercel_match_norm(tercel_pattern *p, const tercel_node *node, tercel_norm_match *out) {
  quotient q;
  if (!tercel_is_f32(node->outputs[0])) return false;
  if (match_folded(p, node, out)) return true;
  return (match_division(p, node, &q) || match_product(p, node, &q)) && match_inside(p, &q, out);
}
