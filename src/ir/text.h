/* The text form of a graph: printed for people and tests, read back by tests and tools.  The grammar stands in
 * print.c's head.
 *
 *     graph "net" (%x: f32[batch, 3, 8, 8]) {
 *       %w: f32[4, 3, 3, 3] = constant data(...)          also hex(), zeros(), fill(), ramp()
 *       %y: f32[batch, 4, 8, 8] = conv(%x, %w) {pads = [1, 1, 1, 1]} from "Conv_0", "BatchNorm_1"
 *       return %y
 *     } */
#ifndef TERCEL_IR_TEXT_H
#define TERCEL_IR_TEXT_H

#include "base/base.h"
#include "ir/graph.h"

typedef struct tercel_text_options {
  bool all_data; /* print constants whole, so that the text holds the model; else large ones as hidden() */
} tercel_text_options;

tercel_status tercel_graph_print(const tercel_graph *graph, const tercel_text_options *options, tercel_text *out,
                                 tercel_error *err);
tercel_status tercel_graph_print_dot(const tercel_graph *graph, tercel_text *out, tercel_error *err);
/* The same; of more nodes than max_boxes, those of one scope of names are one box, of which there are about as many at most. */
tercel_status tercel_graph_print_dot_folded(const tercel_graph *graph, size_t max_boxes, tercel_text *out,
                                            tercel_error *err);
/* ops: the operators that may occur.  Errors name line and column.  Depth and sizes are bounded. */
tercel_status tercel_graph_parse(const char *text, size_t length, const tercel_op *const *ops, tercel_graph **out,
                                 tercel_error *err);

void tercel_type_print(const tercel_dims *dims, const tercel_type *type,
                       tercel_text *out);                                   /* "f32[batch, 3]", "seq(f32[*])" */
void tercel_program_print(const tercel_program *program, tercel_text *out); /* "{1: relu(%0)}" */
void tercel_attr_print(const tercel_attr *attr, tercel_text *out);          /* "pads = [1, 1, 1, 1]" */

#endif
