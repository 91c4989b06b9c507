/* ONNX files as trees of messages, to be changed and written again.  Knows which field of which message of onnx.proto holds what; nothing
 * of what a model means.  Fields that it doesn't know are kept as they are. */
#ifndef TERCEL_TESTS_FUZZ_ONNX_TREE_H
#define TERCEL_TESTS_FUZZ_ONNX_TREE_H

#include "base/base.h"

typedef enum onnx_kind {
  ONNX_MODEL,
  ONNX_GRAPH,
  ONNX_NODE,
  ONNX_ATTR,
  ONNX_TENSOR,
  ONNX_VALUE_INFO,
  ONNX_TYPE,
  ONNX_TENSOR_TYPE,
  ONNX_CONTAINER_TYPE,
  ONNX_MAP_TYPE,
  ONNX_SHAPE,
  ONNX_DIM,
  ONNX_OPSET,
  ONNX_FUNCTION,
  ONNX_SPARSE,
  ONNX_ENTRY
} onnx_kind;

/* What a field holds, beside messages. */
typedef enum onnx_role {
  ONNX_MESSAGE,
  ONNX_OPAQUE,
  ONNX_TEXT,
  ONNX_VALUE_NAME,
  ONNX_OPERATOR,
  ONNX_DOMAIN,
  ONNX_ATTR_NAME,
  ONNX_DIM_NAME,
  ONNX_INT,
  ONNX_FLOAT,
  ONNX_DTYPE,
  ONNX_ATTR_TYPE,
  ONNX_INTS,   /* packed */
  ONNX_FLOATS, /* packed */
  ONNX_RAW
} onnx_role;

typedef struct onnx_message onnx_message;

typedef struct onnx_field {
  uint32_t number;
  tercel_pb_wire wire;
  onnx_role role;
  uint64_t value;       /* of varints and fixed */
  const uint8_t *bytes; /* of BYTES that are no message: borrowed from the file, or in the arena */
  size_t length;
  onnx_message *child; /* of a message */
  onnx_message *parent;
} onnx_field;

struct onnx_message {
  onnx_kind kind;
  onnx_field **fields;
  size_t count, capacity;
  size_t written_bytes; /* scratch of onnx_tree_write */
};

/* NULL: no model, or no memory.  The tree lives in the arena and borrows data. */
onnx_message *onnx_tree_read(tercel_arena *arena, const uint8_t *data, size_t size);
/* 0 when the tree is larger than max_size (out is not touched then), else its size. */
size_t onnx_tree_write(onnx_message *model, uint8_t *out, size_t max_size);

/* Puts the field at `index` of the message (at its end: index >= count). */
bool onnx_insert(tercel_arena *arena, onnx_message *message, size_t index, onnx_field *field);
void onnx_remove(onnx_message *message, size_t index);
/* Where the field stands among its parent's. */
size_t onnx_index(const onnx_field *field);
/* A deep copy without a place. */
onnx_field *onnx_copy(tercel_arena *arena, const onnx_field *field);
/* New fields at the message's end; NULL without memory. */
onnx_message *onnx_add_message(tercel_arena *arena, onnx_message *message, uint32_t number);
onnx_field *onnx_add_text(tercel_arena *arena, onnx_message *message, uint32_t number, const char *text);
onnx_field *onnx_add_int(tercel_arena *arena, onnx_message *message, uint32_t number, uint64_t value);

/* Field numbers that mutations speak of. */
enum {
  ONNX_GRAPH_NODE = 1,
  ONNX_GRAPH_NAME = 2,
  ONNX_GRAPH_INPUT = 11,
  ONNX_GRAPH_OUTPUT = 12,
  ONNX_NODE_INPUT = 1,
  ONNX_NODE_OUTPUT = 2,
  ONNX_NODE_OPERATOR = 4,
  ONNX_NODE_ATTR = 5,
  ONNX_NODE_DOMAIN = 7,
  ONNX_ATTR_NAME_FIELD = 1,
  ONNX_ATTR_TENSOR = 5,
  ONNX_ATTR_GRAPH = 6,
  ONNX_ATTR_TYPE_FIELD = 20,
  ONNX_TENSOR_DTYPE = 2,
  ONNX_TENSOR_INT32S = 5,
  ONNX_TENSOR_INT64S = 7,
  ONNX_VALUE_INFO_NAME = 1,
  ONNX_VALUE_INFO_TYPE = 2,
  ONNX_TYPE_TENSOR = 1,
  ONNX_TENSOR_TYPE_DTYPE = 1,
  ONNX_TENSOR_TYPE_SHAPE = 2
};

#endif
