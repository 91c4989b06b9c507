/* Explanations as one page that needs nothing else: explain.html with the graph before and after, laid out by Graphviz, and the
 * report as JSON.  A graph of many nodes is folded by scopes of names. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "explain.h"

extern char **environ;
extern const char tercel_explain_page[]; /* explain.html, 0-terminated: made by CMake */

/* ---- Graphviz ---- */

enum { MOST_SECONDS = 300 }; /* a graph of 600 boxes takes a few */

/* Waits for the process, but not for ever. */
static tercel_status wait_for(pid_t process, int *how, tercel_error *err) {
  const int64_t start = tercel_time_ns();
  pid_t ended;
  while ((ended = waitpid(process, how, WNOHANG)) == 0) {
    if (tercel_time_ns() - start > MOST_SECONDS * (int64_t)1000000000) {
      kill(process, SIGKILL);
      waitpid(process, how, 0);
      return tercel_fail(err, TERCEL_UNSUPPORTED, "Graphviz's dot was stopped after %d seconds", MOST_SECONDS);
    }
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  if (ended != process || !WIFEXITED(*how) || WEXITSTATUS(*how) == 127)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a page needs Graphviz for its pictures: dot did not run");
  return TERCEL_OK;
}

static tercel_status run_dot(const char *from, const char *to, tercel_error *err) {
  /* few rounds of the network simplex and straight lines: seconds instead of minutes for a thousand nodes */
  const char *const arguments[] = {
      "dot", "-Tsvg", "-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.3", "-Gsplines=line", "-Nfontname=sans", "-o",
      to,    from,    NULL};
  pid_t process;
  int how = 0;
  if (posix_spawnp(&process, "dot", NULL, NULL, (char *const *)(uintptr_t)arguments, environ) != 0)
    return tercel_fail(err, TERCEL_UNSUPPORTED,
                       "a page needs Graphviz for its pictures: install dot (Debian's graphviz)");
  TERCEL_TRY(wait_for(process, &how, err));
  if (WEXITSTATUS(how) != 0)
    return tercel_fail(err, TERCEL_INTERNAL, "Graphviz's dot failed with exit status %d", WEXITSTATUS(how));
  return TERCEL_OK;
}

/* The element without what belongs to a file of its own. */
static tercel_status add_svg(const char *path, tercel_text *page, tercel_error *err) {
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open(path, false, &file, err));
  const char *const data = (const char *)file.data;
  size_t at = 0;
  while (at + 4 < file.size && memcmp(data + at, "<svg", 4) != 0) at++;
  tercel_text_add_bytes(page, data + at, file.size - at);
  tercel_file_close(&file);
  return TERCEL_OK;
}

static tercel_status add_picture(const char *dot, tercel_text *page, tercel_error *err) {
  const char *const folder = getenv("TMPDIR");
  char from[512], to[520];
  tercel_status status = TERCEL_OK;
  snprintf(from, sizeof from, "%s/tercel-XXXXXX", folder && *folder ? folder : "/tmp");
  const int made = mkstemp(from);
  if (made < 0) return tercel_fail(err, TERCEL_IO, "can't make a file in %s", folder && *folder ? folder : "/tmp");
  close(made);
  snprintf(to, sizeof to, "%s.svg", from);
  TERCEL_CHECK(tercel_file_write(from, dot, strlen(dot), err));
  TERCEL_CHECK(run_dot(from, to, err));
  TERCEL_CHECK(add_svg(to, page, err));
done:
  unlink(from);
  unlink(to);
  return status;
}

/* ---- the page ---- */

static tercel_status add_before(const tercel_cli_session *session, tercel_text *page, tercel_error *err) {
  char *dot = NULL;
  TERCEL_TRY(tercel_model_print(session->model, TERCEL_PRINT_DOT_FOLDED, &dot, err));
  const tercel_status status = add_picture(dot, page, err);
  tercel_text_free(dot);
  return status;
}

static tercel_status add_after(const tercel_cli_session *session, tercel_text *page, tercel_error *err) {
  char *dot = NULL;
  TERCEL_TRY(tercel_engine_print(session->engine, TERCEL_PRINT_DOT_FOLDED, &dot, err));
  const tercel_status status = add_picture(dot, page, err);
  tercel_text_free(dot);
  return status;
}

/* JSON within a script element: no text in it may end that. */
static void add_data(const tercel_explanation *e, tercel_text *page) {
  tercel_text json = {0};
  tercel_explain_add_json(e, &json);
  for (size_t i = 0; i < json.length; i++) {
    if (json.data[i] == '<')
      tercel_text_add(page, "\\u003c");
    else
      tercel_text_add_bytes(page, &json.data[i], 1);
  }
  if (json.failed) page->failed = true;
  tercel_text_deinit(&json);
}

/* The page up to the mark; *rest goes on behind it. */
static void add_until(const char **rest, const char *mark, tercel_text *page) {
  const char *const at = strstr(*rest, mark);
  tercel_text_add_bytes(page, *rest, (size_t)(at - *rest));
  *rest = at + strlen(mark);
}

tercel_status tercel_explain_write_html(const tercel_explanation *e, const tercel_cli_session *session,
                                        const char *path, tercel_error *err) {
  tercel_text page = {0};
  const char *rest = tercel_explain_page;
  tercel_status status;
  add_until(&rest, "<!--BEFORE-->", &page);
  TERCEL_CHECK(add_before(session, &page, err));
  add_until(&rest, "<!--AFTER-->", &page);
  TERCEL_CHECK(add_after(session, &page, err));
  add_until(&rest, "<!--DATA-->", &page);
  add_data(e, &page);
  tercel_text_add_bytes(&page, rest, strlen(rest));
  if (page.failed) TERCEL_CHECK(tercel_fail_memory(err, page.length, "a page"));
  TERCEL_CHECK(tercel_cli_write_text(path, &page, err));
done:
  tercel_text_deinit(&page);
  return status;
}
