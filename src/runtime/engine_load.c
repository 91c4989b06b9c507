/* Engines from files, and what can be asked of them.  The format: plan/engine_file.h. */
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "runtime/runtime.h"

/* ---- loading ----------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const tercel_engine_file *file, const char *key) {
  const char *const value = tercel_engine_file_fact(file, key);
  int64_t number;
  return value != NULL && tercel_parse_i64(value, strlen(value), &number) ? number : 0;
}

/* Facts are all metadata but what a file says of the machine that wrote it. */
static void take_facts(tercel_engine *engine) {
  static const char *const of_machine[] = {"tercel", "cpu", "level", "threads"};
  const char *key, *value;
  for (size_t i = 0; tercel_engine_file_metadata(&engine->file, i, &key, &value); ++i) {
    bool skip = false;
    for (size_t m = 0; m < sizeof of_machine / sizeof *of_machine; ++m) skip |= strcmp(key, of_machine[m]) == 0;
    if (skip) continue;
    tercel_text_add_bytes(&engine->facts, key, strlen(key) + 1);
    tercel_text_add_bytes(&engine->facts, value, strlen(value) + 1);
  }
}

/* What is not as in the file is said. */
static void report(const tercel_engine *engine) {
  const char *const level = tercel_engine_file_fact(&engine->file, "level");
  const tercel_plan *const plan = engine->plan;
  if (plan->num_repacked + plan->num_replaced == 0) return;
  tercel_log(TERCEL_LOG_INFO,
             "engine built at level %s, runs at %s: %u steps have other kernels, weights of %u were packed anew",
             level != NULL ? level : "?", tercel_cpu_level_name(tercel_cpu_current()), plan->num_replaced,
             plan->num_repacked);
}

static tercel_status make_plan(tercel_engine *engine, const tercel_load_options *options, tercel_error *err) {
  uint32_t num_given;
  TERCEL_TRY(tercel_engine_get_choices(&engine->file, &engine->names, &engine->given, &num_given, err));
  const tercel_section_bytes *const times = &engine->file.sections[TERCEL_SECTION_TIMING];
  TERCEL_TRY(tercel_timing_cache_create(&engine->cache, err));
  if (times->bytes > 0)
    TERCEL_TRY(
        tercel_timing_cache_read(engine->cache, (const char *)times->data, times->bytes, "section 'timing'", err));
  const tercel_plan_options wanted = {.target = {.num_threads = tercel_pool_num_threads(engine->pool),
                                                 .deterministic = number_of(&engine->file, "deterministic") != 0},
                                      .pool = engine->pool,
                                      .cache = engine->cache,
                                      .given = engine->given,
                                      .num_given = num_given,
                                      .look_only = options->look_only != 0};
  TERCEL_TRY(tercel_plan_create(engine->graph, tercel_cpu_backend(), &wanted, &engine->plan, err));
  tercel_engine_count_mapped(engine);
  return TERCEL_OK;
}

/* What engine->file holds. */
static tercel_status load(tercel_engine *engine, const tercel_load_options *options, tercel_error *err) {
  tercel_engine_file *const file = &engine->file;
  if (file->stripped && !options->look_only)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "the weights were stripped: give them back with `tercel refit FILE MODEL -o FILE`");
  if (options->check_weights) TERCEL_TRY(tercel_engine_file_check_weights(file, err));
  TERCEL_TRY(tercel_engine_get_names(file, &engine->names, err));
  TERCEL_TRY(tercel_engine_get_graph(file, &engine->names, engine->operators, &engine->graph, err));
  TERCEL_TRY(tercel_engine_get_profiles(file, engine->graph, &engine->profiles, err));
  TERCEL_TRY(tercel_pool_create(options->num_threads, &engine->pool, err));
  TERCEL_TRY(make_plan(engine, options, err));
  TERCEL_TRY(tercel_engine_get_checks(file, engine->plan->num_rows, &engine->verification, err));
  TERCEL_TRY(tercel_interface_init(engine->graph, &engine->interface, err));
  take_facts(engine);
  if (engine->facts.failed) return tercel_fail_memory(err, engine->facts.length, "an engine's metadata");
  report(engine);
  const int64_t built_with = number_of(file, "max-memory");
  engine->max_memory = options->max_memory != 0 ? options->max_memory : built_with > 0 ? (uint64_t)built_with : 0;
  return engine->max_memory != 0 && !engine->look_only ? tercel_engine_check_memory(engine, err) : TERCEL_OK;
}

static const tercel_load_options defaults = {.size = sizeof defaults};

static tercel_status start(const tercel_load_options *options, tercel_engine **out, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(options->size, sizeof *options, "tercel_load_options", err));
  if (options->num_threads < 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d threads, want 0 (as many as there are CPUs) or more",
                       options->num_threads);
  TERCEL_TRY(tercel_engine_create(out, err));
  (*out)->operators = tercel_operators_retain(options->operators);
  (*out)->look_only = options->look_only != 0;
  return TERCEL_OK;
}

tercel_status tercel_engine_load(const char *path, const tercel_load_options *options, tercel_engine **out,
                                 tercel_error *err) {
  tercel_engine *engine = NULL;
  if (options == NULL) options = &defaults;
  TERCEL_TRY(start(options, &engine, err));
  tercel_status status = tercel_engine_file_open(path, !options->no_mmap, &engine->file, err);
  if (status == TERCEL_OK) {
    status = load(engine, options, err);
    if (status != TERCEL_OK) tercel_fail_at(err, status, "%s", path);
  }
  if (status != TERCEL_OK)
    tercel_engine_destroy(engine);
  else
    *out = engine;
  return status;
}

tercel_status tercel_engine_load_memory(const void *data, size_t bytes, const tercel_load_options *options,
                                        tercel_engine **out, tercel_error *err) {
  tercel_engine *engine = NULL;
  if (options == NULL) options = &defaults;
  TERCEL_TRY(start(options, &engine, err));
  tercel_status status = tercel_engine_file_open_memory(data, bytes, &engine->file, err);
  if (status == TERCEL_OK) status = load(engine, options, err);
  if (status != TERCEL_OK)
    tercel_engine_destroy(engine);
  else
    *out = engine;
  return status;
}

int tercel_is_engine_file(const char *path) {
  char begin[8];
  FILE *const file = fopen(path, "rb");
  if (file == NULL) return 0;
  const bool is = fread(begin, 1, sizeof begin, file) == sizeof begin && tercel_engine_file_is(begin, sizeof begin);
  fclose(file);
  return is;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------ */

tercel_status tercel_engine_get_info(const tercel_engine *engine, tercel_engine_info *info, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_engine_info", err));
  *info = (tercel_engine_info){.size = info->size,
                               .from_file = engine->file.format != 0,
                               .stripped = engine->file.stripped,
                               .format = engine->file.format,
                               .num_steps = engine->plan->num_rows,
                               .num_replaced = engine->plan->num_replaced,
                               .num_repacked = engine->plan->num_repacked,
                               .packed_bytes = engine->plan->packed_bytes,
                               .mapped_bytes = engine->mapped_bytes};
  return TERCEL_OK;
}

/* Pair number *index of texts behind each other; counts it down by those that are there. */
static int find_pair(const char *at, size_t length, size_t *index, const char **key, const char **value) {
  for (const char *const end = at + length; at < end; --*index) {
    const char *const second = at + strlen(at) + 1;
    if (*index == 0) {
      *key = at;
      *value = second;
      return 1;
    }
    at = second + strlen(second) + 1;
  }
  return 0;
}

int tercel_engine_get_metadata(const tercel_engine *engine, size_t index, const char **key, const char **value) {
  if (engine->file.format != 0) return tercel_engine_file_metadata(&engine->file, index, key, value);
  return find_pair(engine->facts.data, engine->facts.length, &index, key, value);
}

int tercel_engine_get_section(const tercel_engine *engine, size_t index, tercel_file_section *out) {
  if (engine->file.format == 0 || index >= TERCEL_NUM_SECTIONS) return 0;
  const tercel_section_bytes *const s = &engine->file.sections[index];
  *out = (tercel_file_section){tercel_section_name((tercel_section)index), s->offset, s->bytes, s->checksum};
  return 1;
}

/* ---- steps ---- */

typedef struct step_search {
  size_t index, at;
  const tercel_step *step;
  int depth;
} step_search;

static void find_step(const tercel_step *step, int depth, void *user) {
  step_search *const search = user;
  if (search->at++ != search->index) return;
  search->step = step;
  search->depth = depth;
}

static void describe_output(const tercel_node *node, tercel_step_info *out) {
  const tercel_value *const value = tercel_node_output(node, 0);
  out->rank = -1;
  if (value == NULL) return;
  out->dtype = value->type.dtype;
  out->rank = value->type.shape.rank;
  for (int d = 0; d < out->rank; ++d) {
    const tercel_dim dim = value->type.shape.dims[d];
    out->dims[d] = tercel_dim_is_known(dim) ? dim : -1;
  }
}

int tercel_engine_get_step(const tercel_engine *engine, size_t index, tercel_step_info *out) {
  step_search search = {.index = index};
  if (index >= engine->plan->num_rows) return 0;
  tercel_plan_visit(engine->plan, find_step, &search);
  const tercel_step *const step = search.step;
  const tercel_packed *packed = &step->state.packed;
  if (engine->look_only) packed = &engine->given[step->row].packed;
  *out = (tercel_step_info){.name = step->node->name,
                            .op = step->node->op->name,
                            .tactic = tercel_step_tactic(step),
                            .packing = packed->format.name,
                            .packed_bytes = packed->format.bytes,
                            .sources = step->node->sources,
                            .num_sources = step->node->num_sources,
                            .depth = search.depth};
  if (packed->data != NULL && packed->format.inputs != 0)
    out->packed_checksum = tercel_checksum(packed->data, packed->format.bytes);
  describe_output(step->node, out);
  return 1;
}
