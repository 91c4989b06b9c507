/* The table of onnx.proto's fields, and trees read, edited and written by it. */
#include "fuzz/onnx_tree.h"

#include <string.h>

#include "base/protobuf.h"

enum { MAX_DEPTH = 60, MAX_FIELDS = 20000 };

typedef struct rule {
  onnx_kind message;
  uint32_t number;
  onnx_role role;
  onnx_kind child; /* of messages */
} rule;

/* clang-format off */
static const rule rules[] = {
    {ONNX_MODEL, 1, ONNX_INT, 0},            {ONNX_MODEL, 2, ONNX_TEXT, 0},          {ONNX_MODEL, 3, ONNX_TEXT, 0},
    {ONNX_MODEL, 7, ONNX_MESSAGE, ONNX_GRAPH}, {ONNX_MODEL, 8, ONNX_MESSAGE, ONNX_OPSET},
    {ONNX_MODEL, 14, ONNX_MESSAGE, ONNX_ENTRY}, {ONNX_MODEL, 25, ONNX_MESSAGE, ONNX_FUNCTION},
    {ONNX_GRAPH, 1, ONNX_MESSAGE, ONNX_NODE}, {ONNX_GRAPH, 2, ONNX_TEXT, 0},
    {ONNX_GRAPH, 5, ONNX_MESSAGE, ONNX_TENSOR}, {ONNX_GRAPH, 11, ONNX_MESSAGE, ONNX_VALUE_INFO},
    {ONNX_GRAPH, 12, ONNX_MESSAGE, ONNX_VALUE_INFO}, {ONNX_GRAPH, 13, ONNX_MESSAGE, ONNX_VALUE_INFO},
    {ONNX_GRAPH, 15, ONNX_MESSAGE, ONNX_SPARSE},
    {ONNX_NODE, 1, ONNX_VALUE_NAME, 0},      {ONNX_NODE, 2, ONNX_VALUE_NAME, 0},     {ONNX_NODE, 3, ONNX_TEXT, 0},
    {ONNX_NODE, 4, ONNX_OPERATOR, 0},        {ONNX_NODE, 5, ONNX_MESSAGE, ONNX_ATTR}, {ONNX_NODE, 7, ONNX_DOMAIN, 0},
    {ONNX_NODE, 8, ONNX_TEXT, 0},
    {ONNX_ATTR, 1, ONNX_ATTR_NAME, 0},       {ONNX_ATTR, 2, ONNX_FLOAT, 0},          {ONNX_ATTR, 3, ONNX_INT, 0},
    {ONNX_ATTR, 4, ONNX_TEXT, 0},            {ONNX_ATTR, 5, ONNX_MESSAGE, ONNX_TENSOR},
    {ONNX_ATTR, 6, ONNX_MESSAGE, ONNX_GRAPH}, {ONNX_ATTR, 7, ONNX_FLOATS, 0},        {ONNX_ATTR, 8, ONNX_INTS, 0},
    {ONNX_ATTR, 9, ONNX_TEXT, 0},            {ONNX_ATTR, 10, ONNX_MESSAGE, ONNX_TENSOR},
    {ONNX_ATTR, 11, ONNX_MESSAGE, ONNX_GRAPH}, {ONNX_ATTR, 14, ONNX_MESSAGE, ONNX_TYPE},
    {ONNX_ATTR, 20, ONNX_ATTR_TYPE, 0},      {ONNX_ATTR, 21, ONNX_ATTR_NAME, 0},
    {ONNX_ATTR, 22, ONNX_MESSAGE, ONNX_SPARSE},
    {ONNX_TENSOR, 1, ONNX_INTS, 0},          {ONNX_TENSOR, 2, ONNX_DTYPE, 0},        {ONNX_TENSOR, 4, ONNX_FLOATS, 0},
    {ONNX_TENSOR, 5, ONNX_INTS, 0},          {ONNX_TENSOR, 6, ONNX_TEXT, 0},         {ONNX_TENSOR, 7, ONNX_INTS, 0},
    {ONNX_TENSOR, 8, ONNX_VALUE_NAME, 0},    {ONNX_TENSOR, 9, ONNX_RAW, 0},          {ONNX_TENSOR, 10, ONNX_RAW, 0},
    {ONNX_TENSOR, 11, ONNX_INTS, 0},         {ONNX_TENSOR, 13, ONNX_MESSAGE, ONNX_ENTRY}, {ONNX_TENSOR, 14, ONNX_INT, 0},
    {ONNX_VALUE_INFO, 1, ONNX_VALUE_NAME, 0}, {ONNX_VALUE_INFO, 2, ONNX_MESSAGE, ONNX_TYPE},
    {ONNX_TYPE, 1, ONNX_MESSAGE, ONNX_TENSOR_TYPE}, {ONNX_TYPE, 4, ONNX_MESSAGE, ONNX_CONTAINER_TYPE},
    {ONNX_TYPE, 5, ONNX_MESSAGE, ONNX_MAP_TYPE}, {ONNX_TYPE, 8, ONNX_MESSAGE, ONNX_TENSOR_TYPE},
    {ONNX_TYPE, 9, ONNX_MESSAGE, ONNX_CONTAINER_TYPE},
    {ONNX_TENSOR_TYPE, 1, ONNX_DTYPE, 0},    {ONNX_TENSOR_TYPE, 2, ONNX_MESSAGE, ONNX_SHAPE},
    {ONNX_CONTAINER_TYPE, 1, ONNX_MESSAGE, ONNX_TYPE},
    {ONNX_MAP_TYPE, 1, ONNX_DTYPE, 0},       {ONNX_MAP_TYPE, 2, ONNX_MESSAGE, ONNX_TYPE},
    {ONNX_SHAPE, 1, ONNX_MESSAGE, ONNX_DIM}, {ONNX_DIM, 1, ONNX_INT, 0},             {ONNX_DIM, 2, ONNX_DIM_NAME, 0},
    {ONNX_OPSET, 1, ONNX_DOMAIN, 0},         {ONNX_OPSET, 2, ONNX_INT, 0},
    {ONNX_FUNCTION, 1, ONNX_OPERATOR, 0},    {ONNX_FUNCTION, 4, ONNX_VALUE_NAME, 0}, {ONNX_FUNCTION, 5, ONNX_VALUE_NAME, 0},
    {ONNX_FUNCTION, 6, ONNX_ATTR_NAME, 0},   {ONNX_FUNCTION, 7, ONNX_MESSAGE, ONNX_NODE},
    {ONNX_FUNCTION, 9, ONNX_MESSAGE, ONNX_OPSET}, {ONNX_FUNCTION, 10, ONNX_DOMAIN, 0},
    {ONNX_FUNCTION, 11, ONNX_MESSAGE, ONNX_ATTR}, {ONNX_FUNCTION, 13, ONNX_TEXT, 0},
    {ONNX_SPARSE, 1, ONNX_MESSAGE, ONNX_TENSOR}, {ONNX_SPARSE, 2, ONNX_MESSAGE, ONNX_TENSOR}, {ONNX_SPARSE, 3, ONNX_INTS, 0},
    {ONNX_ENTRY, 1, ONNX_TEXT, 0},           {ONNX_ENTRY, 2, ONNX_TEXT, 0},
};
/* clang-format on */

static const rule *find_rule(onnx_kind message, uint32_t number) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].message == message && rules[i].number == number) return &rules[i];
  return NULL;
}

/* What the wire type allows: a field that is written as another type than it should be is kept, but not understood. */
static onnx_role role_on_wire(const rule *rule, tercel_pb_wire wire) {
  if (!rule) return ONNX_OPAQUE;
  switch (rule->role) {
  case ONNX_INT:
  case ONNX_DTYPE:
  case ONNX_ATTR_TYPE: return wire == TERCEL_PB_VARINT ? rule->role : ONNX_OPAQUE;
  case ONNX_FLOAT: return wire == TERCEL_PB_FIXED32 ? rule->role : ONNX_OPAQUE;
  case ONNX_INTS: return wire == TERCEL_PB_BYTES ? ONNX_INTS : wire == TERCEL_PB_VARINT ? ONNX_INT : ONNX_OPAQUE;
  case ONNX_FLOATS: return wire == TERCEL_PB_BYTES ? ONNX_FLOATS : wire == TERCEL_PB_FIXED32 ? ONNX_FLOAT : ONNX_OPAQUE;
  default: return wire == TERCEL_PB_BYTES ? rule->role : ONNX_OPAQUE;
  }
}

/* ---- read ------------------------------------------------------------------------------------------------------------ */

typedef struct reader {
  tercel_arena *arena;
  size_t num_fields;
} reader;

static onnx_message *read_message(reader *r, tercel_pb body, onnx_kind kind, int depth) {
  onnx_message *const message = tercel_arena_alloc(r->arena, sizeof *message);
  if (!message || depth > MAX_DEPTH) return NULL;
  message->kind = kind;
  tercel_pb_field wire;
  bool more;
  while (tercel_pb_next(&body, &wire, &more, NULL) == TERCEL_OK && more) {
    onnx_field *const field = tercel_arena_alloc(r->arena, sizeof *field);
    if (!field || ++r->num_fields > MAX_FIELDS) return NULL;
    const rule *const rule = find_rule(kind, wire.number);
    *field = (onnx_field){.number = wire.number, .wire = wire.wire, .role = role_on_wire(rule, wire.wire)};
    field->value = wire.number_value;
    field->bytes = wire.bytes.at;
    field->length = tercel_pb_left(&wire.bytes);
    if (field->role == ONNX_MESSAGE) field->child = read_message(r, wire.bytes, rule->child, depth + 1);
    if ((field->role == ONNX_MESSAGE && !field->child) || !onnx_insert(r->arena, message, message->count, field))
      return NULL;
  }
  return message;
}

onnx_message *onnx_tree_read(tercel_arena *arena, const uint8_t *data, size_t size) {
  reader r = {.arena = arena};
  onnx_message *const model = read_message(&r, tercel_pb_open(data, size), ONNX_MODEL, 0);
  return model && model->count ? model : NULL;
}

/* ---- write ----------------------------------------------------------------------------------------------------------- */

static size_t varint_bytes(uint64_t value) {
  size_t bytes = 1;
  while (value >>= 7) bytes++;
  return bytes;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
  *at++ = (uint8_t)value;
  return at;
}

static uint64_t tag_of(const onnx_field *field) { return (uint64_t)field->number << 3 | (uint64_t)field->wire; }

static size_t measure(onnx_message *message);

static size_t measure_field(const onnx_field *field) {
  const size_t tag = varint_bytes(tag_of(field));
  if (field->wire == TERCEL_PB_VARINT) return tag + varint_bytes(field->value);
  if (field->wire != TERCEL_PB_BYTES) return tag + (field->wire == TERCEL_PB_FIXED64 ? 8 : 4);
  const size_t length = field->child ? measure(field->child) : field->length;
  return tag + varint_bytes(length) + length;
}

static size_t measure(onnx_message *message) {
  message->written_bytes = 0;
  for (size_t i = 0; i < message->count; i++) message->written_bytes += measure_field(message->fields[i]);
  return message->written_bytes;
}

static uint8_t *put_message(uint8_t *at, const onnx_message *message);

static uint8_t *put_field(uint8_t *at, const onnx_field *field) {
  at = put_varint(at, tag_of(field));
  if (field->wire == TERCEL_PB_VARINT) return put_varint(at, field->value);
  if (field->wire != TERCEL_PB_BYTES) {
    const size_t bytes = field->wire == TERCEL_PB_FIXED64 ? 8 : 4;
    memcpy(at, &field->value, bytes); /* little-endian, as the build checks */
    return at + bytes;
  }
  if (field->child) return put_message(put_varint(at, field->child->written_bytes), field->child);
  at = put_varint(at, field->length);
  if (field->length) memcpy(at, field->bytes, field->length);
  return at + field->length;
}

static uint8_t *put_message(uint8_t *at, const onnx_message *message) {
  for (size_t i = 0; i < message->count; i++) at = put_field(at, message->fields[i]);
  return at;
}

size_t onnx_tree_write(onnx_message *model, uint8_t *out, size_t max_size) {
  const size_t size = measure(model);
  if (size > max_size) return 0;
  put_message(out, model);
  return size;
}

/* ---- edit ------------------------------------------------------------------------------------------------------------ */

bool onnx_insert(tercel_arena *arena, onnx_message *message, size_t index, onnx_field *field) {
  if (message->count == message->capacity) {
    const size_t capacity = message->capacity ? 2 * message->capacity : 8;
    onnx_field **const grown = tercel_arena_alloc_array(arena, capacity, sizeof *grown);
    if (!grown) return false;
    if (message->count) memcpy(grown, message->fields, message->count * sizeof *grown);
    message->fields = grown;
    message->capacity = capacity;
  }
  if (index > message->count) index = message->count;
  memmove(message->fields + index + 1, message->fields + index, (message->count - index) * sizeof *message->fields);
  message->fields[index] = field;
  message->count++;
  field->parent = message;
  return true;
}

void onnx_remove(onnx_message *message, size_t index) {
  message->count--;
  memmove(message->fields + index, message->fields + index + 1, (message->count - index) * sizeof *message->fields);
}

size_t onnx_index(const onnx_field *field) {
  size_t i = 0;
  while (field->parent->fields[i] != field) i++;
  return i;
}

onnx_field *onnx_copy(tercel_arena *arena, const onnx_field *field) {
  onnx_field *const copy = tercel_arena_copy(arena, field, sizeof *field);
  if (!copy || !field->child) return copy;
  copy->child = tercel_arena_alloc(arena, sizeof *copy->child);
  if (!copy->child) return NULL;
  copy->child->kind = field->child->kind;
  for (size_t i = 0; i < field->child->count; i++) {
    onnx_field *const inner = onnx_copy(arena, field->child->fields[i]);
    if (!inner || !onnx_insert(arena, copy->child, i, inner)) return NULL;
  }
  return copy;
}

static onnx_field *add(tercel_arena *arena, onnx_message *message, uint32_t number, tercel_pb_wire wire) {
  const rule *const rule = find_rule(message->kind, number);
  onnx_field *const field = tercel_arena_alloc(arena, sizeof *field);
  if (!field) return NULL;
  *field = (onnx_field){.number = number, .wire = wire, .role = role_on_wire(rule, wire)};
  return onnx_insert(arena, message, message->count, field) ? field : NULL;
}

onnx_message *onnx_add_message(tercel_arena *arena, onnx_message *message, uint32_t number) {
  onnx_field *const field = add(arena, message, number, TERCEL_PB_BYTES);
  if (!field) return NULL;
  field->child = tercel_arena_alloc(arena, sizeof *field->child);
  if (field->child) field->child->kind = find_rule(message->kind, number)->child;
  return field->child;
}

onnx_field *onnx_add_text(tercel_arena *arena, onnx_message *message, uint32_t number, const char *text) {
  onnx_field *const field = add(arena, message, number, TERCEL_PB_BYTES);
  if (!field) return NULL;
  field->length = strlen(text);
  field->bytes = tercel_arena_copy(arena, text, field->length);
  return field->bytes ? field : NULL;
}

onnx_field *onnx_add_int(tercel_arena *arena, onnx_message *message, uint32_t number, uint64_t value) {
  onnx_field *const field = add(arena, message, number, TERCEL_PB_VARINT);
  if (field) field->value = value;
  return field;
}
