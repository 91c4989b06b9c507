/* Pointwise operators of one function: those that change nothing go, constants stand on the right, subtraction of a
 * constant is an addition, min and max with a number are a clip, clips of clips are one, a product with a reciprocal is a quotient, and
 * of casts in a row those go that lose nothing. */
#include <math.h>

#include "optimize/canonicalize.h"

/* The node and what it is about, as the rules below see it. */
typedef struct single {
  tercel_pass_context *context;
  tercel_node *node;
  tercel_fn fn;
  tercel_value *a, *b, *out; /* b NULL: one operand */
} single;

static tercel_status give_input(const single *s, const char *rule, tercel_error *err) {
  return tercel_same_type(s->a, s->out) ? tercel_rewrite_node(s->context, rule, s->node, s->a, err) : TERCEL_OK;
}

static tercel_status rewrite_as(const single *s, const char *rule, tercel_fn fn, tercel_value *const *inputs,
                                size_t count, const tercel_immediate immediates[2], tercel_error *err) {
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add_fn(fn, s->node, inputs, count, immediates, s->node, &made, err));
  return tercel_rewrite_node(s->context, rule, s->node, made->outputs[0], err);
}

/* ---- casts ---- */

/* Every value of `narrow` is one of `wide`. */
static bool holds_exactly(tercel_dtype wide, tercel_dtype narrow) {
  static const struct {
    tercel_dtype wide, narrow;
  } pairs[] = {
      {TERCEL_DTYPE_F64, TERCEL_DTYPE_F32},  {TERCEL_DTYPE_F64, TERCEL_DTYPE_F16},
      {TERCEL_DTYPE_F64, TERCEL_DTYPE_BF16}, {TERCEL_DTYPE_F64, TERCEL_DTYPE_I32},
      {TERCEL_DTYPE_F64, TERCEL_DTYPE_U8},   {TERCEL_DTYPE_F32, TERCEL_DTYPE_F16},
      {TERCEL_DTYPE_F32, TERCEL_DTYPE_BF16}, {TERCEL_DTYPE_F32, TERCEL_DTYPE_U8},
      {TERCEL_DTYPE_F32, TERCEL_DTYPE_I8},   {TERCEL_DTYPE_I64, TERCEL_DTYPE_I32},
      {TERCEL_DTYPE_I64, TERCEL_DTYPE_U8},   {TERCEL_DTYPE_I32, TERCEL_DTYPE_U8},
  };
  if (narrow == TERCEL_DTYPE_BOOL) return true;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i].wide == wide && pairs[i].narrow == narrow) return true;
  return false;
}

/* What the inner cast makes is as its input was: the outer one reads that. */
static tercel_status cast_at_once(const single *s, const tercel_node *inner, tercel_error *err) {
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_POINTWISE, s->node, inner->inputs, 1, s->node, &made, err));
  TERCEL_TRY(tercel_node_set_program(made, "program", tercel_node_program(s->node, "program"), err));
  TERCEL_TRY(tercel_infer_node(made, err));
  TERCEL_TRY(tercel_node_add_sources(made, inner, err));
  return tercel_rewrite_node(s->context, "casts", s->node, made->outputs[0], err);
}

static tercel_status apply_cast(const single *s, tercel_error *err) {
  const tercel_node *const inner = tercel_fn_node(s->a, TERCEL_FN_CAST);
  if (s->a->type.dtype == s->out->type.dtype) return give_input(s, "cast-to-same", err);
  if (!inner) return TERCEL_OK;
  tercel_value *const first = inner->inputs[0];
  if (tercel_same_type(first, s->out) && holds_exactly(s->a->type.dtype, s->out->type.dtype))
    return tercel_rewrite_node(s->context, "cast-there-and-back", s->node, first, err);
  return holds_exactly(s->a->type.dtype, first->type.dtype) ? cast_at_once(s, inner, err) : TERCEL_OK;
}

/* ---- arithmetic with constants ---- */

/* All elements of a constant are this number.  x + 0 turns -0 into 0; that much is given up. */
static bool is_all(const tercel_value *value, double number) {
  enum { MOST = 1 << 16 }; /* larger constants that hold one number are not worth the search */
  const tercel_tensor *const t = value ? value->constant : NULL;
  const int64_t count = t ? tercel_tensor_num_elements(t) : 0;
  if (count == 0 || count > MOST || !(tercel_dtype_is_float(t->dtype) || tercel_dtype_is_integer(t->dtype)))
    return false;
  for (int64_t i = 0; i < count; i++)
    if (tercel_tensor_get_f64(t, i) != number) return false;
  return true;
}

static tercel_status apply_neutral(const single *s, double neutral, tercel_error *err) {
  return is_all(s->b, neutral) ? give_input(s, "neutral-element", err) : TERCEL_OK;
}

static tercel_status apply_constant_right(const single *s, tercel_error *err) {
  if (!s->a->constant || s->b->constant) return TERCEL_OK;
  return rewrite_as(s, "constant-right", s->fn, (tercel_value *[]){s->b, s->a}, 2, NULL, err);
}

static tercel_status apply_add(const single *s, tercel_error *err) {
  if (s->a->constant) return apply_constant_right(s, err);
  return apply_neutral(s, 0, err);
}

/* value = 1 / *x, of which nothing else is read */
static bool match_reciprocal(const tercel_value *value, tercel_value **x) {
  double one;
  const tercel_node *const div = tercel_fn_node(value, TERCEL_FN_DIV);
  const tercel_node *const reciprocal = tercel_fn_node(value, TERCEL_FN_RECIPROCAL);
  if (!tercel_has_one_use(value) || !tercel_is_f32(value)) return false;
  if (reciprocal) *x = reciprocal->inputs[0];
  if (div) *x = div->inputs[1];
  return reciprocal || (div && tercel_scalar(div->inputs[0], &one) && one == 1 && tercel_same_type(*x, value));
}

static tercel_status apply_mul(const single *s, tercel_error *err) {
  if (s->a->constant) return apply_constant_right(s, err);
  for (uint32_t side = 0; side < 2; side++) {
    tercel_value *x = NULL, *const other = s->node->inputs[1 - side], *const reciprocal = s->node->inputs[side];
    if (other == reciprocal || !tercel_same_type(reciprocal, s->out) || !match_reciprocal(reciprocal, &x)) continue;
    tercel_node *made;
    TERCEL_TRY(
        tercel_rewrite_add_fn(TERCEL_FN_DIV, s->node, (tercel_value *[]){other, x}, 2, NULL, s->node, &made, err));
    TERCEL_TRY(tercel_node_add_sources(made, reciprocal->producer, err));
    return tercel_rewrite_node(s->context, "quotient", s->node, made->outputs[0], err);
  }
  return apply_neutral(s, 1, err);
}

/* x - c = x + -c, exactly. */
static tercel_status apply_sub(const single *s, tercel_error *err) {
  const tercel_tensor *const t = s->b->constant;
  if (!t) return TERCEL_OK;
  if (is_all(s->b, 0)) return give_input(s, "neutral-element", err);
  if (!tercel_dtype_is_float(t->dtype)) return TERCEL_OK;
  tercel_value *negative;
  TERCEL_TRY(tercel_graph_add_new_constant(s->node->graph, s->b->name, t->dtype, t->rank, t->dims, &negative, err));
  const int64_t count = tercel_tensor_num_elements(t);
  for (int64_t i = 0; i < count; i++)
    tercel_element_set_f64(negative->constant->data, t->dtype, i, -tercel_tensor_get_f64(t, i));
  return rewrite_as(s, "subtract-constant", TERCEL_FN_ADD, (tercel_value *[]){s->a, negative}, 2, NULL, err);
}

/* x / 2^k = x * 2^-k, exactly, where the reciprocal is a normal number. */
static tercel_status apply_div(const single *s, tercel_error *err) {
  double divisor;
  int exponent;
  if (is_all(s->b, 1)) return give_input(s, "neutral-element", err);
  if (!tercel_is_f32(s->out) || !tercel_scalar(s->b, &divisor) || fabs(frexp(divisor, &exponent)) != 0.5 ||
      exponent < -100 || exponent > 100)
    return TERCEL_OK;
  tercel_value *reciprocal;
  const tercel_tensor *const t = s->b->constant;
  TERCEL_TRY(tercel_graph_add_new_constant(s->node->graph, s->b->name, t->dtype, t->rank, t->dims, &reciprocal, err));
  tercel_element_set_f64(reciprocal->constant->data, t->dtype, 0, 1 / divisor);
  return rewrite_as(s, "divide-by-power-of-two", TERCEL_FN_MUL, (tercel_value *[]){s->a, reciprocal}, 2, NULL, err);
}

/* x^2 = x x: a correctly rounded power gives just that. */
static tercel_status apply_pow(const single *s, tercel_error *err) {
  double power;
  if (!tercel_scalar(s->b, &power)) return TERCEL_OK;
  if (power == 1) return give_input(s, "neutral-element", err);
  if (power != 2 || !tercel_same_type(s->a, s->out)) return TERCEL_OK;
  return rewrite_as(s, "square", TERCEL_FN_MUL, (tercel_value *[]){s->a, s->a}, 2, NULL, err);
}

/* ---- clip ---- */

static tercel_status make_clip(const single *s, tercel_value *x, double low, double high, tercel_error *err) {
  if (!tercel_same_type(x, s->out) || isnan(low) || isnan(high)) return TERCEL_OK;
  if (low == -HUGE_VAL && high == HUGE_VAL) return tercel_rewrite_node(s->context, "clip-of-nothing", s->node, x, err);
  if (low == 0 && high == HUGE_VAL) return rewrite_as(s, "relu", TERCEL_FN_RELU, &x, 1, NULL, err);
  return rewrite_as(s, "clip", TERCEL_FN_CLIP, &x, 1, (tercel_immediate[2]){{low}, {high}}, err);
}

static tercel_status apply_extreme(const single *s, tercel_error *err) {
  double bound;
  tercel_value *x = s->a;
  if (!tercel_dtype_is_float(s->out->type.dtype)) return TERCEL_OK;
  if (!tercel_scalar(s->b, &bound)) {
    x = s->b;
    if (!tercel_scalar(s->a, &bound)) return TERCEL_OK;
  }
  return s->fn == TERCEL_FN_MAX ? make_clip(s, x, bound, HUGE_VAL, err) : make_clip(s, x, -HUGE_VAL, bound, err);
}

static tercel_status apply_clamp(const single *s, tercel_error *err) {
  double low, high;
  if (!tercel_dtype_is_float(s->out->type.dtype) || !tercel_scalar(s->b, &low) ||
      !tercel_scalar(s->node->inputs[2], &high))
    return TERCEL_OK;
  return make_clip(s, s->a, low, high, err);
}

/* value = min(max(*x, low), high): a relu or a clip of floats */
static bool match_clip(const tercel_value *value, tercel_value **x, double *low, double *high) {
  const tercel_node *const relu = tercel_fn_node(value, TERCEL_FN_RELU);
  const tercel_node *const node = relu ? relu : tercel_fn_node(value, TERCEL_FN_CLIP);
  if (!node || !tercel_dtype_is_float(value->type.dtype)) return false;
  const tercel_immediate *const bounds = tercel_node_program(node, "program")->instrs[0].immediates;
  *x = node->inputs[0];
  *low = relu ? 0 : bounds[0].f;
  *high = relu ? HUGE_VAL : bounds[1].f;
  return *low <= *high;
}

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* Of relu and clip. */
static tercel_status apply_clip(const single *s, tercel_error *err) {
  tercel_value *x, *inner;
  double low, high, inner_low, inner_high;
  if (!match_clip(s->out, &x, &low, &high)) return TERCEL_OK;
  if (match_clip(x, &inner, &inner_low, &inner_high) && tercel_same_type(inner, s->out)) {
    TERCEL_TRY(tercel_node_add_sources(s->node, x->producer, err));
    return make_clip(s, inner, between(inner_low, low, high), between(inner_high, low, high), err);
  }
  if (s->fn == TERCEL_FN_RELU || high != HUGE_VAL || (low != 0 && low != -HUGE_VAL)) return TERCEL_OK;
  return make_clip(s, x, low, high, err);
}

/* not(not(x)) */
static tercel_status apply_not(const single *s, tercel_error *err) {
  const tercel_node *const inner = tercel_fn_node(s->a, TERCEL_FN_NOT);
  if (!inner || !tercel_same_type(inner->inputs[0], s->out)) return TERCEL_OK;
  return tercel_rewrite_node(s->context, "not-not", s->node, inner->inputs[0], err);
}

/* A condition that is the same everywhere chooses one side; one that is negated swaps them. */
static tercel_status apply_select(const single *s, tercel_error *err) {
  const tercel_tensor *const t = s->a->constant;
  const tercel_node *const inverse = tercel_fn_node(s->a, TERCEL_FN_NOT);
  tercel_value *const *const in = s->node->inputs;
  if (in[1] == in[2] && tercel_same_type(in[1], s->out))
    return tercel_rewrite_node(s->context, "select-same", s->node, in[1], err);
  if (inverse && inverse->inputs[0]->type.dtype == TERCEL_DTYPE_BOOL)
    return rewrite_as(s, "select-not", TERCEL_FN_SELECT, (tercel_value *[]){inverse->inputs[0], in[2], in[1]}, 3, NULL,
                      err);
  const int64_t count = t ? tercel_tensor_num_elements(t) : 0;
  if (count == 0) return TERCEL_OK;
  for (int64_t i = 1; i < count; i++)
    if (tercel_tensor_get_i64(t, i) != tercel_tensor_get_i64(t, 0)) return TERCEL_OK;
  tercel_value *const chosen = s->node->inputs[tercel_tensor_get_i64(t, 0) ? 1 : 2];
  return tercel_same_type(chosen, s->out) ? tercel_rewrite_node(s->context, "select-one", s->node, chosen, err)
                                          : TERCEL_OK;
}

static tercel_status apply_copy(const single *s, tercel_error *err) { return give_input(s, "copy", err); }

static const struct {
  tercel_fn fn;
  tercel_status (*apply)(const single *s, tercel_error *err);
} by_fn[] = {
    {TERCEL_FN_COPY, apply_copy},   {TERCEL_FN_CAST, apply_cast},     {TERCEL_FN_ADD, apply_add},
    {TERCEL_FN_SUB, apply_sub},     {TERCEL_FN_MUL, apply_mul},       {TERCEL_FN_DIV, apply_div},
    {TERCEL_FN_POW, apply_pow},     {TERCEL_FN_MIN, apply_extreme},   {TERCEL_FN_MAX, apply_extreme},
    {TERCEL_FN_CLAMP, apply_clamp}, {TERCEL_FN_CLIP, apply_clip},     {TERCEL_FN_RELU, apply_clip},
    {TERCEL_FN_NOT, apply_not},     {TERCEL_FN_SELECT, apply_select},
};

tercel_status tercel_apply_pointwise(tercel_pass_context *context, const char *name, tercel_node *node,
                                     tercel_error *err) {
  (void)name; /* each function's rule has its own */
  const single s = {context,
                    node,
                    tercel_single_fn(node),
                    tercel_node_input(node, 0),
                    tercel_node_input(node, 1),
                    tercel_node_output(node, 0)};
  if (!s.a || !s.out) return TERCEL_OK;
  for (size_t i = 0; i < sizeof by_fn / sizeof *by_fn; i++)
    if (by_fn[i].fn == s.fn) return by_fn[i].apply(&s, err);
  return TERCEL_OK;
}
