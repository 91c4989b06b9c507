/* The CPU backend: kernels by family, each written once over vec.h and compiled per instruction-set level.
 *
 *   kernels/NAME.c   compiled once per level; exports one function table a family, named with the level's suffix
 *   NAME.c           compiled once: the family's tactics (supports, prepare, bind, run) over those tables
 *
 * A family's table type stands in kernels/NAME.h:  `typedef struct tercel_softmax_kernels { void (*f32)(...); } ...;`
 * `extern const tercel_softmax_kernels tercel_softmax_kernels_baseline, ..._avx2, ..._avx512;`  TERCEL_CPU_PICK chooses by the level in force.
 * Files in kernels/ use static helpers only, so that no copy compiled for a stronger level is linked into a weaker one.
 *
 * Deterministic mode (docs/numerics.md).  All levels give the same bits but for files that define VEC_FUSED, whose tables exist twice:
 * TERCEL_CPU_PICK_FOR chooses by the target too, and those tables are to be chosen by nothing else.  What a tactic decides by shapes may
 * change the order of its sums only where the target is not deterministic, or the decision hangs on neither level, caches, threads nor batch. */
#ifndef TERCEL_BACKENDS_CPU_CPU_H
#define TERCEL_BACKENDS_CPU_CPU_H

#include "backends/backend.h"

#if defined(__x86_64__)
#define TERCEL_CPU_PICK(table)                                                                                         \
  (tercel_cpu_current() >= TERCEL_CPU_AVX512 ? &table##_avx512                                                         \
   : tercel_cpu_current() >= TERCEL_CPU_AVX2 ? &table##_avx2                                                           \
                                             : &table##_baseline)
/* For families that also have kernels for VNNI. */
#define TERCEL_CPU_PICK_VNNI(table)                                                                                    \
  (tercel_cpu_current() >= TERCEL_CPU_AVX512_VNNI ? &table##_avx512_vnni : TERCEL_CPU_PICK(table))
#else
#define TERCEL_CPU_PICK(table) (&table##_baseline)
#define TERCEL_CPU_PICK_VNNI(table) TERCEL_CPU_PICK(table)
#endif

/* The table of a fused family for a target.  x86-64's baseline has no FMA: it is exact as it is, and stands in for the copies of the other
 * levels where a build leaves them out (TERCEL_EXACT_LEVELS). */
#if !defined(__x86_64__)
#define TERCEL_CPU_PICK_EXACT(table) (&table##_baseline_exact)
#elif TERCEL_EXACT_LEVELS
#define TERCEL_CPU_PICK_EXACT(table)                                                                                   \
  (tercel_cpu_current() >= TERCEL_CPU_AVX512 ? &table##_avx512_exact                                                   \
   : tercel_cpu_current() >= TERCEL_CPU_AVX2 ? &table##_avx2_exact                                                     \
                                             : &table##_baseline)
#else
#define TERCEL_CPU_PICK_EXACT(table) (&table##_baseline)
#endif
#define TERCEL_CPU_PICK_FOR(target, table)                                                                             \
  ((target)->deterministic ? TERCEL_CPU_PICK_EXACT(table) : TERCEL_CPU_PICK(table))

/* Every kernel of the backend, in order of preference within an operator: one line a kernel in kernels.inc. */
#define TERCEL_KERNEL(name) extern const tercel_kernel tercel_kernel_##name;
#include "backends/cpu/kernels.inc"
#undef TERCEL_KERNEL

#endif
