/* Numbers quantized and back, as quantizers leave them in a graph (QuantizeLinear, DequantizeLinear):
 *
 *     q' = quantize(dequantize(q)) = q        with one scale and zero point for all, also around what only moves data
 *     quantize(relu(x))            = quantize(x)      where 0 is the least integer: it cuts off what relu would
 *
 *     quantize(x) = cast(clip(round(x / s) + z, least, greatest))        dequantize(q) = (cast(q) - z) s
 *
 * The first is exact: (q - z) s / s is off by less than the half that rounding removes. */
#include <float.h>
#include <math.h>

#include "optimize/pattern.h"

enum { MAX_MOVES = 4 };

typedef struct grid {
  tercel_value *x;
  double scale, zero;
  tercel_dtype dtype; /* of the integers */
} grid;

/* Types whose integers f32 holds exactly. */
static bool limits(tercel_dtype dtype, double *least, double *greatest) {
  const int bits = tercel_dtype_bits(dtype);
  const bool is_signed = tercel_dtype_get_kind(dtype) == TERCEL_KIND_INT;
  *least = is_signed ? -ldexp(1, bits - 1) : 0;
  *greatest = ldexp(1, is_signed ? bits - 1 : bits) - 1;
  return tercel_dtype_is_integer(dtype) && bits <= 16;
}

/* Neither products with it nor quotients lose digits. */
static bool is_sound(double scale) { return scale > 0x1p-100 && scale < 0x1p100; }

/* value = *x + number, or *x itself */
static void match_offset(tercel_pattern *p, tercel_value *value, tercel_value **x, double *number) {
  if (tercel_pattern_scalar(p, value, TERCEL_FN_ADD, x, number)) return;
  *x = value;
  *number = 0;
}

static bool match_quantize(tercel_pattern *p, const tercel_node *cast, grid *out) {
  double least, greatest;
  tercel_value *rounded;
  out->dtype = cast->outputs[0]->type.dtype;
  if (tercel_single_fn(cast) != TERCEL_FN_CAST || !tercel_is_f32(cast->inputs[0]) ||
      !limits(out->dtype, &least, &greatest))
    return false;
  const tercel_node *const clip = tercel_pattern_fn(p, cast->inputs[0], TERCEL_FN_CLIP);
  if (!clip) return false;
  const tercel_immediate *const bounds = tercel_node_program(clip, "program")->instrs[0].immediates;
  if (bounds[0].f != least || bounds[1].f != greatest) return false;
  match_offset(p, clip->inputs[0], &rounded, &out->zero);
  const tercel_node *const round = tercel_pattern_fn(p, rounded, TERCEL_FN_ROUND);
  if (!round) return false;
  if (!tercel_pattern_scalar(p, round->inputs[0], TERCEL_FN_DIV, &out->x, &out->scale)) {
    if (!tercel_pattern_scalar(p, round->inputs[0], TERCEL_FN_MUL, &out->x, &out->scale)) return false;
    out->scale = 1 / out->scale; /* a power of two: canonical */
  }
  return is_sound(out->scale) && tercel_same_type(out->x, clip->outputs[0]);
}

static bool match_dequantize(tercel_pattern *p, const tercel_value *value, grid *out) {
  double least, greatest;
  tercel_value *scaled, *wide;
  if (!tercel_is_f32(value) || !tercel_pattern_scalar(p, value, TERCEL_FN_MUL, &scaled, &out->scale)) return false;
  match_offset(p, scaled, &wide, &out->zero);
  out->zero = -out->zero;
  const tercel_node *const cast = tercel_pattern_fn(p, wide, TERCEL_FN_CAST);
  if (!cast) return false;
  out->x = cast->inputs[0];
  out->dtype = out->x->type.dtype;
  return limits(out->dtype, &least, &greatest) && tercel_shape_equal(&out->x->type.shape, &value->type.shape);
}

static bool moves_only(const tercel_node *node) {
  return node &&
         (node->op->flags & TERCEL_OP_VIEW || tercel_is(node, TERCEL_OP_TRANSPOSE) ||
          tercel_is(node, TERCEL_OP_SLICE) || tercel_is(node, TERCEL_OP_GATHER) || tercel_is(node, TERCEL_OP_EXPAND));
}

/* The same move of another value. */
static tercel_status move_again(const tercel_node *move, tercel_value *x, tercel_node *before, tercel_value **out,
                                tercel_error *err) {
  tercel_value *inputs[8] = {x};
  tercel_node *made;
  for (uint32_t i = 1; i < move->num_inputs; i++) inputs[i] = move->inputs[i];
  TERCEL_TRY(tercel_rewrite_add((tercel_op_id)move->op->id, move, inputs, move->num_inputs, before, &made, err));
  for (uint32_t i = 0; i < move->num_attrs; i++) {
    const tercel_attr *const a = &move->attrs[i];
    if (a->kind == TERCEL_ATTR_INT) TERCEL_TRY(tercel_node_set_int(made, a->name, a->value.i, err));
    if (a->kind == TERCEL_ATTR_INTS) TERCEL_TRY(tercel_node_set_ints(made, a->name, a->value.ints, a->count, err));
  }
  TERCEL_TRY(tercel_infer_node(made, err));
  *out = made->outputs[0];
  return TERCEL_OK;
}

static tercel_status apply_there_and_back(tercel_pass_context *context, const char *name, tercel_node *node,
                                          tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  grid to, from;
  const tercel_node *moves[MAX_MOVES];
  int num_moves = 0;
  if (!match_quantize(&p, node, &to)) return TERCEL_OK;
  const tercel_value *x = to.x;
  for (; moves_only(x->producer) && num_moves < MAX_MOVES; x = x->producer->inputs[0]) moves[num_moves++] = x->producer;
  if (!match_dequantize(&p, x, &from)) return TERCEL_OK;
  if (from.dtype != to.dtype)
    return tercel_refused(context, name, node, err, "it makes %s of what was %s", tercel_dtype_name(to.dtype),
                          tercel_dtype_name(from.dtype));
  if (from.scale != to.scale || from.zero != to.zero)
    return tercel_refused(context, name, node, err, "'%.100s' has scale %.9g and zero point %g, and not %.9g and %g",
                          x->name, from.scale, from.zero, to.scale, to.zero);
  tercel_value *result = from.x;
  while (num_moves > 0) TERCEL_TRY(move_again(moves[--num_moves], result, node, &result, err));
  return tercel_rewrite_node(context, name, node, result, err);
}

static tercel_status apply_relu(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  grid to;
  double least, greatest;
  char uses[TERCEL_REASON_MAX];
  if (!match_quantize(&p, node, &to)) return TERCEL_OK;
  const tercel_node *const relu = tercel_fn_node(to.x, TERCEL_FN_RELU);
  tercel_node *const divide = (tercel_node *)(uintptr_t)p.nodes[p.num_nodes - 1];
  limits(to.dtype, &least, &greatest);
  if (!relu) return TERCEL_OK;
  if (to.zero != least)
    return tercel_refused(context, name, node, err, "its zero point is %g, and not the least integer, %g", to.zero,
                          least);
  if (!tercel_has_one_use(to.x))
    return tercel_refused(context, name, node, err, "%s", tercel_describe_uses(to.x, divide, uses));
  TERCEL_TRY(tercel_made(context, name, node, relu, err));
  TERCEL_TRY(tercel_node_add_sources(divide, relu, err));
  return tercel_node_set_input(divide, 0, relu->inputs[0], err);
}

static const tercel_rule rules[] = {
    {"there-and-back", TERCEL_OP_POINTWISE, apply_there_and_back}, {"relu", TERCEL_OP_POINTWISE, apply_relu}, {0}};

tercel_status tercel_pass_quantized(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
