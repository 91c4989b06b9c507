/* Element types: one row each, and plain access to single elements.
 *
 * An element's bits are loaded into (stored from) the low end of a u64; every format of at most 64 bits is then decoded
 * (encoded) from there, so packed types need no code of their own. */
#include "ir/dtype.h"

#include <math.h>
#include <string.h>

#include "ir/blocks.h"

typedef struct row {
  const char *name;
  int bits;
  tercel_dtype_kind kind;
} row;

/* clang-format off */
static const row rows[TERCEL_DTYPE_COUNT] = {
    [TERCEL_DTYPE_NONE]       = {"none", 0, TERCEL_KIND_NONE},
    [TERCEL_DTYPE_F64]        = {"f64", 64, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F32]        = {"f32", 32, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F16]        = {"f16", 16, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_BF16]       = {"bf16", 16, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F8E4M3FN]   = {"f8e4m3fn", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F8E4M3FNUZ] = {"f8e4m3fnuz", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F8E5M2]     = {"f8e5m2", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F8E5M2FNUZ] = {"f8e5m2fnuz", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F8E8M0]     = {"f8e8m0", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F6E2M3]     = {"f6e2m3", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F6E3M2]     = {"f6e3m2", 8, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_F4E2M1]     = {"f4e2m1", 4, TERCEL_KIND_FLOAT},
    [TERCEL_DTYPE_I64]        = {"i64", 64, TERCEL_KIND_INT},
    [TERCEL_DTYPE_I32]        = {"i32", 32, TERCEL_KIND_INT},
    [TERCEL_DTYPE_I16]        = {"i16", 16, TERCEL_KIND_INT},
    [TERCEL_DTYPE_I8]         = {"i8", 8, TERCEL_KIND_INT},
    [TERCEL_DTYPE_I4]         = {"i4", 4, TERCEL_KIND_INT},
    [TERCEL_DTYPE_I2]         = {"i2", 2, TERCEL_KIND_INT},
    [TERCEL_DTYPE_U64]        = {"u64", 64, TERCEL_KIND_UINT},
    [TERCEL_DTYPE_U32]        = {"u32", 32, TERCEL_KIND_UINT},
    [TERCEL_DTYPE_U16]        = {"u16", 16, TERCEL_KIND_UINT},
    [TERCEL_DTYPE_U8]         = {"u8", 8, TERCEL_KIND_UINT},
    [TERCEL_DTYPE_U4]         = {"u4", 4, TERCEL_KIND_UINT},
    [TERCEL_DTYPE_U2]         = {"u2", 2, TERCEL_KIND_UINT},
    [TERCEL_DTYPE_BOOL]       = {"bool", 8, TERCEL_KIND_BOOL},
    [TERCEL_DTYPE_C64]        = {"c64", 64, TERCEL_KIND_COMPLEX},
    [TERCEL_DTYPE_C128]       = {"c128", 128, TERCEL_KIND_COMPLEX},
    [TERCEL_DTYPE_STRING]     = {"string", 8 * sizeof(tercel_string), TERCEL_KIND_STRING},
    [TERCEL_DTYPE_Q4_0]       = {"q4_0", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q4_1]       = {"q4_1", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q5_0]       = {"q5_0", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q5_1]       = {"q5_1", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q8_0]       = {"q8_0", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q2_K]       = {"q2_k", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q3_K]       = {"q3_k", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q4_K]       = {"q4_k", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q5_K]       = {"q5_k", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_Q6_K]       = {"q6_k", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ1_S]      = {"iq1_s", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ1_M]      = {"iq1_m", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ2_XXS]    = {"iq2_xxs", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ2_XS]     = {"iq2_xs", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ2_S]      = {"iq2_s", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ3_XXS]    = {"iq3_xxs", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ3_S]      = {"iq3_s", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ4_NL]     = {"iq4_nl", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_IQ4_XS]     = {"iq4_xs", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_TQ1_0]      = {"tq1_0", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_TQ2_0]      = {"tq2_0", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_MXFP4]      = {"mxfp4", 0, TERCEL_KIND_BLOCK},
    [TERCEL_DTYPE_NVFP4]      = {"nvfp4", 0, TERCEL_KIND_BLOCK},
};
/* clang-format on */

static const row *row_of(tercel_dtype dtype) { return &rows[(unsigned)dtype < TERCEL_DTYPE_COUNT ? dtype : 0]; }

const char *tercel_dtype_name(tercel_dtype dtype) { return row_of(dtype)->name; }

int tercel_dtype_bits(tercel_dtype dtype) { return row_of(dtype)->bits; }

int tercel_dtype_block(tercel_dtype dtype, int *bytes) {
  const tercel_block_format block = tercel_dtype_block_format(dtype);
  if (bytes != NULL) *bytes = block.bytes;
  return block.elements > 0 ? block.elements : tercel_dtype_bits(dtype) > 0;
}

tercel_dtype_kind tercel_dtype_get_kind(tercel_dtype dtype) { return row_of(dtype)->kind; }

bool tercel_dtype_is_integer(tercel_dtype dtype) {
  const tercel_dtype_kind kind = tercel_dtype_get_kind(dtype);
  return kind == TERCEL_KIND_INT || kind == TERCEL_KIND_UINT;
}

bool tercel_dtype_parse(const char *name, size_t length, tercel_dtype *out) {
  for (int i = 0; i < TERCEL_DTYPE_COUNT; i++) {
    if (strlen(rows[i].name) != length || memcmp(rows[i].name, name, length) != 0) continue;
    *out = (tercel_dtype)i;
    return true;
  }
  return false;
}

bool tercel_dtype_size(tercel_dtype dtype, int64_t elements, size_t *bytes_out) {
  const int bits = tercel_dtype_bits(dtype);
  const tercel_block_format block = tercel_dtype_block_format(dtype);
  if (elements < 0) return false;
  if (block.elements > 0)
    return elements % block.elements == 0 &&
           tercel_mul_size((size_t)(elements / block.elements), (size_t)block.bytes, bytes_out);
  if (bits == 0) return false;
  if (bits >= 8) return tercel_mul_size((size_t)elements, (size_t)bits / 8, bytes_out);
  *bytes_out = (size_t)tercel_ceil_div(elements, 8 / bits);
  return true;
}

/* ---- bits ---- */

/* What is none of our numbers: no type, complex, strings. */
static bool has_no_bits(int bits) { return bits == 0 || bits > 64; }

static uint64_t load_bits(const void *data, int bits, int64_t index) {
  const uint8_t *const bytes = data;
  if (has_no_bits(bits)) return 0;
  if (bits < 8) {
    const int per_byte = 8 / bits;
    return (uint64_t)(bytes[index / per_byte] >> (bits * (int)(index % per_byte))) & ((1u << bits) - 1);
  }
  uint64_t value = 0; /* little-endian, checked when tercel is built */
  switch (bits) {     /* constant sizes: one load each */
  case 8: return bytes[index];
  case 16: memcpy(&value, bytes + 2 * index, 2); break;
  case 32: memcpy(&value, bytes + 4 * index, 4); break;
  default: memcpy(&value, bytes + 8 * index, 8); break;
  }
  return value;
}

static void store_bits(void *data, int bits, int64_t index, uint64_t value) {
  uint8_t *const bytes = data;
  if (has_no_bits(bits)) return;
  if (bits < 8) {
    const int per_byte = 8 / bits, shift = bits * (int)(index % per_byte);
    const unsigned mask = ((1u << bits) - 1) << shift;
    uint8_t *const byte = bytes + index / per_byte;
    *byte = (uint8_t)((*byte & ~mask) | ((unsigned)(value << shift) & mask));
    return;
  }
  switch (bits) {
  case 8: bytes[index] = (uint8_t)value; break;
  case 16: memcpy(bytes + 2 * index, &value, 2); break;
  case 32: memcpy(bytes + 4 * index, &value, 4); break;
  default: memcpy(bytes + 8 * index, &value, 8); break;
  }
}

static double decode_float(tercel_dtype dtype, uint64_t bits) {
  switch (dtype) {
  case TERCEL_DTYPE_F64: {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  case TERCEL_DTYPE_F32: {
    const uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
  }
  case TERCEL_DTYPE_F16: return (double)tercel_f16_to_f32((uint16_t)bits);
  case TERCEL_DTYPE_BF16: return (double)tercel_bf16_to_f32((uint16_t)bits);
  case TERCEL_DTYPE_F8E4M3FN: return (double)tercel_f8e4m3fn_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F8E4M3FNUZ: return (double)tercel_f8e4m3fnuz_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F8E5M2: return (double)tercel_f8e5m2_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F8E5M2FNUZ: return (double)tercel_f8e5m2fnuz_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F8E8M0: return (double)tercel_f8e8m0_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F6E2M3: return (double)tercel_f6e2m3_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F6E3M2: return (double)tercel_f6e3m2_to_f32((uint8_t)bits);
  case TERCEL_DTYPE_F4E2M1: return (double)tercel_f4e2m1_to_f32((uint8_t)bits);
  default: return 0;
  }
}

static uint64_t bits_of_f32(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

static uint64_t bits_of_f64(double value) {
  uint64_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

/* An f64 as an f32 rounded to odd: what is cut off leaves a 1 in the last place, so that rounding the f32 on to a much
 * narrower format gives what rounding the f64 once would give (Boldo and Melquiond 2008). */
static float f32_rounded_to_odd(double value) {
  const float nearest = (float)value;
  if ((double)nearest == value || isnan(value)) return nearest;
  uint32_t bits = (uint32_t)bits_of_f32(nearest);
  if (fabs((double)nearest) > fabs(value)) bits--; /* towards zero; infinity becomes the largest finite */
  bits |= 1;
  float odd;
  memcpy(&odd, &bits, sizeof odd);
  return odd;
}

static uint64_t encode_float(tercel_dtype dtype, double value, bool saturate, char round) {
  if (dtype == TERCEL_DTYPE_F64) return bits_of_f64(value);
  if (dtype == TERCEL_DTYPE_F32) return bits_of_f32((float)value);
  if (dtype == TERCEL_DTYPE_F16) return tercel_f16_from_f64(value);
  if (dtype == TERCEL_DTYPE_BF16) return tercel_bf16_from_f64(value);
  const float odd = f32_rounded_to_odd(value);
  switch (dtype) {
  case TERCEL_DTYPE_F8E4M3FN: return tercel_f8e4m3fn_from_f32(odd, saturate);
  case TERCEL_DTYPE_F8E4M3FNUZ: return tercel_f8e4m3fnuz_from_f32(odd, saturate);
  case TERCEL_DTYPE_F8E5M2: return tercel_f8e5m2_from_f32(odd, saturate);
  case TERCEL_DTYPE_F8E5M2FNUZ: return tercel_f8e5m2fnuz_from_f32(odd, saturate);
  case TERCEL_DTYPE_F8E8M0: return tercel_f8e8m0_from_f32(odd, saturate, round);
  case TERCEL_DTYPE_F6E2M3: return tercel_f6e2m3_from_f32(odd);
  case TERCEL_DTYPE_F6E3M2: return tercel_f6e3m2_from_f32(odd);
  case TERCEL_DTYPE_F4E2M1: return tercel_f4e2m1_from_f32(odd);
  default: return 0;
  }
}

static int64_t sign_extend(uint64_t bits, int width) { return (int64_t)(bits << (64 - width)) >> (64 - width); }

/* ---- float to integer ---- */

/* What x86's truncating conversions give, and numpy with them: the most negative number for NaN and what is out of
 * range. */
static int64_t truncate_to_i64(double value) { return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN; }

static int64_t truncate_to_i32(double value) {
  return value > -0x1p31 - 1 && value < 0x1p31 ? (int64_t)value : INT32_MIN;
}

/* Types narrower than 32 bits go through i32, u32 through i64, u64 in two halves; then the low bits are kept. */
static uint64_t integer_of_float(tercel_dtype dtype, double value) {
  if (dtype == TERCEL_DTYPE_U64 && value >= 0x1p63)
    return (uint64_t)truncate_to_i64(value - 0x1p63) ^ (uint64_t)1 << 63;
  const bool wide = dtype == TERCEL_DTYPE_U64 || dtype == TERCEL_DTYPE_I64 || dtype == TERCEL_DTYPE_U32;
  return (uint64_t)(wide ? truncate_to_i64(value) : truncate_to_i32(value));
}

/* ---- elements ---- */

double tercel_element_get_f64(const void *data, tercel_dtype dtype, int64_t index) {
  if (dtype == TERCEL_DTYPE_F32) { /* the usual case, and a fast one */
    float value;
    memcpy(&value, (const uint8_t *)data + index * (int64_t)sizeof value, sizeof value);
    return (double)value;
  }
  const row *const type = row_of(dtype);
  const uint64_t bits = load_bits(data, type->bits, index);
  switch (type->kind) {
  case TERCEL_KIND_FLOAT: return decode_float(dtype, bits);
  case TERCEL_KIND_INT: return (double)sign_extend(bits, type->bits);
  case TERCEL_KIND_UINT: return (double)bits;
  case TERCEL_KIND_BOOL: return bits != 0;
  default: return 0;
  }
}

int64_t tercel_element_get_i64(const void *data, tercel_dtype dtype, int64_t index) {
  const row *const type = row_of(dtype);
  const uint64_t bits = load_bits(data, type->bits, index);
  switch (type->kind) {
  case TERCEL_KIND_FLOAT: return tercel_saturate_i64(decode_float(dtype, bits));
  case TERCEL_KIND_INT: return sign_extend(bits, type->bits);
  case TERCEL_KIND_UINT: return (int64_t)bits;
  case TERCEL_KIND_BOOL: return bits != 0;
  default: return 0;
  }
}

void tercel_element_set_f64(void *data, tercel_dtype dtype, int64_t index, double value) {
  if (dtype == TERCEL_DTYPE_F32) {
    const float rounded = (float)value;
    memcpy((uint8_t *)data + index * (int64_t)sizeof rounded, &rounded, sizeof rounded);
    return;
  }
  const row *const type = row_of(dtype);
  uint64_t bits = 0;
  switch (type->kind) {
  case TERCEL_KIND_FLOAT: bits = encode_float(dtype, value, false, 'n'); break;
  case TERCEL_KIND_INT:
  case TERCEL_KIND_UINT: bits = integer_of_float(dtype, value); break;
  case TERCEL_KIND_BOOL: bits = value != 0; break; /* NaN is not zero */
  default: return;
  }
  store_bits(data, type->bits, index, bits);
}

void tercel_element_set_i64(void *data, tercel_dtype dtype, int64_t index, int64_t value) {
  const row *const type = row_of(dtype);
  uint64_t bits = (uint64_t)value;
  switch (type->kind) {
  case TERCEL_KIND_FLOAT:
    /* straight to f32: no second rounding */
    bits = dtype == TERCEL_DTYPE_F32 ? bits_of_f32((float)value) : encode_float(dtype, (double)value, false, 'n');
    break;
  case TERCEL_KIND_BOOL: bits = value != 0; break;
  case TERCEL_KIND_INT:
  case TERCEL_KIND_UINT: break;
  default: return;
  }
  store_bits(data, type->bits, index, bits);
}

void tercel_element_copy(void *dst, int64_t dst_index, const void *src, int64_t src_index, tercel_dtype dtype) {
  const int bits = tercel_dtype_bits(dtype);
  if (bits < 8) {
    if (bits) store_bits(dst, bits, dst_index, load_bits(src, bits, src_index));
    return;
  }
  const int bytes = bits / 8;
  memcpy((uint8_t *)dst + dst_index * bytes, (const uint8_t *)src + src_index * bytes, (size_t)bytes);
}

/* ---- cast ---- */

/* Parts of a number: a complex one has two, others a real part only. */
static double get_part(const void *data, tercel_dtype dtype, int64_t index, int part) {
  if (dtype == TERCEL_DTYPE_C64) return tercel_element_get_f64(data, TERCEL_DTYPE_F32, 2 * index + part);
  if (dtype == TERCEL_DTYPE_C128) return tercel_element_get_f64(data, TERCEL_DTYPE_F64, 2 * index + part);
  return part == 0 ? tercel_element_get_f64(data, dtype, index) : 0;
}

/* Rounded once: a large i64 or u64 would be rounded twice on the way through f64. */
static float f32_of_integer(const void *data, tercel_dtype dtype, int64_t index) {
  const int64_t value = tercel_element_get_i64(data, dtype, index);
  return dtype == TERCEL_DTYPE_U64 ? (float)(uint64_t)value : (float)value;
}

static void cast_to_complex(void *dst, tercel_dtype dst_dtype, int64_t dst_index, const void *src,
                            tercel_dtype src_dtype, int64_t src_index) {
  const tercel_dtype part_dtype = dst_dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
  for (int part = 0; part < 2; part++)
    tercel_element_set_f64(dst, part_dtype, 2 * dst_index + part, get_part(src, src_dtype, src_index, part));
}

void tercel_element_cast(void *dst, tercel_dtype dst_dtype, int64_t dst_index, const void *src, tercel_dtype src_dtype,
                         int64_t src_index, bool saturate, char round) {
  const row *const to = row_of(dst_dtype), *const from = row_of(src_dtype);
  if (to->kind == TERCEL_KIND_STRING || from->kind == TERCEL_KIND_STRING) return;
  if (to->kind == TERCEL_KIND_COMPLEX) {
    cast_to_complex(dst, dst_dtype, dst_index, src, src_dtype, src_index);
    return;
  }
  if (to->kind == TERCEL_KIND_BOOL && from->kind == TERCEL_KIND_COMPLEX) {
    store_bits(dst, to->bits, dst_index,
               get_part(src, src_dtype, src_index, 0) != 0 || get_part(src, src_dtype, src_index, 1) != 0);
    return;
  }
  const bool from_integer = from->kind != TERCEL_KIND_FLOAT && from->kind != TERCEL_KIND_COMPLEX;
  if (from_integer && to->kind != TERCEL_KIND_FLOAT)
    tercel_element_set_i64(dst, dst_dtype, dst_index, tercel_element_get_i64(src, src_dtype, src_index));
  else if (from_integer && dst_dtype == TERCEL_DTYPE_F32)
    store_bits(dst, to->bits, dst_index, bits_of_f32(f32_of_integer(src, src_dtype, src_index)));
  else if (to->kind == TERCEL_KIND_FLOAT)
    store_bits(dst, to->bits, dst_index,
               encode_float(dst_dtype, get_part(src, src_dtype, src_index, 0), saturate, round));
  else
    tercel_element_set_f64(dst, dst_dtype, dst_index, get_part(src, src_dtype, src_index, 0));
}
