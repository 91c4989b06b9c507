/* Heap memory: every block is aligned, counted, and may be refused by the hook.  Arenas are in arena.c. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "tercel/tercel.h"

enum { LARGE_BYTES = 4 << 20 };

/* Stands right before the block that the caller sees:
 *
 *   raw ... padding ... | header | block, 64-byte aligned ... */
typedef struct header {
  void *raw;
  size_t bytes;
} header;

static _Atomic(tercel_alloc_hook) hook_now;
static _Atomic(void *) hook_user;
static atomic_size_t live_bytes, peak_bytes;

static void count_more(size_t bytes) {
  const size_t live = atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes;
  size_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
  while (live > peak &&
         !atomic_compare_exchange_weak_explicit(&peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* Asked of the kernel in large pages: a fault for each 2 MiB instead of each 4 KiB.  Advice: what comes of it doesn't matter. */
static void advise(char *raw, size_t bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t huge = 2 << 20, first = ((uintptr_t)raw + huge - 1) & ~(huge - 1);
  const uintptr_t end = ((uintptr_t)raw + bytes) & ~(huge - 1);
  if (end > first) madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
  (void)raw, (void)bytes;
#endif
}

/* calloc leaves the fresh pages of a large block untouched, where malloc and memset would fault in every one. */
static void *allocate(size_t bytes, bool clear) {
  const tercel_alloc_hook hook = atomic_load_explicit(&hook_now, memory_order_acquire);
  if (bytes == 0) return NULL;
  if (hook && !hook(bytes, atomic_load_explicit(&hook_user, memory_order_relaxed))) return NULL;
  size_t raw_bytes;
  if (!tercel_add_size(bytes, sizeof(header) + TERCEL_ALIGNMENT - 1, &raw_bytes)) return NULL;
  char *const raw = clear ? calloc(1, raw_bytes) : malloc(raw_bytes);
  if (!raw) return NULL;
  if (bytes >= LARGE_BYTES) advise(raw, raw_bytes);
  const uintptr_t first = (uintptr_t)raw + sizeof(header);
  const uintptr_t padding = -first & (TERCEL_ALIGNMENT - 1);
  char *const block = raw + sizeof(header) + padding;
  ((header *)(void *)block)[-1] = (header){raw, bytes};
  count_more(bytes);
  return block;
}

void *tercel_alloc(size_t bytes) { return allocate(bytes, false); }

void *tercel_zalloc(size_t bytes) { return allocate(bytes, true); }

void *tercel_alloc_array(size_t count, size_t size) {
  size_t bytes;
  return tercel_mul_size(count, size, &bytes) ? allocate(bytes, false) : NULL;
}

void *tercel_zalloc_array(size_t count, size_t size) {
  size_t bytes;
  return tercel_mul_size(count, size, &bytes) ? allocate(bytes, true) : NULL;
}

void *tercel_realloc(void *block, size_t old_bytes, size_t new_bytes) {
  void *const grown = allocate(new_bytes, false);
  if (!grown || !block) return grown;
  assert(old_bytes <= ((header *)block)[-1].bytes);
  memcpy(grown, block, old_bytes < new_bytes ? old_bytes : new_bytes);
  tercel_free(block);
  return grown;
}

char *tercel_strdup(const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *const copy = tercel_alloc(bytes);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

void tercel_free(void *block) {
  if (!block) return;
  const header head = ((header *)block)[-1];
  atomic_fetch_sub_explicit(&live_bytes, head.bytes, memory_order_relaxed);
  free(head.raw);
}

void tercel_text_free(char *text) { tercel_free(text); }

void tercel_alloc_set_hook(tercel_alloc_hook hook, void *user) {
  atomic_store_explicit(&hook_user, user, memory_order_relaxed);
  atomic_store_explicit(&hook_now, hook, memory_order_release);
}

size_t tercel_alloc_live_bytes(void) { return atomic_load_explicit(&live_bytes, memory_order_relaxed); }

size_t tercel_alloc_peak_bytes(void) { return atomic_load_explicit(&peak_bytes, memory_order_relaxed); }

void tercel_alloc_reset_peak(void) {
  atomic_store_explicit(&peak_bytes, tercel_alloc_live_bytes(), memory_order_relaxed);
}
