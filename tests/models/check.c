/* See check.h.  Files are read through src/io, networks through tercel.h. */
#include "models/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/image.h"
#include "io/npy.h"

enum { CHUNK = 512, HISTORY = 64 };

/* ---- a case's file --------------------------------------------------------------------------------------------------- */

typedef struct test_case {
  const char *name;
  char path[1024];
} test_case;

static test_case open_case(const char *name) {
  test_case test = {.name = name};
  snprintf(test.path, sizeof test.path, "%s/models/cases/%s.npz", TERCEL_TEST_SOURCE_DIR, name);
  return test;
}

/* False when the file has no such array. */
static bool read_array(const test_case *test, const char *array, tercel_datum *out) {
  return tercel_npz_read(test->path, array, out, NULL) == TERCEL_OK;
}

/* What the case says of an input or output, as in "input_0_layout". */
static double read_number(const test_case *test, const char *side, size_t index, const char *what, double missing) {
  char array[64];
  snprintf(array, sizeof array, "%s_%zu_%s", side, index, what);
  tercel_datum datum = {0};
  if (!read_array(test, array, &datum)) return missing;
  const double number = tercel_element_get_f64(datum.views[0].data, datum.views[0].dtype, 0);
  tercel_datum_deinit(&datum);
  return number;
}

/* i16 samples as f32, -1 .. 1. */
static void widen_samples(const tercel_datum *samples, tercel_datum *out) {
  tercel_error err = {0};
  const tercel_view *view = &samples->views[0];
  assert_ok(tercel_datum_init_tensor(out, "", TERCEL_DTYPE_F32, view->rank, view->dims, 0, &err), &err);
  const int16_t *from = view->data;
  float *to = out->views[0].data;
  for (int64_t i = 0; i < tercel_view_num_elements(view); ++i) to[i] = (float)from[i] / 32768;
}

/* The picture beside the case's file as pixel * scale[c] + bias[c]. */
static void read_picture(const test_case *test, const tercel_datum *scale, tercel_datum *out) {
  tercel_error err = {0};
  char path[1024];
  snprintf(path, sizeof path, "%s/models/cases/%s.png", TERCEL_TEST_SOURCE_DIR, test->name);
  tercel_image image = {0};
  assert_ok(tercel_image_read(path, 3, &image, &err), &err);
  tercel_datum bias = {0};
  assert_true(read_array(test, "input_0_bias", &bias));
  const float *scales = scale->views[0].data, *biases = bias.views[0].data;
  const bool nhwc = read_number(test, "input", 0, "layout", 0) != 0, bgr = read_number(test, "input", 0, "bgr", 0) != 0;
  const int64_t height = image.height, width = image.width, pixels = height * width;
  const int64_t nchw_dims[] = {1, 3, height, width}, nhwc_dims[] = {1, height, width, 3};
  assert_ok(tercel_datum_init_tensor(out, "", TERCEL_DTYPE_F32, 4, nhwc ? nhwc_dims : nchw_dims, 0, &err), &err);
  float *to = out->views[0].data;
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < 3; ++c) {
      const float pixel = image.pixels[p * 3 + (bgr ? 2 - c : c)];
      to[nhwc ? p * 3 + c : c * pixels + p] = pixel * scales[c] + biases[c];
    }
  tercel_datum_deinit(&bias);
  tercel_image_deinit(&image);
}

/* Input `index` in whichever form the case has it; false after the last. */
static bool read_input(const test_case *test, size_t index, tercel_datum *out) {
  char array[64];
  snprintf(array, sizeof array, "input_%zu", index);
  if (read_array(test, array, out)) return true;
  tercel_datum stored = {0};
  snprintf(array, sizeof array, "input_%zu_i16", index);
  const bool samples = read_array(test, array, &stored);
  if (samples) widen_samples(&stored, out);
  snprintf(array, sizeof array, "input_%zu_scale", index);
  const bool picture = !samples && read_array(test, array, &stored);
  if (picture) read_picture(test, &stored, out);
  tercel_datum_deinit(&stored);
  return samples || picture;
}

/* ---- compare --------------------------------------------------------------------------------------------------------- */

static bool is_float(tercel_dtype dtype) { return tercel_dtype_is_float(dtype); }

static void check_output(const test_case *test, size_t index, const tercel_view *got) {
  char array[64];
  tercel_datum want = {0}, shape = {0};
  snprintf(array, sizeof array, "output_%zu", index);
  assert_true(read_array(test, array, &want));
  snprintf(array, sizeof array, "output_%zu_shape", index);
  assert_true(read_array(test, array, &shape));
  assert_int_equal(got->rank, tercel_view_num_elements(&shape.views[0]));
  for (int i = 0; i < got->rank; ++i) assert_int_equal(got->dims[i], ((const int64_t *)shape.views[0].data)[i]);
  assert_int_equal(got->dtype, want.views[0].dtype);

  const int64_t stride = (int64_t)read_number(test, "output", index, "stride", 1);
  const double largest = read_number(test, "output", index, "max", 0),
               noise = read_number(test, "output", index, "noise", 0),
               moved = read_number(test, "output", index, "moved", 0);
  const double tolerance = is_float(got->dtype) ? fmax(fmax(1e-4 * largest, 4 * noise), 2 * moved) : 0;
  double worst = 0;
  for (int64_t i = 0; i < tercel_view_num_elements(&want.views[0]); ++i) {
    const double a = tercel_element_get_f64(got->data, got->dtype, i * stride);
    const double b = tercel_element_get_f64(want.views[0].data, got->dtype, i);
    const double difference = fabs(a - b);
    if (!(difference <= tolerance))
      fail_msg("%s: output %zu: element %lld is %.9g, want %.9g (tolerance %.3g)", test->name, index,
               (long long)(i * stride), a, b, tolerance);
    worst = fmax(worst, difference);
  }
  fprintf(stderr, "%s: output %zu: off by %.3g at most, allowed %.3g\n", test->name, index, worst, tolerance);
  tercel_datum_deinit(&want);
  tercel_datum_deinit(&shape);
}

/* ---- run ------------------------------------------------------------------------------------------------------------- */

typedef struct network {
  tercel_engine *engine;
  tercel_context *context;
} network;

static network open_network(const char *name, const check_options *options) {
  char file[64];
  snprintf(file, sizeof file, "%s.onnx", name);
  const char *path = tercel_test_model(file);
  tercel_error err = {0};
  tercel_model *model = NULL;
  network net = {0};
  assert_ok(tercel_model_load(path, NULL, &model, &err), &err);
  const tercel_engine_options engine_options = {.size = sizeof engine_options,
                                                .num_threads = options->num_threads,
                                                .no_optimize = options->no_optimize,
                                                .check = 1};
  assert_ok(tercel_engine_build(model, &engine_options, &net.engine, &err), &err);
  tercel_model_destroy(model);
  assert_ok(tercel_context_create(net.engine, NULL, &net.context, &err), &err);
  return net;
}

static void close_network(network *net) {
  tercel_context_destroy(net->context);
  tercel_engine_destroy(net->engine);
}

size_t read_case(const char *name, tercel_datum *out) {
  const test_case test = open_case(name);
  size_t count = 0;
  while (count < MAX_CASE_INPUTS && read_input(&test, count, &out[count])) ++count;
  return count;
}

static tercel_status run_again(void *context, tercel_error *err) { return tercel_context_run(context, err); }

/* Steady runs don't touch the heap, and take the memory that the plan says, subgraphs' aside. */
static void check_memory(const network *net) {
  tercel_error err = {0};
  tercel_memory_plan *plan = NULL;
  tercel_memory_plan_info planned = {.size = sizeof planned};
  tercel_memory_info used = {.size = sizeof used};
  tercel_memory_step step;
  bool has_subgraphs = false;
  assert_int_equal(tercel_test_count_allocations(run_again, net->context), 0);
  assert_ok(tercel_memory_plan_of_run(net->context, &plan, &err), &err);
  assert_ok(tercel_memory_plan_get_info(plan, &planned, &err), &err);
  assert_ok(tercel_context_get_memory(net->context, &used, &err), &err);
  for (size_t i = 0; tercel_memory_plan_get_step(plan, i, &step); ++i)
    has_subgraphs |= strcmp(step.op, "if") == 0 || strcmp(step.op, "loop") == 0 || strcmp(step.op, "scan") == 0;
  assert_null(planned.depends);
  assert_true(planned.planned_bytes <= used.activation_bytes);
  if (!has_subgraphs) assert_int_equal(planned.planned_bytes, used.activation_bytes);
  tercel_memory_plan_destroy(plan);
}

void check_network(const char *name, const check_options *options) {
  tercel_error err = {0};
  network net = open_network(name, options);
  const test_case test = open_case(name);
  tercel_datum inputs[MAX_CASE_INPUTS] = {0};
  const size_t count = read_case(name, inputs);
  for (size_t i = 0; i < count; ++i) assert_ok(tercel_context_set_input(net.context, i, inputs[i].views, &err), &err);
  assert_int_equal(count, tercel_engine_num_inputs(net.engine));
  for (int round = 0; round < 2; ++round) { /* the second finds the first's memory plan */
    assert_ok(tercel_context_run(net.context, &err), &err);
    for (size_t i = 0; i < tercel_engine_num_outputs(net.engine); ++i) {
      tercel_view got;
      assert_ok(tercel_context_get_output(net.context, i, &got, &err), &err);
      check_output(&test, i, &got);
    }
  }
  check_memory(&net);
  for (size_t i = 0; i < count; ++i) tercel_datum_deinit(&inputs[i]);
  close_network(&net);
}

void check_speech(const check_options *options) {
  tercel_error err = {0};
  network net = open_network("silero-vad", options);
  const test_case test = open_case("silero-vad");
  tercel_datum samples = {0}, speech = {0}, want = {0};
  assert_true(read_array(&test, "speech_i16", &samples));
  assert_true(read_array(&test, "speech_probs", &want));
  widen_samples(&samples, &speech);

  float chunk[HISTORY + CHUNK] = {0}, state[2 * 128] = {0};
  int64_t rate = 16000;
  const tercel_view views[] = {{TERCEL_DTYPE_F32, 2, {1, HISTORY + CHUNK}, chunk, sizeof chunk},
                               {TERCEL_DTYPE_F32, 3, {2, 1, 128}, state, sizeof state},
                               {TERCEL_DTYPE_I64, 0, {0}, &rate, sizeof rate}};
  for (size_t i = 0; i < 3; ++i) assert_ok(tercel_context_set_input(net.context, i, &views[i], &err), &err);
  for (int64_t call = 0; call < tercel_view_num_elements(&want.views[0]); ++call) {
    memcpy(chunk + HISTORY, (const float *)speech.views[0].data + call * CHUNK, CHUNK * sizeof *chunk);
    assert_ok(tercel_context_run(net.context, &err), &err);
    tercel_view probability, next;
    assert_ok(tercel_context_get_output(net.context, 0, &probability, &err), &err);
    assert_ok(tercel_context_get_output(net.context, 1, &next, &err), &err);
    assert_true(fabsf(*(const float *)probability.data - ((const float *)want.views[0].data)[call]) <= 1e-4f);
    assert_int_equal(next.bytes, sizeof state);
    memcpy(state, next.data, sizeof state);
    memcpy(chunk, chunk + CHUNK, HISTORY * sizeof *chunk);
  }
  tercel_datum_deinit(&samples);
  tercel_datum_deinit(&speech);
  tercel_datum_deinit(&want);
  close_network(&net);
}
