/* What the pointwise functions compute, one element at a time, in f64 (base/mathd.h): the truth that folding uses and
 * kernels are tested against.  Not for speed. */
#include <math.h>
#include <string.h>

#include "ir/program.h"

/* ---- floats ---- */

static double round_to(tercel_dtype dtype, double value) {
  if (dtype == TERCEL_DTYPE_F64) return value;
  if (dtype == TERCEL_DTYPE_F32) return (double)(float)value;
  uint16_t element[1] = {0};
  tercel_element_set_f64(element, dtype, 0, value);
  return tercel_element_get_f64(element, dtype, 0);
}

static double smaller(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : a < b ? a : b; }
static double larger(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b; }
static double sigmoid(double a) {
  return a >= 0 ? 1 / (1 + tercel_f64_exp(-a)) : tercel_f64_exp(a) / (1 + tercel_f64_exp(a));
}
static double softplus(double a) {
  return a > 0 ? a + tercel_f64_log1p(tercel_f64_exp(-a)) : tercel_f64_log1p(tercel_f64_exp(a));
}

static double python_mod(double a, double b) {
  const double rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double sign(double a) { return isnan(a) ? a : (double)((a > 0) - (a < 0)); }

static double gelu_tanh(double a) {
  const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
  return a / 2 * (1 + tercel_f64_tanh(root * (a + 0.044715 * a * a * a)));
}

static double shrink(double a, double lambda, double bias) {
  return a < -lambda ? a + bias : a > lambda ? a - bias : isnan(a) ? a : 0;
}

/* Functions whose operands are floats and whose result is too.  r: the operands; p, q: the immediates. */
static double eval_float(tercel_fn fn, const double r[3], double p, double q) {
  const double a = r[0], b = r[1];
  switch (fn) {
  case TERCEL_FN_COPY: return a;
  case TERCEL_FN_ADD: return a + b;
  case TERCEL_FN_SUB: return a - b;
  case TERCEL_FN_MUL: return a * b;
  case TERCEL_FN_DIV: return a / b;
  case TERCEL_FN_MOD: return python_mod(a, b);
  case TERCEL_FN_FMOD: return fmod(a, b);
  case TERCEL_FN_POW: return tercel_f64_pow(a, b);
  case TERCEL_FN_MIN: return smaller(a, b);
  case TERCEL_FN_MAX: return larger(a, b);
  case TERCEL_FN_ATAN2: return tercel_f64_atan2(a, b);
  case TERCEL_FN_PRELU: return a < 0 ? a * b : a;
  case TERCEL_FN_CLAMP: return smaller(larger(a, b), r[2]);
  case TERCEL_FN_CLIP: return smaller(larger(a, p), q);
  case TERCEL_FN_NEG: return -a;
  case TERCEL_FN_ABS: return fabs(a);
  case TERCEL_FN_SIGN: return sign(a);
  case TERCEL_FN_RELU: return larger(a, 0);
  case TERCEL_FN_LEAKY_RELU: return a < 0 ? p * a : a;
  case TERCEL_FN_THRESHOLDED_RELU: return isnan(a) || a > p ? a : 0;
  case TERCEL_FN_ELU: return a < 0 ? p * tercel_f64_expm1(a) : a;
  case TERCEL_FN_CELU: return larger(a, 0) + smaller(0, p * tercel_f64_expm1(a / p));
  case TERCEL_FN_SELU: return q * (a > 0 ? a : p * tercel_f64_expm1(a));
  case TERCEL_FN_HARD_SIGMOID: return smaller(larger(p * a + q, 0), 1);
  case TERCEL_FN_HARD_SWISH: return a * smaller(larger(a / 6 + 0.5, 0), 1);
  case TERCEL_FN_SIGMOID: return sigmoid(a);
  case TERCEL_FN_SILU: return a * sigmoid(p * a);
  case TERCEL_FN_GELU: return a / 2 * (1 + tercel_f64_erf(a * 0.70710678118654752440));
  case TERCEL_FN_GELU_TANH: return gelu_tanh(a);
  case TERCEL_FN_SOFTPLUS: return softplus(a);
  case TERCEL_FN_SOFTSIGN: return a / (1 + fabs(a));
  case TERCEL_FN_MISH: return a * tercel_f64_tanh(softplus(a));
  case TERCEL_FN_SHRINK: return shrink(a, p, q);
  case TERCEL_FN_EXP: return tercel_f64_exp(a);
  case TERCEL_FN_LOG: return tercel_f64_log(a);
  case TERCEL_FN_SQRT: return sqrt(a);
  case TERCEL_FN_RSQRT: return 1 / sqrt(a);
  case TERCEL_FN_RECIPROCAL: return 1 / a;
  case TERCEL_FN_TANH: return tercel_f64_tanh(a);
  case TERCEL_FN_ERF: return tercel_f64_erf(a);
  case TERCEL_FN_SIN: return tercel_f64_sin(a);
  case TERCEL_FN_COS: return tercel_f64_cos(a);
  case TERCEL_FN_TAN: return tercel_f64_tan(a);
  case TERCEL_FN_ASIN: return tercel_f64_asin(a);
  case TERCEL_FN_ACOS: return tercel_f64_acos(a);
  case TERCEL_FN_ATAN: return tercel_f64_atan(a);
  case TERCEL_FN_SINH: return tercel_f64_sinh(a);
  case TERCEL_FN_COSH: return tercel_f64_cosh(a);
  case TERCEL_FN_ASINH: return tercel_f64_asinh(a);
  case TERCEL_FN_ACOSH: return tercel_f64_acosh(a);
  case TERCEL_FN_ATANH: return tercel_f64_atanh(a);
  case TERCEL_FN_FLOOR: return floor(a);
  case TERCEL_FN_CEIL: return ceil(a);
  case TERCEL_FN_ROUND: return nearbyint(a);
  default: return 0;
  }
}

/* Functions of floats whose result is a bool. */
static bool test_float(tercel_fn fn, double a, double b, const tercel_immediate *immediates) {
  switch (fn) {
  case TERCEL_FN_EQUAL: return a == b;
  case TERCEL_FN_LESS: return a < b;
  case TERCEL_FN_LESS_EQUAL: return a <= b;
  case TERCEL_FN_GREATER: return a > b;
  case TERCEL_FN_GREATER_EQUAL: return a >= b;
  case TERCEL_FN_IS_NAN: return isnan(a);
  case TERCEL_FN_IS_INF: return isinf(a) && (a < 0 ? immediates[0].i != 0 : immediates[1].i != 0);
  default: return false;
  }
}

/* ---- integers and bool ---- */

/* The low bits of a result, as a number of the dtype again. */
static int64_t wrap_to(tercel_dtype dtype, uint64_t value) {
  uint64_t element[1] = {0};
  tercel_element_set_i64(element, dtype, 0, (int64_t)value);
  return tercel_element_get_i64(element, dtype, 0);
}

/* An integer as its bits: of unsigned types it is compared and divided as it stands, else as i64. */
typedef struct integer {
  bool is_signed;
  uint64_t bits;
} integer;

static bool is_less(integer a, integer b) { return a.is_signed ? (int64_t)a.bits < (int64_t)b.bits : a.bits < b.bits; }
static uint64_t smaller_of(integer a, integer b) { return is_less(a, b) ? a.bits : b.bits; }
static uint64_t larger_of(integer a, integer b) { return is_less(a, b) ? b.bits : a.bits; }
static bool is_negative(integer a) { return a.is_signed && (int64_t)a.bits < 0; }

static uint64_t divide(integer a, integer b) {
  if (b.bits == 0) return 0;
  if (!a.is_signed) return a.bits / b.bits;
  return (int64_t)b.bits == -1 ? 0 - a.bits : (uint64_t)((int64_t)a.bits / (int64_t)b.bits);
}

static uint64_t remainder_of(integer a, integer b) { return b.bits == 0 ? 0 : a.bits - divide(a, b) * b.bits; }

static uint64_t python_remainder(integer a, integer b) {
  const uint64_t rest = remainder_of(a, b);
  return rest && is_negative((integer){a.is_signed, rest}) != is_negative(b) ? rest + b.bits : rest;
}

/* By squaring, wrapping.  A negative power is the reciprocal cut to an integer, 0 for base 0. */
static uint64_t power(integer a, integer b) {
  if (is_negative(b)) {
    if (a.bits == 1) return 1;
    return (int64_t)a.bits == -1 ? (b.bits & 1 ? a.bits : 1) : 0;
  }
  uint64_t result = 1, square = a.bits;
  for (uint64_t e = b.bits; e; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return result;
}

static uint64_t shift(uint64_t value, uint64_t by, bool left) {
  if (by > 63) return 0;
  return left ? value << by : value >> by;
}

/* width: bits of the dtype */
static uint64_t eval_integer(tercel_fn fn, const integer r[3], uint64_t p, uint64_t q, unsigned width) {
  const integer a = r[0], b = r[1];
  switch (fn) {
  case TERCEL_FN_COPY: return a.bits;
  case TERCEL_FN_ADD: return a.bits + b.bits;
  case TERCEL_FN_SUB: return a.bits - b.bits;
  case TERCEL_FN_MUL: return a.bits * b.bits;
  case TERCEL_FN_DIV: return divide(a, b);
  case TERCEL_FN_MOD: return python_remainder(a, b);
  case TERCEL_FN_FMOD: return remainder_of(a, b);
  case TERCEL_FN_POW: return power(a, b);
  case TERCEL_FN_MIN: return smaller_of(a, b);
  case TERCEL_FN_MAX: return larger_of(a, b);
  case TERCEL_FN_PRELU: return is_negative(a) ? a.bits * b.bits : a.bits;
  case TERCEL_FN_CLAMP: return smaller_of((integer){a.is_signed, larger_of(a, b)}, r[2]);
  case TERCEL_FN_CLIP:
    return smaller_of((integer){a.is_signed, larger_of(a, (integer){a.is_signed, p})}, (integer){a.is_signed, q});
  case TERCEL_FN_BIT_AND: return a.bits & b.bits;
  case TERCEL_FN_BIT_OR: return a.bits | b.bits;
  case TERCEL_FN_BIT_XOR: return a.bits ^ b.bits;
  case TERCEL_FN_BIT_NOT: return ~a.bits;
  case TERCEL_FN_SHIFT_LEFT: return b.bits >= width ? 0 : shift(a.bits, b.bits, true);
  case TERCEL_FN_SHIFT_RIGHT: return b.bits >= width ? 0 : shift(a.bits, b.bits, false);
  case TERCEL_FN_NEG: return 0 - a.bits;
  case TERCEL_FN_ABS: return is_negative(a) ? 0 - a.bits : a.bits;
  case TERCEL_FN_SIGN: return is_negative(a) ? UINT64_MAX : a.bits != 0;
  case TERCEL_FN_RELU: return is_negative(a) ? 0 : a.bits;
  default: return 0;
  }
}

static bool test_integer(tercel_fn fn, integer a, integer b) {
  switch (fn) {
  case TERCEL_FN_EQUAL: return a.bits == b.bits;
  case TERCEL_FN_LESS: return is_less(a, b);
  case TERCEL_FN_LESS_EQUAL: return !is_less(b, a);
  case TERCEL_FN_GREATER: return is_less(b, a);
  case TERCEL_FN_GREATER_EQUAL: return !is_less(a, b);
  case TERCEL_FN_AND: return a.bits && b.bits;
  case TERCEL_FN_OR: return a.bits || b.bits;
  case TERCEL_FN_XOR: return !a.bits != !b.bits;
  case TERCEL_FN_NOT: return !a.bits;
  default: return false;
  }
}

/* ---- instructions ---- */

static void store(void *element, tercel_dtype dtype, tercel_immediate value) {
  if (tercel_dtype_is_float(dtype))
    tercel_element_set_f64(element, dtype, 0, value.f);
  else
    tercel_element_set_i64(element, dtype, 0, value.i);
}

static tercel_immediate load(const void *element, tercel_dtype dtype) {
  if (tercel_dtype_is_float(dtype)) return (tercel_immediate){.f = tercel_element_get_f64(element, dtype, 0)};
  return (tercel_immediate){.i = tercel_element_get_i64(element, dtype, 0)};
}

static tercel_immediate cast(const tercel_instr *instr, tercel_dtype from, tercel_immediate value) {
  const tercel_dtype to = (tercel_dtype)instr->dtype;
  const char round = instr->immediates[1].i ? (char)instr->immediates[1].i : 'u'; /* ONNX's default is up */
  uint64_t source[1] = {0}, result[1] = {0};
  store(source, from, value);
  tercel_element_cast(result, to, 0, source, from, 0, instr->immediates[0].i != 0, round);
  return load(result, to);
}

static tercel_immediate same_strings(const tercel_string *a, const tercel_string *b) {
  return (tercel_immediate){.i =
                                a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0)};
}

/* r: the operands; dtype: that of operand a. */
static tercel_immediate eval_instr(const tercel_instr *instr, tercel_dtype dtype, const tercel_immediate r[3]) {
  const tercel_fn fn = (tercel_fn)instr->fn;
  const bool to_bool = tercel_fn_get_info(fn)->result == TERCEL_RESULT_BOOL;
  const tercel_immediate *const immediates = instr->immediates;
  if (fn == TERCEL_FN_CONSTANT) {
    uint64_t element[1] = {0};
    store(element, (tercel_dtype)instr->dtype, immediates[0]);
    return load(element, (tercel_dtype)instr->dtype);
  }
  if (fn == TERCEL_FN_CAST) return cast(instr, dtype, r[0]);
  if (fn == TERCEL_FN_SELECT) return r[0].i ? r[1] : r[2];
  if (dtype == TERCEL_DTYPE_STRING) return fn == TERCEL_FN_EQUAL ? same_strings(r[0].s, r[1].s) : r[0];
  if (tercel_dtype_is_float(dtype)) {
    const double operands[3] = {r[0].f, r[1].f, r[2].f};
    if (to_bool) return (tercel_immediate){.i = test_float(fn, r[0].f, r[1].f, immediates)};
    return (tercel_immediate){.f = round_to(dtype, eval_float(fn, operands, immediates[0].f, immediates[1].f))};
  }
  integer operands[3];
  for (int j = 0; j < 3; j++)
    operands[j] = (integer){tercel_dtype_get_kind(dtype) == TERCEL_KIND_INT, (uint64_t)r[j].i};
  if (to_bool) return (tercel_immediate){.i = test_integer(fn, operands[0], operands[1])};
  return (tercel_immediate){
      .i = wrap_to(dtype, eval_integer(fn, operands, (uint64_t)immediates[0].i, (uint64_t)immediates[1].i,
                                       (unsigned)tercel_dtype_bits(dtype)))};
}

void tercel_program_eval(const tercel_program *program, const tercel_dtype *inputs, tercel_immediate *regs) {
  const int n = program->num_inputs;
  for (int k = 0; k < program->num_instrs; k++) {
    const tercel_instr *const instr = &program->instrs[k];
    const int arity = tercel_fn_get_info((tercel_fn)instr->fn)->arity;
    tercel_immediate operands[3] = {{0}};
    for (int j = 0; j < arity; j++) operands[j] = regs[instr->operands[j]];
    const int a = instr->operands[0];
    const tercel_dtype dtype = arity == 0 ? (tercel_dtype)instr->dtype
                               : a < n    ? inputs[a]
                                          : (tercel_dtype)program->instrs[a - n].dtype;
    regs[n + k] = eval_instr(instr, dtype, operands);
  }
}
