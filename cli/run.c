/* tercel run: one run, its outputs summarized and saved. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/npy.h"
#include "io/tensorpb.h"

typedef struct options {
  tercel_cli_engine engine;
  tercel_cli_inputs inputs;
  const char *output_dir, *output_format, *labels;
  int64_t top;
} options;

static const tercel_cli_option own[] = {
    {"output-dir", TERCEL_CLI_TEXT, offsetof(options, output_dir), "DIR",
     "save the outputs as DIR/output_0.pb, output_1.pb, ...", NULL},
    {"output-format", TERCEL_CLI_TEXT, offsetof(options, output_format), "pb|npy",
     "how they are saved; default pb (ONNX TensorProto)", NULL},
    {"labels", TERCEL_CLI_TEXT, offsetof(options, labels), "FILE",
     "a text file with a class on each line: show the top classes", NULL},
    {"top", TERCEL_CLI_INT, offsetof(options, top), "N", "how many classes to show; default 5", NULL},
    {0}};
static const tercel_cli_group groups[] = {{"outputs", own, 0},
                                          {"inputs", tercel_cli_inputs_options, offsetof(options, inputs)},
                                          {"pictures", tercel_cli_image_options, offsetof(options, inputs)},
                                          {"engine", tercel_cli_engine_options, offsetof(options, engine)},
                                          {0}};
static const tercel_cli_usage usage = {
    .command = "run",
    .operands = "MODEL",
    .what = "Runs MODEL once and shows each output: type, shape, least, greatest, mean and first values.  Inputs that "
            "no file gives "
            "are made up, and said to be.",
    .examples = "  tercel run net.onnx\n"
                "  tercel run net.onnx --input x=x.npy --output-dir out --output-format npy\n"
                "  tercel run resnet50.onnx --input cat.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 \\\n"
                "      --labels imagenet.txt\n"
                "  tercel run bert.onnx --shapes input_ids=1x128,attention_mask=1x128 --fill ones\n"
                "  tercel run net.onnx --inputs-dir test_data_set_0 --output-dir out\n",
    .groups = groups,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- classes ---- */

/* The line of a label file, without its end; NULL past the last. */
static const char *label_at(const tercel_file *labels, int64_t wanted, int *length) {
  const char *at = (const char *)labels->data, *const end = at + labels->size;
  for (int64_t line = 0; at && at < end; line++) {
    const char *const newline = memchr(at, '\n', (size_t)(end - at));
    const char *const stop = newline ? newline : end;
    if (line == wanted) {
      *length = (int)(stop - at) - (stop > at && stop[-1] == '\r');
      return at;
    }
    at = stop + 1;
  }
  return NULL;
}

/* The largest values of the last dim of a float output's first row. */
static void print_top(const tercel_view *view, const tercel_file *labels, int64_t top) {
  const int64_t classes = view->rank ? view->dims[view->rank - 1] : 0;
  double last = 0;
  int64_t last_index = -1;
  for (int64_t n = 0; n < top && n < classes; n++) {
    int64_t best = -1;
    double best_value = 0;
    for (int64_t i = 0; i < classes; i++) {
      const double value = tercel_element_get_f64(view->data, view->dtype, i);
      const bool taken = last_index >= 0 && (value > last || (value == last && i <= last_index));
      if (taken || value != value || (best >= 0 && value <= best_value)) continue;
      best = i;
      best_value = value;
    }
    if (best < 0) return;
    int length = 0;
    const char *const label = label_at(labels, best, &length);
    printf("  %2lld. %-6lld %10.4f  %.*s\n", (long long)n + 1, (long long)best, best_value, label ? length : 9,
           label ? label : "(no line)");
    last = best_value;
    last_index = best;
  }
}

/* ---- outputs ---- */

/* All tensors of an output, in memory of the arena (their data stay the context's). */
static tercel_status get_output(const tercel_context *context, size_t index, const tercel_io *io, tercel_arena *arena,
                                tercel_view **views, size_t *count, tercel_error *err) {
  *count = 1;
  const bool tensor = io->kind[0] == 't';
  if (!tensor) TERCEL_TRY(tercel_context_get_output_length(context, index, count, err));
  *views = tercel_arena_alloc_array(arena, *count, sizeof **views);
  if (!*views) return tercel_fail_memory(err, *count * sizeof **views, "the outputs");
  if (tensor) return tercel_context_get_output(context, index, *views, err);
  for (size_t i = 0; i < *count; i++)
    TERCEL_TRY(tercel_context_get_output_element(context, index, i, &(*views)[i], err));
  return TERCEL_OK;
}

static tercel_status save(const options *o, size_t index, const tercel_io *io, const tercel_view *views, size_t count,
                          tercel_error *err) {
  char path[PATH_MAX];
  const char *const format = o->output_format ? o->output_format : "pb";
  const int length = snprintf(path, sizeof path, "%s/output_%zu.%s", o->output_dir, index, format);
  if (length < 0 || (size_t)length >= sizeof path)
    return tercel_fail(err, TERCEL_IO, "the path of output %zu is too long", index);
  if (strcmp(format, "pb") == 0) return tercel_tensorpb_write(path, io->kind, io->name, views, count, err);
  if (count != 1)
    return tercel_fail(err, TERCEL_UNSUPPORTED,
                       "output '%s' is a %s of %zu tensors: .npy holds one, use --output-format pb", io->name, io->kind,
                       count);
  return tercel_npy_write(path, views, err);
}

static tercel_status show_output(const options *o, const tercel_cli_session *session, size_t index,
                                 const tercel_file *labels, tercel_error *err) {
  tercel_io io;
  tercel_view *views = NULL;
  size_t count = 0;
  char label[300];
  tercel_arena arena = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_engine_get_output(session->engine, index, &io, err));
  TERCEL_CHECK(get_output(session->context, index, &io, &arena, &views, &count, err));
  if (io.kind[0] != 't') printf("output '%s'  %s of %zu\n", io.name, io.kind, count);
  for (size_t i = 0; i < count; i++) {
    if (io.kind[0] == 't')
      snprintf(label, sizeof label, "output '%.250s'", io.name);
    else
      snprintf(label, sizeof label, "  [%zu]", i);
    tercel_cli_print_view(label, &views[i]);
    if (o->labels && tercel_dtype_is_float(views[i].dtype)) print_top(&views[i], labels, o->top ? o->top : 5);
  }
  if (o->output_dir) TERCEL_CHECK(save(o, index, &io, views, count, err));
done:
  tercel_arena_deinit(&arena);
  return status;
}

/* ---- the command ---- */

static void print_inputs(const tercel_engine *engine, const tercel_cli_data *data) {
  tercel_io io;
  char shape[160];
  for (size_t i = 0; i < data->count; i++) {
    if (tercel_engine_get_input(engine, i, &io, NULL) != TERCEL_OK) return;
    if (data->inputs[i].kind[0] == 't')
      tercel_view_describe(data->inputs[i].views, shape, sizeof shape);
    else
      snprintf(shape, sizeof shape, "%s of %zu", data->inputs[i].kind, data->inputs[i].num_views);
    printf("input '%s'  %s  %s\n", io.name, shape, data->sources[i]);
  }
}

static tercel_status prepare_folder(const char *path, tercel_error *err) {
  if (!path || mkdir(path, 0777) == 0 || errno == EEXIST) return TERCEL_OK;
  return tercel_fail(err, TERCEL_IO, "can't make the folder '%s': %s", path, strerror(errno));
}

static tercel_status run(const options *o, const char *path, tercel_error *err) {
  tercel_cli_session session = {0};
  tercel_cli_data data = {0};
  tercel_file labels = {0};
  tercel_status status = TERCEL_OK;
  if (o->labels) TERCEL_CHECK(tercel_file_open(o->labels, true, &labels, err));
  TERCEL_CHECK(tercel_cli_load(path, &o->engine, &session, err));
  TERCEL_CHECK(tercel_cli_build(&o->engine, false, &session, err));
  TERCEL_CHECK(tercel_cli_read_inputs(session.engine, &o->inputs, &data, err));
  TERCEL_CHECK(prepare_folder(o->output_dir, err));
  print_inputs(session.engine, &data);
  const int64_t start = tercel_time_ns();
  TERCEL_CHECK(tercel_cli_first_run(session.context, &data, err));
  const double ms = (double)(tercel_time_ns() - start) / 1e6;
  const size_t count = tercel_engine_num_outputs(session.engine);
  for (size_t i = 0; i < count; i++) TERCEL_CHECK(show_output(o, &session, i, &labels, err));
  printf("load %.1f ms, build %.1f ms, first run %.2f ms with %d threads\n", session.load_ms, session.build_ms, ms,
         tercel_engine_num_threads(session.engine));
done:
  tercel_cli_close(&session);
  tercel_cli_free_inputs(&data);
  tercel_file_close(&labels);
  return status;
}

int tercel_cli_run(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  if (o.output_format && strcmp(o.output_format, "pb") != 0 && strcmp(o.output_format, "npy") != 0)
    return tercel_cli_fail_usage("run", "--output-format '%s': want pb or npy", o.output_format);
  return run(&o, operands.items[0], &err) == TERCEL_OK ? TERCEL_EXIT_OK : tercel_cli_fail("run", &err);
}
