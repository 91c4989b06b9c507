/* Memory plans: what a run takes and when, out of the bindings that a run has, or that are made for the purpose without running. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "runtime/split.h"

struct tercel_memory_plan {
  const tercel_engine *engine; /* borrowed: names are its graph's */
  tercel_arena memory;         /* of what follows */
  tercel_piece *pieces;        /* by their first steps */
  size_t num_pieces;
  uint64_t *live_bytes; /* by step */
  size_t num_steps;
  uint64_t planned_bytes;
  size_t peak_step;
  int64_t piece; /* items of a batch; 0: all */
};

/* ---- out of bindings ----------------------------------------------------------------------------------------------- */

static int by_first(const void *left, const void *right) {
  const tercel_piece *const a = left, *const b = right;
  if (a->block.first != b->block.first) return a->block.first < b->block.first ? -1 : 1;
  if (a->is_workspace != b->is_workspace) return a->is_workspace ? 1 : -1;
  return a->owner < b->owner ? -1 : a->owner > b->owner;
}

/* The piece that an earlier segment made and this one may have prolonged. */
static tercel_piece *find_piece(tercel_memory_plan *plan, const tercel_piece *piece) {
  for (size_t i = 0; i < plan->num_pieces; ++i)
    if (!plan->pieces[i].is_workspace && plan->pieces[i].owner == piece->owner) return &plan->pieces[i];
  return NULL;
}

static void add_pieces(tercel_memory_plan *plan, const tercel_binding *binding) {
  for (size_t i = 0; i < binding->num_pieces; ++i) {
    const tercel_piece *const piece = &binding->pieces[i];
    tercel_piece *const before = piece->block.first < binding->begin ? find_piece(plan, piece) : NULL;
    if (before != NULL)
      before->block.last = piece->block.last;
    else
      plan->pieces[plan->num_pieces++] = *piece;
  }
}

static void add_bytes(uint64_t *sum, uint64_t bytes) { *sum = bytes > UINT64_MAX - *sum ? UINT64_MAX : *sum + bytes; }

/* The curve of bytes alive: differences by step, modulo 2^64, then summed up. */
static void draw_curve(tercel_memory_plan *plan) {
  uint64_t *const curve = plan->live_bytes;
  for (size_t i = 0; i < plan->num_pieces; ++i) {
    const tercel_block *const block = &plan->pieces[i].block;
    curve[block->first] += block->bytes;
    if (block->last < plan->num_steps) curve[block->last + 1] -= block->bytes;
  }
  for (size_t s = 1; s < plan->num_steps; ++s) curve[s] += curve[s - 1];
  for (size_t s = 0; s < plan->num_steps; ++s)
    if (curve[s] > curve[plan->peak_step]) plan->peak_step = s;
}

/* Results in pieces lie in the whole batch's outputs. */
static void sum_up(tercel_memory_plan *plan, const tercel_frame *frame, const tercel_binding *last) {
  size_t arena_bytes = 0;
  for (const tercel_binding *b = last; b != NULL; b = b->parent)
    if (b->arena_bytes > arena_bytes) arena_bytes = b->arena_bytes;
  add_bytes(&plan->planned_bytes, arena_bytes);
  for (uint32_t k = 0; plan->piece == 0 && last->results != NULL && k < frame->plan->graph->num_outputs; ++k)
    if (last->results[k].copy && !tercel_frame_is_outside(frame, k))
      add_bytes(&plan->planned_bytes, last->results[k].tensor->bytes);
  for (uint32_t id = 0; id < frame->plan->graph->num_values; ++id)
    add_bytes(&plan->planned_bytes, frame->dynamic[id].bytes);
}

static tercel_status create(const tercel_engine *engine, const tercel_frame *frame, const tercel_binding *last,
                            int64_t piece, size_t output_bytes, tercel_memory_plan **out, tercel_error *err) {
  tercel_memory_plan *const plan = tercel_zalloc(sizeof *plan);
  if (plan == NULL) return tercel_fail_memory(err, sizeof *plan, "a memory plan");
  plan->engine = engine;
  plan->piece = piece;
  plan->planned_bytes = output_bytes;
  size_t most = 0, num_segments = 0;
  for (const tercel_binding *b = last; b != NULL; b = b->parent, ++num_segments) most += b->num_pieces;
  plan->num_steps = last->end;
  const tercel_binding **const chain = tercel_arena_alloc_array(&plan->memory, num_segments, sizeof *chain);
  plan->pieces = tercel_arena_alloc_array(&plan->memory, most, sizeof *plan->pieces);
  plan->live_bytes = tercel_arena_alloc_array(&plan->memory, plan->num_steps + 1, sizeof *plan->live_bytes);
  if (chain == NULL || plan->pieces == NULL || plan->live_bytes == NULL) {
    tercel_memory_plan_destroy(plan);
    return tercel_fail_memory(err, most * sizeof *plan->pieces, "a memory plan");
  }
  size_t at = num_segments;
  for (const tercel_binding *b = last; b != NULL; b = b->parent) chain[--at] = b;
  for (; at < num_segments; ++at) add_pieces(plan, chain[at]);
  if (plan->num_pieces > 0) qsort(plan->pieces, plan->num_pieces, sizeof *plan->pieces, by_first);
  draw_curve(plan);
  sum_up(plan, frame, last);
  *out = plan;
  return TERCEL_OK;
}

void tercel_memory_plan_destroy(tercel_memory_plan *plan) {
  if (plan == NULL) return;
  tercel_arena_deinit(&plan->memory);
  tercel_free(plan);
}

/* ---- without running ----------------------------------------------------------------------------------------------- */

/* The shape that input i is planned with where the caller gives none; rank -1: a list. */
static tercel_status default_input(const tercel_engine *engine, size_t profile, uint32_t i, tercel_tensor *out,
                                   tercel_error *err) {
  const tercel_value *const value = engine->graph->inputs[i];
  const tercel_shape *const shape = &value->type.shape;
  const int64_t *dims = shape->dims;
  int rank = shape->rank;
  *out = (tercel_tensor){.dtype = value->type.dtype, .rank = -1};
  if (value->type.kind != TERCEL_TYPE_TENSOR) return TERCEL_OK;
  const tercel_shape_range *const range =
      profile < engine->profiles.count ? tercel_profiles_range(&engine->profiles, profile, i) : NULL;
  if (range != NULL && range->rank >= 0) {
    dims = range->dims[TERCEL_PROFILE_MAX];
    rank = range->rank;
  } else if (!tercel_shape_is_known(shape)) {
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "memory depends on the shape of input '%s', which has free dims",
                       value->name);
  }
  if (tercel_tensor_set_shape(out, value->type.dtype, rank, dims)) return TERCEL_OK;
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "input '%s' of %s is too large to address", value->name,
                     tercel_describe(value->type.dtype, rank, dims).text);
}

static tercel_status given_input(const tercel_engine *engine, uint32_t i, const tercel_view *view, tercel_tensor *out,
                                 tercel_error *err) {
  const tercel_value *const value = engine->graph->inputs[i];
  *out = (tercel_tensor){.dtype = value->type.dtype, .rank = -1};
  if (value->type.kind != TERCEL_TYPE_TENSOR) return TERCEL_OK;
  const bool has_rank = view->rank >= 0 && view->rank <= TERCEL_MAX_RANK;
  if (!has_rank || !tercel_tensor_set_shape(out, view->dtype, view->rank, view->dims))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' of %s has no size", value->name,
                       tercel_describe(view->dtype, has_rank ? view->rank : -1, view->dims).text);
  if (view->data != NULL && view->bytes >= out->bytes) out->data = view->data;
  return TERCEL_OK;
}

/* A frame that is bound and never run. */
typedef struct trial {
  tercel_runner runner;
  tercel_frame *frame;
  tercel_split *split;
  tercel_binding *binding; /* of the first segment */
  int64_t piece;
  size_t output_bytes; /* of the whole batch, where it runs in pieces */
} trial;

static void end_trial(trial *t) {
  tercel_binding_destroy(t->binding);
  tercel_split_destroy(t->split);
  tercel_frame_destroy(t->frame);
}

/* With the caller's inputs, or the profile's largest. */
static tercel_status bind_trial(const tercel_engine *engine, trial *t, size_t profile, const tercel_view *inputs,
                                tercel_error *err) {
  t->runner = (tercel_runner){.pool = engine->pool, .target = &engine->plan->target};
  tercel_account_init(&t->runner.account, engine->max_memory);
  TERCEL_TRY(tercel_frame_create(&t->runner, engine->plan, &t->frame, err));
  for (uint32_t i = 0; i < engine->graph->num_inputs; ++i)
    TERCEL_TRY(inputs != NULL ? given_input(engine, i, &inputs[i], &t->frame->inputs[i], err)
                              : default_input(engine, profile, i, &t->frame->inputs[i], err));
  TERCEL_TRY(tercel_frame_check_inputs(t->frame, err));
  TERCEL_TRY(tercel_profiles_find(&engine->profiles, engine->graph, t->frame->inputs, &(size_t){0}, err));
  TERCEL_TRY(tercel_split_create(engine, t->frame, 0, &t->split, err));
  TERCEL_TRY(tercel_split_choose(t->split, &t->piece, err));
  if (t->piece > 0) t->output_bytes = tercel_split_show_piece(t->split);
  return tercel_bind(t->frame, NULL, 0, &t->binding, err);
}

static tercel_status plan_trial(const tercel_engine *engine, size_t profile, const tercel_view *inputs,
                                tercel_memory_plan **out, tercel_error *err) {
  trial t = {0};
  tercel_memory_plan *plan = NULL;
  tercel_status status = bind_trial(engine, &t, profile, inputs, err);
  if (status == TERCEL_OK) status = create(engine, t.frame, t.binding, t.piece, t.output_bytes, &plan, err);
  if (status == TERCEL_OK) status = tercel_account_check(&t.runner.account, plan->planned_bytes, err);
  end_trial(&t);
  if (status == TERCEL_OK)
    *out = plan;
  else
    tercel_memory_plan_destroy(plan);
  return status;
}

tercel_status tercel_memory_plan_create(const tercel_engine *engine, const tercel_view *inputs,
                                        tercel_memory_plan **out, tercel_error *err) {
  return plan_trial(engine, 0, inputs, out, err);
}

static bool is_told(const tercel_engine *engine, size_t profile) {
  tercel_tensor tensor;
  for (uint32_t i = 0; i < engine->graph->num_inputs; ++i)
    if (default_input(engine, profile, i, &tensor, NULL) != TERCEL_OK) return false;
  return true;
}

tercel_status tercel_engine_check_memory(const tercel_engine *engine, tercel_error *err) {
  size_t profile = 0;
  do {
    tercel_memory_plan *plan = NULL;
    if (is_told(engine, profile)) TERCEL_TRY(plan_trial(engine, profile, NULL, &plan, err));
    tercel_memory_plan_destroy(plan);
  } while (++profile < engine->profiles.count);
  return TERCEL_OK;
}

tercel_status tercel_memory_plan_of_frame(const tercel_engine *engine, const tercel_frame *frame, int64_t piece,
                                          size_t output_bytes, tercel_memory_plan **out, tercel_error *err) {
  if (frame->last == NULL) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "no run has succeeded");
  return create(engine, frame, frame->last, piece, output_bytes, out, err);
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

tercel_status tercel_memory_plan_get_info(const tercel_memory_plan *plan, tercel_memory_plan_info *info,
                                          tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_memory_plan_info", err));
  const tercel_plan *const steps = plan->engine->plan;
  *info = (tercel_memory_plan_info){
      .size = info->size,
      .planned_bytes = plan->planned_bytes,
      .live_bytes = plan->num_steps > 0 ? plan->live_bytes[plan->peak_step] : 0,
      .peak_step = plan->peak_step,
      .num_steps = plan->num_steps,
      .batch_piece = (size_t)plan->piece,
      .depends = plan->num_steps < steps->num_steps ? steps->steps[plan->num_steps].node->name : NULL};
  return TERCEL_OK;
}

int tercel_memory_plan_get_step(const tercel_memory_plan *plan, size_t index, tercel_memory_step *out) {
  if (index >= plan->num_steps) return 0;
  const tercel_node *const node = plan->engine->plan->steps[index].node;
  *out = (tercel_memory_step){node->name, node->op->name, plan->live_bytes[index]};
  return 1;
}

int tercel_memory_plan_get_block(const tercel_memory_plan *plan, size_t index, tercel_memory_block *out) {
  if (index >= plan->num_pieces) return 0;
  const tercel_piece *const piece = &plan->pieces[index];
  const tercel_plan *const steps = plan->engine->plan;
  const uint32_t last = piece->block.last;
  *out = (tercel_memory_block){.name = piece->is_workspace ? steps->steps[piece->owner].node->name
                                                           : steps->graph->values[piece->owner]->name,
                               .is_workspace = piece->is_workspace,
                               .bytes = piece->block.bytes,
                               .offset = piece->block.offset,
                               .first = piece->block.first,
                               .last = last < plan->num_steps ? last : plan->num_steps - 1};
  return 1;
}
