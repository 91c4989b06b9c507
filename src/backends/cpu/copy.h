/* Strided copies: what transpose, slice, expand, tile, concat and split come down to. */
#ifndef TERCEL_BACKENDS_CPU_COPY_H
#define TERCEL_BACKENDS_CPU_COPY_H

#include "backends/cpu/cpu.h"

enum { TERCEL_COPY_MAX_RANK = 2 * TERCEL_MAX_RANK };

/* dst[sum index * dst_strides] = src[sum index * src_strides] for every index below dims.  Strides in elements; those of dst name
 * each element at most once; those of src may be 0 (repeats) or negative. */
typedef struct tercel_copy {
  int rank;
  int64_t dims[TERCEL_COPY_MAX_RANK];
  int64_t dst_strides[TERCEL_COPY_MAX_RANK], src_strides[TERCEL_COPY_MAX_RANK];
} tercel_copy;

/* element_bytes: 1, 2, 4, 8 or 16.  dst and src don't overlap.  Allocates nothing. */
void tercel_cpu_copy(tercel_pool *pool, const tercel_copy *copy, size_t element_bytes, void *dst, const void *src);

/* Bytes of an element of whole bytes; 0 for the packed types, which the reference kernels move. */
size_t tercel_element_bytes(tercel_dtype dtype);
/* A `supports` for operators that move elements of any whole-byte dtype: looks at input 0. */
bool tercel_moves_bytes(const tercel_kernel *kernel, const tercel_node *node);
/* How many pieces of work of this many bytes each are worth a thread's while: a grain for tercel_pool_run. */
int64_t tercel_copy_grain(int64_t bytes_each);

static inline void *tercel_at(void *data, int64_t element, size_t element_bytes) {
  return (char *)data + element * (int64_t)element_bytes;
}
static inline const void *tercel_at_const(const void *data, int64_t element, size_t element_bytes) {
  return (const char *)data + element * (int64_t)element_bytes;
}
/* One element. */
static inline void tercel_copy_element(void *dst, const void *src, size_t bytes) {
  switch (bytes) {
  case 1: __builtin_memcpy(dst, src, 1); break;
  case 2: __builtin_memcpy(dst, src, 2); break;
  case 4: __builtin_memcpy(dst, src, 4); break;
  case 8: __builtin_memcpy(dst, src, 8); break;
  default: __builtin_memcpy(dst, src, 16); break;
  }
}
/* n equal elements. */
void tercel_fill_elements(void *dst, const void *element, int64_t n, size_t element_bytes);

#endif
