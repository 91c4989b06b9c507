/* The Philox generator, and keys from the operating system. */
#include "base/random.h"

#include <sys/random.h>

#include "base/time.h"

enum { ROUNDS = 10 };
static const uint32_t multipliers[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u}; /* added to the key each round: golden ratio, sqrt(3) - 1 */

void tercel_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
  uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
  for (int round = 0; round < ROUNDS; ++round) {
    const uint64_t a = (uint64_t)multipliers[0] * x[0], b = (uint64_t)multipliers[1] * x[2];
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ x[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ k[1],
                              (uint32_t)a};
    for (int i = 0; i < 4; ++i) x[i] = next[i];
    for (int i = 0; i < 2; ++i) k[i] += weyl[i];
  }
  for (int i = 0; i < 4; ++i) out[i] = x[i];
}

uint64_t tercel_random_key(void) {
  uint64_t key = 0;
  if (getentropy(&key, sizeof key) == 0) return key;
  return (uint64_t)tercel_time_ns() ^ (uint64_t)(uintptr_t)&key;
}
