/* Random small graphs in tercel's text form, made of what the optimizer has rules for: convolutions, products, attention, norms and
 * activations in their parts, reductions, moves of data, other element types, values with several readers, results in the middle, symbolic dims, empty batches.  Needs no
 * room but base: a test parses the text. */
#ifndef TERCEL_TESTS_SUPPORT_RANDOM_GRAPH_H
#define TERCEL_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "support/support.h"

#include "base/base.h"

enum { TERCEL_TEST_GRAPH_VALUES = 160, TERCEL_TEST_GRAPH_INPUTS = 2, TERCEL_TEST_GRAPH_INPUT_ELEMENTS = 128 };

typedef struct tercel_test_graph {
  tercel_test_random random; /* goes on where the graph ended: for the inputs' data */
  tercel_text text;          /* owned: tercel_text_deinit */
  bool with_control;
  const char *dtype; /* of constants and instructions of the part that is being added */
  /* Of each value %v0, %v1, ...; the first two are the inputs, f32.  Rank 4: pictures, 2: matrices, 0: operands of one node. */
  int rank[TERCEL_TEST_GRAPH_VALUES];
  int64_t dims[TERCEL_TEST_GRAPH_VALUES][4];
  bool is_inner[TERCEL_TEST_GRAPH_VALUES]; /* of a part whose values nothing else reads */
  int count;
} tercel_test_graph;

/* g: graph `number` of the process's seed.  with_control: If and Loop occur. */
void tercel_test_graph_generate(uint64_t number, bool with_control, tercel_test_graph *g);

/* For parts of graphs in other files: a number, a value (rank 0: an operand of one node only), a constant, parts of transformers made of x. */
int64_t tercel_test_graph_pick(tercel_test_graph *g, int64_t low, int64_t high);
int tercel_test_graph_add_value(tercel_test_graph *g, int rank, const int64_t *dims);
int tercel_test_graph_add_constant(tercel_test_graph *g, int rank, const int64_t *dims, bool positive);
void tercel_test_graph_add_transformer(tercel_test_graph *g, int x);
void tercel_test_graph_add_picture(tercel_test_graph *g, int x); /* of rank 4 */

/* Does the graph in this text (0-terminated) still fail?  False when it isn't a graph. */
typedef bool (*tercel_test_graph_fails)(const char *text, void *user);

/* Takes results and nodes out of a text that fails, while it does. */
void tercel_test_graph_shrink(tercel_text *text, tercel_test_graph_fails fails, void *user);

#endif
