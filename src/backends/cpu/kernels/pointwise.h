/* Pointwise loops: one function of ir/functions.inc over n elements of one type, and programs compiled into lists of such loops.
 *
 * In registers of a program f16 and bf16 are held as f32 (and rounded after each instruction), bool as bytes 0 and 1; the narrower
 * floats have no loops, so programs over them are left to the reference. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_POINTWISE_H
#define TERCEL_BACKENDS_CPU_KERNELS_POINTWISE_H

#include "backends/cpu/kernels/tables.h"
#include "ir/program.h"

typedef struct tercel_code tercel_code;
typedef struct tercel_code_operand tercel_code_operand;

/* How elements lie in a register. */
typedef enum tercel_lane {
  TERCEL_LANE_F32,
  TERCEL_LANE_F64,
  TERCEL_LANE_I8,
  TERCEL_LANE_I16,
  TERCEL_LANE_I32,
  TERCEL_LANE_I64,
  TERCEL_LANE_U8,
  TERCEL_LANE_U16,
  TERCEL_LANE_U32,
  TERCEL_LANE_U64,
  TERCEL_LANE_BOOL,
  TERCEL_LANE_COUNT
} tercel_lane;

/* One call of a loop: dst[i] = f(src[0][i * step[0]], ...) for i in [0, n).  Steps are 0 (one element for all) or 1.  dst may be
 * exactly one of the sources when the elements have the same size.  Nothing beyond the n elements is touched. */
typedef struct tercel_lanes {
  void *dst;
  const void *src[3];
  int64_t step[3];
  int64_t n;
  const tercel_immediate *immediates; /* of the instruction: 2 */
} tercel_lanes;

typedef void (*tercel_lanes_fn)(const tercel_lanes *lanes);

/* NULL: there is no such loop. */
typedef struct tercel_pointwise_kernels {
  tercel_lanes_fn f32[TERCEL_FN_COUNT];
  tercel_lanes_fn f16_load, f16_store, f16_round; /* f16 -> f32; f32 -> f16; f32 -> the f32 nearest that is an f16 */
  tercel_lanes_fn bf16_load, bf16_store, bf16_round;
  /* Runs a compiled program, see tercel_code. */
  void (*run)(const tercel_code *code, const tercel_code_operand *operands, void *out, int64_t n);
} tercel_pointwise_kernels;

/* Loops over the other types: the same at every level but for what the compiler makes of them. */
typedef struct tercel_pointwise_plain_kernels {
  tercel_lanes_fn fn[TERCEL_LANE_COUNT][TERCEL_FN_COUNT];     /* by the lane of operand a (select: of b) */
  tercel_lanes_fn cast[TERCEL_LANE_COUNT][TERCEL_LANE_COUNT]; /* [from][to] */
} tercel_pointwise_plain_kernels;

/* ---- compiled programs ---- */

/* Where an operand of a step is found. */
typedef enum tercel_code_place {
  TERCEL_CODE_INPUT,
  TERCEL_CODE_SLOT,
  TERCEL_CODE_CONSTANT,
  TERCEL_CODE_OUTPUT
} tercel_code_place;

typedef struct tercel_code_ref {
  uint8_t place; /* tercel_code_place */
  uint8_t index; /* of the input, slot or constant */
} tercel_code_ref;

typedef struct tercel_code_step {
  tercel_lanes_fn fn;
  tercel_code_ref dst, src[3];
  int num_src;
  tercel_immediate immediates[2];
} tercel_code_step;

/* A program made ready to run at one level: instructions became loops, registers became slots of scratch memory that are
 * reused once their value is dead. */
struct tercel_code {
  int num_inputs, num_slots, num_steps;
  uint8_t input_bytes[TERCEL_PROGRAM_MAX_INPUTS]; /* of an element */
  uint8_t output_bytes;
  int64_t tile;       /* elements a tile: the slots of one fit the scratch */
  int64_t slot_bytes; /* from one slot to the next */
  double cost;        /* rough nanoseconds an element */
  const tercel_immediate *constants;
  const tercel_code_step *steps;
};

struct tercel_code_operand {
  const void *data;
  int64_t step; /* 0 or 1 */
};

/* Bytes of scratch that `run` keeps on its stack. */
enum { TERCEL_CODE_SCRATCH_BYTES = 16384 };

TERCEL_FUSED_TABLES(tercel_pointwise_kernels)
extern const tercel_pointwise_plain_kernels tercel_pointwise_plain_kernels_baseline,
    tercel_pointwise_plain_kernels_avx2, tercel_pointwise_plain_kernels_avx512;

#endif
