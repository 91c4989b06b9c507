/* Verifying steps: tolerances, distances of tensors. */
#include "plan/verify.h"

#include <math.h>
#include <string.h>

/* ---- what was measured, kept ---- */

void tercel_verification_deinit(tercel_verification *verification) {
  tercel_free(verification->rows);
  *verification = (tercel_verification){0};
}

bool tercel_difference_is_ok(const tercel_difference *d) { return !d->compared || d->error <= d->limit; }

/* ---- tolerances ---- */

/* The table of docs/numerics.md, "Tolerances of kernels".  Operators that are not in it move data, or compute exactly. */
static const struct {
  int op;
  tercel_tolerance tolerance;
} families[] = {
    {TERCEL_OP_SOFTMAX, {12, 0, 4e-6, false}}, {TERCEL_OP_REDUCE, {16, 16, 1e-6, false}},
    {TERCEL_OP_CUMSUM, {8, 16, 0, false}},     {TERCEL_OP_LAYER_NORM, {16, 4, 0, false}},
    {TERCEL_OP_RMS_NORM, {16, 4, 0, false}},   {TERCEL_OP_GROUP_NORM, {16, 8, 0, false}},
    {TERCEL_OP_BATCH_NORM, {16, 8, 0, false}}, {TERCEL_OP_LRN, {16, 8, 0, false}},
    {TERCEL_OP_ATTENTION, {0, 16, 0, false}},  {TERCEL_OP_ROTARY, {0, 2, 0, false}},
    {TERCEL_OP_POOL, {4, 8, 0, false}},        {TERCEL_OP_RESIZE, {4, 8, 0, false}},
    {TERCEL_OP_RNN, {0, 128, 0, false}},
};

/* Products that a sum of the result is made of. */
static double products_of(const tercel_node *node, const tercel_tensor *const *in) {
  const int op = node->op->id;
  if (op == TERCEL_OP_CONV || op == TERCEL_OP_CONV_TRANSPOSE) {
    const int64_t channels = in[1]->dims[op == TERCEL_OP_CONV ? 0 : 1];
    return channels ? (double)tercel_tensor_num_elements(in[1]) / (double)channels : 0;
  }
  const bool transposed = op == TERCEL_OP_MATMUL && tercel_node_int(node, "trans_a");
  return in[0]->rank ? (double)in[0]->dims[in[0]->rank - (transposed && in[0]->rank > 1 ? 2 : 1)] : 1;
}

tercel_tolerance tercel_tolerance_of(const tercel_node *node, const tercel_tensor *const *in) {
  const tercel_program *const program = tercel_node_program(node, "program"), *const epilogue =
                                                                                  tercel_node_program(node, "epilogue");
  const double functions = program ? program->num_instrs : epilogue ? epilogue->num_instrs : 0;
  const int op = node->op->id;
  if (op == TERCEL_OP_POINTWISE) return (tercel_tolerance){5 * functions, 0, 2e-7, false};
  if (op == TERCEL_OP_CONV || op == TERCEL_OP_CONV_TRANSPOSE || op == TERCEL_OP_MATMUL)
    return (tercel_tolerance){5 * functions, 16 + products_of(node, in) / 8, 0, false};
  if (op == TERCEL_OP_SOFTMAX && tercel_node_int(node, "log")) return (tercel_tolerance){12, 0, 4e-6, false};
  if (epilogue) return (tercel_tolerance){5 * functions, 4, 0, false}; /* on an exact sum */
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (families[i].op == op) return families[i].tolerance;
  return (tercel_tolerance){0};
}

tercel_tolerance tercel_tolerance_of_fusion(const tercel_node *node) {
  return (tercel_tolerance){0, 80, 0, node->op->id == TERCEL_OP_ATTENTION};
}

/* ---- distances ---- */

static double epsilon_of(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_F64       ? 0x1p-52
         : dtype == TERCEL_DTYPE_F16     ? 0x1p-10
         : dtype == TERCEL_DTYPE_BF16    ? 0x1p-7
         : tercel_dtype_bits(dtype) == 8 ? 0x1p-3
                                         : 0x1p-23;
}

static double element(const tercel_tensor *t, int64_t i) {
  return tercel_dtype_is_float(t->dtype) ? tercel_tensor_get_f64(t, i) : (double)tercel_tensor_get_i64(t, i);
}

static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  const double d = fabs(a - b);
  return isfinite(d) ? d : INFINITY;
}

/* Complex numbers are pairs of floats. */
static int64_t as_numbers(const tercel_tensor *from, tercel_tensor *out) {
  *out = *from;
  const int64_t count = tercel_tensor_num_elements(from);
  if (from->dtype != TERCEL_DTYPE_C64 && from->dtype != TERCEL_DTYPE_C128) return count;
  out->dtype = from->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
  return 2 * count;
}

static bool equal_strings(const tercel_tensor *a, const tercel_tensor *b) {
  const tercel_string *const x = a->data, *const y = b->data;
  for (int64_t i = tercel_tensor_num_elements(a); i-- > 0;)
    if (x[i].length != y[i].length || (x[i].length && memcmp(x[i].data, y[i].data, x[i].length) != 0)) return false;
  return true;
}

static bool same_type(const tercel_tensor *a, const tercel_tensor *b) {
  return a->dtype == b->dtype && tercel_tensor_same_shape(a, b);
}

double tercel_largest_move(const tercel_tensor *a, const tercel_tensor *b) {
  tercel_tensor x, y;
  double most = 0;
  if (!same_type(a, b) || a->dtype == TERCEL_DTYPE_STRING) return 0;
  const int64_t count = as_numbers(a, &x);
  as_numbers(b, &y);
  for (int64_t i = 0; i < count; i++) most = fmax(most, distance(element(&x, i), element(&y, i)));
  return most;
}

static double largest_of(const tercel_tensor *t, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    const double x = fabs(element(t, i));
    if (isfinite(x)) most = fmax(most, x);
  }
  return most;
}

/* The share of the limit that is used; more than 1 where it is not kept. */
static double share_of(double error, double limit) { return error == 0 ? 0 : limit > 0 ? error / limit : INFINITY; }

static void take(tercel_difference *out, double error, double limit, double largest) {
  if (!out->compared || share_of(error, limit) > share_of(out->error, out->limit)) {
    out->error = error;
    out->limit = limit;
  }
  out->compared = 1;
  out->largest = fmax(out->largest, largest);
}

void tercel_difference_take(tercel_difference *out, const tercel_tensor *got, const tercel_tensor *want,
                            const tercel_tolerance *t, double slack) {
  tercel_tensor x, y;
  if (!same_type(got, want) || (got->dtype == TERCEL_DTYPE_STRING && !equal_strings(got, want))) {
    take(out, INFINITY, 0, 0);
    return;
  }
  if (got->dtype == TERCEL_DTYPE_STRING) {
    take(out, 0, 0, 0);
    return;
  }
  const int64_t count = as_numbers(want, &y);
  as_numbers(got, &x);
  const double largest = largest_of(&y, count), eps = tercel_dtype_is_float(y.dtype) ? epsilon_of(y.dtype) : 0;
  const double absolute = tercel_dtype_is_float(y.dtype) ? t->absolute : 0;
  for (int64_t i = 0; i < count; i++) {
    const double want_i = element(&y, i), error = distance(element(&x, i), want_i);
    if (isnan(want_i) && t->nan_is_zero) continue;
    const double of_number = isfinite(want_i) ? t->of_number * fabs(want_i) : 0;
    take(out, error, eps * (of_number + t->of_largest * largest) + absolute + slack, largest);
  }
  if (count == 0) take(out, 0, 0, 0);
}

void tercel_nudge(tercel_tensor *tensor) {
  tercel_tensor t;
  const int64_t count = tensor->dtype == TERCEL_DTYPE_STRING ? 0 : as_numbers(tensor, &t);
  if (count == 0 || !tercel_dtype_is_float(t.dtype)) return;
  for (int64_t i = 0; i < count; i++) {
    const uint64_t bits = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15; /* signs without a pattern that sums could cancel */
    tercel_tensor_set_f64(&t, i, tercel_tensor_get_f64(&t, i) * (bits >> 63 ? 1 + 1e-6 : 1 - 1e-6));
  }
}
