/* tercel inspect of an engine file: sections, how it was built, steps with tactics and packings; nothing is run. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_sections(const tercel_engine *engine) {
  tercel_file_section section;
  printf("sections:\n");
  for (size_t i = 0; tercel_engine_get_section(engine, i, &section); i++)
    printf("  %-10s %12" PRIu64 " bytes at %-12" PRIu64 " checksum %016" PRIx64 "\n", section.name, section.bytes,
           section.offset, section.checksum);
}

static void print_facts(const tercel_engine *engine) {
  enum { SHORT = 100 };
  const char *key, *value;
  for (size_t i = 0; tercel_engine_get_metadata(engine, i, &key, &value); i++) {
    const size_t length = strcspn(value, "\r\n");
    printf("%-15s %.*s%s\n", key, (int)(length < SHORT ? length : SHORT), value,
           value[length] || length > SHORT ? "..." : "");
  }
}

static tercel_status print_ios(const tercel_engine *engine, tercel_error *err) {
  tercel_io io;
  char shape[400];
  const size_t num_inputs = tercel_engine_num_inputs(engine), num_outputs = tercel_engine_num_outputs(engine);
  for (size_t i = 0; i < num_inputs + num_outputs; i++) {
    const bool input = i < num_inputs;
    TERCEL_TRY(input ? tercel_engine_get_input(engine, i, &io, err)
                     : tercel_engine_get_output(engine, i - num_inputs, &io, err));
    tercel_cli_describe_io(&io, shape, sizeof shape);
    printf("%-15s '%s'  %s\n", input ? "input" : "output", io.name, shape);
  }
  return TERCEL_OK;
}

static void print_steps(const tercel_engine *engine) {
  tercel_step_info step;
  printf("steps:\n");
  for (size_t i = 0; tercel_engine_get_step(engine, i, &step); i++) {
    printf("  %4zu %*s%-16s %-18s", i, 2 * step.depth, "", step.op, step.tactic);
    if (step.packed_bytes > 0) printf(" %-18s %10" PRIu64, step.packing, step.packed_bytes);
    printf("  %s\n", step.name);
  }
}

tercel_status tercel_cli_print_engine(const tercel_engine *engine, const char *path, tercel_error *err) {
  tercel_engine_info info = {.size = sizeof info};
  TERCEL_TRY(tercel_engine_get_info(engine, &info, err));
  printf("%-15s %s (format %u%s)\n", "engine", path, info.format, info.stripped ? ", without weights" : "");
  print_facts(engine);
  TERCEL_TRY(print_ios(engine, err));
  print_sections(engine);
  print_steps(engine);
  if (info.num_replaced > 0) printf("%zu steps run another kernel here than in the file\n", info.num_replaced);
  if (info.num_repacked > 0)
    printf("weights of %zu steps are laid out otherwise here, and are packed anew when it is loaded\n",
           info.num_repacked);
  return TERCEL_OK;
}

/* ---- JSON ---- */

static void add_text(tercel_text *json, const char *key, const char *value) {
  tercel_text_add(json, "\"%s\": ", key);
  tercel_text_add_json(json, value, strlen(value));
}

static void add_facts(tercel_text *json, const tercel_engine *engine) {
  const char *key, *value;
  for (size_t i = 0; tercel_engine_get_metadata(engine, i, &key, &value); i++) {
    tercel_text_add(json, "%s\n    [", i > 0 ? "," : "");
    tercel_text_add_json(json, key, strlen(key));
    tercel_text_add(json, ", ");
    tercel_text_add_json(json, value, strlen(value));
    tercel_text_add(json, "]");
  }
}

static void add_sections(tercel_text *json, const tercel_engine *engine) {
  tercel_file_section section;
  for (size_t i = 0; tercel_engine_get_section(engine, i, &section); i++)
    tercel_text_add(json,
                    "%s\n    {\"name\": \"%s\", \"offset\": %" PRIu64 ", \"bytes\": %" PRIu64
                    ", \"checksum\": \"%016" PRIx64 "\"}",
                    i > 0 ? "," : "", section.name, section.offset, section.bytes, section.checksum);
}

static void add_step(tercel_text *json, const tercel_step_info *step) {
  tercel_text_add(json, "{");
  add_text(json, "name", step->name);
  tercel_text_add(json, ", ");
  add_text(json, "op", step->op);
  tercel_text_add(json, ", ");
  add_text(json, "tactic", step->tactic);
  tercel_text_add(json, ", ");
  add_text(json, "packing", step->packing);
  tercel_text_add(json, ", \"packed_bytes\": %" PRIu64 ", \"depth\": %d, \"sources\": [", step->packed_bytes,
                  step->depth);
  for (size_t i = 0; i < step->num_sources; i++) {
    tercel_text_add(json, i > 0 ? ", " : "");
    tercel_text_add_json(json, step->sources[i], strlen(step->sources[i]));
  }
  tercel_text_add(json, "]}");
}

tercel_status tercel_cli_write_engine_json(const char *to, const tercel_engine *engine, const char *path,
                                           tercel_error *err) {
  tercel_engine_info info = {.size = sizeof info};
  tercel_step_info step;
  tercel_text json = {0};
  TERCEL_TRY(tercel_engine_get_info(engine, &info, err));
  tercel_text_add(&json, "{\n  ");
  add_text(&json, "engine", path);
  tercel_text_add(
      &json, ",\n  \"format\": %u,\n  \"stripped\": %s,\n  \"replaced\": %zu,\n  \"repacked\": %zu,\n  \"facts\": [",
      info.format, info.stripped ? "true" : "false", info.num_replaced, info.num_repacked);
  add_facts(&json, engine);
  tercel_text_add(&json, "],\n  \"sections\": [");
  add_sections(&json, engine);
  tercel_text_add(&json, "],\n  \"steps\": [");
  for (size_t i = 0; tercel_engine_get_step(engine, i, &step); i++) {
    tercel_text_add(&json, "%s\n    ", i > 0 ? "," : "");
    add_step(&json, &step);
  }
  tercel_text_add(&json, "]\n}\n");
  const tercel_status status =
      json.failed ? tercel_fail_memory(err, json.length, "JSON") : tercel_cli_write_text(to, &json, err);
  tercel_text_deinit(&json);
  return status;
}
