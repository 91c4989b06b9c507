/* ONNX files, imported, built and run: whatever a file says, it ends in outputs or an error.  Most inputs are whole models, changed in
 * their structure by onnx_mutate.c. */
#include <stdlib.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_error err = {0};
  tercel_model *model = NULL;
  tercel_fuzz_bound_memory();
  const tercel_status status = tercel_model_load_memory(data, size, NULL, NULL, &model, &err);
  if (status == TERCEL_INTERNAL || (status != TERCEL_OK && !err.message[0])) abort();
  if (status == TERCEL_OK) tercel_fuzz_run_model(model);
  tercel_model_destroy(model);
  return 0;
}
