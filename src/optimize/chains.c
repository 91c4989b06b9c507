/* Chains of pointwise operators as one program, so that what lies between them is never stored.
 *
 * An operator joins its consumer when nobody else reads it and both have the same shape: a smaller one, broadcast in
 * the consumer, would be computed again for every place it is broadcast to, which pays only where that is next to nothing. */
#include "optimize/operands.h"
#include "optimize/rules.h"

static tercel_status replace(tercel_pass_context *context, const char *name, tercel_node *node,
                             const tercel_node *joined, const tercel_operands *o, tercel_error *err) {
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_POINTWISE, node, o->inputs, (size_t)o->program.num_inputs, node, &made, err));
  TERCEL_TRY(tercel_node_set_program(made, "program", &o->program, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  if (joined) TERCEL_TRY(tercel_node_add_sources(made, joined, err));
  TERCEL_TRY(tercel_made(context, name, made, NULL, err));
  TERCEL_TRY(tercel_rewrite_replace(node->outputs[0], made->outputs[0], err));
  tercel_graph_remove_node(node);
  return TERCEL_OK;
}

/* The producer of input i, when it may join; else NULL, and a refusal where it almost might. */
static tercel_status find_producer(tercel_pass_context *context, const char *name, const tercel_node *node, int i,
                                   const tercel_operands *o, const tercel_node **out, tercel_error *err) {
  const tercel_node *const producer = tercel_producer(o->inputs[i], TERCEL_OP_POINTWISE);
  char buffer[TERCEL_REASON_MAX];
  *out = NULL;
  if (!producer) return TERCEL_OK;
  if (!tercel_is_read_only_by(o->inputs[i], node))
    return tercel_refused(context, name, node, err, "%s", tercel_describe_uses(o->inputs[i], node, buffer));
  if (!tercel_shape_equal(&o->inputs[i]->type.shape, &node->outputs[0]->type.shape) &&
      !tercel_operands_may_repeat(o->inputs[i], node->outputs[0]))
    return tercel_refused(context, name, node, err, "%s",
                          tercel_describe_broadcast(o->inputs[i], node->outputs[0], buffer));
  *out = producer;
  return TERCEL_OK;
}

static tercel_status join(tercel_pass_context *context, const char *name, tercel_node *node, tercel_operands *o,
                          tercel_error *err) {
  for (int i = 0; i < o->program.num_inputs; i++) {
    const tercel_node *producer;
    tercel_operands first, whole = *o;
    tercel_error why = {0};
    TERCEL_TRY(find_producer(context, name, node, i, o, &producer, err));
    if (!producer) continue;
    TERCEL_TRY(tercel_operands_read(o->arena, producer, &first, err));
    tercel_dtype odd = tercel_operands_odd_dtype(&first);
    if (odd == TERCEL_DTYPE_NONE) odd = tercel_operands_odd_dtype(o);
    if (odd != TERCEL_DTYPE_NONE)
      return tercel_refused(context, name, node, err, "%s is not a type for fusing", tercel_dtype_name(odd));
    const tercel_status status = tercel_operands_prepend(&whole, i, &first, &why);
    if (status == TERCEL_UNSUPPORTED) {
      TERCEL_TRY(tercel_refused(context, name, node, err, "%s", why.message));
      continue;
    }
    if (status != TERCEL_OK) return tercel_fail(err, status, "%s", why.message);
    tercel_operands_merge_equal(&whole);
    return replace(context, name, node, producer, &whole, err);
  }
  return TERCEL_OK;
}

static tercel_status try_join(tercel_pass_context *context, const char *name, tercel_node *node, tercel_arena *arena,
                              tercel_error *err) {
  tercel_operands o;
  TERCEL_TRY(tercel_operands_read(arena, node, &o, err));
  const int inputs_before = o.program.num_inputs;
  tercel_operands_merge_equal(&o);
  TERCEL_TRY(tercel_operands_absorb_scalars(&o, &node->outputs[0]->type.shape, err));
  if (o.program.num_inputs < inputs_before) return replace(context, "scalars", node, NULL, &o, err);
  return join(context, name, node, &o, err);
}

static tercel_status apply_join(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  tercel_arena arena = {0};
  const tercel_status status = try_join(context, name, node, &arena, err);
  tercel_arena_deinit(&arena);
  return status;
}

static const tercel_rule rules[] = {{"join", TERCEL_OP_POINTWISE, apply_join}, {0}};

tercel_status tercel_pass_chains(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
