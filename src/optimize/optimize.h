/* optimize: the graph made cheaper without changing what it computes.  Knows ops, ir and base.
 *
 * Passes stand in passes.inc, one file each.  A pass looks at one graph (the runner visits subgraphs), changes what
 * it can, and records each change and each near miss in the decisions log.  Rewrites of f32 may change rounding as
 * much as writing the same sum in another order does; other dtypes keep their exact results. */
#ifndef TERCEL_OPTIMIZE_OPTIMIZE_H
#define TERCEL_OPTIMIZE_OPTIMIZE_H

#include "ops/ops.h"

/* ---- decisions --------------------------------------------------------------------------------------------------- */

enum { TERCEL_MAX_PASSES = 32 };

/* What rules did to nodes, and what kept them from doing so (tercel_decision, in tercel.h).  Zero-initialize; deinit frees.
 * Refusals are those that still hold at the end. */
typedef struct tercel_decisions {
  tercel_arena arena;
  tercel_map names; /* of nodes, each kept once */
  tercel_decision *items;
  size_t count, capacity;
  bool count_savings; /* set by the caller: what each decision saves is counted */
  tercel_work before, after;
  tercel_pass_time times[TERCEL_MAX_PASSES];
} tercel_decisions;

void tercel_decisions_deinit(tercel_decisions *log);
/* One line a decision: "fuse-epilogue: activation: Conv_0 + Relu_1" or "...: refused Relu_3: its input has 2
 * consumers". */
void tercel_decisions_print(const tercel_decisions *log, tercel_text *out);

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Nanoseconds that a run of an inferred node of the graph (or of one that a pass might put there) is expected to take; 0: not
 * known. */
typedef double (*tercel_node_cost_fn)(void *user, const tercel_node *node);

typedef struct tercel_optimize_options {
  const char *disabled; /* names of passes to leave out, separated by commas; NULL: none */
  bool verify;          /* check the graph after every pass that changed something */
  int level;            /* 0: the last stage; else no stage beyond it */
  bool shapes_only;     /* for checks: large constants are not read, and so neither folded nor scaled */
  tercel_eval_fn eval;  /* computes nodes that are folded; NULL: their reference kernels do (tercel_eval_node) */
  tercel_node_cost_fn node_cost; /* what passes weigh; NULL: those that weigh do nothing */
  void *cost_user;
} tercel_optimize_options;

/* Optimizes in place.  options and decisions may be NULL.  INVALID_ARGUMENT names a pass that does not exist; a
 * failure leaves the graph fit for tercel_graph_destroy only. */
tercel_status tercel_optimize(tercel_graph *graph, const tercel_optimize_options *options, tercel_decisions *decisions,
                              tercel_error *err);

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* What a pass works with. */
typedef struct tercel_pass_context {
  const char *pass; /* name of the one that runs */
  tercel_decisions *decisions;
  bool shapes_only;              /* as in the options */
  tercel_eval_fn eval;           /* likewise; never NULL */
  tercel_node_cost_fn node_cost; /* likewise */
  void *cost_user;
  bool changed;                   /* set by every rewrite */
  struct tercel_savings *savings; /* NULL: not counted */
} tercel_pass_context;

typedef tercel_status (*tercel_pass_fn)(tercel_graph *graph, tercel_pass_context *context, tercel_error *err);

typedef struct tercel_pass {
  const char *name, *about;
  int stage;
  tercel_pass_fn run;
  bool once; /* not again when others have changed the graph */
} tercel_pass;

/* Pass number i in order; NULL after the last. */
const tercel_pass *tercel_pass_at(size_t i);

#define TERCEL_PASS(function, name, stage, about)                                                                      \
  tercel_status tercel_pass_##function(tercel_graph *graph, tercel_pass_context *context, tercel_error *err);
#include "optimize/passes.inc"
#undef TERCEL_PASS

#endif
