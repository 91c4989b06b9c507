/* Arithmetic on dims: interned expressions in a normal form (dim_expr.h says which).  Printing and parsing:
 * dim_text.c.
 *
 * Dividing by 0 gives 0.  Rules that cancel a symbolic divisor take it for not 0.  Symbols are sizes: 0 or more.  A
 * result beyond the limits of dim_expr.h is a fresh unknown, which is always a correct answer. */
#include "ir/dim.h"

#include <string.h>

#include "ir/dim_expr.h"

typedef struct tercel_dim_expr expr;
typedef tercel_dim_term term;

/* A sum being worked on.  Its terms are many bytes: those beyond num_terms are never set. */
typedef struct sum {
  int64_t constant;
  uint32_t num_terms;
  bool too_large;
  term terms[TERCEL_DIM_MAX_TERMS];
} sum;

static void clear(sum *s) {
  s->constant = 0;
  s->num_terms = 0;
  s->too_large = false;
}

void tercel_dims_init(tercel_dims *dims, tercel_arena *arena) { *dims = (tercel_dims){.arena = arena}; }

void tercel_dims_deinit(tercel_dims *dims) {
  tercel_map_deinit(&dims->index);
  tercel_free(dims->exprs);
  *dims = (tercel_dims){0};
}

tercel_status tercel_dims_check(tercel_dims *dims, tercel_error *err) {
  const bool out_of_memory = dims->out_of_memory, overflow = dims->overflow;
  dims->out_of_memory = dims->overflow = false;
  if (out_of_memory) return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for an expression of dims");
  if (overflow) return tercel_fail(err, TERCEL_INVALID_MODEL, "a dim is too large, or negative");
  return TERCEL_OK;
}

/* ---- interning ---- */

static const expr *at(const tercel_dims *dims, uint32_t index) { return &dims->exprs[index]; }

static uint32_t weight_of(const tercel_dims *dims, tercel_dim d) {
  return tercel_dim_is_known(d) ? 1 : tercel_dim_expr_of(dims, d)->weight;
}

static bool reserve(tercel_dims *dims) {
  if (dims->count < dims->capacity) return true;
  const uint32_t capacity = dims->capacity ? 2 * dims->capacity : 16;
  if (capacity > INT32_MAX) return false;
  expr *const grown = tercel_realloc(dims->exprs, dims->count * sizeof *grown, capacity * sizeof *grown);
  if (!grown) return false;
  dims->exprs = grown;
  dims->capacity = capacity;
  return true;
}

/* The dim of `made`, which is new unless its key is in the table.  What it points to must live in the arena already. */
static tercel_dim add(tercel_dims *dims, const expr *made, const void *key, size_t key_length) {
  const uint32_t index = dims->count;
  if (!reserve(dims) ||
      tercel_map_set_bytes(&dims->index, key, key_length, (void *)(uintptr_t)(index + 1), NULL) != TERCEL_OK) {
    dims->out_of_memory = true;
    return 0;
  }
  dims->exprs[dims->count++] = *made;
  return tercel_dim_of_index(index);
}

static bool find(const tercel_dims *dims, const void *key, size_t key_length, tercel_dim *out) {
  const uintptr_t entry = (uintptr_t)tercel_map_get_bytes(&dims->index, key, key_length, NULL);
  if (entry) *out = tercel_dim_of_index((uint32_t)(entry - 1));
  return entry != 0;
}

tercel_dim tercel_dim_symbol(tercel_dims *dims, const char *name) {
  tercel_dim found;
  const char *const key = tercel_arena_printf(dims->arena, "s%s", name);
  if (!key) {
    dims->out_of_memory = true;
    return 0;
  }
  if (find(dims, key, strlen(key), &found)) return found;
  return add(dims, &(expr){.kind = TERCEL_DIM_SYMBOL, .weight = 1, .name = key + 1}, key, strlen(key));
}

typedef struct atom_key {
  int64_t kind, a, b;
} atom_key;

tercel_dim tercel_dim_numbered_unknown(tercel_dims *dims, int64_t number) {
  tercel_dim found;
  const atom_key key = {TERCEL_DIM_UNKNOWN, number, 0};
  if (find(dims, &key, sizeof key, &found)) return found;
  return add(dims, &(expr){.kind = TERCEL_DIM_UNKNOWN, .weight = 1, .number = number}, &key, sizeof key);
}

tercel_dim tercel_dim_unknown(tercel_dims *dims) {
  tercel_dim found;
  int64_t number = dims->count;
  while (find(dims, &(atom_key){TERCEL_DIM_UNKNOWN, number, 0}, sizeof(atom_key), &found)) number++;
  return tercel_dim_numbered_unknown(dims, number);
}

bool tercel_dim_is_unknown(const tercel_dims *dims, tercel_dim dim) {
  return !tercel_dim_is_known(dim) && tercel_dim_expr_of(dims, dim)->kind == TERCEL_DIM_UNKNOWN;
}

/* Recursion is as deep as the expression, which its weight bounds. */
uint32_t tercel_dim_count_unknowns(const tercel_dims *dims, tercel_dim dim) {
  if (tercel_dim_is_known(dim)) return 0;
  const expr *const e = tercel_dim_expr_of(dims, dim);
  uint32_t count = 0;
  switch (e->kind) {
  case TERCEL_DIM_SYMBOL: return 0;
  case TERCEL_DIM_UNKNOWN: return 1;
  case TERCEL_DIM_FLOOR_DIV:
  case TERCEL_DIM_MIN:
  case TERCEL_DIM_MAX: return tercel_dim_count_unknowns(dims, e->a) + tercel_dim_count_unknowns(dims, e->b);
  case TERCEL_DIM_SUM: break;
  }
  for (uint32_t i = 0; i < e->num_terms; i++)
    for (uint32_t j = 0; j < e->terms[i].num_factors; j++)
      count += tercel_dim_count_unknowns(dims, tercel_dim_of_index(e->terms[i].factors[j]));
  return count;
}

tercel_dim tercel_dim_better(const tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (tercel_dim_is_known(a) || tercel_dim_is_known(b)) return tercel_dim_is_known(a) ? a : b;
  const uint32_t in_a = tercel_dim_count_unknowns(dims, a), in_b = tercel_dim_count_unknowns(dims, b);
  if (in_a != in_b) return in_a < in_b ? a : b;
  return weight_of(dims, b) < weight_of(dims, a) ? b : a;
}

static tercel_dim atom(tercel_dims *dims, tercel_dim_kind kind, tercel_dim a, tercel_dim b) {
  tercel_dim found;
  const atom_key key = {kind, a, b};
  if (find(dims, &key, sizeof key, &found)) return found;
  const uint32_t weight = 1 + weight_of(dims, a) + weight_of(dims, b);
  if (weight > TERCEL_DIM_MAX_WEIGHT) return tercel_dim_unknown(dims);
  return add(dims, &(expr){.kind = kind, .weight = weight, .a = a, .b = b}, &key, sizeof key);
}

/* ---- order ---- */

static int compare_dims(const tercel_dims *dims, tercel_dim a, tercel_dim b);

static int compare_numbers(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_atoms(const tercel_dims *dims, uint32_t a, uint32_t b) {
  if (a == b) return 0;
  const expr *const x = at(dims, a), *const y = at(dims, b);
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->kind == TERCEL_DIM_SYMBOL) return strcmp(x->name, y->name);
  if (x->kind == TERCEL_DIM_UNKNOWN) return compare_numbers(x->number, y->number);
  const int first = compare_dims(dims, x->a, y->a);
  return first ? first : compare_dims(dims, x->b, y->b);
}

/* Graded lexicographic: more factors first, then the factors in turn. */
static int compare_products(const tercel_dims *dims, const term *a, const term *b) {
  if (a->num_factors != b->num_factors) return a->num_factors > b->num_factors ? -1 : 1;
  for (uint32_t i = 0; i < a->num_factors; i++) {
    const int order = compare_atoms(dims, a->factors[i], b->factors[i]);
    if (order) return order;
  }
  return 0;
}

static void sum_of(const tercel_dims *dims, tercel_dim d, sum *out) {
  clear(out);
  if (tercel_dim_is_known(d)) {
    out->constant = d;
    return;
  }
  const expr *const e = tercel_dim_expr_of(dims, d);
  if (e->kind == TERCEL_DIM_SUM) {
    out->constant = e->number;
    out->num_terms = e->num_terms;
    if (e->num_terms) memcpy(out->terms, e->terms, e->num_terms * sizeof *e->terms);
    return;
  }
  out->num_terms = 1;
  out->terms[0] = (term){.coefficient = 1, .num_factors = 1, .factors = {(uint32_t) - (d + 1)}};
}

static int compare_dims(const tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (a == b) return 0;
  sum x, y;
  sum_of(dims, a, &x);
  sum_of(dims, b, &y);
  for (uint32_t i = 0; i < x.num_terms && i < y.num_terms; i++) {
    const int order = compare_products(dims, &x.terms[i], &y.terms[i]);
    if (order) return order;
    if (x.terms[i].coefficient != y.terms[i].coefficient)
      return compare_numbers(x.terms[i].coefficient, y.terms[i].coefficient);
  }
  if (x.num_terms != y.num_terms) return x.num_terms > y.num_terms ? -1 : 1;
  return compare_numbers(x.constant, y.constant);
}

/* ---- sums ---- */

static bool checked(tercel_dims *dims, bool fits) {
  if (!fits) dims->overflow = true;
  return fits;
}

/* s += coefficient * product, keeping the order. */
static void sum_add_term(tercel_dims *dims, sum *s, const term *product, int64_t coefficient) {
  uint32_t i = 0;
  int order = -1;
  while (i < s->num_terms && (order = compare_products(dims, &s->terms[i], product)) < 0) i++;
  if (i < s->num_terms && order == 0) {
    checked(dims, tercel_add_i64(s->terms[i].coefficient, coefficient, &s->terms[i].coefficient));
    if (s->terms[i].coefficient) return;
    memmove(&s->terms[i], &s->terms[i + 1], (--s->num_terms - i) * sizeof(term));
    return;
  }
  if (s->num_terms == TERCEL_DIM_MAX_TERMS) {
    s->too_large = true;
    return;
  }
  memmove(&s->terms[i + 1], &s->terms[i], (s->num_terms++ - i) * sizeof(term));
  s->terms[i] = *product;
  s->terms[i].coefficient = coefficient;
}

static bool product_of(const tercel_dims *dims, const term *a, const term *b, term *out) {
  *out = (term){0};
  if (a->num_factors + b->num_factors > TERCEL_DIM_MAX_FACTORS) return false;
  uint32_t i = 0, j = 0;
  while (i < a->num_factors || j < b->num_factors) {
    const bool from_a =
        j == b->num_factors || (i < a->num_factors && compare_atoms(dims, a->factors[i], b->factors[j]) <= 0);
    out->factors[out->num_factors++] = from_a ? a->factors[i++] : b->factors[j++];
  }
  return true;
}

/* to += from * factor */
static void sum_add_scaled(tercel_dims *dims, sum *to, const sum *from, const term *factor) {
  int64_t scaled;
  to->too_large |= from->too_large;
  for (uint32_t i = 0; i < from->num_terms; i++) {
    term product;
    if (!checked(dims, tercel_mul_i64(from->terms[i].coefficient, factor->coefficient, &scaled))) return;
    if (product_of(dims, &from->terms[i], factor, &product))
      sum_add_term(dims, to, &product, scaled);
    else
      to->too_large = true;
  }
  if (from->constant == 0 || !checked(dims, tercel_mul_i64(from->constant, factor->coefficient, &scaled))) return;
  if (factor->num_factors)
    sum_add_term(dims, to, factor, scaled);
  else
    checked(dims, tercel_add_i64(to->constant, scaled, &to->constant));
}

/* As atom_key and unlike a symbol's key, it starts with the kind. */
typedef struct sum_key {
  int64_t kind, constant;
  term terms[TERCEL_DIM_MAX_TERMS];
} sum_key;

static tercel_dim intern_sum(tercel_dims *dims, const sum *s) {
  if (s->too_large) return tercel_dim_unknown(dims);
  if (s->num_terms == 0 && s->constant >= 0) return s->constant;
  const term *const first = &s->terms[0];
  if (s->num_terms == 1 && s->constant == 0 && first->coefficient == 1 && first->num_factors == 1)
    return tercel_dim_of_index(first->factors[0]);
  tercel_dim found;
  sum_key key;
  key.kind = TERCEL_DIM_SUM;
  key.constant = s->constant;
  const size_t terms_bytes = s->num_terms * sizeof(term), length = offsetof(sum_key, terms) + terms_bytes;
  memcpy(key.terms, s->terms, terms_bytes);
  if (find(dims, &key, length, &found)) return found;
  uint32_t weight = 1;
  for (uint32_t i = 0; i < s->num_terms; i++)
    for (uint32_t j = 0; j < s->terms[i].num_factors; j++) weight += at(dims, s->terms[i].factors[j])->weight;
  if (weight > TERCEL_DIM_MAX_WEIGHT) return tercel_dim_unknown(dims);
  expr made = {.kind = TERCEL_DIM_SUM, .weight = weight, .number = s->constant, .num_terms = s->num_terms};
  made.terms = tercel_arena_copy(dims->arena, s->terms, terms_bytes);
  if (made.terms) return add(dims, &made, &key, length);
  dims->out_of_memory = true;
  return 0;
}

/* ---- arithmetic ---- */

tercel_dim tercel_dim_constant(tercel_dims *dims, int64_t value) {
  if (value >= 0) return value;
  sum s;
  clear(&s);
  s.constant = value;
  return intern_sum(dims, &s);
}

bool tercel_dim_get_number(const tercel_dims *dims, tercel_dim dim, int64_t *out) {
  if (!tercel_dim_is_known(dim)) {
    const expr *const e = tercel_dim_expr_of(dims, dim);
    if (e->kind != TERCEL_DIM_SUM || e->num_terms) return false;
    *out = e->number;
    return true;
  }
  *out = dim;
  return true;
}

/* a + b * factor */
static tercel_dim add_scaled(tercel_dims *dims, tercel_dim a, tercel_dim b, int64_t factor) {
  sum left, right;
  sum_of(dims, a, &left);
  sum_of(dims, b, &right);
  sum_add_scaled(dims, &left, &right, &(term){.coefficient = factor});
  return intern_sum(dims, &left);
}

tercel_dim tercel_dim_add(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  int64_t result;
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b) && tercel_add_i64(a, b, &result)) return result;
  return add_scaled(dims, a, b, 1);
}

tercel_dim tercel_dim_sub(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b) && a >= b) return a - b;
  return add_scaled(dims, a, b, -1);
}

tercel_dim tercel_dim_mul(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  int64_t number;
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b))
    return checked(dims, tercel_mul_i64(a, b, &number)) ? number : 0;
  sum left, right, result;
  sum_of(dims, a, &left);
  sum_of(dims, b, &right);
  clear(&result);
  for (uint32_t i = 0; i < right.num_terms; i++) sum_add_scaled(dims, &result, &left, &right.terms[i]);
  if (right.constant) sum_add_scaled(dims, &result, &left, &(term){.coefficient = right.constant});
  return intern_sum(dims, &result);
}

/* ---- division ---- */

/* a's product divided by b's; false when it does not go. */
static bool quotient_of(const term *a, const term *b, term *out) {
  *out = (term){0};
  uint32_t j = 0;
  for (uint32_t i = 0; i < a->num_factors; i++) {
    if (j < b->num_factors && a->factors[i] == b->factors[j])
      j++;
    else
      out->factors[out->num_factors++] = a->factors[i];
  }
  if (j < b->num_factors || a->coefficient % b->coefficient != 0) return false;
  out->coefficient = a->coefficient / b->coefficient;
  return true;
}

/* The constant counts as a last term. */
static term leading_term(const sum *s) { return s->num_terms ? s->terms[0] : (term){.coefficient = s->constant}; }

/* a / b where b divides a as a polynomial: long division by leading terms.  At most as many steps as a quotient has
 * terms. */
static bool divide_exactly(tercel_dims *dims, tercel_dim a, tercel_dim b, tercel_dim *out) {
  sum rest, divisor, quotient;
  sum_of(dims, a, &rest);
  sum_of(dims, b, &divisor);
  clear(&quotient);
  const term by = leading_term(&divisor);
  for (int step = 0; rest.num_terms || rest.constant; step++) {
    term part;
    const term lead = leading_term(&rest);
    if (step > TERCEL_DIM_MAX_TERMS || lead.coefficient == INT64_MIN || !quotient_of(&lead, &by, &part)) return false;
    if (part.num_factors)
      sum_add_term(dims, &quotient, &part, part.coefficient);
    else
      quotient.constant = part.coefficient;
    part.coefficient = -part.coefficient;
    sum_add_scaled(dims, &rest, &divisor, &part);
    if (rest.too_large || quotient.too_large) return false;
  }
  *out = intern_sum(dims, &quotient);
  return true;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

static tercel_dim floor_div_number(tercel_dims *dims, tercel_dim a, int64_t n);

/* floor((floor(x / m) + c) / n) = floor((x + m c) / (m n)) for a number m; false when s has another form. */
static bool merge_floor_div(tercel_dims *dims, const sum *s, int64_t n, tercel_dim *out) {
  const term *const only = &s->terms[0];
  if (s->num_terms != 1 || only->num_factors != 1 || only->coefficient != 1) return false;
  const expr inner = *at(dims, only->factors[0]);
  int64_t product, added;
  if (inner.kind != TERCEL_DIM_FLOOR_DIV || !tercel_dim_is_known(inner.b) || !tercel_mul_i64(inner.b, n, &product) ||
      !tercel_mul_i64(inner.b, s->constant, &added))
    return false;
  *out = floor_div_number(dims, tercel_dim_add(dims, inner.a, tercel_dim_constant(dims, added)), product);
  return true;
}

/* floor(a / n), n > 1: what n divides comes out, common divisors are cancelled, a quotient inside is merged:
 *     floor((n q + r) / n) = q + floor(r / n)      floor((g a + c) / (g n)) = floor((a + floor(c / g)) / n) */
static tercel_dim floor_div_number(tercel_dims *dims, tercel_dim a, int64_t n) {
  sum s, whole, rest;
  sum_of(dims, a, &s);
  clear(&whole);
  clear(&rest);
  int64_t common = n;
  for (uint32_t i = 0; i < s.num_terms; i++) {
    const bool divides = s.terms[i].coefficient % n == 0;
    sum_add_term(dims, divides ? &whole : &rest, &s.terms[i],
                 divides ? s.terms[i].coefficient / n : s.terms[i].coefficient);
    if (!divides) common = greatest_common_divisor(common, s.terms[i].coefficient);
  }
  whole.constant = tercel_floor_div(s.constant, n);
  rest.constant = s.constant - n * whole.constant;
  if (rest.num_terms == 0) return intern_sum(dims, &whole);
  for (uint32_t i = 0; i < rest.num_terms; i++) rest.terms[i].coefficient /= common;
  rest.constant /= common;
  n /= common;
  const tercel_dim whole_dim = intern_sum(dims, &whole);
  tercel_dim merged;
  if (merge_floor_div(dims, &rest, n, &merged)) return tercel_dim_add(dims, whole_dim, merged);
  const tercel_dim quotient = atom(dims, TERCEL_DIM_FLOOR_DIV, intern_sum(dims, &rest), n);
  return tercel_dim_add(dims, whole_dim, quotient);
}

tercel_dim tercel_dim_floor_div(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  int64_t n;
  tercel_dim exact;
  if (tercel_dim_get_number(dims, b, &n)) {
    if (n == 0) return 0;
    if (n == 1) return a;
    if (n == INT64_MIN) return tercel_dim_unknown(dims);
    if (n < 0) return tercel_dim_floor_div(dims, tercel_dim_sub(dims, 0, a), -n);
    return tercel_dim_is_known(a) ? a / n : floor_div_number(dims, a, n);
  }
  if (divide_exactly(dims, a, b, &exact)) return exact;
  return atom(dims, TERCEL_DIM_FLOOR_DIV, a, b);
}

tercel_dim tercel_dim_ceil_div(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b)) return b == 0 ? 0 : tercel_ceil_div(a, b);
  if (b > 0) return tercel_dim_floor_div(dims, tercel_dim_add(dims, a, b - 1), b);
  return tercel_dim_sub(dims, 0, tercel_dim_floor_div(dims, tercel_dim_sub(dims, 0, a), b));
}

tercel_dim tercel_dim_mod(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b)) return b == 0 ? 0 : a % b;
  if (b == 0) return 0;
  return tercel_dim_sub(dims, a, tercel_dim_mul(dims, b, tercel_dim_floor_div(dims, a, b)));
}

/* ---- order of values ---- */

/* A number that the dim is never below; false when there is none to be seen. */
static bool lower_bound(const tercel_dims *dims, tercel_dim d, int64_t *out) {
  if (tercel_dim_is_known(d)) {
    *out = d;
    return true;
  }
  const expr *const e = tercel_dim_expr_of(dims, d);
  int64_t a, b;
  switch (e->kind) {
  case TERCEL_DIM_SYMBOL: *out = 0; return true;
  case TERCEL_DIM_UNKNOWN: return false;
  case TERCEL_DIM_FLOOR_DIV:
    if (!tercel_dim_is_known(e->b) || !lower_bound(dims, e->a, &a)) return false;
    *out = tercel_floor_div(a, e->b);
    return true;
  case TERCEL_DIM_MIN:
    if (!lower_bound(dims, e->a, &a) || !lower_bound(dims, e->b, &b)) return false;
    *out = tercel_min_i64(a, b);
    return true;
  case TERCEL_DIM_MAX: {
    const bool has_a = lower_bound(dims, e->a, &a), has_b = lower_bound(dims, e->b, &b);
    *out = !has_b ? a : !has_a ? b : tercel_max_i64(a, b);
    return has_a || has_b;
  }
  case TERCEL_DIM_SUM: break;
  }
  *out = e->number;
  for (uint32_t i = 0; i < e->num_terms; i++) {
    const term *const t = &e->terms[i];
    int64_t product = t->coefficient, factor;
    if (product < 0) return false;
    for (uint32_t j = 0; j < t->num_factors; j++)
      if (!lower_bound(dims, tercel_dim_of_index(t->factors[j]), &factor) || factor < 0 ||
          !tercel_mul_i64(product, factor, &product))
        return false;
    if (!tercel_add_i64(*out, product, out)) return false;
  }
  return true;
}

/* a >= b whatever the symbols are, as far as can be seen */
static bool is_never_less(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  int64_t least, number;
  const bool b_is_number = tercel_dim_get_number(dims, b, &number);
  if (b_is_number && lower_bound(dims, a, &least)) return least >= number;
  const bool overflow_before = dims->overflow; /* of a difference that nobody asked for: no error */
  dims->overflow = false;
  const tercel_dim difference = tercel_dim_sub(dims, a, b);
  const bool result = !dims->overflow && lower_bound(dims, difference, &least) && least >= 0;
  dims->overflow = overflow_before;
  return result;
}

static bool contains(const tercel_dims *dims, tercel_dim_kind kind, tercel_dim d, tercel_dim part) {
  if (tercel_dim_is_known(d)) return false;
  const expr *const e = tercel_dim_expr_of(dims, d);
  return e->kind == kind && (e->a == part || e->b == part);
}

static tercel_dim extreme(tercel_dims *dims, tercel_dim_kind kind, tercel_dim a, tercel_dim b) {
  if (is_never_less(dims, a, b)) return kind == TERCEL_DIM_MAX ? a : b;
  if (is_never_less(dims, b, a)) return kind == TERCEL_DIM_MAX ? b : a;
  const tercel_dim_kind other = kind == TERCEL_DIM_MAX ? TERCEL_DIM_MIN : TERCEL_DIM_MAX;
  if (contains(dims, kind, a, b) || contains(dims, other, b, a)) return a; /* max(a, min(a, b)) = a */
  if (contains(dims, kind, b, a) || contains(dims, other, a, b)) return b;
  return compare_dims(dims, a, b) < 0 ? atom(dims, kind, a, b) : atom(dims, kind, b, a);
}

tercel_dim tercel_dim_min(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b)) return tercel_min_i64(a, b);
  return extreme(dims, TERCEL_DIM_MIN, a, b);
}

tercel_dim tercel_dim_max(tercel_dims *dims, tercel_dim a, tercel_dim b) {
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b)) return tercel_max_i64(a, b);
  return extreme(dims, TERCEL_DIM_MAX, a, b);
}

bool tercel_dim_broadcast(tercel_dims *dims, tercel_dim a, tercel_dim b, tercel_dim *out) {
  if (tercel_dim_is_known(a) && tercel_dim_is_known(b) && a != b && a != 1 && b != 1) return false;
  if (a == b || b == 1)
    *out = a;
  else if (a == 1 || tercel_dim_is_known(b))
    *out = b;
  else
    *out = tercel_dim_is_known(a) ? a : tercel_dim_max(dims, a, b);
  return true;
}
