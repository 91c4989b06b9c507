/* tercel bench: latency and throughput of repeated runs. */
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
  tercel_cli_engine engine;
  tercel_cli_inputs inputs;
  const char *onnx, *percentile, *json;
  double warmup_ms, seconds;
  int64_t iterations, streams;
  bool profile;
} options;

static const tercel_cli_option own[] = {
    {"onnx", TERCEL_CLI_TEXT, offsetof(options, onnx), "FILE", "the model, instead of the argument MODEL", NULL},
    {"warm-up", TERCEL_CLI_NUMBER, offsetof(options, warmup_ms), "MS", "run for so long before measuring; default 200",
     "warmUp,warmup"},
    {"duration", TERCEL_CLI_NUMBER, offsetof(options, seconds), "S", "measure for at least so many seconds; default 3",
     NULL},
    {"iterations", TERCEL_CLI_INT, offsetof(options, iterations), "N", "measure at least so many runs; default 10",
     NULL},
    {"streams", TERCEL_CLI_INT, offsetof(options, streams), "N", "contexts that run at the same time; default 1",
     "infStreams"},
    {"percentile", TERCEL_CLI_TEXT, offsetof(options, percentile), "P,...",
     "percentiles of the latency; default 90,95,99", NULL},
    {"profile", TERCEL_CLI_FLAG, offsetof(options, profile), NULL,
     "a table of layers: time, share, GFLOP/s, GB/s, and share of what this machine can do (measured)", "dumpProfile"},
    {"json", TERCEL_CLI_TEXT, offsetof(options, json), "FILE",
     "write everything as JSON too; - is standard output, alone", "exportTimes"},
    {0}};
static const tercel_cli_group groups[] = {{"measuring", own, 0},
                                          {"inputs", tercel_cli_inputs_options, offsetof(options, inputs)},
                                          {"pictures", tercel_cli_image_options, offsetof(options, inputs)},
                                          {"engine", tercel_cli_engine_options, offsetof(options, engine)},
                                          {0}};
static const tercel_cli_usage usage = {
    .command = "bench",
    .operands = "MODEL",
    .what = "Runs MODEL again and again and shows how long a run takes and how many are done a second.  Inputs that no "
            "file gives "
            "are made up.  Familiar names of trtexec's options are accepted.",
    .examples = "  tercel bench net.onnx\n"
                "  tercel bench net.onnx --threads 1 --duration 10 --profile\n"
                "  tercel bench --onnx=net.onnx --shapes=x:8x3x224x224 --warmUp=500 --iterations=100 --dumpProfile\n"
                "  tercel bench net.onnx --streams 2 --threads 1 --json bench.json\n",
    .groups = groups,
    .max_operands = 1,
};

/* ---- running ---- */

/* The limits that all streams keep to. */
typedef struct limits {
  int64_t warmup_ns, measure_ns;
  size_t min_runs;
} limits;

typedef struct stream {
  tercel_engine *engine;
  const tercel_cli_data *data;
  limits limits;
  pthread_t thread;
  double *latencies; /* ms */
  size_t count, capacity, num_warmup;
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
  TERCEL_TRY(tercel_cli_first_run(context, s->data, err)); /* binds the shapes */
  for (s->num_warmup = 1; tercel_time_ns() - begin < s->limits.warmup_ns; s->num_warmup++)
    TERCEL_TRY(tercel_context_run(context, err));
  s->start_ns = tercel_time_ns();
  for (int64_t now = s->start_ns; s->count < s->limits.min_runs || now - s->start_ns < s->limits.measure_ns;
       now = tercel_time_ns()) {
    const int64_t start = tercel_time_ns();
    TERCEL_TRY(tercel_context_run(context, err));
    s->end_ns = tercel_time_ns();
    TERCEL_TRY(keep(s, (double)(s->end_ns - start) / 1e6, err));
  }
  s->memory.size = sizeof s->memory;
  return tercel_context_get_memory(context, &s->memory, err);
}

static void *run_stream(void *arg) {
  stream *const s = arg;
  tercel_context *context = NULL;
  s->status = tercel_context_create(s->engine, NULL, &context, &s->err);
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
  return TERCEL_OK;
}

/* ---- printing ---- */

static void print_inputs(const tercel_engine *engine, const tercel_cli_data *data) {
  tercel_io io;
  char shape[160];
  for (size_t i = 0; i < data->count; i++) {
    if (tercel_engine_get_input(engine, i, &io, NULL) != TERCEL_OK || data->inputs[i].kind[0] != 't') continue;
    tercel_view_describe(data->inputs[i].views, shape, sizeof shape);
    printf("input       '%s'  %s  %s\n", io.name, shape, data->sources[i]);
  }
}

static void print_result(const tercel_bench_result *r) {
  tercel_machine_info machine = {.size = sizeof machine};
  char activations[32], packed[32];
  if (tercel_machine_get_info(&machine, NULL) == TERCEL_OK)
    printf("machine     %s, %s, %d threads%s", machine.cpu, machine.level, r->threads, r->streams > 1 ? "" : "\n");
  if (r->streams > 1) printf(", %d streams\n", r->streams);
  printf("build       load %.1f ms, build %.1f ms\n", r->load_ms, r->build_ms);
  printf("runs        %zu in %.2f s, after %zu to warm up\n", r->num_runs, r->seconds, r->num_warmup);
  printf("throughput  %.2f runs/s\n", r->runs_per_second);
  printf("latency     min %.3f  mean %.3f  median %.3f", r->min_ms, r->mean_ms, r->median_ms);
  for (int i = 0; i < r->num_percentiles; i++) printf("  p%g %.3f", r->percentiles[i], r->percentile_ms[i]);
  printf("  max %.3f ms\n", r->max_ms);
  tercel_cli_format_bytes((double)r->memory.activation_bytes, activations, sizeof activations);
  tercel_cli_format_bytes((double)r->memory.packed_bytes, packed, sizeof packed);
  printf("memory      activations %s a context, packed weights %s\n", activations, packed);
}

/* ---- the command ---- */

static bool parse_percentiles(const char *text, tercel_bench_result *out) {
  for (const char *at = text; at;) {
    const size_t length = strcspn(at, ",");
    double *const value = &out->percentiles[out->num_percentiles];
    if (out->num_percentiles == TERCEL_BENCH_PERCENTILES_MAX || !tercel_parse_f64(at, length, value) ||
        !(*value >= 0 && *value <= 100))
      return false;
    out->num_percentiles++;
    at = at[length] ? at + length + 1 : NULL;
  }
  return true;
}

static tercel_status bench(const options *o, tercel_bench_result *result, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_cli_data data = {0};
  tercel_bench_profile profile = {0};
  double *latencies = NULL;
  tercel_status status = TERCEL_OK;
  const bool quiet = o->json && strcmp(o->json, "-") == 0;
  const limits bounds = {(int64_t)(o->warmup_ms * 1e6), (int64_t)(o->seconds * 1e9), (size_t)o->iterations};
  stream *const streams = tercel_zalloc_array((size_t)o->streams, sizeof *streams);
  if (!streams) return tercel_fail_memory(err, (size_t)o->streams * sizeof *streams, "the streams");
  TERCEL_CHECK(tercel_cli_load(result->model, &o->engine, &session, err));
  TERCEL_CHECK(tercel_cli_build(&o->engine, false, &session, err));
  TERCEL_CHECK(tercel_cli_read_inputs(session.engine, &o->inputs, &data, err));
  result->threads = tercel_engine_num_threads(session.engine);
  result->streams = (int)o->streams;
  result->load_ms = session.load_ms;
  result->build_ms = session.build_ms;
  if (!quiet) {
    printf("model       %s\n", result->model);
    print_inputs(session.engine, &data);
  }
  for (int i = 0; i < (int)o->streams; i++)
    streams[i] = (stream){.engine = session.engine, .data = &data, .limits = bounds};
  TERCEL_CHECK(run_streams(streams, (int)o->streams, err));
  TERCEL_CHECK(collect(streams, (int)o->streams, &latencies, result, err));
  if (!quiet) print_result(result);
  if (o->profile) TERCEL_CHECK(tercel_bench_measure_profile(session.engine, &data, &profile, err));
  if (o->json) TERCEL_CHECK(tercel_bench_write_json(o->json, result, o->profile ? &profile : NULL, latencies, err));
  if (o->profile && !quiet) TERCEL_CHECK(tercel_bench_print_profile(&profile, err));
done:
  for (int i = 0; i < (int)o->streams; i++) tercel_free(streams[i].latencies);
  tercel_free(streams);
  tercel_free(latencies);
  tercel_bench_free_profile(&profile);
  tercel_cli_free_inputs(&data);
  tercel_cli_close(&session);
  return status;
}

int tercel_cli_bench(int argc, char **argv) {
  options o = {.warmup_ms = 200, .seconds = 3, .iterations = 10, .streams = 1, .percentile = "90,95,99"};
  tercel_cli_list operands = {0};
  tercel_bench_result result = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  result.model = operands.count ? operands.items[0] : o.onnx;
  if (!result.model) return tercel_cli_fail_usage("bench", "MODEL is missing");
  if (operands.count && o.onnx)
    return tercel_cli_fail_usage("bench", "the model is given twice: '%s' and '%s'", result.model, o.onnx);
  if (!parse_percentiles(o.percentile, &result))
    return tercel_cli_fail_usage("bench", "--percentile '%s': want at most %d numbers from 0 to 100", o.percentile,
                                 TERCEL_BENCH_PERCENTILES_MAX);
  if (!(o.warmup_ms >= 0 && o.warmup_ms < 1e9 && o.seconds >= 0 && o.seconds < 1e6))
    return tercel_cli_fail_usage("bench", "--warm-up or --duration is out of range");
  if (o.streams < 1 || o.streams > 1024) return tercel_cli_fail_usage("bench", "--streams: want 1 to 1024");
  if (o.iterations == 0) o.iterations = 1;
  return bench(&o, &result, &err) == TERCEL_OK ? TERCEL_EXIT_OK : tercel_cli_fail("bench", &err);
}
