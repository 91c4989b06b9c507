/* test_math.c over the 16-lane source: the vector functions, with 16 lanes made of AVX2 and of SSE2 registers (see TercelTests.cmake). */
#include "kernels/test_math.c" /* NOLINT(bugprone-suspicious-include): that is what this file is for */
