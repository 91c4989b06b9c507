/* See timing_cache.h.  A map from "machine TAB step TAB tactic" to nanoseconds. */
#include "plan/timing_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tercel_timing_cache {
  pthread_mutex_t mutex;
  tercel_map times; /* values are the nanoseconds themselves, not pointers */
};

/* No step of a network takes so long: a quarter of an hour. */
static const int64_t longest_ns = INT64_C(900) * 1000 * 1000 * 1000;
enum { COLUMNS = 4 };

tercel_status tercel_timing_cache_create(tercel_timing_cache **out, tercel_error *err) {
  tercel_timing_cache *const cache = tercel_zalloc(sizeof *cache);
  if (cache == NULL) return tercel_fail_memory(err, sizeof *cache, "a timing cache");
  pthread_mutex_init(&cache->mutex, NULL);
  *out = cache;
  return TERCEL_OK;
}

void tercel_timing_cache_destroy(tercel_timing_cache *cache) {
  if (cache == NULL) return;
  tercel_map_deinit(&cache->times);
  pthread_mutex_destroy(&cache->mutex);
  tercel_free(cache);
}

static void lock(const tercel_timing_cache *cache) { pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&cache->mutex); }
static void unlock(const tercel_timing_cache *cache) {
  pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&cache->mutex);
}

/* ---- asking and adding --------------------------------------------------------------------------------------------- */

static void *value_of(int64_t ns) { return (void *)(uintptr_t)ns; }
static int64_t ns_of(const void *value) { return (int64_t)(uintptr_t)value; }

static bool make_key(tercel_text *key, const char *machine, const char *step, const char *tactic) {
  tercel_text_add(key, "%s\t%s\t%s", machine, step, tactic);
  return !key->failed;
}

tercel_status tercel_timing_cache_set(tercel_timing_cache *cache, const char *machine, const char *step,
                                      const char *tactic, int64_t ns, tercel_error *err) {
  tercel_text key = {0};
  if (!make_key(&key, machine, step, tactic)) return tercel_fail_memory(err, 0, "a time");
  ns = tercel_min_i64(tercel_max_i64(ns, 1), longest_ns);
  lock(cache);
  const tercel_status status = tercel_map_set_bytes(&cache->times, key.data, key.length, value_of(ns), err);
  unlock(cache);
  tercel_text_deinit(&key);
  return status;
}

bool tercel_timing_cache_get(const tercel_timing_cache *cache, const char *machine, const char *step,
                             const char *tactic, int64_t *ns_out) {
  tercel_text key = {0};
  bool found = false;
  if (make_key(&key, machine, step, tactic)) {
    lock(cache);
    *ns_out = ns_of(tercel_map_get_bytes(&cache->times, key.data, key.length, &found));
    unlock(cache);
  }
  tercel_text_deinit(&key);
  return found;
}

size_t tercel_timing_cache_count(const tercel_timing_cache *cache) {
  lock(cache);
  const size_t count = cache->times.count;
  unlock(cache);
  return count;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static tercel_status wrong_line(tercel_error *err, const char *name, size_t line, const char *what) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                     "timing cache '%s', line %zu: %s; want machine, step, tactic and microseconds with tabs between",
                     name, line, what);
}

/* The columns of a line; false when there are not as many, or one is empty. */
static bool split(const char *line, size_t length, const char *columns[COLUMNS], size_t lengths[COLUMNS]) {
  for (int i = 0; i < COLUMNS; ++i) {
    const char *const tab = memchr(line, '\t', length);
    const size_t one = tab != NULL ? (size_t)(tab - line) : length;
    if (one == 0 || (tab == NULL) != (i == COLUMNS - 1)) return false;
    columns[i] = line;
    lengths[i] = one;
    line += one + (tab != NULL);
    length -= one + (tab != NULL);
  }
  return true;
}

static tercel_status read_line(tercel_map *times, const char *line, size_t length, const char *name, size_t number,
                               tercel_error *err) {
  const char *columns[COLUMNS];
  size_t lengths[COLUMNS];
  double us;
  for (size_t i = 0; i < length; ++i)
    if ((unsigned char)line[i] < ' ' && line[i] != '\t') return wrong_line(err, name, number, "a control character");
  if (length == 0 || line[0] == '#') return TERCEL_OK;
  if (!split(line, length, columns, lengths)) return wrong_line(err, name, number, "not four columns");
  if (!tercel_parse_f64(columns[3], lengths[3], &us) || !(us > 0) || !(us * 1e3 <= (double)longest_ns))
    return wrong_line(err, name, number, "not a time");
  const int64_t ns = tercel_max_i64(tercel_saturate_i64(us * 1e3 + 0.5), 1);
  return tercel_map_set_bytes(times, line, (size_t)(columns[2] - line) + lengths[2], value_of(ns), err);
}

static tercel_status read_lines(tercel_map *times, const char *text, size_t length, const char *name,
                                tercel_error *err) {
  const char *const end = text + length;
  for (size_t number = 1; text < end; ++number) {
    const char *const newline = memchr(text, '\n', (size_t)(end - text));
    size_t one = (size_t)((newline != NULL ? newline : end) - text);
    const size_t step = one + (newline != NULL);
    if (one > 0 && text[one - 1] == '\r') --one;
    TERCEL_TRY(read_line(times, text, one, name, number, err));
    text += step;
  }
  return TERCEL_OK;
}

tercel_status tercel_timing_cache_read(tercel_timing_cache *cache, const char *text, size_t length, const char *name,
                                       tercel_error *err) {
  tercel_map times = {0};
  tercel_status status = read_lines(&times, text, length, name, err);
  lock(cache);
  size_t cursor = 0, key_length;
  const char *key;
  void *value;
  while (status == TERCEL_OK && tercel_map_next(&times, &cursor, &key, &key_length, &value))
    status = tercel_map_set_bytes(&cache->times, key, key_length, value, err);
  unlock(cache);
  tercel_map_deinit(&times);
  return status;
}

tercel_status tercel_timing_cache_load(tercel_timing_cache *cache, const char *path, bool missing_ok,
                                       tercel_error *err) {
  tercel_file file = {0};
  if (missing_ok && access(path, F_OK) != 0) return TERCEL_OK;
  TERCEL_TRY(tercel_file_open(path, false, &file, err));
  const tercel_status status = tercel_timing_cache_read(cache, (const char *)file.data, file.size, path, err);
  tercel_file_close(&file);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

typedef struct entry {
  const char *key;
  size_t length;
  int64_t ns;
} entry;

/* By bytes: as `LC_ALL=C sort` does. */
static int compare_entries(const void *a, const void *b) {
  const entry *const x = a, *const y = b;
  const size_t common = x->length < y->length ? x->length : y->length;
  const int order = memcmp(x->key, y->key, common);
  return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static tercel_status print_sorted(const tercel_timing_cache *cache, tercel_text *out, tercel_error *err) {
  const size_t count = cache->times.count;
  entry *const entries = tercel_alloc_array(count + 1, sizeof *entries);
  if (entries == NULL) return tercel_fail_memory(err, count * sizeof *entries, "the timing cache");
  size_t cursor = 0, at = 0;
  void *value;
  while (at < count && tercel_map_next(&cache->times, &cursor, &entries[at].key, &entries[at].length, &value))
    entries[at++].ns = ns_of(value);
  qsort(entries, at, sizeof *entries, compare_entries);
  tercel_text_add(out, "# tercel timing cache: machine, step, tactic, microseconds\n");
  for (size_t i = 0; i < at; ++i) {
    tercel_text_add_bytes(out, entries[i].key, entries[i].length);
    tercel_text_add(out, "\t%lld.%03lld\n", (long long)(entries[i].ns / 1000), (long long)(entries[i].ns % 1000));
  }
  tercel_free(entries);
  return out->failed ? tercel_fail_memory(err, out->length, "the timing cache") : TERCEL_OK;
}

tercel_status tercel_timing_cache_print(const tercel_timing_cache *cache, tercel_text *out, tercel_error *err) {
  lock(cache);
  const tercel_status status = print_sorted(cache, out, err);
  unlock(cache);
  return status;
}

tercel_status tercel_timing_cache_save(const tercel_timing_cache *cache, const char *path, tercel_error *err) {
  tercel_text text = {0};
  tercel_status status = tercel_timing_cache_print(cache, &text, err);
  if (status == TERCEL_OK) status = tercel_file_write(path, text.data, text.length, err);
  tercel_text_deinit(&text);
  return status;
}
