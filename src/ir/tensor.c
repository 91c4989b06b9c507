/* Storage that tensors share, and the arithmetic of dense shapes. */
#include "ir/tensor.h"

#include <stdatomic.h>
#include <string.h>

struct tercel_storage {
  atomic_size_t references;
  void *data;
  size_t size;
  tercel_file file; /* mapped or read; size 0 when the memory is the heap's */
};

static tercel_status create(tercel_storage **out, tercel_error *err) {
  tercel_storage *const storage = tercel_zalloc(sizeof *storage);
  if (!storage) return tercel_fail_memory(err, sizeof *storage, "a storage");
  atomic_init(&storage->references, 1);
  *out = storage;
  return TERCEL_OK;
}

static tercel_status create_on_heap(size_t bytes, bool clear, tercel_storage **out, tercel_error *err) {
  tercel_storage *storage = NULL;
  TERCEL_TRY(create(&storage, err));
  const size_t room = bytes ? bytes : 1; /* an empty tensor has an address too */
  storage->data = clear ? tercel_zalloc(room) : tercel_alloc(room);
  storage->size = bytes;
  if (!storage->data) {
    tercel_free(storage);
    return tercel_fail_memory(err, bytes, "a tensor");
  }
  *out = storage;
  return TERCEL_OK;
}

tercel_status tercel_storage_create(size_t bytes, tercel_storage **out, tercel_error *err) {
  return create_on_heap(bytes, true, out, err);
}

tercel_status tercel_storage_create_raw(size_t bytes, tercel_storage **out, tercel_error *err) {
  return create_on_heap(bytes, false, out, err);
}

tercel_status tercel_storage_create_file(tercel_file *file, tercel_storage **out, tercel_error *err) {
  tercel_storage *storage = NULL;
  TERCEL_TRY(create(&storage, err));
  storage->file = *file;
  storage->data = (void *)(uintptr_t)file->data; /* read-only; the const stays with whoever reads tensors */
  storage->size = file->size;
  *file = (tercel_file){0};
  *out = storage;
  return TERCEL_OK;
}

tercel_storage *tercel_storage_retain(tercel_storage *storage) {
  if (storage) atomic_fetch_add_explicit(&storage->references, 1, memory_order_relaxed);
  return storage;
}

void tercel_storage_release(tercel_storage *storage) {
  if (!storage || atomic_fetch_sub_explicit(&storage->references, 1, memory_order_acq_rel) != 1) return;
  if (storage->file.size > 0)
    tercel_file_close(&storage->file);
  else
    tercel_free(storage->data);
  tercel_free(storage);
}

void *tercel_storage_data(const tercel_storage *storage) { return storage->data; }

size_t tercel_storage_size(const tercel_storage *storage) { return storage->size; }

void tercel_storage_forget(const tercel_storage *storage, const void *data, size_t bytes) {
  if (storage != NULL && storage->file.mapped)
    tercel_file_forget(&storage->file, (size_t)((const uint8_t *)data - storage->file.data), bytes);
}

bool tercel_storage_is_mapped(const tercel_storage *storage) { return storage->file.mapped; }

int64_t tercel_tensor_num_elements(const tercel_tensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
  return count;
}

/* Dims of 0 count as 1 in the check, so that strides can't overflow either. */
bool tercel_tensor_set_shape(tercel_tensor *tensor, tercel_dtype dtype, int rank, const int64_t *dims) {
  if (rank < 0 || rank > TERCEL_MAX_RANK) return false;
  int64_t largest = 1;
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0 || !tercel_mul_i64(largest, dims[i] ? dims[i] : 1, &largest)) return false;
    empty |= dims[i] == 0;
  }
  const int block = tercel_dtype_block(dtype, NULL);
  if (block > 1 && (rank == 0 || dims[rank - 1] % block != 0)) return false;
  size_t bytes;
  if (!tercel_dtype_size(dtype, empty && block > 1 ? 0 : largest, &bytes) || bytes > INT64_MAX) return false;
  tensor->dtype = dtype;
  tensor->rank = rank;
  if (rank) memmove(tensor->dims, dims, (size_t)rank * sizeof *dims);
  tensor->bytes = empty ? 0 : bytes;
  return true;
}

bool tercel_tensor_same_shape(const tercel_tensor *a, const tercel_tensor *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

void tercel_tensor_strides(const tercel_tensor *tensor, int64_t strides[TERCEL_MAX_RANK]) {
  int64_t stride = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= tensor->dims[i];
  }
}

void tercel_tensor_broadcast_strides(const tercel_tensor *tensor, int rank, const int64_t *dims,
                                     int64_t strides[TERCEL_MAX_RANK]) {
  int64_t own[TERCEL_MAX_RANK];
  tercel_tensor_strides(tensor, own);
  const int shift = rank - tensor->rank;
  for (int i = 0; i < rank; i++)
    strides[i] = i < shift || (tensor->dims[i - shift] == 1 && dims[i] != 1) ? 0 : own[i - shift];
}
