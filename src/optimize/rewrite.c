/* Matching and rewriting. */
#include "optimize/rewrite.h"

#include <math.h>
#include <stdio.h>

/* ---- match ---- */

tercel_node *tercel_producer(const tercel_value *value, tercel_op_id op) {
  return value && tercel_is(value->producer, op) ? value->producer : NULL;
}

bool tercel_is_read_only_by(const tercel_value *value, const tercel_node *node) {
  if (value->num_output_uses || value->num_uses == 0) return false;
  for (uint32_t i = 0; i < value->num_uses; i++)
    if (value->uses[i].node != node) return false;
  return true;
}

const char *tercel_reason(char buffer[TERCEL_REASON_MAX], const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, TERCEL_REASON_MAX, format, args);
  va_end(args);
  return buffer;
}

/* "reduce", or the function of a pointwise node of one. */
static const char *describe_op(const tercel_node *node) {
  const tercel_fn fn = tercel_single_fn(node);
  return fn == TERCEL_FN_COUNT ? node->op->name : tercel_fn_get_info(fn)->name;
}

const char *tercel_describe_uses(const tercel_value *value, const tercel_node *reader, char buffer[TERCEL_REASON_MAX]) {
  const tercel_node *other = NULL;
  uint32_t num_others = 0;
  for (uint32_t i = 0; i < value->num_uses; i++) {
    if (value->uses[i].node == reader) continue;
    if (!other) other = value->uses[i].node;
    num_others++;
  }
  if (value->num_output_uses) return tercel_reason(buffer, "'%.100s' is an output of the graph", value->name);
  if (num_others > 1)
    return tercel_reason(buffer, "'%.80s' is also read by %.20s '%.80s' and %u more", value->name, describe_op(other),
                         other->name, num_others - 1);
  if (other)
    return tercel_reason(buffer, "'%.90s' is also read by %.20s '%.90s'", value->name, describe_op(other), other->name);
  return tercel_reason(buffer, "'%.100s' is read %u times", value->name, value->num_uses);
}

/* The dim, cut where it is long. */
static void print_dim(const tercel_dims *dims, tercel_dim dim, char out[48]) {
  tercel_text text = {0};
  tercel_dim_print(dims, dim, &text);
  const bool is_long = text.length > 44;
  snprintf(out, 48, "%.*s%s", is_long ? 41 : 44, text.data ? text.data : "?", is_long ? "..." : "");
  tercel_text_deinit(&text);
}

/* Axes of `to` along which the value has size 1, or none, as a list: "2", "2 and 3". */
static void list_axes(const tercel_shape *from, const tercel_shape *to, char out[64]) {
  int count = 0, axes[TERCEL_MAX_RANK], length = 0;
  for (int i = 0; i < to->rank; i++) {
    const int j = i - (to->rank - from->rank);
    if (j < 0 || (from->dims[j] == 1 && to->dims[i] != 1)) axes[count++] = i;
  }
  out[0] = 0;
  for (int k = 0; k < count; k++)
    length += snprintf(out + length, (size_t)(64 - length), "%s%d",
                       k == 0          ? ""
                       : k + 1 < count ? ", "
                                       : " and ",
                       axes[k]);
}

const char *tercel_describe_broadcast(const tercel_value *value, const tercel_value *to,
                                      char buffer[TERCEL_REASON_MAX]) {
  const tercel_shape *const from = &value->type.shape, *const result = &to->type.shape;
  if (from->rank < 0 || result->rank < 0)
    return tercel_reason(buffer, "the shape of '%.100s' is not known", from->rank < 0 ? value->name : to->name);
  for (int i = from->rank > result->rank ? from->rank - result->rank : 0; i < from->rank; i++) {
    char has[48], wanted[48];
    const int at = i + result->rank - from->rank;
    if (from->dims[i] == 1 || from->dims[i] == result->dims[at]) continue;
    print_dim(value->graph->dims, from->dims[i], has);
    print_dim(to->graph->dims, result->dims[at], wanted);
    return tercel_reason(buffer, "'%.70s' is not known to be as large as the result along axis %d: %s and %s",
                         value->name, at, has, wanted);
  }
  tercel_text shapes = {0};
  tercel_shape_print(value->graph->dims, from, &shapes);
  tercel_text_add(&shapes, " to ");
  tercel_shape_print(to->graph->dims, result, &shapes);
  char axes[64];
  list_axes(from, result, axes);
  if (shapes.data && shapes.length < 120)
    snprintf(buffer, TERCEL_REASON_MAX, "'%.80s' is broadcast from %s", value->name, shapes.data);
  else
    snprintf(buffer, TERCEL_REASON_MAX, "'%.80s' is broadcast along axes %s of the result", value->name, axes);
  tercel_text_deinit(&shapes);
  return buffer;
}

tercel_fn tercel_single_fn(const tercel_node *node) {
  const tercel_program *const program =
      tercel_is(node, TERCEL_OP_POINTWISE) ? tercel_node_program(node, "program") : NULL;
  if (!program || program->num_instrs != 1) return TERCEL_FN_COUNT;
  const tercel_instr *const instr = &program->instrs[0];
  const int arity = tercel_fn_get_info((tercel_fn)instr->fn)->arity;
  if (arity != program->num_inputs) return TERCEL_FN_COUNT;
  for (int j = 0; j < arity; j++)
    if (instr->operands[j] != j) return TERCEL_FN_COUNT;
  return (tercel_fn)instr->fn;
}

tercel_node *tercel_fn_node(const tercel_value *value, tercel_fn fn) {
  tercel_node *const node = tercel_producer(value, TERCEL_OP_POINTWISE);
  return node && tercel_single_fn(node) == fn ? node : NULL;
}

bool tercel_match_scalar(const tercel_value *value, tercel_fn fn, tercel_value **x, double *scalar) {
  const tercel_node *const node = tercel_fn_node(value, fn);
  if (!node || node->num_inputs != 2) return false;
  const bool commutes = fn == TERCEL_FN_ADD || fn == TERCEL_FN_MUL;
  for (uint32_t side = 2; side-- > (commutes ? 0 : 1);) {
    if (!tercel_scalar(node->inputs[side], scalar)) continue;
    *x = node->inputs[1 - side];
    return true;
  }
  return false;
}

bool tercel_scalar(const tercel_value *value, double *out) {
  const tercel_tensor *const t = value ? value->constant : NULL;
  if (!t || tercel_tensor_num_elements(t) != 1) return false;
  if (!tercel_dtype_is_float(t->dtype) && !tercel_dtype_is_integer(t->dtype)) return false;
  *out = tercel_tensor_get_f64(t, 0);
  return true;
}

bool tercel_constant_ints(const tercel_value *value, int64_t *out, size_t capacity, size_t *count) {
  const tercel_tensor *const t = value ? value->constant : NULL;
  if (!t || !tercel_dtype_is_integer(t->dtype)) return false;
  const int64_t n = tercel_tensor_num_elements(t);
  if (n > (int64_t)capacity) return false;
  *count = (size_t)n;
  for (int64_t i = 0; i < n; i++) out[i] = tercel_tensor_get_i64(t, i);
  return true;
}

bool tercel_nearly(double a, double b) { return fabs(a - b) <= 4e-7 * fabs(b); }

bool tercel_same_type(const tercel_value *a, const tercel_value *b) {
  return a->type.kind == b->type.kind && a->type.dtype == b->type.dtype && a->type.dtype != TERCEL_DTYPE_NONE &&
         a->type.shape.rank >= 0 && tercel_shape_equal(&a->type.shape, &b->type.shape);
}

bool tercel_is_f32(const tercel_value *value) {
  return value->type.kind == TERCEL_TYPE_TENSOR && value->type.dtype == TERCEL_DTYPE_F32;
}

/* ---- rewrite ---- */

tercel_status tercel_rewrite_add(tercel_op_id op, const tercel_node *like, tercel_value *const *inputs,
                                 size_t num_inputs, tercel_node *before, tercel_node **out, tercel_error *err) {
  TERCEL_TRY(tercel_graph_add_node(like->graph, tercel_ops()[op], like->name, inputs, num_inputs, 1, before, out, err));
  (*out)->num_sources = 0;
  (*out)->outputs[0]->made_up = true;
  return tercel_node_add_sources(*out, like, err);
}

tercel_status tercel_rewrite_add_fn(tercel_fn fn, const tercel_node *like, tercel_value *const *inputs,
                                    size_t num_inputs, const tercel_immediate immediates[2], tercel_node *before,
                                    tercel_node **out, tercel_error *err) {
  tercel_instr instr = {.fn = (uint8_t)fn, .operands = {0, 1, 2}};
  const tercel_fn_info *const info = tercel_fn_get_info(fn);
  instr.dtype = (uint8_t)(info->result == TERCEL_RESULT_BOOL     ? TERCEL_DTYPE_BOOL
                          : info->result == TERCEL_RESULT_SECOND ? inputs[1]->type.dtype
                                                                 : inputs[0]->type.dtype);
  for (int i = 0; immediates && i < 2; i++) instr.immediates[i] = immediates[i];
  const tercel_program program = {(int)num_inputs, 1, &instr};
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_POINTWISE, like, inputs, num_inputs, before, out, err));
  TERCEL_TRY(tercel_node_set_program(*out, "program", &program, err));
  return tercel_infer_node(*out, err);
}

/* What is known of `old` and not of `by`. */
static void merge_type(const tercel_value *old, tercel_value *by) {
  if (old->type.shape.rank < 0 || by->constant) return;
  tercel_value_changed(by);
  if (by->type.shape.rank < 0) by->type.shape = old->type.shape;
  for (int i = 0; i < by->type.shape.rank && by->type.shape.rank == old->type.shape.rank; i++)
    if (tercel_dim_is_unknown(by->graph->dims, by->type.shape.dims[i]))
      by->type.shape.dims[i] = old->type.shape.dims[i];
  if (!by->contents && old->contents) {
    by->contents = old->contents;
    by->num_contents = old->num_contents;
  }
}

tercel_status tercel_rewrite_replace(tercel_value *old, tercel_value *by, tercel_error *err) {
  const bool is_new = by->num_uses == 0 && by->num_output_uses == 0;
  merge_type(old, by);
  if (is_new && by->producer) {
    by->name = old->name;
    by->made_up = old->made_up;
  }
  return tercel_value_replace_uses(old, by, err);
}

tercel_status tercel_rewrite_node(tercel_pass_context *context, const char *rule, tercel_node *node, tercel_value *by,
                                  tercel_error *err) {
  TERCEL_TRY(tercel_made(context, rule, node, NULL, err));
  TERCEL_TRY(tercel_rewrite_replace(node->outputs[0], by, err));
  tercel_graph_remove_node(node);
  return TERCEL_OK;
}

tercel_status tercel_rewrite_reshaped(tercel_value *constant, int rank, const int64_t *dims, tercel_value **out,
                                      tercel_error *err) {
  tercel_tensor tensor = *constant->constant;
  tensor.rank = rank;
  for (int i = 0; i < rank; i++) tensor.dims[i] = dims[i];
  return tercel_graph_add_constant(constant->graph, constant->name, &tensor, constant->storage, out, err);
}
