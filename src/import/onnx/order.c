/* The order in which nodes are built.  ONNX asks for topological order; files in the wild don't all keep it. */
#include <string.h>

#include "import/onnx/onnx.h"

/* ---- names that subgraphs take from outside --------------------------------------------------------------------- */

static tercel_status add_free(tercel_onnx_free_names *names, const char *name, tercel_error *err) {
  bool found;
  tercel_map_get(&names->seen, name, &found);
  if (found) return TERCEL_OK;
  TERCEL_TRY(tercel_map_set(&names->seen, name, NULL, err));
  if (names->count == names->capacity) {
    const size_t capacity = names->capacity ? 2 * names->capacity : 8;
    const char **const grown = tercel_arena_alloc_array(names->arena, capacity, sizeof *grown);
    if (!grown) return tercel_fail_memory(err, capacity * sizeof *grown, "names");
    if (names->count > 0) memcpy(grown, names->names, names->count * sizeof *grown);
    names->names = grown;
    names->capacity = capacity;
  }
  names->names[names->count++] = name;
  return TERCEL_OK;
}

static tercel_status add_defined(tercel_map *defined, const char *name, tercel_error *err) {
  return name[0] ? tercel_map_set(defined, name, NULL, err) : TERCEL_OK;
}

static tercel_status collect_defined(tercel_map *defined, const tercel_onnx_graph *graph, tercel_error *err) {
  for (size_t i = 0; i < graph->inputs.count; i++) TERCEL_TRY(add_defined(defined, graph->inputs.items[i].name, err));
  for (size_t i = 0; i < graph->initializers.count; i++)
    TERCEL_TRY(add_defined(defined, graph->initializers.items[i].name, err));
  for (size_t i = 0; i < graph->sparse_initializers.count; i++)
    if (graph->sparse_initializers.items[i].values)
      TERCEL_TRY(add_defined(defined, graph->sparse_initializers.items[i].values->name, err));
  for (size_t i = 0; i < graph->nodes.count; i++)
    for (size_t k = 0; k < graph->nodes.items[i].outputs.count; k++)
      TERCEL_TRY(add_defined(defined, graph->nodes.items[i].outputs.items[k], err));
  return TERCEL_OK;
}

static tercel_status add_unless_defined(tercel_onnx_free_names *names, const tercel_map *defined, const char *name,
                                        tercel_error *err) {
  bool found = false;
  if (name[0]) tercel_map_get(defined, name, &found);
  return found || !name[0] ? TERCEL_OK : add_free(names, name, err);
}

/* What a node reads: its inputs, and what its subgraphs take from outside. */
static tercel_status add_reads(tercel_onnx_free_names *names, const tercel_map *defined, const tercel_onnx_node *node,
                               tercel_error *err) {
  for (size_t i = 0; i < node->inputs.count; i++)
    TERCEL_TRY(add_unless_defined(names, defined, node->inputs.items[i], err));
  for (size_t i = 0; i < node->attrs.count; i++) {
    if (!node->attrs.items[i].g) continue;
    tercel_onnx_free_names inner = {.arena = names->arena};
    tercel_status status = tercel_onnx_add_free_names(&inner, node->attrs.items[i].g, err);
    for (size_t k = 0; status == TERCEL_OK && k < inner.count; k++)
      status = add_unless_defined(names, defined, inner.names[k], err);
    tercel_onnx_free_names_deinit(&inner);
    TERCEL_TRY(status);
  }
  return TERCEL_OK;
}

tercel_status tercel_onnx_add_free_names(tercel_onnx_free_names *names, const tercel_onnx_graph *graph,
                                         tercel_error *err) {
  tercel_map defined = {0};
  tercel_status status = collect_defined(&defined, graph, err);
  for (size_t i = 0; status == TERCEL_OK && i < graph->nodes.count; i++)
    status = add_reads(names, &defined, &graph->nodes.items[i], err);
  for (size_t i = 0; status == TERCEL_OK && i < graph->outputs.count; i++)
    status = add_unless_defined(names, &defined, graph->outputs.items[i].name, err);
  tercel_map_deinit(&defined);
  return status;
}

void tercel_onnx_free_names_deinit(tercel_onnx_free_names *names) { tercel_map_deinit(&names->seen); }

/* ---- order ------------------------------------------------------------------------------------------------------ */

/* The nodes whose results each node reads. */
typedef struct needs {
  const size_t *nodes;
  size_t count;
} needs;

typedef struct sorter {
  const tercel_onnx_nodes *nodes;
  const needs *needs;
  uint8_t *state; /* of each node: not begun, waiting for what it needs, placed */
  size_t *stack, *next_need;
  size_t depth;
  size_t *order, placed;
} sorter;
enum { NOT_BEGUN = 0, WAITING, PLACED };

/* Producers by name: index + 1, as a pointer.  A name given twice is found when the nodes are built. */
static tercel_status map_producers(tercel_map *producers, const tercel_onnx_nodes *nodes, tercel_error *err) {
  for (size_t i = 0; i < nodes->count; i++)
    for (size_t k = 0; k < nodes->items[i].outputs.count; k++)
      if (nodes->items[i].outputs.items[k][0])
        TERCEL_TRY(tercel_map_set(producers, nodes->items[i].outputs.items[k], (void *)(uintptr_t)(i + 1), err));
  return TERCEL_OK;
}

static tercel_status find_needs(tercel_arena *arena, const tercel_map *producers, const tercel_onnx_node *node,
                                needs *out, tercel_error *err) {
  const tercel_map nothing = {0};
  tercel_onnx_free_names names = {.arena = arena};
  tercel_status status = add_reads(&names, &nothing, node, err);
  size_t *const list = status == TERCEL_OK ? tercel_arena_alloc_array(arena, names.count, sizeof *list) : NULL;
  if (status == TERCEL_OK && !list) status = tercel_fail_memory(err, names.count * sizeof *list, "the order of nodes");
  size_t count = 0;
  for (size_t i = 0; status == TERCEL_OK && i < names.count; i++) {
    const uintptr_t producer = (uintptr_t)tercel_map_get(producers, names.names[i], NULL);
    if (producer) list[count++] = producer - 1;
  }
  *out = (needs){list, count};
  tercel_onnx_free_names_deinit(&names);
  return status;
}

static const char *name_of(const tercel_onnx_node *node) {
  return node->name[0] ? node->name : node->outputs.count > 0 ? node->outputs.items[0] : "";
}

/* `first` waits for itself, through the nodes above it on the stack. */
static tercel_status fail_cycle(const sorter *s, size_t first, tercel_error *err) {
  size_t at = s->depth;
  while (at > 0 && s->stack[at - 1] != first) at--;
  tercel_text text = {0};
  for (size_t i = at > 0 ? at - 1 : 0; i < s->depth; i++) {
    const tercel_onnx_node *const node = &s->nodes->items[s->stack[i]];
    tercel_text_add(&text, "%s%s '%s'", text.length > 0 ? ", " : "", node->op_type, name_of(node));
  }
  const tercel_status status =
      text.failed ? tercel_fail_memory(err, text.capacity, "a message")
                  : tercel_fail(err, TERCEL_INVALID_MODEL, "nodes need their own results (a cycle): %s", text.data);
  tercel_text_deinit(&text);
  return status;
}

/* Depth first, without recursion: files in order stay in order. */
static tercel_status place(sorter *s, size_t root, tercel_error *err) {
  if (s->state[root] == PLACED) return TERCEL_OK;
  s->stack[s->depth++] = root;
  s->state[root] = WAITING;
  while (s->depth > 0) {
    const size_t node = s->stack[s->depth - 1];
    if (s->next_need[node] == s->needs[node].count) {
      s->state[node] = PLACED;
      s->order[s->placed++] = node;
      s->depth--;
      continue;
    }
    const size_t need = s->needs[node].nodes[s->next_need[node]++];
    if (s->state[need] == WAITING) return fail_cycle(s, need, err);
    if (s->state[need] == NOT_BEGUN) {
      s->state[need] = WAITING;
      s->stack[s->depth++] = need;
    }
  }
  return TERCEL_OK;
}

tercel_status tercel_onnx_order(tercel_arena *arena, const tercel_onnx_nodes *nodes, size_t *order, tercel_error *err) {
  const size_t n = nodes->count;
  needs *const all = tercel_arena_alloc_array(arena, n, sizeof *all);
  sorter s = {.nodes = nodes,
              .needs = all,
              .state = tercel_arena_alloc_array(arena, n, sizeof *s.state),
              .stack = tercel_arena_alloc_array(arena, n, sizeof *s.stack),
              .next_need = tercel_arena_alloc_array(arena, n, sizeof *s.next_need),
              .order = order};
  if (!all || !s.state || !s.stack || !s.next_need)
    return tercel_fail_memory(err, n * sizeof *all, "the order of nodes");
  tercel_map producers = {0};
  tercel_status status = map_producers(&producers, nodes, err);
  for (size_t i = 0; status == TERCEL_OK && i < n; i++)
    status = find_needs(arena, &producers, &nodes->items[i], &all[i], err);
  for (size_t i = 0; status == TERCEL_OK && i < n; i++) status = place(&s, i, err);
  tercel_map_deinit(&producers);
  return status;
}
