/* Runs if, loop and scan: subgraphs in frames of their own, which are kept.  What a subgraph reads is handed over by
 * reference; what it makes stays in its frame's outputs until the step runs again.  Values that a loop carries lie in two
 * buffers in turn, so that an iteration reads the one while it writes the other. */
#include <string.h>

#include "runtime/frame.h"

struct tercel_control {
  tercel_frame *frames[2];
  size_t num_carried;
  tercel_buffer (*memory)[2];     /* of carried values, in turn */
  tercel_buffer (*characters)[2]; /* of carried strings, likewise */
  tercel_arena stacked;           /* characters of stacked strings, of the step's last run */
  tercel_tensor *tensors;         /* carried values now */
  tercel_list **lists;
  size_t num_slices;
  tercel_buffer *slices; /* of scanned inputs, where they are not contiguous */
  int64_t iteration;     /* the body's first two inputs */
  uint8_t condition;
};

void tercel_control_destroy(tercel_control *control, tercel_account *account) {
  if (control == NULL) return;
  for (size_t k = 0; k < control->num_carried; ++k) {
    tercel_buffer_free(&control->memory[k][0], account);
    tercel_buffer_free(&control->memory[k][1], account);
    tercel_buffer_free(&control->characters[k][0], account);
    tercel_buffer_free(&control->characters[k][1], account);
    tercel_list_release(control->lists[k]);
  }
  for (size_t i = 0; i < control->num_slices; ++i) tercel_buffer_free(&control->slices[i], account);
  tercel_frame_destroy(control->frames[0]);
  tercel_frame_destroy(control->frames[1]);
  tercel_arena_deinit(&control->stacked);
  tercel_free(control->memory);
  tercel_free(control->characters);
  tercel_free(control->tensors);
  tercel_free(control->lists);
  tercel_free(control->slices);
  tercel_free(control);
}

static tercel_status get_control(tercel_frame *frame, const tercel_bound *bound, size_t num_carried, size_t num_slices,
                                 tercel_control **out, tercel_error *err) {
  tercel_control **const place = &frame->controls[bound->step - frame->plan->steps];
  *out = *place;
  if (*out != NULL) return TERCEL_OK;
  tercel_control *const control = tercel_zalloc(sizeof *control);
  if (control == NULL) return tercel_fail_memory(err, sizeof *control, "a control step");
  control->memory = tercel_zalloc_array(num_carried + 1, sizeof *control->memory);
  control->characters = tercel_zalloc_array(num_carried + 1, sizeof *control->characters);
  control->tensors = tercel_zalloc_array(num_carried + 1, sizeof *control->tensors);
  control->lists = tercel_zalloc_array(num_carried + 1, sizeof(tercel_list *));
  control->slices = tercel_zalloc_array(num_slices + 1, sizeof *control->slices);
  if (!control->memory || !control->characters || !control->tensors || !control->lists || !control->slices) {
    tercel_control_destroy(control, &frame->runner->account);
    return tercel_fail_memory(err, num_carried * sizeof *control->memory, "a control step");
  }
  control->num_carried = num_carried;
  control->num_slices = num_slices;
  *out = *place = control;
  return TERCEL_OK;
}

static tercel_status get_frame(tercel_frame *frame, const tercel_bound *bound, tercel_control *control, uint32_t which,
                               tercel_frame **out, tercel_error *err) {
  if (control->frames[which] == NULL)
    TERCEL_TRY(tercel_frame_create(frame->runner, bound->step->plans[which], &control->frames[which], err));
  *out = control->frames[which];
  return TERCEL_OK;
}

/* ---- values in and out --------------------------------------------------------------------------------------------- */

static tercel_status wrong_kind(const tercel_node *node, const tercel_value *inner, tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': '%s' is of another kind than what is handed to it",
                     node->op->name, node->name, inner->name);
}

/* Hands a tensor, or a list (a reference, which passes), to input `to` of a subgraph.  An optional takes what it may hold. */
static tercel_status give(const tercel_bound *bound, tercel_frame *nested, uint32_t to, const tercel_tensor *tensor,
                          tercel_list *list, tercel_error *err) {
  const tercel_value *const inner = nested->plan->graph->inputs[to];
  if (inner->type.kind == TERCEL_TYPE_OPTIONAL && tensor != NULL) {
    TERCEL_TRY(tercel_list_create(TERCEL_TYPE_OPTIONAL, tensor->dtype, 1, &list, err));
    tercel_item *item = NULL;
    tercel_status status = tercel_item_create(&nested->runner->account, tensor, false, &item, err);
    if (status == TERCEL_OK) status = tercel_list_insert(list, 0, item, err);
    if (status != TERCEL_OK) {
      tercel_list_release(list);
      return status;
    }
    tensor = NULL;
  }
  if ((inner->type.kind == TERCEL_TYPE_TENSOR) != (tensor != NULL)) {
    tercel_list_release(list);
    return wrong_kind(bound->run.node, inner, err);
  }
  if (tensor != NULL)
    nested->inputs[to] = *tensor;
  else
    tercel_frame_set_list(nested, inner, list);
  return TERCEL_OK;
}

static tercel_status give_input(tercel_frame *frame, const tercel_bound *bound, size_t from, tercel_frame *nested,
                                uint32_t to, bool keep_list, tercel_error *err) {
  const tercel_tensor *const tensor = bound->run.in[from];
  tercel_list *list = NULL;
  if (tensor == NULL)
    list = keep_list ? tercel_list_retain(frame->lists[bound->run.node->inputs[from]->id])
                     : tercel_frame_take_list(frame, bound, from);
  return give(bound, nested, to, tensor, list, err);
}

/* The trailing inputs of the step are those of the subgraph. */
static tercel_status give_captures(tercel_frame *frame, const tercel_bound *bound, tercel_frame *nested,
                                   bool keep_lists, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const uint32_t first_from = node->num_inputs - node->num_captures;
  const uint32_t first_to = nested->plan->graph->num_inputs - node->num_captures;
  for (uint32_t i = 0; i < node->num_captures; ++i)
    TERCEL_TRY(give_input(frame, bound, first_from + i, nested, first_to + i, keep_lists, err));
  return TERCEL_OK;
}

static tercel_status run_nested(tercel_frame *frame, tercel_frame *nested, tercel_error *err) {
  const tercel_status status = tercel_frame_run(nested, err);
  if (nested->peak_bytes > frame->nested_bytes) frame->nested_bytes = nested->peak_bytes;
  return status;
}

/* Output `from` of a subgraph becomes output `to` of the step: the same memory, or another reference. */
static tercel_status take_output(tercel_frame *frame, const tercel_bound *bound, tercel_frame *nested, uint32_t from,
                                 size_t to, tercel_error *err) {
  const tercel_value *const inner = nested->plan->graph->outputs[from], *const outer = bound->run.node->outputs[to];
  if (outer == NULL) return TERCEL_OK;
  if (inner->type.kind != outer->type.kind) return wrong_kind(bound->run.node, inner, err);
  if (outer->type.kind == TERCEL_TYPE_TENSOR)
    *bound->run.out[to] = nested->outputs[from].tensor;
  else
    tercel_frame_set_list(frame, outer, tercel_list_retain(nested->lists[inner->id]));
  return TERCEL_OK;
}

static tercel_status read_bool(const tercel_node *node, const tercel_tensor *tensor, const char *what, bool *out,
                               tercel_error *err) {
  if (tensor == NULL || tensor->dtype != TERCEL_DTYPE_BOOL || tercel_tensor_num_elements(tensor) != 1)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': its %s must be one bool", node->op->name, node->name, what);
  *out = tercel_tensor_get_i64(tensor, 0) != 0;
  return TERCEL_OK;
}

static tercel_status run_if(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  bool condition = false;
  tercel_control *control = NULL;
  tercel_frame *nested = NULL;
  TERCEL_TRY(read_bool(node, bound->run.in[0], "condition", &condition, err));
  TERCEL_TRY(get_control(frame, bound, 0, 0, &control, err));
  TERCEL_TRY(get_frame(frame, bound, control, condition ? 0 : 1, &nested, err));
  TERCEL_TRY(give_captures(frame, bound, nested, false, err));
  TERCEL_TRY(run_nested(frame, nested, err));
  for (uint32_t k = 0; k < node->num_outputs; ++k) TERCEL_TRY(take_output(frame, bound, nested, k, k, err));
  return TERCEL_OK;
}

/* ---- carried values ------------------------------------------------------------------------------------------------ */

/* Carried value k starts as input `first_input + k` of the step. */
static tercel_status start_carried(tercel_frame *frame, const tercel_bound *bound, tercel_control *control,
                                   size_t first_input, tercel_error *err) {
  for (size_t k = 0; k < control->num_carried; ++k) {
    const size_t i = first_input + k;
    if (bound->run.node->inputs[i] == NULL)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': carried value %zu has no start",
                         bound->run.node->op->name, bound->run.node->name, k);
    tercel_list_release(control->lists[k]);
    control->lists[k] = bound->run.in[i] == NULL ? tercel_frame_take_list(frame, bound, i) : NULL;
    if (bound->run.in[i] != NULL) control->tensors[k] = *bound->run.in[i];
  }
  return TERCEL_OK;
}

static tercel_status give_carried(const tercel_bound *bound, tercel_control *control, tercel_frame *nested,
                                  uint32_t first_in, uint32_t first_out, int64_t iteration, tercel_error *err) {
  for (size_t k = 0; k < control->num_carried; ++k) {
    tercel_list *const list = control->lists[k];
    control->lists[k] = NULL;
    TERCEL_TRY(give(bound, nested, first_in + (uint32_t)k, list != NULL ? NULL : &control->tensors[k], list, err));
    nested->outputs[first_out + k].buffer = &control->memory[k][iteration & 1];
  }
  return TERCEL_OK;
}

/* The body's steps write the same characters again in the next iteration: carried strings get their own. */
static tercel_status keep_characters(tercel_frame *frame, tercel_tensor *tensor, tercel_buffer *characters,
                                     tercel_error *err) {
  if (tensor->dtype != TERCEL_DTYPE_STRING) return TERCEL_OK;
  TERCEL_TRY(tercel_buffer_reserve(characters, &frame->runner->account, tercel_count_characters(tensor), 0, err));
  tercel_copy_characters(tensor, characters->data);
  return TERCEL_OK;
}

/* After iteration `iteration`. */
static tercel_status take_carried(tercel_frame *frame, const tercel_bound *bound, tercel_control *control,
                                  tercel_frame *nested, uint32_t first_out, int64_t iteration, tercel_error *err) {
  for (size_t k = 0; k < control->num_carried; ++k) {
    const tercel_value *const inner = nested->plan->graph->outputs[first_out + k];
    const tercel_value *const outer = bound->run.node->outputs[k];
    if (outer != NULL && inner->type.kind != outer->type.kind) return wrong_kind(bound->run.node, inner, err);
    if (inner->type.kind == TERCEL_TYPE_TENSOR) {
      control->tensors[k] = nested->outputs[first_out + k].tensor;
      TERCEL_TRY(keep_characters(frame, &control->tensors[k], &control->characters[k][iteration & 1], err));
    } else {
      control->lists[k] = nested->lists[inner->id];
      nested->lists[inner->id] = NULL;
    }
  }
  return TERCEL_OK;
}

/* A value that starts as an optional and goes on as what it holds: without iterations that is its content, if it has one. */
static tercel_status open_optional(const tercel_node *node, const tercel_value *outer, const tercel_list *optional,
                                   tercel_tensor *tensor, tercel_list **list, tercel_error *err) {
  *list = NULL;
  if (outer->type.kind == TERCEL_TYPE_SEQUENCE && optional->inner != NULL)
    *list = tercel_list_retain(optional->inner);
  else if (outer->type.kind == TERCEL_TYPE_TENSOR && optional->inner == NULL && optional->count == 1)
    *tensor = optional->items[0]->tensor;
  else
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': without an iteration '%s' stays an empty optional",
                       node->op->name, node->name, outer->name);
  return TERCEL_OK;
}

static tercel_status finish_one(tercel_frame *frame, const tercel_bound *bound, tercel_control *control, size_t k,
                                bool any, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const tercel_value *const outer = node->outputs[k];
  tercel_list *list = control->lists[k];
  control->lists[k] = NULL;
  if (outer == NULL) {
    tercel_list_release(list);
    return TERCEL_OK;
  }
  if (list != NULL && list->kind == TERCEL_TYPE_OPTIONAL && outer->type.kind != TERCEL_TYPE_OPTIONAL) {
    control->lists[k] = list; /* keeps the content until the next run */
    TERCEL_TRY(open_optional(node, outer, control->lists[k], &control->tensors[k], &list, err));
  }
  if ((list != NULL ? list->kind : TERCEL_TYPE_TENSOR) != outer->type.kind) {
    tercel_list_release(list);
    return wrong_kind(node, outer, err);
  }
  if (list != NULL) {
    tercel_frame_set_list(frame, outer, list);
    return TERCEL_OK;
  }
  tercel_tensor *const out = bound->run.out[k];
  *out = control->tensors[k];
  if (any) return TERCEL_OK;
  TERCEL_TRY(tercel_frame_output_memory(frame, node, k, out, 0, err));
  if (out->bytes > 0) memcpy(out->data, control->tensors[k].data, out->bytes);
  return TERCEL_OK;
}

/* After the last iteration; without any, the starts are copied, since their memory may be used again. */
static tercel_status finish_carried(tercel_frame *frame, const tercel_bound *bound, tercel_control *control, bool any,
                                    tercel_error *err) {
  for (size_t k = 0; k < control->num_carried; ++k) TERCEL_TRY(finish_one(frame, bound, control, k, any, err));
  return TERCEL_OK;
}

/* ---- stacked outputs ----------------------------------------------------------------------------------------------- */

/* Grows by half, so that appending n times copies each byte a few times at most. */
static tercel_status reserve_more(tercel_frame *frame, const tercel_node *node, size_t output, tercel_tensor *tensor,
                                  size_t keep, tercel_error *err) {
  const tercel_buffer *const buffer = &frame->dynamic[node->outputs[output]->id];
  tercel_tensor wanted = *tensor;
  if (wanted.bytes > buffer->bytes && buffer->bytes > 0 &&
      tercel_add_size(wanted.bytes, wanted.bytes / 2, &wanted.bytes) &&
      tercel_account_check(&frame->runner->account, wanted.bytes, NULL) != TERCEL_OK)
    wanted.bytes = tensor->bytes;
  TERCEL_TRY(tercel_frame_output_memory(frame, node, output, &wanted, keep, err));
  tensor->data = wanted.data;
  return TERCEL_OK;
}

static tercel_status shape_stack(const tercel_node *node, const tercel_tensor *part, int axis, int64_t length,
                                 tercel_tensor *out, tercel_error *err) {
  int64_t dims[TERCEL_MAX_RANK];
  if (part->rank + 1 > TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': stacking outputs of rank %d passes the largest rank, %d",
                       node->op->name, node->name, part->rank, TERCEL_MAX_RANK);
  for (int d = 0; d <= part->rank; ++d) dims[d] = d < axis ? part->dims[d] : d == axis ? length : part->dims[d - 1];
  if (tercel_dtype_bits(part->dtype) % 8 != 0)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': stacking %s, whose elements are no whole bytes",
                       node->op->name, node->name, tercel_dtype_name(part->dtype));
  if (!tercel_tensor_set_shape(out, part->dtype, part->rank + 1, dims))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "%s '%s': %lld stacked outputs are too large to address",
                       node->op->name, node->name, (long long)length);
  return TERCEL_OK;
}

static tercel_status check_part(const tercel_node *node, const tercel_tensor *whole, const tercel_tensor *part,
                                int axis, int64_t iteration, tercel_error *err) {
  bool same = whole->rank == part->rank + 1 && whole->dtype == part->dtype;
  for (int d = 0; same && d < part->rank; ++d) same = part->dims[d] == whole->dims[d < axis ? d : d + 1];
  if (same) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_MODEL,
                     "%s '%s': an output that is stacked is %s in iteration %lld, unlike before", node->op->name,
                     node->name, tercel_describe(part->dtype, part->rank, part->dims).text, (long long)iteration);
}

/* A stacked part's characters must outlive the iteration that made them. */
static tercel_status stack_characters(tercel_control *control, tercel_tensor *part, tercel_error *err) {
  const size_t count = tercel_count_characters(part);
  if (part->dtype != TERCEL_DTYPE_STRING) return TERCEL_OK;
  char *const characters = tercel_arena_alloc(&control->stacked, count);
  if (characters == NULL) return tercel_fail_memory(err, count, "stacked strings");
  tercel_copy_characters(part, characters);
  return TERCEL_OK;
}

/* Appends one iteration's output along axis 0. */
static tercel_status append(tercel_frame *frame, const tercel_bound *bound, tercel_control *control, size_t to,
                            tercel_tensor *part, int64_t iteration, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  tercel_tensor *const out = bound->run.out[to];
  if (out == NULL) return TERCEL_OK;
  if (iteration > 0) TERCEL_TRY(check_part(node, out, part, 0, iteration, err));
  TERCEL_TRY(stack_characters(control, part, err));
  TERCEL_TRY(shape_stack(node, part, 0, iteration + 1, out, err));
  const size_t before = out->bytes - part->bytes;
  TERCEL_TRY(reserve_more(frame, node, to, out, before, err));
  if (part->bytes > 0) memcpy((char *)out->data + before, part->data, part->bytes);
  return TERCEL_OK;
}

/* Without iterations: nothing of what the body would have given, in its dims as far as they are known. */
static tercel_status stack_nothing(tercel_frame *frame, const tercel_bound *bound, const tercel_value *inner, int axis,
                                   size_t to, tercel_error *err) {
  if (bound->run.out[to] == NULL) return TERCEL_OK;
  tercel_tensor part = {.dtype = inner->type.dtype, .rank = inner->type.shape.rank > 0 ? inner->type.shape.rank : 0};
  for (int d = 0; d < part.rank; ++d)
    part.dims[d] = tercel_dim_is_known(inner->type.shape.dims[d]) ? inner->type.shape.dims[d] : 0;
  TERCEL_TRY(shape_stack(bound->run.node, &part, axis, 0, bound->run.out[to], err));
  return tercel_frame_output_memory(frame, bound->run.node, to, bound->run.out[to], 0, err);
}

/* ---- loop ---------------------------------------------------------------------------------------------------------- */

/* A scalar input of the body, in the rank that the body declares (0, or 1 in some files). */
static void give_scalar(tercel_frame *nested, uint32_t to, tercel_dtype dtype, void *data, size_t bytes) {
  nested->inputs[to] = (tercel_tensor){.dtype = dtype,
                                       .rank = nested->plan->graph->inputs[to]->type.shape.rank == 1,
                                       .dims = {1},
                                       .data = data,
                                       .bytes = bytes};
}

static tercel_status read_trip_count(const tercel_node *node, const tercel_tensor *tensor, int64_t *out,
                                     tercel_error *err) {
  *out = INT64_MAX;
  if (tensor == NULL) return TERCEL_OK;
  if (!tercel_dtype_is_integer(tensor->dtype) || tercel_tensor_num_elements(tensor) != 1)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': its trip count must be one integer", node->op->name,
                       node->name);
  *out = tercel_tensor_get_i64(tensor, 0);
  return TERCEL_OK;
}

/* Body: (iteration, condition, carried..., captures...) -> (condition, carried..., stacked...). */
static tercel_status run_loop(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const uint32_t num_carried = node->num_inputs - 2 - node->num_captures, num_stacked = node->num_outputs - num_carried;
  int64_t trip_count = 0;
  bool condition = true;
  tercel_control *control = NULL;
  tercel_frame *nested = NULL;
  TERCEL_TRY(read_trip_count(node, bound->run.in[0], &trip_count, err));
  if (bound->run.in[1] != NULL) TERCEL_TRY(read_bool(node, bound->run.in[1], "condition", &condition, err));
  TERCEL_TRY(get_control(frame, bound, num_carried, 0, &control, err));
  TERCEL_TRY(get_frame(frame, bound, control, 0, &nested, err));
  TERCEL_TRY(start_carried(frame, bound, control, 2, err));
  tercel_arena_reset(&control->stacked);
  int64_t iteration = 0;
  for (; iteration < trip_count && condition; ++iteration) {
    TERCEL_TRY(tercel_frame_check_cancel(frame, node, err));
    control->iteration = iteration;
    control->condition = condition;
    give_scalar(nested, 0, TERCEL_DTYPE_I64, &control->iteration, sizeof control->iteration);
    give_scalar(nested, 1, TERCEL_DTYPE_BOOL, &control->condition, sizeof control->condition);
    TERCEL_TRY(give_carried(bound, control, nested, 2, 1, iteration, err));
    TERCEL_TRY(give_captures(frame, bound, nested, true, err));
    TERCEL_TRY(run_nested(frame, nested, err));
    TERCEL_TRY(read_bool(node, &nested->outputs[0].tensor, "body's condition", &condition, err));
    TERCEL_TRY(take_carried(frame, bound, control, nested, 1, iteration, err));
    for (uint32_t s = 0; s < num_stacked; ++s)
      TERCEL_TRY(
          append(frame, bound, control, num_carried + s, &nested->outputs[1 + num_carried + s].tensor, iteration, err));
  }
  for (uint32_t s = 0; iteration == 0 && s < num_stacked; ++s)
    TERCEL_TRY(stack_nothing(frame, bound, nested->plan->graph->outputs[1 + num_carried + s], 0, num_carried + s, err));
  return finish_carried(frame, bound, control, iteration > 0, err);
}

/* ---- scan ---------------------------------------------------------------------------------------------------------- */

/* Entry i of a list attribute; 0 where it isn't given. */
static int64_t entry(const tercel_node *node, const char *name, size_t i) {
  size_t count = 0;
  const int64_t *const values = tercel_node_ints(node, name, &count);
  return i < count ? values[i] : 0;
}

/* An axis along which a tensor is cut into `outer` rows of `length` pieces of `inner` bytes. */
typedef struct cut {
  int64_t length;
  size_t outer, inner;
} cut;

static cut cut_along(const tercel_tensor *tensor, int axis) {
  cut c = {.length = tensor->dims[axis], .outer = 1, .inner = (size_t)tercel_dtype_bits(tensor->dtype) / 8};
  for (int d = 0; d < axis; ++d) c.outer *= (size_t)tensor->dims[d];
  for (int d = axis + 1; d < tensor->rank; ++d) c.inner *= (size_t)tensor->dims[d];
  return c;
}

/* Element `at` of scanned input i, without the axis. */
static tercel_status slice_input(tercel_frame *frame, const tercel_bound *bound, tercel_control *control, size_t i,
                                 const tercel_tensor *whole, int axis, int64_t at, tercel_tensor *out,
                                 tercel_error *err) {
  int64_t dims[TERCEL_MAX_RANK];
  for (int d = 0, e = 0; d < whole->rank; ++d)
    if (d != axis) dims[e++] = whole->dims[d];
  if (tercel_dtype_bits(whole->dtype) % 8 != 0 || !tercel_tensor_set_shape(out, whole->dtype, whole->rank - 1, dims))
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': scanning %s, whose elements are no whole bytes",
                       bound->run.node->op->name, bound->run.node->name, tercel_dtype_name(whole->dtype));
  const cut c = cut_along(whole, axis);
  const char *const from = (const char *)whole->data + (size_t)at * c.inner;
  if (c.outer == 1) {
    memcpy(&out->data, &from, sizeof from); /* borrowed: the body does not write its inputs */
    return TERCEL_OK;
  }
  TERCEL_TRY(tercel_buffer_reserve(&control->slices[i], &frame->runner->account, out->bytes, 0, err));
  out->data = control->slices[i].data;
  for (size_t o = 0; o < c.outer; ++o)
    memcpy((char *)out->data + o * c.inner, from + o * (size_t)c.length * c.inner, c.inner);
  return TERCEL_OK;
}

static tercel_status scan_length(const tercel_bound *bound, size_t first, size_t count, int *axes, int64_t *out,
                                 tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  for (size_t i = 0; i < count; ++i) {
    const tercel_tensor *const tensor = bound->run.in[first + i];
    if (tensor == NULL || tensor->rank < 1)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': scanned input %zu has no axis", node->op->name,
                         node->name, i);
    TERCEL_TRY(tercel_axis(node, entry(node, "scan_input_axes", i), tensor->rank, &axes[i], err));
    if (i > 0 && tensor->dims[axes[i]] != *out)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': scanned inputs of length %lld and %lld", node->op->name,
                         node->name, (long long)*out, (long long)tensor->dims[axes[i]]);
    *out = tensor->dims[axes[i]];
  }
  return TERCEL_OK;
}

/* Puts one iteration's output at its place; the first one tells the shape of the whole. */
static tercel_status place_part(tercel_frame *frame, const tercel_bound *bound, tercel_control *control, size_t output,
                                size_t stack, tercel_tensor *part, int64_t iteration, int64_t length,
                                tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  tercel_tensor *const out = bound->run.out[output];
  if (out == NULL) return TERCEL_OK;
  int axis = 0;
  TERCEL_TRY(tercel_axis(node, entry(node, "scan_output_axes", stack), part->rank + 1, &axis, err));
  if (iteration == 0) {
    TERCEL_TRY(shape_stack(node, part, axis, length, out, err));
    TERCEL_TRY(tercel_frame_output_memory(frame, node, output, out, 0, err));
  }
  TERCEL_TRY(check_part(node, out, part, axis, iteration, err));
  TERCEL_TRY(stack_characters(control, part, err));
  const int64_t at = entry(node, "scan_output_directions", stack) != 0 ? length - 1 - iteration : iteration;
  const cut c = cut_along(out, axis);
  char *const to = (char *)out->data + (size_t)at * c.inner;
  for (size_t o = 0; o < c.outer && c.inner > 0; ++o)
    memcpy(to + o * (size_t)c.length * c.inner, (const char *)part->data + o * c.inner, c.inner);
  return TERCEL_OK;
}

enum { MAX_SCANNED = 64 };

/* Body: (states..., slices..., captures...) -> (states..., stacked...). */
static tercel_status run_scan(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const uint32_t num_scanned = (uint32_t)tercel_node_int(node, "num_scan_inputs");
  const uint32_t num_states = node->num_inputs - node->num_captures - num_scanned;
  int axes[MAX_SCANNED];
  int64_t length = 0;
  tercel_control *control = NULL;
  tercel_frame *nested = NULL;
  if (num_scanned > MAX_SCANNED)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': %u scanned inputs, at most %d", node->op->name, node->name,
                       num_scanned, MAX_SCANNED);
  TERCEL_TRY(scan_length(bound, num_states, num_scanned, axes, &length, err));
  TERCEL_TRY(get_control(frame, bound, num_states, num_scanned, &control, err));
  TERCEL_TRY(get_frame(frame, bound, control, 0, &nested, err));
  TERCEL_TRY(start_carried(frame, bound, control, 0, err));
  tercel_arena_reset(&control->stacked);
  for (int64_t iteration = 0; iteration < length; ++iteration) {
    TERCEL_TRY(tercel_frame_check_cancel(frame, node, err));
    TERCEL_TRY(give_carried(bound, control, nested, 0, 0, iteration, err));
    for (uint32_t i = 0; i < num_scanned; ++i) {
      const int64_t at = entry(node, "scan_input_directions", i) != 0 ? length - 1 - iteration : iteration;
      tercel_tensor slice = {0};
      TERCEL_TRY(slice_input(frame, bound, control, i, bound->run.in[num_states + i], axes[i], at, &slice, err));
      TERCEL_TRY(give(bound, nested, num_states + i, &slice, NULL, err));
    }
    TERCEL_TRY(give_captures(frame, bound, nested, true, err));
    TERCEL_TRY(run_nested(frame, nested, err));
    TERCEL_TRY(take_carried(frame, bound, control, nested, 0, iteration, err));
    for (uint32_t k = num_states; k < node->num_outputs; ++k)
      TERCEL_TRY(
          place_part(frame, bound, control, k, k - num_states, &nested->outputs[k].tensor, iteration, length, err));
  }
  for (uint32_t k = num_states; length == 0 && k < node->num_outputs; ++k) {
    const tercel_value *const inner = nested->plan->graph->outputs[k];
    int axis = 0;
    TERCEL_TRY(
        tercel_axis(node, entry(node, "scan_output_axes", k - num_states), inner->type.shape.rank + 1, &axis, err));
    TERCEL_TRY(stack_nothing(frame, bound, inner, axis, k, err));
  }
  return finish_carried(frame, bound, control, length > 0, err);
}

tercel_status tercel_control_run(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  switch (bound->run.node->op->id) {
  case TERCEL_OP_IF: return run_if(frame, bound, err);
  case TERCEL_OP_LOOP: return run_loop(frame, bound, err);
  case TERCEL_OP_SCAN: return run_scan(frame, bound, err);
  default: return tercel_sequence_run(frame, bound, err);
  }
}
