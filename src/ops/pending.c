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
PENDING(IF,                if)
PENDING(LOOP,              loop)
PENDING(SCAN,              scan)
PENDING(SEQUENCE_CONSTRUCT,   sequence_construct)
PENDING(SEQUENCE_AT,          sequence_at)
PENDING(SEQUENCE_INSERT,      sequence_insert)
PENDING(SEQUENCE_ERASE,       sequence_erase)
PENDING(SEQUENCE_LENGTH,      sequence_length)
PENDING(SEQUENCE_SPLIT,       sequence_split)
PENDING(SEQUENCE_CONCAT,      sequence_concat)
PENDING(OPTIONAL_CONSTRUCT,   optional_construct)
PENDING(OPTIONAL_GET,         optional_get)
PENDING(OPTIONAL_HAS,         optional_has)
