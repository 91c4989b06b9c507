/* Checks that a graph holds together: lists, ids, producers, uses, order, arities, attributes, captures; then what
 * each operator asks for. A broken graph is a pass's or importer's fault (INTERNAL); only an operator's own check
 * speaks of the model. */
#include <string.h>

#include "ir/graph.h"

/* What the nodes and outputs of a graph say about a value, to be compared with what the value says. */
typedef struct tally {
  bool is_defined;      /* by an input, a constant, or a node that was visited */
  uint32_t uses;        /* by inputs of nodes */
  uint32_t output_uses; /* by outputs of the graph */
  uint64_t use_hash;    /* sum over the uses, whatever their order */
} tally;

static uint64_t hash_use(const tercel_node *node, uint32_t index) {
  const uint64_t key[2] = {(uint64_t)(uintptr_t)node, index};
  return tercel_hash(key, sizeof key, 0);
}

#define BROKEN(err, ...) tercel_fail((err), TERCEL_INTERNAL, __VA_ARGS__)

/* ---- values ---- */

static bool is_value_of(const tercel_graph *graph, const tercel_value *value) {
  return value->graph == graph && value->id < graph->num_values && graph->values[value->id] == value;
}

static tercel_status check_value(const tercel_graph *graph, uint32_t id, tercel_error *err) {
  const tercel_value *const value = graph->values[id];
  if (!value->name) return BROKEN(err, "value %u has no name", id);
  if (value->graph != graph || value->id != id)
    return BROKEN(err, "value '%s': id %u of another graph or place, want %u", value->name, value->id, id);
  if (value->producer && value->constant)
    return BROKEN(err, "value '%s' has a producer and is a constant", value->name);
  const tercel_node *const producer = value->producer;
  if (producer && (value->producer_index >= producer->num_outputs || producer->outputs[value->producer_index] != value))
    return BROKEN(err, "value '%s' is not output %u of its producer '%s'", value->name, value->producer_index,
                  producer->name);
  if (value->type.shape.rank < -1 || value->type.shape.rank > TERCEL_MAX_RANK ||
      (unsigned)value->type.dtype >= TERCEL_DTYPE_COUNT)
    return BROKEN(err, "value '%s': rank %d or dtype %d out of range", value->name, value->type.shape.rank,
                  (int)value->type.dtype);
  return TERCEL_OK;
}

static tercel_status check_constant(const tercel_value *value, tercel_error *err) {
  const tercel_tensor *const tensor = value->constant;
  tercel_tensor want;
  if (value->type.kind != TERCEL_TYPE_TENSOR || value->type.dtype != tensor->dtype ||
      value->type.shape.rank != tensor->rank)
    return BROKEN(err, "constant '%s': its type is not that of its tensor", value->name);
  for (int i = 0; i < tensor->rank; i++)
    if (value->type.shape.dims[i] != tensor->dims[i])
      return BROKEN(err, "constant '%s': dim %d is not that of its tensor", value->name, i);
  if (!tercel_tensor_set_shape(&want, tensor->dtype, tensor->rank, tensor->dims) || want.bytes > tensor->bytes)
    return BROKEN(err, "constant '%s': %zu bytes of data are too few for its shape", value->name, tensor->bytes);
  return TERCEL_OK;
}

static tercel_status check_values(const tercel_graph *graph, tally *tallies, tercel_error *err) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    if (!graph->values[i]) continue;
    TERCEL_TRY(check_value(graph, i, err));
    if (!graph->values[i]->constant) continue;
    TERCEL_TRY(check_constant(graph->values[i], err));
    tallies[i].is_defined = true;
  }
  for (uint32_t i = 0; i < graph->num_inputs; i++) {
    const tercel_value *const input = graph->inputs[i];
    if (!is_value_of(graph, input)) return BROKEN(err, "input %u is not a value of the graph", i);
    if (input->producer || input->constant)
      return BROKEN(err, "input '%s' has a producer or is a constant", input->name);
    if (tallies[input->id].is_defined) return BROKEN(err, "input '%s' stands twice among the inputs", input->name);
    tallies[input->id].is_defined = true;
  }
  return TERCEL_OK;
}

/* A state is an input of the outermost graph; one node at most reads it, once, and says that it writes it. */
static tercel_status check_state(const tercel_graph *graph, const tercel_value *value, tercel_error *err) {
  if (value->producer || value->constant || graph->parent || value->type.kind != TERCEL_TYPE_TENSOR)
    return BROKEN(err, "value '%s' is a state, but no tensor that is an input of the outermost graph", value->name);
  if (value->num_output_uses || value->num_uses > 1 ||
      (value->num_uses == 1 && !(value->uses[0].node->op->flags & TERCEL_OP_STATEFUL)))
    return BROKEN(err, "state '%s' is read by others than the one node that writes it", value->name);
  return TERCEL_OK;
}

static tercel_status check_tallies(const tercel_graph *graph, const tally *tallies, tercel_error *err) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    const tercel_value *const value = graph->values[i];
    if (!value) continue;
    if (!tallies[i].is_defined) return BROKEN(err, "value '%s' is no input, constant or output of a node", value->name);
    uint64_t hash = 0;
    for (uint32_t j = 0; j < value->num_uses; j++) hash += hash_use(value->uses[j].node, value->uses[j].index);
    if (value->num_uses != tallies[i].uses || hash != tallies[i].use_hash)
      return BROKEN(err, "value '%s' lists %u uses that are not the %u inputs of nodes it is", value->name,
                    value->num_uses, tallies[i].uses);
    if (value->type.state) TERCEL_TRY(check_state(graph, value, err));
    if (value->num_output_uses != tallies[i].output_uses)
      return BROKEN(err, "value '%s' counts %u uses as output, is output %u times", value->name, value->num_output_uses,
                    tallies[i].output_uses);
  }
  return TERCEL_OK;
}

/* ---- nodes ---- */

static tercel_status check_arity(const tercel_node *node, tercel_error *err) {
  const tercel_op *const op = node->op;
  const int inputs = (int)node->num_inputs - (int)node->num_captures, outputs = (int)node->num_outputs;
  if (node->num_captures > node->num_inputs)
    return BROKEN(err, "%u captures of %u inputs", node->num_captures, node->num_inputs);
  if (inputs < op->min_inputs || (op->max_inputs >= 0 && inputs > op->max_inputs))
    return BROKEN(err, "%d inputs, want %d to %d", inputs, op->min_inputs, op->max_inputs);
  if (outputs < op->min_outputs || (op->max_outputs >= 0 && outputs > op->max_outputs))
    return BROKEN(err, "%d outputs, want %d to %d", outputs, op->min_outputs, op->max_outputs);
  if (node->num_graphs != (uint32_t)op->num_graphs)
    return BROKEN(err, "%u subgraphs, want %d", node->num_graphs, op->num_graphs);
  for (int i = 0; i < op->min_inputs; i++)
    if (!node->inputs[i]) return BROKEN(err, "input %d is absent", i);
  return TERCEL_OK;
}

static const tercel_attr_spec *spec_of(const tercel_op *op, const char *name) {
  for (const tercel_attr_spec *spec = op->attrs; spec && spec->name; spec++)
    if (strcmp(spec->name, name) == 0) return spec;
  return NULL;
}

static tercel_status check_attrs(const tercel_node *node, tercel_error *err) {
  for (uint32_t i = 0; i < node->num_attrs; i++) {
    const tercel_attr *const attr = &node->attrs[i];
    const tercel_attr_spec *const spec = spec_of(node->op, attr->name);
    if (!spec) return BROKEN(err, "%s has no attribute '%s'", node->op->name, attr->name);
    if (spec->kind != attr->kind) return BROKEN(err, "attribute '%s' is of another kind than the schema's", attr->name);
    for (uint32_t j = 0; j < i; j++)
      if (strcmp(node->attrs[j].name, attr->name) == 0) return BROKEN(err, "attribute '%s' is set twice", attr->name);
    if (attr->kind == TERCEL_ATTR_PROGRAM) {
      const tercel_status status = tercel_program_check(attr->value.program, NULL, NULL, err);
      if (status != TERCEL_OK) return tercel_fail_at(err, TERCEL_INTERNAL, "attribute '%s'", attr->name);
    }
  }
  for (const tercel_attr_spec *spec = node->op->attrs; spec && spec->name; spec++)
    if (spec->required && !tercel_node_attr(node, spec->name))
      return BROKEN(err, "attribute '%s' is missing", spec->name);
  return TERCEL_OK;
}

static tercel_status check_operands(const tercel_node *node, tally *tallies, tercel_error *err) {
  const tercel_graph *const graph = node->graph;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_value *const input = node->inputs[i];
    if (!input) continue;
    if (!is_value_of(graph, input)) return BROKEN(err, "input %u is not a value of the graph", i);
    if (!tallies[input->id].is_defined) return BROKEN(err, "input %u, '%s', comes from a later node", i, input->name);
    tallies[input->id].uses++;
    tallies[input->id].use_hash += hash_use(node, i);
  }
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    const tercel_value *const output = node->outputs[i];
    if (!output) continue;
    if (!is_value_of(graph, output) || output->producer != node || output->producer_index != i)
      return BROKEN(err, "output %u is not a value that this node produces", i);
    tallies[output->id].is_defined = true;
  }
  return TERCEL_OK;
}

static tercel_status check_graph(const tercel_graph *graph, tercel_error *err);

static tercel_status check_subgraphs(const tercel_node *node, tercel_error *err) {
  for (uint32_t i = 0; i < node->num_graphs; i++) {
    const tercel_graph *const graph = node->graphs[i];
    if (!graph) return BROKEN(err, "subgraph %u is missing", i);
    if (graph->parent != node->graph || graph->parent_node != node || graph->arena != node->graph->arena ||
        graph->dims != node->graph->dims)
      return BROKEN(err, "subgraph %u does not belong to the node", i);
    if (graph->num_inputs < node->num_captures)
      return BROKEN(err, "subgraph %u has %u inputs for %u captures", i, graph->num_inputs, node->num_captures);
    const tercel_status status = check_graph(graph, err);
    if (status != TERCEL_OK) return tercel_fail_at(err, status, "subgraph %u", i);
  }
  return TERCEL_OK;
}

static tercel_status check_node(const tercel_node *node, tally *tallies, tercel_error *err) {
  if (node->num_sources == 0) return BROKEN(err, "the node has no source");
  TERCEL_TRY(check_arity(node, err));
  TERCEL_TRY(check_attrs(node, err));
  TERCEL_TRY(check_operands(node, tallies, err));
  TERCEL_TRY(check_subgraphs(node, err));
  return node->op->verify ? node->op->verify(node, err) : TERCEL_OK;
}

static tercel_status check_nodes(const tercel_graph *graph, tally *tallies, tercel_error *err) {
  const tercel_node *previous = NULL;
  uint32_t count = 0;
  for (const tercel_node *node = graph->first; node; previous = node, node = node->next, count++) {
    if (!node->name || node->graph != graph || node->previous != previous || count == graph->num_nodes)
      return BROKEN(err, "the list of nodes is broken at number %u of %u", count, graph->num_nodes);
    const tercel_status status = check_node(node, tallies, err);
    if (status != TERCEL_OK) return tercel_fail_at(err, status, "%s '%s'", node->op->name, node->name);
  }
  if (graph->last != previous || count != graph->num_nodes)
    return BROKEN(err, "the list of nodes has %u, want %u", count, graph->num_nodes);
  return TERCEL_OK;
}

static tercel_status check_outputs(const tercel_graph *graph, tally *tallies, tercel_error *err) {
  for (uint32_t i = 0; i < graph->num_outputs; i++) {
    const tercel_value *const output = graph->outputs[i];
    if (!output || !is_value_of(graph, output) || !graph->output_names[i])
      return BROKEN(err, "output %u is not a value of the graph, or has no name", i);
    tallies[output->id].output_uses++;
  }
  return TERCEL_OK;
}

static tercel_status check_graph(const tercel_graph *graph, tercel_error *err) {
  tally *const tallies = tercel_zalloc_array((size_t)graph->num_values + 1, sizeof *tallies);
  if (!tallies) return tercel_fail_memory(err, graph->num_values * sizeof *tallies, "checking a graph");
  tercel_status status;
  TERCEL_CHECK(check_values(graph, tallies, err));
  TERCEL_CHECK(check_nodes(graph, tallies, err));
  TERCEL_CHECK(check_outputs(graph, tallies, err));
  TERCEL_CHECK(check_tallies(graph, tallies, err));
done:
  tercel_free(tallies);
  return status;
}

tercel_status tercel_graph_verify(const tercel_graph *graph, tercel_error *err) {
  const tercel_status status = check_graph(graph, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "graph '%s'", graph->name);
}
