/* A few operators for tests of ir, which stands below the real ones. */
#ifndef TERCEL_TESTS_IR_TEST_OPS_H
#define TERCEL_TESTS_IR_TEST_OPS_H

#include <string.h>

#include "ir/ir.h"

static const tercel_attr_spec test_unary_attrs[] = {
    {.name = "alpha", .kind = TERCEL_ATTR_FLOAT, .number = 0.5},
    {.name = "axis", .kind = TERCEL_ATTR_INT, .number = -1},
    {.name = "axes", .kind = TERCEL_ATTR_INTS},
    {.name = "scales", .kind = TERCEL_ATTR_FLOATS},
    {.name = "mode", .kind = TERCEL_ATTR_STRING, .text = "constant"},
    {.name = "names", .kind = TERCEL_ATTR_STRINGS},
    {.name = "dtype", .kind = TERCEL_ATTR_DTYPE, .number = TERCEL_DTYPE_F32},
    {.name = "program", .kind = TERCEL_ATTR_PROGRAM},
    {0},
};
static const tercel_attr_spec test_strict_attrs[] = {{.name = "size", .kind = TERCEL_ATTR_INT, .required = true}, {0}};

static const tercel_op test_unary = {
    .name = "unary", .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1, .attrs = test_unary_attrs};
static const tercel_op test_many = {.name = "many", .max_inputs = -1, .min_outputs = 1, .max_outputs = 8};
static const tercel_op test_strict = {
    .name = "strict", .min_inputs = 1, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1, .attrs = test_strict_attrs};
static const tercel_op test_branch = {.name = "branch",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .min_outputs = 1,
                                      .max_outputs = 4,
                                      .num_graphs = 2,
                                      .flags = TERCEL_OP_CONTROL};
static const tercel_op *const test_ops[] = {&test_unary, &test_many, &test_strict, &test_branch, NULL};

static inline tercel_status test_parse(const char *text, tercel_graph **out, tercel_error *err) {
  return tercel_graph_parse(text, strlen(text), test_ops, out, err);
}

#endif
