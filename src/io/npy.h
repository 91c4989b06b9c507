/* NumPy's .npy and .npz files.  https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3. */
#ifndef TERCEL_IO_NPY_H
#define TERCEL_IO_NPY_H

#include "io/datum.h"

/* An array in memory or in a file, either byte order, C or Fortran order, into row-major little-endian.  Types: bool, integers,
 * f16, f32, f64, complex, and text (U and S, which become strings without trailing zeros).  INVALID_ARGUMENT when the file is
 * malformed, UNSUPPORTED names a type that tercel lacks. */
tercel_status tercel_npy_parse(const void *data, size_t bytes, tercel_datum *out, tercel_error *err);
tercel_status tercel_npy_read(const char *path, tercel_datum *out, tercel_error *err);

/* The array `name` of a .npz, stored or (where tercel is built with pictures, which bring zlib) deflated.  NULL: the only one. */
tercel_status tercel_npz_parse(const void *data, size_t bytes, const char *name, tercel_datum *out, tercel_error *err);
tercel_status tercel_npz_read(const char *path, const char *name, tercel_datum *out, tercel_error *err);

/* Writes a .npy (version 1; strings as U).  Types that NumPy lacks are widened: bf16, f8 and f4 to f32, 4- and 2-bit integers to 8. */
tercel_status tercel_npy_write(const char *path, const tercel_view *view, tercel_error *err);

#endif
