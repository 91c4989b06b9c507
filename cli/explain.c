/* tercel explain: what the optimizer made of a model, what it refused and why, and what that is worth. */
#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
  tercel_cli_engine engine;
  tercel_cli_inputs inputs;
  const char *json, *html;
  bool all, timing, measure, verify;
} options;

static const tercel_cli_option own[] = {
    {"all", TERCEL_CLI_FLAG, offsetof(options, all), NULL, "every decision, not only the first ones of each rule",
     NULL},
    {"timing", TERCEL_CLI_FLAG, offsetof(options, timing), NULL, "what each pass of the optimizer took", NULL},
    {"measure", TERCEL_CLI_FLAG, offsetof(options, measure), NULL,
     "time the model with and without each pass that did something", NULL},
    {"verify", TERCEL_CLI_FLAG, offsetof(options, verify), NULL,
     "run the model and compare every step with its reference kernel and with the nodes of the file that it stands for",
     NULL},
    {"json", TERCEL_CLI_TEXT, offsetof(options, json), "FILE", "write everything as JSON; - is standard output, alone",
     NULL},
    {"html", TERCEL_CLI_TEXT, offsetof(options, html), "FILE",
     "write a page with the graph before and after to look at in a browser (needs Graphviz's dot); - is standard "
     "output, "
     "alone",
     NULL},
    {0}};
static const tercel_cli_group groups[] = {
    {"what to show", own, 0},
    {"inputs, for --measure and --verify", tercel_cli_inputs_options, offsetof(options, inputs)},
    {"engine", tercel_cli_engine_options, offsetof(options, engine)},
    {0}};
static const tercel_cli_usage usage = {
    .command = "explain",
    .operands = "MODEL",
    .what = "Shows what each rule of the optimizer did to MODEL, by the names of its nodes, with the bytes and flops "
            "that a "
            "run saves; and each rule that almost fitted, with the node, type, constant or reader in its way.",
    .examples = "  tercel explain net.onnx\n"
                "  tercel explain net.onnx --all --dim batch=1\n"
                "  tercel explain net.onnx --measure --timing\n"
                "  tercel explain net.onnx --verify --input x=x.npy\n"
                "  tercel explain net.onnx --html net.html\n"
                "  tercel explain net.onnx --json - | jq '.near_misses[].reason'\n",
    .groups = groups,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- gathering ---- */

static tercel_status no_memory(tercel_error *err) { return tercel_fail_memory(err, 0, "an explanation"); }

static tercel_status copy_decisions(const tercel_engine *engine, tercel_explanation *e, tercel_error *err) {
  tercel_decision decision;
  size_t count = 0;
  while (tercel_engine_get_decision(engine, count, &decision)) count++;
  e->decisions = tercel_arena_alloc_array(&e->arena, count, sizeof *e->decisions);
  if (!e->decisions) return no_memory(err);
  for (; e->num_decisions < count; e->num_decisions++) {
    tercel_engine_get_decision(engine, e->num_decisions, &decision);
    e->decisions[e->num_decisions] = decision;
    e->num_made += !decision.reason;
  }
  return TERCEL_OK;
}

static int largest_first(const void *a, const void *b) {
  const tercel_explain_rule *const x = a, *const y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  const int by_pass = strcmp(x->pass, y->pass);
  return by_pass ? by_pass : strcmp(x->rule, y->rule);
}

static tercel_explain_rule *find_rule(tercel_explain_rule *rules, size_t *count, const tercel_decision *d) {
  for (size_t i = 0; i < *count; i++)
    if (strcmp(rules[i].pass, d->pass) == 0 && strcmp(rules[i].rule, d->rule) == 0) return &rules[i];
  rules[*count] = (tercel_explain_rule){.pass = d->pass, .rule = d->rule};
  return &rules[(*count)++];
}

static tercel_status group(tercel_explanation *e, bool made, tercel_explain_rule **out, size_t *count,
                           tercel_error *err) {
  tercel_explain_rule *const rules = tercel_arena_alloc_array(&e->arena, e->num_decisions, sizeof *rules);
  const tercel_decision **items = tercel_arena_alloc_array(&e->arena, e->num_decisions, sizeof *items);
  if (!rules || !items) return no_memory(err);
  *count = 0;
  for (size_t i = 0; i < e->num_decisions; i++) {
    const tercel_decision *const d = &e->decisions[i];
    if (!d->reason != made) continue;
    tercel_explain_rule *const rule = find_rule(rules, count, d);
    rule->count++;
    rule->bytes += d->bytes_saved;
    rule->flops += d->flops_saved;
  }
  qsort(rules, *count, sizeof *rules, largest_first);
  for (size_t r = 0; r < *count; r++) {
    rules[r].items = items;
    items += rules[r].count;
    rules[r].count = 0;
  }
  for (size_t i = 0; i < e->num_decisions; i++) {
    const tercel_decision *const d = &e->decisions[i];
    if (!d->reason != made) continue;
    tercel_explain_rule *const rule = find_rule(rules, count, d);
    rule->items[rule->count++] = d;
  }
  *out = rules;
  return TERCEL_OK;
}

static tercel_status copy_passes(const tercel_engine *engine, tercel_explanation *e, tercel_error *err) {
  tercel_pass_time time;
  size_t count = 0;
  while (tercel_engine_get_pass_time(engine, count, &time)) count++;
  e->passes = tercel_arena_alloc_array(&e->arena, count, sizeof *e->passes);
  if (!e->passes) return no_memory(err);
  for (; e->num_passes < count; e->num_passes++) {
    tercel_explain_pass *const pass = &e->passes[e->num_passes];
    tercel_engine_get_pass_time(engine, e->num_passes, &pass->time);
    tercel_pass_name(e->num_passes, &pass->what);
    e->optimizer_ms += pass->time.total_us / 1e3;
    for (size_t i = 0; i < e->num_decisions; i++)
      pass->num_made += !e->decisions[i].reason && strcmp(e->decisions[i].pass, pass->time.name) == 0;
  }
  return TERCEL_OK;
}

static tercel_status copy_steps(const tercel_context *context, tercel_explanation *e, tercel_error *err) {
  tercel_profile_row row;
  size_t count = 0;
  while (tercel_context_get_profile(context, count, &row)) count++;
  e->steps = tercel_arena_alloc_array(&e->arena, count, sizeof *e->steps);
  if (!e->steps) return no_memory(err);
  for (; e->num_steps < count; e->num_steps++) {
    tercel_context_get_profile(context, e->num_steps, &row);
    e->steps[e->num_steps] = (tercel_explain_step){row.name, row.op, row.tactic, row.sources};
  }
  return TERCEL_OK;
}

tercel_status tercel_explain_gather(const tercel_cli_session *session, const char *path, tercel_explanation *out,
                                    tercel_error *err) {
  *out = (tercel_explanation){.path = path};
  tercel_engine_get_work(session->engine, &out->before, &out->after);
  TERCEL_TRY(copy_decisions(session->engine, out, err));
  TERCEL_TRY(group(out, true, &out->made, &out->num_made_rules, err));
  TERCEL_TRY(group(out, false, &out->refused, &out->num_refused_rules, err));
  TERCEL_TRY(copy_passes(session->engine, out, err));
  return copy_steps(session->context, out, err);
}

void tercel_explain_free(tercel_explanation *explanation) {
  tercel_arena_deinit(&explanation->arena);
  *explanation = (tercel_explanation){0};
}

/* ---- the command ---- */

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

static tercel_status explain(options *o, const char *path, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_explanation explanation = {0};
  tercel_status status;
  o->engine.count_savings = true;
  o->engine.verify = o->verify;
  if (tercel_is_engine_file(path))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "%s is an engine file, which does not keep the optimizer's decisions: give the model", path);
  TERCEL_CHECK(tercel_cli_load(path, &o->engine, &session, err));
  TERCEL_CHECK(tercel_cli_build(&o->engine, true, &session, err));
  TERCEL_CHECK(tercel_explain_gather(&session, path, &explanation, err));
  if (o->measure) TERCEL_CHECK(tercel_explain_measure(&o->engine, &o->inputs, &session, &explanation, err));
  if (o->json) TERCEL_CHECK(tercel_explain_write_json(&explanation, o->json, err));
  if (o->html) TERCEL_CHECK(tercel_explain_write_html(&explanation, &session, o->html, err));
  if (!is_stdout(o->json) && !is_stdout(o->html)) {
    tercel_explain_print(&explanation, o->all);
    if (o->timing || o->measure) tercel_explain_print_passes(&explanation);
  }
  if (o->verify) {
    status = tercel_cli_verify(&o->inputs, &session, err);
    if (!is_stdout(o->json) && !is_stdout(o->html)) tercel_cli_print_verification(session.engine, o->all);
  }
done:
  tercel_explain_free(&explanation);
  tercel_cli_close(&session);
  return status;
}

int tercel_cli_explain(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  return explain(&o, operands.items[0], &err) == TERCEL_OK ? TERCEL_EXIT_OK : tercel_cli_fail(usage.command, &err);
}
