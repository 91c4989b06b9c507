/* tensor_scatter: new rows written into a cache, at a place of its own for each batch entry. */
#include "ops/move.h"

static tercel_status check_shapes(const tercel_infer *infer, int axis, tercel_error *err) {
  const tercel_shape *cache = &infer->in[0]->type.shape, *rows = &infer->in[1]->type.shape;
  if (rows->rank >= 0 && rows->rank != cache->rank)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "a cache of rank %d and rows of rank %d",
                            cache->rank, rows->rank);
  for (int d = 0; d < rows->rank; ++d) {
    const tercel_dim c = cache->dims[d], r = rows->dims[d];
    if (!tercel_dim_is_known(c) || !tercel_dim_is_known(r) || (d == axis ? r <= c : r == c)) continue;
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "dim %d of the rows is %lld, of the cache %lld", d,
                            (long long)r, (long long)c);
  }
  return TERCEL_OK;
}

static tercel_status infer_tensor_scatter(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *cache = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  infer->out[0].type.shape = *cache;
  TERCEL_TRY(tercel_infer_check_dtype(infer, 1, err));
  if (tercel_has_input(infer, 2)) {
    const tercel_shape *at = &infer->in[2]->type.shape;
    TERCEL_TRY(tercel_infer_check_indices(infer, 2, err));
    const bool fits =
        at->rank < 0 || (at->rank == 1 && (cache->rank < 1 || !tercel_dim_is_known(cache->dims[0]) ||
                                           !tercel_dim_is_known(at->dims[0]) || at->dims[0] == cache->dims[0]));
    if (!fits) return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "want one place for each of the batch");
  }
  if (cache->rank < 0) return TERCEL_OK;
  int axis;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), cache->rank, &axis, err));
  if (axis == 0) return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "axis 0 is the batch");
  return check_shapes(infer, axis, err);
}

/* Row s of those written from `first` on. */
static tercel_status place_of(const tercel_node *node, int64_t first, int64_t s, int64_t size, int64_t *out,
                              tercel_error *err) {
  const bool circular = tercel_node_int(node, "circular") != 0;
  if (circular && size > 0) {
    const int64_t start = first % size;
    *out = ((start < 0 ? start + size : start) + s) % size;
    return TERCEL_OK;
  }
  if (first >= 0 && first <= size && s < size - first) {
    *out = first + s;
    return TERCEL_OK;
  }
  return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "row %lld from %lld on is outside a cache of %lld rows",
                          (long long)s, (long long)first, (long long)size);
}

static tercel_status eval_tensor_scatter(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *rows = eval->in[1], *at = tercel_input_tensor(eval->in, eval->num_inputs, 2);
  tercel_tensor *y = eval->out[0];
  int axis;
  TERCEL_TRY(tercel_eval_view(eval, err));
  TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), y->rank, &axis, err));
  const int64_t outer = tercel_dims_product(y->dims, 0, axis), inner = tercel_dims_product(y->dims, axis + 1, y->rank);
  const int64_t per_entry = tercel_dims_product(y->dims, 1, axis), size = y->dims[axis], count = rows->dims[axis];
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t first = at != NULL ? tercel_tensor_get_i64(at, o / per_entry) : 0;
    for (int64_t s = 0; s < count; ++s) {
      int64_t to = 0;
      TERCEL_TRY(place_of(eval->node, first, s, size, &to, err));
      for (int64_t i = 0; i < inner; ++i)
        tercel_element_copy(y->data, (o * size + to) * inner + i, rows->data, (o * count + s) * inner + i, y->dtype);
    }
  }
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, -2, NULL, "of the rows; not the batch"},
    {"circular", TERCEL_ATTR_INT, false, 0, NULL, "1: behind the last row comes the first; 0: that is an error"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_tensor_scatter = {
    .name = "tensor_scatter",
    .id = TERCEL_OP_TENSOR_SCATTER,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "a cache with new rows written into it",
    .attrs = attrs,
    .infer = infer_tensor_scatter,
    .eval = eval_tensor_scatter,
    .flops = tercel_no_flops,
};
