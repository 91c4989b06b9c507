/* The log: one level and one sink for the process. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 1024 };

static const char *const level_names[] = {"debug", "info", "warning", "error", "off"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t sink_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int level_now;
static tercel_log_fn sink_fn; /* under sink_mutex, as is sink_user */
static void *sink_user;

static void write_stderr(tercel_log_level level, const char *message, void *user) {
  (void)user;
  fprintf(stderr, "tercel: %s: %s\n", level_names[level], message);
}

static void read_environment(void) {
  int level = TERCEL_LOG_WARNING;
  const char *const wanted = getenv("TERCEL_LOG");
  bool known = !wanted || !*wanted;
  for (int i = 0; wanted && i <= TERCEL_LOG_OFF; i++) {
    if (strcmp(wanted, level_names[i]) != 0) continue;
    level = i;
    known = true;
  }
  atomic_store_explicit(&level_now, level, memory_order_relaxed);
  if (known) return;
  char message[MESSAGE_MAX];
  snprintf(message, sizeof message, "TERCEL_LOG='%.100s' is none of debug, info, warning, error, off", wanted);
  write_stderr(TERCEL_LOG_WARNING, message, NULL);
}

void tercel_log_set(tercel_log_level level, tercel_log_fn fn, void *user) {
  pthread_once(&once, read_environment);
  pthread_mutex_lock(&sink_mutex);
  sink_fn = fn;
  sink_user = user;
  pthread_mutex_unlock(&sink_mutex);
  atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

int tercel_log_enabled(tercel_log_level level) {
  pthread_once(&once, read_environment);
  return level < TERCEL_LOG_OFF && (int)level >= atomic_load_explicit(&level_now, memory_order_relaxed);
}

/* The sink is called without the lock held, so that it may log or set another sink. */
void tercel_log(tercel_log_level level, const char *format, ...) {
  if (!tercel_log_enabled(level)) return;
  char message[MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  pthread_mutex_lock(&sink_mutex);
  const tercel_log_fn fn = sink_fn ? sink_fn : write_stderr;
  void *const user = sink_user;
  pthread_mutex_unlock(&sink_mutex);
  fn(level, message, user);
}
