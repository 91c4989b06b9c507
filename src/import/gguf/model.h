/* import/gguf: language models out of GGUF files.  Knows ops, ir and base.
 *
 *     read.c, open.c, values.c    the file: metadata and tensors
 *     builder.c                   what graphs are made with
 *     decoder.c                   transformers that read from left to right, out of an architecture's facts
 *     architectures/              one file and one line of architectures.inc each
 *     import.c                    the whole import */
#ifndef TERCEL_IMPORT_GGUF_MODEL_H
#define TERCEL_IMPORT_GGUF_MODEL_H

#include "import/import.h"

tercel_status tercel_gguf_import_file(const char *path, bool use_mmap, tercel_imported *out, tercel_error *err);
tercel_status tercel_gguf_import_memory(const void *data, size_t bytes, tercel_imported *out, tercel_error *err);

#endif
