/* tercel test: runs case folders, each in a process of its own, so that a crash or a hang is one failed case. */
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct options {
  tercel_cli_engine engine;
  const char *filter;
  double rtol, atol;
  int64_t seconds;
  bool skip_unsupported, no_fork, verbose;
} options;

static const tercel_cli_option own[] = {
    {"rtol", TERCEL_CLI_NUMBER, offsetof(options, rtol), "X",
     "relative tolerance where index.tsv has none; default 1e-3", NULL},
    {"atol", TERCEL_CLI_NUMBER, offsetof(options, atol), "X",
     "absolute tolerance where index.tsv has none; default 1e-7", NULL},
    {"filter", TERCEL_CLI_TEXT, offsetof(options, filter), "TEXT", "only cases whose path holds TEXT", NULL},
    {"skip-unsupported", TERCEL_CLI_FLAG, offsetof(options, skip_unsupported), NULL,
     "count what tercel says it does not support as skipped, not as failed", NULL},
    {"seconds", TERCEL_CLI_INT, offsetof(options, seconds), "N", "time limit of a case; default 60", NULL},
    {"no-fork", TERCEL_CLI_FLAG, offsetof(options, no_fork), NULL,
     "run all in this process (for debuggers and sanitizers)", NULL},
    {"verbose", TERCEL_CLI_FLAG, offsetof(options, verbose), NULL, "name the cases that passed, too", NULL},
    {0}};
static const tercel_cli_group groups[] = {
    {"options", own, 0}, {"engine", tercel_cli_engine_options, offsetof(options, engine)}, {0}};
static const tercel_cli_usage usage = {
    .command = "test",
    .operands = "DIR...",
    .what =
        "Runs every case found under the folders: a case is a folder with model.onnx and test_data_set_0, _1, ..., "
        "each with "
        "input_I.pb and output_I.pb.  Outputs must be within atol + rtol * |expected|; integers, bools and strings "
        "exactly.  An "
        "index.tsv in DIR may give each case its tolerances (columns kind, name, rtol, atol; the case is "
        "DIR/kind/name).  One "
        "thread runs a case unless --threads says otherwise.  A model that draws random numbers can't be "
        "compared so: its outputs must have the types, shapes and, within five standard errors, the means expected, "
        "and the case is counted apart.  The last line is `N passed, N failed, N skipped`, followed by "
        "`, N random (checked by property)` when there were such cases; the exit status is 1 when a case failed or "
        "none was found.",
    .examples = "  tercel test cases/node\n"
                "  tercel test cases --filter conv --verbose\n"
                "  tercel test cases/node/test_relu --no-optimize\n",
    .groups = groups,
    .min_operands = 1,
    .max_operands = TERCEL_CLI_LIST_MAX,
};

enum { WHY_MAX = 1024 };

/* What the child process sends. */
typedef struct report {
  tercel_test_outcome outcome;
  char why[WHY_MAX];
} report;

static void write_report(int fd, const report *r) {
  const char *at = (const char *)r;
  for (size_t left = sizeof *r; left > 0;) {
    const ssize_t put = write(fd, at, left);
    if (put <= 0) return;
    at += put;
    left -= (size_t)put;
  }
}

static bool read_report(int fd, report *r) {
  char *at = (char *)r;
  size_t left = sizeof *r;
  while (left > 0) {
    const ssize_t got = read(fd, at, left);
    if (got <= 0) return false;
    at += got;
    left -= (size_t)got;
  }
  return true;
}

static void run_forked(const options *o, const tercel_test_case *one, report *r) {
  int pipes[2], status = 0;
  *r = (report){.outcome = TERCEL_TEST_FAILED, .why = "can't start a process"};
  if (pipe(pipes) != 0) return;
  fflush(NULL); /* or the child would print it again */
  const pid_t child = fork();
  if (child == 0) {
    close(pipes[0]);
    alarm((unsigned)o->seconds);
    r->outcome = tercel_test_run(one, &o->engine, r->why, sizeof r->why);
    write_report(pipes[1], r);
    _exit(0);
  }
  close(pipes[1]);
  const bool reported = child > 0 && read_report(pipes[0], r);
  close(pipes[0]);
  if (child > 0) waitpid(child, &status, 0);
  if (reported || child < 0) return;
  r->outcome = TERCEL_TEST_FAILED;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    snprintf(r->why, sizeof r->why, "still running after %lld s", (long long)o->seconds);
  else if (WIFSIGNALED(status))
    snprintf(r->why, sizeof r->why, "crashed: %s", strsignal(WTERMSIG(status)));
  else
    snprintf(r->why, sizeof r->why, "the process ended with status %d", WEXITSTATUS(status));
}

static int run_all(const options *o, const tercel_test_list *list) {
  size_t passed = 0, failed = 0, skipped = 0, random = 0;
  static report r;
  for (size_t i = 0; i < list->count; i++) {
    const tercel_test_case *const one = &list->cases[i];
    if (o->no_fork)
      r.outcome = tercel_test_run(one, &o->engine, r.why, sizeof r.why);
    else
      run_forked(o, one, &r);
    const bool skip = r.outcome == TERCEL_TEST_UNSUPPORTED && o->skip_unsupported;
    if (r.outcome == TERCEL_TEST_PASSED || r.outcome == TERCEL_TEST_RANDOM) {
      *(r.outcome == TERCEL_TEST_PASSED ? &passed : &random) += 1;
      if (o->verbose) printf("%s  %s\n", r.outcome == TERCEL_TEST_PASSED ? "passed" : "random", one->path);
    } else {
      printf("%s  %s: %s\n", skip ? "skipped" : "FAILED ", one->path, r.why);
      *(skip ? &skipped : &failed) += 1;
    }
  }
  printf("%zu passed, %zu failed, %zu skipped", passed, failed, skipped);
  if (random > 0) printf(", %zu random (checked by property)", random);
  putchar('\n');
  return failed == 0 && list->count > 0 ? TERCEL_EXIT_OK : TERCEL_EXIT_FAILED;
}

int tercel_cli_test(int argc, char **argv) {
  options o = {.rtol = 1e-3, .atol = 1e-7, .seconds = 60, .engine = {.threads = 1}};
  tercel_cli_list operands = {0};
  tercel_test_list list = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  if (!(o.rtol >= 0) || !(o.atol >= 0)) return tercel_cli_fail_usage("test", "--rtol and --atol: want numbers from 0");
  if (o.seconds < 1 || o.seconds > 86400) return tercel_cli_fail_usage("test", "--seconds: want 1 to 86400");
  exit_code = tercel_test_find(&operands, o.filter, o.rtol, o.atol, &list, &err) == TERCEL_OK
                  ? run_all(&o, &list)
                  : tercel_cli_fail("test", &err);
  if (list.count == 0 && err.status == TERCEL_OK)
    fprintf(stderr, "tercel test: no folder with a model.onnx was found\n");
  tercel_test_free(&list);
  return exit_code;
}
