/* Contexts: inputs as the user gives them, outputs as the user wants them, around one frame. */
#include "runtime/runtime.h"

#include <string.h>

#include "runtime/split.h"

struct tercel_context {
  tercel_engine *engine; /* a reference */
  tercel_runner runner;
  tercel_frame *frame;
  tercel_split *split;       /* NULL: batches run as they come */
  int64_t piece;             /* items that the last run computed at a time; 0: all */
  bool *has_input;           /* by input */
  tercel_buffer *states;     /* by input: of states that the user did not set */
  tercel_list **input_lists; /* by input */
  tercel_buffer *bound;      /* by output: the caller's memory, where data is not NULL */
  tercel_buffer *characters; /* by output: of strings */
  bool has_run;              /* the last run succeeded */
  int64_t bind_ns_before;    /* runner.bind_ns before the last run */
};

tercel_status tercel_context_create(tercel_engine *engine, const tercel_context_options *options, tercel_context **out,
                                    tercel_error *err) {
  if (options != NULL) TERCEL_TRY(tercel_check_size(options->size, sizeof *options, "tercel_context_options", err));
  if (engine->look_only)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "the engine was loaded to be looked at only: it can't be run");
  const size_t num_inputs = engine->interface.num_inputs, num_outputs = engine->interface.num_outputs;
  tercel_context *const context = tercel_zalloc(sizeof *context);
  if (context == NULL) return tercel_fail_memory(err, sizeof *context, "a context");
  tercel_status status = TERCEL_OK;
  context->engine = tercel_engine_retain(engine);
  context->runner.pool = engine->pool;
  context->runner.target = &engine->plan->target;
  atomic_init(&context->runner.cancel, false);
  tercel_account_init(&context->runner.account, engine->max_memory);
  context->has_input = tercel_zalloc_array(num_inputs + 1, sizeof *context->has_input);
  context->states = tercel_zalloc_array(num_inputs + 1, sizeof *context->states);
  context->input_lists = tercel_zalloc_array(num_inputs + 1, sizeof(tercel_list *));
  context->bound = tercel_zalloc_array(num_outputs + 1, sizeof *context->bound);
  context->characters = tercel_zalloc_array(num_outputs + 1, sizeof *context->characters);
  if (!context->has_input || !context->states || !context->input_lists || !context->bound || !context->characters) {
    status = tercel_fail_memory(err, num_inputs + num_outputs, "a context");
    goto done;
  }
  TERCEL_CHECK(tercel_frame_create(&context->runner, engine->plan, &context->frame, err));
  TERCEL_CHECK(
      tercel_split_create(engine, context->frame, options != NULL ? options->batch_piece : 0, &context->split, err));
  if (options != NULL && options->profile)
    TERCEL_CHECK(tercel_profile_create(engine->plan, &context->runner.profile, err));
  *out = context;
done:
  if (status != TERCEL_OK) tercel_context_destroy(context);
  return status;
}

void tercel_context_destroy(tercel_context *context) {
  if (context == NULL) return;
  tercel_split_destroy(context->split);
  tercel_frame_destroy(context->frame);
  for (size_t i = 0; context->input_lists != NULL && i < context->engine->interface.num_inputs; ++i)
    tercel_list_release(context->input_lists[i]);
  for (size_t i = 0; context->characters != NULL && i < context->engine->interface.num_outputs; ++i)
    tercel_buffer_free(&context->characters[i], &context->runner.account);
  for (size_t i = 0; context->states != NULL && i < context->engine->interface.num_inputs; ++i)
    tercel_buffer_free(&context->states[i], &context->runner.account);
  tercel_profile_destroy(context->runner.profile);
  tercel_arena_deinit(&context->runner.scratch);
  tercel_free(context->has_input);
  tercel_free(context->states);
  tercel_free(context->input_lists);
  tercel_free(context->bound);
  tercel_free(context->characters);
  tercel_engine_destroy(context->engine);
  tercel_free(context);
}

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

static const tercel_value *input_value(const tercel_context *context, size_t index) {
  return context->engine->graph->inputs[index];
}

/* "f32[batch, 3]" against what came. */
static tercel_status wrong_input(const tercel_context *context, size_t index, const tercel_view *view,
                                 tercel_error *err) {
  const tercel_value *const value = input_value(context, index);
  tercel_text want = {0};
  tercel_type_print(value->graph->dims, &value->type, &want);
  const int rank = view->rank < 0 || view->rank > TERCEL_MAX_RANK ? -1 : view->rank;
  const tercel_status status =
      tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %zu '%s' is %s, want %s", index, value->name,
                  tercel_describe(view->dtype, rank, view->dims).text, want.data != NULL ? want.data : "?");
  tercel_text_deinit(&want);
  return status;
}

/* The type of element i: of a map the keys are the first, and as many as there are values. */
static tercel_type element_type(const tercel_type *type, size_t i) {
  if (type->kind != TERCEL_TYPE_MAP || i > 0) return (tercel_type){.dtype = type->dtype, .shape = type->shape};
  tercel_type keys = {.dtype = type->key, .shape.rank = -1};
  if (type->shape.rank < 1) return keys;
  keys.shape.rank = 1;
  keys.shape.dims[0] = type->shape.dims[type->shape.rank - 1];
  return keys;
}

static bool fits_type(const tercel_type *type, const tercel_view *view) {
  if (view->dtype != type->dtype || view->rank < 0 || view->rank > TERCEL_MAX_RANK) return false;
  if (type->shape.rank >= 0 && type->shape.rank != view->rank) return false;
  for (int d = 0; d < view->rank; ++d) {
    if (view->dims[d] < 0) return false;
    if (type->shape.rank >= 0 && tercel_dim_is_known(type->shape.dims[d]) && type->shape.dims[d] != view->dims[d])
      return false;
  }
  return true;
}

/* The view as a tensor of exactly its bytes. */
static tercel_status check_view(const tercel_context *context, size_t index, size_t element, const tercel_view *view,
                                tercel_tensor *out, tercel_error *err) {
  const tercel_value *const value = input_value(context, index);
  const tercel_type type = element_type(&value->type, element);
  if (!fits_type(&type, view)) return wrong_input(context, index, view, err);
  tercel_tensor tensor = {0};
  const bool addressable = tercel_tensor_set_shape(&tensor, view->dtype, view->rank, view->dims);
  if (!addressable || view->bytes < tensor.bytes || (view->data == NULL && tensor.bytes > 0))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %zu '%s': %zu bytes%s for %s, want %zu", index, value->name,
                       view->bytes, view->data == NULL ? " at NULL" : "",
                       tercel_describe(view->dtype, view->rank, view->dims).text,
                       addressable ? tensor.bytes : SIZE_MAX);
  tensor.data = view->data;
  *out = tensor;
  return TERCEL_OK;
}

static tercel_status check_input_index(const tercel_context *context, size_t index, tercel_error *err) {
  if (index < context->engine->interface.num_inputs) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "there is no input %zu, only %zu", index,
                     context->engine->interface.num_inputs);
}

tercel_status tercel_context_set_input(tercel_context *context, size_t index, const tercel_view *view,
                                       tercel_error *err) {
  TERCEL_TRY(check_input_index(context, index, err));
  const tercel_value *const value = input_value(context, index);
  if (value->type.kind != TERCEL_TYPE_TENSOR)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "input %zu '%s' is no tensor: use tercel_context_set_input_elements", index, value->name);
  TERCEL_TRY(check_view(context, index, 0, view, &context->frame->inputs[index], err));
  context->has_input[index] = true;
  return TERCEL_OK;
}

static tercel_status make_input_list(tercel_context *context, size_t index, const tercel_view *views, size_t length,
                                     tercel_list **out, tercel_error *err) {
  const tercel_type *const type = &input_value(context, index)->type;
  const bool is_inner = type->kind == TERCEL_TYPE_OPTIONAL && type->optional_sequence;
  tercel_list *list = NULL;
  tercel_status status =
      tercel_list_create(is_inner ? TERCEL_TYPE_SEQUENCE : type->kind, type->dtype, length, &list, err);
  for (size_t i = 0; status == TERCEL_OK && i < length; ++i) {
    tercel_tensor tensor;
    tercel_item *item = NULL;
    status = check_view(context, index, i, &views[i], &tensor, err);
    if (status == TERCEL_OK) status = tercel_item_create(&context->runner.account, &tensor, true, &item, err);
    if (status == TERCEL_OK) status = tercel_list_insert(list, i, item, err);
  }
  if (status == TERCEL_OK && is_inner) {
    tercel_list *outer = NULL;
    status = tercel_list_create(type->kind, type->dtype, 0, &outer, err);
    if (status == TERCEL_OK) outer->inner = list;
    if (status == TERCEL_OK) list = outer;
  }
  if (status != TERCEL_OK) {
    tercel_list_release(list);
    return status;
  }
  *out = list;
  return TERCEL_OK;
}

/* A map comes as its keys and its values. */
static tercel_status check_map(const tercel_value *value, size_t index, const tercel_view *views, size_t length,
                               tercel_error *err) {
  if (length != 2)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %zu '%s' is a map: %zu elements, want keys and values",
                       index, value->name, length);
  const tercel_view *const keys = &views[0], *const values = &views[1];
  if (keys->rank == 1 && values->rank > 0 && values->rank <= TERCEL_MAX_RANK &&
      keys->dims[0] == values->dims[values->rank - 1])
    return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %zu '%s' is a map: want a list of keys, and a value for each",
                     index, value->name);
}

tercel_status tercel_context_set_input_elements(tercel_context *context, size_t index, const tercel_view *views,
                                                size_t length, tercel_error *err) {
  TERCEL_TRY(check_input_index(context, index, err));
  const tercel_value *const value = input_value(context, index);
  if (value->type.kind == TERCEL_TYPE_TENSOR)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %zu '%s' is a tensor: use tercel_context_set_input", index,
                       value->name);
  if (value->type.kind == TERCEL_TYPE_OPTIONAL && !value->type.optional_sequence && length > 1)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %zu '%s' is an optional: %zu elements, want 0 or 1", index,
                       value->name, length);
  if (value->type.kind == TERCEL_TYPE_MAP) TERCEL_TRY(check_map(value, index, views, length, err));
  tercel_list *list = NULL;
  TERCEL_TRY(make_input_list(context, index, views, length, &list, err));
  tercel_list_release(context->input_lists[index]);
  context->input_lists[index] = list;
  context->has_input[index] = true;
  return TERCEL_OK;
}

/* ---- outputs ------------------------------------------------------------------------------------------------------- */

static tercel_status check_output_index(const tercel_context *context, size_t index, tercel_error *err) {
  if (index < context->engine->interface.num_outputs) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "there is no output %zu, only %zu", index,
                     context->engine->interface.num_outputs);
}

tercel_status tercel_context_bind_output(tercel_context *context, size_t index, const tercel_view *view,
                                         tercel_error *err) {
  TERCEL_TRY(check_output_index(context, index, err));
  const tercel_io *const io = &context->engine->interface.outputs[index];
  tercel_frame_output *const output = &context->frame->outputs[index];
  if (view == NULL) {
    output->buffer = &output->own;
    return TERCEL_OK;
  }
  const tercel_value *const value = context->engine->graph->outputs[index];
  if (value->type.kind != TERCEL_TYPE_TENSOR || view->dtype != value->type.dtype ||
      (view->data == NULL && view->bytes > 0))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu '%s' is a %s of %s: can't bind %s memory to it", index,
                       io->name, io->kind, tercel_dtype_name(io->dtype), tercel_dtype_name(view->dtype));
  context->bound[index] = (tercel_buffer){view->data, view->bytes, true};
  output->buffer = &context->bound[index];
  return TERCEL_OK;
}

static tercel_status check_has_run(const tercel_context *context, size_t index, bool want_tensor, tercel_error *err) {
  TERCEL_TRY(check_output_index(context, index, err));
  const tercel_io *const io = &context->engine->interface.outputs[index];
  const bool is_tensor = context->engine->graph->outputs[index]->type.kind == TERCEL_TYPE_TENSOR;
  if (is_tensor != want_tensor)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu '%s' is a %s", index, io->name, io->kind);
  if (!context->has_run)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu '%s': no run has succeeded", index, io->name);
  return TERCEL_OK;
}

tercel_status tercel_context_get_output(const tercel_context *context, size_t index, tercel_view *out,
                                        tercel_error *err) {
  TERCEL_TRY(check_has_run(context, index, true, err));
  *out = context->frame->outputs[index].tensor;
  return TERCEL_OK;
}

/* The sequence that the output is or, for an optional, holds. */
static const tercel_list *output_list(const tercel_context *context, size_t index) {
  const tercel_list *const list = context->frame->lists[context->engine->graph->outputs[index]->id];
  return list != NULL && list->inner != NULL ? list->inner : list;
}

tercel_status tercel_context_get_output_length(const tercel_context *context, size_t index, size_t *length,
                                               tercel_error *err) {
  TERCEL_TRY(check_has_run(context, index, false, err));
  const tercel_list *const list = output_list(context, index);
  *length = list != NULL ? list->count : 0;
  return TERCEL_OK;
}

tercel_status tercel_context_get_output_element(const tercel_context *context, size_t index, size_t element,
                                                tercel_view *out, tercel_error *err) {
  size_t length = 0;
  TERCEL_TRY(tercel_context_get_output_length(context, index, &length, err));
  if (element >= length)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu has %zu elements, none has number %zu", index, length,
                       element);
  *out = output_list(context, index)->items[element]->tensor;
  return TERCEL_OK;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

/* A symbol stands for one number in all inputs: passes and kernels rely on it. */
static tercel_status check_symbols(const tercel_context *context, tercel_error *err) {
  const tercel_graph *const graph = context->engine->graph;
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    const tercel_shape *const a = &graph->inputs[i]->type.shape;
    if (graph->inputs[i]->type.kind != TERCEL_TYPE_TENSOR) continue;
    for (uint32_t j = 0; j <= i; ++j) {
      const tercel_shape *const b = &graph->inputs[j]->type.shape;
      if (graph->inputs[j]->type.kind != TERCEL_TYPE_TENSOR) continue;
      for (int d = 0; d < a->rank; ++d)
        for (int e = 0; e < b->rank; ++e) {
          const int64_t x = context->frame->inputs[i].dims[d], y = context->frame->inputs[j].dims[e];
          if (tercel_dim_is_known(a->dims[d]) || a->dims[d] != b->dims[e] || x == y) continue;
          tercel_text name = {0};
          tercel_dim_print(graph->dims, a->dims[d], &name);
          const tercel_status status =
              tercel_fail(err, TERCEL_INVALID_ARGUMENT, "dim '%s' is %lld in input '%s' but %lld in input '%s'",
                          name.data != NULL ? name.data : "?", (long long)y, graph->inputs[j]->name, (long long)x,
                          graph->inputs[i]->name);
          tercel_text_deinit(&name);
          return status;
        }
    }
  }
  return TERCEL_OK;
}

/* Memory of the context's own for a state that the user did not set. */
static tercel_status make_state(tercel_context *context, size_t index, tercel_error *err) {
  const tercel_value *const value = input_value(context, index);
  tercel_tensor tensor = {0};
  if (!tercel_tensor_set_shape(&tensor, value->type.dtype, value->type.shape.rank, value->type.shape.dims))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "state %zu '%s' has free dims, and has not been set", index,
                       value->name);
  TERCEL_TRY(tercel_buffer_reserve(&context->states[index], &context->runner.account, tensor.bytes, 0, err));
  tensor.data = context->states[index].data;
  memset(tensor.data, 0, tensor.bytes);
  context->frame->inputs[index] = tensor;
  context->has_input[index] = true;
  return TERCEL_OK;
}

static tercel_status start_run(tercel_context *context, tercel_error *err) {
  const tercel_graph *const graph = context->engine->graph;
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    if (!context->has_input[i] && graph->inputs[i]->type.state) TERCEL_TRY(make_state(context, i, err));
    if (!context->has_input[i])
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input %u '%s' has not been set", i, graph->inputs[i]->name);
    if (graph->inputs[i]->type.kind == TERCEL_TYPE_TENSOR) continue;
    tercel_list **const list = &context->frame->lists[graph->inputs[i]->id];
    tercel_list_release(*list);
    *list = tercel_list_retain(context->input_lists[i]);
  }
  TERCEL_TRY(check_symbols(context, err));
  size_t profile;
  return tercel_profiles_find(&context->engine->profiles, graph, context->frame->inputs, &profile, err);
}

/* What outputs borrow from inputs and constants becomes the context's own. */
static tercel_status settle_outputs(tercel_context *context, tercel_error *err) {
  const tercel_graph *const graph = context->engine->graph;
  for (uint32_t k = 0; k < graph->num_outputs; ++k) {
    if (graph->outputs[k]->type.kind != TERCEL_TYPE_TENSOR) {
      TERCEL_TRY(tercel_list_settle(&context->frame->lists[graph->outputs[k]->id], &context->runner.account, err));
      continue;
    }
    tercel_tensor *const tensor = &context->frame->outputs[k].tensor;
    if (tensor->dtype != TERCEL_DTYPE_STRING) continue;
    tercel_buffer *const characters = &context->characters[k];
    TERCEL_TRY(tercel_buffer_reserve(characters, &context->runner.account, tercel_count_characters(tensor), 0, err));
    tercel_copy_characters(tensor, characters->data);
  }
  return TERCEL_OK;
}

tercel_status tercel_context_run(tercel_context *context, tercel_error *err) {
  context->has_run = false;
  context->bind_ns_before = context->runner.bind_ns;
  atomic_store_explicit(&context->runner.cancel, false, memory_order_relaxed);
  if (context->runner.profile != NULL) context->runner.profile->nested_ns = 0;
  TERCEL_TRY(start_run(context, err));
  TERCEL_TRY(tercel_split_choose(context->split, &context->piece, err));
  TERCEL_TRY(context->piece > 0 ? tercel_split_run(context->split, err) : tercel_frame_run(context->frame, err));
  TERCEL_TRY(settle_outputs(context, err));
  context->has_run = true;
  return TERCEL_OK;
}

void tercel_context_cancel(tercel_context *context) {
  atomic_store_explicit(&context->runner.cancel, true, memory_order_relaxed);
}

/* ---- verifying ----------------------------------------------------------------------------------------------------- */

tercel_engine *tercel_context_engine(const tercel_context *context) { return context->engine; }

void tercel_context_observe(tercel_context *context, tercel_observer *observer) { context->runner.observer = observer; }

tercel_status tercel_context_share_inputs(tercel_context *to, const tercel_context *from, tercel_error *err) {
  if (to->engine->interface.num_inputs != from->engine->interface.num_inputs)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "the model has %zu inputs, the engine %zu: is it of another model?",
                       to->engine->interface.num_inputs, from->engine->interface.num_inputs);
  for (size_t i = 0; i < to->engine->interface.num_inputs; ++i) {
    to->frame->inputs[i] = from->frame->inputs[i];
    tercel_list_release(to->input_lists[i]);
    to->input_lists[i] = tercel_list_retain(from->input_lists[i]);
    to->has_input[i] = from->has_input[i];
  }
  return TERCEL_OK;
}

tercel_status tercel_context_nudge_inputs(tercel_context *context, tercel_arena *arena, tercel_error *err) {
  for (size_t i = 0; i < context->engine->interface.num_inputs; ++i) {
    tercel_tensor *const input = &context->frame->inputs[i];
    if (input->data == NULL || input->bytes == 0) continue;
    input->data = tercel_arena_copy(arena, input->data, input->bytes);
    if (input->data == NULL) return tercel_fail_memory(err, input->bytes, "verifying an engine");
    tercel_nudge(input);
  }
  return TERCEL_OK;
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

int tercel_context_get_profile(const tercel_context *context, size_t index, tercel_profile_row *out) {
  return context->runner.profile != NULL && tercel_profile_get(context->runner.profile, index, out);
}

void tercel_context_reset_profile(tercel_context *context) {
  if (context->runner.profile != NULL) tercel_profile_reset(context->runner.profile);
}

tercel_status tercel_context_get_memory(const tercel_context *context, tercel_memory_info *info, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_memory_info", err));
  *info = (tercel_memory_info){.size = info->size,
                               .activation_bytes = context->runner.account.used_bytes,
                               .peak_live_bytes = context->frame->peak_bytes,
                               .packed_bytes = context->engine->plan->packed_bytes,
                               .mapped_bytes = context->engine->mapped_bytes};
  return TERCEL_OK;
}

tercel_status tercel_context_get_bind_info(const tercel_context *context, tercel_bind_info *info, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_bind_info", err));
  const tercel_runner *const runner = &context->runner;
  *info = (tercel_bind_info){.size = info->size,
                             .num_bound = runner->num_bound,
                             .total_us = (double)runner->bind_ns / 1e3,
                             .last_run_us = (double)(runner->bind_ns - context->bind_ns_before) / 1e3,
                             .batch_piece = context->piece};
  return TERCEL_OK;
}

tercel_status tercel_memory_plan_of_run(const tercel_context *context, tercel_memory_plan **out, tercel_error *err) {
  const size_t output_bytes = context->piece > 0 ? tercel_split_output_bytes(context->split) : 0;
  return tercel_memory_plan_of_frame(context->engine, context->frame, context->piece, output_bytes, out, err);
}
