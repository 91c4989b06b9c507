/* Checks of kernels: each against the operator's reference evaluation, at every instruction-set level the machine has. */
#ifndef TERCEL_TESTS_KERNELS_CHECK_H
#define TERCEL_TESTS_KERNELS_CHECK_H

#include "support/support.h"

#include "base/cpu.h"

/* Calls fn at each level in turn (levels that the machine lacks are named on stderr), and puts the best one back. */
void check_levels(void (*fn)(tercel_cpu_level level, void *arg), void *arg);

/* The distance of got from want in units of want's last place as an f32; 0 for equal infinities and for two NaN, infinity when only one is
 * special or the signs of zeros differ. */
double check_ulp(float got, double want);

#endif
