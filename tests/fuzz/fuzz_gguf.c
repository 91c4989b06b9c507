/* libFuzzer: GGUF from hostile bytes; every value printed, every tensor's first and last byte read, then the model imported. */
#include "fuzz/fuzz.h"
#include "import/gguf/gguf.h"
#include "import/gguf/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  tercel_gguf *gguf;
  tercel_text text = {0};
  volatile uint8_t byte = 0;
  if (tercel_gguf_open_memory(data, size, &gguf, NULL) != TERCEL_OK) return 0;
  for (size_t i = 0; i < gguf->num_entries; ++i) tercel_gguf_print_value(&gguf->entries[i].value, &text);
  for (size_t i = 0; i < gguf->num_tensors; ++i) {
    const tercel_tensor *const t = &gguf->tensors[i].tensor;
    const uint8_t *const bytes = t->data;
    if (t->bytes > 0) byte = (uint8_t)(byte ^ bytes[0] ^ bytes[t->bytes - 1]);
  }
  tercel_text_deinit(&text);
  tercel_gguf_close(gguf);
  tercel_imported imported = {0};
  tercel_gguf_import_memory(data, size, &imported, NULL);
  tercel_imported_deinit(&imported);
  return 0;
}
