/* Reading and writing ONNX's data messages. */
#include "io/tensorpb.h"

#include <string.h>

#include "base/protobuf.h"

/* TensorProto's fields. */
enum {
  TENSOR_DIMS = 1,
  TENSOR_TYPE = 2,
  TENSOR_SEGMENT = 3,
  TENSOR_FLOATS = 4,
  TENSOR_INT32S = 5,
  TENSOR_STRINGS = 6,
  TENSOR_INT64S = 7,
  TENSOR_NAME = 8,
  TENSOR_RAW = 9,
  TENSOR_DOUBLES = 10,
  TENSOR_UINT64S = 11,
  TENSOR_LOCATION = 14,
  LOCATION_EXTERNAL = 1
};
/* SequenceProto's and OptionalProto's; both have name 1 and elem_type 2. */
enum { HOLDER_NAME = 1, HOLDER_ELEM_TYPE = 2, HOLDER_TENSOR = 3, OPTIONAL_SEQUENCE = 5 };
enum { ELEM_TENSOR = 1, ELEM_SEQUENCE = 3 };
/* MapProto's. */
enum { MAP_NAME = 1, MAP_INT_KEYS = 3, MAP_STRING_KEYS = 4, MAP_VALUES = 5 };

/* The row of number n is ONNX's data type n, with the field that holds its elements when raw_data does not. */
static const struct {
  tercel_dtype dtype;
  int field;
} data_types[] = {
    {TERCEL_DTYPE_NONE, 0},
    {TERCEL_DTYPE_F32, TENSOR_FLOATS},
    {TERCEL_DTYPE_U8, TENSOR_INT32S},
    {TERCEL_DTYPE_I8, TENSOR_INT32S},
    {TERCEL_DTYPE_U16, TENSOR_INT32S},
    {TERCEL_DTYPE_I16, TENSOR_INT32S},
    {TERCEL_DTYPE_I32, TENSOR_INT32S},
    {TERCEL_DTYPE_I64, TENSOR_INT64S},
    {TERCEL_DTYPE_STRING, TENSOR_STRINGS},
    {TERCEL_DTYPE_BOOL, TENSOR_INT32S},
    {TERCEL_DTYPE_F16, TENSOR_INT32S},
    {TERCEL_DTYPE_F64, TENSOR_DOUBLES},
    {TERCEL_DTYPE_U32, TENSOR_UINT64S},
    {TERCEL_DTYPE_U64, TENSOR_UINT64S},
    {TERCEL_DTYPE_C64, TENSOR_FLOATS},
    {TERCEL_DTYPE_C128, TENSOR_DOUBLES},
    {TERCEL_DTYPE_BF16, TENSOR_INT32S},
    {TERCEL_DTYPE_F8E4M3FN, TENSOR_INT32S},
    {TERCEL_DTYPE_F8E4M3FNUZ, TENSOR_INT32S},
    {TERCEL_DTYPE_F8E5M2, TENSOR_INT32S},
    {TERCEL_DTYPE_F8E5M2FNUZ, TENSOR_INT32S},
    {TERCEL_DTYPE_U4, TENSOR_INT32S},
    {TERCEL_DTYPE_I4, TENSOR_INT32S},
    {TERCEL_DTYPE_F4E2M1, TENSOR_INT32S},
    {TERCEL_DTYPE_F8E8M0, TENSOR_INT32S},
    {TERCEL_DTYPE_U2, TENSOR_INT32S},
    {TERCEL_DTYPE_I2, TENSOR_INT32S},
    {TERCEL_DTYPE_F6E2M3, TENSOR_INT32S},
    {TERCEL_DTYPE_F6E3M2, TENSOR_INT32S},
};
enum { NUM_DATA_TYPES = sizeof data_types / sizeof *data_types };

/* ---- reading ---- */

/* A tensor's fields, before its data are looked at: they may stand in any order, and dims come before or after. */
typedef struct parts {
  int64_t dims[TERCEL_MAX_RANK];
  int rank;
  uint64_t type;
  tercel_pb name, raw;
  bool has_raw;
} parts;

static tercel_status add_dim(parts *p, uint64_t dim, tercel_error *err) {
  if (p->rank == TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a tensor of more than %d dims", TERCEL_MAX_RANK);
  p->dims[p->rank++] = (int64_t)dim;
  return TERCEL_OK;
}

static tercel_status read_part(parts *p, tercel_pb_field *field, tercel_error *err) {
  switch (field->number) {
  case TENSOR_DIMS:
    if (field->wire == TERCEL_PB_VARINT) return add_dim(p, field->number_value, err);
    while (tercel_pb_left(&field->bytes)) {
      uint64_t dim;
      TERCEL_TRY(tercel_pb_varint(&field->bytes, &dim, err));
      TERCEL_TRY(add_dim(p, dim, err));
    }
    return TERCEL_OK;
  case TENSOR_TYPE: p->type = field->number_value; return TERCEL_OK;
  case TENSOR_NAME: p->name = field->bytes; return TERCEL_OK;
  case TENSOR_RAW:
    p->raw = field->bytes;
    p->has_raw = true;
    return TERCEL_OK;
  case TENSOR_SEGMENT: return tercel_fail(err, TERCEL_UNSUPPORTED, "a tensor in segments");
  case TENSOR_LOCATION:
    if (field->number_value != LOCATION_EXTERNAL) return TERCEL_OK;
    return tercel_fail(err, TERCEL_UNSUPPORTED, "external data in a data file");
  default: return TERCEL_OK;
  }
}

/* Where the next element of a typed field goes. */
typedef struct sink {
  tercel_view *view;
  size_t unit;   /* bytes that one number of the field fills: an element, a packed byte, half a complex number */
  size_t offset; /* of the next, in the view */
} sink;

static tercel_status put(sink *to, const void *number, tercel_error *err) {
  if (to->view->bytes - to->offset < to->unit)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a tensor holds more numbers than its shape says");
  memcpy((char *)to->view->data + to->offset, number, to->unit); /* the low bytes: numbers are little-endian */
  to->offset += to->unit;
  return TERCEL_OK;
}

static tercel_status put_packed(sink *to, int field_number, tercel_pb *bytes, tercel_error *err) {
  const size_t fixed = field_number == TENSOR_FLOATS ? 4 : field_number == TENSOR_DOUBLES ? 8 : 0;
  while (tercel_pb_left(bytes)) {
    uint64_t number = 0;
    if (fixed == 0) {
      TERCEL_TRY(tercel_pb_varint(bytes, &number, err));
    } else {
      if (tercel_pb_left(bytes) < fixed)
        return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a tensor ends inside a number");
      memcpy(&number, bytes->at, fixed);
      bytes->at += fixed;
    }
    TERCEL_TRY(put(to, &number, err));
  }
  return TERCEL_OK;
}

static tercel_status put_string(sink *to, const tercel_pb *bytes, tercel_arena *arena, tercel_error *err) {
  const size_t length = tercel_pb_left(bytes);
  const tercel_string string = {tercel_arena_copy(arena, bytes->at, length), length};
  if (!string.data) return tercel_fail_memory(err, length, "a string");
  return put(to, &string, err);
}

/* Collects the numbers of the typed field, which may come packed, one by one, or in several runs. */
static tercel_status read_typed(tercel_pb message, int field_number, tercel_arena *arena, tercel_view *view,
                                tercel_error *err) {
  const int bits = tercel_dtype_bits(view->dtype);
  const bool complex = tercel_dtype_get_kind(view->dtype) == TERCEL_KIND_COMPLEX;
  sink to = {view, (size_t)(bits < 8 ? 1 : complex ? bits / 16 : bits / 8), 0};
  tercel_pb_field field;
  bool more = true;
  for (;;) {
    TERCEL_TRY(tercel_pb_next(&message, &field, &more, err));
    if (!more) break;
    if (field.number != (uint32_t)field_number) continue;
    if (field_number == TENSOR_STRINGS)
      TERCEL_TRY(put_string(&to, &field.bytes, arena, err));
    else if (field.wire == TERCEL_PB_BYTES)
      TERCEL_TRY(put_packed(&to, field_number, &field.bytes, err));
    else
      TERCEL_TRY(put(&to, &field.number_value, err));
  }
  if (to.offset == view->bytes) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a tensor holds fewer numbers than its shape says");
}

static tercel_status read_raw(const parts *p, tercel_view *view, tercel_error *err) {
  if (view->dtype == TERCEL_DTYPE_STRING) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "strings in raw_data");
  const size_t bytes = tercel_pb_left(&p->raw);
  const bool packed = tercel_dtype_is_f6(view->dtype);
  const size_t want = packed ? tercel_packed6_bytes(view->bytes) : view->bytes;
  if (bytes != want) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "raw_data of %zu bytes, want %zu", bytes, want);
  if (packed)
    tercel_unpack6(p->raw.at, view->bytes, view->data);
  else if (bytes)
    memcpy(view->data, p->raw.at, bytes);
  return TERCEL_OK;
}

/* name may be NULL. */
static tercel_status read_tensor(tercel_pb message, tercel_arena *arena, tercel_view *view, tercel_pb *name,
                                 tercel_error *err) {
  parts p = {0};
  tercel_pb rest = message;
  tercel_pb_field field;
  bool more = true;
  for (;;) {
    TERCEL_TRY(tercel_pb_next(&rest, &field, &more, err));
    if (!more) break;
    TERCEL_TRY(read_part(&p, &field, err));
  }
  if (p.type == 0 || p.type >= NUM_DATA_TYPES)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a tensor of ONNX data type %llu", (unsigned long long)p.type);
  /* An element takes a bit of the file at least (a string two bytes): the shape can't claim more than that. */
  const tercel_dtype dtype = data_types[p.type].dtype;
  const size_t left = tercel_pb_left(&message), per_byte = dtype == TERCEL_DTYPE_STRING ? sizeof(tercel_string) : 8;
  TERCEL_TRY(tercel_datum_alloc_view(arena, dtype, p.rank, p.dims, left * per_byte + 1, view, err));
  if (name) *name = p.name;
  if (p.has_raw) return read_raw(&p, view, err);
  return read_typed(message, data_types[p.type].field, arena, view, err);
}

static tercel_status set_name(tercel_datum *out, const tercel_pb *name, tercel_error *err) {
  const size_t length = tercel_pb_left(name);
  out->name = tercel_arena_strndup(&out->arena, (const char *)name->at, length);
  return out->name ? TERCEL_OK : tercel_fail_memory(err, length, "a name");
}

static tercel_status read_single(tercel_pb message, tercel_datum *out, tercel_error *err) {
  tercel_pb name = {0};
  out->views = tercel_arena_alloc(&out->arena, sizeof *out->views);
  if (!out->views) return tercel_fail_memory(err, sizeof *out->views, "a tensor");
  out->num_views = 1;
  TERCEL_TRY(read_tensor(message, &out->arena, out->views, &name, err));
  return set_name(out, &name, err);
}

/* A SequenceProto or an OptionalProto. */
static tercel_status read_holder(tercel_pb message, bool optional, tercel_datum *out, tercel_error *err) {
  tercel_pb rest = message, name = {0};
  tercel_pb_field field;
  bool more = true;
  size_t count = 0;
  for (;;) {
    TERCEL_TRY(tercel_pb_next(&rest, &field, &more, err));
    if (!more) break;
    if (field.number == HOLDER_NAME) name = field.bytes;
    if (optional && field.number == OPTIONAL_SEQUENCE) {
      TERCEL_TRY(read_holder(field.bytes, false, out, err));
      return set_name(out, &name, err);
    }
    if (field.number > HOLDER_TENSOR)
      return tercel_fail(err, TERCEL_UNSUPPORTED, "a sequence or optional of something else than tensors");
    count += field.number == HOLDER_TENSOR;
  }
  TERCEL_TRY(set_name(out, &name, err));
  out->views = tercel_arena_alloc_array(&out->arena, count, sizeof *out->views);
  if (!out->views) return tercel_fail_memory(err, count * sizeof *out->views, "a sequence");
  while (out->num_views < count) {
    TERCEL_TRY(tercel_pb_next(&message, &field, &more, err));
    if (field.number != HOLDER_TENSOR) continue;
    TERCEL_TRY(read_tensor(field.bytes, &out->arena, &out->views[out->num_views], NULL, err));
    out->num_views++;
  }
  return TERCEL_OK;
}

/* Keys of a map as a tensor: integers, packed or not, or strings. */
typedef struct keys {
  int64_t ints, strings;
  tercel_view view;
} keys;

static tercel_status count_keys(keys *k, const tercel_pb_field *field, tercel_error *err) {
  tercel_pb packed = field->bytes;
  uint64_t number;
  k->strings += field->number == MAP_STRING_KEYS;
  if (field->number != MAP_INT_KEYS) return TERCEL_OK;
  if (field->wire != TERCEL_PB_BYTES) k->ints++;
  for (; field->wire == TERCEL_PB_BYTES && tercel_pb_left(&packed) > 0; k->ints++)
    TERCEL_TRY(tercel_pb_varint(&packed, &number, err));
  return TERCEL_OK;
}

static tercel_status put_keys(keys *k, const tercel_pb_field *field, int64_t *at, tercel_arena *arena,
                              tercel_error *err) {
  tercel_pb packed = field->bytes;
  if (field->number == MAP_STRING_KEYS) {
    const size_t length = tercel_pb_left(&field->bytes);
    char *const text = tercel_arena_strndup(arena, (const char *)field->bytes.at, length);
    if (!text) return tercel_fail_memory(err, length, "a key");
    ((tercel_string *)k->view.data)[(*at)++] = (tercel_string){text, length};
  }
  if (field->number != MAP_INT_KEYS) return TERCEL_OK;
  uint64_t number = field->number_value;
  if (field->wire != TERCEL_PB_BYTES) ((int64_t *)k->view.data)[(*at)++] = (int64_t)number;
  while (field->wire == TERCEL_PB_BYTES && tercel_pb_left(&packed) > 0) {
    TERCEL_TRY(tercel_pb_varint(&packed, &number, err));
    ((int64_t *)k->view.data)[(*at)++] = (int64_t)number;
  }
  return TERCEL_OK;
}

/* The values, which are one scalar each, as one tensor. */
static tercel_status join_values(tercel_datum *out, int64_t count, tercel_view *to, tercel_error *err) {
  if (count == 0 || out->num_views != (size_t)count)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a map of %lld keys and %zu values", (long long)count, out->num_views);
  const tercel_dtype dtype = out->views->dtype;
  TERCEL_TRY(tercel_datum_alloc_view(&out->arena, dtype, 1, &count, 0, to, err));
  for (int64_t i = 0; i < count; i++) {
    if (out->views[i].dtype != dtype || tercel_view_num_elements(&out->views[i]) != 1 || tercel_dtype_bits(dtype) < 8)
      return tercel_fail(err, TERCEL_UNSUPPORTED,
                         "a map whose values are not one number (or string) each, of one type");
    tercel_element_copy(to->data, i, out->views[i].data, 0, dtype);
  }
  return TERCEL_OK;
}

/* A MapProto: its keys and its values. */
static tercel_status read_map(tercel_pb message, tercel_datum *out, tercel_error *err) {
  tercel_pb rest = message, name = {0}, values = {0};
  tercel_pb_field field;
  bool more = true;
  keys k = {0};
  for (;;) {
    TERCEL_TRY(tercel_pb_next(&rest, &field, &more, err));
    if (!more) break;
    if (field.number == MAP_NAME) name = field.bytes;
    if (field.number == MAP_VALUES) values = field.bytes;
    TERCEL_TRY(count_keys(&k, &field, err));
  }
  const int64_t count = k.ints + k.strings;
  if (k.ints > 0 && k.strings > 0) return tercel_fail(err, TERCEL_INVALID_MODEL, "a map of integer and string keys");
  TERCEL_TRY(read_holder(values, false, out, err));
  TERCEL_TRY(set_name(out, &name, err));
  tercel_view *const both = tercel_arena_alloc_array(&out->arena, 2, sizeof *both);
  if (!both) return tercel_fail_memory(err, 2 * sizeof *both, "a map");
  TERCEL_TRY(join_values(out, count, &both[1], err));
  TERCEL_TRY(tercel_datum_alloc_view(&out->arena, k.strings > 0 ? TERCEL_DTYPE_STRING : TERCEL_DTYPE_I64, 1, &count, 0,
                                     &k.view, err));
  for (int64_t at = 0; at < count;) {
    TERCEL_TRY(tercel_pb_next(&message, &field, &more, err));
    TERCEL_TRY(put_keys(&k, &field, &at, &out->arena, err));
  }
  both[0] = k.view;
  out->views = both;
  out->num_views = 2;
  return TERCEL_OK;
}

tercel_status tercel_tensorpb_parse(const void *data, size_t bytes, const char *kind, tercel_datum *out,
                                    tercel_error *err) {
  *out = (tercel_datum){.kind = kind, .name = ""};
  const tercel_pb message = tercel_pb_open(data, bytes);
  const bool optional = strcmp(kind, "optional") == 0 || strcmp(kind, "optional_sequence") == 0;
  const tercel_status status = strcmp(kind, "tensor") == 0 ? read_single(message, out, err)
                               : strcmp(kind, "map") == 0  ? read_map(message, out, err)
                                                           : read_holder(message, optional, out, err);
  if (status != TERCEL_OK) tercel_datum_deinit(out);
  return status;
}

tercel_status tercel_tensorpb_read(const char *path, const char *kind, tercel_datum *out, tercel_error *err) {
  *out = (tercel_datum){0};
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  const tercel_status status = tercel_tensorpb_parse(file.data, file.size, kind, out, err);
  tercel_file_close(&file);
  return status == TERCEL_OK ? TERCEL_OK : tercel_fail_at(err, status, "%s", path);
}

/* ---- writing ---- */

static void add_varint(tercel_text *to, uint64_t value) {
  char bytes[10];
  size_t count = 0;
  for (; value >= 0x80; value >>= 7) bytes[count++] = (char)(value | 0x80);
  bytes[count++] = (char)value;
  tercel_text_add_bytes(to, bytes, count);
}

static void add_number(tercel_text *to, int field, uint64_t value) {
  add_varint(to, (uint64_t)field << 3 | TERCEL_PB_VARINT);
  add_varint(to, value);
}

static void add_bytes(tercel_text *to, int field, const void *data, size_t length) {
  add_varint(to, (uint64_t)field << 3 | TERCEL_PB_BYTES);
  add_varint(to, length);
  tercel_text_add_bytes(to, data, length);
}

static int data_type_of(tercel_dtype dtype) {
  int type = 0;
  for (int i = 1; i < NUM_DATA_TYPES; i++)
    if (data_types[i].dtype == dtype) type = i;
  return type;
}

/* As add_bytes of the packed codes. */
static void add_packed6(tercel_text *to, const uint8_t *codes, size_t count) {
  const size_t bytes = tercel_packed6_bytes(count);
  uint8_t *const packed = tercel_alloc(bytes + 1);
  if (!packed) {
    to->failed = true;
    return;
  }
  tercel_pack6(codes, count, packed);
  add_bytes(to, TENSOR_RAW, packed, bytes);
  tercel_free(packed);
}

static void add_tensor(tercel_text *to, const char *name, const tercel_view *view) {
  size_t bytes = 0;
  const int64_t elements = tercel_view_num_elements(view);
  for (int i = 0; i < view->rank; i++) add_number(to, TENSOR_DIMS, (uint64_t)view->dims[i]);
  add_number(to, TENSOR_TYPE, (uint64_t)data_type_of(view->dtype));
  if (*name) add_bytes(to, TENSOR_NAME, name, strlen(name));
  if (tercel_dtype_is_f6(view->dtype)) {
    add_packed6(to, view->data, (size_t)elements);
    return;
  }
  if (view->dtype != TERCEL_DTYPE_STRING) {
    if (tercel_dtype_size(view->dtype, elements, &bytes)) add_bytes(to, TENSOR_RAW, view->data, bytes);
    return;
  }
  const tercel_string *const strings = view->data;
  for (int64_t i = 0; i < elements; i++) add_bytes(to, TENSOR_STRINGS, strings[i].data, strings[i].length);
}

static void add_holder(tercel_text *to, const char *name, const tercel_view *views, size_t num_views) {
  if (*name) add_bytes(to, HOLDER_NAME, name, strlen(name));
  add_number(to, HOLDER_ELEM_TYPE, num_views ? ELEM_TENSOR : 0);
  for (size_t i = 0; i < num_views; i++) {
    tercel_text tensor = {0};
    add_tensor(&tensor, "", &views[i]);
    add_bytes(to, HOLDER_TENSOR, tensor.data, tensor.length);
    to->failed = to->failed || tensor.failed;
    tercel_text_deinit(&tensor);
  }
}

/* An OptionalProto around a SequenceProto. */
static void add_optional_sequence(tercel_text *to, const char *name, const tercel_view *views, size_t num_views) {
  tercel_text sequence = {0};
  if (*name) add_bytes(to, HOLDER_NAME, name, strlen(name));
  add_number(to, HOLDER_ELEM_TYPE, ELEM_SEQUENCE);
  add_holder(&sequence, "", views, num_views);
  add_bytes(to, OPTIONAL_SEQUENCE, sequence.data, sequence.length);
  to->failed = to->failed || sequence.failed;
  tercel_text_deinit(&sequence);
}

tercel_status tercel_tensorpb_write(const char *path, const char *kind, const char *name, const tercel_view *views,
                                    size_t num_views, tercel_error *err) {
  tercel_text text = {0};
  const bool tensor = strcmp(kind, "tensor") == 0;
  if (strcmp(kind, "map") == 0) return tercel_fail(err, TERCEL_UNSUPPORTED, "maps can't be written as .pb");
  if ((tensor && num_views != 1) || (strcmp(kind, "optional") == 0 && num_views > 1))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%zu tensors can't be written as one %s", num_views, kind);
  if (tensor)
    add_tensor(&text, name, views);
  else if (strcmp(kind, "optional_sequence") == 0)
    add_optional_sequence(&text, name, views, num_views);
  else
    add_holder(&text, name, views, num_views);
  const tercel_status status =
      text.failed ? tercel_fail_memory(err, text.length, path) : tercel_file_write(path, text.data, text.length, err);
  tercel_text_deinit(&text);
  return status;
}
