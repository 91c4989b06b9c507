/* Graphs out of a text.  The grammar stands in print.c.  What was read is verified. */
#include <string.h>

#include "ir/reader.h"

/* An output of a node, read before the node can be made. */
typedef struct output {
  const char *name; /* NULL: absent */
  bool has_type;
  tercel_type type;
} output;

/* The pieces of a node. */
typedef struct pieces {
  output *outputs;
  tercel_value **inputs;
  size_t num_outputs, num_inputs;
  const tercel_op *op;
} pieces;

static tercel_status read_graph(tercel_reader *r, tercel_graph *graph);

/* ---- values ---- */

static tercel_status define(const tercel_reader *r, tercel_map *values, const char *name, tercel_value *value) {
  bool is_taken;
  tercel_map_get(values, name, &is_taken);
  if (is_taken) return tercel_reader_fail(r, "value '%s' is defined twice", name);
  return tercel_map_set(values, name, value, r->err);
}

static tercel_status read_use(tercel_reader *r, const tercel_map *values, tercel_value **out) {
  const char *name;
  tercel_reader_peek(r);
  const char *const start = r->at;
  TERCEL_TRY(tercel_reader_value_name(r, &name));
  *out = tercel_map_get(values, name, NULL);
  if (*out) return TERCEL_OK;
  r->at = start;
  return tercel_reader_fail(r, "value '%s' is not defined before it is used", name);
}

static tercel_status read_params(tercel_reader *r, tercel_map *values) {
  TERCEL_TRY(tercel_reader_expect(r, "("));
  if (tercel_reader_accept(r, ")")) return TERCEL_OK;
  do {
    const char *name;
    tercel_type type = {.shape.rank = -1};
    tercel_value *value;
    TERCEL_TRY(tercel_reader_value_name(r, &name));
    if (tercel_reader_accept(r, ":")) TERCEL_TRY(tercel_reader_type(r, &type));
    TERCEL_TRY(tercel_graph_add_input(r->graph, name, &type, &value, r->err));
    TERCEL_TRY(define(r, values, name, value));
  } while (tercel_reader_accept(r, ","));
  return tercel_reader_expect(r, ")");
}

/* ---- constants ---- */

/* Text gives about a byte for a byte of data, but for those kinds that only describe it. */
static tercel_status check_size(tercel_reader *r, const tercel_tensor *tensor, bool is_listed) {
  if (is_listed) {
    if (tensor->bytes / sizeof(tercel_string) > (size_t)(r->end - r->at))
      return tercel_reader_fail(r, "the text is too short for a constant of %zu bytes", tensor->bytes);
    return TERCEL_OK;
  }
  r->generated_bytes += tensor->bytes;
  if (tensor->bytes <= TERCEL_READER_MAX_GENERATED_BYTES && r->generated_bytes <= TERCEL_READER_MAX_GENERATED_BYTES)
    return TERCEL_OK;
  return tercel_reader_fail(r, "constants that the text only describes take more than %d bytes",
                            TERCEL_READER_MAX_GENERATED_BYTES);
}

static tercel_status read_constant(tercel_reader *r, const output *target, tercel_map *values) {
  const char *kind;
  size_t length;
  const tercel_type *const type = &target->type;
  if (!target->has_type || type->kind != TERCEL_TYPE_TENSOR || !tercel_shape_is_known(&type->shape))
    return tercel_reader_fail(r, "a constant wants the type of a tensor without symbols");
  tercel_tensor tensor = {0};
  if (!tercel_tensor_set_shape(&tensor, type->dtype, type->shape.rank, type->shape.dims))
    return tercel_reader_fail(r, "the constant has no dtype or too many elements");
  TERCEL_TRY(tercel_reader_word(r, "data, hex, fill, zeros or ramp", &kind, &length));
  TERCEL_TRY(check_size(r, &tensor,
                        (length == 4 && memcmp(kind, "data", 4) == 0) || (length == 3 && memcmp(kind, "hex", 3) == 0)));
  tercel_value *value;
  TERCEL_TRY(tercel_graph_add_new_constant(r->graph, target->name, type->dtype, type->shape.rank, type->shape.dims,
                                           &value, r->err));
  TERCEL_TRY(tercel_reader_data(r, value->constant, kind, length));
  return define(r, values, target->name, value);
}

/* ---- nodes ---- */

static tercel_status read_outputs(tercel_reader *r, pieces *p) {
  do {
    void *outputs = p->outputs;
    TERCEL_TRY(tercel_reader_grow(r, &outputs, p->num_outputs, sizeof *p->outputs));
    p->outputs = outputs;
    output *const o = &p->outputs[p->num_outputs++];
    *o = (output){.type.shape.rank = -1};
    if (tercel_reader_accept_word(r, "_")) continue;
    TERCEL_TRY(tercel_reader_value_name(r, &o->name));
    o->has_type = tercel_reader_accept(r, ":");
    if (o->has_type) TERCEL_TRY(tercel_reader_type(r, &o->type));
  } while (tercel_reader_accept(r, ","));
  return tercel_reader_expect(r, "=");
}

static tercel_status read_inputs(tercel_reader *r, const tercel_map *values, pieces *p) {
  TERCEL_TRY(tercel_reader_expect(r, "("));
  if (tercel_reader_accept(r, ")")) return TERCEL_OK;
  do {
    void *inputs = p->inputs;
    TERCEL_TRY(tercel_reader_grow(r, &inputs, p->num_inputs, sizeof *p->inputs));
    p->inputs = inputs;
    p->inputs[p->num_inputs] = NULL;
    if (!tercel_reader_accept_word(r, "_")) TERCEL_TRY(read_use(r, values, &p->inputs[p->num_inputs]));
    p->num_inputs++;
  } while (tercel_reader_accept(r, ","));
  return tercel_reader_expect(r, ")");
}

static tercel_status add_node(tercel_reader *r, const pieces *p, tercel_map *values, tercel_node **out) {
  const char *name = "";
  for (size_t i = p->num_outputs; i-- > 0;)
    if (p->outputs[i].name) name = p->outputs[i].name;
  TERCEL_TRY(tercel_graph_add_node(r->graph, p->op, name, p->inputs, p->num_inputs, p->num_outputs, NULL, out, r->err));
  for (size_t i = 0; i < p->num_outputs; i++) {
    tercel_value *const value = (*out)->outputs[i];
    if (!p->outputs[i].name) {
      tercel_graph_remove_value(value);
      continue;
    }
    value->name = tercel_arena_strdup(r->graph->arena, p->outputs[i].name);
    if (!value->name) return tercel_reader_no_memory(r);
    value->type = p->outputs[i].type;
    TERCEL_TRY(define(r, values, value->name, value));
  }
  return TERCEL_OK;
}

static tercel_status read_origin(tercel_reader *r, tercel_node *node) {
  const char *name;
  tercel_arena *const arena = r->graph->arena;
  if (tercel_reader_accept_word(r, "named")) {
    TERCEL_TRY(tercel_reader_string(r, &name));
    node->name = tercel_arena_strdup(arena, name);
    if (!node->name) return tercel_reader_no_memory(r);
    node->sources[0] = node->name;
  }
  if (!tercel_reader_accept_word(r, "from")) return TERCEL_OK;
  void *sources = NULL;
  uint32_t count = 0;
  do {
    TERCEL_TRY(tercel_reader_grow(r, &sources, count, sizeof(char *)));
    TERCEL_TRY(tercel_reader_string(r, &name));
    ((const char **)sources)[count] = tercel_arena_strdup(arena, name);
    if (!((const char **)sources)[count++]) return tercel_reader_no_memory(r);
  } while (tercel_reader_accept(r, ","));
  node->sources = tercel_arena_copy(arena, sources, count * sizeof(char *));
  if (!node->sources) return tercel_reader_no_memory(r);
  node->num_sources = count;
  return TERCEL_OK;
}

static tercel_status read_subgraphs(tercel_reader *r, tercel_node *node) {
  tercel_graph *const outer = r->graph;
  TERCEL_TRY(tercel_reader_expect(r, "{"));
  if (++r->depth > TERCEL_READER_MAX_DEPTH)
    return tercel_reader_fail(r, "subgraphs nested deeper than %d", TERCEL_READER_MAX_DEPTH);
  for (uint32_t i = 0; !tercel_reader_accept(r, "}"); i++) {
    const char *name;
    tercel_graph *graph;
    TERCEL_TRY(tercel_reader_expect_word(r, "graph"));
    TERCEL_TRY(tercel_reader_string(r, &name));
    if (i == node->num_graphs)
      return tercel_reader_fail(r, "%s has %u subgraphs, not more", node->op->name, node->num_graphs);
    TERCEL_TRY(tercel_graph_add_subgraph(node, i, name, &graph, r->err));
    TERCEL_TRY(read_graph(r, graph));
  }
  r->depth--;
  r->graph = outer;
  return TERCEL_OK;
}

static tercel_status read_attrs(tercel_reader *r, tercel_node *node) {
  if (!tercel_reader_accept(r, "{")) return TERCEL_OK;
  do TERCEL_TRY(tercel_reader_attr(r, node));
  while (tercel_reader_accept(r, ","));
  return tercel_reader_expect(r, "}");
}

static tercel_status read_node(tercel_reader *r, pieces *p, tercel_map *values) {
  tercel_node *node;
  TERCEL_TRY(read_inputs(r, values, p));
  TERCEL_TRY(add_node(r, p, values, &node));
  if (tercel_reader_accept_word(r, "captures"))
    TERCEL_TRY(tercel_reader_count(r, "captures", node->num_inputs, &node->num_captures));
  TERCEL_TRY(read_attrs(r, node));
  TERCEL_TRY(read_origin(r, node));
  return tercel_reader_accept_word(r, "do") ? read_subgraphs(r, node) : TERCEL_OK;
}

/* The operator's name: a word, or quoted (those that users register). */
static tercel_status read_op_name(tercel_reader *r, const char **out, size_t *length) {
  if (tercel_reader_peek(r) != '"') return tercel_reader_word(r, "an operator or 'constant'", out, length);
  TERCEL_TRY(tercel_reader_string(r, out));
  *length = strlen(*out);
  return TERCEL_OK;
}

static tercel_status read_statement(tercel_reader *r, tercel_map *values) {
  const char *word;
  size_t length;
  pieces p = {0};
  TERCEL_TRY(read_outputs(r, &p));
  tercel_reader_peek(r);
  const char *const start = r->at;
  TERCEL_TRY(read_op_name(r, &word, &length));
  if (length == strlen("constant") && memcmp(word, "constant", length) == 0) {
    if (p.num_outputs == 1 && p.outputs[0].name) return read_constant(r, &p.outputs[0], values);
    return tercel_reader_fail(r, "a constant is one value with a name");
  }
  p.op = tercel_op_find(r->ops, word, length);
  if (p.op) return read_node(r, &p, values);
  r->at = start;
  return tercel_reader_fail(r, "'%.*s' is no operator", (int)(length < 64 ? length : 64), word);
}

/* ---- graphs ---- */

static tercel_status read_results(tercel_reader *r, const tercel_map *values) {
  if (tercel_reader_peek(r) == '}') return TERCEL_OK;
  do {
    tercel_value *value;
    TERCEL_TRY(read_use(r, values, &value));
    const char *name = value->name;
    if (tercel_reader_accept_word(r, "as")) TERCEL_TRY(tercel_reader_string(r, &name));
    TERCEL_TRY(tercel_graph_add_output(r->graph, value, name, r->err));
  } while (tercel_reader_accept(r, ","));
  return TERCEL_OK;
}

static tercel_status read_body(tercel_reader *r, tercel_map *values) {
  TERCEL_TRY(read_params(r, values));
  TERCEL_TRY(tercel_reader_expect(r, "{"));
  while (!tercel_reader_accept_word(r, "return")) TERCEL_TRY(read_statement(r, values));
  TERCEL_TRY(read_results(r, values));
  return tercel_reader_expect(r, "}");
}

/* From the parameters on. */
static tercel_status read_graph(tercel_reader *r, tercel_graph *graph) {
  tercel_map values = {0};
  r->graph = graph;
  const tercel_status status = read_body(r, &values);
  tercel_map_deinit(&values);
  return status;
}

static tercel_status read_all(tercel_reader *r, tercel_graph **out) {
  const char *name;
  TERCEL_TRY(tercel_reader_expect_word(r, "graph"));
  TERCEL_TRY(tercel_reader_string(r, &name));
  TERCEL_TRY(tercel_graph_create(name, out, r->err));
  TERCEL_TRY(read_graph(r, *out));
  if (tercel_reader_peek(r)) return tercel_reader_fail(r, "want the end of the text after the graph");
  TERCEL_TRY(tercel_dims_check((*out)->dims, r->err));
  const tercel_status status = tercel_graph_verify(*out, r->err);
  return status == TERCEL_INTERNAL ? tercel_fail_at(r->err, TERCEL_INVALID_MODEL, "the text") : status;
}

tercel_status tercel_graph_parse(const char *text, size_t length, const tercel_op *const *ops, tercel_graph **out,
                                 tercel_error *err) {
  tercel_error own;
  tercel_reader r = {.text = text, .at = text, .end = text + length, .ops = ops, .err = err ? err : &own};
  tercel_graph *graph = NULL;
  const tercel_status status = read_all(&r, &graph);
  tercel_arena_deinit(&r.scratch);
  if (status == TERCEL_OK)
    *out = graph;
  else
    tercel_graph_destroy(graph);
  return status;
}
