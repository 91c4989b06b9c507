/* What reference kernels of matmul and conv share: operands widened to double or i64, and the epilogue applied to each
 * element before it is stored.  Inference of epilogues: tercel_infer_epilogue in ops.h. */
#ifndef TERCEL_OPS_EPILOGUE_H
#define TERCEL_OPS_EPILOGUE_H

#include "ops/ops.h"

/* A tensor's elements as double (floats) or i64 (integers; u64 keeps its bits), in the call's scratch memory. */
tercel_status tercel_eval_widen_f64(tercel_eval *eval, const tercel_tensor *tensor, const double **out,
                                    tercel_error *err);
tercel_status tercel_eval_widen_i64(tercel_eval *eval, const tercel_tensor *tensor, const int64_t **out,
                                    tercel_error *err);

typedef struct tercel_eval_epilogue {
  const tercel_program *program; /* NULL: none */
  tercel_tensor *out;
  tercel_dtype inputs[TERCEL_PROGRAM_MAX_INPUTS]; /* 0: the operator's own result */
  const tercel_tensor *extras[TERCEL_PROGRAM_MAX_INPUTS];
  int64_t strides[TERCEL_PROGRAM_MAX_INPUTS][TERCEL_MAX_RANK];
  tercel_immediate regs[TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS];
} tercel_eval_epilogue;

/* For output 0, shaped already; extras begin at input `first_extra`; dtype: of the operator's own result. */
tercel_status tercel_eval_epilogue_start(tercel_eval *eval, size_t first_extra, tercel_dtype dtype,
                                         tercel_eval_epilogue *out, tercel_error *err);
/* Element `index` of the output: the result is rounded to the operator's dtype, goes through the program and is stored. */
void tercel_eval_epilogue_store_f64(tercel_eval_epilogue *epilogue, int64_t index, double result);
void tercel_eval_epilogue_store_i64(tercel_eval_epilogue *epilogue, int64_t index, int64_t result);

#endif
