/* Runs the operators over sequences, optionals and maps (ops/sequence.c and ops/map.c say what they mean). */
#include <string.h>

#include "runtime/frame.h"

static tercel_status fail_empty(const tercel_node *node, tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': the optional is empty", node->op->name, node->name);
}

/* The list that an input is, not taken. */
static const tercel_list *list_at(const tercel_frame *frame, const tercel_bound *bound, size_t i) {
  const tercel_value *const value = tercel_node_input(bound->run.node, i);
  return value != NULL ? frame->lists[value->id] : NULL;
}

/* A position in [-count, most]; without the input: `absent`. */
static tercel_status read_position(const tercel_bound *bound, size_t input, size_t count, size_t most, size_t absent,
                                   size_t *out, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const tercel_tensor *const tensor = input < bound->run.num_inputs ? bound->run.in[input] : NULL;
  *out = absent;
  if (tensor == NULL && most != SIZE_MAX) return TERCEL_OK;
  if (tensor != NULL && (!tercel_dtype_is_integer(tensor->dtype) || tercel_tensor_num_elements(tensor) != 1))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': its position must be one integer", node->op->name,
                       node->name);
  const int64_t position = tensor != NULL ? tercel_tensor_get_i64(tensor, 0) : -1;
  const int64_t from_start = position < 0 && position >= -(int64_t)count ? position + (int64_t)count : position;
  if (from_start < 0 || from_start > (int64_t)most || most == SIZE_MAX)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': position %lld in a sequence of %zu", node->op->name,
                       node->name, (long long)position, count);
  *out = (size_t)from_start;
  return TERCEL_OK;
}

/* An item of input 0 becomes tensor output i: copied where inference gave the output memory, else shared while the list is held. */
static tercel_status put_item(tercel_frame *frame, const tercel_bound *bound, size_t i, const tercel_tensor *item,
                              tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  tercel_tensor *const out = bound->run.out[i];
  if (out == NULL) return TERCEL_OK;
  if (out->data != NULL) {
    if (!tercel_tensor_same_shape(out, item) || out->dtype != item->dtype)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': the element is %s, but the graph says %s", node->op->name,
                         node->name, tercel_describe(item->dtype, item->rank, item->dims).text,
                         tercel_describe(out->dtype, out->rank, out->dims).text);
    if (item->bytes > 0) memcpy(out->data, item->data, item->bytes);
    return TERCEL_OK;
  }
  *out = *item;
  tercel_frame_set_list(frame, node->outputs[i], tercel_list_retain(frame->lists[node->inputs[0]->id]));
  return TERCEL_OK;
}

static tercel_status add_copy(tercel_frame *frame, tercel_list *list, size_t at, const tercel_tensor *tensor,
                              tercel_error *err) {
  tercel_item *item = NULL;
  TERCEL_TRY(tercel_item_create(&frame->runner->account, tensor, false, &item, err));
  return tercel_list_insert(list, at, item, err);
}

/* Gives the list to output 0, or drops it when something failed. */
static tercel_status finish_list(tercel_frame *frame, const tercel_bound *bound, tercel_list *list,
                                 tercel_status status) {
  const tercel_value *const value = bound->run.node->outputs[0];
  if (status == TERCEL_OK && value != NULL)
    tercel_frame_set_list(frame, value, list);
  else
    tercel_list_release(list);
  return status;
}

static tercel_dtype output_dtype(const tercel_bound *bound) {
  const tercel_value *const value = bound->run.node->outputs[0];
  return value != NULL ? value->type.dtype : TERCEL_DTYPE_NONE;
}

/* ---- sequences ----------------------------------------------------------------------------------------------------- */

static tercel_status construct(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  tercel_list *list = NULL;
  TERCEL_TRY(tercel_list_create(TERCEL_TYPE_SEQUENCE, output_dtype(bound), bound->run.num_inputs, &list, err));
  tercel_status status = TERCEL_OK;
  for (size_t i = 0; status == TERCEL_OK && i < bound->run.num_inputs; ++i)
    status = add_copy(frame, list, i, bound->run.in[i], err);
  return finish_list(frame, bound, list, status);
}

static tercel_status at(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_list *const list = list_at(frame, bound, 0);
  size_t position = 0;
  TERCEL_TRY(read_position(bound, 1, list->count, list->count - 1, 0, &position, err));
  return put_item(frame, bound, 0, &list->items[position]->tensor, err);
}

static tercel_status insert(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  size_t position = 0;
  const size_t count = list_at(frame, bound, 0)->count;
  TERCEL_TRY(read_position(bound, 2, count, count, count, &position, err));
  tercel_list *list = tercel_frame_take_list(frame, bound, 0);
  tercel_status status = tercel_list_own(&list, err);
  if (status == TERCEL_OK) status = add_copy(frame, list, position, bound->run.in[1], err);
  return finish_list(frame, bound, list, status);
}

static tercel_status erase(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  size_t position = 0;
  const size_t count = list_at(frame, bound, 0)->count;
  TERCEL_TRY(read_position(bound, 1, count, count - 1, count - 1, &position, err));
  tercel_list *list = tercel_frame_take_list(frame, bound, 0);
  const tercel_status status = tercel_list_own(&list, err);
  if (status == TERCEL_OK) tercel_list_erase(list, position);
  return finish_list(frame, bound, list, status);
}

static tercel_status length(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  (void)err;
  if (bound->run.out[0] != NULL) tercel_tensor_set_i64(bound->run.out[0], 0, (int64_t)list_at(frame, bound, 0)->count);
  return TERCEL_OK;
}

/* ---- split and concat ---------------------------------------------------------------------------------------------- */

/* Rows of `outer`, each of so many bytes for one index of the axis. */
static void axis_bytes(const tercel_tensor *tensor, int axis, size_t *outer, size_t *inner) {
  *outer = 1;
  *inner = (size_t)tercel_dtype_bits(tensor->dtype) / 8;
  for (int d = 0; d < axis; ++d) *outer *= (size_t)tensor->dims[d];
  for (int d = axis + 1; d < tensor->rank; ++d) *inner *= (size_t)tensor->dims[d];
}

static tercel_status whole_bytes(const tercel_node *node, tercel_dtype dtype, tercel_error *err) {
  if (tercel_dtype_bits(dtype) % 8 == 0) return TERCEL_OK;
  return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': elements of %s are no whole bytes", node->op->name, node->name,
                     tercel_dtype_name(dtype));
}

/* Indices [begin, begin + size) of the axis as an item. */
static tercel_status add_part(tercel_frame *frame, tercel_list *list, const tercel_tensor *whole, int axis,
                              int64_t begin, int64_t size, bool keep_axis, tercel_error *err) {
  int64_t dims[TERCEL_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < whole->rank; ++d)
    if (d != axis || keep_axis) dims[rank++] = d == axis ? size : whole->dims[d];
  tercel_tensor part = {0};
  tercel_tensor_set_shape(&part, whole->dtype, rank, dims); /* no larger than the whole */
  size_t outer, inner;
  axis_bytes(whole, axis, &outer, &inner);
  const char *const from = (const char *)whole->data + (size_t)begin * inner;
  const size_t bytes = (size_t)size * inner, stride = (size_t)whole->dims[axis] * inner;
  if (outer == 1) {
    memcpy(&part.data, &from, sizeof from); /* read only */
    return add_copy(frame, list, list->count, &part, err);
  }
  tercel_arena *const scratch = &frame->runner->scratch;
  part.data = tercel_arena_alloc(scratch, part.bytes);
  if (part.data == NULL) return tercel_fail_memory(err, part.bytes, "a part");
  for (size_t o = 0; o < outer && bytes > 0; ++o) memcpy((char *)part.data + o * bytes, from + o * stride, bytes);
  const tercel_status status = add_copy(frame, list, list->count, &part, err);
  tercel_arena_reset(scratch);
  return status;
}

/* Sizes of the parts: given one by one, or all the same but the last. */
static tercel_status part_size(const tercel_node *node, const tercel_tensor *split, size_t i, int64_t left,
                               int64_t *out, tercel_error *err) {
  int64_t size = 1;
  if (split != NULL && split->rank == 0) size = tercel_min_i64(tercel_tensor_get_i64(split, 0), left);
  if (split != NULL && split->rank == 1)
    size = (int64_t)i < split->dims[0] ? tercel_tensor_get_i64(split, (int64_t)i) : -1;
  if (size < 0 || size > left || (size == 0 && (split == NULL || split->rank == 0)))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': part %zu has size %lld of %lld that are left",
                       node->op->name, node->name, i, (long long)size, (long long)left);
  *out = size;
  return TERCEL_OK;
}

static tercel_status fill_parts(tercel_frame *frame, const tercel_bound *bound, tercel_list *list, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const tercel_tensor *const whole = bound->run.in[0];
  const tercel_tensor *const split = bound->run.num_inputs > 1 ? bound->run.in[1] : NULL;
  int axis = 0;
  TERCEL_TRY(whole_bytes(node, whole->dtype, err));
  TERCEL_TRY(tercel_axis(node, tercel_node_int(node, "axis"), whole->rank, &axis, err));
  if (split != NULL && (!tercel_dtype_is_integer(split->dtype) || split->rank > 1))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': its split must be integers of rank 0 or 1", node->op->name,
                       node->name);
  const bool keep_axis = split != NULL || tercel_node_int(node, "keepdims") != 0;
  const int64_t total = whole->dims[axis];
  const bool listed = split != NULL && split->rank == 1;
  int64_t begin = 0;
  for (size_t i = 0; listed ? (int64_t)i < split->dims[0] : begin < total; ++i) {
    int64_t size = 0;
    TERCEL_TRY(tercel_frame_check_cancel(frame, node, err));
    TERCEL_TRY(part_size(node, split, i, total - begin, &size, err));
    TERCEL_TRY(add_part(frame, list, whole, axis, begin, size, keep_axis, err));
    begin += size;
  }
  if (begin != total)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': its split makes %lld of %lld", node->op->name,
                       node->name, (long long)begin, (long long)total);
  return TERCEL_OK;
}

static tercel_status split(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  tercel_list *list = NULL;
  TERCEL_TRY(tercel_list_create(TERCEL_TYPE_SEQUENCE, output_dtype(bound), 0, &list, err));
  return finish_list(frame, bound, list, fill_parts(frame, bound, list, err));
}

static tercel_status concat_shape(const tercel_node *node, const tercel_list *list, bool new_axis, int *axis,
                                  tercel_tensor *out, tercel_error *err) {
  if (list->count == 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': an empty sequence", node->op->name, node->name);
  const tercel_tensor *const first = &list->items[0]->tensor;
  const int rank = first->rank + new_axis;
  int64_t dims[TERCEL_MAX_RANK] = {0}, total = 0;
  TERCEL_TRY(whole_bytes(node, first->dtype, err));
  if (rank > TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': rank %d, at most %d", node->op->name, node->name, rank,
                       TERCEL_MAX_RANK);
  TERCEL_TRY(tercel_axis(node, tercel_node_int(node, "axis"), rank, axis, err));
  for (size_t i = 0; i < list->count; ++i) {
    const tercel_tensor *const item = &list->items[i]->tensor;
    bool same = item->rank == first->rank && item->dtype == first->dtype;
    for (int d = 0; same && d < item->rank; ++d) same = (d == *axis && !new_axis) || item->dims[d] == first->dims[d];
    if (!same || !tercel_add_i64(total, new_axis ? 1 : item->dims[*axis], &total))
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': element %zu is %s, but element 0 is %s",
                         node->op->name, node->name, i, tercel_describe(item->dtype, item->rank, item->dims).text,
                         tercel_describe(first->dtype, first->rank, first->dims).text);
  }
  for (int d = 0, e = 0; d < rank; ++d) {
    if (d == *axis && new_axis)
      dims[d] = total;
    else
      dims[d] = d == *axis ? (++e, total) : first->dims[e++];
  }
  if (!tercel_tensor_set_shape(out, first->dtype, rank, dims))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "%s '%s': %s is too large to address", node->op->name, node->name,
                       tercel_describe(first->dtype, rank, dims).text);
  return TERCEL_OK;
}

static tercel_status concat(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const tercel_list *const list = list_at(frame, bound, 0);
  const bool new_axis = tercel_node_int(node, "new_axis") != 0;
  tercel_tensor *const out = bound->run.out[0];
  int axis = 0;
  if (out == NULL) return TERCEL_OK;
  TERCEL_TRY(concat_shape(node, list, new_axis, &axis, out, err));
  TERCEL_TRY(tercel_frame_output_memory(frame, node, 0, out, 0, err));
  size_t outer, inner, begin = 0;
  axis_bytes(out, axis, &outer, &inner);
  const size_t stride = (size_t)out->dims[axis] * inner;
  for (size_t i = 0; i < list->count; ++i) {
    const tercel_tensor *const item = &list->items[i]->tensor;
    const size_t bytes = (new_axis ? 1 : (size_t)item->dims[axis]) * inner;
    for (size_t o = 0; o < outer && bytes > 0; ++o)
      memcpy((char *)out->data + o * stride + begin, (const char *)item->data + o * bytes, bytes);
    begin += bytes;
  }
  return TERCEL_OK;
}

/* ---- optionals ----------------------------------------------------------------------------------------------------- */

static tercel_status construct_optional(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  tercel_list *list = NULL;
  TERCEL_TRY(tercel_list_create(TERCEL_TYPE_OPTIONAL, output_dtype(bound), 0, &list, err));
  const tercel_value *const value = tercel_node_input(bound->run.node, 0);
  tercel_status status = TERCEL_OK;
  if (value != NULL && value->type.kind == TERCEL_TYPE_TENSOR)
    status = add_copy(frame, list, 0, bound->run.in[0], err);
  else if (value != NULL)
    list->inner = tercel_list_retain(frame->lists[value->id]);
  return finish_list(frame, bound, list, status);
}

static tercel_status get(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_node *const node = bound->run.node;
  const tercel_value *const to = node->outputs[0];
  if (to == NULL) return TERCEL_OK;
  if (bound->run.in[0] != NULL) { /* a tensor: as it is, in memory that lives on */
    tercel_tensor *const out = bound->run.out[0];
    if (out->data == NULL) {
      *out = *bound->run.in[0];
      TERCEL_TRY(tercel_frame_output_memory(frame, node, 0, out, 0, err));
    }
    if (out->bytes > 0) memcpy(out->data, bound->run.in[0]->data, out->bytes);
    return TERCEL_OK;
  }
  const tercel_list *const list = list_at(frame, bound, 0);
  if (to->type.kind == TERCEL_TYPE_TENSOR)
    return list->count > 0 ? put_item(frame, bound, 0, &list->items[0]->tensor, err) : fail_empty(node, err);
  tercel_list *const held = list->kind == TERCEL_TYPE_SEQUENCE ? frame->lists[node->inputs[0]->id] : list->inner;
  if (held == NULL) return fail_empty(node, err);
  tercel_frame_set_list(frame, to, tercel_list_retain(held));
  return TERCEL_OK;
}

static tercel_status has(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  (void)err;
  const tercel_value *const value = tercel_node_input(bound->run.node, 0);
  bool there = value != NULL;
  if (value != NULL && value->type.kind == TERCEL_TYPE_OPTIONAL) {
    const tercel_list *const list = frame->lists[value->id];
    there = list->kind == TERCEL_TYPE_SEQUENCE || list->count > 0 || list->inner != NULL;
  }
  if (bound->run.out[0] != NULL) tercel_tensor_set_i64(bound->run.out[0], 0, there);
  return TERCEL_OK;
}

/* ---- maps ---------------------------------------------------------------------------------------------------------- */

enum { KEYS, VALUES }; /* a map is a list of both */

static tercel_status construct_map(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_tensor *const keys = bound->run.in[KEYS], *const values = bound->run.in[VALUES];
  const tercel_node *const node = bound->run.node;
  if (values->rank < 1 || values->rank > 2 || keys->rank != 1 || keys->dims[0] != values->dims[values->rank - 1])
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': keys %s for values %s", node->op->name, node->name,
                       tercel_describe(keys->dtype, keys->rank, keys->dims).text,
                       tercel_describe(values->dtype, values->rank, values->dims).text);
  tercel_list *list = NULL;
  TERCEL_TRY(tercel_list_create(TERCEL_TYPE_MAP, output_dtype(bound), 2, &list, err));
  tercel_status status = add_copy(frame, list, KEYS, keys, err);
  if (status == TERCEL_OK) status = add_copy(frame, list, VALUES, values, err);
  return finish_list(frame, bound, list, status);
}

static tercel_status map_parts(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const tercel_list *const list = list_at(frame, bound, 0);
  for (size_t i = 0; i < bound->run.node->num_outputs; ++i)
    TERCEL_TRY(put_item(frame, bound, i, &list->items[i]->tensor, err));
  return TERCEL_OK;
}

/* ---- the step ------------------------------------------------------------------------------------------------------ */

typedef tercel_status (*run_fn)(tercel_frame *frame, const tercel_bound *bound, tercel_error *err);

static const run_fn runs[TERCEL_OP_COUNT] = {[TERCEL_OP_SEQUENCE_CONSTRUCT] = construct,
                                             [TERCEL_OP_SEQUENCE_AT] = at,
                                             [TERCEL_OP_SEQUENCE_INSERT] = insert,
                                             [TERCEL_OP_SEQUENCE_ERASE] = erase,
                                             [TERCEL_OP_SEQUENCE_LENGTH] = length,
                                             [TERCEL_OP_SEQUENCE_SPLIT] = split,
                                             [TERCEL_OP_SEQUENCE_CONCAT] = concat,
                                             [TERCEL_OP_OPTIONAL_CONSTRUCT] = construct_optional,
                                             [TERCEL_OP_OPTIONAL_GET] = get,
                                             [TERCEL_OP_OPTIONAL_HAS] = has,
                                             [TERCEL_OP_MAP_CONSTRUCT] = construct_map,
                                             [TERCEL_OP_MAP_PARTS] = map_parts};

tercel_status tercel_sequence_run(tercel_frame *frame, const tercel_bound *bound, tercel_error *err) {
  const run_fn run = runs[bound->run.node->op->id];
  if (run == NULL) return tercel_fail(err, TERCEL_INTERNAL, "no way to run it");
  return run(frame, bound, err);
}
