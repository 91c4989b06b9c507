/* The layout pass, text in, text out: what stays NCHW, what goes NHWC, where conversions stand, what is said of it.  A node's costs are in its
 * name: conv_12_7 takes 12 in NCHW and 7 in NHWC; a conversion takes 3. */
#include <stdio.h>

#include "support/support.h"

#include "as_text.h"

static double node_cost(void *user, const tercel_node *node) {
  (void)user;
  int nchw, nhwc;
  if (sscanf(node->name, "%*[a-z]_%d_%d", &nchw, &nhwc) != 2 || node->op->id == TERCEL_OP_TRANSPOSE) return 3000;
  return 1e3 * (tercel_node_layout(node) == TERCEL_LAYOUT_NHWC ? nhwc : nchw);
}

typedef struct outcome {
  char *graph, *decisions;
} outcome;

static outcome run(const char *text, tercel_node_cost_fn cost) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_decisions decisions = {0};
  tercel_text out = {0}, log = {0};
  char disabled[512];
  test_disable_others("layout", disabled, sizeof disabled);
  assert_ok(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  const tercel_optimize_options options = {.disabled = disabled, .verify = true, .node_cost = cost};
  assert_ok(tercel_optimize(graph, &options, &decisions, &err), &err);
  assert_ok(tercel_graph_print(graph, &(tercel_text_options){.all_data = true}, &out, &err), &err);
  tercel_decisions_print(&decisions, &log);
  tercel_graph_destroy(graph);
  tercel_decisions_deinit(&decisions);
  return (outcome){out.data, log.data};
}

/* Takes names out of the line that several values share: ` named "r"`, ` as "r"`. */
static void cut_names(char *line) {
  static const char *const marks[] = {" named \"", " as \""};
  for (size_t i = 0; i < 2; i++)
    for (char *at; (at = strstr(line, marks[i])) != NULL;) {
      const char *const end = strchr(at + strlen(marks[i]), '"') + 1;
      memmove(at, end, strlen(end) + 1);
    }
}

/* The nodes of the result, a line each, without constants and names that values had. */
static void check(const char *text, const char *want_lines, const char *want_decisions) {
  outcome o = run(text, node_cost);
  tercel_text have = {0};
  for (char *line = strtok(strchr(o.graph, '\n') + 1, "\n"); line; line = strtok(NULL, "\n")) {
    if (strstr(line, "= constant") || strcmp(line, "}") == 0) continue;
    cut_names(line);
    tercel_text_add(&have, "%s\n", line + 2);
  }
  if (strcmp(have.data, want_lines) != 0) {
    print_error("have:\n%swant:\n%s", have.data, want_lines);
    fail();
  }
  for (const char *at = want_decisions; *at;) {
    char line[256];
    const size_t length = strcspn(at, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, at);
    if (!o.decisions || !strstr(o.decisions, line)) {
      print_error("decisions:\n%swant:\n%s\n", o.decisions ? o.decisions : "(none)\n", line);
      fail();
    }
    at += length + (at[length] != 0);
  }
  tercel_text_deinit(&have);
  tercel_free(o.graph);
  tercel_free(o.decisions);
}

#define W "%w: f32[2, 2, 1, 1] = constant data(1, 2, 3, 4) "
#define X "graph \"g\" (%x: f32[n, 2, 4, 5]) { " W
#define CONV(name, from) "%" name " = conv(%" from ", %w) "
#define RELU(name, from) "%" name " = pointwise(%" from ") {program = {1: relu(%0)}} "

static void test_stays(void **state) {
  (void)state;
  /* dearer in NHWC */
  check(X CONV("c_2_3", "x") "return %c_2_3 }", "%c_2_3: f32[n, 2, 4, 5] = conv(%x, %w)\nreturn %c_2_3\n",
        "layout: nhwc: refused c_2_3: it is expected to take 3.0 us, 2.0 in NCHW");
  /* cheaper, but not by two conversions */
  check(
      X CONV("c_12_7", "x") "return %c_12_7 }", "%c_12_7: f32[n, 2, 4, 5] = conv(%x, %w)\nreturn %c_12_7\n",
      "layout: nhwc: refused c_12_7: it is expected to take 7.0 us, 12.0 in NCHW, but conversions around it take more");
  /* rank 5 */
  check("graph \"g\" (%x: f32[n, 2, 4, 5, 6]) { %w: f32[2, 2, 1, 1, 1] = constant data(1, 2, 3, 4) " CONV(
            "c_9_0", "x") "return %c_9_0 }",
        "%c_9_0: f32[n, 2, 4, 5, 6] = conv(%x, %w)\nreturn %c_9_0\n", "refused c_9_0: rank 5, not 3 or 4");
  /* has it already */
  check("graph \"g\" (%x: f32[n, 4, 5, 2]) { " W "%c_9_0 = conv(%x, %w) {layout = \"nhwc\"} return %c_9_0 }",
        "%c_9_0: f32[n, 4, 5, 2] = conv(%x, %w) {layout = \"nhwc\"}\nreturn %c_9_0\n",
        "refused c_9_0: it has channels last already");
  /* an operand that can't be laid out anew */
  check("graph \"g\" (%x: f32[n, 2, 4, 5], %e: f32[2, 1, 1]) { " W
        "%c_9_0 = conv(%x, %w, _, %e) {epilogue = {2: add(%0, %1)}} return %c_9_0 }",
        "%c_9_0: f32[n, 2, 4, 5] = conv(%x, %w, _, %e) {epilogue = {2: add(%0, %1)}}\nreturn %c_9_0\n",
        "refused c_9_0: 'e' has fewer dims and is not constant");
}

static void test_without_costs(void **state) {
  (void)state;
  outcome o = run(X CONV("c_9_0", "x") "return %c_9_0 }", NULL);
  assert_null(strstr(o.graph, "nhwc"));
  assert_null(o.decisions);
  tercel_free(o.graph);
}

static void test_goes(void **state) {
  (void)state;
  check(X CONV("c_12_3", "x") "return %c_12_3 }",
        "%c_12_3: f32[n, 4, 5, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
        "%c_12_3.1: f32[n, 4, 5, 2] = conv(%c_12_3, %w) {layout = \"nhwc\"}\n"
        "%c_12_3.2: f32[n, 2, 4, 5] = transpose(%c_12_3.1) {perm = [0, 3, 1, 2]}\nreturn %c_12_3.2\n",
        "layout: nhwc: c_12_3 (3.0 us, 12.0 in NCHW)\nlayout: to-nhwc: c_12_3 ('x', 3.0 us)\n"
        "layout: to-nchw: c_12_3 ('c_12_3', 3.0 us)");
  /* neither of two pays for its conversions alone; nothing is converted between them */
  check(X CONV("c_9_4", "x") RELU("r", "c_9_4") "%p_9_4 = pool(%r) {kind = \"max\", kernel = [2, 2]} return %p_9_4 }",
        "%c_9_4: f32[n, 4, 5, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
        "%c_9_4.1: f32[n, 4, 5, 2] = conv(%c_9_4, %w) {layout = \"nhwc\"}\n"
        "%r: f32[n, 4, 5, 2] = pointwise(%c_9_4.1) {program = {1: relu(%0)}}\n"
        "%p_9_4: f32[n, 3, 4, 2] = pool(%r) {kind = \"max\", kernel = [2, 2], layout = \"nhwc\"}\n"
        "%p_9_4.1: f32[n, 2, 3, 4] = transpose(%p_9_4) {perm = [0, 3, 1, 2]}\nreturn %p_9_4.1\n",
        "layout: nhwc: c_9_4 (4.0 us, 9.0 in NCHW)\nlayout: nhwc: p_9_4 (4.0 us, 9.0 in NCHW)");
}

/* One that is better off in NCHW between two others: it goes along, or splits them. */
static void test_mixed(void **state) {
  (void)state;
  check(X CONV("a_20_1", "x") CONV("b_1_5", "a_20_1") CONV("c_20_1", "b_1_5") "return %c_20_1 }",
        "%a_20_1: f32[n, 4, 5, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
        "%a_20_1.1: f32[n, 4, 5, 2] = conv(%a_20_1, %w) {layout = \"nhwc\"}\n"
        "%b_1_5: f32[n, 4, 5, 2] = conv(%a_20_1.1, %w) {layout = \"nhwc\"}\n"
        "%c_20_1: f32[n, 4, 5, 2] = conv(%b_1_5, %w) {layout = \"nhwc\"}\n"
        "%c_20_1.1: f32[n, 2, 4, 5] = transpose(%c_20_1) {perm = [0, 3, 1, 2]}\nreturn %c_20_1.1\n",
        "layout: nhwc: b_1_5 (5.0 us, 1.0 in NCHW)");
  check(X CONV("a_1_1", "x") CONV("b_1_9", "a_1_1") CONV("c_20_1", "b_1_9") "return %c_20_1 }",
        "%a_1_1: f32[n, 2, 4, 5] = conv(%x, %w)\n%b_1_9: f32[n, 2, 4, 5] = conv(%a_1_1, %w)\n"
        "%c_20_1: f32[n, 4, 5, 2] = transpose(%b_1_9) {perm = [0, 2, 3, 1]}\n"
        "%c_20_1.1: f32[n, 4, 5, 2] = conv(%c_20_1, %w) {layout = \"nhwc\"}\n"
        "%c_20_1.2: f32[n, 2, 4, 5] = transpose(%c_20_1.1) {perm = [0, 3, 1, 2]}\nreturn %c_20_1.2\n",
        "layout: nhwc: refused b_1_9: it is expected to take 9.0 us, 1.0 in NCHW");
}

/* A value that several nodes read is converted once, whatever reads it: a result, an operator that keeps the order of dims. */
static void test_readers(void **state) {
  (void)state;
  check(X CONV("c_20_1", "x") RELU("r", "c_20_1") CONV("d_20_1", "r") "%s = shape(%r) return %d_20_1, %r, %s }",
        "%c_20_1: f32[n, 4, 5, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
        "%c_20_1.1: f32[n, 4, 5, 2] = conv(%c_20_1, %w) {layout = \"nhwc\"}\n"
        "%r: f32[n, 4, 5, 2] = pointwise(%c_20_1.1) {program = {1: relu(%0)}}\n"
        "%r.1: f32[n, 2, 4, 5] = transpose(%r) {perm = [0, 3, 1, 2]}\n"
        "%d_20_1: f32[n, 4, 5, 2] = conv(%r, %w) {layout = \"nhwc\"}\n"
        "%d_20_1.1: f32[n, 2, 4, 5] = transpose(%d_20_1) {perm = [0, 3, 1, 2]}\n"
        "%s: i64[4] = shape(%r.1)\nreturn %d_20_1.1, %r.1, %s\n",
        "layout: to-nchw: r ('r', 3.0 us)");
  check("graph \"g\" (%x: f32[n, 2, 4, 5]) { " W CONV("c_12_1", "x") CONV("d_12_1", "x") "return %c_12_1, %d_12_1 }",
        "%c_12_1: f32[n, 4, 5, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
        "%c_12_1.1: f32[n, 4, 5, 2] = conv(%c_12_1, %w) {layout = \"nhwc\"}\n"
        "%c_12_1.2: f32[n, 2, 4, 5] = transpose(%c_12_1.1) {perm = [0, 3, 1, 2]}\n"
        "%d_12_1: f32[n, 4, 5, 2] = conv(%c_12_1, %w) {layout = \"nhwc\"}\n"
        "%d_12_1.1: f32[n, 2, 4, 5] = transpose(%d_12_1) {perm = [0, 3, 1, 2]}\nreturn %c_12_1.2, %d_12_1.1\n",
        "");
}

/* Operators that don't care for the order of dims, with their axes, lists and operands. */
static void test_between(void **state) {
  (void)state;
  check(
      X CONV(
          "a_90_1",
          "x") "%k: f32[2, 1, 1] = constant data(5, 6) %m = pointwise(%a_90_1, %k) {program = {2: mul(%0, %1)}} "
               "%t: i64[8] = constant data(0, 1, 0, 2, 0, 0, 3, 0) %p = pad(%m, %t) %j_0_0 = concat(%p, %p) {axis = 1} "
               "%b: i64[1] = constant data(1) %e: i64[1] = constant data(3) %ax: i64[1] = constant data(-1) "
               "%s = slice(%j_0_0, %b, %e, %ax) %f = softmax(%s) {axis = 1} "
               "%r = reduce(%f) {kind = \"max\", axes = [2, 3]} return %r }",
      "%a_90_1: f32[n, 4, 5, 2] = transpose(%x) {perm = [0, 2, 3, 1]}\n"
      "%a_90_1.1: f32[n, 4, 5, 2] = conv(%a_90_1, %w) {layout = \"nhwc\"}\n"
      "%m: f32[n, 4, 5, 2] = pointwise(%a_90_1.1, %k) {program = {2: mul(%0, %1)}}\n"
      "%p: f32[n, 7, 7, 3] = pad(%m, %t)\n"
      "%j_0_0: f32[n, 7, 7, 6] = concat(%p, %p) {axis = 3}\n"
      "%s: f32[n, 7, 2, 6] = slice(%j_0_0, %b, %e, %axes)\n"
      "%f: f32[n, 7, 2, 6] = softmax(%s) {axis = 3}\n"
      "%r: f32[n, 1, 1, 6] = reduce(%f) {kind = \"max\", axes = [1, 2]}\n"
      "%r.1: f32[n, 6, 1, 1] = transpose(%r) {perm = [0, 3, 1, 2]}\nreturn %r.1\n",
      "layout: to-nchw: r ('r', 0.1 us)");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stays),   cmocka_unit_test(test_without_costs),
                                     cmocka_unit_test(test_goes),    cmocka_unit_test(test_mixed),
                                     cmocka_unit_test(test_readers), cmocka_unit_test(test_between)};
  return cmocka_run_group_tests_name("optimize/layout", tests, NULL, NULL);
}
