/* Edits of graphs, clones, and a verifier that notices each broken invariant. */
#include "support/support.h"

#include <string.h>

#include "test_ops.h"

static tercel_graph *parse(const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  assert_ok(test_parse(text, &graph, &err), &err);
  return graph;
}

static void assert_text(const tercel_graph *graph, const char *want) {
  tercel_error err = {0};
  tercel_text text = {0};
  assert_ok(tercel_graph_verify(graph, &err), &err);
  assert_ok(tercel_graph_print(graph, &(tercel_text_options){.all_data = true}, &text, &err), &err);
  assert_string_equal(text.data, want);
  tercel_text_deinit(&text);
}

static tercel_value *value_named(const tercel_graph *graph, const char *name) {
  for (uint32_t i = 0; i < graph->num_values; i++)
    if (graph->values[i] && strcmp(graph->values[i]->name, name) == 0) return graph->values[i];
  fail_msg("no value %s", name);
  return NULL;
}

#define DIAMOND                                                                                                        \
  "graph \"g\" (%x: f32[n]) {\n"                                                                                       \
  "  %a = unary(%x)\n"                                                                                                 \
  "  %k: f32[2] = constant data(1, 2)\n"                                                                               \
  "  %b = many(%a, %k, %a)\n"                                                                                          \
  "  %c = many(%b, %a)\n"                                                                                              \
  "  return %c, %a as \"second\"\n"                                                                                    \
  "}\n"

/* ---- edits ---- */

static void test_replace_uses(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *const graph = parse(DIAMOND);
  tercel_value *const a = value_named(graph, "a"), *const x = value_named(graph, "x");
  assert_int_equal(tercel_value_num_uses(a), 4);
  assert_ok(tercel_value_replace_uses(a, x, &err), &err);
  assert_int_equal(tercel_value_num_uses(a), 0);
  tercel_graph_remove_node(a->producer);
  assert_text(graph, "graph \"g\" (%x: f32[n]) {\n"
                     "  %k: f32[2] = constant data(1, 2)\n"
                     "  %b = many(%x, %k, %x)\n"
                     "  %c = many(%b, %x)\n"
                     "  return %c, %x as \"second\"\n"
                     "}\n");
  tercel_graph_destroy(graph);
}

static void test_set_and_truncate_inputs(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *const graph = parse(DIAMOND);
  tercel_node *const b = value_named(graph, "b")->producer;
  tercel_value *const k = value_named(graph, "k");
  assert_ok(tercel_node_set_input(b, 0, NULL, &err), &err);
  assert_ok(tercel_node_set_input(b, 3, value_named(graph, "x"), &err), &err);
  assert_ok(tercel_node_set_input(b, 2, k, &err), &err);
  assert_int_equal(k->num_uses, 2);
  assert_ok(tercel_graph_verify(graph, &err), &err);
  tercel_node_truncate_inputs(b, 1);
  assert_int_equal(k->num_uses, 0);
  tercel_graph_remove_value(k);
  assert_text(graph, "graph \"g\" (%x: f32[n]) {\n"
                     "  %a = unary(%x)\n"
                     "  %b = many(_)\n"
                     "  %c = many(%b, %a)\n"
                     "  return %c, %a as \"second\"\n"
                     "}\n");
  tercel_graph_destroy(graph);
}

static void test_add_and_move_nodes(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *const graph = parse(DIAMOND);
  tercel_value *const x = value_named(graph, "x"), *const a = value_named(graph, "a");
  tercel_node *const b = value_named(graph, "b")->producer;
  tercel_node *first = NULL, *other = NULL;
  assert_ok(tercel_graph_add_node(graph, &test_many, "new", (tercel_value *[]){x, NULL, x}, 3, 2, b, &first, &err),
            &err);
  assert_ok(tercel_graph_add_node(graph, &test_unary, "last", &a, 1, 1, NULL, &other, &err), &err);
  tercel_graph_remove_value(first->outputs[0]);
  tercel_graph_move_node(other, b);
  assert_ok(tercel_node_set_float(other, "alpha", 2, &err), &err);
  assert_ok(tercel_node_set_float(other, "alpha", 3, &err), &err);
  assert_ok(tercel_node_add_sources(other, b, &err), &err);
  assert_ok(tercel_node_add_sources(other, b, &err), &err);
  assert_text(graph, "graph \"g\" (%x: f32[n]) {\n"
                     "  %a = unary(%x)\n"
                     "  _, %new_1 = many(%x, _, %x) named \"new\"\n"
                     "  %last = unary(%a) {alpha = 3} from \"last\", \"b\"\n"
                     "  %k: f32[2] = constant data(1, 2)\n"
                     "  %b = many(%a, %k, %a)\n"
                     "  %c = many(%b, %a)\n"
                     "  return %c, %a as \"second\"\n"
                     "}\n");
  tercel_graph_move_node(other, NULL);
  tercel_node_remove_attr(other, "alpha");
  assert_ptr_equal(graph->last, other);
  assert_ok(tercel_graph_verify(graph, &err), &err);
  tercel_graph_destroy(graph);
}

static void test_attributes_have_defaults(void **state) {
  (void)state;
  tercel_error err = {0};
  size_t count = 9;
  tercel_graph *const graph = parse("graph \"g\" (%x) { %a = unary(%x) {axes = []} return %a }");
  tercel_node *const node = graph->first;
  assert_true(tercel_node_float(node, "alpha") == 0.5);
  assert_int_equal(tercel_node_int(node, "axis"), -1);
  assert_string_equal(tercel_node_string(node, "mode"), "constant");
  assert_int_equal(tercel_node_dtype(node, "dtype"), TERCEL_DTYPE_F32);
  assert_non_null(tercel_node_attr(node, "axes"));
  assert_null(tercel_node_attr(node, "axis"));
  assert_non_null(tercel_node_ints(node, "axes", &count));
  assert_int_equal(count, 0);
  assert_null(tercel_node_floats(node, "scales", &count));
  assert_null(tercel_node_program(node, "program"));
  assert_ok(tercel_node_set_int(node, "axis", 7, &err), &err);
  assert_int_equal(tercel_node_int(node, "axis"), 7);
  tercel_graph_destroy(graph);
}

/* Storages are released with their graph, with a removed value, and with a removed node's subgraphs. */
static void test_storages_are_released(void **state) {
  (void)state;
  const size_t before = tercel_alloc_live_bytes();
  tercel_graph *const graph = parse("graph \"g\" (%c: bool[]) {\n"
                                    "  %k: f32[100] = constant ramp()\n"
                                    "  %y = branch(%c) do {\n"
                                    "    graph \"a\" () { %k: f32[100] = constant ramp() return %k }\n"
                                    "    graph \"b\" () { %k: f32[100] = constant ramp() return %k }\n"
                                    "  }\n"
                                    "  return %c }");
  assert_int_equal(tercel_graph_count_nodes(graph), 1);
  tercel_graph_remove_node(graph->first);
  tercel_graph_remove_value(value_named(graph, "k"));
  tercel_graph_destroy(graph);
  assert_int_equal(tercel_alloc_live_bytes(), before);
}

/* ---- clone ---- */

static bool n_is_4(void *user, const char *symbol, int64_t *out) {
  (void)user;
  *out = 4;
  return strcmp(symbol, "n") == 0;
}

static const char *const nested =
    "graph \"g\" (%x: f32[n, m], %c: bool[]) {\n"
    "  %k: f32[2] = constant data(1, 2)\n"
    "  %a: f32[2*n + 1], _, %b = many(%x, _, %k) named \"A\" from \"A\", \"B\"\n"
    "  %u = unary(%b) {axis = 1, axes = [1], scales = [0.5], mode = \"m\", names = [\"q\"], "
    "dtype = i8, program = {1: relu(%0)}}\n"
    "  %y: f32[n] = branch(%c, %u) captures 1 do {\n"
    "    graph \"then\" (%x: f32[n]) {\n"
    "      return %x\n"
    "    }\n"
    "    graph \"else\" (%x: f32[m]) {\n"
    "      %k: i64[1] = constant data(3)\n"
    "      %z = many(%k, %x)\n"
    "      return %z\n"
    "    }\n"
    "  }\n"
    "  return %y as \"Y\"\n"
    "}\n";

static void test_clone(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_graph *const graph = parse(nested);
  tercel_graph *copy = NULL, *bound = NULL;
  assert_ok(tercel_graph_clone(graph, NULL, NULL, &copy, &err), &err);
  assert_ok(tercel_graph_clone(graph, n_is_4, NULL, &bound, &err), &err);
  tercel_graph_destroy(graph);
  assert_text(copy, nested);
  for (uint32_t i = 0; i < copy->num_values; i++) assert_non_null(copy->values[i]);
  tercel_text text = {0};
  assert_ok(tercel_graph_print(bound, NULL, &text, &err), &err);
  assert_non_null(strstr(text.data, "%x: f32[4, m]"));
  assert_non_null(strstr(text.data, "%a: f32[9]"));
  tercel_text_deinit(&text);
  tercel_graph_destroy(copy);
  tercel_graph_destroy(bound);
}

static tercel_status parse_edit_clone(void *arg, tercel_error *err) {
  tercel_graph *graph = NULL, *copy = NULL;
  tercel_value *value = NULL;
  tercel_status status;
  TERCEL_CHECK(test_parse(arg, &graph, err));
  TERCEL_CHECK(tercel_graph_add_i64s(graph, "i", (const int64_t[]){1, 2}, 2, false, &value, err));
  TERCEL_CHECK(tercel_graph_add_scalar(graph, "s", TERCEL_DTYPE_F16, 0.5, &value, err));
  for (int i = 0; i < 20; i++) TERCEL_CHECK(tercel_node_set_input(graph->first, graph->first->num_inputs, value, err));
  TERCEL_CHECK(tercel_value_replace_uses(value, graph->inputs[0], err));
  TERCEL_CHECK(tercel_graph_clone(graph, NULL, NULL, &copy, err));
  TERCEL_CHECK(tercel_graph_verify(copy, err));
done:
  tercel_graph_destroy(graph);
  tercel_graph_destroy(copy);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  tercel_test_oom(parse_edit_clone, (void *)(uintptr_t)nested, 0);
}

/* ---- verify ---- */

static void swap_nodes(tercel_graph *g) { tercel_graph_move_node(g->first, NULL); }
static void lose_use(tercel_graph *g) { value_named(g, "a")->num_uses--; }
static void wrong_use(tercel_graph *g) { value_named(g, "a")->uses[0].index = 5; }
static void double_use(tercel_graph *g) { value_named(g, "a")->uses[1] = value_named(g, "a")->uses[0]; }
static void wrong_output_uses(tercel_graph *g) { value_named(g, "a")->num_output_uses = 0; }
static void wrong_producer(tercel_graph *g) { value_named(g, "a")->producer = g->last; }
static void no_producer(tercel_graph *g) { value_named(g, "a")->producer = NULL; }
static void wrong_id(tercel_graph *g) { value_named(g, "a")->id = 0; }
static void foreign_input(tercel_graph *g) { g->first->inputs[0] = value_named(g, "c"); }
static void wrong_count(tercel_graph *g) { g->num_nodes++; }
static void broken_list(tercel_graph *g) { g->last->previous = NULL; }
static void wrong_last(tercel_graph *g) { g->last = g->first; }
static void wrong_arity(tercel_graph *g) { g->first->op = &test_branch; }
static void wrong_captures(tercel_graph *g) { g->first->num_captures = 2; }
static void no_source(tercel_graph *g) { g->first->num_sources = 0; }
static void no_output(tercel_graph *g) { g->outputs[0] = NULL; }
static void wrong_rank(tercel_graph *g) { value_named(g, "a")->type.shape.rank = 9; }
static void wrong_constant(tercel_graph *g) { value_named(g, "k")->type.dtype = TERCEL_DTYPE_I8; }
static void twice_input(tercel_graph *g) { g->inputs[g->num_inputs++] = g->inputs[0]; }
static void unknown_attr(tercel_graph *g) {
  tercel_error err = {0};
  assert_ok(tercel_node_set_int(g->first, "what", 1, &err), &err);
}
static void wrong_attr_kind(tercel_graph *g) {
  tercel_error err = {0};
  assert_ok(tercel_node_set_int(g->first, "mode", 1, &err), &err);
}
static void bad_program(tercel_graph *g) {
  tercel_error err = {0};
  tercel_instr instr = {.fn = TERCEL_FN_ADD, .operands = {0, 7}};
  assert_ok(tercel_node_set_program(g->first, "program", &(tercel_program){1, 1, &instr}, &err), &err);
}
static void small_constant(tercel_graph *g) { ((tercel_tensor *)(uintptr_t)value_named(g, "k")->constant)->bytes = 7; }

static void test_verify_finds_what_is_broken(void **state) {
  (void)state;
  static const struct {
    void (*damage)(tercel_graph *graph);
    const char *message;
  } cases[] = {
      {swap_nodes, "many 'b': input 0, 'a', comes from a later node"},
      {lose_use, "value 'a' lists"},
      {wrong_use, "value 'a' lists"},
      {double_use, "value 'a' lists"},
      {wrong_output_uses, "value 'a' counts 0 uses as output, is output 1 times"},
      {wrong_producer, "value 'a' is not output 0 of its producer"},
      {no_producer, "output 0 is not a value that this node produces"},
      {wrong_id, "id 0 of another graph or place"},
      {foreign_input, "unary 'a': input 0, 'c', comes from a later node"},
      {wrong_count, "the list of nodes has 3, want 4"},
      {broken_list, "the list of nodes is broken at number 2"},
      {wrong_last, "the list of nodes has 3"},
      {wrong_arity, "0 subgraphs, want 2"},
      {wrong_captures, "2 captures of 1 inputs"},
      {no_source, "no source"},
      {no_output, "output 0 is not a value of the graph"},
      {wrong_rank, "rank 9"},
      {wrong_constant, "constant 'k': its type is not that of its tensor"},
      {twice_input, "input 'x' stands twice"},
      {unknown_attr, "unary has no attribute 'what'"},
      {wrong_attr_kind, "attribute 'mode' is of another kind"},
      {bad_program, "operand 1 is register 7 of 1"},
      {small_constant, "7 bytes of data are too few"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tercel_error err = {0};
    tercel_graph *const graph = parse(DIAMOND);
    cases[i].damage(graph);
    assert_fails(tercel_graph_verify(graph, &err), TERCEL_INTERNAL, &err, cases[i].message);
    tercel_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replace_uses),          cmocka_unit_test(test_set_and_truncate_inputs),
      cmocka_unit_test(test_add_and_move_nodes),    cmocka_unit_test(test_attributes_have_defaults),
      cmocka_unit_test(test_storages_are_released), cmocka_unit_test(test_clone),
      cmocka_unit_test(test_allocation_failures),   cmocka_unit_test(test_verify_finds_what_is_broken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
