/* libFuzzer: .npy and .npz from hostile bytes. */
#include "fuzz/fuzz.h"
#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tercel_fuzz_bound_memory();
  tercel_datum datum = {0};
  tercel_error err;
  if (tercel_npy_parse(data, size, &datum, &err) == TERCEL_OK) tercel_datum_deinit(&datum);
  if (tercel_npz_parse(data, size, NULL, &datum, &err) == TERCEL_OK) tercel_datum_deinit(&datum);
  return 0;
}
