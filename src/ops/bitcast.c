/* bitcast: the same bits read as another dtype of the same width. */
#include "ops/move.h"

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_dtype from = infer->in[0]->type.dtype, to = tercel_node_dtype(infer->node, "to");
  infer->out[0].type.dtype = to;
  infer->out[0].type.shape = infer->in[0]->type.shape;
  const bool strings = from == TERCEL_DTYPE_STRING || to == TERCEL_DTYPE_STRING;
  if (from == TERCEL_DTYPE_NONE || (!strings && tercel_dtype_bits(from) == tercel_dtype_bits(to))) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s can't be read as %s", tercel_dtype_name(from),
                          tercel_dtype_name(to));
}

/* A bool is 0 or 1 wherever it came from. */
static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  TERCEL_TRY(tercel_eval_view(eval, err));
  tercel_tensor *y = eval->out[0];
  const int64_t n = tercel_tensor_num_elements(y);
  uint8_t *bytes = y->data;
  for (int64_t i = 0; y->dtype == TERCEL_DTYPE_BOOL && i < n; ++i) bytes[i] = bytes[i] != 0;
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"to", TERCEL_ATTR_DTYPE, true, 0, NULL, "dtype of the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_bitcast = {
    .name = "bitcast",
    .id = TERCEL_OP_BITCAST,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "the same bits read as another dtype",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = tercel_no_flops,
};
