/* Times of steps, by row of the plan.  For files of runtime only. */
#ifndef TERCEL_RUNTIME_PROFILE_H
#define TERCEL_RUNTIME_PROFILE_H

#include "plan/plan.h"

enum { TERCEL_SHAPE_TEXT_MAX = 22 * TERCEL_MAX_RANK };

typedef struct tercel_profile_entry {
  const tercel_step *step;
  char *sources;               /* owned */
  const tercel_kernel *kernel; /* that ran last; NULL: none yet, or the executor */
  uint64_t num_runs;
  int64_t total_ns; /* without the steps of its subgraphs */
  double flops, bytes;
  int rank; /* of output 0 at the last run; -1: none yet */
  int64_t dims[TERCEL_MAX_RANK];
  char shape[TERCEL_SHAPE_TEXT_MAX]; /* made when asked for */
} tercel_profile_entry;

typedef struct tercel_profile {
  tercel_profile_entry *entries;
  size_t num_entries;
  int64_t nested_ns; /* spent in steps since the innermost control step began */
} tercel_profile;

tercel_status tercel_profile_create(const tercel_plan *plan, tercel_profile **out, tercel_error *err);
void tercel_profile_destroy(tercel_profile *profile); /* NULL is fine */
void tercel_profile_reset(tercel_profile *profile);
/* Counts one run of a step that took `ns`. */
void tercel_profile_add(tercel_profile *profile, const tercel_step *step, const tercel_kernel_run *run, int64_t ns);
/* The public row; false past the end. */
bool tercel_profile_get(const tercel_profile *profile, size_t index, tercel_profile_row *out);

#endif
