/* The reference kernel: an operator's plain evaluation (op->eval) behind the door of kernels.  It supports whatever has one, packs
 * nothing, uses one thread, and gives outputs whose shape only the data tells (kernel_run.allocate). */
#include "backends/backend.h"

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  return node->op->eval != NULL;
}

/* Only operators that say so shape their outputs themselves. */
static tercel_status check_shapes(const tercel_kernel_run *run, tercel_error *err) {
  if (run->node->op->flags & TERCEL_OP_DATA_DEPENDENT) return TERCEL_OK;
  for (size_t i = 0; i < run->num_outputs; ++i)
    if (run->out[i] != NULL && run->out[i]->rank < 0)
      return tercel_fail(err, TERCEL_UNSUPPORTED,
                         "%s '%s': the shape of output %zu follows from more than can be looked at",
                         run->node->op->name, run->node->name, i);
  return TERCEL_OK;
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  TERCEL_TRY(check_shapes(run, err));
  tercel_eval eval = {.node = run->node,
                      .num_inputs = run->num_inputs,
                      .num_outputs = run->num_outputs,
                      .in = run->in,
                      .out = run->out,
                      .scratch = run->scratch,
                      .allocate = run->allocate,
                      .user = run->user};
  return run->node->op->eval(&eval, err);
}

const tercel_kernel *tercel_reference_kernel(void) {
  static const tercel_kernel kernel = {.name = "reference", .op = -1, .supports = supports, .run = run};
  return &kernel;
}
