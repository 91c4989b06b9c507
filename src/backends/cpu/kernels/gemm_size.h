/* The register tile of each level: rows, and vectors a row.  Rows divide what networks have as channels; accumulators, one row of B and
 * a broadcast element fit the registers (32 with AVX-512 and NEON, 16 else; without FMA a product needs one more, which three vectors leave no room for). */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_GEMM_SIZE_H
#define TERCEL_BACKENDS_CPU_KERNELS_GEMM_SIZE_H

#include "backends/cpu/kernels/vec.h"

#if defined(__AVX512F__) || defined(__ARM_NEON)
enum { GEMM_MR = 8, GEMM_VECTORS = 3 };
#elif defined(__AVX2__) && VEC_FMA
enum { GEMM_MR = 4, GEMM_VECTORS = 3 };
#else
enum { GEMM_MR = 4, GEMM_VECTORS = 2 };
#endif
enum { GEMM_NR = GEMM_VECTORS * TERCEL_VEC };

#endif
