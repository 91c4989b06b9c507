/* Runs a real network on the inputs of tests/models/cases and compares with what ONNX Runtime answered (make_cases.py says
 * what is in a case's file).  An output passes within 1e-4 of its largest magnitude, or 4 times the noise that ONNX Runtime's own
 * optimizations make, or (networks that quantize as they go) twice what a rounding more or less in their inputs moves, whichever is most; integers
 * and bools must be equal. */
#ifndef TERCEL_TESTS_MODELS_CHECK_H
#define TERCEL_TESTS_MODELS_CHECK_H

#include "io/datum.h"
#include "support/support.h"

typedef struct check_options {
  int num_threads;
  int no_optimize;
} check_options;

/* Fails the running cmocka test where an output is wrong; skips it when the network was not fetched. */
void check_network(const char *name, const check_options *options);

/* The inputs of a network's case, into out[MAX_CASE_INPUTS]: how many there are. */
enum { MAX_CASE_INPUTS = 8 };
size_t read_case(const char *name, tercel_datum *out);

/* Deterministic mode: fails where outputs differ in a bit between levels that the machine has, 1, 2 and 3 threads, or (unless the network
 * itself mixes the rows of a batch) a run alone and as a row of a batch of 8, where the network takes one.  Returns the FNV-1a hash of what the
 * network gives as it was imported, which is the same on every machine and changes with kernels only. */
uint64_t check_bits(const char *name, bool mixes_rows);

/* silero-vad over a spoken sentence, call by call, the state handed on. */
void check_speech(const check_options *options);

#endif
