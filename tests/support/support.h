/* What tercel's C tests share: repeatable random numbers, buffers that notice a write past their ends, and the loop that
 * fails every allocation in turn.  Include this first: it brings cmocka with the headers that cmocka wants. */
#ifndef TERCEL_TESTS_SUPPORT_H
#define TERCEL_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"

/* ---- random ---- */

/* The seed of this process: TERCEL_TEST_SEED in the environment (decimal or 0x hex), else one drawn from the clock.  Printed to
 * stderr at its first use, so that a failure can be repeated. */
uint64_t tercel_test_seed(void);

/* A stream of its own for each `stream`, from the process's seed: one case's numbers do not depend on which ran before. */
typedef struct tercel_test_random {
  uint64_t state;
} tercel_test_random;

tercel_test_random tercel_test_random_start(uint64_t stream);
uint64_t tercel_test_random_u64(tercel_test_random *random);
/* Uniform in [low, high]. */
int64_t tercel_test_random_int(tercel_test_random *random, int64_t low, int64_t high);
/* Uniform in [low, high). */
float tercel_test_random_f32(tercel_test_random *random, float low, float high);
void tercel_test_random_fill_f32(tercel_test_random *random, float *data, size_t count, float low, float high);

/* ---- guarded buffers ---- */

/* `bytes` of memory at data, filled with 0xA5, with guard bytes before and after.  data is 64-byte aligned plus `offset`. */
typedef struct tercel_test_buffer {
  uint8_t *data;
  size_t bytes;
  uint8_t *block;
  size_t block_bytes;
} tercel_test_buffer;

tercel_test_buffer tercel_test_buffer_create(size_t bytes, size_t offset);
/* Fails the test when a guard byte was written. */
void tercel_test_buffer_check(const tercel_test_buffer *buffer);
/* Checks, then frees. */
void tercel_test_buffer_destroy(tercel_test_buffer *buffer);

/* ---- statuses ---- */

/* Fails the test with the message of err when status is not OK. */
#define assert_ok(status, err) tercel_test_assert_ok((status), (err), __FILE__, __LINE__)
/* Fails the test unless status is `want` and the message holds `part` (NULL: anything). */
#define assert_fails(status, want, err, part)                                                                          \
  tercel_test_assert_fails((status), (want), (err), (part), __FILE__, __LINE__)

void tercel_test_assert_ok(tercel_status status, const tercel_error *err, const char *file, int line);
void tercel_test_assert_fails(tercel_status status, tercel_status want, const tercel_error *err, const char *part,
                              const char *file, int line);

/* ---- skips and files ---- */

/* Ends the running test as skipped; tools/run-tests reports the reason. */
void tercel_test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The path of a network or picture of tests/models/models.tsv (its column `file`) in the cache that tools/fetch fills.  Skips the
 * running test when it isn't there, which counts as a failure under CI.  Valid until the next call. */
const char *tercel_test_model(const char *file);

/* ---- allocation failure ---- */

/* What is tried: does the whole thing and frees what it made, whether it worked or not. */
typedef tercel_status (*tercel_test_oom_fn)(void *arg, tercel_error *err);

/* Calls fn again and again, failing its first allocation, then its second, ..., until it gets through.  Each failed call
 * must return OUT_OF_MEMORY with a message, and every call must leave as many bytes allocated as it found.  Returns how many
 * allocations fn makes.  max_calls bounds the loop (0: no bound): beyond it failures are spread evenly, so that a long load
 * is still tried at its beginning, middle and end. */
size_t tercel_test_oom(tercel_test_oom_fn fn, void *arg, size_t max_calls);

/* Runs fn once and returns how many allocations it makes: 0 is what a steady run must show. */
size_t tercel_test_count_allocations(tercel_test_oom_fn fn, void *arg);

#endif
