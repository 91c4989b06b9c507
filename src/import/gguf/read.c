/* Reading one GGUF file: see gguf.h for what lies where.
 *
 * Everything is bounded by the bytes that are left: a count of tensors, entries or elements that the file has no room for is refused
 * before memory is asked for. */
#include "import/gguf/gguf.h"

#include <string.h>

enum {
  HEADER_BYTES = 24,
  DEFAULT_ALIGNMENT = 32,
  MAX_ALIGNMENT = 1 << 20,
  LEAST_ENTRY = 8 + 4 + 1,      /* an empty key, a type, a byte */
  LEAST_TENSOR = 8 + 4 + 4 + 8, /* an empty name, no dims, type, offset */
  MAX_NAME = 1024,              /* of a key or tensor: files say 64 and less */
  MAX_DEPTH = 4                 /* of arrays in arrays */
};

typedef struct reader {
  const uint8_t *at, *end;
} reader;

static size_t left(const reader *r) { return (size_t)(r->end - r->at); }

static tercel_status fail_end(const reader *r, uint64_t want, tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_MODEL, "the file ends %zu bytes further on, want %llu", left(r),
                     (unsigned long long)want);
}

static tercel_status take(reader *r, uint64_t bytes, const uint8_t **out, tercel_error *err) {
  *out = r->at;
  if (bytes > left(r)) return fail_end(r, bytes, err);
  r->at += bytes;
  return TERCEL_OK;
}

static tercel_status take_u32(reader *r, uint32_t *out, tercel_error *err) {
  const uint8_t *p;
  TERCEL_TRY(take(r, sizeof *out, &p, err));
  memcpy(out, p, sizeof *out);
  return TERCEL_OK;
}

static tercel_status take_u64(reader *r, uint64_t *out, tercel_error *err) {
  const uint8_t *p;
  TERCEL_TRY(take(r, sizeof *out, &p, err));
  memcpy(out, p, sizeof *out);
  return TERCEL_OK;
}

/* A key or a name, 0-terminated in the arena. */
static tercel_status take_name(tercel_gguf *gguf, reader *r, const char **out, tercel_error *err) {
  uint64_t length;
  const uint8_t *bytes;
  TERCEL_TRY(take_u64(r, &length, err));
  if (length > MAX_NAME)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "a name of %llu bytes, want at most %d", (unsigned long long)length,
                       MAX_NAME);
  TERCEL_TRY(take(r, length, &bytes, err));
  if (memchr(bytes, 0, length) != NULL) return tercel_fail(err, TERCEL_INVALID_MODEL, "a name with a 0 byte in it");
  *out = tercel_arena_strndup(&gguf->arena, (const char *)bytes, length);
  return *out != NULL ? TERCEL_OK : tercel_fail_memory(err, length + 1, "a name");
}

/* ---- metadata -------------------------------------------------------------------------------------------------------- */

static size_t size_of(tercel_gguf_type type) {
  static const uint8_t sizes[TERCEL_GGUF_NUM_TYPES] = {
      [TERCEL_GGUF_U8] = 1,  [TERCEL_GGUF_I8] = 1,  [TERCEL_GGUF_U16] = 2, [TERCEL_GGUF_I16] = 2,
      [TERCEL_GGUF_U32] = 4, [TERCEL_GGUF_I32] = 4, [TERCEL_GGUF_F32] = 4, [TERCEL_GGUF_BOOL] = 1,
      [TERCEL_GGUF_U64] = 8, [TERCEL_GGUF_I64] = 8, [TERCEL_GGUF_F64] = 8};
  return sizes[type];
}

static tercel_status take_type(reader *r, tercel_gguf_type *out, tercel_error *err) {
  uint32_t number;
  TERCEL_TRY(take_u32(r, &number, err));
  if (number >= TERCEL_GGUF_NUM_TYPES)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "type %u, want 0 to %d", number, TERCEL_GGUF_NUM_TYPES - 1);
  *out = (tercel_gguf_type)number;
  return TERCEL_OK;
}

static tercel_status take_value(reader *r, tercel_gguf_type type, int depth, tercel_gguf_value *out, tercel_error *err);

/* count elements of that type, checked and passed. */
static tercel_status pass_elements(reader *r, tercel_gguf_type type, uint64_t count, int depth, tercel_error *err) {
  const uint8_t *bytes;
  size_t all;
  if (size_of(type) > 0) {
    if (!tercel_mul_size(count, size_of(type), &all)) return fail_end(r, UINT64_MAX, err);
    TERCEL_TRY(take(r, all, &bytes, err));
    for (size_t i = 0; type == TERCEL_GGUF_BOOL && i < all; ++i)
      if (bytes[i] > 1) return tercel_fail(err, TERCEL_INVALID_MODEL, "a bool of %u, want 0 or 1", bytes[i]);
    return TERCEL_OK;
  }
  for (uint64_t i = 0; i < count; ++i) { /* each takes bytes, so this ends with the file */
    tercel_gguf_value inner;
    TERCEL_TRY(take_value(r, type, depth, &inner, err));
  }
  return TERCEL_OK;
}

static tercel_status take_value(reader *r, tercel_gguf_type type, int depth, tercel_gguf_value *out,
                                tercel_error *err) {
  *out = (tercel_gguf_value){.type = type, .element = type, .count = 1};
  if (depth == 0) return tercel_fail(err, TERCEL_UNSUPPORTED, "arrays in arrays, more than %d deep", MAX_DEPTH);
  if (type == TERCEL_GGUF_ARRAY) TERCEL_TRY(take_type(r, &out->element, err));
  if (type == TERCEL_GGUF_ARRAY || type == TERCEL_GGUF_STRING) TERCEL_TRY(take_u64(r, &out->count, err));
  out->data = r->at;
  if (type == TERCEL_GGUF_STRING)
    TERCEL_TRY(take(r, out->count, &out->data, err));
  else
    TERCEL_TRY(pass_elements(r, out->element, out->count, depth - 1, err));
  out->bytes = (size_t)(r->at - out->data);
  return TERCEL_OK;
}

static tercel_status read_entry(tercel_gguf *gguf, reader *r, tercel_gguf_entry *entry, tercel_error *err) {
  bool found;
  tercel_gguf_type type = TERCEL_GGUF_U8;
  TERCEL_TRY(take_name(gguf, r, &entry->key, err));
  tercel_map_get(&gguf->entries_by_key, entry->key, &found);
  if (found) return tercel_fail(err, TERCEL_INVALID_MODEL, "key '%s' comes twice", entry->key);
  tercel_status status = take_type(r, &type, err);
  if (status == TERCEL_OK) status = take_value(r, type, MAX_DEPTH, &entry->value, err);
  if (status != TERCEL_OK) return tercel_fail_at(err, status, "key '%s'", entry->key);
  return tercel_map_set(&gguf->entries_by_key, entry->key, entry, err);
}

static tercel_status read_entries(tercel_gguf *gguf, reader *r, uint64_t count, tercel_error *err) {
  gguf->entries = tercel_arena_alloc_array(&gguf->arena, (size_t)count + 1, sizeof *gguf->entries);
  if (gguf->entries == NULL) return tercel_fail_memory(err, (size_t)count * sizeof *gguf->entries, "metadata");
  for (uint64_t i = 0; i < count; ++i) {
    const tercel_status status = read_entry(gguf, r, &gguf->entries[i], err);
    if (status != TERCEL_OK)
      return tercel_fail_at(err, status, "metadata %llu of %llu", (unsigned long long)i + 1, (unsigned long long)count);
    ++gguf->num_entries;
  }
  return TERCEL_OK;
}

static tercel_status read_alignment(tercel_gguf *gguf, tercel_error *err) {
  const tercel_gguf_value *const value = tercel_gguf_find(gguf, "general.alignment");
  int64_t alignment = DEFAULT_ALIGNMENT;
  if (value != NULL && !tercel_gguf_get_i64(value, 0, &alignment)) alignment = 0;
  if (alignment < 1 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "general.alignment is %lld, want a power of two up to %d",
                       (long long)alignment, MAX_ALIGNMENT);
  gguf->alignment = (size_t)alignment;
  return TERCEL_OK;
}

/* ---- tensors --------------------------------------------------------------------------------------------------------- */

/* ggml's numbers of types; those that never stand in files, or no longer, have a name only. */
static const struct {
  const char *name;
  tercel_dtype dtype;
} tensor_types[] = {
    [0] = {"F32", TERCEL_DTYPE_F32},
    [1] = {"F16", TERCEL_DTYPE_F16},
    [2] = {"Q4_0", TERCEL_DTYPE_Q4_0},
    [3] = {"Q4_1", TERCEL_DTYPE_Q4_1},
    [4] = {"Q4_2, which was removed", 0},
    [5] = {"Q4_3, which was removed", 0},
    [6] = {"Q5_0", TERCEL_DTYPE_Q5_0},
    [7] = {"Q5_1", TERCEL_DTYPE_Q5_1},
    [8] = {"Q8_0", TERCEL_DTYPE_Q8_0},
    [9] = {"Q8_1", 0},
    [10] = {"Q2_K", TERCEL_DTYPE_Q2_K},
    [11] = {"Q3_K", TERCEL_DTYPE_Q3_K},
    [12] = {"Q4_K", TERCEL_DTYPE_Q4_K},
    [13] = {"Q5_K", TERCEL_DTYPE_Q5_K},
    [14] = {"Q6_K", TERCEL_DTYPE_Q6_K},
    [15] = {"Q8_K", 0},
    [16] = {"IQ2_XXS", TERCEL_DTYPE_IQ2_XXS},
    [17] = {"IQ2_XS", TERCEL_DTYPE_IQ2_XS},
    [18] = {"IQ3_XXS", TERCEL_DTYPE_IQ3_XXS},
    [19] = {"IQ1_S", TERCEL_DTYPE_IQ1_S},
    [20] = {"IQ4_NL", TERCEL_DTYPE_IQ4_NL},
    [21] = {"IQ3_S", TERCEL_DTYPE_IQ3_S},
    [22] = {"IQ2_S", TERCEL_DTYPE_IQ2_S},
    [23] = {"IQ4_XS", TERCEL_DTYPE_IQ4_XS},
    [24] = {"I8", TERCEL_DTYPE_I8},
    [25] = {"I16", TERCEL_DTYPE_I16},
    [26] = {"I32", TERCEL_DTYPE_I32},
    [27] = {"I64", TERCEL_DTYPE_I64},
    [28] = {"F64", TERCEL_DTYPE_F64},
    [29] = {"IQ1_M", TERCEL_DTYPE_IQ1_M},
    [30] = {"BF16", TERCEL_DTYPE_BF16},
    [31] = {"Q4_0_4_4, which was removed", 0},
    [32] = {"Q4_0_4_8, which was removed", 0},
    [33] = {"Q4_0_8_8, which was removed", 0},
    [34] = {"TQ1_0", TERCEL_DTYPE_TQ1_0},
    [35] = {"TQ2_0", TERCEL_DTYPE_TQ2_0},
    [36] = {"IQ4_NL_4_4, which was removed", 0},
    [37] = {"IQ4_NL_4_8, which was removed", 0},
    [38] = {"IQ4_NL_8_8, which was removed", 0},
    [39] = {"MXFP4", TERCEL_DTYPE_MXFP4},
    [40] = {"NVFP4", TERCEL_DTYPE_NVFP4},
    [41] = {"Q1_0", 0},
    [42] = {"Q2_0", 0},
};

static tercel_status find_dtype(uint32_t type, tercel_dtype *out, tercel_error *err) {
  const bool known = type < sizeof tensor_types / sizeof *tensor_types;
  *out = known ? tensor_types[type].dtype : TERCEL_DTYPE_NONE;
  if (*out != TERCEL_DTYPE_NONE) return TERCEL_OK;
  return tercel_fail(err, TERCEL_UNSUPPORTED, "type %u%s%s%s is not supported", type, known ? " (" : "",
                     known ? tensor_types[type].name : "", known ? ")" : "");
}

/* *offset_out: from the beginning of the data section. */
static tercel_status read_tensor(tercel_gguf *gguf, reader *r, tercel_gguf_tensor *t, uint64_t *offset_out,
                                 tercel_error *err) {
  uint32_t rank, type;
  tercel_dtype dtype;
  int64_t dims[TERCEL_GGUF_MAX_DIMS];
  TERCEL_TRY(take_u32(r, &rank, err));
  if (rank > TERCEL_GGUF_MAX_DIMS)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%u dims, want at most %d", rank, TERCEL_GGUF_MAX_DIMS);
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t size;
    TERCEL_TRY(take_u64(r, &size, err));
    if (size > INT64_MAX) return tercel_fail(err, TERCEL_INVALID_MODEL, "dim %u is %llu", i, (unsigned long long)size);
    dims[rank - 1 - i] = (int64_t)size;
  }
  TERCEL_TRY(take_u32(r, &type, err));
  TERCEL_TRY(find_dtype(type, &dtype, err));
  if (!tercel_tensor_set_shape(&t->tensor, dtype, (int)rank, dims))
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "its dims are too large, or a row is no whole number of blocks of %d elements",
                       tercel_dtype_block(dtype, NULL));
  TERCEL_TRY(take_u64(r, offset_out, err));
  if (*offset_out % gguf->alignment != 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its data begin at %llu, want a multiple of %zu",
                       (unsigned long long)*offset_out, gguf->alignment);
  return TERCEL_OK;
}

static tercel_status read_named_tensor(tercel_gguf *gguf, reader *r, tercel_gguf_tensor *t, uint64_t *offset_out,
                                       tercel_error *err) {
  bool found;
  TERCEL_TRY(take_name(gguf, r, &t->name, err));
  tercel_map_get(&gguf->tensors_by_name, t->name, &found);
  const tercel_status status =
      found ? tercel_fail(err, TERCEL_INVALID_MODEL, "the name comes twice") : read_tensor(gguf, r, t, offset_out, err);
  if (status != TERCEL_OK) return tercel_fail_at(err, status, "tensor '%s'", t->name);
  return tercel_map_set(&gguf->tensors_by_name, t->name, t, err);
}

/* Data lie in the file itself: `data`, from `begin` on. */
static tercel_status place_tensor(tercel_gguf_tensor *t, uint64_t offset, tercel_storage *storage, const uint8_t *data,
                                  size_t begin, size_t bytes, tercel_error *err) {
  const size_t room = begin <= bytes ? bytes - begin : 0;
  if (offset > room || t->tensor.bytes > room - (size_t)offset)
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "tensor '%s': its %zu bytes from %llu on lie beyond the file's data section of %zu bytes; is "
                       "the file cut short?",
                       t->name, t->tensor.bytes, (unsigned long long)offset, room);
  t->tensor.data = (void *)(uintptr_t)(data + begin + offset);
  t->storage = storage;
  return TERCEL_OK;
}

static tercel_status read_tensors(tercel_gguf *gguf, reader *r, uint64_t count, uint64_t *offsets, tercel_error *err) {
  for (uint64_t i = 0; i < count; ++i) {
    tercel_gguf_tensor *const t = &gguf->tensors[i];
    *t = (tercel_gguf_tensor){0};
    const tercel_status status = read_named_tensor(gguf, r, t, &offsets[i], err);
    if (status != TERCEL_OK)
      return tercel_fail_at(err, status, "tensor %llu of %llu", (unsigned long long)i + 1, (unsigned long long)count);
  }
  return TERCEL_OK;
}

/* ---- a file ---------------------------------------------------------------------------------------------------------- */

typedef struct counts {
  uint64_t tensors, entries;
} counts;

static tercel_status read_header(tercel_gguf *gguf, reader *r, counts *out, tercel_error *err) {
  const uint8_t *magic;
  TERCEL_TRY(take(r, 4, &magic, err));
  if (memcmp(magic, "GGUF", 4) != 0) return tercel_fail(err, TERCEL_INVALID_MODEL, "it does not begin with GGUF");
  TERCEL_TRY(take_u32(r, &gguf->version, err));
  if (gguf->version != 0 && gguf->version << 16 == 0)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a big-endian file (its version reads 0x%08x)", gguf->version);
  if (gguf->version < 2 || gguf->version > 3)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "version %u, want 2 or 3", gguf->version);
  TERCEL_TRY(take_u64(r, &out->tensors, err));
  TERCEL_TRY(take_u64(r, &out->entries, err));
  if (out->entries > left(r) / LEAST_ENTRY || out->tensors > left(r) / LEAST_TENSOR)
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "%llu metadata entries and %llu tensors, for which a file of %zu bytes has no room",
                       (unsigned long long)out->entries, (unsigned long long)out->tensors, left(r) + HEADER_BYTES);
  return TERCEL_OK;
}

/* offsets: of the tensors' data, in gguf's arena.  *end: where the header ends, padding not included. */
static tercel_status read_all(tercel_gguf *gguf, const uint8_t *data, size_t bytes, uint64_t **offsets, size_t *end,
                              tercel_error *err) {
  reader r = {.at = data, .end = data + bytes};
  counts n;
  TERCEL_TRY(read_header(gguf, &r, &n, err));
  TERCEL_TRY(read_entries(gguf, &r, n.entries, err));
  TERCEL_TRY(read_alignment(gguf, err));
  gguf->tensors = tercel_arena_alloc_array(&gguf->arena, (size_t)n.tensors + 1, sizeof *gguf->tensors);
  *offsets = tercel_arena_alloc_array(&gguf->arena, (size_t)n.tensors + 1, sizeof **offsets);
  if (gguf->tensors == NULL || *offsets == NULL)
    return tercel_fail_memory(err, (size_t)n.tensors * sizeof *gguf->tensors, "tensors");
  TERCEL_TRY(read_tensors(gguf, &r, n.tensors, *offsets, err));
  gguf->num_tensors = (size_t)n.tensors;
  *end = (size_t)(r.at - data);
  return TERCEL_OK;
}

/* A mapped file may change while it is read: how long its header is is found out there, then a copy of that is read and trusted. */
static tercel_status copy_header(tercel_gguf *gguf, const uint8_t *data, size_t bytes, uint8_t **copy, size_t *end,
                                 tercel_error *err) {
  tercel_gguf first = {0};
  uint64_t *offsets;
  const tercel_status status = read_all(&first, data, bytes, &offsets, end, err);
  tercel_gguf_deinit(&first);
  if (status != TERCEL_OK) return status;
  *copy = tercel_arena_copy(&gguf->arena, data, *end);
  return *copy != NULL ? TERCEL_OK : tercel_fail_memory(err, *end, "the header");
}

tercel_status tercel_gguf_read(tercel_gguf *gguf, tercel_storage *storage, const uint8_t *data, size_t bytes,
                               tercel_error *err) {
  const uint8_t *header = data;
  uint8_t *copy;
  uint64_t *offsets;
  size_t end = bytes, begin;
  gguf->storage = tercel_storage_retain(storage);
  if (storage != NULL && tercel_storage_is_mapped(storage)) {
    TERCEL_TRY(copy_header(gguf, data, bytes, &copy, &end, err));
    header = copy;
  }
  TERCEL_TRY(read_all(gguf, header, end, &offsets, &end, err));
  if (!tercel_round_up_size(end, gguf->alignment, &begin)) begin = bytes;
  for (size_t i = 0; i < gguf->num_tensors; ++i)
    TERCEL_TRY(place_tensor(&gguf->tensors[i], offsets[i], storage, data, begin, bytes, err));
  return TERCEL_OK;
}

void tercel_gguf_deinit(tercel_gguf *gguf) {
  tercel_map_deinit(&gguf->entries_by_key);
  tercel_map_deinit(&gguf->tensors_by_name);
  tercel_arena_deinit(&gguf->arena);
  tercel_storage_release(gguf->storage);
}
