/* What graphs look like from outside: inputs and outputs, and texts. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static const char *const kinds[] = {[TERCEL_TYPE_TENSOR] = "tensor",
                                    [TERCEL_TYPE_SEQUENCE] = "sequence",
                                    [TERCEL_TYPE_OPTIONAL] = "optional",
                                    [TERCEL_TYPE_MAP] = "map"};

static tercel_status describe(const tercel_value *value, const char *name, tercel_arena *memory, tercel_io *out,
                              tercel_error *err) {
  const tercel_type *const type = &value->type;
  *out = (tercel_io){.name = tercel_arena_strdup(memory, name),
                     .kind = type->state               ? "state"
                             : type->optional_sequence ? "optional_sequence"
                                                       : kinds[type->kind],
                     .dtype = type->dtype,
                     .key_dtype = type->key,
                     .rank = type->shape.rank};
  bool failed = out->name == NULL;
  for (int d = 0; d < type->shape.rank; ++d) {
    const tercel_dim dim = type->shape.dims[d];
    out->dims[d] = tercel_dim_is_known(dim) ? dim : -1;
    if (tercel_dim_is_known(dim) || tercel_dim_is_unknown(value->graph->dims, dim)) continue;
    tercel_text symbol = {0};
    tercel_dim_print(value->graph->dims, dim, &symbol);
    if (symbol.data != NULL) out->symbols[d] = tercel_arena_strdup(memory, symbol.data);
    failed |= out->symbols[d] == NULL;
    tercel_text_deinit(&symbol);
  }
  return failed ? tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for describing '%s'", value->name) : TERCEL_OK;
}

tercel_status tercel_interface_init(const tercel_graph *graph, tercel_interface *out, tercel_error *err) {
  tercel_interface made = {.num_inputs = graph->num_inputs, .num_outputs = graph->num_outputs};
  made.inputs = tercel_arena_alloc_array(&made.memory, made.num_inputs, sizeof *made.inputs);
  made.outputs = tercel_arena_alloc_array(&made.memory, made.num_outputs, sizeof *made.outputs);
  tercel_status status = TERCEL_OK;
  if (made.inputs == NULL || made.outputs == NULL)
    status = tercel_fail_memory(err, (made.num_inputs + made.num_outputs) * sizeof(tercel_io), "inputs and outputs");
  for (size_t i = 0; status == TERCEL_OK && i < made.num_inputs; ++i)
    status = describe(graph->inputs[i], graph->inputs[i]->name, &made.memory, &made.inputs[i], err);
  for (size_t i = 0; status == TERCEL_OK && i < made.num_outputs; ++i)
    status = describe(graph->outputs[i], graph->output_names[i], &made.memory, &made.outputs[i], err);
  if (status == TERCEL_OK)
    *out = made;
  else
    tercel_interface_deinit(&made);
  return status;
}

void tercel_interface_deinit(tercel_interface *interface) { tercel_arena_deinit(&interface->memory); }

tercel_status tercel_interface_input(const tercel_interface *interface, size_t index, tercel_io *out,
                                     tercel_error *err) {
  if (index >= interface->num_inputs)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "there is no input %zu, only %zu", index, interface->num_inputs);
  *out = interface->inputs[index];
  return TERCEL_OK;
}

tercel_status tercel_interface_output(const tercel_interface *interface, size_t index, tercel_io *out,
                                      tercel_error *err) {
  if (index >= interface->num_outputs)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "there is no output %zu, only %zu", index, interface->num_outputs);
  *out = interface->outputs[index];
  return TERCEL_OK;
}

tercel_status tercel_check_size(size_t is, size_t least, const char *what, tercel_error *err) {
  if (is >= least) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s.size is %zu, want at least %zu: set it to sizeof", what, is,
                     least);
}

tercel_status tercel_hand_out_text(tercel_text *text, char **out, tercel_error *err) {
  if (!text->failed && text->data == NULL) tercel_text_add(text, "%s", "");
  if (text->failed || text->data == NULL) {
    tercel_text_deinit(text);
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a text");
  }
  *out = text->data;
  *text = (tercel_text){0};
  return TERCEL_OK;
}

/* ---- operators ----------------------------------------------------------------------------------------------------- */

typedef struct op_count {
  const tercel_op *op;
  size_t count;
} op_count;

/* The list has room for as many as there are nodes, and ends at the first without an operator. */
static void count_ops(const tercel_graph *graph, op_count *counts) {
  for (const tercel_node *node = graph->first; node != NULL; node = node->next) {
    op_count *at = counts;
    while (at->op != NULL && at->op != node->op) ++at;
    at->op = node->op;
    ++at->count;
    for (uint32_t i = 0; i < node->num_graphs; ++i) count_ops(node->graphs[i], counts);
  }
}

static int most_first(const void *left, const void *right) {
  const op_count *const a = left, *const b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return strcmp(a->op->name, b->op->name);
}

static tercel_status print_ops(const tercel_graph *graph, tercel_text *text, tercel_error *err) {
  const size_t most = tercel_graph_count_nodes(graph) + 1;
  op_count *const counts = tercel_zalloc_array(most, sizeof *counts);
  if (counts == NULL) return tercel_fail_memory(err, most * sizeof *counts, "counting operators");
  count_ops(graph, counts);
  size_t num_ops = 0;
  while (counts[num_ops].op != NULL) ++num_ops;
  qsort(counts, num_ops, sizeof *counts, most_first);
  for (size_t i = 0; i < num_ops; ++i) tercel_text_add(text, "%-20s %zu\n", counts[i].op->name, counts[i].count);
  tercel_free(counts);
  return TERCEL_OK;
}

enum { MAX_BOXES = 600 }; /* that Graphviz lays out in a few seconds */

tercel_status tercel_print_graph(const tercel_graph *graph, tercel_print what, char **text_out, tercel_error *err) {
  tercel_text text = {0};
  tercel_status status = TERCEL_OK;
  switch (what) {
  case TERCEL_PRINT_TEXT: status = tercel_graph_print(graph, NULL, &text, err); break;
  case TERCEL_PRINT_DOT: status = tercel_graph_print_dot(graph, &text, err); break;
  case TERCEL_PRINT_DOT_FOLDED: status = tercel_graph_print_dot_folded(graph, MAX_BOXES, &text, err); break;
  case TERCEL_PRINT_OPERATORS: status = print_ops(graph, &text, err); break;
  case TERCEL_PRINT_PLAN:
  case TERCEL_PRINT_DECISIONS:
  default:
    status =
        tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a model has no plan: ask an engine for print kind %d", (int)what);
  }
  if (status == TERCEL_OK) return tercel_hand_out_text(&text, text_out, err);
  tercel_text_deinit(&text);
  return status;
}
