/* Engines: a model's graph cloned with the dims that were fixed, optimized, planned.  Counted: contexts keep theirs alive. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cost.h"

/* ---- building ------------------------------------------------------------------------------------------------------ */

typedef struct fixed_dims {
  const tercel_dim_value *dims;
  size_t count;
  bool *used; /* by dim */
} fixed_dims;

static bool value_of(void *user, const char *symbol, int64_t *out) {
  const fixed_dims *const fixed = user;
  for (size_t i = 0; i < fixed->count; ++i) {
    if (strcmp(fixed->dims[i].name, symbol) != 0) continue;
    *out = fixed->dims[i].value;
    fixed->used[i] = true;
    return true;
  }
  return false;
}

static tercel_status clone_graph(const tercel_graph *graph, const tercel_engine_options *options, tercel_graph **out,
                                 tercel_error *err) {
  fixed_dims fixed = {options->dims, options->num_dims, NULL};
  for (size_t i = 0; i < fixed.count; ++i)
    if (fixed.dims[i].name == NULL || fixed.dims[i].value < 0)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "dim '%s' fixed to %lld, want a size",
                         fixed.dims[i].name != NULL ? fixed.dims[i].name : "", (long long)fixed.dims[i].value);
  fixed.used = tercel_zalloc_array(fixed.count + 1, sizeof *fixed.used);
  if (fixed.used == NULL) return tercel_fail_memory(err, fixed.count + 1, "fixed dims");
  tercel_status status = tercel_graph_clone(graph, fixed.count > 0 ? value_of : NULL, &fixed, out, err);
  for (size_t i = 0; status == TERCEL_OK && i < fixed.count; ++i) {
    if (!fixed.used[i])
      status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "no dim of the model is named '%s'", fixed.dims[i].name);
  }
  tercel_free(fixed.used);
  return status;
}

/* Bytes of constants that steps read straight from mapped files. */
static void count_mapped(const tercel_step *step, int depth, void *user) {
  (void)depth;
  uint64_t *const bytes = user;
  *bytes += tercel_packed_mapped_bytes(&step->state.packed);
  for (uint32_t i = 0; i < step->node->num_inputs; ++i) {
    const tercel_value *const value = step->node->inputs[i];
    const bool packed = i < 32 && (step->state.unused_inputs & (1u << i));
    if (value == NULL || value->constant == NULL || value->storage == NULL || packed) continue;
    if (tercel_storage_is_mapped(value->storage)) *bytes += value->constant->bytes;
  }
}

void tercel_engine_count_mapped(tercel_engine *engine) {
  engine->mapped_bytes = 0;
  tercel_plan_visit(engine->plan, count_mapped, &engine->mapped_bytes);
}

/* What passes weigh. */
typedef struct costs {
  tercel_nominal nominal;
  tercel_target target;
  bool all_nhwc; /* TERCEL_LAYOUT=nhwc, for tests: whatever can be in NHWC is, whether it pays or not */
} costs;

static double node_cost(void *user, const tercel_node *node) {
  costs *const c = user;
  if (!c->all_nhwc) return tercel_node_cost(tercel_cpu_backend(), node, &c->nominal, &c->target);
  const bool has_layout = node->op->id == TERCEL_OP_CONV || node->op->id == TERCEL_OP_POOL;
  return has_layout && tercel_node_layout(node) == TERCEL_LAYOUT_NCHW ? 1e9 : 1;
}

/* TERCEL_LAYOUT=nchw keeps the model's layout.  So do deterministic engines: estimates differ between levels, and layouts would
 * with them. */
static bool keeps_layout(const tercel_engine_options *options, const char *forced) {
  return options->deterministic || (forced != NULL && strcmp(forced, "nchw") == 0);
}

static tercel_status optimize(tercel_engine *engine, const tercel_engine_options *options, tercel_error *err) {
  const char *const forced = getenv("TERCEL_LAYOUT");
  tercel_profile_at opt = {&engine->profiles, engine->graph, 0, TERCEL_PROFILE_OPT};
  costs weighed = {
      .target = {.num_threads = 1}, /* whatever the engine has: layouts, and so results, do not depend on it */
      .all_nhwc = forced != NULL && strcmp(forced, "nhwc") == 0};
  const tercel_optimize_options wanted = {.disabled = options->disable_passes,
                                          .verify = options->check != 0,
                                          .eval = options->deterministic ? tercel_cpu_eval_node_exact
                                                                         : tercel_cpu_eval_node,
                                          .node_cost = keeps_layout(options, forced) ? NULL : node_cost,
                                          .cost_user = &weighed};
  tercel_graph *compact = NULL;
  engine->decisions.count_savings = options->count_savings != 0;
  tercel_nominal_init(&weighed.nominal, engine->graph, engine->profiles.count > 0 ? tercel_profile_value_of : NULL,
                      &opt);
  const tercel_status status = tercel_optimize(engine->graph, &wanted, &engine->decisions, err);
  tercel_nominal_deinit(&weighed.nominal);
  if (status != TERCEL_OK) return status;
  /* Passes leave what they removed in the graph's memory, and gaps among the values' numbers. */
  TERCEL_TRY(tercel_graph_clone(engine->graph, NULL, NULL, &compact, err));
  tercel_graph_destroy(engine->graph);
  engine->graph = compact;
  return TERCEL_OK;
}

/* Nodes in an order that keeps less alive, as the first profile's usual shapes tell it. */
static tercel_status order(tercel_engine *engine, tercel_error *err) {
  tercel_profile_at at = {&engine->profiles, engine->graph, 0, TERCEL_PROFILE_OPT};
  tercel_order_stats stats;
  TERCEL_TRY(
      tercel_order_nodes(engine->graph, engine->profiles.count > 0 ? tercel_profile_value_of : NULL, &at, &stats, err));
  if (stats.changed)
    tercel_log(TERCEL_LOG_INFO, "nodes in another order keep %.0f %% of the memory alive",
               100 * stats.after_bytes / stats.before_bytes);
  return TERCEL_OK;
}

/* Constants that kernels packed are dropped, unless they are to be read again by reference kernels. */
static tercel_status plan(tercel_engine *engine, const tercel_engine_options *options, tercel_error *err) {
  tercel_profile_at opt = {&engine->profiles, engine->graph, 0, TERCEL_PROFILE_OPT};
  const bool has_profile = engine->profiles.count > 0, is_tuned = options->tune_seconds > 0;
  const tercel_plan_options wanted = {
      .target = {.num_threads = tercel_pool_num_threads(engine->pool), .deterministic = options->deterministic != 0},
      .pool = engine->pool,
      .size_of = has_profile ? tercel_profile_value_of : NULL,
      .size_user = &opt,
      .cache = engine->cache,
      .keep_weights = options->keep_weights != 0 || is_tuned};
  tercel_held_constants held = {0};
  if (options->verify) TERCEL_TRY(tercel_constants_hold(engine->graph, &held, err));
  tercel_status status = tercel_plan_create(engine->graph, tercel_cpu_backend(), &wanted, &engine->plan, err);
  if (status == TERCEL_OK && is_tuned) status = tercel_engine_tune(engine, options, err);
  tercel_constants_restore(&held);
  return status;
}

static tercel_status build(tercel_engine *engine, const tercel_graph *graph, const tercel_engine_options *options,
                           tercel_error *err) {
  TERCEL_TRY(clone_graph(graph, options, &engine->graph, err));
  TERCEL_TRY(tercel_profiles_init(engine->graph, options->profiles, options->num_profiles, &engine->profiles, err));
  TERCEL_TRY(tercel_infer_graph(engine->graph, err));
  TERCEL_TRY(tercel_graph_verify(engine->graph, err));
  TERCEL_TRY(tercel_pool_create(options->num_threads, &engine->pool, err));
  TERCEL_TRY(tercel_engine_read_times(engine, options, err));
  if (!options->no_optimize) TERCEL_TRY(optimize(engine, options, err));
  if (!options->no_optimize) TERCEL_TRY(order(engine, err));
  TERCEL_TRY(plan(engine, options, err));
  tercel_engine_count_mapped(engine);
  TERCEL_TRY(tercel_interface_init(engine->graph, &engine->interface, err));
  return engine->max_memory != 0 ? tercel_engine_check_memory(engine, err) : TERCEL_OK;
}

tercel_status tercel_engine_create(tercel_engine **out, tercel_error *err) {
  tercel_engine *const engine = tercel_zalloc(sizeof *engine);
  if (engine == NULL) return tercel_fail_memory(err, sizeof *engine, "an engine");
  atomic_init(&engine->refs, 1);
  pthread_mutex_init(&engine->background_mutex, NULL);
  *out = engine;
  return TERCEL_OK;
}

tercel_status tercel_engine_build(const tercel_model *model, const tercel_engine_options *options, tercel_engine **out,
                                  tercel_error *err) {
  const tercel_engine_options defaults = {.size = sizeof defaults};
  if (options == NULL) options = &defaults;
  TERCEL_TRY(tercel_check_size(options->size, sizeof *options, "tercel_engine_options", err));
  if (options->num_threads < 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d threads, want 0 (as many as there are CPUs) or more",
                       options->num_threads);
  tercel_engine *engine = NULL;
  TERCEL_TRY(tercel_engine_create(&engine, err));
  engine->max_memory = options->max_memory;
  tercel_engine_note_options(engine, model, options);
  engine->operators = tercel_operators_retain(model->operators);
  const tercel_status status = engine->facts.failed ? tercel_fail_memory(err, engine->facts.length, "an engine")
                                                    : build(engine, model->imported.graph, options, err);
  if (status != TERCEL_OK) {
    tercel_engine_destroy(engine);
    return status;
  }
  *out = engine;
  return TERCEL_OK;
}

tercel_engine *tercel_engine_retain(tercel_engine *engine) {
  atomic_fetch_add_explicit(&engine->refs, 1, memory_order_relaxed);
  return engine;
}

void tercel_engine_destroy(tercel_engine *engine) {
  if (engine == NULL || atomic_fetch_sub_explicit(&engine->refs, 1, memory_order_acq_rel) > 1) return;
  tercel_background_destroy(engine->background);
  pthread_mutex_destroy(&engine->background_mutex);
  tercel_plan_destroy(engine->plan);
  tercel_timing_cache_destroy(engine->cache);
  tercel_profiles_deinit(&engine->profiles);
  tercel_graph_destroy(engine->graph);
  tercel_operators_destroy(engine->operators);
  tercel_pool_release(engine->pool);
  tercel_interface_deinit(&engine->interface);
  tercel_decisions_deinit(&engine->decisions);
  tercel_verification_deinit(&engine->verification);
  tercel_text_deinit(&engine->facts);
  tercel_free(engine->given);
  tercel_free(engine->names.names);
  tercel_engine_file_close(&engine->file);
  tercel_free(engine);
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

size_t tercel_engine_num_inputs(const tercel_engine *engine) { return engine->interface.num_inputs; }
size_t tercel_engine_num_outputs(const tercel_engine *engine) { return engine->interface.num_outputs; }
int tercel_engine_num_threads(const tercel_engine *engine) { return tercel_pool_num_threads(engine->pool); }

tercel_status tercel_engine_get_input(const tercel_engine *engine, size_t index, tercel_io *out, tercel_error *err) {
  return tercel_interface_input(&engine->interface, index, out, err);
}

tercel_status tercel_engine_get_output(const tercel_engine *engine, size_t index, tercel_io *out, tercel_error *err) {
  return tercel_interface_output(&engine->interface, index, out, err);
}

int tercel_engine_get_profile_shape(const tercel_engine *engine, size_t profile, size_t input,
                                    tercel_profile_shape *out) {
  if (profile >= engine->profiles.count || input >= engine->profiles.num_inputs) return 0;
  const tercel_shape_range *const range = tercel_profiles_range(&engine->profiles, profile, input);
  if (range->rank < 0) return 0;
  *out = (tercel_profile_shape){.input = engine->interface.inputs[input].name, .rank = range->rank};
  for (int d = 0; d < range->rank; ++d) {
    out->min[d] = range->dims[TERCEL_PROFILE_MIN][d];
    out->opt[d] = range->dims[TERCEL_PROFILE_OPT][d];
    out->max[d] = range->dims[TERCEL_PROFILE_MAX][d];
  }
  return 1;
}

tercel_status tercel_engine_print(const tercel_engine *engine, tercel_print what, char **text_out, tercel_error *err) {
  tercel_text text = {0};
  if (what == TERCEL_PRINT_DECISIONS) {
    tercel_decisions_print(&engine->decisions, &text);
    return tercel_hand_out_text(&text, text_out, err);
  }
  if (what == TERCEL_PRINT_TIMING_CACHE) {
    const tercel_status printed = tercel_timing_cache_print(engine->cache, &text, err);
    if (printed == TERCEL_OK) return tercel_hand_out_text(&text, text_out, err);
    tercel_text_deinit(&text);
    return printed;
  }
  if (what != TERCEL_PRINT_PLAN) return tercel_print_graph(engine->graph, what, text_out, err);
  const tercel_status status = tercel_print_plan(engine, &text, err);
  if (status == TERCEL_OK) return tercel_hand_out_text(&text, text_out, err);
  tercel_text_deinit(&text);
  return status;
}

int tercel_engine_get_decision(const tercel_engine *engine, size_t index, tercel_decision *out) {
  if (index >= engine->decisions.count) return 0;
  *out = engine->decisions.items[index];
  return 1;
}

int tercel_engine_get_pass_time(const tercel_engine *engine, size_t index, tercel_pass_time *out) {
  if (index >= TERCEL_MAX_PASSES || engine->decisions.times[index].name == NULL) return 0;
  *out = engine->decisions.times[index];
  return 1;
}

void tercel_engine_get_work(const tercel_engine *engine, tercel_work *before, tercel_work *after) {
  *before = engine->decisions.before;
  *after = engine->decisions.after;
}

const char *tercel_pass_name(size_t index, const char **what) {
  const tercel_pass *const pass = tercel_pass_at(index);
  if (pass == NULL) return NULL;
  if (what != NULL) *what = pass->about;
  return pass->name;
}
