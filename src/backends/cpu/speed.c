/* See speed.h.  Rates are those of server cores of the level's years at about 3 GHz. */
#include "backends/cpu/speed.h"

#include <math.h>

/* clang-format off */
static const tercel_cpu_speed speeds[] = {
    /* lanes  fma  loads  simple  near  far  region */
    {4,       2.6, 4.5,   3.0,    24,   9,   1500}, /* SSE2, NEON: multiply and add apart on x86 */
    {8,       5.2, 5.5,   6.0,    40,   10,  1500}, /* AVX2 */
    {16,      3.2, 3.2,   8.0,    48,   11,  1500}, /* AVX-512 of cores that have one unit of that width, or two halves */
};
/* clang-format on */

const tercel_cpu_speed *tercel_cpu_get_speed(void) {
  const tercel_cpu_level level = tercel_cpu_current();
#if defined(__x86_64__)
  if (level >= TERCEL_CPU_AVX512) return &speeds[2];
  if (level >= TERCEL_CPU_AVX2) return &speeds[1];
#else
  (void)level;
#endif
  return &speeds[0];
}

double tercel_cpu_shared_cost(double ns, double pieces, int num_threads) {
  const double threads = fmin(fmax(floor(pieces), 1), num_threads);
  if (threads <= 1) return ns;
  const double rounds = ceil(pieces / threads) * threads / pieces; /* the last round leaves some idle */
  return ns / threads * fmin(rounds, threads) + tercel_cpu_get_speed()->region_ns;
}

double tercel_cpu_plain_cost(double flops, double bytes, int num_threads) {
  const tercel_cpu_speed *const speed = tercel_cpu_get_speed();
  const double rate = bytes < (double)tercel_cpu_cache_bytes(2) ? speed->near_bytes : speed->far_bytes;
  const double ns = fmax(flops / speed->simple, bytes / rate);
  static const double worth_a_thread = 8000; /* ns: what the kernels' grains come to */
  return 100 + tercel_cpu_shared_cost(ns, ns / worth_a_thread, num_threads);
}

double tercel_cpu_weights_cost(double bytes) {
  const tercel_cpu_speed *const speed = tercel_cpu_get_speed();
  return bytes / (bytes < (double)tercel_cpu_cache_bytes(2) / 2 ? speed->near_bytes : speed->far_bytes);
}
