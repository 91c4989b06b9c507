/* tercel bench: latency and throughput of repeated runs. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
  tercel_cli_engine engine;
  tercel_cli_inputs inputs;
  const char *onnx, *percentile, *json, *batch, *svg;
  double warmup_ms, seconds;
  int64_t iterations, streams, batch_piece;
  bool profile;
  double tune_background;
} options;

enum { UNSET = -1 };

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
    {"batch", TERCEL_CLI_TEXT, offsetof(options, batch), "N,...",
     "run each of these batch sizes, such as 1,2,4,8,16,32: a table of latency and throughput.  The batch is the free "
     "first "
     "dim of the inputs",
     NULL},
    {"batch-piece", TERCEL_CLI_INT, offsetof(options, batch_piece), "N",
     "compute N items of a batch at a time, where each is computed by itself; 0: all.  Default: as many as the cache "
     "holds",
     NULL},
    {"svg", TERCEL_CLI_TEXT, offsetof(options, svg), "FILE", "with --batch: draw throughput and latency", NULL},
    {"percentile", TERCEL_CLI_TEXT, offsetof(options, percentile), "P,...",
     "percentiles of the latency; default 90,95,99", NULL},
    {"tune-background", TERCEL_CLI_MAYBE_NUMBER, offsetof(options, tune_background), "SECONDS",
     "measure before, while and after the engine is tuned beside the runs, for 60 seconds at most if not said", NULL},
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
                "  tercel bench net.onnx --batch 1,2,4,8,16,32 --svg batch.svg\n"
                "  tercel bench net.onnx --streams 2 --threads 1 --json bench.json\n",
    .groups = groups,
    .max_operands = 1,
};

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
  printf("new shapes  bound in %.3f ms, the first time they came\n", r->bind_ms);
  if (r->batch_piece > 0) printf("batch       %lld items at a time\n", (long long)r->batch_piece);
  if (r->streams == 1)
    printf("heap        %zu allocation%s in %zu runs\n", r->num_allocations, r->num_allocations == 1 ? "" : "s",
           r->num_runs);
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
  const tercel_bench_limits limits = {(int64_t)(o->warmup_ms * 1e6), (int64_t)(o->seconds * 1e9), (size_t)o->iterations,
                                      o->batch_piece == 0       ? -1
                                      : o->batch_piece == UNSET ? 0
                                                                : o->batch_piece};
  TERCEL_CHECK(tercel_cli_load(result->model, &o->engine, &session, err));
  TERCEL_CHECK(tercel_cli_build(&o->engine, false, &session, err));
  if (o->batch) {
    status = tercel_bench_batches(session.engine, result, o->batch, &o->inputs, &limits, o->svg, o->json, err);
    goto done;
  }
  TERCEL_CHECK(tercel_cli_read_inputs(session.engine, &o->inputs, &data, err));
  result->load_ms = session.load_ms;
  result->build_ms = session.build_ms;
  if (!quiet) {
    printf("model       %s\n", result->model);
    print_inputs(session.engine, &data);
  }
  if (o->tune_background != 0) {
    result->streams = (int)o->streams;
    status = tercel_bench_beside_tuning(session.engine, &data, &limits, result,
                                        o->tune_background > 0 ? o->tune_background : 0, o->engine.timing_cache, err);
    goto done;
  }
  TERCEL_CHECK(tercel_bench_measure(session.engine, &data, &limits, (int)o->streams, result, &latencies, err));
  if (!quiet) print_result(result);
  if (o->profile) TERCEL_CHECK(tercel_bench_measure_profile(session.engine, &data, &profile, err));
  if (o->json) TERCEL_CHECK(tercel_bench_write_json(o->json, result, o->profile ? &profile : NULL, latencies, err));
  if (o->profile && !quiet) TERCEL_CHECK(tercel_bench_print_profile(&profile, err));
done:
  tercel_free(latencies);
  tercel_bench_free_profile(&profile);
  tercel_cli_free_inputs(&data);
  tercel_cli_close(&session);
  return status;
}

int tercel_cli_bench(int argc, char **argv) {
  options o = {
      .batch_piece = UNSET, .warmup_ms = 200, .seconds = 3, .iterations = 10, .streams = 1, .percentile = "90,95,99"};
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
  o.engine.keep_weights = o.tune_background != 0;
  if (o.tune_background != 0 && (o.batch || o.profile || o.json))
    return tercel_cli_fail_usage("bench", "--tune-background goes with neither --batch, --profile nor --json");
  if (o.svg && !o.batch) return tercel_cli_fail_usage("bench", "--svg goes with --batch");
  if (o.batch && (o.profile || o.streams > 1))
    return tercel_cli_fail_usage("bench", "--batch goes with neither --profile nor --streams");
  return bench(&o, &result, &err) == TERCEL_OK ? TERCEL_EXIT_OK : tercel_cli_fail("bench", &err);
}
