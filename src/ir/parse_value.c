/* Types, programs and attributes out of a text.  The grammar stands in print.c. */
#include <string.h>

#include "ir/reader.h"

tercel_status tercel_reader_dtype(tercel_reader *r, tercel_dtype *out) {
  const char *word;
  size_t length;
  tercel_reader_peek(r);
  const char *const start = r->at;
  TERCEL_TRY(tercel_reader_word(r, "a dtype", &word, &length));
  if (tercel_dtype_parse(word, length, out)) return TERCEL_OK;
  r->at = start;
  return tercel_reader_fail(r, "'%.*s' is no dtype", (int)(length < 64 ? length : 64), word);
}

static tercel_status read_shape(tercel_reader *r, tercel_shape *out) {
  TERCEL_TRY(tercel_reader_expect(r, "["));
  out->rank = -1;
  if (tercel_reader_accept(r, "*")) return tercel_reader_expect(r, "]");
  out->rank = 0;
  if (tercel_reader_accept(r, "]")) return TERCEL_OK;
  do {
    if (out->rank == TERCEL_MAX_RANK) return tercel_reader_fail(r, "a shape of more than %d dims", TERCEL_MAX_RANK);
    tercel_reader_peek(r);
    if (!tercel_dim_parse(r->graph->dims, &r->at, r->end, &out->dims[out->rank++]))
      return tercel_reader_fail(r, "want a dim: a number, a symbol or an expression of them");
  } while (tercel_reader_accept(r, ","));
  return tercel_reader_expect(r, "]");
}

/* Behind map: (key dtype: T). */
static tercel_status read_map(tercel_reader *r, tercel_type *out) {
  out->kind = TERCEL_TYPE_MAP;
  TERCEL_TRY(tercel_reader_expect(r, "("));
  TERCEL_TRY(tercel_reader_dtype(r, &out->key));
  TERCEL_TRY(tercel_reader_expect(r, ":"));
  TERCEL_TRY(tercel_reader_dtype(r, &out->dtype));
  TERCEL_TRY(read_shape(r, &out->shape));
  if (out->shape.rank == 0 || out->shape.rank > 2)
    return tercel_reader_fail(r, "a map's values of rank %d, want 1 or 2", out->shape.rank);
  return tercel_reader_expect(r, ")");
}

static tercel_status read_state(tercel_reader *r, tercel_type *out) {
  out->state = true;
  TERCEL_TRY(tercel_reader_expect(r, "("));
  TERCEL_TRY(tercel_reader_dtype(r, &out->dtype));
  TERCEL_TRY(read_shape(r, &out->shape));
  return tercel_reader_expect(r, ")");
}

/* state(T), seq(T) of a tensor, opt(T) of a tensor or of such a sequence, map(key: T). */
tercel_status tercel_reader_type(tercel_reader *r, tercel_type *out) {
  *out = (tercel_type){.shape.rank = -1};
  if (tercel_reader_accept_word(r, "map")) return read_map(r, out);
  if (tercel_reader_accept_word(r, "state")) return read_state(r, out);
  const bool optional = tercel_reader_accept_word(r, "opt");
  if (optional) TERCEL_TRY(tercel_reader_expect(r, "("));
  const bool sequence = tercel_reader_accept_word(r, "seq");
  if (sequence) TERCEL_TRY(tercel_reader_expect(r, "("));
  out->kind = optional ? TERCEL_TYPE_OPTIONAL : sequence ? TERCEL_TYPE_SEQUENCE : TERCEL_TYPE_TENSOR;
  out->optional_sequence = optional && sequence;
  TERCEL_TRY(tercel_reader_dtype(r, &out->dtype));
  TERCEL_TRY(read_shape(r, &out->shape));
  if (sequence) TERCEL_TRY(tercel_reader_expect(r, ")"));
  return optional ? tercel_reader_expect(r, ")") : TERCEL_OK;
}

/* ---- programs ---- */

static tercel_status read_immediates(tercel_reader *r, const tercel_fn_info *info, tercel_instr *instr) {
  const bool floats = tercel_instr_has_float_immediates((tercel_fn)instr->fn, (tercel_dtype)instr->dtype);
  for (int i = 0; i < info->num_immediates; i++) {
    TERCEL_TRY(tercel_reader_expect(r, i ? "," : "<"));
    if (floats)
      TERCEL_TRY(tercel_reader_f64(r, &instr->immediates[i].f));
    else
      TERCEL_TRY(tercel_reader_i64(r, &instr->immediates[i].i));
  }
  return info->num_immediates ? tercel_reader_expect(r, ">") : TERCEL_OK;
}

static tercel_status read_instr(tercel_reader *r, tercel_instr *instr) {
  const char *word;
  size_t length;
  tercel_fn fn;
  tercel_dtype dtype;
  tercel_reader_peek(r);
  const char *const start = r->at;
  TERCEL_TRY(tercel_reader_word(r, "a function", &word, &length));
  if (!tercel_fn_parse(word, length, &fn)) {
    r->at = start;
    return tercel_reader_fail(r, "'%.*s' is no pointwise function", (int)(length < 64 ? length : 64), word);
  }
  const tercel_fn_info *const info = tercel_fn_get_info(fn);
  dtype = tercel_instr_default_dtype(fn);
  if (tercel_reader_accept(r, ":")) TERCEL_TRY(tercel_reader_dtype(r, &dtype));
  *instr = (tercel_instr){.fn = (uint8_t)fn, .dtype = (uint8_t)dtype};
  TERCEL_TRY(read_immediates(r, info, instr));
  TERCEL_TRY(tercel_reader_expect(r, "("));
  for (int j = 0; j < info->arity; j++) {
    uint32_t operand;
    TERCEL_TRY(tercel_reader_expect(r, j ? "," : "%"));
    if (j) TERCEL_TRY(tercel_reader_expect(r, "%"));
    TERCEL_TRY(tercel_reader_count(r, "a register", UINT16_MAX, &operand));
    instr->operands[j] = (uint16_t)operand;
  }
  return tercel_reader_expect(r, ")");
}

static tercel_status read_program(tercel_reader *r, tercel_node *node, const char *name) {
  tercel_instr instrs[TERCEL_PROGRAM_MAX_INSTRS];
  tercel_program program = {.instrs = instrs};
  uint32_t num_inputs;
  TERCEL_TRY(tercel_reader_expect(r, "{"));
  TERCEL_TRY(tercel_reader_count(r, "inputs of a program", TERCEL_PROGRAM_MAX_INPUTS, &num_inputs));
  program.num_inputs = (int)num_inputs;
  TERCEL_TRY(tercel_reader_expect(r, ":"));
  do {
    if (program.num_instrs == TERCEL_PROGRAM_MAX_INSTRS)
      return tercel_reader_fail(r, "a program of more than %d instructions", TERCEL_PROGRAM_MAX_INSTRS);
    TERCEL_TRY(read_instr(r, &instrs[program.num_instrs++]));
  } while (tercel_reader_accept(r, ";"));
  TERCEL_TRY(tercel_reader_expect(r, "}"));
  return tercel_node_set_program(node, name, &program, r->err);
}

/* ---- attributes ---- */

typedef union item {
  int64_t i;
  double f;
  const char *s;
} item;

static tercel_status read_item(tercel_reader *r, tercel_attr_kind kind, item *out) {
  if (kind == TERCEL_ATTR_INTS) return tercel_reader_i64(r, &out->i);
  if (kind == TERCEL_ATTR_FLOATS) return tercel_reader_f64(r, &out->f);
  return tercel_reader_string(r, &out->s);
}

static tercel_status set_list(tercel_node *node, const tercel_attr_spec *spec, const void *items, size_t count,
                              tercel_error *err) {
  if (spec->kind == TERCEL_ATTR_INTS) return tercel_node_set_ints(node, spec->name, items, count, err);
  if (spec->kind == TERCEL_ATTR_FLOATS) return tercel_node_set_floats(node, spec->name, items, count, err);
  return tercel_node_set_strings(node, spec->name, items, count, err);
}

static tercel_status read_list(tercel_reader *r, tercel_node *node, const tercel_attr_spec *spec) {
  item *items = NULL;
  size_t count = 0;
  _Static_assert(sizeof(item) == sizeof(int64_t) && sizeof(item) == sizeof(double), "items are read as a plain array");
  TERCEL_TRY(tercel_reader_expect(r, "["));
  if (!tercel_reader_accept(r, "]")) {
    do {
      void *grown = items;
      TERCEL_TRY(tercel_reader_grow(r, &grown, count, sizeof *items));
      items = grown;
      TERCEL_TRY(read_item(r, spec->kind, &items[count++]));
    } while (tercel_reader_accept(r, ","));
    TERCEL_TRY(tercel_reader_expect(r, "]"));
  }
  return set_list(node, spec, items ? items : &(item){0}, count, r->err);
}

static tercel_status read_value(tercel_reader *r, tercel_node *node, const tercel_attr_spec *spec) {
  int64_t i;
  double f;
  const char *s;
  tercel_dtype dtype;
  switch (spec->kind) {
  case TERCEL_ATTR_INT: TERCEL_TRY(tercel_reader_i64(r, &i)); return tercel_node_set_int(node, spec->name, i, r->err);
  case TERCEL_ATTR_FLOAT:
    TERCEL_TRY(tercel_reader_f64(r, &f));
    return tercel_node_set_float(node, spec->name, f, r->err);
  case TERCEL_ATTR_STRING:
    TERCEL_TRY(tercel_reader_string(r, &s));
    return tercel_node_set_string(node, spec->name, s, r->err);
  case TERCEL_ATTR_DTYPE:
    TERCEL_TRY(tercel_reader_dtype(r, &dtype));
    return tercel_node_set_dtype(node, spec->name, dtype, r->err);
  case TERCEL_ATTR_PROGRAM: return read_program(r, node, spec->name);
  case TERCEL_ATTR_INTS:
  case TERCEL_ATTR_FLOATS:
  case TERCEL_ATTR_STRINGS: break;
  }
  return read_list(r, node, spec);
}

tercel_status tercel_reader_attr(tercel_reader *r, tercel_node *node) {
  const char *word;
  size_t length;
  tercel_reader_peek(r);
  const char *const start = r->at;
  TERCEL_TRY(tercel_reader_word(r, "the name of an attribute", &word, &length));
  for (const tercel_attr_spec *spec = node->op->attrs; spec && spec->name; spec++) {
    if (strlen(spec->name) != length || memcmp(spec->name, word, length) != 0) continue;
    TERCEL_TRY(tercel_reader_expect(r, "="));
    return read_value(r, node, spec);
  }
  r->at = start;
  return tercel_reader_fail(r, "%s has no attribute '%.*s'", node->op->name, (int)(length < 64 ? length : 64), word);
}
