/* shape and size: what is known of a tensor, as numbers.  Only the input's shape is looked at, never its data. */
#include "ops/move.h"

/* ---- shape --------------------------------------------------------------------------------------------------------- */

/* Dims [begin, end) of an input of this rank. */
static void get_range(const tercel_node *node, int rank, int *begin, int *end) {
  int64_t range[2] = {tercel_node_int(node, "start"), rank};
  if (tercel_node_attr(node, "end") != NULL) range[1] = tercel_node_int(node, "end");
  for (int i = 0; i < 2; ++i) {
    if (range[i] < 0) range[i] += rank;
    range[i] = tercel_max_i64(0, tercel_min_i64(range[i], rank));
  }
  *begin = (int)range[0];
  *end = (int)tercel_max_i64(range[0], range[1]);
}

static tercel_status infer_shape(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  tercel_type *out = &infer->out[0].type;
  out->dtype = TERCEL_DTYPE_I64;
  if (x->rank < 0) return tercel_infer_open(infer, 1, &out->shape, err);
  int begin, end;
  get_range(infer->node, x->rank, &begin, &end);
  out->shape = (tercel_shape){.rank = 1, .dims = {end - begin}};
  tercel_dim *contents;
  TERCEL_TRY(tercel_infer_give(infer, 0, end - begin, &contents, err));
  for (int d = begin; contents != NULL && d < end; ++d) contents[d - begin] = x->dims[d];
  return TERCEL_OK;
}

static tercel_status eval_shape(tercel_eval *eval, tercel_error *err) {
  (void)err;
  int begin, end;
  get_range(eval->node, eval->in[0]->rank, &begin, &end);
  for (int d = begin; d < end; ++d) tercel_tensor_set_i64(eval->out[0], d - begin, eval->in[0]->dims[d]);
  return TERCEL_OK;
}

static const tercel_attr_spec shape_attrs[] = {
    {"start", TERCEL_ATTR_INT, false, 0, NULL, "first dim; negative from the end"},
    {"end", TERCEL_ATTR_INT, false, 0, NULL, "dim after the last; negative from the end; none: all"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_shape = {
    .name = "shape",
    .id = TERCEL_OP_SHAPE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "the dims of x",
    .attrs = shape_attrs,
    .infer = infer_shape,
    .eval = eval_shape,
    .flops = tercel_no_flops,
};

/* ---- size ---------------------------------------------------------------------------------------------------------- */

static tercel_status infer_size(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = TERCEL_DTYPE_I64;
  infer->out[0].type.shape.rank = 0;
  if (x->rank < 0) return TERCEL_OK;
  tercel_dim *contents;
  TERCEL_TRY(tercel_infer_give(infer, 0, 1, &contents, err));
  contents[0] = tercel_shape_num_elements(infer->dims, x);
  return TERCEL_OK;
}

static tercel_status eval_size(tercel_eval *eval, tercel_error *err) {
  (void)err;
  tercel_tensor_set_i64(eval->out[0], 0, tercel_tensor_num_elements(eval->in[0]));
  return TERCEL_OK;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_size = {
    .name = "size",
    .id = TERCEL_OP_SIZE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "the number of elements of x",
    .attrs = no_attrs,
    .infer = infer_size,
    .eval = eval_size,
    .flops = tercel_no_flops,
};
