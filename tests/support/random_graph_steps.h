/* Steps of random graphs by theme: a table a file.  A step writes a few nodes that begin with value x and adds what they make, f32, for the
 * steps after it to read: 40 values at most. */
#ifndef TERCEL_TESTS_SUPPORT_RANDOM_GRAPH_STEPS_H
#define TERCEL_TESTS_SUPPORT_RANDOM_GRAPH_STEPS_H

#include "support/random_graph.h"

typedef struct tercel_test_graph_step {
  int rank; /* of x: 4 (a picture), 2 (a matrix), or 0 for either */
  void (*add)(tercel_test_graph *g, int x);
} tercel_test_graph_step;

/* Each ends with a step that has no function. */
extern const tercel_test_graph_step
    tercel_test_graph_moves[]; /* pads, pools, slices, splits, gathers, concats, expands */
extern const tercel_test_graph_step tercel_test_graph_cells[]; /* steps of an LSTM or GRU */
extern const tercel_test_graph_step tercel_test_graph_types[]; /* casts, where, arithmetic of other types */

#endif
