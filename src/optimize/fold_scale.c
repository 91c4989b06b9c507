/* Constant factors and offsets (batch norm, in the form that canonicalize gives it) folded into the weights and bias
 * of the conv, conv_transpose or matmul before them, or after them where that is exact.
 *
 *     (conv(x, w) + b) * c = conv(x, w c) + b c            per output channel
 *     conv(x * c, w)       = conv(x, w c)                  per input channel; padding is 0 and stays 0
 *     conv(x + c, w)       = conv(x, w) + sum(w c)         without padding only
 *     s matmul(a, b)       = matmul(a, b) with alpha * s   one factor for all
 *
 * Of new weights each is rounded once. */
#include <math.h>
#include <string.h>

#include "optimize/rules.h"
#include "optimize/shapes.h"

enum { X, WEIGHTS, BIAS };

/* A maker of results by channels. */
typedef struct maker {
  tercel_node *node;
  tercel_op_id op;
  const tercel_tensor *weights; /* NULL: not constant */
  int channel_dim;              /* of the result */
  int64_t channels;
} maker;

static bool read_maker(tercel_node *node, maker *out) {
  const tercel_op_id op = node ? (tercel_op_id)node->op->id : TERCEL_OP_COUNT;
  if (op != TERCEL_OP_CONV && op != TERCEL_OP_CONV_TRANSPOSE && op != TERCEL_OP_MATMUL) return false;
  const tercel_shape *const result = &node->outputs[0]->type.shape;
  const tercel_value *const w = node->inputs[WEIGHTS];
  if (!tercel_is_f32(node->outputs[0]) || result->rank < 2 || w->type.shape.rank < 2) return false;
  if (w->constant && tercel_tensor_num_elements(w->constant) == 0) return false;
  const int channel_dim =
      op == TERCEL_OP_MATMUL ? result->rank - 1 : tercel_channel_dim(tercel_node_layout(node), result->rank);
  *out = (maker){node, op, w->constant, channel_dim, 0};
  out->channels = result->dims[out->channel_dim];
  return true;
}

/* How channels lie in weights, as nested loops: groups x repeats x per_group x inner elements; channel number is g *
 * per_group + c. */
typedef struct layout {
  int64_t groups, repeats, per_group, inner;
} layout;

/* Of the output channels that elements contribute to. */
static layout output_layout(const maker *m) {
  const int64_t *const dims = m->weights->dims;
  const int64_t count = tercel_tensor_num_elements(m->weights), group = tercel_node_int(m->node, "group");
  if (m->op == TERCEL_OP_CONV) return (layout){1, 1, dims[0], count / dims[0]};
  if (m->op == TERCEL_OP_CONV_TRANSPOSE) /* C, M / group, kernel... */
    return (layout){group, dims[0] / group, dims[1], count / (dims[0] * dims[1])};
  const int64_t inner = tercel_node_int(m->node, "trans_b") ? dims[m->weights->rank - 1] : 1;
  return (layout){1, count / (m->channels * inner), m->channels, inner};
}

/* Of the input channels that elements of a conv's weights (M, C / group, kernel...) read. */
static layout input_layout(const maker *m) {
  const int64_t *const dims = m->weights->dims;
  const int64_t count = tercel_tensor_num_elements(m->weights), group = tercel_node_int(m->node, "group");
  return (layout){group, dims[0] / group, dims[1], count / (dims[0] * dims[1])};
}

/* ---- constants ---- */

/* One number a channel of the maker's result, or one for all. */
static bool fits_channels(const tercel_value *c, const maker *m, int rank) {
  const tercel_tensor *const t = c->constant;
  if (!t || !tercel_is_f32(c) || t->rank > rank) return false;
  const int dim = tercel_only_dim(t, rank);
  return dim == -1 || (dim == m->channel_dim && tercel_tensor_num_elements(t) == m->channels);
}

static bool is_scalar(const tercel_tensor *t) { return tercel_tensor_num_elements(t) == 1; }

static double at_channel(const tercel_tensor *t, int64_t channel) {
  return tercel_tensor_get_f64(t, is_scalar(t) ? 0 : channel);
}

/* A factor of 0 under a division, infinity or NaN would spread differently through a sum. */
static bool are_finite_factors(const tercel_tensor *t, bool divide) {
  const int64_t count = tercel_tensor_num_elements(t);
  for (int64_t i = 0; i < count; i++) {
    const double v = tercel_tensor_get_f64(t, i);
    if (!isfinite(v) || (divide && v == 0)) return false;
  }
  return true;
}

static tercel_status add_like(tercel_value *value, tercel_value **out, tercel_error *err) {
  const tercel_tensor *const t = value->constant;
  return tercel_graph_add_new_constant(value->graph, value->name, t->dtype, t->rank, t->dims, out, err);
}

static void set(tercel_value *constant, int64_t i, double value) {
  tercel_element_set_f64(constant->constant->data, TERCEL_DTYPE_F32, i, value);
}

/* ---- after the maker ---- */

/* The bias as a new constant, zeros where there was none. */
static tercel_status new_bias(const maker *m, tercel_value **out, tercel_error *err) {
  const tercel_value *const old = tercel_node_input(m->node, BIAS);
  TERCEL_TRY(tercel_graph_add_new_constant(m->node->graph, old ? old->name : "bias", TERCEL_DTYPE_F32, 1, &m->channels,
                                           out, err));
  for (int64_t i = 0; old && i < m->channels; i++) set(*out, i, tercel_tensor_get_f64(old->constant, i));
  return TERCEL_OK;
}

/* to[i] = from[i] times (divided by) factor[i * step]; products and quotients of two f32 are rounded once in f32 too. */
static void scale_row(const float *from, const float *factor, int64_t step, bool divide, float *to, int64_t n) {
  if (divide)
    for (int64_t i = 0; i < n; i++) to[i] = from[i] / factor[i * step];
  else if (step)
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * factor[i];
  else
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * *factor;
}

static tercel_status scale_weights(const maker *m, const layout *l, const tercel_tensor *c, bool divide,
                                   tercel_error *err) {
  tercel_value *weights;
  TERCEL_TRY(add_like(m->node->inputs[WEIGHTS], &weights, err));
  const float *from = m->weights->data, *factors = c->data;
  const int64_t step = is_scalar(c) ? 0 : 1;
  float *to = weights->constant->data;
  for (int64_t g = 0; g < l->groups; g++)
    for (int64_t r = 0; r < l->repeats; r++) {
      const float *const of_group = factors + g * l->per_group * step;
      const bool is_row = l->inner == 1; /* a factor each element: the channels themselves are the row */
      const int64_t rows = is_row ? 1 : l->per_group, length = is_row ? l->per_group : l->inner;
      for (int64_t k = 0; k < rows; k++, from += length, to += length)
        scale_row(from, of_group + k * step, is_row ? step : 0, divide, to, length);
    }
  return tercel_node_set_input(m->node, WEIGHTS, weights, err);
}

static tercel_status scale_bias(const maker *m, const tercel_tensor *c, bool divide, tercel_error *err) {
  tercel_value *bias;
  if (!tercel_node_input(m->node, BIAS)) return TERCEL_OK;
  TERCEL_TRY(new_bias(m, &bias, err));
  for (int64_t i = 0; i < m->channels; i++) {
    const double b = tercel_tensor_get_f64(bias->constant, i), factor = at_channel(c, i);
    set(bias, i, divide ? b / factor : b * factor);
  }
  return tercel_node_set_input(m->node, BIAS, bias, err);
}

static tercel_status scale_alpha(const maker *m, double factor, tercel_error *err) {
  return tercel_node_set_float(m->node, "alpha", tercel_node_float(m->node, "alpha") * factor, err);
}

static tercel_status fold_factor(const maker *m, const tercel_tensor *c, bool divide, tercel_error *err) {
  if (m->op == TERCEL_OP_MATMUL && is_scalar(c)) {
    const double factor = tercel_tensor_get_f64(c, 0);
    TERCEL_TRY(scale_alpha(m, divide ? 1 / factor : factor, err));
  } else {
    const layout l = output_layout(m);
    TERCEL_TRY(scale_weights(m, &l, c, divide, err));
  }
  return scale_bias(m, c, divide, err);
}

static tercel_status fold_offset(const maker *m, const tercel_tensor *c, tercel_error *err) {
  tercel_value *bias;
  TERCEL_TRY(new_bias(m, &bias, err));
  for (int64_t i = 0; i < m->channels; i++) set(bias, i, tercel_tensor_get_f64(bias->constant, i) + at_channel(c, i));
  return tercel_node_set_input(m->node, BIAS, bias, err);
}

/* Why the constant can't go into the maker; NULL when it can. */
static const char *obstacle(const maker *m, tercel_fn fn, const tercel_node *node, const tercel_value *c,
                            char buffer[TERCEL_REASON_MAX]) {
  const tercel_value *const result = m->node->outputs[0], *const bias = tercel_node_input(m->node, BIAS);
  if (!tercel_has_one_use(result)) return tercel_describe_uses(result, node, buffer);
  if (!tercel_same_type(result, node->outputs[0])) return tercel_describe_broadcast(result, node->outputs[0], buffer);
  if (!fits_channels(c, m, result->type.shape.rank))
    return tercel_reason(buffer, "constant '%.100s' is not one number a channel", c->name);
  if (tercel_node_program(m->node, "epilogue"))
    return tercel_reason(buffer, "the epilogue of '%.100s' stands between them", m->node->name);
  const bool is_alpha = m->op == TERCEL_OP_MATMUL && is_scalar(c->constant) && fn != TERCEL_FN_ADD;
  if (!tercel_dim_is_known(m->channels) && (!is_alpha || bias)) return "the number of channels is not known";
  if (bias && !bias->constant) return tercel_reason(buffer, "the bias '%.100s' is not constant", bias->name);
  if (fn == TERCEL_FN_ADD) return NULL;
  if (!are_finite_factors(c->constant, fn == TERCEL_FN_DIV))
    return tercel_reason(buffer, "a factor in '%.100s' is not finite", c->name);
  if (!m->weights && !is_alpha)
    return tercel_reason(buffer, "the weights '%.100s' are not constant", m->node->inputs[WEIGHTS]->name);
  return NULL;
}

static tercel_status apply_after(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  maker m;
  char buffer[TERCEL_REASON_MAX];
  const tercel_fn fn = tercel_single_fn(node);
  if (fn != TERCEL_FN_MUL && fn != TERCEL_FN_ADD && fn != TERCEL_FN_DIV) return TERCEL_OK;
  const tercel_value *const c = node->inputs[1]; /* canonical: constants stand on the right */
  if (!c->constant || !read_maker(node->inputs[0]->producer, &m)) return TERCEL_OK;
  const char *const why = obstacle(&m, fn, node, c, buffer);
  if (why) return tercel_refused(context, name, node, err, "%s", why);
  TERCEL_TRY(tercel_made(context, fn == TERCEL_FN_ADD ? "offset" : "factor", m.node, node, err));
  if (fn == TERCEL_FN_ADD)
    TERCEL_TRY(fold_offset(&m, c->constant, err));
  else
    TERCEL_TRY(fold_factor(&m, c->constant, fn == TERCEL_FN_DIV, err));
  TERCEL_TRY(tercel_node_add_sources(m.node, node, err));
  TERCEL_TRY(tercel_rewrite_replace(node->outputs[0], m.node->outputs[0], err));
  m.node->outputs[0]->name = node->outputs[0]->name;
  tercel_graph_remove_node(node);
  return TERCEL_OK;
}

/* ---- before the maker ---- */

static bool is_padded(const tercel_node *conv) {
  size_t count;
  const int64_t *const pads = tercel_node_ints(conv, "pads", &count);
  const char *const automatic = tercel_node_string(conv, "auto_pad");
  if (automatic && *automatic && strcmp(automatic, "valid") != 0) return true;
  for (size_t i = 0; i < count; i++)
    if (pads[i]) return true;
  return false;
}

static tercel_status fold_offset_before(const maker *m, const tercel_tensor *c, tercel_error *err) {
  tercel_value *bias;
  TERCEL_TRY(new_bias(m, &bias, err));
  const layout l = input_layout(m);
  const float *w = m->weights->data;
  for (int64_t g = 0; g < l.groups; g++)
    for (int64_t r = 0; r < l.repeats; r++) {
      const int64_t output = g * l.repeats + r;
      double sum = tercel_tensor_get_f64(bias->constant, output);
      for (int64_t k = 0; k < l.per_group; k++)
        for (int64_t i = 0; i < l.inner; i++) sum += (double)*w++ * at_channel(c, g * l.per_group + k);
      set(bias, output, sum);
    }
  return tercel_node_set_input(m->node, BIAS, bias, err);
}

static const char *obstacle_before(const maker *m, tercel_fn fn, const tercel_node *node,
                                   char buffer[TERCEL_REASON_MAX]) {
  const tercel_value *const x = node->outputs[0], *const bias = tercel_node_input(m->node, BIAS);
  const tercel_tensor *const c = node->inputs[1]->constant;
  const int dim = tercel_only_dim(c, x->type.shape.rank);
  if (!tercel_has_one_use(x)) return tercel_describe_uses(x, m->node, buffer);
  if (!tercel_same_type(node->inputs[0], x)) return tercel_describe_broadcast(node->inputs[0], x, buffer);
  if (dim != -1 && dim != m->channel_dim)
    return tercel_reason(buffer, "constant '%.100s' is not one number a channel", node->inputs[1]->name);
  if (dim != -1 && x->type.shape.dims[dim] != tercel_tensor_num_elements(c))
    return "the number of channels is not known";
  if (!m->weights)
    return tercel_reason(buffer, "the weights '%.100s' are not constant", m->node->inputs[WEIGHTS]->name);
  if (!are_finite_factors(c, false))
    return tercel_reason(buffer, "a factor in '%.100s' is not finite", node->inputs[1]->name);
  if (fn == TERCEL_FN_MUL) return NULL;
  if (is_padded(m->node)) return tercel_reason(buffer, "'%.100s' pads with zeros", m->node->name);
  return bias && !bias->constant ? tercel_reason(buffer, "the bias '%.100s' is not constant", bias->name) : NULL;
}

static tercel_status apply_before_conv(tercel_pass_context *context, const char *name, tercel_node *node,
                                       tercel_error *err) {
  maker m;
  char buffer[TERCEL_REASON_MAX];
  tercel_node *const scale = tercel_producer(node->inputs[X], TERCEL_OP_POINTWISE);
  const tercel_fn fn = tercel_single_fn(scale);
  if ((fn != TERCEL_FN_MUL && fn != TERCEL_FN_ADD) || !scale->inputs[1]->constant || !read_maker(node, &m))
    return TERCEL_OK;
  const char *const why = obstacle_before(&m, fn, scale, buffer);
  if (why) return tercel_refused(context, name, scale, err, "%s", why);
  const tercel_tensor *const c = scale->inputs[1]->constant;
  const layout l = input_layout(&m);
  TERCEL_TRY(tercel_made(context, name, node, scale, err));
  if (fn == TERCEL_FN_ADD)
    TERCEL_TRY(fold_offset_before(&m, c, err));
  else
    TERCEL_TRY(scale_weights(&m, &l, c, false, err));
  TERCEL_TRY(tercel_node_add_sources(node, scale, err));
  return tercel_node_set_input(node, X, scale->inputs[0], err);
}

static bool moves_only(const tercel_node *node) {
  return node && (node->op->flags & TERCEL_OP_VIEW || tercel_is(node, TERCEL_OP_TRANSPOSE));
}

/* What lies between a product and the factor on its operand is not what it was in the file. */
static void disown_moved(const tercel_node *product, uint32_t side, const tercel_node *last) {
  for (const tercel_node *node = product; node != last; node = node->inputs[node == product ? side : 0]->producer)
    node->inputs[node == product ? side : 0]->made_up = true;
}

/* One factor on an operand is a factor on the product (the bias is added after it), whatever views and transposes lie
 * between. */
static tercel_status apply_before_matmul(tercel_pass_context *context, const char *name, tercel_node *node,
                                         tercel_error *err) {
  maker m;
  if (!read_maker(node, &m)) return TERCEL_OK;
  for (uint32_t side = 0; side < 2; side++) {
    tercel_node *reader = node;
    uint32_t at = side;
    tercel_value *x;
    double factor;
    while (tercel_has_one_use(reader->inputs[at]) && moves_only(reader->inputs[at]->producer)) {
      reader = reader->inputs[at]->producer;
      at = 0;
    }
    tercel_value *const scaled = reader->inputs[at];
    if (!tercel_match_scalar(scaled, TERCEL_FN_MUL, &x, &factor) || !tercel_has_one_use(scaled) ||
        !tercel_same_type(x, scaled) || !isfinite(factor))
      continue;
    const tercel_node *const scale = scaled->producer;
    TERCEL_TRY(tercel_made(context, name, node, scale, err));
    disown_moved(node, side, reader);
    TERCEL_TRY(scale_alpha(&m, factor, err));
    TERCEL_TRY(tercel_node_add_sources(node, scale, err));
    return tercel_node_set_input(reader, at, x, err);
  }
  return TERCEL_OK;
}

static const tercel_rule rules[] = {
    {"after", TERCEL_OP_POINTWISE, apply_after},
    {"before", TERCEL_OP_CONV, apply_before_conv},
    {"before", TERCEL_OP_MATMUL, apply_before_matmul},
    {0},
};

tercel_status tercel_pass_fold_scale(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return context->shapes_only ? TERCEL_OK : tercel_run_rules(graph, rules, context, err);
}
