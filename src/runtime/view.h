/* Which outputs can be told to lie inside an input, so that the step need not run.  For files of runtime only. */
#ifndef TERCEL_RUNTIME_VIEW_H
#define TERCEL_RUNTIME_VIEW_H

#include "ops/ops.h"

/* True when output `output` of the node has the bytes of input 0 from *offset_out on.  in, out: facts with known shapes; contents of
 * inputs where known. */
bool tercel_view_find(const tercel_node *node, const tercel_fact *const *in, const tercel_fact *out, size_t output,
                      size_t *offset_out);
/* True when the concat's result is its inputs one after the other. */
bool tercel_view_is_joined(const tercel_node *node, const tercel_fact *out);

#endif
