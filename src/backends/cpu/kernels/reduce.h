/* Reductions over f32: a row of neighbours into one number, or rows into one row. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_REDUCE_H
#define TERCEL_BACKENDS_CPU_KERNELS_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

/* What is gathered; how results follow from it (mean, root, logarithm) is the caller's matter. */
typedef enum tercel_fold {
  TERCEL_FOLD_SUM,
  TERCEL_FOLD_SUM_ABS,
  TERCEL_FOLD_SUM_SQUARE,
  TERCEL_FOLD_SUM_EXP, /* of e^(x - shift) */
  TERCEL_FOLD_MAX,     /* NaN if any is */
  TERCEL_FOLD_MIN,
  TERCEL_FOLD_PROD,
  TERCEL_FOLD_COUNT
} tercel_fold;

enum {
  TERCEL_FOLD_ROW_BLOCK = 8192, /* elements of a row that are folded together; blocks are then combined in turn */
  TERCEL_FOLD_SHORT = 16,
  TERCEL_FOLD_COLS = 64 /* columns that one call of `cols` takes at most */
};

typedef struct tercel_reduce_kernels {
  /* Folds n elements (at most TERCEL_FOLD_ROW_BLOCK).  No elements: the neutral number. */
  float (*row[TERCEL_FOLD_COUNT])(const float *x, int64_t n, float shift);
  /* Folds each of `rows` short rows that lie one behind the other, of n elements (2 .. TERCEL_FOLD_SHORT), into y: the numbers that `row` gives.
   * NULL for SUM_EXP. */
  void (*short_rows[TERCEL_FOLD_COUNT])(const float *x, int64_t rows, int64_t n, float *y);
  /* Folds `rows` rows, `stride` elements apart, of `cols` columns: gathered[c] becomes gathered[c] folded with column c.  shift: per column
   * (SUM_EXP; else NULL). */
  void (*cols[TERCEL_FOLD_COUNT])(const float *x, int64_t rows, int64_t stride, int64_t cols, const float *shift,
                                  float *gathered);
  /* In place on n results: x / by, sqrt(x), log(x) (+ shift[i] where not NULL). */
  void (*divide)(float *x, int64_t n, float by);
  void (*root)(float *x, int64_t n);
  void (*log)(float *x, int64_t n, const float *shift);
  /* Where the largest (is_max = false: smallest) of n elements stands, NaN before all; the first of equal ones, or the last. */
  int64_t (*arg_row)(const float *x, int64_t n, bool is_max, bool last);
  /* The same down `cols` columns of n rows, `stride` apart; n < 2^31. */
  void (*arg_cols)(const float *x, int64_t n, int64_t stride, int64_t cols, bool is_max, bool last, int64_t *out);
  /* y[k] = x[k] + y[k - 1] for rows of `cols` neighbours: y += running sum; used by cumsum along an outer axis */
  void (*add_rows)(const float *x, const float *before, float *y, int64_t cols);
} tercel_reduce_kernels;

extern const tercel_reduce_kernels tercel_reduce_kernels_baseline, tercel_reduce_kernels_avx2,
    tercel_reduce_kernels_avx512;

#endif
