/* Dimensions: numbers, symbols ("batch") and small expressions of them.
 *
 * A tercel_dim >= 0 is a number; < 0 names an expression of a tercel_dims table.  Expressions are interned and
 * canonical (sums and products sorted, constants folded, like terms collected), so that equal ids mean equal dims;
 * different ids mean "not known to be equal".  With numbers only, the table is never touched: the same inference code
 * serves building and binding. */
#ifndef TERCEL_IR_DIM_H
#define TERCEL_IR_DIM_H

#include "base/base.h"

typedef int64_t tercel_dim;

typedef struct tercel_dims {
  tercel_arena *arena; /* where expressions live */
  struct tercel_dim_expr *exprs;
  uint32_t count, capacity;
  tercel_map index;   /* expression -> id */
  bool out_of_memory; /* sticky: results are then meaningless, the caller checks once (tercel_dims_check) */
  bool overflow;      /* sticky: a number left the range of i64 or became negative where a size was wanted */
} tercel_dims;

void tercel_dims_init(tercel_dims *dims, tercel_arena *arena);
void tercel_dims_deinit(tercel_dims *dims);
/* Turns the sticky flags into an error and clears them. */
tercel_status tercel_dims_check(tercel_dims *dims, tercel_error *err);

static inline bool tercel_dim_is_known(tercel_dim d) { return d >= 0; }

tercel_dim tercel_dim_symbol(tercel_dims *dims, const char *name);
/* A dim nobody knows before the run (the count NonZero finds): new each time, equal to itself only. */
tercel_dim tercel_dim_unknown(tercel_dims *dims);
/* Is it just such a dim, and not a number, symbol or expression? */
bool tercel_dim_is_unknown(const tercel_dims *dims, tercel_dim dim);

/* Unknowns in it, each as often as it occurs: 0 for what numbers and symbols make. */
uint32_t tercel_dim_count_unknowns(const tercel_dims *dims, tercel_dim dim);
/* Of two that are both right, the one that says more: a number, else that with fewer unknowns, else the shorter; a where they are alike. */
tercel_dim tercel_dim_better(const tercel_dims *dims, tercel_dim a, tercel_dim b);

/* Arithmetic.  Values inside expressions may be negative (shape contents: -1, starts, ends); a plain negative number
 * is kept as a constant expression.  tercel_dim_constant makes one from any number, tercel_dim_get_number reads it
 * back. */
tercel_dim tercel_dim_constant(tercel_dims *dims, int64_t value);
bool tercel_dim_get_number(const tercel_dims *dims, tercel_dim dim, int64_t *out);
tercel_dim tercel_dim_add(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_sub(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_mul(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_floor_div(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_ceil_div(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_mod(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_min(tercel_dims *dims, tercel_dim a, tercel_dim b);
tercel_dim tercel_dim_max(tercel_dims *dims, tercel_dim a, tercel_dim b);

/* numpy broadcasting of two dims: false when both are known and clash.  1 gives the other; a number > 1 wins over an
 * expression; two different expressions give their max. */
bool tercel_dim_broadcast(tercel_dims *dims, tercel_dim a, tercel_dim b, tercel_dim *out);

/* "3", "batch", "2*height + 1", "?7" (unknown number 7). */
void tercel_dim_print(const tercel_dims *dims, tercel_dim dim, tercel_text *out);
/* Reads what print wrote, up to the first character that can't belong to it; *text moves on.  False: not a dim. */
bool tercel_dim_parse(tercel_dims *dims, const char **text, const char *end, tercel_dim *out);

/* The same dim in another table (when a graph is cloned), or with symbols replaced: value_of returns false for those
 * left alone. */
typedef bool (*tercel_dim_value_of)(void *user, const char *symbol, int64_t *out);
tercel_dim tercel_dim_translate(const tercel_dims *from, tercel_dim dim, tercel_dims *to, tercel_dim_value_of value_of,
                                void *user);

/* A shape; rank -1 when even the rank is not known. */
typedef struct tercel_shape {
  int rank;
  tercel_dim dims[TERCEL_MAX_RANK];
} tercel_shape;

bool tercel_shape_is_known(const tercel_shape *shape); /* rank and all dims are numbers */
bool tercel_shape_equal(const tercel_shape *a, const tercel_shape *b);
tercel_dim tercel_shape_num_elements(tercel_dims *dims, const tercel_shape *shape);            /* rank must be known */
void tercel_shape_print(const tercel_dims *dims, const tercel_shape *shape, tercel_text *out); /* "[batch, 3]", "[*]" */

#endif
