/* Kernels that move data: exactly what the reference gives.  `--bench` times typical layers. */
#include "kernels/check_text.h"

#include <stdio.h>

#include "backends/cpu/cpu.h"

static const check_options exact = {0};

/* Every element size, inner runs, tiles with edges, broadcast dims, one long dim. */
static void test_transpose(void **state) {
  (void)state;
  static const char *const dtypes[] = {"i8", "f16", "f32", "f64", "bool"};
  static const char *const shapes[][2] = {{"37, 53", "1, 0"},
                                          {"3, 65, 70", "0, 2, 1"},
                                          {"2, 3, 17, 19", "0, 2, 3, 1"},
                                          {"2, 17, 19, 3", "0, 3, 1, 2"},
                                          {"5, 4, 3, 2", "3, 2, 1, 0"},
                                          {"4, 1, 6, 1", "2, 1, 0, 3"},
                                          {"2, 12, 5, 8", "0, 2, 1, 3"},
                                          {"0, 4", "1, 0"},
                                          {"1, 16, 16", "2, 1, 0"}};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      char text[200];
      snprintf(text, sizeof text, "(%%x: %s[%s]) { %%y = transpose(%%x) {perm = [%s]} return %%y }", dtypes[d],
               shapes[i][0], shapes[i][1]);
      check_text(text, &exact);
    }
  }
  check_text("(%x: f32[]) { %y = transpose(%x) return %y }", &exact);
  check_text("(%x: f32[37, 3]) { %y = transpose(%x) return %y }", &exact);
  check_text("(%x: f32[2, 3, 41]) { %y = transpose(%x) {perm = [0, 2, 1]} return %y }", &exact);
  check_text("(%x: f32[70, 2100]) { %y = transpose(%x) return %y }", &exact);
  check_text("(%x: f32[300, 500]) { %y = transpose(%x) return %y }", &exact);
}

static void test_concat_split(void **state) {
  (void)state;
  check_text("(%a: f32[3, 4, 5], %b: f32[3, 1, 5], %c: f32[3, 0, 5]) { %y = concat(%a, %b, %c) {axis = 1} return %y }",
             &exact);
  check_text("(%a: u8[7], %b: u8[9]) { %y = concat(%a, %b) {axis = 0} return %y }", &exact);
  check_text("(%a: f64[3, 40, 50], %b: f64[3, 40, 1]) { %y = concat(%a, %b) {axis = -1} return %y }", &exact);
  check_text("(%x: f16[3, 10, 5]) { %a, %b, %c = split(%x) {axis = 1} return %a, %b, %c }", &exact);
  check_text("(%x: f32[3, 10]) { %s: i64[3] = constant data(3, 0, 7) %a, %b, %c = split(%x, %s) {axis = 1} return %a, "
             "%b, %c }",
             &exact);
}

static void test_slice(void **state) {
  (void)state;
  check_text("(%x: f32[9, 20, 7]) { %s: i64[2] = constant data(1, -2) %e: i64[2] = constant data(-1, 1) %a: i64[2] = "
             "constant data(0, 1) "
             "%p: i64[2] = constant data(3, -4) %y = slice(%x, %s, %e, %a, %p) return %y }",
             &exact);
  check_text(
      "(%x: i8[5, 33]) { %s: i64[1] = constant data(-1) %e: i64[1] = constant data(-99) %a: i64[1] = constant data(1) "
      "%p: i64[1] = constant data(-1) %y = slice(%x, %s, %e, %a, %p) return %y }",
      &exact);
  check_text("(%x: f64[5, 33]) { %s: i64[2] = constant data(1, 2) %e: i64[2] = constant data(4, 2) %y = slice(%x, %s, "
             "%e) return %y }",
             &exact);
}

static void test_expand_tile(void **state) {
  (void)state;
  check_text("(%x: f32[3, 1, 5]) { %s: i64[4] = constant data(2, 3, 4, 1) %y = expand(%x, %s) return %y }", &exact);
  check_text("(%x: i8[3, 1]) { %s: i64[2] = constant data(3, 70) %y = expand(%x, %s) return %y }", &exact);
  check_text("(%x: i64[]) { %s: i64[1] = constant data(9000) %y = expand(%x, %s) return %y }", &exact);
  check_text("(%x: f32[1, 4]) { %s: i64[2] = constant data(0, 4) %y = expand(%x, %s) return %y }", &exact);
  check_text("(%x: f16[2, 3, 4]) { %r: i64[3] = constant data(2, 1, 3) %y = tile(%x, %r) return %y }", &exact);
  check_text("(%x: f32[2, 3]) { %r: i64[2] = constant data(0, 2) %y = tile(%x, %r) return %y }", &exact);
}

static void test_pad(void **state) {
  (void)state;
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
  static const char *const dtypes[] = {"f32", "u8", "f64", "f16"};
  for (size_t i = 0; i < 4; i++) {
    char text[300];
    snprintf(text, sizeof text,
             "(%%x: %s[3, 6, 11], %%v: %s[]) { %%p: i64[6] = constant data(1, 0, 2, 2, -2, 3) "
             "%%y = pad(%%x, %%p, %%v) {mode = \"%s\"} return %%y }",
             dtypes[i], dtypes[i], modes[i]);
    check_text(text, &exact);
    snprintf(
        text, sizeof text,
        "(%%x: %s[4, 5]) { %%p: i64[4] = constant data(7, -1, 0, 9) %%y = pad(%%x, %%p) {mode = \"%s\"} return %%y }",
        dtypes[i], modes[i]);
    check_text(text, &exact);
  }
  check_text("(%x: f32[3, 4, 5, 1]) { %p: i64[8] = constant data(0, 1, 0, 0, 2, -1, 0, 0) %y = pad(%x, %p) return %y }",
             &exact);
  check_text("(%x: u8[3, 4, 5]) { %p: i64[6] = constant data(2, 1, 0, 0, 1, 0) %y = pad(%x, %p) {mode = \"reflect\"} "
             "return %y }",
             &exact);
  check_text("(%x: u8[3, 4]) { %p: i64[4] = constant zeros() %y = pad(%x, %p) return %y }", &exact);
  check_text("(%x: f32[0, 3]) { %p: i64[4] = constant data(1, 1, 2, 0) %y = pad(%x, %p) return %y }", &exact);
  check_text("(%x: f32[]) { %p: i64[0] = constant zeros() %y = pad(%x, %p) return %y }", &exact);
}

static void test_gather_scatter(void **state) {
  (void)state;
  check_text("(%x: f32[5, 6, 7]) { %i: i64[2, 3] = constant data(0, -1, 5, 3, 3, -6) %y = gather(%x, %i) {axis = 1} "
             "return %y }",
             &exact);
  check_text("(%x: i8[50]) { %i: i32[4] = constant data(0, -1, 25, 3) %y = gather(%x, %i) return %y }", &exact);
  check_text("(%x: f64[3, 0]) { %i: i32[2] = constant data(0, -1) %y = gather(%x, %i) return %y }", &exact);
  check_text("(%x: f32[3, 4]) { %i: i64[2, 2] = constant data(0, 2, -1, 1) %y = gather_elements(%x, %i) return %y }",
             &exact);
  check_text("(%x: f16[3, 4]) { %i: i64[3, 5] = constant data(0, 2, -1, 1, 0, 1, 2, 3, -4, 0, 1, 1, 1, 1, 1) "
             "%y = gather_elements(%x, %i) {axis = 1} return %y }",
             &exact);
  check_text("(%x: f32[2, 3, 4]) { %i: i64[2, 2, 1] = constant data(0, 2, -1, 1) %y = gather_nd(%x, %i) {batch_dims = "
             "1} return %y }",
             &exact);
  check_text("(%x: u8[2, 3, 4]) { %i: i64[2, 3] = constant data(0, 2, 3, 1, -1, 0) %y = gather_nd(%x, %i) return %y }",
             &exact);
  check_text("(%x: f32[2, 3]) { %i: i64[2, 0] = constant zeros() %y = gather_nd(%x, %i) return %y }", &exact);
  check_text("(%x: f32[3, 4], %u: f32[2, 2]) { %i: i64[2, 2] = constant data(0, 2, 0, 2) %y = scatter_elements(%x, %i, "
             "%u) return %y }",
             &exact);
  check_text(
      "(%x: i16[3, 4], %u: i16[2, 4]) { %i: i64[2, 1] = constant data(-1, 0) %y = scatter_nd(%x, %i, %u) return %y }",
      &exact);
  check_text("(%x: f64[3, 4], %u: f64[2]) { %i: i64[2, 2] = constant data(-1, 0, 2, 3) %y = scatter_nd(%x, %i, %u) "
             "return %y }",
             &exact);
}

static void test_select(void **state) {
  (void)state;
  check_text("(%x: f32[7, 100]) { %k: i64[1] = constant data(9) %v, %i = topk(%x, %k) return %v, %i }",
             &(check_options){.specials = true});
  check_text("(%x: i8[40, 3, 2]) { %k: i64[1] = constant data(40) %v, %i = topk(%x, %k) {axis = 0, largest = 0} return "
             "%v, %i }",
             &exact);
  check_text("(%x: f16[5, 9]) { %k: i64[1] = constant data(0) %v, %i = topk(%x, %k) return %v, %i }", &exact);
  check_text("(%x: u4[5, 9]) { %k: i64[1] = constant data(4) %v, %i = topk(%x, %k) return %v, %i }", &exact);
  check_text("(%x: f32[2, 7, 9]) { %y = trilu(%x) return %y }", &exact);
  check_text("(%x: u8[9, 7]) { %k: i64[] = constant data(-2) %y = trilu(%x, %k) {upper = 0} return %y }", &exact);
  check_text("(%x: f64[9, 7]) { %k: i64[] = constant data(20) %y = trilu(%x, %k) {upper = 0} return %y }", &exact);
}

/* Runs a node of constants through its kernel, which must say that index 9 is out of range. */
static void check_out_of_range(const tercel_kernel *kernel, const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_text whole = {0};
  tercel_text_add(&whole, "graph \"t\" %s", text);
  assert_ok(tercel_graph_parse(whole.data, whole.length, tercel_ops(), &graph, &err), &err);
  tercel_text_deinit(&whole);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  const tercel_node *node = graph->first;
  const tercel_tensor *in[3] = {NULL};
  tercel_tensor out = {0}, *outs[] = {&out};
  tercel_arena arena = {0};
  tercel_kernel_binding binding = {0};
  const tercel_target target = {.num_threads = 1};
  for (uint32_t i = 0; i < node->num_inputs; i++) in[i] = node->inputs[i]->constant;
  const tercel_type *type = &node->outputs[0]->type;
  assert_true(tercel_tensor_set_shape(&out, type->dtype, type->shape.rank, type->shape.dims));
  out.data = tercel_arena_alloc(&arena, out.bytes);
  if (kernel->bind != NULL)
    assert_ok(kernel->bind(kernel, node, NULL, in, (const tercel_tensor *const *)outs, &target, &arena, &binding, &err),
              &err);
  const tercel_kernel_run run = {.node = node,
                                 .kernel = kernel,
                                 .binding = binding.data,
                                 .num_inputs = node->num_inputs,
                                 .num_outputs = 1,
                                 .in = in,
                                 .out = outs,
                                 .target = &target,
                                 .workspace = tercel_arena_alloc(&arena, binding.workspace_bytes)};
  assert_true(kernel->supports(kernel, node));
  assert_fails(kernel->run(&run, &err), TERCEL_INVALID_ARGUMENT, &err, "index 9 is out of range: axis 0 has size 3");
  tercel_arena_deinit(&arena);
  tercel_graph_destroy(graph);
}

/* Places that come several times, along each axis, in and out of order. */
static void test_scatter_reduce(void **state) {
  (void)state;
  static const char *const how[] = {"add", "mul", "max", "min"};
  static const struct {
    const char *x, *updates, *indices;
    int axis;
  } cases[] = {
      {"5, 7", "6, 7",
       "(1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 2, -1, -1, -1, 4, 4, 4, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1,"
       " -5, -5, 2, 2, 2, 2, 2)",
       0},
      {"2, 6", "2, 4", "(1, 1, 5, 1, -6, 0, 0, 0)", 1},
      {"3, 4, 5", "2, 3, 2", "(0, 1, 1, 1, 1, 3, -1, 3, 0, 0, 0, 0)", 1},
      {"9", "5", "(8, 8, 8, 0, -9)", 0},
      {"3, 4", "0, 4", "()", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
      char text[600];
      snprintf(text, sizeof text,
               "(%%x: f32[%s], %%u: f32[%s]) { %%i: i64[%s] = constant data%s %%y = scatter_elements(%%x, %%i, %%u) "
               "{axis = %d, reduction = \"%s\"} return %%y }",
               cases[i].x, cases[i].updates, cases[i].updates, cases[i].indices, cases[i].axis, how[h]);
      check_text(text, &(check_options){.specials = true, .kernel = "scatter_elements.reduce"});
    }
  check_text("(%x: f32[40, 300], %u: f32[90, 300]) { %i: i64[90, 300] = constant fill(7) "
             "%y = scatter_elements(%x, %i, %u) {reduction = \"add\"} return %y }",
             &(check_options){.timed = true});
}

static const char trees_text[] =
    "(%%x: f32[%d, 3]) { %%f: i64[4] = constant data(0, 2, 1, 0) %%m: u8[4] = constant data(0, 1, 3, 4) "
    "%%s: f32[4] = constant data(0.5, -0.25, 1, 0) %%yes: i64[4] = constant data(1, -1, -3, -5) "
    "%%no: i64[4] = constant data(2, -2, -4, -6) %%n: u8[4] = constant data(1, 0, 0, 1) %%r: i64[3] = constant data(0, "
    "3, -2) "
    "%%l: i64[7] = constant data(0, 1, 3, 4, 4, 6, 7) %%t: i64[7] = constant data(0, 0, 1, 1, 0, 1, 1) "
    "%%w: f32[7] = constant data(0.5, 1, -2, 3, 0.125, 7, -1) "
    "%%y = trees(%%x, %%f, %%m, %%s, %%yes, %%no, %%n, %%r, %%l, %%t, %%w) {targets = 3, aggregate = \"%s\"} return "
    "%%y }";

static void test_trees(void **state) {
  (void)state;
  static const char *const aggregates[] = {"sum", "average", "min", "max"};
  static const int rows[] = {0, 1, 36, 3000};
  for (size_t a = 0; a < sizeof aggregates / sizeof *aggregates; a++)
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
      char text[1200];
      snprintf(text, sizeof text, trees_text, rows[r], aggregates[a]);
      check_text(text, &(check_options){.specials = true, .kernel = "trees", .timed = r == 3 && a == 0});
    }
}

static void test_out_of_range(void **state) {
  (void)state;
  check_out_of_range(&tercel_kernel_gather, "() { %x: f32[3, 2] = constant ramp() %i: i64[2] = constant data(1, 9) "
                                            "%y = gather(%x, %i) return %y }");
  check_out_of_range(&tercel_kernel_gather_elements,
                     "() { %x: f32[3] = constant ramp() %i: i64[2] = constant data(1, 9) "
                     "%y = gather_elements(%x, %i) return %y }");
  check_out_of_range(&tercel_kernel_gather_nd,
                     "() { %x: f32[3, 2] = constant ramp() %i: i64[2, 1] = constant data(1, 9) "
                     "%y = gather_nd(%x, %i) return %y }");
  check_out_of_range(&tercel_kernel_scatter_elements,
                     "() { %x: f32[3] = constant ramp() %i: i64[2] = constant data(1, 9) %u: f32[2] = constant ramp() "
                     "%y = scatter_elements(%x, %i, %u) return %y }");
  check_out_of_range(
      &tercel_kernel_scatter_nd,
      "() { %x: f32[3] = constant ramp() %i: i64[2, 1] = constant data(1, 9) %u: f32[2] = constant ramp() "
      "%y = scatter_nd(%x, %i, %u) return %y }");
  check_out_of_range(&tercel_kernel_scatter_reduce,
                     "() { %x: f32[3] = constant ramp() %i: i64[2] = constant data(1, 9) %u: f32[2] = constant ramp() "
                     "%y = scatter_elements(%x, %i, %u) {reduction = \"add\"} return %y }");
}

static void test_layers(void **state) {
  (void)state;
  check_text("(%x: f32[1, 197, 12, 64]) { %y = transpose(%x) {perm = [0, 2, 1, 3]} return %y }",
             &(check_options){.timed = true});
  check_text("(%x: f32[1, 256, 56, 56]) { %y = transpose(%x) {perm = [0, 2, 3, 1]} return %y }",
             &(check_options){.timed = true});
  check_text("(%x: u8[1024, 1024]) { %y = transpose(%x) return %y }", &(check_options){.timed = true});
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transpose),      cmocka_unit_test(test_concat_split), cmocka_unit_test(test_slice),
      cmocka_unit_test(test_expand_tile),    cmocka_unit_test(test_pad),          cmocka_unit_test(test_gather_scatter),
      cmocka_unit_test(test_scatter_reduce), cmocka_unit_test(test_trees),        cmocka_unit_test(test_select),
      cmocka_unit_test(test_out_of_range),   cmocka_unit_test(test_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
