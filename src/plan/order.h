/* The order of steps, where another one keeps less memory alive at once. */
#ifndef TERCEL_PLAN_ORDER_H
#define TERCEL_PLAN_ORDER_H

#include "ir/ir.h"

/* What reordering did to the outermost graph; bytes as far as they can be told before a run. */
typedef struct tercel_order_stats {
  bool changed;
  double before_bytes, after_bytes; /* alive at the fullest node */
} tercel_order_stats;

/* Moves nodes, in the graph and its subgraphs, so that what is alive at the fullest one shrinks; results stay the same, bit by bit.  A graph
 * whose order is good already, within a twentieth, is left alone.  value_of (may be NULL) gives numbers to symbols; other free dims count
 * as a number that is the same for all.  Takes milliseconds: a graph too large for that keeps its order. */
tercel_status tercel_order_nodes(tercel_graph *graph, tercel_dim_value_of value_of, void *user,
                                 tercel_order_stats *stats, tercel_error *err);

#endif
