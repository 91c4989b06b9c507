/* Several threads over one engine: each has a context of its own; weights and plan are shared.
 *
 * usage: threads MODEL.onnx [THREADS] [RUNS]
 *
 * Every input is filled with ones (free dims are 1); prints how many runs a second all threads do together. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tercel/tercel.h>

typedef struct worker {
  pthread_t thread;
  tercel_engine *engine; /* shared */
  int runs;
  tercel_error err; /* each thread has its own */
} worker;

/* Memory for input number i, all elements 1 where the type is a float or an integer; free(view->data) later. */
static tercel_status make_input(tercel_engine *engine, size_t i, tercel_view *view, tercel_error *err) {
  tercel_io io;
  tercel_status status = tercel_engine_get_input(engine, i, &io, err);
  if (status) return status;
  *view = (tercel_view){.dtype = io.dtype, .rank = io.rank > 0 ? io.rank : 0};
  size_t elements = 1, size = (size_t)tercel_dtype_bits(io.dtype) / 8;
  for (int d = 0; d < view->rank; d++) {
    view->dims[d] = io.dims[d] > 0 ? io.dims[d] : 1;
    elements *= (size_t)view->dims[d];
  }
  view->bytes = elements * size;
  view->data = calloc(elements, size);
  if (!view->data) return TERCEL_OUT_OF_MEMORY;
  for (size_t k = 0; k < elements; k++) {
    if (io.dtype == TERCEL_DTYPE_F32) ((float *)view->data)[k] = 1;
    if (io.dtype == TERCEL_DTYPE_I64) ((int64_t *)view->data)[k] = 1;
  }
  return TERCEL_OK;
}

static tercel_status run_often(worker *w, tercel_context *context, tercel_view *inputs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tercel_status status = make_input(w->engine, i, &inputs[i], &w->err);
    if (!status) status = tercel_context_set_input(context, i, &inputs[i], &w->err);
    if (status) return status;
  }
  for (int n = 0; n < w->runs; n++) {
    tercel_status status = tercel_context_run(context, &w->err);
    if (status) return status;
  }
  return TERCEL_OK;
}

static void *work(void *arg) {
  worker *w = arg;
  size_t count = tercel_engine_num_inputs(w->engine);
  tercel_view *inputs = calloc(count + 1, sizeof *inputs);
  tercel_context *context = NULL;
  if (inputs && tercel_context_create(w->engine, NULL, &context, &w->err) == TERCEL_OK)
    run_often(w, context, inputs, count);
  tercel_context_destroy(context);
  for (size_t i = 0; inputs && i < count; i++) free(inputs[i].data);
  free(inputs);
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  enum { MOST = 64 };
  if (argc < 2 || argc > 4) return fprintf(stderr, "usage: threads MODEL.onnx [THREADS] [RUNS]\n"), 2;
  int num_threads = argc > 2 ? atoi(argv[2]) : 2, runs = argc > 3 ? atoi(argv[3]) : 20, started = 0, failed = 0;
  if (num_threads < 1 || num_threads > MOST || runs < 1)
    return fprintf(stderr, "THREADS: 1 to %d; RUNS: from 1\n", MOST), 2;

  /* One thread inside each run: the parallelism comes from the contexts. */
  tercel_engine_options options = {.size = sizeof options, .num_threads = 1};
  tercel_error err = {0};
  tercel_model *model = NULL;
  tercel_engine *engine = NULL;
  if (tercel_model_load(argv[1], NULL, &model, &err) || tercel_engine_build(model, &options, &engine, &err))
    return fprintf(stderr, "%s\n", err.message), 1;
  tercel_model_destroy(model); /* the engine keeps what it needs */

  static worker workers[MOST];
  double start = now();
  for (; started < num_threads; started++) {
    workers[started] = (worker){.engine = engine, .runs = runs};
    if (pthread_create(&workers[started].thread, NULL, work, &workers[started])) break;
  }
  for (int i = 0; i < started; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].err.status == TERCEL_OK) continue;
    fprintf(stderr, "thread %d: %s\n", i, workers[i].err.message);
    failed++;
  }
  double seconds = now() - start;
  if (!failed) printf("%d threads, %d runs each: %.1f runs/s\n", started, runs, started * runs / seconds);
  tercel_engine_destroy(engine);
  return failed || started < num_threads;
}
