/* ai.onnx.ml: maps out of and into tensors.  (build_map.c is about SequenceMap.) */
#include "import/onnx/build_ml.h"

#include <string.h>

/* One map a row of scores; all have the class labels as keys.  A list of scores is one row. */
void tercel_onnx_build_zip_map(tercel_onnx_call *c) {
  tercel_value *const labels = tercel_onnx_ml_labels(c), *x = tercel_onnx_in(c, 0);
  if (tercel_onnx_rank(c, x) == 1) x = tercel_onnx_unsqueeze(c, x, (const int64_t[]){0}, 1);
  tercel_onnx_return(c, 0, tercel_onnx_op(c, &tercel_op_map_construct, labels, x));
}

typedef struct parts {
  tercel_value *keys, *values;
} parts;

/* Keys and values of input 0, which must be one map. */
static parts parts_of(tercel_onnx_call *c) {
  const tercel_type *const type = &tercel_onnx_in(c, 0)->type;
  if (type->kind != TERCEL_TYPE_MAP || type->shape.rank != 1)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "the input is no map");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_map_parts, 2, tercel_onnx_in(c, 0));
  tercel_onnx_end(c, n);
  return tercel_onnx_ok(c) ? (parts){tercel_node_output(n, 0), tercel_node_output(n, 1)} : (parts){NULL, NULL};
}

/* 0 of a number type, or the empty string. */
static tercel_value *nothing(tercel_onnx_call *c, tercel_dtype dtype, const char *text) {
  return dtype == TERCEL_DTYPE_STRING ? tercel_onnx_ml_string(c, text) : tercel_onnx_scalar(c, dtype, 0);
}

/* The value of each word of the vocabulary, 0 where the map has none: one row. */
void tercel_onnx_build_dict_vectorizer(tercel_onnx_call *c) {
  tercel_value *const words = tercel_onnx_ml_list(c, NULL, "string_vocabulary", "int64_vocabulary", NULL);
  const parts map = parts_of(c);
  if (!words) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "no attribute gives the vocabulary");
  if (!tercel_onnx_ok(c)) return;
  tercel_value *const found = tercel_onnx_op(c, &tercel_op_label_encode, words, map.keys, map.values,
                                             nothing(c, tercel_onnx_dtype_of(map.values), ""));
  tercel_onnx_return(c, 0, tercel_onnx_unsqueeze(c, found, (const int64_t[]){0}, 1));
}

/* Values in the order of their keys. */
static tercel_value *by_key(tercel_onnx_call *c, const parts *map) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_topk, 2, map->keys, tercel_onnx_shape_of(c, map->keys));
  tercel_onnx_set_int(c, n, "largest", 0);
  tercel_onnx_end(c, n);
  return tercel_onnx_ok(c) ? tercel_onnx_op(c, &tercel_op_gather, map->values, tercel_node_output(n, 1)) : NULL;
}

/* Values as one row: in the order of their keys, or (SPARSE) each at the place that its key names, below max_map. */
void tercel_onnx_build_cast_map(tercel_onnx_call *c) {
  static const struct {
    const char *name;
    tercel_dtype dtype;
  } targets[] = {{"TO_FLOAT", TERCEL_DTYPE_F32}, {"TO_INT64", TERCEL_DTYPE_I64}, {"TO_STRING", TERCEL_DTYPE_STRING}};
  const char *const to = tercel_onnx_get_text(c, "cast_to", "TO_FLOAT");
  const char *const form = tercel_onnx_get_text(c, "map_form", "DENSE");
  const bool sparse = strcmp(form, "SPARSE") == 0;
  const int64_t columns = tercel_onnx_get_int(c, "max_map", 1);
  tercel_dtype dtype = TERCEL_DTYPE_NONE;
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (strcmp(targets[i].name, to) == 0) dtype = targets[i].dtype;
  if (dtype == TERCEL_DTYPE_NONE || (!sparse && strcmp(form, "DENSE") != 0))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attributes 'cast_to' and 'map_form' are '%s' and '%s'", to, form);
  if (sparse && (columns < 1 || columns > INT32_MAX))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'max_map' is %lld, want 1 or more", (long long)columns);
  const parts map = parts_of(c);
  if (!tercel_onnx_ok(c)) return;
  if (tercel_onnx_dtype_of(map.keys) != TERCEL_DTYPE_I64)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "keys are %s, want i64",
                     tercel_dtype_name(tercel_onnx_dtype_of(map.keys)));
  tercel_value *const row = sparse
                                ? tercel_onnx_op(c, &tercel_op_label_encode, tercel_onnx_ml_iota(c, columns), map.keys,
                                                 map.values, nothing(c, tercel_onnx_dtype_of(map.values), "0"))
                                : by_key(c, &map);
  tercel_onnx_return(c, 0, tercel_onnx_convert(c, tercel_onnx_unsqueeze(c, row, (const int64_t[]){0}, 1), dtype));
}
