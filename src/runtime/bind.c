/* Binding: concrete shapes are carried through a segment's steps by the operators' own inference.
 *
 * A step whose outputs inference can't shape gets a second try with the contents of its small inputs, as far as they have been
 * computed: these contents then belong to the binding's key.  If that doesn't help either, the segment ends before the step, so
 * that what it needs is computed first; a step that is the first of its segment runs alone and tells its shapes itself.
 * Steps whose inputs are all known by now, and small, are evaluated here and not run at all: computations on shapes. */
#include <string.h>

#include "runtime/binder.h"

enum {
  MAX_KNOWN_BYTES = 4096 /* inputs or outputs of a step that is evaluated while binding */
};

tercel_status tercel_binder_no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for binding a shape");
}

tercel_slot *tercel_binder_slot(tercel_binder *b, const tercel_value *value) {
  tercel_slot *const slot = &b->slots[value->id];
  if (slot->tensor == NULL && value->constant != NULL) {
    /* Never written through: a constant is nobody's output. */
    *slot = (tercel_slot){.place = TERCEL_PLACE_KNOWN, .ready = true};
    memcpy(&slot->tensor, &value->constant, sizeof slot->tensor);
  }
  return slot;
}

tercel_status tercel_binder_tensor(tercel_binder *b, const tercel_tensor *like, tercel_tensor **out,
                                   tercel_error *err) {
  *out = tercel_arena_copy(&b->binding->memory, like, sizeof *like);
  return *out != NULL ? TERCEL_OK : tercel_binder_no_memory(err);
}

/* ---- facts --------------------------------------------------------------------------------------------------------- */

/* The elements of a small tensor of integers or bools, for tercel_fact.contents. */
static tercel_status read_contents(tercel_binder *b, const tercel_tensor *tensor, tercel_fact *fact,
                                   tercel_error *err) {
  const bool countable = tercel_dtype_is_integer(tensor->dtype) || tensor->dtype == TERCEL_DTYPE_BOOL;
  if (!countable || tensor->rank > 1) return TERCEL_OK;
  const int64_t count = tercel_tensor_num_elements(tensor);
  if (count > TERCEL_MAX_CONTENTS) return TERCEL_OK;
  tercel_dim *const contents = tercel_arena_alloc_array(&b->scratch, (size_t)count, sizeof *contents);
  if (contents == NULL) return tercel_binder_no_memory(err);
  for (int64_t i = 0; i < count; ++i) contents[i] = tercel_dim_constant(&b->dims, tercel_tensor_get_i64(tensor, i));
  fact->contents = contents;
  fact->num_contents = count;
  return TERCEL_OK;
}

/* A list's element shape as far as the graph knows it in numbers. */
static tercel_fact list_fact(tercel_binder *b, const tercel_value *value) {
  tercel_fact fact = {.type = value->type};
  for (int d = 0; d < fact.type.shape.rank; ++d)
    if (!tercel_dim_is_known(fact.type.shape.dims[d])) fact.type.shape.dims[d] = tercel_dim_unknown(&b->dims);
  return fact;
}

static tercel_status get_fact(tercel_binder *b, const tercel_value *value, const tercel_fact **out, tercel_error *err) {
  tercel_fact *const fact = &b->facts[value->id];
  *out = fact;
  if (b->has_fact[value->id]) return TERCEL_OK;
  const tercel_slot *const slot = tercel_binder_slot(b, value);
  if (slot->tensor == NULL) {
    *fact = list_fact(b, value);
  } else {
    *fact = (tercel_fact){.type = {.dtype = slot->tensor->dtype, .shape = {.rank = slot->tensor->rank}}};
    for (int d = 0; d < slot->tensor->rank; ++d) fact->type.shape.dims[d] = slot->tensor->dims[d];
    if (slot->place == TERCEL_PLACE_KNOWN) {
      fact->tensor = slot->tensor;
      TERCEL_TRY(read_contents(b, slot->tensor, fact, err));
    }
  }
  b->has_fact[value->id] = true;
  return TERCEL_OK;
}

/* ---- inference ----------------------------------------------------------------------------------------------------- */

static bool is_shaped(const tercel_step_facts *facts) {
  const tercel_node *const node = facts->step->node;
  if (node->op->flags & TERCEL_OP_DATA_DEPENDENT) return false; /* it asks for its memory itself */
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL && node->outputs[i]->type.kind == TERCEL_TYPE_TENSOR &&
        !tercel_shape_is_known(&facts->out[i].type.shape))
      return false;
  return true;
}

/* Kernels were chosen for what the graph says of a value; that must hold. */
static tercel_status check_output(tercel_binder *b, const tercel_node *node, uint32_t i, const tercel_fact *fact,
                                  tercel_error *err) {
  const tercel_value *const value = node->outputs[i];
  const tercel_shape *const want = &value->type.shape, *const is = &fact->type.shape;
  bool fits = value->type.dtype == fact->type.dtype && value->type.kind == fact->type.kind;
  if (fits && want->rank >= 0 && is->rank >= 0) {
    fits = want->rank == is->rank;
    for (int d = 0; fits && d < want->rank; ++d)
      fits = !tercel_dim_is_known(want->dims[d]) || !tercel_dim_is_known(is->dims[d]) || want->dims[d] == is->dims[d];
  }
  if (fits) return TERCEL_OK;
  tercel_text text = {0};
  tercel_type_print(&b->dims, &fact->type, &text);
  tercel_text_add(&text, ", but the graph says ");
  tercel_type_print(node->graph->dims, &value->type, &text);
  const tercel_status status = tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': output '%s' becomes %s", node->op->name,
                                           node->name, value->name, text.data != NULL ? text.data : "?");
  tercel_text_deinit(&text);
  return status;
}

static tercel_status run_infer(tercel_binder *b, tercel_step_facts *facts, uint32_t *contents_used, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  memset(facts->out, 0, node->num_outputs * sizeof *facts->out);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    facts->out[i].type.shape.rank = -1;
    if (node->outputs[i] != NULL) facts->out[i].type.dtype = node->outputs[i]->type.dtype;
  }
  tercel_infer infer = {.node = node,
                        .num_inputs = node->num_inputs,
                        .num_outputs = node->num_outputs,
                        .in = facts->in,
                        .out = facts->out,
                        .dims = &b->dims,
                        .arena = &b->scratch};
  const tercel_status status = tercel_infer_call(&infer, err);
  if (status != TERCEL_OK) return tercel_fail_at_node(node, status, err);
  *contents_used = infer.contents_used;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL) TERCEL_TRY(check_output(b, node, i, &facts->out[i], err));
  return TERCEL_OK;
}

/* ---- contents on demand -------------------------------------------------------------------------------------------- */

static tercel_status add_key_contents(tercel_binder *b, const tercel_tensor *tensor, tercel_error *err) {
  for (size_t i = 0; i < b->num_contents; ++i)
    if (b->contents[i].tensor == tensor) return TERCEL_OK;
  if (b->num_contents == b->contents_capacity) {
    const size_t capacity = b->contents_capacity == 0 ? 8 : 2 * b->contents_capacity;
    tercel_key_contents *const grown = tercel_arena_alloc_array(&b->scratch, capacity, sizeof *grown);
    if (grown == NULL) return tercel_binder_no_memory(err);
    if (b->num_contents > 0) memcpy(grown, b->contents, b->num_contents * sizeof *grown);
    b->contents = grown;
    b->contents_capacity = capacity;
  }
  const void *const data = tercel_arena_copy(&b->binding->memory, tensor->data, tensor->bytes);
  if (data == NULL) return tercel_binder_no_memory(err);
  b->contents[b->num_contents++] = (tercel_key_contents){tensor, data, tensor->bytes};
  return TERCEL_OK;
}

/* The fact of an input with what lies in its memory: contents of integers, the tensor itself of floats (scales of a resize). */
static tercel_status read_input(tercel_binder *b, const tercel_value *value, const tercel_fact **fact, bool *read,
                                tercel_error *err) {
  *read = false;
  const tercel_slot *const slot = tercel_binder_slot(b, value);
  if (slot->tensor == NULL || !slot->ready || slot->place == TERCEL_PLACE_KNOWN) return TERCEL_OK;
  if (slot->tensor->rank > 1 || tercel_tensor_num_elements(slot->tensor) > TERCEL_MAX_CONTENTS) return TERCEL_OK;
  tercel_fact *const with = tercel_arena_copy(&b->scratch, *fact, sizeof **fact);
  if (with == NULL) return tercel_binder_no_memory(err);
  TERCEL_TRY(read_contents(b, slot->tensor, with, err));
  if (tercel_dtype_is_float(slot->tensor->dtype)) with->tensor = slot->tensor;
  *read = with->contents != NULL || with->tensor != NULL;
  if (*read) *fact = with;
  return TERCEL_OK;
}

/* A second try, with contents.  What was looked at belongs to the key: contents say so themselves, of tensors it is assumed. */
static tercel_status infer_with_contents(tercel_binder *b, tercel_step_facts *facts, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  uint32_t given = 0, used = 0;
  for (uint32_t i = 0; i < node->num_inputs && i < 32; ++i) {
    bool read = false;
    if (node->inputs[i] != NULL) TERCEL_TRY(read_input(b, node->inputs[i], &facts->in[i], &read, err));
    if (read) given |= 1u << i;
    if (read && facts->in[i]->tensor != NULL) used |= 1u << i;
  }
  if (given == 0) return TERCEL_OK;
  uint32_t contents_used = 0;
  TERCEL_TRY(run_infer(b, facts, &contents_used, err));
  if (!is_shaped(facts)) return TERCEL_OK;
  used |= contents_used & given;
  for (uint32_t i = 0; i < node->num_inputs && i < 32; ++i)
    if (used & (1u << i)) TERCEL_TRY(add_key_contents(b, b->slots[node->inputs[i]->id].tensor, err));
  return TERCEL_OK;
}

/* Outputs of control steps are as the graph says: their subgraphs are not inferred anew for each shape.  Only scalars that
 * follow from the operator itself are taken for granted. */
static void control_facts(tercel_binder *b, tercel_step_facts *facts) {
  const tercel_node *const node = facts->step->node;
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    facts->out[i] = list_fact(b, node->outputs[i]);
    const tercel_type *const type = &facts->out[i].type;
    const bool scalar = node->num_graphs == 0 && type->shape.rank == 0;
    if (type->kind == TERCEL_TYPE_TENSOR && !scalar) facts->out[i].type.shape.rank = -1;
  }
}

static tercel_status infer_step(tercel_binder *b, tercel_step_facts *facts, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    facts->in[i] = NULL;
    if (node->inputs[i] != NULL) TERCEL_TRY(get_fact(b, node->inputs[i], &facts->in[i], err));
  }
  if (node->op->flags & TERCEL_OP_CONTROL) {
    control_facts(b, facts);
    return tercel_dims_check(&b->dims, err);
  }
  uint32_t contents_used;
  TERCEL_TRY(run_infer(b, facts, &contents_used, err));
  return is_shaped(facts) ? TERCEL_OK : infer_with_contents(b, facts, err);
}

/* ---- values known without running ---------------------------------------------------------------------------------- */

static tercel_status set_known(tercel_binder *b, const tercel_value *value, const tercel_tensor *tensor,
                               tercel_error *err) {
  tercel_slot *const slot = &b->slots[value->id];
  *slot = (tercel_slot){.place = TERCEL_PLACE_KNOWN};
  b->has_fact[value->id] = false; /* made anew, with the tensor */
  return tercel_binder_tensor(b, tensor, &slot->tensor, err);
}

/* Contents that inference gave as numbers, as a tensor; data NULL when they are not. */
static tercel_status tensor_of_contents(tercel_binder *b, const tercel_fact *fact, tercel_tensor *out,
                                        tercel_error *err) {
  *out = (tercel_tensor){0};
  if (fact->contents == NULL || fact->type.dtype == TERCEL_DTYPE_NONE) return TERCEL_OK;
  tercel_tensor tensor = {0};
  if (!tercel_tensor_set_shape(&tensor, fact->type.dtype, fact->type.shape.rank, fact->type.shape.dims) ||
      tercel_tensor_num_elements(&tensor) != fact->num_contents)
    return TERCEL_OK;
  for (int64_t i = 0; i < fact->num_contents; ++i) {
    int64_t number;
    if (!tercel_dim_get_number(&b->dims, fact->contents[i], &number)) return TERCEL_OK;
  }
  tensor.data = tercel_arena_alloc(&b->binding->memory, tensor.bytes);
  if (tensor.data == NULL) return tercel_binder_no_memory(err);
  for (int64_t i = 0; i < fact->num_contents; ++i) {
    int64_t number = 0;
    tercel_dim_get_number(&b->dims, fact->contents[i], &number);
    tercel_tensor_set_i64(&tensor, i, number);
  }
  *out = tensor;
  return TERCEL_OK;
}

/* Every output by its contents? */
static tercel_status know_by_contents(tercel_binder *b, const tercel_step_facts *facts, bool *known,
                                      tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  tercel_tensor *const tensors = tercel_arena_alloc_array(&b->scratch, node->num_outputs, sizeof *tensors);
  if (tensors == NULL) return tercel_binder_no_memory(err);
  *known = true;
  for (uint32_t i = 0; *known && i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    TERCEL_TRY(tensor_of_contents(b, &facts->out[i], &tensors[i], err));
    *known = tensors[i].data != NULL;
  }
  for (uint32_t i = 0; *known && i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL) TERCEL_TRY(set_known(b, node->outputs[i], &tensors[i], err));
  return TERCEL_OK;
}

static tercel_status known_memory(void *user, size_t output, tercel_tensor *tensor, tercel_error *err) {
  (void)output;
  tercel_binder *const b = user;
  tensor->data = tercel_arena_alloc(&b->binding->memory, tensor->bytes);
  return tensor->data != NULL ? TERCEL_OK : tercel_binder_no_memory(err);
}

static bool is_small(const tercel_fact *fact) {
  tercel_tensor tensor = {0};
  return tercel_tensor_set_shape(&tensor, fact->type.dtype, fact->type.shape.rank, fact->type.shape.dims) &&
         tensor.bytes <= MAX_KNOWN_BYTES;
}

/* A constant that a kernel packed may have lost its data. */
static bool has_data(const tercel_tensor *tensor) { return tensor->data != NULL || tensor->bytes == 0; }

static bool can_evaluate(const tercel_step_facts *facts) {
  const tercel_node *const node = facts->step->node;
  if (node->op->eval == NULL ||
      node->op->flags & (TERCEL_OP_CONTROL | TERCEL_OP_IMPURE | TERCEL_OP_STATEFUL | TERCEL_OP_DATA_DEPENDENT))
    return false;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    if (facts->in[i] == NULL) continue;
    const tercel_tensor *const tensor = facts->in[i]->tensor;
    if (tensor == NULL || tensor->bytes > MAX_KNOWN_BYTES || !has_data(tensor)) return false;
  }
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL && !is_small(&facts->out[i])) return false;
  return true;
}

static tercel_status evaluate(tercel_binder *b, const tercel_step_facts *facts, tercel_error *err) {
  const tercel_node *const node = facts->step->node;
  const tercel_tensor **const in = tercel_arena_alloc_array(&b->scratch, node->num_inputs, sizeof *in);
  tercel_tensor **const out = tercel_arena_alloc_array(&b->scratch, node->num_outputs, sizeof *out);
  tercel_tensor *const tensors = tercel_arena_alloc_array(&b->scratch, node->num_outputs, sizeof *tensors);
  if (in == NULL || out == NULL || tensors == NULL) return tercel_binder_no_memory(err);
  for (uint32_t i = 0; i < node->num_inputs; ++i) in[i] = facts->in[i] != NULL ? facts->in[i]->tensor : NULL;
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    const tercel_type *const type = &facts->out[i].type;
    out[i] = &tensors[i];
    if (!tercel_tensor_set_shape(out[i], type->dtype, type->shape.rank, type->shape.dims))
      return tercel_binder_no_memory(err);
    TERCEL_TRY(known_memory(b, i, out[i], err));
  }
  tercel_eval eval = {.node = node,
                      .num_inputs = node->num_inputs,
                      .num_outputs = node->num_outputs,
                      .in = in,
                      .out = out,
                      .scratch = &b->scratch,
                      .allocate = known_memory,
                      .user = b};
  const tercel_status status = node->op->eval(&eval, err);
  if (status != TERCEL_OK) return tercel_fail_at_node(node, status, err);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (out[i] != NULL) TERCEL_TRY(set_known(b, node->outputs[i], out[i], err));
  return TERCEL_OK;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

static void keep_facts(tercel_binder *b, const tercel_step_facts *facts) {
  const tercel_node *const node = facts->step->node;
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    b->facts[node->outputs[i]->id] = facts->out[i];
    b->has_fact[node->outputs[i]->id] = true;
  }
}

static tercel_status bind_step(tercel_binder *b, const tercel_step_facts *facts, tercel_error *err) {
  bool known = false;
  keep_facts(b, facts);
  if (!(facts->step->node->op->flags & TERCEL_OP_CONTROL)) TERCEL_TRY(know_by_contents(b, facts, &known, err));
  if (known) return TERCEL_OK;
  return can_evaluate(facts) ? evaluate(b, facts, err) : tercel_binder_place(b, facts, err);
}

static tercel_status walk(tercel_binder *b, uint32_t begin, uint32_t *end, tercel_error *err) {
  uint32_t most_in = 0, most_out = 0;
  for (uint32_t s = begin; s < b->plan->num_steps; ++s) {
    const tercel_node *const node = b->plan->steps[s].node;
    if (node->num_inputs > most_in) most_in = node->num_inputs;
    if (node->num_outputs > most_out) most_out = node->num_outputs;
  }
  tercel_step_facts facts = {.in = tercel_arena_alloc_array(&b->scratch, most_in, sizeof *facts.in),
                             .out = tercel_arena_alloc_array(&b->scratch, most_out, sizeof *facts.out)};
  if (facts.in == NULL || facts.out == NULL) return tercel_binder_no_memory(err);
  for (*end = begin; *end < b->plan->num_steps; ++*end) {
    facts.step = &b->plan->steps[*end];
    facts.index = *end;
    TERCEL_TRY(infer_step(b, &facts, err));
    if (is_shaped(&facts)) {
      TERCEL_TRY(bind_step(b, &facts, err));
      continue;
    }
    if (*end > begin) return TERCEL_OK;
    b->binding->dynamic = true;
    ++*end;
    return tercel_binder_place_dynamic(b, &facts, err);
  }
  return TERCEL_OK;
}

/* ---- where a segment starts from ----------------------------------------------------------------------------------- */

static tercel_status add_key_shape(tercel_binding *binding, const tercel_tensor *tensor) {
  tercel_key_shape *const key = &binding->shapes[binding->num_shapes++];
  *key = (tercel_key_shape){.tensor = tensor, .rank = tensor->rank};
  for (int d = 0; d < tensor->rank; ++d) key->dims[d] = tensor->dims[d];
  return TERCEL_OK;
}

/* The first segment's shapes follow from the inputs; a later one's from the outputs of a dynamic step before it. */
static tercel_status make_shape_key(tercel_binder *b, tercel_error *err) {
  const tercel_graph *const graph = b->plan->graph;
  const tercel_kernel_run *const before = b->parent != NULL && b->parent->dynamic ? &b->parent->steps[0].run : NULL;
  const size_t most = b->parent == NULL ? graph->num_inputs : before != NULL ? before->num_outputs : 0;
  b->binding->shapes = tercel_arena_alloc_array(&b->binding->memory, most, sizeof *b->binding->shapes);
  if (b->binding->shapes == NULL) return tercel_binder_no_memory(err);
  for (size_t i = 0; i < most; ++i) {
    if (before != NULL && before->out[i] != NULL)
      add_key_shape(b->binding, before->out[i]);
    else if (before == NULL && graph->inputs[i]->type.kind == TERCEL_TYPE_TENSOR)
      add_key_shape(b->binding, &b->frame->inputs[i]);
  }
  if (b->parent != NULL) return TERCEL_OK;
  b->binding->outside = tercel_arena_alloc_array(&b->binding->memory, graph->num_outputs, sizeof(bool));
  if (b->binding->outside == NULL) return tercel_binder_no_memory(err);
  for (uint32_t k = 0; k < graph->num_outputs; ++k) b->binding->outside[k] = tercel_frame_is_outside(b->frame, k);
  return TERCEL_OK;
}

static tercel_status take_over(tercel_binder *b, tercel_error *err) {
  const tercel_graph *const graph = b->plan->graph;
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    if (graph->inputs[i]->type.kind != TERCEL_TYPE_TENSOR) continue;
    tercel_tensor *const tensor = &b->frame->inputs[i];
    b->slots[graph->inputs[i]->id] =
        (tercel_slot){.tensor = tensor, .place = TERCEL_PLACE_ELSEWHERE, .ready = tensor->data != NULL, .base = tensor};
  }
  if (b->parent == NULL) return TERCEL_OK;
  for (size_t i = 0; i < b->parent->num_live; ++i) {
    tercel_slot *const slot = &b->slots[b->parent->live_ids[i]];
    *slot = b->parent->live_slots[i];
    slot->ready = true;
  }
  b->num_pieces = b->parent->num_live_pieces;
  b->pieces_capacity = b->num_pieces + 16;
  b->pieces = tercel_arena_alloc_array(&b->scratch, b->pieces_capacity, sizeof *b->pieces);
  if (b->pieces == NULL) return tercel_binder_no_memory(err);
  if (b->num_pieces > 0) memcpy(b->pieces, b->parent->live_pieces, b->num_pieces * sizeof *b->pieces);
  return TERCEL_OK;
}

static tercel_status make_tables(tercel_binder *b, uint32_t begin, tercel_error *err) {
  const size_t values = (size_t)b->plan->graph->num_values + 1, steps = (size_t)(b->plan->num_steps - begin) + 1;
  b->slots = tercel_arena_alloc_array(&b->scratch, values, sizeof *b->slots);
  b->facts = tercel_arena_alloc_array(&b->scratch, values, sizeof *b->facts);
  b->has_fact = tercel_arena_alloc_array(&b->scratch, values, sizeof *b->has_fact);
  b->placed_ids = tercel_arena_alloc_array(&b->scratch, values, sizeof *b->placed_ids);
  b->drafts = tercel_arena_alloc_array(&b->scratch, steps, sizeof *b->drafts);
  if (!b->slots || !b->facts || !b->has_fact || !b->placed_ids || !b->drafts) return tercel_binder_no_memory(err);
  return TERCEL_OK;
}

tercel_status tercel_bind(tercel_frame *frame, tercel_binding *parent, uint32_t begin, tercel_binding **out,
                          tercel_error *err) {
  tercel_status status = TERCEL_OK;
  tercel_binder b = {.frame = frame, .plan = frame->plan, .parent = parent};
  tercel_dims_init(&b.dims, &b.scratch);
  b.binding = tercel_zalloc(sizeof *b.binding);
  if (b.binding == NULL) {
    status = tercel_binder_no_memory(err);
    goto done;
  }
  b.binding->parent = parent;
  b.binding->begin = begin;
  uint32_t end = begin;
  TERCEL_CHECK(make_tables(&b, begin, err));
  TERCEL_CHECK(take_over(&b, err));
  TERCEL_CHECK(make_shape_key(&b, err));
  TERCEL_CHECK(walk(&b, begin, &end, err));
  TERCEL_CHECK(tercel_binder_finish(&b, end, err));
  *out = b.binding;
done:
  if (status != TERCEL_OK) tercel_binding_destroy(b.binding);
  tercel_dims_deinit(&b.dims);
  tercel_arena_deinit(&b.scratch);
  return status;
}

void tercel_binding_destroy(tercel_binding *binding) {
  if (binding == NULL) return;
  for (tercel_binding *child = binding->children, *next; child != NULL; child = next) {
    next = child->next;
    tercel_binding_destroy(child);
  }
  for (const tercel_held *held = binding->held; held != NULL; held = held->next) tercel_packing_release(held->packing);
  tercel_arena_deinit(&binding->memory);
  tercel_free(binding);
}
