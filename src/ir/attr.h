/* Attributes of nodes: named constants that an operator's schema (ir/op.h) lists. */
#ifndef TERCEL_IR_ATTR_H
#define TERCEL_IR_ATTR_H

#include "base/base.h"
#include "ir/program.h"
#include "ir/tensor.h"

typedef enum tercel_attr_kind {
  TERCEL_ATTR_INT, /* also bool */
  TERCEL_ATTR_FLOAT,
  TERCEL_ATTR_STRING,
  TERCEL_ATTR_INTS,
  TERCEL_ATTR_FLOATS,
  TERCEL_ATTR_STRINGS,
  TERCEL_ATTR_DTYPE,
  TERCEL_ATTR_PROGRAM
} tercel_attr_kind;

/* Lives in the graph's arena.  count: of ints, floats, strings. */
typedef struct tercel_attr {
  const char *name;
  tercel_attr_kind kind;
  size_t count;
  union {
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    tercel_dtype dtype;
    const tercel_program *program;
  } value;
} tercel_attr;

#endif
