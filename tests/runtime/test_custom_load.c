/* Files that use operators of the user's, through tercel.h alone: which operator builds which node, what is refused, and several threads.
 * run-tests: threads */
#include "runtime/custom.h"

#include <pthread.h>
#include <stdio.h>

/* ---- ONNX files ---------------------------------------------------------------------------------------------------- */

enum { BYTES = 2 }; /* protobuf's wire type */

static void put_varint(tercel_text *out, uint64_t value) {
  for (; value > 127; value >>= 7) tercel_text_add_bytes(out, &(char){(char)(value | 128)}, 1);
  tercel_text_add_bytes(out, &(char){(char)value}, 1);
}

static void put_number(tercel_text *out, unsigned field, uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}

static void put_bytes(tercel_text *out, unsigned field, const char *data, size_t length) {
  put_varint(out, field << 3 | BYTES);
  put_varint(out, length);
  if (length > 0) tercel_text_add_bytes(out, data, length);
}

static void put_text(tercel_text *out, unsigned field, const char *text) { put_bytes(out, field, text, strlen(text)); }

/* The message, which is done with. */
static void put_message(tercel_text *out, unsigned field, tercel_text *message) {
  put_bytes(out, field, message->data, message->length);
  out->failed |= message->failed;
  tercel_text_deinit(message);
}

/* A value of f32[n] */
static tercel_text value_info(const char *name) {
  tercel_text dim = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
  put_text(&dim, 2, "n");
  put_message(&shape, 1, &dim);
  put_number(&tensor, 1, 1);
  put_message(&tensor, 2, &shape);
  put_message(&type, 1, &tensor);
  put_text(&info, 1, name);
  put_message(&info, 2, &type);
  return info;
}

typedef struct net {
  const char *domain, *op;
  int64_t version;       /* of the domain that the model imports */
  const char *attribute; /* an integer of 3; NULL: none */
  bool function;         /* the model has a function of that name: Neg */
  int num_inputs;        /* all of them x; 0: one */
} net;

static tercel_text node_bytes(const char *domain, const char *op, const char *attribute, int num_inputs) {
  tercel_text node = {0}, attr = {0};
  for (int i = 0; i < (num_inputs > 0 ? num_inputs : 1); ++i) put_text(&node, 1, "x");
  put_text(&node, 2, "y");
  put_text(&node, 3, "node");
  put_text(&node, 4, op);
  if (attribute != NULL) {
    put_text(&attr, 1, attribute);
    put_number(&attr, 3, 3);
    put_number(&attr, 20, 2);
    put_message(&node, 5, &attr);
  }
  put_text(&node, 7, domain);
  return node;
}

static void put_opset(tercel_text *out, unsigned field, const char *domain, int64_t version) {
  tercel_text opset = {0};
  put_text(&opset, 1, domain);
  put_number(&opset, 2, (uint64_t)version);
  put_message(out, field, &opset);
}

/* x -> the operator -> y */
static tercel_text model_bytes(const net *n) {
  tercel_text model = {0}, graph = {0}, function = {0};
  tercel_text node = node_bytes(n->domain, n->op, n->attribute, n->num_inputs), x = value_info("x"),
              y = value_info("y");
  put_message(&graph, 1, &node);
  put_text(&graph, 2, "g");
  put_message(&graph, 11, &x);
  put_message(&graph, 12, &y);
  put_number(&model, 1, 10);
  put_message(&model, 7, &graph);
  put_opset(&model, 8, "", 20);
  if (n->domain[0] != 0) put_opset(&model, 8, n->domain, n->version);
  if (n->function) {
    tercel_text inner = node_bytes("", "Neg", NULL, 1);
    put_text(&function, 1, n->op);
    put_text(&function, 4, "x");
    put_text(&function, 5, "y");
    put_message(&function, 7, &inner);
    put_opset(&function, 9, "", 20);
    put_text(&function, 10, n->domain);
    put_message(&model, 25, &function);
  }
  return model;
}

/* ---- loading and running ------------------------------------------------------------------------------------------- */

static tercel_status load(const net *n, tercel_operators *set, tercel_engine **out, tercel_error *err) {
  tercel_text bytes = model_bytes(n);
  tercel_model *model = NULL;
  const tercel_model_options options = {.size = sizeof options, .operators = set};
  tercel_status status = bytes.failed ? tercel_fail_memory(err, 0, "the model")
                                      : tercel_model_load_memory(bytes.data, bytes.length, NULL, &options, &model, err);
  if (status == TERCEL_OK) status = tercel_engine_build(model, NULL, out, err);
  tercel_model_destroy(model);
  tercel_text_deinit(&bytes);
  return status;
}

/* 1, 2 through the engine. */
static tercel_status run(tercel_engine *engine, float out[2], tercel_error *err) {
  tercel_context *context = NULL;
  float x[] = {1, 2};
  tercel_view y;
  tercel_status status = tercel_context_create(engine, NULL, &context, err);
  const tercel_view view = net_view(TERCEL_DTYPE_F32, x, DIMS(2));
  if (status == TERCEL_OK) status = tercel_context_set_input(context, 0, &view, err);
  if (status == TERCEL_OK) status = tercel_context_run(context, err);
  if (status == TERCEL_OK) status = tercel_context_get_output(context, 0, &y, err);
  if (status == TERCEL_OK) memcpy(out, y.data, 2 * sizeof(float));
  tercel_context_destroy(context);
  return status;
}

static tercel_status infer_same(const tercel_inference *inference, tercel_error *err) {
  (void)err;
  *inference->outputs[0] = *inference->inputs[0];
  return TERCEL_OK;
}

static const tercel_attribute by[] = {{"by", TERCEL_ATTRIBUTE_INT, 0}},
                              by_required[] = {{"by", TERCEL_ATTRIBUTE_INT, 1}};

/* x times "by", else 10. */
static tercel_status run_times(const tercel_call *call, tercel_error *err) {
  int64_t factor = 10;
  TERCEL_TRY(tercel_node_get_int(call->node, "by", &factor, err));
  for (int64_t i = 0; i < call->inputs[0]->dims[0]; ++i)
    ((float *)call->outputs[0]->data)[i] = ((const float *)call->inputs[0]->data)[i] * (float)factor;
  return TERCEL_OK;
}

static tercel_operator times_operator(const char *domain, const char *name) {
  tercel_operator op = custom_operator(name, run_times);
  op.domain = domain;
  op.infer = infer_same;
  op.attributes = by;
  op.num_attributes = 1;
  return op;
}

static void expect(const net *n, const tercel_operator *op, float first) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  float out[2];
  tercel_operators *const set = custom_set(op);
  assert_ok(load(n, set, &engine, &err), &err);
  tercel_operators_destroy(set);
  assert_ok(run(engine, out, &err), &err);
  assert_float_equal(out[0], first, 0);
  assert_float_equal(out[1], 2 * first, 0);
  tercel_engine_destroy(engine);
}

static void expect_failure(const net *n, const tercel_operator *op, tercel_status status, const char *part) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_operators *const set = custom_set(op);
  assert_fails(load(n, set, &engine, &err), status, &err, part);
  tercel_operators_destroy(set);
}

static void test_a_file_with_an_operator(void **state) {
  (void)state;
  const tercel_operator op = times_operator("test", "Times");
  expect(&(net){"test", "Times", 1, NULL, false, 1}, &op, 10);
  expect(&(net){"test", "Times", 1, "by", false, 1}, &op, 3);
}

static tercel_status run_nothing(const tercel_call *call, tercel_error *err) {
  (void)call;
  (void)err;
  return TERCEL_OK;
}

static void test_without_inference_the_file_may_declare(void **state) {
  (void)state;
  tercel_operator op = times_operator("test", "Times");
  op.infer = NULL;
  op.run = run_nothing;
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_operators *const set = custom_set(&op);
  assert_ok(load(&(net){"test", "Times", 1, NULL, false, 1}, set, &engine, &err), &err);
  tercel_operators_destroy(set);
  tercel_io io;
  assert_ok(tercel_engine_get_output(engine, 0, &io, &err), &err);
  assert_string_equal(io.symbols[0], "n");
  float out[2];
  assert_fails(run(engine, out, &err), TERCEL_INVALID_ARGUMENT, &err,
               "test.Times 'node': its run did not shape output 0");
  tercel_engine_destroy(engine);
}

static void test_what_comes_first(void **state) {
  (void)state;
  const tercel_operator op = times_operator("test", "Times"), other = times_operator("test", "Other");
  expect(&(net){"test", "Times", 1, NULL, true, 1}, &op, 10); /* before the model's function */
  expect(&(net){"test", "Times", 1, NULL, true, 1}, &other, -1);
  tercel_operator neg = times_operator("", "Neg");
  neg.flags = TERCEL_OPERATOR_REPLACES;
  expect(&(net){"", "Neg", 0, NULL, false, 1}, &neg, 10); /* before tercel's own */
  neg.domain = "ai.onnx";
  expect(&(net){"", "Neg", 0, NULL, false, 1}, &neg, 10);
  neg.first_version = 30;
  expect(&(net){"", "Neg", 0, NULL, false, 1}, &neg, -1);
}

static void test_what_is_refused(void **state) {
  (void)state;
  tercel_operator op = times_operator("test", "Times");
  expect_failure(&(net){"test", "Tines", 1, NULL, false, 1}, &op, TERCEL_UNSUPPORTED,
                 "test.Tines 'node': operator Tines (test 1) is not supported");
  expect_failure(&(net){"test", "Times", 1, "bye", false, 1}, &op, TERCEL_UNSUPPORTED,
                 "test.Times 'node': attribute 'bye' is not known");
  expect_failure(&(net){"test", "Times", 1, NULL, false, 2}, &op, TERCEL_INVALID_MODEL,
                 "test.Times 'node': 2 inputs, want at most 1");
  op.min_inputs = op.max_inputs = 2;
  expect_failure(&(net){"test", "Times", 1, NULL, false, 1}, &op, TERCEL_INVALID_MODEL,
                 "test.Times 'node': 1 inputs, want at least 2");
  op = times_operator("test", "Times");
  op.attributes = by_required;
  expect_failure(&(net){"test", "Times", 1, NULL, false, 1}, &op, TERCEL_INVALID_MODEL,
                 "test.Times 'node': attribute 'by' is missing");
  const tercel_attribute floats[] = {{"by", TERCEL_ATTRIBUTE_FLOAT, 0}};
  op.attributes = floats;
  expect_failure(&(net){"test", "Times", 1, "by", false, 1}, &op, TERCEL_INVALID_MODEL,
                 "test.Times 'node': attribute 'by' is int, want float");
  op = times_operator("test", "Times");
  op.first_version = 2;
  op.last_version = 3;
  expect_failure(&(net){"test", "Times", 1, NULL, false, 1}, &op, TERCEL_UNSUPPORTED,
                 "test.Times 'node': the operator is registered for versions 2 to 3, the model imports version 1");
  expect_failure(&(net){"test", "Times", 4, NULL, false, 1}, &op, TERCEL_UNSUPPORTED, "2 to 3");
  op.last_version = 0;
  expect_failure(&(net){"test", "Times", 1, NULL, false, 1}, &op, TERCEL_UNSUPPORTED, "2 to later");
}

/* ---- allocation ---------------------------------------------------------------------------------------------------- */

static tercel_status whole_life(void *arg, tercel_error *err) {
  (void)arg;
  tercel_operators *set = NULL;
  tercel_engine *engine = NULL;
  float out[2];
  const tercel_operator op = times_operator("test", "Times");
  tercel_status status;
  TERCEL_CHECK(tercel_operators_create(&set, err));
  TERCEL_CHECK(tercel_operators_add(set, &op, err));
  TERCEL_CHECK(load(&(net){"test", "Times", 1, "by", false, 1}, set, &engine, err));
  TERCEL_CHECK(run(engine, out, err));
done:
  tercel_engine_destroy(engine);
  tercel_operators_destroy(set);
  return status;
}

static void test_failed_allocations(void **state) {
  (void)state;
  tercel_test_oom(whole_life, NULL, 0);
}

/* ---- threads ------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20 };

typedef struct worker {
  pthread_t thread;
  int number;
  tercel_operators *set;
  tercel_engine *engine;
  tercel_status status;
  tercel_error err;
  bool wrong;
} worker;

/* Runs the shared engine, registers an operator of its own, and loads a model with it. */
static tercel_status work_round(worker *w, int round) {
  char name[32];
  float out[2];
  tercel_engine *own = NULL;
  TERCEL_TRY(run(w->engine, out, &w->err));
  w->wrong |= out[0] < 10 || out[0] > 10;
  snprintf(name, sizeof name, "Times%d_%d", w->number, round);
  const tercel_operator op = times_operator("test", name);
  TERCEL_TRY(tercel_operators_add(w->set, &op, &w->err));
  tercel_status status = load(&(net){"test", name, 1, "by", false, 1}, w->set, &own, &w->err);
  if (status == TERCEL_OK) status = run(own, out, &w->err);
  w->wrong |= out[0] < 3 || out[0] > 3;
  tercel_engine_destroy(own);
  return status;
}

static void *work(void *arg) {
  worker *const w = arg;
  for (int round = 0; w->status == TERCEL_OK && round < ROUNDS; ++round) w->status = work_round(w, round);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  const tercel_operator op = times_operator("test", "Times");
  tercel_operators *const set = custom_set(&op);
  assert_ok(load(&(net){"test", "Times", 1, NULL, false, 1}, set, &engine, &err), &err);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    workers[i] = (worker){.number = i, .set = set, .engine = engine};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < THREADS; ++i) {
    assert_ok(workers[i].status, &workers[i].err);
    assert_false(workers[i].wrong);
  }
  tercel_engine_destroy(engine);
  tercel_operators_destroy(set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_file_with_an_operator), cmocka_unit_test(test_without_inference_the_file_may_declare),
      cmocka_unit_test(test_what_comes_first),        cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_failed_allocations),      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
