/* Graphs out of texts through inference and the optimizer: whatever the graph is, they end in a whole graph or an error that isn't ours. */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "optimize/optimize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  if (tercel_graph_parse((const char *)data, size, tercel_ops(), &graph, &err) != TERCEL_OK) return 0;
  tercel_status status = tercel_infer_graph(graph, &err);
  if (status == TERCEL_OK) status = tercel_optimize(graph, &(tercel_optimize_options){.verify = true}, NULL, &err);
  if (status == TERCEL_INTERNAL) abort();
  tercel_graph_destroy(graph);
  return 0;
}
