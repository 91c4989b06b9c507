/* Element by element: unary and binary maths, comparisons, logic, activations, casts. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/onnx/build.h"

/* Version 1 of many operators had a hint about memory reuse. */
static void ignore_old_hints(tercel_onnx_call *c) {
  if (c->version < 6) tercel_onnx_ignore_attr(c, "consumed_inputs");
}

void tercel_onnx_build_unary(tercel_onnx_call *c) {
  ignore_old_hints(c);
  tercel_onnx_return(c, 0, tercel_onnx_fn1(c, (tercel_fn)c->row->detail, tercel_onnx_in(c, 0)));
}

/* Activations with parameters: names and defaults of p and q. */
static const struct {
  tercel_fn fn;
  const char *p;
  double p_default;
  const char *q;
  double q_default;
} activations[] = {
    {TERCEL_FN_LEAKY_RELU, "alpha", 0.01f, NULL, 0},
    {TERCEL_FN_THRESHOLDED_RELU, "alpha", 1, NULL, 0},
    {TERCEL_FN_ELU, "alpha", 1, NULL, 0},
    {TERCEL_FN_CELU, "alpha", 1, NULL, 0},
    {TERCEL_FN_SELU, "alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f},
    {TERCEL_FN_HARD_SIGMOID, "alpha", 0.2f, "beta", 0.5},
    {TERCEL_FN_SILU, "alpha", 1, NULL, 0},
    {TERCEL_FN_SHRINK, "lambd", 0.5, "bias", 0},
};

static tercel_value *activate(tercel_onnx_call *c, tercel_fn fn, tercel_value *x) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
    if (activations[i].fn != fn) continue;
    const double p = tercel_onnx_get_float(c, activations[i].p, activations[i].p_default);
    const double q = activations[i].q ? tercel_onnx_get_float(c, activations[i].q, activations[i].q_default) : 0;
    return tercel_onnx_fn_with(c, fn, x, p, q);
  }
  return tercel_onnx_fn1(c, fn, x);
}

void tercel_onnx_build_activation(tercel_onnx_call *c) {
  ignore_old_hints(c);
  const tercel_fn fn = (tercel_fn)c->row->detail;
  /* Selu-1 had the same numbers, rounded to four digits. */
  if (fn == TERCEL_FN_SELU && c->version < 6) {
    const double alpha = tercel_onnx_get_float(c, "alpha", 1.6732f), gamma = tercel_onnx_get_float(c, "gamma", 1.0507f);
    tercel_onnx_return(c, 0, tercel_onnx_fn_with(c, fn, tercel_onnx_in(c, 0), alpha, gamma));
    return;
  }
  tercel_onnx_return(c, 0, activate(c, fn, tercel_onnx_in(c, 0)));
}

/* Also of integers: computed in f64, and cut. */
void tercel_onnx_build_shrink(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const tercel_dtype dtype = tercel_onnx_dtype_of(x);
  tercel_value *const wide = tercel_dtype_is_float(dtype) ? x : tercel_onnx_cast(c, x, TERCEL_DTYPE_F64);
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, activate(c, TERCEL_FN_SHRINK, wide), dtype));
}

void tercel_onnx_build_swiglu(tercel_onnx_call *c) {
  tercel_value *const gate = activate(c, TERCEL_FN_SILU, tercel_onnx_in(c, 0));
  tercel_onnx_return(c, 0, tercel_onnx_like(c, tercel_onnx_fn2(c, TERCEL_FN_MUL, gate, tercel_onnx_in(c, 1)), gate));
}

void tercel_onnx_build_gelu(tercel_onnx_call *c) {
  const char *const kind = tercel_onnx_get_text(c, "approximate", "none");
  if (strcmp(kind, "none") != 0 && strcmp(kind, "tanh") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'approximate' is '%s', want 'none' or 'tanh'", kind);
  const tercel_fn fn = strcmp(kind, "tanh") == 0 ? TERCEL_FN_GELU_TANH : TERCEL_FN_GELU;
  tercel_onnx_return(c, 0, tercel_onnx_fn1(c, fn, tercel_onnx_in(c, 0)));
}

void tercel_onnx_build_is_inf(tercel_onnx_call *c) {
  const bool negative = tercel_onnx_get_flag(c, "detect_negative", true),
             positive = tercel_onnx_get_flag(c, "detect_positive", true);
  tercel_onnx_return(c, 0, tercel_onnx_fn_with(c, TERCEL_FN_IS_INF, tercel_onnx_in(c, 0), negative, positive));
}

/* ---- two operands ------------------------------------------------------------------------------------------------ */

/* Before version 7 operands were broadcast only where attribute 'broadcast' said so, and the second one's dims stood from
 * 'axis' on (absent: at the end), instead of numpy's rule. */
static tercel_value *align_second(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  if (c->version >= 7) return b;
  ignore_old_hints(c);
  const bool broadcast = tercel_onnx_get_flag(c, "broadcast", false);
  if (!tercel_onnx_has_attr(c, "axis") || !broadcast) {
    tercel_onnx_ignore_attr(c, "axis");
    return b;
  }
  const int rank = tercel_onnx_rank(c, a), rank_b = tercel_onnx_rank(c, b);
  int64_t axis = tercel_onnx_get_int(c, "axis", 0);
  if (axis < 0) axis += rank;
  if (tercel_onnx_ok(c) && (axis < 0 || axis + rank_b > rank))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'axis' is %" PRId64 ", but operands have ranks %d and %d",
                     axis, rank, rank_b);
  int64_t added[TERCEL_MAX_RANK];
  size_t count = 0;
  for (int64_t i = axis + rank_b; tercel_onnx_ok(c) && i < rank; i++) added[count++] = i - axis;
  return count > 0 ? tercel_onnx_unsqueeze(c, b, added, count) : b;
}

static tercel_value *binary(tercel_onnx_call *c, tercel_fn fn) {
  tercel_value *const a = tercel_onnx_in(c, 0);
  tercel_value *const y = tercel_onnx_fn2(c, fn, a, align_second(c, a, tercel_onnx_in(c, 1)));
  return c->version < 7 ? tercel_onnx_like(c, y, a) : y;
}

void tercel_onnx_build_binary(tercel_onnx_call *c) { tercel_onnx_return(c, 0, binary(c, (tercel_fn)c->row->detail)); }

/* The remainder with the divisor's sign, of floats: C's remainder, moved by b where the signs differ. */
static tercel_value *floor_mod(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  tercel_value *const r = tercel_onnx_fn2(c, TERCEL_FN_FMOD, a, b);
  tercel_value *const r_negative = tercel_onnx_fn_number(c, TERCEL_FN_LESS, r, 0);
  tercel_value *const b_negative = tercel_onnx_fn_number(c, TERCEL_FN_LESS, b, 0);
  tercel_value *const is_zero = tercel_onnx_fn_number(c, TERCEL_FN_EQUAL, r, 0);
  tercel_value *const differ = tercel_onnx_fn2(c, TERCEL_FN_XOR, r_negative, b_negative);
  tercel_value *const move = tercel_onnx_fn2(c, TERCEL_FN_AND, differ, tercel_onnx_fn1(c, TERCEL_FN_NOT, is_zero));
  return tercel_onnx_fn3(c, TERCEL_FN_SELECT, move, tercel_onnx_fn2(c, TERCEL_FN_ADD, r, b), r);
}

/* Before version 28 floats needed attribute 'fmod'. */
void tercel_onnx_build_mod(tercel_onnx_call *c) {
  const bool fmod = tercel_onnx_get_flag(c, "fmod", false);
  const bool is_float = tercel_dtype_is_float(tercel_onnx_dtype_of(tercel_onnx_in(c, 0)));
  if (!fmod && is_float && c->version < 28)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "floats need attribute 'fmod' = 1");
  if (!fmod && is_float)
    tercel_onnx_return(c, 0, floor_mod(c, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1)));
  else
    tercel_onnx_return(c, 0, binary(c, fmod ? TERCEL_FN_FMOD : TERCEL_FN_MOD));
}

/* From version 12 on the exponent may have another type; the result has the base's.  An integer base to a float power is
 * taken in floats. */
void tercel_onnx_build_pow(tercel_onnx_call *c) {
  tercel_value *const base = tercel_onnx_in(c, 0), *const exponent = align_second(c, base, tercel_onnx_in(c, 1));
  const tercel_dtype result = tercel_onnx_dtype_of(base), other = tercel_onnx_dtype_of(exponent);
  const tercel_dtype common = tercel_dtype_is_float(result) || !tercel_dtype_is_float(other) ? result : other;
  tercel_value *const power =
      tercel_onnx_fn2(c, TERCEL_FN_POW, tercel_onnx_cast(c, base, common), tercel_onnx_cast(c, exponent, common));
  tercel_onnx_return(c, 0, tercel_onnx_cast(c, c->version < 7 ? tercel_onnx_like(c, power, base) : power, result));
}

/* Copies of the sign come in from the left: a negative number is shifted as its complement. */
static tercel_value *shift_right_signed(tercel_onnx_call *c, tercel_value *x, tercel_value *by) {
  tercel_value *const negative = tercel_onnx_fn_number(c, TERCEL_FN_LESS, x, 0);
  tercel_value *const bits =
      tercel_onnx_fn3(c, TERCEL_FN_SELECT, negative, tercel_onnx_fn1(c, TERCEL_FN_BIT_NOT, x), x);
  tercel_value *const shifted = tercel_onnx_fn2(c, TERCEL_FN_SHIFT_RIGHT, bits, by);
  return tercel_onnx_fn3(c, TERCEL_FN_SELECT, negative, tercel_onnx_fn1(c, TERCEL_FN_BIT_NOT, shifted), shifted);
}

void tercel_onnx_build_bit_shift(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "direction");
  const char *const direction = tercel_onnx_get_text(c, "direction", "LEFT");
  const bool left = strcmp(direction, "LEFT") == 0;
  if (!left && strcmp(direction, "RIGHT") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'direction' is '%s', want 'LEFT' or 'RIGHT'", direction);
  tercel_value *const x = tercel_onnx_in(c, 0), *const by = tercel_onnx_in(c, 1);
  const bool is_signed = tercel_dtype_get_kind(tercel_onnx_dtype_of(x)) == TERCEL_KIND_INT;
  if (left || !is_signed)
    tercel_onnx_return(c, 0, binary(c, left ? TERCEL_FN_SHIFT_LEFT : TERCEL_FN_SHIFT_RIGHT));
  else
    tercel_onnx_return(c, 0, shift_right_signed(c, x, by));
}

/* Before version 7 a slope of one dim belonged to the channels. */
void tercel_onnx_build_prelu(tercel_onnx_call *c) {
  ignore_old_hints(c);
  tercel_value *const x = tercel_onnx_in(c, 0);
  tercel_value *slope = tercel_onnx_in(c, 1);
  if (c->version < 7 && tercel_onnx_rank(c, slope) == 1 && tercel_onnx_dim_of(c, slope, 0) != 1) {
    int64_t added[TERCEL_MAX_RANK];
    size_t count = 0;
    for (int i = 2; i < tercel_onnx_rank(c, x); i++) added[count++] = i - 1;
    if (count > 0) slope = tercel_onnx_unsqueeze(c, slope, added, count);
  }
  tercel_onnx_return(c, 0, tercel_onnx_like(c, tercel_onnx_fn2(c, TERCEL_FN_PRELU, x, slope), x));
}

/* Sum, Min, Max of any number. */
static tercel_value *fold_inputs(tercel_onnx_call *c, tercel_fn fn) {
  ignore_old_hints(c);
  tercel_value *result = tercel_onnx_in(c, 0);
  for (size_t i = 1; i < c->num_inputs; i++) result = tercel_onnx_fn2(c, fn, result, tercel_onnx_in(c, i));
  return c->version < 8 ? tercel_onnx_like(c, result, tercel_onnx_in(c, 0)) : result;
}

void tercel_onnx_build_variadic(tercel_onnx_call *c) {
  tercel_onnx_return(c, 0, fold_inputs(c, (tercel_fn)c->row->detail));
}

void tercel_onnx_build_mean(tercel_onnx_call *c) {
  tercel_value *const sum = fold_inputs(c, TERCEL_FN_ADD);
  tercel_onnx_return(c, 0, tercel_onnx_fn_number(c, TERCEL_FN_DIV, sum, (double)c->num_inputs));
}

/* x's elements numbered from `first` on, in x's shape. */
static tercel_value *number_elements(tercel_onnx_call *c, tercel_value *x, tercel_value *first) {
  tercel_value *const end = tercel_onnx_fn2(c, TERCEL_FN_ADD, first, tercel_onnx_op(c, &tercel_op_size, x));
  tercel_value *const one = tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 1);
  return tercel_onnx_reshape(c, tercel_onnx_op(c, &tercel_op_range, first, end, one), tercel_onnx_shape_of(c, x));
}

/* Strings and complex numbers, which pointwise programs don't take, are picked by number out of all that x and y have. */
static tercel_value *pick(tercel_onnx_call *c, tercel_value *condition, tercel_value *x, tercel_value *y) {
  const int64_t flat[] = {-1};
  tercel_value *const all[] = {tercel_onnx_reshape_to(c, x, flat, 1), tercel_onnx_reshape_to(c, y, flat, 1)};
  tercel_value *const from_x = number_elements(c, x, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, 0));
  tercel_value *const from_y = number_elements(c, y, tercel_onnx_op(c, &tercel_op_size, x));
  tercel_value *const index = tercel_onnx_fn3(c, TERCEL_FN_SELECT, condition, from_x, from_y);
  return tercel_onnx_op(c, &tercel_op_gather, tercel_onnx_concat(c, all, 2, 0), index);
}

void tercel_onnx_build_where(tercel_onnx_call *c) {
  tercel_value *const condition = tercel_onnx_in(c, 0), *const x = tercel_onnx_in(c, 1),
                      *const y = tercel_onnx_in(c, 2);
  const tercel_dtype_kind kind = tercel_dtype_get_kind(tercel_onnx_dtype_of(x));
  const bool is_number = kind != TERCEL_KIND_STRING && kind != TERCEL_KIND_COMPLEX;
  tercel_onnx_return(c, 0,
                     is_number ? tercel_onnx_fn3(c, TERCEL_FN_SELECT, condition, x, y) : pick(c, condition, x, y));
}

/* ---- clip -------------------------------------------------------------------------------------------------------- */

/* Limits as attributes, up to version 10. */
void tercel_onnx_build_clip1(tercel_onnx_call *c) {
  ignore_old_hints(c);
  const double low = tercel_onnx_get_float(c, "min", -FLT_MAX), high = tercel_onnx_get_float(c, "max", FLT_MAX);
  tercel_onnx_return(c, 0, tercel_onnx_fn_with(c, TERCEL_FN_CLIP, tercel_onnx_in(c, 0), low, high));
}

void tercel_onnx_build_clip(tercel_onnx_call *c) {
  tercel_value *const x = tercel_onnx_in(c, 0), *const low = tercel_onnx_in(c, 1), *const high = tercel_onnx_in(c, 2);
  double p = -INFINITY, q = INFINITY;
  const bool known = (!low || tercel_onnx_known_scalar(low, &p)) && (!high || tercel_onnx_known_scalar(high, &q));
  tercel_value *y = x;
  if ((low || high) && known && tercel_dtype_is_float(tercel_onnx_dtype_of(x)))
    y = tercel_onnx_fn_with(c, TERCEL_FN_CLIP, x, p, q);
  else if (low && high)
    y = tercel_onnx_fn3(c, TERCEL_FN_CLAMP, x, low, high);
  else if (low)
    y = tercel_onnx_fn2(c, TERCEL_FN_MAX, x, low);
  else if (high)
    y = tercel_onnx_fn2(c, TERCEL_FN_MIN, x, high);
  tercel_onnx_return(c, 0, y);
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

static char round_mode(tercel_onnx_call *c) {
  const char *const mode = tercel_onnx_get_text(c, "round_mode", "up");
  const bool known = strcmp(mode, "up") == 0 || strcmp(mode, "down") == 0 || strcmp(mode, "nearest") == 0;
  if (!known)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'round_mode' is '%s', want 'up', 'down' or 'nearest'", mode);
  return mode[0];
}

tercel_value *tercel_onnx_convert(tercel_onnx_call *c, tercel_value *a, tercel_dtype dtype) {
  const tercel_dtype from = tercel_onnx_dtype_of(a);
  if (from != dtype && dtype == TERCEL_DTYPE_STRING) return tercel_onnx_op(c, &tercel_op_string_format, a);
  if (from == dtype || from != TERCEL_DTYPE_STRING) return tercel_onnx_cast(c, a, dtype);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_string_parse, 1, a);
  tercel_onnx_set_dtype(c, n, "dtype", dtype);
  return tercel_onnx_end(c, n);
}

static void cast_to(tercel_onnx_call *c, tercel_dtype dtype) {
  tercel_value *const x = tercel_onnx_in(c, 0);
  const bool saturate = tercel_onnx_get_flag(c, "saturate", true);
  const char round = round_mode(c);
  const bool strings = dtype == TERCEL_DTYPE_STRING || tercel_onnx_dtype_of(x) == TERCEL_DTYPE_STRING;
  tercel_onnx_return(c, 0,
                     strings ? tercel_onnx_convert(c, x, dtype) : tercel_onnx_cast_with(c, x, dtype, saturate, round));
}

void tercel_onnx_build_cast(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "to");
  cast_to(c, tercel_onnx_get_dtype(c, "to", TERCEL_DTYPE_F32));
}

/* The type by its name in TensorProto.DataType, up to version 5. */
void tercel_onnx_build_cast1(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "to");
  const char *const name = tercel_onnx_get_text(c, "to", "FLOAT");
  const tercel_dtype dtype = tercel_onnx_dtype_named(name);
  if (dtype == TERCEL_DTYPE_NONE)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'to': type '%s' is not supported", name);
  cast_to(c, dtype);
}

void tercel_onnx_build_cast_like(tercel_onnx_call *c) { cast_to(c, tercel_onnx_dtype_of(tercel_onnx_in(c, 1))); }
