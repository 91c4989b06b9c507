/* Dims as text, and carried from one table into another.
 *
 *     sum     = ["-"] product {("+" | "-") product}
 *     product = factor {"*" factor}
 *     factor  = number | symbol | quoted symbol | "?" number | function "(" sum "," sum ")"
 *     functions: floor_div, min, max */
#include <stdio.h>
#include <string.h>

#include "ir/dim.h"
#include "ir/dim_expr.h"
#include "ir/name.h"

typedef struct tercel_dim_expr expr;
typedef tercel_dim (*operator_fn)(tercel_dims *dims, tercel_dim a, tercel_dim b);

typedef struct function {
  const char *name;
  tercel_dim_kind kind;
  operator_fn apply;
} function;

static const function functions[] = {
    {"floor_div", TERCEL_DIM_FLOOR_DIV, tercel_dim_floor_div},
    {"min", TERCEL_DIM_MIN, tercel_dim_min},
    {"max", TERCEL_DIM_MAX, tercel_dim_max},
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions, MAX_DEPTH = 32 };

static const function *function_named(const char *name, size_t length) {
  for (int i = 0; i < NUM_FUNCTIONS; i++)
    if (strlen(functions[i].name) == length && memcmp(functions[i].name, name, length) == 0) return &functions[i];
  return NULL;
}

static const function *function_of(tercel_dim_kind kind) {
  for (int i = 0; i < NUM_FUNCTIONS; i++)
    if (functions[i].kind == kind) return &functions[i];
  return NULL;
}

/* ---- print ---- */

static void print_atom(const tercel_dims *dims, const expr *e, tercel_text *out) {
  if (e->kind == TERCEL_DIM_UNKNOWN) {
    tercel_text_add(out, "?%lld", (long long)e->number);
  } else if (e->kind != TERCEL_DIM_SYMBOL) {
    tercel_text_add(out, "%s(", function_of(e->kind)->name);
    tercel_dim_print(dims, e->a, out);
    tercel_text_add(out, ", ");
    tercel_dim_print(dims, e->b, out);
    tercel_text_add(out, ")");
  } else if (function_named(e->name, strlen(e->name))) {
    tercel_text_add_json(out, e->name, strlen(e->name));
  } else {
    tercel_name_print(e->name, ".", out);
  }
}

static void print_term(const tercel_dims *dims, const tercel_dim_term *t, bool first, tercel_text *out) {
  const bool negative = t->coefficient < 0;
  const unsigned long long magnitude =
      negative ? 0 - (unsigned long long)t->coefficient : (unsigned long long)t->coefficient;
  tercel_text_add(out, first ? (negative ? "-" : "") : (negative ? " - " : " + "));
  if (magnitude != 1) tercel_text_add(out, "%llu*", magnitude);
  for (uint32_t i = 0; i < t->num_factors; i++) {
    if (i) tercel_text_add(out, "*");
    print_atom(dims, &dims->exprs[t->factors[i]], out);
  }
}

void tercel_dim_print(const tercel_dims *dims, tercel_dim dim, tercel_text *out) {
  if (tercel_dim_is_known(dim)) {
    tercel_text_add(out, "%lld", (long long)dim);
    return;
  }
  const expr *const e = tercel_dim_expr_of(dims, dim);
  if (e->kind != TERCEL_DIM_SUM) {
    print_atom(dims, e, out);
    return;
  }
  for (uint32_t i = 0; i < e->num_terms; i++) print_term(dims, &e->terms[i], i == 0, out);
  if (e->num_terms == 0)
    tercel_text_add(out, "%lld", (long long)e->number);
  else if (e->number)
    tercel_text_add(out, e->number < 0 ? " - %llu" : " + %llu",
                    e->number < 0 ? 0 - (unsigned long long)e->number : (unsigned long long)e->number);
}

void tercel_shape_print(const tercel_dims *dims, const tercel_shape *shape, tercel_text *out) {
  tercel_text_add(out, shape->rank < 0 ? "[*" : "[");
  for (int i = 0; i < shape->rank; i++) {
    if (i) tercel_text_add(out, ", ");
    tercel_dim_print(dims, shape->dims[i], out);
  }
  tercel_text_add(out, "]");
}

/* ---- parse ---- */

typedef struct reader {
  tercel_dims *dims;
  const char *at, *end;
  int depth;
} reader;

static bool read_sum(reader *r, tercel_dim *out);

/* Moves behind c and the spaces before it, if it comes next. */
static bool take(reader *r, char c) {
  const char *at = r->at;
  while (at != r->end && (*at == ' ' || *at == '\n')) at++;
  if (at == r->end || *at != c) return false;
  r->at = at + 1;
  return true;
}

static bool read_number(reader *r, int64_t *out) {
  const char *const start = r->at;
  while (r->at != r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return tercel_parse_i64(start, (size_t)(r->at - start), out);
}

static bool read_quoted_symbol(reader *r, tercel_dim *out) {
  tercel_text name = {0};
  const bool ok = tercel_name_read_quoted(&r->at, r->end, &name) == TERCEL_NAME_OK;
  if (ok) *out = tercel_dim_symbol(r->dims, name.data);
  tercel_text_deinit(&name);
  return ok;
}

static bool read_call(reader *r, const function *f, tercel_dim *out) {
  tercel_dim a, b;
  if (++r->depth > MAX_DEPTH) return false;
  if (!read_sum(r, &a) || !take(r, ',') || !read_sum(r, &b) || !take(r, ')')) return false;
  r->depth--;
  *out = f->apply(r->dims, a, b);
  return true;
}

static bool read_symbol(reader *r, tercel_dim *out) {
  const char *const start = r->at;
  if (tercel_name_read_bare(&r->at, r->end, ".") != TERCEL_NAME_OK) return false;
  const size_t length = (size_t)(r->at - start);
  const function *const f = function_named(start, length);
  if (f) return take(r, '(') && read_call(r, f, out);
  char *const name = tercel_arena_strndup(r->dims->arena, start, length);
  if (!name) r->dims->out_of_memory = true;
  *out = name ? tercel_dim_symbol(r->dims, name) : 0;
  return true;
}

static bool read_factor(reader *r, tercel_dim *out) {
  while (r->at != r->end && *r->at == ' ') r->at++;
  if (r->at == r->end) return false;
  if (*r->at >= '0' && *r->at <= '9') return read_number(r, out);
  if (*r->at == '"') return read_quoted_symbol(r, out);
  if (*r->at != '?') return read_symbol(r, out);
  int64_t number;
  r->at++;
  if (!read_number(r, &number)) return false;
  *out = tercel_dim_numbered_unknown(r->dims, number);
  return true;
}

static bool read_product(reader *r, tercel_dim *out) {
  tercel_dim factor;
  if (!read_factor(r, out)) return false;
  while (take(r, '*')) {
    if (!read_factor(r, &factor)) return false;
    *out = tercel_dim_mul(r->dims, *out, factor);
  }
  return true;
}

static bool read_sum(reader *r, tercel_dim *out) {
  *out = 0;
  bool minus = take(r, '-');
  do {
    tercel_dim product;
    if (!read_product(r, &product)) return false;
    *out = minus ? tercel_dim_sub(r->dims, *out, product) : tercel_dim_add(r->dims, *out, product);
    minus = take(r, '-');
  } while (minus || take(r, '+'));
  return true;
}

bool tercel_dim_parse(tercel_dims *dims, const char **text, const char *end, tercel_dim *out) {
  reader r = {.dims = dims, .at = *text, .end = end};
  const bool ok = read_sum(&r, out);
  *text = r.at;
  return ok;
}

/* ---- translate ---- */

static tercel_dim translate_unknown(int64_t number, tercel_dims *to, tercel_dim_value_of value_of, void *user) {
  char name[24]; /* as it is printed */
  int64_t value;
  snprintf(name, sizeof name, "?%lld", (long long)number);
  return value_of && value_of(user, name, &value) ? tercel_dim_constant(to, value)
                                                  : tercel_dim_numbered_unknown(to, number);
}

static tercel_dim translate_atom(const tercel_dims *from, const expr *e, tercel_dims *to, tercel_dim_value_of value_of,
                                 void *user) {
  int64_t number;
  if (e->kind == TERCEL_DIM_SYMBOL)
    return value_of && value_of(user, e->name, &number) ? tercel_dim_constant(to, number)
                                                        : tercel_dim_symbol(to, e->name);
  if (e->kind == TERCEL_DIM_UNKNOWN) return translate_unknown(e->number, to, value_of, user);
  const tercel_dim a = tercel_dim_translate(from, e->a, to, value_of, user);
  const tercel_dim b = tercel_dim_translate(from, e->b, to, value_of, user);
  return function_of(e->kind)->apply(to, a, b);
}

tercel_dim tercel_dim_translate(const tercel_dims *from, tercel_dim dim, tercel_dims *to, tercel_dim_value_of value_of,
                                void *user) {
  if (tercel_dim_is_known(dim)) return dim;
  const expr e = *tercel_dim_expr_of(from, dim); /* a copy: `from` may be `to`, whose table grows */
  if (e.kind != TERCEL_DIM_SUM) return translate_atom(from, &e, to, value_of, user);
  tercel_dim result = tercel_dim_constant(to, e.number);
  for (uint32_t i = 0; i < e.num_terms; i++) {
    tercel_dim product = tercel_dim_constant(to, e.terms[i].coefficient);
    for (uint32_t j = 0; j < e.terms[i].num_factors; j++) {
      const expr factor = from->exprs[e.terms[i].factors[j]];
      product = tercel_dim_mul(to, product, translate_atom(from, &factor, to, value_of, user));
    }
    result = tercel_dim_add(to, result, product);
  }
  return result;
}
