/* tercel inspect: what is in a model, and what became of it. */
#include "memory.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
  tercel_cli_engine engine;
  tercel_cli_inputs inputs;
  bool text, dot, plan, decisions, metadata, memory;
  const char *svg, *json;
} options;

static const tercel_cli_option own[] = {
    {"text", TERCEL_CLI_FLAG, offsetof(options, text), NULL,
     "print the graph as text, as imported; it can be read back", NULL},
    {"dot", TERCEL_CLI_FLAG, offsetof(options, dot), NULL, "print the graph for Graphviz, as imported", NULL},
    {"plan", TERCEL_CLI_FLAG, offsetof(options, plan), NULL, "print the steps of the engine: tactic, shapes, memory",
     NULL},
    {"decisions", TERCEL_CLI_FLAG, offsetof(options, decisions), NULL,
     "print what each pass did and refused, a line each (`tercel explain` tells more)", NULL},
    {"memory", TERCEL_CLI_FLAG, offsetof(options, memory), NULL,
     "print the memory of a run before it runs: bytes alive over the steps, what makes the peak, planned bytes and "
     "their "
     "lower bound.  For --shapes, a profile's --max-shapes, or the model's own",
     NULL},
    {"svg", TERCEL_CLI_TEXT, offsetof(options, svg), "FILE", "with --memory: draw the arena and the curve", NULL},
    {"json", TERCEL_CLI_TEXT, offsetof(options, json), "FILE",
     "with --memory, and of an engine file: write it as JSON; - is standard output, alone", NULL},
    {"metadata", TERCEL_CLI_FLAG, offsetof(options, metadata), NULL, "print the file's metadata in full", NULL},
    {0}};
static const tercel_cli_option shapes[] = {
    {"shapes", TERCEL_CLI_LIST, offsetof(tercel_cli_inputs, shapes), "NAME=1x3x224x224",
     "shapes to tell the activation memory for; without it only where the model has no free dims", NULL},
    {0}};
static const tercel_cli_group groups[] = {{"what to show instead of the overview", own, 0},
                                          {"inputs", shapes, offsetof(options, inputs)},
                                          {"engine", tercel_cli_engine_options, offsetof(options, engine)},
                                          {0}};
static const tercel_cli_usage usage = {
    .command = "inspect",
    .operands = "MODEL",
    .what = "Shows a model's inputs, outputs, operators, parameters and memory, or its graph or plan; of an engine "
            "file what is "
            "in it and how it was built, without running it.",
    .examples = "  tercel inspect net.onnx\n"
                "  tercel inspect net.tercel --json -\n"
                "  tercel inspect net.onnx --text | less\n"
                "  tercel inspect net.onnx --dot | dot -Tsvg > net.svg\n"
                "  tercel inspect net.onnx --plan --dim batch=1\n"
                "  tercel inspect net.onnx --memory --shapes x=1x3x640x640 --svg memory.svg\n",
    .groups = groups,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- the overview ---- */

static tercel_status print_ios(const tercel_model *model, tercel_error *err) {
  tercel_io io;
  char shape[400];
  const size_t num_inputs = tercel_model_num_inputs(model), num_outputs = tercel_model_num_outputs(model);
  for (size_t i = 0; i < num_inputs + num_outputs; i++) {
    const bool input = i < num_inputs;
    TERCEL_TRY(input ? tercel_model_get_input(model, i, &io, err)
                     : tercel_model_get_output(model, i - num_inputs, &io, err));
    tercel_cli_describe_io(&io, shape, sizeof shape);
    printf("%-11s '%s'  %s\n", input ? "input" : "output", io.name, shape);
  }
  return TERCEL_OK;
}

static void print_metadata(const tercel_model *model, bool whole) {
  enum { SHORT = 60 };
  const char *key, *value;
  for (size_t i = 0; tercel_model_get_metadata(model, i, &key, &value); i++) {
    const size_t length = strlen(value), line = strcspn(value, "\r\n");
    if (whole || (length <= SHORT && line == length))
      printf("%-11s %s = %s\n", "metadata", key, value);
    else
      printf("%-11s %s = %.*s... (%zu bytes; --metadata shows all)\n", "metadata", key,
             (int)(line < SHORT ? line : SHORT), value, length);
  }
}

static tercel_status print_model(const tercel_model *model, const char *path, tercel_error *err) {
  tercel_model_info info = {.size = sizeof info};
  char bytes[32];
  TERCEL_TRY(tercel_model_get_info(model, &info, err));
  tercel_cli_format_bytes((double)info.constant_bytes, bytes, sizeof bytes);
  printf("%-11s %s (%s%s%s)\n", "model", path, info.format, info.producer && *info.producer ? ", by " : "",
         info.producer ? info.producer : "");
  printf("%-11s %llu in %zu constants, %s\n", "parameters", (unsigned long long)info.num_parameters, info.num_constants,
         bytes);
  printf("%-11s %zu\n", "nodes", info.num_nodes);
  return TERCEL_OK;
}

static bool has_free_dims(const tercel_engine *engine) {
  tercel_io io;
  const size_t count = tercel_engine_num_inputs(engine);
  for (size_t i = 0; i < count; i++) {
    if (tercel_engine_get_input(engine, i, &io, NULL) != TERCEL_OK || io.rank < 0 || io.kind[0] != 't') return true;
    for (int d = 0; d < io.rank; d++)
      if (io.dims[d] < 0) return true;
  }
  return false;
}

/* Activation memory depends on the shapes: it is known after a run with them. */
static tercel_status print_memory(const options *o, const tercel_cli_session *session, tercel_error *err) {
  tercel_memory_info memory = {.size = sizeof memory};
  tercel_cli_data data = {0};
  char mapped[32], packed[32], activations[32], peak[32];
  tercel_status status = TERCEL_OK;
  const bool runs = o->inputs.shapes.count > 0 || !has_free_dims(session->engine);
  if (runs) {
    TERCEL_CHECK(tercel_cli_read_inputs(session->engine, &o->inputs, &data, err));
    TERCEL_CHECK(tercel_cli_first_run(session->context, &data, err));
  }
  TERCEL_CHECK(tercel_context_get_memory(session->context, &memory, err));
  tercel_cli_format_bytes((double)memory.mapped_bytes, mapped, sizeof mapped);
  tercel_cli_format_bytes((double)memory.packed_bytes, packed, sizeof packed);
  tercel_cli_format_bytes((double)memory.activation_bytes, activations, sizeof activations);
  tercel_cli_format_bytes((double)memory.peak_live_bytes, peak, sizeof peak);
  printf("%-11s weights: %s used in the file, %s packed; ", "memory", mapped, packed);
  if (runs)
    printf("activations: %s (at most %s alive at once)\n", activations, peak);
  else
    printf("activations: known for given --shapes\n");
done:
  tercel_cli_free_inputs(&data);
  return status;
}

static tercel_status print_text(const tercel_model *model, const tercel_engine *engine, tercel_print what,
                                tercel_error *err) {
  char *text = NULL;
  TERCEL_TRY(engine ? tercel_engine_print(engine, what, &text, err) : tercel_model_print(model, what, &text, err));
  fputs(text, stdout);
  tercel_text_free(text);
  return TERCEL_OK;
}

static tercel_status print_overview(const options *o, const char *path, tercel_cli_session *session,
                                    tercel_error *err) {
  TERCEL_TRY(print_model(session->model, path, err));
  print_metadata(session->model, false);
  TERCEL_TRY(print_ios(session->model, err));
  TERCEL_TRY(tercel_cli_build(&o->engine, false, session, err));
  TERCEL_TRY(print_memory(o, session, err));
  printf("operators:\n");
  return print_text(session->model, NULL, TERCEL_PRINT_OPERATORS, err);
}

static tercel_status show_memory(const options *o, const char *path, tercel_cli_session *session, tercel_error *err) {
  tercel_memory_plan *plan = NULL;
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_cli_plan_memory(session, &o->inputs, &plan, err));
  if (!o->json || strcmp(o->json, "-") != 0) TERCEL_CHECK(tercel_cli_print_memory_plan(plan, err));
  if (o->svg) TERCEL_CHECK(tercel_cli_write_memory_svg(o->svg, plan, path, err));
  if (o->json) TERCEL_CHECK(tercel_cli_write_memory_json(o->json, plan, path, err));
done:
  tercel_memory_plan_destroy(plan);
  return status;
}

/* ---- the commands ---- */

/* An engine file is looked at without being run, but for its memory. */
static tercel_status inspect_engine(options *o, const char *path, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_status status = TERCEL_OK;
  o->engine.look_only = !o->memory;
  TERCEL_CHECK(tercel_cli_load(path, &o->engine, &session, err));
  TERCEL_CHECK(tercel_cli_build(&o->engine, false, &session, err));
  if (o->decisions) {
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--decisions: an engine file keeps none; give the model");
    goto done;
  }
  if (o->memory) TERCEL_CHECK(show_memory(o, path, &session, err));
  if (o->text) TERCEL_CHECK(print_text(NULL, session.engine, TERCEL_PRINT_TEXT, err));
  if (o->dot) TERCEL_CHECK(print_text(NULL, session.engine, TERCEL_PRINT_DOT, err));
  if (o->plan) TERCEL_CHECK(print_text(NULL, session.engine, TERCEL_PRINT_PLAN, err));
  if (o->memory || o->text || o->dot || o->plan) goto done;
  if (!o->json || strcmp(o->json, "-") != 0) TERCEL_CHECK(tercel_cli_print_engine(session.engine, path, err));
  if (o->json) TERCEL_CHECK(tercel_cli_write_engine_json(o->json, session.engine, path, err));
done:
  tercel_cli_close(&session);
  return status;
}

static tercel_status inspect(options *o, const char *path, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_status status = TERCEL_OK;
  const bool engine = o->plan || o->decisions || o->memory, overview = !engine && !o->text && !o->dot && !o->metadata;
  o->inputs.fill = "ones";
  TERCEL_CHECK(tercel_cli_load(path, &o->engine, &session, err));
  if (overview) TERCEL_CHECK(print_overview(o, path, &session, err));
  if (o->metadata) print_metadata(session.model, true);
  if (o->text) TERCEL_CHECK(print_text(session.model, NULL, TERCEL_PRINT_TEXT, err));
  if (o->dot) TERCEL_CHECK(print_text(session.model, NULL, TERCEL_PRINT_DOT, err));
  if (engine) TERCEL_CHECK(tercel_cli_build(&o->engine, false, &session, err));
  if (o->plan) TERCEL_CHECK(print_text(NULL, session.engine, TERCEL_PRINT_PLAN, err));
  if (o->memory) TERCEL_CHECK(show_memory(o, path, &session, err));
  if (o->decisions) TERCEL_CHECK(print_text(NULL, session.engine, TERCEL_PRINT_DECISIONS, err));
done:
  tercel_cli_close(&session);
  return status;
}

int tercel_cli_inspect(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  const bool is_engine = tercel_is_engine_file(operands.items[0]);
  if ((o.svg || (o.json && !is_engine)) && !o.memory)
    return tercel_cli_fail_usage(usage.command, "--svg and --json go with --memory");
  if (is_engine)
    return inspect_engine(&o, operands.items[0], &err) == TERCEL_OK ? TERCEL_EXIT_OK
                                                                    : tercel_cli_fail(usage.command, &err);
  return inspect(&o, operands.items[0], &err) == TERCEL_OK ? TERCEL_EXIT_OK : tercel_cli_fail(usage.command, &err);
}
