/* Pointwise programs: what a pointwise node does to each element, and what conv, matmul and others do to each element
 * of their result before it is stored (attribute "epilogue").
 *
 * A program is a list of instructions in SSA form.  Register r < num_inputs is input r (broadcast to the result's
 * shape); register num_inputs + k is the result of instruction k.  The last instruction gives the program's result.
 *
 *     hard-swish:  {2 inputs}  %2 = add %0 %1;  %3 = hard_sigmoid(0.1666, 0.5) %2;  %4 = mul %2 %3
 *
 * Each instruction rounds to its own dtype: a fused chain gives what the single nodes give. */
#ifndef TERCEL_IR_PROGRAM_H
#define TERCEL_IR_PROGRAM_H

#include "base/base.h"
#include "ir/dtype.h"

typedef enum tercel_fn {
#define TERCEL_FN(id, name, arity, immediates, result, description) TERCEL_FN_##id,
#include "ir/functions.inc"
#undef TERCEL_FN
  TERCEL_FN_COUNT
} tercel_fn;

/* The dtype of an instruction's result. */
typedef enum tercel_fn_result {
  TERCEL_RESULT_SAME, /* that of operand a (all operands but a condition must agree) */
  TERCEL_RESULT_BOOL,
  TERCEL_RESULT_OWN,   /* the instruction says (cast, constant) */
  TERCEL_RESULT_SECOND /* that of operand b (select: a is the condition) */
} tercel_fn_result;

typedef struct tercel_fn_info {
  const char *name;
  int arity;          /* 0 .. 3 */
  int num_immediates; /* 0 .. 2 */
  tercel_fn_result result;
} tercel_fn_info;

const tercel_fn_info *tercel_fn_get_info(tercel_fn fn);
bool tercel_fn_parse(const char *name, size_t length, tercel_fn *out);

/* f for float dtypes, i for integers and bool: by the dtype of the instruction's operand a (constants: of its
 * result). */
typedef union tercel_immediate {
  double f;
  int64_t i;
  const tercel_string *s; /* of strings, in registers only */
} tercel_immediate;

typedef struct tercel_instr {
  uint8_t fn;    /* tercel_fn */
  uint8_t dtype; /* of the result */
  uint16_t operands[3];
  tercel_immediate immediates[2];
} tercel_instr;

enum { TERCEL_PROGRAM_MAX_INPUTS = 16, TERCEL_PROGRAM_MAX_INSTRS = 64 };

typedef struct tercel_program {
  int num_inputs;
  int num_instrs;
  tercel_instr *instrs;
} tercel_program;

/* Checks registers and arities, and dtypes against the inputs' dtypes (inputs NULL: no dtypes); *result_out (may be
 * NULL) gets the result's. */
tercel_status tercel_program_check(const tercel_program *program, const tercel_dtype *inputs, tercel_dtype *result_out,
                                   tercel_error *err);

/* One element of the reference evaluation: regs holds num_inputs + num_instrs values, the inputs filled in.
 * Floats are kept as double but rounded to the instruction's dtype after each one; integers wrap to theirs. */
void tercel_program_eval(const tercel_program *program, const tercel_dtype *inputs, tercel_immediate *regs);

/* Puts `first` before `second`, whose input `at` becomes first's result: inputs are first's, then second's without
 * `at`.  Fails with UNSUPPORTED when a limit would be passed.  The result lives in the arena. */
tercel_status tercel_program_chain(tercel_arena *arena, const tercel_program *first, const tercel_program *second,
                                   int at, tercel_program *out, tercel_error *err);

#endif
