/* Engine files: whatever header, sections, graph, plan or weights say, loading ends in an engine that runs, or in an error.  Checksums are made to fit
 * first: they would hide all else. */
#include "fuzz/fuzz.h"
#include "runtime/runtime.h"
#include "support/engine_repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_fuzz_bound_memory();
  if (size == 0) return 0;
  uint8_t *const copy = tercel_alloc(size); /* aligned */
  if (copy == NULL) return 0;
  memcpy(copy, data, size);
  engine_repair(copy, size);
  const tercel_load_options options = {.size = sizeof options, .num_threads = 1};
  if (tercel_engine_load_memory(copy, size, &options, &engine, &err) == TERCEL_OK) tercel_fuzz_run_engine(engine);
  tercel_engine_destroy(engine); /* NULL is fine */
  tercel_free(copy);
  return 0;
}
