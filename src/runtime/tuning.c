/* Tuning an engine: once while it is built, or beside its contexts in a thread of its own.  plan/tune.h measures; here stand the file of times,
 * the thread, and who is told how far it has got. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "plan/tune.h"
#include "runtime/runtime.h"

/* ---- times --------------------------------------------------------------------------------------------------------- */

tercel_status tercel_engine_read_times(tercel_engine *engine, const tercel_engine_options *options, tercel_error *err) {
  TERCEL_TRY(tercel_timing_cache_create(&engine->cache, err));
  if (options->timing_cache_path != NULL)
    TERCEL_TRY(tercel_timing_cache_load(engine->cache, options->timing_cache_path, true, err));
  if (options->timing_cache == NULL) return TERCEL_OK;
  return tercel_timing_cache_read(engine->cache, options->timing_cache, strlen(options->timing_cache), "(option)", err);
}

/* Tasks at the usual shapes of each profile, or at nominal ones. */
static tercel_status add_tasks(tercel_engine *engine, tercel_tuning *tuning, tercel_error *err) {
  if (engine->profiles.count == 0) return tercel_tuning_add(tuning, NULL, NULL, err);
  for (size_t i = 0; i < engine->profiles.count; ++i) {
    tercel_profile_at opt = {&engine->profiles, engine->graph, i, TERCEL_PROFILE_OPT};
    TERCEL_TRY(tercel_tuning_add(tuning, tercel_profile_value_of, &opt, err));
  }
  return TERCEL_OK;
}

/* ---- at build ------------------------------------------------------------------------------------------------------ */

tercel_status tercel_engine_tune(tercel_engine *engine, const tercel_engine_options *options, tercel_error *err) {
  const tercel_tuning_options wanted = {.seconds = options->tune_seconds,
                                        .pool = engine->pool,
                                        .progress = options->tune_progress,
                                        .user = options->tune_user};
  tercel_tuning *tuning = NULL;
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_tuning_create(engine->plan, engine->cache, &tuning, err));
  TERCEL_CHECK(add_tasks(engine, tuning, err));
  TERCEL_CHECK(tercel_tuning_run(tuning, &wanted, err));
  TERCEL_CHECK(tercel_tuning_apply(tuning, err));
  if (!options->keep_weights) tercel_plan_forget_weights(engine->plan);
  if (options->timing_cache_path != NULL && tercel_tuning_progress(tuning)->done > 0)
    TERCEL_CHECK(tercel_timing_cache_save(engine->cache, options->timing_cache_path, err));
done:
  tercel_tuning_destroy(tuning);
  return status;
}

/* ---- in the background --------------------------------------------------------------------------------------------- */

static const double default_seconds = 60;

typedef struct tercel_background {
  struct tercel_background *before; /* an earlier one, which contexts may still look at */
  tercel_engine *engine;            /* which owns this */
  tercel_tuning *tuning;
  tercel_tuning_options options;
  char *cache_path; /* owned; NULL: none */
  pthread_t thread;
  bool joined;
  atomic_bool running, stop;
  atomic_size_t done;
  size_t total;
  _Atomic double before_us, after_us;
  tercel_status status; /* of the thread, once it has ended */
  tercel_error err;
} tercel_background;

static int note_progress(const tercel_tune_progress *progress, void *user) {
  tercel_background *const b = user;
  atomic_store(&b->done, progress->done);
  atomic_store(&b->before_us, progress->before_us);
  atomic_store(&b->after_us, progress->after_us);
  return 0;
}

/* Runs only when a CPU has nothing else to do, where the system knows of such. */
static void take_lowest_priority(void) {
#if defined(SCHED_IDLE)
  const struct sched_param none = {0};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
#endif
}

static void *tune_beside(void *arg) {
  tercel_background *const b = arg;
  take_lowest_priority();
  b->status = tercel_tuning_run(b->tuning, &b->options, &b->err);
  if (b->status == TERCEL_OK) b->status = tercel_tuning_apply(b->tuning, &b->err);
  if (b->status == TERCEL_OK && b->cache_path != NULL)
    b->status = tercel_timing_cache_save(b->engine->cache, b->cache_path, &b->err);
  atomic_store(&b->running, false);
  return NULL;
}

/* Signals stay with the threads of the program. */
static tercel_status start(tercel_background *b, tercel_error *err) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  atomic_store(&b->running, true);
  const int failed = pthread_create(&b->thread, NULL, tune_beside, b);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0) return TERCEL_OK;
  atomic_store(&b->running, false);
  b->joined = true;
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "can't start a thread to tune: %s", strerror(failed));
}

static void join(tercel_background *b) {
  if (b->joined) return;
  atomic_store(&b->stop, true);
  pthread_join(b->thread, NULL);
  b->joined = true;
}

void tercel_background_destroy(tercel_background *background) {
  for (tercel_background *before; background != NULL; background = before) {
    before = background->before;
    join(background);
    tercel_tuning_destroy(background->tuning);
    tercel_free(background->cache_path);
    tercel_free(background);
  }
}

static tercel_status create(tercel_engine *engine, const tercel_background_options *options, tercel_background **out,
                            tercel_error *err) {
  tercel_background *const b = tercel_zalloc(sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "tuning");
  tercel_status status = TERCEL_OK;
  b->engine = engine;
  b->joined = true; /* as long as there is no thread */
  b->options = (tercel_tuning_options){.seconds = options->seconds > 0 ? options->seconds : default_seconds,
                                       .stop = &b->stop,
                                       .progress = note_progress,
                                       .user = b};
  if (options->timing_cache_path != NULL) {
    b->cache_path = tercel_strdup(options->timing_cache_path);
    if (b->cache_path == NULL) TERCEL_CHECK(tercel_fail_memory(err, strlen(options->timing_cache_path), "a path"));
  }
  TERCEL_CHECK(tercel_tuning_create(engine->plan, engine->cache, &b->tuning, err));
  TERCEL_CHECK(add_tasks(engine, b->tuning, err));
  b->total = tercel_tuning_progress(b->tuning)->total;
  *out = b;
done:
  if (status != TERCEL_OK) tercel_background_destroy(b);
  return status;
}

tercel_status tercel_engine_tune_in_background(tercel_engine *engine, const tercel_background_options *options,
                                               tercel_error *err) {
  const tercel_background_options defaults = {.size = sizeof defaults};
  if (options == NULL) options = &defaults;
  TERCEL_TRY(tercel_check_size(options->size, sizeof *options, "tercel_background_options", err));
  tercel_status status = TERCEL_OK;
  tercel_background *b = NULL;
  pthread_mutex_lock(&engine->background_mutex);
  if (engine->background != NULL && atomic_load(&engine->background->running))
    TERCEL_CHECK(tercel_fail(err, TERCEL_INVALID_ARGUMENT, "the engine is being tuned in the background already"));
  if (engine->background != NULL) join(engine->background);
  TERCEL_CHECK(create(engine, options, &b, err));
  b->before = engine->background;
  b->joined = false;
  engine->background = b;
  atomic_store_explicit(&engine->plan->shared->tuning, b->tuning, memory_order_release);
  TERCEL_CHECK(start(b, err));
done:
  pthread_mutex_unlock(&engine->background_mutex);
  return status;
}

tercel_status tercel_engine_get_tuning(tercel_engine *engine, tercel_tuning_info *info, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_tuning_info", err));
  *info = (tercel_tuning_info){.size = info->size};
  pthread_mutex_lock(&engine->background_mutex);
  const tercel_background *const b = engine->background;
  if (b != NULL) {
    info->running = atomic_load(&b->running);
    info->done = atomic_load(&b->done);
    info->total = b->total;
    info->before_us = atomic_load(&b->before_us);
    info->after_us = atomic_load(&b->after_us);
    info->num_swaps = tercel_tuning_num_swaps(b->tuning);
  }
  pthread_mutex_unlock(&engine->background_mutex);
  return TERCEL_OK;
}

tercel_status tercel_engine_stop_tuning(tercel_engine *engine, tercel_error *err) {
  tercel_status status = TERCEL_OK;
  pthread_mutex_lock(&engine->background_mutex);
  tercel_background *const b = engine->background;
  if (b != NULL) {
    join(b);
    status = b->status;
    if (status != TERCEL_OK && err != NULL) *err = b->err;
  }
  pthread_mutex_unlock(&engine->background_mutex);
  return status;
}
