/* cost: how long nodes are expected to take, before anything runs.  Knows backend.h.
 *
 * An estimate follows from shapes, level and number of threads alone, so that what is chosen by it is chosen again on the next machine
 * of the kind.  Only comparisons count: estimates of two ways to do the same should order them rightly, and say about how far apart
 * they are.  Measured times (plan/timing_cache.h) overrule it. */
#ifndef TERCEL_BACKENDS_COST_H
#define TERCEL_BACKENDS_COST_H

#include "backends/backend.h"

/* Sizes that free dims are taken for as long as no run has told them: what the caller says, else a batch of 1, pictures of 224 and
 * sequences of 64.  One thread at a time. */
typedef struct tercel_nominal {
  const tercel_graph *graph; /* the outermost */
  tercel_dim_value_of value_of;
  void *user;
  tercel_arena arena;
  tercel_dims dims;
} tercel_nominal;

/* Any graph of the model's.  value_of: sizes that are known better, for some symbols; may be NULL. */
void tercel_nominal_init(tercel_nominal *nominal, const tercel_graph *graph, tercel_dim_value_of value_of, void *user);
void tercel_nominal_deinit(tercel_nominal *nominal);
/* The type with numbers; no data.  False: it is no tensor, its rank is not known, or it is too large to address. */
bool tercel_nominal_tensor(tercel_nominal *nominal, const tercel_type *type, tercel_tensor *out);

/* The operands of a node, with nominal sizes and the data of constants. */
typedef struct tercel_operands {
  tercel_tensor *tensors;
  const tercel_tensor **in, **out; /* NULL: absent */
} tercel_operands;

/* memory: for the result.  False: some tensor has none, or there is no memory. */
bool tercel_nominal_operands(tercel_nominal *nominal, const tercel_node *node, tercel_arena *memory,
                             tercel_operands *out);

/* The kernel's own estimate; where it has none, by the operator's flops and the bytes of its operands. */
double tercel_kernel_cost(const tercel_backend *backend, const tercel_kernel *kernel, const tercel_node *node,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target);
/* The kernel that is expected to be fastest: in order of preference, each that beats the best before it by more than a hair.  NULL: none
 * supports the node.  *cost_out (may be NULL): its estimate. */
const tercel_kernel *tercel_kernel_choose(const tercel_backend *backend, const tercel_node *node,
                                          const tercel_tensor *const *in, const tercel_tensor *const *out,
                                          const tercel_target *target, double *cost_out);
/* What a run of the node is expected to take with its fastest kernel, at nominal sizes; 0 where nothing is known of it, and for views.
 * For passes that weigh one graph against another: they may try nodes that they would make, inferred. */
double tercel_node_cost(const tercel_backend *backend, const tercel_node *node, tercel_nominal *nominal,
                        const tercel_target *target);

#endif
