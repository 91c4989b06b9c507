/* Arithmetic on sizes that came from outside: false on overflow, *out untouched then. */
#ifndef TERCEL_BASE_CHECKED_H
#define TERCEL_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool tercel_add_size(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool tercel_mul_size(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool tercel_add_i64(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool tercel_sub_i64(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool tercel_mul_i64(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

/* size rounded up to a multiple of unit (a power of two); false on overflow. */
static inline bool tercel_round_up_size(size_t size, size_t unit, size_t *out) {
  size_t r;
  if (!tercel_add_size(size, unit - 1, &r)) return false;
  *out = r & ~(unit - 1);
  return true;
}

/* The whole part of a number from outside: 0 for NaN, the nearest end of the range for what lies beyond it. */
static inline int64_t tercel_saturate_i64(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return value == value ? (int64_t)value : 0;
}

/* Rounds towards minus infinity; b > 0. */
static inline int64_t tercel_floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static inline int64_t tercel_ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static inline int64_t tercel_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tercel_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
