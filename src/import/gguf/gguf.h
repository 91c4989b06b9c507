/* GGUF files: metadata and tensors, read in place.  Knows ir and base; what the metadata mean is a matter of the architectures.
 *
 * Format: ggml's docs/gguf.md, versions 2 and 3, little-endian.
 *
 *     "GGUF" version  number of tensors  number of entries  { key type value }  { name dims type offset }  padding  data of tensors
 *
 * All but the tensors' data is copied to private memory, then checked to the last byte; the data stay in the mapped file. */
#ifndef TERCEL_IMPORT_GGUF_GGUF_H
#define TERCEL_IMPORT_GGUF_GGUF_H

#include "base/map.h"
#include "ir/ir.h"

/* Types of metadata, numbered as in files. */
typedef enum tercel_gguf_type {
  TERCEL_GGUF_U8,
  TERCEL_GGUF_I8,
  TERCEL_GGUF_U16,
  TERCEL_GGUF_I16,
  TERCEL_GGUF_U32,
  TERCEL_GGUF_I32,
  TERCEL_GGUF_F32,
  TERCEL_GGUF_BOOL,
  TERCEL_GGUF_STRING,
  TERCEL_GGUF_ARRAY,
  TERCEL_GGUF_U64,
  TERCEL_GGUF_I64,
  TERCEL_GGUF_F64,
  TERCEL_GGUF_NUM_TYPES
} tercel_gguf_type;

/* A value of metadata: one number, a text (UTF-8 as the file has it, not 0-terminated), or an array. */
typedef struct tercel_gguf_value {
  tercel_gguf_type type;
  tercel_gguf_type element; /* of an array; else `type` */
  uint64_t count;           /* elements of an array; bytes of a text; else 1 */
  const uint8_t *data;      /* the first element, or the text; numbers lie unaligned */
  size_t bytes;             /* from data on */
} tercel_gguf_value;

typedef struct tercel_gguf_entry {
  const char *key; /* 0-terminated */
  tercel_gguf_value value;
} tercel_gguf_entry;

typedef struct tercel_gguf_tensor {
  const char *name;
  tercel_tensor tensor;    /* row-major: the file's first dim is the last one here */
  tercel_storage *storage; /* that its data lie in; borrowed from the file */
} tercel_gguf_tensor;

/* An open file, or all files of a model that was split.  Immutable. */
typedef struct tercel_gguf {
  uint32_t version;
  size_t alignment; /* of the data section */
  tercel_gguf_entry *entries;
  size_t num_entries;
  tercel_gguf_tensor *tensors;
  size_t num_tensors;
  /* below: the reader's */
  tercel_map entries_by_key, tensors_by_name; /* to elements of the arrays above */
  tercel_arena arena;
  tercel_storage *storage;   /* a reference, or NULL */
  struct tercel_gguf *parts; /* of a split model: its other files */
  size_t num_parts;
} tercel_gguf;

enum { TERCEL_GGUF_MAX_DIMS = 4, TERCEL_GGUF_MAX_FILES = 1024 };

/* Opens a model.  path may name any of the files of a split model, which lie in one folder and are named
 * NAME-00001-of-00003.gguf.  INVALID_MODEL names the key or tensor and what is wrong with it; UNSUPPORTED: a tensor's type, a version.
 * Destroyed by tercel_gguf_close. */
tercel_status tercel_gguf_open(const char *path, bool use_mmap, tercel_gguf **out, tercel_error *err);
/* The same from memory, which must outlive it; a model that was split can't be opened so. */
tercel_status tercel_gguf_open_memory(const void *data, size_t bytes, tercel_gguf **out, tercel_error *err);
void tercel_gguf_close(tercel_gguf *gguf); /* NULL is fine */

const tercel_gguf_value *tercel_gguf_find(const tercel_gguf *gguf, const char *key);          /* NULL: not there */
const tercel_gguf_tensor *tercel_gguf_find_tensor(const tercel_gguf *gguf, const char *name); /* likewise */

/* ---- values.c ---- */

const char *tercel_gguf_type_name(tercel_gguf_type type); /* "u32", "string", ... */
/* A number of any type, or element `index` of an array of numbers; false when it is none or out of range. */
bool tercel_gguf_get_f64(const tercel_gguf_value *value, uint64_t index, double *out);
/* An integer of any type (bools are 0 or 1); false as well when it doesn't fit. */
bool tercel_gguf_get_i64(const tercel_gguf_value *value, uint64_t index, int64_t *out);
/* Visits the texts of an array of them, in order: start with *cursor = value->data. */
bool tercel_gguf_next_text(const tercel_gguf_value *value, const uint8_t **cursor, const char **text, size_t *length);
/* As people read it: numbers, quoted texts; of a long array or text the beginning, and how long it is. */
void tercel_gguf_print_value(const tercel_gguf_value *value, tercel_text *out);

/* ---- for files of this folder ---- */

/* read.c: one file, into a zeroed struct, which is deinit'ed whatever comes of it.  storage may be NULL (memory that is the caller's). */
tercel_status tercel_gguf_read(tercel_gguf *gguf, tercel_storage *storage, const uint8_t *data, size_t bytes,
                               tercel_error *err);
void tercel_gguf_deinit(tercel_gguf *gguf);

#endif
