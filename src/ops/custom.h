/* Operators that users register (tercel_operators_add), as operators of a graph.
 *
 * Each is a tercel_op of its own with the id TERCEL_OP_CUSTOM; its inference calls the user's, its eval (of pure ones only) and the kernel in
 * backends/custom.c the user's run.  A set is counted: a graph's nodes point into it, so whoever keeps such a graph keeps the set. */
#ifndef TERCEL_OPS_CUSTOM_H
#define TERCEL_OPS_CUSTOM_H

#include "ops/ops.h"

typedef struct tercel_custom {
  tercel_op op; /* first: a node's op leads here */
  struct tercel_custom *next;
  tercel_operator is; /* texts owned by the set; domain "" for ai.onnx */
} tercel_custom;

static inline const tercel_custom *tercel_custom_of(const tercel_node *node) {
  return (const tercel_custom *)(const void *)node->op;
}

/* ---- operators.c: the set ---- */

tercel_operators *tercel_operators_retain(tercel_operators *operators); /* NULL is fine */
/* Adds what was checked against tercel's own operators. */
tercel_status tercel_operators_insert(tercel_operators *operators, const tercel_operator *op, tercel_error *err);
/* The operator of a domain ("" and "ai.onnx" are the same) and name that serves `version`; NULL: none.  *other (may be NULL): one of that name which
 * serves other versions. */
const tercel_custom *tercel_operators_find(tercel_operators *operators, const char *domain, const char *name,
                                           int64_t version, const tercel_custom **other);

/* ---- custom.c: a node ---- */

/* Fills custom->op out of custom->is.  The arena is the set's. */
tercel_status tercel_custom_init(tercel_custom *custom, tercel_arena *arena, tercel_error *err);
/* The state of a node; NULL where the operator has none. */
tercel_status tercel_custom_create_state(const tercel_node *node, void **state_out, tercel_error *err);
void tercel_custom_destroy_state(const tercel_custom *custom, void *state);
/* Runs a node.  pool may be NULL. */
tercel_status tercel_custom_run(tercel_eval *eval, void *state, tercel_pool *pool, tercel_error *err);

#endif
