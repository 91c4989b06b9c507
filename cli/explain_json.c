/* Explanations as JSON (RFC 8259). */
#include <stdio.h>
#include <string.h>

#include "explain.h"

static void add_text(tercel_text *to, const char *key, const char *value) {
  tercel_text_add(to, "\"%s\": ", key);
  tercel_text_add_json(to, value, strlen(value));
}

static void add_work(tercel_text *to, const char *key, const tercel_work *work) {
  tercel_text_add(to, "\"%s\": {\"nodes\": %zu, \"bytes\": %.17g, \"flops\": %.17g},\n  ", key, work->num_nodes,
                  work->bytes, work->flops);
}

static void add_decision(tercel_text *to, const tercel_decision *d) {
  tercel_text_add(to, "    {");
  add_text(to, "pass", d->pass);
  tercel_text_add(to, ", ");
  add_text(to, "rule", d->rule);
  tercel_text_add(to, ", \"sources\": [");
  for (size_t i = 0; i < d->num_sources; i++) {
    if (i) tercel_text_add(to, ", ");
    tercel_text_add_json(to, d->sources[i], strlen(d->sources[i]));
  }
  tercel_text_add(to, "], ");
  if (d->reason)
    add_text(to, "reason", d->reason);
  else
    tercel_text_add(to, "\"bytes_saved\": %.17g, \"flops_saved\": %.17g", d->bytes_saved, d->flops_saved);
  tercel_text_add(to, "}");
}

static void add_decisions(tercel_text *to, const char *key, const tercel_explanation *e, bool made) {
  const char *before = "\n";
  tercel_text_add(to, "\"%s\": [", key);
  for (size_t i = 0; i < e->num_decisions; i++) {
    if (!e->decisions[i].reason != made) continue;
    tercel_text_add(to, "%s", before);
    add_decision(to, &e->decisions[i]);
    before = ",\n";
  }
  tercel_text_add(to, "\n  ],\n  ");
}

static void add_steps(tercel_text *to, const tercel_explanation *e) {
  tercel_text_add(to, "\"steps\": [");
  for (size_t i = 0; i < e->num_steps; i++) {
    const tercel_explain_step *const step = &e->steps[i];
    tercel_text_add(to, "%s\n    {", i ? "," : "");
    add_text(to, "name", step->name);
    tercel_text_add(to, ", ");
    add_text(to, "operator", step->op);
    tercel_text_add(to, ", ");
    add_text(to, "tactic", step->tactic);
    tercel_text_add(to, ", ");
    add_text(to, "sources", step->sources);
    tercel_text_add(to, "}");
  }
  tercel_text_add(to, "\n  ],\n  ");
}

static void add_passes(tercel_text *to, const tercel_explanation *e) {
  tercel_text_add(to, "\"passes\": [");
  for (size_t i = 0; i < e->num_passes; i++) {
    const tercel_explain_pass *const pass = &e->passes[i];
    tercel_text_add(to, "%s\n    {", i ? "," : "");
    add_text(to, "name", pass->time.name);
    tercel_text_add(to, ", \"runs\": %zu, \"us\": %.6g, \"made\": %zu", pass->time.num_runs, pass->time.total_us,
                    pass->num_made);
    if (pass->without_ms > 0)
      tercel_text_add(to, ", \"model_ms_without\": %.6g, \"model_ms_with\": %.6g, \"won\": %.3g", pass->without_ms,
                      pass->with_ms, pass->won);
    tercel_text_add(to, "}");
  }
  tercel_text_add(to, "\n  ]\n}\n");
}

void tercel_explain_add_json(const tercel_explanation *e, tercel_text *out) {
  tercel_text_add(out, "{\n  ");
  add_text(out, "tercel", tercel_version());
  tercel_text_add(out, ",\n  ");
  add_text(out, "model", e->path);
  tercel_text_add(out, ",\n  ");
  add_work(out, "before", &e->before);
  add_work(out, "after", &e->after);
  tercel_text_add(out, "\"optimizer_ms\": %.6g,\n  ", e->optimizer_ms);
  add_decisions(out, "made", e, true);
  add_decisions(out, "near_misses", e, false);
  add_steps(out, e);
  add_passes(out, e);
}

tercel_status tercel_explain_write_json(const tercel_explanation *e, const char *path, tercel_error *err) {
  tercel_text text = {0};
  tercel_explain_add_json(e, &text);
  tercel_status status = text.failed ? tercel_fail_memory(err, text.length, "JSON") : TERCEL_OK;
  if (status == TERCEL_OK) status = tercel_cli_write_text(path, &text, err);
  tercel_text_deinit(&text);
  return status;
}
