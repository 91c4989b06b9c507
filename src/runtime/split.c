/* Batches in pieces: how large a piece is, and running one after the other. */
#include "runtime/split.h"

#include <string.h>

#include "plan/batch.h"
#include "runtime/runtime.h"

enum {
  NUM_CHOICES = 16,  /* shapes that are remembered, as many as bindings are */
  WEIGHTS_WORTH = 4, /* weights are read once a piece: that must not be more than a quarter of what items move */
  CACHE_PART = 2     /* half of the last cache is for activations */
};

/* What was decided for a set of shapes. */
typedef struct choice {
  tercel_tensor *inputs; /* shapes; by input */
  tercel_tensor *items;  /* by output: one item's; where piece > 0 */
  int64_t batch, piece;
  bool used;
} choice;

struct tercel_split {
  const tercel_engine *engine;
  tercel_frame *frame;
  int64_t wanted;
  bool *has_items; /* by input */
  uint32_t num_inputs, num_outputs;
  choice choices[NUM_CHOICES];
  uint32_t next; /* to be written over */
  choice *now;
  /* while pieces run */
  tercel_tensor *whole;   /* by input */
  tercel_buffer *slices;  /* by output */
  tercel_buffer **given;  /* by output: what the frame had */
  tercel_buffer *outputs; /* by output: memory of the whole batch's, where the caller gave none */
  tercel_tensor *totals;  /* by output: the whole batch's */
  tercel_arena memory;    /* of all of these */
};

tercel_status tercel_split_create(const tercel_engine *engine, tercel_frame *frame, int64_t wanted, tercel_split **out,
                                  tercel_error *err) {
  const tercel_graph *const graph = engine->graph;
  tercel_dim batch;
  *out = NULL;
  if (wanted < 0 || graph->num_inputs == 0) return TERCEL_OK;
  tercel_split *const split = tercel_zalloc(sizeof *split);
  if (split == NULL) return tercel_fail_memory(err, sizeof *split, "a context");
  *split = (tercel_split){.engine = engine,
                          .frame = frame,
                          .wanted = wanted,
                          .num_inputs = graph->num_inputs,
                          .num_outputs = graph->num_outputs};
  tercel_arena *const memory = &split->memory;
  split->has_items = tercel_arena_alloc_array(memory, split->num_inputs, sizeof(bool));
  split->whole = tercel_arena_alloc_array(memory, split->num_inputs, sizeof *split->whole);
  split->slices = tercel_arena_alloc_array(memory, split->num_outputs, sizeof *split->slices);
  split->given = tercel_arena_alloc_array(memory, split->num_outputs, sizeof(tercel_buffer *));
  split->outputs = tercel_arena_alloc_array(memory, split->num_outputs, sizeof *split->outputs);
  split->totals = tercel_arena_alloc_array(memory, split->num_outputs, sizeof *split->totals);
  bool failed =
      !split->totals || !split->has_items || !split->whole || !split->slices || !split->given || !split->outputs;
  for (int i = 0; !failed && i < NUM_CHOICES; ++i) {
    split->choices[i].inputs = tercel_arena_alloc_array(memory, split->num_inputs, sizeof(tercel_tensor));
    split->choices[i].items = tercel_arena_alloc_array(memory, split->num_outputs, sizeof(tercel_tensor));
    failed = !split->choices[i].inputs || !split->choices[i].items;
  }
  bool found = false;
  tercel_status status = TERCEL_OK;
  if (failed)
    status = tercel_fail_memory(err, graph->num_inputs * sizeof(tercel_tensor), "a context");
  else
    status = tercel_batch_find(graph, &found, &batch, split->has_items, err);
  if (status == TERCEL_OK && found)
    *out = split;
  else
    tercel_split_destroy(split);
  return status;
}

void tercel_split_destroy(tercel_split *split) {
  if (split == NULL) return;
  for (uint32_t k = 0; split->outputs != NULL && k < split->num_outputs; ++k)
    tercel_buffer_free(&split->outputs[k], &split->frame->runner->account);
  tercel_arena_deinit(&split->memory);
  tercel_free(split);
}

/* ---- pieces of the frame's inputs and outputs ------------------------------------------------------------------------ */

/* A tensor's first dim set to `count` items from `start` on. */
static tercel_tensor cut(const tercel_tensor *whole, int64_t start, int64_t count) {
  tercel_tensor part = *whole;
  const size_t item_bytes = whole->dims[0] > 0 ? whole->bytes / (size_t)whole->dims[0] : 0;
  part.dims[0] = count;
  part.bytes = item_bytes * (size_t)count;
  if (whole->data != NULL) part.data = (char *)whole->data + item_bytes * (size_t)start;
  return part;
}

static void show_inputs(tercel_split *split, int64_t start, int64_t count) {
  for (uint32_t i = 0; i < split->num_inputs; ++i)
    if (split->has_items[i]) split->frame->inputs[i] = cut(&split->whole[i], start, count);
}

/* From here to give_back the frame's inputs are pieces and its outputs slices. */
static void take(tercel_split *split) {
  memcpy(split->whole, split->frame->inputs, split->num_inputs * sizeof *split->whole);
  for (uint32_t k = 0; k < split->num_outputs; ++k) {
    split->given[k] = split->frame->outputs[k].buffer;
    split->slices[k] = (tercel_buffer){.fixed = true};
    split->frame->outputs[k].buffer = &split->slices[k];
  }
}

static void give_back(tercel_split *split) {
  memcpy(split->frame->inputs, split->whole, split->num_inputs * sizeof *split->whole);
  for (uint32_t k = 0; k < split->num_outputs; ++k) split->frame->outputs[k].buffer = split->given[k];
}

/* ---- the choice ---------------------------------------------------------------------------------------------------- */

/* What one item takes and moves. */
typedef struct item_cost {
  size_t arena_bytes;
  double moved_bytes;
  bool told; /* no shape depends on data */
} item_cost;

static item_cost count_item(const tercel_split *split, const tercel_binding *binding) {
  item_cost cost = {.arena_bytes = binding->arena_bytes, .told = binding->end == split->engine->plan->num_steps};
  for (size_t s = 0; s < binding->num_steps; ++s) {
    const tercel_kernel_run *const run = &binding->steps[s].run;
    for (size_t i = 0; i < run->num_inputs; ++i)
      if (run->in[i] != NULL && run->node->inputs[i]->constant == NULL) cost.moved_bytes += (double)run->in[i]->bytes;
    for (size_t i = 0; i < run->num_outputs; ++i)
      if (run->out[i] != NULL) cost.moved_bytes += (double)run->out[i]->bytes;
  }
  return cost;
}

/* Pieces of about the same size; 0: the batch as it is. */
static int64_t even_out(int64_t batch, int64_t most) {
  if (most >= batch) return 0;
  return tercel_ceil_div(batch, tercel_ceil_div(batch, most));
}

static int64_t choose_piece(const tercel_split *split, const item_cost *cost, int64_t batch) {
  if (!cost->told || cost->arena_bytes == 0) return 0;
  if (split->wanted > 0) return even_out(batch, split->wanted);
  const int64_t threads = tercel_pool_num_threads(split->engine->pool);
  const double room = (double)tercel_cpu_cache_bytes(3) * (double)threads / CACHE_PART;
  const double fits = room / (double)cost->arena_bytes;
  const int64_t most = fits < (double)threads ? threads : fits < (double)batch ? (int64_t)fits : batch;
  const int64_t piece = even_out(batch, most);
  const double weights = (double)split->engine->plan->packed_bytes + (double)split->engine->mapped_bytes;
  return WEIGHTS_WORTH * weights > cost->moved_bytes * (double)piece ? 0 : piece;
}

static tercel_status bind_item(tercel_split *split, choice *to, tercel_error *err) {
  tercel_binding *binding = NULL;
  take(split);
  show_inputs(split, 0, 1);
  const tercel_status status = tercel_bind(split->frame, NULL, 0, &binding, err);
  give_back(split);
  if (status != TERCEL_OK) return status;
  const item_cost cost = count_item(split, binding);
  to->piece = choose_piece(split, &cost, to->batch);
  for (uint32_t k = 0; to->piece > 0 && k < split->num_outputs; ++k) to->items[k] = *binding->results[k].tensor;
  tercel_binding_destroy(binding);
  return TERCEL_OK;
}

static bool is_same(const tercel_split *split, const choice *c) {
  for (uint32_t i = 0; c->used && i < split->num_inputs; ++i) {
    const tercel_tensor *const a = &c->inputs[i], *const b = &split->frame->inputs[i];
    if (a->rank != b->rank || (a->rank > 0 && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0))
      return false;
  }
  return c->used;
}

static int64_t batch_of(const tercel_split *split) {
  for (uint32_t i = 0; i < split->num_inputs; ++i)
    if (split->has_items[i]) return split->frame->inputs[i].dims[0];
  return 0;
}

tercel_status tercel_split_choose(tercel_split *split, int64_t *piece_out, tercel_error *err) {
  *piece_out = 0;
  if (split == NULL || batch_of(split) < 2) return TERCEL_OK;
  for (int i = 0; i < NUM_CHOICES; ++i) {
    if (!is_same(split, &split->choices[i])) continue;
    split->now = &split->choices[i];
    *piece_out = split->now->piece;
    return TERCEL_OK;
  }
  choice *const c = &split->choices[split->next];
  c->used = false;
  c->batch = batch_of(split);
  TERCEL_TRY(bind_item(split, c, err));
  memcpy(c->inputs, split->frame->inputs, split->num_inputs * sizeof *c->inputs);
  c->used = true;
  split->next = (split->next + 1) % NUM_CHOICES;
  split->now = c;
  *piece_out = c->piece;
  return TERCEL_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

/* An output of the whole batch: its item, so many times.  False: too large to address. */
static bool whole_output(const choice *c, uint32_t k, tercel_tensor *out) {
  int64_t dims[TERCEL_MAX_RANK];
  memcpy(dims, c->items[k].dims, sizeof dims);
  dims[0] = c->batch;
  return tercel_tensor_set_shape(out, c->items[k].dtype, c->items[k].rank, dims);
}

static tercel_status reserve_output(tercel_split *split, uint32_t k, tercel_tensor *out, tercel_error *err) {
  tercel_frame *const frame = split->frame;
  const char *const name = split->engine->graph->output_names[k];
  if (!whole_output(split->now, k, out))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "output '%s' is too large to address", name);
  const bool is_own = split->given[k] == &frame->outputs[k].own;
  tercel_buffer *const buffer = is_own ? &split->outputs[k] : split->given[k];
  const tercel_status status = tercel_buffer_reserve(buffer, &frame->runner->account, out->bytes, 0, err);
  out->data = buffer->data;
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "output '%s'", name);
}

static tercel_status run_pieces(tercel_split *split, tercel_error *err) {
  const choice *const c = split->now;
  tercel_tensor *const outputs = split->totals;
  tercel_binding *first = NULL;
  for (uint32_t k = 0; k < split->num_outputs; ++k) TERCEL_TRY(reserve_output(split, k, &outputs[k], err));
  for (int64_t start = 0; start < c->batch; start += c->piece) {
    const int64_t count = tercel_min_i64(c->piece, c->batch - start);
    show_inputs(split, start, count);
    for (uint32_t k = 0; k < split->num_outputs; ++k) {
      const tercel_tensor part = cut(&outputs[k], start, count);
      split->slices[k] = (tercel_buffer){part.data, part.bytes > 0 ? part.bytes : 1, true};
    }
    TERCEL_TRY(tercel_frame_run(split->frame, err));
    if (first == NULL) first = split->frame->last;
  }
  split->frame->last = first;
  return TERCEL_OK;
}

tercel_status tercel_split_run(tercel_split *split, tercel_error *err) {
  take(split);
  const tercel_status status = run_pieces(split, err);
  give_back(split);
  for (uint32_t k = 0; status == TERCEL_OK && k < split->num_outputs; ++k)
    split->frame->outputs[k].tensor = split->totals[k];
  return status;
}

size_t tercel_split_show_piece(tercel_split *split) {
  size_t bytes = 0;
  take(split);
  show_inputs(split, 0, split->now->piece);
  for (uint32_t k = 0; k < split->num_outputs; ++k)
    if (!whole_output(split->now, k, &split->totals[k]) || !tercel_add_size(bytes, split->totals[k].bytes, &bytes))
      return SIZE_MAX;
  return bytes;
}

size_t tercel_split_output_bytes(const tercel_split *split) {
  size_t bytes = 0;
  for (uint32_t k = 0; k < split->num_outputs; ++k) bytes += split->outputs[k].bytes;
  return bytes;
}
