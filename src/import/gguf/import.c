/* GGUF files as models: the architecture's graph, the metadata as texts. */
#include <string.h>

#include "import/gguf/decoder.h"
#include "import/gguf/model.h"

static const tercel_gguf_architecture *const architectures[] = {
#define TERCEL_ARCHITECTURE(id) &tercel_gguf_architecture_##id,
#include "import/gguf/architectures.inc"
#undef TERCEL_ARCHITECTURE
};
enum { NUM_ARCHITECTURES = sizeof architectures / sizeof *architectures };

static const char *copy_text(const tercel_gguf *gguf, const char *key, const char *otherwise, tercel_arena *arena) {
  const tercel_gguf_value *const value = tercel_gguf_find(gguf, key);
  if (value == NULL || value->type != TERCEL_GGUF_STRING) return otherwise;
  return tercel_arena_strndup(arena, (const char *)value->data, (size_t)value->count);
}

static tercel_status find_architecture(const char *name, const tercel_gguf_architecture **out, tercel_error *err) {
  for (int i = 0; i < NUM_ARCHITECTURES; ++i) {
    *out = architectures[i];
    if (strcmp((*out)->name, name) == 0) return TERCEL_OK;
  }
  tercel_text known = {0};
  for (int i = 0; i < NUM_ARCHITECTURES; ++i)
    tercel_text_add(&known, "%s%s", i > 0 ? ", " : "", architectures[i]->name);
  const tercel_status status =
      tercel_fail(err, TERCEL_UNSUPPORTED, "architecture '%.64s' is not supported; these are: %s", name,
                  known.data != NULL ? known.data : "");
  tercel_text_deinit(&known);
  return status;
}

/* Keys and values as people read them. */
static tercel_status copy_metadata(const tercel_gguf *gguf, tercel_imported *out, tercel_error *err) {
  tercel_metadata *const list = tercel_arena_alloc_array(&out->arena, gguf->num_entries + 1, sizeof *list);
  bool failed = list == NULL;
  for (size_t i = 0; !failed && i < gguf->num_entries; ++i) {
    tercel_text text = {0};
    tercel_gguf_print_value(&gguf->entries[i].value, &text);
    list[i].key = tercel_arena_strdup(&out->arena, gguf->entries[i].key);
    list[i].value = text.data != NULL ? tercel_arena_strdup(&out->arena, text.data) : NULL;
    failed = text.failed || list[i].key == NULL || list[i].value == NULL;
    tercel_text_deinit(&text);
  }
  if (failed) return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for %zu entries of metadata", gguf->num_entries);
  out->metadata = list;
  out->num_metadata = gguf->num_entries;
  return TERCEL_OK;
}

static tercel_status build(const tercel_gguf *gguf, tercel_imported *out, tercel_error *err) {
  const tercel_gguf_architecture *architecture;
  const char *const name = copy_text(gguf, "general.architecture", "", &out->arena);
  out->format = "gguf";
  out->producer = "";
  out->about = copy_text(gguf, "general.name", "", &out->arena);
  if (name == NULL || out->about == NULL) return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for a name");
  TERCEL_TRY(find_architecture(name, &architecture, err));
  TERCEL_TRY(copy_metadata(gguf, out, err));
  TERCEL_TRY(tercel_graph_create(name, &out->graph, err));
  tercel_gguf_builder b = {.gguf = gguf, .architecture = name, .graph = out->graph, .err = err};
  tercel_gguf_build_decoder(&b, architecture);
  if (b.status == TERCEL_OK) b.status = tercel_dims_check(out->graph->dims, err);
  if (b.status == TERCEL_OK) b.status = tercel_graph_verify(out->graph, err);
  return b.status;
}

tercel_status tercel_gguf_import_file(const char *path, bool use_mmap, tercel_imported *out, tercel_error *err) {
  tercel_gguf *gguf;
  TERCEL_TRY(tercel_gguf_open(path, use_mmap, &gguf, err));
  const tercel_status status = build(gguf, out, err);
  tercel_gguf_close(gguf);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "%s", path);
}

tercel_status tercel_gguf_import_memory(const void *data, size_t bytes, tercel_imported *out, tercel_error *err) {
  tercel_gguf *gguf;
  TERCEL_TRY(tercel_gguf_open_memory(data, bytes, &gguf, err));
  const tercel_status status = build(gguf, out, err);
  tercel_gguf_close(gguf);
  return status;
}
