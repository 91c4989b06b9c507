/* Narrow numbers: conversions to and from f32, to nearest even, NaN and infinity kept or saturated as each format says.
 * Formats: IEEE 754 binary16; bfloat16; OCP 8-bit floating point (OFP8) and the FNUZ forms of ONNX; OCP microscaling E8M0, E2M1.
 * `saturate` is ONNX Cast's: out of range becomes the largest finite value instead of NaN or infinity. */
#ifndef TERCEL_BASE_HALF_H
#define TERCEL_BASE_HALF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint16_t tercel_f16_from_f32(float value);
uint16_t tercel_f16_from_f64(double value); /* one rounding, not two */
float tercel_f16_to_f32(uint16_t bits);
uint16_t tercel_bf16_from_f32(float value);
uint16_t tercel_bf16_from_f64(double value);
float tercel_bf16_to_f32(uint16_t bits);

uint8_t tercel_f8e4m3fn_from_f32(float value, bool saturate);
float tercel_f8e4m3fn_to_f32(uint8_t bits);
uint8_t tercel_f8e4m3fnuz_from_f32(float value, bool saturate);
float tercel_f8e4m3fnuz_to_f32(uint8_t bits);
uint8_t tercel_f8e5m2_from_f32(float value, bool saturate);
float tercel_f8e5m2_to_f32(uint8_t bits);
uint8_t tercel_f8e5m2fnuz_from_f32(float value, bool saturate);
float tercel_f8e5m2fnuz_to_f32(uint8_t bits);

/* E8M0: a power of two, 2^(bits - 127); 255 is NaN.  round: 'u' up, 'd' down, 'n' nearest (ONNX Cast round_mode). */
uint8_t tercel_f8e8m0_from_f32(float value, bool saturate, char round);
float tercel_f8e8m0_to_f32(uint8_t bits);

/* E2M1, in the low 4 bits: 0 .5 1 1.5 2 3 4 6 and their negatives. */
/* 6 bits in a byte.  Files hold four of them in three bytes, the first in the lowest bits. */
uint8_t tercel_f6e2m3_from_f32(float value);
float tercel_f6e2m3_to_f32(uint8_t bits);
uint8_t tercel_f6e3m2_from_f32(float value);
float tercel_f6e3m2_to_f32(uint8_t bits);
static inline size_t tercel_packed6_bytes(size_t count) { return count / 4 * 3 + (count % 4 * 6 + 7) / 8; }
void tercel_unpack6(const uint8_t *packed, size_t count, uint8_t *out);
void tercel_pack6(const uint8_t *codes, size_t count, uint8_t *out);
uint8_t tercel_f4e2m1_from_f32(float value);
float tercel_f4e2m1_to_f32(uint8_t bits);

#endif
