/* Heap memory and arenas.  Nothing in tercel calls malloc by itself.
 *
 * The hook lets tests count allocations and fail the n-th one; it is process-wide and set before any other call. */
#ifndef TERCEL_BASE_ALLOC_H
#define TERCEL_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { TERCEL_ALIGNMENT = 64 }; /* a cache line, and the widest vector */

/* NULL when there is no memory (or the hook says so), or when bytes is 0.  Memory is 64-byte aligned; `zalloc` clears it. */
void *tercel_alloc(size_t bytes);
void *tercel_zalloc(size_t bytes);
/* count * size, checked for overflow. */
void *tercel_alloc_array(size_t count, size_t size);
void *tercel_zalloc_array(size_t count, size_t size);
/* As realloc: the old block stays valid on failure. */
void *tercel_realloc(void *block, size_t old_bytes, size_t new_bytes);
char *tercel_strdup(const char *text);
void tercel_free(void *block);

/* Called before every allocation; false makes it fail.  NULL takes the hook away. */
typedef bool (*tercel_alloc_hook)(size_t bytes, void *user);
void tercel_alloc_set_hook(tercel_alloc_hook hook, void *user);

/* Bytes now allocated through this file, and the most there ever were since the last reset. */
size_t tercel_alloc_live_bytes(void);
size_t tercel_alloc_peak_bytes(void);
void tercel_alloc_reset_peak(void);

/* An arena: many small allocations that die together.  One thread at a time.  Zero-initialize, then use; deinit frees all.
 * max_bytes (0: no limit) bounds what it may take from the heap, so that a hostile file can't eat the machine. */
typedef struct tercel_arena {
  struct tercel_arena_block *head;
  size_t used_bytes; /* handed out */
  size_t max_bytes;
} tercel_arena;

/* Cleared memory, 16-byte aligned (64 when bytes >= 64).  bytes 0 gives a valid unique pointer.  NULL: no memory. */
void *tercel_arena_alloc(tercel_arena *arena, size_t bytes);
void *tercel_arena_alloc_array(tercel_arena *arena, size_t count, size_t size);
void *tercel_arena_copy(tercel_arena *arena, const void *data, size_t bytes);
char *tercel_arena_strdup(tercel_arena *arena, const char *text);
char *tercel_arena_strndup(tercel_arena *arena, const char *text, size_t length);
char *tercel_arena_printf(tercel_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Forgets everything but keeps the largest block for reuse. */
void tercel_arena_reset(tercel_arena *arena);
void tercel_arena_deinit(tercel_arena *arena);

#endif
