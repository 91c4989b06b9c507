/* Compiles pointwise programs into lists of loops.
 *
 * Registers live in slots of a small scratch (one tile each), which are reused once their value is dead.  f16 and bf16 inputs are
 * widened into a slot first; each instruction's result is rounded there; the last loop narrows it into the output. */
#include "backends/cpu/program.h"

#include <string.h>

enum {
  MAX_REGISTERS = TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS,
  MAX_STEPS = TERCEL_PROGRAM_MAX_INPUTS + 2 * TERCEL_PROGRAM_MAX_INSTRS + 1,
  MAX_TILE = 1024,
  NO_LANE = -1
};

static int lane_of(tercel_dtype dtype) {
  switch (dtype) {
  case TERCEL_DTYPE_F32:
  case TERCEL_DTYPE_F16:
  case TERCEL_DTYPE_BF16: return TERCEL_LANE_F32;
  case TERCEL_DTYPE_F64: return TERCEL_LANE_F64;
  case TERCEL_DTYPE_I8: return TERCEL_LANE_I8;
  case TERCEL_DTYPE_I16: return TERCEL_LANE_I16;
  case TERCEL_DTYPE_I32: return TERCEL_LANE_I32;
  case TERCEL_DTYPE_I64: return TERCEL_LANE_I64;
  case TERCEL_DTYPE_U8: return TERCEL_LANE_U8;
  case TERCEL_DTYPE_U16: return TERCEL_LANE_U16;
  case TERCEL_DTYPE_U32: return TERCEL_LANE_U32;
  case TERCEL_DTYPE_U64: return TERCEL_LANE_U64;
  case TERCEL_DTYPE_BOOL: return TERCEL_LANE_BOOL;
  default: return NO_LANE;
  }
}

static int lane_bytes(int lane) {
  static const uint8_t bytes[TERCEL_LANE_COUNT] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return bytes[lane];
}

static bool is_half(tercel_dtype dtype) { return dtype == TERCEL_DTYPE_F16 || dtype == TERCEL_DTYPE_BF16; }

/* ---- loops --------------------------------------------------------------------------------------------------------- */

typedef struct loops {
  const tercel_pointwise_kernels *f32;
  const tercel_pointwise_plain_kernels *plain;
} loops;

static loops pick_loops(const tercel_target *target) {
  return (loops){TERCEL_CPU_PICK_FOR(target, tercel_pointwise_kernels),
                 TERCEL_CPU_PICK(tercel_pointwise_plain_kernels)};
}

static tercel_lanes_fn round_loop(const loops *l, tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_F16 ? l->f32->f16_round : l->f32->bf16_round;
}

static tercel_lanes_fn function_loop(const loops *l, tercel_fn fn, int lane) {
  return lane == TERCEL_LANE_F32 ? l->f32->f32[fn] : l->plain->fn[lane][fn];
}

/* NULL where going through f32 would round twice (f64 and wide integers to 16 bits). */
static tercel_lanes_fn cast_loop(const loops *l, tercel_dtype from, tercel_dtype to) {
  const int a = lane_of(from), b = lane_of(to);
  if (from == TERCEL_DTYPE_F64 && is_half(to)) return NULL;
  if (to == TERCEL_DTYPE_BF16 && a != TERCEL_LANE_F32 && lane_bytes(a) >= 4) return NULL;
  return a == b ? function_loop(l, TERCEL_FN_COPY, a) : l->plain->cast[a][b];
}

/* Nanoseconds an element, roughly: what splitting among threads goes by. */
static double cost_of(tercel_fn fn) {
  switch (fn) {
  case TERCEL_FN_POW:
  case TERCEL_FN_FMOD: return 3.0;
  case TERCEL_FN_EXP:
  case TERCEL_FN_LOG:
  case TERCEL_FN_TANH:
  case TERCEL_FN_ERF:
  case TERCEL_FN_SIGMOID:
  case TERCEL_FN_SILU:
  case TERCEL_FN_GELU:
  case TERCEL_FN_GELU_TANH:
  case TERCEL_FN_SOFTPLUS:
  case TERCEL_FN_MISH:
  case TERCEL_FN_ELU:
  case TERCEL_FN_CELU:
  case TERCEL_FN_SELU: return 0.7;
  default: return 0.1;
  }
}

/* ---- registers ----------------------------------------------------------------------------------------------------- */

typedef struct compiler {
  loops loops;
  const tercel_program *program;
  const tercel_tensor *const *scalars;
  int num_registers;
  tercel_dtype dtypes[MAX_REGISTERS];
  tercel_code_ref refs[MAX_REGISTERS];
  int last_use[MAX_REGISTERS]; /* the instruction that reads it last; -1: none */
  bool slot_used[MAX_REGISTERS];
  int num_slots, num_steps, num_constants;
  tercel_immediate constants[TERCEL_PROGRAM_MAX_INSTRS];
  tercel_code_step steps[MAX_STEPS];
  double cost;
} compiler;

static tercel_code_ref new_slot(compiler *c) {
  int slot = 0;
  while (c->slot_used[slot]) slot++;
  c->slot_used[slot] = true;
  if (slot >= c->num_slots) c->num_slots = slot + 1;
  return (tercel_code_ref){TERCEL_CODE_SLOT, (uint8_t)slot};
}

static tercel_code_step *add_step(compiler *c, tercel_lanes_fn fn, tercel_code_ref dst) {
  tercel_code_step *step = &c->steps[c->num_steps++];
  *step = (tercel_code_step){.fn = fn, .dst = dst};
  return step;
}

static void add_unary(compiler *c, tercel_lanes_fn fn, tercel_code_ref dst, tercel_code_ref src) {
  tercel_code_step *step = add_step(c, fn, dst);
  step->src[0] = src;
  step->num_src = 1;
}

static void find_last_uses(compiler *c) {
  for (int r = 0; r < c->num_registers; r++) c->last_use[r] = -1;
  for (int k = 0; k < c->program->num_instrs; k++) {
    const tercel_instr *instr = &c->program->instrs[k];
    for (int j = 0; j < tercel_fn_get_info((tercel_fn)instr->fn)->arity; j++) c->last_use[instr->operands[j]] = k;
  }
}

/* Gives back the slots of operands that instruction k reads last, of elements as wide as `bytes` (0: any). */
static void free_operands(compiler *c, int k, int bytes) {
  const tercel_instr *instr = &c->program->instrs[k];
  for (int j = 0; j < tercel_fn_get_info((tercel_fn)instr->fn)->arity; j++) {
    const int r = instr->operands[j];
    const tercel_code_ref ref = c->refs[r];
    if (ref.place != TERCEL_CODE_SLOT || c->last_use[r] != k) continue;
    if (bytes == 0 || lane_bytes(lane_of(c->dtypes[r])) == bytes) c->slot_used[ref.index] = false;
  }
}

/* ---- instructions -------------------------------------------------------------------------------------------------- */

/* The value of register r where it is one number for the whole run. */
static bool scalar_value(const compiler *c, int r, double *out) {
  const int n = c->program->num_inputs;
  if (!tercel_dtype_is_float(c->dtypes[r])) return false;
  if (r >= n) {
    const tercel_instr *instr = &c->program->instrs[r - n];
    *out = instr->immediates[0].f;
    return instr->fn == TERCEL_FN_CONSTANT;
  }
  if (!c->scalars || !c->scalars[r]) return false;
  *out = tercel_tensor_get_f64(c->scalars[r], 0);
  return true;
}

static tercel_code_ref add_constant(compiler *c, const tercel_instr *instr) {
  const tercel_dtype dtype = (tercel_dtype)instr->dtype;
  tercel_immediate element = {0};
  if (tercel_dtype_is_float(dtype))
    tercel_element_set_f64(&element, dtype, 0, instr->immediates[0].f);
  else
    tercel_element_set_i64(&element, dtype, 0, instr->immediates[0].i);
  if (is_half(dtype)) {
    const float widened = (float)tercel_element_get_f64(&element, dtype, 0);
    memcpy(&element, &widened, sizeof widened);
  }
  c->constants[c->num_constants] = element;
  return (tercel_code_ref){TERCEL_CODE_CONSTANT, (uint8_t)c->num_constants++};
}

/* The loop of an instruction; *arity and operands may be changed to those of a cheaper one. */
static tercel_lanes_fn instr_loop(const compiler *c, const tercel_instr *instr, int *arity, int operands[3]) {
  const tercel_fn fn = (tercel_fn)instr->fn;
  const tercel_dtype a = c->dtypes[operands[0]];
  if (fn == TERCEL_FN_CAST) return cast_loop(&c->loops, a, (tercel_dtype)instr->dtype);
  if (fn == TERCEL_FN_SELECT) return function_loop(&c->loops, fn, lane_of(c->dtypes[operands[1]]));
  double exponent;
  if (fn == TERCEL_FN_POW && lane_of(a) == TERCEL_LANE_F32 && scalar_value(c, operands[1], &exponent)) {
    *arity = exponent == 1.0 ? 1 : 2;
    if (exponent == 1.0) return c->loops.f32->f32[TERCEL_FN_COPY];
    if (exponent == 2.0) {
      operands[1] = operands[0];
      return c->loops.f32->f32[TERCEL_FN_MUL];
    }
  }
  return function_loop(&c->loops, fn, lane_of(a));
}

/* Steps of instruction k, whose result goes to a slot or, when it is the last and not 16 bits wide, to the output. */
static bool compile_instr(compiler *c, int k) {
  const tercel_instr *instr = &c->program->instrs[k];
  const tercel_fn fn = (tercel_fn)instr->fn;
  const int r = c->program->num_inputs + k;
  const bool last = k == c->program->num_instrs - 1;
  const tercel_dtype dtype = (tercel_dtype)instr->dtype;
  c->dtypes[r] = dtype;
  if (lane_of(dtype) == NO_LANE) return false;
  if (fn == TERCEL_FN_CONSTANT) {
    c->refs[r] = add_constant(c, instr);
    if (last) {
      const tercel_code_ref out = {TERCEL_CODE_OUTPUT, 0};
      const tercel_lanes_fn copy = dtype == TERCEL_DTYPE_F16 ? c->loops.f32->f16_store
                                   : dtype == TERCEL_DTYPE_BF16
                                       ? c->loops.f32->bf16_store
                                       : function_loop(&c->loops, TERCEL_FN_COPY, lane_of(dtype));
      add_unary(c, copy, out, c->refs[r]);
    }
    return true;
  }
  int arity = tercel_fn_get_info(fn)->arity, operands[3] = {instr->operands[0], instr->operands[1], instr->operands[2]};
  const tercel_lanes_fn loop = instr_loop(c, instr, &arity, operands);
  if (!loop) return false;
  tercel_code_ref src[3] = {{0}};
  for (int j = 0; j < arity; j++) src[j] = c->refs[operands[j]];

  const bool to_output = last && !is_half(dtype);
  free_operands(c, k, lane_bytes(lane_of(dtype)));
  c->refs[r] = to_output ? (tercel_code_ref){TERCEL_CODE_OUTPUT, 0} : new_slot(c);
  free_operands(c, k, 0);
  if (c->refs[r].place == TERCEL_CODE_SLOT) c->slot_used[c->refs[r].index] = true;

  tercel_code_step *step = add_step(c, loop, c->refs[r]);
  memcpy(step->src, src, sizeof src);
  memcpy(step->immediates, instr->immediates, sizeof step->immediates);
  step->num_src = arity;
  c->cost += cost_of(fn);
  if (is_half(dtype) && !last) add_unary(c, round_loop(&c->loops, dtype), c->refs[r], c->refs[r]);
  if (is_half(dtype) && last)
    add_unary(c, dtype == TERCEL_DTYPE_F16 ? c->loops.f32->f16_store : c->loops.f32->bf16_store,
              (tercel_code_ref){TERCEL_CODE_OUTPUT, 0}, c->refs[r]);
  return true;
}

static bool compile(compiler *c, const tercel_program *program, const tercel_target *target, const tercel_dtype *inputs,
                    const tercel_tensor *const *scalars) {
  memset(c, 0, sizeof *c);
  if (program->num_inputs > TERCEL_PROGRAM_MAX_INPUTS || program->num_instrs > TERCEL_PROGRAM_MAX_INSTRS ||
      program->num_instrs < 1)
    return false;
  c->loops = pick_loops(target);
  c->program = program;
  c->scalars = scalars;
  c->num_registers = program->num_inputs + program->num_instrs;
  find_last_uses(c);
  for (int i = 0; i < program->num_inputs; i++) {
    c->dtypes[i] = inputs[i];
    if (lane_of(inputs[i]) == NO_LANE) return false;
    c->refs[i] = (tercel_code_ref){TERCEL_CODE_INPUT, (uint8_t)i};
    if (!is_half(inputs[i]) || c->last_use[i] < 0) continue;
    const tercel_code_ref slot = new_slot(c);
    add_unary(c, inputs[i] == TERCEL_DTYPE_F16 ? c->loops.f32->f16_load : c->loops.f32->bf16_load, slot, c->refs[i]);
    c->refs[i] = slot;
  }
  for (int k = 0; k < program->num_instrs; k++)
    if (!compile_instr(c, k)) return false;
  return true;
}

bool tercel_code_supports(const tercel_program *program, const tercel_dtype *inputs) {
  static const tercel_target any = {.num_threads = 1}; /* all have the same loops */
  compiler c;
  return compile(&c, program, &any, inputs, NULL);
}

static int widest_register(const compiler *c) {
  int widest = 1;
  for (int r = 0; r < c->num_registers; r++) {
    const int bytes = lane_bytes(lane_of(c->dtypes[r]));
    if (bytes > widest) widest = bytes;
  }
  return widest;
}

tercel_status tercel_code_compile(const tercel_program *program, const tercel_target *target,
                                  const tercel_dtype *inputs, const tercel_tensor *const *scalars, tercel_arena *arena,
                                  tercel_code *out, tercel_error *err) {
  compiler c;
  if (!compile(&c, program, target, inputs, scalars))
    return tercel_fail(err, TERCEL_UNSUPPORTED, "the CPU backend has no loop for an instruction of this program");
  *out = (tercel_code){
      .num_inputs = program->num_inputs, .num_slots = c.num_slots, .num_steps = c.num_steps, .cost = c.cost};
  for (int i = 0; i < program->num_inputs; i++) out->input_bytes[i] = (uint8_t)(tercel_dtype_bits(inputs[i]) / 8);
  out->output_bytes = (uint8_t)(tercel_dtype_bits(c.dtypes[c.num_registers - 1]) / 8);
  if (c.num_slots > 0) {
    const int64_t bytes = widest_register(&c), fits = TERCEL_CODE_SCRATCH_BYTES / (c.num_slots * bytes) / 16 * 16;
    out->tile = tercel_min_i64(fits, MAX_TILE);
    out->slot_bytes = out->tile * bytes;
  }
  out->constants = tercel_arena_copy(arena, c.constants, (size_t)c.num_constants * sizeof *c.constants);
  out->steps = tercel_arena_copy(arena, c.steps, (size_t)c.num_steps * sizeof *c.steps);
  if (!out->constants || !out->steps) return tercel_fail_memory(err, sizeof c.steps, "a pointwise program");
  return TERCEL_OK;
}
