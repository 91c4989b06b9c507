/* Facts about element types, and access to single elements for plain code (reference kernels, folding, printing). */
#ifndef TERCEL_IR_DTYPE_H
#define TERCEL_IR_DTYPE_H

#include "base/base.h"

typedef enum tercel_dtype_kind {
  TERCEL_KIND_NONE = 0,
  TERCEL_KIND_FLOAT,
  TERCEL_KIND_INT, /* signed */
  TERCEL_KIND_UINT,
  TERCEL_KIND_BOOL,
  TERCEL_KIND_COMPLEX,
  TERCEL_KIND_STRING,
  TERCEL_KIND_BLOCK /* see ir/blocks.h: no access to single elements */
} tercel_dtype_kind;

tercel_dtype_kind tercel_dtype_get_kind(tercel_dtype dtype);
static inline bool tercel_dtype_is_float(tercel_dtype d) { return tercel_dtype_get_kind(d) == TERCEL_KIND_FLOAT; }
/* Signed or unsigned integers, not bool. */
bool tercel_dtype_is_integer(tercel_dtype dtype);
static inline bool tercel_dtype_is_f6(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_F6E2M3 || dtype == TERCEL_DTYPE_F6E3M2;
}
bool tercel_dtype_parse(const char *name, size_t length, tercel_dtype *out);

/* Bytes that `elements` elements take, packed types rounded up to a byte; false on overflow, negative count, NONE, or a part of a block. */
bool tercel_dtype_size(tercel_dtype dtype, int64_t elements, size_t *bytes_out);

/* Element `index` of dense data, packed types included.  get_f64 of an integer converts; get_i64 of a float truncates
 * towards zero and saturates (NaN: 0); bool is 0 or 1.  set_* rounds to nearest even (floats), wraps (integers),
 * tests for not zero (bool). Not for complex and strings. */
double tercel_element_get_f64(const void *data, tercel_dtype dtype, int64_t index);
int64_t tercel_element_get_i64(const void *data, tercel_dtype dtype, int64_t index);
void tercel_element_set_f64(void *data, tercel_dtype dtype, int64_t index, double value);
void tercel_element_set_i64(void *data, tercel_dtype dtype, int64_t index, int64_t value);
/* Copies one element of any type (a string copies its pointer and length). */
void tercel_element_copy(void *dst, int64_t dst_index, const void *src, int64_t src_index, tercel_dtype dtype);

/* ONNX Cast from element to element, every pair of types but strings.  saturate, round: see base/half.h; float to
 * integer truncates towards zero (out of range: wraps as numpy on x86 does for i32/i64-sized values, stated in the
 * file). */
void tercel_element_cast(void *dst, tercel_dtype dst_dtype, int64_t dst_index, const void *src, tercel_dtype src_dtype,
                         int64_t src_index, bool saturate, char round);

#endif
