/* Copies of graphs, subgraphs included, with values renumbered and dims carried into the copy's own table. */
#include <string.h>

#include "ir/graph.h"

typedef struct cloner {
  tercel_dim_value_of dim_value;
  void *user;
  tercel_graph *to;     /* the graph being filled */
  tercel_value **value; /* by id in the graph being copied */
} cloner;

static tercel_status no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a copy of a graph");
}

static void translate_type(const cloner *c, const tercel_graph *from, tercel_type *type) {
  for (int i = 0; i < type->shape.rank; i++)
    type->shape.dims[i] = tercel_dim_translate(from->dims, type->shape.dims[i], c->to->dims, c->dim_value, c->user);
}

/* Type and contents. */
static tercel_status copy_facts(const cloner *c, const tercel_value *from, tercel_value *to, tercel_error *err) {
  to->type = from->type;
  translate_type(c, from->graph, &to->type);
  if (!from->contents) return TERCEL_OK;
  tercel_dim *const contents = tercel_arena_alloc_array(c->to->arena, (size_t)from->num_contents, sizeof *contents);
  if (!contents) return no_memory(err);
  for (int64_t i = 0; i < from->num_contents; i++)
    contents[i] = tercel_dim_translate(from->graph->dims, from->contents[i], c->to->dims, c->dim_value, c->user);
  to->contents = contents;
  to->num_contents = from->num_contents;
  return TERCEL_OK;
}

static tercel_status copy_input(const cloner *c, const tercel_value *from, tercel_error *err) {
  TERCEL_TRY(tercel_graph_add_input(c->to, from->name, &from->type, &c->value[from->id], err));
  return copy_facts(c, from, c->value[from->id], err);
}

static tercel_status copy_constant(const cloner *c, const tercel_value *from, tercel_error *err) {
  TERCEL_TRY(tercel_graph_add_constant(c->to, from->name, from->constant, from->storage, &c->value[from->id], err));
  return copy_facts(c, from, c->value[from->id], err);
}

static tercel_status copy_attr(const tercel_attr *a, tercel_node *to, tercel_error *err) {
  switch (a->kind) {
  case TERCEL_ATTR_INT: return tercel_node_set_int(to, a->name, a->value.i, err);
  case TERCEL_ATTR_FLOAT: return tercel_node_set_float(to, a->name, a->value.f, err);
  case TERCEL_ATTR_STRING: return tercel_node_set_string(to, a->name, a->value.s, err);
  case TERCEL_ATTR_INTS: return tercel_node_set_ints(to, a->name, a->value.ints, a->count, err);
  case TERCEL_ATTR_FLOATS: return tercel_node_set_floats(to, a->name, a->value.floats, a->count, err);
  case TERCEL_ATTR_STRINGS: return tercel_node_set_strings(to, a->name, a->value.strings, a->count, err);
  case TERCEL_ATTR_DTYPE: return tercel_node_set_dtype(to, a->name, a->value.dtype, err);
  case TERCEL_ATTR_PROGRAM: return tercel_node_set_program(to, a->name, a->value.program, err);
  }
  return TERCEL_OK;
}

tercel_status tercel_node_copy_attrs(tercel_node *node, const tercel_node *from, tercel_error *err) {
  for (uint32_t i = 0; i < from->num_attrs; i++) TERCEL_TRY(copy_attr(&from->attrs[i], node, err));
  return TERCEL_OK;
}

static tercel_status copy_sources(const tercel_node *from, tercel_node *to, tercel_error *err) {
  const char **const sources = tercel_arena_alloc_array(to->graph->arena, from->num_sources, sizeof *sources);
  if (!sources) return no_memory(err);
  for (uint32_t i = 0; i < from->num_sources; i++) {
    sources[i] = tercel_arena_strdup(to->graph->arena, from->sources[i]);
    if (!sources[i]) return no_memory(err);
  }
  to->sources = sources;
  to->num_sources = from->num_sources;
  return TERCEL_OK;
}

static tercel_status copy_outputs(const cloner *c, const tercel_node *from, tercel_node *to, tercel_error *err) {
  for (uint32_t i = 0; i < from->num_outputs; i++) {
    if (!from->outputs[i]) continue;
    tercel_value *const value = to->outputs[i];
    value->name = tercel_arena_strdup(c->to->arena, from->outputs[i]->name);
    if (!value->name) return no_memory(err);
    value->made_up = from->outputs[i]->made_up;
    TERCEL_TRY(copy_facts(c, from->outputs[i], value, err));
    c->value[from->outputs[i]->id] = value;
  }
  return TERCEL_OK;
}

static tercel_status copy_graph(const cloner *parent, const tercel_graph *from, tercel_graph *to, tercel_error *err);

static tercel_status copy_node(const cloner *c, const tercel_node *from, tercel_error *err) {
  tercel_value **const inputs = tercel_zalloc_array((size_t)from->num_inputs + 1, sizeof *inputs);
  if (!inputs) return no_memory(err);
  for (uint32_t i = 0; i < from->num_inputs; i++)
    if (from->inputs[i]) inputs[i] = c->value[from->inputs[i]->id];
  tercel_node *to = NULL;
  const tercel_status status =
      tercel_graph_add_node(c->to, from->op, from->name, inputs, from->num_inputs, from->num_outputs, NULL, &to, err);
  tercel_free(inputs);
  TERCEL_TRY(status);
  for (uint32_t i = 0; i < from->num_outputs; i++)
    if (!from->outputs[i]) tercel_graph_remove_value(to->outputs[i]);
  to->num_captures = from->num_captures;
  TERCEL_TRY(copy_outputs(c, from, to, err));
  TERCEL_TRY(copy_sources(from, to, err));
  TERCEL_TRY(tercel_node_copy_attrs(to, from, err));
  for (uint32_t i = 0; i < from->num_graphs; i++) {
    tercel_graph *subgraph;
    if (!from->graphs[i]) continue;
    TERCEL_TRY(tercel_graph_add_subgraph(to, i, from->graphs[i]->name, &subgraph, err));
    TERCEL_TRY(copy_graph(c, from->graphs[i], subgraph, err));
  }
  return TERCEL_OK;
}

static tercel_status copy_contents(const cloner *c, const tercel_graph *from, tercel_error *err) {
  for (uint32_t i = 0; i < from->num_inputs; i++) TERCEL_TRY(copy_input(c, from->inputs[i], err));
  for (uint32_t i = 0; i < from->num_values; i++)
    if (from->values[i] && from->values[i]->constant) TERCEL_TRY(copy_constant(c, from->values[i], err));
  for (const tercel_node *node = from->first; node; node = node->next) TERCEL_TRY(copy_node(c, node, err));
  for (uint32_t i = 0; i < from->num_outputs; i++)
    TERCEL_TRY(tercel_graph_add_output(c->to, c->value[from->outputs[i]->id], from->output_names[i], err));
  return TERCEL_OK;
}

/* Closes the gaps that absent outputs left. */
static void renumber(tercel_graph *graph) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < graph->num_values; i++) {
    if (!graph->values[i]) continue;
    graph->values[i]->id = count;
    graph->values[count++] = graph->values[i];
  }
  graph->num_values = count;
}

static tercel_status copy_graph(const cloner *parent, const tercel_graph *from, tercel_graph *to, tercel_error *err) {
  cloner c = *parent;
  c.to = to;
  c.value = tercel_zalloc_array((size_t)from->num_values + 1, sizeof(void *));
  if (!c.value) return no_memory(err);
  const tercel_status status = copy_contents(&c, from, err);
  tercel_free(c.value);
  renumber(to);
  return status;
}

tercel_status tercel_graph_clone(const tercel_graph *graph, tercel_dim_value_of dim_value, void *user,
                                 tercel_graph **out, tercel_error *err) {
  tercel_graph *copy = NULL;
  tercel_status status;
  TERCEL_CHECK(tercel_graph_create(graph->name, &copy, err));
  copy->arena->max_bytes = graph->arena->max_bytes;
  TERCEL_CHECK(copy_graph(&(cloner){.dim_value = dim_value, .user = user}, graph, copy, err));
  TERCEL_CHECK(tercel_dims_check(copy->dims, err));
  *out = copy;
  copy = NULL;
done:
  tercel_graph_destroy(copy);
  return status;
}
