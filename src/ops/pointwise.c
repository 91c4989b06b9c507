/* pointwise: a program over elements; its inputs broadcast against each other as numpy does. */
#include "ops/move.h"
#include "ops/pointwise_rows.h"

static tercel_status infer_dtype(tercel_infer *infer, const tercel_program *program, tercel_error *err) {
  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS] = {TERCEL_DTYPE_NONE};
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL) return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is absent", i);
    dtypes[i] = infer->in[i]->type.dtype;
    if (dtypes[i] == TERCEL_DTYPE_NONE) return TERCEL_OK;
  }
  const tercel_status status = tercel_program_check(program, dtypes, &infer->out[0].type.dtype, err);
  return status == TERCEL_OK ? status
                             : tercel_fail_at(err, status, "%s '%s'", infer->node->op->name, infer->node->name);
}

static tercel_status infer_shape(tercel_infer *infer, tercel_error *err) {
  tercel_shape shape = {.rank = 0};
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    const tercel_shape sofar = shape;
    TERCEL_TRY(tercel_infer_broadcast(infer, &sofar, &infer->in[i]->type.shape, &shape, err));
  }
  infer->out[0].type.shape = shape;
  return TERCEL_OK;
}

/* ---- contents: the same program over dims ---- */

/* A register that holds an integer or a bool as a dim, or something else. */
typedef struct dim_register {
  bool known;
  tercel_dim dim;
} dim_register;

static dim_register known(tercel_dim dim) { return (dim_register){true, dim}; }

/* Whole numbers of f32 and f64 come back from a cast as they went in, so sizes may pass through floats. */
static bool cast_keeps(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_I64 || dtype == TERCEL_DTYPE_I32 || dtype == TERCEL_DTYPE_F64;
}

/* Sizes: neither operand can be negative, so rounding down is rounding to zero. */
static bool both_sizes(const tercel_infer *infer, tercel_dim a, tercel_dim b) {
  int64_t x, y;
  const bool a_fits = !tercel_dim_get_number(infer->dims, a, &x) || x >= 0;
  return a_fits && tercel_dim_get_number(infer->dims, b, &y) && y > 0;
}

/* A number below 0 and what is never below 0. */
static bool never_equal(const tercel_infer *infer, tercel_dim a, tercel_dim b) {
  int64_t x;
  return tercel_dim_get_number(infer->dims, b, &x) && x < 0 && tercel_dim_max(infer->dims, a, 0) == a;
}

static dim_register compare_dims(const tercel_infer *infer, tercel_fn fn, tercel_dim a, tercel_dim b) {
  int64_t x, y;
  if (fn == TERCEL_FN_EQUAL && a == b) return known(1);
  if (fn == TERCEL_FN_EQUAL && (never_equal(infer, a, b) || never_equal(infer, b, a))) return known(0);
  if (!tercel_dim_get_number(infer->dims, a, &x) || !tercel_dim_get_number(infer->dims, b, &y))
    return (dim_register){0};
  switch (fn) {
  case TERCEL_FN_EQUAL: return known(x == y);
  case TERCEL_FN_LESS: return known(x < y);
  case TERCEL_FN_LESS_EQUAL: return known(x <= y);
  case TERCEL_FN_GREATER: return known(x > y);
  case TERCEL_FN_GREATER_EQUAL: return known(x >= y);
  case TERCEL_FN_AND: return known(x && y);
  case TERCEL_FN_OR: return known(x || y);
  default: return (dim_register){0};
  }
}

static dim_register binary_dims(const tercel_infer *infer, tercel_fn fn, tercel_dim a, tercel_dim b) {
  tercel_dims *dims = infer->dims;
  switch (fn) {
  case TERCEL_FN_ADD: return known(tercel_dim_add(dims, a, b));
  case TERCEL_FN_SUB: return known(tercel_dim_sub(dims, a, b));
  case TERCEL_FN_MUL: return known(tercel_dim_mul(dims, a, b));
  case TERCEL_FN_MIN: return known(tercel_dim_min(dims, a, b));
  case TERCEL_FN_MAX: return known(tercel_dim_max(dims, a, b));
  case TERCEL_FN_DIV: return both_sizes(infer, a, b) ? known(tercel_dim_floor_div(dims, a, b)) : (dim_register){0};
  case TERCEL_FN_MOD: return both_sizes(infer, a, b) ? known(tercel_dim_mod(dims, a, b)) : (dim_register){0};
  default: return compare_dims(infer, fn, a, b);
  }
}

static dim_register eval_dims(const tercel_infer *infer, const tercel_instr *instr, const dim_register *regs,
                              tercel_dtype from) {
  const dim_register *a = &regs[instr->operands[0]], *b = &regs[instr->operands[1]];
  const tercel_fn fn = (tercel_fn)instr->fn;
  int64_t number;
  switch (fn) {
  case TERCEL_FN_CONSTANT:
    if (tercel_dtype_is_float((tercel_dtype)instr->dtype)) return (dim_register){0};
    return known(tercel_dim_constant(infer->dims, instr->immediates[0].i));
  case TERCEL_FN_COPY: return *a;
  case TERCEL_FN_CAST:
    return a->known && cast_keeps((tercel_dtype)instr->dtype) && (cast_keeps(from) || from == TERCEL_DTYPE_BOOL)
               ? *a
               : (dim_register){0};
  case TERCEL_FN_NOT:
    return a->known && tercel_dim_get_number(infer->dims, a->dim, &number) ? known(!number) : (dim_register){0};
  case TERCEL_FN_NEG:
    return a->known ? known(tercel_dim_sub(infer->dims, tercel_dim_constant(infer->dims, 0), a->dim))
                    : (dim_register){0};
  case TERCEL_FN_SELECT:
    if (!a->known || !tercel_dim_get_number(infer->dims, a->dim, &number)) return (dim_register){0};
    return regs[instr->operands[number ? 1 : 2]];
  default: break;
  }
  if (tercel_fn_get_info(fn)->arity != 2 || !a->known || !b->known) return (dim_register){0};
  return binary_dims(infer, fn, a->dim, b->dim);
}

static bool holds_contents(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_I64 || dtype == TERCEL_DTYPE_I32 || dtype == TERCEL_DTYPE_BOOL;
}

/* One element of the result. */
static dim_register eval_element(const tercel_infer *infer, const tercel_program *program, dim_register *regs) {
  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS];
  for (int i = 0; i < program->num_inputs; ++i) dtypes[i] = infer->in[i]->type.dtype;
  for (int k = 0; k < program->num_instrs; ++k) {
    const tercel_instr *instr = &program->instrs[k];
    dtypes[program->num_inputs + k] = (tercel_dtype)instr->dtype;
    const tercel_dtype from = tercel_fn_get_info((tercel_fn)instr->fn)->arity ? dtypes[instr->operands[0]] : 0;
    regs[program->num_inputs + k] = eval_dims(infer, instr, regs, from);
    /* Floats between casts hold whole numbers only; what arithmetic on them gives is not followed. */
    const bool is_float = tercel_dtype_is_float((tercel_dtype)instr->dtype);
    if (is_float && instr->fn != TERCEL_FN_CAST && instr->fn != TERCEL_FN_COPY)
      regs[program->num_inputs + k].known = false;
  }
  return regs[program->num_inputs + program->num_instrs - 1];
}

static tercel_status infer_contents(tercel_infer *infer, const tercel_program *program, tercel_error *err) {
  const tercel_shape *shape = &infer->out[0].type.shape;
  if (!holds_contents(infer->out[0].type.dtype) || shape->rank < 0 || shape->rank > 1) return TERCEL_OK;
  const int64_t count = shape->rank == 0 ? 1 : shape->dims[0];
  if (count < 0 || count > TERCEL_MAX_CONTENTS) return TERCEL_OK;

  const tercel_dim *in[TERCEL_PROGRAM_MAX_INPUTS] = {NULL};
  int64_t counts[TERCEL_PROGRAM_MAX_INPUTS] = {0};
  for (size_t i = 0; i < infer->num_inputs; ++i)
    if (holds_contents(infer->in[i]->type.dtype)) in[i] = tercel_infer_flow(infer, i, &counts[i], err);
  tercel_dim *out;
  TERCEL_TRY(tercel_infer_give(infer, 0, count, &out, err));
  if (out == NULL) return TERCEL_OK;
  bool any = count == 0;
  for (int64_t e = 0; e < count; ++e) {
    dim_register regs[TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS];
    for (size_t i = 0; i < infer->num_inputs; ++i)
      regs[i] = in[i] == NULL ? (dim_register){0} : known(in[i][counts[i] == 1 ? 0 : e]);
    const dim_register result = eval_element(infer, program, regs);
    any |= result.known;
    out[e] = result.known ? result.dim : tercel_dim_unknown(infer->dims);
  }
  if (any) return TERCEL_OK;
  infer->out[0].contents = NULL;
  infer->out[0].num_contents = 0;
  return TERCEL_OK;
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_program *program = tercel_node_program(infer->node, "program");
  if (program == NULL || program->num_instrs < 1 || (size_t)program->num_inputs != infer->num_inputs)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the program takes %d inputs, the node has %zu",
                            program ? program->num_inputs : 0, infer->num_inputs);
  TERCEL_TRY(infer_dtype(infer, program, err));
  TERCEL_TRY(infer_shape(infer, err));
  return infer_contents(infer, program, err);
}

/* ---- evaluation ---- */

static tercel_immediate load(const tercel_tensor *tensor, int64_t index) {
  if (tensor->dtype == TERCEL_DTYPE_STRING) return (tercel_immediate){.s = (const tercel_string *)tensor->data + index};
  if (tercel_dtype_is_float(tensor->dtype)) return (tercel_immediate){.f = tercel_tensor_get_f64(tensor, index)};
  return (tercel_immediate){.i = tercel_tensor_get_i64(tensor, index)};
}

static void store(tercel_tensor *tensor, int64_t index, tercel_immediate value) {
  if (tensor->dtype == TERCEL_DTYPE_STRING)
    tercel_element_copy(tensor->data, index, value.s, 0, TERCEL_DTYPE_STRING);
  else if (tercel_dtype_is_float(tensor->dtype))
    tercel_tensor_set_f64(tensor, index, value.f);
  else
    tercel_tensor_set_i64(tensor, index, value.i);
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const tercel_program *program = tercel_node_program(eval->node, "program");
  tercel_tensor *out = eval->out[0];
  if (tercel_pointwise_eval_rows(program, eval->in, out)) return TERCEL_OK;
  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS];
  int64_t strides[TERCEL_PROGRAM_MAX_INPUTS][TERCEL_MAX_RANK];
  for (size_t i = 0; i < eval->num_inputs; ++i) {
    dtypes[i] = eval->in[i]->dtype;
    tercel_tensor_broadcast_strides(eval->in[i], out->rank, out->dims, strides[i]);
  }
  const int64_t count = tercel_tensor_num_elements(out);
  int64_t index[TERCEL_MAX_RANK] = {0};
  for (int64_t e = 0; e < count; ++e) {
    tercel_immediate regs[TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS];
    for (size_t i = 0; i < eval->num_inputs; ++i)
      regs[i] = load(eval->in[i], tercel_index_dot(out->rank, index, strides[i]));
    tercel_program_eval(program, dtypes, regs);
    store(out, e, regs[program->num_inputs + program->num_instrs - 1]);
    tercel_index_next(out->rank, out->dims, index);
  }
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)in;
  return (double)tercel_tensor_num_elements(out[0]) * tercel_node_program(node, "program")->num_instrs;
}

const tercel_op tercel_op_pointwise = {
    .name = "pointwise",
    .id = TERCEL_OP_POINTWISE,
    .max_inputs = TERCEL_PROGRAM_MAX_INPUTS,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "a program over elements; inputs broadcast",
    .attrs =
        (const tercel_attr_spec[]){
            {"program", TERCEL_ATTR_PROGRAM, .required = true, .about = "what is done to each element"},
            {0},
        },
    .infer = infer,
    .eval = eval,
    .flops = flops,
};
