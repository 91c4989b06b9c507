/* Repeated runs of an engine, in one stream or several, and what their times come to. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* ---- running ---- */

/* Allocations of tercel's in the whole process: with one stream, what its runs do is nobody else's. */
static atomic_size_t num_allocations;

static bool count_allocation(size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  atomic_fetch_add_explicit(&num_allocations, 1, memory_order_relaxed);
  return true;
}

static size_t allocations_so_far(void) { return atomic_load_explicit(&num_allocations, memory_order_relaxed); }

typedef struct stream {
  tercel_engine *engine;
  const tercel_cli_data *data;
  tercel_bench_limits limits;
  pthread_t thread;
  double *latencies; /* ms */
  size_t count, capacity, num_warmup, num_allocations;
  double bind_ms; /* of the first run's shapes */
  int64_t batch_piece;
  int64_t start_ns, end_ns;
  tercel_memory_info memory;
  tercel_status status;
  tercel_error err;
} stream;

static tercel_status keep(stream *s, double ms, tercel_error *err) {
  if (s->count == s->capacity) {
    const size_t capacity = s->capacity ? 2 * s->capacity : 4096;
    double *const grown = tercel_realloc(s->latencies, s->count * sizeof *grown, capacity * sizeof *grown);
    if (!grown) return tercel_fail_memory(err, capacity * sizeof *grown, "the latencies");
    s->latencies = grown;
    s->capacity = capacity;
  }
  s->latencies[s->count++] = ms;
  return TERCEL_OK;
}

static tercel_status measure(stream *s, tercel_context *context, tercel_error *err) {
  const int64_t begin = tercel_time_ns();
  tercel_bind_info bind = {.size = sizeof bind};
  TERCEL_TRY(tercel_cli_first_run(context, s->data, err));
  TERCEL_TRY(tercel_context_get_bind_info(context, &bind, err));
  s->bind_ms = bind.last_run_us / 1e3;
  s->batch_piece = bind.batch_piece;
  for (s->num_warmup = 1; tercel_time_ns() - begin < s->limits.warmup_ns; s->num_warmup++)
    TERCEL_TRY(tercel_context_run(context, err));
  s->start_ns = tercel_time_ns();
  for (int64_t now = s->start_ns; s->count < s->limits.min_runs || now - s->start_ns < s->limits.measure_ns;
       now = tercel_time_ns()) {
    const size_t allocations = allocations_so_far();
    const int64_t start = tercel_time_ns();
    TERCEL_TRY(tercel_context_run(context, err));
    s->end_ns = tercel_time_ns();
    s->num_allocations += allocations_so_far() - allocations;
    TERCEL_TRY(keep(s, (double)(s->end_ns - start) / 1e6, err));
  }
  s->memory.size = sizeof s->memory;
  return tercel_context_get_memory(context, &s->memory, err);
}

static void *run_stream(void *arg) {
  stream *const s = arg;
  tercel_context *context = NULL;
  const tercel_context_options options = {.size = sizeof options, .batch_piece = s->limits.batch_piece};
  s->status = tercel_context_create(s->engine, &options, &context, &s->err);
  if (s->status == TERCEL_OK) s->status = measure(s, context, &s->err);
  tercel_context_destroy(context);
  return NULL;
}

/* The first stream is this thread's. */
static tercel_status run_streams(stream *streams, int count, tercel_error *err) {
  int started = 1;
  tercel_status status = TERCEL_OK;
  for (; started < count; started++)
    if (pthread_create(&streams[started].thread, NULL, run_stream, &streams[started]) != 0) break;
  if (started < count) status = tercel_fail(err, TERCEL_OUT_OF_MEMORY, "can't start %d threads", count);
  run_stream(&streams[0]);
  for (int i = 1; i < started; i++) pthread_join(streams[i].thread, NULL);
  for (int i = 0; i < started && status == TERCEL_OK; i++) {
    if (streams[i].status == TERCEL_OK) continue;
    *err = streams[i].err;
    status = err->status;
  }
  return status;
}

/* ---- counting ---- */

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Nearest rank. */
static double percentile_of(const double *sorted, size_t count, double percent) {
  const double rank = ceil(percent / 100 * (double)count);
  const size_t index = rank < 1 ? 0 : (size_t)rank - 1;
  return sorted[index < count ? index : count - 1];
}

static void summarize(const double *sorted, size_t count, tercel_bench_result *out) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += sorted[i];
  out->num_runs = count;
  out->min_ms = sorted[0];
  out->max_ms = sorted[count - 1];
  out->mean_ms = sum / (double)count;
  out->median_ms = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
  for (int i = 0; i < out->num_percentiles; i++)
    out->percentile_ms[i] = percentile_of(sorted, count, out->percentiles[i]);
}

/* All latencies in one block, in the order of the streams.  The time counts from the last start to the last end. */
static tercel_status collect(const stream *streams, int count, double **latencies, tercel_bench_result *out,
                             tercel_error *err) {
  size_t total = 0;
  int64_t start = streams[0].start_ns, end = streams[0].end_ns;
  for (int i = 0; i < count; i++) {
    total += streams[i].count;
    start = tercel_min_i64(start, streams[i].start_ns);
    end = tercel_max_i64(end, streams[i].end_ns);
    out->num_warmup += streams[i].num_warmup;
  }
  *latencies = tercel_alloc_array(total, sizeof **latencies);
  double *const sorted = tercel_alloc_array(total, sizeof *sorted);
  if (!*latencies || !sorted) {
    tercel_free(sorted);
    return tercel_fail_memory(err, total * sizeof *sorted, "the latencies");
  }
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    memcpy(*latencies + at, streams[i].latencies, streams[i].count * sizeof **latencies);
    at += streams[i].count;
  }
  memcpy(sorted, *latencies, total * sizeof *sorted);
  qsort(sorted, total, sizeof *sorted, compare_doubles);
  summarize(sorted, total, out);
  tercel_free(sorted);
  out->seconds = (double)(end - start) / 1e9;
  out->runs_per_second = (double)total / out->seconds;
  out->memory = streams[0].memory;
  out->bind_ms = streams[0].bind_ms;
  out->batch_piece = streams[0].batch_piece;
  out->num_allocations = streams[0].num_allocations;
  return TERCEL_OK;
}

tercel_status tercel_bench_measure(tercel_engine *engine, const tercel_cli_data *data,
                                   const tercel_bench_limits *limits, int num_streams, tercel_bench_result *out,
                                   double **latencies_out, tercel_error *err) {
  stream *const streams = tercel_zalloc_array((size_t)num_streams, sizeof *streams);
  if (!streams) return tercel_fail_memory(err, (size_t)num_streams * sizeof *streams, "the streams");
  for (int i = 0; i < num_streams; i++) streams[i] = (stream){.engine = engine, .data = data, .limits = *limits};
  out->threads = tercel_engine_num_threads(engine);
  out->streams = num_streams;
  tercel_alloc_set_hook(count_allocation, NULL);
  tercel_status status = run_streams(streams, num_streams, err);
  tercel_alloc_set_hook(NULL, NULL);
  if (status == TERCEL_OK) status = collect(streams, num_streams, latencies_out, out, err);
  for (int i = 0; i < num_streams; i++) tercel_free(streams[i].latencies);
  tercel_free(streams);
  return status;
}
