/* A plan and its graph as sections of an engine file.  engine_graph.c and engine_plan.c read what is written here, in the same order.
 *
 * Nothing in it depends on addresses, on the order of a hash table, or on the time. */
#include <string.h>

#include "plan/engine_file.h"

typedef struct writer {
  tercel_engine_parts *parts;
  tercel_names names;
  tercel_text ops, dims, graph; /* parts of the graph section, each behind its count */
  tercel_map op_numbers, dim_numbers;
  uint32_t num_ops, num_dims;
  tercel_text scratch;
  bool failed; /* there was no memory for a map */
} writer;

static tercel_text *section(const writer *w, tercel_section which) { return &w->parts->sections[which]; }

static void put_name(writer *w, const char *name) { tercel_put_name(&w->names, &w->graph, name); }

/* ---- tables ---- */

/* A table's number of a key; new ones are added, and *is_new says so. */
static uint32_t number_of(writer *w, tercel_map *map, uint32_t *count, const void *key, size_t length, bool *is_new) {
  const uintptr_t known = (uintptr_t)tercel_map_get_bytes(map, key, length, NULL);
  *is_new = known == 0;
  if (known != 0) return (uint32_t)known - 1;
  w->failed |= tercel_map_set_bytes(map, key, length, (void *)(uintptr_t)++ * count, NULL) != TERCEL_OK;
  return *count - 1;
}

/* Tercel's own operators by name, a user's by domain, name and the first version it serves. */
static void put_op(writer *w, const tercel_node *node) {
  bool is_new;
  const uint32_t number = number_of(w, &w->op_numbers, &w->num_ops, &node->op, sizeof node->op, &is_new);
  tercel_put_number(&w->graph, number);
  if (!is_new) return;
  const bool is_custom = node->op->id == TERCEL_OP_CUSTOM;
  tercel_put_number(&w->ops, is_custom);
  if (!is_custom) {
    tercel_put_name(&w->names, &w->ops, node->op->name);
    return;
  }
  const tercel_custom *const custom = tercel_custom_of(node);
  tercel_put_name(&w->names, &w->ops, custom->is.domain);
  tercel_put_name(&w->names, &w->ops, custom->is.name);
  tercel_put_number(&w->ops, (uint64_t)custom->is.first_version);
}

/* A number, or an expression by its number in the table, which has its text. */
static void put_dim(writer *w, const tercel_dims *dims, tercel_dim dim) {
  bool is_new;
  if (tercel_dim_is_known(dim)) {
    tercel_put_number(&w->graph, (uint64_t)dim << 1);
    return;
  }
  const uint32_t number = number_of(w, &w->dim_numbers, &w->num_dims, &dim, sizeof dim, &is_new);
  tercel_put_number(&w->graph, (uint64_t)number << 1 | 1);
  if (!is_new) return;
  w->scratch.length = 0;
  tercel_dim_print(dims, dim, &w->scratch);
  w->failed |= w->scratch.failed;
  if (!w->failed) tercel_put_name(&w->names, &w->dims, w->scratch.data);
}

static void put_dtype(writer *w, tercel_dtype dtype) { put_name(w, tercel_dtype_name(dtype)); }

static void put_type(writer *w, const tercel_dims *dims, const tercel_type *type) {
  tercel_put_number(&w->graph,
                    (uint64_t)type->kind << 2 | (uint64_t)type->state << 1 | (uint64_t)type->optional_sequence);
  put_dtype(w, type->dtype);
  if (type->kind == TERCEL_TYPE_MAP) put_dtype(w, type->key);
  tercel_put_signed(&w->graph, type->shape.rank);
  for (int d = 0; d < type->shape.rank; ++d) put_dim(w, dims, type->shape.dims[d]);
}

/* ---- attributes ---- */

static void put_program(writer *w, const tercel_program *program) {
  tercel_put_number(&w->graph, (uint64_t)program->num_inputs);
  tercel_put_number(&w->graph, (uint64_t)program->num_instrs);
  for (int i = 0; i < program->num_instrs; ++i) {
    const tercel_instr *const instr = &program->instrs[i];
    const tercel_fn_info *const info = tercel_fn_get_info((tercel_fn)instr->fn);
    put_name(w, info->name);
    put_dtype(w, (tercel_dtype)instr->dtype);
    for (int o = 0; o < info->arity; ++o) tercel_put_number(&w->graph, instr->operands[o]);
    for (int m = 0; m < info->num_immediates; ++m) tercel_put_f64(&w->graph, instr->immediates[m].f);
  }
}

static void put_attr(writer *w, const tercel_attr *attr) {
  put_name(w, attr->name);
  tercel_put_number(&w->graph, attr->kind);
  switch (attr->kind) {
  case TERCEL_ATTR_INT: tercel_put_signed(&w->graph, attr->value.i); return;
  case TERCEL_ATTR_FLOAT: tercel_put_f64(&w->graph, attr->value.f); return;
  case TERCEL_ATTR_STRING: put_name(w, attr->value.s); return;
  case TERCEL_ATTR_DTYPE: put_dtype(w, attr->value.dtype); return;
  case TERCEL_ATTR_PROGRAM: put_program(w, attr->value.program); return;
  default: break;
  }
  tercel_put_number(&w->graph, attr->count);
  for (size_t i = 0; i < attr->count; ++i) {
    if (attr->kind == TERCEL_ATTR_INTS) tercel_put_signed(&w->graph, attr->value.ints[i]);
    if (attr->kind == TERCEL_ATTR_FLOATS) tercel_put_f64(&w->graph, attr->value.floats[i]);
    if (attr->kind == TERCEL_ATTR_STRINGS) put_name(w, attr->value.strings[i]);
  }
}

/* ---- constants ---- */

/* What a file keeps of a step's packed constants: that from which they come back, bit by bit. */
static const tercel_packed *kept_packing(const tercel_step *step) {
  return tercel_step_keeps_packed(step) ? &step->state.packed : NULL;
}

/* By value: how many of its readers find it in what they packed. */
static void count_packed_uses(const tercel_plan *plan, uint32_t *counts) {
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    const tercel_node *const node = plan->steps[s].node;
    const tercel_packed *const packed = kept_packing(&plan->steps[s]);
    for (uint32_t i = 0; packed != NULL && i < node->num_inputs && i < 32; ++i)
      if (node->inputs[i] != NULL && (packed->format.inputs & (1u << i))) ++counts[node->inputs[i]->id];
  }
}

/* Weights are floats and bytes; other integers may tell shapes or places. */
static bool is_weight(const tercel_tensor *t) {
  const bool is_byte = t->dtype == TERCEL_DTYPE_I8 || t->dtype == TERCEL_DTYPE_U8;
  return t->bytes > TERCEL_SMALL_CONSTANT && t->dtype != TERCEL_DTYPE_STRING &&
         (is_byte || !tercel_dtype_is_integer(t->dtype)) && t->dtype != TERCEL_DTYPE_BOOL;
}

static void align(tercel_text *text, size_t unit) {
  static const char zeros[TERCEL_ALIGNMENT];
  tercel_text_add_bytes(text, zeros, (unit - text->length % unit) % unit);
}

/* Elements' lengths, then their characters. */
static void put_strings(tercel_text *out, const tercel_tensor *t) {
  const tercel_string *const strings = t->data;
  const int64_t count = tercel_tensor_num_elements(t);
  for (int64_t i = 0; i < count; ++i) tercel_put_number(out, strings[i].length);
  for (int64_t i = 0; i < count; ++i) tercel_text_add_bytes(out, strings[i].data, strings[i].length);
}

static tercel_status put_constant(writer *w, const tercel_value *value, uint32_t packed_uses, tercel_error *err) {
  const tercel_tensor *const t = value->constant;
  put_name(w, value->name);
  put_dtype(w, t->dtype);
  tercel_put_number(&w->graph, (uint64_t)t->rank);
  for (int d = 0; d < t->rank; ++d) tercel_put_number(&w->graph, (uint64_t)t->dims[d]);
  if (is_weight(t) && packed_uses > 0 && packed_uses == tercel_value_num_uses(value)) {
    tercel_put_number(&w->graph, TERCEL_CONSTANT_PACKED);
    return TERCEL_OK;
  }
  if (t->data == NULL && t->bytes > 0)
    return tercel_fail(err, TERCEL_INTERNAL, "constant '%s' has no data to be saved", value->name);
  if (is_weight(t)) {
    size_t offset;
    TERCEL_TRY(tercel_blobs_add(&w->parts->weights, t->data, t->bytes, &offset, err));
    tercel_put_number(&w->graph, TERCEL_CONSTANT_WEIGHT);
    tercel_put_number(&w->graph, offset / TERCEL_ALIGNMENT);
    return TERCEL_OK;
  }
  tercel_text *const constants = section(w, TERCEL_SECTION_CONSTANTS);
  align(constants, TERCEL_ALIGNMENT);
  tercel_put_number(&w->graph, TERCEL_CONSTANT_SMALL);
  tercel_put_number(&w->graph, constants->length / TERCEL_ALIGNMENT);
  if (t->dtype == TERCEL_DTYPE_STRING)
    put_strings(constants, t);
  else if (t->bytes > 0)
    tercel_text_add_bytes(constants, t->data, t->bytes);
  return TERCEL_OK;
}

/* ---- steps ---- */

static tercel_status put_step(writer *w, const tercel_step *step, tercel_error *err) {
  tercel_text *const out = section(w, TERCEL_SECTION_PLAN);
  const tercel_packed *const packed = kept_packing(step);
  tercel_put_number(out, (packed != NULL ? 1 : 0) | (step->tactics != NULL && step->tactics->is_tuned ? 2 : 0));
  tercel_put_name(&w->names, out, step->kernel != NULL ? step->kernel->name : "");
  if (packed == NULL) return TERCEL_OK;
  size_t offset;
  TERCEL_TRY(tercel_blobs_add(&w->parts->weights, packed->data, packed->format.bytes, &offset, err));
  tercel_put_name(&w->names, out, packed->format.name);
  tercel_put_number(out, packed->format.bytes);
  tercel_put_number(out, packed->format.inputs);
  tercel_put_number(out, offset / TERCEL_ALIGNMENT);
  return TERCEL_OK;
}

/* ---- the graph ---- */

static tercel_status put_graph(writer *w, const tercel_plan *plan, tercel_error *err);

/* 0: absent; else the value's number + 1.  Values are numbered as they come: inputs, constants, outputs of nodes. */
static void put_value(writer *w, const uint32_t *numbers, const tercel_value *value) {
  tercel_put_number(&w->graph, value == NULL ? 0 : (uint64_t)numbers[value->id] + 1);
}

static tercel_status put_node(writer *w, const tercel_step *step, uint32_t *numbers, uint32_t *count,
                              tercel_error *err) {
  const tercel_node *const node = step->node;
  put_op(w, node);
  put_name(w, node->name);
  tercel_put_number(&w->graph, node->num_inputs);
  for (uint32_t i = 0; i < node->num_inputs; ++i) put_value(w, numbers, node->inputs[i]);
  tercel_put_number(&w->graph, node->num_captures);
  tercel_put_number(&w->graph, node->num_outputs);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    const tercel_value *const value = node->outputs[i];
    tercel_put_number(&w->graph, value != NULL);
    if (value == NULL) continue;
    put_name(w, value->name);
    put_type(w, node->graph->dims, &value->type);
    numbers[value->id] = (*count)++;
  }
  tercel_put_number(&w->graph, node->num_attrs);
  for (uint32_t i = 0; i < node->num_attrs; ++i) put_attr(w, &node->attrs[i]);
  tercel_put_number(&w->graph, node->num_sources);
  for (uint32_t i = 0; i < node->num_sources; ++i) put_name(w, node->sources[i]);
  TERCEL_TRY(put_step(w, step, err)); /* in the order of rows: before those of its subgraphs */
  for (uint32_t i = 0; i < step->num_plans; ++i) TERCEL_TRY(put_graph(w, step->plans[i], err));
  return TERCEL_OK;
}

static tercel_status put_constants(writer *w, const tercel_plan *plan, uint32_t *numbers, uint32_t *count,
                                   tercel_error *err) {
  const tercel_graph *const graph = plan->graph;
  uint32_t num_constants = 0;
  count_packed_uses(plan, numbers); /* until each gets its number */
  for (uint32_t i = 0; i < graph->num_values; ++i)
    num_constants += graph->values[i] != NULL && graph->values[i]->constant != NULL;
  tercel_put_number(&w->graph, num_constants);
  for (uint32_t i = 0; i < graph->num_values; ++i) {
    const tercel_value *const value = graph->values[i];
    if (value == NULL || value->constant == NULL) continue;
    TERCEL_TRY(put_constant(w, value, numbers[i], err));
    numbers[i] = (*count)++;
  }
  return TERCEL_OK;
}

static tercel_status put_contents(writer *w, const tercel_plan *plan, uint32_t *numbers, tercel_error *err) {
  const tercel_graph *const graph = plan->graph;
  uint32_t count = graph->num_inputs;
  put_name(w, graph->name);
  tercel_put_number(&w->graph, graph->num_inputs);
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    put_name(w, graph->inputs[i]->name);
    put_type(w, graph->dims, &graph->inputs[i]->type);
  }
  TERCEL_TRY(put_constants(w, plan, numbers, &count, err));
  for (uint32_t i = 0; i < graph->num_inputs; ++i) numbers[graph->inputs[i]->id] = i;
  tercel_put_number(&w->graph, plan->num_steps);
  for (uint32_t s = 0; s < plan->num_steps; ++s) TERCEL_TRY(put_node(w, &plan->steps[s], numbers, &count, err));
  tercel_put_number(&w->graph, graph->num_outputs);
  for (uint32_t i = 0; i < graph->num_outputs; ++i) {
    put_value(w, numbers, graph->outputs[i]);
    put_name(w, graph->output_names[i]);
  }
  return TERCEL_OK;
}

static tercel_status put_graph(writer *w, const tercel_plan *plan, tercel_error *err) {
  uint32_t *const numbers = tercel_zalloc_array((size_t)plan->graph->num_values + 1, sizeof *numbers);
  if (numbers == NULL) return tercel_fail_memory(err, plan->graph->num_values * sizeof *numbers, "an engine file");
  const tercel_status status = put_contents(w, plan, numbers, err);
  tercel_free(numbers);
  return status;
}

/* The graph section: operators, dims, graph. */
static void join(const writer *w) {
  tercel_text *const out = section(w, TERCEL_SECTION_GRAPH);
  tercel_put_number(out, w->num_ops);
  tercel_text_add_bytes(out, w->ops.data, w->ops.length);
  tercel_put_number(out, w->num_dims);
  tercel_text_add_bytes(out, w->dims.data, w->dims.length);
  tercel_text_add_bytes(out, w->graph.data, w->graph.length);
  out->failed |= w->failed || w->names.failed || w->ops.failed || w->dims.failed || w->graph.failed;
  tercel_text_add_bytes(section(w, TERCEL_SECTION_NAMES), w->names.bytes.data, w->names.bytes.length);
  section(w, TERCEL_SECTION_NAMES)->failed |= w->names.bytes.failed;
}

tercel_status tercel_engine_put_plan(tercel_engine_parts *parts, const tercel_plan *plan, tercel_error *err) {
  writer w = {.parts = parts};
  tercel_put_number(section(&w, TERCEL_SECTION_PLAN), plan->num_rows);
  const tercel_status status = put_graph(&w, plan, err);
  if (status == TERCEL_OK) join(&w);
  tercel_names_deinit(&w.names);
  tercel_text_deinit(&w.ops);
  tercel_text_deinit(&w.dims);
  tercel_text_deinit(&w.graph);
  tercel_text_deinit(&w.scratch);
  tercel_map_deinit(&w.op_numbers);
  tercel_map_deinit(&w.dim_numbers);
  return status;
}

/* ---- the rest ---- */

void tercel_engine_put_metadata(tercel_engine_parts *parts, const char *key, const char *value) {
  tercel_text *const out = &parts->sections[TERCEL_SECTION_METADATA];
  tercel_text_add_bytes(out, key, strlen(key) + 1);
  tercel_text_add_bytes(out, value, strlen(value) + 1);
}

void tercel_engine_put_profiles(tercel_engine_parts *parts, const tercel_profiles *profiles) {
  tercel_text *const out = &parts->sections[TERCEL_SECTION_PROFILES];
  tercel_put_number(out, profiles->count);
  if (profiles->count == 0) return;
  tercel_put_number(out, profiles->num_inputs);
  for (size_t i = 0; i < profiles->count * profiles->num_inputs; ++i) {
    const tercel_shape_range *const range = &profiles->ranges[i];
    tercel_put_signed(out, range->rank);
    for (int p = 0; p < TERCEL_NUM_PROFILE_POINTS; ++p)
      for (int d = 0; d < range->rank; ++d) tercel_put_number(out, (uint64_t)range->dims[p][d]);
  }
}

static void put_difference(tercel_text *out, const tercel_difference *d) {
  tercel_put_number(out, d->compared != 0);
  if (!d->compared) return;
  tercel_put_f64(out, d->error);
  tercel_put_f64(out, d->limit);
  tercel_put_f64(out, d->largest);
}

void tercel_engine_put_checks(tercel_engine_parts *parts, const tercel_verification *verification) {
  tercel_text *const out = &parts->sections[TERCEL_SECTION_CHECKS];
  tercel_put_number(out, verification->num_rows);
  for (uint32_t i = 0; i < verification->num_rows; ++i) {
    put_difference(out, &verification->rows[i].reference);
    put_difference(out, &verification->rows[i].file);
  }
}
