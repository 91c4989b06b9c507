/* The per-layer table of tercel bench. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { MIN_RUNS = 5, MEASURE_MS = 500, NAME_WIDTH = 40 };

/* ---- measuring ---- */

static tercel_status run_for_a_while(tercel_context *context, const tercel_cli_data *data, tercel_error *err) {
  TERCEL_TRY(tercel_cli_set_inputs(context, data, err));
  TERCEL_TRY(tercel_context_run(context, err)); /* binds the shapes and warms up */
  tercel_context_reset_profile(context);
  const int64_t start = tercel_time_ns();
  for (int runs = 0; runs < MIN_RUNS || tercel_time_ns() - start < MEASURE_MS * (int64_t)1000000; runs++)
    TERCEL_TRY(tercel_context_run(context, err));
  return TERCEL_OK;
}

static double larger(double a, double b) { return a > b ? a : b; }

static tercel_status copy_layer(const tercel_profile_row *row, tercel_bench_profile *profile, tercel_bench_layer *out,
                                tercel_error *err) {
  const double us = row->num_runs ? row->total_us / (double)row->num_runs : 0;
  *out = (tercel_bench_layer){
      .name = tercel_arena_strdup(&profile->arena, row->name),
      .op = tercel_arena_strdup(&profile->arena, row->op),
      .tactic = tercel_arena_strdup(&profile->arena, row->tactic),
      .sources = tercel_arena_strdup(&profile->arena, row->sources),
      .shape = tercel_arena_strdup(&profile->arena, row->shape),
      .us = us,
      .gflops = us > 0 ? row->flops / us / 1e3 : 0,
      .gbytes = us > 0 ? row->bytes / us / 1e3 : 0,
  };
  if (!out->name || !out->op || !out->tactic || !out->sources || !out->shape)
    return tercel_fail_memory(err, 0, "the profile");
  out->peak_share = larger(out->gflops / profile->peak_gflops, out->gbytes / profile->peak_gbytes);
  profile->total_us += us;
  return TERCEL_OK;
}

static tercel_status copy_layers(const tercel_context *context, tercel_bench_profile *out, tercel_error *err) {
  tercel_profile_row row;
  size_t count = 0;
  while (tercel_context_get_profile(context, count, &row)) count++;
  out->layers = tercel_arena_alloc_array(&out->arena, count, sizeof *out->layers);
  if (!out->layers) return tercel_fail_memory(err, count * sizeof *out->layers, "the profile");
  for (; out->count < count; out->count++) {
    tercel_context_get_profile(context, out->count, &row);
    TERCEL_TRY(copy_layer(&row, out, &out->layers[out->count], err));
  }
  for (size_t i = 0; i < count; i++) out->layers[i].share = out->total_us > 0 ? out->layers[i].us / out->total_us : 0;
  return TERCEL_OK;
}

tercel_status tercel_bench_measure_profile(tercel_engine *engine, const tercel_cli_data *data,
                                           tercel_bench_profile *out, tercel_error *err) {
  *out = (tercel_bench_profile){0};
  const tercel_context_options options = {.size = sizeof options, .profile = 1};
  tercel_context *context = NULL;
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_machine_measure(tercel_engine_num_threads(engine), &out->peak_gflops, &out->peak_gbytes, err));
  TERCEL_CHECK(tercel_context_create(engine, &options, &context, err));
  TERCEL_CHECK(run_for_a_while(context, data, err));
  TERCEL_CHECK(copy_layers(context, out, err));
done:
  tercel_context_destroy(context);
  return status;
}

void tercel_bench_free_profile(tercel_bench_profile *profile) {
  tercel_arena_deinit(&profile->arena);
  *profile = (tercel_bench_profile){0};
}

/* ---- printing ---- */

static int slowest_first(const void *a, const void *b) {
  const tercel_bench_layer *const x = a, *const y = b;
  return (x->us < y->us) - (x->us > y->us);
}

static void print_layer(const tercel_bench_layer *layer) {
  const int length = (int)strlen(layer->name);
  printf("%6.1f %10.1f %9.1f %8.1f %6.0f  %-14.14s %-22.22s %-18.18s %.*s%s\n", 100 * layer->share, layer->us,
         layer->gflops, layer->gbytes, 100 * layer->peak_share, layer->op, layer->tactic, layer->shape,
         length < NAME_WIDTH ? length : NAME_WIDTH, layer->name, length > NAME_WIDTH ? "..." : "");
}

/* The layers of one operator, summed. */
typedef struct sum {
  const char *op;
  double us, share;
  int count;
} sum;

static int largest_first(const void *a, const void *b) {
  const sum *const x = a, *const y = b;
  return (x->us < y->us) - (x->us > y->us);
}

static void add_to_sums(const tercel_bench_layer *layer, sum *sums, size_t *count) {
  size_t i = 0;
  while (i < *count && strcmp(sums[i].op, layer->op) != 0) i++;
  if (i == *count) sums[(*count)++] = (sum){.op = layer->op};
  sums[i].us += layer->us;
  sums[i].share += layer->share;
  sums[i].count++;
}

tercel_status tercel_bench_print_profile(tercel_bench_profile *profile, tercel_error *err) {
  size_t num_sums = 0;
  sum *const sums = tercel_arena_alloc_array(&profile->arena, profile->count, sizeof *sums);
  if (!sums) return tercel_fail_memory(err, profile->count * sizeof *sums, "the profile");
  qsort(profile->layers, profile->count, sizeof *profile->layers, slowest_first);
  printf("\n%zu layers, %.1f us a run; this machine: %.0f GFLOP/s, %.1f GB/s from memory (what fits the caches can be "
         "above 100 %%)\n",
         profile->count, profile->total_us, profile->peak_gflops, profile->peak_gbytes);
  printf(" share         us   GFLOP/s     GB/s  %%peak  %-14s %-22s %-18s layer\n", "operator", "tactic", "output");
  for (size_t i = 0; i < profile->count; i++) {
    print_layer(&profile->layers[i]);
    add_to_sums(&profile->layers[i], sums, &num_sums);
  }
  qsort(sums, num_sums, sizeof *sums, largest_first);
  printf("\n share         us  layers  operator\n");
  for (size_t i = 0; i < num_sums; i++)
    printf("%6.1f %10.1f %7d  %s\n", 100 * sums[i].share, sums[i].us, sums[i].count, sums[i].op);
  return TERCEL_OK;
}
