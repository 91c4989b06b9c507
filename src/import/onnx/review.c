/* What a check tells besides errors: parts of the file that are ignored, unused or suspicious.  Looks at messages only, at no weights. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/onnx/build.h"

enum { NEWEST_IR_VERSION = 14, OLDEST_COMMON_OPSET = 7, NAMES_SHOWN = 5 };

typedef struct review {
  tercel_onnx *o;
  tercel_map used;      /* names that nodes or graphs read, in all graphs */
  tercel_map called;    /* domains of nodes, and "domain\nname\noverload" of functions that are called */
  tercel_map told;      /* fields that were told already: once is enough */
  tercel_status status; /* the first failure (no memory); nothing is done after it */
  tercel_error *err;
} review;

static bool ok(const review *r) { return r->status == TERCEL_OK; }

static void tell(review *r, tercel_check_level level, tercel_problem_kind kind, const char *advice, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));
static void tell(review *r, tercel_check_level level, tercel_problem_kind kind, const char *advice, const char *format,
                 ...) {
  char message[TERCEL_ERROR_MESSAGE_MAX];
  va_list args;
  if (!ok(r)) return;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  const tercel_problem problem = {.level = level, .kind = kind, .message = message, .advice = advice};
  r->status = tercel_problems_add(r->o->problems, &problem, r->err);
}

static void mark(review *r, tercel_map *map, const char *name) {
  if (ok(r) && name[0]) r->status = tercel_map_set(map, name, NULL, r->err);
}

static bool is_marked(const tercel_map *map, const char *name) {
  bool found;
  tercel_map_get(map, name, &found);
  return found;
}

/* ---- names in a row ---------------------------------------------------------------------------------------------- */

/* "'a', 'b' and 3 more" */
typedef struct names {
  size_t count;
  tercel_text text;
} names;

static void add_name(names *list, const char *name) {
  if (++list->count > NAMES_SHOWN) return;
  tercel_text_add(&list->text, "%s'%.80s'", list->count > 1 ? ", " : "", name);
}

/* Tells "COUNT WHAT: NAMES" when there are any, and frees the list. */
static void tell_names(review *r, names *list, tercel_check_level level, tercel_problem_kind kind, const char *advice,
                       const char *one, const char *many) {
  if (list->count > NAMES_SHOWN) tercel_text_add(&list->text, " and %zu more", list->count - NAMES_SHOWN);
  if (ok(r) && list->text.failed) r->status = tercel_fail_memory(r->err, list->text.capacity, "a message");
  if (list->count == 1) tell(r, level, kind, advice, "%s: %s", one, list->text.data);
  if (list->count > 1) tell(r, level, kind, advice, "%zu %s: %s", list->count, many, list->text.data);
  tercel_text_deinit(&list->text);
}

/* ---- fields that nobody reads ------------------------------------------------------------------------------------ */

#define BIT(number) (1u << (number))

/* Of each message: fields that are read or say nothing to a runtime (documentation, metadata), and one that is left out with its name.
 * Numbers of onnx.proto; what is in neither is newer than this table. */
typedef struct fields {
  const char *message;
  uint32_t fine;
  struct {
    uint32_t number;
    const char *name, *advice;
  } ignored[2];
} fields;

static const fields model_fields = {
    "ModelProto",
    BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(14) | BIT(25),
    {{20, "training_info", "tercel runs the inference graph alone: export without it to make the file smaller"},
     {26, "configuration", "tercel runs the whole model on this machine"}}};
static const fields graph_fields = {
    "GraphProto",
    BIT(1) | BIT(2) | BIT(5) | BIT(10) | BIT(11) | BIT(12) | BIT(13) | BIT(15) | BIT(16),
    {{14, "quantization_annotation",
      "export with QuantizeLinear and DequantizeLinear nodes, which say the same and are run"}}};
static const fields node_fields = {"NodeProto",
                                   BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(9),
                                   {{10, "device_configurations", "tercel runs the whole model on this machine"}}};
static const fields function_fields = {"FunctionProto",
                                       BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(9) |
                                           BIT(10) | BIT(11) | BIT(12) | BIT(13) | BIT(14),
                                       {{0}}};

static void review_fields(review *r, const fields *f, uint32_t present) {
  uint32_t unknown = present & ~f->fine;
  for (size_t i = 0; i < 2 && unknown; i++) {
    if (f->ignored[i].number == 0 || !(unknown & BIT(f->ignored[i].number))) continue;
    unknown &= ~BIT(f->ignored[i].number);
    if (is_marked(&r->told, f->ignored[i].name)) continue;
    mark(r, &r->told, f->ignored[i].name);
    tell(r, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_IGNORED, f->ignored[i].advice, "%s is ignored", f->ignored[i].name);
  }
  if (!unknown || is_marked(&r->told, f->message)) return;
  mark(r, &r->told, f->message);
  for (unsigned number = 1; number < 32; number++)
    if (unknown & BIT(number))
      tell(r, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_IGNORED, "the file may be newer than this version of tercel",
           "field %u of %s is not known, and ignored", number, f->message);
}

/* ---- versions ---------------------------------------------------------------------------------------------------- */

/* Domains whose operators the table of builders has need no node: exporters list them all. */
static bool is_own_domain(const char *domain) {
  for (const tercel_onnx_row *row = tercel_onnx_rows(); row->op_type; row++)
    if (tercel_onnx_same_domain(row->domain, domain)) return true;
  return false;
}

static void review_versions(review *r) {
  const tercel_onnx_model *const m = &r->o->model;
  if (m->ir_version > NEWEST_IR_VERSION)
    tell(r, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_VERSION, "the file may be newer than this version of tercel",
         "IR version %" PRId64 " (the newest that is known is %d)", m->ir_version, (int)NEWEST_IR_VERSION);
  for (size_t i = 0; i < m->opsets.count; i++) {
    const tercel_onnx_opset *const opset = &m->opsets.items[i];
    const bool standard = tercel_onnx_same_domain(opset->domain, "");
    for (size_t k = 0; k < i; k++)
      if (tercel_onnx_same_domain(m->opsets.items[k].domain, opset->domain) &&
          m->opsets.items[k].version != opset->version)
        tell(r, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_VERSION, "remove one of the two imports",
             "domain '%s' is imported twice, in versions %" PRId64 " and %" PRId64 ": the first counts",
             standard ? "ai.onnx" : opset->domain, m->opsets.items[k].version, opset->version);
    if (standard && opset->version > 0 && opset->version < OLDEST_COMMON_OPSET)
      tell(r, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_VERSION,
           "compare the outputs once with the program that made the file, or raise the version with "
           "onnx.version_converter",
           "version %" PRId64 " of ai.onnx is from before 2018: few files in use have it", opset->version);
    if (!standard && !is_marked(&r->called, opset->domain) && !is_own_domain(opset->domain))
      tell(r, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_UNUSED, "",
           "domain '%s' is imported, but no node is of it: it does not matter that tercel does not know it",
           opset->domain);
  }
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static const char *function_key(review *r, const char *domain, const char *name, const char *overload) {
  if (tercel_onnx_same_domain(domain, "")) domain = "";
  const char *const key = tercel_arena_printf(&r->o->arena, "%s\n%s\n%s", domain, name, overload);
  if (!key && ok(r)) r->status = tercel_fail_memory(r->err, strlen(name), "a name");
  return key ? key : "";
}

static void review_functions(review *r) {
  names unused = {0};
  for (size_t i = 0; i < r->o->model.functions.count; i++) {
    const tercel_onnx_function *const f = &r->o->model.functions.items[i];
    review_fields(r, &function_fields, f->present);
    if (!is_marked(&r->called, function_key(r, f->domain, f->name, f->overload))) add_name(&unused, f->name);
  }
  tell_names(r, &unused, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_UNUSED, "", "function that no node calls",
             "functions that no node calls");
}

/* ---- names that are used ----------------------------------------------------------------------------------------- */

static void mark_graph(review *r, const tercel_onnx_graph *graph);

static void mark_nodes(review *r, const tercel_onnx_nodes *nodes) {
  for (size_t i = 0; i < nodes->count; i++) {
    const tercel_onnx_node *const node = &nodes->items[i];
    for (size_t k = 0; k < node->inputs.count; k++) mark(r, &r->used, node->inputs.items[k]);
    for (size_t k = 0; k < node->attrs.count; k++)
      if (node->attrs.items[k].g) mark_graph(r, node->attrs.items[k].g);
    mark(r, &r->called, node->domain);
    if (r->o->model.functions.count > 0)
      mark(r, &r->called, function_key(r, node->domain, node->op_type, node->overload));
  }
}

static void mark_graph(review *r, const tercel_onnx_graph *graph) {
  for (size_t i = 0; i < graph->outputs.count; i++) mark(r, &r->used, graph->outputs.items[i].name);
  mark_nodes(r, &graph->nodes);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static bool is_used(const review *r, const tercel_onnx_node *node) {
  for (size_t i = 0; i < node->outputs.count; i++)
    if (is_marked(&r->used, node->outputs.items[i])) return true;
  return false;
}

static void review_attrs(review *r, const tercel_onnx_node *node) {
  for (size_t i = 0; i < node->attrs.count; i++)
    for (size_t k = 0; k < i; k++)
      if (strcmp(node->attrs.items[i].name, node->attrs.items[k].name) == 0)
        tell(r, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_ATTRIBUTE, "remove one of the two",
             "%s '%s' has attribute '%s' twice: the first counts", node->op_type, tercel_onnx_own_name(node),
             node->attrs.items[i].name);
}

static void review_graph(review *r, const tercel_onnx_graph *graph);

static void review_nodes(review *r, const tercel_onnx_graph *graph) {
  names unused = {0}, same = {0};
  tercel_map seen = {0};
  for (size_t i = 0; ok(r) && i < graph->nodes.count; i++) {
    const tercel_onnx_node *const node = &graph->nodes.items[i];
    review_fields(r, &node_fields, node->present);
    review_attrs(r, node);
    if (!is_used(r, node)) add_name(&unused, tercel_onnx_own_name(node));
    if (node->name[0] && is_marked(&seen, node->name)) add_name(&same, node->name);
    mark(r, &seen, node->name);
    for (size_t k = 0; k < node->attrs.count; k++)
      if (node->attrs.items[k].g) review_graph(r, node->attrs.items[k].g);
  }
  tercel_map_deinit(&seen);
  tell_names(r, &unused, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_UNUSED, "", "node whose results nothing uses",
             "nodes whose results nothing uses");
  tell_names(r, &same, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_NAME, "", "node that has the name of another one",
             "nodes that have the name of another one");
}

static void review_initializers(review *r, const tercel_onnx_graph *graph) {
  names unused = {0};
  for (size_t i = 0; i < graph->initializers.count; i++)
    if (!is_marked(&r->used, graph->initializers.items[i].name)) add_name(&unused, graph->initializers.items[i].name);
  for (size_t i = 0; i < graph->sparse_initializers.count; i++) {
    const tercel_onnx_tensor *const values = graph->sparse_initializers.items[i].values;
    if (values && !is_marked(&r->used, values->name)) add_name(&unused, values->name);
  }
  tell_names(r, &unused, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_UNUSED, "export without it to make the file smaller",
             "initializer that nothing uses", "initializers that nothing uses");
}

/* From IR version 4 on an initializer that is an input too is one that callers may override. */
static void review_inputs(review *r, const tercel_onnx_graph *graph, const tercel_map *initializers) {
  names unused = {0}, overridable = {0};
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const char *const name = graph->inputs.items[i].name;
    if (is_marked(initializers, name)) {
      if (r->o->model.ir_version >= 4) add_name(&overridable, name);
    } else if (!is_marked(&r->used, name)) {
      add_name(&unused, name);
    }
  }
  tell_names(r, &unused, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_UNUSED, "it must be given all the same",
             "input that nothing uses", "inputs that nothing uses");
  tell_names(r, &overridable, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_IGNORED,
             "tercel keeps the initializer's value: a caller can't give another", "input with a default",
             "inputs with defaults");
}

/* Declarations of values that the graph does not have. */
static void review_value_infos(review *r, const tercel_onnx_graph *graph, tercel_map *defined) {
  names strays = {0};
  for (size_t i = 0; i < graph->inputs.count; i++) mark(r, defined, graph->inputs.items[i].name);
  for (size_t i = 0; i < graph->nodes.count; i++)
    for (size_t k = 0; k < graph->nodes.items[i].outputs.count; k++)
      mark(r, defined, graph->nodes.items[i].outputs.items[k]);
  for (size_t i = 0; i < graph->value_infos.count; i++)
    if (!is_marked(defined, graph->value_infos.items[i].name)) add_name(&strays, graph->value_infos.items[i].name);
  tell_names(r, &strays, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_UNUSED, "", "declared value that no node makes",
             "declared values that no node makes");
}

static bool is_in_order(review *r, const tercel_onnx_nodes *nodes) {
  size_t *const order = tercel_arena_alloc_array(&r->o->arena, nodes->count, sizeof *order);
  if (!order && ok(r)) r->status = tercel_fail_memory(r->err, nodes->count * sizeof *order, "the order of nodes");
  if (!ok(r)) return true;
  const tercel_status status = tercel_onnx_order(&r->o->arena, nodes, order, r->err);
  if (status == TERCEL_OUT_OF_MEMORY) r->status = status;
  if (status != TERCEL_OK) return true; /* a cycle was told by the import */
  for (size_t i = 0; i < nodes->count; i++)
    if (order[i] != i) return false;
  return true;
}

static void review_graph(review *r, const tercel_onnx_graph *graph) {
  tercel_map defined = {0};
  review_fields(r, &graph_fields, graph->present);
  for (size_t i = 0; i < graph->initializers.count; i++) mark(r, &defined, graph->initializers.items[i].name);
  review_nodes(r, graph);
  review_initializers(r, graph);
  if (graph == r->o->model.graph) review_inputs(r, graph, &defined);
  review_value_infos(r, graph, &defined);
  if (!is_in_order(r, &graph->nodes))
    tell(r, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_FILE, "other runtimes may refuse the file",
         "the nodes of graph '%s' are not in the order of their data, as ONNX asks: tercel sorts them", graph->name);
  tercel_map_deinit(&defined);
}

tercel_status tercel_onnx_review(tercel_onnx *o, tercel_error *err) {
  review r = {.o = o, .err = err};
  mark_graph(&r, o->model.graph);
  for (size_t i = 0; i < o->model.functions.count; i++) mark_nodes(&r, &o->model.functions.items[i].nodes);
  review_fields(&r, &model_fields, o->model.present);
  review_versions(&r);
  review_functions(&r);
  review_graph(&r, o->model.graph);
  tercel_map_deinit(&r.used);
  tercel_map_deinit(&r.called);
  tercel_map_deinit(&r.told);
  return r.status;
}
