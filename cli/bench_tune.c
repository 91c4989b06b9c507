/* tercel bench --tune-background: how long runs take before, while and after the engine is tuned beside them. */
#include <stdio.h>

#include "bench.h"

/* One line; what was measured is the same in all three. */
static tercel_status measure(tercel_engine *engine, const tercel_cli_data *data, const tercel_bench_limits *limits,
                             const tercel_bench_result *like, const char *when, tercel_error *err) {
  tercel_bench_result result = *like;
  double *latencies = NULL;
  const tercel_status status = tercel_bench_measure(engine, data, limits, like->streams, &result, &latencies, err);
  tercel_free(latencies);
  if (status != TERCEL_OK) return status;
  printf("%-11s %zu runs  min %.3f  median %.3f", when, result.num_runs, result.min_ms, result.median_ms);
  for (int i = 0; i < result.num_percentiles; i++) printf("  p%g %.3f", result.percentiles[i], result.percentile_ms[i]);
  printf("  max %.3f ms\n", result.max_ms);
  return TERCEL_OK;
}

tercel_status tercel_bench_beside_tuning(tercel_engine *engine, const tercel_cli_data *data,
                                         const tercel_bench_limits *limits, const tercel_bench_result *like,
                                         double seconds, const char *timing_cache, tercel_error *err) {
  const tercel_background_options wanted = {
      .size = sizeof wanted, .seconds = seconds, .timing_cache_path = timing_cache};
  tercel_bench_limits during = *limits;
  tercel_tuning_info info = {.size = sizeof info, .running = 1};
  during.warmup_ns = 0; /* swaps happen at any time */
  TERCEL_TRY(measure(engine, data, limits, like, "before", err));
  TERCEL_TRY(tercel_engine_tune_in_background(engine, &wanted, err));
  while (info.running) {
    TERCEL_TRY(measure(engine, data, &during, like, "tuning", err));
    TERCEL_TRY(tercel_engine_get_tuning(engine, &info, err));
  }
  TERCEL_TRY(tercel_engine_stop_tuning(engine, err));
  printf("tuned       %zu of %zu choices measured, %zu steps changed, %.0f -> %.0f us a run in these steps\n",
         info.done, info.total, info.num_swaps, info.before_us, info.after_us);
  return measure(engine, data, limits, like, "after", err);
}
