/* What passes are worth in time: the model with all of them and without one, in turn, medians. */
#include <stdlib.h>
#include <string.h>

#include "explain.h"

enum { MIN_RUNS = 5, MAX_RUNS = 200, MEASURE_MS = 400 }; /* of each of a pair */

/* A pair of engines over the same model, and what their runs took. */
typedef struct pair {
  const tercel_cli_session *with;
  tercel_cli_session without;
  tercel_cli_data with_data, without_data;
  double with_ms[MAX_RUNS], without_ms[MAX_RUNS], won[MAX_RUNS];
  int count;
} pair;

static tercel_status timed_run(tercel_context *context, double *ms, tercel_error *err) {
  const int64_t start = tercel_time_ns();
  TERCEL_TRY(tercel_context_run(context, err));
  *ms = (double)(tercel_time_ns() - start) / 1e6;
  return TERCEL_OK;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

/* A B A B ..., after one run of each. */
static tercel_status run_in_turn(pair *p, tercel_error *err) {
  TERCEL_TRY(tercel_cli_first_run(p->with->context, &p->with_data, err));
  TERCEL_TRY(tercel_cli_first_run(p->without.context, &p->without_data, err));
  const int64_t start = tercel_time_ns();
  for (; p->count < MAX_RUNS; p->count++) {
    if (p->count >= MIN_RUNS && tercel_time_ns() - start > 2 * MEASURE_MS * (int64_t)1000000) break;
    TERCEL_TRY(timed_run(p->with->context, &p->with_ms[p->count], err));
    TERCEL_TRY(timed_run(p->without.context, &p->without_ms[p->count], err));
  }
  return TERCEL_OK;
}

/* options with one more pass left out. */
static tercel_status build_without(const tercel_cli_engine *options, const char *pass,
                                   const tercel_cli_session *session, tercel_cli_session *out, tercel_error *err) {
  tercel_cli_engine wanted = *options;
  tercel_text disabled = {0};
  if (options->disable_passes) tercel_text_add(&disabled, "%s,", options->disable_passes);
  tercel_text_add(&disabled, "%s", pass);
  wanted.disable_passes = disabled.data;
  wanted.count_savings = false;
  out->model = session->model; /* borrowed */
  const tercel_status status =
      disabled.failed ? tercel_fail_memory(err, 0, "a list of passes") : tercel_cli_build(&wanted, true, out, err);
  tercel_text_deinit(&disabled);
  return status;
}

static tercel_status measure_pass(const tercel_cli_engine *options, const tercel_cli_inputs *inputs, pair *p,
                                  tercel_explain_pass *pass, tercel_error *err) {
  tercel_status status;
  p->count = 0;
  TERCEL_CHECK(build_without(options, pass->time.name, p->with, &p->without, err));
  TERCEL_CHECK(tercel_cli_read_inputs(p->without.engine, inputs, &p->without_data, err));
  TERCEL_CHECK(run_in_turn(p, err));
  for (int i = 0; i < p->count; i++) p->won[i] = 1 - p->with_ms[i] / p->without_ms[i];
  pass->won = median(p->won, p->count);
  pass->with_ms = median(p->with_ms, p->count);
  pass->without_ms = median(p->without_ms, p->count);
done:
  tercel_cli_free_inputs(&p->without_data);
  p->without.model = NULL;
  tercel_cli_close(&p->without);
  return status;
}

tercel_status tercel_explain_measure(const tercel_cli_engine *options, const tercel_cli_inputs *inputs,
                                     const tercel_cli_session *session, tercel_explanation *e, tercel_error *err) {
  pair *const p = tercel_zalloc(sizeof *p);
  tercel_status status;
  if (!p) return tercel_fail_memory(err, sizeof *p, "measuring");
  p->with = session;
  TERCEL_CHECK(tercel_cli_read_inputs(session->engine, inputs, &p->with_data, err));
  for (size_t i = 0; i < e->num_passes; i++)
    if (e->passes[i].num_made) TERCEL_CHECK(measure_pass(options, inputs, p, &e->passes[i], err));
  e->is_measured = true;
done:
  tercel_cli_free_inputs(&p->with_data);
  tercel_free(p);
  return status;
}
