/* Pointwise loops over f64, integers and bool, and casts: plain C that the compiler vectorizes for the level.  f64 has the functions that
 * need no library; programs with others are left to the reference. */
#include "backends/cpu/kernels/pointwise.h"

#include "backends/cpu/kernels/vec.h"

/* ---- integers ---- */

#define T int8_t
#define U uint8_t
#define NAME(x) i8_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#define T int16_t
#define U uint16_t
#define NAME(x) i16_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#define T int32_t
#define U uint32_t
#define NAME(x) i32_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#define T int64_t
#define U uint64_t
#define NAME(x) i64_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* x < 0 in what serves signed types too */
#define T uint8_t
#define U uint8_t
#define NAME(x) u8_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#define T uint16_t
#define U uint16_t
#define NAME(x) u16_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#define T uint32_t
#define U uint32_t
#define NAME(x) u32_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME

#define T uint64_t
#define U uint64_t
#define NAME(x) u64_##x
#include "backends/cpu/kernels/pointwise_int.inc"
#undef T
#undef U
#undef NAME
#pragma GCC diagnostic pop

/* ---- f64 ---- */

#define T double
#define NAME(x) f64_##x
#include "backends/cpu/kernels/pointwise_maps.inc"
#undef T
#undef NAME

static inline double f64_add(double a, double b) { return a + b; }
static inline double f64_sub(double a, double b) { return a - b; }
static inline double f64_mul(double a, double b) { return a * b; }
static inline double f64_divide(double a, double b) { return a / b; }
static inline double f64_min(double a, double b) { return a < b || a != a ? a : b; }
static inline double f64_max(double a, double b) { return a > b || a != a ? a : b; }
static inline double f64_prelu(double a, double b) { return a < 0 ? a * b : a; }
static inline bool f64_equal(double a, double b) { return a == b; }
static inline bool f64_less(double a, double b) { return a < b; }
static inline bool f64_less_equal(double a, double b) { return a <= b; }
static inline bool f64_greater(double a, double b) { return a > b; }
static inline bool f64_greater_equal(double a, double b) { return a >= b; }
static inline double f64_copy(double a) { return a; }
static inline double f64_neg(double a) { return -a; }
static inline double f64_abs(double a) { return __builtin_fabs(a); }
static inline double f64_sign(double a) { return a > 0 ? 1 : a < 0 ? -1 : a + 0.0; }
static inline double f64_relu(double a) { return a < 0 ? 0 : a; }
static inline double f64_reciprocal(double a) { return 1 / a; }
static inline double f64_sqrt(double a) { return __builtin_sqrt(a); }
static inline double f64_rsqrt(double a) { return 1 / __builtin_sqrt(a); }
static inline double f64_softsign(double a) { return a / (1 + __builtin_fabs(a)); }
/* 2^52 and more has no fraction; below it adding and taking away 2^52 rounds to nearest even. */
static inline double f64_round(double a) {
  const double magnitude = __builtin_fabs(a);
  return magnitude < 0x1p52 ? __builtin_copysign(magnitude + 0x1p52 - 0x1p52, a) : a;
}
static inline double f64_floor(double a) {
  const double r = f64_round(a);
  return r > a ? r - 1 : r;
}
static inline double f64_ceil(double a) {
  const double r = f64_round(a);
  return r < a ? __builtin_copysign(r + 1, a) : r;
}

#define F64_UNARY(X)                                                                                                   \
  X(COPY, copy)                                                                                                        \
  X(NEG, neg)                                                                                                          \
  X(ABS, abs)                                                                                                          \
  X(SIGN, sign)                                                                                                        \
  X(RELU, relu)                                                                                                        \
  X(RECIPROCAL, reciprocal)                                                                                            \
  X(SQRT, sqrt)                                                                                                        \
  X(RSQRT, rsqrt)                                                                                                      \
  X(SOFTSIGN, softsign)                                                                                                \
  X(ROUND, round)                                                                                                      \
  X(FLOOR, floor)                                                                                                      \
  X(CEIL, ceil)
#define F64_BINARY(X) X(ADD, add) X(SUB, sub) X(MUL, mul) X(DIV, divide) X(MIN, min) X(MAX, max) X(PRELU, prelu)
#define F64_TEST(X)                                                                                                    \
  X(EQUAL, equal) X(LESS, less) X(LESS_EQUAL, less_equal) X(GREATER, greater) X(GREATER_EQUAL, greater_equal)
#define UNARY_LOOP(id, f)                                                                                              \
  static void f64_##id(const tercel_lanes *x) { f64_map1(x, f64_##f); }
#define BINARY_LOOP(id, f)                                                                                             \
  static void f64_##id(const tercel_lanes *x) { f64_map2(x, f64_##f); }
#define TEST_LOOP(id, f)                                                                                               \
  static void f64_##id(const tercel_lanes *x) { f64_test2(x, f64_##f); }
F64_UNARY(UNARY_LOOP)
F64_BINARY(BINARY_LOOP)
F64_TEST(TEST_LOOP)

static void f64_CLAMP(const tercel_lanes *x) {
  double *d = x->dst;
  const double *a = x->src[0], *low = x->src[1], *high = x->src[2];
  for (int64_t i = 0; i < x->n; i++)
    d[i] = f64_min(f64_max(a[i * x->step[0]], low[i * x->step[1]]), high[i * x->step[2]]);
}
static void f64_CLIP(const tercel_lanes *x) {
  double *d = x->dst;
  const double *a = x->src[0], low = x->immediates[0].f, high = x->immediates[1].f;
  for (int64_t i = 0; i < x->n; i++) d[i] = f64_min(f64_max(a[i * x->step[0]], low), high);
}
static void f64_IS_NAN(const tercel_lanes *x) {
  uint8_t *d = x->dst;
  const double *a = x->src[0];
  for (int64_t i = 0; i < x->n; i++) d[i] = a[i * x->step[0]] != a[i * x->step[0]];
}
static void f64_IS_INF(const tercel_lanes *x) {
  uint8_t *d = x->dst;
  const double *p = x->src[0];
  const bool low = x->immediates[0].i != 0, high = x->immediates[1].i != 0;
  for (int64_t i = 0; i < x->n; i++) {
    const double a = p[i * x->step[0]];
    d[i] = (low && a < -0x1.fffffffffffffp+1023) || (high && a > 0x1.fffffffffffffp+1023);
  }
}

/* ---- bool ---- */

#define T uint8_t
#define NAME(x) bool_##x
#include "backends/cpu/kernels/pointwise_maps.inc"
#undef T
#undef NAME

static inline uint8_t bool_and(uint8_t a, uint8_t b) { return a & b; }
static inline uint8_t bool_or(uint8_t a, uint8_t b) { return a | b; }
static inline uint8_t bool_xor(uint8_t a, uint8_t b) { return a ^ b; }
static inline bool bool_equal(uint8_t a, uint8_t b) { return a == b; }
static inline uint8_t bool_not(uint8_t a) { return a ^ 1; }
static inline uint8_t bool_copy(uint8_t a) { return a; }

static void bool_AND(const tercel_lanes *x) { bool_map2(x, bool_and); }
static void bool_OR(const tercel_lanes *x) { bool_map2(x, bool_or); }
static void bool_XOR(const tercel_lanes *x) { bool_map2(x, bool_xor); }
static void bool_EQUAL(const tercel_lanes *x) { bool_test2(x, bool_equal); }
static void bool_NOT(const tercel_lanes *x) { bool_map1(x, bool_not); }
static void bool_COPY(const tercel_lanes *x) { bool_map1(x, bool_copy); }

/* ---- casts ---- */

#define FLOATING 1
#define F float
#define FROM(x) f32_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F double
#define FROM(x) f64_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#undef FLOATING

#define FLOATING 0
#define F int8_t
#define FROM(x) i8_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F int16_t
#define FROM(x) i16_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F int32_t
#define FROM(x) i32_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F int64_t
#define FROM(x) i64_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F uint8_t
#define FROM(x) u8_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F uint16_t
#define FROM(x) u16_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F uint32_t
#define FROM(x) u32_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#define F uint64_t
#define FROM(x) u64_to_##x
#include "backends/cpu/kernels/pointwise_cast.inc"
#undef F
#undef FROM
#undef FLOATING

/* ---- tables ---- */

/* clang-format off */
#define INT_ROWS(t)                                                                                                    \
  {[TERCEL_FN_COPY] = t##_COPY, [TERCEL_FN_ADD] = t##_ADD, [TERCEL_FN_SUB] = t##_SUB, [TERCEL_FN_MUL] = t##_MUL,        \
   [TERCEL_FN_DIV] = t##_DIV, [TERCEL_FN_MOD] = t##_MOD, [TERCEL_FN_FMOD] = t##_FMOD, [TERCEL_FN_POW] = t##_POW,        \
   [TERCEL_FN_MIN] = t##_MIN, [TERCEL_FN_MAX] = t##_MAX, [TERCEL_FN_PRELU] = t##_PRELU, [TERCEL_FN_EQUAL] = t##_EQUAL,  \
   [TERCEL_FN_LESS] = t##_LESS, [TERCEL_FN_LESS_EQUAL] = t##_LESS_EQUAL, [TERCEL_FN_GREATER] = t##_GREATER,             \
   [TERCEL_FN_GREATER_EQUAL] = t##_GREATER_EQUAL, [TERCEL_FN_BIT_AND] = t##_BIT_AND, [TERCEL_FN_BIT_OR] = t##_BIT_OR,   \
   [TERCEL_FN_BIT_XOR] = t##_BIT_XOR, [TERCEL_FN_BIT_NOT] = t##_BIT_NOT, [TERCEL_FN_SHIFT_LEFT] = t##_SHIFT_LEFT,       \
   [TERCEL_FN_SHIFT_RIGHT] = t##_SHIFT_RIGHT, [TERCEL_FN_SELECT] = t##_SELECT, [TERCEL_FN_CLAMP] = t##_CLAMP,           \
   [TERCEL_FN_CLIP] = t##_CLIP, [TERCEL_FN_NEG] = t##_NEG, [TERCEL_FN_ABS] = t##_ABS, [TERCEL_FN_SIGN] = t##_SIGN,      \
   [TERCEL_FN_RELU] = t##_RELU}
#define CAST_ROWS(t)                                                                                                   \
  {[TERCEL_LANE_F32] = t##_to_F32, [TERCEL_LANE_F64] = t##_to_F64, [TERCEL_LANE_I8] = t##_to_I8,                        \
   [TERCEL_LANE_I16] = t##_to_I16, [TERCEL_LANE_I32] = t##_to_I32, [TERCEL_LANE_I64] = t##_to_I64,                      \
   [TERCEL_LANE_U8] = t##_to_U8, [TERCEL_LANE_U16] = t##_to_U16, [TERCEL_LANE_U32] = t##_to_U32,                        \
   [TERCEL_LANE_U64] = t##_to_U64, [TERCEL_LANE_BOOL] = t##_to_BOOL}

const tercel_pointwise_plain_kernels TERCEL_LEVEL_NAME(tercel_pointwise_plain_kernels) = {
    .fn = {
        [TERCEL_LANE_I8] = INT_ROWS(i8), [TERCEL_LANE_I16] = INT_ROWS(i16), [TERCEL_LANE_I32] = INT_ROWS(i32),
        [TERCEL_LANE_I64] = INT_ROWS(i64), [TERCEL_LANE_U8] = INT_ROWS(u8), [TERCEL_LANE_U16] = INT_ROWS(u16),
        [TERCEL_LANE_U32] = INT_ROWS(u32), [TERCEL_LANE_U64] = INT_ROWS(u64),
        [TERCEL_LANE_BOOL] = {
            [TERCEL_FN_COPY] = bool_COPY, [TERCEL_FN_EQUAL] = bool_EQUAL, [TERCEL_FN_AND] = bool_AND,
            [TERCEL_FN_OR] = bool_OR, [TERCEL_FN_XOR] = bool_XOR, [TERCEL_FN_NOT] = bool_NOT,
            [TERCEL_FN_SELECT] = bool_SELECT},
#define F64_ROW(id, f) [TERCEL_FN_##id] = f64_##id,
        [TERCEL_LANE_F64] = {
            F64_UNARY(F64_ROW) F64_BINARY(F64_ROW) F64_TEST(F64_ROW) F64_ROW(SELECT, ) F64_ROW(CLAMP, )
            F64_ROW(CLIP, ) F64_ROW(IS_NAN, ) F64_ROW(IS_INF, )},
    },
    .cast = {
        [TERCEL_LANE_F32] = CAST_ROWS(f32), [TERCEL_LANE_F64] = CAST_ROWS(f64), [TERCEL_LANE_I8] = CAST_ROWS(i8),
        [TERCEL_LANE_I16] = CAST_ROWS(i16), [TERCEL_LANE_I32] = CAST_ROWS(i32), [TERCEL_LANE_I64] = CAST_ROWS(i64),
        [TERCEL_LANE_U8] = CAST_ROWS(u8), [TERCEL_LANE_U16] = CAST_ROWS(u16), [TERCEL_LANE_U32] = CAST_ROWS(u32),
        [TERCEL_LANE_U64] = CAST_ROWS(u64), [TERCEL_LANE_BOOL] = CAST_ROWS(u8)},
};
/* clang-format on */
