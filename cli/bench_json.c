/* What tercel bench measured, as JSON (RFC 8259). */
#include <stdio.h>
#include <string.h>

#include "bench.h"

static void add_text(tercel_text *to, const char *key, const char *value) {
  tercel_text_add(to, "\"%s\": ", key);
  tercel_text_add_json(to, value, strlen(value));
  tercel_text_add(to, ", ");
}

static void add_layers(tercel_text *to, const tercel_bench_profile *profile) {
  tercel_text_add(to, ",\n  \"machine_gflops\": %.6g, \"machine_gbytes_per_second\": %.6g,\n  \"layers\": [",
                  profile->peak_gflops, profile->peak_gbytes);
  for (size_t i = 0; i < profile->count; i++) {
    const tercel_bench_layer *const layer = &profile->layers[i];
    tercel_text_add(to, "%s\n    {", i ? "," : "");
    add_text(to, "name", layer->name);
    add_text(to, "operator", layer->op);
    add_text(to, "tactic", layer->tactic);
    add_text(to, "sources", layer->sources);
    add_text(to, "output_shape", layer->shape);
    tercel_text_add(
        to, "\"us\": %.6g, \"share\": %.6g, \"gflops\": %.6g, \"gbytes_per_second\": %.6g, \"peak_share\": %.6g}",
        layer->us, layer->share, layer->gflops, layer->gbytes, layer->peak_share);
  }
  tercel_text_add(to, "\n  ]");
}

tercel_status tercel_bench_write_json(const char *path, const tercel_bench_result *r,
                                      const tercel_bench_profile *profile, const double *latencies_ms,
                                      tercel_error *err) {
  tercel_text text = {0};
  tercel_machine_info machine = {.size = sizeof machine};
  TERCEL_TRY(tercel_machine_get_info(&machine, err));
  tercel_text_add(&text, "{\n  ");
  add_text(&text, "tercel", tercel_version());
  add_text(&text, "model", r->model);
  add_text(&text, "cpu", machine.cpu);
  add_text(&text, "level", machine.level);
  tercel_text_add(&text, "\"threads\": %d, \"streams\": %d,\n", r->threads, r->streams);
  tercel_text_add(
      &text, "  \"load_ms\": %.6g, \"build_ms\": %.6g, \"runs\": %zu, \"seconds\": %.6g, \"runs_per_second\": %.6g,\n",
      r->load_ms, r->build_ms, r->num_runs, r->seconds, r->runs_per_second);
  tercel_text_add(&text, "  \"latency_ms\": {\"min\": %.6g, \"mean\": %.6g, \"median\": %.6g, ", r->min_ms, r->mean_ms,
                  r->median_ms);
  for (int i = 0; i < r->num_percentiles; i++)
    tercel_text_add(&text, "\"p%g\": %.6g, ", r->percentiles[i], r->percentile_ms[i]);
  tercel_text_add(&text, "\"max\": %.6g},\n", r->max_ms);
  tercel_text_add(&text, "  \"activation_bytes\": %llu, \"packed_bytes\": %llu, \"mapped_bytes\": %llu,\n",
                  (unsigned long long)r->memory.activation_bytes, (unsigned long long)r->memory.packed_bytes,
                  (unsigned long long)r->memory.mapped_bytes);
  tercel_text_add(&text, "  \"bind_ms\": %.6g,\n", r->bind_ms);
  if (r->streams == 1) tercel_text_add(&text, "  \"allocations\": %zu,\n", r->num_allocations);
  tercel_text_add(&text, "  \"latencies_ms\": [");
  for (size_t i = 0; i < r->num_runs; i++) tercel_text_add(&text, "%s%.6g", i ? ", " : "", latencies_ms[i]);
  tercel_text_add(&text, "]");
  if (profile) add_layers(&text, profile);
  tercel_text_add(&text, "\n}\n");
  tercel_status status = text.failed ? tercel_fail_memory(err, text.length, "JSON") : TERCEL_OK;
  if (status == TERCEL_OK) status = tercel_cli_write_text(path, &text, err);
  tercel_text_deinit(&text);
  return status;
}
