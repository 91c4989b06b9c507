/* Problems of a model file, collected: whoever finds one notes it here and goes on, so that all can be told at once. */
#ifndef TERCEL_BASE_PROBLEMS_H
#define TERCEL_BASE_PROBLEMS_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/status.h"

/* Kinds of problems: TERCEL_PROBLEM(id, name, what it is about, what to do; "" when that depends). */
#define TERCEL_PROBLEM_KINDS                                                                                           \
  TERCEL_PROBLEM(FILE, "file", "the file as a whole", "")                                                              \
  TERCEL_PROBLEM(VERSION, "version", "operator sets the model imports",                                                \
                 "export it again with a version that tercel knows")                                                   \
  TERCEL_PROBLEM(OPERATOR, "operator", "an operator that tercel does not have", "")                                    \
  TERCEL_PROBLEM(NODE, "node", "a node that is wrong, or uses its operator in a way that tercel does not know", "")    \
  TERCEL_PROBLEM(ATTRIBUTE, "attribute", "a node's attribute",                                                         \
                 "remove the attribute if it says nothing, else export with an operator version that has it")          \
  TERCEL_PROBLEM(TYPE, "type", "the type of an input, an output or a constant", "")                                    \
  TERCEL_PROBLEM(SHAPE, "shape", "a shape or type that the file declares against what follows from the nodes",         \
                 "correct the declaration, or remove it (value_info): tercel infers types by itself")                  \
  TERCEL_PROBLEM(NAME, "name", "names that are missing or given twice", "")                                            \
  TERCEL_PROBLEM(WEIGHT, "weight", "a constant, or the file of external data that holds it", "")                       \
  TERCEL_PROBLEM(UNUSED, "unused", "parts that nothing uses", "")                                                      \
  TERCEL_PROBLEM(IGNORED, "ignored", "parts of the file that tercel does not look at", "")                             \
  TERCEL_PROBLEM(KERNEL, "kernel", "operators that run on the plain reference kernel", "")                             \
  TERCEL_PROBLEM(DYNAMIC, "dynamic", "shapes that are known only while the model runs", "")                            \
  TERCEL_PROBLEM(RANDOM, "random", "nodes whose results differ from run to run", "")

typedef enum tercel_problem_kind {
#define TERCEL_PROBLEM(id, name, about, advice) TERCEL_PROBLEM_##id,
  TERCEL_PROBLEM_KINDS
#undef TERCEL_PROBLEM
} tercel_problem_kind;

typedef struct tercel_problem {
  tercel_check_level level;
  tercel_status status; /* of errors: what loading the model fails with */
  tercel_problem_kind kind;
  const char *op, *node; /* NULL: about none; copied when noted */
  const char *message, *advice;
} tercel_problem;

/* Zero-initialize; deinit frees. */
typedef struct tercel_problems {
  tercel_arena arena;
  tercel_problem *items;
  size_t count, capacity;
  size_t num_errors, num_dropped;
} tercel_problems;

enum {
  TERCEL_MAX_PROBLEMS = 10000
}; /* that are kept: further ones are only counted, so that a file can't fill memory */

/* Copies the problem; advice NULL: what its kind says. */
tercel_status tercel_problems_add(tercel_problems *problems, const tercel_problem *problem, tercel_error *err);
/* OK when there is no error among them.  Else *err names as many errors as it holds, and how many are left; the status is that of the first
 * one that makes the model wrong, or UNSUPPORTED when all are that. */
tercel_status tercel_problems_fail(const tercel_problems *problems, tercel_error *err);
void tercel_problems_deinit(tercel_problems *problems);

#endif
