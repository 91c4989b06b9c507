/* unique: the different elements of a tensor, or the different slices along an axis. */
#include "ops/move.h"

#include <math.h>
#include <string.h>

/* ---- inference ----------------------------------------------------------------------------------------------------- */

enum { VALUES, FIRST, INVERSE, COUNTS };

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[0]->type;
  infer->out[VALUES].type.dtype = x->dtype;
  const tercel_dim found = tercel_dim_unknown(infer->dims);
  for (size_t i = FIRST; i < infer->num_outputs; ++i) {
    infer->out[i].type.dtype = TERCEL_DTYPE_I64;
    infer->out[i].type.shape = (tercel_shape){1, {i == INVERSE ? tercel_dim_unknown(infer->dims) : found}};
  }
  if (x->shape.rank < 0) return TERCEL_OK;
  const bool flat = tercel_node_attr(infer->node, "axis") == NULL;
  int axis = 0;
  if (!flat) TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), x->shape.rank, &axis, err));
  tercel_shape *out = &infer->out[VALUES].type.shape;
  *out = flat ? (tercel_shape){.rank = 1} : x->shape;
  const tercel_dim size = flat ? tercel_shape_num_elements(infer->dims, &x->shape) : x->shape.dims[axis];
  out->dims[axis] = found;
  if (infer->num_outputs > INVERSE) infer->out[INVERSE].type.shape.dims[0] = size;
  return TERCEL_OK;
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

static int compare_f64(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) - isnan(b); /* NaNs are one, behind all numbers */
  return (a > b) - (a < b);
}

static int compare_strings(const tercel_string *a, const tercel_string *b) {
  const size_t n = a->length < b->length ? a->length : b->length;
  const int order = n > 0 ? memcmp(a->data, b->data, n) : 0;
  return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_elements(const tercel_tensor *x, int64_t a, int64_t b) {
  switch (tercel_dtype_get_kind(x->dtype)) {
  case TERCEL_KIND_FLOAT: return compare_f64(tercel_tensor_get_f64(x, a), tercel_tensor_get_f64(x, b));
  case TERCEL_KIND_STRING:
    return compare_strings((const tercel_string *)x->data + a, (const tercel_string *)x->data + b);
  case TERCEL_KIND_COMPLEX: {
    const tercel_dtype part = x->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
    const int order =
        compare_f64(tercel_element_get_f64(x->data, part, 2 * a), tercel_element_get_f64(x->data, part, 2 * b));
    return order != 0 ? order
                      : compare_f64(tercel_element_get_f64(x->data, part, 2 * a + 1),
                                    tercel_element_get_f64(x->data, part, 2 * b + 1));
  }
  case TERCEL_KIND_UINT: {
    const uint64_t va = (uint64_t)tercel_tensor_get_i64(x, a), vb = (uint64_t)tercel_tensor_get_i64(x, b);
    return (va > vb) - (va < vb);
  }
  default: {
    const int64_t va = tercel_tensor_get_i64(x, a), vb = tercel_tensor_get_i64(x, b);
    return (va > vb) - (va < vb);
  }
  }
}

/* x as outer x n x inner: slice k holds the elements (o, k, i) of all o and i. */
typedef struct slices {
  const tercel_tensor *x;
  int64_t outer, n, inner;
} slices;

static int compare_slices(const slices *s, int64_t a, int64_t b) {
  for (int64_t o = 0; o < s->outer; ++o)
    for (int64_t i = 0; i < s->inner; ++i) {
      const int order = compare_elements(s->x, (o * s->n + a) * s->inner + i, (o * s->n + b) * s->inner + i);
      if (order != 0) return order;
    }
  return 0;
}

/* Merges order[0, middle) and order[middle, n), each sorted; of equal ones the left stays first. */
static void merge(const slices *s, int64_t *order, int64_t middle, int64_t n, int64_t *work) {
  memcpy(work, order, (size_t)n * sizeof *order);
  int64_t left = 0, right = middle;
  for (int64_t i = 0; i < n; ++i) {
    const bool take_left = right == n || (left < middle && compare_slices(s, work[left], work[right]) <= 0);
    order[i] = take_left ? work[left++] : work[right++];
  }
}

static void sort(const slices *s, int64_t *order, int64_t n, int64_t *work) {
  if (n < 2) return;
  sort(s, order, n / 2, work);
  sort(s, order + n / 2, n - n / 2, work);
  merge(s, order, n / 2, n, work);
}

/* ---- reference ----------------------------------------------------------------------------------------------------- */

/* group[k]: which of the `count` different slices slice k is; first[g], size[g]: where it stands first, and how often. */
typedef struct groups {
  int64_t count;
  int64_t *group, *first, *size;
} groups;

static tercel_status find_groups(tercel_eval *eval, const slices *s, groups *out, tercel_error *err) {
  int64_t *memory = tercel_arena_alloc_array(eval->scratch, 5 * (size_t)s->n, sizeof *memory);
  if (memory == NULL) return tercel_fail_memory(err, 5 * (size_t)s->n * sizeof *memory, "unique");
  int64_t *order = memory, *work = memory + s->n;
  *out = (groups){0, memory + 2 * s->n, memory + 3 * s->n, memory + 4 * s->n};
  for (int64_t k = 0; k < s->n; ++k) order[k] = k;
  sort(s, order, s->n, work);
  for (int64_t k = 0; k < s->n; ++k) {
    if (k == 0 || compare_slices(s, order[k - 1], order[k]) != 0) {
      out->first[out->count] = order[k];
      out->size[out->count++] = 0;
    }
    out->group[order[k]] = out->count - 1;
    ++out->size[out->count - 1];
  }
  if (tercel_node_int(eval->node, "sorted") != 0) return TERCEL_OK;
  /* In the order in which they stand first: order and work hold the sorted ones meanwhile. */
  memcpy(order, out->first, (size_t)out->count * sizeof *order);
  memcpy(work, out->size, (size_t)out->count * sizeof *work);
  int64_t met = 0;
  for (int64_t k = 0; k < s->n; ++k) {
    const int64_t old = out->group[k];
    if (order[old] != k) {
      out->group[k] = out->group[order[old]];
      continue;
    }
    out->first[met] = k;
    out->size[met] = work[old];
    out->group[k] = met++;
  }
  return TERCEL_OK;
}

/* Output i, if it is wanted, as a list of n numbers. */
static tercel_status give(tercel_eval *eval, size_t i, const int64_t *numbers, int64_t n, tercel_error *err) {
  if (i >= eval->num_outputs || eval->out[i] == NULL) return TERCEL_OK;
  if (eval->out[i]->rank < 0) TERCEL_TRY(tercel_eval_output(eval, i, 1, &n, err));
  for (int64_t k = 0; k < n; ++k) tercel_tensor_set_i64(eval->out[i], k, numbers[k]);
  return TERCEL_OK;
}

static tercel_status give_values(tercel_eval *eval, const slices *s, const groups *g, int axis, bool flat,
                                 tercel_error *err) {
  if (eval->out[VALUES] == NULL) return TERCEL_OK;
  int64_t dims[TERCEL_MAX_RANK];
  memcpy(dims, s->x->dims, sizeof dims);
  dims[axis] = g->count;
  TERCEL_TRY(tercel_eval_output(eval, VALUES, flat ? 1 : s->x->rank, dims, err));
  for (int64_t o = 0; o < s->outer; ++o)
    for (int64_t k = 0; k < g->count; ++k)
      for (int64_t i = 0; i < s->inner; ++i)
        tercel_element_copy(eval->out[VALUES]->data, (o * g->count + k) * s->inner + i, s->x->data,
                            (o * s->n + g->first[k]) * s->inner + i, s->x->dtype);
  return TERCEL_OK;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[0];
  const bool flat = tercel_node_attr(eval->node, "axis") == NULL;
  int axis = 0;
  if (!flat) TERCEL_TRY(tercel_axis(eval->node, tercel_node_int(eval->node, "axis"), x->rank, &axis, err));
  slices s = {x, 1, tercel_tensor_num_elements(x), 1};
  if (!flat)
    s = (slices){x, tercel_dims_product(x->dims, 0, axis), x->dims[axis],
                 tercel_dims_product(x->dims, axis + 1, x->rank)};
  groups g = {0};
  TERCEL_TRY(find_groups(eval, &s, &g, err));
  TERCEL_TRY(give_values(eval, &s, &g, axis, flat, err));
  TERCEL_TRY(give(eval, FIRST, g.first, g.count, err));
  TERCEL_TRY(give(eval, INVERSE, g.group, s.n, err));
  return give(eval, COUNTS, g.size, g.count, err);
}

static const tercel_attr_spec attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, 0, NULL, "slices along it are compared; absent: single elements"},
    {"sorted", TERCEL_ATTR_INT, false, 1, NULL, "1: ascending, 0: in the order in which they stand first"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_unique = {
    .name = "unique",
    .id = TERCEL_OP_UNIQUE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 4,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "the different elements (or slices), where they stand, how often they come",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = tercel_no_flops,
};
