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

/* item: a value */
static void constant_key(const void *item, tercel_text *key) {
  const tercel_tensor *const t = ((const tercel_value *)item)->constant;
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

static void node_key(const void *item, tercel_text *key) {
  const tercel_node *const node = item;
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

/* ---- finding equal ones ---- */

typedef void (*key_fn)(const void *item, tercel_text *key);

/* Open addressing, never more than half full.  Items with one hash are compared by their keys, which are made anew for that: it is rare. */
typedef struct table {
  struct slot {
    uint64_t hash;
    void *item; /* NULL: free */
  } * slots;
  size_t mask;
  key_fn make_key;
  tercel_text key, other; /* room that is used again */
} table;

static tercel_status table_init(table *t, key_fn make_key, size_t most, tercel_error *err) {
  size_t capacity = 16;
  while (capacity < 2 * most) capacity *= 2;
  *t = (table){.mask = capacity - 1, .make_key = make_key};
  t->slots = tercel_zalloc_array(capacity, sizeof *t->slots);
  return t->slots ? TERCEL_OK : tercel_fail_memory(err, capacity * sizeof *t->slots, "finding equal nodes");
}

static void table_deinit(table *t) {
  tercel_free(t->slots);
  tercel_text_deinit(&t->key);
  tercel_text_deinit(&t->other);
}

static void make_key(const table *t, const void *item, tercel_text *key) {
  key->length = 0;
  t->make_key(item, key);
}

static bool are_equal(table *t, const void *a, const void *b) {
  make_key(t, a, &t->key);
  make_key(t, b, &t->other);
  return !t->key.failed && !t->other.failed && t->key.length == t->other.length &&
         memcmp(t->key.data, t->other.data, t->key.length) == 0;
}

/* Never 0. */
static tercel_status hash_of(table *t, const void *item, uint64_t *out, tercel_error *err) {
  make_key(t, item, &t->key);
  if (t->key.failed) return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for finding equal nodes");
  *out = tercel_map_hash(t->key.data, t->key.length) | 1;
  return TERCEL_OK;
}

/* An equal one that was looked up before; else NULL, and the item will be found from now on. */
static void *look_up(table *t, uint64_t hash, void *item) {
  size_t i = (size_t)(hash >> 1) & t->mask;
  for (; t->slots[i].item; i = (i + 1) & t->mask)
    if (t->slots[i].hash == hash && are_equal(t, t->slots[i].item, item)) return t->slots[i].item;
  t->slots[i].hash = hash;
  t->slots[i].item = item;
  return NULL;
}

/* ---- the pass ---- */

/* Constants don't change, so their hashes are kept. */
static tercel_status merge_constants(tercel_graph *graph, table *constants, tercel_error *err) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    tercel_value *const value = graph->values[i];
    if (!value || !value->constant || tercel_value_num_uses(value) == 0) continue;
    if (value->hash == 0) TERCEL_TRY(hash_of(constants, value, &value->hash, err));
    tercel_value *const found = look_up(constants, value->hash, value);
    if (found) TERCEL_TRY(tercel_value_replace_uses(value, found, err));
  }
  return TERCEL_OK;
}

static tercel_status merge_nodes(tercel_graph *graph, table *nodes, tercel_pass_context *context, tercel_error *err) {
  for (tercel_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    uint64_t hash = 0;
    if (node->op->flags & (TERCEL_OP_IMPURE | TERCEL_OP_STATEFUL | TERCEL_OP_CONTROL)) continue;
    TERCEL_TRY(hash_of(nodes, node, &hash, err));
    tercel_node *const found = look_up(nodes, hash, node);
    if (found && has_all_outputs(found, node)) TERCEL_TRY(merge_node(node, found, context, err));
  }
  return TERCEL_OK;
}

tercel_status tercel_pass_merge(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  table constants = {0}, nodes = {0};
  tercel_status status;
  TERCEL_CHECK(table_init(&constants, constant_key, graph->num_values, err));
  TERCEL_CHECK(table_init(&nodes, node_key, graph->num_nodes, err));
  TERCEL_CHECK(merge_constants(graph, &constants, err));
  TERCEL_CHECK(merge_nodes(graph, &nodes, context, err));
done:
  table_deinit(&constants);
  table_deinit(&nodes);
  return status;
}
