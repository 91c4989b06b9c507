/* Drives inference: facts of a node's inputs in, types and contents of its outputs out.
 *
 * What a value is already known to be (declared in a file, inferred before a pass) is merged with what is inferred: of two
 * dims that which says more stays (tercel_dim_better); two different numbers are an error. */
#include <string.h>

#include "ops/ops.h"

tercel_fact tercel_value_fact(const tercel_value *value) {
  return (tercel_fact){
      .type = value->type, .contents = value->contents, .num_contents = value->num_contents, .tensor = value->constant};
}

static tercel_status clash(const tercel_node *node, const tercel_value *value, const tercel_type *inferred,
                           tercel_error *err) {
  tercel_text text = {0};
  tercel_type_print(value->graph->dims, &value->type, &text);
  tercel_text_add(&text, ", but its inputs give ");
  tercel_type_print(value->graph->dims, inferred, &text);
  const tercel_status status = tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': output '%s' is declared %s",
                                           node->op->name, node->name, value->name, text.data ? text.data : "?");
  tercel_text_deinit(&text);
  return status;
}

/* Merges the inferred type into the value's. */
static tercel_status merge_type(const tercel_node *node, tercel_value *value, const tercel_type *inferred,
                                tercel_error *err) {
  tercel_type *type = &value->type;
  if (type->dtype != TERCEL_DTYPE_NONE && inferred->dtype != TERCEL_DTYPE_NONE &&
      (type->dtype != inferred->dtype || type->kind != inferred->kind || type->key != inferred->key))
    return clash(node, value, inferred, err);
  if (inferred->dtype != TERCEL_DTYPE_NONE) {
    type->kind = inferred->kind;
    type->optional_sequence = inferred->optional_sequence;
    type->key = inferred->key;
    type->dtype = inferred->dtype;
  }
  if (inferred->shape.rank < 0) return TERCEL_OK;
  if (type->shape.rank < 0) {
    type->shape = inferred->shape;
    return TERCEL_OK;
  }
  if (type->shape.rank != inferred->shape.rank) return clash(node, value, inferred, err);
  for (int i = 0; i < type->shape.rank; ++i) {
    const tercel_dim old = type->shape.dims[i], new = inferred->shape.dims[i];
    if (tercel_dim_is_known(old) && tercel_dim_is_known(new) && old != new) return clash(node, value, inferred, err);
  }
  for (int i = 0; i < type->shape.rank; ++i) {
    type->shape.dims[i] = tercel_dim_better(value->graph->dims, type->shape.dims[i], inferred->shape.dims[i]);
  }
  return TERCEL_OK;
}

static bool has_contents(const tercel_value *value, const tercel_fact *fact) {
  if (!value->contents || !fact->contents) return !value->contents && !fact->contents;
  return value->num_contents == fact->num_contents &&
         memcmp(value->contents, fact->contents, (size_t)fact->num_contents * sizeof *fact->contents) == 0;
}

static tercel_status take_over(const tercel_node *node, tercel_value *value, const tercel_fact *fact,
                               tercel_error *err) {
  const tercel_type before = value->type;
  TERCEL_TRY(merge_type(node, value, &fact->type, err));
  const bool same_type = before.dtype == value->type.dtype && before.kind == value->type.kind &&
                         before.optional_sequence == value->type.optional_sequence && before.key == value->type.key &&
                         tercel_shape_equal(&before.shape, &value->type.shape);
  if (same_type && has_contents(value, fact)) return TERCEL_OK;
  value->contents = fact->contents;
  value->num_contents = fact->num_contents;
  tercel_value_changed(value);
  return TERCEL_OK;
}

/* What every operator's inference may rely on, whether the graph was verified before or not. */
static tercel_status check_operands(const tercel_node *node, tercel_error *err) {
  const tercel_op *op = node->op;
  const uint32_t num_in = node->num_inputs - node->num_captures, num_out = node->num_outputs;
  if (num_in < (uint32_t)op->min_inputs || (op->max_inputs >= 0 && num_in > (uint32_t)op->max_inputs))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %u inputs, want %d .. %d", op->name, node->name, num_in,
                       op->min_inputs, op->max_inputs);
  if (num_out < (uint32_t)op->min_outputs || (op->max_outputs >= 0 && num_out > (uint32_t)op->max_outputs))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %u outputs, want %d .. %d", op->name, node->name, num_out,
                       op->min_outputs, op->max_outputs);
  for (uint32_t i = 0; i < num_in; ++i) {
    const tercel_value *value = node->inputs[i];
    if (value == NULL && i < (uint32_t)op->min_inputs)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %u is missing", op->name, node->name, i);
    if (value != NULL && value->type.kind != TERCEL_TYPE_TENSOR && (op->flags & TERCEL_OP_CONTROL) == 0)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %u ('%s') is not a tensor", op->name, node->name, i,
                         value->name);
  }
  return TERCEL_OK;
}

tercel_status tercel_infer_call(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  tercel_status status = node->op->infer(infer, err);
  if (status != TERCEL_OK && !infer->dims->out_of_memory) return status;
  status = tercel_dims_check(infer->dims, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "%s '%s'", node->op->name, node->name);
}

tercel_status tercel_infer_node(tercel_node *node, tercel_error *err) {
  tercel_graph *graph = node->graph;
  if (node->op->infer == NULL)
    return tercel_fail(err, TERCEL_INTERNAL, "%s '%s': the operator has no inference", node->op->name, node->name);
  TERCEL_TRY(check_operands(node, err));
  tercel_arena scratch = {0};
  tercel_status status = TERCEL_OK;
  const size_t num_in = node->num_inputs, num_out = node->num_outputs;
  tercel_fact *facts = tercel_arena_alloc_array(&scratch, num_in + num_out, sizeof *facts);
  const tercel_fact **in = tercel_arena_alloc_array(&scratch, num_in, sizeof *in);
  if (facts == NULL || in == NULL) {
    status = tercel_fail_memory(err, (num_in + num_out) * sizeof *facts, "inference");
    goto done;
  }
  for (size_t i = 0; i < num_in; ++i) {
    if (node->inputs[i] == NULL) continue;
    facts[i] = tercel_value_fact(node->inputs[i]);
    in[i] = &facts[i];
  }
  tercel_fact *out = facts + num_in;
  for (size_t i = 0; i < num_out; ++i) out[i].type.shape.rank = -1;
  tercel_infer infer = {.node = node,
                        .num_inputs = num_in,
                        .num_outputs = num_out,
                        .in = in,
                        .out = out,
                        .dims = graph->dims,
                        .arena = graph->arena};
  TERCEL_CHECK(tercel_infer_call(&infer, err));
  for (size_t i = 0; i < num_out; ++i) {
    if (node->outputs[i] != NULL) TERCEL_CHECK(take_over(node, node->outputs[i], &out[i], err));
  }
  node->inferred = true;
done:
  tercel_arena_deinit(&scratch);
  return status;
}

/* Subgraphs may have changed inside. */
tercel_status tercel_infer_changed(tercel_graph *graph, tercel_error *err) {
  for (tercel_node *node = graph->first; node != NULL; node = node->next)
    if (!node->inferred || node->num_graphs > 0) TERCEL_TRY(tercel_infer_node(node, err));
  return TERCEL_OK;
}

tercel_status tercel_infer_graph(tercel_graph *graph, tercel_error *err) {
  for (tercel_node *node = graph->first; node != NULL; node = node->next) TERCEL_TRY(tercel_infer_node(node, err));
  return TERCEL_OK;
}
