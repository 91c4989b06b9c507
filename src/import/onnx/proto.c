/* ONNX's messages: one table a message says which field number goes where; one reader serves them all. */
#include "import/onnx/proto.h"

#include <assert.h>
#include <string.h>

enum { MAX_DEPTH = 100 };

typedef enum kind {
  INT,     /* int64_t, from a varint */
  FLOAT,   /* float */
  NAME,    /* const char *, copied */
  BYTES,   /* tercel_string, in place */
  MESSAGE, /* pointer to a struct; the field must not stand twice */
  INTS,    /* lists, see TERCEL_ONNX_LIST; numbers packed or not */
  FLOATS,
  NAMES,
  BYTES_LIST,
  MESSAGES,
  COUNT_VARINT, /* size_t: how many elements there are, packed or not */
  COUNT_FIXED32,
  COUNT_FIXED64,
  COUNT_BYTES
} kind;

typedef struct field {
  uint8_t number;
  uint8_t kind;
  uint16_t offset; /* in the struct */
  const char *name;
  const struct message *message; /* of MESSAGE and MESSAGES */
} field;

typedef struct message {
  const char *name;
  size_t size;
  const field *fields;
  size_t num_fields;
} message;

typedef struct list {
  size_t count;
  void *items;
} list;

#define F(type, number, kind, member, ...)                                                                             \
  { number, kind, offsetof(tercel_onnx_##type, member), #member, __VA_ARGS__ }
#define MESSAGE_TABLE(id, proto_name)                                                                                  \
  static const message id##_message = {proto_name, sizeof(tercel_onnx_##id), id##_fields,                              \
                                       sizeof id##_fields / sizeof *id##_fields};

static const message graph_message, type_message; /* these recurse */

static const field entry_fields[] = {F(entry, 1, NAME, key, NULL), F(entry, 2, NAME, value, NULL)};
MESSAGE_TABLE(entry, "StringStringEntryProto")

static const field tensor_fields[] = {
    F(tensor, 1, INTS, dims, NULL),
    F(tensor, 2, INT, data_type, NULL),
    F(tensor, TERCEL_ONNX_FIELD_FLOAT_DATA, COUNT_FIXED32, num_float, NULL),
    F(tensor, TERCEL_ONNX_FIELD_INT32_DATA, COUNT_VARINT, num_int32, NULL),
    F(tensor, TERCEL_ONNX_FIELD_STRING_DATA, COUNT_BYTES, num_string, NULL),
    F(tensor, TERCEL_ONNX_FIELD_INT64_DATA, COUNT_VARINT, num_int64, NULL),
    F(tensor, 8, NAME, name, NULL),
    F(tensor, TERCEL_ONNX_FIELD_RAW_DATA, BYTES, raw_data, NULL),
    F(tensor, TERCEL_ONNX_FIELD_DOUBLE_DATA, COUNT_FIXED64, num_double, NULL),
    F(tensor, TERCEL_ONNX_FIELD_UINT64_DATA, COUNT_VARINT, num_uint64, NULL),
    F(tensor, 13, MESSAGES, external_data, &entry_message),
    F(tensor, 14, INT, data_location, NULL),
};
MESSAGE_TABLE(tensor, "TensorProto")

static const field sparse_fields[] = {
    F(sparse, 1, MESSAGE, values, &tensor_message),
    F(sparse, 2, MESSAGE, indices, &tensor_message),
    F(sparse, 3, INTS, dims, NULL),
};
MESSAGE_TABLE(sparse, "SparseTensorProto")

static const field dim_fields[] = {F(dim, 1, INT, value, NULL), F(dim, 2, NAME, param, NULL)};
MESSAGE_TABLE(dim, "TensorShapeProto.Dimension")

static const field shape_fields[] = {F(shape, 1, MESSAGES, dims, &dim_message)};
MESSAGE_TABLE(shape, "TensorShapeProto")

static const field tensor_type_fields[] = {
    F(tensor_type, 1, INT, elem_type, NULL),
    F(tensor_type, 2, MESSAGE, shape, &shape_message),
};
MESSAGE_TABLE(tensor_type, "TypeProto.Tensor")

static const field container_type_fields[] = {F(container_type, 1, MESSAGE, elem, &type_message)};
MESSAGE_TABLE(container_type, "TypeProto.Sequence")

static const field map_type_fields[] = {
    F(map_type, 1, INT, key_type, NULL),
    F(map_type, 2, MESSAGE, value_type, &type_message),
};
MESSAGE_TABLE(map_type, "TypeProto.Map")

static const field type_fields[] = {
    F(type, 1, MESSAGE, tensor, &tensor_type_message),
    F(type, 4, MESSAGE, sequence, &container_type_message),
    F(type, 5, MESSAGE, map, &map_type_message),
    F(type, 9, MESSAGE, optional, &container_type_message),
};
static const message type_message = {"TypeProto", sizeof(tercel_onnx_type), type_fields,
                                     sizeof type_fields / sizeof *type_fields};

static const field value_info_fields[] = {
    F(value_info, 1, NAME, name, NULL),
    F(value_info, 2, MESSAGE, type, &type_message),
};
MESSAGE_TABLE(value_info, "ValueInfoProto")

static const field attr_fields[] = {
    F(attr, 1, NAME, name, NULL),
    F(attr, 2, FLOAT, f, NULL),
    F(attr, 3, INT, i, NULL),
    F(attr, 4, BYTES, s, NULL),
    F(attr, 5, MESSAGE, t, &tensor_message),
    F(attr, 6, MESSAGE, g, &graph_message),
    F(attr, 7, FLOATS, floats, NULL),
    F(attr, 8, INTS, ints, NULL),
    F(attr, 9, BYTES_LIST, strings, NULL),
    F(attr, 14, MESSAGE, tp, &type_message),
    F(attr, 20, INT, type, NULL),
    F(attr, 21, NAME, ref_name, NULL),
    F(attr, 22, MESSAGE, sparse, &sparse_message),
};
MESSAGE_TABLE(attr, "AttributeProto")

static const field node_fields[] = {
    F(node, 1, NAMES, inputs, NULL),  F(node, 2, NAMES, outputs, NULL),           F(node, 3, NAME, name, NULL),
    F(node, 4, NAME, op_type, NULL),  F(node, 5, MESSAGES, attrs, &attr_message), F(node, 7, NAME, domain, NULL),
    F(node, 8, NAME, overload, NULL),
};
MESSAGE_TABLE(node, "NodeProto")

static const field graph_fields[] = {
    F(graph, 1, MESSAGES, nodes, &node_message),
    F(graph, 2, NAME, name, NULL),
    F(graph, 5, MESSAGES, initializers, &tensor_message),
    F(graph, 11, MESSAGES, inputs, &value_info_message),
    F(graph, 12, MESSAGES, outputs, &value_info_message),
    F(graph, 13, MESSAGES, value_infos, &value_info_message),
    F(graph, 15, MESSAGES, sparse_initializers, &sparse_message),
};
static const message graph_message = {"GraphProto", sizeof(tercel_onnx_graph), graph_fields,
                                      sizeof graph_fields / sizeof *graph_fields};

static const field opset_fields[] = {F(opset, 1, NAME, domain, NULL), F(opset, 2, INT, version, NULL)};
MESSAGE_TABLE(opset, "OperatorSetIdProto")

static const field function_fields[] = {
    F(function, 1, NAME, name, NULL),
    F(function, 4, NAMES, inputs, NULL),
    F(function, 5, NAMES, outputs, NULL),
    F(function, 6, NAMES, attributes, NULL),
    F(function, 7, MESSAGES, nodes, &node_message),
    F(function, 9, MESSAGES, opsets, &opset_message),
    F(function, 10, NAME, domain, NULL),
    F(function, 11, MESSAGES, attr_defaults, &attr_message),
    F(function, 13, NAME, overload, NULL),
};
MESSAGE_TABLE(function, "FunctionProto")

static const field model_fields[] = {
    F(model, 1, INT, ir_version, NULL),
    F(model, 2, NAME, producer_name, NULL),
    F(model, 3, NAME, producer_version, NULL),
    F(model, 6, NAME, doc_string, NULL),
    F(model, 7, MESSAGE, graph, &graph_message),
    F(model, 8, MESSAGES, opsets, &opset_message),
    F(model, 14, MESSAGES, metadata, &entry_message),
    F(model, 25, MESSAGES, functions, &function_message),
};
MESSAGE_TABLE(model, "ModelProto")

/* ---- reader -------------------------------------------------------------------------------------------------------- */

static const field *find_field(const message *m, uint32_t number) {
  for (size_t i = 0; i < m->num_fields; i++)
    if (m->fields[i].number == number) return &m->fields[i];
  return NULL;
}

static bool is_list(uint8_t k) { return k >= INTS && k <= MESSAGES; }

static size_t item_size(const field *f) {
  switch (f->kind) {
  case INTS: return sizeof(int64_t);
  case FLOATS: return sizeof(float);
  case NAMES: return sizeof(const char *);
  case BYTES_LIST: return sizeof(tercel_string);
  default: return f->message->size;
  }
}

/* The wire type of one element; where it is a number, BYTES means that several stand packed. */
static tercel_pb_wire want_wire(uint8_t k) {
  switch (k) {
  case INT:
  case INTS:
  case COUNT_VARINT: return TERCEL_PB_VARINT;
  case FLOAT:
  case FLOATS:
  case COUNT_FIXED32: return TERCEL_PB_FIXED32;
  case COUNT_FIXED64: return TERCEL_PB_FIXED64;
  default: return TERCEL_PB_BYTES;
  }
}

static bool may_be_packed(uint8_t k) {
  return k == INTS || k == FLOATS || k == COUNT_VARINT || k == COUNT_FIXED32 || k == COUNT_FIXED64;
}

static tercel_status check_wire(const field *f, const tercel_pb_field *got, tercel_error *err) {
  const tercel_pb_wire want = want_wire(f->kind);
  if (got->wire == want || (got->wire == TERCEL_PB_BYTES && may_be_packed(f->kind))) return TERCEL_OK;
  return tercel_fail(err, TERCEL_INVALID_MODEL, "field %u (%s) has wire type %d, want %d", (unsigned)f->number, f->name,
                     (int)got->wire, (int)want);
}

/* How many elements one occurrence of a repeated field holds. */
static tercel_status count_elements(const field *f, const tercel_pb_field *got, size_t *out, tercel_error *err) {
  const tercel_pb_wire want = want_wire(f->kind);
  *out = 1;
  if (got->wire == want) return TERCEL_OK;
  const size_t bytes = tercel_pb_left(&got->bytes);
  if (want == TERCEL_PB_VARINT) {
    *out = 0;
    for (const uint8_t *at = got->bytes.at; at < got->bytes.end; at++) *out += *at < 0x80;
    return TERCEL_OK;
  }
  const size_t size = want == TERCEL_PB_FIXED32 ? 4 : 8;
  if (bytes % size != 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "field %u (%s): %zu packed bytes are not a multiple of %zu",
                       (unsigned)f->number, f->name, bytes, size);
  *out = bytes / size;
  return TERCEL_OK;
}

static tercel_status read_name(tercel_pb bytes, const field *f, tercel_arena *arena, const char **out,
                               tercel_error *err) {
  const size_t length = tercel_pb_left(&bytes);
  if (length > 0 && memchr(bytes.at, 0, length))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "field %u (%s): a name with a zero byte in it", (unsigned)f->number,
                       f->name);
  *out = tercel_arena_strndup(arena, (const char *)bytes.at, length);
  return *out ? TERCEL_OK : tercel_fail_memory(err, length + 1, "a name");
}

static tercel_string in_place(tercel_pb bytes) {
  return (tercel_string){(const char *)bytes.at, tercel_pb_left(&bytes)};
}

static tercel_status read_message(tercel_pb bytes, const message *m, void *out, int depth, tercel_arena *arena,
                                  tercel_error *err);

/* Writes one occurrence of a repeated field behind the elements that are there.  The list has room for `capacity`:
 * fewer than were counted may come, never more, even if the mapped file changes between the two looks. */
static tercel_status fill_list(const field *f, const tercel_pb_field *got, list *l, size_t capacity, int depth,
                               tercel_arena *arena, tercel_error *err) {
  tercel_pb packed = got->bytes;
  size_t num = 0;
  TERCEL_TRY(count_elements(f, got, &num, err));
  for (size_t i = 0; i < num; i++) {
    if (l->count == capacity) return tercel_fail(err, TERCEL_INVALID_MODEL, "the file changed while it was read");
    void *const item = (char *)l->items + l->count * item_size(f);
    uint64_t number = got->number_value;
    switch (f->kind) {
    case INTS:
      if (got->wire == TERCEL_PB_BYTES) TERCEL_TRY(tercel_pb_varint(&packed, &number, err));
      *(int64_t *)item = (int64_t)number;
      break;
    case FLOATS: memcpy(item, got->wire == TERCEL_PB_BYTES ? (const void *)(packed.at + 4 * i) : &number, 4); break;
    case NAMES: TERCEL_TRY(read_name(got->bytes, f, arena, item, err)); break;
    case BYTES_LIST: *(tercel_string *)item = in_place(got->bytes); break;
    default: TERCEL_TRY(read_message(got->bytes, f->message, item, depth + 1, arena, err)); break;
    }
    l->count++;
  }
  return TERCEL_OK;
}

static tercel_status read_field(const field *f, const tercel_pb_field *got, char *out, bool again, int depth,
                                tercel_arena *arena, tercel_error *err) {
  switch (f->kind) {
  case INT: *(int64_t *)(void *)out = (int64_t)got->number_value; return TERCEL_OK;
  case FLOAT: memcpy(out, &got->number_value, 4); return TERCEL_OK;
  case NAME: return read_name(got->bytes, f, arena, (const char **)(void *)out, err);
  case BYTES: *(tercel_string *)(void *)out = in_place(got->bytes); return TERCEL_OK;
  case MESSAGE: {
    if (again)
      return tercel_fail(err, TERCEL_UNSUPPORTED, "field %u (%s) stands twice: models in several pieces are not merged",
                         (unsigned)f->number, f->name);
    void *const sub = tercel_arena_alloc(arena, f->message->size);
    if (!sub) return tercel_fail_memory(err, f->message->size, f->message->name);
    memcpy(out, &(void *){sub}, sizeof(void *));
    return read_message(got->bytes, f->message, sub, depth + 1, arena, err);
  }
  default: return TERCEL_OK; /* COUNT_*: done by the first look */
  }
}

/* First look: checks wire types and counts what the repeated fields hold. */
static tercel_status count_message(tercel_pb bytes, const message *m, size_t *counts, tercel_error *err) {
  tercel_pb_field got;
  for (bool more;;) {
    TERCEL_TRY(tercel_pb_next(&bytes, &got, &more, err));
    if (!more) return TERCEL_OK;
    const field *const f = find_field(m, got.number);
    if (!f) continue;
    TERCEL_TRY(check_wire(f, &got, err));
    if (f->kind < INTS) continue;
    size_t num = 0;
    TERCEL_TRY(count_elements(f, &got, &num, err));
    counts[f - m->fields] += num;
  }
}

/* Second look: fills the struct. */
static tercel_status fill_message(tercel_pb bytes, const message *m, const size_t *counts, char *out, int depth,
                                  tercel_arena *arena, tercel_error *err) {
  uint32_t present = 0;
  tercel_pb_field got;
  for (bool more;;) {
    TERCEL_TRY(tercel_pb_next(&bytes, &got, &more, err));
    if (!more) break;
    const field *const f = find_field(m, got.number);
    if (!f) {
      if (got.number < 32) present |= 1u << got.number;
      continue;
    }
    TERCEL_TRY(check_wire(f, &got, err));
    if (is_list(f->kind)) {
      list l;
      memcpy(&l, out + f->offset, sizeof l);
      TERCEL_TRY(fill_list(f, &got, &l, counts[f - m->fields], depth, arena, err));
      memcpy(out + f->offset, &l, sizeof l);
    } else {
      TERCEL_TRY(read_field(f, &got, out + f->offset, (present >> f->number & 1) != 0, depth, arena, err));
    }
    present |= 1u << f->number;
  }
  memcpy(out, &present, sizeof present); /* the first member of every struct */
  return TERCEL_OK;
}

static tercel_status allocate_lists(const message *m, const size_t *counts, char *out, tercel_arena *arena,
                                    tercel_error *err) {
  for (size_t i = 0; i < m->num_fields; i++) {
    const field *const f = &m->fields[i];
    if (is_list(f->kind) && counts[i] > 0) {
      const list l = {0, tercel_arena_alloc_array(arena, counts[i], item_size(f))};
      if (!l.items) return tercel_fail_memory(err, counts[i] * item_size(f), f->name);
      memcpy(out + f->offset, &l, sizeof l);
    } else if (f->kind >= COUNT_VARINT) {
      memcpy(out + f->offset, &counts[i], sizeof counts[i]);
    } else if (f->kind == NAME) {
      memcpy(out + f->offset, &(const char *){""}, sizeof(const char *));
    }
  }
  return TERCEL_OK;
}

enum { MAX_FIELDS = 16 };

/* *out arrives cleared. */
static tercel_status read_message(tercel_pb bytes, const message *m, void *out, int depth, tercel_arena *arena,
                                  tercel_error *err) {
  if (depth > MAX_DEPTH)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "messages nested more than %d deep", (int)MAX_DEPTH);
  assert(m->num_fields <= MAX_FIELDS);
  size_t counts[MAX_FIELDS] = {0};
  const tercel_status status = count_message(bytes, m, counts, err);
  if (status != TERCEL_OK) return tercel_fail_at(err, status, "%s", m->name);
  TERCEL_TRY(allocate_lists(m, counts, out, arena, err));
  if (m == &tensor_message) ((tercel_onnx_tensor *)out)->body = bytes;
  return fill_message(bytes, m, counts, out, depth, arena, err);
}

tercel_status tercel_onnx_read_model(const void *data, size_t bytes, tercel_arena *arena, tercel_onnx_model *out,
                                     tercel_error *err) {
  return read_message(tercel_pb_open(data, bytes), &model_message, out, 0, arena, err);
}
