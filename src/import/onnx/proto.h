/* ONNX's messages as structs, read from a model file.  Knows the wire format and the field numbers of onnx.proto, nothing of
 * what they mean.
 *
 * Names are copied into the arena, 0-terminated; the bytes of tensors stay where they are.  `present` has bit n set when field
 * number n was there.  IR versions 3 (2017) to 14 share these numbers; unknown fields are skipped. */
#ifndef TERCEL_IMPORT_ONNX_PROTO_H
#define TERCEL_IMPORT_ONNX_PROTO_H

#include "base/base.h"

#define TERCEL_ONNX_LIST(type)                                                                                         \
  struct {                                                                                                             \
    size_t count;                                                                                                      \
    type *items;                                                                                                       \
  }

typedef TERCEL_ONNX_LIST(int64_t) tercel_onnx_ints;
typedef TERCEL_ONNX_LIST(float) tercel_onnx_floats;
typedef TERCEL_ONNX_LIST(const char *) tercel_onnx_names;

typedef struct tercel_onnx_entry {
  uint32_t present;
  const char *key, *value;
} tercel_onnx_entry;
typedef TERCEL_ONNX_LIST(tercel_onnx_entry) tercel_onnx_entries;

typedef struct tercel_onnx_tensor {
  uint32_t present;
  const char *name;
  tercel_onnx_ints dims;
  int64_t data_type, data_location;
  tercel_string raw_data;
  /* Elements in the typed fields; they are read from body when they are wanted. */
  size_t num_float, num_int32, num_string, num_int64, num_double, num_uint64;
  tercel_onnx_entries external_data;
  tercel_pb body;
} tercel_onnx_tensor;

typedef struct tercel_onnx_sparse {
  uint32_t present;
  tercel_onnx_tensor *values, *indices;
  tercel_onnx_ints dims;
} tercel_onnx_sparse;

typedef struct tercel_onnx_dim {
  uint32_t present; /* bit 1: value, bit 2: param; neither: unknown */
  int64_t value;
  const char *param;
} tercel_onnx_dim;

typedef struct tercel_onnx_shape {
  uint32_t present;
  TERCEL_ONNX_LIST(tercel_onnx_dim) dims;
} tercel_onnx_shape;

typedef struct tercel_onnx_tensor_type {
  uint32_t present;
  int64_t elem_type;
  tercel_onnx_shape *shape; /* NULL: even the rank is not known */
} tercel_onnx_tensor_type;

typedef struct tercel_onnx_container_type {
  uint32_t present;
  struct tercel_onnx_type *elem;
} tercel_onnx_container_type;

typedef struct tercel_onnx_map_type {
  uint32_t present;
  int64_t key_type;
  struct tercel_onnx_type *value_type;
} tercel_onnx_map_type;

typedef struct tercel_onnx_type {
  uint32_t present; /* of a oneof: bit 1 tensor, 4 sequence, 5 map, 7 opaque, 8 sparse tensor, 9 optional */
  tercel_onnx_tensor_type *tensor;
  tercel_onnx_container_type *sequence, *optional;
  tercel_onnx_map_type *map;
} tercel_onnx_type;

typedef struct tercel_onnx_value_info {
  uint32_t present;
  const char *name;
  tercel_onnx_type *type;
} tercel_onnx_value_info;
typedef TERCEL_ONNX_LIST(tercel_onnx_value_info) tercel_onnx_value_infos;

typedef enum tercel_onnx_attr_type {
  TERCEL_ONNX_UNDEFINED = 0,
  TERCEL_ONNX_FLOAT = 1,
  TERCEL_ONNX_INT = 2,
  TERCEL_ONNX_STRING = 3,
  TERCEL_ONNX_TENSOR = 4,
  TERCEL_ONNX_GRAPH = 5,
  TERCEL_ONNX_FLOATS = 6,
  TERCEL_ONNX_INTS = 7,
  TERCEL_ONNX_STRINGS = 8,
  TERCEL_ONNX_TENSORS = 9,
  TERCEL_ONNX_GRAPHS = 10,
  TERCEL_ONNX_SPARSE_TENSOR = 11,
  TERCEL_ONNX_SPARSE_TENSORS = 12,
  TERCEL_ONNX_TYPE_PROTO = 13,
  TERCEL_ONNX_TYPE_PROTOS = 14
} tercel_onnx_attr_type;

typedef struct tercel_onnx_attr {
  uint32_t present;
  const char *name;
  const char *ref_name; /* the attribute of the enclosing function that this one stands for; "": none */
  int64_t type;         /* tercel_onnx_attr_type */
  float f;
  int64_t i;
  tercel_string s;
  tercel_onnx_tensor *t;
  struct tercel_onnx_graph *g;
  tercel_onnx_sparse *sparse;
  tercel_onnx_type *tp;
  tercel_onnx_floats floats;
  tercel_onnx_ints ints;
  TERCEL_ONNX_LIST(tercel_string) strings;
} tercel_onnx_attr;
typedef TERCEL_ONNX_LIST(tercel_onnx_attr) tercel_onnx_attrs;

typedef struct tercel_onnx_node {
  uint32_t present;
  tercel_onnx_names inputs, outputs; /* "": absent */
  const char *name, *op_type, *domain, *overload;
  tercel_onnx_attrs attrs;
} tercel_onnx_node;
typedef TERCEL_ONNX_LIST(tercel_onnx_node) tercel_onnx_nodes;

typedef struct tercel_onnx_graph {
  uint32_t present;
  const char *name;
  tercel_onnx_nodes nodes;
  TERCEL_ONNX_LIST(tercel_onnx_tensor) initializers;
  TERCEL_ONNX_LIST(tercel_onnx_sparse) sparse_initializers;
  tercel_onnx_value_infos inputs, outputs, value_infos;
} tercel_onnx_graph;

typedef struct tercel_onnx_opset {
  uint32_t present;
  const char *domain;
  int64_t version;
} tercel_onnx_opset;
typedef TERCEL_ONNX_LIST(tercel_onnx_opset) tercel_onnx_opsets;

typedef struct tercel_onnx_function {
  uint32_t present;
  const char *name, *domain, *overload;
  tercel_onnx_names inputs, outputs;
  tercel_onnx_names attributes;    /* without a default */
  tercel_onnx_attrs attr_defaults; /* with one */
  tercel_onnx_nodes nodes;
  tercel_onnx_opsets opsets;
} tercel_onnx_function;

typedef struct tercel_onnx_model {
  uint32_t present;
  int64_t ir_version;
  const char *producer_name, *producer_version, *doc_string;
  tercel_onnx_opsets opsets;
  tercel_onnx_graph *graph;
  tercel_onnx_entries metadata;
  TERCEL_ONNX_LIST(tercel_onnx_function) functions;
} tercel_onnx_model;

/* Reads a whole model.  What it makes lives in the arena; raw bytes point into data.  INVALID_MODEL names the message, field
 * and offset; nesting deeper than 100 messages is refused, as protobuf's own readers do. */
tercel_status tercel_onnx_read_model(const void *data, size_t bytes, tercel_arena *arena, tercel_onnx_model *out,
                                     tercel_error *err);

/* Field numbers of the typed data of a tensor, for those who walk tensor->body. */
enum {
  TERCEL_ONNX_FIELD_FLOAT_DATA = 4,
  TERCEL_ONNX_FIELD_INT32_DATA = 5,
  TERCEL_ONNX_FIELD_STRING_DATA = 6,
  TERCEL_ONNX_FIELD_INT64_DATA = 7,
  TERCEL_ONNX_FIELD_RAW_DATA = 9,
  TERCEL_ONNX_FIELD_DOUBLE_DATA = 10,
  TERCEL_ONNX_FIELD_UINT64_DATA = 11,
};

#endif
