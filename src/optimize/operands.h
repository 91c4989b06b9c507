/* Pointwise programs with the values they read, being put together. */
#ifndef TERCEL_OPTIMIZE_OPERANDS_H
#define TERCEL_OPTIMIZE_OPERANDS_H

#include "optimize/rewrite.h"

typedef struct tercel_operands {
  tercel_arena *arena; /* the program lives here */
  tercel_program program;
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS];
} tercel_operands;

/* Of a pointwise node. */
tercel_status tercel_operands_read(tercel_arena *arena, const tercel_node *node, tercel_operands *out,
                                   tercel_error *err);
/* Inputs that are the same value become one. */
void tercel_operands_merge_equal(tercel_operands *operands);
/* Constant inputs of one element become constants of the program, while another input remains that gives the result
 * its shape. */
tercel_status tercel_operands_absorb_scalars(tercel_operands *operands, const tercel_shape *result, tercel_error *err);
/* Is the value, made by a pointwise operator and broadcast to `result`, so cheap that it may as well be made again for each row of the result
 * (or each element, where it has one for each column)? */
bool tercel_operands_may_repeat(const tercel_value *value, const tercel_value *result);
/* The index of the value among the inputs, or -1. */
int tercel_operands_find(const tercel_operands *operands, const tercel_value *value);
/* Puts the input to the front. */
void tercel_operands_to_front(tercel_operands *operands, int index);
/* What made input `index` is computed by the program itself; UNSUPPORTED beyond a program's limits. */
tercel_status tercel_operands_prepend(tercel_operands *operands, int index, const tercel_operands *first,
                                      tercel_error *err);
/* The first dtype that not every backend can be expected to have loops for (no whole byte, or an 8-bit float); NONE without one. */
tercel_dtype tercel_operands_odd_dtype(const tercel_operands *operands);

#endif
