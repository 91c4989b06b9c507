/* Explanations for people: by rule. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"

enum { EXAMPLES = 3, MOST_SOURCES = 6 };

/* "-1.2 MFLOP" */
static void format_flops(double flops, char *out, size_t out_size) {
  static const char *const units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  for (; fabs(flops) >= 1000 && unit < 4; unit++) flops /= 1000;
  snprintf(out, out_size, unit == 0 || fabs(flops) >= 100 ? "%.0f %sFLOP" : "%.1f %sFLOP", flops, units[unit]);
}

static void format_bytes(double bytes, char *out, size_t out_size) {
  char size[32];
  tercel_cli_format_bytes(fabs(bytes), size, sizeof size);
  snprintf(out, out_size, "%s%s", bytes < 0 ? "-" : "", size);
}

static void print_decision(const tercel_decision *d, bool all) {
  printf("%*s", 10, "");
  for (size_t i = 0; i < d->num_sources; i++) {
    if (!all && d->num_sources > MOST_SOURCES && i == MOST_SOURCES - 1) {
      printf(" + %zu more", d->num_sources - i);
      break;
    }
    printf("%s%s", i ? " + " : "", d->sources[i]);
  }
  if (d->reason) printf(": %s", d->reason);
  putchar('\n');
}

/* Of the same node, for the same reason: an operator of the file may be several of tercel's. */
static bool is_same(const tercel_decision *a, const tercel_decision *b) {
  return a->num_sources == b->num_sources && a->sources[0] == b->sources[0] &&
         (a->reason ? strcmp(a->reason, b->reason) == 0 : a->num_sources == 1);
}

static void print_examples(const tercel_explain_rule *rule, bool all) {
  size_t printed = 0, i = 0;
  for (; i < rule->count && (all || printed < EXAMPLES); i++) {
    if (i > 0 && is_same(rule->items[i - 1], rule->items[i])) continue;
    print_decision(rule->items[i], all);
    printed++;
  }
  if (i < rule->count) printf("%*s... %zu more (--all)\n", 10, "", rule->count - i);
}

static void print_made(const tercel_explanation *e, bool all) {
  char bytes[40], flops[40];
  printf("\nmade: %zu changes by %zu rules\n", e->num_made, e->num_made_rules);
  for (size_t r = 0; r < e->num_made_rules; r++) {
    const tercel_explain_rule *const rule = &e->made[r];
    format_bytes(rule->bytes, bytes, sizeof bytes);
    format_flops(rule->flops, flops, sizeof flops);
    printf("%6zu  %s: %s, saved %s and %s\n", rule->count, rule->pass, rule->rule, bytes, flops);
    print_examples(rule, all);
  }
}

static void print_refused(const tercel_explanation *e, bool all) {
  printf("\nnear misses: %zu of %zu rules\n", e->num_decisions - e->num_made, e->num_refused_rules);
  for (size_t r = 0; r < e->num_refused_rules; r++) {
    const tercel_explain_rule *const rule = &e->refused[r];
    printf("%6zu  %s: %s\n", rule->count, rule->pass, rule->rule);
    print_examples(rule, all);
  }
}

void tercel_explain_print(const tercel_explanation *e, bool all) {
  char bytes_before[40], bytes_after[40], flops_before[40], flops_after[40];
  format_bytes(e->before.bytes, bytes_before, sizeof bytes_before);
  format_bytes(e->after.bytes, bytes_after, sizeof bytes_after);
  format_flops(e->before.flops, flops_before, sizeof flops_before);
  format_flops(e->after.flops, flops_after, sizeof flops_after);
  printf("%s\n%zu nodes became %zu steps\n", e->path, e->before.num_nodes, e->num_steps);
  printf("a run reads and writes %s instead of %s, and computes %s instead of %s (free dims count as 1; --dim sets "
         "them)\n",
         bytes_after, bytes_before, flops_after, flops_before);
  print_made(e, all);
  print_refused(e, all);
}

void tercel_explain_print_passes(const tercel_explanation *e) {
  printf("\nthe optimizer took %.1f ms\n     ms    runs   made%s  pass\n", e->optimizer_ms,
         e->is_measured ? "  without ms  with ms  won" : "");
  for (size_t i = 0; i < e->num_passes; i++) {
    const tercel_explain_pass *const pass = &e->passes[i];
    printf("%7.2f %7zu %6zu", pass->time.total_us / 1e3, pass->time.num_runs, pass->num_made);
    if (pass->without_ms > 0)
      printf("  %10.2f %8.2f %3.0f%%", pass->without_ms, pass->with_ms, 100 * pass->won);
    else if (e->is_measured)
      printf("  %10s %8s %4s", "-", "-", "-");
    printf("  %s: %s\n", pass->time.name, pass->what);
  }
}
