/* tercel bench --batch: throughput and latency against the size of the batch, as a table, a plot and JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { MAX_BATCHES = 64 };

typedef struct point {
  int64_t batch;
  tercel_bench_result result;
  double items_per_second;
  double against_best; /* throughput over the best of the smaller batches; 1 for the first */
} point;

/* ---- shapes ---- */

/* The inputs whose first dim is the batch have the same free dim there as the first of them. */
static bool is_batch(const tercel_io *io, const char *symbol) {
  if (io->kind[0] != 't' || io->rank < 1 || io->dims[0] >= 0) return false;
  return !symbol || (io->symbols[0] && strcmp(io->symbols[0], symbol) == 0);
}

static tercel_status find_symbol(const tercel_engine *engine, const char **symbol, tercel_error *err) {
  tercel_io io;
  for (size_t i = 0; i < tercel_engine_num_inputs(engine); i++) {
    TERCEL_TRY(tercel_engine_get_input(engine, i, &io, err));
    if (!is_batch(&io, NULL)) continue;
    *symbol = io.symbols[0];
    return TERCEL_OK;
  }
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                     "--batch: no input of the model has a free first dim: its batch is fixed");
}

/* The shape of input i with this batch, "name=4x3x224x224"; its other dims as --shapes say, or a profile, else 1. */
static tercel_status add_shape(const tercel_engine *engine, const tercel_cli_data *data, size_t i, int64_t batch,
                               const char *symbol, tercel_text *to, tercel_error *err) {
  tercel_io io;
  TERCEL_TRY(tercel_engine_get_input(engine, i, &io, err));
  if (io.kind[0] != 't' || data->inputs[i].num_views != 1) return TERCEL_OK;
  const tercel_view *const view = data->inputs[i].views;
  if (view->rank == 0) return TERCEL_OK;
  tercel_text_add(to, "%s%s=", to->length ? "," : "", io.name);
  for (int d = 0; d < view->rank; d++)
    tercel_text_add(to, "%s%lld", d ? "x" : "", (long long)(d == 0 && is_batch(&io, symbol) ? batch : view->dims[d]));
  return TERCEL_OK;
}

/* ---- measuring ---- */

static tercel_status measure(tercel_engine *engine, const tercel_cli_inputs *inputs, const tercel_cli_data *base,
                             const char *symbol, const tercel_bench_limits *limits, point *out, tercel_error *err) {
  tercel_text shapes = {0};
  tercel_cli_data data = {0};
  double *latencies = NULL;
  tercel_status status = TERCEL_OK;
  for (size_t i = 0; i < base->count; i++) TERCEL_CHECK(add_shape(engine, base, i, out->batch, symbol, &shapes, err));
  if (shapes.failed) TERCEL_CHECK(tercel_fail_memory(err, shapes.length, "the shapes"));
  tercel_cli_inputs wanted = *inputs;
  wanted.shapes = (tercel_cli_list){.items = {shapes.data}, .count = 1};
  TERCEL_CHECK(tercel_cli_read_inputs(engine, &wanted, &data, err));
  TERCEL_CHECK(tercel_bench_measure(engine, &data, limits, 1, &out->result, &latencies, err));
  /* By the median, which what else the machine does moves least. */
  out->items_per_second = (double)out->batch / (out->result.median_ms / 1e3);
done:
  tercel_free(latencies);
  tercel_cli_free_inputs(&data);
  tercel_text_deinit(&shapes);
  return status;
}

static tercel_status parse_batches(const char *text, point *points, size_t *count, tercel_error *err) {
  for (const char *at = text; at;) {
    const size_t length = strcspn(at, ",");
    int64_t batch;
    if (*count == MAX_BATCHES || !tercel_parse_i64(at, length, &batch) || batch < 1 || batch > INT32_MAX ||
        (*count && batch <= points[*count - 1].batch))
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--batch '%s': want at most %d sizes from 1 on, growing", text,
                         MAX_BATCHES);
    points[(*count)++].batch = batch;
    at = at[length] ? at + length + 1 : NULL;
  }
  return TERCEL_OK;
}

static void print_point(const point *p) {
  char activations[32];
  tercel_cli_format_bytes((double)p->result.memory.activation_bytes, activations, sizeof activations);
  printf("%7lld %5lld %11.3f %11.3f %11.3f %12.2f %8.2f %12s\n", (long long)p->batch,
         (long long)(p->result.batch_piece > 0 ? p->result.batch_piece : p->batch), p->result.median_ms,
         p->result.max_ms, p->result.median_ms / (double)p->batch, p->items_per_second, p->against_best, activations);
  fflush(stdout);
}

/* ---- the plot ---- */

enum { LEFT = 70, TOP = 40, WIDTH = 640, HEIGHT = 320, RIGHT = 80, BOTTOM = 50 };

static double x_of(const point *points, size_t count, size_t i) {
  const double first = log2((double)points[0].batch), last = log2((double)points[count - 1].batch);
  return LEFT + (count > 1 ? (log2((double)points[i].batch) - first) / (last - first) * WIDTH : WIDTH / 2.0);
}

static void add_series(tercel_text *to, const point *points, size_t count, const char *name, bool is_latency,
                       double most) {
  tercel_text_add(to, "<g class=\"%s\"><path d=\"", name);
  for (size_t i = 0; i < count; i++) {
    const double value = is_latency ? points[i].result.median_ms : points[i].items_per_second;
    tercel_text_add(to, "%c%.1f %.1f", i ? 'L' : 'M', x_of(points, count, i), TOP + HEIGHT * (1 - value / most));
  }
  tercel_text_add(to, "\"/>\n");
  for (size_t i = 0; i < count; i++) {
    const double value = is_latency ? points[i].result.median_ms : points[i].items_per_second;
    tercel_text_add(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>batch %lld: %.4g %s</title></circle>\n",
                    x_of(points, count, i), TOP + HEIGHT * (1 - value / most), (long long)points[i].batch, value,
                    is_latency ? "ms" : "items/s");
  }
  tercel_text_add(to, "</g>\n");
}

static tercel_status write_svg(const char *path, const point *points, size_t count, const char *model,
                               tercel_error *err) {
  tercel_text to = {0};
  double most_items = 0, most_ms = 0;
  for (size_t i = 0; i < count; i++) {
    most_items = fmax(most_items, points[i].items_per_second * 1.05);
    most_ms = fmax(most_ms, points[i].result.median_ms * 1.05);
  }
  const char *const base = strrchr(model, '/');
  tercel_text_add(&to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n<style>\n",
                  LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
  tercel_text_add(&to, "svg { background: #fff; font: 12px sans-serif; fill: #333 } path { fill: none }\n"
                       ".grid { stroke: #ddd }\n"
                       ".throughput path { stroke: #1f6fb2; stroke-width: 2 } .throughput { fill: #1f6fb2 }\n"
                       ".latency path { stroke: #c0392b; stroke-width: 2; stroke-dasharray: 5 3 } .latency { fill: "
                       "#c0392b }\n</style>\n");
  tercel_text_add(&to, "<text x=\"%d\" y=\"20\">", LEFT);
  tercel_cli_add_xml(&to, base ? base + 1 : model);
  tercel_text_add(&to, ", %d thread%s</text>\n", points[0].result.threads, points[0].result.threads > 1 ? "s" : "");
  for (int i = 0; i <= 4; i++) {
    const double y = TOP + HEIGHT * (1 - i / 4.0);
    tercel_text_add(&to, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, y, WIDTH);
    tercel_text_add(&to, "<text class=\"throughput\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 8,
                    y + 4, most_items * i / 4);
    tercel_text_add(&to, "<text class=\"latency\" x=\"%d\" y=\"%.1f\">%.4g</text>\n", LEFT + WIDTH + 8, y + 4,
                    most_ms * i / 4);
  }
  for (size_t i = 0; i < count; i++)
    tercel_text_add(&to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n", x_of(points, count, i),
                    TOP + HEIGHT + 18, (long long)points[i].batch);
  tercel_text_add(&to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">batch</text>\n", LEFT + WIDTH / 2,
                  TOP + HEIGHT + 38);
  tercel_text_add(&to, "<text class=\"throughput\" x=\"%d\" y=\"34\">items a second</text>\n", LEFT);
  tercel_text_add(&to, "<text class=\"latency\" x=\"%d\" y=\"34\" text-anchor=\"end\">ms a run (median)</text>\n",
                  LEFT + WIDTH);
  add_series(&to, points, count, "throughput", false, most_items);
  add_series(&to, points, count, "latency", true, most_ms);
  tercel_text_add(&to, "</svg>\n");
  tercel_status status = to.failed ? tercel_fail_memory(err, to.length, "the plot") : TERCEL_OK;
  if (status == TERCEL_OK) status = tercel_cli_write_text(path, &to, err);
  tercel_text_deinit(&to);
  return status;
}

/* ---- JSON ---- */

static tercel_status write_json(const char *path, const point *points, size_t count, const char *model,
                                tercel_error *err) {
  tercel_text to = {0};
  tercel_text_add(&to, "{\n  \"model\": ");
  tercel_text_add_json(&to, model, strlen(model));
  tercel_text_add(&to, ", \"threads\": %d,\n  \"batches\": [", points[0].result.threads);
  for (size_t i = 0; i < count; i++)
    tercel_text_add(&to,
                    "%s\n    {\"batch\": %lld, \"piece\": %lld, \"median_ms\": %.6g, \"items_per_second\": %.6g, "
                    "\"against_best\": %.6g, "
                    "\"activation_bytes\": %llu, \"runs\": %zu}",
                    i ? "," : "", (long long)points[i].batch, (long long)points[i].result.batch_piece,
                    points[i].result.median_ms, points[i].items_per_second, points[i].against_best,
                    (unsigned long long)points[i].result.memory.activation_bytes, points[i].result.num_runs);
  tercel_text_add(&to, "\n  ]\n}\n");
  tercel_status status = to.failed ? tercel_fail_memory(err, to.length, "JSON") : TERCEL_OK;
  if (status == TERCEL_OK) status = tercel_cli_write_text(path, &to, err);
  tercel_text_deinit(&to);
  return status;
}

/* ---- all of it ---- */

tercel_status tercel_bench_batches(tercel_engine *engine, const tercel_bench_result *like, const char *batches,
                                   const tercel_cli_inputs *inputs, const tercel_bench_limits *limits, const char *svg,
                                   const char *json, tercel_error *err) {
  point points[MAX_BATCHES] = {0};
  size_t count = 0;
  const char *symbol = NULL;
  tercel_cli_data base = {0};
  tercel_status status = TERCEL_OK;
  const bool quiet = json && strcmp(json, "-") == 0;
  double best = 0;
  TERCEL_CHECK(parse_batches(batches, points, &count, err));
  TERCEL_CHECK(find_symbol(engine, &symbol, err));
  TERCEL_CHECK(tercel_cli_read_inputs(engine, inputs, &base, err));
  if (!quiet) printf("model       %s, %d threads\n", like->model, tercel_engine_num_threads(engine));
  if (!quiet) printf("  batch piece   median ms      max ms     ms/item      items/s  vs best  activations\n");
  for (size_t i = 0; i < count; i++) {
    points[i].result = *like;
    TERCEL_CHECK(measure(engine, inputs, &base, symbol, limits, &points[i], err));
    points[i].against_best = i ? points[i].items_per_second / best : 1;
    best = fmax(best, points[i].items_per_second);
    if (!quiet) print_point(&points[i]);
  }
  if (svg) TERCEL_CHECK(write_svg(svg, points, count, like->model, err));
  if (json) TERCEL_CHECK(write_json(json, points, count, like->model, err));
done:
  tercel_cli_free_inputs(&base);
  return status;
}
