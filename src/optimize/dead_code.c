/* Removes what no output of the graph needs: nodes, optional outputs that nobody reads, constants. */
#include "optimize/rewrite.h"

static bool is_read(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && tercel_value_num_uses(node->outputs[i])) return true;
  return false;
}

/* Outputs of control operators mirror those of their subgraphs, and stay.  The first output stays with its node. */
static void drop_outputs(tercel_node *node) {
  if (node->op->flags & TERCEL_OP_CONTROL) return;
  for (uint32_t i = 1; i < node->num_outputs; i++)
    if (node->outputs[i] && tercel_value_num_uses(node->outputs[i]) == 0) tercel_graph_remove_value(node->outputs[i]);
}

tercel_status tercel_pass_dead_code(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  for (tercel_node *node = graph->last, *previous; node; node = previous) {
    previous = node->previous;
    if (is_read(node)) {
      drop_outputs(node);
      continue;
    }
    TERCEL_TRY(tercel_made(context, "unused", node, NULL, err));
    tercel_graph_remove_node(node);
  }
  for (uint32_t i = 0; i < graph->num_values; i++) {
    tercel_value *const value = graph->values[i];
    if (value && value->constant && tercel_value_num_uses(value) == 0) tercel_graph_remove_value(value);
  }
  return TERCEL_OK;
}
