/* What printing and parsing of graphs share.  For print.c and parse*.c only. */
#ifndef TERCEL_IR_GRAPH_TEXT_H
#define TERCEL_IR_GRAPH_TEXT_H

#include "ir/text.h"

/* Characters of an unquoted value name beyond letters, digits and _; it may begin with any of them (see name.h). */
#define TERCEL_VALUE_NAME_CHARS "0./-"

/* The dtype of an instruction that names none. */
tercel_dtype tercel_instr_default_dtype(tercel_fn fn);
/* Whether the immediates of an instruction with that result are floats; else integers. */
bool tercel_instr_has_float_immediates(tercel_fn fn, tercel_dtype dtype);
/* Sets element i of "ramp()" data. */
void tercel_ramp_element(void *data, tercel_dtype dtype, int64_t i);

#endif
