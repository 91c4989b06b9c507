/* Small networks for the runtime's tests: engines from text, tensors from numbers. */
#ifndef TERCEL_TESTS_RUNTIME_NET_H
#define TERCEL_TESTS_RUNTIME_NET_H

#include "support/support.h"

#include <string.h>

#include "runtime/runtime.h"

#define HELPER __attribute__((unused)) static

HELPER tercel_status net_try_build(const char *text, const tercel_engine_options *options, tercel_engine **out,
                                   tercel_error *err) {
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  TERCEL_TRY(tercel_graph_parse(text, strlen(text), tercel_ops(), &graph, err));
  tercel_status status = tercel_model_from_graph(graph, &model, err);
  if (status != TERCEL_OK) tercel_graph_destroy(graph);
  if (status == TERCEL_OK) status = tercel_engine_build(model, options, out, err);
  tercel_model_destroy(model);
  return status;
}

/* Run as it stands, on one thread: what is tested here is the executor. */
HELPER tercel_engine_options net_options(void) {
  return (tercel_engine_options){.size = sizeof(tercel_engine_options), .num_threads = 1, .no_optimize = 1};
}

HELPER tercel_engine *net_build(const char *text) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  const tercel_engine_options options = net_options();
  assert_ok(net_try_build(text, &options, &engine, &err), &err);
  return engine;
}

/* A context that keeps its engine alive. */
HELPER tercel_context *net_open(const char *text) {
  tercel_error err = {0};
  tercel_engine *engine = net_build(text);
  tercel_context *context = NULL;
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  tercel_engine_destroy(engine);
  return context;
}

HELPER tercel_view net_view(tercel_dtype dtype, void *data, int rank, const int64_t *dims) {
  tercel_view view = {.dtype = dtype};
  assert_true(tercel_tensor_set_shape(&view, dtype, rank, dims));
  view.data = data;
  return view;
}

#define DIMS(...)                                                                                                      \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define SCALAR 0, NULL

HELPER void net_set(tercel_context *context, size_t index, tercel_dtype dtype, void *data, int rank,
                    const int64_t *dims) {
  tercel_error err = {0};
  const tercel_view view = net_view(dtype, data, rank, dims);
  assert_ok(tercel_context_set_input(context, index, &view, &err), &err);
}

HELPER void net_run(tercel_context *context) {
  tercel_error err = {0};
  assert_ok(tercel_context_run(context, &err), &err);
}

HELPER tercel_view net_output(const tercel_context *context, size_t index) {
  tercel_error err = {0};
  tercel_view view;
  assert_ok(tercel_context_get_output(context, index, &view, &err), &err);
  return view;
}

/* The view has these dims and, converted to double, these numbers. */
HELPER void net_expect_view(const tercel_view *view, const double *numbers, size_t count, int rank,
                            const int64_t *dims) {
  assert_int_equal(view->rank, rank);
  for (int d = 0; d < rank; ++d) assert_int_equal(view->dims[d], dims[d]);
  assert_int_equal(tercel_tensor_num_elements(view), count);
  for (size_t i = 0; i < count; ++i) {
    const double is = tercel_element_get_f64(view->data, view->dtype, (int64_t)i);
    if (is < numbers[i] || is > numbers[i]) fail_msg("element %zu is %g, want %g", i, is, numbers[i]);
  }
}

#define NUMBERS(...) (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double)
#define NOTHING NULL, 0

HELPER void net_expect(const tercel_context *context, size_t index, const double *numbers, size_t count, int rank,
                       const int64_t *dims) {
  const tercel_view view = net_output(context, index);
  net_expect_view(&view, numbers, count, rank, dims);
}

#endif
