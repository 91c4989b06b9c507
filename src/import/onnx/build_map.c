/* SequenceMap: a graph applied to each element of a sequence, as a loop over its positions.
 *
 *     loop(length, _, empty..., inputs..., outside...) do {
 *       graph (i, condition, so_far..., inputs..., outside...) {
 *         result... = body(at(inputs, i)...)              inputs that are tensors: the same each time
 *         return condition, insert(so_far, result)...
 *       }
 *     }
 *
 * Captured are the node's inputs, then what the body takes from outside. */
#include "import/onnx/build.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

typedef struct map {
  const tercel_onnx_graph *proto;
  tercel_onnx_free_names names;
  size_t num_outputs;
  tercel_value **outer;                       /* inputs of the loop */
  tercel_value **so_far, **inputs, **results; /* in its body */
  tercel_value *iteration, *condition;
} map;

static tercel_value **allocate(tercel_onnx_call *c, size_t count) {
  tercel_value **const values = tercel_arena_alloc_array(&c->import->arena, count, sizeof *values);
  if (!values) keep(c, tercel_fail_memory(c->err, count * sizeof *values, "values"));
  return values;
}

/* The body says of which type its results are. */
static tercel_value *empty_sequence(tercel_onnx_call *c, const tercel_onnx_value_info *output) {
  tercel_type type = {0};
  if (tercel_onnx_ok(c)) keep(c, tercel_onnx_read_type(c->graph->dims, output->type, output->name, &type, c->err));
  if (type.dtype == TERCEL_DTYPE_NONE)
    tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "its body does not say the type of output '%s'", output->name);
  tercel_node *const n = tercel_onnx_begin_list(c, &tercel_op_sequence_construct, 1, NULL, 0);
  tercel_onnx_set_dtype(c, n, "dtype", type.dtype);
  return tercel_onnx_end(c, n);
}

static tercel_node *add_loop(tercel_onnx_call *c, map *m) {
  const size_t room = 2 + m->num_outputs + c->num_inputs + m->names.count;
  m->outer = allocate(c, room);
  if (!tercel_onnx_ok(c)) return NULL;
  size_t count = 0;
  m->outer[count++] = tercel_onnx_op(c, &tercel_op_sequence_length, tercel_onnx_in(c, 0));
  m->outer[count++] = NULL; /* no condition */
  for (size_t i = 0; i < m->num_outputs; i++) m->outer[count++] = empty_sequence(c, &m->proto->outputs.items[i]);
  const size_t first_capture = count;
  for (size_t i = 0; i < c->num_inputs; i++) m->outer[count++] = tercel_onnx_in(c, i);
  for (size_t i = 0; i < m->names.count; i++) {
    tercel_value *const value = tercel_map_get(&c->scope->values, m->names.names[i], NULL);
    if (!value)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "its body uses '%s', which nothing defines", m->names.names[i]);
    if (value == TERCEL_ONNX_POISON) c->poisoned = true;
    if (tercel_onnx_is_captured(value)) m->outer[count++] = value;
  }
  tercel_node *const loop =
      c->poisoned ? NULL : tercel_onnx_begin_list(c, &tercel_op_loop, m->num_outputs, m->outer, count);
  if (loop) loop->num_captures = (uint32_t)(count - first_capture);
  return loop;
}

static tercel_value *add_input(tercel_onnx_call *c, const tercel_type *type) {
  tercel_value *value = NULL;
  if (tercel_onnx_ok(c)) keep(c, tercel_graph_add_input(c->graph, c->name, type, &value, c->err));
  return value;
}

/* Inputs of the loop's body, and the elements of this iteration.  in: the call, making nodes there. */
static void enter(tercel_onnx_call *in, map *m) {
  m->so_far = allocate(in, m->num_outputs);
  m->results = allocate(in, m->num_outputs);
  m->inputs = allocate(in, in->num_inputs);
  m->iteration = add_input(in, &(tercel_type){.dtype = TERCEL_DTYPE_I64});
  m->condition = add_input(in, &(tercel_type){.dtype = TERCEL_DTYPE_BOOL});
  for (size_t i = 0; tercel_onnx_ok(in) && i < m->num_outputs; i++)
    m->so_far[i] = add_input(in, &m->outer[2 + i]->type);
  for (size_t i = 0; tercel_onnx_ok(in) && i < in->num_inputs; i++) m->inputs[i] = add_input(in, &in->inputs[i]->type);
  for (size_t i = 0; tercel_onnx_ok(in) && i < in->num_inputs; i++)
    if (m->inputs[i]->type.kind == TERCEL_TYPE_SEQUENCE)
      m->inputs[i] = tercel_onnx_op(in, &tercel_op_sequence_at, m->inputs[i], m->iteration);
}

static void fill(tercel_onnx_call *in, map *m) {
  enter(in, m);
  const tercel_onnx_body body = {.proto = m->proto, .inputs = m->inputs, .free_names = &m->names};
  if (tercel_onnx_ok(in))
    keep(in, tercel_onnx_build_body(in->import, in->scope, in->graph, &body, m->results, &in->poisoned, in->err));
  if (!tercel_onnx_ok(in) || in->poisoned) return;
  keep(in, tercel_graph_add_output(in->graph, m->condition, "condition", in->err));
  for (size_t i = 0; tercel_onnx_ok(in) && i < m->num_outputs; i++) {
    tercel_value *const longer = tercel_onnx_op(in, &tercel_op_sequence_insert, m->so_far[i], m->results[i]);
    if (tercel_onnx_ok(in))
      keep(in, tercel_graph_add_output(in->graph, longer, m->proto->outputs.items[i].name, in->err));
  }
}

/* Elements of a result are as the body makes them: what it knows of their shapes by numbers and symbols holds for all.  (Inference
 * of the loop sees that it starts with an empty sequence, of which nothing is known.) */
static void tell_elements(tercel_onnx_call *c, const map *m, tercel_node *loop) {
  for (size_t i = 0; i < m->num_outputs; i++) {
    const tercel_shape *const made = &m->results[i]->type.shape;
    tercel_shape *const shape = &tercel_node_output(loop, i)->type.shape;
    *shape = *made;
    for (int d = 0; d < made->rank; d++)
      if (tercel_dim_count_unknowns(c->graph->dims, made->dims[d]) > 0)
        shape->dims[d] = tercel_dim_unknown(c->graph->dims);
  }
}

static void build(tercel_onnx_call *c, map *m) {
  keep(c, tercel_onnx_add_free_names(&m->names, m->proto, c->err));
  tercel_node *const loop = tercel_onnx_ok(c) ? add_loop(c, m) : NULL;
  if (!loop) return;
  tercel_onnx_call inside = *c;
  keep(c, tercel_graph_add_subgraph(loop, 0, m->proto->name, &inside.graph, c->err));
  inside.status = c->status;
  if (tercel_onnx_ok(c)) fill(&inside, m);
  c->status = inside.status;
  c->poisoned = inside.poisoned;
  if (c->poisoned) return;
  tercel_onnx_return_all(c, loop);
  if (tercel_onnx_ok(c)) tell_elements(c, m, loop);
}

void tercel_onnx_build_sequence_map(tercel_onnx_call *c) {
  map m = {.proto = tercel_onnx_get_graph(c, "body"), .names.arena = &c->import->arena};
  if (!tercel_onnx_ok(c)) return;
  m.num_outputs = m.proto->outputs.count;
  if (m.proto->inputs.count != c->num_inputs || m.num_outputs < c->num_outputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "its body has %zu inputs and %zu outputs, the node %zu and %zu",
                     m.proto->inputs.count, m.num_outputs, c->num_inputs, c->num_outputs);
  else
    build(c, &m);
  tercel_onnx_free_names_deinit(&m.names);
}
