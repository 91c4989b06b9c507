/* Rules of the optimizer are tested on text: a graph in, a graph out. */
#ifndef TERCEL_TESTS_OPTIMIZE_AS_TEXT_H
#define TERCEL_TESTS_OPTIMIZE_AS_TEXT_H

#include <string.h>

#include "optimize/optimize.h"

/* All passes but those named, and those that only tidy up. */
static inline void test_disable_others(const char *wanted, char *out, size_t size) {
  const tercel_pass *pass;
  out[0] = 0;
  for (size_t i = 0; (pass = tercel_pass_at(i)); i++) {
    if (strstr(wanted, pass->name) || strcmp(pass->name, "dead-code") == 0 || strcmp(pass->name, "shapes") == 0)
      continue;
    strncat(out, pass->name, size - strlen(out) - 1);
    strncat(out, ",", size - strlen(out) - 1);
  }
}

/* Runs the named passes over the graph in `text` (inferred first) and returns the text of the result; decisions may be NULL, and get a text
 * too.  The caller frees both with tercel_free. */
static inline char *test_optimize(const char *passes, const char *text, char **decisions_out) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_decisions decisions = {0};
  tercel_text out = {0}, log = {0};
  char disabled[512];
  test_disable_others(passes, disabled, sizeof disabled);
  assert_ok(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  assert_ok(tercel_optimize(graph, &(tercel_optimize_options){.disabled = disabled, .verify = true}, &decisions, &err),
            &err);
  assert_ok(tercel_graph_print(graph, &(tercel_text_options){.all_data = true}, &out, &err), &err);
  tercel_decisions_print(&decisions, &log);
  tercel_graph_destroy(graph);
  tercel_decisions_deinit(&decisions);
  if (decisions_out)
    *decisions_out = log.data;
  else
    tercel_text_deinit(&log);
  return out.data;
}

/* The body of the result (without its first line and last) is `want`. */
static inline void test_assert_body(const char *passes, const char *text, const char *want) {
  char *const have = test_optimize(passes, text, NULL);
  const char *const body = strchr(have, '\n') + 1;
  const size_t length = strlen(body) - strlen("}\n");
  if (strlen(want) != length || memcmp(body, want, length) != 0) {
    print_error("have:\n%.*swant:\n%s", (int)length, body, want);
    fail();
  }
  tercel_free(have);
}

/* Nothing changes, and the decisions say why: they hold `reason`. */
static inline void test_assert_refused(const char *passes, const char *text, const char *reason) {
  char *decisions = NULL;
  char *const have = test_optimize(passes, text, &decisions);
  if (!decisions || !strstr(decisions, "refused") || !strstr(decisions, reason)) {
    print_error("decisions:\n%swant:\n%s\ngraph:\n%s", decisions ? decisions : "(none)\n", reason, have);
    fail();
  }
  tercel_free(have);
  tercel_free(decisions);
}

#endif
