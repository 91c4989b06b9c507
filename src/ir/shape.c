/* Shapes: a rank and its dims. */
#include "ir/dim.h"

bool tercel_shape_is_known(const tercel_shape *shape) {
  for (int i = 0; i < shape->rank; i++)
    if (!tercel_dim_is_known(shape->dims[i])) return false;
  return shape->rank >= 0;
}

bool tercel_shape_equal(const tercel_shape *a, const tercel_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

tercel_dim tercel_shape_num_elements(tercel_dims *dims, const tercel_shape *shape) {
  tercel_dim count = 1;
  for (int i = 0; i < shape->rank; i++) count = tercel_dim_mul(dims, count, shape->dims[i]);
  return count;
}
