/* 2-D transposes and repeats; see move.h.
 *
 * A transpose goes tile by tile: a square of elements that fits the registers is read as rows, turned by interleaving pairs of rows
 * (log2 of its side times), and written as rows.  What is left at the edges is copied element by element. */
#include "backends/cpu/kernels/move.h"

#include <string.h>

#include "backends/cpu/kernels/vec.h"

/* Interleaves: low takes the first halves of a and b (a0 b0 a1 b1 ...), high the second ones. */
typedef uint8_t b16 __attribute__((vector_size(16)));
typedef uint16_t h8 __attribute__((vector_size(16)));
typedef uint32_t w4 __attribute__((vector_size(16)));
typedef uint32_t w8 __attribute__((vector_size(32)));
typedef uint64_t d4 __attribute__((vector_size(32)));

VEC_INLINE b16 b16_low(b16 a, b16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
VEC_INLINE b16 b16_high(b16 a, b16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
VEC_INLINE h8 h8_low(h8 a, h8 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
VEC_INLINE h8 h8_high(h8 a, h8 b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }

/* One round: rows i and i + n / 2 interleave to rows 2 i and 2 i + 1.  log2(n) rounds transpose n rows of n. */
VEC_INLINE void b16_round(b16 to[16], const b16 from[16]) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = b16_low(from[i], from[i + 8]);
    to[2 * i + 1] = b16_high(from[i], from[i + 8]);
  }
}

VEC_INLINE void h8_round(h8 to[8], const h8 from[8]) {
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = h8_low(from[i], from[i + 4]);
    to[2 * i + 1] = h8_high(from[i], from[i + 4]);
  }
}

VEC_INLINE void tile_1(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
  b16 a[16], b[16];
  for (int i = 0; i < 16; ++i) memcpy(&a[i], src + i * src_stride, 16);
  b16_round(b, a);
  b16_round(a, b);
  b16_round(b, a);
  b16_round(a, b);
  for (int i = 0; i < 16; ++i) memcpy(dst + i * dst_stride, &a[i], 16);
}

VEC_INLINE void tile_2(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
  h8 a[8], b[8];
  for (int i = 0; i < 8; ++i) memcpy(&a[i], src + i * src_stride, 16);
  h8_round(b, a);
  h8_round(a, b);
  h8_round(b, a);
  for (int i = 0; i < 8; ++i) memcpy(dst + i * dst_stride, &b[i], 16);
}

/* 8 x 8 words: pairs of words within 16-byte lanes, then pairs of pairs, then the lanes (AVX has no cheap move across them). */
VEC_INLINE void tile_4(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
  w8 a[8], b[8];
  for (int i = 0; i < 8; ++i) memcpy(&a[i], src + i * src_stride, 32);
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 2; ++k) {
      a[4 * i + 2 * k] = __builtin_shufflevector(b[4 * i + k], b[4 * i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
      a[4 * i + 2 * k + 1] = __builtin_shufflevector(b[4 * i + k], b[4 * i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) memcpy(dst + i * dst_stride, &b[i], 32);
}

VEC_INLINE void tile_8(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
  d4 a[4], b[4];
  for (int i = 0; i < 4; ++i) memcpy(&a[i], src + i * src_stride, 32);
  for (int i = 0; i < 2; ++i) {
    b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 4, 2, 6);
    b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 4, 5);
    a[i + 2] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 6, 7);
  }
  for (int i = 0; i < 4; ++i) memcpy(dst + i * dst_stride, &a[i], 32);
}

/* ---- walks ---------------------------------------------------------------------------------------------------------- */

/* Turns one tile; strides in bytes. */
typedef void (*tile_fn)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride);

enum { BLOCK = 64 }; /* tiles are taken in blocks of so many rows and columns, whose cache lines stay near */

VEC_INLINE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

VEC_INLINE void turn_edge(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows,
                          int64_t columns, size_t bytes) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      memcpy(dst + r * dst_stride + c * (int64_t)bytes, src + c * src_stride + r * (int64_t)bytes, bytes);
}

/* bytes, side and tile are constants where this is inlined. */
VEC_INLINE void turn(void *to, int64_t dst_stride, const void *from, int64_t src_stride, int64_t rows, int64_t columns,
                     int64_t bytes, int64_t side, tile_fn tile) {
  char *dst = to;
  const char *src = from;
  const int64_t ds = dst_stride * bytes, ss = src_stride * bytes;
  const int64_t whole_rows = rows - rows % side, whole_columns = columns - columns % side;
  for (int64_t rb = 0; rb < whole_rows; rb += BLOCK)
    for (int64_t cb = 0; cb < whole_columns; cb += BLOCK)
      for (int64_t r = rb; r < at_most(rb + BLOCK, whole_rows); r += side)
        for (int64_t c = cb; c < at_most(cb + BLOCK, whole_columns); c += side)
          tile(dst + r * ds + c * bytes, ds, src + c * ss + r * bytes, ss);
  turn_edge(dst + whole_columns * bytes, ds, src + whole_columns * ss, ss, whole_rows, columns - whole_columns,
            (size_t)bytes);
  turn_edge(dst + whole_rows * ds, ds, src + whole_rows * bytes, ss, rows - whole_rows, columns, (size_t)bytes);
}

static void transpose_1(void *dst, int64_t ds, const void *src, int64_t ss, int64_t rows, int64_t columns) {
  turn(dst, ds, src, ss, rows, columns, 1, 16, tile_1);
}
static void transpose_2(void *dst, int64_t ds, const void *src, int64_t ss, int64_t rows, int64_t columns) {
  turn(dst, ds, src, ss, rows, columns, 2, 8, tile_2);
}
/* Pixels of three words to planes: dst rows 0, 1, 2 of `n` words each. */
static void split_pixels(char *dst, int64_t dst_stride, const char *src, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    w4 a, b, c;
    memcpy(&a, src + 12 * i, 16);
    memcpy(&b, src + 12 * i + 16, 16);
    memcpy(&c, src + 12 * i + 32, 16);
    const w4 x = __builtin_shufflevector(__builtin_shufflevector(a, b, 0, 3, 6, 0), c, 0, 1, 2, 5);
    const w4 y = __builtin_shufflevector(__builtin_shufflevector(a, b, 1, 4, 7, 0), c, 0, 1, 2, 6);
    const w4 z = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 5, 0, 0), c, 0, 1, 4, 7);
    memcpy(dst + 4 * i, &x, 16);
    memcpy(dst + dst_stride + 4 * i, &y, 16);
    memcpy(dst + 2 * dst_stride + 4 * i, &z, 16);
  }
  turn_edge(dst + 4 * i, dst_stride, src + 12 * i, 12, 3, n - i, 4);
}

/* Planes to pixels of three words. */
static void join_pixels(char *dst, const char *src, int64_t src_stride, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    w4 x, y, z;
    memcpy(&x, src + 4 * i, 16);
    memcpy(&y, src + src_stride + 4 * i, 16);
    memcpy(&z, src + 2 * src_stride + 4 * i, 16);
    const w4 a = __builtin_shufflevector(__builtin_shufflevector(x, y, 0, 4, 0, 1), z, 0, 1, 4, 3);
    const w4 b = __builtin_shufflevector(__builtin_shufflevector(x, y, 5, 0, 2, 6), z, 0, 5, 2, 3);
    const w4 c = __builtin_shufflevector(__builtin_shufflevector(x, y, 0, 3, 7, 0), z, 6, 1, 2, 7);
    memcpy(dst + 12 * i, &a, 16);
    memcpy(dst + 12 * i + 16, &b, 16);
    memcpy(dst + 12 * i + 32, &c, 16);
  }
  turn_edge(dst + 12 * i, 12, src + 4 * i, src_stride, n - i, 3, 4);
}

static void transpose_4(void *dst, int64_t ds, const void *src, int64_t ss, int64_t rows, int64_t columns) {
  if (rows == 3 && ss == 3)
    split_pixels(dst, 4 * ds, src, columns);
  else if (columns == 3 && ds == 3)
    join_pixels(dst, src, 4 * ss, rows);
  else
    turn(dst, ds, src, ss, rows, columns, 4, 8, tile_4);
}
static void transpose_8(void *dst, int64_t ds, const void *src, int64_t ss, int64_t rows, int64_t columns) {
  turn(dst, ds, src, ss, rows, columns, 8, 4, tile_8);
}

VEC_INLINE void repeat(char *restrict dst, const char *restrict src, int64_t n, int64_t times, size_t bytes) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < times; ++k) memcpy(dst + (i * times + k) * (int64_t)bytes, src + i * (int64_t)bytes, bytes);
}

static void repeat_1(void *dst, const void *src, int64_t n, int64_t times) { repeat(dst, src, n, times, 1); }
static void repeat_2(void *dst, const void *src, int64_t n, int64_t times) { repeat(dst, src, n, times, 2); }
static void repeat_8(void *dst, const void *src, int64_t n, int64_t times) { repeat(dst, src, n, times, 8); }

/* f32 doubled is what upsampling layers do. */
static void repeat_4(void *dst, const void *src, int64_t n, int64_t times) {
  int64_t i = 0;
  if (times == 2) {
    for (; i + 4 <= n; i += 4) {
      w4 a;
      memcpy(&a, (const char *)src + 4 * i, 16);
      const w4 low = __builtin_shufflevector(a, a, 0, 0, 1, 1), high = __builtin_shufflevector(a, a, 2, 2, 3, 3);
      memcpy((char *)dst + 8 * i, &low, 16);
      memcpy((char *)dst + 8 * i + 16, &high, 16);
    }
  }
  repeat((char *)dst + 4 * i * times, (const char *)src + 4 * i, n - i, times, 4);
}

const tercel_move_kernels TERCEL_LEVEL_NAME(tercel_move_kernels) = {
    .transpose = {transpose_1, transpose_2, transpose_4, transpose_8},
    .repeat = {repeat_1, repeat_2, repeat_4, repeat_8},
};
