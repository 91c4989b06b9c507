/* base/pool.h: every item runs once, thread numbers are not shared, callers don't wait for each other, nothing burns while idle.
 * run-tests: threads alone */
#define _GNU_SOURCE /* sched_setaffinity */
#include "support/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

enum { MAX_ITEMS = 3000, MAX_THREADS = 16 };

typedef struct job {
  unsigned char hits[MAX_ITEMS]; /* written by whoever runs the item: TSan sees it when two do */
  atomic_int running[MAX_THREADS];
  int num_threads;
  int64_t count, grain;
  atomic_int wrong; /* assertions of cmocka must not fail in a worker */
} job;

static void hit(void *arg, int64_t begin, int64_t end, int thread) {
  job *const j = arg;
  if (thread < 0 || thread >= j->num_threads || atomic_fetch_add(&j->running[thread], 1) != 0) j->wrong++;
  if (begin < 0 || begin >= end || end > j->count || (end - begin < j->grain && end - begin < j->count)) j->wrong++;
  for (int64_t i = begin; i < end; i++) j->hits[i]++;
  atomic_fetch_sub(&j->running[thread], 1);
}

static void run_and_check(tercel_pool *pool, job *j, int64_t count, int64_t grain) {
  memset(j, 0, sizeof *j);
  j->num_threads = tercel_pool_num_threads(pool);
  j->count = count;
  j->grain = grain;
  tercel_pool_run(pool, count, grain, hit, j);
  for (int64_t i = 0; i < MAX_ITEMS; i++) assert_int_equal(j->hits[i], i < count);
  assert_int_equal(j->wrong, 0);
}

static tercel_pool *make(int num_threads) {
  tercel_error err = {0};
  tercel_pool *pool = NULL;
  assert_ok(tercel_pool_create(num_threads, &pool, &err), &err);
  return pool;
}

static void test_every_item_once(void **state) {
  (void)state;
  static job j;
  const int64_t counts[] = {0, 1, 2, 3, 7, 16, 17, 100, 1023, MAX_ITEMS}, grains[] = {0, 1, 2, 5, 64, 1000000};
  for (int threads = 1; threads <= 9; threads++) {
    tercel_pool *const pool = make(threads);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
      for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) run_and_check(pool, &j, counts[c], grains[g]);
    tercel_pool_release(pool);
  }
  run_and_check(NULL, &j, 100, 1);
  tercel_pool_run(NULL, -5, 1, hit, &j);
}

static void test_create(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_pool *pool = make(0);
  assert_int_equal(tercel_pool_num_threads(pool), tercel_cpu_count());
  assert_ptr_equal(tercel_pool_retain(pool), pool);
  tercel_pool_release(pool);
  tercel_pool_release(pool);
  tercel_pool_release(NULL);
  assert_null(tercel_pool_retain(NULL));
  assert_fails(tercel_pool_create(-1, &pool, &err), TERCEL_INVALID_ARGUMENT, &err, "-1");
  assert_fails(tercel_pool_create(100000, &pool, &err), TERCEL_INVALID_ARGUMENT, &err, "100000");
  assert_null(pool);
}

/* Many short jobs, so that workers meet every stage of a job's life, asleep and awake. */
static void test_many_jobs(void **state) {
  (void)state;
  static job j;
  tercel_pool *const pool = make(4);
  for (int i = 0; i < 3000; i++) {
    run_and_check(pool, &j, 1 + i % 40, 1 + i % 3);
    if (i % 100 == 0) nanosleep(&(struct timespec){0, 300000}, NULL);
  }
  tercel_pool_release(pool);
}

/* ---- several callers ---- */

typedef struct caller {
  tercel_pool *pool;
  int number;
  atomic_int *wrong;
} caller;

static void add_up(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  _Atomic int64_t *const sum = arg;
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(sum, i);
}

static void *call_often(void *arg) {
  const caller *const c = arg;
  for (int i = 0; i < 800; i++) {
    _Atomic int64_t sum = 0;
    const int64_t count = 1 + (i * 7 + c->number) % 50;
    tercel_pool_run(c->pool, count, 1, add_up, &sum);
    if (sum != count * (count - 1) / 2) (*c->wrong)++;
  }
  return NULL;
}

/* More callers than the pool has slots or threads. */
static void test_concurrent_callers(void **state) {
  (void)state;
  enum { CALLERS = 24 };
  tercel_pool *const pool = make(3);
  atomic_int wrong = 0;
  pthread_t threads[CALLERS];
  caller callers[CALLERS];
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){pool, i, &wrong};
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(wrong, 0);
  tercel_pool_release(pool);
}

typedef struct gate {
  tercel_pool *pool;
  atomic_int inside, open;
} gate;

static void wait_at_gate(void *arg, int64_t begin, int64_t end, int thread) {
  gate *const g = arg;
  (void)begin, (void)end, (void)thread;
  atomic_fetch_add(&g->inside, 1);
  while (!atomic_load(&g->open)) nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void *call_gate(void *arg) {
  gate *const g = arg;
  tercel_pool_run(g->pool, 2, 1, wait_at_gate, g);
  return NULL;
}

/* A job that hangs holds neither the pool nor another caller. */
static void test_callers_do_not_wait_for_each_other(void **state) {
  (void)state;
  static job j;
  gate g = {.pool = make(2)};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, call_gate, &g), 0);
  while (atomic_load(&g.inside) < 2) nanosleep(&(struct timespec){0, 100000}, NULL);
  for (int i = 0; i < 100; i++) run_and_check(g.pool, &j, 100, 1);
  atomic_store(&g.open, 1);
  pthread_join(thread, NULL);
  tercel_pool_release(g.pool);
}

/* ---- jobs inside jobs ---- */

typedef struct nest {
  tercel_pool *outer, *other;
  atomic_int wrong;
  _Atomic int64_t sum;
} nest;

typedef struct inner {
  nest *all;
  int thread; /* that the outer job runs on; -1: any */
  pthread_t self;
} inner;

static void run_inner(void *arg, int64_t begin, int64_t end, int thread) {
  const inner *const in = arg;
  if (begin != 0 || end != 10 || !pthread_equal(in->self, pthread_self())) in->all->wrong++;
  if (in->thread >= 0 && in->thread != thread) in->all->wrong++;
  atomic_fetch_add(&in->all->sum, end - begin);
}

static void run_outer(void *arg, int64_t begin, int64_t end, int thread) {
  nest *const n = arg;
  for (int64_t i = begin; i < end; i++) {
    inner same = {n, thread, pthread_self()}, other = {n, 0, pthread_self()};
    tercel_pool_run(n->outer, 10, 1, run_inner, &same);
    tercel_pool_run(n->other, 10, 1, run_inner, &other);
  }
}

static void test_nested_jobs_run_inline(void **state) {
  (void)state;
  nest n = {.outer = make(4), .other = make(2)};
  for (int i = 0; i < 100; i++) tercel_pool_run(n.outer, 50, 1, run_outer, &n);
  assert_int_equal(n.wrong, 0);
  assert_int_equal(n.sum, 100 * 50 * 20);
  tercel_pool_release(n.outer);
  tercel_pool_release(n.other);
}

/* ---- life ---- */

static void test_create_and_destroy(void **state) {
  (void)state;
  static job j;
  for (int i = 0; i < 200; i++) {
    tercel_pool *const pool = make(1 + i % 4);
    if (i % 3) run_and_check(pool, &j, 20, 1);
    tercel_pool_release(pool);
  }
}

static void *use_and_release(void *arg) {
  tercel_pool *const pool = arg;
  _Atomic int64_t sum = 0;
  for (int i = 0; i < 20; i++) tercel_pool_run(pool, 8, 1, add_up, &sum);
  tercel_pool_release(pool);
  return sum == 20 * 28 ? NULL : arg;
}

/* The last reference may be any thread's. */
static void test_release_races(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    tercel_pool *const pool = make(3);
    pthread_t threads[3];
    for (int k = 0; k < 3; k++)
      assert_int_equal(pthread_create(&threads[k], NULL, use_and_release, tercel_pool_retain(pool)), 0);
    tercel_pool_release(pool);
    for (int k = 0; k < 3; k++) {
      void *wrong = NULL;
      pthread_join(threads[k], &wrong);
      assert_null(wrong);
    }
  }
}

static double cpu_seconds(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void test_idle_pool_sleeps(void **state) {
  (void)state;
  static job j;
  tercel_pool *const pool = make(4);
  for (int i = 0; i < 50; i++) run_and_check(pool, &j, 100, 1);
  nanosleep(&(struct timespec){0, 20000000}, NULL);
  const double before = cpu_seconds();
  nanosleep(&(struct timespec){0, 300000000}, NULL);
  const double used = cpu_seconds() - before;
  if (used > 0.015) fail_msg("an idle pool used %.3f s of CPU time in 0.3 s", used);
  run_and_check(pool, &j, 100, 1);
  tercel_pool_release(pool);
}

static tercel_pool *steady_pool;

static tercel_status run_steady(void *arg, tercel_error *err) {
  (void)err;
  _Atomic int64_t sum = 0;
  (void)arg;
  tercel_pool_run(steady_pool, 100, 1, add_up, &sum);
  return TERCEL_OK;
}

static void test_run_allocates_nothing(void **state) {
  (void)state;
  steady_pool = make(2);
  assert_int_equal(tercel_test_count_allocations(run_steady, NULL), 0);
  tercel_pool_release(steady_pool);
}

static void test_fork(void **state) {
  (void)state;
  tercel_pool *const pool = make(3);
  _Atomic int64_t sum = 0;
  tercel_pool_run(pool, 100, 1, add_up, &sum);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(20); /* a hang is a failure */
    sum = 0;
    tercel_pool_run(pool, 100, 1, add_up, &sum);
    tercel_pool_release(pool);
    _exit(sum == 4950 ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  sum = 0;
  tercel_pool_run(pool, 100, 1, add_up, &sum);
  assert_int_equal(sum, 4950);
  tercel_pool_release(pool);
}

/* On one allowed CPU, with two threads, a region must not cost a time slice: nobody spins. */
static void test_one_cpu(void **state) {
  (void)state;
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  tercel_pool *const pool = make(2);
  _Atomic int64_t sum = 0;
  const int64_t start = tercel_time_ns();
  for (int i = 0; i < 500; i++) tercel_pool_run(pool, 8, 1, add_up, &sum);
  const double us = (double)(tercel_time_ns() - start) / 500e3;
  sched_setaffinity(0, sizeof before, &before);
  assert_int_equal(sum, 500 * 28);
  if (us > 2000) fail_msg("a region takes %.0f us on one CPU", us);
  tercel_pool_release(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fork), /* first: TSan follows a fork only from a program that has few threads */
      cmocka_unit_test(test_every_item_once),
      cmocka_unit_test(test_create),
      cmocka_unit_test(test_many_jobs),
      cmocka_unit_test(test_concurrent_callers),
      cmocka_unit_test(test_callers_do_not_wait_for_each_other),
      cmocka_unit_test(test_nested_jobs_run_inline),
      cmocka_unit_test(test_create_and_destroy),
      cmocka_unit_test(test_release_races),
      cmocka_unit_test(test_idle_pool_sleeps),
      cmocka_unit_test(test_run_allocates_nothing),
      cmocka_unit_test(test_one_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
