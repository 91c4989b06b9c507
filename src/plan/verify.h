/* Verifying steps: what may be allowed, what was measured, and keeping it with the engine (and in its file).  Running the steps is
 * runtime/verify.c's. */
#ifndef TERCEL_PLAN_VERIFY_H
#define TERCEL_PLAN_VERIFY_H

#include "ops/ops.h"

/* ---- what was measured, kept ---- */

/* Of one step: its kernel against the operator's reference kernel, and its results against the nodes of the file that it stands for. */
typedef struct tercel_step_check {
  const char *tactic; /* name of the kernel that ran (its own memory); NULL: as the step says */
  tercel_difference reference, file;
} tercel_step_check;

/* Zero-initialize: nothing was verified.  Rows are the plan's (tercel_step.row). */
typedef struct tercel_verification {
  tercel_step_check *rows; /* owned */
  uint32_t num_rows;
  bool failed; /* some difference is beyond its limit: such an engine is not saved */
} tercel_verification;

void tercel_verification_deinit(tercel_verification *verification);
bool tercel_difference_is_ok(const tercel_difference *difference); /* or was not measured */

/* ---- measuring ---- */

/* |got - want| <= epsilon of the dtype * (of_number * |want| + of_largest * largest |want|) + absolute, as docs/numerics.md has it. */
typedef struct tercel_tolerance {
  double of_number, of_largest, absolute;
  bool nan_is_zero; /* where a NaN is wanted, anything may come */
} tercel_tolerance;

/* Between the node's kernel and its reference.  in: its operands, whose shapes count. */
tercel_tolerance tercel_tolerance_of(const tercel_node *node, const tercel_tensor *const *in);
/* Between a fused node and what it was made of: the same sums in another order. */
tercel_tolerance tercel_tolerance_of_fusion(const tercel_node *node);

/* Largest distance of numbers of two tensors of one type and shape; infinity where only one is a number. */
double tercel_largest_move(const tercel_tensor *a, const tercel_tensor *b);
/* Compares and takes the result over where it uses more of its limit than what *out holds.  slack: allowed besides.  Tensors of
 * different type or shape differ by infinity. */
void tercel_difference_take(tercel_difference *out, const tercel_tensor *got, const tercel_tensor *want,
                            const tercel_tolerance *tolerance, double slack);
/* Every float is multiplied by 1 + 1e-6 or 1 - 1e-6: how much a result moves then tells how far rounding may carry it. */
void tercel_nudge(tercel_tensor *tensor);

#endif
