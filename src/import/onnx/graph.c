/* Graphs node by node: names to values, builders called, functions inlined, subgraphs filled. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "import/onnx/build.h"
#include "ops/custom.h"

/* Stands for every value that depends on something wrong: its consumers are only looked at, not built. */
tercel_value tercel_onnx_poison_value = {.name = "wrong"};
tercel_value tercel_onnx_absent_value = {.name = "absent"};

static tercel_status build_nodes(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_nodes *nodes,
                                 const tercel_map *declared, tercel_error *err);

/* ---- names to values --------------------------------------------------------------------------------------------- */

static tercel_status define(tercel_onnx_scope *scope, const char *name, tercel_value *value, tercel_error *err) {
  bool found;
  tercel_map_get(&scope->values, name, &found);
  if (found) return tercel_fail(err, TERCEL_INVALID_MODEL, "'%s' is defined twice", name);
  return tercel_map_set(&scope->values, name, value, err);
}

static tercel_value *find(const tercel_onnx_scope *scope, const char *name) {
  return tercel_map_get(&scope->values, name, NULL);
}

/* ---- who builds a node ----------------------------------------------------------------------------------------------- */

/* An operator of the user's, a function of the model, or a row of the table. */
typedef struct handler {
  const tercel_onnx_function *function;
  const tercel_onnx_row *row;
  const tercel_custom *custom;
  tercel_onnx_row custom_row;
  int64_t version;
} handler;

static tercel_status fail_operator(const tercel_onnx_node *node, int64_t version, bool newer, tercel_error *err) {
  const char *const domain = node->domain[0] ? node->domain : "ai.onnx";
  if (newer)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "the operator does not exist in version %" PRId64 " of %s", version,
                       domain);
  return tercel_fail(err, TERCEL_UNSUPPORTED, "operator %s (%s %" PRId64 ") is not supported", node->op_type, domain,
                     version);
}

static const char *operator_advice(const tercel_onnx_node *node, bool newer) {
  if (newer) return "import the version of the operator set that introduced it";
  return tercel_onnx_same_domain(node->domain, "") ? "export with operators that tercel has (docs/onnx.md), or give it "
                                                     "with --plugin (docs/custom-operators.md)"
                                                   : "an operator of its author's own: give it with --plugin "
                                                     "(docs/custom-operators.md), or export without it";
}

/* The user's set has the operator, but not for the version that the model imports. */
static tercel_status fail_version(int64_t version, const tercel_custom *custom, tercel_error *err) {
  char last[32] = "later";
  if (custom->is.last_version > 0) snprintf(last, sizeof last, "%d", custom->is.last_version);
  return tercel_fail(err, TERCEL_UNSUPPORTED,
                     "the operator is registered for versions %d to %s, the model imports version %" PRId64,
                     custom->is.first_version, last, version);
}

static void use_custom(handler *h, const tercel_custom *custom) {
  h->custom = custom;
  h->custom_row = (tercel_onnx_row){.domain = custom->is.domain,
                                    .op_type = custom->is.name,
                                    .since = custom->is.first_version,
                                    .min_inputs = custom->is.min_inputs,
                                    .max_inputs = custom->is.max_inputs < 0 ? INT_MAX : custom->is.max_inputs,
                                    .max_outputs = custom->is.max_outputs,
                                    .build = tercel_onnx_build_custom};
  h->row = &h->custom_row;
}

/* UNSUPPORTED or INVALID_MODEL with *advice when nobody does. */
static tercel_status find_handler(tercel_onnx *o, const tercel_onnx_frame *frame, const tercel_onnx_node *node,
                                  handler *out, const char **advice, tercel_error *err) {
  const tercel_custom *other;
  *out = (handler){0};
  *advice = NULL;
  TERCEL_TRY(tercel_onnx_get_version(o, frame, node->domain, &out->version, err));
  const tercel_custom *const custom =
      tercel_operators_find(o->options.operators, node->domain, node->op_type, out->version, &other);
  if (custom && out->version > 0) {
    use_custom(out, custom);
    return TERCEL_OK;
  }
  out->function = tercel_onnx_find_function(o, node->domain, node->op_type, node->overload);
  if (out->function) return TERCEL_OK;
  *advice = "add the domain, with its version, to the imports of operator sets";
  if (out->version == 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "the %s imports no version of domain '%s'",
                       frame->function ? "function" : "model", node->domain[0] ? node->domain : "ai.onnx");
  bool newer;
  out->row = tercel_onnx_find_row(node->domain, node->op_type, out->version, &newer);
  *advice = other ? "register the operator for that version too" : operator_advice(node, newer);
  if (out->row) return TERCEL_OK;
  return other ? fail_version(out->version, other, err) : fail_operator(node, out->version, newer, err);
}

/* Notes operators that nobody builds, among nodes that are not built because something before them is wrong. */
static tercel_status look_at_node(tercel_onnx *o, const tercel_onnx_frame *frame, const tercel_onnx_node *node,
                                  tercel_error *err) {
  handler h;
  const char *advice;
  const tercel_status status = find_handler(o, frame, node, &h, &advice, err);
  TERCEL_TRY(tercel_onnx_note(o, TERCEL_PROBLEM_OPERATOR, frame, node, advice, status, err));
  for (size_t i = 0; i < node->attrs.count; i++)
    if (node->attrs.items[i].g)
      for (size_t k = 0; k < node->attrs.items[i].g->nodes.count; k++)
        TERCEL_TRY(look_at_node(o, frame, &node->attrs.items[i].g->nodes.items[k], err));
  return TERCEL_OK;
}

/* ---- one node ---------------------------------------------------------------------------------------------------- */

static void poison(tercel_value **outputs, size_t count) {
  for (size_t i = 0; i < count; i++) outputs[i] = TERCEL_ONNX_POISON;
}

static size_t count_named(const tercel_onnx_names *names) {
  size_t n = names->count;
  while (n > 0 && !names->items[n - 1][0]) n--;
  return n;
}

static size_t count_given(const tercel_onnx_node *node, tercel_value *const *inputs) {
  size_t n = node->inputs.count;
  while (n > 0 && !inputs[n - 1]) n--;
  return n;
}

static tercel_status find_inputs(tercel_onnx *o, const tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                 tercel_value **out, bool *poisoned, tercel_error *err) {
  for (size_t i = 0; i < count_named(&node->inputs); i++) {
    const char *const name = node->inputs.items[i];
    if (!name[0]) continue;
    out[i] = find(scope, name);
    if (!out[i]) {
      const tercel_status status =
          tercel_fail(err, TERCEL_INVALID_MODEL, "input %zu is '%s', which nothing defines", i, name);
      TERCEL_TRY(tercel_onnx_note(o, TERCEL_PROBLEM_NAME, scope->frame, node, NULL, status, err));
      out[i] = TERCEL_ONNX_POISON;
    }
    if (out[i] == TERCEL_ONNX_POISON) *poisoned = true;
    if (out[i] == TERCEL_ONNX_ABSENT) out[i] = NULL;
  }
  return TERCEL_OK;
}

static tercel_status check_arity(const tercel_onnx_call *c, tercel_error *err) {
  const tercel_onnx_row *const row = c->row;
  const size_t min = (size_t)row->min_inputs;
  if (c->num_inputs < min)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%zu inputs, want at least %zu", c->num_inputs, min);
  if (row->max_inputs >= 0 && c->num_inputs > (size_t)row->max_inputs)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%zu inputs, want at most %d", c->num_inputs, row->max_inputs);
  if (row->max_outputs >= 0 && c->num_outputs > (size_t)row->max_outputs)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%zu outputs, want at most %d", c->num_outputs, row->max_outputs);
  for (size_t i = 0; i < (row->max_inputs < 0 && min > 0 ? c->num_inputs : min); i++)
    if (!c->inputs[i]) return tercel_fail(err, TERCEL_INVALID_MODEL, "input %zu is absent, but required", i);
  return TERCEL_OK;
}

static tercel_status check_attrs_read(const tercel_onnx_call *c, tercel_error *err) {
  for (size_t i = 0; i < c->node->attrs.count; i++) {
    const tercel_onnx_attr *const attr = &c->node->attrs.items[i];
    if (i < 64 && (c->attrs_read >> i & 1)) continue;
    if (attr->ref_name[0] && !tercel_onnx_has_attr(c, attr->name))
      continue; /* stands for one that the call didn't give */
    return tercel_fail(err, TERCEL_UNSUPPORTED, "attribute '%s' is not known for version %" PRId64, attr->name,
                       c->version);
  }
  return TERCEL_OK;
}

static tercel_status check_outputs(const tercel_onnx_call *c, tercel_error *err) {
  for (size_t i = 0; i < c->num_outputs; i++)
    if (tercel_onnx_wants_output(c, i) && !c->outputs[i])
      return tercel_fail(err, TERCEL_UNSUPPORTED, "output %zu ('%s') is not supported", i, c->node->outputs.items[i]);
  return TERCEL_OK;
}

/* Runs the builder and checks what it did. */
static tercel_status run_builder(tercel_onnx_call *c) {
  TERCEL_TRY(check_arity(c, c->err));
  c->row->build(c);
  TERCEL_TRY(c->status);
  if (c->poisoned) return TERCEL_OK;
  c->fault = TERCEL_PROBLEM_ATTRIBUTE;
  TERCEL_TRY(check_attrs_read(c, c->err));
  c->fault = TERCEL_PROBLEM_NODE;
  return check_outputs(c, c->err);
}

/* Takes back the nodes behind `last` of a node that turned out to be wrong. */
static void remove_nodes_after(tercel_graph *graph, tercel_node *last) {
  while (graph->last != last) tercel_graph_remove_node(graph->last);
}

static tercel_status build_by_row(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                  const handler *h, tercel_value *const *inputs, tercel_value **outputs,
                                  tercel_error *err) {
  tercel_onnx_call c = {.import = o,
                        .scope = scope,
                        .graph = scope->graph,
                        .node = node,
                        .row = h->row,
                        .custom = h->custom,
                        .name = tercel_onnx_node_label(o, scope->frame, node),
                        .fault = TERCEL_PROBLEM_NODE,
                        .version = h->version,
                        .inputs = inputs,
                        .num_inputs = count_given(node, inputs),
                        .outputs = outputs,
                        .num_outputs = count_named(&node->outputs),
                        .err = err};
  tercel_node *const last = scope->graph->last;
  const tercel_status status = run_builder(&c);
  if (status == TERCEL_OK && !c.poisoned) return TERCEL_OK;
  TERCEL_TRY(tercel_onnx_note(o, c.fault, scope->frame, node, NULL, status, err));
  remove_nodes_after(scope->graph, last);
  poison(outputs, c.num_outputs);
  return TERCEL_OK;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static tercel_status check_call(tercel_onnx *o, const tercel_onnx_frame *frame, const tercel_onnx_node *node,
                                const tercel_onnx_function *function, tercel_error *err) {
  for (const tercel_onnx_frame *f = frame; f; f = f->caller)
    if (f->function == function)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "function %s calls itself", function->name);
  if (frame->depth >= TERCEL_ONNX_MAX_CALL_DEPTH)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "functions call each other more than %d deep",
                       (int)TERCEL_ONNX_MAX_CALL_DEPTH);
  if (count_named(&node->inputs) > function->inputs.count || count_named(&node->outputs) > function->outputs.count)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%zu inputs and %zu outputs, function %s has %zu and %zu",
                       node->inputs.count, node->outputs.count, function->name, function->inputs.count,
                       function->outputs.count);
  o->num_inlined += function->nodes.count;
  if (o->num_inlined > TERCEL_ONNX_MAX_NODES)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "inlining the model's functions makes more than %d nodes",
                       (int)TERCEL_ONNX_MAX_NODES);
  return TERCEL_OK;
}

/* Attributes that the call gives must be the function's; those without default must be given. */
static tercel_status check_call_attrs(const tercel_onnx_node *node, const tercel_onnx_function *function,
                                      tercel_error *err) {
  for (size_t i = 0; i < node->attrs.count; i++) {
    const char *const name = node->attrs.items[i].name;
    bool known = false;
    for (size_t k = 0; k < function->attributes.count; k++) known |= strcmp(function->attributes.items[k], name) == 0;
    for (size_t k = 0; k < function->attr_defaults.count; k++)
      known |= strcmp(function->attr_defaults.items[k].name, name) == 0;
    if (!known)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "function %s has no attribute '%s'", function->name, name);
  }
  return TERCEL_OK;
}

static tercel_status inline_body(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_function *function,
                                 tercel_value *const *inputs, size_t num_inputs, tercel_value **outputs,
                                 size_t num_outputs, tercel_error *err) {
  for (size_t i = 0; i < function->inputs.count; i++) {
    tercel_value *const given = i < num_inputs && inputs[i] ? inputs[i] : TERCEL_ONNX_ABSENT;
    TERCEL_TRY(define(scope, function->inputs.items[i], given, err));
  }
  const tercel_map nothing_declared = {0};
  TERCEL_TRY(build_nodes(o, scope, &function->nodes, &nothing_declared, err));
  for (size_t i = 0; i < num_outputs; i++) {
    outputs[i] = find(scope, function->outputs.items[i]);
    if (!outputs[i] || outputs[i] == TERCEL_ONNX_ABSENT)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "function %s: nothing defines its output '%s'", function->name,
                         function->outputs.items[i]);
  }
  return TERCEL_OK;
}

static tercel_status build_by_function(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                       const tercel_onnx_function *function, tercel_value *const *inputs,
                                       tercel_value **outputs, tercel_error *err) {
  TERCEL_TRY(check_call(o, scope->frame, node, function, err));
  TERCEL_TRY(check_call_attrs(node, function, err));
  const size_t num_inputs = count_given(node, inputs), num_outputs = count_named(&node->outputs);
  const char *const prefix = tercel_arena_printf(&o->arena, "%s%s/", scope->frame->prefix, tercel_onnx_own_name(node));
  if (!prefix) return tercel_fail_memory(err, 0, "a name");
  const tercel_onnx_frame frame = {.function = function,
                                   .opsets = &function->opsets,
                                   .caller = scope->frame,
                                   .call = node,
                                   .prefix = prefix,
                                   .depth = scope->frame->depth + 1};
  tercel_onnx_scope inner = {.frame = &frame, .graph = scope->graph};
  const tercel_status status = inline_body(o, &inner, function, inputs, num_inputs, outputs, num_outputs, err);
  tercel_map_deinit(&inner.values);
  return status;
}

/* ---- nodes of a graph -------------------------------------------------------------------------------------------- */

/* The file's name of a value goes to the one that this node made (ids from first_id on); what passes through keeps its own. */
static tercel_status name_output(const tercel_onnx_scope *scope, tercel_value *value, uint32_t first_id,
                                 const char *name, tercel_error *err) {
  if (!value->producer || value->id < first_id) return TERCEL_OK;
  value->name = tercel_arena_printf(scope->graph->arena, "%s%s", scope->frame->prefix, name);
  return value->name ? TERCEL_OK : tercel_fail_memory(err, strlen(name), "a name");
}

/* A contradiction is noted; what was inferred stands. */
static tercel_status declare(tercel_onnx *o, const tercel_onnx_frame *frame, const tercel_onnx_node *node,
                             tercel_value *value, const tercel_onnx_value_info *info, tercel_error *err) {
  const tercel_status status = tercel_onnx_declare(value, info, err);
  const tercel_problem_kind kind = status == TERCEL_UNSUPPORTED ? TERCEL_PROBLEM_TYPE : TERCEL_PROBLEM_SHAPE;
  return tercel_onnx_note(o, kind, frame, node, NULL, status, err);
}

static tercel_status take_outputs(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                  tercel_value *const *outputs, uint32_t first_id, const tercel_map *declared,
                                  tercel_error *err) {
  for (size_t i = 0; i < count_named(&node->outputs); i++) {
    const char *const name = node->outputs.items[i];
    if (!name[0]) continue;
    const tercel_status status = define(scope, name, outputs[i], err);
    TERCEL_TRY(tercel_onnx_note(o, TERCEL_PROBLEM_NAME, scope->frame, node, NULL, status, err));
    if (status != TERCEL_OK || outputs[i] == TERCEL_ONNX_POISON) continue;
    TERCEL_TRY(name_output(scope, outputs[i], first_id, name, err));
    const tercel_onnx_value_info *const info = tercel_map_get(declared, name, NULL);
    if (info) TERCEL_TRY(declare(o, scope->frame, node, outputs[i], info, err));
  }
  return TERCEL_OK;
}

static tercel_status build_node_outputs(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                        tercel_value *const *inputs, bool poisoned, tercel_value **outputs,
                                        tercel_error *err) {
  handler h;
  const char *advice;
  const tercel_status found = poisoned ? TERCEL_OK : find_handler(o, scope->frame, node, &h, &advice, err);
  if (found == TERCEL_OUT_OF_MEMORY) return found;
  if (poisoned || found != TERCEL_OK) {
    poison(outputs, node->outputs.count);
    return look_at_node(o, scope->frame, node, err);
  }
  if (h.row) return build_by_row(o, scope, node, &h, inputs, outputs, err);
  const tercel_status status = build_by_function(o, scope, node, h.function, inputs, outputs, err);
  if (status != TERCEL_OK) poison(outputs, node->outputs.count);
  return tercel_onnx_note(o, TERCEL_PROBLEM_NODE, scope->frame, node, NULL, status, err);
}

static tercel_status build_node(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                const tercel_map *declared, tercel_error *err) {
  tercel_value **const inputs = tercel_zalloc_array(node->inputs.count + node->outputs.count + 1, sizeof *inputs);
  if (!inputs) return tercel_fail_memory(err, node->inputs.count * sizeof *inputs, "a node");
  tercel_value **const outputs = inputs + node->inputs.count;
  const uint32_t first_id = scope->graph->num_values;
  bool poisoned = false;
  tercel_status status = find_inputs(o, scope, node, inputs, &poisoned, err);
  if (status == TERCEL_OK) status = build_node_outputs(o, scope, node, inputs, poisoned, outputs, err);
  if (status == TERCEL_OK) status = take_outputs(o, scope, node, outputs, first_id, declared, err);
  tercel_free(inputs);
  return status;
}

/* A node of a graph that has no order: it is looked at, not built. */
static tercel_status pass_over_node(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_node *node,
                                    tercel_error *err) {
  for (size_t i = 0; i < node->outputs.count; i++)
    if (node->outputs.items[i][0])
      TERCEL_TRY(tercel_map_set(&scope->values, node->outputs.items[i], TERCEL_ONNX_POISON, err));
  return look_at_node(o, scope->frame, node, err);
}

static tercel_status build_nodes(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_nodes *nodes,
                                 const tercel_map *declared, tercel_error *err) {
  tercel_arena scratch = {0};
  size_t *const order = tercel_arena_alloc_array(&scratch, nodes->count, sizeof *order);
  tercel_status status = order ? tercel_onnx_order(&scratch, nodes, order, err)
                               : tercel_fail_memory(err, nodes->count * sizeof *order, "the order of nodes");
  if (status == TERCEL_INVALID_MODEL) {
    status = tercel_onnx_note(o, TERCEL_PROBLEM_NAME, NULL, NULL, NULL, status, err);
    for (size_t i = 0; status == TERCEL_OK && i < nodes->count; i++)
      status = pass_over_node(o, scope, &nodes->items[i], err);
  } else {
    for (size_t i = 0; status == TERCEL_OK && i < nodes->count; i++)
      status = build_node(o, scope, &nodes->items[order[i]], declared, err);
  }
  tercel_arena_deinit(&scratch);
  return status;
}

/* ---- whole graphs ------------------------------------------------------------------------------------------------ */

/* An error about no node in particular. */
static tercel_status note(tercel_onnx *o, tercel_problem_kind kind, tercel_status status, tercel_error *err) {
  return tercel_onnx_note(o, kind, NULL, NULL, NULL, status, err);
}

/* One given twice: the later one counts, as ONNX Runtime has it.  One without a name can't be used by anybody. */
static tercel_status define_initializer(tercel_onnx *o, tercel_onnx_scope *scope, const char *name, tercel_value *value,
                                        tercel_map *initializers, tercel_error *err) {
  bool again;
  tercel_map_get(initializers, name, &again);
  if (!name[0]) return TERCEL_OK;
  TERCEL_TRY(tercel_map_set(initializers, name, value, err));
  if (!again) return note(o, TERCEL_PROBLEM_NAME, define(scope, name, value, err), err);
  TERCEL_TRY(tercel_onnx_warn(o, TERCEL_PROBLEM_NAME, "remove one of the two", err,
                              "initializer '%s%s' is given twice; the later one counts", scope->frame->prefix, name));
  return tercel_map_set(&scope->values, name, value, err);
}

static tercel_status add_initializers(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_graph *proto,
                                      tercel_error *err) {
  tercel_map initializers = {0};
  tercel_status status = TERCEL_OK;
  for (size_t i = 0; i < proto->initializers.count; i++) {
    const tercel_onnx_tensor *const t = &proto->initializers.items[i];
    tercel_value *value = TERCEL_ONNX_POISON;
    const tercel_status got = tercel_onnx_add_tensor(o, scope->graph, t->name, t, &value, err);
    TERCEL_CHECK(note(o, TERCEL_PROBLEM_WEIGHT, got, err));
    TERCEL_CHECK(define_initializer(o, scope, t->name, value, &initializers, err));
  }
  for (size_t i = 0; i < proto->sparse_initializers.count; i++) {
    const tercel_onnx_sparse *const s = &proto->sparse_initializers.items[i];
    const char *const name = s->values ? s->values->name : "";
    tercel_value *value = TERCEL_ONNX_POISON;
    const tercel_status got = tercel_onnx_add_sparse(o, scope->graph, name, s, &value, err);
    TERCEL_CHECK(note(o, TERCEL_PROBLEM_WEIGHT, got, err));
    TERCEL_CHECK(define_initializer(o, scope, name, value, &initializers, err));
  }
done:
  tercel_map_deinit(&initializers);
  return status;
}

/* Inputs of the model.  One that an initializer gives too is a constant: the initializer is its default, and nobody overrides it. */
static tercel_status add_main_inputs(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_graph *proto,
                                     tercel_error *err) {
  for (size_t i = 0; i < proto->inputs.count; i++) {
    const tercel_onnx_value_info *const info = &proto->inputs.items[i];
    tercel_value *const given = find(scope, info->name);
    if (given && given != TERCEL_ONNX_POISON) {
      if (given->constant)
        TERCEL_TRY(declare(o, NULL, NULL, given, info, err));
      else
        TERCEL_TRY(note(o, TERCEL_PROBLEM_NAME,
                        tercel_fail(err, TERCEL_INVALID_MODEL, "input '%s' is listed twice", info->name), err));
    }
    if (given) continue;
    tercel_type type;
    tercel_value *value = TERCEL_ONNX_POISON;
    tercel_status status = tercel_onnx_read_type(scope->graph->dims, info->type, info->name, &type, err);
    if (status == TERCEL_OK && type.dtype == TERCEL_DTYPE_NONE)
      status = tercel_fail(err, TERCEL_INVALID_MODEL, "input '%s' has no type", info->name);
    if (status == TERCEL_OK) status = tercel_graph_add_input(scope->graph, info->name, &type, &value, err);
    TERCEL_TRY(note(o, TERCEL_PROBLEM_TYPE, status, err));
    TERCEL_TRY(define(scope, info->name, value, err));
  }
  return TERCEL_OK;
}

static tercel_status add_outputs(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_graph *proto,
                                 bool *poisoned, tercel_error *err) {
  for (size_t i = 0; i < proto->outputs.count; i++) {
    const tercel_onnx_value_info *const info = &proto->outputs.items[i];
    tercel_value *const value = find(scope, info->name);
    if (!value || value == TERCEL_ONNX_ABSENT) {
      const tercel_status status = tercel_fail(err, TERCEL_INVALID_MODEL, "graph '%s': nothing defines its output '%s'",
                                               proto->name, info->name);
      TERCEL_TRY(note(o, TERCEL_PROBLEM_NAME, status, err));
    }
    if (!value || value == TERCEL_ONNX_ABSENT || value == TERCEL_ONNX_POISON) {
      *poisoned = true;
      continue;
    }
    TERCEL_TRY(declare(o, NULL, NULL, value, info, err));
    TERCEL_TRY(tercel_graph_add_output(scope->graph, value, info->name, err));
  }
  return TERCEL_OK;
}

/* Builds the nodes; initializers and inputs stand in scope already. */
static tercel_status fill_graph(tercel_onnx *o, tercel_onnx_scope *scope, const tercel_onnx_graph *proto,
                                bool *poisoned, tercel_error *err) {
  tercel_map declared = {0};
  tercel_status status = TERCEL_OK;
  const size_t noted = o->problems->num_errors;
  for (size_t i = 0; status == TERCEL_OK && i < proto->value_infos.count; i++)
    status = tercel_map_set(&declared, proto->value_infos.items[i].name, &proto->value_infos.items[i], err);
  if (status == TERCEL_OK) status = build_nodes(o, scope, &proto->nodes, &declared, err);
  *poisoned |= o->problems->num_errors > noted;
  tercel_map_deinit(&declared);
  return status;
}

tercel_status tercel_onnx_build_main(tercel_onnx *o, tercel_graph *graph, tercel_error *err) {
  const tercel_onnx_frame frame = {.opsets = &o->model.opsets, .prefix = ""};
  tercel_onnx_scope scope = {.frame = &frame, .graph = graph};
  const tercel_onnx_graph *const proto = o->model.graph;
  bool poisoned = false;
  tercel_status status = add_initializers(o, &scope, proto, err);
  if (status == TERCEL_OK) status = add_main_inputs(o, &scope, proto, err);
  if (status == TERCEL_OK) status = fill_graph(o, &scope, proto, &poisoned, err);
  if (status == TERCEL_OK) status = add_outputs(o, &scope, proto, &poisoned, err);
  tercel_map_deinit(&scope.values);
  return status;
}

static tercel_status add_subgraph_inputs(tercel_onnx_scope *scope, const tercel_onnx_subgraph *s, tercel_error *err) {
  if (s->proto->inputs.count != s->num_inputs)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "graph '%s' has %zu inputs, want %zu", s->proto->name,
                       s->proto->inputs.count, s->num_inputs);
  for (size_t i = 0; i < s->num_inputs; i++) {
    const tercel_onnx_value_info *const info = &s->proto->inputs.items[i];
    tercel_value *value = NULL;
    TERCEL_TRY(tercel_graph_add_input(scope->graph, info->name, &s->input_types[i], &value, err));
    TERCEL_TRY(tercel_onnx_declare(value, info, err));
    TERCEL_TRY(define(scope, info->name, value, err));
  }
  return TERCEL_OK;
}

/* Constants of outside are constants inside; everything else comes in as an input behind the graph's own. */
static tercel_status add_captures(const tercel_onnx_scope *outer, tercel_onnx_scope *scope,
                                  const tercel_onnx_free_names *names, tercel_error *err) {
  for (size_t i = 0; i < names->count; i++) {
    tercel_value *const value = find(outer, names->names[i]);
    tercel_value *inside = TERCEL_ONNX_ABSENT;
    if (value->constant) {
      TERCEL_TRY(tercel_graph_add_constant(scope->graph, value->name, value->constant, value->storage, &inside, err));
    } else if (tercel_onnx_is_captured(value)) {
      TERCEL_TRY(tercel_graph_add_input(scope->graph, value->name, &value->type, &inside, err));
      inside->contents = value->contents;
      inside->num_contents = value->num_contents;
    }
    TERCEL_TRY(define(scope, names->names[i], inside, err));
  }
  return TERCEL_OK;
}

tercel_status tercel_onnx_build_subgraph(tercel_onnx *o, const tercel_onnx_scope *outer, tercel_graph *graph,
                                         const tercel_onnx_subgraph *subgraph, bool *poisoned, tercel_error *err) {
  tercel_onnx_scope scope = {.frame = outer->frame, .graph = graph};
  tercel_status status = add_subgraph_inputs(&scope, subgraph, err);
  if (status == TERCEL_OK) status = add_captures(outer, &scope, subgraph->free_names, err);
  if (status == TERCEL_OK) status = add_initializers(o, &scope, subgraph->proto, err);
  if (status == TERCEL_OK) status = fill_graph(o, &scope, subgraph->proto, poisoned, err);
  if (status == TERCEL_OK) status = add_outputs(o, &scope, subgraph->proto, poisoned, err);
  tercel_map_deinit(&scope.values);
  return status;
}

static tercel_status find_outputs(const tercel_onnx_scope *scope, const tercel_onnx_graph *proto,
                                  tercel_value **outputs, tercel_error *err) {
  for (size_t i = 0; i < proto->outputs.count; i++) {
    outputs[i] = find(scope, proto->outputs.items[i].name);
    if (!outputs[i] || outputs[i] == TERCEL_ONNX_ABSENT)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "graph '%s': nothing defines its output '%s'", proto->name,
                         proto->outputs.items[i].name);
  }
  return TERCEL_OK;
}

tercel_status tercel_onnx_build_body(tercel_onnx *o, const tercel_onnx_scope *outer, tercel_graph *graph,
                                     const tercel_onnx_body *body, tercel_value **outputs, bool *poisoned,
                                     tercel_error *err) {
  tercel_onnx_scope scope = {.frame = outer->frame, .graph = graph};
  tercel_status status = add_captures(outer, &scope, body->free_names, err);
  for (size_t i = 0; status == TERCEL_OK && i < body->proto->inputs.count; i++)
    status = define(&scope, body->proto->inputs.items[i].name, body->inputs[i], err);
  if (status == TERCEL_OK) status = add_initializers(o, &scope, body->proto, err);
  if (status == TERCEL_OK) status = fill_graph(o, &scope, body->proto, poisoned, err);
  if (status == TERCEL_OK) status = find_outputs(&scope, body->proto, outputs, err);
  for (size_t i = 0; status == TERCEL_OK && i < body->proto->outputs.count; i++)
    *poisoned |= outputs[i] == TERCEL_ONNX_POISON;
  tercel_map_deinit(&scope.values);
  return status;
}

/* ---- graphs inlined -------------------------------------------------------------------------------------------------- */

/* What the subgraph takes from outside keeps its name inside. */
static tercel_status define_free_names(tercel_onnx *o, const tercel_onnx_scope *outer, tercel_onnx_scope *scope,
                                       const tercel_onnx_graph *proto, tercel_error *err) {
  tercel_onnx_free_names names = {.arena = &o->arena};
  tercel_status status = tercel_onnx_add_free_names(&names, proto, err);
  for (size_t i = 0; status == TERCEL_OK && i < names.count; i++) {
    tercel_value *const value = find(outer, names.names[i]);
    status = value ? define(scope, names.names[i], value, err)
                   : tercel_fail(err, TERCEL_INVALID_MODEL, "graph '%s' uses '%s', which nothing defines", proto->name,
                                 names.names[i]);
  }
  tercel_onnx_free_names_deinit(&names);
  return status;
}

tercel_status tercel_onnx_inline_graph(tercel_onnx *o, const tercel_onnx_scope *outer, const tercel_onnx_graph *proto,
                                       tercel_value *const *inputs, size_t num_inputs, tercel_value **outputs,
                                       size_t num_outputs, tercel_error *err) {
  tercel_onnx_scope scope = {.frame = outer->frame, .graph = outer->graph};
  const tercel_map nothing_declared = {0};
  tercel_status status = TERCEL_OK;
  if (proto->inputs.count != num_inputs || proto->outputs.count != num_outputs)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "graph '%s' has %zu inputs and %zu outputs, want %zu and %zu",
                       proto->name, proto->inputs.count, proto->outputs.count, num_inputs, num_outputs);
  TERCEL_CHECK(define_free_names(o, outer, &scope, proto, err));
  for (size_t i = 0; i < num_inputs; i++) TERCEL_CHECK(define(&scope, proto->inputs.items[i].name, inputs[i], err));
  TERCEL_CHECK(add_initializers(o, &scope, proto, err));
  TERCEL_CHECK(build_nodes(o, &scope, &proto->nodes, &nothing_declared, err));
  TERCEL_CHECK(find_outputs(&scope, proto, outputs, err));
done:
  tercel_map_deinit(&scope.values);
  return status;
}
