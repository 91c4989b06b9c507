/* Graphs for Graphviz: a box a node, an edge a value; constants are left out but for their number, subgraphs are
 * boxes around theirs. */
#include <string.h>

#include "ir/text.h"

typedef struct painter {
  tercel_text *out;
  const tercel_graph *graph;
  unsigned scope; /* of the graph: makes names of boxes unique */
  unsigned *num_scopes;
} painter;

static void paint_string(tercel_text *out, const char *text) { tercel_text_add_json(out, text, strlen(text)); }

static void paint_graph(const painter *p);

/* The name of the box that produces a value: n<scope>_<id of the producer's first output> or i<scope>_<input's id>. */
static void paint_origin(const painter *p, const tercel_value *value) {
  const tercel_node *const node = value->producer;
  uint32_t id = value->id;
  for (uint32_t i = 0; node && i < node->num_outputs; i++) {
    if (!node->outputs[i]) continue;
    id = node->outputs[i]->id;
    break;
  }
  tercel_text_add(p->out, "%c%u_%u", node ? 'n' : 'i', p->scope, id);
}

static void paint_edge(const painter *p, const tercel_value *value, const char *to, uint32_t to_id) {
  tercel_text_add(p->out, "  ");
  paint_origin(p, value);
  tercel_text_add(p->out, " -> %s%u_%u [label=", to, p->scope, to_id);
  tercel_text label = {0};
  tercel_type_print(p->graph->dims, &value->type, &label);
  if (label.failed) p->out->failed = true;
  paint_string(p->out, label.data ? label.data : "");
  tercel_text_deinit(&label);
  tercel_text_add(p->out, "];\n");
}

static void paint_subgraphs(const painter *p, const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_graphs; i++) {
    const painter inner = {p->out, node->graphs[i], ++*p->num_scopes, p->num_scopes};
    tercel_text_add(p->out, "  subgraph cluster_%u {\n  label=", inner.scope);
    paint_string(p->out, node->graphs[i]->name);
    tercel_text_add(p->out, ";\n");
    paint_graph(&inner);
    tercel_text_add(p->out, "  }\n");
  }
}

/* As a tooltip, which a picture in SVG keeps: the names in the user's file. */
static void paint_sources(const painter *p, const tercel_node *node) {
  tercel_text sources = {0};
  for (uint32_t i = 0; i < node->num_sources; i++) tercel_text_add(&sources, "%s%s", i ? " + " : "", node->sources[i]);
  if (sources.failed) p->out->failed = true;
  tercel_text_add(p->out, ", tooltip=");
  paint_string(p->out, sources.data ? sources.data : "");
  tercel_text_deinit(&sources);
}

static void paint_node(const painter *p, const tercel_node *node) {
  uint32_t id = 0, num_constants = 0;
  for (uint32_t i = node->num_outputs; i-- > 0;)
    if (node->outputs[i]) id = node->outputs[i]->id;
  for (uint32_t i = 0; i < node->num_inputs; i++) num_constants += node->inputs[i] && node->inputs[i]->constant;
  tercel_text label = {0};
  tercel_text_add(&label, "%s\n%s", node->op->name, node->name);
  if (num_constants) tercel_text_add(&label, "\n%u constant%s", num_constants, num_constants == 1 ? "" : "s");
  if (label.failed) p->out->failed = true;
  tercel_text_add(p->out, "  n%u_%u [shape=box, label=", p->scope, id);
  paint_string(p->out, label.data ? label.data : "");
  paint_sources(p, node);
  tercel_text_add(p->out, "];\n");
  tercel_text_deinit(&label);
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && !node->inputs[i]->constant) paint_edge(p, node->inputs[i], "n", id);
  paint_subgraphs(p, node);
}

static void paint_graph(const painter *p) {
  const tercel_graph *const graph = p->graph;
  for (uint32_t i = 0; i < graph->num_inputs; i++) {
    tercel_text_add(p->out, "  i%u_%u [shape=ellipse, label=", p->scope, graph->inputs[i]->id);
    paint_string(p->out, graph->inputs[i]->name);
    tercel_text_add(p->out, "];\n");
  }
  for (const tercel_node *node = graph->first; node; node = node->next) paint_node(p, node);
  for (uint32_t i = 0; i < graph->num_outputs; i++) {
    tercel_text_add(p->out, "  o%u_%u [shape=ellipse, label=", p->scope, i);
    paint_string(p->out, graph->output_names[i]);
    tercel_text_add(p->out, "];\n");
    if (!graph->outputs[i]->constant) paint_edge(p, graph->outputs[i], "o", i);
  }
}

tercel_status tercel_graph_print_dot(const tercel_graph *graph, tercel_text *out, tercel_error *err) {
  unsigned num_scopes = 0;
  tercel_text_add(out, "digraph ");
  paint_string(out, graph->name);
  tercel_text_add(out, " {\n");
  paint_graph(&(painter){out, graph, 0, &num_scopes});
  tercel_text_add(out, "}\n");
  return out->failed ? tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a graph's picture") : TERCEL_OK;
}
