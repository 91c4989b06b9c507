/* See measure.h.  Tactics take turns, so that what else the machine does hits them all; clear losers drop out early.  Before each run the near
 * caches are swept and the step's inputs are read again: that is how a step of a network finds them. */
#include "plan/measure.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum {
  MIN_ROUNDS = 6,
  MAX_ROUNDS = 24,
  LOSER_ROUNDS = 3, /* after so many a clear loser drops out */
};
/* All of a step's runs; at least two rounds are made. */
static const double most_ns = 200e6;
/* A tactic that takes so much longer than the best has lost: early, later. */
static const double early_loser = 2, loser = 1.2;

/* A tactic ready to run. */
typedef struct contender {
  bool is_in;
  tercel_kernel_run run;
  tercel_storage *workspace;
  double best_ns;
} contender;

typedef struct bench {
  const tercel_measurement *wanted;
  tercel_arena memory;
  tercel_storage **storages; /* of operands */
  tercel_tensor *tensors;
  const tercel_tensor **in;
  tercel_tensor **out;
  contender *contenders;
  uint32_t num_contenders;
  char *sweep; /* bytes that fill near caches, a piece a thread */
  size_t sweep_bytes;
} bench;

/* ---- operands ------------------------------------------------------------------------------------------------------ */

static void fill(tercel_tensor *tensor) {
  uint32_t random = 1;
  if (tensor->dtype == TERCEL_DTYPE_F32) {
    float *const f = tensor->data;
    for (size_t i = 0; i < tensor->bytes / sizeof *f; ++i) {
      random = random * 1664525u + 1013904223u;
      f[i] = (float)(int32_t)random * 0x1p-31f;
    }
  } else if (tensor->dtype == TERCEL_DTYPE_I8 || tensor->dtype == TERCEL_DTYPE_U8) {
    uint8_t *const bytes = tensor->data;
    for (size_t i = 0; i < tensor->bytes; ++i) {
      random = random * 1664525u + 1013904223u;
      bytes[i] = (uint8_t)(random >> 24);
    }
  }
}

static tercel_status no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory to measure a step");
}

/* Constants stay what they are; what else the shapes say gets memory of its own. */
static tercel_status make_operands(bench *b, tercel_error *err) {
  const tercel_node *const node = b->wanted->step->node;
  const size_t count = (size_t)node->num_inputs + node->num_outputs;
  b->storages = tercel_arena_alloc_array(&b->memory, count, sizeof(tercel_storage *));
  b->tensors = tercel_arena_alloc_array(&b->memory, count, sizeof *b->tensors);
  b->in = tercel_arena_alloc_array(&b->memory, count, sizeof *b->in);
  b->out = tercel_arena_alloc_array(&b->memory, count, sizeof *b->out);
  if (!b->storages || !b->tensors || !b->in || !b->out) return no_memory(err);
  for (size_t i = 0; i < count; ++i) {
    const bool is_input = i < node->num_inputs;
    const tercel_tensor *const shape =
        is_input ? b->wanted->operands->in[i] : b->wanted->operands->out[i - node->num_inputs];
    if (shape == NULL) continue;
    b->tensors[i] = *shape;
    if (shape->data == NULL && shape->bytes > 0) {
      TERCEL_TRY(tercel_storage_create(shape->bytes, &b->storages[i], err));
      b->tensors[i].data = tercel_storage_data(b->storages[i]);
      if (is_input) fill(&b->tensors[i]);
    }
    if (is_input)
      b->in[i] = &b->tensors[i];
    else
      b->out[i - node->num_inputs] = &b->tensors[i];
  }
  return TERCEL_OK;
}

/* ---- contenders ---------------------------------------------------------------------------------------------------- */

/* As a context would: without the data of what is no constant. */
static tercel_status bind(bench *b, contender *c, tercel_error *err) {
  const tercel_node *const node = b->wanted->step->node;
  tercel_kernel_binding binding = {0};
  if (c->run.kernel->bind != NULL)
    TERCEL_TRY(c->run.kernel->bind(c->run.kernel, node, c->run.state, b->wanted->operands->in, b->wanted->operands->out,
                                   b->wanted->target, &b->memory, &binding, err));
  c->run.binding = binding.data;
  TERCEL_TRY(tercel_storage_create(binding.workspace_bytes, &c->workspace, err));
  c->run.workspace = tercel_storage_data(c->workspace);
  return TERCEL_OK;
}

static tercel_status make_contender(bench *b, uint32_t i, tercel_error *err) {
  const tercel_measurement *const wanted = b->wanted;
  const tercel_node *const node = wanted->step->node;
  const tercel_kernel *const kernel = wanted->step->tactics->kernels[i];
  contender *const c = &b->contenders[i];
  if (wanted->packings[i] == NULL && tercel_kernel_has_state(kernel)) {
    TERCEL_TRY(tercel_packing_create(kernel, node, wanted->target, NULL, &wanted->packings[i], err));
    for (uint32_t j = i + 1; j < b->num_contenders; ++j)
      if (wanted->packings[j] == NULL && tercel_kernels_share(kernel, wanted->step->tactics->kernels[j]))
        wanted->packings[j] = tercel_packing_retain(wanted->packings[i]);
  }
  c->run = (tercel_kernel_run){.node = node,
                               .kernel = kernel,
                               .state = wanted->packings[i] != NULL ? wanted->packings[i]->state.data : NULL,
                               .num_inputs = node->num_inputs,
                               .num_outputs = node->num_outputs,
                               .in = b->in,
                               .out = b->out,
                               .target = wanted->target,
                               .pool = wanted->pool,
                               .scratch = &b->memory};
  c->is_in = true;
  c->best_ns = INFINITY;
  return bind(b, c, err);
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

static void sweep_piece(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const bench *const b = arg;
  for (int64_t i = begin; i < end; ++i)
    for (size_t at = 0; at < b->sweep_bytes; at += 64) ++b->sweep[(size_t)i * b->sweep_bytes + at];
}

static void read_inputs(const bench *b) {
  const volatile char *data;
  for (uint32_t i = 0; i < b->wanted->step->node->num_inputs; ++i) {
    if (b->storages[i] == NULL || b->wanted->step->node->inputs[i]->constant != NULL) continue;
    data = b->tensors[i].data;
    for (size_t at = 0; at < b->tensors[i].bytes; at += 64) (void)data[at];
  }
}

static double now_ns(const bench *b) {
  if (tercel_pool_num_threads(b->wanted->pool) > 1) return (double)tercel_time_ns();
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static tercel_status run_once(bench *b, contender *c, double *ns_out, tercel_error *err) {
  tercel_pool_run(b->wanted->pool, tercel_pool_num_threads(b->wanted->pool), 1, sweep_piece, b);
  read_inputs(b);
  const double start = now_ns(b);
  const tercel_status status = c->run.kernel->run(&c->run, err);
  *ns_out = fmax(now_ns(b) - start, 1);
  return status;
}

static double best_of(const bench *b) {
  double best = INFINITY;
  for (uint32_t i = 0; i < b->num_contenders; ++i)
    if (b->contenders[i].is_in) best = fmin(best, b->contenders[i].best_ns);
  return best;
}

static uint32_t drop_losers(bench *b, double factor) {
  const double best = best_of(b);
  uint32_t left = 0;
  for (uint32_t i = 0; i < b->num_contenders; ++i) {
    if (b->contenders[i].is_in && b->contenders[i].best_ns > factor * best) b->contenders[i].is_in = false;
    left += b->contenders[i].is_in;
  }
  return left;
}

static tercel_status compete(bench *b, tercel_error *err) {
  double spent = 0, ns;
  for (uint32_t i = 0; i < b->num_contenders; ++i) /* to touch what is new */
    if (b->contenders[i].is_in) TERCEL_TRY(run_once(b, &b->contenders[i], &ns, err));
  for (int round = 1; round <= MAX_ROUNDS; ++round) {
    for (uint32_t i = 0; i < b->num_contenders; ++i) {
      contender *const c = &b->contenders[i];
      if (!c->is_in) continue;
      TERCEL_TRY(run_once(b, c, &ns, err));
      c->best_ns = fmin(c->best_ns, ns);
      spent += ns;
    }
    const bool long_enough = round > 1 && spent > most_ns;
    if (round < LOSER_ROUNDS && !long_enough) continue;
    const uint32_t left = drop_losers(b, round < MIN_ROUNDS ? early_loser : loser);
    if (long_enough || (round >= MIN_ROUNDS && left < 2)) break;
  }
  return TERCEL_OK;
}

tercel_status tercel_measure_tactics(const tercel_measurement *wanted, double *ns_out, tercel_error *err) {
  bench b = {.wanted = wanted, .num_contenders = wanted->step->tactics->count};
  const int num_threads = tercel_pool_num_threads(wanted->pool);
  const uint32_t num_operands = wanted->step->node->num_inputs + wanted->step->node->num_outputs;
  tercel_status status = TERCEL_OK;
  b.sweep_bytes = 2 * tercel_cpu_cache_bytes(2);
  b.sweep = tercel_alloc_array((size_t)num_threads, b.sweep_bytes);
  b.contenders = tercel_zalloc_array(b.num_contenders, sizeof *b.contenders);
  if (b.sweep == NULL || b.contenders == NULL) TERCEL_CHECK(no_memory(err));
  memset(b.sweep, 0, (size_t)num_threads * b.sweep_bytes);
  TERCEL_CHECK(make_operands(&b, err));
  for (uint32_t i = 0; i < b.num_contenders; ++i)
    if (wanted->is_tried[i]) TERCEL_CHECK(make_contender(&b, i, err));
  TERCEL_CHECK(compete(&b, err));
  for (uint32_t i = 0; i < b.num_contenders; ++i)
    if (wanted->is_tried[i] && isfinite(b.contenders[i].best_ns)) ns_out[i] = b.contenders[i].best_ns;
done:
  for (uint32_t i = 0; b.contenders != NULL && i < b.num_contenders; ++i)
    tercel_storage_release(b.contenders[i].workspace);
  for (uint32_t i = 0; b.storages != NULL && i < num_operands; ++i) tercel_storage_release(b.storages[i]);
  tercel_free(b.contenders);
  tercel_free(b.sweep);
  tercel_arena_deinit(&b.memory);
  return status;
}
