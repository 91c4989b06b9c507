/* What architectures are written with: metadata, weights, nodes. */
#include "import/gguf/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 128 };

typedef struct text {
  char data[MAX_NAME];
} text;

static text format_name(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
static text format_name(const char *format, va_list args) {
  text out;
  vsnprintf(out.data, sizeof out.data, format, args);
  return out;
}

void *tercel_gguf_failed(tercel_gguf_builder *b, tercel_status status, const char *format, ...) {
  if (b->status != TERCEL_OK) return NULL;
  va_list args;
  char message[512];
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  b->status = tercel_fail(b->err, status, "%s", message);
  return NULL;
}

/* Is everything well?  Otherwise a later call is not made at all. */
static bool passed(tercel_gguf_builder *b, tercel_status status) {
  if (b->status == TERCEL_OK) b->status = status;
  return b->status == TERCEL_OK;
}

/* ---- metadata ---- */

static const tercel_gguf_value *find(const tercel_gguf_builder *b, const char *key) {
  char whole[MAX_NAME];
  snprintf(whole, sizeof whole, "%s.%s", b->architecture, key);
  return tercel_gguf_find(b->gguf, whole);
}

int64_t tercel_gguf_layer_int(tercel_gguf_builder *b, const char *key, int64_t layer, int64_t otherwise) {
  const tercel_gguf_value *const value = find(b, key);
  int64_t out = otherwise;
  if (value == NULL) return otherwise;
  if (!tercel_gguf_get_i64(value, value->type == TERCEL_GGUF_ARRAY ? (uint64_t)layer : 0, &out))
    tercel_gguf_failed(b, TERCEL_INVALID_MODEL, "key '%s.%s' has no integer for layer %lld", b->architecture, key,
                       (long long)layer);
  return out;
}

int64_t tercel_gguf_int(tercel_gguf_builder *b, const char *key, int64_t otherwise) {
  return tercel_gguf_layer_int(b, key, 0, otherwise);
}

double tercel_gguf_float(tercel_gguf_builder *b, const char *key, double otherwise) {
  const tercel_gguf_value *const value = find(b, key);
  double out = otherwise;
  if (value != NULL && !tercel_gguf_get_f64(value, 0, &out))
    tercel_gguf_failed(b, TERCEL_INVALID_MODEL, "key '%s.%s' is no number", b->architecture, key);
  return out;
}

double tercel_gguf_factor(tercel_gguf_builder *b, const char *key, double otherwise) {
  const double value = tercel_gguf_float(b, key, otherwise);
  return value != 0 ? value : otherwise;
}

int64_t tercel_gguf_size(tercel_gguf_builder *b, const char *key, int64_t least, int64_t most) {
  if (find(b, key) == NULL) tercel_gguf_failed(b, TERCEL_INVALID_MODEL, "key '%s.%s' is missing", b->architecture, key);
  const int64_t out = tercel_gguf_int(b, key, least);
  if (out < least || out > most)
    tercel_gguf_failed(b, TERCEL_INVALID_MODEL, "key '%s.%s' is %lld, want %lld to %lld", b->architecture, key,
                       (long long)out, (long long)least, (long long)most);
  return tercel_max_i64(least, tercel_min_i64(out, most));
}

/* ---- weights ---- */

bool tercel_gguf_has(const tercel_gguf_builder *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const text name = format_name(format, args);
  va_end(args);
  return tercel_gguf_find_tensor(b->gguf, name.data) != NULL;
}

static tercel_value *weight(tercel_gguf_builder *b, const char *name, bool optional) {
  const tercel_gguf_tensor *const t = tercel_gguf_find_tensor(b->gguf, name);
  tercel_value *value = NULL;
  if (t == NULL && !optional) return tercel_gguf_failed(b, TERCEL_INVALID_MODEL, "tensor '%s' is missing", name);
  if (t == NULL || b->status != TERCEL_OK) return NULL;
  for (uint32_t i = 0; i < b->graph->num_values; ++i) /* tied weights are one constant */
    if (b->graph->values[i] != NULL && b->graph->values[i]->constant != NULL &&
        strcmp(b->graph->values[i]->name, name) == 0)
      return b->graph->values[i];
  passed(b, tercel_graph_add_constant(b->graph, name, &t->tensor, t->storage, &value, b->err));
  return value;
}

tercel_value *tercel_gguf_weight(tercel_gguf_builder *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const text name = format_name(format, args);
  va_end(args);
  return weight(b, name.data, false);
}

/* fn(x, "NAME.part"), where the file has it. */
static tercel_value *with_part(tercel_gguf_builder *b, tercel_value *x, tercel_fn fn, const text *name,
                               const char *part) {
  char whole[MAX_NAME + 8];
  snprintf(whole, sizeof whole, "%s.%s", name->data, part);
  tercel_value *const value = weight(b, whole, true);
  return value != NULL ? tercel_gguf_apply(b, fn, x, value) : x;
}

tercel_value *tercel_gguf_linear(tercel_gguf_builder *b, tercel_value *x, tercel_gguf_scale scale, const char *format,
                                 ...) {
  char matrix[MAX_NAME + 8];
  va_list args;
  va_start(args, format);
  const text name = format_name(format, args);
  va_end(args);
  snprintf(matrix, sizeof matrix, "%s.weight", name.data);
  tercel_value *const operands[2] = {x, weight(b, matrix, false)};
  tercel_node *const product = tercel_gguf_node(b, TERCEL_OP_MATMUL, name.data, operands, 2, 1);
  if (product == NULL || !passed(b, tercel_node_set_int(product, "trans_b", 1, b->err)) ||
      !passed(b, tercel_infer_node(product, b->err)))
    return NULL;
  tercel_value *y = product->outputs[0];
  if (scale == TERCEL_GGUF_SCALE_PRODUCT) y = with_part(b, y, TERCEL_FN_MUL, &name, "scale");
  y = with_part(b, y, TERCEL_FN_ADD, &name, "bias");
  return scale == TERCEL_GGUF_SCALE_SUM ? with_part(b, y, TERCEL_FN_MUL, &name, "scale") : y;
}

/* ---- nodes ---- */

tercel_node *tercel_gguf_node(tercel_gguf_builder *b, tercel_op_id op, const char *name, tercel_value *const *inputs,
                              size_t num_inputs, size_t num_outputs) {
  tercel_node *node = NULL;
  if (b->status != TERCEL_OK) return NULL;
  passed(b,
         tercel_graph_add_node(b->graph, tercel_ops()[op], name, inputs, num_inputs, num_outputs, NULL, &node, b->err));
  return node;
}

/* The node's output, when all that is left to do for it succeeds. */
static tercel_value *finish(tercel_gguf_builder *b, tercel_node *node) {
  return node != NULL && passed(b, tercel_infer_node(node, b->err)) ? node->outputs[0] : NULL;
}

tercel_value *tercel_gguf_apply(tercel_gguf_builder *b, tercel_fn fn, tercel_value *x, tercel_value *y) {
  if (b->status != TERCEL_OK) return NULL;
  tercel_instr instr = {.fn = (uint8_t)fn, .dtype = TERCEL_DTYPE_F32, .operands = {0, 1, 0}};
  if (fn == TERCEL_FN_SILU) instr.immediates[0].f = 1;
  const tercel_program program = {y != NULL ? 2 : 1, 1, &instr};
  tercel_value *const operands[2] = {x, y};
  tercel_node *const node =
      tercel_gguf_node(b, TERCEL_OP_POINTWISE, tercel_fn_get_info(fn)->name, operands, y != NULL ? 2 : 1, 1);
  if (node != NULL) passed(b, tercel_node_set_program(node, "program", &program, b->err));
  return finish(b, node);
}

tercel_value *tercel_gguf_scaled(tercel_gguf_builder *b, tercel_value *x, double factor) {
  tercel_value *scalar = NULL;
  if (factor == 1 || b->status != TERCEL_OK) return x;
  if (!passed(b, tercel_graph_add_scalar(b->graph, "factor", TERCEL_DTYPE_F32, factor, &scalar, b->err))) return NULL;
  return tercel_gguf_apply(b, TERCEL_FN_MUL, x, scalar);
}

tercel_value *tercel_gguf_capped(tercel_gguf_builder *b, tercel_value *x, double cap) {
  if (cap == 0) return x;
  return tercel_gguf_scaled(b, tercel_gguf_apply(b, TERCEL_FN_TANH, tercel_gguf_scaled(b, x, 1 / cap), NULL), cap);
}

tercel_value *tercel_gguf_reshaped(tercel_gguf_builder *b, tercel_value *x, const int64_t *dims, int rank) {
  tercel_value *target = NULL;
  if (b->status != TERCEL_OK ||
      !passed(b, tercel_graph_add_i64s(b->graph, "shape", dims, (size_t)rank, false, &target, b->err)))
    return NULL;
  tercel_value *const operands[2] = {x, target};
  return finish(b, tercel_gguf_node(b, TERCEL_OP_RESHAPE, "reshape", operands, 2, 1));
}

tercel_value *tercel_gguf_columns(tercel_gguf_builder *b, tercel_value *x, int64_t first, int64_t count) {
  tercel_value *operands[4] = {x};
  const int64_t ends = first + count, axis = 1;
  if (b->status != TERCEL_OK ||
      !passed(b, tercel_graph_add_i64s(b->graph, "starts", &first, 1, false, &operands[1], b->err)) ||
      !passed(b, tercel_graph_add_i64s(b->graph, "ends", &ends, 1, false, &operands[2], b->err)) ||
      !passed(b, tercel_graph_add_i64s(b->graph, "axes", &axis, 1, false, &operands[3], b->err)))
    return NULL;
  return finish(b, tercel_gguf_node(b, TERCEL_OP_SLICE, "slice", operands, 4, 1));
}

tercel_value *tercel_gguf_rows(tercel_gguf_builder *b, tercel_value *table, tercel_value *indices) {
  tercel_value *const operands[2] = {table, indices};
  tercel_value *const rows = finish(b, tercel_gguf_node(b, TERCEL_OP_GATHER, "rows", operands, 2, 1));
  if (rows == NULL || rows->type.dtype == TERCEL_DTYPE_F32) return rows;
  const tercel_instr cast = {.fn = TERCEL_FN_CAST, .dtype = TERCEL_DTYPE_F32};
  const tercel_program program = {1, 1, (tercel_instr *)(uintptr_t)&cast};
  tercel_node *const node = tercel_gguf_node(b, TERCEL_OP_POINTWISE, "cast", &rows, 1, 1);
  if (node != NULL) passed(b, tercel_node_set_program(node, "program", &program, b->err));
  return finish(b, node);
}

tercel_value *tercel_gguf_input(tercel_gguf_builder *b, const char *name, tercel_dtype dtype, bool state, int rank,
                                const char *const *symbols, const int64_t *sizes) {
  tercel_value *value = NULL;
  tercel_type type = {.state = state, .dtype = dtype, .shape.rank = rank};
  if (b->status != TERCEL_OK) return NULL;
  for (int d = 0; d < rank; ++d)
    type.shape.dims[d] = symbols[d] != NULL ? tercel_dim_symbol(b->graph->dims, symbols[d]) : sizes[d];
  passed(b, tercel_graph_add_input(b->graph, name, &type, &value, b->err));
  return value;
}
