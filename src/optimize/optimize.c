/* Runs the passes, stage by stage, each to its fixed point. */
#include "optimize/optimize.h"

#include <string.h>

#include "optimize/decisions.h"

enum { MAX_ROUNDS = 100 }; /* of one stage: far more than any graph needs; a bound, should two passes undo each other */

static const tercel_pass passes[] = {
#define TERCEL_PASS(function, name, stage, about) {name, about, stage, tercel_pass_##function},
#include "optimize/passes.inc"
#undef TERCEL_PASS
};
enum { NUM_PASSES = sizeof passes / sizeof *passes };

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
  TERCEL_TRY(pass->run(graph, context, err));
  for (tercel_node *node = graph->first; node; node = node->next)
    for (uint32_t i = 0; i < node->num_graphs; i++) TERCEL_TRY(run_on(pass, node->graphs[i], context, err));
  return TERCEL_OK;
}

static tercel_status run_pass(const tercel_pass *pass, tercel_graph *graph, bool verify, tercel_pass_context *context,
                              tercel_error *err) {
  const bool changed_before = context->changed;
  context->pass = pass->name;
  context->changed = false;
  tercel_decisions_forget_refusals(context->decisions, pass->name);
  tercel_status status = run_on(pass, graph, context, err);
  if (status == TERCEL_OK && verify && context->changed) status = tercel_graph_verify(graph, err);
  context->changed |= changed_before;
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "optimizer pass '%s'", pass->name);
}

static tercel_status run_stage(int stage, tercel_graph *graph, const tercel_optimize_options *options,
                               tercel_pass_context *context, tercel_error *err) {
  for (int round = 0; round < MAX_ROUNDS; round++) {
    context->changed = false;
    for (size_t i = 0; i < NUM_PASSES; i++)
      if (passes[i].stage <= stage && !is_disabled(&passes[i], options->disabled))
        TERCEL_TRY(run_pass(&passes[i], graph, options->verify, context, err));
    if (!context->changed) return TERCEL_OK;
  }
  tercel_log(TERCEL_LOG_WARNING, "the optimizer stopped after %d rounds that all changed the graph", MAX_ROUNDS);
  return TERCEL_OK;
}

tercel_status tercel_optimize(tercel_graph *graph, const tercel_optimize_options *options, tercel_decisions *decisions,
                              tercel_error *err) {
  const tercel_optimize_options defaults = {0};
  if (!options) options = &defaults;
  TERCEL_TRY(check_names(options->disabled, err));
  const int last = options->level ? options->level : passes[NUM_PASSES - 1].stage;
  tercel_decisions own = {0};
  tercel_pass_context context = {.decisions = decisions ? decisions : &own};
  tercel_status status = TERCEL_OK;
  for (int stage = 1; stage <= last && status == TERCEL_OK; stage++)
    status = run_stage(stage, graph, options, &context, err);
  tercel_decisions_deinit(&own);
  return status;
}
