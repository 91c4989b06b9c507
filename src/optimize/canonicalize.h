/* Rules of the canonicalize pass that stand in files of their own. */
#ifndef TERCEL_OPTIMIZE_CANONICALIZE_H
#define TERCEL_OPTIMIZE_CANONICALIZE_H

#include "optimize/rules.h"

/* canonicalize_pointwise.c: single functions with constants. */
tercel_status tercel_apply_pointwise(tercel_pass_context *context, const char *name, tercel_node *node,
                                     tercel_error *err);
/* canonicalize_gather.c: rows are taken before they are widened. */
tercel_status tercel_apply_gather(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err);
/* batch_norm.c: with constant statistics, a factor and an offset a channel. */
tercel_status tercel_apply_batch_norm(tercel_pass_context *context, const char *name, tercel_node *node,
                                      tercel_error *err);

#endif
