/* Texts of graphs, built and run: whatever nodes, attributes and shapes a graph has, optimizing, planning, binding and running it end
 * in outputs or an error.  Inputs are small; a run that takes long is cancelled, as a user would. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUT_BYTES = 1 << 14, MAX_INPUTS = 16, MAX_MEMORY = 1 << 20, PATIENCE_US = 300000 };

static tercel_context *volatile running;

static void cancel(int number) {
  (void)number;
  if (running != NULL) tercel_context_cancel(running);
}

static void set_alarm(int microseconds) {
  const struct itimerval timer = {.it_value = {.tv_usec = microseconds}};
  signal(SIGALRM, cancel);
  setitimer(ITIMER_REAL, &timer, NULL);
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

static void run(tercel_engine *engine) {
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  if (tercel_graph_parse((const char *)data, size, tercel_ops(), &graph, &err) != TERCEL_OK) return 0;
  if (tercel_model_from_graph(graph, &model, &err) != TERCEL_OK) {
    tercel_graph_destroy(graph);
    return 0;
  }
  for (int no_optimize = 0; no_optimize < 2; ++no_optimize) {
    const tercel_engine_options options = {
        .size = sizeof options, .num_threads = 1, .no_optimize = no_optimize, .max_memory = MAX_MEMORY, .check = 1};
    tercel_engine *engine = NULL;
    const tercel_status status = tercel_engine_build(model, &options, &engine, &err);
    if (status == TERCEL_INTERNAL) abort();
    if (status == TERCEL_OK) run(engine);
    tercel_engine_destroy(engine);
  }
  tercel_model_destroy(model);
  return 0;
}
