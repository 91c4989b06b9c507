/* Shapes as rules see them. */
#include "optimize/shapes.h"

bool tercel_reshape_target(const tercel_shape *from, const tercel_shape *to, int64_t target[TERCEL_MAX_RANK]) {
  bool has_rest = false;
  if (from->rank < 0 || to->rank < 0) return false;
  for (int i = 0; i < to->rank; i++) {
    if (to->dims[i] > 0) {
      target[i] = to->dims[i];
    } else if (i < from->rank && from->dims[i] == to->dims[i]) {
      target[i] = 0;
    } else {
      if (has_rest || to->dims[i] == 0) return false;
      has_rest = true;
      target[i] = -1;
    }
  }
  return true;
}

tercel_status tercel_add_reshape(tercel_value *x, const int64_t *target, int rank, const tercel_node *like,
                                 tercel_node *before, tercel_node **out, tercel_error *err) {
  tercel_value *inputs[2] = {x};
  TERCEL_TRY(tercel_graph_add_i64s(x->graph, "shape", target, (size_t)rank, false, &inputs[1], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_RESHAPE, like, inputs, 2, before, out, err));
  return tercel_infer_node(*out, err);
}

bool tercel_broadcasts_to(const tercel_shape *operand, const tercel_shape *result) {
  if (operand->rank < 0 || result->rank < 0 || operand->rank > result->rank) return false;
  for (int i = 0; i < operand->rank; i++)
    if (operand->dims[i] != 1 && operand->dims[i] != result->dims[result->rank - operand->rank + i]) return false;
  return true;
}

int tercel_only_dim(const tercel_tensor *constant, int rank) {
  int found = -1;
  for (int i = 0; i < constant->rank; i++) {
    if (constant->dims[i] == 1) continue;
    if (found != -1) return -2;
    found = rank - constant->rank + i;
  }
  return found;
}
