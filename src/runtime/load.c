/* Models from files and memory: the importer's door, behind tercel.h's. */
#include "runtime/runtime.h"

tercel_status tercel_read_model_options(const tercel_model_options *options, tercel_import_options *out,
                                        tercel_error *err) {
  *out = (tercel_import_options){0};
  if (options == NULL) return TERCEL_OK;
  TERCEL_TRY(tercel_check_size(options->size, sizeof *options, "tercel_model_options", err));
  out->no_mmap = options->no_mmap != 0;
  out->external = (tercel_folders){options->allow_external, options->num_allow_external};
  out->operators = options->operators;
  return TERCEL_OK;
}

static tercel_status finish(tercel_status status, const tercel_import_options *options, tercel_imported *imported,
                            tercel_model **out, tercel_error *err) {
  if (status == TERCEL_OK) status = tercel_model_create(imported, out, err);
  if (status == TERCEL_OK) (*out)->operators = tercel_operators_retain(options->operators);
  tercel_imported_deinit(imported); /* empty once taken */
  return status;
}

tercel_status tercel_model_load(const char *path, const tercel_model_options *options, tercel_model **out,
                                tercel_error *err) {
  tercel_import_options wanted;
  tercel_imported imported = {0};
  TERCEL_TRY(tercel_read_model_options(options, &wanted, err));
  return finish(tercel_import_file(path, &wanted, &imported, err), &wanted, &imported, out, err);
}

tercel_status tercel_model_load_memory(const void *data, size_t bytes, const char *folder,
                                       const tercel_model_options *options, tercel_model **out, tercel_error *err) {
  tercel_import_options wanted;
  tercel_imported imported = {0};
  TERCEL_TRY(tercel_read_model_options(options, &wanted, err));
  return finish(tercel_import_memory(data, bytes, folder, &wanted, &imported, err), &wanted, &imported, out, err);
}

void tercel_model_destroy(tercel_model *model) {
  if (model == NULL) return;
  tercel_interface_deinit(&model->interface);
  tercel_imported_deinit(&model->imported);
  tercel_operators_destroy(model->operators);
  tercel_free(model);
}
