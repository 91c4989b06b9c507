/* Models: a graph as imported, and what can be asked of it.  Loading is in load.c. */
#include "runtime/runtime.h"

tercel_status tercel_model_create(tercel_imported *imported, tercel_model **out, tercel_error *err) {
  tercel_model *const model = tercel_zalloc(sizeof *model);
  if (model == NULL) return tercel_fail_memory(err, sizeof *model, "a model");
  const tercel_status status = tercel_interface_init(imported->graph, &model->interface, err);
  if (status != TERCEL_OK) {
    tercel_free(model);
    return status;
  }
  model->imported = *imported;
  *imported = (tercel_imported){0};
  *out = model;
  return TERCEL_OK;
}

tercel_status tercel_model_from_graph(tercel_graph *graph, tercel_model **out, tercel_error *err) {
  tercel_imported imported = {.graph = graph, .format = "graph", .producer = "", .about = ""};
  return tercel_model_create(&imported, out, err);
}

size_t tercel_model_num_inputs(const tercel_model *model) { return model->interface.num_inputs; }
size_t tercel_model_num_outputs(const tercel_model *model) { return model->interface.num_outputs; }

tercel_status tercel_model_get_input(const tercel_model *model, size_t index, tercel_io *out, tercel_error *err) {
  return tercel_interface_input(&model->interface, index, out, err);
}

tercel_status tercel_model_get_output(const tercel_model *model, size_t index, tercel_io *out, tercel_error *err) {
  return tercel_interface_output(&model->interface, index, out, err);
}

int tercel_model_get_metadata(const tercel_model *model, size_t index, const char **key, const char **value) {
  if (index >= model->imported.num_metadata) return 0;
  *key = model->imported.metadata[index].key;
  *value = model->imported.metadata[index].value;
  return 1;
}

static void count_parts(const tercel_graph *graph, tercel_model_info *info) {
  for (uint32_t i = 0; i < graph->num_values; ++i) {
    const tercel_value *const value = graph->values[i];
    if (value == NULL || value->constant == NULL) continue;
    ++info->num_constants;
    info->num_parameters += (uint64_t)tercel_tensor_num_elements(value->constant);
    info->constant_bytes += value->constant->bytes;
  }
  for (const tercel_node *node = graph->first; node != NULL; node = node->next) {
    info->num_random += (node->op->flags & TERCEL_OP_IMPURE) != 0;
    for (uint32_t i = 0; i < node->num_graphs; ++i) count_parts(node->graphs[i], info);
  }
}

tercel_status tercel_model_get_info(const tercel_model *model, tercel_model_info *info, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(info->size, sizeof *info, "tercel_model_info", err));
  *info = (tercel_model_info){.size = info->size,
                              .format = model->imported.format,
                              .producer = model->imported.producer,
                              .num_nodes = tercel_graph_count_nodes(model->imported.graph)};
  count_parts(model->imported.graph, info);
  return TERCEL_OK;
}

tercel_status tercel_model_print(const tercel_model *model, tercel_print what, char **text_out, tercel_error *err) {
  return tercel_print_graph(model->imported.graph, what, text_out, err);
}
