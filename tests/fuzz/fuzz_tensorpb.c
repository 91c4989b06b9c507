/* libFuzzer: ONNX's data files from hostile bytes, read as each kind. */
#include "fuzz/fuzz.h"
#include "io/tensorpb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  static const char *const kinds[] = {"tensor", "sequence", "optional"};
  for (int i = 0; i < 3; i++) {
    tercel_datum datum = {0};
    tercel_error err;
    if (tercel_tensorpb_parse(data, size, kinds[i], &datum, &err) == TERCEL_OK) tercel_datum_deinit(&datum);
  }
  return 0;
}
