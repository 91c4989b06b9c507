/* The whole import of an ONNX model: reading, versions, building, and one error for all that is wrong. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* What the parsed messages may take: enough for any real model (weights stay in the file), and bounded by the file's size. */
enum { PARSED_BYTES = 64 << 20, PARSED_PER_BYTE = 16 };

bool tercel_onnx_same_domain(const char *a, const char *b) {
  if (strcmp(a, "ai.onnx") == 0) a = "";
  if (strcmp(b, "ai.onnx") == 0) b = "";
  return strcmp(a, b) == 0;
}

static int64_t imported_version(const tercel_onnx_opsets *opsets, const char *domain) {
  for (size_t i = 0; i < opsets->count; i++)
    if (tercel_onnx_same_domain(opsets->items[i].domain, domain)) return opsets->items[i].version;
  return 0;
}

/* 0: none of its operators is. */
static int64_t newest_known(const char *domain) {
  int64_t newest = 0;
  if (tercel_onnx_same_domain(domain, "")) return TERCEL_ONNX_MAX_OPSET;
  for (const tercel_onnx_row *row = tercel_onnx_rows(); row->op_type; row++)
    if (strcmp(row->domain, domain) == 0 && row->since > newest) newest = row->since;
  return newest;
}

/* An entry more for the model. */
static tercel_status add_opset(tercel_onnx *o, const char *domain, int64_t version, tercel_error *err) {
  tercel_onnx_opsets *const opsets = &o->model.opsets;
  tercel_onnx_opset *const items = tercel_arena_alloc_array(&o->arena, opsets->count + 1, sizeof *items);
  if (!items) return tercel_fail_memory(err, (opsets->count + 1) * sizeof *items, "the operator sets");
  if (opsets->count > 0) memcpy(items, opsets->items, opsets->count * sizeof *items);
  items[opsets->count] = (tercel_onnx_opset){.domain = domain, .version = version};
  opsets->items = items;
  opsets->count++;
  return TERCEL_OK;
}

tercel_status tercel_onnx_get_version(tercel_onnx *o, const tercel_onnx_frame *frame, const char *domain, int64_t *out,
                                      tercel_error *err) {
  *out = imported_version(frame->opsets, domain);
  if (*out == 0) *out = imported_version(&o->model.opsets, domain);
  if (*out != 0) return TERCEL_OK;
  *out = newest_known(domain);
  if (*out == 0) return TERCEL_OK;
  TERCEL_TRY(tercel_onnx_warn(
      o, TERCEL_PROBLEM_VERSION, "add the domain, with its version, to the imports of operator sets", err,
      "the model imports no version of domain '%s'; the newest that is known, %" PRId64 ", is assumed",
      domain[0] ? domain : "ai.onnx", *out));
  return add_opset(o, domain, *out, err);
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

/* ---- versions ------------------------------------------------------------------------------------------------------- */

static tercel_status check_opset(const tercel_onnx_opset *opset, tercel_error *err) {
  if (opset->version < 1)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "domain '%s' is imported in version %" PRId64, opset->domain,
                       opset->version);
  if (tercel_onnx_same_domain(opset->domain, "") && opset->version > TERCEL_ONNX_MAX_OPSET)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "version %" PRId64 " of ai.onnx (the newest that is known is %d)",
                       opset->version, (int)TERCEL_ONNX_MAX_OPSET);
  return TERCEL_OK;
}

static tercel_status check_opsets(tercel_onnx *o, const tercel_onnx_opsets *opsets, tercel_error *err) {
  for (size_t i = 0; i < opsets->count; i++)
    TERCEL_TRY(tercel_onnx_note(o, TERCEL_PROBLEM_VERSION, NULL, NULL, NULL, check_opset(&opsets->items[i], err), err));
  return TERCEL_OK;
}

static tercel_status check_model(tercel_onnx *o, tercel_error *err) {
  tercel_onnx_model *const m = &o->model;
  if (!m->graph)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "no graph in it: not an ONNX model, or one that was cut");
  /* Before IR version 3 there were no opset imports: version 1 of ai.onnx was meant (onnx/docs/IR.md). */
  if (m->opsets.count == 0 && m->ir_version < 3) TERCEL_TRY(add_opset(o, "", 1, err));
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
  if (o->options.problems) TERCEL_TRY(tercel_onnx_review(o, err));
  return tercel_problems_fail(o->problems, err);
}

static void deinit(tercel_onnx *o) {
  for (tercel_onnx_external *e = o->externals; e; e = e->next) tercel_storage_release(e->storage);
  tercel_graph_destroy(o->graph);
  tercel_arena_deinit(&o->arena);
}

tercel_status tercel_onnx_import(tercel_storage *storage, const void *data, size_t bytes, const char *folder,
                                 const tercel_import_options *options, tercel_imported *out, tercel_error *err) {
  tercel_problems own_problems = {0};
  tercel_onnx o = {.storage = storage, .bytes = bytes, .folder = folder};
  if (options) o.options = *options;
  o.problems = o.options.problems ? o.options.problems : &own_problems;
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
  tercel_problems_deinit(&own_problems);
  return status;
}
