/* test_order.c over the 16-lane source: the order of sums, with 16 lanes made of AVX2 and of SSE2 registers (see TercelTests.cmake). */
#include "kernels/test_order.c" /* NOLINT(bugprone-suspicious-include): that is what this file is for */
