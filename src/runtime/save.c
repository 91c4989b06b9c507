/* Engines to files: what they were built with, their plan, and refitting stripped ones.  The format: plan/engine_file.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "runtime/runtime.h"

/* ---- facts ------------------------------------------------------------------------------------------------------------- */

static void note(tercel_text *facts, const char *key, const char *value) {
  tercel_text_add_bytes(facts, key, strlen(key) + 1);
  tercel_text_add_bytes(facts, value, strlen(value) + 1);
}

static void note_number(tercel_text *facts, const char *key, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, number);
  note(facts, key, text);
}

static void note_dims(tercel_text *facts, const tercel_engine_options *options) {
  for (size_t i = 0; i < options->num_dims; ++i) {
    if (options->dims[i].name == NULL) continue; /* refused later */
    tercel_text dim = {0};
    tercel_text_add(&dim, "%s=%lld", options->dims[i].name, (long long)options->dims[i].value);
    if (!dim.failed) note(facts, "dim", dim.data);
    facts->failed |= dim.failed;
    tercel_text_deinit(&dim);
  }
}

/* Options by the names of the command's; those that are off are not noted. */
void tercel_engine_note_options(tercel_engine *engine, const tercel_model *model,
                                const tercel_engine_options *options) {
  tercel_text *const facts = &engine->facts;
  const tercel_imported *const imported = &model->imported;
  note_dims(facts, options);
  if (options->no_optimize) note(facts, "no-optimize", "1");
  if (options->disable_passes != NULL) note(facts, "disable-passes", options->disable_passes);
  if (options->deterministic) note(facts, "deterministic", "1");
  if (options->max_memory != 0) note_number(facts, "max-memory", options->max_memory);
  note(facts, "format", imported->format);
  if (imported->producer != NULL && *imported->producer) note(facts, "producer", imported->producer);
  for (size_t i = 0; i < imported->num_metadata; ++i) {
    tercel_text key = {0};
    tercel_text_add(&key, "model.%s", imported->metadata[i].key);
    if (!key.failed) note(facts, key.data, imported->metadata[i].value);
    facts->failed |= key.failed;
    tercel_text_deinit(&key);
  }
}

static tercel_status note_source(tercel_text *facts, const char *source, tercel_error *err) {
  tercel_file file = {0};
  char checksum[20];
  if (source == NULL) return TERCEL_OK;
  TERCEL_TRY(tercel_file_open(source, true, &file, err));
  snprintf(checksum, sizeof checksum, "%016" PRIx64, tercel_checksum(file.data, file.size));
  tercel_file_close(&file);
  const char *const slash = strrchr(source, '/');
  note(facts, "source", slash != NULL ? slash + 1 : source);
  note(facts, "source-checksum", checksum);
  return TERCEL_OK;
}

/* ---- saving ------------------------------------------------------------------------------------------------------------ */

tercel_status tercel_engine_to_parts(const tercel_engine *engine, const char *source, tercel_engine_parts *out,
                                     tercel_error *err) {
  tercel_text *const metadata = &out->sections[TERCEL_SECTION_METADATA];
  note(metadata, "tercel", tercel_version());
  note(metadata, "cpu", tercel_cpu_name());
  note(metadata, "level", tercel_cpu_level_name(tercel_cpu_current()));
  note_number(metadata, "threads", (uint64_t)tercel_pool_num_threads(engine->pool));
  TERCEL_TRY(note_source(metadata, source, err));
  tercel_text_add_bytes(metadata, engine->facts.data, engine->facts.length);
  metadata->failed |= engine->facts.failed;
  TERCEL_TRY(tercel_engine_put_plan(out, engine->plan, err));
  tercel_engine_put_profiles(out, &engine->profiles);
  tercel_engine_put_checks(out, &engine->verification);
  if (tercel_timing_cache_count(engine->cache) == 0) return TERCEL_OK;
  return tercel_timing_cache_print(engine->cache, &out->sections[TERCEL_SECTION_TIMING], err);
}

tercel_status tercel_engine_save(const tercel_engine *engine, const char *path, const tercel_save_options *options,
                                 tercel_error *err) {
  const tercel_save_options defaults = {.size = sizeof defaults};
  if (options == NULL) options = &defaults;
  TERCEL_TRY(tercel_check_size(options->size, sizeof *options, "tercel_save_options", err));
  if (engine->verification.failed)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "a step differs from its reference by more than is allowed: %s",
                       "the engine is not saved");
  if (engine->look_only)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "the engine was loaded to be looked at only: it can't be saved");
  tercel_engine_parts parts = {0};
  pthread_mutex_lock(&engine->plan->shared->mutex); /* tactics may be swapped meanwhile */
  tercel_status status = tercel_engine_to_parts(engine, options->source, &parts, err);
  if (status == TERCEL_OK) status = tercel_engine_file_write(path, &parts, options->strip_weights != 0, err);
  pthread_mutex_unlock(&engine->plan->shared->mutex);
  tercel_engine_parts_deinit(&parts);
  return status;
}

/* ---- refitting --------------------------------------------------------------------------------------------------------- */

/* The options that a file notes. */
typedef struct noted {
  tercel_engine_options options;
  tercel_dim_value *dims; /* names are in `names` */
  tercel_arena names;
} noted;

static tercel_status read_dims(const tercel_engine_file *file, noted *out, tercel_error *err) {
  const char *key, *value;
  size_t count = 0;
  for (size_t i = 0; tercel_engine_file_metadata(file, i, &key, &value); ++i) count += strcmp(key, "dim") == 0;
  out->dims = tercel_zalloc_array(count + 1, sizeof *out->dims);
  if (out->dims == NULL) return tercel_fail_memory(err, count * sizeof *out->dims, "dims");
  for (size_t i = 0; tercel_engine_file_metadata(file, i, &key, &value); ++i) {
    if (strcmp(key, "dim") != 0) continue;
    const char *const equals = strrchr(value, '=');
    tercel_dim_value *const dim = &out->dims[out->options.num_dims++];
    if (equals == NULL || !tercel_parse_i64(equals + 1, strlen(equals + 1), &dim->value))
      return tercel_fail(err, TERCEL_INVALID_MODEL, "the engine notes a dim '%s', want NAME=SIZE", value);
    dim->name = tercel_arena_strndup(&out->names, value, (size_t)(equals - value));
    if (dim->name == NULL) return tercel_fail_memory(err, strlen(value), "dims");
  }
  out->options.dims = out->dims;
  return TERCEL_OK;
}

static int64_t number_of(const tercel_engine_file *file, const char *key) {
  const char *const value = tercel_engine_file_fact(file, key);
  int64_t number;
  return value != NULL && tercel_parse_i64(value, strlen(value), &number) ? number : 0;
}

static tercel_status read_options(const tercel_engine_file *file, noted *out, tercel_error *err) {
  const int64_t threads = number_of(file, "threads"), max_memory = number_of(file, "max-memory");
  out->options = (tercel_engine_options){.size = sizeof out->options,
                                         .num_threads = threads > 0 && threads <= INT32_MAX ? (int)threads : 0,
                                         .no_optimize = number_of(file, "no-optimize") != 0,
                                         .disable_passes = tercel_engine_file_fact(file, "disable-passes"),
                                         .deterministic = number_of(file, "deterministic") != 0,
                                         .max_memory = max_memory > 0 ? (uint64_t)max_memory : 0};
  return read_dims(file, out, err);
}

static bool same_section(const tercel_engine_file *file, const tercel_engine_parts *parts, tercel_section section) {
  return tercel_checksum(parts->sections[section].data, parts->sections[section].length) ==
         file->sections[section].checksum;
}

/* What was rebuilt has to be what was stripped, up to how this machine runs it. */
static tercel_status compare(const tercel_engine_file *file, const tercel_engine_parts *parts, tercel_error *err) {
  static const tercel_section sections[] = {TERCEL_SECTION_NAMES, TERCEL_SECTION_GRAPH, TERCEL_SECTION_PLAN,
                                            TERCEL_SECTION_CONSTANTS};
  for (size_t i = 0; i < sizeof sections / sizeof *sections; ++i) {
    if (same_section(file, parts, sections[i])) continue;
    const char *const version = tercel_engine_file_fact(file, "tercel");
    const char *const level = tercel_engine_file_fact(file, "level");
    return tercel_fail(
        err, TERCEL_INVALID_ARGUMENT,
        "the model gives another %s than the engine has: it is not the one that the engine was built from, or "
        "this is not tercel %s at CPU level %s, which built it (this is tercel %s at %s)",
        tercel_section_name(sections[i]), version != NULL ? version : "?", level != NULL ? level : "?",
        tercel_version(), tercel_cpu_level_name(tercel_cpu_current()));
  }
  return TERCEL_OK;
}

/* Metadata, profiles and checks are the stripped file's. */
static void keep_sections(const tercel_engine_file *file, tercel_engine_parts *parts) {
  static const tercel_section sections[] = {TERCEL_SECTION_METADATA, TERCEL_SECTION_PROFILES, TERCEL_SECTION_CHECKS,
                                            TERCEL_SECTION_TIMING};
  for (size_t i = 0; i < sizeof sections / sizeof *sections; ++i) {
    tercel_text *const section = &parts->sections[sections[i]];
    section->length = 0;
    tercel_text_add_bytes(section, (const char *)file->sections[sections[i]].data, file->sections[sections[i]].bytes);
  }
}

tercel_status tercel_engine_refit(const char *path, const tercel_model *model, const char *out_path,
                                  tercel_error *err) {
  tercel_engine_file file = {0};
  tercel_engine_parts parts = {0};
  tercel_engine *engine = NULL;
  noted wanted = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_engine_file_open(path, true, &file, err));
  if (!file.stripped) {
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s has its weights: there is nothing to refit", path);
    goto done;
  }
  TERCEL_CHECK(read_options(&file, &wanted, err));
  TERCEL_CHECK(tercel_engine_build(model, &wanted.options, &engine, err));
  TERCEL_CHECK(tercel_engine_to_parts(engine, NULL, &parts, err));
  TERCEL_CHECK(compare(&file, &parts, err));
  keep_sections(&file, &parts);
  status = tercel_engine_file_write(out_path, &parts, false, err);
done:
  tercel_engine_parts_deinit(&parts);
  tercel_engine_destroy(engine);
  tercel_free(wanted.dims);
  tercel_arena_deinit(&wanted.names);
  tercel_engine_file_close(&file);
  return status;
}
