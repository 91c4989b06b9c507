/* Data cache sizes of one core: from sysfs, else from CPUID, else a guess that no machine of the last ten years undercuts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { LEVELS = 3 };

typedef struct cache {
  size_t bytes;
  int num_sharing; /* CPUs (hardware threads) that share it */
} cache;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static size_t cache_bytes[LEVELS + 1] = {0, 32 << 10, 256 << 10, 1 << 20};

static bool read_word(int index, const char *what, char *out, size_t size) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
  FILE *const file = fopen(path, "re");
  if (!file) return false;
  const bool got = fgets(out, (int)size, file) != NULL;
  fclose(file);
  return got;
}

/* "0-3,8-11" is 8. */
static int count_list(const char *list) {
  int count = 0;
  for (const char *at = list; *at >= '0' && *at <= '9';) {
    char *end;
    const long first = strtol(at, &end, 10);
    const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    count += (int)(last - first) + 1;
    at = *end == ',' ? end + 1 : end;
  }
  return count;
}

/* sizes are "32K"; the kernel writes no other unit here, but M costs nothing. */
static size_t parse_size(const char *text) {
  char *end;
  const unsigned long number = strtoul(text, &end, 10);
  return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

static void read_sysfs(cache caches[LEVELS + 1]) {
  char level[16], type[32], size[32], shared[1024];
  for (int index = 0; read_word(index, "level", level, sizeof level); index++) {
    const long number = strtol(level, NULL, 10);
    if (number < 1 || number > LEVELS || !read_word(index, "type", type, sizeof type) ||
        !read_word(index, "size", size, sizeof size) || strncmp(type, "Instruction", 11) == 0)
      continue;
    caches[number].bytes = parse_size(size);
    caches[number].num_sharing = read_word(index, "shared_cpu_list", shared, sizeof shared) ? count_list(shared) : 1;
  }
}

#if defined(__x86_64__)
/* Leaf 4 (Intel) and 0x8000001D (AMD) have one layout: one subleaf a cache, until a type of 0. */
static void read_cpuid(cache caches[LEVELS + 1]) {
  enum { INSTRUCTION = 2 };
  const unsigned leaves[] = {0x8000001d, 4};
  for (size_t l = 0; l < 2; l++) {
    for (unsigned i = 0; i < 16; i++) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      if (!__get_cpuid_count(leaves[l], i, &a, &b, &c, &d) || (a & 31) == 0) break;
      const unsigned level = a >> 5 & 7;
      if ((a & 31) == INSTRUCTION || level < 1 || level > LEVELS || caches[level].bytes) continue;
      const size_t ways = (b >> 22) + 1, partitions = (b >> 12 & 0x3ff) + 1, line = (b & 0xfff) + 1,
                   sets = (size_t)c + 1;
      caches[level] = (cache){ways * partitions * line * sets, (int)(a >> 14 & 0xfff) + 1};
    }
  }
}
#else
static void read_cpuid(cache caches[LEVELS + 1]) { (void)caches; }
#endif

static void detect(void) {
  cache caches[LEVELS + 1] = {0};
  read_sysfs(caches);
  if (!caches[1].bytes) read_cpuid(caches);
  const int threads_of_core = caches[1].num_sharing > 0 ? caches[1].num_sharing : 1;
  for (int i = 1; i <= LEVELS; i++) {
    if (!caches[i].bytes) continue;
    const int cores = caches[i].num_sharing / threads_of_core;
    cache_bytes[i] = caches[i].bytes / (size_t)(cores > 1 ? cores : 1);
  }
}

size_t tercel_cpu_cache_bytes(int level) {
  pthread_once(&once, detect);
  return level >= 1 && level <= LEVELS ? cache_bytes[level] : 0;
}
