/* Control flow: If, Loop, Scan.  What their subgraphs use of the graph around them becomes inputs of the node: captures. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

/* A control node being built: its own inputs and subgraphs, and what the subgraphs take from outside. */
typedef struct control {
  const tercel_op *op;
  const tercel_onnx_graph *graphs[2];
  size_t num_graphs;
  const tercel_type *input_types; /* of each subgraph */
  size_t num_input_types;
  tercel_value *const *inputs;
  size_t num_inputs;
  size_t num_outputs;
  tercel_onnx_free_names names;
} control;

/* The names must be defined outside; one that depends on something unsupported makes the node so. */
static void check_names(tercel_onnx_call *c, const control *k) {
  for (size_t i = 0; i < k->names.count; i++) {
    const tercel_value *const value = tercel_map_get(&c->scope->values, k->names.names[i], NULL);
    if (!value)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "its subgraph uses '%s', which nothing defines", k->names.names[i]);
    if (value == TERCEL_ONNX_POISON) c->poisoned = true;
  }
}

/* Constants are copied into the subgraphs, so they are no captures. */
static tercel_node *add_node(tercel_onnx_call *c, const control *k) {
  const size_t room = k->num_inputs + k->names.count;
  tercel_value **const inputs = tercel_arena_alloc_array(&c->import->arena, room, sizeof *inputs);
  if (!inputs) {
    keep(c, tercel_fail_memory(c->err, room * sizeof *inputs, "inputs"));
    return NULL;
  }
  if (k->num_inputs > 0) memcpy(inputs, k->inputs, k->num_inputs * sizeof *inputs);
  size_t num_captures = 0;
  for (size_t i = 0; i < k->names.count; i++) {
    tercel_value *const value = tercel_map_get(&c->scope->values, k->names.names[i], NULL);
    if (tercel_onnx_is_captured(value)) inputs[k->num_inputs + num_captures++] = value;
  }
  tercel_node *const n = tercel_onnx_begin_list(c, k->op, k->num_outputs, inputs, k->num_inputs + num_captures);
  if (n) n->num_captures = (uint32_t)num_captures;
  return n;
}

static void add_subgraphs(tercel_onnx_call *c, const control *k, tercel_node *n) {
  for (size_t i = 0; tercel_onnx_ok(c) && i < k->num_graphs; i++) {
    const tercel_onnx_subgraph subgraph = {.proto = k->graphs[i],
                                           .input_types = k->input_types,
                                           .num_inputs = k->num_input_types,
                                           .free_names = &k->names};
    tercel_graph *graph = NULL;
    keep(c, tercel_graph_add_subgraph(n, (uint32_t)i, k->graphs[i]->name, &graph, c->err));
    if (tercel_onnx_ok(c))
      keep(c, tercel_onnx_build_subgraph(c->import, c->scope, graph, &subgraph, &c->poisoned, c->err));
  }
}

/* The node with its subgraphs; the caller sets attributes and infers it.  NULL when something in it is unsupported. */
static tercel_node *begin(tercel_onnx_call *c, control *k) {
  k->names.arena = &c->import->arena;
  for (size_t i = 0; tercel_onnx_ok(c) && i < k->num_graphs; i++)
    keep(c, tercel_onnx_add_free_names(&k->names, k->graphs[i], c->err));
  if (tercel_onnx_ok(c)) check_names(c, k);
  tercel_node *n = NULL;
  if (tercel_onnx_ok(c) && !c->poisoned) n = add_node(c, k);
  if (n) add_subgraphs(c, k, n);
  tercel_onnx_free_names_deinit(&k->names);
  return c->poisoned || !tercel_onnx_ok(c) ? NULL : n;
}

static void end(tercel_onnx_call *c, tercel_node *n) {
  if (n) tercel_onnx_return_all(c, n);
}

/* ---- If ------------------------------------------------------------------------------------------------------------- */

void tercel_onnx_build_if(tercel_onnx_call *c) {
  const tercel_onnx_graph *const then = tercel_onnx_get_graph(c, "then_branch");
  const tercel_onnx_graph *const other = tercel_onnx_get_graph(c, "else_branch");
  if (!tercel_onnx_ok(c)) return;
  if (then->outputs.count != other->outputs.count || then->outputs.count < c->num_outputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "then_branch has %zu outputs, else_branch %zu, the node %zu",
                     then->outputs.count, other->outputs.count, c->num_outputs);
  tercel_value *cond = tercel_onnx_in(c, 0);
  if (cond->type.shape.rank > 0) cond = tercel_onnx_reshape_to(c, cond, NULL, 0);
  control k = {.op = &tercel_op_if,
               .graphs = {then, other},
               .num_graphs = 2,
               .inputs = &cond,
               .num_inputs = 1,
               .num_outputs = then->outputs.count};
  end(c, begin(c, &k));
}

/* ---- Loop ------------------------------------------------------------------------------------------------------------ */

/* The iteration number and the condition: scalars, or lists of one where the body says so, as old exporters do. */
static tercel_type counter_type(const tercel_onnx_graph *body, size_t input, tercel_dtype dtype) {
  const tercel_onnx_type *const type = input < body->inputs.count ? body->inputs.items[input].type : NULL;
  const tercel_onnx_shape *const shape = type && type->tensor ? type->tensor->shape : NULL;
  const bool list = shape && shape->dims.count == 1;
  return (tercel_type){.dtype = dtype, .shape = {.rank = list, .dims = {1}}};
}

/* What an iteration hands on keeps its element type and rank; its dims may change. */
static tercel_type carried_type(tercel_onnx_call *c, const tercel_value *initial) {
  tercel_type type = initial->type;
  for (int i = 0; i < type.shape.rank; i++) type.shape.dims[i] = tercel_dim_unknown(c->graph->dims);
  if (type.kind != TERCEL_TYPE_TENSOR) type.shape.rank = -1;
  return type;
}

static tercel_type *allocate_types(tercel_onnx_call *c, size_t count) {
  tercel_type *const types = tercel_arena_alloc_array(&c->import->arena, count, sizeof *types);
  if (!types) keep(c, tercel_fail_memory(c->err, count * sizeof *types, "types"));
  return types;
}

static tercel_value *rank_0(tercel_onnx_call *c, tercel_value *v) {
  return v && v->type.shape.rank > 0 ? tercel_onnx_reshape_to(c, v, NULL, 0) : v;
}

/* A value may have another rank in each iteration: the body that was built for the rank it starts with tells, by giving another.  Says
 * so in the types. */
static bool open_changed_ranks(const tercel_node *loop, tercel_type *types, size_t carried) {
  bool changed = false;
  for (size_t i = 0; i < carried; i++) {
    const int given = loop->graphs[0]->outputs[1 + i]->type.shape.rank;
    if (types[2 + i].shape.rank < 0 || given < 0 || given == types[2 + i].shape.rank) continue;
    types[2 + i].shape.rank = -1;
    changed = true;
  }
  return changed;
}

void tercel_onnx_build_loop(tercel_onnx_call *c) {
  const tercel_onnx_graph *const body = tercel_onnx_get_graph(c, "body");
  if (!tercel_onnx_ok(c)) return;
  const size_t num_own = c->num_inputs > 2 ? c->num_inputs : 2, carried = num_own - 2;
  tercel_value **const inputs = tercel_arena_alloc_array(&c->import->arena, num_own, sizeof *inputs);
  tercel_type *const types = allocate_types(c, num_own);
  if (!inputs || !types) {
    keep(c, tercel_fail_memory(c->err, num_own * sizeof *inputs, "inputs"));
    return;
  }
  inputs[0] = rank_0(c, tercel_onnx_in(c, 0));
  inputs[1] = rank_0(c, tercel_onnx_in(c, 1));
  types[0] = counter_type(body, 0, TERCEL_DTYPE_I64);
  types[1] = counter_type(body, 1, TERCEL_DTYPE_BOOL);
  for (size_t i = 2; i < num_own; i++) {
    inputs[i] = tercel_onnx_in(c, i);
    if (inputs[i])
      types[i] = carried_type(c, inputs[i]);
    else
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input %zu is absent, but required", i);
  }
  if (body->outputs.count < 1 + carried || body->outputs.count - 1 < c->num_outputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL,
                     "body '%s' has %zu outputs for %zu carried values and %zu outputs of the node", body->name,
                     body->outputs.count, carried, c->num_outputs);
  control k = {.op = &tercel_op_loop,
               .graphs = {body},
               .num_graphs = 1,
               .input_types = types,
               .num_input_types = num_own,
               .inputs = inputs,
               .num_inputs = num_own,
               .num_outputs = body->outputs.count - 1};
  tercel_node *loop = begin(c, &k);
  while (loop && open_changed_ranks(loop, types, carried)) {
    tercel_graph_remove_node(loop);
    k.names = (tercel_onnx_free_names){0};
    loop = begin(c, &k);
  }
  end(c, loop);
}

/* ---- Scan ------------------------------------------------------------------------------------------------------------ */

/* One slice along an axis. */
static tercel_type slice_type(tercel_onnx_call *c, const tercel_value *v, int64_t axis) {
  tercel_type type = v->type;
  const int rank = type.shape.rank;
  if (rank < 0) return type;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) {
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "scan axis %" PRId64 " of a tensor of rank %d", axis, rank);
    return type;
  }
  for (int i = (int)axis; i + 1 < rank; i++) type.shape.dims[i] = type.shape.dims[i + 1];
  type.shape.rank = rank - 1;
  return type;
}

void tercel_onnx_build_scan(tercel_onnx_call *c) {
  const tercel_onnx_graph *const body = tercel_onnx_get_graph(c, "body");
  tercel_onnx_need_attr(c, "num_scan_inputs");
  const int64_t num_scanned = tercel_onnx_get_int(c, "num_scan_inputs", 0);
  size_t num_axes;
  const int64_t *const axes = tercel_onnx_get_ints(c, "scan_input_axes", &num_axes);
  if (!tercel_onnx_ok(c)) return;
  if (num_scanned < 1 || (uint64_t)num_scanned > c->num_inputs || (axes && num_axes != (size_t)num_scanned))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'num_scan_inputs' is %" PRId64 ": %zu inputs, %zu axes",
                     num_scanned, c->num_inputs, num_axes);
  tercel_type *const types = allocate_types(c, c->num_inputs);
  const size_t num_states = c->num_inputs - (size_t)num_scanned;
  for (size_t i = 0; tercel_onnx_ok(c) && i < c->num_inputs; i++)
    types[i] = i < num_states ? c->inputs[i]->type : slice_type(c, c->inputs[i], axes ? axes[i - num_states] : 0);
  if (body->outputs.count < num_states || body->outputs.count < c->num_outputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "body '%s' has %zu outputs for %zu states and %zu outputs of the node",
                     body->name, body->outputs.count, num_states, c->num_outputs);
  control k = {.op = &tercel_op_scan,
               .graphs = {body},
               .num_graphs = 1,
               .input_types = types,
               .num_input_types = c->num_inputs,
               .inputs = c->inputs,
               .num_inputs = c->num_inputs,
               .num_outputs = body->outputs.count};
  tercel_node *const n = begin(c, &k);
  if (!n) return;
  tercel_onnx_set_int(c, n, "num_scan_inputs", num_scanned);
  tercel_onnx_copy_ints(c, n, "scan_input_axes");
  tercel_onnx_copy_ints(c, n, "scan_input_directions");
  tercel_onnx_copy_ints(c, n, "scan_output_axes");
  tercel_onnx_copy_ints(c, n, "scan_output_directions");
  end(c, n);
}

/* ---- Scan of version 8 ------------------------------------------------------------------------------------------------- */

/* It runs over axis 1 for each entry of a batch, axis 0 of all inputs and outputs; an entry may be shorter than the axis.  As the later Scan
 * for each entry, whose results are joined: the batch must be known. */
typedef struct batched {
  const tercel_onnx_graph *body;
  tercel_value *const *inputs; /* states, then what is scanned */
  tercel_value *lengths;       /* NULL: all are as long as the axis */
  size_t num_inputs, num_states;
  int64_t batch;
} batched;

static tercel_value *entry_of(tercel_onnx_call *c, tercel_value *v, int64_t b) {
  return tercel_onnx_op(c, &tercel_op_gather, v, tercel_onnx_scalar(c, TERCEL_DTYPE_I64, (double)b));
}

/* The first `length` (i64[1]) of axis 0. */
static tercel_value *head_of(tercel_onnx_call *c, tercel_value *x, tercel_value *length) {
  return tercel_onnx_op(c, &tercel_op_slice, x, tercel_onnx_i64(c, 0), length, tercel_onnx_i64(c, 0));
}

/* x with zeros behind it, as long as axis 1 of `like` is. */
static tercel_value *filled_up(tercel_onnx_call *c, tercel_value *x, tercel_value *like, tercel_value *length) {
  tercel_value *const missing = tercel_onnx_fn2(c, TERCEL_FN_SUB, tercel_onnx_dim_value(c, like, 1), length);
  tercel_value *const pads[] = {tercel_onnx_i64(c, 0), missing};
  return tercel_onnx_op(c, &tercel_op_pad, x, tercel_onnx_concat(c, pads, 2, 0), NULL, tercel_onnx_i64(c, 0));
}

/* Scans entry b; its results, with a batch axis of 1 again. */
static void scan_entry(tercel_onnx_call *c, const batched *s, int64_t b, tercel_value **results) {
  tercel_value *const length =
      s->lengths ? tercel_onnx_reshape_to(c, tercel_onnx_cast(c, entry_of(c, s->lengths, b), TERCEL_DTYPE_I64),
                                          (const int64_t[]){1}, 1)
                 : NULL;
  tercel_value **const inputs = tercel_arena_alloc_array(&c->import->arena, s->num_inputs, sizeof *inputs);
  tercel_type *const types = allocate_types(c, s->num_inputs);
  if (!inputs && tercel_onnx_ok(c)) keep(c, tercel_fail_memory(c->err, s->num_inputs * sizeof *inputs, "inputs"));
  for (size_t i = 0; tercel_onnx_ok(c) && i < s->num_inputs; i++) {
    inputs[i] = entry_of(c, s->inputs[i], b);
    if (length && i >= s->num_states) inputs[i] = head_of(c, inputs[i], length);
    if (tercel_onnx_ok(c)) types[i] = i < s->num_states ? inputs[i]->type : slice_type(c, inputs[i], 0);
  }
  if (!tercel_onnx_ok(c)) return;
  control k = {.op = &tercel_op_scan,
               .graphs = {s->body},
               .num_graphs = 1,
               .input_types = types,
               .num_input_types = s->num_inputs,
               .inputs = inputs,
               .num_inputs = s->num_inputs,
               .num_outputs = s->body->outputs.count};
  tercel_node *const n = begin(c, &k);
  if (!n) return;
  size_t count;
  const int64_t *const directions = tercel_onnx_get_ints(c, "directions", &count);
  tercel_onnx_set_int(c, n, "num_scan_inputs", (int64_t)(s->num_inputs - s->num_states));
  if (directions) tercel_onnx_set_ints(c, n, "scan_input_directions", directions, count);
  tercel_onnx_end(c, n);
  for (size_t i = 0; tercel_onnx_ok(c) && i < c->num_outputs; i++) {
    tercel_value *y = tercel_node_output(n, (uint32_t)i);
    if (length && i >= s->num_states) y = filled_up(c, y, s->inputs[s->num_states], length);
    results[i] = tercel_onnx_unsqueeze(c, y, (const int64_t[]){0}, 1);
  }
}

void tercel_onnx_build_scan8(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "num_scan_inputs");
  const int64_t num_scanned = tercel_onnx_get_int(c, "num_scan_inputs", 0);
  if (c->num_inputs < 2) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%zu inputs, want 2 or more", c->num_inputs);
  if (!tercel_onnx_ok(c)) return;
  batched s = {.body = tercel_onnx_get_graph(c, "body"),
               .inputs = c->inputs + 1,
               .lengths = tercel_onnx_in(c, 0),
               .num_inputs = c->num_inputs - 1};
  if (!tercel_onnx_ok(c)) return;
  if (num_scanned < 1 || (uint64_t)num_scanned > s.num_inputs || s.body->inputs.count != s.num_inputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'num_scan_inputs' is %" PRId64 ": %zu inputs, %zu of the body",
                     num_scanned, s.num_inputs, s.body->inputs.count);
  s.num_states = s.num_inputs - (size_t)num_scanned;
  for (size_t i = 0; tercel_onnx_ok(c) && i < s.num_inputs; i++)
    if (!s.inputs[i]) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "input %zu is absent, but required", i + 1);
  if (tercel_onnx_ok(c) && (s.body->outputs.count < s.num_states || s.body->outputs.count < c->num_outputs))
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "body '%s' has %zu outputs for %zu states and %zu outputs of the node",
                     s.body->name, s.body->outputs.count, s.num_states, c->num_outputs);
  s.batch = tercel_onnx_ok(c) ? tercel_onnx_dim_of(c, s.inputs[0], 0) : 1;
  if (tercel_onnx_ok(c) && (s.batch < 1 || s.batch > 1024))
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "a batch of %" PRId64 " (-1: not known) is not supported", s.batch);
  if (!tercel_onnx_ok(c)) return;
  const size_t room = (size_t)s.batch * c->num_outputs;
  tercel_value **const results = tercel_arena_alloc_array(&c->import->arena, room, sizeof *results);
  tercel_value **const parts = tercel_arena_alloc_array(&c->import->arena, (size_t)s.batch, sizeof *parts);
  if (!results || !parts) keep(c, tercel_fail_memory(c->err, room * sizeof *results, "results"));
  for (int64_t b = 0; tercel_onnx_ok(c) && !c->poisoned && b < s.batch; b++)
    scan_entry(c, &s, b, results + (size_t)b * c->num_outputs);
  for (size_t i = 0; tercel_onnx_ok(c) && !c->poisoned && i < c->num_outputs; i++) {
    for (int64_t b = 0; b < s.batch; b++) parts[b] = results[(size_t)b * c->num_outputs + i];
    tercel_onnx_return(c, i, tercel_onnx_concat(c, parts, (size_t)s.batch, 0));
  }
}
