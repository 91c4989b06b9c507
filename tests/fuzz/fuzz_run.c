/* Texts of graphs, built and run: whatever nodes, attributes and shapes a graph has, optimizing, planning, binding and running it end
 * in outputs or an error. */
#include "fuzz/fuzz.h"
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  tercel_fuzz_bound_memory();
  if (tercel_graph_parse((const char *)data, size, tercel_ops(), &graph, &err) != TERCEL_OK) return 0;
  if (tercel_model_from_graph(graph, &model, &err) == TERCEL_OK)
    tercel_fuzz_run_model(model);
  else
    tercel_graph_destroy(graph);
  tercel_model_destroy(model);
  return 0;
}
