/* The graph of an engine file, read back: operators, dims, then graphs in graphs.  See engine_save.c for the order.
 *
 * Nothing is taken for granted: numbers are within bounds before they are used, and the graph that comes out is verified and
 * inferred as one that was imported. */
#include <string.h>

#include "plan/engine_file.h"

enum { MAX_DEPTH = 64 }; /* of graphs in graphs */

typedef struct reader {
  tercel_bytes in;
  const tercel_engine_file *file;
  const tercel_name_table *names;
  tercel_dtype *dtypes;  /* by name; COUNT: not looked up yet */
  const tercel_op **ops; /* by number */
  tercel_dim *dims;      /* by number */
  uint32_t num_ops, num_dims;
  int depth;
} reader;

#define BAD(err, ...) tercel_fail((err), TERCEL_INVALID_MODEL, __VA_ARGS__)

static tercel_status check(const reader *r, tercel_error *err) {
  return r->in.failed ? BAD(err, "section 'graph' ends too soon, or has a number out of range") : TERCEL_OK;
}

static const char *get_name(reader *r) { return tercel_get_name(&r->in, r->names); }

/* ---- tables ---- */

static tercel_status get_op(reader *r, tercel_operators *operators, const tercel_op **out, tercel_text *missing) {
  *out = NULL;
  if (tercel_get_below(&r->in, 1) == 0) {
    const char *const name = get_name(r);
    *out = tercel_op_find(tercel_ops(), name, strlen(name));
    if (*out == NULL) tercel_text_add(missing, "%s%s", missing->length > 0 ? ", " : "", name);
    return TERCEL_OK;
  }
  const char *const domain = get_name(r), *const name = get_name(r);
  const int64_t version = (int64_t)tercel_get_below(&r->in, INT32_MAX);
  const tercel_custom *const custom =
      operators == NULL ? NULL : tercel_operators_find(operators, domain, name, version, NULL);
  if (custom != NULL)
    *out = &custom->op;
  else
    tercel_text_add(missing, "%s%s%s%s of your own", missing->length > 0 ? ", " : "", domain, *domain ? "." : "", name);
  return TERCEL_OK;
}

static tercel_status get_ops(reader *r, tercel_operators *operators, tercel_error *err) {
  tercel_text missing = {0};
  tercel_status status = TERCEL_OK;
  r->num_ops = tercel_get_count(&r->in);
  r->ops = tercel_zalloc_array((size_t)r->num_ops + 1, sizeof *r->ops);
  if (r->ops == NULL) return tercel_fail_memory(err, r->num_ops * sizeof *r->ops, "an engine's operators");
  bool all_here = true;
  for (uint32_t i = 0; i < r->num_ops && !r->in.failed; ++i) {
    TERCEL_CHECK(get_op(r, operators, &r->ops[i], &missing));
    all_here &= r->ops[i] != NULL;
  }
  TERCEL_CHECK(check(r, err));
  if (!all_here)
    status = tercel_fail(err, TERCEL_UNSUPPORTED, "the engine needs operators that are not here: %s",
                         missing.data != NULL && missing.length > 0 ? missing.data : "one without a name");
done:
  tercel_text_deinit(&missing);
  return status;
}

static tercel_status get_dims(reader *r, tercel_dims *dims, tercel_error *err) {
  r->num_dims = tercel_get_count(&r->in);
  r->dims = tercel_alloc_array((size_t)r->num_dims + 1, sizeof *r->dims);
  if (r->dims == NULL) return tercel_fail_memory(err, r->num_dims * sizeof *r->dims, "an engine's dims");
  for (uint32_t i = 0; i < r->num_dims && !r->in.failed; ++i) {
    const char *text = get_name(r), *const end = text + strlen(text);
    if (!tercel_dim_parse(dims, &text, end, &r->dims[i]) || text != end)
      return BAD(err, "dim %u is no number, symbol or expression", i);
  }
  TERCEL_TRY(check(r, err));
  return tercel_dims_check(dims, err);
}

/* ---- types and attributes ---- */

static tercel_dtype get_dtype(reader *r) {
  const uint32_t number = (uint32_t)tercel_get_number(&r->in);
  if (r->in.failed || number >= r->names->count) {
    r->in.failed = true;
    return TERCEL_DTYPE_NONE;
  }
  tercel_dtype *const dtype = &r->dtypes[number];
  if (*dtype != TERCEL_DTYPE_COUNT) return *dtype;
  const char *const name = r->names->names[number];
  if (strcmp(name, tercel_dtype_name(TERCEL_DTYPE_NONE)) == 0)
    *dtype = TERCEL_DTYPE_NONE;
  else if (!tercel_dtype_parse(name, strlen(name), dtype))
    r->in.failed = true;
  return r->in.failed ? TERCEL_DTYPE_NONE : *dtype;
}

static tercel_dim get_dim(reader *r) {
  const uint64_t number = tercel_get_number(&r->in);
  if (!(number & 1)) return (tercel_dim)(number >> 1);
  if (number >> 1 < r->num_dims) return r->dims[number >> 1];
  r->in.failed = true;
  return 0;
}

static tercel_type get_type(reader *r) {
  tercel_type type = {0};
  const uint64_t kind = tercel_get_below(&r->in, (uint64_t)TERCEL_TYPE_MAP << 2 | 3);
  type.kind = (tercel_type_kind)(kind >> 2);
  type.state = kind & 2;
  type.optional_sequence = kind & 1;
  type.dtype = get_dtype(r);
  if (type.kind == TERCEL_TYPE_MAP) type.key = get_dtype(r);
  const int64_t rank = tercel_get_signed(&r->in);
  if (rank < -1 || rank > TERCEL_MAX_RANK) r->in.failed = true;
  type.shape.rank = r->in.failed ? -1 : (int)rank;
  for (int d = 0; d < type.shape.rank; ++d) type.shape.dims[d] = get_dim(r);
  return type;
}

static tercel_status get_program(reader *r, tercel_node *node, const char *name, tercel_error *err) {
  tercel_instr instrs[TERCEL_PROGRAM_MAX_INSTRS] = {{0}};
  tercel_program program = {.instrs = instrs};
  program.num_inputs = (int)tercel_get_below(&r->in, TERCEL_PROGRAM_MAX_INPUTS);
  program.num_instrs = (int)tercel_get_below(&r->in, TERCEL_PROGRAM_MAX_INSTRS);
  for (int i = 0; i < program.num_instrs && !r->in.failed; ++i) {
    const char *const fn_name = get_name(r);
    tercel_fn fn;
    if (!tercel_fn_parse(fn_name, strlen(fn_name), &fn))
      return tercel_fail(err, TERCEL_UNSUPPORTED, "node '%s' computes '%s', which this tercel has not", node->name,
                         fn_name);
    const tercel_fn_info *const info = tercel_fn_get_info(fn);
    instrs[i].fn = (uint8_t)fn;
    instrs[i].dtype = (uint8_t)get_dtype(r);
    for (int o = 0; o < info->arity; ++o) instrs[i].operands[o] = (uint16_t)tercel_get_below(&r->in, UINT16_MAX);
    for (int m = 0; m < info->num_immediates; ++m) instrs[i].immediates[m].f = tercel_get_f64(&r->in);
  }
  TERCEL_TRY(check(r, err));
  return tercel_node_set_program(node, name, &program, err);
}

/* Lists are read into the graph's arena, which then holds them twice; they are short. */
static tercel_status get_list(reader *r, tercel_node *node, const char *name, tercel_attr_kind kind,
                              tercel_error *err) {
  const uint32_t count = tercel_get_count(&r->in);
  union {
    int64_t *ints;
    double *floats;
    const char **strings;
    void *any;
  } list = {.any = tercel_arena_alloc_array(node->graph->arena, count, sizeof(int64_t))};
  if (list.any == NULL) return tercel_fail_memory(err, count * sizeof(int64_t), "a graph");
  for (uint32_t i = 0; i < count; ++i) {
    if (kind == TERCEL_ATTR_INTS)
      list.ints[i] = tercel_get_signed(&r->in);
    else if (kind == TERCEL_ATTR_FLOATS)
      list.floats[i] = tercel_get_f64(&r->in);
    else
      list.strings[i] = get_name(r);
  }
  TERCEL_TRY(check(r, err));
  if (kind == TERCEL_ATTR_INTS) return tercel_node_set_ints(node, name, list.ints, count, err);
  if (kind == TERCEL_ATTR_FLOATS) return tercel_node_set_floats(node, name, list.floats, count, err);
  return tercel_node_set_strings(node, name, list.strings, count, err);
}

static tercel_status get_attr(reader *r, tercel_node *node, tercel_error *err) {
  const char *const name = get_name(r);
  const tercel_attr_kind kind = (tercel_attr_kind)tercel_get_below(&r->in, TERCEL_ATTR_PROGRAM);
  TERCEL_TRY(check(r, err));
  switch (kind) {
  case TERCEL_ATTR_INT: return tercel_node_set_int(node, name, tercel_get_signed(&r->in), err);
  case TERCEL_ATTR_FLOAT: return tercel_node_set_float(node, name, tercel_get_f64(&r->in), err);
  case TERCEL_ATTR_STRING: return tercel_node_set_string(node, name, get_name(r), err);
  case TERCEL_ATTR_DTYPE: return tercel_node_set_dtype(node, name, get_dtype(r), err);
  case TERCEL_ATTR_PROGRAM: return get_program(r, node, name, err);
  default: return get_list(r, node, name, kind, err);
  }
}

/* ---- constants ---- */

/* Lengths, then characters; they stay where they are, in the file's copy. */
static tercel_status get_strings(const tercel_section_bytes *from, size_t offset, tercel_tensor *t,
                                 tercel_storage **storage, tercel_error *err) {
  tercel_bytes in = {from->data + offset, from->data + from->bytes, false};
  const int64_t count = tercel_tensor_num_elements(t);
  if (count > (int64_t)(from->bytes - offset)) return BAD(err, "there are fewer strings than the shape says");
  TERCEL_TRY(tercel_storage_create(t->bytes, storage, err));
  tercel_string *const strings = tercel_storage_data(*storage);
  t->data = strings;
  for (int64_t i = 0; i < count; ++i) strings[i].length = (size_t)tercel_get_below(&in, from->bytes);
  for (int64_t i = 0; i < count && !in.failed; ++i) {
    strings[i].data = (const char *)in.at;
    in.failed = strings[i].length > (size_t)(in.end - in.at);
    if (!in.failed) in.at += strings[i].length;
  }
  return in.failed ? BAD(err, "its strings end too soon") : TERCEL_OK;
}

/* Bytes of a section that the tensor's data are. */
static tercel_status find_data(reader *r, tercel_section section, tercel_tensor *t, size_t *offset_out,
                               tercel_error *err) {
  const tercel_section_bytes *const from = &r->file->sections[section];
  const uint64_t number = tercel_get_below(&r->in, from->bytes / TERCEL_ALIGNMENT);
  TERCEL_TRY(check(r, err));
  const size_t offset = (size_t)number * TERCEL_ALIGNMENT;
  const size_t bytes = t->dtype == TERCEL_DTYPE_STRING ? 0 : t->bytes;
  if (bytes > from->bytes - offset)
    return BAD(err, "its %zu bytes at %zu do not fit section '%s'", bytes, offset, tercel_section_name(section));
  if (from->data != NULL) t->data = (void *)(uintptr_t)(from->data + offset);
  *offset_out = offset;
  return TERCEL_OK;
}

/* Only what is never looked at may be missing: floats and bytes, many of them. */
static bool may_be_absent(const tercel_tensor *t) {
  return t->bytes > TERCEL_SMALL_CONSTANT &&
         (tercel_dtype_is_float(t->dtype) || t->dtype == TERCEL_DTYPE_I8 || t->dtype == TERCEL_DTYPE_U8);
}

static tercel_status place_constant(reader *r, tercel_tensor *t, tercel_storage **storage, tercel_error *err) {
  size_t offset;
  switch (tercel_get_below(&r->in, TERCEL_CONSTANT_PACKED)) {
  case TERCEL_CONSTANT_SMALL:
    TERCEL_TRY(find_data(r, TERCEL_SECTION_CONSTANTS, t, &offset, err));
    if (t->dtype == TERCEL_DTYPE_STRING)
      return get_strings(&r->file->sections[TERCEL_SECTION_CONSTANTS], offset, t, storage, err);
    *storage = tercel_storage_retain(r->file->copy);
    return TERCEL_OK;
  case TERCEL_CONSTANT_WEIGHT:
    if (!may_be_absent(t) && tercel_dtype_is_integer(t->dtype))
      return BAD(err, "it is of %s, which does not belong to the weights", tercel_dtype_name(t->dtype));
    if (t->dtype == TERCEL_DTYPE_STRING) return BAD(err, "strings do not belong to the weights");
    TERCEL_TRY(find_data(r, TERCEL_SECTION_WEIGHTS, t, &offset, err));
    *storage = tercel_storage_retain(r->file->file);
    return TERCEL_OK;
  default: return may_be_absent(t) ? TERCEL_OK : BAD(err, "it has no data");
  }
}

static tercel_status get_constant(reader *r, tercel_graph *graph, tercel_value **out, tercel_error *err) {
  const char *const name = get_name(r);
  tercel_tensor t = {0};
  int64_t dims[TERCEL_MAX_RANK];
  tercel_storage *storage = NULL;
  const tercel_dtype dtype = get_dtype(r);
  const int rank = (int)tercel_get_below(&r->in, TERCEL_MAX_RANK);
  for (int d = 0; d < rank; ++d) dims[d] = (int64_t)tercel_get_below(&r->in, INT64_MAX);
  TERCEL_TRY(check(r, err));
  if (dtype == TERCEL_DTYPE_NONE || !tercel_tensor_set_shape(&t, dtype, rank, dims))
    return BAD(err, "constant '%s': its type or size is impossible", name);
  tercel_status status = place_constant(r, &t, &storage, err);
  if (status != TERCEL_OK)
    tercel_fail_at(err, status, "constant '%s'", name);
  else
    status = tercel_graph_add_constant(graph, name, &t, storage, out, err);
  tercel_storage_release(storage);
  return status;
}

/* ---- graphs ---- */

/* Values of a graph in the order in which they come. */
typedef struct values {
  tercel_value **items;
  uint32_t count, capacity;
} values;

static tercel_status add_value(values *v, tercel_value *value, tercel_error *err) {
  if (v->count == v->capacity) {
    const uint32_t capacity = v->capacity > 0 ? 2 * v->capacity : 256;
    tercel_value **const items = tercel_realloc(v->items, v->capacity * sizeof(void *), capacity * sizeof(void *));
    if (items == NULL) return tercel_fail_memory(err, capacity * sizeof(void *), "a graph");
    v->items = items;
    v->capacity = capacity;
  }
  v->items[v->count++] = value;
  return TERCEL_OK;
}

static tercel_value *get_value(reader *r, const values *v) {
  const uint64_t number = tercel_get_below(&r->in, v->count);
  return number == 0 ? NULL : v->items[number - 1];
}

static tercel_status get_graph(reader *r, tercel_graph *graph, tercel_error *err);

static tercel_status get_outputs(reader *r, tercel_node *node, values *v, tercel_error *err) {
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    tercel_value *const value = node->outputs[i];
    if (tercel_get_below(&r->in, 1) == 0) {
      tercel_graph_remove_value(value);
      continue;
    }
    value->name = tercel_arena_strdup(node->graph->arena, get_name(r));
    if (value->name == NULL) return tercel_fail_memory(err, 1, "a graph");
    value->type = get_type(r);
    TERCEL_TRY(check(r, err));
    TERCEL_TRY(add_value(v, value, err));
  }
  return TERCEL_OK;
}

static tercel_status get_sources(reader *r, tercel_node *node, tercel_error *err) {
  const uint32_t count = tercel_get_count(&r->in);
  const char **const sources = tercel_arena_alloc_array(node->graph->arena, count, sizeof *sources);
  if (sources == NULL) return tercel_fail_memory(err, count * sizeof *sources, "a graph");
  for (uint32_t i = 0; i < count; ++i) {
    sources[i] = tercel_arena_strdup(node->graph->arena, get_name(r));
    if (sources[i] == NULL) return tercel_fail_memory(err, 1, "a graph");
  }
  node->sources = sources;
  node->num_sources = count;
  return check(r, err);
}

static tercel_status get_rest_of_node(reader *r, tercel_node *node, uint32_t num_captures, values *v,
                                      tercel_error *err) {
  node->num_captures = num_captures;
  TERCEL_TRY(get_outputs(r, node, v, err));
  const uint32_t num_attrs = tercel_get_count(&r->in);
  for (uint32_t i = 0; i < num_attrs; ++i) TERCEL_TRY(get_attr(r, node, err));
  TERCEL_TRY(get_sources(r, node, err));
  for (uint32_t i = 0; i < node->num_graphs; ++i) {
    tercel_graph *subgraph;
    TERCEL_TRY(tercel_graph_add_subgraph(node, i, "", &subgraph, err));
    TERCEL_TRY(get_graph(r, subgraph, err));
  }
  return TERCEL_OK;
}

static tercel_status get_node(reader *r, tercel_graph *graph, values *v, tercel_error *err) {
  const uint64_t op = tercel_get_number(&r->in);
  const char *const name = get_name(r);
  const uint32_t num_inputs = tercel_get_count(&r->in);
  if (op >= r->num_ops) r->in.failed = true;
  TERCEL_TRY(check(r, err));
  tercel_value **const inputs = tercel_alloc_array((size_t)num_inputs + 1, sizeof(void *));
  if (inputs == NULL) return tercel_fail_memory(err, num_inputs * sizeof(void *), "a graph");
  for (uint32_t i = 0; i < num_inputs; ++i) inputs[i] = get_value(r, v);
  const uint32_t num_captures = (uint32_t)tercel_get_below(&r->in, num_inputs), num_outputs = tercel_get_count(&r->in);
  tercel_node *node = NULL;
  tercel_status status = check(r, err);
  if (status == TERCEL_OK)
    status = tercel_graph_add_node(graph, r->ops[op], name, inputs, num_inputs, num_outputs, NULL, &node, err);
  tercel_free(inputs);
  return status == TERCEL_OK ? get_rest_of_node(r, node, num_captures, v, err) : status;
}

static tercel_status get_contents(reader *r, tercel_graph *graph, values *v, tercel_error *err) {
  tercel_value *value = NULL;
  const uint32_t num_inputs = tercel_get_count(&r->in);
  for (uint32_t i = 0; i < num_inputs; ++i) {
    const char *const name = get_name(r);
    const tercel_type type = get_type(r);
    TERCEL_TRY(check(r, err));
    TERCEL_TRY(tercel_graph_add_input(graph, name, &type, &value, err));
    TERCEL_TRY(add_value(v, value, err));
  }
  const uint32_t num_constants = tercel_get_count(&r->in);
  for (uint32_t i = 0; i < num_constants; ++i) {
    TERCEL_TRY(get_constant(r, graph, &value, err));
    TERCEL_TRY(add_value(v, value, err));
  }
  const uint32_t num_nodes = tercel_get_count(&r->in);
  for (uint32_t i = 0; i < num_nodes; ++i) TERCEL_TRY(get_node(r, graph, v, err));
  const uint32_t num_outputs = tercel_get_count(&r->in);
  for (uint32_t i = 0; i < num_outputs; ++i) {
    value = get_value(r, v);
    const char *const name = get_name(r);
    if (value == NULL) r->in.failed = true;
    TERCEL_TRY(check(r, err));
    TERCEL_TRY(tercel_graph_add_output(graph, value, name, err));
  }
  return check(r, err);
}

static tercel_status get_graph(reader *r, tercel_graph *graph, tercel_error *err) {
  values v = {0};
  if (r->depth == MAX_DEPTH) return BAD(err, "graphs are nested more than %d deep", MAX_DEPTH);
  ++r->depth;
  graph->name = tercel_arena_strdup(graph->arena, get_name(r));
  tercel_status status = graph->name == NULL ? tercel_fail_memory(err, 1, "a graph") : get_contents(r, graph, &v, err);
  --r->depth;
  tercel_free(v.items);
  return status;
}

static tercel_status read_all(reader *r, tercel_operators *operators, tercel_graph *graph, tercel_error *err) {
  r->dtypes = tercel_alloc_array((size_t)r->names->count + 1, sizeof *r->dtypes);
  if (r->dtypes == NULL) return tercel_fail_memory(err, r->names->count * sizeof *r->dtypes, "a graph");
  for (uint32_t i = 0; i < r->names->count; ++i) r->dtypes[i] = TERCEL_DTYPE_COUNT;
  TERCEL_TRY(get_ops(r, operators, err));
  TERCEL_TRY(get_dims(r, graph->dims, err));
  TERCEL_TRY(get_graph(r, graph, err));
  if (r->in.at != r->in.end) return BAD(err, "section 'graph' goes on behind the graph");
  TERCEL_TRY(tercel_graph_verify(graph, err));
  return tercel_infer_graph(graph, err);
}

tercel_status tercel_engine_get_graph(const tercel_engine_file *file, const tercel_name_table *names,
                                      tercel_operators *operators, tercel_graph **out, tercel_error *err) {
  const tercel_section_bytes *const section = &file->sections[TERCEL_SECTION_GRAPH];
  tercel_graph *graph = NULL;
  TERCEL_TRY(tercel_graph_create("", &graph, err));
  /* What a graph takes is some times what its bytes are; what inference adds is bounded, too. */
  graph->arena->max_bytes = ((size_t)64 << 20) + 256 * tercel_storage_size(file->copy);
  reader r = {.in = {section->data, section->data + section->bytes, false}, .file = file, .names = names};
  tercel_status status = read_all(&r, operators, graph, err);
  tercel_free(r.dtypes);
  tercel_free(r.ops);
  tercel_free(r.dims);
  graph->arena->max_bytes = 0;
  if (status == TERCEL_OK) {
    *out = graph;
    return TERCEL_OK;
  }
  tercel_graph_destroy(graph);
  /* A graph that contradicts itself was not made by tercel, whoever noticed it. */
  if (status == TERCEL_INTERNAL) status = TERCEL_INVALID_MODEL;
  if (err != NULL) err->status = status;
  return status;
}
