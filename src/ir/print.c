/* Graphs as text.  parse.c reads it back; the two share this grammar (blanks and "# comments" may stand between any
 * two words):
 *
 *     graph    = "graph" string "(" [param {"," param}] ")" "{" {constant | node} "return" [result {"," result}] "}"
 *     param    = value ":" type
 *     constant = value ":" type "=" "constant" data
 *     node     = out {"," out} "=" operator "(" [in {"," in}] ")" ["captures" number] ["{" attr {"," attr} "}"]
 *                ["named" string] ["from" string {"," string}] ["do" "{" {graph} "}"]
 *     operator = name | string
 *     out      = "_" | value [":" type]          in = "_" | value          result = value ["as" string]
 *     value    = "%" (name | string)             "_": absent
 *     type     = dtype shape | "seq" "(" type ")" | "opt" "(" type ")" | "state" "(" dtype shape ")"
 *     shape    = "[" "*" "]" | "[" [dim {"," dim}] "]"                     dims: dim_text.c
 *     attr     = name "=" (number | string | dtype | program | "[" items "]")   as the schema says
 *     data     = "data" "(" elements ")" | "hex" "(" digits ")" | "fill" "(" element ")"
 *              | "zeros" "(" ")" | "ramp" "(" ")" | "hidden" "(" ")"                large data that was left out; can't be read back
 *     program  = "{" number ":" instr {";" instr} "}"                      number: of inputs
 *     instr    = function [":" dtype] ["<" immediates ">"] "(" ["%" register {"," "%" register}] ")"
 *
 * A node without "named" is called as its first output, one without "from" has its own name as its source.  An
 * instruction without a dtype has bool where the function gives bool, else f32.  ramp: element i is i mod 13 - 6,
 * divided by 8 for floats, i mod 13 for unsigned types, i mod 2 for bool. */
#include <string.h>

#include "ir/graph_text.h"
#include "ir/name.h"

typedef struct printer {
  tercel_text *out;
  bool all_data;
  int indent;
} printer;

static void print_graph(const printer *p, const tercel_graph *graph, tercel_error *err, tercel_status *status);

static void new_line(const printer *p) { tercel_text_add(p->out, "\n%*s", p->indent, ""); }

static void print_string(const char *text, tercel_text *out) { tercel_text_add_json(out, text, strlen(text)); }

/* ---- types and programs ---- */

void tercel_type_print(const tercel_dims *dims, const tercel_type *type, tercel_text *out) {
  const char *const open = type->kind == TERCEL_TYPE_SEQUENCE ? "seq("
                           : type->kind == TERCEL_TYPE_MAP    ? "map("
                           : type->state                      ? "state("
                           : type->kind == TERCEL_TYPE_TENSOR ? ""
                           : type->optional_sequence          ? "opt(seq("
                                                              : "opt(";
  tercel_text_add(out, "%s", open);
  if (type->kind == TERCEL_TYPE_MAP) tercel_text_add(out, "%s: ", tercel_dtype_name(type->key));
  tercel_text_add(out, "%s", tercel_dtype_name(type->dtype));
  tercel_shape_print(dims, &type->shape, out);
  for (const char *c = open; *c; c++)
    if (*c == '(') tercel_text_add(out, ")");
}

static bool is_unknown(const tercel_type *type) {
  return type->kind == TERCEL_TYPE_TENSOR && type->dtype == TERCEL_DTYPE_NONE && type->shape.rank < 0;
}

tercel_dtype tercel_instr_default_dtype(tercel_fn fn) {
  return tercel_fn_get_info(fn)->result == TERCEL_RESULT_BOOL ? TERCEL_DTYPE_BOOL : TERCEL_DTYPE_F32;
}

bool tercel_instr_has_float_immediates(tercel_fn fn, tercel_dtype dtype) {
  return tercel_dtype_is_float(dtype) && fn != TERCEL_FN_CAST;
}

static void print_instr(const tercel_instr *instr, tercel_text *out) {
  const tercel_fn fn = (tercel_fn)instr->fn;
  const tercel_dtype dtype = (tercel_dtype)instr->dtype;
  const tercel_fn_info *const info = tercel_fn_get_info(fn);
  tercel_text_add(out, "%s", info->name);
  if (dtype != tercel_instr_default_dtype(fn)) tercel_text_add(out, ":%s", tercel_dtype_name(dtype));
  for (int i = 0; i < info->num_immediates; i++) {
    tercel_text_add(out, i ? ", " : "<");
    if (tercel_instr_has_float_immediates(fn, dtype))
      tercel_text_add_f64(out, instr->immediates[i].f);
    else
      tercel_text_add(out, "%lld", (long long)instr->immediates[i].i);
  }
  tercel_text_add(out, info->num_immediates ? ">(" : "(");
  for (int j = 0; j < info->arity; j++) tercel_text_add(out, "%s%%%d", j ? ", " : "", instr->operands[j]);
  tercel_text_add(out, ")");
}

void tercel_program_print(const tercel_program *program, tercel_text *out) {
  tercel_text_add(out, "{%d: ", program->num_inputs);
  for (int k = 0; k < program->num_instrs; k++) {
    if (k) tercel_text_add(out, "; ");
    print_instr(&program->instrs[k], out);
  }
  tercel_text_add(out, "}");
}

/* ---- attributes ---- */

void tercel_attr_print(const tercel_attr *a, tercel_text *out) {
  tercel_text_add(out, "%s = ", a->name);
  switch (a->kind) {
  case TERCEL_ATTR_INT: tercel_text_add(out, "%lld", (long long)a->value.i); return;
  case TERCEL_ATTR_FLOAT: tercel_text_add_f64(out, a->value.f); return;
  case TERCEL_ATTR_STRING: print_string(a->value.s, out); return;
  case TERCEL_ATTR_DTYPE: tercel_text_add(out, "%s", tercel_dtype_name(a->value.dtype)); return;
  case TERCEL_ATTR_PROGRAM: tercel_program_print(a->value.program, out); return;
  case TERCEL_ATTR_INTS:
  case TERCEL_ATTR_FLOATS:
  case TERCEL_ATTR_STRINGS: break;
  }
  tercel_text_add(out, "[");
  for (size_t i = 0; i < a->count; i++) {
    if (i) tercel_text_add(out, ", ");
    if (a->kind == TERCEL_ATTR_INTS) tercel_text_add(out, "%lld", (long long)a->value.ints[i]);
    if (a->kind == TERCEL_ATTR_FLOATS) tercel_text_add_f64(out, a->value.floats[i]);
    if (a->kind == TERCEL_ATTR_STRINGS) print_string(a->value.strings[i], out);
  }
  tercel_text_add(out, "]");
}

/* ---- data ---- */

void tercel_ramp_element(void *data, tercel_dtype dtype, int64_t i) {
  switch (tercel_dtype_get_kind(dtype)) {
  case TERCEL_KIND_FLOAT: tercel_element_set_f64(data, dtype, i, (double)(i % 13 - 6) / 8); return;
  case TERCEL_KIND_INT: tercel_element_set_i64(data, dtype, i, i % 13 - 6); return;
  case TERCEL_KIND_UINT: tercel_element_set_i64(data, dtype, i, i % 13); return;
  case TERCEL_KIND_BOOL: tercel_element_set_i64(data, dtype, i, i % 2); return;
  default: return;
  }
}

static void print_element(const tercel_tensor *t, int64_t i, tercel_text *out) {
  switch (tercel_dtype_get_kind(t->dtype)) {
  case TERCEL_KIND_FLOAT:
    if (t->dtype == TERCEL_DTYPE_F32)
      tercel_text_add_f32(out, (float)tercel_tensor_get_f64(t, i));
    else
      tercel_text_add_f64(out, tercel_tensor_get_f64(t, i));
    return;
  case TERCEL_KIND_UINT: tercel_text_add(out, "%llu", (unsigned long long)tercel_tensor_get_i64(t, i)); return;
  case TERCEL_KIND_STRING: {
    const tercel_string *const s = (const tercel_string *)t->data + i;
    tercel_text_add_json(out, s->data, s->length);
    return;
  }
  case TERCEL_KIND_COMPLEX: {
    const tercel_dtype part = t->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
    tercel_text_add_f64(out, tercel_element_get_f64(t->data, part, 2 * i));
    tercel_text_add(out, ", ");
    tercel_text_add_f64(out, tercel_element_get_f64(t->data, part, 2 * i + 1));
    return;
  }
  default: tercel_text_add(out, "%lld", (long long)tercel_tensor_get_i64(t, i)); return;
  }
}

static void print_elements(const tercel_tensor *t, int64_t count, tercel_text *out) {
  tercel_text_add(out, "data(");
  for (int64_t i = 0; i < count; i++) {
    if (i) tercel_text_add(out, ", ");
    print_element(t, i, out);
  }
  tercel_text_add(out, ")");
}

/* bytes: of the elements; the tensor's memory may be larger. */
static void print_hex(const tercel_tensor *t, size_t bytes, tercel_text *out) {
  static const char digits[] = "0123456789abcdef";
  tercel_text_add(out, "hex(");
  for (size_t i = 0; i < bytes; i++) {
    const uint8_t byte = ((const uint8_t *)t->data)[i];
    tercel_text_add_bytes(out, (const char[]){digits[byte >> 4], digits[byte & 15]}, 2);
  }
  tercel_text_add(out, ")");
}

/* All elements have the same bits, which are whole bytes. */
static bool is_uniform(const tercel_tensor *t, size_t bytes) {
  const size_t element = (size_t)tercel_dtype_bits(t->dtype) / 8;
  return element && memcmp(t->data, (const uint8_t *)t->data + element, bytes - element) == 0;
}

static bool is_zero(const tercel_tensor *t) {
  static const uint8_t zeros[16];
  return memcmp(t->data, zeros, (size_t)tercel_dtype_bits(t->dtype) / 8) == 0;
}

static bool is_ramp(const tercel_tensor *t, int64_t count) {
  const int bits = tercel_dtype_bits(t->dtype);
  if (bits < 8 || tercel_dtype_get_kind(t->dtype) == TERCEL_KIND_COMPLEX) return false;
  uint8_t element[16 * 13] = {0};
  const size_t bytes = (size_t)bits / 8;
  for (int64_t i = 0; i < count; i++) {
    tercel_ramp_element(element, t->dtype, i % 26);
    if (memcmp(element + (size_t)(i % 26) * bytes, (const uint8_t *)t->data + (size_t)i * bytes, bytes) != 0)
      return false;
  }
  return true;
}

/* Numbers that have bits of their own, one after the other. */
static bool is_plain(const tercel_tensor *t) {
  return tercel_dtype_bits(t->dtype) > 0 && t->dtype != TERCEL_DTYPE_STRING;
}

static void print_data(const printer *p, const tercel_tensor *t) {
  enum { MAX_INLINE = 16 };
  const int64_t count = tercel_tensor_num_elements(t);
  const bool is_text = t->dtype == TERCEL_DTYPE_STRING;
  size_t bytes = 0;
  tercel_dtype_size(t->dtype, count, &bytes);
  const bool packed = t->data == NULL && bytes > 0; /* by a kernel */
  if (!packed && (is_plain(t) || is_text) && (count <= MAX_INLINE || (is_text && p->all_data))) {
    print_elements(t, count, p->out);
  } else if (!packed && is_plain(t) && is_uniform(t, bytes)) {
    tercel_text_add(p->out, is_zero(t) ? "zeros(" : "fill(");
    if (!is_zero(t)) print_element(t, 0, p->out);
    tercel_text_add(p->out, ")");
  } else if (!packed && is_plain(t) && is_ramp(t, count)) {
    tercel_text_add(p->out, "ramp()");
  } else if (!packed && !is_text && p->all_data) {
    print_hex(t, bytes, p->out);
  } else {
    tercel_text_add(p->out, "hidden()");
  }
}

/* ---- values ---- */

/* The names that values have in the text, by id: their own, made unique. */
typedef struct names {
  const char **of;
  bool *is_printed; /* constants */
  tercel_map used;
  tercel_arena arena;
} names;

static void names_deinit(names *n) {
  tercel_free(n->of);
  tercel_free(n->is_printed);
  tercel_map_deinit(&n->used);
  tercel_arena_deinit(&n->arena);
}

static tercel_status name_value(names *n, const tercel_value *value, tercel_error *err) {
  const char *name = value->name;
  bool is_used = true;
  tercel_map_get(&n->used, name, &is_used);
  for (unsigned suffix = 1; is_used; suffix++) {
    name = tercel_arena_printf(&n->arena, "%s.%u", value->name, suffix);
    if (!name) return tercel_fail_memory(err, strlen(value->name) + 12, "printing a graph");
    tercel_map_get(&n->used, name, &is_used);
  }
  n->of[value->id] = name;
  return tercel_map_set(&n->used, name, n, err);
}

static tercel_status names_init(names *n, const tercel_graph *graph, tercel_error *err) {
  *n = (names){0};
  n->of = tercel_zalloc_array((size_t)graph->num_values + 1, sizeof *n->of);
  n->is_printed = tercel_zalloc((size_t)graph->num_values + 1);
  if (!n->of || !n->is_printed) return tercel_fail_memory(err, graph->num_values * sizeof *n->of, "printing a graph");
  for (uint32_t i = 0; i < graph->num_values; i++)
    if (graph->values[i]) TERCEL_TRY(name_value(n, graph->values[i], err));
  return TERCEL_OK;
}

static void print_value(const names *n, const tercel_value *value, tercel_text *out) {
  tercel_text_add(out, value ? "%%" : "_");
  if (value) tercel_name_print(n->of[value->id], TERCEL_VALUE_NAME_CHARS, out);
}

static void print_typed(const names *n, const tercel_value *value, tercel_text *out) {
  print_value(n, value, out);
  if (!value || is_unknown(&value->type)) return;
  tercel_text_add(out, ": ");
  tercel_type_print(value->graph->dims, &value->type, out);
}

static void print_constant(const printer *p, names *n, const tercel_value *value) {
  if (!value || !value->constant || n->is_printed[value->id]) return;
  n->is_printed[value->id] = true;
  new_line(p);
  print_typed(n, value, p->out);
  tercel_text_add(p->out, " = constant ");
  print_data(p, value->constant);
}

/* ---- nodes ---- */

static const tercel_value *first_output(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) return node->outputs[i];
  return NULL;
}

static void print_origin(const tercel_node *node, const names *n, tercel_text *out) {
  const tercel_value *const output = first_output(node);
  if (!output || strcmp(n->of[output->id], node->name) != 0) {
    tercel_text_add(out, " named ");
    print_string(node->name, out);
  }
  if (node->num_sources == 1 && strcmp(node->sources[0], node->name) == 0) return;
  for (uint32_t i = 0; i < node->num_sources; i++) {
    tercel_text_add(out, i ? ", " : " from ");
    print_string(node->sources[i], out);
  }
}

static void print_subgraphs(const printer *p, const tercel_node *node, tercel_error *err, tercel_status *status) {
  if (node->num_graphs == 0) return;
  const printer inner = {p->out, p->all_data, p->indent + 2};
  tercel_text_add(p->out, " do {");
  for (uint32_t i = 0; i < node->num_graphs && *status == TERCEL_OK; i++) {
    new_line(&inner);
    print_graph(&inner, node->graphs[i], err, status);
  }
  new_line(p);
  tercel_text_add(p->out, "}");
}

static void print_node(const printer *p, const tercel_node *node, const names *n, tercel_error *err,
                       tercel_status *status) {
  new_line(p);
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (i) tercel_text_add(p->out, ", ");
    print_typed(n, node->outputs[i], p->out);
  }
  tercel_text_add(p->out, " = ");
  tercel_name_print(node->op->name, "", p->out);
  tercel_text_add(p->out, "(");
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    if (i) tercel_text_add(p->out, ", ");
    print_value(n, node->inputs[i], p->out);
  }
  tercel_text_add(p->out, ")");
  if (node->num_captures) tercel_text_add(p->out, " captures %u", node->num_captures);
  for (uint32_t i = 0; i < node->num_attrs; i++) {
    tercel_text_add(p->out, i ? ", " : " {");
    tercel_attr_print(&node->attrs[i], p->out);
  }
  if (node->num_attrs) tercel_text_add(p->out, "}");
  print_origin(node, n, p->out);
  print_subgraphs(p, node, err, status);
}

/* ---- graphs ---- */

/* Constants stand before the first node that reads them; those that none does, before the end. */
static void print_body(const printer *p, const tercel_graph *graph, names *n, tercel_error *err,
                       tercel_status *status) {
  for (const tercel_node *node = graph->first; node && *status == TERCEL_OK; node = node->next) {
    for (uint32_t i = 0; i < node->num_inputs; i++) print_constant(p, n, node->inputs[i]);
    print_node(p, node, n, err, status);
  }
  for (uint32_t i = 0; i < graph->num_values; i++) print_constant(p, n, graph->values[i]);
  new_line(p);
  tercel_text_add(p->out, "return");
  for (uint32_t i = 0; i < graph->num_outputs; i++) {
    const tercel_value *const output = graph->outputs[i];
    tercel_text_add(p->out, i ? ", " : " ");
    print_value(n, output, p->out);
    if (strcmp(n->of[output->id], graph->output_names[i]) == 0) continue;
    tercel_text_add(p->out, " as ");
    print_string(graph->output_names[i], p->out);
  }
}

static void print_graph(const printer *p, const tercel_graph *graph, tercel_error *err, tercel_status *status) {
  names n;
  const printer inner = {p->out, p->all_data, p->indent + 2};
  *status = names_init(&n, graph, err);
  if (*status == TERCEL_OK) {
    tercel_text_add(p->out, "graph ");
    print_string(graph->name, p->out);
    tercel_text_add(p->out, " (");
    for (uint32_t i = 0; i < graph->num_inputs; i++) {
      if (i) tercel_text_add(p->out, ", ");
      print_typed(&n, graph->inputs[i], p->out);
    }
    tercel_text_add(p->out, ") {");
    print_body(&inner, graph, &n, err, status);
    new_line(p);
    tercel_text_add(p->out, "}");
  }
  names_deinit(&n);
}

tercel_status tercel_graph_print(const tercel_graph *graph, const tercel_text_options *options, tercel_text *out,
                                 tercel_error *err) {
  tercel_status status = TERCEL_OK;
  print_graph(&(printer){.out = out, .all_data = options && options->all_data}, graph, err, &status);
  tercel_text_add(out, "\n");
  if (status == TERCEL_OK && out->failed)
    status = tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a graph's text");
  return status;
}
