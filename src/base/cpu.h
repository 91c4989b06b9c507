/* What this machine can do.  Detected once; TERCEL_CPU in the environment lowers it. */
#ifndef TERCEL_BASE_CPU_H
#define TERCEL_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Instruction-set levels, weak to strong: each contains the ones before it (of its architecture). */
typedef enum tercel_cpu_level {
  TERCEL_CPU_BASELINE = 0, /* x86-64 SSE2; on ARM: NEON, which every AArch64 has */
  TERCEL_CPU_AVX2,         /* AVX2 + FMA + F16C */
  TERCEL_CPU_AVX512,       /* F + BW + DQ + VL */
  TERCEL_CPU_AVX512_VNNI,
  TERCEL_CPU_AVX512_BF16,
  TERCEL_CPU_NEON_DOT,
  TERCEL_CPU_LEVEL_COUNT
} tercel_cpu_level;

/* "baseline", "avx2", "avx512", "avx512-vnni", "avx512-bf16", "neon-dot" */
const char *tercel_cpu_level_name(tercel_cpu_level level);
bool tercel_cpu_level_parse(const char *name, tercel_cpu_level *out);

/* True when the hardware and the operating system have the level (not looking at TERCEL_CPU). */
bool tercel_cpu_has(tercel_cpu_level level);

/* The level in force: the best that the machine has, no higher than TERCEL_CPU or the last tercel_cpu_set_level.
 * A TERCEL_CPU that can't be understood or that the machine lacks is logged as a warning, and the best level is used. */
tercel_cpu_level tercel_cpu_current(void);
/* For tests: lowers (or raises again) the level in force for engines built from now on.  INVALID_ARGUMENT when the machine lacks it. */
tercel_status tercel_cpu_set_level(tercel_cpu_level level, tercel_error *err);

/* The model name of the processor, for reports and the timing cache. */
const char *tercel_cpu_name(void);

/* Data cache bytes of one core at level 1, 2 and the share of level 3; plausible defaults where the system doesn't say. */
size_t tercel_cpu_cache_bytes(int level);

/* CPUs this process may use at once: its affinity mask, lowered by the cgroup (v1 or v2) CPU quota, rounded up; at least 1. */
int tercel_cpu_count(void);

#endif
