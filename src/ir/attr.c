/* Attributes of nodes: set, read with the schema's defaults. */
#include "ir/attr.h"

#include <string.h>

#include "ir/graph.h"

static const tercel_attr_spec *spec_of(const tercel_node *node, const char *name) {
  for (const tercel_attr_spec *spec = node->op->attrs; spec && spec->name; spec++)
    if (strcmp(spec->name, name) == 0) return spec;
  return NULL;
}

static tercel_attr *find(const tercel_node *node, const char *name) {
  for (uint32_t i = 0; i < node->num_attrs; i++)
    if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
  return NULL;
}

/* ---- set ---- */

static tercel_status no_memory(tercel_error *err, size_t bytes) {
  return tercel_fail_memory(err, bytes, "an attribute");
}

/* Replaces the attribute of that name, or adds one.  What `attr` points to lives in the arena already; its name need
 * not. */
static tercel_status set(tercel_node *node, const char *name, tercel_attr attr, tercel_error *err) {
  tercel_attr *const old = find(node, name);
  const tercel_attr_spec *const spec = spec_of(node, name);
  tercel_arena *const arena = node->graph->arena;
  attr.name = old ? old->name : spec ? spec->name : tercel_arena_strdup(arena, name);
  if (!attr.name) return no_memory(err, strlen(name) + 1);
  if (old) {
    *old = attr;
    return TERCEL_OK;
  }
  if (node->num_attrs == node->attrs_capacity) {
    const uint32_t capacity = node->attrs_capacity ? 2 * node->attrs_capacity : 4;
    tercel_attr *const grown = tercel_arena_alloc_array(arena, capacity, sizeof *grown);
    if (!grown) return no_memory(err, capacity * sizeof *grown);
    if (node->num_attrs) memcpy(grown, node->attrs, node->num_attrs * sizeof *grown);
    node->attrs = grown;
    node->attrs_capacity = capacity;
  }
  node->attrs[node->num_attrs++] = attr;
  return TERCEL_OK;
}

tercel_status tercel_node_set_int(tercel_node *node, const char *name, int64_t value, tercel_error *err) {
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_INT, .value.i = value}, err);
}

tercel_status tercel_node_set_float(tercel_node *node, const char *name, double value, tercel_error *err) {
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_FLOAT, .value.f = value}, err);
}

tercel_status tercel_node_set_dtype(tercel_node *node, const char *name, tercel_dtype value, tercel_error *err) {
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_DTYPE, .value.dtype = value}, err);
}

tercel_status tercel_node_set_string(tercel_node *node, const char *name, const char *value, tercel_error *err) {
  const char *const copy = tercel_arena_strdup(node->graph->arena, value);
  if (!copy) return no_memory(err, strlen(value) + 1);
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_STRING, .value.s = copy}, err);
}

tercel_status tercel_node_set_ints(tercel_node *node, const char *name, const int64_t *values, size_t count,
                                   tercel_error *err) {
  const int64_t *const copy = tercel_arena_copy(node->graph->arena, values, count * sizeof *values);
  if (!copy) return no_memory(err, count * sizeof *values);
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_INTS, .count = count, .value.ints = copy}, err);
}

tercel_status tercel_node_set_floats(tercel_node *node, const char *name, const double *values, size_t count,
                                     tercel_error *err) {
  const double *const copy = tercel_arena_copy(node->graph->arena, values, count * sizeof *values);
  if (!copy) return no_memory(err, count * sizeof *values);
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_FLOATS, .count = count, .value.floats = copy}, err);
}

tercel_status tercel_node_set_strings(tercel_node *node, const char *name, const char *const *values, size_t count,
                                      tercel_error *err) {
  const char **const copy = tercel_arena_alloc_array(node->graph->arena, count, sizeof *copy);
  if (!copy) return no_memory(err, count * sizeof *copy);
  for (size_t i = 0; i < count; i++) {
    copy[i] = tercel_arena_strdup(node->graph->arena, values[i]);
    if (!copy[i]) return no_memory(err, strlen(values[i]) + 1);
  }
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_STRINGS, .count = count, .value.strings = copy}, err);
}

tercel_status tercel_node_set_program(tercel_node *node, const char *name, const tercel_program *program,
                                      tercel_error *err) {
  tercel_arena *const arena = node->graph->arena;
  const size_t bytes = (size_t)program->num_instrs * sizeof *program->instrs;
  tercel_program *const copy = tercel_arena_copy(arena, program, sizeof *program);
  if (!copy) return no_memory(err, sizeof *program);
  copy->instrs = tercel_arena_copy(arena, program->instrs, bytes);
  if (!copy->instrs) return no_memory(err, bytes);
  return set(node, name, (tercel_attr){.kind = TERCEL_ATTR_PROGRAM, .value.program = copy}, err);
}

void tercel_node_remove_attr(tercel_node *node, const char *name) {
  tercel_attr *const attr = find(node, name);
  if (!attr) return;
  const size_t after = (size_t)(node->attrs + node->num_attrs - (attr + 1));
  memmove(attr, attr + 1, after * sizeof *attr);
  node->num_attrs--;
}

/* ---- get ---- */

const tercel_attr *tercel_node_attr(const tercel_node *node, const char *name) { return find(node, name); }

static const tercel_attr *find_kind(const tercel_node *node, const char *name, tercel_attr_kind kind) {
  const tercel_attr *const attr = find(node, name);
  return attr && attr->kind == kind ? attr : NULL;
}

int64_t tercel_node_int(const tercel_node *node, const char *name) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_INT);
  if (attr) return attr->value.i;
  const tercel_attr_spec *const spec = spec_of(node, name);
  return spec ? (int64_t)spec->number : 0;
}

double tercel_node_float(const tercel_node *node, const char *name) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_FLOAT);
  if (attr) return attr->value.f;
  const tercel_attr_spec *const spec = spec_of(node, name);
  return spec ? spec->number : 0;
}

tercel_dtype tercel_node_dtype(const tercel_node *node, const char *name) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_DTYPE);
  if (attr) return attr->value.dtype;
  const tercel_attr_spec *const spec = spec_of(node, name);
  return spec ? (tercel_dtype)spec->number : TERCEL_DTYPE_NONE;
}

const char *tercel_node_string(const tercel_node *node, const char *name) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_STRING);
  if (attr) return attr->value.s;
  const tercel_attr_spec *const spec = spec_of(node, name);
  return spec ? spec->text : NULL;
}

const int64_t *tercel_node_ints(const tercel_node *node, const char *name, size_t *count) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_INTS);
  *count = attr ? attr->count : 0;
  return attr ? attr->value.ints : NULL;
}

const double *tercel_node_floats(const tercel_node *node, const char *name, size_t *count) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_FLOATS);
  *count = attr ? attr->count : 0;
  return attr ? attr->value.floats : NULL;
}

const tercel_program *tercel_node_program(const tercel_node *node, const char *name) {
  const tercel_attr *const attr = find_kind(node, name, TERCEL_ATTR_PROGRAM);
  return attr ? attr->value.program : NULL;
}
