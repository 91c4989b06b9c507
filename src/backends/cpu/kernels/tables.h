/* Names of tables of kernels that are fused where the level can, and of their copies for deterministic mode; cpu.h chooses. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_TABLES_H
#define TERCEL_BACKENDS_CPU_KERNELS_TABLES_H

/* Declares the tables of a family whose file defines VEC_FUSED.  Levels without FMA have no copy. */
#define TERCEL_FUSED_TABLES(table)                                                                                     \
  extern const table table##_baseline, table##_avx2, table##_avx512;                                                   \
  extern const table table##_baseline_exact, table##_avx2_exact, table##_avx512_exact;

#endif
