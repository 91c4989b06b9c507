/* Scaffolding while the operators are being written: rows that have no file yet.  Whoever writes an operator deletes its line here;
 * the last one deletes this file. */
#include "ops/ops.h"

#define PENDING(upper, lower) \
  const tercel_op tercel_op_##lower = {.name = #lower, .id = TERCEL_OP_##upper, .max_inputs = -1, .max_outputs = 64};
PENDING(REDUCE,            reduce)
PENDING(ARG_REDUCE,        arg_reduce)
PENDING(CUMSUM,            cumsum)
PENDING(SOFTMAX,           softmax)
PENDING(BATCH_NORM,        batch_norm)
PENDING(LAYER_NORM,        layer_norm)
PENDING(RMS_NORM,          rms_norm)
PENDING(GROUP_NORM,        group_norm)
PENDING(LRN,               lrn)
