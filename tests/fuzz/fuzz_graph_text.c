/* Texts of graphs: whatever the bytes are, parsing ends in a graph or an error; a graph that was read prints, clones and reads back. */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "ops/ops.h"

static void check(tercel_status status) {
  if (status != TERCEL_OK && status != TERCEL_OUT_OF_MEMORY) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  tercel_error err = {0};
  tercel_graph *graph = NULL, *copy = NULL, *again = NULL;
  tercel_text text = {0};
  if (tercel_graph_parse((const char *)data, size, tercel_ops(), &graph, &err) != TERCEL_OK) return 0;
  check(tercel_graph_clone(graph, NULL, NULL, &copy, &err));
  check(tercel_graph_print(copy, &(tercel_text_options){.all_data = true}, &text, &err));
  check(tercel_graph_parse(text.data, text.length, tercel_ops(), &again, &err));
  tercel_text_deinit(&text);
  tercel_graph_destroy(graph);
  tercel_graph_destroy(copy);
  tercel_graph_destroy(again);
  return 0;
}
