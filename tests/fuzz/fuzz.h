/* What the fuzz targets share: memory that is bounded, so that a size beyond all reason is an error like any other, and a model built and
 * run as a user would. */
#ifndef TERCEL_TESTS_FUZZ_H
#define TERCEL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "tercel/tercel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* From here on no more than some hundred MB are given out at once.  Every target calls it first. */
void tercel_fuzz_bound_memory(void);

/* Builds the model, optimized and as it is, and runs each engine twice on small numbers.  Whatever the model holds, this ends in outputs
 * or an error that isn't ours; it aborts otherwise. */
void tercel_fuzz_run_model(const tercel_model *model);
/* Runs an engine likewise. */
void tercel_fuzz_run_engine(tercel_engine *engine);

#endif
