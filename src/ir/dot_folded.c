/* Graphs for Graphviz, folded: the nodes of one scope of names ("/encoder/layer.0/attention/MatMul": layer.0's attention) are one
 * box, so that a graph of thousands of nodes can be laid out and looked at.  Subgraphs are within the box of their node. */
#include <stdio.h>
#include <string.h>

#include "ir/text.h"

enum { MAX_DEPTH = 8, MIN_CHUNK = 20, SHOWN_OPS = 3 };

typedef struct box {
  const char *scope;
  size_t scope_length;
  unsigned number; /* among the boxes of its scope, from 0 */
  size_t count;
  tercel_text sources; /* of all its nodes, separated by " + " */
  const tercel_op *ops[SHOWN_OPS];
  size_t op_counts[SHOWN_OPS];
  size_t other_ops;
} box;

typedef struct folding {
  const tercel_graph *graph;
  tercel_text *out;
  tercel_arena arena;
  box *boxes;
  size_t num_boxes;
  uint32_t *box_of; /* by id of the values that nodes make */
} folding;

/* The first `depth` parts of a name, its last part never among them. */
static size_t scope_length(const char *name, int depth) {
  size_t length = 0;
  for (size_t i = 1; name[0] && name[i] && depth > 0; i++) {
    if (name[i] != '/') continue;
    length = i;
    depth--;
  }
  return length;
}

static tercel_status count_scopes(const tercel_graph *graph, int depth, size_t *count, tercel_error *err) {
  tercel_map scopes = {0};
  tercel_status status = TERCEL_OK;
  for (const tercel_node *node = graph->first; node && status == TERCEL_OK; node = node->next)
    status = tercel_map_set_bytes(&scopes, node->name, scope_length(node->name, depth), NULL, err);
  *count = scopes.count;
  tercel_map_deinit(&scopes);
  return status;
}

/* The deepest scopes of which there are no more than the boxes that are wanted. */
static tercel_status choose_depth(const tercel_graph *graph, size_t max_boxes, int *depth, tercel_error *err) {
  for (*depth = MAX_DEPTH; *depth > 0; --*depth) {
    size_t count;
    TERCEL_TRY(count_scopes(graph, *depth, &count, err));
    if (count <= max_boxes) return TERCEL_OK;
  }
  return TERCEL_OK;
}

static void add_op(box *b, const tercel_op *op) {
  for (int i = 0; i < SHOWN_OPS; i++) {
    if (b->ops[i] && b->ops[i] != op) continue;
    b->ops[i] = op;
    b->op_counts[i]++;
    return;
  }
  b->other_ops++;
}

static void add_node(folding *f, box *b, const tercel_node *node) {
  b->count++;
  add_op(b, node->op);
  for (uint32_t i = 0; i < node->num_sources; i++)
    tercel_text_add(&b->sources, "%s%s", b->sources.length ? " + " : "", node->sources[i]);
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) f->box_of[node->outputs[i]->id] = (uint32_t)(b - f->boxes);
}

/* Boxes of at most `chunk` nodes: a scope with more has several. */
static tercel_status fill_boxes(folding *f, int depth, size_t chunk, tercel_error *err) {
  tercel_map open = {0}; /* the box of each scope that still has room */
  tercel_status status = TERCEL_OK;
  for (const tercel_node *node = f->graph->first; node && status == TERCEL_OK; node = node->next) {
    const size_t length = scope_length(node->name, depth);
    box *b = tercel_map_get_bytes(&open, node->name, length, NULL);
    if (!b || b->count == chunk) {
      box *const next = &f->boxes[f->num_boxes++];
      *next = (box){.scope = node->name, .scope_length = length, .number = b ? b->number + 1 : 0};
      b = next;
      status = tercel_map_set_bytes(&open, node->name, length, b, err);
    }
    add_node(f, b, node);
  }
  tercel_map_deinit(&open);
  return status;
}

static void paint_string(tercel_text *out, const char *text) { tercel_text_add_json(out, text, strlen(text)); }

static void paint_box(const folding *f, size_t index) {
  const box *const b = &f->boxes[index];
  tercel_text label = {0};
  if (b->scope_length)
    tercel_text_add_bytes(&label, b->scope, b->scope_length);
  else
    tercel_text_add(&label, "(no scope)");
  if (b->number) tercel_text_add(&label, " (%u)", b->number + 1);
  tercel_text_add(&label, "\n%zu node%s:", b->count, b->count == 1 ? "" : "s");
  for (int i = 0; i < SHOWN_OPS && b->ops[i]; i++)
    tercel_text_add(&label, "%s %zu %s", i ? "," : "", b->op_counts[i], b->ops[i]->name);
  if (b->other_ops) tercel_text_add(&label, ", ...");
  if (label.failed || b->sources.failed) f->out->failed = true;
  tercel_text_add(f->out, "  b%zu [shape=box, label=", index);
  paint_string(f->out, label.data ? label.data : "");
  tercel_text_add(f->out, ", tooltip=");
  paint_string(f->out, b->sources.data ? b->sources.data : "");
  tercel_text_add(f->out, "];\n");
  tercel_text_deinit(&label);
}

/* An edge from what makes the value, once for each pair of boxes. */
static tercel_status paint_edge(const folding *f, tercel_map *seen, const tercel_value *value, const char *to,
                                tercel_error *err) {
  tercel_text edge = {0};
  bool found = false;
  if (value->producer)
    tercel_text_add(&edge, "  b%u -> %s;\n", f->box_of[value->id], to);
  else
    tercel_text_add(&edge, "  i%u -> %s;\n", value->id, to);
  tercel_status status = edge.failed ? tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a picture") : TERCEL_OK;
  if (status == TERCEL_OK) {
    tercel_map_get(seen, edge.data, &found);
    if (!found) tercel_text_add(f->out, "%s", edge.data);
    status = tercel_map_set(seen, edge.data, NULL, err);
  }
  tercel_text_deinit(&edge);
  return status;
}

static tercel_status paint_edges(const folding *f, tercel_map *seen, tercel_error *err) {
  char to[32];
  for (const tercel_node *node = f->graph->first; node; node = node->next) {
    uint32_t own = 0;
    for (uint32_t i = 0; i < node->num_outputs; i++)
      if (node->outputs[i]) own = f->box_of[node->outputs[i]->id];
    snprintf(to, sizeof to, "b%u", own);
    for (uint32_t i = 0; i < node->num_inputs; i++) {
      const tercel_value *const value = node->inputs[i];
      if (!value || value->constant || (value->producer && f->box_of[value->id] == own)) continue;
      TERCEL_TRY(paint_edge(f, seen, value, to, err));
    }
  }
  for (uint32_t i = 0; i < f->graph->num_outputs; i++) {
    snprintf(to, sizeof to, "o%u", i);
    if (!f->graph->outputs[i]->constant) TERCEL_TRY(paint_edge(f, seen, f->graph->outputs[i], to, err));
  }
  return TERCEL_OK;
}

static void paint_end(const folding *f, char kind, uint32_t number, const char *name) {
  tercel_text_add(f->out, "  %c%u [shape=ellipse, label=", kind, number);
  paint_string(f->out, name);
  tercel_text_add(f->out, "];\n");
}

static tercel_status paint(const folding *f, tercel_error *err) {
  const tercel_graph *const graph = f->graph;
  tercel_map seen = {0};
  tercel_text_add(f->out, "digraph ");
  paint_string(f->out, graph->name);
  tercel_text_add(f->out, " {\n");
  for (uint32_t i = 0; i < graph->num_inputs; i++) paint_end(f, 'i', graph->inputs[i]->id, graph->inputs[i]->name);
  for (size_t i = 0; i < f->num_boxes; i++) paint_box(f, i);
  for (uint32_t i = 0; i < graph->num_outputs; i++) paint_end(f, 'o', i, graph->output_names[i]);
  const tercel_status status = paint_edges(f, &seen, err);
  tercel_text_add(f->out, "}\n");
  tercel_map_deinit(&seen);
  return status;
}

tercel_status tercel_graph_print_dot_folded(const tercel_graph *graph, size_t max_boxes, tercel_text *out,
                                            tercel_error *err) {
  if (graph->num_nodes <= max_boxes) return tercel_graph_print_dot(graph, out, err);
  folding f = {.graph = graph, .out = out};
  const size_t chunk = MIN_CHUNK + 2 * graph->num_nodes / (max_boxes + 1);
  tercel_status status;
  int depth;
  TERCEL_CHECK(choose_depth(graph, max_boxes, &depth, err));
  f.boxes = tercel_arena_alloc_array(&f.arena, graph->num_nodes, sizeof *f.boxes);
  f.box_of = tercel_arena_alloc_array(&f.arena, graph->num_values, sizeof *f.box_of);
  if (!f.boxes || !f.box_of) TERCEL_CHECK(tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a graph's picture"));
  TERCEL_CHECK(fill_boxes(&f, depth, chunk, err));
  TERCEL_CHECK(paint(&f, err));
  if (out->failed) TERCEL_CHECK(tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a graph's picture"));
done:
  for (size_t i = 0; i < f.num_boxes; i++) tercel_text_deinit(&f.boxes[i].sources);
  tercel_arena_deinit(&f.arena);
  return status;
}
