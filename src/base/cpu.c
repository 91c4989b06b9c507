/* Which instruction-set levels this machine has, and which is in force.  Caches are in cpu_cache.c, the number of CPUs in
 * cpu_count.c. */
#include "base/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static const char *const level_names[TERCEL_CPU_LEVEL_COUNT] = {
    [TERCEL_CPU_BASELINE] = "baseline",       [TERCEL_CPU_AVX2] = "avx2",
    [TERCEL_CPU_AVX512] = "avx512",           [TERCEL_CPU_AVX512_VNNI] = "avx512-vnni",
    [TERCEL_CPU_AVX512_BF16] = "avx512-bf16", [TERCEL_CPU_NEON_DOT] = "neon-dot",
};

/* Written once by detect, under `once`. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_level[TERCEL_CPU_LEVEL_COUNT] = {[TERCEL_CPU_BASELINE] = true};
static char name_of_cpu[64];
static atomic_int level_now;

#if defined(__x86_64__)

typedef struct registers {
  unsigned a, b, c, d;
} registers;

/* All zero when the processor has no such leaf. */
static registers cpuid(unsigned leaf, unsigned subleaf) {
  registers r = {0};
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return (registers){0};
  return r;
}

static bool bit(unsigned word, int index) { return word >> index & 1; }

/* The register states that the operating system saves (XCR0): without them the wide registers can't be used. */
static unsigned saved_states(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* Intel 64 manual, vol. 2A, CPUID: leaf 1 ECX, leaf 7 EBX and ECX, leaf 7.1 EAX. */
static void detect_levels(void) {
  const registers one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1);
  const bool osxsave = bit(one.c, 27);
  const unsigned saved = osxsave ? saved_states() : 0;
  const bool saves_ymm = (saved & 0x06) == 0x06, saves_zmm = (saved & 0xe6) == 0xe6;
  const bool fma = bit(one.c, 12), f16c = bit(one.c, 29), avx2 = bit(seven.b, 5);
  const bool f = bit(seven.b, 16), dq = bit(seven.b, 17), bw = bit(seven.b, 30), vl = bit(seven.b, 31);
  has_level[TERCEL_CPU_AVX2] = saves_ymm && avx2 && fma && f16c;
  has_level[TERCEL_CPU_AVX512] = has_level[TERCEL_CPU_AVX2] && saves_zmm && f && bw && dq && vl;
  has_level[TERCEL_CPU_AVX512_VNNI] = has_level[TERCEL_CPU_AVX512] && bit(seven.c, 11);
  has_level[TERCEL_CPU_AVX512_BF16] = has_level[TERCEL_CPU_AVX512_VNNI] && bit(seven1.a, 5);
}

static void detect_name(void) {
  char brand[48] = "";
  for (unsigned i = 0; i < 3; i++) {
    const registers r = cpuid(0x80000002 + i, 0);
    memcpy(brand + 16 * i, &r, 16);
  }
  brand[sizeof brand - 1] = 0;
  const char *first = brand + strspn(brand, " ");
  size_t length = strlen(first);
  while (length && first[length - 1] == ' ') length--;
  snprintf(name_of_cpu, sizeof name_of_cpu, "%.*s", (int)length, length ? first : "x86-64");
}

#elif defined(__aarch64__) && defined(__linux__)

static void detect_levels(void) {
  const unsigned long dot_product = 1ul << 20; /* HWCAP_ASIMDDP */
  has_level[TERCEL_CPU_NEON_DOT] = (getauxval(AT_HWCAP) & dot_product) != 0;
}

/* MIDR_EL1 names implementer and part; the kernel has no text for them. */
static void detect_name(void) {
  char midr[32] = "";
  FILE *const file = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "re");
  if (file) {
    if (fscanf(file, "%31s", midr) != 1) midr[0] = 0;
    fclose(file);
  }
  snprintf(name_of_cpu, sizeof name_of_cpu, midr[0] ? "AArch64 (MIDR %s)" : "AArch64", midr);
}

#else

static void detect_levels(void) {}
static void detect_name(void) { snprintf(name_of_cpu, sizeof name_of_cpu, "unknown"); }

#endif

static tercel_cpu_level best_level(void) {
  int best = TERCEL_CPU_BASELINE;
  for (int i = 0; i < TERCEL_CPU_LEVEL_COUNT; i++)
    if (has_level[i]) best = i;
  return (tercel_cpu_level)best;
}

static void detect(void) {
  detect_levels();
  detect_name();
  tercel_cpu_level level = best_level(), asked;
  const char *const wanted = getenv("TERCEL_CPU");
  if (wanted && *wanted) {
    if (!tercel_cpu_level_parse(wanted, &asked))
      tercel_log(TERCEL_LOG_WARNING, "TERCEL_CPU='%s' is not an instruction-set level; using %s", wanted,
                 level_names[level]);
    else if (!has_level[asked])
      tercel_log(TERCEL_LOG_WARNING, "TERCEL_CPU=%s: this machine lacks it; using %s", wanted, level_names[level]);
    else
      level = asked;
  }
  atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

const char *tercel_cpu_level_name(tercel_cpu_level level) {
  return (unsigned)level < TERCEL_CPU_LEVEL_COUNT ? level_names[level] : "unknown";
}

bool tercel_cpu_level_parse(const char *name, tercel_cpu_level *out) {
  for (int i = 0; i < TERCEL_CPU_LEVEL_COUNT; i++) {
    if (strcmp(name, level_names[i]) != 0) continue;
    *out = (tercel_cpu_level)i;
    return true;
  }
  return false;
}

bool tercel_cpu_has(tercel_cpu_level level) {
  pthread_once(&once, detect);
  return (unsigned)level < TERCEL_CPU_LEVEL_COUNT && has_level[level];
}

tercel_cpu_level tercel_cpu_current(void) {
  pthread_once(&once, detect);
  return (tercel_cpu_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

tercel_status tercel_cpu_set_level(tercel_cpu_level level, tercel_error *err) {
  if (!tercel_cpu_has(level))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "this machine lacks the instruction-set level '%s'",
                       tercel_cpu_level_name(level));
  atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
  return TERCEL_OK;
}

const char *tercel_cpu_name(void) {
  pthread_once(&once, detect);
  return name_of_cpu;
}
