/* What this machine is, and what it can do at most. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/peak.h"
#include "runtime/runtime.h"

enum { MAX_LEVELS_TEXT = 128 };

static char levels_text[MAX_LEVELS_TEXT];
static pthread_once_t levels_once = PTHREAD_ONCE_INIT;

static void list_levels(void) {
  size_t at = 0;
  for (int level = 0; level < TERCEL_CPU_LEVEL_COUNT; ++level) {
    if (!tercel_cpu_has((tercel_cpu_level)level)) continue;
    const char *const name = tercel_cpu_level_name((tercel_cpu_level)level);
    const size_t length = strlen(name);
    if (at + length + 2 > sizeof levels_text) return;
    if (at > 0) levels_text[at++] = ' ';
    memcpy(levels_text + at, name, length + 1);
    at += length;
  }
}

tercel_status tercel_machine_get_info(tercel_machine_info *info, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_machine_info", err));
  pthread_once(&levels_once, list_levels);
  *info = (tercel_machine_info){.size = info->size,
                                .cpu = tercel_cpu_name(),
                                .level = tercel_cpu_level_name(tercel_cpu_current()),
                                .levels = levels_text,
                                .num_cpus = tercel_cpu_count()};
  return TERCEL_OK;
}

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

enum {
  ROUNDS = 1 << 20,               /* of multiply-adds a thread, about 10 ms */
  COPY_BYTES = 64 << 20,          /* a thread reads and writes half each: far more than caches hold */
  MEASURE_NS = 100 * 1000 * 1000, /* for each of the two */
  MAX_REPEATS = 64
};

typedef struct measure_job {
  const tercel_peak_kernels *kernels;
  _Atomic(double) flops;
  char *memory; /* COPY_BYTES a thread */
} measure_job;

static void add_flops(measure_job *job, double flops) {
  double old = atomic_load_explicit(&job->flops, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&job->flops, &old, old + flops, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}

static void multiply_add(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  measure_job *const job = arg;
  float sink = 0;
  for (int64_t i = begin; i < end; ++i) add_flops(job, job->kernels->fma(ROUNDS, &sink));
  if (sink != sink) add_flops(job, 0); /* so that the work is not optimized away */
}

static void copy(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  measure_job *const job = arg;
  for (int64_t i = begin; i < end; ++i) {
    char *const from = job->memory + (size_t)i * COPY_BYTES;
    memcpy(from + COPY_BYTES / 2, from, COPY_BYTES / 2);
  }
}

/* The best of the repeats that fit into the time: other load only ever makes it slower. */
static double best_rate(tercel_pool *pool, int threads, tercel_pool_fn fn, measure_job *job, double bytes) {
  double best = 0;
  const int64_t start = tercel_time_ns();
  for (int repeat = 0; repeat < MAX_REPEATS && tercel_time_ns() - start < MEASURE_NS; ++repeat) {
    atomic_store_explicit(&job->flops, 0, memory_order_relaxed);
    const int64_t before = tercel_time_ns();
    tercel_pool_run(pool, threads, 1, fn, job);
    const double elapsed = (double)(tercel_time_ns() - before);
    const double work = bytes > 0 ? bytes : atomic_load_explicit(&job->flops, memory_order_relaxed);
    if (elapsed > 0 && work / elapsed > best) best = work / elapsed; /* a unit a nanosecond is a giga-unit a second */
  }
  return best;
}

tercel_status tercel_machine_measure(int num_threads, double *gflops, double *gbytes_per_second, tercel_error *err) {
  if (num_threads < 0) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d threads", num_threads);
  tercel_pool *pool = NULL;
  tercel_status status = TERCEL_OK;
  measure_job job = {.kernels = TERCEL_CPU_PICK(tercel_peak_kernels)};
  TERCEL_CHECK(tercel_pool_create(num_threads, &pool, err));
  const int threads = tercel_pool_num_threads(pool);
  job.memory = tercel_alloc_array((size_t)threads, COPY_BYTES);
  if (job.memory == NULL) TERCEL_CHECK(tercel_fail_memory(err, (size_t)threads * COPY_BYTES, "measuring memory"));
  memset(job.memory, 1, (size_t)threads * COPY_BYTES);
  *gflops = best_rate(pool, threads, multiply_add, &job, 0);
  *gbytes_per_second = best_rate(pool, threads, copy, &job, (double)threads * COPY_BYTES);
done:
  tercel_free(job.memory);
  tercel_pool_release(pool);
  return status;
}
