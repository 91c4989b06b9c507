/* test_norm.c over the 16-lane source: softmax and the norms, with 16 lanes made of AVX2 and of SSE2 registers (see TercelTests.cmake). */
#include "kernels/test_norm.c" /* NOLINT(bugprone-suspicious-include): that is what this file is for */
