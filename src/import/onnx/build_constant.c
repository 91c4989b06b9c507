/* Tensors that are given, or follow from shapes: constants, shapes, ranges, masks. */
#include <string.h>

#include "import/onnx/build.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

static tercel_value *new_constant(tercel_onnx_call *c, tercel_dtype dtype, int rank, const int64_t *dims) {
  tercel_value *value = NULL;
  if (tercel_onnx_ok(c)) keep(c, tercel_graph_add_new_constant(c->graph, c->name, dtype, rank, dims, &value, c->err));
  return value;
}

/* ---- Constant ---------------------------------------------------------------------------------------------------- */

static tercel_value *floats(tercel_onnx_call *c, const float *values, size_t count, int rank) {
  tercel_value *const v = new_constant(c, TERCEL_DTYPE_F32, rank, &(int64_t){(int64_t)count});
  if (v && count > 0) memcpy(v->constant->data, values, count * sizeof *values);
  return v;
}

static tercel_value *ints(tercel_onnx_call *c, const int64_t *values, size_t count, int rank) {
  tercel_value *const v = new_constant(c, TERCEL_DTYPE_I64, rank, &(int64_t){(int64_t)count});
  if (v && count > 0) memcpy(v->constant->data, values, count * sizeof *values);
  return v;
}

static tercel_value *strings(tercel_onnx_call *c, const tercel_string *values, size_t count, int rank) {
  tercel_value *v = NULL;
  if (tercel_onnx_ok(c))
    keep(c, tercel_onnx_add_strings(c->graph, c->name, values, rank, &(int64_t){(int64_t)count}, &v, c->err));
  return v;
}

static tercel_value *tensor(tercel_onnx_call *c, const tercel_onnx_tensor *t) {
  tercel_value *v = NULL;
  if (!t) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'value' holds no tensor");
  if (tercel_onnx_ok(c)) keep(c, tercel_onnx_add_tensor(c->import, c->graph, c->name, t, &v, c->err));
  return v;
}

static tercel_value *sparse(tercel_onnx_call *c, const tercel_onnx_sparse *s) {
  tercel_value *v = NULL;
  if (!s) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'sparse_value' holds no tensor");
  if (tercel_onnx_ok(c)) keep(c, tercel_onnx_add_sparse(c->import, c->graph, c->name, s, &v, c->err));
  return v;
}

void tercel_onnx_build_constant(tercel_onnx_call *c) {
  static const struct {
    const char *name;
    tercel_onnx_attr_type type;
  } forms[] = {{"value", TERCEL_ONNX_TENSOR},        {"sparse_value", TERCEL_ONNX_SPARSE_TENSOR},
               {"value_float", TERCEL_ONNX_FLOAT},   {"value_floats", TERCEL_ONNX_FLOATS},
               {"value_int", TERCEL_ONNX_INT},       {"value_ints", TERCEL_ONNX_INTS},
               {"value_string", TERCEL_ONNX_STRING}, {"value_strings", TERCEL_ONNX_STRINGS}};
  const tercel_onnx_attr *a = NULL;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const tercel_onnx_attr *const found = tercel_onnx_get_attr(c, forms[i].name, forms[i].type);
    if (found && a)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attributes '%s' and '%s': only one may be there", a->name,
                       found->name);
    if (!found || a) continue;
    a = found;
    tercel_value *v = NULL;
    switch (forms[i].type) {
    case TERCEL_ONNX_TENSOR: v = tensor(c, a->t); break;
    case TERCEL_ONNX_SPARSE_TENSOR: v = sparse(c, a->sparse); break;
    case TERCEL_ONNX_FLOAT: v = floats(c, &a->f, 1, 0); break;
    case TERCEL_ONNX_FLOATS: v = floats(c, a->floats.items, a->floats.count, 1); break;
    case TERCEL_ONNX_INT: v = ints(c, &a->i, 1, 0); break;
    case TERCEL_ONNX_INTS: v = ints(c, a->ints.items, a->ints.count, 1); break;
    case TERCEL_ONNX_STRING: v = strings(c, &a->s, 1, 0); break;
    default: v = strings(c, a->strings.items, a->strings.count, 1); break;
    }
    tercel_onnx_return(c, 0, v);
  }
  if (!a) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "no attribute gives its value");
}

void tercel_onnx_build_constant_of_shape(tercel_onnx_call *c) {
  const tercel_onnx_attr *const a = tercel_onnx_get_attr(c, "value", TERCEL_ONNX_TENSOR);
  tercel_value *value = a ? tensor(c, a->t) : tercel_onnx_scalar(c, TERCEL_DTYPE_F32, 0);
  if (tercel_onnx_ok(c) && tercel_tensor_num_elements(value->constant) != 1)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'value' must hold one element");
  if (tercel_onnx_rank(c, value) > 0) value = tercel_onnx_reshape_to(c, value, NULL, 0);
  tercel_onnx_return(c, 0, tercel_onnx_fill(c, value, tercel_onnx_in(c, 0)));
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

void tercel_onnx_build_shape(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_shape, 1, tercel_onnx_in(c, 0));
  tercel_onnx_copy_int(c, n, "start");
  tercel_onnx_copy_int(c, n, "end");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_size(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_size, tercel_onnx_in(c, 0)));
}

/* ---- sequences of numbers, masks ----------------------------------------------------------------------------------- */

/* A scalar of rank 0: files also give [1]. */
static tercel_value *as_scalar(tercel_onnx_call *c, tercel_value *v) {
  return v && tercel_onnx_rank(c, v) != 0 ? tercel_onnx_reshape_to(c, v, NULL, 0) : v;
}

void tercel_onnx_build_range(tercel_onnx_call *c) {
  tercel_value *const start = as_scalar(c, tercel_onnx_in(c, 0));
  tercel_value *const limit = as_scalar(c, tercel_onnx_in(c, 1)), *const delta = as_scalar(c, tercel_onnx_in(c, 2));
  if (tercel_onnx_get_int(c, "stash_type", 1) != 1)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'stash_type' other than 1 (float) is not supported");
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_range, start, limit, delta));
}

void tercel_onnx_build_non_zero(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_nonzero, tercel_onnx_in(c, 0)));
}

void tercel_onnx_build_one_hot(tercel_onnx_call *c) {
  tercel_value *const indices = tercel_onnx_cast(c, tercel_onnx_in(c, 0), TERCEL_DTYPE_I64);
  tercel_value *const depth = as_scalar(c, tercel_onnx_cast(c, tercel_onnx_in(c, 1), TERCEL_DTYPE_I64));
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_one_hot, 1, indices, depth, tercel_onnx_in(c, 2));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

static tercel_value *trilu(tercel_onnx_call *c, tercel_value *x, tercel_value *k, bool upper) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_trilu, 1, x, k);
  tercel_onnx_set_int(c, n, "upper", upper);
  return tercel_onnx_end(c, n);
}

void tercel_onnx_build_trilu(tercel_onnx_call *c) {
  const bool upper = tercel_onnx_get_flag(c, "upper", true);
  tercel_onnx_return(c, 0, trilu(c, tercel_onnx_in(c, 0), as_scalar(c, tercel_onnx_in(c, 1)), upper));
}

/* A diagonal is what lies neither below nor above it. */
void tercel_onnx_build_eye_like(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const tercel_dtype dtype = tercel_onnx_get_dtype(c, "dtype", tercel_onnx_dtype_of(x));
  tercel_value *const k = tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)tercel_onnx_get_int(c, "k", 0));
  tercel_value *const ones = tercel_onnx_fill(c, tercel_onnx_scalar(c, dtype, 1), tercel_onnx_shape_of(c, x));
  tercel_onnx_return(c, 0, trilu(c, trilu(c, ones, k, true), k, false));
}

/* ---- windows of signal processing ------------------------------------------------------------------------------------ */

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), n = 0 .. size - 1; N is size where periodic, else size - 1. */
static tercel_value *cosine_term(tercel_onnx_call *c, tercel_value *angle, double times, double factor) {
  tercel_value *const cosine = tercel_onnx_fn1(c, TERCEL_FN_COS, tercel_onnx_fn_number(c, TERCEL_FN_MUL, angle, times));
  return tercel_onnx_fn_number(c, TERCEL_FN_MUL, cosine, factor);
}

void tercel_onnx_build_window(tercel_onnx_call *c) {
  static const double terms[][3] = {{0.5, 0.5, 0}, {25.0 / 46, 1 - 25.0 / 46, 0}, {0.42, 0.5, 0.08}};
  const double *const a = terms[c->row->detail];
  const double pi = 3.14159265358979323846;
  const tercel_dtype dtype = tercel_onnx_get_dtype(c, "output_datatype", TERCEL_DTYPE_F32);
  const bool periodic = tercel_onnx_get_flag(c, "periodic", true);
  const tercel_dtype work = dtype == TERCEL_DTYPE_F64 ? TERCEL_DTYPE_F64 : TERCEL_DTYPE_F32;
  tercel_value *const size = tercel_onnx_cast(c, as_scalar(c, tercel_onnx_in(c, 0)), work);
  tercel_value *const steps =
      tercel_onnx_op(c, &tercel_op_range, tercel_onnx_scalar(c, work, 0), size, tercel_onnx_scalar(c, work, 1));
  tercel_value *const period = periodic ? size : tercel_onnx_fn_number(c, TERCEL_FN_SUB, size, 1);
  tercel_value *const angle =
      tercel_onnx_fn2(c, TERCEL_FN_DIV, tercel_onnx_fn_number(c, TERCEL_FN_MUL, steps, 2 * pi), period);
  tercel_value *y =
      tercel_onnx_fn2(c, TERCEL_FN_SUB, tercel_onnx_scalar(c, work, a[0]), cosine_term(c, angle, 1, a[1]));
  if (a[2] != 0) y = tercel_onnx_fn2(c, TERCEL_FN_ADD, y, cosine_term(c, angle, 2, a[2]));
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, y, dtype));
}

/* ---- nothing to do ----------------------------------------------------------------------------------------------------- */

void tercel_onnx_build_identity(tercel_onnx_call *c) { tercel_onnx_return(c, 0, tercel_onnx_in(c, 0)); }
