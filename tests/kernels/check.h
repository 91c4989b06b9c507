/* Checks of kernels: each against the operator's reference evaluation, at every instruction-set level the machine has. */
#ifndef TERCEL_TESTS_KERNELS_CHECK_H
#define TERCEL_TESTS_KERNELS_CHECK_H

#include "support/support.h"

#include "backends/backend.h"
#include "base/cpu.h"

/* Calls fn at each level in turn (levels that the machine lacks are named on stderr), and puts the best one back. */
void check_levels(void (*fn)(tercel_cpu_level level, void *arg), void *arg);

/* Of a tensor's bytes, any NaN as one: for comparing results bit by bit. */
uint64_t check_hash(const tercel_tensor *tensor);

/* The distance of got from want in units of want's last place as an f32; 0 for equal infinities and for two NaN, infinity when only one is
 * special or the signs of zeros differ. */
double check_ulp(float got, double want);

/* ---- one node, through a kernel and through its reference ---- */

enum { CHECK_MAX_INPUTS = 24, CHECK_MAX_OUTPUTS = 4 };

typedef enum check_kind {
  CHECK_INPUT,    /* known when it runs */
  CHECK_CONSTANT, /* known when the kernel is prepared */
  CHECK_ABSENT
} check_kind;

/* A node with its operands; outputs of the reference once they were asked for. */
typedef struct check_node {
  tercel_graph *graph;
  tercel_node *node;
  tercel_test_random random;
  tercel_value *values[CHECK_MAX_INPUTS];
  tercel_tensor tensors[CHECK_MAX_INPUTS];
  const tercel_tensor *in[CHECK_MAX_INPUTS]; /* NULL: absent */
  tercel_storage *storages[CHECK_MAX_INPUTS];
  size_t num_inputs;
  bool evaluated;
  tercel_tensor want[CHECK_MAX_OUTPUTS];
  tercel_storage *want_storages[CHECK_MAX_OUTPUTS];
} check_node;

/* stream: of the random numbers that fill the operands.  Destroyed by check_node_destroy. */
check_node *check_node_create(uint64_t stream);
void check_node_destroy(check_node *check);
/* Adds an operand: floats in [-1, 1), integers in [-9, 9], bools.  Returns its tensor, whose data may be changed. */
tercel_tensor *check_node_input(check_node *check, check_kind kind, tercel_dtype dtype, int rank, const int64_t *dims);
/* Makes the node over the operands so far; attributes are then set on check->node. */
void check_node_make(check_node *check, int op, size_t num_outputs);

/* An epilogue of the given form: its extras are added as operands by the caller, before check_node_make. */
typedef enum check_epilogue {
  CHECK_EPILOGUE_NONE,
  CHECK_EPILOGUE_CLAMP,   /* clip to [0, 0.75] */
  CHECK_EPILOGUE_ADD,     /* + extra */
  CHECK_EPILOGUE_PROGRAM, /* tanh(x * extra) + x */
  CHECK_EPILOGUE_COUNT
} check_epilogue;
bool check_epilogue_has_extra(check_epilogue epilogue);
void check_node_set_epilogue(check_node *check, check_epilogue epilogue);

/* Every constant that the kernel packed comes back as it was. */
void check_packed(const tercel_kernel *kernel, const tercel_node *node, const tercel_kernel_state *state);

/* Runs `kernel` (which must support the node) on `num_threads`, twice, in guarded memory.  Returns the largest difference to the
 * reference, divided by the largest magnitude of that output (or 1, if that is less). */
double check_node_difference(check_node *check, const tercel_kernel *kernel, int num_threads);
/* The hash of what `kernel` gives in deterministic mode; fails where that is not the same at every level and with 1, 2 and 3 threads.  0 where the
 * kernel is not offered in that mode. */
uint64_t check_node_bits(check_node *check, const tercel_kernel *kernel);
/* The shortest of some runs, in microseconds; *gflops_out as the operator counts its work. */
double check_node_time_us(check_node *check, const tercel_kernel *kernel, int num_threads, double *gflops_out);

#endif
