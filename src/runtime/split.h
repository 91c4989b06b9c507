/* Batches in pieces: a network that computes each item by itself may run a few at a time, so that what one step hands to the next stays in the
 * cache.  For files of runtime only. */
#ifndef TERCEL_RUNTIME_SPLIT_H
#define TERCEL_RUNTIME_SPLIT_H

#include "runtime/frame.h"

struct tercel_engine;

/* What a context keeps for it. */
typedef struct tercel_split tercel_split;

/* *out is NULL where batches can't be split, or may not (wanted < 0).  wanted: items in a piece; 0: as many as fit the cache. */
tercel_status tercel_split_create(const struct tercel_engine *engine, tercel_frame *frame, int64_t wanted,
                                  tercel_split **out, tercel_error *err);
void tercel_split_destroy(tercel_split *split); /* NULL is fine */

/* The items in a piece, of the frame's inputs as they are; 0: all at once.  split may be NULL.  Shapes that were seen before, the last few, are
 * found again; others cost a binding of one item. */
tercel_status tercel_split_choose(tercel_split *split, int64_t *piece_out, tercel_error *err);
/* After choose gave a piece: runs the frame on one after the other.  Its outputs are then those of the whole batch. */
tercel_status tercel_split_run(tercel_split *split, tercel_error *err);

/* For plans of memory: turns the frame's inputs into the first piece, and its outputs into memory that is given; what the outputs of the whole
 * batch take comes back. */
size_t tercel_split_show_piece(tercel_split *split);
/* What the split holds for outputs that the caller gave no memory. */
size_t tercel_split_output_bytes(const tercel_split *split);

#endif
