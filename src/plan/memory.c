/* Packs blocks with lifetimes into one arena.  Knows nothing of values and steps.
 *
 * Which order blocks are placed in decides how well they fit, and none is best for all networks: several are tried, and the one with
 * the least extent is kept; none after one that comes close to the lower bound, what lives at the fullest step, or when enough work was
 * done: a new shape must not wait for it.
 *
 * A block only has to keep clear of those that live at the same time.  To find them without looking at all, time is cut into
 * chunks, finer and coarser ones: each placed block stands in the lists of all chunks that it lives in, sorted by offset, and a
 * block is fitted against the lists of the one or two chunks, as fine as can be, that hold its life. */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

/* ---- orders -------------------------------------------------------------------------------------------------------- */

static uint32_t length_of(const tercel_block *block) { return block->last - block->first; }

static int compare_lives(const tercel_block *a, const tercel_block *b) {
  if (length_of(a) != length_of(b)) return length_of(a) < length_of(b) ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a < b ? -1 : a > b; /* so that the result does not depend on the sort */
}

/* Larger first; then the longer living, then the earlier. */
static int by_size(const void *left, const void *right) {
  const tercel_block *const a = *(tercel_block *const *)left, *const b = *(tercel_block *const *)right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return compare_lives(a, b);
}

/* The product of size and life: what lives long at the edge, where it splits no room. */
static int by_area(const void *left, const void *right) {
  const tercel_block *const a = *(tercel_block *const *)left, *const b = *(tercel_block *const *)right;
  const double x = (double)a->bytes * (length_of(a) + 1.0), y = (double)b->bytes * (length_of(b) + 1.0);
  if (x < y || x > y) return x < y ? 1 : -1;
  return compare_lives(a, b);
}

static int by_life(const void *left, const void *right) {
  const tercel_block *const a = *(tercel_block *const *)left, *const b = *(tercel_block *const *)right;
  if (length_of(a) != length_of(b)) return length_of(a) < length_of(b) ? 1 : -1;
  return by_size(left, right);
}

static int by_start(const void *left, const void *right) {
  const tercel_block *const a = *(tercel_block *const *)left, *const b = *(tercel_block *const *)right;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return by_size(left, right);
}

enum {
  CLOSE_ENOUGH = 64, /* to the bound: 1/64 of it */
  MAX_LOOKS = 200000 /* then no other order is tried: about half a millisecond */
};

static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life, by_start};

enum { NUM_ORDERS = sizeof orders / sizeof *orders };

/* ---- chunks of time ------------------------------------------------------------------------------------------------ */

enum {
  NUM_LEVELS = 2,
  FINEST_BITS = 5, /* 32 steps */
  LEVEL_BITS = 4   /* a chunk of the next level is as long as 16 */
};

/* Blocks that live in the chunk, by offset. */
typedef struct chunk {
  const tercel_block **blocks;
  uint32_t count, capacity;
} chunk;

typedef struct packer {
  tercel_block **open; /* not placed by the caller */
  size_t num_open;
  uint32_t first, last; /* of all blocks; the end of time is the step after the last that anything begins or ends at */
  chunk *levels[NUM_LEVELS];
  size_t num_chunks[NUM_LEVELS];
  chunk all;        /* for those that live longer than two chunks of the coarsest level */
  size_t num_looks; /* at blocks placed before, in all orders so far */
  tercel_arena *scratch;
} packer;

static uint32_t chunk_of(const packer *p, uint32_t step, int level) {
  const uint32_t at = (step < p->last ? step : p->last) - p->first;
  return at >> (FINEST_BITS + level * LEVEL_BITS);
}

static bool insert(chunk *to, const tercel_block *block, tercel_arena *scratch) {
  if (to->count == to->capacity) {
    const uint32_t capacity = to->capacity == 0 ? 16 : 2 * to->capacity;
    const tercel_block **const grown = tercel_arena_alloc_array(scratch, capacity, sizeof *grown);
    if (grown == NULL) return false;
    if (to->count > 0) memcpy(grown, to->blocks, to->count * sizeof *grown);
    to->blocks = grown;
    to->capacity = capacity;
  }
  uint32_t low = 0, high = to->count++;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (to->blocks[middle]->offset <= block->offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(&to->blocks[low + 1], &to->blocks[low], (to->count - 1 - low) * sizeof *to->blocks);
  to->blocks[low] = block;
  return true;
}

static bool note_placed(packer *p, const tercel_block *block) {
  for (int level = 0; level < NUM_LEVELS; ++level)
    for (uint32_t c = chunk_of(p, block->first, level), end = chunk_of(p, block->last, level); c <= end; ++c)
      if (!insert(&p->levels[level][c], block, p->scratch)) return false;
  return insert(&p->all, block, p->scratch);
}

/* What may live together with the block: one list, or two. */
static void find_lists(const packer *p, const tercel_block *block, const chunk **a, const chunk **b) {
  *b = NULL;
  for (int level = 0; level < NUM_LEVELS; ++level) {
    const uint32_t first = chunk_of(p, block->first, level), last = chunk_of(p, block->last, level);
    if (last - first > 1) continue;
    *a = &p->levels[level][first];
    if (last > first) *b = &p->levels[level][last];
    return;
  }
  *a = &p->all;
}

/* ---- fitting ------------------------------------------------------------------------------------------------------- */

typedef struct gap {
  size_t bytes, offset; /* the smallest that fits so far; SIZE_MAX bytes: none */
  size_t end;           /* of what has been looked at */
} gap;

static bool look_at(gap *found, const tercel_block *other, const tercel_block *block) {
  if (other->first > block->last || other->last < block->first) return true;
  if (other->offset > found->end) {
    const size_t bytes = other->offset - found->end;
    if (bytes >= block->bytes && bytes < found->bytes) {
      found->bytes = bytes;
      found->offset = found->end;
    }
  }
  size_t end, after;
  if (!tercel_add_size(other->offset, other->bytes, &end) || !tercel_round_up_size(end, TERCEL_ALIGNMENT, &after))
    return false;
  if (after > found->end) found->end = after;
  return true;
}

/* The smallest gap between those that live together with `block`, else behind the last of them.  False: too large to address. */
static bool find_offset(packer *p, const tercel_block *block, size_t *offset_out) {
  const chunk *a, *b;
  find_lists(p, block, &a, &b);
  gap found = {.bytes = SIZE_MAX};
  p->num_looks += a->count + (b != NULL ? b->count : 0);
  const uint32_t num_a = a->count, num_b = b != NULL ? b->count : 0;
  for (uint32_t i = 0, j = 0; i < num_a || j < num_b;) {
    const bool from_a = j == num_b || (i < num_a && a->blocks[i]->offset <= b->blocks[j]->offset);
    if (!look_at(&found, from_a ? a->blocks[i++] : b->blocks[j++], block)) return false;
  }
  *offset_out = found.bytes == SIZE_MAX ? found.end : found.offset;
  return true;
}

/* ---- the plan ------------------------------------------------------------------------------------------------------ */

static tercel_status no_memory(size_t count, tercel_error *err) {
  return tercel_fail_memory(err, count * sizeof(tercel_block), "the memory plan");
}

static tercel_status too_large(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "activations are too large to address");
}

/* The bytes that live at the fullest step, each block rounded up: nothing can take less. */
static tercel_status find_bound(const packer *p, const tercel_block *blocks, size_t count, size_t *bound_out,
                                tercel_error *err) {
  const size_t steps = (size_t)(p->last - p->first) + 1;
  size_t *const born = tercel_arena_alloc_array(p->scratch, steps + 1, sizeof *born);
  size_t *const dead = tercel_arena_alloc_array(p->scratch, steps + 1, sizeof *dead);
  if (born == NULL || dead == NULL) return no_memory(count, err);
  for (size_t i = 0; i < count; ++i) {
    size_t bytes;
    const uint32_t first = blocks[i].first - p->first, last = blocks[i].last - p->first;
    if (!tercel_round_up_size(blocks[i].bytes, TERCEL_ALIGNMENT, &bytes) ||
        !tercel_add_size(born[first], bytes, &born[first]))
      return too_large(err);
    dead[last < steps ? last + 1 : steps] += bytes;
  }
  size_t alive = 0, most = 0;
  for (size_t s = 0; s < steps; ++s) {
    alive -= dead[s];
    if (!tercel_add_size(alive, born[s], &alive)) return too_large(err);
    if (alive > most) most = alive;
  }
  *bound_out = most;
  return TERCEL_OK;
}

/* Places all open blocks in one order, into offsets[] by their places in `blocks`. */
static tercel_status try_order(packer *p, tercel_block *blocks, size_t count, int order, size_t *extent_out,
                               tercel_error *err) {
  for (int level = 0; level < NUM_LEVELS; ++level)
    for (size_t c = 0; c < p->num_chunks[level]; ++c) p->levels[level][c].count = 0;
  p->all.count = 0;
  for (size_t i = 0; i < count; ++i)
    if (blocks[i].placed && !note_placed(p, &blocks[i])) return no_memory(count, err);
  qsort(p->open, p->num_open, sizeof *p->open, orders[order]);
  size_t extent = 0, end;
  for (size_t i = 0; i < p->num_open; ++i) {
    tercel_block *const block = p->open[i];
    if (!find_offset(p, block, &block->offset) || !tercel_add_size(block->offset, block->bytes, &end))
      return too_large(err);
    if (!note_placed(p, block)) return no_memory(count, err);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!tercel_add_size(blocks[i].offset, blocks[i].bytes, &end)) return too_large(err);
    if (end > extent) extent = end;
  }
  *extent_out = extent;
  return TERCEL_OK;
}

static tercel_status start(packer *p, tercel_block *blocks, size_t count, tercel_error *err) {
  p->open = tercel_arena_alloc_array(p->scratch, count, sizeof *p->open);
  if (p->open == NULL) return no_memory(count, err);
  p->first = count > 0 ? blocks[0].first : 0;
  for (size_t i = 0; i < count; ++i) {
    if (!blocks[i].placed) p->open[p->num_open++] = &blocks[i];
    if (blocks[i].first < p->first) p->first = blocks[i].first;
    if (blocks[i].first > p->last) p->last = blocks[i].first;
    if (blocks[i].last != TERCEL_NO_STEP && blocks[i].last > p->last) p->last = blocks[i].last;
  }
  for (int level = 0; level < NUM_LEVELS; ++level) {
    p->num_chunks[level] = (size_t)chunk_of(p, p->last, level) + 1;
    p->levels[level] = tercel_arena_alloc_array(p->scratch, p->num_chunks[level], sizeof(chunk));
    if (p->levels[level] == NULL) return no_memory(count, err);
  }
  return TERCEL_OK;
}

/* Good enough, or not worth more time: but what is above the limit is worth any order. */
static bool is_done(const packer *p, size_t best, size_t bound, size_t limit) {
  if (best <= bound) return true;
  return best <= limit && (best <= bound + bound / CLOSE_ENOUGH || p->num_looks >= MAX_LOOKS);
}

tercel_status tercel_plan_memory(tercel_block *blocks, size_t count, size_t limit, tercel_arena *scratch,
                                 size_t *extent_out, tercel_error *err) {
  packer p = {.scratch = scratch};
  *extent_out = 0;
  if (count == 0) return TERCEL_OK;
  size_t bound = 0, best = SIZE_MAX;
  TERCEL_TRY(start(&p, blocks, count, err));
  TERCEL_TRY(find_bound(&p, blocks, count, &bound, err));
  size_t *const offsets = tercel_arena_alloc_array(scratch, count, sizeof *offsets);
  if (offsets == NULL) return no_memory(count, err);
  for (int order = 0; order < NUM_ORDERS && !is_done(&p, best, bound, limit); ++order) {
    size_t extent = 0;
    TERCEL_TRY(try_order(&p, blocks, count, order, &extent, err));
    if (extent >= best) continue;
    best = extent;
    for (size_t i = 0; i < count; ++i) offsets[i] = blocks[i].offset;
  }
  for (size_t i = 0; i < count; ++i) {
    blocks[i].offset = offsets[i];
    blocks[i].placed = true;
  }
  *extent_out = best;
  return TERCEL_OK;
}
