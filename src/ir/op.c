/* Finding an operator by name, and what every operator's inference and evaluation call. */
#include "ir/op.h"

#include <string.h>

#include "ir/graph.h"

const tercel_op *tercel_op_find(const tercel_op *const *ops, const char *name, size_t length) {
  for (; *ops; ops++)
    if (strlen((*ops)->name) == length && memcmp((*ops)->name, name, length) == 0) return *ops;
  return NULL;
}

/* The elements of a small tensor of integers or bools as dims. */
static const tercel_dim *contents_of(tercel_infer *infer, const tercel_tensor *tensor, int64_t *count) {
  const bool fits = tercel_dtype_is_integer(tensor->dtype) || tensor->dtype == TERCEL_DTYPE_BOOL;
  if (!fits || tensor->rank > 1 || !tensor->data) return NULL;
  *count = tercel_tensor_num_elements(tensor);
  if (*count > TERCEL_MAX_CONTENTS) return NULL;
  tercel_dim *const contents = tercel_arena_alloc_array(infer->arena, (size_t)*count, sizeof *contents);
  if (!contents) infer->dims->out_of_memory = true;
  for (int64_t i = 0; contents && i < *count; i++)
    contents[i] = tercel_dim_constant(infer->dims, tercel_tensor_get_i64(tensor, i));
  return contents;
}

/* Nobody needs to look into a list of no elements. */
static bool is_empty_list(const tercel_type *type) {
  return type->kind == TERCEL_TYPE_TENSOR && type->shape.rank == 1 && type->shape.dims[0] == 0;
}

const tercel_dim *tercel_infer_contents(tercel_infer *infer, size_t i, int64_t *count_out, tercel_error *err) {
  (void)err; /* what goes wrong stays in infer->dims until it is checked */
  const tercel_fact *const fact = i < infer->num_inputs ? infer->in[i] : NULL;
  if (!fact) return NULL;
  if (i < 32) infer->contents_used |= 1u << i;
  int64_t count = fact->num_contents;
  const tercel_dim *contents = fact->contents;
  if (!contents && fact->tensor) contents = contents_of(infer, fact->tensor, &count);
  if (!contents && is_empty_list(&fact->type)) {
    static const tercel_dim nothing[1];
    contents = nothing;
    count = 0;
  }
  if (contents && count_out) *count_out = count;
  return contents;
}

tercel_status tercel_eval_output(tercel_eval *eval, size_t i, int rank, const int64_t *dims, tercel_error *err) {
  tercel_tensor *const tensor = eval->out[i];
  if (!tensor) return TERCEL_OK;
  if (!tercel_tensor_set_shape(tensor, tensor->dtype, rank, dims))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "%s '%s': output %zu is too large to address", eval->node->op->name,
                       eval->node->name, i);
  return eval->allocate(eval->user, i, tensor, err);
}

tercel_status tercel_eval_strings(tercel_eval *eval, size_t i, int rank, const int64_t *dims, size_t characters,
                                  char **characters_out, tercel_error *err) {
  *characters_out = NULL;
  tercel_tensor *const tensor = eval->out[i];
  if (!tensor) return TERCEL_OK;
  size_t all = 0;
  if (!tercel_tensor_set_shape(tensor, TERCEL_DTYPE_STRING, rank, dims) ||
      !tercel_add_size(tensor->bytes, characters, &all))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "%s '%s': output %zu is too large to address", eval->node->op->name,
                       eval->node->name, i);
  const size_t elements = tensor->bytes;
  tensor->bytes = all;
  const tercel_status status = eval->allocate(eval->user, i, tensor, err);
  tensor->bytes = elements;
  if (status == TERCEL_OK && tensor->data) *characters_out = (char *)tensor->data + elements;
  return status;
}
