/* Pointwise operators that follow conv, conv_transpose, matmul, a product of integers or a norm become its epilogue: activation, residual and the
 * like are applied where the result is stored anyway.  Inputs besides the result become extras, and the fused node
 * stands where the pointwise one stood, so that everything it reads is there. */
#include "optimize/operands.h"
#include "optimize/rules.h"
#include "optimize/shapes.h"

/* Operators with an epilogue: the dtype of what they give without one, and the input where its extras begin. */
typedef struct heavy {
  int op;
  tercel_dtype dtype;
  uint32_t first_extra;
} heavy;

enum { MAX_FIRST_EXTRA = 4 };

static const heavy heavies[] = {
    {TERCEL_OP_CONV, TERCEL_DTYPE_F32, 3},         {TERCEL_OP_CONV_TRANSPOSE, TERCEL_DTYPE_F32, 3},
    {TERCEL_OP_MATMUL, TERCEL_DTYPE_F32, 3},       {TERCEL_OP_MATMUL_INTEGER, TERCEL_DTYPE_I32, 4},
    {TERCEL_OP_CONV_INTEGER, TERCEL_DTYPE_I32, 4}, {TERCEL_OP_LAYER_NORM, TERCEL_DTYPE_F32, 3},
    {TERCEL_OP_RMS_NORM, TERCEL_DTYPE_F32, 3},     {TERCEL_OP_GROUP_NORM, TERCEL_DTYPE_F32, 3}};

static const heavy *find_heavy(const tercel_node *node) {
  for (size_t i = 0; i < sizeof heavies / sizeof *heavies; i++)
    if (tercel_is(node, heavies[i].op)) return &heavies[i];
  return NULL;
}

/* Why input `value` of the pointwise node can't become its maker's own business; NULL when it can. */
static const char *obstacle(const tercel_value *value, const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  const bool fits = tercel_is_f32(value) || value->type.dtype == find_heavy(value->producer)->dtype;
  const tercel_value *const odd = !fits ? value : node->outputs[0];
  if (!fits || !tercel_is_f32(odd))
    return tercel_reason(buffer, "'%.100s' is %s, not f32", odd->name, tercel_dtype_name(odd->type.dtype));
  if (!tercel_is_read_only_by(value, node)) return tercel_describe_uses(value, node, buffer);
  for (uint32_t i = 1; i < value->producer->num_outputs; i++)
    if (value->producer->outputs[i])
      return tercel_reason(buffer, "'%.100s' also gives '%.100s'", value->producer->name,
                           value->producer->outputs[i]->name);
  if (!tercel_shape_equal(&value->type.shape, &node->outputs[0]->type.shape))
    return tercel_describe_broadcast(value, node->outputs[0], buffer);
  return NULL;
}

/* Every other input must broadcast to the result as it is. */
static const tercel_value *misfit(const tercel_operands *o, const tercel_shape *result) {
  for (int i = 0; i < o->program.num_inputs; i++)
    if (!tercel_broadcasts_to(&o->inputs[i]->type.shape, result)) return o->inputs[i];
  return NULL;
}

/* What the node's epilogue does by now: its result (NULL among the inputs) and extras. */
static tercel_status read_epilogue(tercel_arena *arena, const tercel_node *maker, tercel_operands *out, bool *has_one) {
  const tercel_program *const program = tercel_node_program(maker, "epilogue");
  *has_one = program;
  if (!program) return TERCEL_OK;
  *out = (tercel_operands){.arena = arena, .program = *program};
  for (int i = 1; i < program->num_inputs; i++)
    out->inputs[i] = maker->inputs[find_heavy(maker)->first_extra + (uint32_t)i - 1];
  return TERCEL_OK;
}

static tercel_status copy_attrs(const tercel_node *from, tercel_node *to, tercel_error *err) {
  for (uint32_t i = 0; i < from->num_attrs; i++) {
    const tercel_attr *const a = &from->attrs[i];
    if (a->kind == TERCEL_ATTR_INT) TERCEL_TRY(tercel_node_set_int(to, a->name, a->value.i, err));
    if (a->kind == TERCEL_ATTR_FLOAT) TERCEL_TRY(tercel_node_set_float(to, a->name, a->value.f, err));
    if (a->kind == TERCEL_ATTR_STRING) TERCEL_TRY(tercel_node_set_string(to, a->name, a->value.s, err));
    if (a->kind == TERCEL_ATTR_DTYPE) TERCEL_TRY(tercel_node_set_dtype(to, a->name, a->value.dtype, err));
    if (a->kind == TERCEL_ATTR_INTS) TERCEL_TRY(tercel_node_set_ints(to, a->name, a->value.ints, a->count, err));
  }
  return TERCEL_OK;
}

/* What makes an extra that is broadcast joins the program where that costs next to nothing: a scale that is a product of two, say. */
static tercel_status join_extras(tercel_node *node, const tercel_value *value, tercel_operands *o, tercel_error *err) {
  for (int i = 0; i < o->program.num_inputs; i++) {
    const tercel_value *const extra = o->inputs[i];
    tercel_operands first, whole = *o;
    tercel_error why = {0};
    if (extra == value || !tercel_is_read_only_by(extra, node) || !tercel_operands_may_repeat(extra, node->outputs[0]))
      continue;
    TERCEL_TRY(tercel_operands_read(o->arena, extra->producer, &first, err));
    const tercel_status status = tercel_operands_prepend(&whole, i, &first, &why);
    if (status == TERCEL_UNSUPPORTED) continue;
    if (status != TERCEL_OK) return tercel_fail(err, status, "%s", why.message);
    TERCEL_TRY(tercel_node_add_sources(node, extra->producer, err));
    *o = whole;
    tercel_operands_merge_equal(o);
    i = -1; /* the inputs are others now */
  }
  return TERCEL_OK;
}

/* o: the whole epilogue; its input 0 is the result. */
static tercel_status replace(tercel_pass_context *context, const char *name, tercel_node *node,
                             const tercel_node *maker, const tercel_operands *o, tercel_error *err) {
  tercel_value *inputs[MAX_FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS] = {0};
  tercel_node *made;
  const uint32_t first_extra = find_heavy(maker)->first_extra;
  const int num_extras = o->program.num_inputs - 1;
  for (uint32_t i = 0; i < first_extra; i++) inputs[i] = tercel_node_input(maker, i);
  for (int i = 0; i < num_extras; i++) inputs[first_extra + (uint32_t)i] = o->inputs[i + 1];
  size_t count = first_extra + (size_t)num_extras;
  while (count > 2 && !inputs[count - 1]) count--;
  TERCEL_TRY(tercel_rewrite_add((tercel_op_id)maker->op->id, maker, inputs, count, node, &made, err));
  TERCEL_TRY(copy_attrs(maker, made, err));
  TERCEL_TRY(tercel_node_set_program(made, "epilogue", &o->program, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  TERCEL_TRY(tercel_node_add_sources(made, node, err));
  made->mark = node->mark;
  TERCEL_TRY(tercel_made(context, name, made, NULL, err));
  TERCEL_TRY(tercel_rewrite_replace(node->outputs[0], made->outputs[0], err));
  tercel_graph_remove_node(node);
  return TERCEL_OK;
}

static tercel_status fuse(tercel_pass_context *context, const char *name, tercel_node *node, tercel_value *value,
                          tercel_arena *arena, tercel_error *err) {
  tercel_operands o, before;
  tercel_error why = {0};
  bool has_one;
  char buffer[TERCEL_REASON_MAX];
  const tercel_shape *const result = &node->outputs[0]->type.shape;
  TERCEL_TRY(tercel_operands_read(arena, node, &o, err));
  tercel_operands_merge_equal(&o);
  TERCEL_TRY(join_extras(node, value, &o, err));
  TERCEL_TRY(tercel_operands_absorb_scalars(&o, result, err));
  const tercel_value *const bad = misfit(&o, result);
  if (bad)
    return tercel_refused(context, name, node, err, "%s", tercel_describe_broadcast(bad, node->outputs[0], buffer));
  const tercel_dtype odd = tercel_operands_odd_dtype(&o);
  if (odd != TERCEL_DTYPE_NONE)
    return tercel_refused(context, name, node, err, "%s is not a type for fusing", tercel_dtype_name(odd));
  tercel_operands_to_front(&o, tercel_operands_find(&o, value));
  TERCEL_TRY(read_epilogue(arena, value->producer, &before, &has_one));
  const tercel_status status = has_one ? tercel_operands_prepend(&o, 0, &before, &why) : TERCEL_OK;
  if (status == TERCEL_UNSUPPORTED) return tercel_refused(context, name, node, err, "%s", why.message);
  if (status != TERCEL_OK) return tercel_fail(err, status, "%s", why.message);
  tercel_operands_merge_equal(&o);
  return replace(context, name, node, value->producer, &o, err);
}

/* Of several makers (a sum of two convolutions) the last one takes it: the others are done by then.  Marks number the
 * nodes. */
static tercel_status apply_epilogue(tercel_pass_context *context, const char *name, tercel_node *node,
                                    tercel_error *err) {
  tercel_value *best = NULL;
  const char *why = NULL;
  char buffer[TERCEL_REASON_MAX];
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    tercel_value *const value = node->inputs[i];
    if (!value->producer || !find_heavy(value->producer)) continue;
    const char *const blocked = obstacle(value, node, buffer);
    if (blocked)
      why = blocked;
    else if (!best || value->producer->mark > best->producer->mark)
      best = value;
  }
  if (!best) return why ? tercel_refused(context, name, node, err, "%s", why) : TERCEL_OK;
  tercel_arena arena = {0};
  const tercel_status status = fuse(context, name, node, best, &arena, err);
  tercel_arena_deinit(&arena);
  return status;
}

static tercel_status try_extras(tercel_pass_context *context, const char *name, tercel_node *node, tercel_arena *arena,
                                tercel_error *err) {
  tercel_operands o;
  bool has_one;
  TERCEL_TRY(read_epilogue(arena, node, &o, &has_one));
  if (!has_one) return TERCEL_OK;
  tercel_value *const result = node->outputs[0];
  o.inputs[0] = result;
  tercel_operands_merge_equal(&o);
  const int instrs_before = o.program.num_instrs;
  TERCEL_TRY(join_extras(node, result, &o, err));
  if (o.program.num_instrs == instrs_before) return TERCEL_OK;
  TERCEL_TRY(tercel_operands_absorb_scalars(&o, &result->type.shape, err));
  tercel_operands_to_front(&o, tercel_operands_find(&o, result));
  return replace(context, name, node, node, &o, err);
}

/* What makes an extra had another reader when the epilogue was made (a bias that was divided by the scale), and now has none. */
static tercel_status apply_extras(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  if (!find_heavy(node) || tercel_node_output(node, 1)) return TERCEL_OK;
  tercel_arena arena = {0};
  const tercel_status status = try_extras(context, name, node, &arena, err);
  tercel_arena_deinit(&arena);
  return status;
}

static const tercel_rule rules[] = {
    {"epilogue", TERCEL_OP_POINTWISE, apply_epilogue}, {"extras", TERCEL_ANY_OP, apply_extras}, {0}};

tercel_status tercel_pass_fuse_epilogue(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  uint32_t number = 0;
  for (tercel_node *node = graph->first; node; node = node->next) node->mark = ++number;
  return tercel_run_rules(graph, rules, context, err);
}
