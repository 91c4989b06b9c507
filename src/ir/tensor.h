/* Tensors (dense, row-major, see tercel_view) and the storage behind them. */
#ifndef TERCEL_IR_TENSOR_H
#define TERCEL_IR_TENSOR_H

#include "base/base.h"
#include "ir/dim.h"
#include "ir/dtype.h"

typedef tercel_view tercel_tensor;

/* Bytes that several tensors may lie in: a mapped file or heap memory; counted, thread-safe. */
typedef struct tercel_storage tercel_storage;

tercel_status tercel_storage_create(size_t bytes, tercel_storage **out, tercel_error *err); /* cleared heap memory */
tercel_status tercel_storage_create_raw(size_t bytes, tercel_storage **out, tercel_error *err); /* not cleared */
/* Takes the file: it is closed with the last reference. */
tercel_status tercel_storage_create_file(tercel_file *file, tercel_storage **out, tercel_error *err);
tercel_storage *tercel_storage_retain(tercel_storage *storage); /* NULL is fine */
void tercel_storage_release(tercel_storage *storage);           /* NULL is fine */
void *tercel_storage_data(const tercel_storage *storage);
size_t tercel_storage_size(const tercel_storage *storage);
bool tercel_storage_is_mapped(const tercel_storage *storage);
/* These bytes of it were copied or packed: where they are a mapped file's, their pages may leave memory (tercel_file_forget). */
void tercel_storage_forget(const tercel_storage *storage, const void *data, size_t bytes);

/* Elements of a tensor whose dims were checked already (no overflow possible). */
int64_t tercel_tensor_num_elements(const tercel_tensor *tensor);
/* Sets dtype, dims and bytes (not data) from a shape of numbers; false when the size overflows. */
bool tercel_tensor_set_shape(tercel_tensor *tensor, tercel_dtype dtype, int rank, const int64_t *dims);
bool tercel_tensor_same_shape(const tercel_tensor *a, const tercel_tensor *b);

static inline double tercel_tensor_get_f64(const tercel_tensor *t, int64_t i) {
  return tercel_element_get_f64(t->data, t->dtype, i);
}
static inline int64_t tercel_tensor_get_i64(const tercel_tensor *t, int64_t i) {
  return tercel_element_get_i64(t->data, t->dtype, i);
}
static inline void tercel_tensor_set_f64(tercel_tensor *t, int64_t i, double v) {
  tercel_element_set_f64(t->data, t->dtype, i, v);
}
static inline void tercel_tensor_set_i64(tercel_tensor *t, int64_t i, int64_t v) {
  tercel_element_set_i64(t->data, t->dtype, i, v);
}

/* Row-major strides in elements. */
void tercel_tensor_strides(const tercel_tensor *tensor, int64_t strides[TERCEL_MAX_RANK]);
/* Strides of `tensor` read as if it had `rank` and `dims` (numpy broadcasting): 0 where its dim is 1 or missing. */
void tercel_tensor_broadcast_strides(const tercel_tensor *tensor, int rank, const int64_t *dims,
                                     int64_t strides[TERCEL_MAX_RANK]);

#endif
