/* How far tuning has got, as a line on a terminal; Ctrl-C ends it and keeps what was measured. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { BAR = 24, STEP_SHOWN = 36 };

static volatile sig_atomic_t interrupted;
static struct sigaction before;
static bool watching, shown;
static tercel_tune_progress last;

static void interrupt(int number) {
  (void)number;
  interrupted = 1;
}

/* "[######      ]  12 of 34  1.2 of 30 s  812 -> 640 us" */
static void show(const tercel_tune_progress *p) {
  char bar[BAR + 1];
  const size_t full = p->total > 0 ? p->done * BAR / p->total : BAR;
  for (size_t i = 0; i < BAR; i++) bar[i] = i < full ? '#' : ' ';
  bar[BAR] = 0;
  fprintf(stderr, "\rtuning [%s] %zu of %zu  %.1f of %.0f s  %.0f -> %.0f us  %-*.*s", bar, p->done, p->total,
          p->seconds, p->budget, p->before_us, p->after_us, STEP_SHOWN, STEP_SHOWN, p->step);
  fflush(stderr);
}

static int note(const tercel_tune_progress *progress, void *user) {
  (void)user;
  last = *progress;
  last.step = NULL;
  shown = true;
  if (isatty(STDERR_FILENO)) show(progress);
  return interrupted;
}

void tercel_cli_watch_tuning(tercel_engine_options *options) {
  if (!(options->tune_seconds > 0)) return;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = interrupt;
  sigemptyset(&action.sa_mask);
  interrupted = 0;
  shown = false;
  watching = sigaction(SIGINT, &action, &before) == 0;
  options->tune_progress = note;
}

void tercel_cli_end_tuning(void) {
  if (watching) sigaction(SIGINT, &before, NULL);
  watching = false;
  if (!shown) return;
  shown = false;
  fprintf(stderr,
          "%stuned: %zu of %zu choices measured in %.1f s, %zu changed, %.0f -> %.0f us a run in these steps%s\n",
          isatty(STDERR_FILENO) ? "\r\033[K" : "", last.done, last.total, last.seconds, last.changed, last.before_us,
          last.after_us, interrupted ? "; interrupted, the rest is estimated" : "");
}
