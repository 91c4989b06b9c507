/* Runs a frame: finds or makes the binding of each segment, points it at the memory of this run, runs its steps. */
#include "runtime/frame.h"

#include <string.h>

#include "plan/tune.h"

enum { BINDINGS_PER_SEGMENT = 16 }; /* kept by a frame; the least recently used goes first */

tercel_status tercel_frame_create(tercel_runner *runner, const tercel_plan *plan, tercel_frame **out,
                                  tercel_error *err) {
  const tercel_graph *const graph = plan->graph;
  tercel_frame *const frame = tercel_zalloc(sizeof *frame);
  if (frame == NULL) return tercel_fail_memory(err, sizeof *frame, "a frame");
  frame->runner = runner;
  frame->plan = plan;
  frame->inputs = tercel_zalloc_array((size_t)graph->num_inputs + 1, sizeof *frame->inputs);
  frame->lists = tercel_zalloc_array((size_t)graph->num_values + 1, sizeof(tercel_list *));
  frame->outputs = tercel_zalloc_array((size_t)graph->num_outputs + 1, sizeof *frame->outputs);
  frame->dynamic = tercel_zalloc_array((size_t)graph->num_values + 1, sizeof *frame->dynamic);
  frame->controls = tercel_zalloc_array((size_t)plan->num_steps + 1, sizeof(tercel_control *));
  if (!frame->inputs || !frame->lists || !frame->outputs || !frame->dynamic || !frame->controls) {
    tercel_frame_destroy(frame);
    return tercel_fail_memory(err, graph->num_values * sizeof *frame->dynamic, "a frame");
  }
  for (uint32_t k = 0; k < graph->num_outputs; ++k) frame->outputs[k].buffer = &frame->outputs[k].own;
  *out = frame;
  return TERCEL_OK;
}

void tercel_frame_destroy(tercel_frame *frame) {
  if (frame == NULL) return;
  const tercel_graph *const graph = frame->plan->graph;
  tercel_account *const account = &frame->runner->account;
  for (tercel_binding *binding = frame->bindings, *next; binding != NULL; binding = next) {
    next = binding->next;
    tercel_binding_destroy(binding);
  }
  for (uint32_t id = 0; frame->lists != NULL && id < graph->num_values; ++id) tercel_list_release(frame->lists[id]);
  for (uint32_t id = 0; frame->dynamic != NULL && id < graph->num_values; ++id)
    tercel_buffer_free(&frame->dynamic[id], account);
  for (uint32_t k = 0; frame->outputs != NULL && k < graph->num_outputs; ++k)
    tercel_buffer_free(&frame->outputs[k].own, account);
  for (uint32_t s = 0; frame->controls != NULL && s < frame->plan->num_steps; ++s)
    tercel_control_destroy(frame->controls[s], account);
  tercel_buffer_free(&frame->arena, account);
  tercel_free(frame->inputs);
  tercel_free(frame->lists);
  tercel_free(frame->outputs);
  tercel_free(frame->dynamic);
  tercel_free(frame->controls);
  tercel_free(frame);
}

/* ---- the tree of bindings ------------------------------------------------------------------------------------------ */

static bool fits(const tercel_frame *frame, const tercel_binding *binding) {
  for (uint32_t k = 0; binding->outside != NULL && k < frame->plan->graph->num_outputs; ++k)
    if (binding->outside[k] != tercel_frame_is_outside(frame, k)) return false;
  for (size_t i = 0; i < binding->num_shapes; ++i) {
    const tercel_key_shape *const key = &binding->shapes[i];
    if (key->rank != key->tensor->rank) return false;
    for (int d = 0; d < key->rank; ++d)
      if (key->dims[d] != key->tensor->dims[d]) return false;
  }
  for (size_t i = 0; i < binding->num_contents; ++i) {
    const tercel_key_contents *const key = &binding->contents[i];
    if (key->bytes != key->tensor->bytes || memcmp(key->data, key->tensor->data, key->bytes) != 0) return false;
  }
  return true;
}

static tercel_binding **children_of(tercel_frame *frame, tercel_binding *parent) {
  return parent != NULL ? &parent->children : &frame->bindings;
}

/* The link that points to the least recently used binding without children, this run's own left out. */
static tercel_binding **find_oldest(const tercel_frame *frame, tercel_binding **link) {
  tercel_binding **oldest = NULL;
  for (; *link != NULL; link = &(*link)->next) {
    tercel_binding **const leaf = (*link)->children != NULL ? find_oldest(frame, &(*link)->children) : link;
    if (leaf == NULL || (*leaf)->last_use == frame->clock) continue;
    if (oldest == NULL || (*leaf)->last_use < (*oldest)->last_use) oldest = leaf;
  }
  return oldest;
}

static void make_room(tercel_frame *frame, const tercel_binding *parent) {
  size_t num_segments = 1;
  for (; parent != NULL; parent = parent->parent) ++num_segments;
  while (frame->num_bindings >= BINDINGS_PER_SEGMENT * num_segments) {
    tercel_binding **const link = find_oldest(frame, &frame->bindings);
    if (link == NULL) return;
    tercel_binding *const binding = *link;
    *link = binding->next;
    tercel_binding_destroy(binding);
    --frame->num_bindings;
  }
}

static tercel_status find_binding(tercel_frame *frame, tercel_binding *parent, tercel_binding **out,
                                  tercel_error *err) {
  tercel_binding *found = NULL;
  for (tercel_binding *b = *children_of(frame, parent); b != NULL && found == NULL; b = b->next)
    if (fits(frame, b)) found = b;
  if (found == NULL) {
    make_room(frame, parent);
    const int64_t start = tercel_time_ns();
    TERCEL_TRY(tercel_bind(frame, parent, parent != NULL ? parent->end : 0, &found, err));
    frame->runner->bind_ns += tercel_time_ns() - start;
    ++frame->runner->num_bound;
    tercel_binding **const link = children_of(frame, parent);
    found->next = *link;
    *link = found;
    ++frame->num_bindings;
  }
  found->last_use = frame->clock;
  *out = found;
  return TERCEL_OK;
}

/* ---- memory of a run ----------------------------------------------------------------------------------------------- */

static void point_into_arena(const tercel_frame *frame, tercel_binding *binding) {
  if (binding->arena_base == frame->arena.data) return;
  for (size_t i = 0; i < binding->num_arena_fixups; ++i) {
    const tercel_fixup *const fixup = &binding->arena_fixups[i];
    *fixup->target = (char *)frame->arena.data + fixup->offset;
  }
  binding->arena_base = frame->arena.data;
}

static tercel_status no_room_for_output(const tercel_frame *frame, size_t k, tercel_status status, tercel_error *err) {
  return tercel_fail_at(err, status, "output '%s'", frame->plan->graph->output_names[k]);
}

/* A larger arena keeps what earlier segments of this run left in it, and their bindings are pointed at it anew. */
static tercel_status activate(tercel_frame *frame, tercel_binding *binding, tercel_error *err) {
  tercel_account *const account = &frame->runner->account;
  const size_t keep = binding->parent != NULL ? frame->arena.bytes : 0;
  TERCEL_TRY(tercel_buffer_reserve(&frame->arena, account, binding->arena_bytes, keep, err));
  for (tercel_binding *b = binding; b != NULL; b = b->parent) point_into_arena(frame, b);
  for (uint32_t k = 0; k < frame->plan->graph->num_outputs; ++k) {
    if (binding->output_bytes[k] == 0) continue;
    tercel_frame_output *const output = &frame->outputs[k];
    const tercel_status status = tercel_buffer_reserve(output->buffer, account, binding->output_bytes[k], 0, err);
    if (status != TERCEL_OK) return no_room_for_output(frame, k, status, err);
    output->data = output->buffer->data;
  }
  for (size_t i = 0; i < binding->num_fixups; ++i) {
    const tercel_fixup *const fixup = &binding->fixups[i];
    *fixup->target = (char *)*fixup->base + fixup->offset;
  }
  return TERCEL_OK;
}

tercel_status tercel_frame_output_memory(tercel_frame *frame, const tercel_node *node, size_t output,
                                         tercel_tensor *tensor, size_t keep, tercel_error *err) {
  tercel_buffer *const buffer = &frame->dynamic[node->outputs[output]->id];
  const tercel_status status = tercel_buffer_reserve(buffer, &frame->runner->account, tensor->bytes, keep, err);
  if (status != TERCEL_OK)
    return tercel_fail_at(err, status, "output '%s' of %s", node->outputs[output]->name,
                          tercel_describe(tensor->dtype, tensor->rank, tensor->dims).text);
  tensor->data = buffer->data;
  return TERCEL_OK;
}

/* ---- lists --------------------------------------------------------------------------------------------------------- */

tercel_list *tercel_frame_take_list(tercel_frame *frame, const tercel_bound *bound, size_t input) {
  const tercel_node *const node = bound->run.node;
  const uint32_t id = node->inputs[input]->id, index = (uint32_t)(bound->step - frame->plan->steps);
  tercel_list *const list = frame->lists[id];
  bool again = frame->plan->lives[id].last != index;
  for (size_t i = input + 1; i < node->num_inputs; ++i) again |= node->inputs[i] == node->inputs[input];
  if (again) return tercel_list_retain(list);
  frame->lists[id] = NULL;
  return list;
}

void tercel_frame_set_list(tercel_frame *frame, const tercel_value *value, tercel_list *list) {
  tercel_list_release(frame->lists[value->id]);
  frame->lists[value->id] = list;
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

tercel_status tercel_frame_check_cancel(const tercel_frame *frame, const tercel_node *node, tercel_error *err) {
  if (!atomic_load_explicit(&frame->runner->cancel, memory_order_relaxed)) return TERCEL_OK;
  return tercel_fail(err, TERCEL_CANCELLED, "cancelled at %s '%s'", node->op->name, node->name);
}

static tercel_status run_step(tercel_frame *frame, const tercel_bound *step, tercel_error *err) {
  tercel_observer *const observer = frame->runner->observer;
  if (observer != NULL) TERCEL_TRY(observer->before(observer, frame, step, err));
  tercel_status status = step->fn != NULL ? step->fn(&step->run, err) : tercel_control_run(frame, step, err);
  if (frame->runner->scratch.used_bytes > 0 && step->fn != NULL) tercel_arena_reset(&frame->runner->scratch);
  if (observer != NULL && status == TERCEL_OK) status = observer->after(observer, frame, step, err);
  return status;
}

static tercel_status run_timed(tercel_frame *frame, const tercel_bound *step, tercel_error *err) {
  tercel_profile *const profile = frame->runner->profile;
  const int64_t nested_before = profile->nested_ns;
  profile->nested_ns = 0;
  const int64_t start = tercel_time_ns();
  const tercel_status status = run_step(frame, step, err);
  const int64_t elapsed = tercel_time_ns() - start;
  tercel_profile_add(profile, step->step, &step->run, elapsed - profile->nested_ns);
  profile->nested_ns = nested_before + elapsed;
  return status;
}

/* A dynamic step tells shapes anew. */
static void forget_shapes(const tercel_binding *binding) {
  const tercel_kernel_run *const run = &binding->steps[0].run;
  for (size_t i = 0; i < run->num_outputs; ++i)
    if (run->out[i] != NULL) *run->out[i] = (tercel_tensor){.dtype = run->node->outputs[i]->type.dtype, .rank = -1};
}

static tercel_status run_steps(tercel_frame *frame, const tercel_binding *binding, tercel_error *err) {
  tercel_runner *const runner = frame->runner;
  for (size_t i = 0; i < binding->num_steps; ++i) {
    const tercel_bound *const step = &binding->steps[i];
    TERCEL_TRY(tercel_frame_check_cancel(frame, step->run.node, err));
    const tercel_status status = runner->profile != NULL ? run_timed(frame, step, err) : run_step(frame, step, err);
    if (status != TERCEL_OK) return tercel_fail_at_node(step->run.node, status, err);
  }
  return TERCEL_OK;
}

/* Kernels were chosen for what the graph says of a value: what a dynamic step made must agree. */
static tercel_status check_dynamic(const tercel_binding *binding, tercel_error *err) {
  const tercel_kernel_run *const run = &binding->steps[0].run;
  for (size_t i = 0; i < run->num_outputs; ++i) {
    const tercel_tensor *const tensor = run->out[i];
    if (tensor == NULL) continue;
    const tercel_type *const want = &run->node->outputs[i]->type;
    bool agrees =
        tensor->rank >= 0 && tensor->dtype == want->dtype && (want->shape.rank < 0 || want->shape.rank == tensor->rank);
    for (int d = 0; agrees && d < want->shape.rank; ++d)
      agrees = !tercel_dim_is_known(want->shape.dims[d]) || want->shape.dims[d] == tensor->dims[d];
    if (agrees) continue;
    tercel_text text = {0};
    tercel_type_print(run->node->graph->dims, want, &text);
    const tercel_status status = tercel_fail(
        err, TERCEL_INVALID_MODEL, "%s '%s': output '%s' became %s, but the graph says %s", run->node->op->name,
        run->node->name, run->node->outputs[i]->name, tercel_describe(tensor->dtype, tensor->rank, tensor->dims).text,
        text.data != NULL ? text.data : "?");
    tercel_text_deinit(&text);
    return status;
  }
  return TERCEL_OK;
}

static tercel_status collect_outputs(tercel_frame *frame, const tercel_binding *binding, tercel_error *err) {
  for (uint32_t k = 0; k < frame->plan->graph->num_outputs; ++k) {
    const tercel_result *const result = &binding->results[k];
    tercel_frame_output *const output = &frame->outputs[k];
    if (result->tensor == NULL) continue;
    output->tensor = *result->tensor;
    if (!result->copy) continue;
    const tercel_status status =
        tercel_buffer_reserve(output->buffer, &frame->runner->account, result->tensor->bytes, 0, err);
    if (status != TERCEL_OK) return no_room_for_output(frame, k, status, err);
    output->tensor.data = output->buffer->data;
    if (result->tensor->bytes > 0) memcpy(output->tensor.data, result->tensor->data, result->tensor->bytes);
  }
  return TERCEL_OK;
}

/* As far as the graph says it. */
tercel_status tercel_frame_check_inputs(const tercel_frame *frame, tercel_error *err) {
  const tercel_graph *const graph = frame->plan->graph;
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    const tercel_type *const want = &graph->inputs[i]->type;
    const tercel_tensor *const is = &frame->inputs[i];
    if (want->kind != TERCEL_TYPE_TENSOR) continue;
    bool agrees = is->dtype == want->dtype && (want->shape.rank < 0 || want->shape.rank == is->rank);
    for (int d = 0; agrees && d < want->shape.rank; ++d)
      agrees = !tercel_dim_is_known(want->shape.dims[d]) || want->shape.dims[d] == is->dims[d];
    if (agrees) continue;
    tercel_text text = {0};
    tercel_type_print(graph->dims, want, &text);
    const tercel_status status =
        tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' is %s, want %s", graph->inputs[i]->name,
                    tercel_describe(is->dtype, is->rank, is->dims).text, text.data != NULL ? text.data : "?");
    tercel_text_deinit(&text);
    return status;
  }
  return TERCEL_OK;
}

/* Bindings of an older choice of tactics are no longer wanted; what they hold is given back. */
static tercel_status follow_tactics(tercel_frame *frame, tercel_error *err) {
  tercel_tuning *const tuning = atomic_load_explicit(&frame->plan->shared->tuning, memory_order_acquire);
  if (tuning != NULL && tercel_tuning_has_found(tuning)) TERCEL_TRY(tercel_tuning_apply(tuning, err));
  const unsigned now = atomic_load_explicit(&frame->plan->shared->generation, memory_order_acquire);
  if (frame->generation == now) return TERCEL_OK;
  frame->generation = now;
  for (tercel_binding *binding = frame->bindings, *next; binding != NULL; binding = next) {
    next = binding->next;
    tercel_binding_destroy(binding);
  }
  frame->bindings = NULL;
  frame->num_bindings = 0;
  return TERCEL_OK;
}

tercel_status tercel_frame_run(tercel_frame *frame, tercel_error *err) {
  ++frame->clock;
  TERCEL_TRY(follow_tactics(frame, err));
  frame->peak_bytes = 0;
  frame->last = NULL;
  TERCEL_TRY(tercel_frame_check_inputs(frame, err));
  tercel_binding *binding = NULL;
  do {
    TERCEL_TRY(find_binding(frame, binding, &binding, err));
    TERCEL_TRY(activate(frame, binding, err));
    if (binding->dynamic) forget_shapes(binding);
    frame->nested_bytes = 0;
    TERCEL_TRY(run_steps(frame, binding, err));
    if (binding->dynamic) TERCEL_TRY(check_dynamic(binding, err));
    const size_t peak_bytes = binding->peak_bytes + frame->nested_bytes;
    if (peak_bytes > frame->peak_bytes) frame->peak_bytes = peak_bytes;
  } while (binding->end < frame->plan->num_steps);
  frame->last = binding;
  return collect_outputs(frame, binding, err);
}
