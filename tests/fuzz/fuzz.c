/* Bounded memory, and models built and run.  Inputs are small; a run that takes long is cancelled, as a user would. */
#include "fuzz/fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "runtime/runtime.h"

enum { MAX_INPUT_BYTES = 1 << 14, MAX_INPUTS = 16, MAX_ACTIVATIONS = 1 << 20, PATIENCE_US = 300000 };
static const size_t max_live_bytes = (size_t)256 << 20;

static bool is_within_bounds(size_t bytes, void *user) {
  (void)user;
  return bytes <= max_live_bytes && tercel_alloc_live_bytes() <= max_live_bytes - bytes;
}

void tercel_fuzz_bound_memory(void) { tercel_alloc_set_hook(is_within_bounds, NULL); }

static tercel_context *volatile running;

static void cancel(int number) {
  (void)number;
  if (running != NULL)
    tercel_context_cancel(running); /* NOLINT(bugprone-signal-handler): it only sets an atomic flag */
}

/* By the time that the process computes, not the clock: libFuzzer has SIGALRM for itself, and the machine may be busy. */
static void set_alarm(int microseconds) {
  const struct itimerval timer = {.it_value = {.tv_usec = microseconds}};
  signal(SIGVTALRM, cancel);
  setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* A tensor of input `index`: small numbers, free dims of 1 to 3. */
static bool make_input(const tercel_value *value, size_t index, unsigned char *memory, tercel_view *out) {
  const tercel_shape *const shape = &value->type.shape;
  int64_t dims[TERCEL_MAX_RANK];
  const int rank = shape->rank < 0 ? 2 : shape->rank;
  for (int d = 0; d < rank; ++d)
    dims[d] = shape->rank < 0 || shape->dims[d] < 0 ? 1 + (int64_t)(index + (size_t)d) % 3 : shape->dims[d];
  *out = (tercel_view){0};
  if (!tercel_tensor_set_shape(out, value->type.dtype, rank, dims) || out->bytes > MAX_INPUT_BYTES) return false;
  out->data = memory;
  const tercel_dtype_kind kind = tercel_dtype_get_kind(out->dtype);
  if (kind == TERCEL_KIND_STRING || kind == TERCEL_KIND_COMPLEX) return true; /* zeros: empty strings */
  for (int64_t i = 0; i < tercel_tensor_num_elements(out); ++i)
    tercel_tensor_set_f64(out, i, (double)((i + (int64_t)index) % 5 - 1));
  return true;
}

static bool set_inputs(tercel_context *context, const tercel_graph *graph, unsigned char (*memory)[MAX_INPUT_BYTES]) {
  if (graph->num_inputs > MAX_INPUTS) return false;
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    tercel_view view;
    if (!make_input(graph->inputs[i], i, memory[i], &view)) return false;
    const bool is_list = graph->inputs[i]->type.kind != TERCEL_TYPE_TENSOR;
    const tercel_status status = is_list ? tercel_context_set_input_elements(context, i, &view, 1, NULL)
                                         : tercel_context_set_input(context, i, &view, NULL);
    if (status != TERCEL_OK) return false;
  }
  return true;
}

void tercel_fuzz_run_engine(tercel_engine *engine) {
  static unsigned char memory[MAX_INPUTS][MAX_INPUT_BYTES];
  tercel_error err = {0};
  tercel_context *context = NULL;
  memset(memory, 0, sizeof memory);
  if (tercel_context_create(engine, NULL, &context, &err) != TERCEL_OK) return;
  for (int round = 0; round < 2 && set_inputs(context, engine->graph, memory); ++round) {
    running = context;
    set_alarm(PATIENCE_US);
    const tercel_status status = tercel_context_run(context, &err);
    set_alarm(0);
    running = NULL;
    if (status == TERCEL_INTERNAL) abort();
  }
  tercel_context_destroy(context);
}

void tercel_fuzz_run_model(const tercel_model *model) {
  tercel_error err = {0};
  for (int no_optimize = 0; no_optimize < 2; ++no_optimize) {
    const tercel_engine_options options = {.size = sizeof options,
                                           .num_threads = 1,
                                           .no_optimize = no_optimize,
                                           .max_memory = MAX_ACTIVATIONS,
                                           .check = 1};
    tercel_engine *engine = NULL;
    const tercel_status status = tercel_engine_build(model, &options, &engine, &err);
    if (status == TERCEL_INTERNAL) abort();
    if (status == TERCEL_OK) tercel_fuzz_run_engine(engine);
    tercel_engine_destroy(engine);
  }
}
