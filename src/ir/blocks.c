/* Block-quantized types: sizes, and the plain decoder of each.
 *
 * Layouts as in ggml (ggml-common.h, ggml-quants.c).  Names in the comments: d and m are f16 scale and minimum, q the small numbers, e an element's
 * place in the block.  One decoder a format, block by block, in ggml's order of operations; speed is the matter of the kernels. */
#include "ir/blocks.h"

#include <math.h>
#include <string.h>

#include "ir/block_grids.inc"

enum { WIDE = 256 }; /* elements of the formats with scales on two levels */

static float f16_at(const uint8_t *p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  return tercel_f16_to_f32(bits);
}

static uint32_t u32_at(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static uint32_t u16_at(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static int low(int byte) { return byte & 15; }
static int high(int byte) { return byte >> 4; }
/* Nibble i of bytes that hold two each. */
static int nibble(const uint8_t *p, int i) { return p[i / 2] >> (4 * (i % 2)) & 15; }

/* 32 numbers of 4 bits in 16 bytes: the low halves are the first 16. */
static int half_block(const uint8_t *q, int e) { return e < 16 ? low(q[e]) : high(q[e - 16]); }
/* 256 numbers of 4 bits: 32 in the low halves of 32 bytes, then 32 in the high ones, four times. */
static int four_bits(const uint8_t *q, int e) { return q[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15; }
/* 256 numbers of 2 bits: 32 bytes hold 128, 32 for each pair of bits. */
static int two_bits(const uint8_t *q, int e) { return q[e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3; }
/* 256 bits: bit e / 32 of 32 bytes. */
static int one_bit(const uint8_t *q, int e) { return q[e % 32] >> (e / 32) & 1; }

/* ---- 32 elements, one scale ------------------------------------------------------------------------------------------ */

static void q4_0(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  for (int e = 0; e < 32; ++e) out[e] = d * (float)(half_block(p + 2, e) - 8);
}

static void q4_1(const uint8_t *p, float *out) {
  const float d = f16_at(p), m = f16_at(p + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * (float)half_block(p + 4, e) + m;
}

static void q5_0(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  const uint32_t fifth = u32_at(p + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * (float)((half_block(p + 6, e) | (int)(fifth >> e & 1) << 4) - 16);
}

static void q5_1(const uint8_t *p, float *out) {
  const float d = f16_at(p), m = f16_at(p + 2);
  const uint32_t fifth = u32_at(p + 4);
  for (int e = 0; e < 32; ++e) out[e] = d * (float)(half_block(p + 8, e) | (int)(fifth >> e & 1) << 4) + m;
}

static void q8_0(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  for (int e = 0; e < 32; ++e) out[e] = (float)(int8_t)p[2 + e] * d;
}

/* Halves round away from zero. */
static float round_away(float x) {
  const float whole = (float)(int32_t)x, rest = x - whole; /* |x| <= 127: exact */
  return whole + (float)((rest >= 0.5f) - (rest <= -0.5f));
}

void tercel_blocks_encode_q8_0(const float *x, int64_t num_blocks, void *out) {
  uint8_t *p = out;
  for (int64_t b = 0; b < num_blocks; ++b, p += 34, x += 32) {
    float most = 0;
    for (int e = 0; e < 32; ++e) most = fabsf(x[e]) > most ? fabsf(x[e]) : most;
    const float d = most / 127, inverse = d != 0 && d < INFINITY ? 1 / d : 0;
    const uint16_t bits = tercel_f16_from_f32(d);
    memcpy(p, &bits, sizeof bits);
    for (int e = 0; e < 32; ++e) {
      const float q = x[e] * inverse;
      p[2 + e] = (uint8_t)(int8_t)(q >= -127.5f && q <= 127.5f ? round_away(q) : 0);
    }
  }
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void iq4_nl(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  for (int e = 0; e < 32; ++e) out[e] = d * (float)iq4_values[half_block(p + 2, e)];
}

/* E2M1, doubled; the scales are halved instead (OCP Microscaling Formats 1.0). */
static const int8_t e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void mxfp4(const uint8_t *p, float *out) {
  /* half of 2^(p[0] - 127); the two smallest are denormal */
  const uint32_t bits = p[0] < 2 ? 0x00200000u << p[0] : (uint32_t)(p[0] - 1) << 23;
  float d;
  memcpy(&d, &bits, sizeof d);
  for (int e = 0; e < 32; ++e) out[e] = d * (float)e2m1_values[half_block(p + 1, e)];
}

/* Half of an unsigned E4M3; 0x7f stands for 0. */
static float half_ue4m3(int x) {
  const int exponent = x >> 3 & 15, mantissa = x & 7;
  if (x == 0x7f) return 0;
  const float scale = exponent == 0 ? 0x1p-10f : 0x1p-11f * (float)(1 << exponent);
  return scale * (float)(exponent == 0 ? mantissa : 8 + mantissa);
}

static void nvfp4(const uint8_t *p, float *out) {
  for (int s = 0; s < 4; ++s) {
    const float d = half_ue4m3(p[s]);
    const uint8_t *const q = p + 4 + 8 * s;
    for (int e = 0; e < 16; ++e) out[16 * s + e] = d * (float)e2m1_values[e < 8 ? low(q[e]) : high(q[e - 8])];
  }
}

/* ---- 256 elements, scales of scales: the K formats ------------------------------------------------------------------- */

static void q2_k(const uint8_t *p, float *out) {
  const uint8_t *const scales = p, *const q = p + 16;
  const float d = f16_at(p + 80), m = f16_at(p + 82);
  for (int e = 0; e < WIDE; ++e)
    out[e] = d * (float)low(scales[e / 16]) * (float)two_bits(q, e) - m * (float)high(scales[e / 16]);
}

/* 16 scales of 6 bits in 12 bytes: low halves in 8 bytes, the upper two bits in 4. */
static int q3_k_scale(const uint8_t *p, int s) {
  const int lower = s < 8 ? low(p[s]) : high(p[s - 8]);
  return (lower | (p[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
}

static void q3_k(const uint8_t *p, float *out) {
  const uint8_t *const third = p, *const q = p + 32, *const scales = p + 96;
  const float d = f16_at(p + 108);
  for (int e = 0; e < WIDE; ++e)
    out[e] = d * (float)q3_k_scale(scales, e / 16) * (float)(two_bits(q, e) - (one_bit(third, e) ? 0 : 4));
}

/* 8 scales and 8 minima of 6 bits in 12 bytes: those of the first four groups lie alone in their bytes, whose upper bits belong to the last
 * four. */
static int k_scale(const uint8_t *p, int s) { return s < 4 ? p[s] & 63 : low(p[s + 4]) | (p[s - 4] >> 6) << 4; }
static int k_minimum(const uint8_t *p, int s) { return s < 4 ? p[s + 4] & 63 : high(p[s + 4]) | (p[s] >> 6) << 4; }

static void q4_k(const uint8_t *p, float *out) {
  const float d = f16_at(p), m = f16_at(p + 2);
  const uint8_t *const scales = p + 4, *const q = p + 16;
  for (int e = 0; e < WIDE; ++e)
    out[e] = d * (float)k_scale(scales, e / 32) * (float)four_bits(q, e) - m * (float)k_minimum(scales, e / 32);
}

static void q5_k(const uint8_t *p, float *out) {
  const float d = f16_at(p), m = f16_at(p + 2);
  const uint8_t *const scales = p + 4, *const fifth = p + 16, *const q = p + 48;
  for (int e = 0; e < WIDE; ++e)
    out[e] = d * (float)k_scale(scales, e / 32) * (float)(four_bits(q, e) | one_bit(fifth, e) << 4) -
             m * (float)k_minimum(scales, e / 32);
}

static void q6_k(const uint8_t *p, float *out) {
  const uint8_t *const q = p, *const upper = p + 128, *const scales = p + 192;
  const float d = f16_at(p + 208);
  for (int e = 0; e < WIDE; ++e) {
    const int lower = q[e / 128 * 64 + e % 64] >> (e / 64 % 2 * 4) & 15;
    out[e] = d * (float)(int8_t)scales[e / 16] * (float)((lower | two_bits(upper, e) << 4) - 32);
  }
}

/* ---- 256 elements, -1, 0 or 1 ---------------------------------------------------------------------------------------- */

/* Digit `place` of a number in base 3, stored as the fraction that follows the point: 3^place times it, modulo 1. */
static int ternary(int byte, int place) {
  static const uint8_t powers[5] = {1, 3, 9, 27, 81};
  return (uint8_t)(byte * powers[place]) * 3 >> 8;
}

/* 5 digits a byte: 160 elements in 32 bytes, 80 in 16; the last 16 elements are 4 digits of 4 bytes. */
static void tq1_0(const uint8_t *p, float *out) {
  const float d = f16_at(p + 52);
  for (int e = 0; e < 160; ++e) out[e] = d * (float)(ternary(p[e % 32], e / 32) - 1);
  for (int e = 0; e < 80; ++e) out[160 + e] = d * (float)(ternary(p[32 + e % 16], e / 16) - 1);
  for (int e = 0; e < 16; ++e) out[240 + e] = d * (float)(ternary(p[48 + e % 4], e / 4) - 1);
}

static void tq2_0(const uint8_t *p, float *out) {
  const float d = f16_at(p + 64);
  for (int e = 0; e < WIDE; ++e) out[e] = d * (float)(two_bits(p, e) - 1);
}

/* ---- 256 elements, points of a lattice: the IQ formats --------------------------------------------------------------- */

/* Signs of 8 elements in 7 bits: the eighth makes their number even. */
static int even_signs(uint32_t seven) {
  const int s = (int)(seven & 127);
  return s | __builtin_parity((unsigned)s) << 7;
}

static float with_sign(float x, int signs, int e) { return signs >> e & 1 ? -x : x; }

/* 8 elements: a point of a lattice of three levels. */
static void put_point8(unsigned point, float d, int signs, float *out) {
  static const float levels[4] = {8, 25, 43, 0};
  for (int e = 0; e < 8; ++e) out[e] = with_sign(d * levels[point >> (2 * e) & 3], signs, e);
}

static void iq2_xxs(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  for (int g = 0; g < 8; ++g, out += 32) { /* 32 elements: 4 points, 4 times 7 signs and a scale */
    const uint8_t *const q = p + 2 + 8 * g;
    const uint32_t rest = u32_at(q + 4);
    const float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
    for (int i = 0; i < 4; ++i) put_point8(iq2_xxs_grid[q[i]], scale, even_signs(rest >> (7 * i)), out + 8 * i);
  }
}

static void iq2_xs(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  for (int g = 0; g < 32; ++g, out += 8) {
    const uint32_t q = u16_at(p + 2 + 2 * g);
    const float scale = d * (0.5f + (float)nibble(p + 66, g / 2)) * 0.25f;
    put_point8(iq2_xs_grid[q & 511], scale, even_signs(q >> 9), out);
  }
}

static void iq2_s(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  const uint8_t *const q = p + 2, *const signs = p + 34, *const upper = p + 66, *const scales = p + 74;
  for (int g = 0; g < 32; ++g, out += 8) {
    const int point = q[g] | (upper[g / 4] >> (g % 4 * 2) & 3) << 8;
    put_point8(iq2_s_grid[point], d * (0.5f + (float)nibble(scales, g / 2)) * 0.25f, signs[g], out);
  }
}

/* 4 elements: a point of a lattice of eight levels; signs from bit `first` on. */
static void put_point4(unsigned point, const float levels[8], float d, int signs, int first, float *out) {
  for (int e = 0; e < 4; ++e) out[e] = with_sign(d * levels[point >> (4 * e) & 7], signs, first + e);
}

static void iq3_xxs(const uint8_t *p, float *out) {
  static const float levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  const float d = f16_at(p);
  for (int g = 0; g < 64; ++g, out += 4) {
    const uint32_t rest = u32_at(p + 66 + g / 8 * 4);
    const float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
    put_point4(iq3_xxs_grid[p[2 + g]], levels, scale, even_signs(rest >> (g / 2 % 4 * 7)), g % 2 * 4, out);
  }
}

static void iq3_s(const uint8_t *p, float *out) {
  static const float levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  const float d = f16_at(p);
  const uint8_t *const q = p + 2, *const ninth = p + 66, *const signs = p + 74, *const scales = p + 106;
  for (int g = 0; g < 64; ++g, out += 4) {
    const int point = q[g] | (ninth[g / 8] >> (g % 8) & 1) << 8;
    put_point4(iq3_s_grid[point], levels, d * (float)(1 + 2 * nibble(scales, g / 8)), signs[g / 2], g % 2 * 4, out);
  }
}

/* 8 elements of -1, 0, 1, moved by an eighth up or down. */
static void put_ternary(unsigned point, float d, bool down, float *out) {
  const float delta = down ? -0.125f : 0.125f;
  for (int e = 0; e < 8; ++e) out[e] = d * ((float)((int)(point >> (2 * e) & 3) - 1) + delta);
}

static void iq1_s(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  for (int g = 0; g < 32; ++g, out += 8) {
    const uint32_t upper = u16_at(p + 34 + g / 4 * 2);
    const uint32_t point = p[2 + g] | (upper >> (g % 4 * 3) & 7) << 8;
    put_ternary(iq1_grid[point], d * (float)(2 * (upper >> 12 & 7) + 1), upper >> 15, out);
  }
}

static void iq1_m(const uint8_t *p, float *out) {
  const uint8_t *const scales = p + 48;
  uint8_t whole[2]; /* the f16 scale lies in the upper four bits of four words */
  whole[0] = (uint8_t)(high(scales[1]) | (scales[3] & 0xf0));
  whole[1] = (uint8_t)(high(scales[5]) | (scales[7] & 0xf0));
  const float d = f16_at(whole);
  for (int g = 0; g < 32; ++g, out += 8) {
    const int upper = nibble(p + 32, g);
    const uint32_t scale = u16_at(scales + g / 8 * 2) >> (g / 2 % 4 * 3) & 7;
    put_ternary(iq1_grid[p[g] | (upper & 7) << 8], d * (float)(2 * scale + 1), upper & 8, out);
  }
}

static void iq4_xs(const uint8_t *p, float *out) {
  const float d = f16_at(p);
  const uint32_t upper = u16_at(p + 2);
  for (int g = 0; g < 8; ++g, out += 32) {
    const int scale = (nibble(p + 4, g) | (int)(upper >> (2 * g) & 3) << 4) - 32;
    for (int e = 0; e < 32; ++e) out[e] = d * (float)scale * (float)iq4_values[half_block(p + 8 + 16 * g, e)];
  }
}

/* ---- the table ------------------------------------------------------------------------------------------------------- */

typedef struct row {
  tercel_block_format format;
  void (*decode)(const uint8_t *block, float *out);
} row;

static const row rows[TERCEL_DTYPE_COUNT] = {
    [TERCEL_DTYPE_Q4_0] = {{32, 18}, q4_0},         [TERCEL_DTYPE_Q4_1] = {{32, 20}, q4_1},
    [TERCEL_DTYPE_Q5_0] = {{32, 22}, q5_0},         [TERCEL_DTYPE_Q5_1] = {{32, 24}, q5_1},
    [TERCEL_DTYPE_Q8_0] = {{32, 34}, q8_0},         [TERCEL_DTYPE_Q2_K] = {{WIDE, 84}, q2_k},
    [TERCEL_DTYPE_Q3_K] = {{WIDE, 110}, q3_k},      [TERCEL_DTYPE_Q4_K] = {{WIDE, 144}, q4_k},
    [TERCEL_DTYPE_Q5_K] = {{WIDE, 176}, q5_k},      [TERCEL_DTYPE_Q6_K] = {{WIDE, 210}, q6_k},
    [TERCEL_DTYPE_IQ1_S] = {{WIDE, 50}, iq1_s},     [TERCEL_DTYPE_IQ1_M] = {{WIDE, 56}, iq1_m},
    [TERCEL_DTYPE_IQ2_XXS] = {{WIDE, 66}, iq2_xxs}, [TERCEL_DTYPE_IQ2_XS] = {{WIDE, 74}, iq2_xs},
    [TERCEL_DTYPE_IQ2_S] = {{WIDE, 82}, iq2_s},     [TERCEL_DTYPE_IQ3_XXS] = {{WIDE, 98}, iq3_xxs},
    [TERCEL_DTYPE_IQ3_S] = {{WIDE, 110}, iq3_s},    [TERCEL_DTYPE_IQ4_NL] = {{32, 18}, iq4_nl},
    [TERCEL_DTYPE_IQ4_XS] = {{WIDE, 136}, iq4_xs},  [TERCEL_DTYPE_TQ1_0] = {{WIDE, 54}, tq1_0},
    [TERCEL_DTYPE_TQ2_0] = {{WIDE, 66}, tq2_0},     [TERCEL_DTYPE_MXFP4] = {{32, 17}, mxfp4},
    [TERCEL_DTYPE_NVFP4] = {{64, 36}, nvfp4},
};

tercel_block_format tercel_dtype_block_format(tercel_dtype dtype) {
  return (unsigned)dtype < TERCEL_DTYPE_COUNT ? rows[dtype].format : (tercel_block_format){0};
}

void tercel_blocks_decode(tercel_dtype dtype, const void *data, int64_t num_blocks, float *out) {
  const row *const r = &rows[dtype];
  const uint8_t *p = data;
  for (int64_t b = 0; b < num_blocks; ++b, p += r->format.bytes, out += r->format.elements) r->decode(p, out);
}
