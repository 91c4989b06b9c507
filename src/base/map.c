/* The hash map: open addressing, linear probing, at most 3/4 full; a removal moves later entries back, so there are no tombs. */
#define _DEFAULT_SOURCE /* getentropy */
#include "base/map.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"

typedef struct tercel_map_entry {
  char *key; /* owned, with a 0 after it; NULL: free */
  size_t length;
  uint64_t hash;
  void *value;
} entry;

enum { FIRST_CAPACITY = 16 };

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed_of_process;

static void draw_seed(void) {
  if (getentropy(&seed_of_process, sizeof seed_of_process) == 0) return;
  seed_of_process = (uint64_t)tercel_time_ns() ^ (uint64_t)(uintptr_t)&seed_of_process;
}

uint64_t tercel_map_hash(const void *key, size_t length) {
  pthread_once(&seed_once, draw_seed);
  return tercel_hash(key, length, seed_of_process);
}

/* The two halves of the 128-bit product, folded. */
static uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load64(const uint8_t *from) {
  uint64_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

/* Two words a step are multiplied into the state.  The words are blinded by constants drawn from the seed, so that nobody
 * who does not know it can choose words that make the product 0. */
uint64_t tercel_hash(const void *data, size_t length, uint64_t seed) {
  const uint64_t golden = 0x9e3779b97f4a7c15; /* 2^64 / golden ratio */
  const uint64_t blind0 = mix(seed ^ golden, 0xd6e8feb86659fd93) | 1, blind1 = mix(blind0 + golden, seed | 1) | 1;
  const uint8_t *at = data;
  uint64_t state = blind0 ^ (uint64_t)length * golden;
  size_t left = length;
  for (; left >= 16; at += 16, left -= 16) state = mix(load64(at) ^ blind0, load64(at + 8) ^ blind1 ^ state);
  uint8_t tail[16] = {0};
  if (left) memcpy(tail, at, left);
  state = mix(load64(tail) ^ blind0, load64(tail + 8) ^ blind1 ^ state);
  return mix(state ^ golden, blind1);
}

/* The place of the key, or the free place where it would go. */
static size_t find(const tercel_map *map, const void *key, size_t length, uint64_t hash) {
  const size_t mask = map->capacity - 1;
  size_t i = (size_t)hash & mask;
  for (; map->entries[i].key; i = (i + 1) & mask) {
    const entry *const e = &map->entries[i];
    if (e->hash == hash && e->length == length && (length == 0 || memcmp(e->key, key, length) == 0)) break;
  }
  return i;
}

static tercel_status grow(tercel_map *map, tercel_error *err) {
  const size_t capacity = map->capacity ? 2 * map->capacity : FIRST_CAPACITY;
  entry *const entries = tercel_zalloc_array(capacity, sizeof *entries);
  if (!entries) return tercel_fail_memory(err, capacity * sizeof *entries, "a map");
  const tercel_map old = *map;
  *map = (tercel_map){entries, capacity, old.count};
  for (size_t i = 0; i < old.capacity; i++) {
    const entry *const e = &old.entries[i];
    if (e->key) entries[find(map, e->key, e->length, e->hash)] = *e;
  }
  tercel_free(old.entries);
  return TERCEL_OK;
}

tercel_status tercel_map_set_bytes(tercel_map *map, const void *key, size_t length, void *value, tercel_error *err) {
  const uint64_t hash = tercel_map_hash(key, length);
  if (map->count >= map->capacity / 4 * 3) TERCEL_TRY(grow(map, err));
  entry *const e = &map->entries[find(map, key, length, hash)];
  if (!e->key) {
    char *const copy = tercel_alloc(length + 1);
    if (!copy) return tercel_fail_memory(err, length + 1, "the key of a map");
    if (length) memcpy(copy, key, length);
    copy[length] = 0;
    *e = (entry){copy, length, hash, NULL};
    map->count++;
  }
  e->value = value;
  return TERCEL_OK;
}

tercel_status tercel_map_set(tercel_map *map, const char *key, void *value, tercel_error *err) {
  return tercel_map_set_bytes(map, key, strlen(key), value, err);
}

void *tercel_map_get_bytes(const tercel_map *map, const void *key, size_t length, bool *found) {
  const entry *const e = map->count ? &map->entries[find(map, key, length, tercel_map_hash(key, length))] : NULL;
  const bool has = e && e->key;
  if (found) *found = has;
  return has ? e->value : NULL;
}

void *tercel_map_get(const tercel_map *map, const char *key, bool *found) {
  return tercel_map_get_bytes(map, key, strlen(key), found);
}

bool tercel_map_remove(tercel_map *map, const char *key) {
  if (map->count == 0) return false;
  const size_t mask = map->capacity - 1;
  size_t hole = find(map, key, strlen(key), tercel_map_hash(key, strlen(key)));
  if (!map->entries[hole].key) return false;
  tercel_free(map->entries[hole].key);
  /* An entry may fill the hole when the hole lies on its way from home to where it stands. */
  for (size_t i = (hole + 1) & mask; map->entries[i].key; i = (i + 1) & mask) {
    const size_t home = (size_t)map->entries[i].hash & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    map->entries[hole] = map->entries[i];
    hole = i;
  }
  map->entries[hole] = (entry){0};
  map->count--;
  return true;
}

bool tercel_map_next(const tercel_map *map, size_t *cursor, const char **key, size_t *length, void **value) {
  while (*cursor < map->capacity && !map->entries[*cursor].key) ++*cursor;
  if (*cursor >= map->capacity) return false;
  const entry *const e = &map->entries[(*cursor)++];
  if (key) *key = e->key;
  if (length) *length = e->length;
  if (value) *value = e->value;
  return true;
}

void tercel_map_clear(tercel_map *map) {
  for (size_t i = 0; i < map->capacity; i++) {
    tercel_free(map->entries[i].key);
    map->entries[i] = (entry){0};
  }
  map->count = 0;
}

void tercel_map_deinit(tercel_map *map) {
  tercel_map_clear(map);
  tercel_free(map->entries);
  *map = (tercel_map){0};
}
