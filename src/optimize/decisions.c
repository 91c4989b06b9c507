/* The log of what passes did and refused. */
#include "optimize/decisions.h"

#include <stdio.h>
#include <string.h>

static tercel_status no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for the optimizer's decisions");
}

static void add_sources(tercel_text *text, const tercel_node *node) {
  for (uint32_t i = 0; node && i < node->num_sources; i++)
    tercel_text_add(text, "%s%s", text->length ? " + " : "", node->sources[i]);
}

static tercel_status add(tercel_pass_context *context, const char *rule, const tercel_node *node,
                         const tercel_node *other, const char *reason, tercel_error *err) {
  tercel_decisions *const log = context->decisions;
  if (log->count == log->capacity) {
    const size_t capacity = log->capacity ? 2 * log->capacity : 64;
    tercel_decision *const grown = tercel_realloc(log->items, log->count * sizeof *grown, capacity * sizeof *grown);
    if (!grown) return no_memory(err);
    log->items = grown;
    log->capacity = capacity;
  }
  tercel_text names = {0};
  add_sources(&names, node);
  add_sources(&names, other);
  tercel_decision *const d = &log->items[log->count];
  *d = (tercel_decision){.pass = context->pass, .rule = rule};
  if (!names.failed) d->nodes = tercel_arena_strdup(&log->arena, names.data ? names.data : "");
  if (reason) d->reason = tercel_arena_strdup(&log->arena, reason);
  tercel_text_deinit(&names);
  if (!d->nodes || (reason && !d->reason)) return no_memory(err);
  log->count++;
  return TERCEL_OK;
}

tercel_status tercel_made(tercel_pass_context *context, const char *rule, const tercel_node *node,
                          const tercel_node *other, tercel_error *err) {
  context->changed = true;
  return add(context, rule, node, other, NULL, err);
}

tercel_status tercel_refused(tercel_pass_context *context, const char *rule, const tercel_node *node, tercel_error *err,
                             const char *format, ...) {
  char reason[256];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  return add(context, rule, node, NULL, reason, err);
}

void tercel_decisions_forget_refusals(tercel_decisions *log, const char *pass) {
  size_t kept = 0;
  for (size_t i = 0; i < log->count; i++)
    if (!log->items[i].reason || strcmp(log->items[i].pass, pass) != 0) log->items[kept++] = log->items[i];
  log->count = kept;
}

void tercel_decisions_print(const tercel_decisions *log, tercel_text *out) {
  for (size_t i = 0; i < log->count; i++) {
    const tercel_decision *const d = &log->items[i];
    if (d->reason)
      tercel_text_add(out, "%s: %s: refused %s: %s\n", d->pass, d->rule, d->nodes, d->reason);
    else
      tercel_text_add(out, "%s: %s: %s\n", d->pass, d->rule, d->nodes);
  }
}

void tercel_decisions_deinit(tercel_decisions *log) {
  tercel_free(log->items);
  tercel_arena_deinit(&log->arena);
  *log = (tercel_decisions){0};
}
