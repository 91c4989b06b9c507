/* Operators that users register (ops/custom.h): the node as it is, with the attributes that the operator lists. */
#include "import/onnx/build.h"
#include "ops/custom.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

static void *allocate(tercel_onnx_call *c, size_t count, size_t size) {
  void *const memory = tercel_arena_alloc_array(&c->import->arena, count, size);
  if (memory == NULL) keep(c, tercel_fail_memory(c->err, count * size, "an attribute"));
  return memory;
}

static void copy_floats(tercel_onnx_call *c, tercel_node *node, const char *name) {
  size_t count;
  const float *const from = tercel_onnx_get_floats(c, name, &count);
  double *const values = allocate(c, count, sizeof *values);
  if (!tercel_onnx_ok(c)) return;
  for (size_t i = 0; i < count; i++) values[i] = (double)from[i];
  keep(c, tercel_node_set_floats(node, name, values, count, c->err));
}

static void copy_strings(tercel_onnx_call *c, tercel_node *node, const char *name) {
  const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, name, TERCEL_ONNX_STRINGS);
  const size_t count = attr ? attr->strings.count : 0;
  const char **const values = allocate(c, count, sizeof *values);
  for (size_t i = 0; tercel_onnx_ok(c) && i < count; i++) {
    const tercel_string *const text = &attr->strings.items[i];
    values[i] = tercel_arena_strndup(&c->import->arena, text->data ? text->data : "", text->length);
    if (!values[i]) keep(c, tercel_fail_memory(c->err, text->length, name));
  }
  if (tercel_onnx_ok(c)) keep(c, tercel_node_set_strings(node, name, values, count, c->err));
}

static void copy_attribute(tercel_onnx_call *c, tercel_node *node, const tercel_attribute *attribute) {
  const char *const name = attribute->name;
  if (attribute->required) tercel_onnx_need_attr(c, name);
  if (!tercel_onnx_has_attr(c, name) || !tercel_onnx_ok(c)) return;
  switch (attribute->type) {
  case TERCEL_ATTRIBUTE_INT: tercel_onnx_copy_int(c, node, name); return;
  case TERCEL_ATTRIBUTE_FLOAT: tercel_onnx_copy_float(c, node, name); return;
  case TERCEL_ATTRIBUTE_STRING: tercel_onnx_set_text(c, node, name, tercel_onnx_get_text(c, name, "")); return;
  case TERCEL_ATTRIBUTE_INTS: tercel_onnx_copy_ints(c, node, name); return;
  case TERCEL_ATTRIBUTE_FLOATS: copy_floats(c, node, name); return;
  case TERCEL_ATTRIBUTE_STRINGS: copy_strings(c, node, name); return;
  }
}

void tercel_onnx_build_custom(tercel_onnx_call *c) {
  const tercel_custom *const custom = c->custom;
  const size_t least = (size_t)custom->op.min_outputs;
  tercel_node *const node =
      tercel_onnx_begin_list(c, &custom->op, c->num_outputs > least ? c->num_outputs : least, c->inputs, c->num_inputs);
  for (size_t i = 0; tercel_onnx_ok(c) && i < custom->is.num_attributes; i++)
    copy_attribute(c, node, &custom->is.attributes[i]);
  tercel_onnx_return_all(c, node);
}
