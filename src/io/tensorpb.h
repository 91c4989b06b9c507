/* ONNX's data files: TensorProto, SequenceProto, OptionalProto and MapProto (onnx.proto, onnx-data.proto).  Models are import/onnx's. */
#ifndef TERCEL_IO_TENSORPB_H
#define TERCEL_IO_TENSORPB_H

#include "io/datum.h"

/* kind: "tensor", "sequence", "optional", "optional_sequence" or "map" (views: keys and values): the file itself does not say which message it holds.  Data in raw_data
 * or in the typed fields, packed 4- and 2-bit types too; external data, segments, sparse tensors, sequences of maps or sequences, and a map without entries are UNSUPPORTED.
 * INVALID_ARGUMENT or INVALID_MODEL when the file is malformed. */
tercel_status tercel_tensorpb_parse(const void *data, size_t bytes, const char *kind, tercel_datum *out,
                                    tercel_error *err);
tercel_status tercel_tensorpb_read(const char *path, const char *kind, tercel_datum *out, tercel_error *err);

/* Writes one message of that kind, but no map; views as in tercel_datum. */
tercel_status tercel_tensorpb_write(const char *path, const char *kind, const char *name, const tercel_view *views,
                                    size_t num_views, tercel_error *err);

#endif
