/* What products are expected to take: see gemm.h. */
#include <math.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/speed.h"

/* Nanoseconds of four cycles: a chain of multiply-adds does not go faster, however few there are. */
static const double chain_ns = 1.3;
/* Beside the loop over k: start values, stores, the call. */
static const double tile_ns = 8;
/* An element packed: A's rows go across the panel, B's along it. */
static const double pack_a_ns = 0.6, pack_b_ns = 0.25;

/* One tile for one k. */
static double step_cost(double rows, double vectors) {
  const tercel_cpu_speed *const speed = tercel_cpu_get_speed();
  return fmax(fmax(rows * vectors / speed->fma, (rows + vectors) / speed->loads), chain_ns);
}

/* A panel of `rows` over n columns. */
static double panel_cost(const tercel_gemm_kernels *kernels, double rows, double n, double k) {
  const double full = floor(n / kernels->nr), rest = n - full * kernels->nr;
  const double whole = step_cost(rows, (double)kernels->nr / kernels->lanes) * k + tile_ns;
  return full * whole + (rest > 0 ? step_cost(rows, ceil(rest / kernels->lanes)) * k + tile_ns : 0);
}

double tercel_gemm_tiles_cost(const tercel_gemm_kernels *kernels, double m, double n, double k) {
  const double full = floor(m / kernels->mr), rest = m - full * kernels->mr;
  return full * panel_cost(kernels, kernels->mr, n, k) + (rest > 0 ? panel_cost(kernels, rest, n, k) : 0);
}

double tercel_gemm_plan_cost(const tercel_gemm_plan *plan, double called_ns, int num_threads) {
  const tercel_gemm_blocks *const blocks = &plan->blocks;
  const double m = (double)plan->m, n = (double)plan->n, k = (double)plan->k, outer = (double)plan->outer;
  if (plan->m == 0 || plan->n == 0 || plan->outer == 0) return 0;
  const double each_b = plan->b == TERCEL_GEMM_CALLED                     ? called_ns
                        : plan->b == TERCEL_GEMM_PLAIN && !plan->direct_b ? pack_b_ns
                                                                          : 0;
  const double each_a = plan->a == TERCEL_GEMM_PLAIN && !plan->direct_a ? pack_a_ns : 0;
  double ns = tercel_gemm_tiles_cost(plan->kernels, m, n, k);
  ns += each_b * n * k * (double)blocks->m_blocks + each_a * m * k * (double)blocks->n_blocks;
  if (plan->a == TERCEL_GEMM_PACKED) ns += tercel_cpu_weights_cost(m * k * sizeof(float)) * (double)blocks->n_blocks;
  if (plan->b == TERCEL_GEMM_PACKED)
    ns = fmax(ns, tercel_cpu_weights_cost(n * k * sizeof(float)) * (double)blocks->m_blocks);
  const double pieces = outer * (double)(blocks->m_blocks * blocks->n_blocks) / (double)blocks->grain;
  return tercel_cpu_shared_cost(ns * outer, pieces, num_threads);
}
