/* Recording decisions.  For passes. */
#ifndef TERCEL_OPTIMIZE_DECISIONS_H
#define TERCEL_OPTIMIZE_DECISIONS_H

#include "optimize/optimize.h"

/* A change is made to `node` (and `other`, may be NULL): call it while both are whole, before anything reads what is new.  Sets
 * context->changed. */
tercel_status tercel_made(tercel_pass_context *context, const char *rule, const tercel_node *node,
                          const tercel_node *other, tercel_error *err);
/* The same, with a note of what the change is about or worth. */
tercel_status tercel_made_for(tercel_pass_context *context, const char *rule, const tercel_node *node,
                              tercel_error *err, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The rule almost fitted the node: says the first thing that kept it from it. */
tercel_status tercel_refused(tercel_pass_context *context, const char *rule, const tercel_node *node, tercel_error *err,
                             const char *format, ...) __attribute__((format(printf, 5, 6)));
/* After a pass ran again: what it refused before `first`, the number of decisions then, is forgotten; it has refused again what it
 * still refuses.  is_late: in a stage after its own, where other passes have changed what it looks at, so that the reasons that it gives are
 * theirs; what it refused before for the same nodes keeps its reason. */
void tercel_decisions_renew_refusals(tercel_decisions *log, const char *pass, size_t first, bool is_late);

#endif
