/* What was measured of steps, kept. */
#include "plan/verify.h"

void tercel_verification_deinit(tercel_verification *verification) {
  tercel_free(verification->rows);
  *verification = (tercel_verification){0};
}

/* A NaN where a number was wanted has an infinite error. */
bool tercel_difference_is_ok(const tercel_difference *d) { return !d->compared || d->error <= d->limit; }
