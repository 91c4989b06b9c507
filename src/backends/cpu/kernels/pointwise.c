/* Pointwise loops over f32 (and f16, bf16 through it), and the interpreter of compiled programs. */
#define VEC_FUSED
#include "backends/cpu/kernels/pointwise.h"

#include <string.h>

#include "backends/cpu/kernels/mathf.h"

/* ---- loops --------------------------------------------------------------------------------------------------------- */

/* For short functions: the body stands once for whole vectors, once for the tail, once for a broadcast source. */
VEC_INLINE void map1(const tercel_lanes *x, vf (*f)(vf)) {
  float *d = x->dst;
  const float *a = x->src[0];
  const int64_t n = x->n;
  int64_t i = 0;
  if (!x->step[0]) {
    const vf r = f(vf_set(a[0]));
    for (; i < n; i += TERCEL_VEC) vf_store_n(d + i, r, n - i);
    return;
  }
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC) vf_store(d + i, f(vf_load(a + i)));
  if (i < n) vf_store_n(d + i, f(vf_load_n(a + i, n - i)), n - i);
}

/* n elements of a source from i on: all, some or one broadcast. */
VEC_INLINE vf fetch(const float *a, int64_t step, int64_t i, int64_t left) {
  if (!step) return vf_set(a[0]);
  return left >= TERCEL_VEC ? vf_load(a + i) : vf_load_n(a + i, left);
}
VEC_INLINE void put(float *d, int64_t i, int64_t left, vf r) {
  if (left >= TERCEL_VEC)
    vf_store(d + i, r);
  else
    vf_store_n(d + i, r, left);
}

/* For long functions: the body stands once. */
VEC_INLINE void map1_long(const tercel_lanes *x, vf (*f)(vf)) {
  float *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) put(d, i, x->n - i, f(fetch(x->src[0], x->step[0], i, x->n - i)));
}
/* p and q: the immediates. */
VEC_INLINE void map1_pq(const tercel_lanes *x, vf (*f)(vf, vf, vf)) {
  float *d = x->dst;
  const vf p = vf_set((float)x->immediates[0].f), q = vf_set((float)x->immediates[1].f);
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC)
    put(d, i, x->n - i, f(fetch(x->src[0], x->step[0], i, x->n - i), p, q));
}
VEC_INLINE void map2_steps(const tercel_lanes *x, int64_t sa, int64_t sb, vf (*f)(vf, vf)) {
  float *d = x->dst;
  const float *a = x->src[0], *b = x->src[1];
  const int64_t n = x->n;
  const vf one_a = vf_set(a[0]), one_b = vf_set(b[0]);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= n; i += TERCEL_VEC)
    vf_store(d + i, f(sa ? vf_load(a + i) : one_a, sb ? vf_load(b + i) : one_b));
  if (i < n) vf_store_n(d + i, f(fetch(a, sa, i, n - i), fetch(b, sb, i, n - i)), n - i);
}
VEC_INLINE void map2(const tercel_lanes *x, vf (*f)(vf, vf)) {
  if (x->n == 0) return;
  if (x->step[0] && x->step[1])
    map2_steps(x, 1, 1, f);
  else if (x->step[0])
    map2_steps(x, 1, 0, f);
  else if (x->step[1])
    map2_steps(x, 0, 1, f);
  else
    map2_steps(x, 0, 0, f);
}
VEC_INLINE void map2_long(const tercel_lanes *x, vf (*f)(vf, vf)) {
  float *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const int64_t left = x->n - i;
    put(d, i, left, f(fetch(x->src[0], x->step[0], i, left), fetch(x->src[1], x->step[1], i, left)));
  }
}

/* Truth values as bytes 0 and 1. */
typedef uint8_t vec_u8 __attribute__((vector_size(TERCEL_VEC)));

VEC_INLINE void put_mask(uint8_t *d, int64_t i, int64_t left, vm m) {
  const vec_u8 bytes = __builtin_convertvector((vu)vi_select(m, vi_set(1), vi_set(0)), vec_u8);
  memcpy(d + i, &bytes, (size_t)(left >= TERCEL_VEC ? TERCEL_VEC : left));
}
VEC_INLINE vm fetch_mask(const uint8_t *a, int64_t step, int64_t i, int64_t left) {
  if (!step) return vm_not(vi_eq(vi_set(a[0]), vi_set(0)));
  vec_u8 bytes = {0};
  if (left >= TERCEL_VEC)
    memcpy(&bytes, a + i, TERCEL_VEC);
  else
    memcpy(&bytes, a + i, (size_t)left);
  return vm_not(vi_eq(__builtin_convertvector(bytes, vi), vi_set(0)));
}
VEC_INLINE void compare2(const tercel_lanes *x, vm (*f)(vf, vf)) {
  uint8_t *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const int64_t left = x->n - i;
    put_mask(d, i, left, f(fetch(x->src[0], x->step[0], i, left), fetch(x->src[1], x->step[1], i, left)));
  }
}

/* ---- functions of one operand -------------------------------------------------------------------------------------- */

VEC_INLINE vf copy(vf a) { return a; }
VEC_INLINE vf relu(vf a) { return vf_max_fast(vf_zero(), a); }
VEC_INLINE vf sign(vf a) {
  const vf one = (vf)((vi)vf_set(1.0f) | vf_sign_bit(a));
  return vf_select(vm_or(vf_lt(a, vf_zero()), vf_gt(a, vf_zero())), one, a + 0.0f);
}
VEC_INLINE vf rsqrt(vf a) { return 1.0f / vf_sqrt(a); }
VEC_INLINE vf reciprocal(vf a) { return 1.0f / a; }
VEC_INLINE vf softsign(vf a) { return a / (1.0f + vf_abs(a)); }
VEC_INLINE vf unit(vf a) { return vf_min_fast(vf_set(1.0f), vf_max_fast(vf_zero(), a)); }
VEC_INLINE vf hard_swish(vf a) { return a * unit(vf_fma(a, vf_set(1.0f / 6.0f), vf_set(0.5f))); }

VEC_INLINE vf clip(vf a, vf p, vf q) { return vf_min(vf_max(a, p), q); }
VEC_INLINE vf leaky_relu(vf a, vf p, vf q) {
  (void)q;
  return vf_select(vf_lt(a, vf_zero()), p * a, a);
}
VEC_INLINE vf thresholded_relu(vf a, vf p, vf q) {
  (void)q;
  return vf_select(vf_le(a, p), vf_zero(), a);
}
VEC_INLINE vf elu(vf a, vf p, vf q) {
  (void)q;
  return vf_select(vf_lt(a, vf_zero()), p * vf_expm1(a), a);
}
VEC_INLINE vf celu(vf a, vf p, vf q) {
  (void)q;
  return vf_max_fast(vf_zero(), a) + vf_min_fast(vf_zero(), p * vf_expm1(a / p));
}
VEC_INLINE vf selu(vf a, vf p, vf q) { return q * vf_select(vf_gt(a, vf_zero()), a, p * vf_expm1(a)); }
VEC_INLINE vf hard_sigmoid(vf a, vf p, vf q) { return unit(vf_fma(p, a, q)); }
VEC_INLINE vf silu(vf a, vf p, vf q) {
  (void)q;
  return vf_silu(a, p);
}
VEC_INLINE vf shrink(vf a, vf p, vf q) {
  const vf below = vf_select(vf_lt(a, -p), a + q, vf_select(vf_isnan(a), a, vf_zero()));
  return vf_select(vf_gt(a, p), a - q, below);
}

/* ---- functions of two ---------------------------------------------------------------------------------------------- */

VEC_INLINE vf add(vf a, vf b) { return a + b; }
VEC_INLINE vf sub(vf a, vf b) { return a - b; }
VEC_INLINE vf mul(vf a, vf b) { return a * b; }
VEC_INLINE vf divide(vf a, vf b) { return a / b; }
VEC_INLINE vf prelu(vf a, vf b) { return vf_select(vf_lt(a, vf_zero()), a * b, a); }

/* a - trunc(a / b) b, exactly: by pieces of 24 bits of the quotient, each of which f64 multiplies without rounding. */
static float fmod_one(float a, float b) {
  if (!(__builtin_fabsf(a) < INFINITY) || b == 0.0f || b != b) return NAN;
  const double y = (double)__builtin_fabsf(b);
  double x = (double)__builtin_fabsf(a);
  while (x >= y && y < (double)INFINITY) {
    double unit_y = y;
    while (unit_y * 0x1p+24 <= x) unit_y *= 0x1p+24;
    const double quotient = (double)(int64_t)(x / unit_y);
    const double rest = x - quotient * unit_y;
    x = rest < 0.0 ? rest + unit_y : rest;
  }
  return __builtin_copysignf((float)x, a);
}
VEC_INLINE vf fmod_lanes(vf a, vf b) {
  for (int i = 0; i < TERCEL_VEC; i++) a[i] = fmod_one(a[i], b[i]);
  return a;
}

#define F32_SHORT(X)                                                                                                   \
  X(COPY, copy)                                                                                                        \
  X(NEG, vf_neg)                                                                                                       \
  X(ABS, vf_abs)                                                                                                       \
  X(SIGN, sign)                                                                                                        \
  X(RELU, relu)                                                                                                        \
  X(HARD_SWISH, hard_swish)                                                                                            \
  X(SOFTSIGN, softsign)                                                                                                \
  X(SQRT, vf_sqrt)                                                                                                     \
  X(RSQRT, rsqrt)                                                                                                      \
  X(RECIPROCAL, reciprocal)                                                                                            \
  X(FLOOR, vf_floor)                                                                                                   \
  X(CEIL, vf_ceil)                                                                                                     \
  X(ROUND, vf_round)
#define F32_LONG(X)                                                                                                    \
  X(SIGMOID, vf_sigmoid)                                                                                               \
  X(GELU, vf_gelu)                                                                                                     \
  X(GELU_TANH, vf_gelu_tanh)                                                                                           \
  X(SOFTPLUS, vf_softplus)                                                                                             \
  X(MISH, vf_mish)                                                                                                     \
  X(EXP, vf_exp)                                                                                                       \
  X(LOG, vf_log)                                                                                                       \
  X(TANH, vf_tanh)                                                                                                     \
  X(ERF, vf_erf)                                                                                                       \
  X(SIN, vf_sin)                                                                                                       \
  X(COS, vf_cos)                                                                                                       \
  X(TAN, vf_tan)                                                                                                       \
  X(ASIN, vf_asin)                                                                                                     \
  X(ACOS, vf_acos)                                                                                                     \
  X(ATAN, vf_atan)                                                                                                     \
  X(SINH, vf_sinh)                                                                                                     \
  X(COSH, vf_cosh)                                                                                                     \
  X(ASINH, vf_asinh)                                                                                                   \
  X(ACOSH, vf_acosh)                                                                                                   \
  X(ATANH, vf_atanh)
#define F32_IMMEDIATE(X)                                                                                               \
  X(CLIP, clip)                                                                                                        \
  X(LEAKY_RELU, leaky_relu)                                                                                            \
  X(THRESHOLDED_RELU, thresholded_relu)                                                                                \
  X(ELU, elu)                                                                                                          \
  X(CELU, celu)                                                                                                        \
  X(SELU, selu)                                                                                                        \
  X(HARD_SIGMOID, hard_sigmoid)                                                                                        \
  X(SILU, silu)                                                                                                        \
  X(SHRINK, shrink)
#define F32_BINARY(X)                                                                                                  \
  X(ADD, add)                                                                                                          \
  X(SUB, sub)                                                                                                          \
  X(MUL, mul)                                                                                                          \
  X(DIV, divide)                                                                                                       \
  X(MIN, vf_min)                                                                                                       \
  X(MAX, vf_max)                                                                                                       \
  X(PRELU, prelu)
#define F32_BINARY_LONG(X)                                                                                             \
  X(POW, vf_pow)                                                                                                       \
  X(ATAN2, vf_atan2)                                                                                                   \
  X(FMOD, fmod_lanes)
#define F32_COMPARE(X)                                                                                                 \
  X(EQUAL, vf_eq)                                                                                                      \
  X(LESS, vf_lt)                                                                                                       \
  X(LESS_EQUAL, vf_le)                                                                                                 \
  X(GREATER, vf_gt)                                                                                                    \
  X(GREATER_EQUAL, vf_ge)

#define DEFINE_SHORT(id, f)                                                                                            \
  static void f32_##id(const tercel_lanes *x) { map1(x, f); }
#define DEFINE_LONG(id, f)                                                                                             \
  static void f32_##id(const tercel_lanes *x) { map1_long(x, f); }
#define DEFINE_IMMEDIATE(id, f)                                                                                        \
  static void f32_##id(const tercel_lanes *x) { map1_pq(x, f); }
#define DEFINE_BINARY(id, f)                                                                                           \
  static void f32_##id(const tercel_lanes *x) { map2(x, f); }
#define DEFINE_BINARY_LONG(id, f)                                                                                      \
  static void f32_##id(const tercel_lanes *x) { map2_long(x, f); }
#define DEFINE_COMPARE(id, f)                                                                                          \
  static void f32_##id(const tercel_lanes *x) { compare2(x, f); }
F32_SHORT(DEFINE_SHORT)
F32_LONG(DEFINE_LONG)
F32_IMMEDIATE(DEFINE_IMMEDIATE)
F32_BINARY(DEFINE_BINARY)
F32_BINARY_LONG(DEFINE_BINARY_LONG)
F32_COMPARE(DEFINE_COMPARE)

static void f32_SELECT(const tercel_lanes *x) {
  float *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const int64_t left = x->n - i;
    const vm m = fetch_mask(x->src[0], x->step[0], i, left);
    put(d, i, left, vf_select(m, fetch(x->src[1], x->step[1], i, left), fetch(x->src[2], x->step[2], i, left)));
  }
}
static void f32_CLAMP(const tercel_lanes *x) {
  float *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const int64_t left = x->n - i;
    const vf a = fetch(x->src[0], x->step[0], i, left);
    put(d, i, left, clip(a, fetch(x->src[1], x->step[1], i, left), fetch(x->src[2], x->step[2], i, left)));
  }
}
static void f32_IS_NAN(const tercel_lanes *x) {
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC)
    put_mask(x->dst, i, x->n - i, vf_isnan(fetch(x->src[0], x->step[0], i, x->n - i)));
}
static void f32_IS_INF(const tercel_lanes *x) {
  const vf low = vf_set(x->immediates[0].i ? -INFINITY : NAN), high = vf_set(x->immediates[1].i ? INFINITY : NAN);
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const vf a = fetch(x->src[0], x->step[0], i, x->n - i);
    put_mask(x->dst, i, x->n - i, vm_or(vf_eq(a, low), vf_eq(a, high)));
  }
}

/* ---- f16 and bf16 -------------------------------------------------------------------------------------------------- */

static void f16_load(const tercel_lanes *x) {
  const uint16_t *a = x->src[0];
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const int64_t left = x->n - i;
    const uint16_t *p = a + (x->step[0] ? i : 0);
    const vf r = x->step[0] ? vf_load_f16_n(p, left) : vf_set(vf_load_f16_n(p, 1)[0]);
    put(x->dst, i, left, r);
  }
}
static void f16_store(const tercel_lanes *x) {
  uint16_t *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC)
    vf_store_f16_n(d + i, fetch(x->src[0], x->step[0], i, x->n - i), x->n - i);
}
static void f16_round(const tercel_lanes *x) {
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    uint16_t bits[TERCEL_VEC];
    vf_store_f16(bits, fetch(x->src[0], x->step[0], i, x->n - i));
    put(x->dst, i, x->n - i, vf_load_f16(bits));
  }
}
static void bf16_load(const tercel_lanes *x) {
  const uint16_t *a = x->src[0];
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    const int64_t left = x->n - i;
    const uint16_t *p = a + (x->step[0] ? i : 0);
    const vf r = x->step[0] ? vf_load_bf16_n(p, left) : vf_set(vf_load_bf16_n(p, 1)[0]);
    put(x->dst, i, left, r);
  }
}
static void bf16_store(const tercel_lanes *x) {
  uint16_t *d = x->dst;
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC)
    vf_store_bf16_n(d + i, fetch(x->src[0], x->step[0], i, x->n - i), x->n - i);
}
static void bf16_round(const tercel_lanes *x) {
  for (int64_t i = 0; i < x->n; i += TERCEL_VEC) {
    uint16_t bits[TERCEL_VEC];
    vf_store_bf16(bits, fetch(x->src[0], x->step[0], i, x->n - i));
    put(x->dst, i, x->n - i, vf_load_bf16(bits));
  }
}

/* ---- programs ------------------------------------------------------------------------------------------------------ */

typedef struct frame {
  const tercel_code *code;
  const tercel_code_operand *operands;
  uint8_t *out;
  uint8_t *scratch;
  size_t slot_bytes;
  bool is_one[TERCEL_PROGRAM_MAX_INPUTS + TERCEL_PROGRAM_MAX_INSTRS]; /* by slot: holds one number for the whole tile */
} frame;

/* Where a source of a step begins for the tile at element `at`. */
static const void *source(const frame *f, tercel_code_ref ref, int64_t at, int64_t *step) {
  *step = 1;
  switch ((tercel_code_place)ref.place) {
  case TERCEL_CODE_INPUT: {
    const tercel_code_operand *operand = &f->operands[ref.index];
    *step = operand->step;
    return (const uint8_t *)operand->data + (operand->step ? at * f->code->input_bytes[ref.index] : 0);
  }
  case TERCEL_CODE_CONSTANT: *step = 0; return &f->code->constants[ref.index];
  case TERCEL_CODE_SLOT: *step = !f->is_one[ref.index]; return f->scratch + f->slot_bytes * ref.index;
  case TERCEL_CODE_OUTPUT: break;
  }
  return f->out + at * f->code->output_bytes;
}

/* What follows from numbers that are one for all elements is computed once. */
static void run_tile(frame *f, int64_t at, int64_t n) {
  for (int s = 0; s < f->code->num_steps; s++) {
    const tercel_code_step *step = &f->code->steps[s];
    tercel_lanes lanes = {.n = n, .immediates = step->immediates};
    uint64_t held[3];
    int64_t ignored;
    bool is_one = step->dst.place == TERCEL_CODE_SLOT;
    lanes.dst = (void *)(uintptr_t)source(f, step->dst, at, &ignored);
    for (int i = 0; i < step->num_src; i++) {
      lanes.src[i] = source(f, step->src[i], at, &lanes.step[i]);
      if (step->src[i].place == TERCEL_CODE_SLOT && lanes.step[i] == 0 &&
          lanes.src[i] == lanes.dst) { /* the loop would overwrite it at its first element */
        memcpy(&held[i], lanes.src[i], sizeof held[i]);
        lanes.src[i] = &held[i];
      }
      is_one = is_one && lanes.step[i] == 0;
    }
    if (is_one) lanes.n = 1;
    if (step->dst.place == TERCEL_CODE_SLOT) f->is_one[step->dst.index] = is_one;
    step->fn(&lanes);
  }
}

static void run(const tercel_code *code, const tercel_code_operand *operands, void *out, int64_t n) {
  _Alignas(64) uint8_t scratch[TERCEL_CODE_SCRATCH_BYTES];
  frame f = {code, operands, out, scratch, (size_t)code->slot_bytes, {false}};
  const int64_t tile = code->num_slots ? code->tile : n;
  for (int64_t at = 0; at < n; at += tile) run_tile(&f, at, n - at < tile ? n - at : tile);
}

#define ROW(id, f) [TERCEL_FN_##id] = f32_##id,
const tercel_pointwise_kernels TERCEL_LEVEL_NAME(tercel_pointwise_kernels) = {
    .f32 = {F32_SHORT(ROW) F32_LONG(ROW) F32_IMMEDIATE(ROW) F32_BINARY(ROW) F32_BINARY_LONG(ROW) F32_COMPARE(ROW)
                ROW(SELECT, ) ROW(CLAMP, ) ROW(IS_NAN, ) ROW(IS_INF, )},
    .f16_load = f16_load,
    .f16_store = f16_store,
    .f16_round = f16_round,
    .bf16_load = bf16_load,
    .bf16_store = bf16_store,
    .bf16_round = bf16_round,
    .run = run,
};
