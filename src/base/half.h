/* Narrow numbers: conversions to and from f32, to nearest even, NaN and infinity kept or saturated as each format says.
 * Formats: IEEE 754 binary16; bfloat16; OCP 8-bit floating point (OFP8) and the FNUZ forms of ONNX; OCP microscaling E8M0, E2M1.
 * `saturate` is ONNX Cast's: out of range becomes the largest finite value instead of NaN or infinity. */
#ifndef TERCEL_BASE_HALF_H
#define TERCEL_BASE_HALF_H

#include <stdbool.h>
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
uint8_t tercel_f4e2m1_from_f32(float value);
float tercel_f4e2m1_to_f32(uint8_t bits);

#endif
