/* See check.h: one network in deterministic mode, again and again; every run is compared with the first, bit by bit. */
#include <stdio.h>
#include <string.h>

#include "models/check.h"

enum { BATCH = 8, MAX_OUTPUTS = 64, MAX_THREADS = 3 };

/* ---- outputs ---- */

/* Copies of a run's outputs. */
typedef struct answers {
  size_t count;
  tercel_view views[MAX_OUTPUTS];
  tercel_arena memory;
} answers;

static void free_answers(answers *a) {
  tercel_arena_deinit(&a->memory);
  a->count = 0;
}

static bool is_nan(const tercel_view *view, int64_t i) {
  if (!tercel_dtype_is_float(view->dtype)) return false;
  const double x = tercel_element_get_f64(view->data, view->dtype, i);
  return x != x;
}

/* Bytes from a byte of each view on; of NaN it is enough that both are. */
static bool same_bits(const tercel_view *a, size_t a_at, const tercel_view *b, size_t b_at, size_t bytes) {
  const uint8_t *const x = (const uint8_t *)a->data + a_at, *const y = (const uint8_t *)b->data + b_at;
  if (bytes == 0 || memcmp(x, y, bytes) == 0) return true;
  const size_t each = (size_t)tercel_dtype_bits(a->dtype) / 8;
  for (size_t i = 0; i < bytes; i += each)
    if (memcmp(x + i, y + i, each) != 0 &&
        !(is_nan(a, (int64_t)((a_at + i) / each)) && is_nan(b, (int64_t)((b_at + i) / each))))
      return false;
  return true;
}

static uint64_t hash_of(const answers *a) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < a->count; ++i)
    for (size_t k = 0; k < a->views[i].bytes; ++k)
      hash = (hash ^ ((const uint8_t *)a->views[i].data)[k]) * 0x100000001b3u;
  return hash;
}

/* ---- runs ---- */

typedef struct inputs {
  size_t count;
  tercel_datum data[MAX_CASE_INPUTS];
  int axes[MAX_CASE_INPUTS]; /* of the batch; -1: none */
} inputs;

static tercel_engine *build(const tercel_model *model, int threads, bool optimized) {
  const tercel_engine_options options = {
      .size = sizeof options, .num_threads = threads, .deterministic = 1, .no_optimize = !optimized};
  tercel_engine *engine = NULL;
  tercel_error err = {0};
  assert_ok(tercel_engine_build(model, &options, &engine, &err), &err);
  return engine;
}

static answers run(tercel_engine *engine, const inputs *in) {
  tercel_context *context = NULL;
  tercel_error err = {0};
  answers out = {0};
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  for (size_t i = 0; i < in->count; ++i) assert_ok(tercel_context_set_input(context, i, in->data[i].views, &err), &err);
  assert_ok(tercel_context_run(context, &err), &err);
  for (; out.count < tercel_engine_num_outputs(engine) && out.count < MAX_OUTPUTS; ++out.count) {
    tercel_view *const view = &out.views[out.count];
    assert_ok(tercel_context_get_output(context, out.count, view, &err), &err);
    view->data = tercel_arena_copy(&out.memory, view->data, view->bytes);
    assert_true(view->data != NULL || view->bytes == 0);
  }
  tercel_context_destroy(context);
  return out;
}

static void compare(const char *name, const char *what, const answers *got, const answers *want) {
  assert_int_equal(got->count, want->count);
  for (size_t i = 0; i < got->count; ++i)
    if (got->views[i].bytes != want->views[i].bytes ||
        !same_bits(&got->views[i], 0, &want->views[i], 0, got->views[i].bytes))
      fail_msg("%s: output %zu at %s has other bits than at the machine's best level with 1 thread", name, i, what);
}

/* ---- batches ---- */

/* The first free dim of each input that the case gives the size 1: false where no input has one. */
static bool find_axes(const tercel_model *model, inputs *in) {
  bool found = false;
  tercel_error err = {0};
  for (size_t i = 0; i < in->count; ++i) {
    tercel_io io;
    const tercel_view *const view = in->data[i].views;
    assert_ok(tercel_model_get_input(model, i, &io, &err), &err);
    in->axes[i] = -1;
    for (int d = 0; d < io.rank && in->axes[i] < 0; ++d)
      if (io.dims[d] < 0 && view->dims[d] == 1) in->axes[i] = d;
    found = found || in->axes[i] >= 0;
  }
  return found;
}

/* Row r of a batch: floats a little larger from row to row, all else as the case has it. */
static void fill_row(const tercel_view *from, int r, uint8_t *to, size_t bytes, size_t at) {
  if (from->dtype != TERCEL_DTYPE_F32) {
    memcpy(to, (const uint8_t *)from->data + at, bytes);
    return;
  }
  const float *const x = (const float *)from->data + at / sizeof(float);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) ((float *)(void *)to)[i] = x[i] * (1 + (float)r / 16);
}

/* Rows first .. first + rows, one behind the other along the axes. */
static void make_batch(const inputs *in, int first, int rows, inputs *out) {
  tercel_error err = {0};
  out->count = in->count;
  for (size_t i = 0; i < in->count; ++i) {
    const tercel_view *const from = in->data[i].views;
    const int axis = in->axes[i];
    int64_t dims[TERCEL_MAX_RANK], outer = 1;
    for (int d = 0; d < from->rank; ++d) dims[d] = d == axis ? rows : from->dims[d];
    for (int d = 0; d < axis; ++d) outer *= from->dims[d];
    out->data[i] = (tercel_datum){0};
    assert_ok(tercel_datum_init_tensor(&out->data[i], "", from->dtype, from->rank, dims, 0, &err), &err);
    uint8_t *to = out->data[i].views[0].data;
    const size_t each = from->bytes / (size_t)outer;
    for (int64_t o = 0; o < outer; ++o)
      for (int r = 0; r < (axis < 0 ? 1 : rows); ++r, to += each)
        fill_row(from, axis < 0 ? 0 : first + r, to, each, (size_t)o * each);
  }
}

static void free_inputs(inputs *in) {
  for (size_t i = 0; i < in->count; ++i) tercel_datum_deinit(&in->data[i]);
}

/* Whether view `one` is row r of view `all`, which has BATCH of them along one axis.  Outputs whose shapes say nothing of rows pass. */
static bool is_row(const tercel_view *one, const tercel_view *all, int r) {
  if (one->rank != all->rank) return true;
  int axis = -1;
  size_t outer = 1;
  for (int d = 0; d < one->rank; ++d) {
    if (one->dims[d] == all->dims[d]) continue;
    if (axis >= 0 || one->dims[d] * BATCH != all->dims[d]) return true;
    axis = d;
  }
  if (axis < 0) return true;
  for (int d = 0; d < axis; ++d) outer *= (size_t)one->dims[d];
  const size_t each = one->bytes / outer;
  for (size_t o = 0; o < outer; ++o)
    if (!same_bits(one, o * each, all, (o * BATCH + (size_t)r) * each, each)) return false;
  return true;
}

static uint64_t hash_as_imported(const tercel_model *model, const inputs *in) {
  tercel_engine *const engine = build(model, 1, false);
  answers out = run(engine, in);
  const uint64_t hash = hash_of(&out);
  free_answers(&out);
  tercel_engine_destroy(engine);
  return hash;
}

static void check_batch(const char *name, const tercel_model *model, inputs *in) {
  if (!find_axes(model, in)) return;
  tercel_engine *const engine = build(model, 2, true);
  inputs batch;
  make_batch(in, 0, BATCH, &batch);
  answers all = run(engine, &batch);
  free_inputs(&batch);
  for (int r = 0; r < BATCH; ++r) {
    make_batch(in, r, 1, &batch);
    answers one = run(engine, &batch);
    for (size_t i = 0; i < one.count; ++i)
      if (!is_row(&one.views[i], &all.views[i], r))
        fail_msg("%s: output %zu of row %d has other bits alone than in a batch of %d", name, i, r, BATCH);
    free_answers(&one);
    free_inputs(&batch);
  }
  free_answers(&all);
  tercel_engine_destroy(engine);
}

/* ---- all of it ---- */

uint64_t check_bits(const char *name, bool mixes_rows) {
  static const tercel_cpu_level levels[] = {TERCEL_CPU_BASELINE, TERCEL_CPU_AVX2, TERCEL_CPU_AVX512,
                                            TERCEL_CPU_AVX512_VNNI};
  const tercel_cpu_level best = tercel_cpu_current();
  char what[128];
  snprintf(what, sizeof what, "%s.onnx", name);
  tercel_error err = {0};
  tercel_model *model = NULL;
  assert_ok(tercel_model_load(tercel_test_model(what), NULL, &model, &err), &err);
  inputs in = {0};
  in.count = read_case(name, in.data);
  tercel_engine *engine = build(model, 1, true);
  answers want = run(engine, &in);
  tercel_engine_destroy(engine);
  for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
    if (levels[l] > best || !tercel_cpu_has(levels[l])) continue;
    assert_ok(tercel_cpu_set_level(levels[l], &err), &err);
    for (int threads = 1; threads <= MAX_THREADS; ++threads) {
      snprintf(what, sizeof what, "%s, %d threads", tercel_cpu_level_name(levels[l]), threads);
      engine = build(model, threads, true);
      answers got = run(engine, &in);
      compare(name, what, &got, &want);
      free_answers(&got);
      tercel_engine_destroy(engine);
    }
  }
  assert_ok(tercel_cpu_set_level(best, &err), &err);
  if (!mixes_rows) check_batch(name, model, &in);
  const uint64_t hash = hash_as_imported(model, &in);
  free_answers(&want);
  free_inputs(&in);
  tercel_model_destroy(model);
  return hash;
}
