/* Epilogues: which form a program has, where its extras lie.  What is done to a tile: kernels/epilogue.c. */
#include "backends/cpu/kernels/epilogue.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/program.h"

/* min(max(x, low), high) as instruction `instr` on register `operand`; false when it is something else. */
static bool is_clamp(const tercel_instr *instr, int operand, float *low, float *high) {
  if (instr->dtype != TERCEL_DTYPE_F32 || instr->operands[0] != operand) return false;
  if (instr->fn == TERCEL_FN_RELU) {
    *low = 0.0f;
    *high = INFINITY;
    return true;
  }
  if (instr->fn != TERCEL_FN_CLIP) return false;
  *low = (float)instr->immediates[0].f;
  *high = (float)instr->immediates[1].f;
  return *low == *low && *high == *high;
}

/* result + extra 0, in either order */
static bool is_add(const tercel_instr *instr) {
  return instr->fn == TERCEL_FN_ADD && instr->dtype == TERCEL_DTYPE_F32 &&
         instr->operands[0] + instr->operands[1] == 1 && instr->operands[0] != instr->operands[1];
}

static tercel_epilogue_form form_of(const tercel_program *program, float *low, float *high) {
  const tercel_instr *instrs = program->instrs;
  if (program->num_inputs == 1 && program->num_instrs == 1 && is_clamp(&instrs[0], 0, low, high))
    return TERCEL_EPILOGUE_CLAMP;
  if (program->num_inputs != 2 || !is_add(&instrs[0])) return TERCEL_EPILOGUE_PROGRAM;
  if (program->num_instrs == 1) return TERCEL_EPILOGUE_ADD;
  if (program->num_instrs == 2 && is_clamp(&instrs[1], 2, low, high)) return TERCEL_EPILOGUE_ADD_CLAMP;
  return TERCEL_EPILOGUE_PROGRAM;
}

/* What the operator itself gives. */
static tercel_dtype result_dtype(const tercel_node *node) {
  const int op = node->op->id;
  return op == TERCEL_OP_MATMUL_INTEGER || op == TERCEL_OP_CONV_INTEGER ? TERCEL_DTYPE_I32 : TERCEL_DTYPE_F32;
}

/* The program's inputs: the result, then the node's inputs from first_extra on.  False when one is missing. */
static bool input_dtypes(const tercel_node *node, size_t first_extra, const tercel_program *program,
                         tercel_dtype *out) {
  if (program->num_inputs < 1 || program->num_inputs > TERCEL_PROGRAM_MAX_INPUTS) return false;
  out[0] = result_dtype(node);
  for (int i = 1; i < program->num_inputs; i++) {
    const tercel_value *extra = tercel_node_input(node, first_extra + (size_t)i - 1);
    if (!extra) return false;
    out[i] = extra->type.dtype;
  }
  return true;
}

bool tercel_epilogue_supports(const tercel_node *node, size_t first_extra) {
  const tercel_program *program = tercel_node_program(node, "epilogue");
  tercel_dtype inputs[TERCEL_PROGRAM_MAX_INPUTS];
  if (!program) return true;
  return program->num_instrs > 0 && program->instrs[program->num_instrs - 1].dtype == TERCEL_DTYPE_F32 &&
         input_dtypes(node, first_extra, program, inputs) && tercel_code_supports(program, inputs);
}

tercel_status tercel_epilogue_prepare(const tercel_node *node, const tercel_target *target, size_t first_extra,
                                      tercel_epilogue *out, tercel_error *err) {
  *out = (tercel_epilogue){.form = TERCEL_EPILOGUE_NONE, .low = -INFINITY, .high = INFINITY};
  const tercel_program *program = tercel_node_program(node, "epilogue");
  if (program) {
    tercel_dtype inputs[TERCEL_PROGRAM_MAX_INPUTS];
    if (!input_dtypes(node, first_extra, program, inputs))
      return tercel_fail(err, TERCEL_INTERNAL, "%s '%s': an input of its epilogue is absent", node->op->name,
                         node->name);
    tercel_code *code = tercel_arena_alloc(&out->arena, sizeof *code);
    if (!code) return tercel_fail_memory(err, sizeof *code, "an epilogue");
    const tercel_status status = tercel_code_compile(program, target, inputs, NULL, &out->arena, code, err);
    if (status != TERCEL_OK) {
      tercel_epilogue_release(out);
      return tercel_fail_at(err, status, "%s '%s': epilogue", node->op->name, node->name);
    }
    out->form = form_of(program, &out->low, &out->high);
    /* Extras of the cheap forms are read as f32. */
    if (program->num_inputs > 1 && inputs[1] != TERCEL_DTYPE_F32) out->form = TERCEL_EPILOGUE_PROGRAM;
    out->num_extras = program->num_inputs - 1;
    out->code = code;
    out->run = TERCEL_CPU_PICK_FOR(target, tercel_pointwise_kernels)->run;
  }
  out->apply = TERCEL_CPU_PICK(tercel_epilogue_kernels)->apply[out->form];
  return TERCEL_OK;
}

void tercel_epilogue_release(tercel_epilogue *epilogue) {
  if (epilogue) tercel_arena_deinit(&epilogue->arena);
}

/* One stride for dims [begin, end) taken together; false when the extra is broadcast over some of them only. */
static bool group_stride(const int64_t *strides, const int64_t *dims, int begin, int end, int64_t *out) {
  int64_t inner = 0, size = 0; /* of the innermost dim that isn't 1: its stride, and elements from there on */
  for (int d = end - 1; d >= begin; d--) {
    if (dims[d] == 1) continue;
    if (size == 0) {
      inner = strides[d];
      size = dims[d];
      continue;
    }
    if (strides[d] != inner * size) return false;
    size *= dims[d];
  }
  *out = inner;
  return true;
}

static int64_t product(const int64_t *dims, int begin, int end) {
  int64_t r = 1;
  for (int d = begin; d < end; d++) r *= dims[d];
  return r;
}

tercel_status tercel_epilogue_bind(const tercel_epilogue *epilogue, const tercel_tensor *const *extras,
                                   const tercel_tensor *result, int row_dim, int col_dim, tercel_epilogue_binding *out,
                                   tercel_error *err) {
  memset(out, 0, sizeof *out);
  out->rank = result->rank;
  memcpy(out->dims, result->dims, sizeof out->dims);
  for (int i = 0; i < epilogue->num_extras; i++) {
    int64_t strides[TERCEL_MAX_RANK];
    tercel_epilogue_extra *e = &out->extras[i];
    tercel_tensor_broadcast_strides(extras[i], out->rank, out->dims, strides);
    if (group_stride(strides, out->dims, 0, row_dim, &e->outer_stride) &&
        group_stride(strides, out->dims, row_dim, col_dim, &e->row_stride) &&
        group_stride(strides, out->dims, col_dim, out->rank, &e->col_stride) && e->col_stride <= 1)
      continue;
    size_t bytes;
    if (!tercel_dtype_size(extras[i]->dtype, product(out->dims, 0, out->rank), &bytes) ||
        !tercel_round_up_size(bytes, TERCEL_ALIGNMENT, &bytes) ||
        !tercel_add_size(out->workspace_bytes, bytes, &out->workspace_bytes))
      return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "an epilogue's input is too large to expand");
    out->expanded |= (uint16_t)(1u << i);
    e->col_stride = 1;
    e->row_stride = product(out->dims, col_dim, out->rank);
    e->outer_stride = e->row_stride * product(out->dims, row_dim, col_dim);
  }
  return TERCEL_OK;
}

/* Writes the extra out to the result's shape: rare (a partial broadcast inside rows or columns), so element by element. */
static void expand(const tercel_tensor *extra, const tercel_epilogue_binding *binding, void *out) {
  int64_t strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  tercel_tensor_broadcast_strides(extra, binding->rank, binding->dims, strides);
  const int64_t count = product(binding->dims, 0, binding->rank);
  for (int64_t i = 0, at = 0; i < count; i++) {
    tercel_element_copy(out, i, extra->data, at, extra->dtype);
    for (int d = binding->rank - 1; d >= 0; d--) {
      at += strides[d];
      if (++index[d] < binding->dims[d]) break;
      at -= strides[d] * binding->dims[d];
      index[d] = 0;
    }
  }
}

void tercel_epilogue_start(const tercel_epilogue *epilogue, const tercel_epilogue_binding *binding,
                           const tercel_tensor *const *extras, void *workspace, tercel_epilogue_extra *extras_out) {
  uint8_t *memory = workspace;
  for (int i = 0; i < epilogue->num_extras; i++) {
    extras_out[i] = binding->extras[i];
    extras_out[i].data = extras[i]->data;
    if (!(binding->expanded >> i & 1)) continue;
    expand(extras[i], binding, memory);
    extras_out[i].data = memory;
    size_t bytes = 0;
    (void)tercel_dtype_size(extras[i]->dtype, product(binding->dims, 0, binding->rank), &bytes);
    (void)tercel_round_up_size(bytes, TERCEL_ALIGNMENT, &bytes);
    memory += bytes;
  }
}
