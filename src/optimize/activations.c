/* Activations written out in their parts, as one function each.  Factors may stand anywhere in the product, as
 * exporters put them.
 *
 *     GELU          x / 2 (1 + erf(x / sqrt 2))
 *     GELU, tanh    x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))),  x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))
 *     SiLU          x sigmoid(p x)                              mish          x tanh(softplus x)
 *     hard-swish    x clip(x + 3, 0, 6) / 6
 *     hard-sigmoid  clip(p x + q, 0, 1),  clip(x + 3, 0, 6) / 6
 *     leaky ReLU    max(x, p x),  x > 0 ? x : p x              sigmoid       1 / (1 + exp(-x)) */
#include <math.h>

#include "optimize/pattern.h"

/* A product of two that may be an activation of x: the other term and the factor. */
typedef struct candidate {
  tercel_value *x, *other;
  double factor;
  tercel_immediate immediates[2]; /* out */
} candidate;

static const double sixth = 1.0 / 6, root_half = 0.70710678118654752440, root_2_over_pi = 0.79788456080286535588;

static bool near(double a, double b) { return tercel_nearly(a, b); }

/* value = scale * fn(*inner) + offset */
static bool match_affine(tercel_pattern *p, tercel_value *value, tercel_fn fn, double *scale, double *offset,
                         tercel_value **inner) {
  tercel_value *sum, *scaled;
  double sign = 1;
  const tercel_node *const sub = tercel_fn_node(value, TERCEL_FN_SUB);
  if (sub && tercel_scalar(sub->inputs[0], offset)) {
    tercel_pattern_add(p, sub);
    sum = sub->inputs[1];
    sign = -1;
  } else if (!tercel_pattern_scalar(p, value, TERCEL_FN_ADD, &sum, offset)) {
    return false;
  }
  tercel_pattern_scaled(p, sum, &scaled, scale);
  *scale *= sign;
  const tercel_node *const node = tercel_pattern_fn(p, scaled, fn);
  if (node) *inner = node->inputs[0];
  return node;
}

/* erf is odd: 1 - erf(-x) is 1 + erf(x). */
static bool is_gelu(tercel_pattern *p, candidate *c) {
  double scale, offset, k;
  tercel_value *inner;
  if (!match_affine(p, c->other, TERCEL_FN_ERF, &scale, &offset, &inner) ||
      !tercel_pattern_scaled_from(p, inner, c->x, &k))
    return false;
  if (k < 0) {
    k = -k;
    scale = -scale;
  }
  if (!near(k, root_half)) return tercel_pattern_miss(p, "x is multiplied by %.9g in erf, not by %.9g", k, root_half);
  if (near(c->factor * scale, 0.5) && near(c->factor * offset, 0.5)) return true;
  return tercel_pattern_miss(p, "it is x (%.9g + %.9g erf), not x (0.5 + 0.5 erf)", c->factor * offset,
                             c->factor * scale);
}

/* value = factor * x^power */
static bool is_power(tercel_pattern *p, tercel_value *value, const tercel_value *x, double factor, int power) {
  tercel_product product;
  tercel_value *base;
  double exponent;
  int count = 0;
  tercel_pattern_product(p, value, &product);
  if (product.num_terms > TERCEL_PRODUCT_MAX_TERMS || !near(product.factor, factor)) return false;
  for (int i = 0; i < product.num_terms; i++) {
    if (product.terms[i] == x)
      count++;
    else if (tercel_pattern_scalar(p, product.terms[i], TERCEL_FN_POW, &base, &exponent) && base == x &&
             exponent >= 1 && exponent <= power && exponent == floor(exponent))
      count += (int)exponent;
    else
      return false;
  }
  return count == power;
}

/* value = x + 0.044715 x^3, or x (1 + 0.044715 x^2), times that factor */
static bool is_gelu_tanh_inside(tercel_pattern *p, tercel_value *value, const tercel_value *x, double factor) {
  tercel_product product;
  double one;
  tercel_value *square;
  tercel_pattern_product(p, value, &product);
  if (!near(product.factor, factor)) return false;
  if (product.num_terms == 2) {
    tercel_value *const other = tercel_product_other(&product, x);
    return other && tercel_pattern_scalar(p, other, TERCEL_FN_ADD, &square, &one) && one == 1 &&
           is_power(p, square, x, 0.044715, 2);
  }
  const tercel_node *const sum = product.num_terms == 1 ? tercel_pattern_fn(p, product.terms[0], TERCEL_FN_ADD) : NULL;
  if (!sum) return false;
  if (sum->inputs[0] == x) return is_power(p, sum->inputs[1], x, 0.044715, 3);
  return sum->inputs[1] == x && is_power(p, sum->inputs[0], x, 0.044715, 3);
}

static bool is_gelu_tanh(tercel_pattern *p, candidate *c) {
  double scale, offset;
  tercel_value *inner;
  if (!match_affine(p, c->other, TERCEL_FN_TANH, &scale, &offset, &inner) || !near(c->factor * scale, 0.5) ||
      !near(c->factor * offset, 0.5))
    return false;
  return is_gelu_tanh_inside(p, inner, c->x, root_2_over_pi) ||
         tercel_pattern_miss(p, "tanh is not of sqrt(2 / pi) (x + 0.044715 x^3), but of '%.100s'", inner->name);
}

/* (1 + tanh u) / 2 = sigmoid(2 u) */
static bool is_gelu_sigmoid(tercel_pattern *p, candidate *c) {
  const tercel_node *const sigmoid = tercel_pattern_fn(p, c->other, TERCEL_FN_SIGMOID);
  return sigmoid && c->factor == 1 && is_gelu_tanh_inside(p, sigmoid->inputs[0], c->x, 2 * root_2_over_pi);
}

static bool is_silu(tercel_pattern *p, candidate *c) {
  const tercel_node *const sigmoid = tercel_pattern_fn(p, c->other, TERCEL_FN_SIGMOID);
  return sigmoid && c->factor == 1 && tercel_pattern_scaled_from(p, sigmoid->inputs[0], c->x, &c->immediates[0].f);
}

static bool is_mish(tercel_pattern *p, candidate *c) {
  const tercel_node *const tanh_node = tercel_pattern_fn(p, c->other, TERCEL_FN_TANH);
  const tercel_node *const softplus = tanh_node ? tercel_pattern_fn(p, tanh_node->inputs[0], TERCEL_FN_SOFTPLUS) : NULL;
  return softplus && softplus->inputs[0] == c->x && c->factor == 1;
}

/* value = clip(*x + offset, low, high) */
static bool match_clip(tercel_pattern *p, const tercel_value *value, double low, double high, tercel_value **x,
                       double *offset) {
  const tercel_node *const clip = tercel_pattern_fn(p, value, TERCEL_FN_CLIP);
  if (!clip) return false;
  const tercel_immediate *const bounds = tercel_node_program(clip, "program")->instrs[0].immediates;
  return bounds[0].f == low && bounds[1].f == high &&
         tercel_pattern_scalar(p, clip->inputs[0], TERCEL_FN_ADD, x, offset);
}

static bool is_hard_swish(tercel_pattern *p, candidate *c) {
  tercel_value *x;
  double offset;
  if (match_clip(p, c->other, 0, 6, &x, &offset)) {
    if (x != c->x) return false;
    return (offset == 3 && near(c->factor, sixth)) ||
           tercel_pattern_miss(p, "it is %.9g x clip(x + %.9g, 0, 6), not x clip(x + 3, 0, 6) / 6", c->factor, offset);
  }
  const tercel_node *const sigmoid = tercel_pattern_fn(p, c->other, TERCEL_FN_HARD_SIGMOID);
  if (!sigmoid || sigmoid->inputs[0] != c->x || c->factor != 1) return false;
  const tercel_immediate *const pq = tercel_node_program(sigmoid, "program")->instrs[0].immediates;
  return near(pq[0].f, sixth) && pq[1].f == 0.5;
}

static const struct {
  const char *name;
  tercel_fn fn;
  bool (*is)(tercel_pattern *p, candidate *c);
} activations[] = {
    {"gelu", TERCEL_FN_GELU, is_gelu},
    {"gelu-tanh", TERCEL_FN_GELU_TANH, is_gelu_tanh},
    {"gelu-tanh", TERCEL_FN_GELU_TANH, is_gelu_sigmoid},
    {"silu", TERCEL_FN_SILU, is_silu},
    {"hard-swish", TERCEL_FN_HARD_SWISH, is_hard_swish},
    {"mish", TERCEL_FN_MISH, is_mish},
};

static tercel_status replace(tercel_pass_context *context, const char *name, tercel_fn fn, const tercel_pattern *p,
                             const candidate *c, tercel_error *err) {
  const tercel_node *const root = p->nodes[0], *const leak = tercel_pattern_leak(p);
  if (leak) return tercel_pattern_refuse_leak(context, name, p, leak, err);
  if (!tercel_same_type(c->x, root->outputs[0]))
    return tercel_refused(context, name, root, err, "its parts differ in shape");
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add_fn(fn, root, &(tercel_value *){c->x}, 1, c->immediates, (tercel_node *)(uintptr_t)root,
                                   &made, err));
  return tercel_pattern_replace(context, name, p, made, err);
}

/* Each of the two terms may be x, and each activation may be meant: the pattern is matched afresh for every try. */
static tercel_status apply_product(tercel_pass_context *context, const char *name, tercel_node *node,
                                   tercel_error *err) {
  (void)name;
  const tercel_fn fn = tercel_single_fn(node);
  tercel_product product;
  tercel_pattern opened = {.nodes = {node}, .num_nodes = 1};
  if ((fn != TERCEL_FN_MUL && fn != TERCEL_FN_DIV) || !tercel_is_f32(node->outputs[0])) return TERCEL_OK;
  tercel_pattern_product(&opened, node->outputs[0], &product);
  if (product.num_terms != 2) return TERCEL_OK;
  char miss[TERCEL_REASON_MAX] = "";
  const char *missed = NULL;
  for (int i = 0; i < 2; i++)
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
      tercel_pattern p = opened;
      candidate c = {product.terms[i], product.terms[1 - i], product.factor, {{0}}};
      p.miss = miss;
      if (activations[a].is(&p, &c)) return replace(context, activations[a].name, activations[a].fn, &p, &c, err);
      if (!missed && *miss) missed = activations[a].name;
    }
  return missed ? tercel_refused(context, missed, node, err, "%s", miss) : TERCEL_OK;
}

static tercel_status replace_hard_sigmoid(tercel_pass_context *context, const char *name, const tercel_pattern *p,
                                          tercel_value *x, double scale, double offset, tercel_error *err) {
  candidate c = {.x = x, .immediates = {{scale}, {offset}}};
  return replace(context, name, TERCEL_FN_HARD_SIGMOID, p, &c, err);
}

/* clip(p x + q, 0, 1) */
static tercel_status apply_hard_sigmoid(tercel_pass_context *context, const char *name, tercel_node *node,
                                        tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  tercel_value *sum, *x;
  double scale, offset;
  if (tercel_single_fn(node) != TERCEL_FN_CLIP || !tercel_is_f32(node->outputs[0]) ||
      !match_clip(&p, node->outputs[0], 0, 1, &sum, &offset))
    return TERCEL_OK;
  tercel_pattern_scaled(&p, sum, &x, &scale);
  return replace_hard_sigmoid(context, name, &p, x, scale, offset, err);
}

/* clip(x + 3, 0, 6) / 6, unless it is multiplied by x: then it is half of a hard-swish */
static tercel_status apply_hard_sigmoid_6(tercel_pass_context *context, const char *name, tercel_node *node,
                                          tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  tercel_product product;
  tercel_value *x;
  double offset;
  const tercel_fn fn = tercel_single_fn(node);
  if ((fn != TERCEL_FN_MUL && fn != TERCEL_FN_DIV) || !tercel_is_f32(node->outputs[0])) return TERCEL_OK;
  tercel_pattern_product(&p, node->outputs[0], &product);
  if (product.num_terms != 1 || !near(product.factor, sixth) || !match_clip(&p, product.terms[0], 0, 6, &x, &offset) ||
      offset != 3)
    return TERCEL_OK;
  return replace_hard_sigmoid(context, name, &p, x, sixth, 0.5, err);
}

/* ---- leaky ReLU ---- */

/* value = x * *slope */
static bool is_scaled(tercel_pattern *p, const tercel_value *value, const tercel_value *x, double *slope) {
  tercel_value *base;
  return tercel_pattern_scalar(p, value, TERCEL_FN_MUL, &base, slope) && base == x;
}

/* The order doesn't matter where the slope is between 0 and 1. */
static bool match_max(tercel_pattern *p, const tercel_node *node, tercel_value **x, double *slope) {
  for (int side = 0; side < 2; side++) {
    *x = node->inputs[side];
    if (is_scaled(p, node->inputs[1 - side], *x, slope))
      return (*slope > 0 && *slope <= 1) ||
             tercel_pattern_miss(p, "the larger of x and %.9g x is no leaky ReLU", *slope);
  }
  return false;
}

static bool match_choice(tercel_pattern *p, const tercel_node *node, tercel_value **x, double *slope) {
  static const struct {
    tercel_fn fn;
    int positive; /* the input of select that x is where it is positive */
  } tests[] = {{TERCEL_FN_GREATER, 1}, {TERCEL_FN_GREATER_EQUAL, 1}, {TERCEL_FN_LESS, 2}, {TERCEL_FN_LESS_EQUAL, 2}};
  double bound;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    const tercel_node *const test = tercel_pattern_fn(p, node->inputs[0], tests[i].fn);
    if (!test || !tercel_scalar(test->inputs[1], &bound) || bound != 0) continue;
    *x = test->inputs[0];
    return node->inputs[tests[i].positive] == *x && is_scaled(p, node->inputs[3 - tests[i].positive], *x, slope);
  }
  return false;
}

static tercel_status apply_leaky_relu(tercel_pass_context *context, const char *name, tercel_node *node,
                                      tercel_error *err) {
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1, .miss = miss};
  candidate c = {0};
  const tercel_fn fn = tercel_single_fn(node);
  if ((fn != TERCEL_FN_MAX && fn != TERCEL_FN_SELECT) || !tercel_is_f32(node->outputs[0])) return TERCEL_OK;
  const bool found = fn == TERCEL_FN_MAX ? match_max(&p, node, &c.x, &c.immediates[0].f)
                                         : match_choice(&p, node, &c.x, &c.immediates[0].f);
  if (found) return replace(context, name, TERCEL_FN_LEAKY_RELU, &p, &c, err);
  return *miss ? tercel_refused(context, name, node, err, "%s", miss) : TERCEL_OK;
}

/* ---- sigmoid ---- */

/* value = 1 + exp(-*x) */
static bool match_one_and_exp(tercel_pattern *p, const tercel_value *value, tercel_value **x) {
  double one, minus;
  tercel_value *e;
  if (!tercel_pattern_scalar(p, value, TERCEL_FN_ADD, &e, &one) || one != 1) return false;
  const tercel_node *const exp_node = tercel_pattern_fn(p, e, TERCEL_FN_EXP);
  const tercel_node *const neg = exp_node ? tercel_pattern_fn(p, exp_node->inputs[0], TERCEL_FN_NEG) : NULL;
  if (neg) *x = neg->inputs[0];
  return neg || (exp_node && tercel_pattern_scalar(p, exp_node->inputs[0], TERCEL_FN_MUL, x, &minus) && minus == -1);
}

/* y / (1 + exp(-x)) = y sigmoid(x) */
static tercel_status apply_sigmoid(tercel_pass_context *context, const char *name, tercel_node *node,
                                   tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  candidate c = {0};
  double one;
  const tercel_fn fn = tercel_single_fn(node);
  if ((fn != TERCEL_FN_DIV && fn != TERCEL_FN_RECIPROCAL) || !tercel_is_f32(node->outputs[0]) ||
      !match_one_and_exp(&p, node->inputs[fn == TERCEL_FN_DIV], &c.x))
    return TERCEL_OK;
  if (fn == TERCEL_FN_RECIPROCAL || (tercel_scalar(node->inputs[0], &one) && one == 1))
    return replace(context, name, TERCEL_FN_SIGMOID, &p, &c, err);
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  if (!tercel_same_type(c.x, node->outputs[0]))
    return tercel_refused(context, name, node, err, "its parts differ in shape");
  tercel_node *sigmoid, *made;
  TERCEL_TRY(tercel_rewrite_add_fn(TERCEL_FN_SIGMOID, node, &c.x, 1, NULL, node, &sigmoid, err));
  TERCEL_TRY(tercel_rewrite_add_fn(TERCEL_FN_MUL, node, (tercel_value *[]){node->inputs[0], sigmoid->outputs[0]}, 2,
                                   NULL, node, &made, err));
  return tercel_pattern_replace(context, name, &p, made, err);
}

static const tercel_rule rules[] = {
    {"product", TERCEL_OP_POINTWISE, apply_product},
    {"leaky-relu", TERCEL_OP_POINTWISE, apply_leaky_relu},
    {"sigmoid", TERCEL_OP_POINTWISE, apply_sigmoid},
    {"hard-sigmoid", TERCEL_OP_POINTWISE, apply_hard_sigmoid},
    {"hard-sigmoid", TERCEL_OP_POINTWISE, apply_hard_sigmoid_6},
    {0},
};

tercel_status tercel_pass_activations(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
