/* Verifying steps: what was measured of each, kept by the engine (and in its file).  Measuring is runtime/verify.c's. */
#ifndef TERCEL_PLAN_VERIFY_H
#define TERCEL_PLAN_VERIFY_H

#include "base/base.h"

/* Of one step: its kernel against the operator's reference kernel, and its results against the nodes of the file that it stands for. */
typedef struct tercel_step_check {
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

#endif
