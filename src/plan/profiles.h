/* Optimization profiles: the shapes of inputs that an engine is made for.  A profile has a range for each input of the graph, from
 * the least to the largest shape, with the usual one (`opt`) between them: kernels are chosen and tuned for opt, the largest tells
 * how much memory a run may take.  Names of inputs and symbols are those of the graph. */
#ifndef TERCEL_PLAN_PROFILES_H
#define TERCEL_PLAN_PROFILES_H

#include "ir/ir.h"

typedef enum tercel_profile_point { TERCEL_PROFILE_MIN, TERCEL_PROFILE_OPT, TERCEL_PROFILE_MAX } tercel_profile_point;

enum { TERCEL_NUM_PROFILE_POINTS = 3 };

typedef struct tercel_shape_range {
  int rank;                                                 /* -1: the input is free */
  int64_t dims[TERCEL_NUM_PROFILE_POINTS][TERCEL_MAX_RANK]; /* by point */
} tercel_shape_range;

typedef struct tercel_profiles {
  size_t count;
  size_t num_inputs;
  tercel_shape_range *ranges; /* [count][num_inputs], owned */
} tercel_profiles;

/* Reads what a user gives.  INVALID_ARGUMENT: an input that the graph does not have or that is no tensor, a rank or a dim that is not the graph's,
 * min > opt or opt > max, or a symbol that is two numbers in one profile. */
tercel_status tercel_profiles_init(const tercel_graph *graph, const tercel_shape_profile *given, size_t count,
                                   tercel_profiles *out, tercel_error *err);
void tercel_profiles_deinit(tercel_profiles *profiles);

/* The first profile that takes all these inputs (one tensor an input of the graph).  INVALID_ARGUMENT names an input that none takes and what
 * they would take.  Without profiles everything fits, and *out is 0. */
tercel_status tercel_profiles_find(const tercel_profiles *profiles, const tercel_graph *graph,
                                   const tercel_tensor *inputs, size_t *out, tercel_error *err);

/* A graph's symbols as numbers: a tercel_dim_value_of, for tercel_dim_translate and tercel_graph_clone.  False for a symbol that no input of the
 * profile is as such. */
typedef struct tercel_profile_at {
  const tercel_profiles *profiles;
  const tercel_graph *graph;
  size_t profile;
  tercel_profile_point point;
} tercel_profile_at;
bool tercel_profile_value_of(void *user, const char *symbol, int64_t *out);

static inline const tercel_shape_range *tercel_profiles_range(const tercel_profiles *profiles, size_t profile,
                                                              size_t input) {
  return &profiles->ranges[profile * profiles->num_inputs + input];
}

#endif
