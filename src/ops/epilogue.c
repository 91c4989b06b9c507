/* Epilogues: inference and reference evaluation. */
#include "ops/epilogue.h"

#include "ir/blocks.h"

#include <string.h>

static bool extra_fits(const tercel_shape *extra, const tercel_shape *result) {
  if (extra->rank < 0 || result->rank < 0) return true;
  if (extra->rank > result->rank) return false;
  for (int i = 0; i < extra->rank; ++i) {
    const tercel_dim e = extra->dims[i], r = result->dims[result->rank - extra->rank + i];
    if (tercel_dim_is_known(e) && e != 1 && tercel_dim_is_known(r) && e != r) return false;
  }
  return true;
}

static tercel_status fail_extra(const tercel_infer *infer, size_t input, const tercel_shape *result,
                                tercel_error *err) {
  const tercel_node *node = infer->node;
  tercel_text text = {0};
  tercel_shape_print(infer->dims, &infer->in[input]->type.shape, &text);
  tercel_text_add(&text, " does not broadcast to ");
  tercel_shape_print(infer->dims, result, &text);
  const tercel_status status = tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %zu of its epilogue: %s",
                                           node->op->name, node->name, input, text.data ? text.data : "?");
  tercel_text_deinit(&text);
  return status;
}

tercel_status tercel_infer_epilogue(tercel_infer *infer, size_t first_extra, tercel_type *type, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_program *program = tercel_node_program(node, "epilogue");
  const size_t num_extras = infer->num_inputs > first_extra ? infer->num_inputs - first_extra : 0;
  const size_t want = program == NULL ? 0 : (size_t)program->num_inputs - 1;
  if (program != NULL && program->num_inputs < 1)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': the epilogue does not read the result", node->op->name,
                       node->name);
  if (num_extras != want)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %zu inputs for the epilogue, which reads %zu",
                       node->op->name, node->name, num_extras, want);
  if (program == NULL) return TERCEL_OK;

  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS] = {type->dtype};
  bool known = type->dtype != TERCEL_DTYPE_NONE;
  for (size_t i = 0; i < num_extras; ++i) {
    const tercel_fact *extra = infer->in[first_extra + i];
    if (extra == NULL)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %zu of its epilogue is absent", node->op->name,
                         node->name, first_extra + i);
    if (!extra_fits(&extra->type.shape, &type->shape)) return fail_extra(infer, first_extra + i, &type->shape, err);
    dtypes[i + 1] = extra->type.dtype;
    known = known && dtypes[i + 1] != TERCEL_DTYPE_NONE;
  }
  if (!known) {
    type->dtype = TERCEL_DTYPE_NONE;
    return TERCEL_OK;
  }
  const tercel_status status = tercel_program_check(program, dtypes, &type->dtype, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "%s '%s': epilogue", node->op->name, node->name);
}

/* ---- evaluation ---- */

static tercel_status widen_blocks(tercel_eval *eval, const tercel_tensor *tensor, int64_t count, double *wide,
                                  tercel_error *err) {
  const tercel_block_format format = tercel_dtype_block_format(tensor->dtype);
  float *const block = tercel_arena_alloc_array(eval->scratch, (size_t)format.elements, sizeof *block);
  if (block == NULL) return tercel_fail_memory(err, (size_t)format.elements * sizeof *block, "a block");
  const uint8_t *data = tensor->data;
  for (int64_t i = 0; i < count; i += format.elements, data += format.bytes) {
    tercel_blocks_decode(tensor->dtype, data, 1, block);
    for (int e = 0; e < format.elements; ++e) wide[i + e] = (double)block[e];
  }
  return TERCEL_OK;
}

tercel_status tercel_eval_widen_f64(tercel_eval *eval, const tercel_tensor *tensor, const double **out,
                                    tercel_error *err) {
  const int64_t count = tercel_tensor_num_elements(tensor);
  double *wide = tercel_arena_alloc_array(eval->scratch, (size_t)count, sizeof *wide);
  if (wide == NULL) return tercel_fail_memory(err, (size_t)count * sizeof *wide, "a widened operand");
  *out = wide;
  if (tercel_dtype_is_block(tensor->dtype)) return widen_blocks(eval, tensor, count, wide, err);
  for (int64_t i = 0; i < count; ++i) wide[i] = tercel_tensor_get_f64(tensor, i);
  return TERCEL_OK;
}

tercel_status tercel_eval_widen_i64(tercel_eval *eval, const tercel_tensor *tensor, const int64_t **out,
                                    tercel_error *err) {
  const int64_t count = tercel_tensor_num_elements(tensor);
  int64_t *wide = tercel_arena_alloc_array(eval->scratch, (size_t)count, sizeof *wide);
  if (wide == NULL) return tercel_fail_memory(err, (size_t)count * sizeof *wide, "a widened operand");
  for (int64_t i = 0; i < count; ++i) wide[i] = tercel_tensor_get_i64(tensor, i);
  *out = wide;
  return TERCEL_OK;
}

tercel_status tercel_eval_epilogue_start(tercel_eval *eval, size_t first_extra, tercel_dtype dtype,
                                         tercel_eval_epilogue *out, tercel_error *err) {
  memset(out, 0, sizeof *out);
  out->program = tercel_node_program(eval->node, "epilogue");
  out->out = eval->out[0];
  out->inputs[0] = dtype;
  if (out->program == NULL) return TERCEL_OK;
  if (out->program->num_inputs > TERCEL_PROGRAM_MAX_INPUTS || out->program->num_instrs > TERCEL_PROGRAM_MAX_INSTRS)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': the epilogue is too long", eval->node->op->name,
                       eval->node->name);
  for (int i = 1; i < out->program->num_inputs; ++i) {
    const tercel_tensor *extra = eval->in[first_extra + (size_t)i - 1];
    out->extras[i] = extra;
    out->inputs[i] = extra->dtype;
    tercel_tensor_broadcast_strides(extra, out->out->rank, out->out->dims, out->strides[i]);
  }
  return TERCEL_OK;
}

static tercel_immediate load(const tercel_tensor *tensor, int64_t index) {
  if (tercel_dtype_is_float(tensor->dtype)) return (tercel_immediate){.f = tercel_tensor_get_f64(tensor, index)};
  return (tercel_immediate){.i = tercel_tensor_get_i64(tensor, index)};
}

/* Runs the program for the element at `index`, whose result stands in regs[0], and stores what comes out. */
static void finish(tercel_eval_epilogue *e, int64_t index) {
  const tercel_program *program = e->program;
  int64_t offsets[TERCEL_PROGRAM_MAX_INPUTS] = {0};
  int64_t rest = index;
  for (int d = e->out->rank - 1; d >= 0; --d) {
    const int64_t at = rest % e->out->dims[d];
    rest /= e->out->dims[d];
    for (int i = 1; i < program->num_inputs; ++i) offsets[i] += at * e->strides[i][d];
  }
  for (int i = 1; i < program->num_inputs; ++i) e->regs[i] = load(e->extras[i], offsets[i]);
  tercel_program_eval(program, e->inputs, e->regs);
  const tercel_immediate last = e->regs[program->num_inputs + program->num_instrs - 1];
  if (tercel_dtype_is_float(e->out->dtype))
    tercel_tensor_set_f64(e->out, index, last.f);
  else
    tercel_tensor_set_i64(e->out, index, last.i);
}

void tercel_eval_epilogue_store_f64(tercel_eval_epilogue *e, int64_t index, double result) {
  if (e->program == NULL) {
    tercel_tensor_set_f64(e->out, index, result);
    return;
  }
  uint64_t rounded;
  tercel_element_set_f64(&rounded, e->inputs[0], 0, result);
  e->regs[0].f = tercel_element_get_f64(&rounded, e->inputs[0], 0);
  finish(e, index);
}

void tercel_eval_epilogue_store_i64(tercel_eval_epilogue *e, int64_t index, int64_t result) {
  if (e->program == NULL) {
    tercel_tensor_set_i64(e->out, index, result);
    return;
  }
  uint64_t wrapped;
  tercel_element_set_i64(&wrapped, e->inputs[0], 0, result);
  e->regs[0].i = tercel_element_get_i64(&wrapped, e->inputs[0], 0);
  finish(e, index);
}
