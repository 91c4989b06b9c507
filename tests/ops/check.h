/* Checks of operators written as texts: what inference says of a graph's outputs, and what the reference kernels compute. */
#ifndef TERCEL_TESTS_OPS_CHECK_H
#define TERCEL_TESTS_OPS_CHECK_H

#include "support/support.h"

#include "ops/ops.h"

/* A body is what stands between the braces of a graph whose inputs are `params`: "%y = shape(%x)\n return %y". */

/* The type of output 0 as text ("f32[batch, 3]"), and its contents ("[batch, 3]"; "?" when they aren't known). */
#define check_type(params, body, want) check_infer_text((params), (body), (want), NULL, __FILE__, __LINE__)
#define check_contents(params, body, want) check_infer_text((params), (body), NULL, (want), __FILE__, __LINE__)
void check_infer_text(const char *params, const char *body, const char *want_type, const char *want_contents,
                      const char *file, int line);

/* Reading or inferring fails with this status and a message that holds `part`. */
#define check_rejects(params, body, status, part)                                                                      \
  check_rejects_at((params), (body), (status), (part), __FILE__, __LINE__)
void check_rejects_at(const char *params, const char *body, tercel_status want, const char *part, const char *file,
                      int line);

/* A graph of constants: its outputs 0, 2, ... as evaluated must equal 1, 3, ... within `tolerance` (0: exactly, all bytes). */
#define check_values(body, tolerance) check_values_at((body), (tolerance), __FILE__, __LINE__)
void check_values_at(const char *body, double tolerance, const char *file, int line);

/* Evaluation fails with this status and a message that holds `part`. */
#define check_eval_fails(body, status, part) check_eval_fails_at((body), (status), (part), __FILE__, __LINE__)
void check_eval_fails_at(const char *body, tercel_status want, const char *part, const char *file, int line);

#endif
