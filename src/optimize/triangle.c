/* Triangles: values whose last two dims hold one number up to a diagonal and another one beyond it, as masks of causal order do. */
#include <math.h>

#include "optimize/attention.h"

enum { MAX_DEPTH = 12, MAX_CONSTANT_ELEMENTS = 1 << 24 };

/* ---- constants ---- */

static bool is_number(tercel_dtype dtype) {
  return tercel_dtype_is_float(dtype) || tercel_dtype_is_integer(dtype) || dtype == TERCEL_DTYPE_BOOL;
}

static bool leads_with_ones(const tercel_shape *shape, int last) {
  for (int i = 0; i < shape->rank - last; i++)
    if (shape->dims[i] != 1) return false;
  return shape->rank >= last;
}

static bool match_constant(const tercel_tensor *t, tercel_triangle *out) {
  const int64_t count = tercel_tensor_num_elements(t);
  if (t->rank < 2 || count == 0 || count > MAX_CONSTANT_ELEMENTS) return false;
  const int64_t columns = t->dims[t->rank - 1], rows = t->dims[t->rank - 2];
  if (rows * columns != count) return false;
  if (!is_number(t->dtype)) return false;
  *out = (tercel_triangle){.inside = tercel_tensor_get_f64(t, 0), .outside = tercel_tensor_get_f64(t, columns - 1)};
  int64_t diagonal = 0;
  while (diagonal < columns && tercel_tensor_get_f64(t, diagonal) == out->inside) diagonal++;
  if (diagonal == columns) return false; /* nothing is beyond it in the first row: no triangle, or none to be seen */
  out->offset = diagonal - 1;
  for (int64_t k = 0; k < count; k++) {
    const bool is_inside = k % columns <= k / columns + out->offset;
    if (tercel_tensor_get_f64(t, k) != (is_inside ? out->inside : out->outside)) return false;
  }
  return true;
}

/* ---- positions ---- */

/* Numbers that count along one of the last two dims: place + offset (+ the number in `start`). */
typedef struct positions {
  bool is_row; /* of the place: a row's, or a column's */
  int64_t offset;
  tercel_value *start;
} positions;

static bool has_one_element(const tercel_value *value) {
  for (int i = 0; i < value->type.shape.rank; i++)
    if (value->type.shape.dims[i] != 1) return false;
  return value->type.shape.rank >= 0;
}

static bool match_constant_run(const tercel_tensor *t, int64_t *first) {
  const int64_t count = tercel_tensor_num_elements(t);
  if (!tercel_dtype_is_integer(t->dtype) || count < 2) return false;
  *first = tercel_tensor_get_i64(t, 0);
  for (int64_t k = 1; k < count; k++)
    if (tercel_tensor_get_i64(t, k) != *first + k) return false;
  return true;
}

static bool match_range(const tercel_node *range, positions *out) {
  double start, delta;
  if (!tercel_scalar(range->inputs[2], &delta) || delta != 1) return false;
  if (tercel_scalar(range->inputs[0], &start))
    out->offset += (int64_t)start;
  else if (out->start)
    return false;
  else
    out->start = range->inputs[0];
  return true;
}

/* value counts up: a range or a constant of one dim, viewed, cast, with numbers added. */
static bool match_count(const tercel_value *value, int depth, positions *out) {
  double number;
  int64_t first;
  if (depth == MAX_DEPTH || !tercel_dtype_is_integer(value->type.dtype)) return false;
  if (value->constant) {
    if (!match_constant_run(value->constant, &first)) return false;
    out->offset += first;
    return true;
  }
  const tercel_node *const node = value->producer;
  if (tercel_is(node, TERCEL_OP_RANGE)) return match_range(node, out);
  if (!node || !node->inputs[0]) return false;
  if (node->op->flags & TERCEL_OP_VIEW || tercel_single_fn(node) == TERCEL_FN_CAST)
    return match_count(node->inputs[0], depth + 1, out);
  if (tercel_single_fn(node) != TERCEL_FN_ADD) return false;
  for (uint32_t side = 0; side < 2; side++) {
    tercel_value *const other = node->inputs[1 - side];
    if (!has_one_element(other)) continue;
    if (tercel_scalar(other, &number))
      out->offset += (int64_t)number;
    else if (out->start)
      return false;
    else
      out->start = other;
    return match_count(node->inputs[side], depth + 1, out);
  }
  return false;
}

static bool match_positions(const tercel_value *value, positions *out) {
  const tercel_shape *const shape = &value->type.shape;
  *out = (positions){.is_row = shape->rank >= 2 && shape->dims[shape->rank - 1] == 1};
  const int along = out->is_row ? shape->rank - 2 : shape->rank - 1;
  for (int i = 0; i < shape->rank; i++)
    if (i != along && shape->dims[i] != 1) return false;
  return shape->rank >= 1 && match_count(value, 0, out);
}

/* A comparison of places: brought into the form column <= row + offset. */
static bool match_comparison(const tercel_node *node, tercel_triangle *out) {
  positions left, right;
  tercel_fn fn = tercel_single_fn(node);
  if (fn != TERCEL_FN_LESS && fn != TERCEL_FN_LESS_EQUAL && fn != TERCEL_FN_GREATER && fn != TERCEL_FN_GREATER_EQUAL)
    return false;
  if (!match_positions(node->inputs[0], &left) || !match_positions(node->inputs[1], &right)) return false;
  if (left.is_row == right.is_row) return false;
  const positions *const row = left.is_row ? &left : &right, *const column = left.is_row ? &right : &left;
  if (column->start) return false;
  if (left.is_row) { /* row > column is column < row */
    static const struct {
      tercel_fn is, mirrored;
    } pairs[] = {{TERCEL_FN_LESS, TERCEL_FN_GREATER},
                 {TERCEL_FN_LESS_EQUAL, TERCEL_FN_GREATER_EQUAL},
                 {TERCEL_FN_GREATER, TERCEL_FN_LESS},
                 {TERCEL_FN_GREATER_EQUAL, TERCEL_FN_LESS_EQUAL}};
    size_t i = 0;
    while (pairs[i].is != fn) i++;
    fn = pairs[i].mirrored;
  }
  const bool is_less = fn == TERCEL_FN_LESS || fn == TERCEL_FN_LESS_EQUAL;
  const bool is_strict = fn == TERCEL_FN_LESS || fn == TERCEL_FN_GREATER_EQUAL; /* not (c >= r): c < r */
  *out = (tercel_triangle){.inside = is_less,
                           .outside = !is_less,
                           .offset = row->offset - column->offset - is_strict,
                           .offset_value = row->start};
  return true;
}

/* ---- triangles ---- */

/* The one number that all elements are. */
static bool match_uniform(const tercel_value *value, double *out) {
  const tercel_tensor *const t = value->constant;
  if (!t) {
    const tercel_node *const node = value->producer;
    if (!node || !(tercel_is(node, TERCEL_OP_EXPAND) || node->op->flags & TERCEL_OP_VIEW)) return false;
    return match_uniform(node->inputs[0], out);
  }
  const int64_t count = tercel_tensor_num_elements(t);
  if (count == 0 || count > MAX_CONSTANT_ELEMENTS || !is_number(t->dtype)) return false;
  *out = tercel_tensor_get_f64(t, 0);
  for (int64_t k = 1; k < count; k++)
    if (tercel_tensor_get_f64(t, k) != *out) return false;
  return true;
}

static bool match_trilu(const tercel_node *node, tercel_triangle *out) {
  const tercel_value *const k = tercel_node_input(node, 1);
  double number, diagonal = 0;
  if (k && !tercel_scalar(k, &diagonal)) return false;
  const bool upper = tercel_node_int(node, "upper") != 0;
  if (!match_uniform(node->inputs[0], &number)) return false;
  *out = (tercel_triangle){
      .inside = upper ? 0 : number, .outside = upper ? number : 0, .offset = (int64_t)diagonal - (upper ? 1 : 0)};
  return true;
}

static bool match(const tercel_value *value, int depth, tercel_triangle *out);

static double apply(tercel_fn fn, double a, double b) {
  switch (fn) {
  case TERCEL_FN_ADD: return a + b;
  case TERCEL_FN_SUB: return a - b;
  case TERCEL_FN_MUL: return a * b;
  default: return a == b;
  }
}

/* Sums, differences, products and comparisons with one number. */
static bool match_with_number(const tercel_node *node, int depth, tercel_triangle *out) {
  const tercel_fn fn = tercel_single_fn(node);
  double number;
  if (fn != TERCEL_FN_ADD && fn != TERCEL_FN_SUB && fn != TERCEL_FN_MUL && fn != TERCEL_FN_EQUAL) return false;
  for (uint32_t side = 0; side < 2; side++) {
    if (!match_uniform(node->inputs[1 - side], &number) || !match(node->inputs[side], depth + 1, out)) continue;
    double *const numbers[] = {&out->inside, &out->outside};
    for (int i = 0; i < 2; i++) *numbers[i] = side ? apply(fn, number, *numbers[i]) : apply(fn, *numbers[i], number);
    return true;
  }
  return false;
}

static bool match_select(const tercel_node *node, int depth, tercel_triangle *out) {
  double yes, no;
  if (tercel_single_fn(node) != TERCEL_FN_SELECT || !match_uniform(node->inputs[1], &yes) ||
      !match_uniform(node->inputs[2], &no) || !match(node->inputs[0], depth + 1, out))
    return false;
  out->inside = out->inside != 0 ? yes : no;
  out->outside = out->outside != 0 ? yes : no;
  return true;
}

/* Views and repetitions of the dims before the last two. */
static bool keeps_last_two(const tercel_node *node) {
  const tercel_shape *const from = &node->inputs[0]->type.shape, *const to = &node->outputs[0]->type.shape;
  if (!(node->op->flags & TERCEL_OP_VIEW) && !tercel_is(node, TERCEL_OP_EXPAND)) return false;
  return from->rank >= 2 && to->rank >= 2 && from->dims[from->rank - 1] == to->dims[to->rank - 1] &&
         from->dims[from->rank - 2] == to->dims[to->rank - 2];
}

static bool match(const tercel_value *value, int depth, tercel_triangle *out) {
  if (depth == MAX_DEPTH) return false;
  if (value->constant) return match_constant(value->constant, out);
  const tercel_node *const node = value->producer;
  if (!node || !node->inputs[0] || !node->outputs[0]) return false;
  if (tercel_is(node, TERCEL_OP_TRILU)) return match_trilu(node, out);
  if (keeps_last_two(node)) return match(node->inputs[0], depth + 1, out);
  const tercel_fn fn = tercel_single_fn(node);
  if (fn == TERCEL_FN_CAST) {
    if (!match(node->inputs[0], depth + 1, out)) return false;
    const bool to_bool = value->type.dtype == TERCEL_DTYPE_BOOL;
    if (to_bool) out->inside = out->inside != 0;
    if (to_bool) out->outside = out->outside != 0;
    const tercel_dtype from = node->inputs[0]->type.dtype, to = value->type.dtype;
    return to_bool || to == TERCEL_DTYPE_F32 || (tercel_dtype_is_integer(to) && !tercel_dtype_is_float(from));
  }
  if (fn == TERCEL_FN_NOT) {
    if (!match(node->inputs[0], depth + 1, out)) return false;
    out->inside = out->inside == 0;
    out->outside = out->outside == 0;
    return true;
  }
  return match_comparison(node, out) || match_select(node, depth, out) || match_with_number(node, depth, out);
}

bool tercel_match_triangle(const tercel_value *value, tercel_triangle *out) {
  return leads_with_ones(&value->type.shape, 2) && match(value, 0, out);
}
