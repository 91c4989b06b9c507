/* Memory plans for people: a chart, a picture, JSON. */
#ifndef TERCEL_CLI_MEMORY_H
#define TERCEL_CLI_MEMORY_H

#include "cli.h"

/* Of the engine for the inputs that are given; for its own largest shapes where none are.  Where memory depends on data, the engine is run. */
tercel_status tercel_cli_plan_memory(tercel_cli_session *session, const tercel_cli_inputs *inputs,
                                     tercel_memory_plan **out, tercel_error *err);

/* Planned bytes, the curve over the steps, what makes the peak. */
tercel_status tercel_cli_print_memory_plan(const tercel_memory_plan *plan, tercel_error *err);
/* The curve over the pieces as they lie in the arena: steps to the right, offsets upwards. */
tercel_status tercel_cli_write_memory_svg(const char *path, const tercel_memory_plan *plan, const char *model,
                                          tercel_error *err);
tercel_status tercel_cli_write_memory_json(const char *path, const tercel_memory_plan *plan, const char *model,
                                           tercel_error *err);

#endif
