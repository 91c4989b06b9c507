/* Nodes in text form, run through every kernel and through their reference. */
#include "kernels/check_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "kernels/check.h"

static bool bench;

void check_start(int argc, char **argv) { bench = argc > 1 && strcmp(argv[1], "--bench") == 0; }

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

static double draw_float(tercel_test_random *random, const check_options *options) {
  static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-41, -1e-41, 1e15, 1.0, -1.0};
  if (options->specials && tercel_test_random_int(random, 0, 15) == 0)
    return specials[tercel_test_random_int(random, 0, sizeof specials / sizeof *specials - 1)];
  const bool given = options->low != 0.0 || options->high != 0.0;
  const double low = given ? options->low : -2.0, high = given ? options->high : 2.0;
  return low + (high - low) * (double)(tercel_test_random_u64(random) >> 11) * 0x1p-53;
}

static int64_t draw_integer(tercel_test_random *random, tercel_dtype dtype, const check_options *options) {
  if (dtype == TERCEL_DTYPE_BOOL) return tercel_test_random_int(random, 0, 1);
  if (options->low != 0.0 || options->high != 0.0)
    return tercel_test_random_int(random, (int64_t)options->low, (int64_t)options->high);
  return tercel_test_random_int(random, tercel_dtype_get_kind(dtype) == TERCEL_KIND_UINT ? 0 : -8, 8);
}

static void draw(tercel_tensor *tensor, tercel_test_random *random, const check_options *options) {
  const int64_t count = tercel_tensor_num_elements(tensor);
  for (int64_t i = 0; i < count; i++) {
    if (tercel_dtype_is_float(tensor->dtype))
      tercel_tensor_set_f64(tensor, i, draw_float(random, options));
    else
      tercel_tensor_set_i64(tensor, i, draw_integer(random, tensor->dtype, options));
  }
}

/* ---- comparison ---------------------------------------------------------------------------------------------------- */

static double epsilon(tercel_dtype dtype) {
  switch (dtype) {
  case TERCEL_DTYPE_F64: return DBL_EPSILON;
  case TERCEL_DTYPE_F16: return 0x1p-10;
  case TERCEL_DTYPE_BF16: return 0x1p-7;
  default: return (double)FLT_EPSILON;
  }
}

static double largest(const tercel_tensor *tensor) {
  double most = 0;
  const int64_t count = tercel_tensor_num_elements(tensor);
  for (int64_t i = 0; i < count; i++) {
    const double x = fabs(tercel_tensor_get_f64(tensor, i));
    if (x > most && x < INFINITY) most = x;
  }
  return most;
}

static bool close_enough(double got, double want, double scale, double eps, const check_tolerance *t) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (got == want) return true;
  return fabs(got - want) <= eps * (t->eps * fabs(want) + t->scale * scale) + t->absolute;
}

static void compare(const char *place, const tercel_tensor *got, const tercel_tensor *want,
                    const check_tolerance *tolerance) {
  const int64_t count = tercel_tensor_num_elements(want);
  if (got->dtype != want->dtype || !tercel_tensor_same_shape(got, want)) fail_msg("%s: another shape or type", place);
  if (!tercel_dtype_is_float(want->dtype)) {
    for (int64_t i = 0; i < count; i++)
      if (tercel_tensor_get_i64(got, i) != tercel_tensor_get_i64(want, i))
        fail_msg("%s: element %lld is %lld, want %lld", place, (long long)i, (long long)tercel_tensor_get_i64(got, i),
                 (long long)tercel_tensor_get_i64(want, i));
    return;
  }
  const double scale = tolerance->scale > 0 ? largest(want) : 0;
  for (int64_t i = 0; i < count; i++) {
    const double x = tercel_tensor_get_f64(got, i), y = tercel_tensor_get_f64(want, i);
    if (!close_enough(x, y, scale, epsilon(want->dtype), tolerance))
      fail_msg("%s: element %lld is %.9g, want %.9g (%.2f eps)", place, (long long)i, x, y,
               fabs(x - y) / fabs(y) / epsilon(want->dtype));
  }
}

/* ---- one node ------------------------------------------------------------------------------------------------------ */

enum { MAX_OPERANDS = 16, MAX_KERNELS = 16 };

typedef struct subject {
  const char *text;
  const check_options *options;
  const tercel_node *node;
  tercel_tensor inputs[MAX_OPERANDS];
  const tercel_tensor *in[MAX_OPERANDS];
  tercel_tensor wanted[MAX_OPERANDS];
  tercel_pool *pools[2];
  int num_runs;
  const tercel_kernel *exact_kernels[MAX_KERNELS]; /* and what each gave first in deterministic mode */
  uint64_t exact_hashes[MAX_KERNELS];
} subject;

typedef struct variant {
  tercel_cpu_level level;
  const tercel_kernel *kernel;
  int pool;
  int inplace; /* input that output 0 lies on; -1: none */
  bool exact;  /* in deterministic mode */
} variant;

static double bench_run(const tercel_kernel_run *run) {
  tercel_error err = {0};
  double best = INFINITY;
  const int64_t until = tercel_time_ns() + 100000000;
  for (int i = 0; i < 5 || tercel_time_ns() < until; i++) {
    const int64_t start = tercel_time_ns();
    assert_ok(run->kernel->run(run, &err), &err);
    const double ns = (double)(tercel_time_ns() - start);
    if (ns < best) best = ns;
  }
  return best;
}

static void report(const subject *s, const variant *v, const tercel_kernel_run *run) {
  double bytes = 0;
  for (size_t i = 0; i < run->num_inputs; i++) bytes += run->in[i] ? (double)run->in[i]->bytes : 0;
  for (size_t i = 0; i < run->num_outputs; i++) bytes += run->out[i] ? (double)run->out[i]->bytes : 0;
  const double flops =
      s->node->op->flops ? s->node->op->flops(s->node, run->in, (const tercel_tensor *const *)run->out) : 0;
  const double ns = bench_run(run);
  printf("%-20s %-9s %d thread%s %10.2f us %8.2f GB/s %8.2f GFLOP/s  %s\n", v->kernel->name,
         tercel_cpu_level_name(v->level), tercel_pool_num_threads(run->pool), v->pool ? "s" : " ", ns / 1000,
         bytes / ns, flops / ns, s->text);
}

/* All levels and numbers of threads agree on every bit. */
static void compare_bits(subject *s, const variant *v, tercel_tensor *const *out) {
  uint64_t hash = 1;
  for (uint32_t i = 0; i < s->node->num_outputs; i++)
    if (out[i]) hash = hash * 31 + check_hash(out[i]);
  int i = 0;
  while (s->exact_kernels[i] && s->exact_kernels[i] != v->kernel) assert_true(++i < MAX_KERNELS);
  if (!s->exact_kernels[i]) s->exact_hashes[i] = hash;
  s->exact_kernels[i] = v->kernel;
  if (s->exact_hashes[i] != hash)
    fail_msg("%s: other bits at %s with %d threads than at the baseline with 1, in deterministic mode: %s",
             v->kernel->name, tercel_cpu_level_name(v->level), tercel_pool_num_threads(s->pools[v->pool]), s->text);
}

/* Runs one kernel once and compares its outputs. */
static void run_variant(subject *s, const variant *v) {
  const tercel_node *node = s->node;
  tercel_error err = {0};
  tercel_arena arena = {0};
  tercel_kernel_state state = {0};
  tercel_kernel_binding binding = {0};
  tercel_tensor outputs[MAX_OPERANDS];
  tercel_tensor *out[MAX_OPERANDS] = {NULL};
  const tercel_tensor *shapes[MAX_OPERANDS] = {NULL}, *in[MAX_OPERANDS];
  tercel_test_buffer buffers[MAX_OPERANDS] = {{0}};
  const tercel_target target = {.num_threads = tercel_pool_num_threads(s->pools[v->pool]), .deterministic = v->exact};
  memcpy(in, s->in, sizeof in);
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (!node->outputs[i]) continue;
    outputs[i] = s->wanted[i];
    outputs[i].data = NULL;
    shapes[i] = out[i] = &outputs[i];
  }
  assert_ok(tercel_kernel_prepare(v->kernel, node, &target, NULL, &state, &err), &err);
  check_packed(v->kernel, node, &state);
  if (v->kernel->bind)
    assert_ok(v->kernel->bind(v->kernel, node, state.data, in, shapes, &target, &arena, &binding, &err), &err);
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (!out[i]) continue;
    const size_t element = (size_t)(tercel_dtype_bits(out[i]->dtype) + 7) / 8;
    buffers[i] = tercel_test_buffer_create(out[i]->bytes, element * (size_t)(s->num_runs++ % 5));
    out[i]->data = buffers[i].data;
  }
  tercel_tensor moved;
  if (v->inplace >= 0) {
    memcpy(out[0]->data, in[v->inplace]->data, out[0]->bytes);
    moved = *in[v->inplace];
    moved.data = out[0]->data;
    in[v->inplace] = &moved;
  }
  tercel_test_buffer workspace = tercel_test_buffer_create(binding.workspace_bytes, 0);
  const tercel_kernel_run run = {.node = node,
                                 .kernel = v->kernel,
                                 .state = state.data,
                                 .binding = binding.data,
                                 .num_inputs = node->num_inputs,
                                 .num_outputs = node->num_outputs,
                                 .in = in,
                                 .out = out,
                                 .workspace = workspace.data,
                                 .target = &target,
                                 .pool = s->pools[v->pool]};
  assert_ok(v->kernel->run(&run, &err), &err);
  char place[512];
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (!out[i]) continue;
    snprintf(place, sizeof place, "%s at %s, %d threads%s, output %u of %s", v->kernel->name,
             tercel_cpu_level_name(v->level), target.num_threads, v->inplace >= 0 ? ", in place" : "", i, s->text);
    compare(place, out[i], &s->wanted[i], &s->options->tolerance);
  }
  if (v->exact) compare_bits(s, v, out);
  if (bench && s->options->timed && v->inplace < 0) report(s, v, &run);
  tercel_test_buffer_destroy(&workspace);
  for (uint32_t i = 0; i < node->num_outputs; i++) tercel_test_buffer_destroy(&buffers[i]);
  tercel_arena_deinit(&arena);
  tercel_kernel_release(v->kernel, &state);
}

static void run_kernel(subject *s, tercel_cpu_level level, const tercel_kernel *kernel) {
  static const tercel_target exact = {.num_threads = 1, .deterministic = true};
  for (int pool = 0; pool < 2; pool++) {
    run_variant(s, &(variant){level, kernel, pool, -1, false});
    if (tercel_kernel_supports(kernel, s->node, &exact)) run_variant(s, &(variant){level, kernel, pool, -1, true});
  }
  for (int i = 0; i < (int)s->node->num_inputs && i < 32; i++)
    if ((kernel->inplace >> i & 1) && s->in[i] && s->in[i]->bytes == s->wanted[0].bytes)
      run_variant(s, &(variant){level, kernel, 1, i, false});
}

static void run_level(tercel_cpu_level level, void *arg) {
  static const tercel_kernel *const kernels[] = {
#define TERCEL_KERNEL(name) &tercel_kernel_##name,
#include "backends/cpu/kernels.inc"
#undef TERCEL_KERNEL
      NULL};
  subject *s = arg;
  int num_supporting = 0;
  for (const tercel_kernel *const *k = kernels; *k; k++) {
    if ((*k)->op != s->node->op->id || !(*k)->supports(*k, s->node)) continue;
    if (s->options->kernel && strcmp(s->options->kernel, (*k)->name) != 0) continue;
    run_kernel(s, level, *k);
    num_supporting++;
  }
  if (num_supporting == 0 && !s->options->reference_only)
    fail_msg("no kernel at %s for %s", tercel_cpu_level_name(level), s->text);
}

/* A number of its own for each text, so that its data don't depend on the tests before it. */
static uint64_t stream_of(const char *text) { return tercel_hash(text, strlen(text), 1); }

void check_text(const char *text, const check_options *options) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  subject s = {.text = text, .options = options};
  tercel_test_random random = tercel_test_random_start(stream_of(text));
  tercel_text whole = {0};
  tercel_text_add(&whole, "graph \"check\" %s", text);
  assert_ok(tercel_graph_parse(whole.data, whole.length, tercel_ops(), &graph, &err), &err);
  tercel_text_deinit(&whole);
  assert_ok(tercel_infer_graph(graph, &err), &err);
  assert_int_equal(graph->num_nodes, 1);
  s.node = graph->first;
  assert_true(s.node->num_inputs <= MAX_OPERANDS && s.node->num_outputs <= MAX_OPERANDS);

  void *memory[MAX_OPERANDS] = {NULL};
  for (uint32_t i = 0; i < s.node->num_inputs; i++) {
    const tercel_value *value = s.node->inputs[i];
    if (!value) continue;
    s.in[i] = value->constant;
    if (value->constant) continue;
    assert_true(
        tercel_tensor_set_shape(&s.inputs[i], value->type.dtype, value->type.shape.rank, value->type.shape.dims));
    memory[i] = calloc(1, s.inputs[i].bytes + 64);
    assert_non_null(memory[i]);
    s.inputs[i].data = (uint8_t *)memory[i] + (size_t)(tercel_dtype_bits(value->type.dtype) + 7) / 8 * (i % 3);
    draw(&s.inputs[i], &random, options);
    s.in[i] = &s.inputs[i];
  }
  tercel_storage *storages[MAX_OPERANDS] = {NULL};
  assert_ok(tercel_eval_node(s.node, s.in, s.wanted, storages, &err), &err);
  for (int i = 0; i < 2; i++) assert_ok(tercel_pool_create(i ? 3 : 1, &s.pools[i], &err), &err);
  check_levels(run_level, &s);
  for (int i = 0; i < 2; i++) tercel_pool_release(s.pools[i]);
  for (size_t i = 0; i < MAX_OPERANDS; i++) {
    tercel_storage_release(storages[i]);
    free(memory[i]);
  }
  tercel_graph_destroy(graph);
}
