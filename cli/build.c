/* tercel build: a model to an engine file; tercel refit: a stripped engine file to a whole one.
 * trtexec's names of options are understood, too. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct options {
  tercel_cli_engine engine;
  tercel_cli_inputs inputs;
  const char *output, *onnx;
  bool strip, timing, verify, quiet, fp16, bf16, int8, refit;
} options;

static const tercel_cli_option own[] = {
    {"output", TERCEL_CLI_TEXT, offsetof(options, output), "FILE", "the engine file to write, such as net.tercel",
     "o,saveEngine"},
    {"strip-weights", TERCEL_CLI_FLAG, offsetof(options, strip), NULL,
     "leave the weights out; `tercel refit` brings them back from the model", "stripWeights"},
    {"timing", TERCEL_CLI_FLAG, offsetof(options, timing), NULL, "print what each pass of the optimizer took", NULL},
    {"verify", TERCEL_CLI_FLAG, offsetof(options, verify), NULL,
     "run the engine and compare every step with its reference kernel and with the nodes of the file that it stands "
     "for; "
     "a wrong engine is not written",
     NULL},
    {"quiet", TERCEL_CLI_FLAG, offsetof(options, quiet), NULL, "print nothing but errors", NULL},
    {"onnx", TERCEL_CLI_TEXT, offsetof(options, onnx), "FILE", "the model, for those who know trtexec", "model"},
    {"refit", TERCEL_CLI_FLAG, offsetof(options, refit), NULL,
     "understood, and without effect: every stripped engine can be refitted", NULL},
    {"fp16", TERCEL_CLI_FLAG, offsetof(options, fp16), NULL, "not yet: engines compute with the model's own types",
     NULL},
    {"bf16", TERCEL_CLI_FLAG, offsetof(options, bf16), NULL, "not yet, likewise", NULL},
    {"int8", TERCEL_CLI_FLAG, offsetof(options, int8), NULL, "not yet, likewise", NULL},
    {0}};
static const tercel_cli_group groups[] = {
    {"building", own, 0},
    {"inputs, for --verify", tercel_cli_inputs_options, offsetof(options, inputs)},
    {"engine", tercel_cli_engine_options, offsetof(options, engine)},
    {0}};
static const tercel_cli_usage usage = {
    .command = "build",
    .operands = "MODEL",
    .what =
        "Optimizes a model for this machine and writes an engine file, which every command takes in place of a model: "
        "it is mapped and ready in milliseconds, and its weights are shared by all processes that run it.",
    .examples = "  tercel build net.onnx -o net.tercel\n"
                "  tercel build net.onnx -o net.tercel --dim batch=1 --threads 2\n"
                "  tercel build net.onnx -o net.tercel --verify --input image=cat.npy\n"
                "  tercel build net.onnx -o net.tercel --min-shapes x=1x3x224x224 --max-shapes x=8x3x224x224\n"
                "  tercel build --onnx=net.onnx --saveEngine=net.tercel\n"
                "  tercel build net.onnx -o small.tercel --strip-weights\n"
                "  tercel run net.tercel --input image=cat.jpg\n",
    .groups = groups,
    .min_operands = 0,
    .max_operands = 1,
};

/* ---- build ---- */

static void print_times(const tercel_engine *engine) {
  tercel_pass_time time;
  double total = 0;
  for (size_t i = 0; tercel_engine_get_pass_time(engine, i, &time); i++) {
    printf("  %-28s %8.2f ms in %zu run%s\n", time.name, time.total_us / 1e3, time.num_runs,
           time.num_runs == 1 ? "" : "s");
    total += time.total_us;
  }
  printf("  %-28s %8.2f ms\n", "all passes", total / 1e3);
}

static tercel_status print_built(const options *o, const tercel_cli_session *session, double save_ms,
                                 tercel_error *err) {
  tercel_engine_info info = {.size = sizeof info};
  tercel_file file = {0};
  char bytes[32];
  TERCEL_TRY(tercel_engine_get_info(session->engine, &info, err));
  TERCEL_TRY(tercel_file_open(o->output, true, &file, err));
  tercel_cli_format_bytes((double)file.size, bytes, sizeof bytes);
  tercel_file_close(&file);
  printf("%s: %zu steps, %s%s\n", o->output, info.num_steps, bytes, o->strip ? " without weights" : "");
  printf("load %.1f ms, build %.1f ms, save %.1f ms with %d threads\n", session->load_ms, session->build_ms, save_ms,
         tercel_engine_num_threads(session->engine));
  return TERCEL_OK;
}

static tercel_status verify(const options *o, const tercel_cli_session *session, tercel_error *err) {
  const tercel_status status = tercel_cli_verify(&o->inputs, session, err);
  if (!o->quiet) tercel_cli_print_verification(session->engine, false);
  return status;
}

static tercel_status build(options *o, const char *path, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_status status = TERCEL_OK;
  if (tercel_is_engine_file(path))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "%s is an engine file already: give the model that it was built from", path);
  o->engine.look_only = !o->verify; /* no context is needed */
  o->engine.verify = o->verify;
  TERCEL_CHECK(tercel_cli_load(path, &o->engine, &session, err));
  TERCEL_CHECK(tercel_cli_build(&o->engine, false, &session, err));
  if (o->verify) TERCEL_CHECK(verify(o, &session, err));
  const int64_t start = tercel_time_ns();
  const tercel_save_options save = {.size = sizeof save, .source = path, .strip_weights = o->strip};
  TERCEL_CHECK(tercel_engine_save(session.engine, o->output, &save, err));
  if (!o->quiet) TERCEL_CHECK(print_built(o, &session, (double)(tercel_time_ns() - start) / 1e6, err));
  if (o->timing) print_times(session.engine);
done:
  tercel_cli_close(&session);
  return status;
}

int tercel_cli_build_command(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  const char *const model = operands.count ? operands.items[0] : o.onnx;
  if (model == NULL) return tercel_cli_fail_usage("build", "MODEL is missing");
  if (operands.count && o.onnx)
    return tercel_cli_fail_usage("build", "the model is given twice: '%s' and '%s'", model, o.onnx);
  if (o.output == NULL) return tercel_cli_fail_usage("build", "-o FILE is missing: where to write the engine");
  if (o.fp16 || o.bf16 || o.int8)
    return tercel_cli_fail_usage(
        "build", "--%s: tercel does not choose precisions yet; engines compute with the model's own types",
        o.fp16   ? "fp16"
        : o.bf16 ? "bf16"
                 : "int8");
  return build(&o, model, &err) == TERCEL_OK ? TERCEL_EXIT_OK : tercel_cli_fail("build", &err);
}

/* ---- refit ---- */

typedef struct refit_options {
  tercel_cli_engine engine;
  const char *output;
} refit_options;

static const tercel_cli_option refit_own[] = {
    {"output", TERCEL_CLI_TEXT, offsetof(refit_options, output), "FILE", "the engine file to write", "o,saveEngine"},
    {0}};
static const tercel_cli_group refit_groups[] = {
    {"refitting", refit_own, 0}, {"engine", tercel_cli_engine_options, offsetof(refit_options, engine)}, {0}};
static const tercel_cli_usage refit_usage = {
    .command = "refit",
    .operands = "ENGINE MODEL",
    .what =
        "Gives an engine file that was built with --strip-weights its weights back, from the model that it was built "
        "from, and writes a whole engine file.",
    .examples = "  tercel refit small.tercel net.onnx -o net.tercel\n",
    .groups = refit_groups,
    .min_operands = 2,
    .max_operands = 2,
};

static tercel_status refit(const refit_options *o, const char *engine, const char *model, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_status status = TERCEL_OK;
  if (tercel_is_engine_file(model))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s is an engine file: give the model that %s was built from",
                       model, engine);
  TERCEL_CHECK(tercel_cli_load(model, &o->engine, &session, err));
  TERCEL_CHECK(tercel_engine_refit(engine, session.model, o->output, err));
done:
  tercel_cli_close(&session);
  return status;
}

int tercel_cli_refit(int argc, char **argv) {
  refit_options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&refit_usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  if (o.output == NULL) return tercel_cli_fail_usage("refit", "-o FILE is missing: where to write the engine");
  return refit(&o, operands.items[0], operands.items[1], &err) == TERCEL_OK ? TERCEL_EXIT_OK
                                                                            : tercel_cli_fail("refit", &err);
}
