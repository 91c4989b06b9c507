/* The end of binding a segment: the arena is packed, drafts become steps, and what the next segment has to know is kept. */
#include <string.h>

#include "runtime/binder.h"

/* Where a piece lies: its outermost piece, and the offset in that. */
static uint32_t outermost(const tercel_binder *b, uint32_t piece, size_t *offset) {
  while (b->pieces[piece].parent != TERCEL_NO_PIECE) {
    *offset += b->pieces[piece].parent_offset;
    piece = b->pieces[piece].parent;
  }
  return piece;
}

static bool is_in_arena(const tercel_piece *piece) {
  return piece->parent == TERCEL_NO_PIECE && piece->output == TERCEL_NO_PIECE;
}

static tercel_status pack(tercel_binder *b, uint32_t begin, tercel_error *err) {
  tercel_block *const blocks = tercel_arena_alloc_array(&b->scratch, b->num_pieces, sizeof *blocks);
  if (blocks == NULL) return tercel_binder_no_memory(err);
  size_t count = 0;
  for (size_t i = 0; i < b->num_pieces; ++i)
    if (is_in_arena(&b->pieces[i]) && b->pieces[i].block.last >= begin) blocks[count++] = b->pieces[i].block;
  TERCEL_TRY(tercel_plan_memory(blocks, count, b->frame->runner->account.limit_bytes, &b->scratch,
                                &b->binding->arena_bytes, err));
  b->binding->pieces = tercel_arena_alloc_array(&b->binding->memory, count, sizeof *b->binding->pieces);
  if (b->binding->pieces == NULL) return tercel_binder_no_memory(err);
  for (size_t i = 0; i < b->num_pieces; ++i) {
    if (!is_in_arena(&b->pieces[i]) || b->pieces[i].block.last < begin) continue;
    b->pieces[i].block = blocks[b->binding->num_pieces];
    b->binding->pieces[b->binding->num_pieces++] = b->pieces[i];
  }
  return TERCEL_OK;
}

/* The largest sum of bytes alive at one step: differences by step, then summed up. */
static tercel_status find_peak(tercel_binder *b, uint32_t begin, uint32_t end, tercel_error *err) {
  const uint32_t steps = end > begin ? end - begin : 1;
  size_t *const born = tercel_arena_alloc_array(&b->scratch, steps + 1, sizeof *born);
  size_t *const dead = tercel_arena_alloc_array(&b->scratch, steps + 1, sizeof *dead);
  if (born == NULL || dead == NULL) return tercel_binder_no_memory(err);
  for (size_t i = 0; i < b->num_pieces; ++i) {
    const tercel_block *const block = &b->pieces[i].block;
    if (b->pieces[i].parent != TERCEL_NO_PIECE || block->last < begin) continue;
    born[block->first > begin ? block->first - begin : 0] += block->bytes;
    dead[block->last < end - (end > begin) ? block->last - begin + 1 : steps] += block->bytes;
  }
  size_t alive = 0;
  for (uint32_t s = 0; s < steps; ++s) {
    alive += born[s] - dead[s];
    if (alive > b->binding->peak_bytes) b->binding->peak_bytes = alive;
  }
  return TERCEL_OK;
}

/* ---- fixups -------------------------------------------------------------------------------------------------------- */

static void add_fixup(tercel_binder *b, void **target, uint32_t piece, size_t offset) {
  tercel_binding *const binding = b->binding;
  const tercel_piece *const root = &b->pieces[outermost(b, piece, &offset)];
  if (root->output == TERCEL_NO_PIECE)
    binding->arena_fixups[binding->num_arena_fixups++] = (tercel_fixup){target, NULL, root->block.offset + offset};
  else
    binding->fixups[binding->num_fixups++] = (tercel_fixup){target, &b->frame->outputs[root->output].data, offset};
}

static tercel_status make_steps(tercel_binder *b, tercel_error *err) {
  tercel_binding *const binding = b->binding;
  binding->steps = tercel_arena_alloc_array(&binding->memory, b->num_drafts, sizeof *binding->steps);
  binding->arena_fixups =
      tercel_arena_alloc_array(&binding->memory, b->num_placed + b->num_drafts, sizeof *binding->arena_fixups);
  binding->fixups = tercel_arena_alloc_array(&binding->memory, b->num_placed, sizeof *binding->fixups);
  if (!binding->steps || !binding->arena_fixups || !binding->fixups) return tercel_binder_no_memory(err);
  for (size_t i = 0; i < b->num_drafts; ++i) {
    tercel_bound *const step = &binding->steps[i];
    *step = b->drafts[i].bound;
    if (b->drafts[i].workspace != TERCEL_NO_PIECE)
      add_fixup(b, &step->run.workspace, b->drafts[i].workspace, 0);
    else /* nothing may be written there, but kernels may add 0 to it */
      binding->arena_fixups[binding->num_arena_fixups++] = (tercel_fixup){&step->run.workspace, NULL, 0};
  }
  binding->num_steps = b->num_drafts;
  for (size_t i = 0; i < b->num_placed; ++i) {
    const tercel_slot *const slot = &b->slots[b->placed_ids[i]];
    if (slot->place == TERCEL_PLACE_PIECE)
      add_fixup(b, &slot->tensor->data, slot->piece, slot->offset);
    else if (slot->place == TERCEL_PLACE_ELSEWHERE)
      binding->fixups[binding->num_fixups++] = (tercel_fixup){&slot->tensor->data, &slot->base->data, slot->offset};
  }
  return TERCEL_OK;
}

static tercel_status find_output_bytes(tercel_binder *b, tercel_error *err) {
  const size_t count = b->plan->graph->num_outputs;
  b->binding->output_bytes = tercel_arena_alloc_array(&b->binding->memory, count, sizeof *b->binding->output_bytes);
  if (b->binding->output_bytes == NULL) return tercel_binder_no_memory(err);
  for (size_t i = 0; i < b->num_pieces; ++i) {
    const tercel_piece *const piece = &b->pieces[i];
    const bool is_new = piece->block.first >= b->binding->begin && !piece->block.placed;
    if (piece->output != TERCEL_NO_PIECE && piece->parent == TERCEL_NO_PIECE && is_new)
      b->binding->output_bytes[piece->output] = piece->block.bytes > 0 ? piece->block.bytes : 1;
  }
  return TERCEL_OK;
}

/* ---- what lives on ------------------------------------------------------------------------------------------------- */

static bool lives_on(const tercel_binder *b, uint32_t id, uint32_t end) {
  const tercel_slot *const slot = &b->slots[id];
  const tercel_value *const value = b->plan->graph->values[id];
  const tercel_life life = b->plan->lives[id];
  return slot->tensor != NULL && value != NULL && value->producer != NULL && life.first < end && life.last >= end;
}

static tercel_status keep_live(tercel_binder *b, uint32_t end, tercel_error *err) {
  tercel_binding *const binding = b->binding;
  tercel_arena *const memory = &binding->memory;
  size_t count = 0;
  for (uint32_t id = 0; id < b->plan->graph->num_values; ++id) count += lives_on(b, id, end);
  uint32_t *const moved = tercel_arena_alloc_array(&b->scratch, b->num_pieces, sizeof *moved); /* new index + 1 */
  binding->live_ids = tercel_arena_alloc_array(memory, count, sizeof *binding->live_ids);
  binding->live_slots = tercel_arena_alloc_array(memory, count, sizeof *binding->live_slots);
  binding->live_pieces = tercel_arena_alloc_array(memory, count, sizeof *binding->live_pieces);
  if (!moved || !binding->live_ids || !binding->live_slots || !binding->live_pieces)
    return tercel_binder_no_memory(err);
  for (uint32_t id = 0; id < b->plan->graph->num_values; ++id) {
    if (!lives_on(b, id, end)) continue;
    tercel_slot slot = b->slots[id];
    if (slot.place == TERCEL_PLACE_PIECE) {
      const uint32_t root = outermost(b, slot.piece, &slot.offset);
      if (moved[root] == 0) {
        binding->live_pieces[binding->num_live_pieces++] = b->pieces[root];
        binding->live_pieces[binding->num_live_pieces - 1].block.placed = true;
        moved[root] = (uint32_t)binding->num_live_pieces;
      }
      slot.piece = moved[root] - 1;
    }
    binding->live_ids[binding->num_live] = id;
    binding->live_slots[binding->num_live++] = slot;
  }
  return TERCEL_OK;
}

static tercel_status make_results(tercel_binder *b, tercel_error *err) {
  const tercel_graph *const graph = b->plan->graph;
  b->binding->results = tercel_arena_alloc_array(&b->binding->memory, graph->num_outputs, sizeof *b->binding->results);
  if (b->binding->results == NULL) return tercel_binder_no_memory(err);
  for (uint32_t k = 0; k < graph->num_outputs; ++k) {
    if (graph->outputs[k]->type.kind != TERCEL_TYPE_TENSOR) continue;
    const tercel_slot *const slot = tercel_binder_slot(b, graph->outputs[k]);
    size_t offset = slot->offset;
    bool there = slot->place == TERCEL_PLACE_PIECE;
    if (there && tercel_frame_is_outside(b->frame, k))
      there = b->pieces[outermost(b, slot->piece, &offset)].output == k && offset == 0;
    b->binding->results[k] = (tercel_result){slot->tensor, !there};
  }
  return TERCEL_OK;
}

tercel_status tercel_binder_finish(tercel_binder *b, uint32_t end, tercel_error *err) {
  tercel_binding *const binding = b->binding;
  binding->end = end;
  binding->contents = tercel_arena_copy(&binding->memory, b->contents, b->num_contents * sizeof *b->contents);
  if (binding->contents == NULL) return tercel_binder_no_memory(err);
  binding->num_contents = b->num_contents;
  TERCEL_TRY(find_output_bytes(b, err));
  TERCEL_TRY(pack(b, binding->begin, err));
  TERCEL_TRY(find_peak(b, binding->begin, end, err));
  TERCEL_TRY(make_steps(b, err));
  if (end == b->plan->num_steps) return make_results(b, err);
  return keep_live(b, end, err);
}
