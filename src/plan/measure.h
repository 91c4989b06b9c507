/* Measuring the tactics of one step, for tuning. */
#ifndef TERCEL_PLAN_MEASURE_H
#define TERCEL_PLAN_MEASURE_H

#include "plan/plan.h"

typedef struct tercel_measurement {
  const tercel_step *step;
  const tercel_operands *operands; /* shapes */
  const bool *is_tried;            /* by tactic */
  tercel_packing **packings;       /* by tactic: filled where they are missing, a reference each for the caller */
  const tercel_target *target;
  tercel_pool *pool; /* NULL, or of one thread: on this one, by its CPU time */
} tercel_measurement;

/* ns_out[i] (cleared by the caller): the shortest time of a run of tactic i; stays 0 for those that aren't tried.  Operands are made up: floats
 * in [-1, 1), bytes of any value, else zeros. */
tercel_status tercel_measure_tactics(const tercel_measurement *wanted, double *ns_out, tercel_error *err);

#endif
