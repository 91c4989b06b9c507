/* How expressions of dims are kept.  For the dim*.c files only.
 *
 * An expression is an atom or a sum.  Atoms: a symbol, an unknown, floor_div, min, max of two dims.  A sum is a
 * constant plus terms, each a coefficient times a product of atoms (a repeated atom is a power), in graded
 * lexicographic order of the atoms, which are ordered by what they say, not by when they were made.  Other operators
 * are written with these:
 *
 *     mod(a, b) = a - b * floor_div(a, b)
 *     ceil_div(a, b) = floor_div(a + b - 1, b), or -floor_div(-a, b) for a symbolic b
 */
#ifndef TERCEL_IR_DIM_EXPR_H
#define TERCEL_IR_DIM_EXPR_H

#include "ir/dim.h"

enum {
  TERCEL_DIM_MAX_TERMS = 32,
  TERCEL_DIM_MAX_FACTORS = 7, /* leaves no padding in a term: terms are compared as bytes */
  TERCEL_DIM_MAX_WEIGHT =
      1000 /* nodes of the expression written as a tree: bounds printing, and the depth of recursion */
};

/* In the order in which atoms of different kinds are sorted. */
typedef enum tercel_dim_kind {
  TERCEL_DIM_SYMBOL,
  TERCEL_DIM_UNKNOWN,
  TERCEL_DIM_FLOOR_DIV,
  TERCEL_DIM_MIN,
  TERCEL_DIM_MAX,
  TERCEL_DIM_SUM
} tercel_dim_kind;

typedef struct tercel_dim_term {
  int64_t coefficient;
  uint32_t num_factors;
  uint32_t factors[TERCEL_DIM_MAX_FACTORS]; /* indices of atoms; 0 beyond num_factors */
} tercel_dim_term;

struct tercel_dim_expr {
  tercel_dim_kind kind;
  uint32_t weight;
  const char *name;             /* SYMBOL */
  int64_t number;               /* UNKNOWN: its number.  SUM: the constant */
  tercel_dim a, b;              /* FLOOR_DIV, MIN, MAX */
  uint32_t num_terms;           /* SUM */
  const tercel_dim_term *terms; /* SUM */
};

static inline const struct tercel_dim_expr *tercel_dim_expr_of(const tercel_dims *dims, tercel_dim dim) {
  return &dims->exprs[-(dim + 1)];
}
static inline tercel_dim tercel_dim_of_index(uint32_t index) { return -(tercel_dim)index - 1; }

/* The unknown of that number (for reading a text). */
tercel_dim tercel_dim_numbered_unknown(tercel_dims *dims, int64_t number);

#endif
