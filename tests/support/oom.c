/* The allocation-failure loop over base/alloc.h's hook. */
#include <stdatomic.h>

#include "base/alloc.h"
#include "support/support.h"

typedef struct counter {
  atomic_size_t count; /* allocations so far; any thread */
  size_t fail_at;      /* the one that fails, from 1; 0: none */
} counter;

static bool count_allocation(size_t bytes, void *user) {
  (void)bytes;
  counter *c = user;
  return atomic_fetch_add(&c->count, 1) + 1 != c->fail_at;
}

/* One call of fn; checks that it leaves nothing behind. */
static tercel_status call(tercel_test_oom_fn fn, void *arg, size_t fail_at, size_t *count_out, tercel_error *err) {
  const size_t before = tercel_alloc_live_bytes();
  counter c = {.fail_at = fail_at};
  tercel_alloc_set_hook(count_allocation, &c);
  const tercel_status status = fn(arg, err);
  tercel_alloc_set_hook(NULL, NULL);
  *count_out = atomic_load(&c.count);
  const size_t after = tercel_alloc_live_bytes();
  if (after != before)
    fail_msg("allocation %zu failed: %zu bytes are still allocated, %zu were before", fail_at, after, before);
  return status;
}

size_t tercel_test_count_allocations(tercel_test_oom_fn fn, void *arg) {
  size_t count = 0;
  tercel_error err = {0};
  assert_ok(call(fn, arg, 0, &count, &err), &err);
  return count;
}

size_t tercel_test_oom(tercel_test_oom_fn fn, void *arg, size_t max_calls) {
  const size_t total = tercel_test_count_allocations(fn, arg);
  const size_t step = max_calls && total > max_calls ? total / max_calls : 1;
  for (size_t n = 1; n <= total; n += step) {
    size_t count = 0;
    tercel_error err = {0};
    const tercel_status status = call(fn, arg, n, &count, &err);
    /* Threads and caches may make a call need fewer allocations than the first: then nothing failed. */
    if (status == TERCEL_OK && count < n) return total;
    if (status != TERCEL_OUT_OF_MEMORY || !err.message[0])
      fail_msg("allocation %zu of %zu failed: status %d (%s), want out of memory", n, total, (int)status, err.message);
  }
  return total;
}
