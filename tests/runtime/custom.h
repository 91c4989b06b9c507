/* Networks with operators of the test's own: a set, and models from text over it. */
#ifndef TERCEL_TESTS_RUNTIME_CUSTOM_H
#define TERCEL_TESTS_RUNTIME_CUSTOM_H

#include "runtime/net.h"

/* One input, one output, no attributes: what most operators here are. */
HELPER tercel_operator custom_operator(const char *name, tercel_status (*run)(const tercel_call *, tercel_error *)) {
  return (tercel_operator){.size = sizeof(tercel_operator),
                           .domain = "test",
                           .name = name,
                           .first_version = 1,
                           .min_inputs = 1,
                           .max_inputs = 1,
                           .min_outputs = 1,
                           .max_outputs = 1,
                           .run = run};
}

HELPER tercel_operators *custom_set(const tercel_operator *op) {
  tercel_error err = {0};
  tercel_operators *set = NULL;
  assert_ok(tercel_operators_create(&set, &err), &err);
  assert_ok(tercel_operators_add(set, op, &err), &err);
  return set;
}

/* A model of a graph's text in which the set's operator test.NAME may stand as "test.NAME". */
HELPER tercel_status custom_try_build(tercel_operators *set, const char *name, const char *text, bool optimized,
                                      tercel_engine **out, tercel_error *err) {
  const tercel_op *ops[TERCEL_OP_COUNT + 2];
  memcpy(ops, tercel_ops(), TERCEL_OP_COUNT * sizeof *ops);
  ops[TERCEL_OP_COUNT] = &tercel_operators_find(set, "test", name, 1, NULL)->op;
  ops[TERCEL_OP_COUNT + 1] = NULL;
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  TERCEL_TRY(tercel_graph_parse(text, strlen(text), ops, &graph, err));
  tercel_status status = tercel_infer_graph(graph, err);
  if (status == TERCEL_OK) status = tercel_model_from_graph(graph, &model, err);
  if (status != TERCEL_OK) tercel_graph_destroy(graph);
  if (status != TERCEL_OK) return status;
  model->operators = tercel_operators_retain(set);
  const tercel_engine_options options = {
      .size = sizeof options, .num_threads = 2, .no_optimize = !optimized, .check = 1};
  status = tercel_engine_build(model, &options, out, err);
  tercel_model_destroy(model);
  return status;
}

/* The set is given up: the engine keeps it. */
HELPER tercel_context *custom_open(tercel_operators *set, const char *name, const char *text, bool optimized) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  assert_ok(custom_try_build(set, name, text, optimized, &engine, &err), &err);
  tercel_operators_destroy(set);
  const tercel_context_options options = {.size = sizeof options, .profile = 1};
  assert_ok(tercel_context_create(engine, &options, &context, &err), &err);
  tercel_engine_destroy(engine);
  return context;
}

#endif
