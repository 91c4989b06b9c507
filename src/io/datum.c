/* Data as files hold it: memory and descriptions. */
#include "io/datum.h"

#include <stdio.h>

#include "base/checked.h"

void tercel_datum_deinit(tercel_datum *datum) {
  tercel_arena_deinit(&datum->arena);
  *datum = (tercel_datum){0};
}

tercel_status tercel_datum_alloc_view(tercel_arena *arena, tercel_dtype dtype, int rank, const int64_t *dims,
                                      size_t max_bytes, tercel_view *view, tercel_error *err) {
  if (rank < 0 || rank > TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a tensor of rank %d, want at most %d", rank, TERCEL_MAX_RANK);
  tercel_view made = {.dtype = dtype, .rank = rank};
  int64_t elements = 1;
  bool fits = true, empty = false;
  for (int i = 0; i < rank; i++) {
    made.dims[i] = dims[i];
    if (dims[i] < 0)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "dim %d is %lld, want at least 0", i, (long long)dims[i]);
    if (dims[i] == 0)
      empty = true;
    else
      fits = fits && tercel_mul_i64(elements, dims[i], &elements);
  }
  if (empty) elements = 0;
  if (!fits || !tercel_dtype_size(dtype, elements, &made.bytes) || (max_bytes && made.bytes > max_bytes))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "the shape says more elements than the file can hold");
  made.data = tercel_arena_alloc(arena, made.bytes);
  if (!made.data) return tercel_fail_memory(err, made.bytes, "a tensor");
  *view = made;
  return TERCEL_OK;
}

tercel_status tercel_datum_init_tensor(tercel_datum *datum, const char *name, tercel_dtype dtype, int rank,
                                       const int64_t *dims, size_t max_bytes, tercel_error *err) {
  *datum = (tercel_datum){.kind = "tensor"};
  datum->name = tercel_arena_strdup(&datum->arena, name);
  datum->views = tercel_arena_alloc(&datum->arena, sizeof *datum->views);
  tercel_status status = TERCEL_OK;
  if (!datum->name || !datum->views)
    status = tercel_fail_memory(err, sizeof *datum->views, "a tensor");
  else
    status = tercel_datum_alloc_view(&datum->arena, dtype, rank, dims, max_bytes, datum->views, err);
  datum->num_views = 1;
  if (status != TERCEL_OK) tercel_datum_deinit(datum);
  return status;
}

int64_t tercel_view_num_elements(const tercel_view *view) {
  int64_t elements = 1;
  for (int i = 0; i < view->rank; i++) elements *= view->dims[i];
  return elements;
}

void tercel_view_describe(const tercel_view *view, char *out, size_t out_size) {
  size_t length = (size_t)snprintf(out, out_size, "%s [", tercel_dtype_name(view->dtype));
  for (int i = 0; i < view->rank && length < out_size; i++)
    length += (size_t)snprintf(out + length, out_size - length, "%s%lld", i ? ", " : "", (long long)view->dims[i]);
  if (length < out_size) snprintf(out + length, out_size - length, "]");
}
