/* Hash map from text (or bytes) to a pointer.  Keys are copied.  Not thread-safe.  Zero-initialize, then use.
 * Hostile keys: the hash is seeded, so that a file can't be made to collide. */
#ifndef TERCEL_BASE_MAP_H
#define TERCEL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tercel_map {
  struct tercel_map_entry *entries;
  size_t capacity, count;
} tercel_map;

/* Sets key to value, replacing what was there. */
tercel_status tercel_map_set(tercel_map *map, const char *key, void *value, tercel_error *err);
tercel_status tercel_map_set_bytes(tercel_map *map, const void *key, size_t length, void *value, tercel_error *err);
/* The value, or NULL; found (may be NULL) tells a NULL value from none. */
void *tercel_map_get(const tercel_map *map, const char *key, bool *found);
void *tercel_map_get_bytes(const tercel_map *map, const void *key, size_t length, bool *found);
bool tercel_map_remove(tercel_map *map, const char *key);
/* Visits every entry, in no order: start with *cursor 0, until it returns false. */
bool tercel_map_next(const tercel_map *map, size_t *cursor, const char **key, size_t *length, void **value);
void tercel_map_clear(tercel_map *map);
void tercel_map_deinit(tercel_map *map);

/* What maps hash keys by: another number in each process. */
uint64_t tercel_map_hash(const void *key, size_t length);
/* 64-bit hash of bytes (xxHash64's algorithm is not needed: any good mixing hash). */
uint64_t tercel_hash(const void *data, size_t length, uint64_t seed);

#endif
