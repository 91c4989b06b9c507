/* Where the outputs of a step lie while a segment is being bound: inside an input (views), on an input (in-place), in a
 * concat that comes later, in an output's memory, else in a piece of the arena of their own. */
#include <string.h>

#include "runtime/binder.h"
#include "runtime/view.h"

/* ---- pieces -------------------------------------------------------------------------------------------------------- */

static tercel_status add_piece(tercel_binder *b, const tercel_piece *piece, uint32_t *out, tercel_error *err) {
  if (b->num_pieces == b->pieces_capacity) {
    const size_t capacity = b->pieces_capacity == 0 ? 64 : 2 * b->pieces_capacity;
    tercel_piece *const grown = tercel_arena_alloc_array(&b->scratch, capacity, sizeof *grown);
    if (grown == NULL) return tercel_binder_no_memory(err);
    if (b->num_pieces > 0) memcpy(grown, b->pieces, b->num_pieces * sizeof *grown);
    b->pieces = grown;
    b->pieces_capacity = capacity;
  }
  b->pieces[b->num_pieces] = *piece;
  b->pieces[b->num_pieces].parent = b->pieces[b->num_pieces].output = TERCEL_NO_PIECE;
  *out = (uint32_t)b->num_pieces++;
  return TERCEL_OK;
}

static tercel_piece *root_of(tercel_binder *b, uint32_t piece) {
  while (b->pieces[piece].parent != TERCEL_NO_PIECE) piece = b->pieces[piece].parent;
  return &b->pieces[piece];
}

static void live_until(tercel_piece *piece, uint32_t last) {
  if (piece->block.last < last) piece->block.last = last;
}

static tercel_life life_of(const tercel_binder *b, const tercel_value *value) { return b->plan->lives[value->id]; }

/* The first output with memory of its own that the value is, or TERCEL_NO_PIECE. */
static uint32_t output_of(const tercel_binder *b, const tercel_value *value) {
  if (value->num_output_uses > 0)
    for (uint32_t k = 0; k < value->graph->num_outputs; ++k)
      if (value->graph->outputs[k] == value && tercel_frame_is_outside(b->frame, k)) return k;
  return TERCEL_NO_PIECE;
}

/* True when the slot's tensor is the whole of a piece that can still be put anywhere. */
static bool is_free_piece(const tercel_binder *b, const tercel_slot *slot) {
  if (slot->place != TERCEL_PLACE_PIECE) return false;
  const tercel_piece *const piece = &b->pieces[slot->piece];
  return piece->parent == TERCEL_NO_PIECE && piece->output == TERCEL_NO_PIECE && !piece->block.placed &&
         slot->offset == 0 && piece->block.bytes == slot->tensor->bytes;
}

/* A value that is an output with memory of its own lies in that memory from the start, where its piece allows. */
static void promote(tercel_binder *b, const tercel_value *value) {
  const tercel_slot *const slot = &b->slots[value->id];
  const uint32_t output = output_of(b, value);
  if (output != TERCEL_NO_PIECE && is_free_piece(b, slot)) b->pieces[slot->piece].output = output;
}

/* ---- outputs ------------------------------------------------------------------------------------------------------- */

static tercel_status make_tensor(tercel_binder *b, const tercel_node *node, uint32_t i, const tercel_fact *fact,
                                 tercel_tensor **out, tercel_error *err) {
  const tercel_shape *const shape = &fact->type.shape;
  const size_t machine = b->frame->runner->account.machine_bytes;
  tercel_tensor tensor = {0};
  const bool fits = tercel_tensor_set_shape(&tensor, fact->type.dtype, shape->rank, shape->dims);
  if (!fits || tensor.bytes > machine)
    return tercel_fail(
        err, TERCEL_OUT_OF_MEMORY, "%s '%s': output '%s' of %s needs %s, but this machine has %s", node->op->name,
        node->name, node->outputs[i]->name, tercel_describe(fact->type.dtype, shape->rank, shape->dims).text,
        fits ? tercel_amount_of(tensor.bytes).text : "more than can be addressed", tercel_amount_of(machine).text);
  return tercel_binder_tensor(b, &tensor, out, err);
}

/* Notes that the value's tensor is to be pointed at its memory. */
static tercel_slot *set_slot(tercel_binder *b, const tercel_value *value, const tercel_slot *slot) {
  b->slots[value->id] = *slot;
  b->placed_ids[b->num_placed++] = value->id;
  return &b->slots[value->id];
}

static tercel_status place_new(tercel_binder *b, const tercel_step_facts *facts, uint32_t i, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  tercel_slot slot = {.place = TERCEL_PLACE_PIECE};
  TERCEL_TRY(make_tensor(b, node, i, &facts->out[i], &slot.tensor, err));
  const uint32_t last = life_of(b, node->outputs[i]).last;
  const tercel_piece piece = {.block = {.bytes = slot.tensor->bytes, .first = facts->index, .last = last},
                              .owner = node->outputs[i]->id};
  TERCEL_TRY(add_piece(b, &piece, &slot.piece, err));
  set_slot(b, node->outputs[i], &slot);
  promote(b, node->outputs[i]);
  return TERCEL_OK;
}

/* ---- views --------------------------------------------------------------------------------------------------------- */

/* A small part that outlives the rest would keep all of it in memory; an output's own memory is written by the step itself. */
static bool is_worth_sharing(tercel_binder *b, const tercel_value *value, const tercel_slot *whole,
                             const tercel_fact *fact) {
  if (output_of(b, value) != TERCEL_NO_PIECE) return false;
  if (whole->place != TERCEL_PLACE_PIECE) return true;
  const tercel_piece *const piece = root_of(b, whole->piece);
  tercel_tensor part = {0};
  const tercel_shape *const shape = &fact->type.shape;
  return life_of(b, value).last <= piece->block.last ||
         (tercel_tensor_set_shape(&part, fact->type.dtype, shape->rank, shape->dims) &&
          part.bytes >= piece->block.bytes / 8);
}

static tercel_status place_inside(tercel_binder *b, const tercel_step_facts *facts, uint32_t i, size_t offset,
                                  tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  const tercel_value *const value = node->outputs[i];
  tercel_slot slot = *tercel_binder_slot(b, node->inputs[0]);
  const void *const known = slot.tensor->data;
  TERCEL_TRY(make_tensor(b, node, i, &facts->out[i], &slot.tensor, err));
  if (slot.place == TERCEL_PLACE_KNOWN) slot.tensor->data = (char *)(uintptr_t)known + offset;
  slot.ready = false;
  slot.offset += offset;
  set_slot(b, value, &slot);
  if (slot.place != TERCEL_PLACE_PIECE) return TERCEL_OK;
  live_until(root_of(b, slot.piece), life_of(b, value).last);
  promote(b, value);
  return TERCEL_OK;
}

/* All outputs, or none: then the step runs. */
static tercel_status place_views(tercel_binder *b, const tercel_step_facts *facts, bool *done, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  const bool whole = node->op->flags & TERCEL_OP_VIEW;
  *done = false;
  size_t offset;
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    if (!tercel_view_find(node, facts->in, facts->out, i, &offset)) return TERCEL_OK;
    const tercel_slot *const slot = tercel_binder_slot(b, node->inputs[0]);
    if (!whole && !is_worth_sharing(b, node->outputs[i], slot, &facts->out[i])) return TERCEL_OK;
  }
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    tercel_view_find(node, facts->in, facts->out, i, &offset);
    TERCEL_TRY(place_inside(b, facts, i, offset, err));
  }
  *done = true;
  return TERCEL_OK;
}

/* ---- in place ------------------------------------------------------------------------------------------------------ */

/* Nothing but input `i` of this step may lie in its piece any more: other inputs may not share it, unless they are the same value and may be
 * overwritten too. */
static bool may_overwrite(tercel_binder *b, const tercel_step_facts *facts, uint32_t i, const tercel_tensor *out) {
  const tercel_node *const node = facts->step->node;
  const tercel_slot *const slot = &b->slots[node->inputs[i]->id];
  if (slot->place != TERCEL_PLACE_PIECE || slot->tensor->bytes != out->bytes || out->bytes == 0) return false;
  const tercel_piece *const root = root_of(b, slot->piece);
  if (root->block.last != facts->index) return false;
  for (uint32_t j = 0; j < node->num_inputs; ++j) {
    if (j == i || node->inputs[j] == NULL) continue;
    const tercel_slot *const other = &b->slots[node->inputs[j]->id];
    if (other->place != TERCEL_PLACE_PIECE || root_of(b, other->piece) != root) continue;
    if (node->inputs[j] != node->inputs[i] || j >= 32 || !(tercel_step_kernel(facts->step)->inplace & (1u << j)))
      return false;
  }
  return true;
}

static tercel_status place_on_input(tercel_binder *b, const tercel_step_facts *facts, bool *done, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  const tercel_value *const value = node->outputs[0];
  *done = false;
  const tercel_kernel *const kernel = tercel_step_kernel(facts->step);
  if (kernel == NULL || kernel->inplace == 0 || value == NULL) return TERCEL_OK;
  tercel_tensor *tensor = NULL;
  TERCEL_TRY(make_tensor(b, node, 0, &facts->out[0], &tensor, err));
  for (uint32_t i = 0; i < node->num_inputs && i < 32; ++i) {
    if (!(kernel->inplace & (1u << i)) || node->inputs[i] == NULL) continue;
    if (!may_overwrite(b, facts, i, tensor)) continue;
    tercel_slot slot = b->slots[node->inputs[i]->id];
    if (output_of(b, value) != TERCEL_NO_PIECE && !is_free_piece(b, &slot)) continue;
    slot.tensor = tensor;
    slot.ready = false;
    set_slot(b, value, &slot);
    live_until(root_of(b, slot.piece), life_of(b, value).last);
    promote(b, value);
    *done = true;
    return TERCEL_OK;
  }
  return TERCEL_OK;
}

/* ---- concat -------------------------------------------------------------------------------------------------------- */

/* The rest of a concat whose inputs partly lie in its result already. */
static tercel_status join(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  char *to = run->out[0]->data;
  for (size_t i = 0; i < run->num_inputs; ++i) {
    const tercel_tensor *const from = run->in[i];
    if (from->data != to && from->bytes > 0) memcpy(to, from->data, from->bytes);
    to += from->bytes;
  }
  return TERCEL_OK;
}

static bool is_repeated(const tercel_node *node, uint32_t input) {
  for (uint32_t j = 0; j < input; ++j)
    if (node->inputs[j] == node->inputs[input]) return true;
  return false;
}

/* Inputs one after the other: those whose pieces are free move into the result's piece, so that they are written where they belong. */
static tercel_status place_concat(tercel_binder *b, const tercel_step_facts *facts, bool *joined, bool *done,
                                  tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  *joined = *done = false;
  if (!tercel_view_is_joined(node, facts->out) || node->outputs[0] == NULL) return TERCEL_OK;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const tercel_tensor *const tensor = tercel_binder_slot(b, node->inputs[i])->tensor;
    if (tercel_tensor_num_elements(tensor) * tercel_dtype_bits(tensor->dtype) % 8 != 0) return TERCEL_OK;
  }
  TERCEL_TRY(place_new(b, facts, 0, err));
  const uint32_t whole = b->slots[node->outputs[0]->id].piece;
  *joined = *done = true;
  size_t at = 0;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const tercel_slot *const slot = &b->slots[node->inputs[i]->id];
    const size_t bytes = slot->tensor->bytes;
    if (bytes > 0 && is_free_piece(b, slot) && !is_repeated(node, i)) {
      tercel_piece *const part = &b->pieces[slot->piece], *const all = &b->pieces[whole];
      part->parent = whole;
      part->parent_offset = at;
      if (part->block.first < all->block.first) all->block.first = part->block.first;
      live_until(all, part->block.last);
    } else if (bytes > 0) {
      *done = false;
    }
    at += bytes;
  }
  return TERCEL_OK;
}

/* ---- the step ------------------------------------------------------------------------------------------------------ */

static tercel_status no_allocation(void *user, size_t output, tercel_tensor *tensor, tercel_error *err) {
  (void)user;
  (void)tensor;
  return tercel_fail(err, TERCEL_INTERNAL, "output %zu has its memory already", output);
}

/* Arrays of operands in the binding's memory. */
static tercel_status draft(tercel_binder *b, const tercel_step_facts *facts, const tercel_kernel *kernel,
                           tercel_draft **out, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  tercel_arena *const memory = &b->binding->memory;
  const tercel_tensor **const in = tercel_arena_alloc_array(memory, node->num_inputs, sizeof *in);
  tercel_tensor **const outputs = tercel_arena_alloc_array(memory, node->num_outputs, sizeof *outputs);
  if (in == NULL || outputs == NULL) return tercel_binder_no_memory(err);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] != NULL) in[i] = tercel_binder_slot(b, node->inputs[i])->tensor;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL) outputs[i] = b->slots[node->outputs[i]->id].tensor;
  tercel_runner *const runner = b->frame->runner;
  tercel_draft *const made = &b->drafts[b->num_drafts++];
  *made = (tercel_draft){.bound = {.run = {.node = node,
                                           .kernel = kernel,
                                           .num_inputs = node->num_inputs,
                                           .num_outputs = node->num_outputs,
                                           .in = in,
                                           .out = outputs,
                                           .target = runner->target,
                                           .pool = runner->pool,
                                           .scratch = &runner->scratch,
                                           .allocate = no_allocation},
                                   .fn = kernel != NULL ? kernel->run : NULL,
                                   .step = facts->step},
                         .workspace = TERCEL_NO_PIECE};
  *out = made;
  return TERCEL_OK;
}

/* The step's tactic for these shapes, which the binding then holds. */
static tercel_status choose_tactic(tercel_binder *b, const tercel_step *step, const tercel_tensor *const *operands,
                                   tercel_bound *bound, tercel_error *err) {
  tercel_choice choice = {0};
  tercel_held *const held = tercel_arena_alloc(&b->binding->memory, sizeof *held);
  if (held == NULL) return tercel_binder_no_memory(err);
  const tercel_status status =
      tercel_plan_choose_tactic(b->plan, step, operands, operands + bound->run.num_inputs, &choice, err);
  if (status != TERCEL_OK) return tercel_fail_at_node(step->node, status, err);
  *held = (tercel_held){choice.packing, b->binding->held};
  b->binding->held = held;
  bound->run.kernel = choice.kernel;
  bound->run.state = choice.state;
  bound->fn = choice.kernel->run;
  return TERCEL_OK;
}

/* The kernel sees shapes, and data of what is known only. */
static tercel_status bind_kernel(tercel_binder *b, const tercel_step_facts *facts, tercel_draft *step,
                                 tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  tercel_kernel_run *const run = &step->bound.run;
  const bool is_own = run->kernel == tercel_step_kernel(facts->step);
  if (is_own && facts->step->tactics->count == 1) run->state = facts->step->state.data;
  if (run->kernel->bind == NULL && (!is_own || facts->step->tactics->count == 1)) return TERCEL_OK;
  const size_t count = run->num_inputs + run->num_outputs;
  tercel_tensor *const tensors = tercel_arena_alloc_array(&b->scratch, count, sizeof *tensors);
  const tercel_tensor **const operands = tercel_arena_alloc_array(&b->scratch, count, sizeof *operands);
  if (tensors == NULL || operands == NULL) return tercel_binder_no_memory(err);
  for (size_t i = 0; i < count; ++i) {
    const bool is_input = i < run->num_inputs;
    const tercel_tensor *const tensor = is_input ? run->in[i] : run->out[i - run->num_inputs];
    if (tensor == NULL) continue;
    tensors[i] = *tensor;
    if (!is_input || b->slots[node->inputs[i]->id].place != TERCEL_PLACE_KNOWN) tensors[i].data = NULL;
    operands[i] = &tensors[i];
  }
  if (is_own && facts->step->tactics->count > 1) TERCEL_TRY(choose_tactic(b, facts->step, operands, &step->bound, err));
  if (run->kernel->bind == NULL) return TERCEL_OK;
  tercel_kernel_binding made = {0};
  const tercel_status status = run->kernel->bind(run->kernel, node, run->state, operands, operands + run->num_inputs,
                                                 b->frame->runner->target, &b->binding->memory, &made, err);
  if (status != TERCEL_OK) return tercel_fail_at_node(node, status, err);
  run->binding = made.data;
  if (made.workspace_bytes == 0) return TERCEL_OK;
  const tercel_piece piece = {.block = {.bytes = made.workspace_bytes, .first = facts->index, .last = facts->index},
                              .owner = facts->index,
                              .is_workspace = true};
  return add_piece(b, &piece, &step->workspace, err);
}

tercel_status tercel_binder_place(tercel_binder *b, const tercel_step_facts *facts, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  bool done = false, joined = false, on_input = false;
  if (!(node->op->flags & TERCEL_OP_CONTROL)) {
    TERCEL_TRY(place_views(b, facts, &done, err));
    if (done) return TERCEL_OK;
    TERCEL_TRY(place_concat(b, facts, &joined, &done, err));
    if (done) return TERCEL_OK;
    if (!joined) TERCEL_TRY(place_on_input(b, facts, &on_input, err));
  }
  for (uint32_t i = joined || on_input ? 1 : 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL && node->outputs[i]->type.kind == TERCEL_TYPE_TENSOR)
      TERCEL_TRY(place_new(b, facts, i, err));
  tercel_draft *step = NULL;
  TERCEL_TRY(draft(b, facts, tercel_step_kernel(facts->step), &step, err));
  if (joined) step->bound.fn = join;
  return step->bound.fn != NULL && !joined ? bind_kernel(b, facts, step, err) : TERCEL_OK;
}

/* ---- dynamic steps ------------------------------------------------------------------------------------------------- */

typedef struct dynamic_user {
  tercel_frame *frame;
  const tercel_node *node;
} dynamic_user;

static tercel_status dynamic_memory(void *user, size_t output, tercel_tensor *tensor, tercel_error *err) {
  const dynamic_user *const to = user;
  return tercel_frame_output_memory(to->frame, to->node, output, tensor, 0, err);
}

/* A kernel that can tell shapes: that of a data-dependent operator, else the reference. */
static const tercel_kernel *dynamic_kernel(const tercel_step *step) {
  const tercel_op *const op = step->node->op;
  if (op->flags & TERCEL_OP_CONTROL) return NULL;
  return op->flags & TERCEL_OP_DATA_DEPENDENT ? tercel_step_kernel(step) : tercel_reference_kernel();
}

tercel_status tercel_binder_place_dynamic(tercel_binder *b, const tercel_step_facts *facts, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  const tercel_kernel *const kernel = dynamic_kernel(facts->step);
  if (kernel != NULL && kernel == tercel_reference_kernel() && node->op->eval == NULL)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': the shape of output '%s' can't be told from its inputs",
                       node->op->name, node->name, node->outputs[0] != NULL ? node->outputs[0]->name : "");
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    const tercel_value *const value = node->outputs[i];
    if (value == NULL || value->type.kind != TERCEL_TYPE_TENSOR) continue;
    const tercel_tensor shapeless = {.dtype = value->type.dtype, .rank = -1};
    tercel_slot slot = {.place = TERCEL_PLACE_ELSEWHERE};
    TERCEL_TRY(tercel_binder_tensor(b, &shapeless, &slot.tensor, err));
    slot.base = slot.tensor;
    b->slots[value->id] = slot;
  }
  tercel_draft *step = NULL;
  TERCEL_TRY(draft(b, facts, kernel, &step, err));
  dynamic_user *const user = tercel_arena_alloc(&b->binding->memory, sizeof *user);
  if (user == NULL) return tercel_binder_no_memory(err);
  *user = (dynamic_user){b->frame, node};
  step->bound.run.allocate = dynamic_memory;
  step->bound.run.user = user;
  return kernel != NULL ? bind_kernel(b, facts, step, err) : TERCEL_OK;
}
