/* test_reduce.c over the 16-lane source: reductions, with 16 lanes made of AVX2 and of SSE2 registers (see TercelTests.cmake). */
#include "kernels/test_reduce.c" /* NOLINT(bugprone-suspicious-include): that is what this file is for */
