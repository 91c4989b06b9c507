/* Verification: right engines pass, whatever was fused; a wrong kernel and a wrong fusion are caught and named. */
#include "runtime/net.h"

#include <stdio.h>

#include "support/random_graph.h"

static tercel_model *make_model(const char *text) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  assert_ok(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_model_from_graph(graph, &model, &err), &err);
  return model;
}

static tercel_context *open_with(const tercel_model *model, const tercel_engine_options *options) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  assert_ok(tercel_engine_build(model, options, &engine, &err), &err);
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  tercel_engine_destroy(engine);
  return context;
}

static tercel_context *open(const tercel_model *model, bool verify) {
  const tercel_engine_options options = {.size = sizeof options, .num_threads = 1, .verify = verify};
  return open_with(model, &options);
}

static void set_input(tercel_context *context) {
  static float x[2 * 8 * 6 * 5];
  tercel_test_random random = tercel_test_random_start(0);
  tercel_test_random_fill_f32(&random, x, sizeof x / sizeof *x, -2, 2);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2, 8, 6, 5));
}

/* A conv with everything that is folded into it, and what is made in place after it. */
static const char network[] = "graph \"net\" (%x: f32[n, 8, h, w]) {\n"
                              "  %w: f32[12, 8, 3, 3] = constant fill(0.02)\n"
                              "  %b: f32[12] = constant fill(0.3)\n"
                              "  %s: f32[12, 1, 1] = constant fill(1.7)\n"
                              "  %c = conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n"
                              "  %d = pointwise(%c, %s) {program = {2: mul(%0, %1)}}\n"
                              "  %e = pointwise(%d) {program = {1: relu(%0)}}\n"
                              "  %f = softmax(%e) {axis = 1}\n"
                              "  %y = pointwise(%f, %e) {program = {2: add(%0, %1)}}\n"
                              "  return %y\n}\n";

static void test_a_right_engine_passes(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_verify_row row;
  size_t num_kernels = 0, num_fused = 0;
  tercel_model *model = make_model(network);
  tercel_context *context = open(model, true);
  const tercel_engine *const engine = tercel_context_engine(context);
  set_input(context);
  assert_int_equal(tercel_engine_get_verification(engine, 0, &row), 0);
  assert_ok(tercel_context_verify(context, model, &err), &err);
  for (size_t i = 0; tercel_engine_get_verification(engine, i, &row); i++) {
    num_kernels += row.reference.compared != 0;
    num_fused += row.file.compared != 0 && row.num_sources > 1;
    assert_true(row.ok && row.reference.error <= row.reference.limit && row.num_sources > 0);
  }
  assert_true(num_kernels >= 3 && num_fused >= 1);
  net_output(context, 0); /* it was a run like any other */
  tercel_context_destroy(context);
  tercel_model_destroy(model);
}

/* ---- what is wrong ---- */

static tercel_step *find_step(const tercel_context *context, int op) {
  tercel_plan *const plan = tercel_context_engine(context)->plan;
  for (uint32_t i = 0; i < plan->num_steps; i++)
    if (plan->steps[i].node->op->id == op) return &plan->steps[i];
  fail_msg("no such step");
  return NULL;
}

/* Kernels of a step's tactics, each with one that runs it and spoils what it gave. */
enum { MAX_KERNELS = 8 };
static const tercel_kernel *right[MAX_KERNELS];
static tercel_kernel wrong[MAX_KERNELS];

/* A thousandth off, in one place. */
static tercel_status run_wrong(const tercel_kernel_run *run, tercel_error *err) {
  const tercel_kernel *const kernel = right[run->kernel - wrong];
  tercel_kernel_run as_right = *run;
  as_right.kernel = kernel;
  TERCEL_TRY(kernel->run(&as_right, err));
  float *const last = (float *)run->out[0]->data + tercel_tensor_num_elements(run->out[0]) - 1;
  *last += 1e-3f;
  return TERCEL_OK;
}

static void spoil(tercel_step *step) {
  tercel_tactics *const tactics = step->tactics;
  assert_true(tactics->count <= MAX_KERNELS);
  for (uint32_t i = 0; i < tactics->count; i++) {
    right[i] = tactics->kernels[i];
    wrong[i] = *right[i];
    wrong[i].run = run_wrong;
    tactics->kernels[i] = &wrong[i];
    if (step->kernel == right[i]) step->kernel = &wrong[i];
  }
}

static void check_wrong_kernel(int op, const char *message) {
  tercel_error err = {0};
  tercel_model *model = make_model(network);
  tercel_context *context = open(model, true);
  spoil(find_step(context, op));
  set_input(context);
  assert_fails(tercel_context_verify(context, NULL, &err), TERCEL_INTERNAL, &err, message);
  assert_true(tercel_context_engine(context)->verification.failed);
  tercel_context_destroy(context);
  tercel_model_destroy(model);
}

static void test_a_wrong_kernel_is_named(void **state) {
  (void)state;
  check_wrong_kernel(TERCEL_OP_SOFTMAX, "softmax 'f' (softmax) is wrong");
  check_wrong_kernel(TERCEL_OP_CONV, "it stands for c + d + e");
}

/* As if a rule had lost a factor: the engine is another network's with the same names. */
static void test_a_wrong_fusion_is_named(void **state) {
  (void)state;
  tercel_error err = {0};
  char other[sizeof network];
  memcpy(other, network, sizeof network);
  memcpy(strstr(other, "fill(1.7)"), "fill(1.8)", 9);
  tercel_model *model = make_model(network), *other_model = make_model(other);
  tercel_context *context = open(other_model, true);
  set_input(context);
  assert_fails(tercel_context_verify(context, model, &err), TERCEL_INTERNAL, &err, "from what the file's nodes give");
  assert_true(strstr(err.message, "it stands for c + d + e") != NULL);
  tercel_context_destroy(context);
  tercel_model_destroy(other_model);
  tercel_model_destroy(model);
}

static void test_packed_weights_must_have_been_kept(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_model *model = make_model(network);
  tercel_context *context = open(model, false);
  tercel_value *const weights = find_step(context, TERCEL_OP_CONV)->node->inputs[1];
  if (weights->constant->data) tercel_value_drop_data(weights); /* as plans do, where no other tactic may want them */
  set_input(context);
  assert_fails(tercel_context_verify(context, model, &err), TERCEL_INVALID_ARGUMENT, &err, "options.verify");
  net_run(context); /* still fine */
  tercel_context_destroy(context);
  tercel_model_destroy(model);
}

/* ---- large products ---- */

/* Some channels stand for all, in either layout; a bias and a factor go with theirs. */
static void test_large_products_are_sampled(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph \"net\" (%x: f32[1, 16, 64, 48]) { %w: f32[70, 16, 3, 3] = constant fill(0.01) "
      "%b: f32[70] = constant fill(0.3) %s: f32[1, 70, 64, 48] = constant fill(1.5) "
      "%c = conv(%x, %w, %b) {pads = [1, 1, 1, 1]} %y = pointwise(%c, %s) {program = {2: mul(%0, %1)}} return %y }",
      "graph \"net\" (%x: f32[1, 64, 48, 16]) { %w: f32[70, 16, 3, 3] = constant fill(0.01) "
      "%b: f32[70] = constant fill(0.3) %s: f32[1, 64, 48, 70] = constant fill(1.5) "
      "%c = conv(%x, %w, %b) {pads = [1, 1, 1, 1], layout = \"nhwc\"} "
      "%y = pointwise(%c, %s) {program = {2: mul(%0, %1)}} return %y }",
  };
  static float x[16 * 64 * 48];
  tercel_test_random random = tercel_test_random_start(1);
  tercel_test_random_fill_f32(&random, x, sizeof x / sizeof *x, -1, 1);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tercel_error err = {0};
    tercel_model *model = make_model(texts[i]);
    const tercel_engine_options options = {
        .size = sizeof options, .num_threads = 1, .verify = 1, .no_optimize = i == 1}; /* as it is laid out */
    tercel_context *context = open_with(model, &options);
    const int64_t first[] = {1, 16, 64, 48}, last[] = {1, 64, 48, 16};
    net_set(context, 0, TERCEL_DTYPE_F32, x, 4, i ? last : first);
    assert_ok(tercel_context_verify(context, model, &err), &err);
    tercel_context_destroy(context);
    tercel_model_destroy(model);
  }
}

/* ---- subgraphs ---- */

static void test_steps_of_subgraphs(void **state) {
  (void)state;
  static const char text[] =
      "graph \"net\" (%c: bool[], %x: f32[n, 6]) {\n"
      "  %s = pointwise(%x) {program = {1: sigmoid(%0)}}\n"
      "  %y = if(%c, %s) captures 1 do {\n"
      "    graph \"then\" (%a: f32[n, 6]) { %r = softmax(%a) {axis = 1} return %r }\n"
      "    graph \"else\" (%b: f32[n, 6]) { %r = pointwise(%b) {program = {1: exp(%0)}} return %r }\n"
      "  }\n"
      "  return %y\n}\n";
  tercel_error err = {0};
  uint8_t yes = 1;
  float x[12] = {0, 1, 2, 3, 4, 5, -1, -2, -3, -4, -5, -6};
  tercel_verify_row row;
  tercel_model *model = make_model(text);
  tercel_context *context = open(model, true);
  bool found = false;
  net_set(context, 0, TERCEL_DTYPE_BOOL, &yes, SCALAR);
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(2, 6));
  assert_ok(tercel_context_verify(context, model, &err), &err);
  for (size_t i = 0; tercel_engine_get_verification(tercel_context_engine(context), i, &row); i++)
    found |= strcmp(row.op, "softmax") == 0 && row.reference.compared;
  assert_true(found);
  tercel_context_destroy(context);
  tercel_model_destroy(model);
}

/* ---- random graphs ---- */

/* No rule makes a value of the file's name mean something else, and no step is beyond its limit. */
static void test_random_graphs_pass(void **state) {
  (void)state;
  for (uint64_t number = 0; number < 150; number++) {
    tercel_test_graph g;
    tercel_error err = {0};
    tercel_test_graph_generate(number, true, &g);
    tercel_model *model = make_model(g.text.data);
    tercel_context *context = open(model, true);
    float data[TERCEL_TEST_GRAPH_INPUTS][TERCEL_TEST_GRAPH_INPUT_ELEMENTS];
    for (int i = 0; i < TERCEL_TEST_GRAPH_INPUTS; i++) {
      tercel_test_random_fill_f32(&g.random, data[i], TERCEL_TEST_GRAPH_INPUT_ELEMENTS, -2, 2);
      net_set(context, (size_t)i, TERCEL_DTYPE_F32, data[i], g.rank[i], g.dims[i]);
    }
    if (tercel_context_verify(context, model, &err) != TERCEL_OK) {
      fprintf(stderr, "%s", g.text.data);
      fail_msg("graph %llu: %s", (unsigned long long)number, err.message);
    }
    tercel_context_destroy(context);
    tercel_model_destroy(model);
    tercel_text_deinit(&g.text);
  }
}

/* ---- memory ---- */

static tercel_status verify(void *arg, tercel_error *err) {
  tercel_context *context = NULL;
  tercel_status status;
  float x[2 * 8 * 6 * 5] = {1};
  tercel_view view = net_view(TERCEL_DTYPE_F32, x, DIMS(2, 8, 6, 5));
  tercel_verification *const kept = &((tercel_engine *)arg)->verification;
  TERCEL_CHECK(tercel_context_create(arg, NULL, &context, err));
  TERCEL_CHECK(tercel_context_set_input(context, 0, &view, err));
  TERCEL_CHECK(tercel_context_verify(context, NULL, err));
done:
  tercel_verification_deinit(kept);
  tercel_context_destroy(context);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  tercel_model *model = make_model(network);
  tercel_context *context = open(model, true);
  tercel_test_oom(verify, tercel_context_engine(context), 10000);
  tercel_context_destroy(context);
  tercel_model_destroy(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_right_engine_passes),      cmocka_unit_test(test_a_wrong_kernel_is_named),
      cmocka_unit_test(test_a_wrong_fusion_is_named),    cmocka_unit_test(test_packed_weights_must_have_been_kept),
      cmocka_unit_test(test_large_products_are_sampled), cmocka_unit_test(test_steps_of_subgraphs),
      cmocka_unit_test(test_random_graphs_pass),         cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
