/* Arenas: blocks that double in size, handed out from the front, freed together.  Memory comes from alloc.c. */
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"

enum { FIRST_BLOCK_BYTES = 4 << 10, LARGEST_BLOCK_BYTES = 4 << 20, SMALL_ALIGNMENT = 16 };

/* What is not handed out yet is always zero. */
typedef struct tercel_arena_block {
  alignas(TERCEL_ALIGNMENT) struct tercel_arena_block *next;
  size_t capacity, used; /* bytes of data */
  size_t taken_bytes;    /* in the head only: heap bytes of all blocks of the arena */
  alignas(TERCEL_ALIGNMENT) char data[];
} block;

static block *create_block(const tercel_arena *arena, size_t bytes) {
  const size_t taken = arena->head ? arena->head->taken_bytes : 0;
  const size_t room = arena->max_bytes == 0 ? SIZE_MAX : arena->max_bytes > taken ? arena->max_bytes - taken : 0;
  size_t size = FIRST_BLOCK_BYTES;
  if (arena->head) size = 2 * arena->head->capacity;
  if (size > LARGEST_BLOCK_BYTES) size = LARGEST_BLOCK_BYTES;
  if (size > room) size = room;
  size_t needed;
  if (!tercel_add_size(bytes, sizeof(block), &needed) || needed > room) return NULL;
  if (size < needed) size = needed;
  block *const made = tercel_zalloc(size);
  if (!made) return NULL;
  made->capacity = size - sizeof(block);
  made->taken_bytes = size;
  return made;
}

/* A request larger than a usual block gets one of its own behind the head, so that the room left in the head is not lost. */
static block *add_block(tercel_arena *arena, size_t bytes) {
  block *const made = create_block(arena, bytes);
  if (!made) return NULL;
  block *const head = arena->head;
  if (head && made->capacity == bytes) {
    head->taken_bytes += made->taken_bytes;
    made->next = head->next;
    head->next = made;
  } else {
    if (head) made->taken_bytes += head->taken_bytes;
    made->next = head;
    arena->head = made;
  }
  return made;
}

void *tercel_arena_alloc(tercel_arena *arena, size_t bytes) {
  const size_t alignment = bytes >= TERCEL_ALIGNMENT ? TERCEL_ALIGNMENT : SMALL_ALIGNMENT;
  size_t size;
  if (!tercel_round_up_size(bytes ? bytes : 1, SMALL_ALIGNMENT, &size)) return NULL;
  block *from = arena->head;
  size_t offset = from ? (from->used + alignment - 1) & ~(alignment - 1) : 0;
  if (!from || offset > from->capacity || size > from->capacity - offset) {
    from = add_block(arena, size);
    if (!from) return NULL;
    offset = 0;
  }
  from->used = offset + size;
  arena->used_bytes += size;
  return from->data + offset;
}

void *tercel_arena_alloc_array(tercel_arena *arena, size_t count, size_t size) {
  size_t bytes;
  return tercel_mul_size(count, size, &bytes) ? tercel_arena_alloc(arena, bytes) : NULL;
}

void *tercel_arena_copy(tercel_arena *arena, const void *data, size_t bytes) {
  void *const copy = tercel_arena_alloc(arena, bytes);
  if (copy && bytes) memcpy(copy, data, bytes);
  return copy;
}

char *tercel_arena_strdup(tercel_arena *arena, const char *text) {
  return tercel_arena_strndup(arena, text, strlen(text));
}

char *tercel_arena_strndup(tercel_arena *arena, const char *text, size_t length) {
  size_t bytes;
  if (!tercel_add_size(length, 1, &bytes)) return NULL;
  char *const copy = tercel_arena_alloc(arena, bytes);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

char *tercel_arena_printf(tercel_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int length = vsnprintf(NULL, 0, format, args);
  char *const text = length < 0 ? NULL : tercel_arena_alloc(arena, (size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

void tercel_arena_reset(tercel_arena *arena) {
  block *largest = arena->head;
  for (block *b = arena->head; b; b = b->next)
    if (b->capacity > largest->capacity) largest = b;
  for (block *b = arena->head, *next; b; b = next) {
    next = b->next;
    if (b != largest) tercel_free(b);
  }
  if (largest) {
    memset(largest->data, 0, largest->used);
    *largest = (block){.capacity = largest->capacity, .taken_bytes = largest->capacity + sizeof(block)};
  }
  arena->head = largest;
  arena->used_bytes = 0;
}

void tercel_arena_deinit(tercel_arena *arena) {
  for (block *b = arena->head, *next; b; b = next) {
    next = b->next;
    tercel_free(b);
  }
  *arena = (tercel_arena){.max_bytes = arena->max_bytes};
}
