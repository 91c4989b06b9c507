/* Pointwise programs: facts about functions, checks and chaining.  What the functions compute: program_eval.c. */
#include "ir/program.h"

#include <string.h>

static const tercel_fn_info infos[TERCEL_FN_COUNT] = {
#define TERCEL_FN(id, name, arity, immediates, result, description)                                                    \
  [TERCEL_FN_##id] = {name, arity, immediates, result},
#include "ir/functions.inc"
#undef TERCEL_FN
};

const tercel_fn_info *tercel_fn_get_info(tercel_fn fn) { return (unsigned)fn < TERCEL_FN_COUNT ? &infos[fn] : NULL; }

bool tercel_fn_parse(const char *name, size_t length, tercel_fn *out) {
  for (int i = 0; i < TERCEL_FN_COUNT; i++) {
    if (strlen(infos[i].name) != length || memcmp(infos[i].name, name, length) != 0) continue;
    *out = (tercel_fn)i;
    return true;
  }
  return false;
}

/* ---- check ---- */

/* The kinds of dtype that a function takes, as a mask; floats alone where nothing is listed. */
enum {
  FLOATS = 1 << TERCEL_KIND_FLOAT,
  INTEGERS = 1 << TERCEL_KIND_INT | 1 << TERCEL_KIND_UINT,
  LOGIC = 1 << TERCEL_KIND_BOOL,
  NUMBERS = FLOATS | INTEGERS,
  ANY = NUMBERS | LOGIC,
  MOVED = ANY | 1 << TERCEL_KIND_STRING
};

static const uint8_t operand_kinds[TERCEL_FN_COUNT] = {
    [TERCEL_FN_CONSTANT] = ANY,
    [TERCEL_FN_CAST] = ANY,
    [TERCEL_FN_COPY] = MOVED,
    [TERCEL_FN_EQUAL] = MOVED,
    [TERCEL_FN_SELECT] = MOVED,
    [TERCEL_FN_ADD] = NUMBERS,
    [TERCEL_FN_SUB] = NUMBERS,
    [TERCEL_FN_MUL] = NUMBERS,
    [TERCEL_FN_DIV] = NUMBERS,
    [TERCEL_FN_MOD] = NUMBERS,
    [TERCEL_FN_FMOD] = NUMBERS,
    [TERCEL_FN_POW] = NUMBERS,
    [TERCEL_FN_MIN] = NUMBERS,
    [TERCEL_FN_MAX] = NUMBERS,
    [TERCEL_FN_PRELU] = NUMBERS,
    [TERCEL_FN_LESS] = NUMBERS,
    [TERCEL_FN_LESS_EQUAL] = NUMBERS,
    [TERCEL_FN_GREATER] = NUMBERS,
    [TERCEL_FN_GREATER_EQUAL] = NUMBERS,
    [TERCEL_FN_CLAMP] = NUMBERS,
    [TERCEL_FN_CLIP] = NUMBERS,
    [TERCEL_FN_NEG] = NUMBERS,
    [TERCEL_FN_ABS] = NUMBERS,
    [TERCEL_FN_SIGN] = NUMBERS,
    [TERCEL_FN_RELU] = NUMBERS,
    [TERCEL_FN_BIT_AND] = INTEGERS,
    [TERCEL_FN_BIT_OR] = INTEGERS,
    [TERCEL_FN_BIT_XOR] = INTEGERS,
    [TERCEL_FN_BIT_NOT] = INTEGERS,
    [TERCEL_FN_SHIFT_LEFT] = INTEGERS,
    [TERCEL_FN_SHIFT_RIGHT] = INTEGERS,
    [TERCEL_FN_AND] = LOGIC,
    [TERCEL_FN_OR] = LOGIC,
    [TERCEL_FN_XOR] = LOGIC,
    [TERCEL_FN_NOT] = LOGIC,
};

static bool takes(tercel_fn fn, tercel_dtype dtype) {
  const unsigned kinds = operand_kinds[fn] ? operand_kinds[fn] : FLOATS;
  return kinds >> tercel_dtype_get_kind(dtype) & 1;
}

/* The dtype that operand j must have, given the dtypes of all registers so far. */
static tercel_dtype wanted_dtype(const tercel_instr *instr, int j, const tercel_dtype *dtypes) {
  if (instr->fn == TERCEL_FN_SELECT) return j == 0 ? TERCEL_DTYPE_BOOL : dtypes[instr->operands[1]];
  return dtypes[instr->operands[0]];
}

static tercel_status check_dtypes(const tercel_instr *instr, int k, const tercel_dtype *dtypes, tercel_error *err) {
  const tercel_fn_info *const info = &infos[instr->fn];
  for (int j = 0; j < info->arity; j++) {
    const tercel_dtype have = dtypes[instr->operands[j]], want = wanted_dtype(instr, j, dtypes);
    if (have != want)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "instruction %d, %s: operand %d is %s, want %s", k, info->name, j,
                         tercel_dtype_name(have), tercel_dtype_name(want));
    if (!(instr->fn == TERCEL_FN_SELECT && j == 0) && !takes((tercel_fn)instr->fn, have))
      return tercel_fail(err, TERCEL_INVALID_MODEL, "instruction %d: %s does not take %s", k, info->name,
                         tercel_dtype_name(have));
  }
  const tercel_dtype result = (tercel_dtype)instr->dtype;
  tercel_dtype want = result;
  if (info->result == TERCEL_RESULT_BOOL) want = TERCEL_DTYPE_BOOL;
  if (info->result == TERCEL_RESULT_SAME) want = dtypes[instr->operands[0]];
  if (info->result == TERCEL_RESULT_SECOND) want = dtypes[instr->operands[1]];
  if (result != want || !(ANY >> tercel_dtype_get_kind(result) & 1))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "instruction %d, %s: the result is %s, want %s", k, info->name,
                       tercel_dtype_name(result), result == want ? "a number or bool" : tercel_dtype_name(want));
  return TERCEL_OK;
}

static tercel_status check_registers(const tercel_instr *instr, int k, int num_registers, tercel_error *err) {
  if (instr->fn >= TERCEL_FN_COUNT)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "instruction %d: function %d does not exist", k, instr->fn);
  for (int j = 0; j < infos[instr->fn].arity; j++)
    if (instr->operands[j] >= num_registers)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "instruction %d, %s: operand %d is register %d of %d", k,
                         infos[instr->fn].name, j, instr->operands[j], num_registers);
  return TERCEL_OK;
}

tercel_status tercel_program_check(const tercel_program *program, const tercel_dtype *inputs, tercel_dtype *result_out,
                                   tercel_error *err) {
  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS];
  const int n = program->num_inputs;
  if (n < 0 || n > TERCEL_PROGRAM_MAX_INPUTS || program->num_instrs < 1 ||
      program->num_instrs > TERCEL_PROGRAM_MAX_INSTRS)
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "a program of %d inputs and %d instructions, want at most %d inputs and 1 to %d instructions", n,
                       program->num_instrs, TERCEL_PROGRAM_MAX_INPUTS, TERCEL_PROGRAM_MAX_INSTRS);
  if (inputs && n) memcpy(dtypes, inputs, (size_t)n * sizeof *inputs);
  for (int k = 0; k < program->num_instrs; k++) {
    const tercel_instr *const instr = &program->instrs[k];
    TERCEL_TRY(check_registers(instr, k, n + k, err));
    if (inputs) TERCEL_TRY(check_dtypes(instr, k, dtypes, err));
    dtypes[n + k] = (tercel_dtype)instr->dtype;
  }
  if (result_out) *result_out = dtypes[n + program->num_instrs - 1];
  return TERCEL_OK;
}

/* ---- chain ---- */

tercel_status tercel_program_chain(tercel_arena *arena, const tercel_program *first, const tercel_program *second,
                                   int at, tercel_program *out, tercel_error *err) {
  const int num_inputs = first->num_inputs + second->num_inputs - 1,
            num_instrs = first->num_instrs + second->num_instrs;
  if (num_inputs > TERCEL_PROGRAM_MAX_INPUTS || num_instrs > TERCEL_PROGRAM_MAX_INSTRS)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a program of %d inputs and %d instructions, want at most %d and %d",
                       num_inputs, num_instrs, TERCEL_PROGRAM_MAX_INPUTS, TERCEL_PROGRAM_MAX_INSTRS);
  tercel_instr *const instrs = tercel_arena_alloc_array(arena, (size_t)num_instrs, sizeof *instrs);
  if (!instrs) return tercel_fail_memory(err, (size_t)num_instrs * sizeof *instrs, "a pointwise program");
  for (int k = 0; k < first->num_instrs; k++) {
    instrs[k] = first->instrs[k];
    for (int j = 0; j < infos[instrs[k].fn].arity; j++)
      if (instrs[k].operands[j] >= first->num_inputs)
        instrs[k].operands[j] = (uint16_t)(instrs[k].operands[j] - first->num_inputs + num_inputs);
  }
  const int result = num_inputs + first->num_instrs - 1; /* the register of first's result */
  for (int k = 0; k < second->num_instrs; k++) {
    tercel_instr *const instr = &instrs[first->num_instrs + k];
    *instr = second->instrs[k];
    for (int j = 0; j < infos[instr->fn].arity; j++) {
      const int operand = instr->operands[j];
      const int moved = operand >= second->num_inputs ? operand - second->num_inputs + result + 1
                        : operand == at               ? result
                                                      : first->num_inputs + operand - (operand > at);
      instr->operands[j] = (uint16_t)moved;
    }
  }
  *out = (tercel_program){num_inputs, num_instrs, instrs};
  return TERCEL_OK;
}
