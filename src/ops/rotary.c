/* rotary: position embeddings that turn pairs of elements by an angle (Su et al.: RoFormer, 2021). */
#include "ops/attention.h"
#include "ops/narrow.h"

/* ---- inference ----------------------------------------------------------------------------------------------------- */

static tercel_status check_table(const tercel_infer *infer, size_t i, bool by_position, tercel_dim half,
                                 tercel_error *err) {
  const tercel_shape *table = &infer->in[i]->type.shape;
  TERCEL_TRY(tercel_infer_check_dtype(infer, i, err));
  if (table->rank < 0) return TERCEL_OK;
  const int want = by_position ? 2 : 3;
  if (table->rank != want)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu has rank %d, want %d", i, table->rank,
                            want);
  const tercel_dim size = table->dims[want - 1];
  if (!tercel_dim_is_known(size) || !tercel_dim_is_known(half) || size == half) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu has rows of %lld, want %lld", i,
                          (long long)size, (long long)half);
}

/* Elements of a head that are turned; unknown where the head's size is. */
static tercel_status turned_size(const tercel_infer *infer, const tercel_shape *x, tercel_dim *out, tercel_error *err) {
  const int64_t dims = tercel_node_int(infer->node, "dims"),
                heads = x->rank == 3 ? tercel_node_int(infer->node, "heads") : 1;
  if (heads < 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "x has rank 3, which needs its number of heads");
  const tercel_dim row = x->dims[x->rank - 1];
  *out = dims != 0 ? dims : tercel_dim_floor_div(infer->dims, row, heads);
  const bool fits = !tercel_dim_is_known(row) || (row % heads == 0 && dims <= row / heads);
  if (fits && dims >= 0 && (!tercel_dim_is_known(*out) || *out % 2 == 0)) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                          "rows of %lld in %lld heads, of which %lld are turned", (long long)row, (long long)heads,
                          (long long)*out);
}

static tercel_status infer_rotary(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  if (x->dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(x->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "x is %s, want floats",
                            tercel_dtype_name(x->dtype));
  infer->out[0].type.dtype = x->dtype;
  infer->out[0].type.shape = x->shape;
  const bool by_position = tercel_has_input(infer, 3);
  if (by_position) TERCEL_TRY(tercel_infer_check_indices(infer, 3, err));
  if (x->shape.rank < 0) return TERCEL_OK;
  if (x->shape.rank != 3 && x->shape.rank != 4)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "x has rank %d, want 3 or 4", x->shape.rank);
  tercel_dim turned = 0;
  TERCEL_TRY(turned_size(infer, &x->shape, &turned, err));
  const tercel_dim half = tercel_dim_floor_div(infer->dims, turned, 2);
  for (size_t i = 1; i < 3; ++i) TERCEL_TRY(check_table(infer, i, by_position, half, err));
  return TERCEL_OK;
}

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

/* Row r of (N, S): where its cosines and sines begin. */
static tercel_status find_angles(const tercel_eval *eval, int64_t r, int64_t rows, int64_t half, int64_t *out,
                                 tercel_error *err) {
  const tercel_tensor *positions = tercel_input_tensor(eval->in, eval->num_inputs, 3);
  int64_t at = eval->in[1]->dims[0] == 1 ? r % rows : r;
  if (positions != NULL)
    TERCEL_TRY(tercel_pick_index(eval->node, tercel_tensor_get_i64(positions, r), eval->in[1]->dims[0], 0, &at, err));
  *out = at * half;
  return TERCEL_OK;
}

/* One head of one row: n elements from `base`, of which the first 2 * half are turned in pairs (i, i + half), or (2 i, 2 i + 1). */
static void turn(const tercel_eval *eval, int64_t base, int64_t n, int64_t half, int64_t angles, bool interleaved) {
  const tercel_tensor *x = eval->in[0];
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = base + (interleaved ? 2 * i : i), second = interleaved ? first + 1 : first + half;
    const double a = tercel_tensor_get_f64(x, first), b = tercel_tensor_get_f64(x, second);
    const double c = tercel_tensor_get_f64(eval->in[1], angles + i), s = tercel_tensor_get_f64(eval->in[2], angles + i);
    tercel_tensor_set_f64(eval->out[0], first, tercel_round_to(x->dtype, c * a) - tercel_round_to(x->dtype, s * b));
    tercel_tensor_set_f64(eval->out[0], second, tercel_round_to(x->dtype, s * a) + tercel_round_to(x->dtype, c * b));
  }
  for (int64_t i = 2 * half; i < n; ++i) tercel_element_copy(eval->out[0]->data, base + i, x->data, base + i, x->dtype);
}

tercel_status tercel_rotary_check(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                  int64_t batch, int64_t rows, int64_t half, tercel_error *err) {
  const tercel_tensor *positions = tercel_input_tensor(in, num_inputs, 3);
  bool fits = positions == NULL || tercel_tensor_num_elements(positions) == batch * rows;
  for (size_t i = 1; i < 3; ++i) {
    fits = fits && in[i]->dims[in[i]->rank - 1] == half && tercel_tensor_same_shape(in[i], in[1]);
    const bool one_for_all = in[i]->dims[0] == 1 && in[i]->dims[1] == rows;
    fits = fits && (positions != NULL || one_for_all || (in[i]->dims[0] == batch && in[i]->dims[1] == rows));
  }
  return fits ? TERCEL_OK
              : tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "cosines, sines or positions of another shape");
}

static tercel_status eval_rotary(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const bool packed = x->rank == 3, interleaved = tercel_node_int(eval->node, "interleaved") != 0;
  const int64_t heads = packed ? tercel_node_int(eval->node, "heads") : x->dims[1];
  const int64_t rows = packed ? x->dims[1] : x->dims[2], n = packed ? x->dims[2] / heads : x->dims[3];
  const int64_t dims = tercel_node_int(eval->node, "dims"), half = (dims != 0 ? dims : n) / 2;
  TERCEL_TRY(tercel_rotary_check(eval->node, eval->in, eval->num_inputs, x->dims[0], rows, half, err));
  for (int64_t r = 0; r < x->dims[0] * rows; ++r) {
    int64_t angles = 0;
    TERCEL_TRY(find_angles(eval, r, rows, half, &angles, err));
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t row = packed ? r * heads + h : (r / rows * heads + h) * rows + r % rows;
      turn(eval, row * n, n, half, angles, interleaved);
    }
  }
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)out;
  return 3.0 * (double)tercel_tensor_num_elements(in[0]);
}

static const tercel_attr_spec attrs[] = {
    {"heads", TERCEL_ATTR_INT, false, 0, NULL, "of an x of rank 3"},
    {"dims", TERCEL_ATTR_INT, false, 0, NULL, "elements of each head that are turned, the first ones; 0: all"},
    {"interleaved", TERCEL_ATTR_INT, false, 0, NULL, "1: pairs are neighbours; 0: the halves are paired"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_rotary = {
    .name = "rotary",
    .id = TERCEL_OP_ROTARY,
    .min_inputs = 3,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "pairs of elements turned by an angle that grows with the position",
    .attrs = attrs,
    .infer = infer_rotary,
    .eval = eval_rotary,
    .flops = flops,
};
