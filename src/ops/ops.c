/* The table of operators, and small helpers that their files share.  Inference is driven by infer.c, evaluation by eval.c. */
#include "ops/ops.h"

const tercel_op *const *tercel_ops(void) {
  static const tercel_op *const ops[] = {
#define TERCEL_OP(id, name) [TERCEL_OP_##id] = &tercel_op_##name,
#include "ops/ops.inc"
#undef TERCEL_OP
      [TERCEL_OP_COUNT] = NULL};
  return ops;
}

tercel_status tercel_axis(const tercel_node *node, int64_t axis, int rank, int *out, tercel_error *err) {
  if (axis < -rank || axis >= rank)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': axis %lld, want -%d .. %d for rank %d", node->op->name,
                       node->name, (long long)axis, rank, rank - 1, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return TERCEL_OK;
}

tercel_status tercel_infer_axes(tercel_infer *infer, size_t input, int rank, uint32_t *mask, bool *given, bool *known,
                                tercel_error *err) {
  *mask = 0;
  *known = true;
  const tercel_attr *attr = tercel_node_attr(infer->node, "axes");
  const bool from_input = attr == NULL && input < infer->num_inputs && infer->in[input] != NULL;
  *given = attr != NULL || from_input;
  if (!*given) return TERCEL_OK;
  int64_t count = 0;
  const tercel_dim *contents = NULL;
  if (from_input) {
    contents = tercel_infer_contents(infer, input, &count, err);
    *known = contents != NULL;
    if (!*known) return TERCEL_OK;
  } else {
    count = (int64_t)attr->count;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t number = 0;
    int axis = 0;
    if (!from_input) {
      number = attr->value.ints[i];
    } else if (!tercel_dim_get_number(infer->dims, contents[i], &number)) {
      *known = false;
      return TERCEL_OK;
    }
    TERCEL_TRY(tercel_axis(infer->node, number, rank, &axis, err));
    *mask |= 1u << axis;
  }
  *given = count > 0;
  return TERCEL_OK;
}

tercel_status tercel_infer_broadcast(tercel_infer *infer, const tercel_shape *a, const tercel_shape *b,
                                     tercel_shape *out, tercel_error *err) {
  tercel_shape result = {.rank = -1};
  if (a->rank >= 0 && b->rank >= 0) {
    result.rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < result.rank; ++i) {
      const int ia = i - (result.rank - a->rank), ib = i - (result.rank - b->rank);
      const tercel_dim da = ia < 0 ? 1 : a->dims[ia], db = ib < 0 ? 1 : b->dims[ib];
      if (!tercel_dim_broadcast(infer->dims, da, db, &result.dims[i])) {
        tercel_text text = {0};
        tercel_shape_print(infer->dims, a, &text);
        tercel_text_add(&text, " and ");
        tercel_shape_print(infer->dims, b, &text);
        const tercel_status status = tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': shapes %s do not broadcast",
                                                 infer->node->op->name, infer->node->name, text.data ? text.data : "");
        tercel_text_deinit(&text);
        return status;
      }
    }
  }
  *out = result;
  return TERCEL_OK;
}

tercel_status tercel_eval_ints(const tercel_tensor *tensor, const char *what, int64_t *out, size_t capacity,
                               size_t *count, tercel_error *err) {
  const int64_t elements = tercel_tensor_num_elements(tensor);
  if (tensor->rank > 1 || !tercel_dtype_is_integer(tensor->dtype))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s: %s of rank %d, want integers of rank 1", what,
                       tercel_dtype_name(tensor->dtype), tensor->rank);
  if (elements > (int64_t)capacity)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s: %lld entries, at most %zu make sense", what,
                       (long long)elements, capacity);
  for (int64_t i = 0; i < elements; ++i) out[i] = tercel_tensor_get_i64(tensor, i);
  *count = (size_t)elements;
  return TERCEL_OK;
}
