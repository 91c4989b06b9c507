/* Running one case: its model over its data sets. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/tensorpb.h"
#include "test.h"

enum { FILES_MAX = 1000 };

/* The inputs or outputs of a data set, as their files give them. */
typedef struct files {
  tercel_datum *data;
  size_t count;
} files;

static void free_files(files *f) {
  for (size_t i = 0; i < f->count; i++) tercel_datum_deinit(&f->data[i]);
  tercel_free(f->data);
  *f = (files){0};
}

typedef tercel_status (*get_io)(const tercel_engine *engine, size_t index, tercel_io *out, tercel_error *err);

/* Reads FOLDER/WHAT_0.pb .. for all `count` of the engine; a missing file is an error. */
static tercel_status read_files(const tercel_engine *engine, const char *folder, const char *what, size_t count,
                                get_io get, files *out, tercel_error *err) {
  char path[PATH_MAX];
  tercel_io io;
  out->data = tercel_zalloc_array(count ? count : 1, sizeof *out->data);
  if (!out->data) return tercel_fail_memory(err, count * sizeof *out->data, "a data set");
  for (; out->count < count; out->count++) {
    TERCEL_TRY(get(engine, out->count, &io, err));
    const int length = snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, what, out->count);
    if (length < 0 || (size_t)length >= sizeof path)
      return tercel_fail(err, TERCEL_IO, "the path of '%s' is too long", folder);
    TERCEL_TRY(tercel_tensorpb_read(path, io.kind, &out->data[out->count], err));
  }
  return TERCEL_OK;
}

/* A data file may name its input; where all do, the names count, since a model may list inputs in another order. */
static tercel_status place(const tercel_engine *engine, files *in, tercel_error *err) {
  tercel_io io;
  for (size_t i = 0; i < in->count; i++) {
    TERCEL_TRY(tercel_engine_get_input(engine, i, &io, err));
    for (size_t k = i; k < in->count; k++) {
      if (strcmp(in->data[k].name, io.name) != 0) continue;
      const tercel_datum swapped = in->data[i];
      in->data[i] = in->data[k];
      in->data[k] = swapped;
      break;
    }
  }
  return TERCEL_OK;
}

/* A data set being run. */
typedef struct set {
  const tercel_cli_session *session;
  const tercel_test_case *one;
  files want;
  bool draws; /* outputs are compared as draws of one distribution */
} set;

static tercel_status get_view(const tercel_context *context, size_t output, const tercel_datum *want, size_t element,
                              tercel_view *out, tercel_error *err) {
  if (want->kind[0] == 't') return tercel_context_get_output(context, output, out, err);
  return tercel_context_get_output_element(context, output, element, out, err);
}

/* INTERNAL with the difference as its message when an output is wrong. */
static tercel_status compare_output(const set *s, size_t output, tercel_error *err) {
  const tercel_context *const context = s->session->context;
  const tercel_datum *const want = &s->want.data[output];
  size_t length = 1;
  char why[400];
  if (want->kind[0] != 't') TERCEL_TRY(tercel_context_get_output_length(context, output, &length, err));
  if (length != want->num_views)
    return tercel_fail(err, TERCEL_INTERNAL, "output %zu has %zu elements, want %zu", output, length, want->num_views);
  for (size_t i = 0; i < length; i++) {
    tercel_view got;
    TERCEL_TRY(get_view(context, output, want, i, &got, err));
    if (s->draws ? !tercel_cli_compare_draws(&got, &want->views[i], s->one->atol, why, sizeof why)
                 : !tercel_cli_compare(&got, &want->views[i], s->one->rtol, s->one->atol, why, sizeof why))
      return tercel_fail(err, TERCEL_INTERNAL, "output %zu: %s", output, why);
  }
  return TERCEL_OK;
}

static tercel_status run_and_compare(const set *s, tercel_error *err) {
  TERCEL_TRY(tercel_context_run(s->session->context, err));
  for (size_t i = 0; i < s->want.count; i++) TERCEL_TRY(compare_output(s, i, err));
  return TERCEL_OK;
}

/* A model that draws random numbers may give the wanted outputs all the same (its ratio of dropout is 0), or seem to, by chance: what it gives each
 * time is no draw. */
static tercel_status compare(set *s, bool random, tercel_error *err) {
  enum { TRIES = 4 };
  tercel_status status = TERCEL_OK;
  for (int i = 0; i < (random ? TRIES : 1) && status == TERCEL_OK; i++) status = run_and_compare(s, err);
  if (status != TERCEL_INTERNAL || !random) return status;
  s->draws = true;
  return run_and_compare(s, err);
}

/* *draws is set when a set's outputs could only be compared as draws. */
static tercel_status run_set(const tercel_cli_session *session, const char *folder, const tercel_test_case *one,
                             bool *draws, tercel_error *err) {
  set s = {.session = session, .one = one};
  files in = {0};
  tercel_status status = TERCEL_OK;
  tercel_model_info info = {.size = sizeof info};
  const tercel_engine *const engine = session->engine;
  if (session->model != NULL) TERCEL_CHECK(tercel_model_get_info(session->model, &info, err));
  TERCEL_CHECK(
      read_files(engine, folder, "input", tercel_engine_num_inputs(engine), tercel_engine_get_input, &in, err));
  TERCEL_CHECK(
      read_files(engine, folder, "output", tercel_engine_num_outputs(engine), tercel_engine_get_output, &s.want, err));
  TERCEL_CHECK(place(engine, &in, err));
  TERCEL_CHECK(tercel_cli_set_inputs(session->context, &(tercel_cli_data){.inputs = in.data, .count = in.count}, err));
  TERCEL_CHECK(compare(&s, info.num_random > 0, err));
done:
  *draws |= s.draws;
  free_files(&in);
  free_files(&s.want);
  return status;
}

static tercel_status run_sets(const tercel_cli_session *session, const tercel_test_case *one, bool *draws,
                              tercel_error *err) {
  char folder[PATH_MAX];
  for (int number = 0; number < FILES_MAX; number++) {
    const int length = snprintf(folder, sizeof folder, "%s/test_data_set_%d", one->path, number);
    if (length < 0 || (size_t)length >= sizeof folder) return tercel_fail(err, TERCEL_IO, "the path is too long");
    if (access(folder, F_OK) != 0)
      return number ? TERCEL_OK : tercel_fail(err, TERCEL_IO, "there is no test_data_set_0");
    const tercel_status status = run_set(session, folder, one, draws, err);
    if (status != TERCEL_OK) return number ? tercel_fail_at(err, status, "data set %d", number) : status;
  }
  return TERCEL_OK;
}

tercel_test_outcome tercel_test_run(const tercel_test_case *one, const tercel_cli_engine *options, char *why,
                                    size_t why_size) {
  char path[PATH_MAX];
  tercel_error err = {0};
  tercel_cli_session session = {0};
  bool draws = false;
  snprintf(path, sizeof path, "%s/model.onnx", one->path);
  tercel_status status = tercel_cli_load(path, options, &session, &err);
  if (status == TERCEL_OK) status = tercel_cli_build(options, false, &session, &err);
  if (status == TERCEL_OK) status = run_sets(&session, one, &draws, &err);
  tercel_cli_close(&session);
  const size_t length = strlen(path); /* a message that begins with the model's path need not name it again */
  const bool named = strncmp(err.message, path, length) == 0 && strncmp(err.message + length, ": ", 2) == 0;
  snprintf(why, why_size, "%s", err.message + (named ? length + 2 : 0));
  return status == TERCEL_OK            ? (draws ? TERCEL_TEST_RANDOM : TERCEL_TEST_PASSED)
         : status == TERCEL_UNSUPPORTED ? TERCEL_TEST_UNSUPPORTED
                                        : TERCEL_TEST_FAILED;
}
