/* if, loop, scan: schema and inference.  They are run by the executor (runtime/control.c).
 *
 * Inference goes into the subgraphs: it sets the types of their inputs, and reads those of their outputs.  So it may change the graph,
 * and is for building only; a run asks no control operator for shapes. */
#include "ops/move.h"

static const char *const kind_names[] = {"a tensor", "a sequence", "an optional"};

/* Fails with the inner value's name when a dtype or kind contradicts what is handed to it. */
static tercel_status check_inner(const tercel_node *node, const tercel_value *inner, const tercel_type *type,
                                 tercel_error *err) {
  if (inner->type.dtype == TERCEL_DTYPE_NONE || type->dtype == TERCEL_DTYPE_NONE ||
      (inner->type.dtype == type->dtype && inner->type.kind == type->kind))
    return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "'%s' of its subgraph is %s, but gets %s", inner->name,
                          tercel_dtype_name(inner->type.dtype), tercel_dtype_name(type->dtype));
}

static void set_element_type(tercel_value *inner, const tercel_type *type) {
  if (type->dtype == TERCEL_DTYPE_NONE) return;
  inner->type.kind = type->kind;
  inner->type.optional_sequence = type->optional_sequence;
  inner->type.dtype = type->dtype;
}

/* What is handed in as it is: the inner value is all that the outer one is. */
static tercel_status set_inner(const tercel_node *node, tercel_value *inner, const tercel_type *type,
                               tercel_error *err) {
  TERCEL_TRY(check_inner(node, inner, type, err));
  set_element_type(inner, type);
  if (type->shape.rank < 0) return TERCEL_OK;
  if (inner->type.shape.rank >= 0 && inner->type.shape.rank != type->shape.rank)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "'%s' of its subgraph has rank %d, but gets rank %d",
                            inner->name, inner->type.shape.rank, type->shape.rank);
  inner->type.shape = type->shape;
  return TERCEL_OK;
}

/* A value that a loop carries may have another shape in each iteration: only what the body declares in numbers is known. */
static tercel_status set_carried(const tercel_node *node, tercel_value *inner, const tercel_type *type,
                                 tercel_error *err) {
  TERCEL_TRY(check_inner(node, inner, type, err));
  set_element_type(inner, type);
  tercel_dims *const dims = inner->graph->dims;
  for (int d = 0; d < inner->type.shape.rank; ++d) {
    const tercel_dim dim = inner->type.shape.dims[d];
    if (!tercel_dim_is_known(dim) && !tercel_dim_is_unknown(dims, dim))
      inner->type.shape.dims[d] = tercel_dim_unknown(dims);
  }
  return TERCEL_OK;
}

static tercel_status set_scalar(const tercel_node *node, tercel_value *inner, tercel_dtype dtype, tercel_error *err) {
  const tercel_type type = {.dtype = dtype};
  TERCEL_TRY(check_inner(node, inner, &type, err));
  set_element_type(inner, &type);
  if (inner->type.shape.rank < 0) inner->type.shape.rank = 0;
  const bool one = inner->type.shape.rank == 0 ||
                   (inner->type.shape.rank == 1 &&
                    (inner->type.shape.dims[0] == 1 || !tercel_dim_is_known(inner->type.shape.dims[0])));
  if (!one) return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "'%s' of its body must be a scalar", inner->name);
  if (inner->type.shape.rank == 1) inner->type.shape.dims[0] = 1;
  return TERCEL_OK;
}

/* The trailing inputs of the node are those of the subgraph, contents included. */
static tercel_status set_captures(tercel_infer *infer, tercel_graph *graph, tercel_error *err) {
  const tercel_node *const node = infer->node;
  for (uint32_t i = 0; i < node->num_captures; ++i) {
    const size_t from = node->num_inputs - node->num_captures + i;
    tercel_value *const inner = graph->inputs[graph->num_inputs - node->num_captures + i];
    if (infer->in[from] == NULL) return tercel_node_fail(node, err, TERCEL_INTERNAL, "capture %u is absent", i);
    TERCEL_TRY(set_inner(node, inner, &infer->in[from]->type, err));
    int64_t count = 0;
    const tercel_dim *const contents = tercel_infer_flow(infer, from, &count, err);
    inner->contents = contents;
    inner->num_contents = contents != NULL ? count : 0;
  }
  return TERCEL_OK;
}

static bool is_content_of(const tercel_type *a, const tercel_type *optional) {
  return optional->kind == TERCEL_TYPE_OPTIONAL && a->dtype == optional->dtype &&
         a->kind == (optional->optional_sequence ? TERCEL_TYPE_SEQUENCE : TERCEL_TYPE_TENSOR);
}

/* What holds for both: equal dims stay, others are unknown. */
static tercel_status join_types(tercel_infer *infer, const tercel_type *a, const tercel_type *b, tercel_type *out,
                                tercel_error *err) {
  if (a->dtype != TERCEL_DTYPE_NONE && b->dtype != TERCEL_DTYPE_NONE && (a->dtype != b->dtype || a->kind != b->kind))
    return tercel_node_fail(infer->node, err, a->dtype != b->dtype ? TERCEL_INVALID_MODEL : TERCEL_UNSUPPORTED,
                            "a value is %s of %s here and %s of %s there", kind_names[a->kind],
                            tercel_dtype_name(a->dtype), kind_names[b->kind], tercel_dtype_name(b->dtype));
  *out = a->dtype != TERCEL_DTYPE_NONE ? *a : *b;
  out->shape.rank = a->shape.rank == b->shape.rank ? a->shape.rank : -1;
  for (int d = 0; d < out->shape.rank; ++d)
    out->shape.dims[d] = a->shape.dims[d] == b->shape.dims[d] ? a->shape.dims[d] : tercel_dim_unknown(infer->dims);
  return TERCEL_OK;
}

/* A carried value may start as an optional and go on as what such an optional holds. */
static tercel_status join_carried(tercel_infer *infer, const tercel_type *start, const tercel_type *next,
                                  tercel_type *out, tercel_error *err) {
  tercel_type held = *start;
  if (is_content_of(next, start)) {
    held.kind = next->kind;
    held.optional_sequence = false;
  }
  return join_types(infer, &held, next, out, err);
}

/* Its part of the shape, with an axis of unknown length put in. */
static tercel_status stack_type(tercel_infer *infer, const tercel_type *part, int64_t axis, tercel_dim length,
                                tercel_type *out, tercel_error *err) {
  if (part->kind != TERCEL_TYPE_TENSOR)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "only tensors can be stacked");
  *out = (tercel_type){.dtype = part->dtype, .shape.rank = -1};
  if (part->shape.rank < 0) return TERCEL_OK;
  if (part->shape.rank == TERCEL_MAX_RANK)
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "stacking outputs of rank %d passes the largest rank",
                            part->shape.rank);
  int at = 0;
  TERCEL_TRY(tercel_axis(infer->node, axis, part->shape.rank + 1, &at, err));
  out->shape.rank = part->shape.rank + 1;
  for (int d = 0; d < out->shape.rank; ++d)
    out->shape.dims[d] = d == at ? length : part->shape.dims[d < at ? d : d - 1];
  return TERCEL_OK;
}

/* Inference relies on what verify checks, and may come first. */
static tercel_status check_counts(const tercel_node *node, tercel_status (*verify)(const tercel_node *, tercel_error *),
                                  tercel_error *err) {
  const tercel_status status = verify(node, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "%s '%s'", node->op->name, node->name);
}

/* ---- if ------------------------------------------------------------------------------------------------------------ */

enum { THEN, ELSE };

static tercel_status verify_if(const tercel_node *node, tercel_error *err) {
  for (int g = THEN; g <= ELSE; ++g) {
    const tercel_graph *const graph = node->graphs[g];
    if (graph->num_inputs != node->num_captures || graph->num_outputs != node->num_outputs)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "its %s branch has %u inputs and %u outputs, want %u and %u",
                         g == THEN ? "then" : "else", graph->num_inputs, graph->num_outputs, node->num_captures,
                         node->num_outputs);
  }
  return TERCEL_OK;
}

static tercel_status infer_if(tercel_infer *infer, tercel_error *err) {
  const tercel_node *const node = infer->node;
  TERCEL_TRY(check_counts(node, verify_if, err));
  for (int g = THEN; g <= ELSE; ++g) {
    TERCEL_TRY(set_captures(infer, node->graphs[g], err));
    TERCEL_TRY(tercel_infer_graph(node->graphs[g], err));
  }
  for (size_t i = 0; i < infer->num_outputs; ++i)
    TERCEL_TRY(join_types(infer, &node->graphs[THEN]->outputs[i]->type, &node->graphs[ELSE]->outputs[i]->type,
                          &infer->out[i].type, err));
  return TERCEL_OK;
}

const tercel_op tercel_op_if = {
    .name = "if",
    .id = TERCEL_OP_IF,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 0,
    .max_outputs = -1,
    .num_graphs = 2,
    .flags = TERCEL_OP_CONTROL,
    .about = "runs its first subgraph where the condition holds, else its second",
    .infer = infer_if,
    .verify = verify_if,
    .flops = tercel_no_flops,
};

/* ---- loop ---------------------------------------------------------------------------------------------------------- */

enum { TRIP_COUNT, CONDITION, FIRST_CARRIED };

static uint32_t num_carried(const tercel_node *node) { return node->num_inputs - node->num_captures - FIRST_CARRIED; }

static tercel_status verify_loop(const tercel_node *node, tercel_error *err) {
  const tercel_graph *const body = node->graphs[0];
  if (node->num_inputs - node->num_captures < FIRST_CARRIED || node->num_outputs < num_carried(node))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%u inputs and %u outputs do not make a loop",
                       node->num_inputs - node->num_captures, node->num_outputs);
  const uint32_t inputs = FIRST_CARRIED + num_carried(node) + node->num_captures;
  if (body->num_inputs != inputs || body->num_outputs != 1 + node->num_outputs)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its body has %u inputs and %u outputs, want %u and %u",
                       body->num_inputs, body->num_outputs, inputs, 1 + node->num_outputs);
  return TERCEL_OK;
}

static tercel_status infer_loop(tercel_infer *infer, tercel_error *err) {
  const tercel_node *const node = infer->node;
  TERCEL_TRY(check_counts(node, verify_loop, err));
  tercel_graph *const body = node->graphs[0];
  const uint32_t carried = num_carried(node);
  TERCEL_TRY(set_scalar(node, body->inputs[0], TERCEL_DTYPE_I64, err));
  TERCEL_TRY(set_scalar(node, body->inputs[1], TERCEL_DTYPE_BOOL, err));
  for (uint32_t k = 0; k < carried; ++k) {
    const tercel_fact *const start = infer->in[FIRST_CARRIED + k];
    if (start == NULL) return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "carried value %u has no start", k);
    TERCEL_TRY(set_carried(node, body->inputs[FIRST_CARRIED + k], &start->type, err));
  }
  TERCEL_TRY(set_captures(infer, body, err));
  TERCEL_TRY(tercel_infer_graph(body, err));
  for (uint32_t k = 0; k < carried; ++k)
    TERCEL_TRY(join_carried(infer, &infer->in[FIRST_CARRIED + k]->type, &body->outputs[1 + k]->type,
                            &infer->out[k].type, err));
  for (uint32_t k = carried; k < infer->num_outputs; ++k)
    TERCEL_TRY(
        stack_type(infer, &body->outputs[1 + k]->type, 0, tercel_dim_unknown(infer->dims), &infer->out[k].type, err));
  return TERCEL_OK;
}

const tercel_op tercel_op_loop = {
    .name = "loop",
    .id = TERCEL_OP_LOOP,
    .min_inputs = 0,
    .max_inputs = -1,
    .min_outputs = 0,
    .max_outputs = -1,
    .num_graphs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "runs its body while the condition holds, at most so many times",
    .infer = infer_loop,
    .verify = verify_loop,
    .flops = tercel_no_flops,
};

/* ---- scan ---------------------------------------------------------------------------------------------------------- */

static int64_t entry(const tercel_node *node, const char *name, size_t i) {
  size_t count = 0;
  const int64_t *const values = tercel_node_ints(node, name, &count);
  return i < count ? values[i] : 0;
}

/* One element of a scanned input: its type without the axis.  length: of the axis, where known. */
static tercel_status slice_type(const tercel_node *node, const tercel_type *whole, int64_t axis, tercel_type *out,
                                tercel_dim *length, tercel_error *err) {
  *out = *whole;
  if (whole->shape.rank < 0) return TERCEL_OK;
  if (whole->shape.rank == 0) return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "a scanned input is a scalar");
  int at = 0;
  TERCEL_TRY(tercel_axis(node, axis, whole->shape.rank, &at, err));
  *length = whole->shape.dims[at];
  out->shape.rank = 0;
  for (int d = 0; d < whole->shape.rank; ++d)
    if (d != at) out->shape.dims[out->shape.rank++] = whole->shape.dims[d];
  return TERCEL_OK;
}

static tercel_status verify_scan(const tercel_node *node, tercel_error *err) {
  const tercel_graph *const body = node->graphs[0];
  const int64_t scanned = tercel_node_int(node, "num_scan_inputs");
  const int64_t inputs = node->num_inputs - node->num_captures, states = inputs - scanned;
  if (scanned < 1 || states < 0 || (int64_t)node->num_outputs < states)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%lld scanned of %lld inputs and %u outputs do not make a scan",
                       (long long)scanned, (long long)inputs, node->num_outputs);
  if (body->num_inputs != node->num_inputs || body->num_outputs != node->num_outputs)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "its body has %u inputs and %u outputs, want %u and %u",
                       body->num_inputs, body->num_outputs, node->num_inputs, node->num_outputs);
  return TERCEL_OK;
}

/* A scan's state keeps its shape: what the file, the start and the body know of it come together. */
static tercel_status join_state(const tercel_node *node, uint32_t k, const tercel_type *start, const tercel_type *next,
                                tercel_type *out, tercel_error *err) {
  const tercel_shape *const a = &start->shape, *const b = &next->shape;
  bool fits = start->dtype == TERCEL_DTYPE_NONE || next->dtype == TERCEL_DTYPE_NONE ||
              (start->dtype == next->dtype && start->kind == next->kind);
  fits &= a->rank < 0 || b->rank < 0 || a->rank == b->rank;
  *out = start->dtype != TERCEL_DTYPE_NONE ? *start : *next;
  if (a->rank < 0) out->shape = *b;
  for (int d = 0; fits && a->rank >= 0 && d < b->rank; ++d) {
    if (!tercel_dim_is_known(a->dims[d]) && tercel_dim_is_known(b->dims[d])) out->shape.dims[d] = b->dims[d];
    fits = !tercel_dim_is_known(a->dims[d]) || !tercel_dim_is_known(b->dims[d]) || a->dims[d] == b->dims[d];
  }
  if (fits) return TERCEL_OK;
  tercel_text text = {0};
  tercel_type_print(node->graph->dims, start, &text);
  tercel_text_add(&text, ", but its body makes it ");
  tercel_type_print(node->graph->dims, next, &text);
  const tercel_status status =
      tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "state %u is %s", k, text.data != NULL ? text.data : "?");
  tercel_text_deinit(&text);
  return status;
}

static tercel_status infer_scan(tercel_infer *infer, tercel_error *err) {
  const tercel_node *const node = infer->node;
  TERCEL_TRY(check_counts(node, verify_scan, err));
  tercel_graph *const body = node->graphs[0];
  const uint32_t scanned = (uint32_t)tercel_node_int(node, "num_scan_inputs");
  const uint32_t states = node->num_inputs - node->num_captures - scanned;
  tercel_dim length = tercel_dim_unknown(infer->dims);
  for (uint32_t i = 0; i < states + scanned; ++i) {
    if (infer->in[i] == NULL) return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "input %u is absent", i);
    if (i < states) {
      TERCEL_TRY(set_inner(node, body->inputs[i], &infer->in[i]->type, err));
      continue;
    }
    tercel_type part;
    TERCEL_TRY(slice_type(node, &infer->in[i]->type, entry(node, "scan_input_axes", i - states), &part, &length, err));
    TERCEL_TRY(set_inner(node, body->inputs[i], &part, err));
  }
  TERCEL_TRY(set_captures(infer, body, err));
  TERCEL_TRY(tercel_infer_graph(body, err));
  for (uint32_t k = 0; k < states; ++k)
    TERCEL_TRY(join_state(node, k, &infer->in[k]->type, &body->outputs[k]->type, &infer->out[k].type, err));
  for (uint32_t k = states; k < infer->num_outputs; ++k)
    TERCEL_TRY(stack_type(infer, &body->outputs[k]->type, entry(node, "scan_output_axes", k - states), length,
                          &infer->out[k].type, err));
  return TERCEL_OK;
}

static const tercel_attr_spec scan_attrs[] = {
    {.name = "num_scan_inputs",
     .kind = TERCEL_ATTR_INT,
     .required = true,
     .about = "inputs that are cut up, the last ones"},
    {.name = "scan_input_axes", .kind = TERCEL_ATTR_INTS, .about = "axis each is cut along; 0"},
    {.name = "scan_input_directions", .kind = TERCEL_ATTR_INTS, .about = "1: from the end"},
    {.name = "scan_output_axes", .kind = TERCEL_ATTR_INTS, .about = "axis that stacking puts in; 0"},
    {.name = "scan_output_directions", .kind = TERCEL_ATTR_INTS, .about = "1: each before the last"},
    {0}};

const tercel_op tercel_op_scan = {
    .name = "scan",
    .id = TERCEL_OP_SCAN,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 0,
    .max_outputs = -1,
    .num_graphs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "runs its body on each slice of its inputs, carrying states",
    .attrs = scan_attrs,
    .infer = infer_scan,
    .verify = verify_scan,
    .flops = tercel_no_flops,
};
