/* The harness of the kernel checks: levels, errors in ULP, and nodes run through a kernel and through their reference. */
#include "kernels/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

void check_levels(void (*fn)(tercel_cpu_level level, void *arg), void *arg) {
  static const tercel_cpu_level levels[] = {TERCEL_CPU_BASELINE, TERCEL_CPU_AVX2, TERCEL_CPU_AVX512,
                                            TERCEL_CPU_AVX512_VNNI};
  tercel_error err = {0};
  /* As the process found it: a test that fails leaves another level behind. */
  static tercel_cpu_level best = TERCEL_CPU_LEVEL_COUNT;
  const bool first = best == TERCEL_CPU_LEVEL_COUNT;
  if (first) best = tercel_cpu_current();
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (levels[i] > best) {
      if (first) fprintf(stderr, "skipped: level %s\n", tercel_cpu_level_name(levels[i]));
      continue;
    }
    assert_ok(tercel_cpu_set_level(levels[i], &err), &err);
    fn(levels[i], arg);
  }
  assert_ok(tercel_cpu_set_level(best, &err), &err);
}

uint64_t check_hash(const tercel_tensor *tensor) {
  const size_t each = (size_t)(tercel_dtype_bits(tensor->dtype) + 7) / 8;
  const int64_t count = tercel_tensor_num_elements(tensor);
  uint64_t hash = 1;
  for (int64_t i = 0; i < count; i++) {
    const bool nan = tercel_dtype_is_float(tensor->dtype) && isnan(tercel_tensor_get_f64(tensor, i));
    hash = nan ? hash * 31 + 7 : tercel_hash((const char *)tensor->data + (size_t)i * each, each, hash);
  }
  return hash;
}

double check_ulp(float got, double want) {
  const float rounded = (float)want;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0.0 : INFINITY;
  if (isinf(rounded) && isinf(got)) return !signbit(rounded) == !signbit(got) ? 0.0 : INFINITY;
  if (want == 0.0 && got == 0.0f) return !signbit(want) == !signbit(got) ? 0.0 : INFINITY;
  if (isinf(want) || isinf(got)) /* one beyond the largest number, the other just below */
    return fabs(want) > 0x1.fffffcp+127 && fabs((double)got) > 0x1.fffffcp+127 ? 1.0 : INFINITY;
  int exponent;
  frexp(want, &exponent);
  return fabs((double)got - want) / ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}

/* ---- one node ---- */

check_node *check_node_create(uint64_t stream) {
  tercel_error err = {0};
  check_node *check = tercel_zalloc(sizeof *check);
  assert_non_null(check);
  check->random = tercel_test_random_start(stream);
  assert_ok(tercel_graph_create("check", &check->graph, &err), &err);
  return check;
}

void check_node_destroy(check_node *check) {
  for (size_t i = 0; i < check->num_inputs; i++) tercel_storage_release(check->storages[i]);
  for (size_t i = 0; i < CHECK_MAX_OUTPUTS; i++) tercel_storage_release(check->want_storages[i]);
  tercel_graph_destroy(check->graph);
  tercel_free(check);
}

static void fill_random(tercel_test_random *random, tercel_tensor *tensor) {
  const int64_t count = tercel_tensor_num_elements(tensor);
  for (int64_t i = 0; i < count; i++) {
    if (tercel_dtype_is_float(tensor->dtype))
      tercel_tensor_set_f64(tensor, i, (double)tercel_test_random_f32(random, -1, 1));
    else
      tercel_tensor_set_i64(tensor, i, tercel_test_random_int(random, -9, 9));
  }
}

tercel_tensor *check_node_input(check_node *check, check_kind kind, tercel_dtype dtype, int rank, const int64_t *dims) {
  tercel_error err = {0};
  const size_t i = check->num_inputs++;
  assert_true(i < CHECK_MAX_INPUTS);
  if (kind == CHECK_ABSENT) return NULL;
  tercel_tensor *tensor = &check->tensors[i];
  assert_true(tercel_tensor_set_shape(tensor, dtype, rank, dims));
  assert_ok(tercel_storage_create(tensor->bytes, &check->storages[i], &err), &err);
  tensor->data = tercel_storage_data(check->storages[i]);
  fill_random(&check->random, tensor);
  check->in[i] = tensor;
  char name[16];
  snprintf(name, sizeof name, "in%zu", i);
  if (kind == CHECK_CONSTANT) {
    assert_ok(tercel_graph_add_constant(check->graph, name, tensor, check->storages[i], &check->values[i], &err), &err);
  } else {
    tercel_type type = {.dtype = dtype, .shape = {.rank = rank}};
    for (int d = 0; d < rank; d++) type.shape.dims[d] = dims[d];
    assert_ok(tercel_graph_add_input(check->graph, name, &type, &check->values[i], &err), &err);
  }
  return tensor;
}

void check_node_make(check_node *check, int op, size_t num_outputs) {
  tercel_error err = {0};
  assert_ok(tercel_graph_add_node(check->graph, tercel_ops()[op], "node", check->values, check->num_inputs, num_outputs,
                                  NULL, &check->node, &err),
            &err);
}

bool check_epilogue_has_extra(check_epilogue epilogue) {
  return epilogue == CHECK_EPILOGUE_ADD || epilogue == CHECK_EPILOGUE_PROGRAM;
}

void check_node_set_epilogue(check_node *check, check_epilogue epilogue) {
  const uint8_t f32 = TERCEL_DTYPE_F32;
  tercel_instr clamp[] = {{TERCEL_FN_CLIP, f32, {0}, {{.f = 0}, {.f = 0.75}}}};
  tercel_instr add[] = {{TERCEL_FN_ADD, f32, {0, 1}, {{0}}}};
  tercel_instr chain[] = {
      {TERCEL_FN_MUL, f32, {0, 1}, {{0}}}, {TERCEL_FN_TANH, f32, {2}, {{0}}}, {TERCEL_FN_ADD, f32, {3, 0}, {{0}}}};
  const tercel_program programs[] = {[CHECK_EPILOGUE_CLAMP] = {1, 1, clamp},
                                     [CHECK_EPILOGUE_ADD] = {2, 1, add},
                                     [CHECK_EPILOGUE_PROGRAM] = {2, 3, chain}};
  tercel_error err = {0};
  if (epilogue != CHECK_EPILOGUE_NONE)
    assert_ok(tercel_node_set_program(check->node, "epilogue", &programs[epilogue], &err), &err);
}

static void evaluate(check_node *check) {
  if (check->evaluated) return;
  tercel_error err = {0};
  assert_ok(tercel_infer_node(check->node, &err), &err);
  assert_ok(tercel_eval_node(check->node, check->in, check->want, check->want_storages, &err), &err);
  check->evaluated = true;
}

/* The shapes of the outputs without evaluating: for timing what the reference would take too long for. */
static void shape_outputs(check_node *check) {
  tercel_error err = {0};
  assert_ok(tercel_infer_node(check->node, &err), &err);
  for (size_t i = 0; i < check->node->num_outputs; i++) {
    const tercel_type *type = &check->node->outputs[i]->type;
    assert_true(tercel_shape_is_known(&type->shape));
    assert_true(tercel_tensor_set_shape(&check->want[i], type->dtype, type->shape.rank, type->shape.dims));
  }
}

/* A kernel bound to the node, with guarded outputs and workspace. */
typedef struct bound {
  tercel_kernel_state state;
  tercel_kernel_binding binding;
  tercel_arena arena;
  tercel_pool *pool;
  tercel_test_buffer memory[CHECK_MAX_OUTPUTS], workspace;
  tercel_tensor tensors[CHECK_MAX_OUTPUTS];
  tercel_tensor *out[CHECK_MAX_OUTPUTS];
  tercel_kernel_run run;
  tercel_target target;
} bound;

static void bind_kernel(check_node *check, const tercel_kernel *kernel, const tercel_target *target, bound *b) {
  tercel_error err = {0};
  const int num_threads = target->num_threads;
  memset(b, 0, sizeof *b);
  b->target = *target;
  assert_true(tercel_kernel_supports(kernel, check->node, target));
  for (size_t i = 0; i < check->node->num_outputs; i++) {
    b->tensors[i] = check->want[i];
    b->memory[i] = tercel_test_buffer_create(check->want[i].bytes, 0);
    b->tensors[i].data = b->memory[i].data;
    b->out[i] = &b->tensors[i];
  }
  assert_ok(tercel_kernel_prepare(kernel, check->node, &b->target, NULL, &b->state, &err), &err);
  check_packed(kernel, check->node, &b->state);
  if (kernel->bind != NULL)
    assert_ok(kernel->bind(kernel, check->node, b->state.data, check->in, (const tercel_tensor *const *)b->out,
                           &b->target, &b->arena, &b->binding, &err),
              &err);
  b->workspace = tercel_test_buffer_create(b->binding.workspace_bytes, 0);
  if (num_threads > 1) assert_ok(tercel_pool_create(num_threads, &b->pool, &err), &err);
  b->run = (tercel_kernel_run){.node = check->node,
                               .kernel = kernel,
                               .state = b->state.data,
                               .binding = b->binding.data,
                               .num_inputs = check->num_inputs,
                               .num_outputs = check->node->num_outputs,
                               .in = check->in,
                               .out = b->out,
                               .workspace = b->workspace.data,
                               .target = &b->target,
                               .pool = b->pool};
}

void check_packed(const tercel_kernel *kernel, const tercel_node *node, const tercel_kernel_state *state) {
  tercel_error err = {0};
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    if (!(state->packed.format.inputs & (1u << i))) continue;
    const tercel_tensor *const constant = node->inputs[i]->constant;
    tercel_storage *storage = NULL;
    assert_ok(tercel_kernel_unpack(kernel, node, &state->packed, i, &storage, &err), &err);
    assert_memory_equal(tercel_storage_data(storage), constant->data, constant->bytes);
    tercel_storage_release(storage);
  }
}

static void unbind_kernel(const tercel_kernel *kernel, bound *b) {
  for (size_t i = 0; i < b->run.num_outputs; i++) tercel_test_buffer_destroy(&b->memory[i]);
  tercel_test_buffer_destroy(&b->workspace);
  tercel_pool_release(b->pool);
  tercel_kernel_release(kernel, &b->state);
  tercel_arena_deinit(&b->arena);
}

static double difference(const tercel_tensor *got, const tercel_tensor *want) {
  double largest = 1, worst = 0;
  const int64_t count = tercel_tensor_num_elements(want);
  for (int64_t i = 0; i < count; i++) {
    const double g = tercel_tensor_get_f64(got, i), w = tercel_tensor_get_f64(want, i);
    if (isnan(g) && isnan(w)) continue;
    if (isfinite(w) && fabs(w) > largest) largest = fabs(w);
    const double d = g == w ? 0 : fabs(g - w);
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  return worst / largest;
}

double check_node_difference(check_node *check, const tercel_kernel *kernel, int num_threads) {
  tercel_error err = {0};
  evaluate(check);
  bound b;
  bind_kernel(check, kernel, &(tercel_target){.num_threads = num_threads}, &b);
  double worst = 0;
  for (int repeat = 0; repeat < 2; repeat++) {
    for (size_t i = 0; i < b.run.num_outputs; i++) memset(b.memory[i].data, 0xff, b.memory[i].bytes);
    assert_ok(kernel->run(&b.run, &err), &err);
    for (size_t i = 0; i < b.run.num_outputs; i++) {
      tercel_test_buffer_check(&b.memory[i]);
      const double d = difference(b.out[i], &check->want[i]);
      if (d > worst) worst = d;
    }
    tercel_test_buffer_check(&b.workspace);
  }
  unbind_kernel(kernel, &b);
  return worst;
}

/* ---- bits ---- */

typedef struct bits_job {
  check_node *check;
  const tercel_kernel *kernel;
  bool any;
  uint64_t hash;
} bits_job;

static void compare_bits(tercel_cpu_level level, void *arg) {
  bits_job *const job = arg;
  tercel_error err = {0};
  for (int threads = 1; threads <= 3; threads++) {
    bound b;
    bind_kernel(job->check, job->kernel, &(tercel_target){.num_threads = threads, .deterministic = true}, &b);
    assert_ok(job->kernel->run(&b.run, &err), &err);
    uint64_t hash = 1;
    for (size_t i = 0; i < b.run.num_outputs; i++) hash = hash * 31 + check_hash(b.out[i]);
    unbind_kernel(job->kernel, &b);
    if (job->any && hash != job->hash)
      fail_msg("%s: other bits at %s with %d threads than at the baseline with 1", job->kernel->name,
               tercel_cpu_level_name(level), threads);
    job->any = true;
    job->hash = hash;
  }
}

uint64_t check_node_bits(check_node *check, const tercel_kernel *kernel) {
  static const tercel_target exact = {.num_threads = 1, .deterministic = true};
  const tercel_cpu_level level = tercel_cpu_current();
  tercel_error err = {0};
  if (!check->evaluated) shape_outputs(check);
  if (!tercel_kernel_supports(kernel, check->node, &exact)) return 0;
  bits_job job = {.check = check, .kernel = kernel};
  check_levels(compare_bits, &job);
  assert_ok(tercel_cpu_set_level(level, &err), &err);
  return job.hash;
}

double check_node_time_us(check_node *check, const tercel_kernel *kernel, int num_threads, double *gflops_out) {
  tercel_error err = {0};
  if (!check->evaluated) shape_outputs(check);
  bound b;
  bind_kernel(check, kernel, &(tercel_target){.num_threads = num_threads}, &b);
  double best = INFINITY;
  const int64_t start = tercel_time_ns();
  for (int i = 0; i < 3 || tercel_time_ns() - start < 150 * 1000 * 1000; i++) {
    const int64_t before = tercel_time_ns();
    assert_ok(kernel->run(&b.run, &err), &err);
    const double us = (double)(tercel_time_ns() - before) * 1e-3;
    if (us < best) best = us;
  }
  const double flops = kernel->op >= 0 && check->node->op->flops != NULL
                           ? check->node->op->flops(check->node, check->in, (const tercel_tensor *const *)b.out)
                           : 0;
  *gflops_out = flops / best * 1e-3;
  unbind_kernel(kernel, &b);
  return best;
}
