/* Views: reshapes, and slices, splits and gathers of one contiguous stretch.  Shapes are numbers here. */
#include "runtime/view.h"

static int64_t product(const int64_t *dims, int begin, int end) {
  int64_t p = 1;
  for (int i = begin; i < end; ++i) p *= dims[i];
  return p;
}

/* Elements to bytes; false where a packed type would start inside a byte. */
static bool to_bytes(tercel_dtype dtype, int64_t elements, size_t *bytes_out) {
  const int64_t bits = elements * tercel_dtype_bits(dtype);
  *bytes_out = (size_t)(bits / 8);
  return bits % 8 == 0;
}

static bool number_at(const tercel_fact *fact, int64_t i, int64_t *out) {
  if (fact == NULL) return false;
  if (fact->tensor != NULL && tercel_dtype_is_integer(fact->tensor->dtype)) {
    *out = tercel_tensor_get_i64(fact->tensor, i);
    return true;
  }
  if (fact->contents == NULL || i >= fact->num_contents || !tercel_dim_is_known(fact->contents[i])) return false;
  *out = fact->contents[i];
  return true;
}

static const tercel_fact *present(const tercel_node *node, const tercel_fact *const *in, size_t i) {
  return i < node->num_inputs ? in[i] : NULL;
}

static int64_t count_of(const tercel_fact *fact) { return fact->type.shape.rank == 0 ? 1 : fact->type.shape.dims[0]; }

/* (x, starts, ends, [axes], [steps]): contiguous when every axis before the last one that is cut keeps a single index. */
static bool find_slice(const tercel_node *node, const tercel_fact *const *in, const tercel_fact *out, int64_t *at) {
  const tercel_shape *const from = &in[0]->type.shape, *const to = &out[0].type.shape;
  const tercel_fact *const axes = present(node, in, 3), *const steps = present(node, in, 4);
  int last_cut = -1;
  for (int d = 0; d < from->rank; ++d)
    if (from->dims[d] != to->dims[d]) last_cut = d;
  if (last_cut > 0 && product(to->dims, 0, last_cut) != 1) return false;
  *at = 0;
  for (int64_t i = 0; i < count_of(in[1]); ++i) {
    int64_t axis = i, start, step = 1;
    if (axes != NULL && !number_at(axes, i, &axis)) return false;
    if (steps != NULL && !number_at(steps, i, &step)) return false;
    if (!number_at(in[1], i, &start)) return false;
    if (axis < 0) axis += from->rank;
    if (axis < 0 || axis >= from->rank) return false;
    const int64_t size = from->dims[axis];
    if (step != 1 && to->dims[axis] > 1) return false;
    if (start < 0) start += size;
    start = tercel_max_i64(0, tercel_min_i64(start, step < 0 ? size - 1 : size));
    if (from->dims[axis] != to->dims[axis]) *at += start * product(from->dims, (int)axis + 1, from->rank);
  }
  return true;
}

static bool find_split(const tercel_node *node, const tercel_fact *const *in, const tercel_fact *out, size_t output,
                       int64_t *at) {
  const tercel_shape *const from = &in[0]->type.shape;
  int64_t axis = tercel_node_int(node, "axis"), start = 0;
  if (axis < 0) axis += from->rank;
  if (product(from->dims, 0, (int)axis) != 1) return false;
  for (size_t i = 0; i < output; ++i) {
    if (node->outputs[i] == NULL) return false; /* its size is not told */
    start += out[i].type.shape.dims[axis];
  }
  *at = start * product(from->dims, (int)axis + 1, from->rank);
  return true;
}

static bool find_gather(const tercel_node *node, const tercel_fact *const *in, int64_t *at) {
  const tercel_shape *const from = &in[0]->type.shape, *const indices = &in[1]->type.shape;
  int64_t axis = tercel_node_int(node, "axis"), index;
  if (axis < 0) axis += from->rank;
  if (product(indices->dims, 0, indices->rank) != 1 || product(from->dims, 0, (int)axis) != 1) return false;
  if (!number_at(in[1], 0, &index)) return false;
  if (index < 0) index += from->dims[axis];
  if (index < 0 || index >= from->dims[axis]) return false; /* the kernel says what is wrong */
  *at = index * product(from->dims, (int)axis + 1, from->rank);
  return true;
}

bool tercel_view_find(const tercel_node *node, const tercel_fact *const *in, const tercel_fact *out, size_t output,
                      size_t *offset_out) {
  int64_t at = 0;
  *offset_out = 0;
  if (node->op->flags & TERCEL_OP_VIEW) return output == 0;
  switch (node->op->id) {
  case TERCEL_OP_SLICE:
    if (!find_slice(node, in, out, &at)) return false;
    break;
  case TERCEL_OP_SPLIT:
    if (!find_split(node, in, out, output, &at)) return false;
    break;
  case TERCEL_OP_GATHER:
    if (!find_gather(node, in, &at)) return false;
    break;
  default: return false;
  }
  const tercel_shape *const to = &out[output].type.shape;
  if (product(to->dims, 0, to->rank) == 0) return true;
  return to_bytes(in[0]->type.dtype, at, offset_out);
}

bool tercel_view_is_joined(const tercel_node *node, const tercel_fact *out) {
  if (node->op->id != TERCEL_OP_CONCAT) return false;
  const tercel_shape *const to = &out[0].type.shape;
  int64_t axis = tercel_node_int(node, "axis");
  if (axis < 0) axis += to->rank;
  return axis >= 0 && axis < to->rank && product(to->dims, 0, (int)axis) == 1;
}
