/* Packs blocks with lifetimes into one arena.  Knows nothing of values and steps. */
#include <stdlib.h>

#include "plan/plan.h"

/* Larger first; then the longer living, then the earlier, so that the result does not depend on the sort. */
static int by_size(const void *left, const void *right) {
  const tercel_block *const a = *(tercel_block *const *)left, *const b = *(tercel_block *const *)right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  const uint32_t life_a = a->last - a->first, life_b = b->last - b->first;
  if (life_a != life_b) return life_a < life_b ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a < b ? -1 : a > b;
}

static int by_offset(const void *left, const void *right) {
  const tercel_block *const a = *(tercel_block *const *)left, *const b = *(tercel_block *const *)right;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  return a < b ? -1 : a > b;
}

/* placed: sorted by offset.  The smallest gap between those that live together with `block`, else behind the last of them. */
static bool find_offset(tercel_block *const *placed, size_t count, const tercel_block *block, size_t *offset_out) {
  size_t best = SIZE_MAX, best_offset = 0, end = 0;
  for (size_t i = 0; i < count; ++i) {
    const tercel_block *const other = placed[i];
    if (other->first > block->last || other->last < block->first) continue;
    if (other->offset > end) {
      const size_t gap = other->offset - end;
      if (gap >= block->bytes && gap < best) {
        best = gap;
        best_offset = end;
      }
    }
    size_t after;
    if (!tercel_round_up_size(other->offset + other->bytes, TERCEL_ALIGNMENT, &after)) return false;
    if (after > end) end = after;
  }
  *offset_out = best == SIZE_MAX ? end : best_offset;
  return true;
}

static void insert(tercel_block **placed, size_t count, tercel_block *block) {
  size_t at = count;
  for (; at > 0 && placed[at - 1]->offset > block->offset; --at) placed[at] = placed[at - 1];
  placed[at] = block;
}

tercel_status tercel_plan_memory(tercel_block *blocks, size_t count, tercel_arena *scratch, size_t *extent_out,
                                 tercel_error *err) {
  tercel_block **const open = tercel_arena_alloc_array(scratch, count, sizeof *open);
  tercel_block **const placed = tercel_arena_alloc_array(scratch, count, sizeof *placed);
  if (open == NULL || placed == NULL) return tercel_fail_memory(err, count * sizeof *open, "the memory plan");
  size_t num_open = 0, num_placed = 0, extent = 0;
  for (size_t i = 0; i < count; ++i) {
    if (blocks[i].placed)
      placed[num_placed++] = &blocks[i];
    else
      open[num_open++] = &blocks[i];
  }
  qsort(open, num_open, sizeof *open, by_size);
  qsort(placed, num_placed, sizeof *placed, by_offset);
  for (size_t i = 0; i < num_open; ++i) {
    tercel_block *const block = open[i];
    size_t end;
    if (!find_offset(placed, num_placed, block, &block->offset) || !tercel_add_size(block->offset, block->bytes, &end))
      return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "activations are too large to address");
    block->placed = true;
    insert(placed, num_placed++, block);
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t end = blocks[i].offset + blocks[i].bytes;
    if (end > extent) extent = end;
  }
  *extent_out = extent;
  return TERCEL_OK;
}
