/* Print and parse: what is printed reads back to the same text; what can't be read says where. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "test_ops.h"

static const tercel_text_options whole = {.all_data = true};

/* text -> graph -> text, which is returned; the caller frees it. */
static char *print_again(const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text out = {0};
  assert_ok(test_parse(text, &graph, &err), &err);
  assert_ok(tercel_graph_print(graph, &whole, &out, &err), &err);
  tercel_graph_destroy(graph);
  return out.data;
}

static void check_same(const char *text) {
  char *const once = print_again(text);
  assert_string_equal(once, text);
  tercel_free(once);
}

static void test_plain(void **state) {
  (void)state;
  check_same(
      "graph \"net\" (%x: f32[batch, 3, 2*h + 1], %n: i64[]) {\n"
      "  %w: f32[2, 2] = constant data(1, -0.5, 1e+30, 0.1)\n"
      "  %y: f32[batch, 3, 2*h + 1], _, %z = many(%x, _, %w, %x)\n"
      "  %u: f32[*] = unary(%z) {alpha = 0.1, axis = -3, axes = [1, -2], scales = [0.5, inf], mode = \"a\\\"b\", "
      "names = [\"\", \"q\"], dtype = bf16} named \"Node 1\" from \"a\", \"b\"\n"
      "  return %u as \"out\", %y, %y as \"again\"\n"
      "}\n");
  check_same("graph \"\" () {\n  return\n}\n");
}

static void test_types(void **state) {
  (void)state;
  check_same("graph \"t\" (%a: seq(f32[*]), %b: opt(i64[n]), %c: opt(seq(string[])), %d, %e: none[3], "
             "%f: map(i64: f32[n, 3]), %g: map(string: f64[?1])) {\n  return %a\n}\n");
}

static void test_names(void **state) {
  (void)state;
  check_same(
      "graph \"a \\\"quoted\\\" name\" (%/model.0/conv-1/Out_0: f32[1], %\"a b\": f32[1], %\"\": f32[1], %7: f32[1], "
      "%\"\xc3\xa4:0\": f32[\"past + 1\", max(a, b), floor_div(c + 1, 2), ?3]) {\n"
      "  return %\"a b\", %7 as \"7 \"\n"
      "}\n");
}

/* Names need not be unique in a graph: the text makes them so. */
static void test_duplicate_names(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_value *value = NULL;
  tercel_text out = {0};
  const tercel_type type = {.dtype = TERCEL_DTYPE_F32, .shape.rank = 0};
  assert_ok(tercel_graph_create("g", &graph, &err), &err);
  assert_ok(tercel_graph_add_input(graph, "x", &type, &value, &err), &err);
  assert_ok(tercel_graph_add_input(graph, "x", &type, &value, &err), &err);
  assert_ok(tercel_graph_add_input(graph, "x.1", &type, &value, &err), &err);
  assert_ok(tercel_graph_print(graph, NULL, &out, &err), &err);
  assert_string_equal(out.data, "graph \"g\" (%x: f32[], %x.1: f32[], %x.1.1: f32[]) {\n  return\n}\n");
  check_same(out.data);
  tercel_text_deinit(&out);
  tercel_graph_destroy(graph);
}

static void test_data(void **state) {
  (void)state;
  check_same("graph \"d\" () {\n"
             "  %a: f32[5] = constant data(nan, inf, -inf, -0, 1.1754944e-38)\n"
             "  %b: f64[2] = constant data(0.1, 1e-320)\n"
             "  %c: u64[2] = constant data(18446744073709551615, 0)\n"
             "  %d: i4[3] = constant data(-8, 7, -1)\n"
             "  %e: u2[5] = constant data(0, 1, 2, 3, 0)\n"
             "  %f: bool[2] = constant data(1, 0)\n"
             "  %g: string[2] = constant data(\"a\\nb\", \"\")\n"
             "  %h: c64[2] = constant data(1, -1, 0.5, nan)\n"
             "  %i: f32[20] = constant zeros()\n"
             "  %j: f16[4, 5] = constant fill(0.333251953125)\n"
             "  %k: i64[17] = constant ramp()\n"
             "  %l: u8[17] = constant hex(0102030405060708090a0b0c0d0e0fff11)\n"
             "  %m: i4[17] = constant hex(101010101010101001)\n"
             "  %n: f32[0, 3] = constant data()\n"
             "  %o: i64[1] = constant data(-9223372036854775808)\n"
             "  %p: q4_0[1, 32] = constant hex(003c0102030405060708090a0b0c0d0e0f10)\n"
             "  return\n"
             "}\n");
}

static void test_hidden_data(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text out = {0};
  assert_ok(test_parse("graph \"d\" () { %l: u8[17] = constant hex(0102030405060708090a0b0c0d0e0fff11) return %l }",
                       &graph, &err),
            &err);
  assert_ok(tercel_graph_print(graph, NULL, &out, &err), &err);
  assert_string_equal(out.data, "graph \"d\" () {\n  %l: u8[17] = constant hidden()\n  return %l\n}\n");
  tercel_graph_destroy(graph);
  assert_fails(test_parse(out.data, &graph, &err), TERCEL_INVALID_MODEL, &err, "without its large data");
  tercel_text_deinit(&out);
}

static void test_programs(void **state) {
  (void)state;
  check_same("graph \"p\" (%x: f32[2]) {\n"
             "  %y: f32[2] = unary(%x) {program = {2: add(%0, %1); clip<0, 6>(%2); less(%3, %0); select(%4, %3, %0); "
             "cast:f16<1, 0>(%5); constant:i64<-5>(); is_inf<1, 0>(%0); leaky_relu:f16<0.01>(%6)}}\n"
             "  return %y\n"
             "}\n");
}

static void test_subgraphs(void **state) {
  (void)state;
  check_same("graph \"s\" (%c: bool[], %x: f32[n]) {\n"
             "  %y: f32[n] = branch(%c, %x) captures 1 do {\n"
             "    graph \"then\" (%x: f32[n]) {\n"
             "      %k: bool[] = constant data(1)\n"
             "      %y: f32[n] = branch(%k, %x) captures 1 named \"inner\" do {\n"
             "        graph \"a\" (%x: f32[n]) {\n"
             "          return %x\n"
             "        }\n"
             "        graph \"b\" (%x: f32[n]) {\n"
             "          return %x\n"
             "        }\n"
             "      }\n"
             "      return %y\n"
             "    }\n"
             "    graph \"else\" (%x: f32[n]) {\n"
             "      %k: f32[1] = constant data(2)\n"
             "      return %k\n"
             "    }\n"
             "  }\n"
             "  return %y\n"
             "}\n");
}

static void test_comments(void **state) {
  (void)state;
  char *const text = print_again("# head\ngraph \"c\"(%x:f32[]){# more\n%y=unary(%x)return %y}# end");
  assert_string_equal(text, "graph \"c\" (%x: f32[]) {\n  %y = unary(%x)\n  return %y\n}\n");
  tercel_free(text);
}

/* ---- errors ---- */

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "line 1, column 1: want 'graph'"},
      {"graph \"g\" (%x: f32[]) {\n  %y = unry(%x)\n}", "line 2, column 8: 'unry' is no operator"},
      {"graph \"g\" () {\n  %y = unary(%x)\n}", "line 2, column 14: value 'x' is not defined before it is used"},
      {"graph \"g\" (%x: f32[], %x: f32[]) { return }", "value 'x' is defined twice"},
      {"graph \"g\" (%x: f33[]) { return }", "line 1, column 16: 'f33' is no dtype"},
      {"graph \"g\" (%x: f32[a b]) { return }", "want ']'"},
      {"graph \"g\" (%x: f32[1,2,3,4,5,6,7,8,9]) { return }", "more than 8 dims"},
      {"graph \"g\" (%x: f32[]) { %y = unary(%x) {speed = 1} return }", "unary has no attribute 'speed'"},
      {"graph \"g\" (%x: f32[]) { %y = unary(%x) {axis = 1.5} return }", "want an integer of 64 bits"},
      {"graph \"g\" (%x: f32[]) { %y = unary(%x) {axis = 1, axis = 99999999999999999999} return }", "want an integer"},
      {"graph \"g\" (%x: f32[]) { %y = unary(%x, %x) return }", "2 inputs, want 1 to 1"},
      {"graph \"g\" (%x: f32[]) { %y = strict(%x) return }", "attribute 'size' is missing"},
      {"graph \"g\" (%x: f32[]) { %y = branch(%x) return }", "subgraph 0 is missing"},
      {"graph \"g\" () { %k: f32[3] = constant data(1, 2) return }", "want ','"},
      {"graph \"g\" () { %k: f32[2] = constant data(1, 2, 3) return }", "want ')'"},
      {"graph \"g\" () { %k: u8[1] = constant data(256) return }", "256 does not fit u8"},
      {"graph \"g\" () { %k: f32[n] = constant zeros() return }", "without symbols"},
      {"graph \"g\" () { %k: f32[1] = constant hex(00000g00) return }", "want 4 bytes in hexadecimal, got 2"},
      {"graph \"g\" () { %k: f32[100000000] = constant zeros() return }", "more than 67108864 bytes"},
      {"graph \"g\" () { %k: f32[9223372036854775807, 4] = constant zeros() return }", "too many elements"},
      {"graph \"g\" () { %k: f32[100000000] = constant data(1) return }", "too short for a constant"},
      {"graph \"g\" () { return \"x", "want '%'"},
      {"graph \"g\" (%x: f32[]) { return %x as \"a", "the string ends or has a bad escape"},
      {"graph \"g\" (%x: f32[]) { %y = unary(%x) {program = {1: relux(%0)}} return }",
       "'relux' is no pointwise function"},
      {"graph \"g\" (%x: f32[]) { %y = unary(%x) {program = {1: relu(%3)}} return }", "operand 0 is register 3 of 1"},
      {"graph \"g\" (%x: f32[]) { return } x", "want the end of the text"},
      {"graph \"g\" (%x: f32[min(1)]) { return }", "want a dim"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tercel_error err = {0};
    tercel_graph *graph = NULL;
    assert_fails(test_parse(cases[i].text, &graph, &err), TERCEL_INVALID_MODEL, &err, cases[i].message);
    assert_null(graph);
  }
}

static void test_depth_is_bounded(void **state) {
  (void)state;
  tercel_text text = {0};
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text_add(&text, "graph \"g\" (%%c: bool[]) {");
  for (int i = 0; i < 1000; i++) tercel_text_add(&text, "%%y = branch(%%c) captures 1 do { graph \"\" (%%c: bool[]) {");
  assert_fails(tercel_graph_parse(text.data, text.length, test_ops, &graph, &err), TERCEL_INVALID_MODEL, &err,
               "nested deeper than 16");
  text.length = 0;
  tercel_text_add(&text, "graph \"g\" (%%c: bool[");
  for (int i = 0; i < 100000; i++) tercel_text_add(&text, "min(1, ");
  assert_fails(tercel_graph_parse(text.data, text.length, test_ops, &graph, &err), TERCEL_INVALID_MODEL, &err,
               "want a dim");
  tercel_text_deinit(&text);
}

static void test_dot(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text out = {0};
  assert_ok(
      test_parse("graph \"g\" (%c: bool[]) { %k: f32[] = constant data(1) %y: f32[n] = branch(%c, %k) captures 1 do {"
                 "graph \"then\" (%k: f32[]) { return %k } graph \"else\" (%k: f32[]) { return %k } } return %y }",
                 &graph, &err),
      &err);
  assert_ok(tercel_graph_print_dot(graph, &out, &err), &err);
  tercel_graph_destroy(graph);
  assert_non_null(strstr(out.data, "digraph \"g\" {"));
  assert_non_null(strstr(out.data, "i0_0 -> n0_2 [label=\"bool[]\"];"));
  assert_non_null(strstr(out.data, "n0_2 -> o0_0 [label=\"f32[n]\"];"));
  assert_non_null(strstr(out.data, "label=\"branch\\ny\\n1 constant\""));
  assert_non_null(strstr(out.data, "subgraph cluster_2 {"));
  tercel_text_deinit(&out);
}

/* Two scopes, and more nodes in the second than a box takes. */
static void test_dot_folded(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text text = {0}, out = {0};
  tercel_text_add(&text, "graph \"g\" (%%x: f32[n]) { %%a: f32[n] = unary(%%x) named \"/one/first/a\" ");
  tercel_text_add(&text,
                  "%%b: f32[n] = unary(%%a) named \"/one/second/b\" %%c0: f32[n] = unary(%%b) named \"/two/c0\" ");
  for (int i = 1; i < 90; i++) tercel_text_add(&text, "%%c%d: f32[n] = unary(%%c%d) named \"/two/c%d\" ", i, i - 1, i);
  tercel_text_add(&text, "return %%c89 }");
  assert_ok(test_parse(text.data, &graph, &err), &err);
  assert_ok(tercel_graph_print_dot_folded(graph, 2, &out, &err), &err);
  assert_non_null(strstr(out.data, "b0 [shape=box, label=\"/one\\n2 nodes: 2 unary\", "
                                   "tooltip=\"/one/first/a + /one/second/b\"];"));
  assert_non_null(strstr(out.data, "b1 [shape=box, label=\"/two\\n81 nodes: 81 unary\""));
  assert_non_null(strstr(out.data, "b2 [shape=box, label=\"/two (2)\\n9 nodes: 9 unary\""));
  assert_non_null(strstr(out.data, "  i0 -> b0;\n  b0 -> b1;\n  b1 -> b2;\n  b2 -> o0;\n}"));
  out.length = 0;
  assert_ok(tercel_graph_print_dot_folded(graph, 3, &out, &err), &err);
  assert_non_null(strstr(out.data, "label=\"/one/first\\n1 node: 1 unary\""));
  tercel_graph_destroy(graph);
  tercel_text_deinit(&text);
  tercel_text_deinit(&out);
}

static tercel_status parse_and_print(void *arg, tercel_error *err) {
  tercel_graph *graph = NULL;
  tercel_text text = {0}, dot = {0};
  tercel_status status;
  TERCEL_CHECK(test_parse(arg, &graph, err));
  TERCEL_CHECK(tercel_graph_print(graph, &whole, &text, err));
  TERCEL_CHECK(tercel_graph_print_dot(graph, &dot, err));
  TERCEL_CHECK(tercel_graph_print_dot_folded(graph, 0, &dot, err));
done:
  tercel_text_deinit(&text);
  tercel_text_deinit(&dot);
  tercel_graph_destroy(graph);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  static char text[] = "graph \"o\" (%c: bool[], %\"x y\": f32[a + b, min(a, b)]) {\n"
                       "  %k: string[2] = constant data(\"a\", \"b\")\n"
                       "  %u: f32[*] = unary(%\"x y\") {axes = [1, 2], names = [\"n\"], program = {1: relu(%0)}} named "
                       "\"N\" from \"a\", \"b\"\n"
                       "  %y: f32[a], %z = branch(%c, %u) captures 1 do {\n"
                       "    graph \"then\" (%x: f32[*]) { return %x, %x }\n"
                       "    graph \"else\" (%x: f32[*]) { %k: f32[20] = constant ramp() return %k, %x }\n"
                       "  }\n"
                       "  return %y, %z as \"q\"\n"
                       "}\n";
  tercel_test_oom(parse_and_print, text, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_duplicate_names),
      cmocka_unit_test(test_data),
      cmocka_unit_test(test_hidden_data),
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_subgraphs),
      cmocka_unit_test(test_comments),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_depth_is_bounded),
      cmocka_unit_test(test_dot),
      cmocka_unit_test(test_dot_folded),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
