/* plan: graphs become steps.  Knows optimize, backends, ops, ir and base.
 *
 * A plan is one graph's list of steps, each a node with the kernel that was chosen for it and what that kernel prepared, and how
 * long each value lives.  It is made once per engine, holds no shape and no memory of a run, and is shared by contexts.  A
 * subgraph has a plan of its own, held by the step of its control operator.
 *
 * Where values lie is decided per shape, when a context binds the plan (runtime/bind.c), with tercel_plan_memory. */
#ifndef TERCEL_PLAN_PLAN_H
#define TERCEL_PLAN_PLAN_H

#include "plan/tactic.h"

typedef struct tercel_plan tercel_plan;

typedef struct tercel_step {
  const tercel_node *node;
  const tercel_kernel *kernel; /* NULL: run by the executor (control flow, sequences, optionals) */
  tercel_kernel_state state;   /* the packing's that the kernel runs with: the step's tactics hold it */
  /* kernel and state are the tactic for nominal shapes.  Where there are several they change when a plan is tuned: who can't rule that out asks
   * tercel_plan_choose_tactic, tercel_step_tactic or tercel_step_kernel. */
  tercel_tactics *tactics; /* owned; NULL: run by the executor */
  tercel_plan **plans;     /* of the node's subgraphs */
  uint32_t num_plans;
  uint32_t row; /* of the profile: steps are numbered through all plans of an engine */
} tercel_step;

enum { TERCEL_NO_STEP = UINT32_MAX };

/* Constants of at most this many bytes always keep their data, packed or not. */
enum { TERCEL_SMALL_CONSTANT = 4096 };

/* Steps are numbered 0 .. num_steps - 1 in their order. */
typedef struct tercel_life {
  uint32_t first; /* the step that makes the value; 0 for inputs and constants */
  uint32_t last;  /* the last step that reads it; `first` when nobody does; TERCEL_NO_STEP for outputs of the graph */
} tercel_life;

/* What a plan and all plans below it share. */
typedef struct tercel_plan_shared {
  tercel_tactic_rules rules;
  pthread_mutex_t mutex;  /* of the steps' tactics */
  atomic_uint generation; /* moves when tactics have changed: contexts bind anew */
  _Atomic(struct tercel_tuning *)
      tuning; /* that goes on beside contexts, which apply what it finds (tune.h); NULL: none */
} tercel_plan_shared;

struct tercel_plan {
  const tercel_graph *graph; /* borrowed */
  tercel_target target;
  tercel_plan_shared *shared; /* owned by the outermost */
  tercel_step *steps;
  uint32_t num_steps;
  tercel_life *lives;                  /* by value id */
  uint32_t num_rows;                   /* steps of this plan and all below it, counted from rows[0] of the outermost */
  _Atomic size_t packed_bytes;         /* by kernels, of this plan and all below it */
  uint32_t num_replaced, num_repacked; /* given steps that run otherwise; of the outermost */
};

/* How a step was run by a plan that was kept. */
typedef struct tercel_plan_given {
  const char *kernel; /* "": none */
  bool is_tuned;
  tercel_packed
      packed; /* its constants, as that kernel packed them; data NULL: they are in the graph.  storage is borrowed */
} tercel_plan_given;

typedef struct tercel_plan_options {
  tercel_target target;
  tercel_pool *pool; /* to prepare kernels on; NULL: this thread */
  tercel_dim_value_of
      size_of; /* sizes of free dims that kernels are chosen for, as far as it knows them; NULL: nominal ones */
  void *size_user;
  const tercel_timing_cache *cache; /* borrowed as long as the plan lives; NULL: estimates decide */
  bool
      keep_weights; /* of steps whose other tactics have packings of their own, so that they can be tried and swapped in */
  const tercel_plan_given
      *given; /* by row, of this graph; NULL: choose and pack.  A kernel that is not there, or does not support its node
                                     here, is replaced; what is packed in another way than here is packed anew; both are logged and counted */
  uint32_t num_given;
  bool look_only; /* prepare nothing: the plan is for reports */
} tercel_plan_options;

/* Chooses and prepares kernels for every node of the graph, which must be inferred and outlive the plan.
 * Constants that a kernel packed whole and that nobody else reads are dropped from the graph's memory.
 * UNSUPPORTED names every node that has no kernel. */
tercel_status tercel_plan_create(tercel_graph *graph, const tercel_backend *backend, const tercel_plan_options *options,
                                 tercel_plan **out, tercel_error *err);
void tercel_plan_destroy(tercel_plan *plan); /* NULL is fine */

/* restore.c: constants without data that a step can't do without, out of what given steps packed of them, on the pool.
 * INVALID_MODEL names one that is nowhere.  *num_repacked: given steps whose packed constants are laid out otherwise here. */
tercel_status tercel_plan_restore(const tercel_plan *plan, const tercel_plan_options *options, uint32_t *num_repacked,
                                  tercel_error *err);
/* Do packed constants of the step stand for the constants?  They come back out of them, and there is little padding: a file keeps one or the
 * other. */
bool tercel_step_keeps_packed(const tercel_step *step);
/* Of packed constants that lie in a mapped file. */
static inline size_t tercel_packed_mapped_bytes(const tercel_packed *packed) {
  return packed->storage != NULL && tercel_storage_is_mapped(packed->storage) ? packed->format.bytes : 0;
}

/* The first kernel that supports the node for a target; NULL: there is none. */
const tercel_kernel *tercel_plan_choose(const tercel_backend *backend, const tercel_node *node,
                                        const tercel_target *target);

/* Steps show what they run with now: after tuning, with the plan's mutex held or while nobody else uses it. */
void tercel_plan_settle(tercel_plan *plan);
/* Once nothing else will be packed: weights that steps don't read leave the memory, even if they were to be kept. */
void tercel_plan_forget_weights(const tercel_plan *plan);

/* A tactic to run a step with. */
typedef struct tercel_choice {
  const tercel_kernel *kernel;
  const void *state;
  tercel_packing *packing; /* holds the state: the caller's reference; may be NULL */
} tercel_choice;

/* The tactic for operands of these shapes.  Prepares what measured times speak for, else stays with what is prepared. */
tercel_status tercel_plan_choose_tactic(const tercel_plan *plan, const tercel_step *step,
                                        const tercel_tensor *const *in, const tercel_tensor *const *out,
                                        tercel_choice *choice, tercel_error *err);

/* Some kernel of the step's, for what all of its tactics have alike (inplace); NULL: run by the executor. */
static inline const tercel_kernel *tercel_step_kernel(const tercel_step *step) {
  return step->tactics != NULL ? step->tactics->kernels[0] : NULL;
}

/* What runs a step, for reports: the kernel's name; "view" where the output is told to lie in the input; "executor" for control steps. */
const char *tercel_step_tactic(const tercel_step *step);

/* Visits the steps of a plan and of all below it in the order of their rows. */
typedef void (*tercel_plan_visit_fn)(const tercel_step *step, int depth, void *user);
void tercel_plan_visit(const tercel_plan *plan, tercel_plan_visit_fn visit, void *user);

/* Puts "operator 'node': " before the message unless it begins so already, since operators and kernels may or may not name their node.
 * Returns the status. */
tercel_status tercel_fail_at_node(const tercel_node *node, tercel_status status, tercel_error *err);

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* A piece of the arena that is in use from step `first` to step `last`, both included. */
typedef struct tercel_block {
  size_t bytes, offset;
  uint32_t first, last;
  bool placed; /* offset is given, not to be chosen */
} tercel_block;

/* Gives every block that is not placed an offset (a multiple of TERCEL_ALIGNMENT) so that no two that live at one step overlap,
 * and as little memory as it can.  *extent_out: end of the last block, placed ones included.  Blocks go in several orders, the best of
 * which counts, each into the smallest gap that takes it (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
 * inference", greedy by size).  limit: what is to be kept to, if any order does; time doesn't count then.  scratch: for the call's own
 * needs. */
tercel_status tercel_plan_memory(tercel_block *blocks, size_t count, size_t limit, tercel_arena *scratch,
                                 size_t *extent_out, tercel_error *err);

#endif
