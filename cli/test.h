/* Case folders in ONNX's layout, shared by the files of tercel test. */
#ifndef TERCEL_CLI_TEST_H
#define TERCEL_CLI_TEST_H

#include <limits.h>

#include "cli.h"

typedef struct tercel_test_case {
  const char *path; /* the folder that holds model.onnx */
  double rtol, atol;
} tercel_test_case;

/* Every case folder under the roots, sorted; tolerances from a root's index.tsv where there is one (columns kind, name, rtol and atol,
 * found by their headings), else the ones given. */
typedef struct tercel_test_list {
  tercel_test_case *cases;
  size_t count, capacity;
  tercel_arena arena;
} tercel_test_list;

tercel_status tercel_test_find(const tercel_cli_list *roots, const char *filter, double rtol, double atol,
                               tercel_test_list *out, tercel_error *err);
void tercel_test_free(tercel_test_list *list); /* safe on a zeroed struct */

typedef enum tercel_test_outcome {
  TERCEL_TEST_PASSED,
  TERCEL_TEST_RANDOM, /* it draws random numbers: the outputs differ, but have the types, shapes and means that are wanted */
  TERCEL_TEST_FAILED,
  TERCEL_TEST_UNSUPPORTED, /* the model or a file of it is legal but tercel can't do it */
} tercel_test_outcome;

/* Loads the model, runs every test_data_set_K and compares.  why: one line, when it did not pass. */
tercel_test_outcome tercel_test_run(const tercel_test_case *one, const tercel_cli_engine *options, char *why,
                                    size_t why_size);

#endif
