/* The kernel of operators that users register: their own run, with the state that their create made, behind the door of kernels. */
#include "ops/custom.h"

#include "backends/backend.h"

typedef struct custom_state {
  const tercel_custom *custom;
  void *state;
} custom_state;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  (void)node;
  return true;
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  (void)target;
  custom_state *const state = tercel_zalloc(sizeof *state);
  if (state == NULL) return tercel_fail_memory(err, sizeof *state, "an operator's state");
  state->custom = tercel_custom_of(node);
  const tercel_status status = tercel_custom_create_state(node, &state->state, err);
  if (status != TERCEL_OK) {
    tercel_free(state);
    return status;
  }
  out->data = state;
  return TERCEL_OK;
}

static void release(void *data) {
  custom_state *const state = data;
  tercel_custom_destroy_state(state->custom, state->state);
  tercel_free(state);
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  const custom_state *const state = run->state;
  tercel_eval eval = {.node = run->node,
                      .num_inputs = run->num_inputs,
                      .num_outputs = run->num_outputs,
                      .in = run->in,
                      .out = run->out,
                      .scratch = run->scratch,
                      .allocate = run->allocate,
                      .user = run->user};
  return tercel_custom_run(&eval, state->state, run->pool, err);
}

const tercel_kernel tercel_kernel_custom = {
    .name = "custom", .op = TERCEL_OP_CUSTOM, .supports = supports, .prepare = prepare, .release = release, .run = run};
