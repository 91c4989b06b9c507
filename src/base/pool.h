/* The thread pool: workers that run pieces of one job, spin briefly, then sleep.
 *
 * A pool of n threads has n - 1 workers; the caller is the n-th.  Several threads may call tercel_pool_run on one pool at
 * once: each job is shared among the caller and the workers that are free, so two contexts do not wait for each other.
 * A job run from inside a job runs alone on its thread (no deadlock).  Workers start lazily, at the first job that needs them,
 * and survive until the pool is destroyed.  After a fork the child's pool runs everything on the caller. */
#ifndef TERCEL_BASE_POOL_H
#define TERCEL_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tercel_pool tercel_pool;

/* num_threads 0: as many as tercel_cpu_count says.  The pool is shared: one reference. */
tercel_status tercel_pool_create(int num_threads, tercel_pool **out, tercel_error *err);
tercel_pool *tercel_pool_retain(tercel_pool *pool);
void tercel_pool_release(tercel_pool *pool);          /* NULL is fine; joins the workers at the last reference */
int tercel_pool_num_threads(const tercel_pool *pool); /* NULL: 1 */

/* Runs fn(arg, begin, end, thread) over [0, count) in pieces of at least `grain` items; returns when all are done.
 * thread: 0 .. num_threads - 1, no two at once the same: use it to pick per-thread scratch.  Pieces are handed out
 * dynamically, in order; which thread runs a piece is not fixed, so results must not depend on it.
 * Everything runs on the caller when the pool is NULL, has one thread, or count <= grain.  Allocates nothing. */
typedef void (*tercel_pool_fn)(void *arg, int64_t begin, int64_t end, int thread);
void tercel_pool_run(tercel_pool *pool, int64_t count, int64_t grain, tercel_pool_fn fn, void *arg);

#endif
