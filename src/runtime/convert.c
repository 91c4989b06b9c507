/* Tensors of any numeric type as f32. */
#include "ir/blocks.h"
#include "runtime/runtime.h"

static bool is_numeric(tercel_dtype dtype) {
  const tercel_dtype_kind kind = tercel_dtype_get_kind(dtype);
  return kind != TERCEL_KIND_NONE && kind != TERCEL_KIND_COMPLEX && kind != TERCEL_KIND_STRING;
}

tercel_status tercel_view_to_f32(const tercel_view *view, float *out, size_t capacity, tercel_error *err) {
  tercel_tensor tensor;
  if (!is_numeric(view->dtype))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "elements of type %s can't be converted to f32",
                       tercel_dtype_name(view->dtype));
  if (!tercel_tensor_set_shape(&tensor, view->dtype, view->rank, view->dims))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a %s tensor can't have this shape",
                       tercel_dtype_name(view->dtype));
  const int64_t count = tercel_tensor_num_elements(&tensor);
  if (view->bytes < tensor.bytes || (view->data == NULL && tensor.bytes > 0))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%zu bytes for a %s tensor of %lld elements, want %zu",
                       view->bytes, tercel_dtype_name(view->dtype), (long long)count, tensor.bytes);
  if ((uint64_t)count > capacity)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "room for %zu numbers, want %lld", capacity, (long long)count);
  const tercel_block_format block = tercel_dtype_block_format(view->dtype);
  if (block.elements > 0)
    tercel_blocks_decode(view->dtype, view->data, count / block.elements, out);
  else
    for (int64_t i = 0; i < count; ++i) out[i] = (float)tercel_element_get_f64(view->data, view->dtype, i);
  return TERCEL_OK;
}
