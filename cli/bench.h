/* What tercel bench measured, shared by its files. */
#ifndef TERCEL_CLI_BENCH_H
#define TERCEL_CLI_BENCH_H

#include "cli.h"

enum { TERCEL_BENCH_PERCENTILES_MAX = 8 };

typedef struct tercel_bench_result {
  const char *model;
  int threads, streams;
  size_t num_runs, num_warmup;
  double seconds, load_ms, build_ms;
  double runs_per_second;
  double min_ms, mean_ms, median_ms, max_ms;
  int num_percentiles;
  double percentiles[TERCEL_BENCH_PERCENTILES_MAX], percentile_ms[TERCEL_BENCH_PERCENTILES_MAX];
  tercel_memory_info memory;
} tercel_bench_result;

/* One layer of the profile, its strings copied. */
typedef struct tercel_bench_layer {
  const char *name, *op, *tactic, *sources, *shape;
  double us;             /* one run */
  double gflops, gbytes; /* per second; 0 where that says nothing */
  double share;          /* of the time of all layers, 0 .. 1 */
  double peak_share;     /* of what the machine can do: the larger of arithmetic and memory, 0 .. 1 */
} tercel_bench_layer;

typedef struct tercel_bench_profile {
  tercel_bench_layer *layers; /* in the order of the steps */
  size_t count;
  double total_us;
  double peak_gflops, peak_gbytes; /* measured on this machine */
  tercel_arena arena;
} tercel_bench_profile;

/* Runs with the inputs under a profiling context, and measures the machine. */
tercel_status tercel_bench_measure_profile(tercel_engine *engine, const tercel_cli_data *data,
                                           tercel_bench_profile *out, tercel_error *err);
/* The slowest layers first, then the sums by operator.  Changes the order of the layers. */
tercel_status tercel_bench_print_profile(tercel_bench_profile *profile, tercel_error *err);
void tercel_bench_free_profile(tercel_bench_profile *profile); /* safe on a zeroed struct */

/* Everything as JSON, to a file or ("-") to stdout.  profile may be NULL. */
tercel_status tercel_bench_write_json(const char *path, const tercel_bench_result *result,
                                      const tercel_bench_profile *profile, const double *latencies_ms,
                                      tercel_error *err);

#endif
