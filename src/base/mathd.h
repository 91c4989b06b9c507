/* Elementary functions of f64 with the same bits on every machine: the C library picks its code by CPU, and its bits with it.  Sums and
 * products round singly, in one order.  A few units in the last place at most, often below one (tests/base/test_mathd.c holds the bounds), special values as
 * C99 Annex F says; not for speed.  sqrt, fmod, floor, ceil, nearbyint, ldexp and the like are exact by definition: the library's are fine. */
#ifndef TERCEL_BASE_MATHD_H
#define TERCEL_BASE_MATHD_H

double tercel_f64_exp(double x);
double tercel_f64_expm1(double x); /* e^x - 1 */
double tercel_f64_log(double x);
double tercel_f64_log1p(double x); /* log(1 + x) */
double tercel_f64_pow(double x, double y);

double tercel_f64_sin(double x);
double tercel_f64_cos(double x);
double tercel_f64_tan(double x);
double tercel_f64_asin(double x);
double tercel_f64_acos(double x);
double tercel_f64_atan(double x);
double tercel_f64_atan2(double y, double x);

double tercel_f64_sinh(double x);
double tercel_f64_cosh(double x);
double tercel_f64_tanh(double x);
double tercel_f64_asinh(double x);
double tercel_f64_acosh(double x);
double tercel_f64_atanh(double x);

double tercel_f64_erf(double x);

#endif
