/* Tuning: the tactics of a plan's steps are run and timed on this machine.
 *
 *     create, add      which steps have a choice, at which shapes: steps with the same signature are one *task*
 *     run              measures task after task, those first where most may be won, until the time is over
 *     apply            writes times into a cache, and lets steps run with what was fastest
 *
 * run touches nothing that contexts do: it may go on in a thread of its own while they run, and hands over what it has found
 * through a queue without locks; apply takes it from there, in any thread that may wait.  Each tactic is prepared and run on operands of
 * its own, with caches swept in between, since a step of a network finds its weights out of near caches.  Tactics take turns, and
 * the shortest of each one's times counts: whatever else the machine does only ever adds. */
#ifndef TERCEL_PLAN_TUNE_H
#define TERCEL_PLAN_TUNE_H

#include "plan/plan.h"

typedef struct tercel_tuning tercel_tuning;

/* cache: the one that the plan goes by, where times are written. */
tercel_status tercel_tuning_create(tercel_plan *plan, tercel_timing_cache *cache, tercel_tuning **out,
                                   tercel_error *err);
/* Tasks for the steps as they are when free dims have these sizes (as in tercel_plan_options); those that the plan's cache has no times for, or
 * all.  The plan and its graph must outlive the tuning. */
tercel_status tercel_tuning_add(tercel_tuning *tuning, tercel_dim_value_of size_of, void *size_user, tercel_error *err);
void tercel_tuning_destroy(tercel_tuning *tuning); /* NULL is fine; what was not applied is lost */

typedef struct tercel_tuning_options {
  double seconds; /* how long to go on; a task begun is finished */
  tercel_pool
      *pool; /* NULL: on this thread alone, whose CPU time is measured, so that others may run at the same time */
  const atomic_bool *stop; /* may be NULL */
  tercel_tune_fn progress; /* called after each task; may be NULL */
  void *user;
} tercel_tuning_options;

tercel_status tercel_tuning_run(tercel_tuning *tuning, const tercel_tuning_options *options, tercel_error *err);
/* Something has been found that was not applied yet. */
bool tercel_tuning_has_found(const tercel_tuning *tuning);
/* From any thread. */
tercel_status tercel_tuning_apply(tercel_tuning *tuning, tercel_error *err);
/* Steps that got another tactic so far. */
size_t tercel_tuning_num_swaps(const tercel_tuning *tuning);
/* For the thread that runs it, and others once that has ended. */
const tercel_tune_progress *tercel_tuning_progress(const tercel_tuning *tuning);

#endif
