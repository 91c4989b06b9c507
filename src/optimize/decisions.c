/* The log of what passes did and refused. */
#include "optimize/decisions.h"

#include <stdio.h>
#include <string.h>

#include "optimize/savings.h"

static tercel_status no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for the optimizer's decisions");
}

/* The name's one copy in the log. */
static const char *intern(tercel_decisions *log, const char *name) {
  const char *known = tercel_map_get(&log->names, name, NULL);
  if (known) return known;
  char *const copy = tercel_arena_strdup(&log->arena, name);
  return copy && tercel_map_set(&log->names, copy, copy, NULL) == TERCEL_OK ? copy : NULL;
}

/* Each name once: interned ones have one address.  NULL stands for one that found no memory. */
static size_t add_sources(tercel_decisions *log, const tercel_node *node, const char **out, size_t count) {
  for (uint32_t i = 0; node && i < node->num_sources; i++) {
    const char *const name = intern(log, node->sources[i]);
    size_t k = 0;
    while (k < count && out[k] != name) k++;
    if (k == count || !name) out[count++] = name;
  }
  return count;
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
  const size_t most = node->num_sources + (other ? other->num_sources : 0);
  const char **const sources = tercel_arena_alloc_array(&log->arena, most, sizeof *sources);
  if (!sources) return no_memory(err);
  const size_t num_sources = add_sources(log, other, sources, add_sources(log, node, sources, 0));
  for (size_t i = 0; i < num_sources; i++)
    if (!sources[i]) return no_memory(err);
  tercel_decision *const d = &log->items[log->count];
  *d = (tercel_decision){.pass = context->pass, .rule = rule, .sources = sources, .num_sources = num_sources};
  if (reason) d->reason = tercel_arena_strdup(&log->arena, reason);
  if (reason && !d->reason) return no_memory(err);
  log->count++;
  return TERCEL_OK;
}

tercel_status tercel_made(tercel_pass_context *context, const char *rule, const tercel_node *node,
                          const tercel_node *other, tercel_error *err) {
  context->changed = true;
  TERCEL_TRY(tercel_savings_settle(context, err));
  TERCEL_TRY(add(context, rule, node, other, NULL, err));
  if (context->savings) context->savings->pending = context->decisions->count;
  return TERCEL_OK;
}

tercel_status tercel_made_for(tercel_pass_context *context, const char *rule, const tercel_node *node,
                              tercel_error *err, const char *format, ...) {
  char note[256];
  va_list args;
  va_start(args, format);
  vsnprintf(note, sizeof note, format, args);
  va_end(args);
  TERCEL_TRY(tercel_made(context, rule, node, NULL, err));
  tercel_decision *const decision = &context->decisions->items[context->decisions->count - 1];
  decision->note = tercel_arena_strdup(&context->decisions->arena, note);
  return decision->note ? TERCEL_OK : no_memory(err);
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

/* Names are kept once: equal ones have one address. */
static bool share_a_source(const tercel_decision *a, const tercel_decision *b) {
  for (size_t i = 0; i < a->num_sources; i++)
    for (size_t k = 0; k < b->num_sources; k++)
      if (a->sources[i] == b->sources[k]) return true;
  return false;
}

static bool is_refusal_of(const tercel_decision *d, const char *pass) {
  return d->reason && strcmp(d->pass, pass) == 0;
}

static void keep_reason(const tercel_decisions *log, size_t first, tercel_decision *again) {
  for (size_t i = 0; i < first; i++) {
    const tercel_decision *const before = &log->items[i];
    if (!is_refusal_of(before, again->pass) || strcmp(before->rule, again->rule) != 0 || !share_a_source(before, again))
      continue;
    again->reason = before->reason;
    return;
  }
}

void tercel_decisions_renew_refusals(tercel_decisions *log, const char *pass, size_t first, bool is_late) {
  size_t kept = 0;
  for (size_t i = first; i < log->count && is_late; i++)
    if (is_refusal_of(&log->items[i], pass)) keep_reason(log, first, &log->items[i]);
  for (size_t i = 0; i < log->count; i++)
    if (i >= first || !is_refusal_of(&log->items[i], pass)) log->items[kept++] = log->items[i];
  log->count = kept;
}

void tercel_decisions_print(const tercel_decisions *log, tercel_text *out) {
  for (size_t i = 0; i < log->count; i++) {
    const tercel_decision *const d = &log->items[i];
    tercel_text_add(out, "%s: %s: %s", d->pass, d->rule, d->reason ? "refused " : "");
    for (size_t k = 0; k < d->num_sources; k++) tercel_text_add(out, "%s%s", k ? " + " : "", d->sources[k]);
    if (d->note) tercel_text_add(out, " (%s)", d->note);
    tercel_text_add(out, d->reason ? ": %s\n" : "%s\n", d->reason ? d->reason : "");
  }
}

void tercel_decisions_deinit(tercel_decisions *log) {
  tercel_free(log->items);
  tercel_map_deinit(&log->names);
  tercel_arena_deinit(&log->arena);
  *log = (tercel_decisions){0};
}
