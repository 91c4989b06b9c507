/* The graph: SSA values, nodes in order, subgraphs for control flow.
 *
 * A graph owns its values and nodes (one arena; nothing is freed singly, a clone compacts).  Each value has one
 * producer: a node, a graph input or a constant.  Nodes stand in topological order.  A subgraph sees only its own
 * inputs: what it uses of the outer graph is passed to it, as trailing inputs of the node that holds it
 * (`num_captures`) and trailing inputs of each of its subgraphs.
 *
 *     %y = if(%cond, %x)  then(%x1) -> (%a) { ... }  else(%x2) -> (%b) { ... }       one capture
 */
#ifndef TERCEL_IR_GRAPH_H
#define TERCEL_IR_GRAPH_H

#include "base/base.h"
#include "ir/attr.h"
#include "ir/op.h"

typedef struct tercel_graph tercel_graph;
typedef struct tercel_node tercel_node;
typedef struct tercel_value tercel_value;

/* One use of a value: input `index` of `node`. */
typedef struct tercel_use {
  tercel_node *node;
  uint32_t index;
} tercel_use;

struct tercel_value {
  uint32_t id;      /* unique in its graph, dense: below graph->num_values */
  const char *name; /* as in the user's file; never NULL; not necessarily unique (print makes it so) */
  bool
      made_up; /* the optimizer made the value: its name is that of its node, and no value of the file is equal to it */
  tercel_type type;
  const tercel_dim *contents; /* see tercel_fact; NULL when not known */
  int64_t num_contents;
  tercel_graph *graph;
  tercel_node *producer; /* NULL: graph input or constant */
  uint32_t producer_index;
  const tercel_tensor *
      constant; /* not NULL: a constant; its data lies in `storage` (or is borrowed from the caller); data NULL: dropped */
  tercel_storage *storage; /* holds a reference */
  uint64_t hash;           /* of a constant, kept by who computes it; 0: not computed */
  tercel_use *uses;
  uint32_t num_uses, uses_capacity;
  uint32_t num_output_uses; /* times it is an output of the graph */
};

struct tercel_node {
  const tercel_op *op;
  const char *name;      /* of the node in the user's file, or made up from its output; never NULL */
  tercel_value **inputs; /* NULL: absent */
  uint32_t num_inputs, inputs_capacity;
  uint32_t num_captures;  /* trailing inputs handed to the subgraphs */
  tercel_value **outputs; /* NULL: absent */
  uint32_t num_outputs;
  tercel_attr *attrs;
  uint32_t num_attrs, attrs_capacity;
  tercel_graph **graphs;
  uint32_t num_graphs;
  const char **sources; /* names of all nodes of the user's file that this one stands for; at least its own */
  uint32_t num_sources;
  tercel_graph *graph;
  tercel_node *previous, *next;
  uint32_t mark; /* free for passes; no meaning between them */
  bool inferred; /* its outputs follow from its inputs as they are now, so that inference may pass it by */
};

struct tercel_graph {
  const char *name;
  tercel_arena *arena;  /* shared by a graph and its subgraphs; owned by the outermost */
  tercel_dims *dims;    /* likewise */
  tercel_graph *parent; /* of a subgraph: the graph that holds parent_node */
  tercel_node *parent_node;
  tercel_value **inputs;
  uint32_t num_inputs, inputs_capacity;
  tercel_value **outputs; /* never NULL entries; the same value may stand twice, and may be an input or constant */
  const char **output_names;
  uint32_t num_outputs, outputs_capacity;
  tercel_node *first, *last;
  tercel_value **values; /* by id; NULL where removed */
  uint32_t num_values, values_capacity;
  uint32_t num_nodes;
};

/* ---- make -------------------------------------------------------------------------------------------------------- */

tercel_status tercel_graph_create(const char *name, tercel_graph **out, tercel_error *err);
void tercel_graph_destroy(tercel_graph *graph); /* the outermost; NULL is fine */
/* A graph for node->graphs[index]; node must have been added with that many subgraphs. */
tercel_status tercel_graph_add_subgraph(tercel_node *node, uint32_t index, const char *name, tercel_graph **out,
                                        tercel_error *err);
tercel_status tercel_graph_add_input(tercel_graph *graph, const char *name, const tercel_type *type, tercel_value **out,
                                     tercel_error *err);
/* tensor->data must stay valid as long as `storage` (retained; NULL: as long as the graph). */
tercel_status tercel_graph_add_constant(tercel_graph *graph, const char *name, const tercel_tensor *tensor,
                                        tercel_storage *storage, tercel_value **out, tercel_error *err);
/* A constant with memory of its own, cleared: fill (*out)->constant->data (as void *). */
tercel_status tercel_graph_add_new_constant(tercel_graph *graph, const char *name, tercel_dtype dtype, int rank,
                                            const int64_t *dims, tercel_value **out, tercel_error *err);
/* Small helpers over it. */
tercel_status tercel_graph_add_i64s(tercel_graph *graph, const char *name, const int64_t *values, size_t count,
                                    bool scalar, tercel_value **out, tercel_error *err);
tercel_status tercel_graph_add_scalar(tercel_graph *graph, const char *name, tercel_dtype dtype, double value,
                                      tercel_value **out, tercel_error *err);
/* Adds a node before `before` (NULL: at the end), with outputs whose types are not inferred yet, named after `name`.
 * Its source is its own name.  num_captures and subgraphs are set by the caller afterwards (num_graphs comes from
 * op). */
tercel_status tercel_graph_add_node(tercel_graph *graph, const tercel_op *op, const char *name,
                                    tercel_value *const *inputs, size_t num_inputs, size_t num_outputs,
                                    tercel_node *before, tercel_node **out, tercel_error *err);
tercel_status tercel_graph_add_output(tercel_graph *graph, tercel_value *value, const char *name, tercel_error *err);

/* ---- attributes -------------------------------------------------------------------------------------------------- */

tercel_status tercel_node_set_int(tercel_node *node, const char *name, int64_t value, tercel_error *err);
tercel_status tercel_node_set_float(tercel_node *node, const char *name, double value, tercel_error *err);
tercel_status tercel_node_set_string(tercel_node *node, const char *name, const char *value, tercel_error *err);
tercel_status tercel_node_set_ints(tercel_node *node, const char *name, const int64_t *values, size_t count,
                                   tercel_error *err);
tercel_status tercel_node_set_floats(tercel_node *node, const char *name, const double *values, size_t count,
                                     tercel_error *err);
tercel_status tercel_node_set_strings(tercel_node *node, const char *name, const char *const *values, size_t count,
                                      tercel_error *err);
tercel_status tercel_node_set_dtype(tercel_node *node, const char *name, tercel_dtype value, tercel_error *err);
/* Copies the program into the graph's arena. */
tercel_status tercel_node_set_program(tercel_node *node, const char *name, const tercel_program *program,
                                      tercel_error *err);
void tercel_node_remove_attr(tercel_node *node, const char *name);
/* Sets all attributes that `from` has set. */
tercel_status tercel_node_copy_attrs(tercel_node *node, const tercel_node *from, tercel_error *err);

/* The attribute, or NULL when it isn't set.  The getters below fall back to the schema's default. */
const tercel_attr *tercel_node_attr(const tercel_node *node, const char *name);
int64_t tercel_node_int(const tercel_node *node, const char *name);
double tercel_node_float(const tercel_node *node, const char *name);
const char *tercel_node_string(const tercel_node *node, const char *name);                 /* NULL without one */
const int64_t *tercel_node_ints(const tercel_node *node, const char *name, size_t *count); /* NULL and 0 without */
const double *tercel_node_floats(const tercel_node *node, const char *name, size_t *count);
tercel_dtype tercel_node_dtype(const tercel_node *node, const char *name);
const tercel_program *tercel_node_program(const tercel_node *node, const char *name); /* NULL without one */

/* ---- edit -------------------------------------------------------------------------------------------------------- */

static inline tercel_value *tercel_node_input(const tercel_node *node, size_t i) {
  return i < node->num_inputs ? node->inputs[i] : NULL;
}
static inline tercel_value *tercel_node_output(const tercel_node *node, size_t i) {
  return i < node->num_outputs ? node->outputs[i] : NULL;
}
/* For a constant whose contents nobody will read any more: its storage is given back, its shape stays. */
void tercel_value_drop_data(tercel_value *value);
/* For a constant whose data were dropped: they are there again, in storage (a reference is taken). */
void tercel_value_restore_data(tercel_value *value, tercel_storage *storage);
/* Total of uses by nodes and as outputs. */
static inline uint32_t tercel_value_num_uses(const tercel_value *value) {
  return value->num_uses + value->num_output_uses;
}

/* Sets input i (value may be NULL); i == num_inputs appends. */
tercel_status tercel_node_set_input(tercel_node *node, size_t i, tercel_value *value, tercel_error *err);
/* Removes trailing inputs down to `count`. */
void tercel_node_truncate_inputs(tercel_node *node, size_t count);
/* Every use of `from`, by nodes and as graph output, becomes a use of `to` (same graph).  The output's name stays. */
tercel_status tercel_value_replace_uses(tercel_value *from, tercel_value *to, tercel_error *err);
/* More is known of it now: what reads it is to be inferred again. */
void tercel_value_changed(tercel_value *value);
/* Adds b's sources to a's. */
tercel_status tercel_node_add_sources(tercel_node *a, const tercel_node *b, tercel_error *err);
/* Takes a node (whose outputs have no uses) out of the graph, with its subgraphs and output values. */
void tercel_graph_remove_node(tercel_node *node);
/* Moves node before `before` (same graph). */
void tercel_graph_move_node(tercel_node *node, tercel_node *before);
/* Drops a constant or unused value. */
void tercel_graph_remove_value(tercel_value *value);
/* Nodes of this graph and all subgraphs. */
size_t tercel_graph_count_nodes(const tercel_graph *graph);

/* A copy with memory of its own (constants' storage is shared); values and nodes are renumbered densely.  dim_value
 * (may be NULL) replaces symbols by numbers. */
tercel_status tercel_graph_clone(const tercel_graph *graph, tercel_dim_value_of dim_value, void *user,
                                 tercel_graph **out, tercel_error *err);

/* Checks all invariants: order, uses, producers, arities, attributes against the schema, programs, captures; then
 * each op's verify.  An INTERNAL error names the node: a pass broke it (or INVALID_MODEL from an op's verify). */
tercel_status tercel_graph_verify(const tercel_graph *graph, tercel_error *err);

#endif
