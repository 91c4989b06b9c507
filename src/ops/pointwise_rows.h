/* Large constants through single pointwise functions. */
#ifndef TERCEL_OPS_POINTWISE_ROWS_H
#define TERCEL_OPS_POINTWISE_ROWS_H

#include "ops/ops.h"

/* out = the program of in, just as its evaluation element by element gives it; false when this does not do such a program (casts of
 * integers to f32 or i32; sums, differences, products and quotients). */
bool tercel_pointwise_eval_rows(const tercel_program *program, const tercel_tensor *const *in, tercel_tensor *out);

#endif
