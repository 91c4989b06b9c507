/* Recognizes a model file by its content and hands it to its importer. */
#include "import/import.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "import/gguf/model.h"
#include "import/onnx/onnx.h"

void tercel_imported_deinit(tercel_imported *imported) {
  tercel_graph_destroy(imported->graph);
  tercel_arena_deinit(&imported->arena);
  *imported = (tercel_imported){0};
}

bool tercel_import_has_operator(const char *domain, const char *name) { return tercel_onnx_has_operator(domain, name); }

/* ---- formats --------------------------------------------------------------------------------------------------------- */

/* Formats with a mark of their own. */
static const struct {
  size_t offset;
  const char *mark;
  size_t length;
  const char *name;
} marks[] = {
    {0, "FUGG", 4, "GGUF in the other byte order"},
    {4, "TFL3", 4, "TFLite"},
    {4, "ORTM", 4, "ONNX Runtime's own (.ort)"},
    {0, "PK\003\004", 4, "zip (PyTorch .pt, .pt2 or the like)"},
    {0, "\x80\x02\x8a\x0a", 4, "PyTorch before 1.6 (pickle)"},
    {0, "\x80\x02", 2, "pickle"},
    {0, "\x89HDF\r\n\x1a\n", 8, "HDF5 (Keras .h5)"},
    {0, "\x1f\x8b", 2, "gzip"},
    {0,
     "\xfd"
     "7zXZ",
     5, "xz"},
};

/* The length of a JSON header, then the header: known by its brace, or by filling the file to the byte. */
static bool is_safetensors(const uint8_t *data, size_t bytes) {
  uint64_t header;
  if (bytes < 10) return false;
  memcpy(&header, data, sizeof header);
  return header == bytes - 8 || (data[8] == '{' && header >> 48 == 0);
}

/* TensorFlow's files are protobuf messages too: a GraphDef begins with a node (field 1, bytes), a SavedModel with
 * saved_model_schema_version = 1 and a MetaGraphDef (field 2, bytes), whose first field is a MetaInfoDef. */
static const char *tensorflow_kind(const uint8_t *data, size_t bytes) {
  tercel_pb message = tercel_pb_open(data, bytes);
  tercel_pb_field first, second;
  bool more;
  if (tercel_pb_next(&message, &first, &more, NULL) != TERCEL_OK || !more || first.number != 1) return NULL;
  if (first.wire == TERCEL_PB_BYTES) return "TensorFlow GraphDef";
  if (first.wire != TERCEL_PB_VARINT || first.number_value != 1) return NULL;
  if (tercel_pb_next(&message, &second, &more, NULL) != TERCEL_OK || !more || second.number != 2) return NULL;
  return second.wire == TERCEL_PB_BYTES && tercel_pb_left(&second.bytes) > 64 && second.bytes.at[0] == 0x0a
             ? "TensorFlow SavedModel"
             : NULL;
}

static const char *foreign_format(const uint8_t *data, size_t bytes) {
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (bytes >= marks[i].offset + marks[i].length &&
        memcmp(data + marks[i].offset, marks[i].mark, marks[i].length) == 0)
      return marks[i].name;
  if (is_safetensors(data, bytes)) return "safetensors";
  return tensorflow_kind(data, bytes);
}

/* ---- files that are no model ------------------------------------------------------------------------------------------ */

static bool is_text(const uint8_t *data, size_t bytes) {
  const size_t looked_at = bytes < 512 ? bytes : 512;
  for (size_t i = 0; i < looked_at; i++)
    if (data[i] >= 0x7f || (data[i] < 0x20 && data[i] != '\n' && data[i] != '\r' && data[i] != '\t')) return false;
  return true;
}

static bool begins(const uint8_t *data, size_t bytes, const char *text) {
  return bytes >= strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

static tercel_status fail_text(const uint8_t *data, size_t bytes, tercel_error *err) {
  if (begins(data, bytes, "version https://git-lfs"))
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "a Git LFS pointer, not the model itself: fetch it with `git lfs pull`");
  if (begins(data, bytes, "<")) return tercel_fail(err, TERCEL_INVALID_MODEL, "an HTML or XML text, not a model");
  if (begins(data, bytes, "{")) return tercel_fail(err, TERCEL_INVALID_MODEL, "a JSON text, not a model");
  size_t line = 0;
  while (line < bytes && line < 60 && data[line] >= 0x20) line++;
  return tercel_fail(err, TERCEL_INVALID_MODEL, "a text, not a model: it begins \"%.*s\"", (int)line,
                     (const char *)data);
}

/* ---- import ------------------------------------------------------------------------------------------------------------ */

static bool is_gguf(const uint8_t *data, size_t bytes) { return bytes >= 4 && memcmp(data, "GGUF", 4) == 0; }

static tercel_status import_bytes(tercel_storage *storage, const void *data, size_t bytes, const char *folder,
                                  const tercel_import_options *options, tercel_imported *out, tercel_error *err) {
  if (bytes == 0) return tercel_fail(err, TERCEL_INVALID_MODEL, "the file is empty");
  const char *const foreign = foreign_format(data, bytes);
  if (foreign)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "its format is %s, which is not supported yet; ONNX and GGUF are",
                       foreign);
  if (is_text(data, bytes)) return fail_text(data, bytes, err);
  if (bytes < 8) return tercel_fail(err, TERCEL_INVALID_MODEL, "a file of %zu bytes is no model", bytes);
  return tercel_onnx_import(storage, data, bytes, folder, options, out, err);
}

tercel_status tercel_import_memory(const void *data, size_t bytes, const char *folder,
                                   const tercel_import_options *options, tercel_imported *out, tercel_error *err) {
  const tercel_status status = is_gguf(data, bytes) ? tercel_gguf_import_memory(data, bytes, out, err)
                                                    : import_bytes(NULL, data, bytes, folder, options, out, err);
  if (status != TERCEL_OK) tercel_imported_deinit(out);
  return status;
}

tercel_status tercel_import_file(const char *path, const tercel_import_options *options, tercel_imported *out,
                                 tercel_error *err) {
  char folder[PATH_MAX];
  tercel_path_folder(path, folder, sizeof folder);
  tercel_file file = {0};
  tercel_storage *storage = NULL;
  tercel_status status = tercel_file_open(path, !(options && options->no_mmap), &file, err);
  if (status != TERCEL_OK) return status;
  status = tercel_storage_create_file(&file, &storage, err);
  if (status != TERCEL_OK) {
    tercel_file_close(&file);
    return status;
  }
  const void *const data = tercel_storage_data(storage);
  const size_t bytes = tercel_storage_size(storage);
  const bool gguf = is_gguf(data, bytes); /* may be of several files: opened anew */
  if (!gguf) status = import_bytes(storage, data, bytes, folder, options, out, err);
  tercel_storage_release(storage);
  if (gguf) status = tercel_gguf_import_file(path, !(options && options->no_mmap), out, err);
  if (status == TERCEL_OK) return status;
  tercel_imported_deinit(out);
  if (gguf) return status;
  return tercel_fail_at(err, status, "%s", path);
}
