/* Repeatable random numbers: SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/support.h"

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t tercel_test_seed(void) {
  static uint64_t seed;
  static bool known;
  if (!known) {
    const char *text = getenv("TERCEL_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = text ? strtoull(text, NULL, 0) : mix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    known = true;
    fprintf(stderr, "seed: TERCEL_TEST_SEED=0x%" PRIx64 "\n", seed);
  }
  return seed;
}

tercel_test_random tercel_test_random_start(uint64_t stream) {
  return (tercel_test_random){.state = mix(tercel_test_seed() ^ mix(stream + 0x9e3779b97f4a7c15u))};
}

uint64_t tercel_test_random_u64(tercel_test_random *random) {
  random->state += 0x9e3779b97f4a7c15u;
  return mix(random->state);
}

int64_t tercel_test_random_int(tercel_test_random *random, int64_t low, int64_t high) {
  const uint64_t span = (uint64_t)high - (uint64_t)low + 1;
  const uint64_t bits = tercel_test_random_u64(random);
  return (int64_t)((uint64_t)low + (span ? bits % span : bits));
}

float tercel_test_random_f32(tercel_test_random *random, float low, float high) {
  const float unit = (float)(tercel_test_random_u64(random) >> 40) * 0x1p-24f;
  return low + (high - low) * unit;
}

void tercel_test_random_fill_f32(tercel_test_random *random, float *data, size_t count, float low, float high) {
  for (size_t i = 0; i < count; i++) data[i] = tercel_test_random_f32(random, low, high);
}
