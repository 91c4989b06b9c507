/* From a path to a context: load, build, create, with the options that all subcommands share. */
#include "cli.h"

#include <string.h>

#define OPTION(field) offsetof(tercel_cli_engine, field)

const tercel_cli_option tercel_cli_engine_options[] = {
    {"threads", TERCEL_CLI_INT, OPTION(threads), "N",
     "threads to run with; 0, the default: as many CPUs as this process may use", NULL},
    {"dim", TERCEL_CLI_LIST, OPTION(dims), "NAME=SIZE",
     "fix a free dim of the model, such as batch=1, before optimizing", NULL},
    {"no-optimize", TERCEL_CLI_FLAG, OPTION(no_optimize), NULL, "run the graph as it was imported", NULL},
    {"disable-passes", TERCEL_CLI_TEXT, OPTION(disable_passes), "NAME,...", "leave these passes of the optimizer out",
     NULL},
    {"max-memory", TERCEL_CLI_BYTES, OPTION(max_memory), "SIZE",
     "refuse to run when activations need more, such as 512M", NULL},
    {"min-shapes", TERCEL_CLI_LIST, OPTION(min_shapes), "NAME=1x3x224x224",
     "a profile: shapes from min to max are taken, others refused; several inputs separated by commas.  Given again, "
     "with the other two: another profile.  Of the three, what is left out is opt, or where that is left out, max",
     "minShapes"},
    {"opt-shapes", TERCEL_CLI_LIST, OPTION(opt_shapes), "NAME=1x3x224x224",
     "the shapes to choose kernels for, between min and max", "optShapes"},
    {"max-shapes", TERCEL_CLI_LIST, OPTION(max_shapes), "NAME=8x3x224x224",
     "the largest shapes, which tell the memory of a run", "maxShapes"},
    {"deterministic", TERCEL_CLI_FLAG, OPTION(deterministic), NULL,
     "the same bits whatever the number of threads, the batch and the CPU's level; slower", NULL},
    {"tune", TERCEL_CLI_MAYBE_NUMBER, OPTION(tune), "SECONDS",
     "measure which tactic of each step is fastest on this machine, for so long at most, 30 if not said; see "
     "docs/tuning.md",
     NULL},
    {"timing-cache", TERCEL_CLI_TEXT, OPTION(timing_cache), "FILE",
     "times of tactics: used if the file exists, and with --tune kept there", "timingCacheFile"},
    {"no-mmap", TERCEL_CLI_FLAG, OPTION(no_mmap), NULL, "read the model into memory instead of mapping it", NULL},
    {"allow-external", TERCEL_CLI_LIST, OPTION(allow_external), "DIR",
     "let the model's external data lie in DIR, too, as where a model cache keeps links; may be given again", NULL},
    {"plugin", TERCEL_CLI_LIST, OPTION(plugins), "FILE.so",
     "operators of your own, see docs/custom-operators.md; its code runs with your rights", NULL},
    {"check", TERCEL_CLI_FLAG, OPTION(check), NULL, "verify the graph between passes", NULL},
    {0}};

/* Of --tune without a number. */
static const double default_tune_seconds = 30;

static double ms_since(int64_t start_ns) { return (double)(tercel_time_ns() - start_ns) / 1e6; }

/* An engine file is what it was built as. */
static tercel_status refuse_build_options(const tercel_cli_engine *o, tercel_error *err) {
  const char *const given = o->dims.count > 0           ? "dim"
                            : o->no_optimize            ? "no-optimize"
                            : o->disable_passes != NULL ? "disable-passes"
                            : o->min_shapes.count > 0   ? "min-shapes"
                            : o->opt_shapes.count > 0   ? "opt-shapes"
                            : o->max_shapes.count > 0   ? "max-shapes"
                            : o->deterministic          ? "deterministic"
                                                        : NULL;
  if (given == NULL) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                     "--%s: an engine file is built already; give it to `tercel build`, with the model", given);
}

static tercel_status load_engine(const char *path, const tercel_cli_engine *options, tercel_operators *operators,
                                 tercel_cli_session *out, tercel_error *err) {
  TERCEL_TRY(refuse_build_options(options, err));
  const tercel_load_options load_options = {.size = sizeof load_options,
                                            .num_threads =
                                                options->threads > INT32_MAX ? INT32_MAX : (int)options->threads,
                                            .no_mmap = options->no_mmap,
                                            .look_only = options->look_only,
                                            .max_memory = (uint64_t)options->max_memory,
                                            .operators = operators};
  return tercel_engine_load(path, &load_options, &out->engine, err);
}

tercel_status tercel_cli_load(const char *path, const tercel_cli_engine *options, tercel_cli_session *out,
                              tercel_error *err) {
  *out = (tercel_cli_session){0};
  tercel_operators *operators = NULL;
  TERCEL_TRY(tercel_cli_load_plugins(&options->plugins, &operators, err));
  const tercel_model_options model_options = {.size = sizeof model_options,
                                              .no_mmap = options->no_mmap,
                                              .allow_external = options->allow_external.items,
                                              .num_allow_external = (size_t)options->allow_external.count,
                                              .operators = operators};
  const int64_t start = tercel_time_ns();
  const tercel_status status = tercel_is_engine_file(path) ? load_engine(path, options, operators, out, err)
                                                           : tercel_model_load(path, &model_options, &out->model, err);
  tercel_operators_destroy(operators); /* the model has its own reference */
  out->load_ms = ms_since(start);
  return status;
}

/* NAME=SIZE; names is the memory that the name is copied to. */
static tercel_status parse_dim(const char *text, tercel_arena *names, tercel_dim_value *out, tercel_error *err) {
  const char *const equals = strrchr(text, '=');
  if (!equals || equals == text || !tercel_parse_i64(equals + 1, strlen(equals + 1), &out->value) || out->value < 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--dim '%s': want NAME=SIZE", text);
  out->name = tercel_arena_strndup(names, text, (size_t)(equals - text));
  return out->name ? TERCEL_OK : tercel_fail_memory(err, strlen(text), "a name");
}

tercel_status tercel_cli_build(const tercel_cli_engine *options, bool profile, tercel_cli_session *session,
                               tercel_error *err) {
  tercel_dim_value dims[TERCEL_CLI_LIST_MAX];
  tercel_arena names = {0};
  const tercel_shape_profile *profiles = NULL;
  size_t num_profiles = 0;
  tercel_status status = TERCEL_OK;
  const int64_t start = tercel_time_ns();
  for (int i = 0; i < options->dims.count; i++) TERCEL_CHECK(parse_dim(options->dims.items[i], &names, &dims[i], err));
  TERCEL_CHECK(tercel_cli_read_profiles(options, &names, &profiles, &num_profiles, err));
  tercel_engine_options engine_options = {
      .size = sizeof engine_options,
      .num_threads = options->threads > INT32_MAX ? INT32_MAX : (int)options->threads,
      .no_optimize = options->no_optimize,
      .disable_passes = options->disable_passes,
      .dims = dims,
      .num_dims = (size_t)options->dims.count,
      .max_memory = (uint64_t)options->max_memory,
      .check = options->check,
      .tune_seconds = options->tune < 0 ? default_tune_seconds : options->tune,
      .timing_cache_path = options->timing_cache,
      .deterministic = options->deterministic,
      .count_savings = options->count_savings,
      .keep_weights = options->keep_weights,
      .verify = options->verify,
      .profiles = profiles,
      .num_profiles = num_profiles,
  };
  const tercel_context_options context_options = {.size = sizeof context_options, .profile = profile};
  if (session->engine == NULL) {
    tercel_cli_watch_tuning(&engine_options);
    status = tercel_engine_build(session->model, &engine_options, &session->engine, err);
    tercel_cli_end_tuning();
    if (status != TERCEL_OK) goto done;
  }
  if (!options->look_only)
    TERCEL_CHECK(tercel_context_create(session->engine, &context_options, &session->context, err));
  session->build_ms = ms_since(start);
done:
  tercel_arena_deinit(&names);
  return status;
}

void tercel_cli_close(tercel_cli_session *session) {
  tercel_context_destroy(session->context);
  tercel_engine_destroy(session->engine);
  tercel_model_destroy(session->model);
  *session = (tercel_cli_session){0};
}
