/* What builders work with: attributes of the node at hand, knowledge of values, new nodes and constants. */
#include "import/onnx/build.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tercel_onnx_fail(tercel_onnx_call *c, tercel_status status, const char *format, ...) {
  if (!tercel_onnx_ok(c)) return;
  char message[TERCEL_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  c->status = tercel_fail(c->err, status, "%s", message);
}

/* A failure of an attribute. */
static void blame_attr(tercel_onnx_call *c) {
  if (tercel_onnx_ok(c)) c->fault = TERCEL_PROBLEM_ATTRIBUTE;
}

/* Takes the status of a call that filled c->err. */
static bool check(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
  return tercel_onnx_ok(c);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static const tercel_onnx_attr *find_in(const tercel_onnx_attrs *attrs, const char *name) {
  for (size_t i = 0; i < attrs->count; i++)
    if (strcmp(attrs->items[i].name, name) == 0) return &attrs->items[i];
  return NULL;
}

/* An attribute of a function's node may stand for one of the call that is being inlined, and so on outwards. */
static const tercel_onnx_attr *resolve(const tercel_onnx_attr *attr, const tercel_onnx_frame *frame) {
  while (attr && attr->ref_name[0] && frame->function) {
    const tercel_onnx_attr *const given = find_in(&frame->call->attrs, attr->ref_name);
    if (!given) return find_in(&frame->function->attr_defaults, attr->ref_name);
    attr = given;
    frame = frame->caller;
  }
  return attr;
}

static const tercel_onnx_attr *find_attr(const tercel_onnx_call *c, const char *name, size_t *index) {
  for (size_t i = 0; i < c->node->attrs.count; i++)
    if (strcmp(c->node->attrs.items[i].name, name) == 0) {
      if (index) *index = i;
      return resolve(&c->node->attrs.items[i], c->scope->frame);
    }
  return NULL;
}

bool tercel_onnx_has_attr(const tercel_onnx_call *c, const char *name) { return find_attr(c, name, NULL) != NULL; }

void tercel_onnx_ignore_attr(tercel_onnx_call *c, const char *name) {
  size_t index = 0;
  if (find_attr(c, name, &index) && index < 64) c->attrs_read |= UINT64_C(1) << index;
}

int64_t tercel_onnx_times(tercel_onnx_call *c, int64_t a, int64_t b) {
  int64_t product = 0;
  if (tercel_onnx_ok(c) && !tercel_mul_i64(a, b, &product))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%" PRId64 " times %" PRId64 " elements", a, b);
  return product;
}

void tercel_onnx_need_attr(tercel_onnx_call *c, const char *name) {
  if (tercel_onnx_has_attr(c, name)) return;
  blame_attr(c);
  tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' is missing", name);
}

/* IR versions before 3 did not say the type: what is there tells. */
static bool has_type(const tercel_onnx_attr *attr, tercel_onnx_attr_type type) {
  static const uint8_t field[] = {
      [TERCEL_ONNX_FLOAT] = 2,      [TERCEL_ONNX_INT] = 3,     [TERCEL_ONNX_STRING] = 4,
      [TERCEL_ONNX_TENSOR] = 5,     [TERCEL_ONNX_GRAPH] = 6,   [TERCEL_ONNX_FLOATS] = 7,
      [TERCEL_ONNX_INTS] = 8,       [TERCEL_ONNX_STRINGS] = 9, [TERCEL_ONNX_SPARSE_TENSOR] = 22,
      [TERCEL_ONNX_TYPE_PROTO] = 14};
  if (attr->type != TERCEL_ONNX_UNDEFINED) return attr->type == (int64_t)type;
  const bool list = type == TERCEL_ONNX_FLOATS || type == TERCEL_ONNX_INTS || type == TERCEL_ONNX_STRINGS;
  return list || (attr->present >> field[type] & 1) != 0;
}

static const char *type_name(int64_t type) {
  static const char *const names[] = {"undefined",      "float", "int",     "string",  "tensor", "graph",
                                      "floats",         "ints",  "strings", "tensors", "graphs", "sparse tensor",
                                      "sparse tensors", "type",  "types"};
  return type >= 0 && (size_t)type < sizeof names / sizeof *names ? names[type] : "of unknown type";
}

const tercel_onnx_attr *tercel_onnx_get_attr(tercel_onnx_call *c, const char *name, tercel_onnx_attr_type type) {
  size_t index = 0;
  const tercel_onnx_attr *const attr = find_attr(c, name, &index);
  if (!attr || !tercel_onnx_ok(c)) return NULL;
  if (index < 64) c->attrs_read |= UINT64_C(1) << index;
  if (!has_type(attr, type)) {
    blame_attr(c);
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' is %s, want %s", name, type_name(attr->type),
                     type_name(type));
    return NULL;
  }
  return attr;
}

int64_t tercel_onnx_get_int(tercel_onnx_call *c, const char *name, int64_t fallback) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_INT);
  return attr ? attr->i : fallback;
}

bool tercel_onnx_get_flag(tercel_onnx_call *c, const char *name, bool fallback) {
  const int64_t value = tercel_onnx_get_int(c, name, fallback);
  if (value != 0 && value != 1)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' is %" PRId64 ", want 0 or 1", name, value);
  return value != 0;
}

double tercel_onnx_get_float(tercel_onnx_call *c, const char *name, double fallback) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_FLOAT);
  return attr ? (double)attr->f : fallback;
}

const char *tercel_onnx_get_text(tercel_onnx_call *c, const char *name, const char *fallback) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_STRING);
  if (!attr) return fallback;
  const char *const text = tercel_arena_strndup(&c->import->arena, attr->s.data ? attr->s.data : "", attr->s.length);
  if (!text) check(c, tercel_fail_memory(c->err, attr->s.length, name));
  return text ? text : fallback;
}

const int64_t *tercel_onnx_get_ints(tercel_onnx_call *c, const char *name, size_t *count) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_INTS);
  static const int64_t none[1];
  *count = attr ? attr->ints.count : 0;
  return !attr ? NULL : attr->ints.count > 0 ? attr->ints.items : none;
}

const float *tercel_onnx_get_floats(tercel_onnx_call *c, const char *name, size_t *count) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_FLOATS);
  static const float none[1];
  *count = attr ? attr->floats.count : 0;
  return !attr ? NULL : attr->floats.count > 0 ? attr->floats.items : none;
}

const tercel_onnx_graph *tercel_onnx_get_graph(tercel_onnx_call *c, const char *name) {
  tercel_onnx_need_attr(c, name);
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_GRAPH);
  if (attr && !attr->g) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' holds no graph", name);
  return attr ? attr->g : NULL;
}

tercel_dtype tercel_onnx_get_dtype(tercel_onnx_call *c, const char *name, tercel_dtype fallback) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_INT);
  if (!attr) return fallback;
  const tercel_dtype dtype = tercel_onnx_dtype(attr->i);
  if (dtype != TERCEL_DTYPE_NONE) return dtype;
  blame_attr(c);
  tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute '%s': element type %" PRId64 " is not supported", name, attr->i);
  return TERCEL_DTYPE_NONE;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

bool tercel_onnx_wants_output(const tercel_onnx_call *c, size_t i) {
  return i < c->num_outputs && c->node->outputs.items[i][0] != 0;
}

int tercel_onnx_rank(tercel_onnx_call *c, const tercel_value *value) {
  if (!tercel_onnx_ok(c) || !value) return 0;
  if (value->type.shape.rank >= 0) return value->type.shape.rank;
  tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "the rank of '%s' is not known before the run", value->name);
  return 0;
}

tercel_dtype tercel_onnx_dtype_of(const tercel_value *value) { return value ? value->type.dtype : TERCEL_DTYPE_NONE; }

int64_t tercel_onnx_dim_of(tercel_onnx_call *c, const tercel_value *value, int i) {
  const int rank = tercel_onnx_rank(c, value);
  if (i < 0) i += rank;
  if (!tercel_onnx_ok(c) || !value || i < 0 || i >= rank) return -1;
  const tercel_dim dim = value->type.shape.dims[i];
  return tercel_dim_is_known(dim) ? dim : -1;
}

bool tercel_onnx_known_ints(tercel_onnx_call *c, const tercel_value *value, int64_t *out, size_t capacity,
                            size_t *count) {
  if (!tercel_onnx_ok(c) || !value) return false;
  if (value->constant && tercel_dtype_is_integer(value->type.dtype)) {
    const int64_t n = tercel_tensor_num_elements(value->constant);
    if (n < 0 || (uint64_t)n > capacity) return false;
    for (int64_t i = 0; i < n; i++) out[i] = tercel_tensor_get_i64(value->constant, i);
    *count = (size_t)n;
    return true;
  }
  if (!value->contents || (uint64_t)value->num_contents > capacity) return false;
  for (int64_t i = 0; i < value->num_contents; i++)
    if (!tercel_dim_get_number(c->graph->dims, value->contents[i], &out[i])) return false;
  *count = (size_t)value->num_contents;
  return true;
}

bool tercel_onnx_known_scalar(const tercel_value *value, double *out) {
  if (!value || !value->constant || tercel_tensor_num_elements(value->constant) != 1) return false;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(value->type.dtype);
  if (kind == TERCEL_KIND_COMPLEX || kind == TERCEL_KIND_STRING) return false;
  *out = tercel_tensor_get_f64(value->constant, 0);
  return true;
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

tercel_value *tercel_onnx_i64s(tercel_onnx_call *c, const int64_t *values, size_t count) {
  tercel_value *value = NULL;
  if (tercel_onnx_ok(c)) check(c, tercel_graph_add_i64s(c->graph, c->name, values, count, false, &value, c->err));
  return value;
}

tercel_value *tercel_onnx_i64(tercel_onnx_call *c, int64_t value) { return tercel_onnx_i64s(c, &value, 1); }

tercel_value *tercel_onnx_scalar(tercel_onnx_call *c, tercel_dtype dtype, double number) {
  tercel_value *value = NULL;
  if (tercel_onnx_ok(c)) check(c, tercel_graph_add_scalar(c->graph, c->name, dtype, number, &value, c->err));
  return value;
}

tercel_value *tercel_onnx_scalar_like(tercel_onnx_call *c, const tercel_value *like, double number) {
  return tercel_onnx_scalar(c, tercel_onnx_dtype_of(like), number);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

tercel_node *tercel_onnx_begin_list(tercel_onnx_call *c, const tercel_op *op, size_t num_outputs,
                                    tercel_value *const *inputs, size_t num_inputs) {
  tercel_node *node = NULL;
  while (num_inputs > (size_t)op->min_inputs && !inputs[num_inputs - 1]) num_inputs--;
  if (tercel_onnx_ok(c))
    check(c, tercel_graph_add_node(c->graph, op, c->name, inputs, num_inputs, num_outputs, NULL, &node, c->err));
  return node;
}

void tercel_onnx_set_int(tercel_onnx_call *c, tercel_node *node, const char *name, int64_t value) {
  if (tercel_onnx_ok(c)) check(c, tercel_node_set_int(node, name, value, c->err));
}

void tercel_onnx_set_float(tercel_onnx_call *c, tercel_node *node, const char *name, double value) {
  if (tercel_onnx_ok(c)) check(c, tercel_node_set_float(node, name, value, c->err));
}

void tercel_onnx_set_text(tercel_onnx_call *c, tercel_node *node, const char *name, const char *value) {
  if (tercel_onnx_ok(c)) check(c, tercel_node_set_string(node, name, value, c->err));
}

void tercel_onnx_set_ints(tercel_onnx_call *c, tercel_node *node, const char *name, const int64_t *values,
                          size_t count) {
  if (tercel_onnx_ok(c)) check(c, tercel_node_set_ints(node, name, values, count, c->err));
}

void tercel_onnx_set_dtype(tercel_onnx_call *c, tercel_node *node, const char *name, tercel_dtype value) {
  if (tercel_onnx_ok(c)) check(c, tercel_node_set_dtype(node, name, value, c->err));
}

void tercel_onnx_copy_int(tercel_onnx_call *c, tercel_node *node, const char *name) {
  if (tercel_onnx_has_attr(c, name)) tercel_onnx_set_int(c, node, name, tercel_onnx_get_int(c, name, 0));
}

void tercel_onnx_copy_flag(tercel_onnx_call *c, tercel_node *node, const char *name) {
  if (tercel_onnx_has_attr(c, name)) tercel_onnx_set_int(c, node, name, tercel_onnx_get_flag(c, name, false));
}

void tercel_onnx_copy_float(tercel_onnx_call *c, tercel_node *node, const char *name) {
  if (tercel_onnx_has_attr(c, name)) tercel_onnx_set_float(c, node, name, tercel_onnx_get_float(c, name, 0));
}

void tercel_onnx_copy_ints(tercel_onnx_call *c, tercel_node *node, const char *name) {
  size_t count;
  const int64_t *const values = tercel_onnx_get_ints(c, name, &count);
  if (values) tercel_onnx_set_ints(c, node, name, values, count);
}

/* Inference's message begins with the node of our graph; the caller puts the file's own node there. */
static void drop_own_label(const tercel_node *node, tercel_error *err) {
  char label[256];
  const int length = snprintf(label, sizeof label, "%s '%s': ", node->op->name, node->name);
  if (length < 0 || (size_t)length >= sizeof label || strncmp(err->message, label, (size_t)length) != 0) return;
  memmove(err->message, err->message + length, strlen(err->message + length) + 1);
}

tercel_value *tercel_onnx_end(tercel_onnx_call *c, tercel_node *node) {
  if (!tercel_onnx_ok(c)) return NULL;
  if (!check(c, tercel_infer_node(node, c->err))) {
    drop_own_label(node, c->err);
    return NULL;
  }
  return tercel_node_output(node, 0);
}

tercel_value *tercel_onnx_shaped(tercel_onnx_call *c, tercel_value *value, const tercel_shape *shape) {
  if (!tercel_onnx_ok(c) || !value || shape->rank < 0) return value;
  tercel_shape *const own = &value->type.shape;
  tercel_dims *const dims = value->graph->dims;
  bool fits = own->rank < 0 || own->rank == shape->rank;
  for (int d = 0; fits && d < own->rank; d++)
    fits = !tercel_dim_is_known(own->dims[d]) || !tercel_dim_is_known(shape->dims[d]) || own->dims[d] == shape->dims[d];
  if (!fits) {
    tercel_text text = {0};
    tercel_shape_print(dims, own, &text);
    tercel_text_add(&text, ", want ");
    tercel_shape_print(dims, shape, &text);
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "operands that are larger than they may be make the result %s",
                     text.data ? text.data : "?");
    tercel_text_deinit(&text);
    return NULL;
  }
  if (own->rank < 0) *own = *shape;
  for (int d = 0; d < own->rank; d++) own->dims[d] = tercel_dim_better(dims, shape->dims[d], own->dims[d]);
  return value;
}

void tercel_onnx_return(tercel_onnx_call *c, size_t i, tercel_value *value) {
  if (tercel_onnx_ok(c) && i < c->num_outputs) c->outputs[i] = value;
}

void tercel_onnx_return_all(tercel_onnx_call *c, tercel_node *node) {
  tercel_onnx_end(c, node);
  for (size_t i = 0; tercel_onnx_ok(c) && i < c->num_outputs; i++)
    tercel_onnx_return(c, i, tercel_node_output(node, i));
}

/* ---- small expressions ------------------------------------------------------------------------------------------- */

static tercel_dtype result_dtype(const tercel_instr *instr, const tercel_dtype *operands) {
  switch (tercel_fn_get_info(instr->fn)->result) {
  case TERCEL_RESULT_SAME: return operands[0];
  case TERCEL_RESULT_BOOL: return TERCEL_DTYPE_BOOL;
  case TERCEL_RESULT_OWN: return instr->dtype;
  case TERCEL_RESULT_SECOND: return operands[1];
  }
  return TERCEL_DTYPE_NONE;
}

/* A pointwise node of one instruction. */
static tercel_value *pointwise(tercel_onnx_call *c, tercel_instr instr, tercel_value *const *operands, size_t count) {
  if (!tercel_onnx_ok(c)) return NULL;
  tercel_dtype dtypes[3] = {TERCEL_DTYPE_NONE};
  for (size_t i = 0; i < count; i++) {
    if (!operands[i]) {
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input %zu is absent", i);
      return NULL;
    }
    dtypes[i] = operands[i]->type.dtype;
    instr.operands[i] = (uint16_t)i;
  }
  instr.dtype = (uint8_t)result_dtype(&instr, dtypes);
  const tercel_program program = {(int)count, 1, &instr};
  tercel_node *const node = tercel_onnx_begin_list(c, &tercel_op_pointwise, 1, operands, count);
  if (tercel_onnx_ok(c)) check(c, tercel_node_set_program(node, "program", &program, c->err));
  return tercel_onnx_end(c, node);
}

tercel_value *tercel_onnx_fn1(tercel_onnx_call *c, tercel_fn fn, tercel_value *a) {
  return pointwise(c, (tercel_instr){.fn = (uint8_t)fn}, TERCEL_ONNX_VALUES(a));
}

tercel_value *tercel_onnx_fn2(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, tercel_value *b) {
  return pointwise(c, (tercel_instr){.fn = (uint8_t)fn}, TERCEL_ONNX_VALUES(a, b));
}

tercel_value *tercel_onnx_fn3(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, tercel_value *b, tercel_value *d) {
  return pointwise(c, (tercel_instr){.fn = (uint8_t)fn}, TERCEL_ONNX_VALUES(a, b, d));
}

tercel_value *tercel_onnx_fn_with(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, double p, double q) {
  tercel_instr instr = {.fn = (uint8_t)fn};
  const bool is_float = tercel_dtype_is_float(tercel_onnx_dtype_of(a)) && fn != TERCEL_FN_IS_INF;
  const double numbers[2] = {p, q};
  for (int i = 0; i < tercel_fn_get_info(fn)->num_immediates; i++) {
    if (is_float)
      instr.immediates[i].f = numbers[i];
    else
      instr.immediates[i].i = tercel_saturate_i64(numbers[i]);
  }
  return pointwise(c, instr, TERCEL_ONNX_VALUES(a));
}

tercel_value *tercel_onnx_fn_number(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, double number) {
  return tercel_onnx_fn2(c, fn, a, tercel_onnx_scalar_like(c, a, number));
}

tercel_value *tercel_onnx_cast_with(tercel_onnx_call *c, tercel_value *a, tercel_dtype dtype, bool saturate,
                                    char round) {
  if (tercel_onnx_dtype_of(a) == dtype) return a;
  const tercel_instr instr = {
      .fn = TERCEL_FN_CAST, .dtype = (uint8_t)dtype, .immediates = {{.i = saturate}, {.i = round}}};
  return pointwise(c, instr, TERCEL_ONNX_VALUES(a));
}

tercel_value *tercel_onnx_cast(tercel_onnx_call *c, tercel_value *a, tercel_dtype dtype) {
  return tercel_onnx_cast_with(c, a, dtype, true, 'u');
}

tercel_value *tercel_onnx_reduce(tercel_onnx_call *c, const char *kind, tercel_value *a, const int64_t *axes,
                                 size_t count, bool keepdims) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_reduce, 1, a);
  tercel_onnx_set_text(c, n, "kind", kind);
  tercel_onnx_set_ints(c, n, "axes", axes, count);
  tercel_onnx_set_int(c, n, "keepdims", keepdims);
  return tercel_onnx_end(c, n);
}

tercel_value *tercel_onnx_shape_of(tercel_onnx_call *c, tercel_value *a) {
  return tercel_onnx_op(c, &tercel_op_shape, a);
}

tercel_value *tercel_onnx_reshape(tercel_onnx_call *c, tercel_value *a, tercel_value *shape) {
  return tercel_onnx_op(c, &tercel_op_reshape, a, shape);
}

tercel_value *tercel_onnx_reshape_to(tercel_onnx_call *c, tercel_value *a, const int64_t *dims, size_t count) {
  return tercel_onnx_reshape(c, a, tercel_onnx_i64s(c, dims, count));
}

tercel_value *tercel_onnx_transpose(tercel_onnx_call *c, tercel_value *a, const int64_t *perm, size_t count) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_transpose, 1, a);
  tercel_onnx_set_ints(c, n, "perm", perm, count);
  return tercel_onnx_end(c, n);
}

tercel_value *tercel_onnx_unsqueeze(tercel_onnx_call *c, tercel_value *a, const int64_t *axes, size_t count) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_unsqueeze, 1, a);
  tercel_onnx_set_ints(c, n, "axes", axes, count);
  return tercel_onnx_end(c, n);
}

tercel_value *tercel_onnx_concat(tercel_onnx_call *c, tercel_value *const *values, size_t count, int64_t axis) {
  tercel_node *const n = tercel_onnx_begin_list(c, &tercel_op_concat, 1, values, count);
  tercel_onnx_set_int(c, n, "axis", axis);
  return tercel_onnx_end(c, n);
}

tercel_value *tercel_onnx_slice(tercel_onnx_call *c, tercel_value *a, int64_t axis, int64_t start, int64_t end) {
  return tercel_onnx_op(c, &tercel_op_slice, a, tercel_onnx_i64(c, start), tercel_onnx_i64(c, end),
                        tercel_onnx_i64(c, axis));
}

tercel_value *tercel_onnx_dim_value(tercel_onnx_call *c, tercel_value *a, int64_t i) {
  const int rank = tercel_onnx_rank(c, a);
  const int at = (int)(i < 0 ? i + rank : i);
  const int64_t known = tercel_onnx_dim_of(c, a, at);
  if (known >= 0) return tercel_onnx_i64(c, known);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_shape, 1, a);
  tercel_onnx_set_int(c, n, "start", at);
  tercel_onnx_set_int(c, n, "end", at + 1);
  return tercel_onnx_end(c, n);
}

tercel_value *tercel_onnx_fill(tercel_onnx_call *c, tercel_value *scalar, tercel_value *shape) {
  return tercel_onnx_op(c, &tercel_op_expand, scalar, shape);
}
