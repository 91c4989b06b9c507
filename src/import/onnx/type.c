/* Types that a file declares: TypeProto to tercel_type, and merging them into what inference found. */
#include <inttypes.h>

#include "import/onnx/onnx.h"

/* Exporters write "?" (PaddlePaddle) or "-1" for a dim that has no name: two of those need not be equal. */
static bool names_a_dim(const char *param) {
  for (; *param; param++)
    if ((*param >= 'a' && *param <= 'z') || (*param >= 'A' && *param <= 'Z') || (*param & 0x80)) return true;
  return false;
}

static tercel_status read_shape(tercel_dims *dims, const tercel_onnx_shape *shape, const char *what, tercel_shape *out,
                                tercel_error *err) {
  out->rank = -1;
  if (!shape) return TERCEL_OK;
  if (shape->dims.count > TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "'%s': rank %zu, tercel has at most %d", what, shape->dims.count,
                       (int)TERCEL_MAX_RANK);
  out->rank = (int)shape->dims.count;
  for (size_t i = 0; i < shape->dims.count; i++) {
    const tercel_onnx_dim *const d = &shape->dims.items[i];
    if ((d->present & 1u << 1) && d->value >= 0)
      out->dims[i] = d->value; /* some exporters write -1, and mean that they don't know */
    else if ((d->present & 1u << 2) && names_a_dim(d->param))
      out->dims[i] = tercel_dim_symbol(dims, d->param);
    else
      out->dims[i] = tercel_dim_unknown(dims);
  }
  return tercel_dims_check(dims, err);
}

static tercel_status read_tensor_type(tercel_dims *dims, const tercel_onnx_tensor_type *type, const char *what,
                                      tercel_type *out, tercel_error *err) {
  out->dtype = tercel_onnx_dtype(type->elem_type);
  if (out->dtype == TERCEL_DTYPE_NONE && type->elem_type != 0)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "'%s': element type %" PRId64 " is not supported", what,
                       type->elem_type);
  return read_shape(dims, type->shape, what, &out->shape, err);
}

/* Values of the map, or of each of a sequence of maps, are one number (or string) a key. */
static tercel_status read_map_type(tercel_dims *dims, const tercel_onnx_map_type *map, bool sequence, const char *what,
                                   tercel_type *out, tercel_error *err) {
  const tercel_onnx_type *const value = map->value_type;
  out->kind = TERCEL_TYPE_MAP;
  out->key = tercel_onnx_dtype(map->key_type);
  if (out->key != TERCEL_DTYPE_I64 && out->key != TERCEL_DTYPE_STRING)
    return tercel_fail(err, TERCEL_UNSUPPORTED,
                       "'%s': a map with keys of type %" PRId64 " (i64 and string are supported)", what, map->key_type);
  if (!value || !value->tensor)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "'%s': a map to what is no tensor is not supported", what);
  tercel_type element;
  TERCEL_TRY(read_tensor_type(dims, value->tensor, what, &element, err));
  if (element.shape.rank > 0)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "'%s': a map to tensors of rank %d is not supported", what,
                       element.shape.rank);
  out->dtype = element.dtype;
  out->shape.rank = sequence ? 2 : 1;
  for (int i = 0; i < out->shape.rank; i++) out->shape.dims[i] = tercel_dim_unknown(dims);
  return tercel_dims_check(dims, err);
}

tercel_status tercel_onnx_read_type(tercel_dims *dims, const tercel_onnx_type *type, const char *what, tercel_type *out,
                                    tercel_error *err) {
  *out = (tercel_type){.shape.rank = -1};
  if (!type) return TERCEL_OK;
  if (type->optional) {
    out->kind = TERCEL_TYPE_OPTIONAL;
    type = type->optional->elem;
    out->optional_sequence = type && type->sequence;
  } else if (type->sequence) {
    out->kind = TERCEL_TYPE_SEQUENCE;
  }
  if (type && type->sequence) type = type->sequence->elem;
  if (type && type->map && out->kind != TERCEL_TYPE_OPTIONAL)
    return read_map_type(dims, type->map, out->kind == TERCEL_TYPE_SEQUENCE, what, out, err);
  if (type && type->tensor) return read_tensor_type(dims, type->tensor, what, out, err);
  if (type && (type->present & (1u << 4 | 1u << 5 | 1u << 7 | 1u << 8 | 1u << 9)))
    return tercel_fail(err, TERCEL_UNSUPPORTED, "'%s': a %s is not supported", what,
                       type->present & 1u << 5   ? "map there"
                       : type->present & 1u << 8 ? "sparse tensor"
                       : type->present & 1u << 7 ? "value of opaque type"
                                                 : "type nested that deep");
  return TERCEL_OK;
}

/* ---- declared against inferred ---- */

static bool contradicts(const tercel_type *declared, const tercel_type *inferred) {
  if (inferred->dtype != TERCEL_DTYPE_NONE && declared->dtype != TERCEL_DTYPE_NONE &&
      (inferred->dtype != declared->dtype || inferred->kind != declared->kind || inferred->key != declared->key))
    return true;
  const tercel_shape *const a = &declared->shape, *const b = &inferred->shape;
  if (a->rank < 0 || b->rank < 0) return false;
  if (a->rank != b->rank) return true;
  for (int i = 0; i < a->rank; i++) {
    if (!tercel_dim_is_known(b->dims[i])) continue;
    if (tercel_dim_is_known(a->dims[i]) && a->dims[i] != b->dims[i]) return true;
    for (int k = 0; k < i; k++) /* one name for two sizes */
      if (a->dims[k] == a->dims[i] && tercel_dim_is_known(b->dims[k]) && b->dims[k] != b->dims[i]) return true;
  }
  return false;
}

static tercel_status fail_contradiction(const tercel_value *value, const tercel_type *declared, const char *name,
                                        tercel_error *err) {
  tercel_text text = {0};
  const tercel_dims *const dims = value->graph->dims;
  tercel_text_add(&text, "'%s' is declared ", name);
  tercel_type_print(dims, declared, &text);
  tercel_text_add(&text, ", but ");
  if (value->producer)
    tercel_text_add(&text, "node '%s' gives ", value->producer->name);
  else
    tercel_text_add(&text, "is ");
  tercel_type_print(dims, &value->type, &text);
  tercel_text_add(&text, " (a declaration that is out of date can be taken out of the file)");
  const tercel_status status = text.failed ? tercel_fail_memory(err, text.capacity, "a message")
                                           : tercel_fail(err, TERCEL_INVALID_MODEL, "%s", text.data);
  tercel_text_deinit(&text);
  return status;
}

/* A name that only this declaration knows says no more than "unknown" does: numbers are what is taken over. */
static void fill_open(tercel_type *type, const tercel_type *declared) {
  if (type->dtype == TERCEL_DTYPE_NONE) {
    type->dtype = declared->dtype;
    type->kind = declared->kind;
    type->optional_sequence = declared->optional_sequence;
    type->key = declared->key;
  }
  if (type->shape.rank < 0) {
    type->shape = declared->shape;
    return;
  }
  for (int i = 0; i < declared->shape.rank; i++)
    if (!tercel_dim_is_known(type->shape.dims[i]) && tercel_dim_is_known(declared->shape.dims[i]))
      type->shape.dims[i] = declared->shape.dims[i];
}

tercel_status tercel_onnx_declare(tercel_value *value, const tercel_onnx_value_info *info, tercel_error *err) {
  tercel_type declared;
  TERCEL_TRY(tercel_onnx_read_type(value->graph->dims, info->type, info->name, &declared, err));
  if (contradicts(&declared, &value->type)) return fail_contradiction(value, &declared, info->name, err);
  fill_open(&value->type, &declared);
  return TERCEL_OK;
}
