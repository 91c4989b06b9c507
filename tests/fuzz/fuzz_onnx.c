/* Fuzz target: any bytes as an ONNX model.  Seeds: tests/import/onnx. */
#include "fuzz/fuzz.h"
#include "import/import.h"

/* A check finds errors where an import fails, and only there. */
static void check_agrees(const uint8_t *data, size_t size, tercel_status imported) {
  tercel_problems problems = {0};
  tercel_imported model = {0};
  const tercel_import_options options = {.problems = &problems};
  const tercel_status status = tercel_import_memory(data, size, NULL, &options, &model, NULL);
  if (status != imported && status != TERCEL_OUT_OF_MEMORY && imported != TERCEL_OUT_OF_MEMORY) __builtin_trap();
  if (status == TERCEL_OK && problems.num_errors > 0) __builtin_trap();
  tercel_imported_deinit(&model);
  tercel_problems_deinit(&problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  tercel_imported model = {0};
  tercel_error err = {0};
  const tercel_status status = tercel_import_memory(data, size, NULL, NULL, &model, &err);
  /* What was imported is a graph as all rooms expect it; what wasn't says why. */
  if (status == TERCEL_OK && tercel_graph_verify(model.graph, &err) == TERCEL_INTERNAL) __builtin_trap();
  if (status == TERCEL_INTERNAL || (status != TERCEL_OK && !err.message[0])) __builtin_trap();
  tercel_imported_deinit(&model);
  check_agrees(data, size, status);
  return 0;
}
