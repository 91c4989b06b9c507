/* Pointwise programs made ready to run: loops chosen, registers placed.  See tercel_code in kernels/pointwise.h. */
#ifndef TERCEL_BACKENDS_CPU_PROGRAM_H
#define TERCEL_BACKENDS_CPU_PROGRAM_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/pointwise.h"

/* True when there is a loop for every instruction. */
bool tercel_code_supports(const tercel_program *program, const tercel_dtype *inputs);
/* For the level in force.  The code's arrays lie in the arena.  scalars: NULL, or by input the constant of one element that it is (NULL where
 * it isn't one), which may allow a cheaper loop; such code is then run with those very inputs.  UNSUPPORTED where the above says false. */
tercel_status tercel_code_compile(const tercel_program *program, const tercel_target *target,
                                  const tercel_dtype *inputs, const tercel_tensor *const *scalars, tercel_arena *arena,
                                  tercel_code *out, tercel_error *err);

#endif
