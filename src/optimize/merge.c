/* Common subexpressions: of nodes that compute the same from the same, the first stays; of equal constants too. */
#include <string.h>

#include "optimize/rewrite.h"

/* Larger constants are equal only when they are the same bytes in memory: hashing them would read all weights. */
enum { MAX_HASHED_BYTES = 4 << 10 };

static void add_number(tercel_text *key, int64_t number) {
  tercel_text_add_bytes(key, (const char *)&number, sizeof number);
}

static void add_string(tercel_text *key, const char *text) { tercel_text_add_bytes(key, text, strlen(text) + 1); }

/* ---- constants ---- */

static void constant_key(const tercel_tensor *t, tercel_text *key) {
  add_number(key, t->dtype);
  add_number(key, t->rank);
  for (int i = 0; i < t->rank; i++) add_number(key, t->dims[i]);
  size_t bytes = 0;
  const bool has_size = tercel_dtype_size(t->dtype, tercel_tensor_num_elements(t), &bytes);
  if (has_size && bytes <= MAX_HASHED_BYTES && t->dtype != TERCEL_DTYPE_STRING) {
    add_string(key, "data");
    tercel_text_add_bytes(key, t->data, bytes);
  } else {
    add_string(key, "address");
    add_number(key, (int64_t)(intptr_t)t->data);
  }
}

/* ---- nodes ---- */

static void program_key(const tercel_program *program, tercel_text *key) {
  add_number(key, program->num_inputs);
  for (int k = 0; k < program->num_instrs; k++) {
    const tercel_instr *const instr = &program->instrs[k];
    const tercel_fn_info *const info = tercel_fn_get_info((tercel_fn)instr->fn);
    add_number(key, instr->fn | instr->dtype << 8);
    for (int j = 0; j < info->arity; j++) add_number(key, instr->operands[j]);
    for (int j = 0; j < info->num_immediates; j++) add_number(key, instr->immediates[j].i);
  }
}

static void attr_key(const tercel_attr *a, tercel_text *key) {
  add_string(key, a->name);
  add_number(key, (int64_t)a->count);
  switch (a->kind) {
  case TERCEL_ATTR_INT:
  case TERCEL_ATTR_FLOAT: add_number(key, a->value.i); return;
  case TERCEL_ATTR_STRING: add_string(key, a->value.s); return;
  case TERCEL_ATTR_DTYPE: add_number(key, a->value.dtype); return;
  case TERCEL_ATTR_INTS: tercel_text_add_bytes(key, (const char *)a->value.ints, a->count * sizeof(int64_t)); return;
  case TERCEL_ATTR_FLOATS: tercel_text_add_bytes(key, (const char *)a->value.floats, a->count * sizeof(double)); return;
  case TERCEL_ATTR_STRINGS:
    for (size_t i = 0; i < a->count; i++) add_string(key, a->value.strings[i]);
    return;
  case TERCEL_ATTR_PROGRAM: program_key(a->value.program, key); return;
  }
}

static void node_key(const tercel_node *node, tercel_text *key) {
  add_number(key, (int64_t)(intptr_t)node->op);
  add_number(key, node->num_outputs);
  add_number(key, node->num_inputs);
  for (uint32_t i = 0; i < node->num_inputs; i++) add_number(key, node->inputs[i] ? (int64_t)node->inputs[i]->id : -1);
  for (uint32_t i = 0; i < node->num_attrs; i++) attr_key(&node->attrs[i], key);
}

static bool has_all_outputs(const tercel_node *of, const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && !of->outputs[i]) return false;
  return true;
}

static tercel_status merge_node(tercel_node *node, tercel_node *first, tercel_pass_context *context,
                                tercel_error *err) {
  TERCEL_TRY(tercel_made(context, "same-node", first, node, err));
  TERCEL_TRY(tercel_node_add_sources(first, node, err));
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) TERCEL_TRY(tercel_rewrite_replace(node->outputs[i], first->outputs[i], err));
  tercel_graph_remove_node(node);
  return TERCEL_OK;
}

/* ---- the pass ---- */

/* What stands in the map under the key; NULL and `value` put there when nothing does. */
static tercel_status look_up(tercel_map *map, const tercel_text *key, void *value, void **found, tercel_error *err) {
  if (key->failed) return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for finding equal nodes");
  *found = tercel_map_get_bytes(map, key->data, key->length, NULL);
  return *found ? TERCEL_OK : tercel_map_set_bytes(map, key->data, key->length, value, err);
}

static tercel_status merge_constants(tercel_graph *graph, tercel_map *map, tercel_text *key, tercel_error *err) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    tercel_value *const value = graph->values[i];
    void *found = NULL;
    if (!value || !value->constant || tercel_value_num_uses(value) == 0) continue;
    key->length = 0;
    constant_key(value->constant, key);
    TERCEL_TRY(look_up(map, key, value, &found, err));
    if (found) TERCEL_TRY(tercel_value_replace_uses(value, found, err));
  }
  return TERCEL_OK;
}

static tercel_status merge_nodes(tercel_graph *graph, tercel_map *map, tercel_text *key, tercel_pass_context *context,
                                 tercel_error *err) {
  for (tercel_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    void *found = NULL;
    if (node->op->flags & (TERCEL_OP_IMPURE | TERCEL_OP_CONTROL)) continue;
    key->length = 0;
    node_key(node, key);
    TERCEL_TRY(look_up(map, key, node, &found, err));
    if (found && has_all_outputs(found, node)) TERCEL_TRY(merge_node(node, found, context, err));
  }
  return TERCEL_OK;
}

tercel_status tercel_pass_merge(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  tercel_map constants = {0}, nodes = {0};
  tercel_text key = {0};
  tercel_status status;
  TERCEL_CHECK(merge_constants(graph, &constants, &key, err));
  TERCEL_CHECK(merge_nodes(graph, &nodes, &key, context, err));
done:
  tercel_map_deinit(&constants);
  tercel_map_deinit(&nodes);
  tercel_text_deinit(&key);
  return status;
}
