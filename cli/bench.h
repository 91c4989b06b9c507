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
  int64_t batch_piece;    /* items of the batch that ran at a time; 0: all */
  double bind_ms;         /* of the first stream's first run: its shapes bound */
  size_t num_allocations; /* from the heap, in the measured runs; counted with one stream */
} tercel_bench_result;

/* What every stream keeps to. */
typedef struct tercel_bench_limits {
  int64_t warmup_ns, measure_ns;
  size_t min_runs;
  int64_t batch_piece; /* as in tercel_context_options */
} tercel_bench_limits;

/* Runs the engine in as many contexts at a time.  Fills what comes of runs; the percentiles to tell are in *out already.
 * *latencies_out: num_runs times in ms, in the order of the streams; to be freed. */
tercel_status tercel_bench_measure(tercel_engine *engine, const tercel_cli_data *data,
                                   const tercel_bench_limits *limits, int num_streams, tercel_bench_result *out,
                                   double **latencies_out, tercel_error *err);

/* Measures one batch size after the other, and prints a table; svg and json may be NULL.  like: the model and the percentiles. */
tercel_status tercel_bench_batches(tercel_engine *engine, const tercel_bench_result *like, const char *batches,
                                   const tercel_cli_inputs *inputs, const tercel_bench_limits *limits, const char *svg,
                                   const char *json, tercel_error *err);

/* Measures before, while and after the engine is tuned in the background for so many seconds at most, and prints a line each.  like: as for
 * tercel_bench_batches, with the number of streams; timing_cache may be NULL. */
tercel_status tercel_bench_beside_tuning(tercel_engine *engine, const tercel_cli_data *data,
                                         const tercel_bench_limits *limits, const tercel_bench_result *like,
                                         double seconds, const char *timing_cache, tercel_error *err);

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
