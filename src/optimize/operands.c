/* Pointwise programs with the values they read, being put together. */
#include "optimize/operands.h"

#include <string.h>

#include "optimize/shapes.h"

tercel_status tercel_operands_read(tercel_arena *arena, const tercel_node *node, tercel_operands *out,
                                   tercel_error *err) {
  *out = (tercel_operands){.arena = arena, .program = *tercel_node_program(node, "program")};
  const size_t bytes = (size_t)out->program.num_instrs * sizeof *out->program.instrs;
  out->program.instrs = tercel_arena_copy(arena, out->program.instrs, bytes);
  if (!out->program.instrs) return tercel_fail_memory(err, bytes, "a pointwise program");
  for (int i = 0; i < out->program.num_inputs; i++) out->inputs[i] = node->inputs[i];
  return TERCEL_OK;
}

/* Input i becomes input map[i] of num_inputs. */
static void renumber(tercel_program *program, const int *map, int num_inputs) {
  for (int k = 0; k < program->num_instrs; k++) {
    tercel_instr *const instr = &program->instrs[k];
    for (int j = 0; j < tercel_fn_get_info((tercel_fn)instr->fn)->arity; j++) {
      const int operand = instr->operands[j];
      instr->operands[j] =
          (uint16_t)(operand < program->num_inputs ? map[operand] : operand - program->num_inputs + num_inputs);
    }
  }
  program->num_inputs = num_inputs;
}

void tercel_operands_merge_equal(tercel_operands *o) {
  int map[TERCEL_PROGRAM_MAX_INPUTS], count = 0;
  for (int i = 0; i < o->program.num_inputs; i++) {
    map[i] = 0;
    while (map[i] < count && o->inputs[map[i]] != o->inputs[i]) map[i]++;
    if (map[i] == count) o->inputs[count++] = o->inputs[i];
  }
  renumber(&o->program, map, count);
}

int tercel_operands_find(const tercel_operands *o, const tercel_value *value) {
  for (int i = 0; i < o->program.num_inputs; i++)
    if (o->inputs[i] == value) return i;
  return -1;
}

void tercel_operands_to_front(tercel_operands *o, int index) {
  int map[TERCEL_PROGRAM_MAX_INPUTS];
  tercel_value *const value = o->inputs[index];
  for (int i = 0; i < o->program.num_inputs; i++) map[i] = i == index ? 0 : i < index ? i + 1 : i;
  memmove(&o->inputs[1], &o->inputs[0], (size_t)index * sizeof *o->inputs);
  o->inputs[0] = value;
  renumber(&o->program, map, o->program.num_inputs);
}

tercel_status tercel_operands_prepend(tercel_operands *o, int index, const tercel_operands *first, tercel_error *err) {
  tercel_program chained;
  tercel_value *rest[TERCEL_PROGRAM_MAX_INPUTS];
  int num_rest = 0;
  TERCEL_TRY(tercel_program_chain(o->arena, &first->program, &o->program, index, &chained, err));
  for (int i = 0; i < o->program.num_inputs; i++)
    if (i != index) rest[num_rest++] = o->inputs[i];
  for (int i = 0; i < first->program.num_inputs; i++) o->inputs[i] = first->inputs[i];
  for (int i = 0; i < num_rest; i++) o->inputs[first->program.num_inputs + i] = rest[i];
  o->program = chained;
  return TERCEL_OK;
}

/* Whether the other inputs alone give the result's shape: one of them has it. */
static bool keeps_shape(const tercel_operands *o, int without, const tercel_shape *result) {
  for (int i = 0; i < o->program.num_inputs; i++)
    if (i != without && tercel_shape_equal(&o->inputs[i]->type.shape, result)) return true;
  return false;
}

tercel_status tercel_operands_absorb_scalars(tercel_operands *o, const tercel_shape *result, tercel_error *err) {
  for (int i = o->program.num_inputs; i-- > 0;) {
    double number;
    const tercel_value *const value = o->inputs[i];
    if (!tercel_scalar(value, &number) || !keeps_shape(o, i, result) ||
        o->program.num_instrs == TERCEL_PROGRAM_MAX_INSTRS)
      continue;
    tercel_instr instr = {.fn = TERCEL_FN_CONSTANT, .dtype = (uint8_t)value->type.dtype};
    if (tercel_dtype_is_float(value->type.dtype))
      instr.immediates[0].f = number;
    else
      instr.immediates[0].i = tercel_tensor_get_i64(value->constant, 0);
    const tercel_operands constant = {.arena = o->arena, .program = {0, 1, &instr}};
    TERCEL_TRY(tercel_operands_prepend(o, i, &constant, err));
  }
  return TERCEL_OK;
}

static bool is_plain(tercel_dtype dtype) {
  const bool is_narrow_float = tercel_dtype_is_float(dtype) && tercel_dtype_bits(dtype) < 16;
  return tercel_dtype_bits(dtype) >= 8 && !is_narrow_float;
}

tercel_dtype tercel_operands_odd_dtype(const tercel_operands *o) {
  for (int i = 0; i < o->program.num_inputs; i++)
    if (!is_plain(o->inputs[i]->type.dtype)) return o->inputs[i]->type.dtype;
  for (int k = 0; k < o->program.num_instrs; k++)
    if (!is_plain((tercel_dtype)o->program.instrs[k].dtype)) return (tercel_dtype)o->program.instrs[k].dtype;
  return TERCEL_DTYPE_NONE;
}

/* ---- what may be made again ---- */

typedef enum effort { EFFORT_NONE, EFFORT_LITTLE, EFFORT_SOME, EFFORT_MUCH } effort;

static effort effort_of(tercel_fn fn) {
  switch (fn) {
  case TERCEL_FN_CONSTANT:
  case TERCEL_FN_COPY: return EFFORT_NONE;
  case TERCEL_FN_ADD:
  case TERCEL_FN_SUB:
  case TERCEL_FN_MUL:
  case TERCEL_FN_NEG:
  case TERCEL_FN_MIN:
  case TERCEL_FN_MAX:
  case TERCEL_FN_CAST: return EFFORT_LITTLE;
  case TERCEL_FN_DIV:
  case TERCEL_FN_RECIPROCAL:
  case TERCEL_FN_SQRT:
  case TERCEL_FN_FLOOR: return EFFORT_SOME;
  default: return EFFORT_MUCH;
  }
}

bool tercel_operands_may_repeat(const tercel_value *value, const tercel_value *result) {
  enum { MOST_BY_ROW = 4, MOST_BY_ELEMENT = 1 };
  const tercel_shape *const shape = &value->type.shape;
  if (!tercel_is(value->producer, TERCEL_OP_POINTWISE) || tercel_shape_equal(shape, &result->type.shape)) return false;
  /* A loop does it once for a row when it is one number there. */
  const bool is_one_a_row = shape->rank == 0 || (shape->rank > 0 && shape->dims[shape->rank - 1] == 1);
  const tercel_program *const program = tercel_node_program(value->producer, "program");
  int count = 0;
  for (int k = 0; k < program->num_instrs; k++) {
    const effort needs = effort_of((tercel_fn)program->instrs[k].fn);
    if (needs > (is_one_a_row ? EFFORT_SOME : EFFORT_LITTLE)) return false;
    count += needs != EFFORT_NONE;
  }
  return count <= (is_one_a_row ? MOST_BY_ROW : MOST_BY_ELEMENT);
}
