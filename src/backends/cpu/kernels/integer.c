/* See integer.h.  The compiler turns these loops into the level's own multiplies. */
#include "backends/cpu/kernels/integer.h"

#include "backends/cpu/kernels/vec.h"

static void add_rows(uint32_t *restrict y, const uint32_t *const rows[TERCEL_INTEGER_ROWS], int64_t step,
                     const uint32_t factors[TERCEL_INTEGER_ROWS], int64_t n) {
  const uint32_t *restrict const a = rows[0], *restrict const b = rows[1];
  const uint32_t *restrict const c = rows[2], *restrict const d = rows[3];
  const uint32_t f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
  if (step == 1) {
    for (int64_t j = 0; j < n; ++j) y[j] += f0 * a[j] + f1 * b[j] + f2 * c[j] + f3 * d[j];
    return;
  }
  for (int64_t j = 0; j < n; ++j) y[j] += f0 * a[j * step] + f1 * b[j * step] + f2 * c[j * step] + f3 * d[j * step];
}

static void add_row(uint32_t *restrict y, const uint32_t *restrict row, int64_t step, uint32_t factor, int64_t n) {
  if (step == 1) {
    for (int64_t j = 0; j < n; ++j) y[j] += factor * row[j];
    return;
  }
  for (int64_t j = 0; j < n; ++j) y[j] += factor * row[j * step];
}

const tercel_integer_kernels TERCEL_LEVEL_NAME(tercel_integer_kernels) = {.add_rows = add_rows, .add_row = add_row};
