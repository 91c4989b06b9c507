/* What a data file holds: a tensor, or the tensors of a sequence or an optional.  io knows base, ir's element types and tercel.h. */
#ifndef TERCEL_IO_DATUM_H
#define TERCEL_IO_DATUM_H

#include "base/base.h"
#include "ir/dtype.h"

typedef struct tercel_datum {
  const char *kind; /* "tensor", "sequence", "optional", "optional_sequence" or "map", as in tercel_io */
  const char *name; /* as the file gives it; "" when it gives none */
  tercel_view
      *views; /* one for a tensor; all elements of a sequence; none or one of an optional (an optional that holds a
                         sequence shows the sequence's elements); keys and values of a map */
  size_t num_views;
  tercel_arena arena; /* owns all of it, strings too */
} tercel_datum;

/* Safe on a zeroed struct. */
void tercel_datum_deinit(tercel_datum *datum);

/* Sets dtype, dims and bytes of *view and gives it cleared memory of the arena.  INVALID_ARGUMENT when rank or dims are out of range or the
 * size overflows; max_bytes bounds the size (a file's own size is a good bound: it can't hold more), 0 for none. */
tercel_status tercel_datum_alloc_view(tercel_arena *arena, tercel_dtype dtype, int rank, const int64_t *dims,
                                      size_t max_bytes, tercel_view *view, tercel_error *err);
/* The same into a datum of kind "tensor". */
tercel_status tercel_datum_init_tensor(tercel_datum *datum, const char *name, tercel_dtype dtype, int rank,
                                       const int64_t *dims, size_t max_bytes, tercel_error *err);

/* Elements of a view: its dims are trusted. */
int64_t tercel_view_num_elements(const tercel_view *view);

/* "f32 [1, 3, 224, 224]" into out. */
void tercel_view_describe(const tercel_view *view, char *out, size_t out_size);

#endif
