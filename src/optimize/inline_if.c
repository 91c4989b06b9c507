/* If with a constant condition: the branch's nodes take its place.  Constants that subgraphs capture become constants
 * of theirs. */
#include "optimize/rewrite.h"

/* ---- captured constants ---- */

static tercel_status give_constant(tercel_graph *graph, tercel_value *input, const tercel_value *constant,
                                   tercel_error *err) {
  tercel_value *copy;
  TERCEL_TRY(tercel_graph_add_constant(graph, constant->name, constant->constant, constant->storage, &copy, err));
  TERCEL_TRY(tercel_value_replace_uses(input, copy, err));
  tercel_graph_remove_value(input);
  return TERCEL_OK;
}

/* Capture number k, from the end of the inputs of the node and of each of its subgraphs. */
static tercel_status sink_capture(tercel_pass_context *context, tercel_node *node, uint32_t k, tercel_error *err) {
  const uint32_t at = node->num_inputs - node->num_captures + k;
  const tercel_value *const constant = node->inputs[at];
  TERCEL_TRY(tercel_made(context, "captured-constant", node, NULL, err));
  for (uint32_t i = 0; i < node->num_graphs; i++) {
    tercel_graph *const graph = node->graphs[i];
    TERCEL_TRY(give_constant(graph, graph->inputs[graph->num_inputs - node->num_captures + k], constant, err));
  }
  for (uint32_t i = at; i + 1 < node->num_inputs; i++)
    TERCEL_TRY(tercel_node_set_input(node, i, node->inputs[i + 1], err));
  tercel_node_truncate_inputs(node, node->num_inputs - 1);
  node->num_captures--;
  return TERCEL_OK;
}

static tercel_status sink_captures(tercel_pass_context *context, tercel_node *node, tercel_error *err) {
  for (uint32_t k = node->num_captures; k-- > 0;) {
    const tercel_value *const captured = node->inputs[node->num_inputs - node->num_captures + k];
    if (captured && captured->constant) TERCEL_TRY(sink_capture(context, node, k, err));
  }
  return TERCEL_OK;
}

/* ---- branches ---- */

/* Attributes, sources and subgraphs lie in the arena that both graphs share: they are handed over. */
static void hand_over(tercel_node *from, tercel_node *to) {
  to->attrs = from->attrs;
  to->num_attrs = from->num_attrs;
  to->attrs_capacity = from->attrs_capacity;
  to->sources = from->sources;
  to->num_sources = from->num_sources;
  to->num_captures = from->num_captures;
  for (uint32_t i = 0; i < from->num_graphs; i++) {
    to->graphs[i] = from->graphs[i];
    to->graphs[i]->parent = to->graph;
    to->graphs[i]->parent_node = to;
  }
  from->num_graphs = 0;
  for (uint32_t i = 0; i < from->num_outputs; i++) {
    if (!from->outputs[i]) {
      tercel_graph_remove_value(to->outputs[i]);
      continue;
    }
    to->outputs[i]->name = from->outputs[i]->name;
    to->outputs[i]->type = from->outputs[i]->type;
    to->outputs[i]->contents = from->outputs[i]->contents;
    to->outputs[i]->num_contents = from->outputs[i]->num_contents;
  }
}

/* values: by id in the branch, what stands for them outside. */
static tercel_status move_node(tercel_node *from, tercel_node *before, tercel_value **values, tercel_arena *scratch,
                               tercel_error *err) {
  tercel_value **const inputs = tercel_arena_alloc_array(scratch, from->num_inputs, sizeof *inputs);
  if (!inputs) return tercel_fail_memory(err, from->num_inputs * sizeof *inputs, "inlining a branch");
  for (uint32_t i = 0; i < from->num_inputs; i++)
    if (from->inputs[i]) inputs[i] = values[from->inputs[i]->id];
  tercel_node *to;
  TERCEL_TRY(tercel_graph_add_node(before->graph, from->op, from->name, inputs, from->num_inputs, from->num_outputs,
                                   before, &to, err));
  hand_over(from, to);
  for (uint32_t i = 0; i < from->num_outputs; i++)
    if (from->outputs[i]) values[from->outputs[i]->id] = to->outputs[i];
  return TERCEL_OK;
}

static tercel_status move_branch(tercel_node *node, tercel_graph *branch, tercel_arena *scratch, tercel_error *err) {
  tercel_value **const values = tercel_arena_alloc_array(scratch, branch->num_values, sizeof *values);
  if (!values) return tercel_fail_memory(err, branch->num_values * sizeof *values, "inlining a branch");
  for (uint32_t i = 0; i < branch->num_inputs; i++)
    values[branch->inputs[i]->id] = node->inputs[node->num_inputs - branch->num_inputs + i];
  for (uint32_t i = 0; i < branch->num_values; i++) {
    const tercel_value *const v = branch->values[i];
    if (v && v->constant)
      TERCEL_TRY(tercel_graph_add_constant(node->graph, v->name, v->constant, v->storage, &values[i], err));
  }
  for (tercel_node *from = branch->first; from; from = from->next)
    TERCEL_TRY(move_node(from, node, values, scratch, err));
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) TERCEL_TRY(tercel_rewrite_replace(node->outputs[i], values[branch->outputs[i]->id], err));
  return TERCEL_OK;
}

static tercel_status inline_branch(tercel_pass_context *context, tercel_node *node, tercel_error *err) {
  tercel_arena scratch = {0};
  tercel_graph *const branch = node->graphs[tercel_tensor_get_i64(node->inputs[0]->constant, 0) ? 0 : 1];
  tercel_status status = tercel_made(context, "constant-condition", node, NULL, err);
  if (status == TERCEL_OK) status = move_branch(node, branch, &scratch, err);
  tercel_arena_deinit(&scratch);
  if (status == TERCEL_OK) tercel_graph_remove_node(node);
  return status;
}

tercel_status tercel_pass_inline_if(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  bool is_inlined = false;
  for (tercel_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    TERCEL_TRY(sink_captures(context, node, err));
    if (!tercel_is(node, TERCEL_OP_IF) || !node->inputs[0]->constant ||
        tercel_tensor_num_elements(node->inputs[0]->constant) != 1)
      continue;
    TERCEL_TRY(inline_branch(context, node, err));
    is_inlined = true;
  }
  return is_inlined ? tercel_infer_graph(graph, err) : TERCEL_OK; /* the branch's types say more than the If's */
}
