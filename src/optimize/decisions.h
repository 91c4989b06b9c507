/* Recording decisions.  For passes. */
#ifndef TERCEL_OPTIMIZE_DECISIONS_H
#define TERCEL_OPTIMIZE_DECISIONS_H

#include "optimize/optimize.h"

/* A change is made to `node` (and `other`, may be NULL): call it while both are whole, before anything reads what is new.  Sets
 * context->changed. */
tercel_status tercel_made(tercel_pass_context *context, const char *rule, const tercel_node *node,
                          const tercel_node *other, tercel_error *err);
/* The rule almost fitted the node: says the first thing that kept it from it. */
tercel_status tercel_refused(tercel_pass_context *context, const char *rule, const tercel_node *node, tercel_error *err,
                             const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Before a pass runs again: it will refuse again what it still refuses. */
void tercel_decisions_forget_refusals(tercel_decisions *log, const char *pass);

#endif
