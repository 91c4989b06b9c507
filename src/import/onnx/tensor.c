/* Tensors of an ONNX file as constants: raw bytes, typed fields, strings, external files, sparse tensors.
 *
 * Sizes that the file declares are compared with the bytes that are there before anything is allocated. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/onnx.h"

/* Where elements of each type may stand besides raw_data, and in what form. */
typedef enum source { NOWHERE, FLOAT_DATA, INT32_DATA, INT64_DATA, DOUBLE_DATA, UINT64_DATA, STRING_DATA } source;

/* By TensorProto.DataType. */
static const struct {
  tercel_dtype dtype;
  source source;
  const char *name;
} data_types[] = {
    [1] = {TERCEL_DTYPE_F32, FLOAT_DATA, "FLOAT"},
    [2] = {TERCEL_DTYPE_U8, INT32_DATA, "UINT8"},
    [3] = {TERCEL_DTYPE_I8, INT32_DATA, "INT8"},
    [4] = {TERCEL_DTYPE_U16, INT32_DATA, "UINT16"},
    [5] = {TERCEL_DTYPE_I16, INT32_DATA, "INT16"},
    [6] = {TERCEL_DTYPE_I32, INT32_DATA, "INT32"},
    [7] = {TERCEL_DTYPE_I64, INT64_DATA, "INT64"},
    [8] = {TERCEL_DTYPE_STRING, STRING_DATA, "STRING"},
    [9] = {TERCEL_DTYPE_BOOL, INT32_DATA, "BOOL"},
    [10] = {TERCEL_DTYPE_F16, INT32_DATA, "FLOAT16"},
    [11] = {TERCEL_DTYPE_F64, DOUBLE_DATA, "DOUBLE"},
    [12] = {TERCEL_DTYPE_U32, UINT64_DATA, "UINT32"},
    [13] = {TERCEL_DTYPE_U64, UINT64_DATA, "UINT64"},
    [14] = {TERCEL_DTYPE_C64, FLOAT_DATA, "COMPLEX64"},
    [15] = {TERCEL_DTYPE_C128, DOUBLE_DATA, "COMPLEX128"},
    [16] = {TERCEL_DTYPE_BF16, INT32_DATA, "BFLOAT16"},
    [17] = {TERCEL_DTYPE_F8E4M3FN, INT32_DATA, "FLOAT8E4M3FN"},
    [18] = {TERCEL_DTYPE_F8E4M3FNUZ, INT32_DATA, "FLOAT8E4M3FNUZ"},
    [19] = {TERCEL_DTYPE_F8E5M2, INT32_DATA, "FLOAT8E5M2"},
    [20] = {TERCEL_DTYPE_F8E5M2FNUZ, INT32_DATA, "FLOAT8E5M2FNUZ"},
    [21] = {TERCEL_DTYPE_U4, INT32_DATA, "UINT4"},
    [22] = {TERCEL_DTYPE_I4, INT32_DATA, "INT4"},
    [23] = {TERCEL_DTYPE_F4E2M1, INT32_DATA, "FLOAT4E2M1"},
    [24] = {TERCEL_DTYPE_F8E8M0, INT32_DATA, "FLOAT8E8M0"},
    [25] = {TERCEL_DTYPE_U2, INT32_DATA, "UINT2"},
    [26] = {TERCEL_DTYPE_I2, INT32_DATA, "INT2"},
    [27] = {TERCEL_DTYPE_F6E2M3, INT32_DATA, "FLOAT6E2M3"},
    [28] = {TERCEL_DTYPE_F6E3M2, INT32_DATA, "FLOAT6E3M2"},
};
enum { NUM_DATA_TYPES = sizeof data_types / sizeof *data_types };

tercel_dtype tercel_onnx_dtype(int64_t data_type) {
  return data_type > 0 && data_type < NUM_DATA_TYPES ? data_types[data_type].dtype : TERCEL_DTYPE_NONE;
}

tercel_dtype tercel_onnx_dtype_named(const char *name) {
  for (size_t i = 1; i < NUM_DATA_TYPES; i++)
    if (strcmp(data_types[i].name, name) == 0) return data_types[i].dtype;
  return TERCEL_DTYPE_NONE;
}

/* One tensor on its way to a constant. */
typedef struct load {
  tercel_onnx *o;
  const tercel_onnx_tensor *proto;
  tercel_tensor tensor;    /* shape and dtype; data once known */
  tercel_storage *storage; /* owned until the constant holds it; NULL: borrowed memory */
} load;

static tercel_status shape_of(load *l, tercel_error *err) {
  const tercel_onnx_tensor *const t = l->proto;
  if (t->data_type < 1 || t->data_type >= NUM_DATA_TYPES)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "data type %" PRId64 " does not exist", t->data_type);
  const tercel_dtype dtype = data_types[t->data_type].dtype;
  if (dtype == TERCEL_DTYPE_NONE)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "data type %s is not supported", data_types[t->data_type].name);
  if (t->present & 1u << 3) return tercel_fail(err, TERCEL_UNSUPPORTED, "a tensor in segments is not supported");
  if (t->dims.count > TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "rank %zu, tercel has at most %d", t->dims.count, (int)TERCEL_MAX_RANK);
  for (size_t i = 0; i < t->dims.count; i++)
    if (t->dims.items[i] < 0) return tercel_fail(err, TERCEL_INVALID_MODEL, "dim %zu is %" PRId64, i, t->dims.items[i]);
  if (!tercel_tensor_set_shape(&l->tensor, dtype, (int)t->dims.count, t->dims.items))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its dims make more bytes than a size can count");
  return TERCEL_OK;
}

/* Elements of 8 bytes at most must lie at a multiple of their size. */
static bool is_aligned(const void *data, tercel_dtype dtype) {
  const size_t bytes = (size_t)tercel_dtype_bits(dtype) / 8;
  const size_t unit = dtype == TERCEL_DTYPE_C64 ? 4 : bytes > 8 ? 8 : bytes;
  return unit <= 1 || (uintptr_t)data % unit == 0;
}

static tercel_status new_storage(load *l, size_t bytes, tercel_error *err) {
  TERCEL_TRY(tercel_storage_create(bytes, &l->storage, err));
  l->tensor.data = tercel_storage_data(l->storage);
  return TERCEL_OK;
}

/* A check looks at shapes and types: weights larger than this are not read for it. */
enum { MAX_BYTES_CHECKED = 512 << 10 };

static bool is_left_alone(const load *l) { return l->o->options.problems && l->tensor.bytes > MAX_BYTES_CHECKED; }

/* Bytes that the tensor takes in a file: floats of 6 bits are packed there. */
static size_t file_bytes(const load *l) {
  return tercel_dtype_is_f6(l->tensor.dtype) ? tercel_packed6_bytes(l->tensor.bytes) : l->tensor.bytes;
}

/* Bytes as a file has them, in `storage` (NULL: borrowed): used in place when aligned, else copied. */
static tercel_status use_bytes(load *l, const char *data, tercel_storage *storage, tercel_error *err) {
  if (tercel_dtype_is_f6(l->tensor.dtype)) {
    TERCEL_TRY(new_storage(l, l->tensor.bytes, err));
    tercel_unpack6((const uint8_t *)data, l->tensor.bytes, l->tensor.data);
    return TERCEL_OK;
  }
  if (is_aligned(data, l->tensor.dtype) || is_left_alone(l)) {
    l->storage = tercel_storage_retain(storage);
    l->tensor.data = (void *)(uintptr_t)data;
    return TERCEL_OK;
  }
  TERCEL_TRY(new_storage(l, l->tensor.bytes, err));
  memcpy(l->tensor.data, data, l->tensor.bytes);
  tercel_storage_forget(storage, data, l->tensor.bytes);
  return TERCEL_OK;
}

static tercel_status load_raw(load *l, tercel_error *err) {
  const tercel_string raw = l->proto->raw_data;
  if (raw.length != file_bytes(l))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its shape and type need %zu bytes, raw_data has %zu", file_bytes(l),
                       raw.length);
  return use_bytes(l, raw.data, l->o->storage, err);
}

/* ---- external data ---- */

static tercel_status open_external(tercel_onnx *o, const char *location, tercel_storage **out, tercel_error *err) {
  for (tercel_onnx_external *e = o->externals; e; e = e->next)
    if (strcmp(e->location, location) == 0) {
      *out = e->storage;
      return TERCEL_OK;
    }
  if (!o->folder)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its data is in the file '%s', but the model came without a folder",
                       location);
  tercel_onnx_external *const e = tercel_arena_alloc(&o->arena, sizeof *e);
  if (!e) return tercel_fail_memory(err, sizeof *e, "external data");
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open_inside(o->folder, &o->options.external, location, !o->options.no_mmap, &file, err));
  const tercel_status status = tercel_storage_create_file(&file, &e->storage, err);
  if (status != TERCEL_OK) {
    tercel_file_close(&file);
    return status;
  }
  e->location = location;
  e->next = o->externals;
  o->externals = e;
  *out = e->storage;
  return TERCEL_OK;
}

static tercel_status external_number(const tercel_onnx_entry *entry, int64_t *out, tercel_error *err) {
  if (!tercel_parse_i64(entry->value, strlen(entry->value), out) || *out < 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "external data: %s is '%s', want a number of bytes", entry->key,
                       entry->value);
  return TERCEL_OK;
}

static tercel_status load_external(load *l, tercel_error *err) {
  const char *location = NULL;
  int64_t offset = 0, length = -1;
  for (size_t i = 0; i < l->proto->external_data.count; i++) {
    const tercel_onnx_entry *const entry = &l->proto->external_data.items[i];
    if (strcmp(entry->key, "location") == 0) location = entry->value;
    if (strcmp(entry->key, "offset") == 0) TERCEL_TRY(external_number(entry, &offset, err));
    if (strcmp(entry->key, "length") == 0) TERCEL_TRY(external_number(entry, &length, err));
  }
  if (!location) return tercel_fail(err, TERCEL_INVALID_MODEL, "external data without a location");
  const size_t bytes = file_bytes(l);
  if (length >= 0 && (uint64_t)length != bytes)
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "its shape and type need %zu bytes, its external data has length %" PRId64, bytes, length);
  tercel_storage *storage = NULL;
  TERCEL_TRY(open_external(l->o, location, &storage, err));
  const size_t size = tercel_storage_size(storage);
  if ((uint64_t)offset > size || bytes > size - (size_t)offset)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "it needs %zu bytes at offset %" PRId64 " of '%s', which has %zu",
                       bytes, offset, location, size);
  if (bytes == 0) return new_storage(l, 1, err);
  return use_bytes(l, (const char *)tercel_storage_data(storage) + offset, storage, err);
}

/* ---- typed fields ---- */

/* Reads the numbers of one typed field, packed or single, in their order. */
typedef struct numbers {
  tercel_pb body, packed;
  uint32_t field;
  tercel_pb_wire wire;
} numbers;

static tercel_status next_number(numbers *n, uint64_t *out, tercel_error *err) {
  while (n->packed.at == n->packed.end) {
    tercel_pb_field got;
    bool more;
    TERCEL_TRY(tercel_pb_next(&n->body, &got, &more, err));
    if (!more) return tercel_fail(err, TERCEL_INVALID_MODEL, "the file changed while it was read");
    if (got.number != n->field) continue;
    if (got.wire == n->wire) {
      *out = got.number_value;
      return TERCEL_OK;
    }
    n->packed = got.bytes;
  }
  if (n->wire == TERCEL_PB_VARINT) return tercel_pb_varint(&n->packed, out, err);
  const size_t size = n->wire == TERCEL_PB_FIXED32 ? 4 : 8;
  if (tercel_pb_left(&n->packed) < size)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "the file changed while it was read");
  *out = 0;
  memcpy(out, n->packed.at, size);
  n->packed.at += size;
  return TERCEL_OK;
}

static size_t stored_count(const tercel_onnx_tensor *t, source from) {
  switch (from) {
  case FLOAT_DATA: return t->num_float;
  case INT32_DATA: return t->num_int32;
  case INT64_DATA: return t->num_int64;
  case DOUBLE_DATA: return t->num_double;
  case UINT64_DATA: return t->num_uint64;
  case STRING_DATA: return t->num_string;
  case NOWHERE: break;
  }
  return 0;
}

static const struct {
  uint32_t field;
  tercel_pb_wire wire;
  const char *name;
} sources[] = {
    [FLOAT_DATA] = {TERCEL_ONNX_FIELD_FLOAT_DATA, TERCEL_PB_FIXED32, "float_data"},
    [INT32_DATA] = {TERCEL_ONNX_FIELD_INT32_DATA, TERCEL_PB_VARINT, "int32_data"},
    [INT64_DATA] = {TERCEL_ONNX_FIELD_INT64_DATA, TERCEL_PB_VARINT, "int64_data"},
    [DOUBLE_DATA] = {TERCEL_ONNX_FIELD_DOUBLE_DATA, TERCEL_PB_FIXED64, "double_data"},
    [UINT64_DATA] = {TERCEL_ONNX_FIELD_UINT64_DATA, TERCEL_PB_VARINT, "uint64_data"},
    [STRING_DATA] = {TERCEL_ONNX_FIELD_STRING_DATA, TERCEL_PB_BYTES, "string_data"},
};

/* A typed field holds, for each of its numbers, the low `unit` bytes of the tensor's memory: one element, half a complex
 * one, or a byte of packed ones. */
static tercel_status load_typed(load *l, source from, tercel_error *err) {
  const int bits = tercel_dtype_bits(l->tensor.dtype);
  const bool complex = tercel_dtype_get_kind(l->tensor.dtype) == TERCEL_KIND_COMPLEX;
  const size_t unit = bits < 8 ? 1 : (size_t)bits / (complex ? 16 : 8);
  const size_t want = l->tensor.bytes / unit, have = stored_count(l->proto, from);
  if (have != want)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its shape and type need %zu numbers, %s has %zu", want,
                       sources[from].name, have);
  TERCEL_TRY(new_storage(l, l->tensor.bytes, err));
  if (is_left_alone(l)) return TERCEL_OK;
  numbers n = {.body = l->proto->body, .field = sources[from].field, .wire = sources[from].wire};
  char *to = l->tensor.data;
  for (size_t i = 0; i < want; i++, to += unit) {
    uint64_t value;
    TERCEL_TRY(next_number(&n, &value, err));
    memcpy(to, &value, unit); /* little-endian */
  }
  return TERCEL_OK;
}

/* The array of tercel_string and, behind it, their characters, in one storage. */
static tercel_status fill_strings(load *l, tercel_pb body, tercel_error *err) {
  size_t bytes = l->tensor.bytes;
  const size_t want = (size_t)tercel_tensor_num_elements(&l->tensor);
  tercel_pb_field got;
  bool more;
  for (tercel_pb at = body;;) {
    TERCEL_TRY(tercel_pb_next(&at, &got, &more, err));
    if (!more) break;
    if (got.number == TERCEL_ONNX_FIELD_STRING_DATA)
      bytes += tercel_pb_left(&got.bytes); /* bounded by the file's size */
  }
  TERCEL_TRY(new_storage(l, bytes, err));
  tercel_string *const strings = l->tensor.data;
  char *to = (char *)l->tensor.data + l->tensor.bytes;
  const char *const end = (char *)l->tensor.data + bytes;
  for (size_t i = 0; i < want;) {
    TERCEL_TRY(tercel_pb_next(&body, &got, &more, err));
    const size_t length = more ? tercel_pb_left(&got.bytes) : 0;
    if (!more || length > (size_t)(end - to))
      return tercel_fail(err, TERCEL_INVALID_MODEL, "the file changed while it was read");
    if (got.number != TERCEL_ONNX_FIELD_STRING_DATA) continue;
    if (length > 0) memcpy(to, got.bytes.at, length);
    strings[i++] = (tercel_string){to, length};
    to += length;
  }
  return TERCEL_OK;
}

static tercel_status load_strings(load *l, tercel_error *err) {
  const int64_t want = tercel_tensor_num_elements(&l->tensor);
  if ((uint64_t)want != l->proto->num_string)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its shape has %" PRId64 " elements, string_data has %zu", want,
                       l->proto->num_string);
  return fill_strings(l, l->proto->body, err);
}

/* ---- whole tensors ---- */

/* The one field that holds the elements. */
static tercel_status find_source(const tercel_onnx_tensor *t, source *out, tercel_error *err) {
  *out = NOWHERE;
  for (source s = FLOAT_DATA; s <= STRING_DATA; s++) {
    if (stored_count(t, s) == 0) continue;
    if (*out != NOWHERE || t->raw_data.length > 0)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "its elements stand in %s and in %s", sources[s].name,
                         *out != NOWHERE ? sources[*out].name : "raw_data");
    *out = s;
  }
  const source want = data_types[t->data_type].source;
  if (*out != NOWHERE && *out != want)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its elements stand in %s; those of type %s belong in %s or raw_data",
                       sources[*out].name, data_types[t->data_type].name, sources[want].name);
  return TERCEL_OK;
}

static tercel_status load_data(load *l, tercel_error *err) {
  const tercel_onnx_tensor *const t = l->proto;
  const bool strings = l->tensor.dtype == TERCEL_DTYPE_STRING;
  source from;
  TERCEL_TRY(find_source(t, &from, err));
  if (t->data_location != 0) {
    if (t->data_location != 1)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "data location %" PRId64 " does not exist", t->data_location);
    if (from != NOWHERE || t->raw_data.length > 0)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "its elements stand in the model and in external data");
    if (strings) return tercel_fail(err, TERCEL_INVALID_MODEL, "strings can't stand in external data");
    return load_external(l, err);
  }
  if (strings && t->raw_data.length > 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "strings can't stand in raw_data");
  if (l->tensor.bytes == 0 && from == NOWHERE && t->raw_data.length == 0) return new_storage(l, 1, err);
  if (strings) return load_strings(l, err);
  if (from != NOWHERE) return load_typed(l, from, err);
  return load_raw(l, err);
}

/* A bool is 0 or 1: where the file has other bytes, a copy is made. */
static tercel_status check_bools(load *l, tercel_error *err) {
  const uint8_t *const data = l->tensor.data;
  bool odd = false;
  for (size_t i = 0; i < l->tensor.bytes; i++) odd |= data[i] > 1;
  if (!odd) return TERCEL_OK;
  tercel_storage *const old = l->storage;
  l->storage = NULL;
  const tercel_status status = new_storage(l, l->tensor.bytes, err);
  uint8_t *const copy = l->tensor.data;
  for (size_t i = 0; status == TERCEL_OK && i < l->tensor.bytes; i++) copy[i] = data[i] != 0;
  tercel_storage_release(old);
  return status;
}

static tercel_status load_tensor(load *l, tercel_error *err) {
  TERCEL_TRY(shape_of(l, err));
  TERCEL_TRY(load_data(l, err));
  return l->tensor.dtype == TERCEL_DTYPE_BOOL && !is_left_alone(l) ? check_bools(l, err) : TERCEL_OK;
}

tercel_status tercel_onnx_add_tensor(tercel_onnx *o, tercel_graph *graph, const char *name,
                                     const tercel_onnx_tensor *tensor, tercel_value **out, tercel_error *err) {
  load l = {.o = o, .proto = tensor};
  tercel_status status = load_tensor(&l, err);
  if (status == TERCEL_OK) status = tercel_graph_add_constant(graph, name, &l.tensor, l.storage, out, err);
  tercel_storage_release(l.storage);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "tensor '%s'", name);
}

tercel_status tercel_onnx_add_strings(tercel_graph *graph, const char *name, const tercel_string *strings, int rank,
                                      const int64_t *dims, tercel_value **out, tercel_error *err) {
  tercel_tensor tensor = {0};
  if (!tercel_tensor_set_shape(&tensor, TERCEL_DTYPE_STRING, rank, dims))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "constant '%s': too many strings", name);
  size_t bytes = tensor.bytes;
  const int64_t count = tercel_tensor_num_elements(&tensor);
  for (int64_t i = 0; i < count; i++) bytes += strings[i].length;
  tercel_storage *storage = NULL;
  TERCEL_TRY(tercel_storage_create(bytes > 0 ? bytes : 1, &storage, err));
  tercel_string *const array = tensor.data = tercel_storage_data(storage);
  char *to = (char *)tensor.data + tensor.bytes;
  for (int64_t i = 0; i < count; i++) {
    if (strings[i].length > 0) memcpy(to, strings[i].data, strings[i].length);
    array[i] = (tercel_string){to, strings[i].length};
    to += strings[i].length;
  }
  const tercel_status status = tercel_graph_add_constant(graph, name, &tensor, storage, out, err);
  tercel_storage_release(storage);
  return status;
}

/* ---- sparse tensors ---- */

/* A sparse tensor is written out densely; it may grow to this, or to this many times its values. */
enum { MAX_SPARSE_BYTES = 64 << 20, MAX_SPARSE_GROWTH = 1024 };

/* Position of value i in the dense tensor: indices are [n] positions or [n, rank] coordinates. */
static tercel_status sparse_position(const tercel_tensor *indices, const tercel_tensor *dense, int64_t i, int64_t *out,
                                     tercel_error *err) {
  const int64_t count = tercel_tensor_num_elements(dense);
  if (indices->rank == 1) {
    *out = tercel_tensor_get_i64(indices, i);
    if (*out < 0 || *out >= count)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "index %" PRId64 " of a tensor of %" PRId64 " elements", *out,
                         count);
    return TERCEL_OK;
  }
  *out = 0;
  for (int d = 0; d < dense->rank; d++) {
    const int64_t at = tercel_tensor_get_i64(indices, i * dense->rank + d);
    if (at < 0 || at >= dense->dims[d])
      return tercel_fail(err, TERCEL_INVALID_MODEL, "index %" PRId64 " in dim %d, which is %" PRId64, at, d,
                         dense->dims[d]);
    *out = *out * dense->dims[d] + at;
  }
  return TERCEL_OK;
}

static tercel_status scatter_sparse(const load *values, const load *indices, load *dense, tercel_error *err) {
  const int64_t n = tercel_tensor_num_elements(&values->tensor);
  const tercel_tensor *const at = &indices->tensor;
  if (values->tensor.rank != 1 || at->dtype != TERCEL_DTYPE_I64 || at->rank < 1 || at->rank > 2 || at->dims[0] != n ||
      (at->rank == 2 && at->dims[1] != dense->tensor.rank))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "sparse tensor: want values [n] and i64 indices [n] or [n, rank]");
  for (int64_t i = 0; i < n; i++) {
    int64_t position;
    TERCEL_TRY(sparse_position(at, &dense->tensor, i, &position, err));
    tercel_element_copy(dense->tensor.data, position, values->tensor.data, i, dense->tensor.dtype);
  }
  return TERCEL_OK;
}

static tercel_status load_sparse(const tercel_onnx_sparse *sparse, load *values, load *indices, load *dense,
                                 tercel_error *err) {
  if (!sparse->values || !sparse->indices)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "sparse tensor without values or indices");
  values->proto = sparse->values;
  indices->proto = sparse->indices;
  TERCEL_TRY(load_tensor(values, err));
  TERCEL_TRY(load_tensor(indices, err));
  if (values->tensor.dtype == TERCEL_DTYPE_STRING)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "sparse tensor of strings is not supported");
  const tercel_onnx_tensor shape = {.dims = sparse->dims, .data_type = sparse->values->data_type};
  dense->proto = &shape;
  TERCEL_TRY(shape_of(dense, err));
  dense->proto = NULL;
  const size_t limit = values->tensor.bytes > MAX_SPARSE_BYTES / MAX_SPARSE_GROWTH
                           ? values->tensor.bytes * MAX_SPARSE_GROWTH
                           : MAX_SPARSE_BYTES;
  if (dense->tensor.bytes > limit)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "sparse tensor of %zu bytes when written out; at most %zu are",
                       dense->tensor.bytes, limit);
  TERCEL_TRY(new_storage(dense, dense->tensor.bytes > 0 ? dense->tensor.bytes : 1, err));
  return scatter_sparse(values, indices, dense, err);
}

tercel_status tercel_onnx_add_sparse(tercel_onnx *o, tercel_graph *graph, const char *name,
                                     const tercel_onnx_sparse *sparse, tercel_value **out, tercel_error *err) {
  load values = {.o = o}, indices = {.o = o}, dense = {.o = o};
  tercel_status status = load_sparse(sparse, &values, &indices, &dense, err);
  if (status == TERCEL_OK) status = tercel_graph_add_constant(graph, name, &dense.tensor, dense.storage, out, err);
  tercel_storage_release(values.storage);
  tercel_storage_release(indices.storage);
  tercel_storage_release(dense.storage);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "sparse tensor '%s'", name);
}
