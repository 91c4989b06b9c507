/* Passes as tables of small rules. */
#ifndef TERCEL_OPTIMIZE_RULES_H
#define TERCEL_OPTIMIZE_RULES_H

#include "optimize/rewrite.h"

enum { TERCEL_ANY_OP = -1 };

/* Tries to rewrite `node`.  When it does (tercel_made was called), node may be gone; nodes after it, and their order,
 * are untouched. New nodes stand before it.  What has no readers any more is left to the dead-code pass. */
typedef struct tercel_rule {
  const char *name; /* as in decisions */
  int op;           /* of the node it looks at, or TERCEL_ANY_OP */
  tercel_status (*apply)(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err);
} tercel_rule;

/* For each node in order: the rules in order, until one fits.  The list ends with a rule without a name. */
tercel_status tercel_run_rules(tercel_graph *graph, const tercel_rule *rules, tercel_pass_context *context,
                               tercel_error *err);

#endif
