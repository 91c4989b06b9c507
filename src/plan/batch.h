/* Whether a graph computes each item of a batch by itself, so that a batch may be run in pieces. */
#ifndef TERCEL_PLAN_BATCH_H
#define TERCEL_PLAN_BATCH_H

#include "ir/ir.h"

/* The batch is a free dim (*batch_out) that is the first of every input that has it, and of every output; and no node mixes what different
 * indices of it hold.  False where that can't be shown: operators are looked at by a list of known ones.  False, too, when memory is short.
 * items (may be NULL): by input, whether it has the batch; the others are the same for all items. */
bool tercel_batch_find(const tercel_graph *graph, tercel_dim *batch_out, bool *items);

#endif
