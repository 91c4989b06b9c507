/* The thread pool.
 *
 * A job lies in one of the pool's slots while it runs.  Its `state` word says everything that more than one thread decides
 * on: whether the slot is taken, whether pieces are left (OPEN), how many workers may join and how many have.  A worker joins
 * by a compare-and-swap that needs OPEN and a free seat, so that it never sees a slot that is being filled or emptied.
 * Whoever finds no piece left clears OPEN.  The caller returns once nobody is joined: from then on no worker touches the job.
 *
 * Sleeping.  A worker reads `epoch`, looks through the slots, and waits for `epoch` to move: first spinning, then on a condition
 * variable, having counted itself in `num_sleeping`.  A caller publishes its job, moves `epoch`, then looks at
 * `num_sleeping`.  Both orders are sequentially consistent, so one of the two always sees the other.
 *
 * Spinning pays off between the regions of one run, microseconds apart, and wastes a CPU otherwise: each worker spins
 * longer after a spin that met a job and shorter after one that didn't.  Where more threads than CPUs would run, nobody
 * spins. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/time.h"

enum {
  NUM_SLOTS = 16, /* jobs at once; a caller that finds no slot runs its job alone */
  MAX_THREADS = 1024,
  PIECES_PER_THREAD = 16,  /* no piece is smaller than this share of a job, */
  LARGEST_PIECE_SHARE = 2, /* nor larger than this share of a thread's part of what is left */
  SPIN_SHORTEST_NS = 5000, /* of a worker: bounds of the time that it adapts */
  SPIN_LONGEST_NS = 100000,
  SPIN_AT_END_NS = 50000, /* of a caller that waits for the last pieces */
  SPINS_PER_LOOK = 32     /* between two looks at the clock */
};

/* The state word of a slot; 0: free. */
enum {
  TAKEN = 1 << 30,   /* a caller owns the slot */
  OPEN = 1 << 29,    /* the job is published and pieces may be left */
  WAITING = 1 << 28, /* the caller sleeps until the last worker leaves */
  SEAT = 1 << 12,    /* one of the bits 12 .. 22: seats left */
  SEATS = (1 << 23) - SEAT,
  JOINED = (1 << 12) - 1 /* bits 0 .. 11: workers now at it */
};

typedef struct slot {
  alignas(TERCEL_ALIGNMENT) atomic_uint state;
  /* written by the owner before OPEN, read by those who joined */
  tercel_pool_fn fn;
  void *arg;
  int64_t count, grain, smallest_piece;
  alignas(TERCEL_ALIGNMENT) _Atomic int64_t next; /* first item not handed out */
} slot;

typedef struct worker {
  pthread_t thread;
  struct tercel_pool *pool;
  int index; /* its thread number in jobs; the caller's is 0 */
} worker;

struct tercel_pool {
  slot slots[NUM_SLOTS];
  alignas(TERCEL_ALIGNMENT) atomic_uint epoch;
  atomic_int num_sleeping;
  alignas(TERCEL_ALIGNMENT) atomic_bool stop;
  atomic_bool started;
  atomic_int num_references;
  bool spins;
  unsigned generation; /* of the process: see forks_seen */
  int num_threads;
  pthread_mutex_t mutex; /* guards num_started, and the two conditions */
  pthread_cond_t work, done;
  int num_started;  /* workers that run */
  worker workers[]; /* num_threads - 1 */
};

/* What the thread is doing: a job inside a job runs alone, under the same thread number. */
static _Thread_local struct {
  const tercel_pool *pool;
  int index;
} inside;

/* How many forks this process is away from the first; a pool of another generation has lost its workers. */
static atomic_uint forks_seen;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add_explicit(&forks_seen, 1, memory_order_relaxed); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); /* `yield` does nothing on most cores */
#endif
}

/* ---- pieces ---- */

/* Takes the next piece: large ones first, smaller towards the end, so that few are handed out and all threads end together. */
static bool take_piece(slot *job, int num_threads, int64_t *begin, int64_t *end) {
  int64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);
  int64_t size;
  do {
    const int64_t left = job->count - next;
    if (left <= 0) return false;
    size = tercel_max_i64(left / (LARGEST_PIECE_SHARE * num_threads), job->smallest_piece);
    if (left - size < job->grain) size = left; /* no piece is below the grain */
  } while (!atomic_compare_exchange_weak_explicit(&job->next, &next, next + size, memory_order_relaxed,
                                                  memory_order_relaxed));
  *begin = next;
  *end = next + size;
  return true;
}

static void run_pieces(tercel_pool *pool, slot *job, int thread) {
  int64_t begin, end;
  inside.pool = pool;
  inside.index = thread;
  while (take_piece(job, pool->num_threads, &begin, &end)) job->fn(job->arg, begin, end, thread);
  inside.pool = NULL;
  atomic_fetch_and_explicit(&job->state, ~(unsigned)OPEN, memory_order_relaxed);
}

/* ---- workers ---- */

static bool join(slot *job) {
  unsigned state = atomic_load_explicit(&job->state, memory_order_relaxed);
  do {
    if (!(state & OPEN) || !(state & SEATS)) return false;
  } while (!atomic_compare_exchange_weak_explicit(&job->state, &state, state - SEAT + 1, memory_order_acquire,
                                                  memory_order_relaxed));
  return true;
}

/* After the subtraction the slot may hold another job already; the pool lives until its workers are joined. */
static void leave(tercel_pool *pool, slot *job) {
  const unsigned before = atomic_fetch_sub_explicit(&job->state, 1, memory_order_acq_rel);
  if ((before & JOINED) != 1 || !(before & WAITING)) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_mutex_unlock(&pool->mutex); /* the caller is before its look at the state, or asleep */
  pthread_cond_broadcast(&pool->done);
}

/* Workers start their search at different slots, so that jobs get their share. */
static bool help(tercel_pool *pool, int index) {
  bool helped = false;
  for (int i = 0; i < NUM_SLOTS; i++) {
    slot *const job = &pool->slots[(i + index) % NUM_SLOTS];
    if (!join(job)) continue;
    run_pieces(pool, job, index);
    leave(pool, job);
    helped = true;
  }
  return helped;
}

/* Spins while `epoch` is `seen`, for so many nanoseconds at most; true when it moved. */
static bool spin_for_work(const tercel_pool *pool, unsigned seen, int64_t nanoseconds) {
  const int64_t until = tercel_time_ns() + nanoseconds;
  do {
    for (int i = 0; i < SPINS_PER_LOOK; i++) {
      if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen) return true;
      relax();
    }
  } while (tercel_time_ns() < until);
  return false;
}

static void sleep_for_work(tercel_pool *pool, unsigned seen) {
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add_explicit(&pool->num_sleeping, 1, memory_order_seq_cst);
  while (atomic_load_explicit(&pool->epoch, memory_order_seq_cst) == seen) pthread_cond_wait(&pool->work, &pool->mutex);
  atomic_fetch_sub_explicit(&pool->num_sleeping, 1, memory_order_relaxed);
  pthread_mutex_unlock(&pool->mutex);
}

static void *work(void *arg) {
  worker *const self = arg;
  tercel_pool *const pool = self->pool;
  int64_t spin_ns = SPIN_LONGEST_NS / 2;
  for (;;) {
    const unsigned seen = atomic_load_explicit(&pool->epoch, memory_order_acquire);
    if (atomic_load_explicit(&pool->stop, memory_order_acquire)) return NULL;
    if (help(pool, self->index)) continue;
    if (pool->spins && spin_for_work(pool, seen, spin_ns)) {
      spin_ns = tercel_min_i64(2 * spin_ns, SPIN_LONGEST_NS);
      continue;
    }
    spin_ns = tercel_max_i64(spin_ns / 2, SPIN_SHORTEST_NS);
    sleep_for_work(pool, seen);
  }
}

static void start_worker(tercel_pool *pool) {
  worker *const self = &pool->workers[pool->num_started];
  *self = (worker){.pool = pool, .index = pool->num_started + 1};
  const int error = pthread_create(&self->thread, NULL, work, self);
  if (error) {
    tercel_log(TERCEL_LOG_WARNING, "thread pool: can't start thread %d of %d (%s); going on with fewer",
               self->index + 1, pool->num_threads, strerror(error));
    return;
  }
  char name[16];
  snprintf(name, sizeof name, "tercel-%d", self->index);
  pthread_setname_np(self->thread, name);
  pool->num_started++;
}

/* Signals stay with the threads of the program: the workers are born with all of them blocked. */
static void start_workers(tercel_pool *pool) {
  if (atomic_load_explicit(&pool->started, memory_order_acquire)) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_mutex_lock(&pool->mutex);
  if (!atomic_load_explicit(&pool->started, memory_order_relaxed)) {
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < pool->num_threads; i++) start_worker(pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store_explicit(&pool->started, true, memory_order_release);
  }
  pthread_mutex_unlock(&pool->mutex);
}

/* ---- callers ---- */

static slot *take_slot(tercel_pool *pool) {
  for (int i = 0; i < NUM_SLOTS; i++) {
    unsigned free_state = 0;
    slot *const job = &pool->slots[i];
    if (atomic_load_explicit(&job->state, memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong_explicit(&job->state, &free_state, TAKEN, memory_order_acquire,
                                                memory_order_relaxed))
      return job;
  }
  return NULL;
}

/* Moves the epoch, and wakes as many sleepers as can be of use. */
static void wake(tercel_pool *pool, int64_t num_wanted) {
  atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_seq_cst);
  const int num_sleeping = atomic_load_explicit(&pool->num_sleeping, memory_order_seq_cst);
  if (num_sleeping == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_mutex_unlock(&pool->mutex); /* each sleeper is before its look at the epoch, or asleep */
  if (num_wanted >= num_sleeping) {
    pthread_cond_broadcast(&pool->work);
    return;
  }
  for (int64_t i = 0; i < num_wanted; i++) pthread_cond_signal(&pool->work);
}

static bool is_left(slot *job) { return (atomic_load_explicit(&job->state, memory_order_acquire) & JOINED) == 0; }

static void wait_until_left(tercel_pool *pool, slot *job) {
  if (is_left(job)) return;
  if (pool->spins) {
    const int64_t until = tercel_time_ns() + SPIN_AT_END_NS;
    do {
      for (int i = 0; i < SPINS_PER_LOOK; i++) {
        if (is_left(job)) return;
        relax();
      }
    } while (tercel_time_ns() < until);
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_or_explicit(&job->state, WAITING, memory_order_acq_rel);
  while (!is_left(job)) pthread_cond_wait(&pool->done, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}

void tercel_pool_run(tercel_pool *pool, int64_t count, int64_t grain, tercel_pool_fn fn, void *arg) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  const bool alone = !pool || pool->num_threads == 1 || count <= grain || inside.pool ||
                     pool->generation != atomic_load_explicit(&forks_seen, memory_order_relaxed);
  slot *const job = alone ? NULL : take_slot(pool);
  if (!job) {
    fn(arg, 0, count, inside.pool && inside.pool == pool ? inside.index : 0);
    return;
  }
  start_workers(pool);
  const int64_t num_helpers = tercel_min_i64(count / grain, pool->num_threads) - 1;
  job->fn = fn;
  job->arg = arg;
  job->count = count;
  job->grain = grain;
  job->smallest_piece = tercel_max_i64(grain, count / (PIECES_PER_THREAD * (int64_t)pool->num_threads));
  atomic_store_explicit(&job->next, 0, memory_order_relaxed);
  if (num_helpers > 0) {
    atomic_store_explicit(&job->state, TAKEN | OPEN | (unsigned)num_helpers * SEAT, memory_order_release);
    wake(pool, num_helpers);
  }
  run_pieces(pool, job, 0);
  wait_until_left(pool, job);
  atomic_store_explicit(&job->state, 0, memory_order_release);
}

/* ---- life ---- */

tercel_status tercel_pool_create(int num_threads, tercel_pool **out, tercel_error *err) {
  *out = NULL;
  const int num_cpus = tercel_cpu_count();
  if (num_threads == 0) num_threads = num_cpus < MAX_THREADS ? num_cpus : MAX_THREADS;
  if (num_threads < 1 || num_threads > MAX_THREADS)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "number of threads %d, want 1 to %d, or 0 for all CPUs",
                       num_threads, MAX_THREADS);
  const size_t bytes = sizeof(tercel_pool) + (size_t)(num_threads - 1) * sizeof(worker);
  tercel_pool *const pool = tercel_zalloc(bytes);
  if (!pool) return tercel_fail_memory(err, bytes, "a thread pool");
  pthread_once(&fork_once, watch_forks);
  pool->num_threads = num_threads;
  pool->spins = num_threads <= num_cpus && num_cpus > 1;
  pool->generation = atomic_load_explicit(&forks_seen, memory_order_relaxed);
  atomic_init(&pool->num_references, 1);
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, NULL);
  *out = pool;
  return TERCEL_OK;
}

tercel_pool *tercel_pool_retain(tercel_pool *pool) {
  if (pool) atomic_fetch_add_explicit(&pool->num_references, 1, memory_order_relaxed);
  return pool;
}

static void join_workers(tercel_pool *pool) {
  atomic_store_explicit(&pool->stop, true, memory_order_release);
  wake(pool, pool->num_threads);
  for (int i = 0; i < pool->num_started; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->mutex);
}

void tercel_pool_release(tercel_pool *pool) {
  if (!pool || atomic_fetch_sub_explicit(&pool->num_references, 1, memory_order_acq_rel) != 1) return;
  /* in a forked child there is nobody to join, and the mutex may be in any state */
  if (pool->generation == atomic_load_explicit(&forks_seen, memory_order_relaxed)) join_workers(pool);
  tercel_free(pool);
}

int tercel_pool_num_threads(const tercel_pool *pool) { return pool ? pool->num_threads : 1; }
