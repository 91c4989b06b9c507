/* Making and editing graphs.  Attributes: attr.c.  Copies: clone.c.
 *
 * Arrays grow by doubling inside the arena and leave their old copies behind.  An edit that can fail does its
 * allocations first, so that a failure leaves the graph as it was. */
#include "ir/graph.h"

#include <string.h>

/* The outermost graph, with what it shares with its subgraphs. */
typedef struct root {
  tercel_graph graph;
  tercel_arena arena;
  tercel_dims dims;
} root;

static tercel_status no_memory(tercel_error *err, size_t bytes) { return tercel_fail_memory(err, bytes, "a graph"); }

/* Room for one more entry in an array of pointers or uses. */
static tercel_status reserve(tercel_arena *arena, void **array, uint32_t count, uint32_t *capacity, size_t entry_bytes,
                             tercel_error *err) {
  if (count < *capacity) return TERCEL_OK;
  const uint32_t grown_capacity = *capacity ? 2 * *capacity : 4;
  void *const grown = tercel_arena_alloc_array(arena, grown_capacity, entry_bytes);
  if (!grown) return no_memory(err, grown_capacity * entry_bytes);
  if (count) memcpy(grown, *array, count * entry_bytes);
  *array = grown;
  *capacity = grown_capacity;
  return TERCEL_OK;
}

/* array: a variable that is a pointer; count: how many entries it has. */
#define RESERVE(arena, array, count, capacity, err)                                                                    \
  reserve_as((arena), &(array), sizeof *(array), (count), &(capacity), (err))

static tercel_status reserve_as(tercel_arena *arena, void *array_pointer, size_t entry_bytes, uint32_t count,
                                uint32_t *capacity, tercel_error *err) {
  void *array;
  memcpy(&array, array_pointer, sizeof array);
  TERCEL_TRY(reserve(arena, &array, count, capacity, entry_bytes, err));
  memcpy(array_pointer, &array, sizeof array);
  return TERCEL_OK;
}

static tercel_status copy_name(tercel_graph *graph, const char *name, const char **out, tercel_error *err) {
  *out = tercel_arena_strdup(graph->arena, name ? name : "");
  return *out ? TERCEL_OK : no_memory(err, strlen(name ? name : "") + 1);
}

/* ---- graphs ---- */

tercel_status tercel_graph_create(const char *name, tercel_graph **out, tercel_error *err) {
  root *const made = tercel_zalloc(sizeof *made);
  if (!made) return no_memory(err, sizeof *made);
  made->graph.arena = &made->arena;
  made->graph.dims = &made->dims;
  tercel_dims_init(&made->dims, &made->arena);
  const tercel_status status = copy_name(&made->graph, name, &made->graph.name, err);
  if (status != TERCEL_OK) {
    tercel_graph_destroy(&made->graph);
    return status;
  }
  *out = &made->graph;
  return TERCEL_OK;
}

static void release_storages(tercel_graph *graph);

static void release_subgraphs(tercel_node *node) {
  for (uint32_t i = 0; i < node->num_graphs; i++)
    if (node->graphs[i]) release_storages(node->graphs[i]);
}

static void release_storages(tercel_graph *graph) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    if (!graph->values[i]) continue;
    tercel_storage_release(graph->values[i]->storage);
    graph->values[i]->storage = NULL;
  }
  for (tercel_node *node = graph->first; node; node = node->next) release_subgraphs(node);
}

void tercel_graph_destroy(tercel_graph *graph) {
  if (!graph) return;
  root *const whole = (root *)graph; /* the graph is its first member */
  release_storages(graph);
  tercel_dims_deinit(&whole->dims);
  tercel_arena_deinit(&whole->arena);
  tercel_free(whole);
}

tercel_status tercel_graph_add_subgraph(tercel_node *node, uint32_t index, const char *name, tercel_graph **out,
                                        tercel_error *err) {
  tercel_graph *const parent = node->graph;
  tercel_graph *const made = tercel_arena_alloc(parent->arena, sizeof *made);
  if (!made) return no_memory(err, sizeof *made);
  made->arena = parent->arena;
  made->dims = parent->dims;
  made->parent = parent;
  made->parent_node = node;
  TERCEL_TRY(copy_name(made, name, &made->name, err));
  node->graphs[index] = made;
  *out = made;
  return TERCEL_OK;
}

size_t tercel_graph_count_nodes(const tercel_graph *graph) {
  size_t count = graph->num_nodes;
  for (const tercel_node *node = graph->first; node; node = node->next)
    for (uint32_t i = 0; i < node->num_graphs; i++)
      if (node->graphs[i]) count += tercel_graph_count_nodes(node->graphs[i]);
  return count;
}

/* ---- values ---- */

/* A value with the next id; its name stays the caller's to set. */
static tercel_status add_value(tercel_graph *graph, tercel_value **out, tercel_error *err) {
  TERCEL_TRY(RESERVE(graph->arena, graph->values, graph->num_values, graph->values_capacity, err));
  tercel_value *const value = tercel_arena_alloc(graph->arena, sizeof *value);
  if (!value) return no_memory(err, sizeof *value);
  value->id = graph->num_values;
  value->graph = graph;
  value->type.shape.rank = -1;
  graph->values[graph->num_values++] = value;
  *out = value;
  return TERCEL_OK;
}

tercel_status tercel_graph_add_input(tercel_graph *graph, const char *name, const tercel_type *type, tercel_value **out,
                                     tercel_error *err) {
  const char *copy;
  TERCEL_TRY(copy_name(graph, name, &copy, err));
  TERCEL_TRY(RESERVE(graph->arena, graph->inputs, graph->num_inputs, graph->inputs_capacity, err));
  tercel_value *value;
  TERCEL_TRY(add_value(graph, &value, err));
  value->name = copy;
  value->type = *type;
  graph->inputs[graph->num_inputs++] = value;
  *out = value;
  return TERCEL_OK;
}

tercel_status tercel_graph_add_constant(tercel_graph *graph, const char *name, const tercel_tensor *tensor,
                                        tercel_storage *storage, tercel_value **out, tercel_error *err) {
  const char *copy;
  TERCEL_TRY(copy_name(graph, name, &copy, err));
  const tercel_tensor *const constant = tercel_arena_copy(graph->arena, tensor, sizeof *tensor);
  if (!constant) return no_memory(err, sizeof *tensor);
  tercel_value *value;
  TERCEL_TRY(add_value(graph, &value, err));
  value->name = copy;
  value->type = (tercel_type){.dtype = tensor->dtype, .shape.rank = tensor->rank};
  for (int i = 0; i < tensor->rank; i++) value->type.shape.dims[i] = tensor->dims[i];
  value->constant = constant;
  value->storage = tercel_storage_retain(storage);
  *out = value;
  return TERCEL_OK;
}

tercel_status tercel_graph_add_new_constant(tercel_graph *graph, const char *name, tercel_dtype dtype, int rank,
                                            const int64_t *dims, tercel_value **out, tercel_error *err) {
  tercel_tensor tensor = {0};
  if (!tercel_tensor_set_shape(&tensor, dtype, rank, dims))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "constant '%s': its size overflows", name);
  tercel_storage *storage;
  TERCEL_TRY(tercel_storage_create(tensor.bytes, &storage, err));
  tensor.data = tercel_storage_data(storage);
  const tercel_status status = tercel_graph_add_constant(graph, name, &tensor, storage, out, err);
  tercel_storage_release(storage);
  return status;
}

tercel_status tercel_graph_add_i64s(tercel_graph *graph, const char *name, const int64_t *values, size_t count,
                                    bool scalar, tercel_value **out, tercel_error *err) {
  const int64_t dim = (int64_t)count;
  TERCEL_TRY(tercel_graph_add_new_constant(graph, name, TERCEL_DTYPE_I64, scalar ? 0 : 1, &dim, out, err));
  if (count) memcpy((*out)->constant->data, values, count * sizeof *values);
  return TERCEL_OK;
}

tercel_status tercel_graph_add_scalar(tercel_graph *graph, const char *name, tercel_dtype dtype, double value,
                                      tercel_value **out, tercel_error *err) {
  TERCEL_TRY(tercel_graph_add_new_constant(graph, name, dtype, 0, NULL, out, err));
  tercel_element_set_f64((*out)->constant->data, dtype, 0, value);
  return TERCEL_OK;
}

static void remove_from_inputs(tercel_graph *graph, const tercel_value *value) {
  for (uint32_t i = 0; i < graph->num_inputs; i++) {
    if (graph->inputs[i] != value) continue;
    graph->num_inputs--;
    memmove(&graph->inputs[i], &graph->inputs[i + 1], (graph->num_inputs - i) * sizeof *graph->inputs);
    return;
  }
}

void tercel_value_drop_data(tercel_value *value) {
  ((tercel_tensor *)(uintptr_t)value->constant)->data = NULL;
  tercel_storage_release(value->storage);
  value->storage = NULL;
}

void tercel_value_restore_data(tercel_value *value, tercel_storage *storage) {
  ((tercel_tensor *)(uintptr_t)value->constant)->data = tercel_storage_data(storage);
  value->storage = tercel_storage_retain(storage);
}

void tercel_graph_remove_value(tercel_value *value) {
  tercel_graph *const graph = value->graph;
  if (value->producer)
    value->producer->outputs[value->producer_index] = NULL;
  else if (!value->constant)
    remove_from_inputs(graph, value);
  tercel_storage_release(value->storage);
  value->storage = NULL;
  graph->values[value->id] = NULL;
}

tercel_status tercel_graph_add_output(tercel_graph *graph, tercel_value *value, const char *name, tercel_error *err) {
  const char *copy;
  uint32_t capacity = graph->outputs_capacity; /* of both arrays */
  TERCEL_TRY(copy_name(graph, name, &copy, err));
  TERCEL_TRY(RESERVE(graph->arena, graph->output_names, graph->num_outputs, capacity, err));
  TERCEL_TRY(RESERVE(graph->arena, graph->outputs, graph->num_outputs, graph->outputs_capacity, err));
  graph->outputs[graph->num_outputs] = value;
  graph->output_names[graph->num_outputs++] = copy;
  value->num_output_uses++;
  return TERCEL_OK;
}

/* ---- uses ---- */

static tercel_status reserve_use(tercel_value *value, tercel_error *err) {
  return RESERVE(value->graph->arena, value->uses, value->num_uses, value->uses_capacity, err);
}

static void add_use(tercel_value *value, tercel_node *node, uint32_t index) {
  value->uses[value->num_uses++] = (tercel_use){node, index};
}

/* From the end: what was added last is removed first, mostly. */
static void remove_use(tercel_value *value, const tercel_node *node, uint32_t index) {
  for (uint32_t i = value->num_uses; i-- > 0;) {
    if (value->uses[i].node != node || value->uses[i].index != index) continue;
    value->num_uses--;
    memmove(&value->uses[i], &value->uses[i + 1], (value->num_uses - i) * sizeof *value->uses);
    return;
  }
}

tercel_status tercel_node_set_input(tercel_node *node, size_t i, tercel_value *value, tercel_error *err) {
  if (value) TERCEL_TRY(reserve_use(value, err));
  if (i == node->num_inputs) {
    TERCEL_TRY(RESERVE(node->graph->arena, node->inputs, node->num_inputs, node->inputs_capacity, err));
    node->inputs[node->num_inputs++] = NULL;
  }
  if (node->inputs[i]) remove_use(node->inputs[i], node, (uint32_t)i);
  node->inputs[i] = value;
  node->inferred = false;
  if (value) add_use(value, node, (uint32_t)i);
  return TERCEL_OK;
}

void tercel_node_truncate_inputs(tercel_node *node, size_t count) {
  node->inferred = false;
  while (node->num_inputs > count) {
    const uint32_t i = --node->num_inputs;
    if (node->inputs[i]) remove_use(node->inputs[i], node, i);
  }
}

tercel_status tercel_value_replace_uses(tercel_value *from, tercel_value *to, tercel_error *err) {
  if (from == to) return TERCEL_OK;
  const uint32_t total = from->num_uses + to->num_uses;
  if (total > to->uses_capacity) {
    tercel_use *const uses = tercel_arena_alloc_array(to->graph->arena, total, sizeof *uses);
    if (!uses) return no_memory(err, total * sizeof *uses);
    if (to->num_uses) memcpy(uses, to->uses, to->num_uses * sizeof *uses);
    to->uses = uses;
    to->uses_capacity = total;
  }
  for (uint32_t i = 0; i < from->num_uses; i++) {
    const tercel_use use = from->uses[i];
    use.node->inputs[use.index] = to;
    use.node->inferred = false;
    add_use(to, use.node, use.index);
  }
  from->num_uses = 0;
  tercel_graph *const graph = from->graph;
  for (uint32_t i = 0; from->num_output_uses && i < graph->num_outputs; i++)
    if (graph->outputs[i] == from) graph->outputs[i] = to;
  to->num_output_uses += from->num_output_uses;
  from->num_output_uses = 0;
  return TERCEL_OK;
}

void tercel_value_changed(tercel_value *value) {
  for (uint32_t i = 0; i < value->num_uses; i++) value->uses[i].node->inferred = false;
}

/* ---- nodes ---- */

static void link_node(tercel_node *node, tercel_node *before) {
  tercel_graph *const graph = node->graph;
  tercel_node *const previous = before ? before->previous : graph->last;
  node->previous = previous;
  node->next = before;
  *(previous ? &previous->next : &graph->first) = node;
  *(before ? &before->previous : &graph->last) = node;
}

static void unlink_node(tercel_node *node) {
  tercel_graph *const graph = node->graph;
  *(node->previous ? &node->previous->next : &graph->first) = node->next;
  *(node->next ? &node->next->previous : &graph->last) = node->previous;
  node->previous = node->next = NULL;
}

static tercel_status add_node_outputs(tercel_node *node, tercel_error *err) {
  tercel_graph *const graph = node->graph;
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    const char *const name = i ? tercel_arena_printf(graph->arena, "%s_%u", node->name, i) : node->name;
    if (!name) return no_memory(err, strlen(node->name) + 12);
    TERCEL_TRY(add_value(graph, &node->outputs[i], err));
    node->outputs[i]->name = name;
    node->outputs[i]->producer = node;
    node->outputs[i]->producer_index = i;
  }
  return TERCEL_OK;
}

static tercel_status fill_node(tercel_node *node, const char *name, tercel_value *const *inputs, size_t num_inputs,
                               size_t num_outputs, tercel_error *err) {
  tercel_arena *const arena = node->graph->arena;
  TERCEL_TRY(copy_name(node->graph, name, &node->name, err));
  node->num_graphs = (uint32_t)node->op->num_graphs;
  node->inputs = tercel_arena_alloc_array(arena, num_inputs, sizeof *node->inputs);
  node->outputs = tercel_arena_alloc_array(arena, num_outputs, sizeof(void *));
  node->graphs = tercel_arena_alloc_array(arena, node->num_graphs, sizeof(void *));
  node->sources = tercel_arena_alloc(arena, sizeof *node->sources);
  if (!node->inputs || !node->outputs || !node->graphs || !node->sources)
    return no_memory(err, (num_inputs + num_outputs) * sizeof(void *));
  node->sources[0] = node->name;
  node->num_sources = 1;
  node->inputs_capacity = (uint32_t)num_inputs;
  node->num_outputs = (uint32_t)num_outputs;
  TERCEL_TRY(add_node_outputs(node, err));
  for (uint32_t i = 0; i < num_inputs; i++) TERCEL_TRY(tercel_node_set_input(node, i, inputs[i], err));
  return TERCEL_OK;
}

tercel_status tercel_graph_add_node(tercel_graph *graph, const tercel_op *op, const char *name,
                                    tercel_value *const *inputs, size_t num_inputs, size_t num_outputs,
                                    tercel_node *before, tercel_node **out, tercel_error *err) {
  tercel_node *const node = tercel_arena_alloc(graph->arena, sizeof *node);
  if (!node) return no_memory(err, sizeof *node);
  const uint32_t values_before = graph->num_values;
  node->graph = graph;
  node->op = op;
  const tercel_status status = fill_node(node, name, inputs, num_inputs, num_outputs, err);
  if (status != TERCEL_OK) {
    tercel_node_truncate_inputs(node, 0);
    graph->num_values = values_before;
    return status;
  }
  link_node(node, before);
  graph->num_nodes++;
  *out = node;
  return TERCEL_OK;
}

tercel_status tercel_node_add_sources(tercel_node *a, const tercel_node *b, tercel_error *err) {
  const uint32_t most = a->num_sources + b->num_sources;
  const char **const sources = tercel_arena_alloc_array(a->graph->arena, most, sizeof *sources);
  if (!sources) return no_memory(err, most * sizeof *sources);
  uint32_t count = a->num_sources;
  if (count) memcpy(sources, a->sources, count * sizeof *sources);
  for (uint32_t i = 0; i < b->num_sources; i++) {
    uint32_t j = 0;
    while (j < count && strcmp(sources[j], b->sources[i]) != 0) j++;
    if (j == count) sources[count++] = b->sources[i];
  }
  a->sources = sources;
  a->num_sources = count;
  return TERCEL_OK;
}

void tercel_graph_remove_node(tercel_node *node) {
  tercel_node_truncate_inputs(node, 0);
  release_subgraphs(node);
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) tercel_graph_remove_value(node->outputs[i]);
  unlink_node(node);
  node->graph->num_nodes--;
}

void tercel_graph_move_node(tercel_node *node, tercel_node *before) {
  if (node == before) return;
  unlink_node(node);
  link_node(node, before);
}
