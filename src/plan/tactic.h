/* Tactics: the ways in which a step may be run, and the choice among them.
 *
 * A step that more than one kernel can run holds them all, in the backend's order of preference.  Which runs is decided for shapes:
 *   - measured times (timing_cache.h), where there are some for this step, these shapes and this machine: the shortest;
 *   - else what the kernels expect (backends/cost.h).
 * Either way a tactic must beat those before it by more than measurements and estimates are worth, so that choices repeat.
 *
 * What a tactic prepared, a *packing*, is counted: the step holds those that it may run with, a binding the one it runs with.  So a context
 * that still runs with an old choice keeps it until it binds anew, at the start of the next run after the plan's generation moved. */
#ifndef TERCEL_PLAN_TACTIC_H
#define TERCEL_PLAN_TACTIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/cost.h"
#include "plan/timing_cache.h"

typedef struct tercel_packing {
  atomic_uint refs;
  const tercel_kernel *kernel; /* that prepared it */
  tercel_kernel_state state;
} tercel_packing;

/* Kernels without a state run without a packing. */
static inline bool tercel_kernel_has_state(const tercel_kernel *kernel) {
  return kernel->prepare != NULL || kernel->packer != NULL;
}

/* Prepares one; the caller's reference.  given: what was packed before (tercel_kernel_prepare); may be NULL. */
tercel_status tercel_packing_create(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                                    const tercel_packed *given, tercel_packing **out, tercel_error *err);
tercel_packing *tercel_packing_retain(tercel_packing *packing); /* NULL is fine */
void tercel_packing_release(tercel_packing *packing);           /* NULL is fine */

/* What the tactics of all steps of an engine go by. */
typedef struct tercel_tactic_rules {
  const tercel_backend *backend;
  tercel_target target;
  const tercel_timing_cache *cache; /* borrowed; may be NULL */
  char *machine;                    /* owned: the first column of the cache */
} tercel_tactic_rules;

tercel_status tercel_tactic_rules_init(const tercel_backend *backend, const tercel_target *target,
                                       const tercel_timing_cache *cache, tercel_tactic_rules *out, tercel_error *err);
void tercel_tactic_rules_deinit(tercel_tactic_rules *rules);

/* The tactics of one step. */
typedef struct tercel_tactics {
  const tercel_kernel **kernels; /* [count], in order of preference */
  tercel_packing *
      *packings; /* [count], a reference each; NULL: not prepared.  Kernels that share a packing hold the same */
  uint32_t count;
  _Atomic uint32_t chosen; /* for nominal sizes */
  bool has_free_dims;      /* shapes differ from run to run: several tactics may stay prepared */
  bool is_tuned;           /* chosen by measured times */
} tercel_tactics;

/* Lists the kernels that may run the node; count 0: there are none.  Those of a deterministic target agree on every bit. */
tercel_status tercel_tactics_init(const tercel_backend *backend, const tercel_node *node, const tercel_target *target,
                                  tercel_tactics *out, tercel_error *err);
void tercel_tactics_deinit(tercel_tactics *tactics);

/* The tactic for operands of these shapes.  only_prepared: one that shares the packing of that for nominal sizes, or that a measured time speaks
 * for.  *tuned_out (may be NULL): measured times decided. */
uint32_t tercel_tactics_choose(const tercel_tactics *tactics, const tercel_node *node, const tercel_tactic_rules *rules,
                               const tercel_tensor *const *in, const tercel_tensor *const *out, bool only_prepared,
                               bool *tuned_out);
/* One packing serves both. */
bool tercel_kernels_share(const tercel_kernel *a, const tercel_kernel *b);
/* Lets the tactic, and those that share its packing, run with it: a reference each. */
void tercel_tactics_install(tercel_tactics *tactics, uint32_t index, tercel_packing *packing);
/* Gives the packings of all tactics back but of those that share that of `keep`. */
void tercel_tactics_drop_others(tercel_tactics *tactics, uint32_t keep);

/* What a step is, for the second column of the cache: operator, operands, attributes.  Sizes of dims that are free in the graph are rounded up
 * to 1, 2, 3, 4, 6, 8, 12, 16, ...: shapes in between share what was measured. */
void tercel_step_signature(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out,
                           tercel_text *text);
int64_t tercel_bucket_of(int64_t size);
/* The constants that a tactic might still pack have their data. */
bool tercel_node_has_constants(const tercel_node *node);

#endif
