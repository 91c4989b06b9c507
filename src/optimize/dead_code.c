/* Removes what no output of the graph needs: nodes, optional outputs that nobody reads, constants.
 *
 * What a fusion left behind is removed without a word: the fused node speaks for it.  Only nodes of the user's file
 * that are gone for good are decisions. */
#include "optimize/rewrite.h"

/* Removed nodes, whose memory stays until the graph's arena goes. */
typedef struct removed {
  tercel_arena arena;
  const tercel_node **nodes;
  size_t count;
} removed;

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

static tercel_status remove_nodes(tercel_graph *graph, removed *out, tercel_error *err) {
  out->nodes = tercel_arena_alloc_array(&out->arena, graph->num_nodes, sizeof *out->nodes);
  if (!out->nodes) return tercel_fail_memory(err, graph->num_nodes * sizeof *out->nodes, "removing dead code");
  for (tercel_node *node = graph->last, *previous; node; node = previous) {
    previous = node->previous;
    if (is_read(node) || node->op->flags & TERCEL_OP_STATEFUL) {
      drop_outputs(node);
    } else {
      tercel_graph_remove_node(node);
      out->nodes[out->count++] = node;
    }
  }
  return TERCEL_OK;
}

static void remove_constants(tercel_graph *graph) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    tercel_value *const value = graph->values[i];
    if (value && value->constant && tercel_value_num_uses(value) == 0) tercel_graph_remove_value(value);
  }
}

/* The names that removed nodes stood for: which of them do nodes of the graph and its subgraphs stand for? */
static tercel_status add_names(const removed *gone, tercel_map *names, tercel_error *err) {
  for (size_t k = 0; k < gone->count; k++)
    for (uint32_t i = 0; i < gone->nodes[k]->num_sources; i++)
      TERCEL_TRY(tercel_map_set(names, gone->nodes[k]->sources[i], NULL, err));
  return TERCEL_OK;
}

static tercel_status mark_living(const tercel_graph *graph, tercel_map *names, tercel_error *err) {
  static const char living[] = "";
  for (const tercel_node *node = graph->first; node; node = node->next) {
    for (uint32_t i = 0; i < node->num_sources; i++) {
      bool found;
      tercel_map_get(names, node->sources[i], &found);
      if (found) TERCEL_TRY(tercel_map_set(names, node->sources[i], (void *)(uintptr_t)living, err));
    }
    for (uint32_t i = 0; i < node->num_graphs; i++) TERCEL_TRY(mark_living(node->graphs[i], names, err));
  }
  return TERCEL_OK;
}

static bool lives_on(const tercel_node *node, const tercel_map *names) {
  for (uint32_t i = 0; i < node->num_sources; i++)
    if (tercel_map_get(names, node->sources[i], NULL)) return true;
  return false;
}

static tercel_status record(const tercel_graph *graph, const removed *gone, tercel_pass_context *context,
                            tercel_error *err) {
  tercel_map names = {0};
  while (graph->parent) graph = graph->parent;
  tercel_status status = add_names(gone, &names, err);
  if (status == TERCEL_OK) status = mark_living(graph, &names, err);
  for (size_t i = 0; i < gone->count && status == TERCEL_OK; i++)
    if (!lives_on(gone->nodes[i], &names)) status = tercel_made(context, "unused", gone->nodes[i], NULL, err);
  tercel_map_deinit(&names);
  return status;
}

tercel_status tercel_pass_dead_code(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  removed gone = {0};
  tercel_status status = remove_nodes(graph, &gone, err);
  remove_constants(graph);
  if (gone.count && status == TERCEL_OK) {
    context->changed = true;
    status = record(graph, &gone, context, err);
  }
  tercel_arena_deinit(&gone.arena);
  return status;
}
