/* The whole import of an ONNX model: reading, versions, building, and one error for all that is unsupported. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "import/onnx/onnx.h"

/* What the parsed messages may take: enough for any real model (weights stay in the file), and bounded by the file's size. */
enum { PARSED_BYTES = 64 << 20, PARSED_PER_BYTE = 16 };

bool tercel_onnx_same_domain(const char *a, const char *b) {
  if (strcmp(a, "ai.onnx") == 0) a = "";
  if (strcmp(b, "ai.onnx") == 0) b = "";
  return strcmp(a, b) == 0;
}

int64_t tercel_onnx_version_of(const tercel_onnx_frame *frame, const char *domain) {
  for (size_t i = 0; i < frame->opsets->count; i++)
    if (tercel_onnx_same_domain(frame->opsets->items[i].domain, domain)) return frame->opsets->items[i].version;
  return 0;
}

const tercel_onnx_function *tercel_onnx_find_function(const tercel_onnx *o, const char *domain, const char *name,
                                                      const char *overload) {
  for (size_t i = 0; i < o->model.functions.count; i++) {
    const tercel_onnx_function *const f = &o->model.functions.items[i];
    if (strcmp(f->name, name) == 0 && strcmp(f->overload, overload) == 0 && tercel_onnx_same_domain(f->domain, domain))
      return f;
  }
  return NULL;
}

/* ---- what is unsupported ------------------------------------------------------------------------------------------- */

tercel_status tercel_onnx_add_unsupported(tercel_onnx *o, const char *line, tercel_error *err) {
  o->num_unsupported++;
  tercel_text_add(&o->unsupported, "%s%s", o->unsupported.length > 0 ? "\n" : "", line);
  return o->unsupported.failed ? tercel_fail_memory(err, o->unsupported.capacity, "a message") : TERCEL_OK;
}

/* As many of them as the message holds, and how many are left. */
static tercel_status fail_unsupported(const tercel_onnx *o, tercel_error *err) {
  if (o->num_unsupported == 1) return tercel_fail(err, TERCEL_UNSUPPORTED, "%s", o->unsupported.data);
  enum { ROOM = TERCEL_ERROR_MESSAGE_MAX - 256 };
  tercel_text text = {0};
  tercel_text_add(&text, "%zu things are not supported: ", o->num_unsupported);
  size_t shown = 0;
  for (const char *line = o->unsupported.data; line; shown++) {
    const char *const end = strchr(line, '\n');
    const size_t length = end ? (size_t)(end - line) : strlen(line);
    if (text.length + length > ROOM && shown > 0) break;
    tercel_text_add(&text, "%s%.*s", shown > 0 ? "; " : "", (int)length, line);
    line = end ? end + 1 : NULL;
  }
  if (shown < o->num_unsupported) tercel_text_add(&text, "; and %zu more", o->num_unsupported - shown);
  const tercel_status status = text.failed ? tercel_fail_memory(err, text.capacity, "a message")
                                           : tercel_fail(err, TERCEL_UNSUPPORTED, "%s", text.data);
  tercel_text_deinit(&text);
  return status;
}

/* ---- versions ------------------------------------------------------------------------------------------------------- */

static tercel_status check_opsets(tercel_onnx *o, const tercel_onnx_opsets *opsets, tercel_error *err) {
  for (size_t i = 0; i < opsets->count; i++) {
    const tercel_onnx_opset *const opset = &opsets->items[i];
    if (opset->version < 1)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "domain '%s' is imported in version %" PRId64, opset->domain,
                         opset->version);
    if (!tercel_onnx_same_domain(opset->domain, "") || opset->version <= TERCEL_ONNX_MAX_OPSET) continue;
    char line[128];
    snprintf(line, sizeof line, "version %" PRId64 " of ai.onnx (the newest that is known is %d)", opset->version,
             (int)TERCEL_ONNX_MAX_OPSET);
    TERCEL_TRY(tercel_onnx_add_unsupported(o, line, err));
  }
  return TERCEL_OK;
}

static tercel_status check_model(tercel_onnx *o, tercel_error *err) {
  tercel_onnx_model *const m = &o->model;
  if (!m->graph)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "no graph in it: not an ONNX model, or one that was cut");
  /* Before IR version 3 there were no opset imports: version 1 of ai.onnx was meant (onnx/docs/IR.md). */
  if (m->opsets.count == 0 && m->ir_version < 3) {
    m->opsets.items =
        tercel_arena_copy(&o->arena, &(tercel_onnx_opset){.domain = "", .version = 1}, sizeof(tercel_onnx_opset));
    if (!m->opsets.items) return tercel_fail_memory(err, sizeof(tercel_onnx_opset), "the operator set");
    m->opsets.count = 1;
  }
  if (m->opsets.count == 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "the model imports no operator set (IR version %" PRId64 ")",
                       m->ir_version);
  TERCEL_TRY(check_opsets(o, &m->opsets, err));
  for (size_t i = 0; i < m->functions.count; i++) TERCEL_TRY(check_opsets(o, &m->functions.items[i].opsets, err));
  return TERCEL_OK;
}

/* ---- what the file says of itself ---------------------------------------------------------------------------------- */

static tercel_status take_metadata(const tercel_onnx_model *m, tercel_imported *out, tercel_error *err) {
  const char *const version = m->producer_version;
  out->format = "onnx";
  out->producer = tercel_arena_printf(&out->arena, "%s%s%s", m->producer_name, version[0] ? " " : "", version);
  out->about = tercel_arena_strdup(&out->arena, m->doc_string);
  tercel_metadata *const list = tercel_arena_alloc_array(&out->arena, m->metadata.count, sizeof *list);
  bool ok = out->producer && out->about && list;
  for (size_t i = 0; ok && i < m->metadata.count; i++) {
    list[i].key = tercel_arena_strdup(&out->arena, m->metadata.items[i].key);
    list[i].value = tercel_arena_strdup(&out->arena, m->metadata.items[i].value);
    ok = list[i].key && list[i].value;
  }
  if (!ok) return tercel_fail_memory(err, 0, "the model's metadata");
  out->metadata = list;
  out->num_metadata = m->metadata.count;
  return TERCEL_OK;
}

/* ---- import --------------------------------------------------------------------------------------------------------- */

static tercel_status import_model(tercel_onnx *o, const void *data, tercel_imported *out, tercel_error *err) {
  TERCEL_TRY(tercel_onnx_read_model(data, o->bytes, &o->arena, &o->model, err));
  o->arena.max_bytes = 0; /* what follows is bounded by what was read */
  TERCEL_TRY(check_model(o, err));
  TERCEL_TRY(take_metadata(&o->model, out, err));
  TERCEL_TRY(tercel_graph_create(o->model.graph->name, &o->graph, err));
  TERCEL_TRY(tercel_onnx_build_main(o, o->graph, err));
  return o->num_unsupported > 0 ? fail_unsupported(o, err) : TERCEL_OK;
}

static void deinit(tercel_onnx *o) {
  for (tercel_onnx_external *e = o->externals; e; e = e->next) tercel_storage_release(e->storage);
  tercel_graph_destroy(o->graph);
  tercel_text_deinit(&o->unsupported);
  tercel_arena_deinit(&o->arena);
}

tercel_status tercel_onnx_import(tercel_storage *storage, const void *data, size_t bytes, const char *folder,
                                 const tercel_import_options *options, tercel_imported *out, tercel_error *err) {
  tercel_onnx o = {.storage = storage, .bytes = bytes, .folder = folder};
  if (options) o.options = *options;
  size_t limit;
  if (tercel_mul_size(bytes, PARSED_PER_BYTE, &limit) && tercel_add_size(limit, PARSED_BYTES, &limit))
    o.arena.max_bytes = limit;
  tercel_error own = {0}; /* messages are built up in it, so there must be one */
  const tercel_status status = import_model(&o, data, out, &own);
  if (status == TERCEL_OK) {
    out->graph = o.graph;
    o.graph = NULL;
  } else if (err) {
    *err = own;
  }
  deinit(&o);
  return status;
}
