/* Helpers of the operators that move data; see move.h. */
#include "ops/move.h"

#include <stdio.h>
#include <string.h>

/* More bytes than any 64-bit machine of today addresses. */
static const size_t max_tensor_bytes = (size_t)1 << 47;

tercel_status tercel_node_fail(const tercel_node *node, tercel_error *err, tercel_status status, const char *format,
                               ...) {
  char message[TERCEL_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return tercel_fail(err, status, "%s '%s': %s", node->op->name, node->name, message);
}

tercel_status tercel_node_choice(const tercel_node *node, const char *name, const char *const *choices, int *out,
                                 tercel_error *err) {
  const char *value = tercel_node_string(node, name);
  for (int i = 0; value != NULL && choices[i] != NULL; ++i) {
    if (strcmp(value, choices[i]) != 0) continue;
    *out = i;
    return TERCEL_OK;
  }
  char list[256] = "";
  size_t length = 0;
  for (int i = 0; choices[i] != NULL && length < sizeof list; ++i)
    length += (size_t)snprintf(list + length, sizeof list - length, " \"%s\"", choices[i]);
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%s is \"%s\", want one of%s", name, value ? value : "",
                          list);
}

const tercel_dim *tercel_infer_flow(tercel_infer *infer, size_t i, int64_t *count, tercel_error *err) {
  const tercel_fact *fact = infer->in[i];
  if (!tercel_dtype_is_integer(fact->type.dtype) && fact->type.dtype != TERCEL_DTYPE_BOOL) return NULL;
  if (fact->type.shape.rank < 0 || fact->type.shape.rank > 1) return NULL;
  if (fact->contents == NULL &&
      (fact->tensor == NULL || tercel_tensor_num_elements(fact->tensor) > TERCEL_MAX_CONTENTS))
    return NULL;
  return tercel_infer_contents(infer, i, count, err);
}

tercel_status tercel_infer_give(tercel_infer *infer, size_t i, int64_t count, tercel_dim **out, tercel_error *err) {
  *out = NULL;
  if (count > TERCEL_MAX_CONTENTS) return TERCEL_OK;
  *out = tercel_arena_alloc_array(infer->arena, (size_t)count, sizeof **out);
  if (*out == NULL) return tercel_fail_memory(err, (size_t)count * sizeof **out, "contents");
  infer->out[i].contents = *out;
  infer->out[i].num_contents = count;
  return TERCEL_OK;
}

tercel_status tercel_infer_view(tercel_infer *infer, const tercel_shape *shape, tercel_error *err) {
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  infer->out[0].type.shape = *shape;
  if (shape->rank < 0 || shape->rank > 1) return TERCEL_OK;
  int64_t count = 0;
  const tercel_dim *contents = tercel_infer_flow(infer, 0, &count, err);
  if (contents == NULL) return TERCEL_OK;
  tercel_dim *out;
  TERCEL_TRY(tercel_infer_give(infer, 0, count, &out, err));
  if (out != NULL) memcpy(out, contents, (size_t)count * sizeof *out);
  return TERCEL_OK;
}

tercel_status tercel_infer_open(tercel_infer *infer, int64_t rank, tercel_shape *out, tercel_error *err) {
  if (rank > TERCEL_MAX_RANK)
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "result of rank %lld; at most %d dims are supported",
                            (long long)rank, TERCEL_MAX_RANK);
  out->rank = (int)rank;
  for (int d = 0; d < out->rank; ++d) out->dims[d] = tercel_dim_unknown(infer->dims);
  return TERCEL_OK;
}

tercel_status tercel_infer_check_size(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_type *type = &infer->out[i].type;
  if (type->dtype == TERCEL_DTYPE_NONE || !tercel_shape_is_known(&type->shape)) return TERCEL_OK;
  int64_t elements = 1;
  bool fits = true, empty = false;
  for (int d = 0; d < type->shape.rank; ++d) {
    empty |= type->shape.dims[d] == 0;
    fits = fits && tercel_mul_i64(elements, type->shape.dims[d], &elements);
  }
  size_t bytes = 0;
  if (empty || (fits && tercel_dtype_size(type->dtype, elements, &bytes) && bytes <= max_tensor_bytes))
    return TERCEL_OK;
  tercel_text text = {0};
  tercel_type_print(infer->dims, type, &text);
  const tercel_status status = tercel_node_fail(infer->node, err, TERCEL_OUT_OF_MEMORY,
                                                "the result %s is too large to address", text.data ? text.data : "");
  tercel_text_deinit(&text);
  return status;
}

tercel_status tercel_infer_check_indices(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_dtype dtype = infer->in[i]->type.dtype;
  if (dtype == TERCEL_DTYPE_I64 || dtype == TERCEL_DTYPE_I32 || dtype == TERCEL_DTYPE_NONE) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want i32 or i64", i,
                          tercel_dtype_name(dtype));
}

tercel_status tercel_infer_check_dtype(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_dtype want = infer->in[0]->type.dtype, dtype = infer->in[i]->type.dtype;
  if (dtype == want || dtype == TERCEL_DTYPE_NONE || want == TERCEL_DTYPE_NONE) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, but input 0 is %s", i,
                          tercel_dtype_name(dtype), tercel_dtype_name(want));
}

tercel_status tercel_infer_check_within(const tercel_infer *infer, size_t i, int axis, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape, *other = &infer->in[i]->type.shape;
  if (other->rank != x->rank)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu has rank %d, but input 0 has %d", i,
                            other->rank, x->rank);
  for (int d = 0; d < x->rank; ++d)
    if (d != axis && tercel_dim_is_known(x->dims[d]) && tercel_dim_is_known(other->dims[d]) &&
        other->dims[d] > x->dims[d])
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                              "input %zu has size %lld along axis %d, input 0 only %lld", i, (long long)other->dims[d],
                              d, (long long)x->dims[d]);
  return TERCEL_OK;
}

const tercel_tensor *tercel_infer_tensor(tercel_infer *infer, size_t i) {
  if (i < 32) infer->contents_used |= 1u << i;
  const tercel_tensor *tensor = infer->in[i]->tensor;
  return tensor != NULL && (tensor->data != NULL || tercel_tensor_num_elements(tensor) == 0) ? tensor : NULL;
}

tercel_status tercel_pick_index(const tercel_node *node, int64_t index, int64_t n, int axis, int64_t *out,
                                tercel_error *err) {
  if (index < -n || index >= n)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "index %lld is out of range: axis %d has size %lld",
                            (long long)index, axis, (long long)n);
  *out = index < 0 ? index + n : index;
  return TERCEL_OK;
}

tercel_status tercel_pick_tuple(const tercel_node *node, const tercel_tensor *indices, int64_t t, const int64_t *x_dims,
                                int first_axis, int64_t *out, tercel_error *err) {
  const int depth = (int)indices->dims[indices->rank - 1];
  int64_t position = 0;
  for (int k = 0; k < depth; ++k) {
    int64_t at = 0;
    TERCEL_TRY(
        tercel_pick_index(node, tercel_tensor_get_i64(indices, t * depth + k), x_dims[k], first_axis + k, &at, err));
    position = position * x_dims[k] + at;
  }
  *out = position;
  return TERCEL_OK;
}

tercel_status tercel_eval_scalar(const tercel_node *node, const tercel_tensor *tensor, const char *what, int64_t *out,
                                 tercel_error *err) {
  if (tercel_tensor_num_elements(tensor) != 1)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "%s has %lld elements, want one", what,
                            (long long)tercel_tensor_num_elements(tensor));
  *out = tercel_tensor_get_i64(tensor, 0);
  return TERCEL_OK;
}

double tercel_no_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)in, (void)out;
  return 0;
}

tercel_status tercel_eval_view(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const tercel_tensor *in = eval->in[0];
  size_t bytes = 0;
  if (tercel_dtype_size(in->dtype, tercel_tensor_num_elements(in), &bytes) && bytes > 0)
    memcpy(eval->out[0]->data, in->data, bytes);
  return TERCEL_OK;
}
