/* Runs the passes, stage by stage, each to its fixed point. */
#include "optimize/optimize.h"

#include <string.h>

#include "optimize/decisions.h"
#include "optimize/savings.h"

enum { MAX_ROUNDS = 100 }; /* of one stage: far more than any graph needs; a bound, should two passes undo each other */

static const tercel_pass passes[] = {
#define TERCEL_PASS(function, name, stage, about) {name, about, stage, tercel_pass_##function, false},
#define TERCEL_PASS_ONCE(function, name, stage, about) {name, about, stage, tercel_pass_##function, true},
#include "optimize/passes.inc"
#undef TERCEL_PASS
};
enum { NUM_PASSES = sizeof passes / sizeof *passes };
_Static_assert((int)NUM_PASSES <= (int)TERCEL_MAX_PASSES, "decisions have no room for the times");

const tercel_pass *tercel_pass_at(size_t i) { return i < NUM_PASSES ? &passes[i] : NULL; }

/* ---- options ---- */

static bool is_name(const tercel_pass *pass, const char *name, size_t length) {
  return strlen(pass->name) == length && memcmp(pass->name, name, length) == 0;
}

/* Walks the names in a list: the next one at *at, its length; false after the last. */
static bool next_name(const char **at, const char **name, size_t *length) {
  while (**at == ',' || **at == ' ') ++*at;
  *name = *at;
  *length = strcspn(*at, ", ");
  *at += *length;
  return *length > 0;
}

static bool is_disabled(const tercel_pass *pass, const char *disabled) {
  const char *name;
  size_t length;
  while (disabled && next_name(&disabled, &name, &length))
    if (is_name(pass, name, length)) return true;
  return false;
}

static tercel_status check_names(const char *disabled, tercel_error *err) {
  const char *name;
  size_t length;
  while (disabled && next_name(&disabled, &name, &length)) {
    size_t i = 0;
    while (i < NUM_PASSES && !is_name(&passes[i], name, length)) i++;
    if (i == NUM_PASSES)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "there is no optimizer pass '%.*s'",
                         (int)(length < 64 ? length : 64), name);
  }
  return TERCEL_OK;
}

/* ---- running ---- */

/* A graph, then its subgraphs. */
static tercel_status run_on(const tercel_pass *pass, tercel_graph *graph, tercel_pass_context *context,
                            tercel_error *err) {
  TERCEL_TRY(tercel_savings_begin(context, graph, err));
  TERCEL_TRY(pass->run(graph, context, err));
  TERCEL_TRY(tercel_savings_settle(context, err));
  for (tercel_node *node = graph->first; node; node = node->next)
    for (uint32_t i = 0; i < node->num_graphs; i++) TERCEL_TRY(run_on(pass, node->graphs[i], context, err));
  return TERCEL_OK;
}

static tercel_status run_pass(const tercel_pass *pass, int stage, tercel_graph *graph, bool verify,
                              tercel_pass_context *context, tercel_error *err) {
  context->pass = pass->name;
  const size_t decided = context->decisions->count;
  const int64_t counted_before = context->savings ? context->savings->total_ns : 0, start = tercel_time_ns();
  tercel_status status = run_on(pass, graph, context, err);
  tercel_decisions_renew_refusals(context->decisions, pass->name, decided, stage > pass->stage);
  const int64_t counted = context->savings ? context->savings->total_ns - counted_before : 0;
  tercel_pass_time *const time = &context->decisions->times[pass - passes];
  time->total_us += (double)(tercel_time_ns() - start - counted) / 1e3;
  time->num_runs++;
  if (status == TERCEL_OK && verify && context->changed) status = tercel_graph_verify(graph, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "optimizer pass '%s'", pass->name);
}

/* Changes to the graph, counted by the pass that made them. */
typedef struct history {
  uint32_t version;          /* of the graph: it has changed so many times */
  uint32_t seen[NUM_PASSES]; /* the version, plus 1, that the pass found nothing to do with; 0: none */
} history;

/* A pass that found nothing to do need not look again at a graph that has not changed since. */
static tercel_status run_stage(int stage, tercel_graph *graph, const tercel_optimize_options *options,
                               tercel_pass_context *context, history *h, tercel_error *err) {
  for (int round = 0; round < MAX_ROUNDS; round++) {
    const uint32_t before = h->version;
    for (size_t i = 0; i < NUM_PASSES; i++) {
      const bool done = passes[i].once ? h->seen[i] > 0 : h->seen[i] == h->version + 1;
      if (passes[i].stage > stage || done || is_disabled(&passes[i], options->disabled)) continue;
      context->changed = false;
      TERCEL_TRY(run_pass(&passes[i], stage, graph, options->verify, context, err));
      if (context->changed) h->version++;
      if (!context->changed || passes[i].once) h->seen[i] = h->version + 1;
    }
    if (h->version == before) return TERCEL_OK;
  }
  tercel_log(TERCEL_LOG_WARNING, "the optimizer stopped after %d rounds that all changed the graph", MAX_ROUNDS);
  return TERCEL_OK;
}

/* What the graph took before: many of its shapes are not known until constants are folded, so the graph itself can't tell. */
static void add_up(tercel_decisions *decisions) {
  decisions->before.bytes = decisions->after.bytes;
  decisions->before.flops = decisions->after.flops;
  for (size_t i = 0; i < decisions->count; i++) {
    decisions->before.bytes += decisions->items[i].bytes_saved;
    decisions->before.flops += decisions->items[i].flops_saved;
  }
}

tercel_status tercel_optimize(tercel_graph *graph, const tercel_optimize_options *options, tercel_decisions *decisions,
                              tercel_error *err) {
  const tercel_optimize_options defaults = {0};
  if (!options) options = &defaults;
  TERCEL_TRY(check_names(options->disabled, err));
  const int last = options->level ? options->level : passes[NUM_PASSES - 1].stage;
  tercel_decisions own = {0};
  if (!decisions) decisions = &own;
  for (size_t i = 0; i < NUM_PASSES; i++) decisions->times[i] = (tercel_pass_time){.name = passes[i].name};
  tercel_savings savings;
  tercel_savings_init(&savings);
  tercel_pass_context context = {.decisions = decisions,
                                 .savings = decisions->count_savings ? &savings : NULL,
                                 .shapes_only = options->shapes_only,
                                 .eval = options->eval ? options->eval : tercel_eval_node,
                                 .node_cost = options->node_cost,
                                 .cost_user = options->cost_user};
  decisions->before.num_nodes = tercel_graph_count_nodes(graph);
  tercel_status status = TERCEL_OK;
  history h = {0};
  for (int stage = 1; stage <= last; stage++) TERCEL_CHECK(run_stage(stage, graph, options, &context, &h, err));
  decisions->after.num_nodes = tercel_graph_count_nodes(graph);
  if (context.savings) {
    TERCEL_CHECK(tercel_savings_count(&savings, graph, &decisions->after, err));
    add_up(decisions);
  }
done:
  tercel_savings_deinit(&savings);
  tercel_decisions_deinit(&own);
  return status;
}
