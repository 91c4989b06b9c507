/* Narrow numbers, exactly.  One encoder and one decoder serve every format; a row says how the format is laid out.  These
 * are the definition that kernels are tested against; kernels have fast vector forms of their own.
 *
 * Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0; OCP Microscaling Formats (MX) 1.0; ONNX Cast-25 for
 * saturation, the FNUZ forms (Noune et al., "8-bit Numerical Formats for Deep Neural Networks", 2022) and NaN in formats of 6 and 4 bits. */
#include "base/half.h"

#include <string.h>

/* sign | exponent | mantissa, with `mantissa_bits` and an exponent that is biased by `bias`; exponent 0 means subnormal. */
typedef struct format {
  int sign_shift; /* the place of the sign bit */
  int mantissa_bits;
  int bias;
  uint32_t largest;  /* code of the largest finite value */
  uint32_t overflow; /* what is out of range becomes, when it does not saturate: infinity, or NaN where there is none */
  uint32_t nan;      /* the NaN for a NaN input, before the sign is put on */
  bool unsigned_nan_and_zero; /* FNUZ: the code of -0 is the only NaN, and there is no -0 */
} format;

static const format f16 = {15, 10, 15, 0x7bff, 0x7c00, 0x7e00, false};
static const format bf16 = {15, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false};
static const format f8e4m3fn = {7, 3, 7, 0x7e, 0x7f, 0x7f, false};
static const format f8e4m3fnuz = {7, 3, 8, 0x7f, 0x80, 0x80, true};
static const format f8e5m2 = {7, 2, 15, 0x7b, 0x7c, 0x7e, false};
static const format f8e5m2fnuz = {7, 2, 16, 0x7f, 0x80, 0x80, true};
static const format f6e2m3 = {5, 3, 1, 0x1f, 0x1f, 0x20, false};
static const format f6e3m2 = {5, 2, 3, 0x1f, 0x1f, 0x20, false};
static const format f4e2m1 = {3, 1, 1, 0x7, 0x7, 0x8, false};

static uint64_t bits_of_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint32_t bits_of_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float f32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* value >> shift, to nearest even. */
static uint64_t shift_round(uint64_t value, int shift) {
  if (shift > 63) return 0; /* value < 2^53: less than half of the last place */
  const uint64_t kept = value >> shift, rest = value & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

/* The code of a finite magnitude, counted without an upper end: rounding may carry into the exponent, which is just what
 * the next code means.  An f32 is exact as an f64, so one encoder rounds both once. */
static uint64_t encode_magnitude(const format *to, uint64_t bits) {
  const int field = (int)(bits >> 52 & 0x7ff);
  if (field == 0) return 0; /* an f64 subnormal is far below every format's smallest */
  const uint64_t mantissa = (bits & 0xfffffffffffff) | (uint64_t)1 << 52;
  const int smallest = 1 - to->bias, exponent = field - 1023;
  const int used = exponent < smallest ? smallest : exponent;
  const uint64_t rounded = shift_round(mantissa, 52 - to->mantissa_bits + (used - exponent));
  return rounded +
         ((uint64_t)(used - smallest) << to->mantissa_bits); /* `rounded` holds the leading 1 = exponent field 1 */
}

static uint32_t encode(const format *to, double value, bool saturate) {
  const uint64_t bits = bits_of_f64(value), magnitude = bits & INT64_MAX, infinity = (uint64_t)0x7ff << 52;
  const uint32_t sign = (uint32_t)(bits >> 63) << to->sign_shift;
  if (magnitude > infinity) return to->nan | sign;
  const uint64_t code = magnitude == infinity ? UINT64_MAX : encode_magnitude(to, magnitude);
  if (code > to->largest) return (saturate ? to->largest : to->overflow) | sign;
  if (code == 0 && to->unsigned_nan_and_zero) return 0;
  return (uint32_t)code | sign;
}

/* 2^exponent for exponents of normal f32. */
static float power_of_two(int exponent) { return f32_of_bits((uint32_t)(exponent + 127) << 23); }

/* A finite code: the product is exact, since every format's values are f32 values. */
static float decode_finite(const format *from, uint32_t bits) {
  const uint32_t magnitude = bits & ((1u << from->sign_shift) - 1);
  const uint32_t mantissa = magnitude & ((1u << from->mantissa_bits) - 1);
  const int field = (int)(magnitude >> from->mantissa_bits);
  const uint32_t whole = field ? mantissa | 1u << from->mantissa_bits : mantissa;
  const float value = (float)whole * power_of_two((field ? field : 1) - from->bias - from->mantissa_bits);
  return bits >> from->sign_shift & 1 ? -value : value;
}

static float nan_of_sign(uint32_t sign_bit) { return f32_of_bits(0x7fc00000 | sign_bit << 31); }

/* ---- 16 bits ---- */

uint16_t tercel_f16_from_f64(double value) {
  const uint64_t bits = bits_of_f64(value);
  const uint32_t payload = value != value ? (uint32_t)(bits >> 42 & 0x1ff) : 0;
  return (uint16_t)(encode(&f16, value, false) | payload);
}

uint16_t tercel_f16_from_f32(float value) {
  if (value == value) return (uint16_t)encode(&f16, (double)value, false);
  const uint32_t bits = bits_of_f32(value);
  return (uint16_t)((bits >> 16 & 0x8000) | f16.nan | (bits >> 13 & 0x1ff));
}

float tercel_f16_to_f32(uint16_t bits) {
  if ((bits & 0x7c00) != 0x7c00) return decode_finite(&f16, bits);
  const uint32_t quiet = bits & 0x3ff ? 0x400000 : 0;
  return f32_of_bits((uint32_t)(bits & 0x8000) << 16 | 0x7f800000 | (uint32_t)(bits & 0x3ff) << 13 | quiet);
}

uint16_t tercel_bf16_from_f64(double value) {
  const uint64_t bits = bits_of_f64(value);
  const uint32_t payload = value != value ? (uint32_t)(bits >> 45 & 0x3f) : 0;
  return (uint16_t)(encode(&bf16, value, false) | payload);
}

uint16_t tercel_bf16_from_f32(float value) {
  const uint32_t bits = bits_of_f32(value);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)shift_round(bits, 16); /* a bf16 is the upper half of an f32, subnormals and infinity too */
}

float tercel_bf16_to_f32(uint16_t bits) {
  const bool nan = (bits & 0x7fff) > 0x7f80;
  return f32_of_bits((uint32_t)bits << 16 | (nan ? 0x400000 : 0));
}

/* ---- 8 bits ---- */

uint8_t tercel_f8e4m3fn_from_f32(float value, bool saturate) {
  return (uint8_t)encode(&f8e4m3fn, (double)value, saturate);
}

float tercel_f8e4m3fn_to_f32(uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? nan_of_sign(bits >> 7) : decode_finite(&f8e4m3fn, bits);
}

uint8_t tercel_f8e4m3fnuz_from_f32(float value, bool saturate) {
  return (uint8_t)encode(&f8e4m3fnuz, (double)value, saturate);
}

float tercel_f8e4m3fnuz_to_f32(uint8_t bits) {
  return bits == 0x80 ? nan_of_sign(0) : decode_finite(&f8e4m3fnuz, bits);
}

uint8_t tercel_f8e5m2_from_f32(float value, bool saturate) { return (uint8_t)encode(&f8e5m2, (double)value, saturate); }

float tercel_f8e5m2_to_f32(uint8_t bits) { return tercel_f16_to_f32((uint16_t)(bits << 8)); }

uint8_t tercel_f8e5m2fnuz_from_f32(float value, bool saturate) {
  return (uint8_t)encode(&f8e5m2fnuz, (double)value, saturate);
}

float tercel_f8e5m2fnuz_to_f32(uint8_t bits) {
  return bits == 0x80 ? nan_of_sign(0) : decode_finite(&f8e5m2fnuz, bits);
}

/* ONNX Cast-25: the sign is dropped.  Infinity and what is above 2^127 become 2^127 or NaN, zero and what is below 2^-127
 * become 2^-127 or NaN, by `saturate`.  To nearest, half way goes up. */
uint8_t tercel_f8e8m0_from_f32(float value, bool saturate, char round) {
  enum { NAN_CODE = 255, LARGEST = 254 };
  const uint32_t magnitude = bits_of_f32(value) & INT32_MAX, smallest = 0x400000 /* 2^-127, an f32 subnormal */;
  if (magnitude > 0x7f800000) return NAN_CODE;
  if (magnitude < smallest) return saturate ? 0 : NAN_CODE;
  uint32_t code = magnitude >> 23, fraction = magnitude & 0x7fffff; /* of 2^23 */
  if (code == 0) fraction = (magnitude - smallest) << 1;            /* normalized: the leading 1 stands one bit lower */
  code += round == 'u' ? fraction > 0 : round == 'n' ? fraction >= 0x400000 : 0;
  return code > LARGEST ? (saturate ? LARGEST : NAN_CODE) : (uint8_t)code;
}

float tercel_f8e8m0_to_f32(uint8_t bits) {
  if (bits == 255) return nan_of_sign(0);
  return f32_of_bits(bits ? (uint32_t)bits << 23 : 0x400000);
}

/* ---- 6 and 4 bits: saturating, without infinity and NaN ---- */

static uint8_t encode_finite(const format *f, float value) {
  return value == value ? (uint8_t)encode(f, (double)value, true) : (uint8_t)f->nan;
}

uint8_t tercel_f6e2m3_from_f32(float value) { return encode_finite(&f6e2m3, value); }

float tercel_f6e2m3_to_f32(uint8_t bits) { return decode_finite(&f6e2m3, bits & 0x3f); }

uint8_t tercel_f6e3m2_from_f32(float value) { return encode_finite(&f6e3m2, value); }

float tercel_f6e3m2_to_f32(uint8_t bits) { return decode_finite(&f6e3m2, bits & 0x3f); }

void tercel_unpack6(const uint8_t *packed, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; i++) {
    const size_t byte = i / 4 * 3 + i % 4 * 6 / 8, shift = i % 4 * 6 % 8;
    const unsigned next = shift > 2 ? packed[byte + 1] : 0u; /* holds the rest of this code */
    out[i] = (uint8_t)((packed[byte] | next << 8) >> shift & 0x3f);
  }
}

void tercel_pack6(const uint8_t *codes, size_t count, uint8_t *out) {
  memset(out, 0, tercel_packed6_bytes(count));
  for (size_t i = 0; i < count; i++) {
    const size_t byte = i / 4 * 3 + i % 4 * 6 / 8, shift = i % 4 * 6 % 8;
    const unsigned bits = (codes[i] & 0x3fu) << shift;
    out[byte] = (uint8_t)(out[byte] | bits);
    if (shift > 2) out[byte + 1] = (uint8_t)(bits >> 8);
  }
}

uint8_t tercel_f4e2m1_from_f32(float value) { return encode_finite(&f4e2m1, value); }

float tercel_f4e2m1_to_f32(uint8_t bits) { return decode_finite(&f4e2m1, bits & 0xf); }
