/* What decisions save: the work of the graph is counted between them. */
#ifndef TERCEL_OPTIMIZE_SAVINGS_H
#define TERCEL_OPTIMIZE_SAVINGS_H

#include "optimize/optimize.h"

/* Of the graph that a pass works on.  Nodes are live when an output of the graph needs them: what a rule left behind for the
 * dead-code pass counts no more. */
typedef struct tercel_savings {
  const tercel_graph *graph;
  tercel_work work; /* before the pending decision */
  size_t pending;   /* number of the decision whose change is not counted yet, from 1; 0: none */
  tercel_arena arena;
  tercel_dims dims;      /* for sizes with 1 in place of free dims */
  double *bytes, *flops; /* by value id, of the value and of the node whose first output it is; -1: not counted yet */
  bool *live;            /* by value id */
  uint32_t capacity;
  int64_t total_ns; /* that the counting took: no pass's own time */
} tercel_savings;

void tercel_savings_init(tercel_savings *savings);
void tercel_savings_deinit(tercel_savings *savings);
/* A pass begins with the graph.  Nothing, here and below, when context->savings is NULL. */
tercel_status tercel_savings_begin(tercel_pass_context *context, const tercel_graph *graph, tercel_error *err);
/* The pending decision gets the difference that its change made: before the next one, and when the pass has ended. */
tercel_status tercel_savings_settle(tercel_pass_context *context, tercel_error *err);
/* Of the graph and all its subgraphs. */
tercel_status tercel_savings_count(tercel_savings *savings, const tercel_graph *graph, tercel_work *out,
                                   tercel_error *err);

#endif
