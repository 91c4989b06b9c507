/* The timing cache: how long tactics took, measured on some machine.  A text of one line a measurement, in four columns that tabs part:
 *
 *     machine  step  tactic  microseconds
 *     AMD EPYC, avx512, 2 threads   conv f32[1,64,56,56] f32[64,64,3,3]* -> f32[1,64,56,56] pads=[1,1,1,1]   conv.winograd   812.5
 *
 * Lines that begin with # and empty ones say nothing.  Order says nothing either, except that of two lines alike but for the time the last
 * counts: so texts are merged by putting one after the other.  What is written is sorted. */
#ifndef TERCEL_PLAN_TIMING_CACHE_H
#define TERCEL_PLAN_TIMING_CACHE_H

#include "base/base.h"

/* May be used by several threads at once. */
typedef struct tercel_timing_cache tercel_timing_cache;

tercel_status tercel_timing_cache_create(tercel_timing_cache **out, tercel_error *err);
void tercel_timing_cache_destroy(tercel_timing_cache *cache); /* NULL is fine */

/* Adds what the text says.  name: of the text, for messages.  INVALID_ARGUMENT names the first line that is wrong; nothing of the text counts
 * then. */
tercel_status tercel_timing_cache_read(tercel_timing_cache *cache, const char *text, size_t length, const char *name,
                                       tercel_error *err);
tercel_status tercel_timing_cache_print(const tercel_timing_cache *cache, tercel_text *out, tercel_error *err);
/* The same from and to files.  missing_ok: a file that does not exist is an empty one. */
tercel_status tercel_timing_cache_load(tercel_timing_cache *cache, const char *path, bool missing_ok,
                                       tercel_error *err);
tercel_status tercel_timing_cache_save(const tercel_timing_cache *cache, const char *path, tercel_error *err);

/* Times are whole nanoseconds, so that what is written and read again is the same. */
tercel_status tercel_timing_cache_set(tercel_timing_cache *cache, const char *machine, const char *step,
                                      const char *tactic, int64_t ns, tercel_error *err);
bool tercel_timing_cache_get(const tercel_timing_cache *cache, const char *machine, const char *step,
                             const char *tactic, int64_t *ns_out);
size_t tercel_timing_cache_count(const tercel_timing_cache *cache);

#endif
