/* Whether a graph computes each item of a batch by itself, so that a batch may be run in pieces. */
#ifndef TERCEL_PLAN_BATCH_H
#define TERCEL_PLAN_BATCH_H

#include "ir/ir.h"

/* The batch is a free dim (*batch_out) that is the first of every input that has it, and of every output; and no node mixes what different
 * indices of it hold.  *found is false where that can't be shown: operators are looked at by a list of known ones.  items (may be NULL): by
 * input, whether it has the batch; the others are the same for all items. */
tercel_status tercel_batch_find(const tercel_graph *graph, bool *found, tercel_dim *batch_out, bool *items,
                                tercel_error *err);

#endif
