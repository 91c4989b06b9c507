/* Random numbers without a state: a block cipher turns a key and a counter into bits, so that element i of a tensor is the same whichever
 * thread makes it and in whatever order.  Not for secrets. */
#ifndef TERCEL_BASE_RANDOM_H
#define TERCEL_BASE_RANDOM_H

#include <stdint.h>

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011): 128 bits for each counter. */
void tercel_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* A key that nobody can foretell, from the operating system; from clock and address where it gives none. */
uint64_t tercel_random_key(void);

#endif
